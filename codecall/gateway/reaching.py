"""From the options of a server to a transport that reaches it: a program's pipes, HTTP, or a REST API in memory.

What references (`${TOKEN}`) stand for goes from here into the environment of the program, its arguments, or the headers
of the requests, and nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from mcp import ClientSession

from codecall.gateway.options import AnyServer, OpenApiServer, StdioServer
from codecall.gateway.pipes import ProgramTransport
from codecall.gateway.processes import Program
from codecall.gateway.secrets import credentials_of
from codecall.gateway.web import WebTransport

if TYPE_CHECKING:
    from codecall.gateway.openapi import ApiTransport

Resolve: TypeAlias = Callable[..., AnyServer]
"""Gives options with their references replaced: `references.resolved`. In a thread: `resolve(options, name=…)`."""

Transport: TypeAlias = "ProgramTransport | WebTransport | ApiTransport"


def transport_to(
    name: str, options: AnyServer, session: Callable[..., ClientSession], logger: logging.Logger
) -> Transport:
    """A transport to the server, not connected yet.

    Args:
        name: of the server.
        options: with their references replaced.
        session: makes a session of two streams.
        logger: of the server.
    """
    if isinstance(options, StdioServer):
        program, hidden = options, credentials_of(options)

        def start() -> Awaitable[Program]:
            return Program.start(program.command, program.args, program.env, program.cwd, logger, hidden=hidden)

        return ProgramTransport(start, session, logger)
    if isinstance(options, OpenApiServer):
        from codecall.gateway.openapi import ApiTransport

        return ApiTransport(name, options, session)
    return WebTransport(options.url, options.transport, dict(options.headers), options.auth, session)
