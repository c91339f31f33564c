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


class NoAnswer(Exception):
    """The server answered with something that is not MCP, or with an error of the protocol."""


class Session:
    """A client of a server on this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: str) -> None:
        self._reader = reader
        self._writer = writer
        self._headers = headers
        self._requests = 0

    @classmethod
    async def open(cls, port: int, token: str | None = None) -> Session:
        """Connect and shake hands.

        Raises:
            NoAnswer: the server does not take it.
            OSError: there is no server.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LONGEST)
        headers = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\n"
        )
        session = cls(reader, writer, headers + (f"Authorization: Bearer {token}\r\n" if token else ""))
        about = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
        head, _ = await session._ask("initialize", about)
        if (name := _header(head, "mcp-session-id")) is not None:
            session._headers += f"Mcp-Session-Id: {name}\r\n"
        await session._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return session

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool answers: its result as MCP has it, which may say `isError`.

        Raises:
            NoAnswer: an error of HTTP or of the protocol.
            OSError: the connection is gone.
            EOFError: the same, in the middle of an answer.
        """
        _, result = await self._ask("tools/call", {"name": tool, "arguments": arguments})
        return result

    def close(self) -> None:
        """Drop the connection."""
        self._writer.close()

    async def _ask(self, method: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._requests += 1
        number = self._requests
        asked = {**params, "_meta": {"progressToken": number}}
        head, body = await self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": asked})
        for message in _messages(head, body):
            if message.get("id") == number:
                if "result" in message:
                    return head, message["result"]
                raise NoAnswer(f"error of the protocol: {message.get('error')}")
        raise NoAnswer(f"no answer in {body[:200]!r}")

    async def _post(self, message: dict[str, Any]) -> tuple[str, bytes]:
        body = msgspec.json.encode(message)
        self._writer.write(f"{self._headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if _header(head, "transfer-encoding") == "chunked":
            answer = await self._chunks()
        else:
            answer = await self._reader.readexactly(int(_header(head, "content-length") or 0))
        if head[9:12] not in ("200", "202"):
            raise NoAnswer(f"HTTP {head[9:12]}: {answer[:200]!r}")
        return head, answer

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(await self._reader.readline(), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readline()
        return b"".join(parts)


def _header(head: str, name: str) -> str | None:
    at = head.lower().find(f"\r\n{name}: ")
    return head[at + len(name) + 4 :].partition("\r\n")[0] if at >= 0 else None


def _messages(head: str, body: bytes) -> list[dict[str, Any]]:
    if (_header(head, "content-type") or "").startswith("text/event-stream"):
        events = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
        return [msgspec.json.decode(event) for event in events if event.strip()]
    return [msgspec.json.decode(body)] if body else []
