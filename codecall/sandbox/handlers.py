"""Tool calls of an enclave without a server: answered by a Python callable."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import anyio.to_thread
import msgspec

from codecall.errors import AccessDeniedError, CodeCallError, SelfReferenceError, ToolCallError, ToolNotFoundError
from codecall.options import SanitizationOptions
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.sanitizing import Turns

ToolHandler = Callable[[str, dict[str, Any]], Any]
"""Performs a script's tool calls: `(name, input) -> value`, sync or async. A sync one runs in a thread."""


class HandlerBroker:
    """Tool calls answered by a Python callable.

    Args:
        handler: Performs the calls. Without it there are no tools.
        tools: What `getTool` sees, and then all that may be called.
        allowed: Names or globs that may be called; None allows all.
        sanitization: What error messages lose.
    """

    def __init__(
        self,
        handler: ToolHandler | None,
        tools: Sequence[Mapping[str, Any]] | None,
        allowed: Sequence[str] | None,
        sanitization: SanitizationOptions,
    ) -> None:
        self._handler = handler
        self._tools = None if tools is None else {str(tool["name"]): tool for tool in tools}
        self._allowed = None if allowed is None else tuple(allowed)
        self._sanitization = sanitization
        self._turns = Turns()

    async def prepare(self) -> None:
        """Nothing to read ahead."""

    async def call(self, name: str, arguments: dict[str, object]) -> str:
        """The handler's value as JSON text. See `ToolBroker.call`."""
        if is_meta_tool(name):
            raise SelfReferenceError(name.strip())
        if self._handler is None or (self._tools is not None and name not in self._tools):
            raise ToolNotFoundError(f"Tool '{name}' was not found", tool_name=name)
        if not self._may_call(name):
            raise AccessDeniedError(f"Tool '{name}' is not among the allowed tools", tool_name=name)
        try:
            if inspect.iscoroutinefunction(self._handler):
                value: object = await self._handler(name, arguments)
            else:
                value = await anyio.to_thread.run_sync(self._handler, name, arguments, abandon_on_cancel=True)
                if inspect.isawaitable(value):
                    value = await value
            return msgspec.json.encode(value).decode()
        except ToolCallError as error:
            failure = error
        except CodeCallError as error:
            failure = ToolCallError(error.message, tool_name=name, code=error.code)
        except Exception as error:
            # Whatever the handler raises is the tool's failure.
            failure = ToolCallError(str(error) or type(error).__name__, tool_name=name)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            # SystemExit and its like: a tool ends itself, not the server.
            failure = ToolCallError(f"Tool '{name}' ended with {type(error).__name__}", tool_name=name)
        await self._turns.clean_error(failure, self._sanitization)
        raise failure

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool` gives. See `ToolBroker.describe`."""
        tool = None if self._tools is None else self._tools.get(name)
        if tool is None or not self._may_call(name):
            return None
        return {key: tool.get(key) for key in ("name", "description", "inputSchema", "outputSchema")}

    def _may_call(self, name: str) -> bool:
        return self._allowed is None or any(fnmatchcase(name, pattern) for pattern in self._allowed)
