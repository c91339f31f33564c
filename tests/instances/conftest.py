"""Two instances of a server, each a process with HTTP and a worker for tasks, and one Redis."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair

from tests.loaded_python import LoadedPython
from tests.redis_server import RedisServer

ISSUER, AUDIENCE = "https://login.example.com", "orders"


class Instance:
    """One process of `tests/instances/server.py`. Its socket listens at once.

    Args:
        python: runs it.
        environment: of the process.
        log: where it says what it has to say.
    """

    def __init__(self, python: str, environment: dict[str, str], log: Path) -> None:
        self._log = log
        with socket.create_server(("127.0.0.1", 0)) as listening, log.open("wb") as output:
            self.port: int = listening.getsockname()[1]
            command = [python, "-m", "uvicorn", "tests.instances.server:app", "--fd", str(listening.fileno())]
            self._process = subprocess.Popen(
                command, env=environment, pass_fds=[listening.fileno()], stdout=output, stderr=output
            )

    def wait(self) -> None:
        """Until it answers: clients take a server that is silent for long for one of the older protocol."""
        assert httpx2.get(f"http://127.0.0.1:{self.port}/health", timeout=120).status_code == 200

    @property
    def pid(self) -> int:
        """Its process, as uvicorn tells it."""
        match = re.search(r"Started server process \[(\d+)\]", self._log.read_text(encoding="utf-8"))
        assert match is not None
        return int(match[1])

    def kill(self) -> None:
        """End it as a loss of power does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it as an update does."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        finally:
            self.kill()


def _unshared(options: dict[str, Any]) -> httpx2.AsyncClient:
    options.setdefault("timeout", 60)
    return httpx2.AsyncClient(**options, limits=httpx2.Limits(max_keepalive_connections=0))


class Instances(NamedTuple):
    """What runs."""

    redis: RedisServer
    both: tuple[Instance, Instance]
    keys: RSAKeyPair
    audits: tuple[Path, Path]
    """The records of their runs."""

    @property
    def ports(self) -> list[int]:
        """Where they are."""
        return [instance.port for instance in self.both]

    def client(self, port: int, subject: str = "ann", *scopes: str, tasks: bool = False) -> Client[Any]:
        """Somebody at that port, who opens a connection for every request; without `tasks` by the older protocol, which
        has none."""
        token = self.keys.create_token(subject=subject, issuer=ISSUER, audience=AUDIENCE, scopes=list(scopes))
        transport = StreamableHttpTransport(
            f"http://127.0.0.1:{port}/mcp", auth=token, httpx_client_factory=lambda **options: _unshared(options)
        )
        return Client(transport, mode="auto" if tasks else "legacy")


@pytest.fixture(scope="module")
def instances(loaded_python: LoadedPython) -> Generator[Instances]:
    """Two, for all tests of the module."""
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        redis, keys = RedisServer(Path(folder)), RSAKeyPair.generate()
        redis.start()
        key = Path(folder) / "public.pem"
        key.write_text(keys.public_key)
        environment = {
            **os.environ,
            "REDIS_URL": redis.url,
            "ISSUER": ISSUER,
            "AUDIENCE": AUDIENCE,
            "PUBLIC_KEY_FILE": str(key),
        }
        logs, audits = ([Path(folder) / f"{name}.{kind}" for name in ("one", "two")] for kind in ("log", "jsonl"))
        one, two = (
            Instance(loaded_python.executable, {**environment, "AUDIT_FILE": str(audit)}, log)
            for log, audit in zip(logs, audits, strict=True)
        )
        try:
            one.wait()
            two.wait()
            yield Instances(redis, (one, two), keys, (audits[0], audits[1]))
        finally:
            one.stop()
            two.stop()
            redis.stop()
            print(*(log.read_text() for log in logs), sep="\n--- \n")
