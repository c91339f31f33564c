"""What stands between a call and its tool in FastMCP, which has no public way to tell; and what a tool that is called
sees of the client's request.

Private names of FastMCP 4.1 that this file reads, and no other of this folder:

- `_extensions` of a server: what may intercept calls;
- `_dispatch_component_middleware`, `_run_middleware`, `_compose_tool_call_interceptors` of a server: only to notice one
  that overrides them;
- `_rebind_prefab_tool_names` of a server: what it does to a result that has passed its middleware;
- `_dispatching_tool_call`: notes that this call is not the one that the client has asked for;
- `_srctx` of a request's context: where a tool finds the answers to its questions;
- `_extension_tool_call_scope`: says to mounted servers which extensions have seen the call already.

Where one is gone, calls pass through the middleware, and no error is certain before a call.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, cast

import mcp_types
from fastmcp import FastMCP
from fastmcp.server import dependencies, extensions
from fastmcp.server.dependencies import fastmcp_request_ctx
from fastmcp.server.extensions import ServerExtension
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.calls.clock import OUTER_CLOCKS, CallClock, timed_session
from codecall.catalog.cache.fastmcp_internals import sees_requests

_DISPATCH: Final = frozenset(
    {"call_tool", "_dispatch_component_middleware", "_run_middleware", "_compose_tool_call_interceptors"}
)
"""The methods with which a server passes a call on."""

_PROXY: Final = "fastmcp.server.providers.proxy.FastMCPProxy"
"""FastMCP's own kind of server that passes calls on; by name, as it takes a while to load and few use it."""

_REBIND: Final = "_rebind_prefab_tool_names"

_dispatching = cast(
    "Callable[[], AbstractContextManager[None]] | None", getattr(dependencies, "_dispatching_tool_call", None)
)
_extension_scope = cast(
    "Callable[[FastMCP[Any]], AbstractContextManager[None]] | None",
    getattr(extensions, "_extension_tool_call_scope", None),
)


async def call_tool(
    server: FastMCP[Any],
    name: str,
    arguments: dict[str, object],
    version: VersionSpec | None,
    answers: tuple[mcp_types.InputResponses, str | None] | None = None,
) -> ToolResult:
    """Call a tool as `server.call_tool` does, past its middleware where none of it sees calls: the walk takes a third
    of the time of a call that answers at once.

    `answers`: those to the questions with which the tool has answered before, and the state that it gave. The task that
    this runs in must be its own.
    """
    if answers is not None:
        _bring_answers(*answers)
    rebind = cast("Callable[[ToolResult], Awaitable[ToolResult]] | None", getattr(server, _REBIND, None))
    if rebind is None or _dispatching is None or _extension_scope is None or observes_calls(server):
        return await server.call_tool(name, arguments, version=version)
    with _dispatching(), _extension_scope(server):
        result = await server.call_tool(name, arguments, version=version, run_middleware=False)
    return result if result.structured_content is None else await rebind(result)


def observes_calls(server: FastMCP[Any]) -> bool:
    """Whether anything of `server` sees the calls of its tools."""
    return (
        dispatches_otherwise(server)
        or intercepts_calls(server)
        or any(sees_requests(item, "on_call_tool") for item in server.middleware)
    )


def dispatches_otherwise(server: FastMCP[Any]) -> bool:
    """Whether `server` is of another kind than those known, or has methods of its own for passing calls on: on the
    object, or put into its class since this module was imported."""
    kind = type(server)
    known = kind is FastMCP or f"{kind.__module__}.{kind.__qualname__}" == _PROXY
    return not known or not vars(server).keys().isdisjoint(_DISPATCH) or _dispatch_of(kind) != _DISPATCH_OF_FASTMCP


def _dispatch_of(kind: type) -> list[object]:
    return [getattr(kind, name, None) for name in _DISPATCH]


_DISPATCH_OF_FASTMCP: Final = _dispatch_of(FastMCP)


def intercepts_calls(server: FastMCP[Any]) -> bool:
    """Whether an extension of `server` may intercept the calls of its tools."""
    return any(_intercepts_calls(item) for item in _extensions(server))


def _extensions(server: FastMCP[Any]) -> list[object]:
    found: object = getattr(server, "_extensions", None)
    return list(cast("Mapping[str, object]", found).values()) if isinstance(found, dict) else [found]


def _intercepts_calls(item: object) -> bool:
    return not (
        isinstance(item, ServerExtension)
        and type(item).intercept_tool_call is _PASS_ON
        and "intercept_tool_call" not in vars(item)
    )


_PASS_ON: Final = ServerExtension.intercept_tool_call


def _bring_answers(responses: mcp_types.InputResponses, state: str | None) -> None:
    """Let the tools that this task calls see these answers, in place of those of the client's request."""
    request = fastmcp_request_ctx.get()
    if request is None:
        return
    brought = mcp_types.InputResponseRequestParams(input_responses=responses, request_state=state)
    params = brought.model_dump(by_alias=True, mode="json", exclude_none=True)
    context = replace(request._srctx, params=params)  # pyright: ignore[reportPrivateUsage]
    fastmcp_request_ctx.set(replace(request, _srctx=context))


CONNECTION_KEYS: Final = frozenset(
    {
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
        mcp_types.LOG_LEVEL_META_KEY,
    }
)
"""Keys of `_meta` that are part of the protocol and the same in all requests of a connection."""


def context_of_call(clock: CallClock) -> contextvars.Context:
    """A copy of the current context in which the client's request has none of the `_meta` that the client wrote, and in
    which `clock` stands still while the client is asked.

    A client writes into it what is for the tool that it calls, CodeCall's: a progress token, credentials, notes of its
    own; a proxy would pass all of that on. What the connection itself says stays, since FastMCP reads it there; of that
    the gateway passes on the level of logs alone.
    """
    copy = contextvars.copy_context()
    clocks = (*OUTER_CLOCKS.get(), clock)
    copy.run(OUTER_CLOCKS.set, clocks)
    request = fastmcp_request_ctx.get()
    if request is None:
        return copy
    changed = request
    if request.meta and not request.meta.keys() <= CONNECTION_KEYS:
        meta = {key: value for key, value in request.meta.items() if key in CONNECTION_KEYS}
        changed = replace(changed, meta=meta or None)
    if request.protocol_version not in MODERN_PROTOCOL_VERSIONS:  # later ones have no way to ask meanwhile
        changed = replace(changed, session=timed_session(request.session, clocks))
    if changed is not request:
        copy.run(fastmcp_request_ctx.set, changed)
    return copy
