"""A load balancer: each connection goes to the next instance that takes it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream, SocketAttribute


@asynccontextmanager
async def balanced(ports: Sequence[int]) -> AsyncGenerator[int]:
    """The port of one before those ports of this machine."""
    turn = itertools.count()

    async def connected() -> ByteStream:
        for _ in ports:
            try:
                return await anyio.connect_tcp("127.0.0.1", ports[next(turn) % len(ports)])
            except OSError:
                continue
        raise AssertionError("no instance is left")

    async def copy(source: ByteStream, target: ByteStream) -> None:
        try:
            async for data in source:
                await target.send(data)
            await target.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await target.aclose()

    async def serve(client: ByteStream) -> None:
        async with client, await connected() as instance, anyio.create_task_group() as both:
            both.start_soon(copy, client, instance)
            both.start_soon(copy, instance, client)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()
