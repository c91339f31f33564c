"""A lean MCP client over streamable HTTP: one connection, one session, one request at a time.

FastMCP's client takes more of the processor for a call than the server does; a few hundred of these leave it to the
server that is measured. It speaks 2025-11-25 as they do: the handshake, then a POST for each call, the session in a
header, a token for progress with each request. Answers are taken as JSON or as a stream of events.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

PROTOCOL = "2025-11-25"
LONGEST = 64 * 1024 * 1024
"""Bytes of a part of an answer."""


class NoAnswerError(Exception):
    """The server answered with something that is not MCP, or with an error of the protocol."""


class Session:
    """A client of a server on this machine.

    Args:
        port: The server's.
        token: Access token.
    """

    def __init__(self, port: int, token: str | None = None) -> None:
        self._port = port
        self._headers = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\n"
        )
        if token is not None:
            self._headers += f"Authorization: Bearer {token}\r\n"
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._requests = 0

    async def open(self) -> None:
        """Connect and shake hands.

        Raises:
            NoAnswerError: the server does not take it.
            OSError: there is no server.
        """
        about = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
        head, _ = await self._ask("initialize", about)
        if (name := _header(head, "mcp-session-id")) is not None:
            self._headers += f"Mcp-Session-Id: {name}\r\n"
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool answers: its result as MCP has it, which may say `isError`.

        Raises:
            NoAnswerError: an error of HTTP or of the protocol.
            OSError: the connection is gone.
            EOFError: the same, in the middle of an answer.
        """
        _, result = await self._ask("tools/call", {"name": tool, "arguments": arguments})
        return result

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    async def _ask(self, method: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._requests += 1
        number = self._requests
        asked = {**params, "_meta": {"progressToken": number}}
        head, body = await self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": asked})
        for message in _messages(head, body):
            if message.get("id") == number:
                if "result" in message:
                    return head, message["result"]
                raise NoAnswerError(f"error of the protocol: {message.get('error')}")
        raise NoAnswerError(f"no answer in {body[:200]!r}")

    async def _post(self, message: dict[str, Any]) -> tuple[str, bytes]:
        reader, writer = await self._connected()
        body = msgspec.json.encode(message)
        try:
            writer.write(f"{self._headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            if _header(head, "transfer-encoding") == "chunked":
                answer = await _chunks(reader)
            else:
                answer = await reader.readexactly(int(_header(head, "content-length") or 0))
        except BaseException:
            self.close()  # whatever comes on it belongs to this request
            raise
        if head[9:12] not in ("200", "202"):
            raise NoAnswerError(f"HTTP {head[9:12]}: {answer[:200]!r}")
        return head, answer

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection: a new one where the server has closed the last, as it does with those that rest."""
        if self._connection is None or self._connection[0].at_eof():
            self.close()
            self._connection = await asyncio.open_connection("127.0.0.1", self._port, limit=LONGEST)
        return self._connection


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    return b"".join(parts)


def _header(head: str, name: str) -> str | None:
    at = head.lower().find(f"\r\n{name}: ")
    return head[at + len(name) + 4 :].partition("\r\n")[0] if at >= 0 else None


def _messages(head: str, body: bytes) -> list[dict[str, Any]]:
    if (_header(head, "content-type") or "").startswith("text/event-stream"):
        events = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
        return [msgspec.json.decode(event) for event in events if event.strip()]
    return [msgspec.json.decode(body)] if body else []
