"""Two tenants on one server at the same time, and the secrets of server and neighbour: nobody sees another's."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth import require_scopes
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.dependencies import get_access_token
from fastmcp.utilities.tests import asgi_client

RUNS = 60
"""Of each tenant."""

TENANTS = ("north", "south")


def two_tenants(canaries: dict[str, str]) -> FastMCP:
    """A server whose tools answer each tenant with his own canary, and a tool for each tenant alone."""
    tokens = {name: {"client_id": name, "sub": name, "scopes": [name]} for name in TENANTS}
    server = FastMCP("shared", auth=StaticTokenVerifier(tokens=tokens))

    def own() -> str:
        token = get_access_token()
        assert token is not None
        return canaries[token.client_id]

    @server.tool
    def mine() -> dict[str, str]:
        """What belongs to the caller."""
        return {"canary": own()}

    @server.tool
    async def slow(turns: int) -> dict[str, str]:
        """What belongs to the caller, after others have had their turn."""
        for _ in range(turns):
            await asyncio.sleep(0)
        return {"canary": own()}

    @server.tool
    def failing() -> str:
        """Fail with what belongs to the caller."""
        raise RuntimeError(f"no access for {own()}")

    for name in TENANTS:
        server.tool(own, name=f"{name}_ledger", description=f"Ledger {canaries[name]}", auth=require_scopes(name))
    return server


SCRIPTS = (
    # Everything a script can leave behind, and everything where it may find what another left.
    """
    const c = codecallContext.canary;
    console.log('mine', c, codecallContext);
    const [a, b] = await Promise.all([callTool('mine'), callTool('slow', { turns: 3 })]);
    const kept = new Map([[c, a]]);
    class Keeper { static last = c; }
    return [c, a, b, [...kept], Keeper.last];
    """,
    """
    console.warn(codecallContext.canary);
    const failed = await callTool('failing', {}, { throwOnError: false });
    throw new TypeError(`${codecallContext.canary}: ${failed.error.message}`);
    """,
    "console.log(codecallContext.canary); return await callTool('failing');",
    "callTool('slow', { turns: 9 }); return codecallContext.canary;",
    "return [getTool(codecallContext.other + '_ledger') ?? null, getTool(codecallContext.own + '_ledger').description]",
    "return await callTool(codecallContext.other + '_ledger', {}, { throwOnError: false })",
    "const o = codecallContext; o.leak = o.canary; return 1",
    "return [codecallContext.canary, Object.keys(codecallContext), ({}).leak ?? null, [].leak ?? null]",
    "const deep = () => deep(); console.log(codecallContext.canary); deep()",
    "for (let i = 0; i < 1e9; i++) {} return codecallContext.canary",
    "return codecallContext.canary +",
    "return await callTool('mine_' + codecallContext.canary)",
)


async def test_two_tenants_at_the_same_time(install: Any, caplog: pytest.LogCaptureFixture) -> None:
    """120 runs on two workers, interleaved: every answer holds its caller's canary or none, no log record holds any."""
    caplog.set_level(logging.DEBUG, "codecall")
    canaries = {name: secrets.token_hex(12) for name in TENANTS}
    server = install(two_tenants(canaries), pool={"min_workers": 0, "max_workers": 2})
    own_seen = dict.fromkeys(TENANTS, 0)
    statuses: set[str] = set()

    async def tenant(client: Client[Any], name: str, other: str, place: int) -> None:
        for run in range(place, RUNS, 2):
            script = SCRIPTS[run % len(SCRIPTS)]
            context = {"canary": canaries[name], "own": name, "other": other}
            result = await client.call_tool_mcp("codecall:execute", {"script": script, "context": context})
            said = json.dumps([result.structured_content, [block.model_dump() for block in result.content]])
            assert canaries[other] not in said, (name, script)
            own_seen[name] += canaries[name] in said
            assert result.structured_content is not None
            statuses.add(result.structured_content["status"])
            if run % 10 == 0:
                for verb, arguments in (
                    ("search", {"query": "ledger", "topK": 50, "minScore": 0, "detail": "full"}),
                    ("describe", {"toolNames": [f"{other}_ledger", f"{name}_ledger", f"{other}_ledgr"]}),
                    ("invoke", {"tool": f"{other}_ledger", "input": {}}),
                ):
                    answer = await client.call_tool_mcp(f"codecall:{verb}", arguments)
                    assert canaries[other] not in json.dumps(answer.structured_content), verb

    async with (
        asgi_client(server, auth="north") as north,
        asgi_client(server, auth="south") as south,
        asyncio.TaskGroup() as group,
    ):
        for place in (0, 1):
            group.create_task(tenant(north, "north", "south", place))
            group.create_task(tenant(south, "south", "north", place))
    assert statuses >= {"ok", "runtime_error", "tool_error", "syntax_error"}
    assert min(own_seen.values()) > RUNS / 2
    # Records of runs say the names that a script called, whatever it made them of.
    logged = [record for record in caplog.records if record.name.startswith("codecall")]
    ours = "\n".join(record.getMessage() for record in logged if record.name != "codecall.audit")
    assert not [name for name, canary in canaries.items() if canary in ours]


async def test_hidden_tools_change_no_score(install: Any) -> None:
    """What another tenant may see weighs nothing in a search: no score, no order, no count differs."""
    answers: list[Any] = []
    for extra in (False, True):
        tokens = {"north": {"client_id": "north", "scopes": ["north"]}, "south": {"client_id": "south", "scopes": []}}
        server = FastMCP("scores", auth=StaticTokenVerifier(tokens=tokens))
        for verb in ("list", "get", "update", "archive"):
            server.tool(lambda: 1, name=f"orders_{verb}", description=f"{verb} orders of a customer")
        for number in range(20 if extra else 0):
            description = f"orders of a customer, treasury {number}"
            server.tool(lambda: 1, name=f"treasury_{number}", description=description, auth=require_scopes("north"))
        install(server)
        if extra:  # the index has seen all of them before
            async with asgi_client(server, auth="north") as north:
                found = await north.call_tool("codecall:search", {"query": "treasury", "topK": 50})
                assert found.structured_content["totalIndexed"] == 24
        async with asgi_client(server, auth="south") as south:
            said = [
                (
                    await south.call_tool("codecall:search", {"query": query, "topK": 50, "minScore": 0})
                ).structured_content
                for query in ("orders of a customer", "treasury", "list orders", "")
            ]
        answers.append(said)
    assert answers[0] == answers[1]


NAMES = (
    *(
        "process",
        "process.env.CODECALL_PLANTED",
        "globalThis",
        "global",
        "window",
        "self",
        "require",
        "module",
        "exports",
    ),
    *(
        "Deno",
        "Bun",
        "std",
        "os",
        "fs",
        "import.meta",
        "__filename",
        "__dirname",
        "scriptArgs",
        "environ",
        "getenv",
        "env",
    ),
    *("$post", "$ask", "$log", "$stop", "$finish", "$fail", "$checkpoint", "$exhausted", "config", "world", "operate"),
    *("arguments", "this", "document.cookie", "localStorage", "performance.memory", "new Error('x').stack.env"),
)
CODE = (
    "({}).constructor.constructor('return process')().env",
    "const k = ['con', 'structor'].join(''); return (() => 1)[k]('return globalThis')()",
    "const k = ['con', 'structor'].join(''); return ''[k][k]('return process.env')()",
    "const k = ['__pro', 'to__'].join(''); return Object.keys(({})[k] ?? {})",
    "const e = new Error('x'); return [e.stack, e.fileName, e.lineNumber, `${e.cause}`]",
    "return (await import('fs')).readFileSync(codecallContext.path)",
    "return require('fs').readFileSync(codecallContext.path, 'utf8')",
    "return await fetch('file://' + codecallContext.path)",
    "return await callTool(codecallContext.path)",
    "return await callTool('file://' + codecallContext.path)",
    "return [getTool(codecallContext.path) ?? null, getTool('../../..' + codecallContext.path) ?? null]",
    "return await callTool('codecall:execute', { script: 'process.env' })",
    "try { await callTool('reads', { path: '/not/there' }) } catch (e) { return [e.message, e.stack, e.details ?? 0] }",
    "const f = function () { return this }; return [typeof f(), typeof f.call(null)]",
    "return Object.getOwnPropertyNames(callTool).concat(Object.keys(console))",
    "return `${callTool}${getTool}${__safe_parallel}`",
    "return JSON.stringify([callTool, getTool, codecallContext])",
)


async def test_the_servers_own_secrets(
    install: Any, asked: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """End to end: a secret in the environment and one in a file, asked for by every name and path."""
    planted = {"environment": secrets.token_hex(16), "file": secrets.token_hex(16)}
    monkeypatch.setenv("CODECALL_PLANTED_SECRET", planted["environment"])
    file = tmp_path / "secret.txt"
    file.write_text(planted["file"], encoding="utf-8")
    server = FastMCP("keeper")

    @server.tool
    def reads(path: str) -> str:
        """Fail to open a file, as tools do."""
        with Path(path).open(encoding="utf-8"):
            raise RuntimeError(f"cannot read {path}: {os.environ['CODECALL_PLANTED_SECRET']}")

    machine = {socket.gethostname(), os.environ.get("HOME", "/root") + "/", str(Path.cwd()), "site-packages"}
    machine = {word for word in machine if word not in str(file)}  # what a script says itself is no secret
    async with Client(install(server)) as client:
        here = asked(client)
        scripts = [*(f"return {name}" for name in NAMES), *(f"return typeof {name}" for name in NAMES[:36]), *CODE]
        for script in scripts:
            envelope = await here.run(script, context={"path": str(file)})
            said = json.dumps(envelope, ensure_ascii=False)
            assert not [place for place, secret in planted.items() if secret in said], script
            error = json.dumps(envelope.get("error", {}), ensure_ascii=False)
            assert not [word for word in machine if len(word) > 3 and word in error], (script, error)
        for path in (str(file), "/proc/self/environ", f"/proc/{os.getpid()}/environ", "/etc/passwd", "/does/not/exist"):
            envelope = await here.run("return await callTool('reads', codecallContext)", context={"path": path})
            said = json.dumps(envelope)
            assert not [place for place, secret in planted.items() if secret in said], path
            # The input of the call is the caller's own.
            assert path not in json.dumps({**envelope, "calls": None}), said
