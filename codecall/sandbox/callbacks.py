"""A broker without a server: Python callables perform the calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import count
from typing import Any, cast

import anyio.to_thread

from codecall.concurrency import WorkCancelledError, with_timeout
from codecall.errors import (
    NOT_FOUND,
    AccessDeniedError,
    CallKind,
    CodeCallError,
    InvalidInputError,
    OptionsError,
    SelfReferenceError,
    ToolCallError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from codecall.errors.hints import LISTING_WORDS, function_hint, listing_hint
from codecall.jsonio.decode import encode_exactly, exceeds_chars
from codecall.namespaces import NamespaceLookup, Namespaces
from codecall.options import SanitizationOptions
from codecall.redaction.threaded import MAX_QUICK_GIVEN, ThreadedCleaner
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.schema.comparison import find_violations, violation_problems
from codecall.schema.partial import PreflightError
from codecall.schema.validation import advise_on_nulls, invalid_input_message
from codecall.wording import nearest

ToolHandler = Callable[[str, dict[str, Any]], Any]
"""Performs a script's tool calls, or renders its prompts: `(name, input) -> value`, sync or async. A sync one runs in a
thread."""

ResourceHandler = Callable[[str], Any]
"""Reads a script's resources: `(uri) -> value`, sync or async. A sync one runs in a thread."""

MAX_COMPARED = 200
"""Most names that one is compared with to suggest others, and most characters of it: the time grows with both."""


def check_handlers(**handlers: object) -> None:
    """Raise `OptionsError` for a handler that cannot be called."""
    for name, handler in handlers.items():
        if handler is not None and not callable(handler):
            raise OptionsError(f"{name}: a function is needed, got {type(handler).__name__}")


class CallbackBroker:
    """Performs calls with Python callables; a `ToolBroker`.

    Args:
        handler: Performs the calls of tools. Without it there are no tools.
        tools: The tools that `getTool` describes, and then all that may be called; None: any name may be called.
        allowed: Names, URIs or globs that may be asked for; None allows all.
        sanitization: What is removed from error messages.
        resource_handler: Reads resources. Without it there are none.
        prompt_handler: Renders prompts. Without it there are none.
        timeout_ms: Milliseconds each call may take; None: as long as the run.

    Raises:
        OptionsError: a handler cannot be called, or what should be a list of tools or names is none.
    """

    def __init__(
        self,
        handler: ToolHandler | None,
        tools: Sequence[Mapping[str, Any]] | None,
        allowed: Sequence[str] | None,
        sanitization: SanitizationOptions,
        *,
        resource_handler: ResourceHandler | None = None,
        prompt_handler: ToolHandler | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        check_handlers(tool_handler=handler, resource_handler=resource_handler, prompt_handler=prompt_handler)
        self._tool_handler = handler
        self._resource_handler = resource_handler
        self._prompt_handler = prompt_handler
        self._tools = None if tools is None else dict(map(_named_tool, count(), _listed("tools", tools)))
        self._allowed = None if allowed is None else tuple(map(str, _listed("allowed_tools", allowed)))
        self._sanitization = sanitization
        self._call_timeout_ms = timeout_ms
        self._cleaner = ThreadedCleaner()
        self._namespaces: Namespaces | None = None
        self._lookup = NamespaceLookup(self._may_call, _similar)

    async def prepare(self) -> None:
        """Nothing to read ahead."""

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The tool handler's value as JSON text. See `ToolBroker.call`."""
        known = self._tools is None or name in self._tools
        return await self._answer("tool", self._tool_handler if known else None, name, arguments)

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The resource handler's value as JSON text. See `ToolBroker.read`."""
        return await self._answer("resource", self._resource_handler, uri)

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:  # noqa: ARG002
        """The prompt handler's value as JSON text. See `ToolBroker.prompt`."""
        return await self._answer("prompt", self._prompt_handler, name, arguments)

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool` gives. See `ToolBroker.describe`."""
        tool = None if self._tools is None else self._tools.get(name)
        if tool is None or not self._may_call(name):
            return None
        return {key: tool.get(key) for key in ("name", "description", "inputSchema", "outputSchema")}

    async def preflight(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        """What is sure to be refused: the name, or by the `inputSchema` the input. See `ToolBroker.preflight`."""
        return await self.check_reachable(name) or self._refused_input(name, arguments)

    def _refused_input(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        schema = None if self._tools is None else self._tools.get(name, {}).get("inputSchema")
        if arguments is None or self._tool_handler is None or not isinstance(schema, dict) or not self._may_call(name):
            return None
        schema = cast("dict[str, object]", schema)
        if not (violations := find_violations(arguments, schema)):
            return None
        problems = advise_on_nulls(violation_problems(violations, schema), arguments, schema)
        message = invalid_input_message(name, problems, schema)
        paths = tuple(violation.path for violation in violations)
        return PreflightError(InvalidInputError.code, message, problems=tuple(problems), paths=paths)

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Why a call would not reach the handler. See `ToolBroker.check_reachable`."""
        if (missing := self._lookup.missing(name)) is not None:
            return PreflightError(ToolNotFoundError.code, *missing)
        if self._tool_handler is None or (self._tools is not None and name not in self._tools):
            return PreflightError(ToolNotFoundError.code, f"Tool '{name}' was not found", await self._suggestion(name))
        if not self._may_call(name):
            return PreflightError(AccessDeniedError.code, f"Tool '{name}' is not among the allowed tools")
        return None

    async def _suggestion(self, name: str) -> str | None:
        """A hint for a name that no tool has."""
        if self._tool_handler is None:
            return "There are no tools here: whoever runs the script has given it no handler for them."
        if (own := function_hint(name)) is not None:
            return own
        if name in LISTING_WORDS and self._tools is not None:
            namespaces = await self._list_namespaces(self._tools)
            return listing_hint(namespaces.names(self._may_call))
        names = " or ".join(f"'{other}'" for other in _similar(name, [*(self._tools or ())]) if self._may_call(other))
        return f"Did you mean {names}?" if names else None

    async def namespace(self, path: str) -> dict[str, object]:
        """A namespace of the listed tools; any name is one if no tools are listed. See `ToolBroker.namespace`."""
        if self._tools is not None:
            namespaces = await self._list_namespaces(self._tools)
            found = self._lookup.namespace(namespaces, path)
            if path and not (found.get("members") or found.get("tools")):
                found["tools"] = [name for name in _similar(path, [*self._tools]) if self._may_call(name)]
            return found
        return {"near": []} if self._tool_handler is None else {"members": {}, "listed": False}

    async def member(self, path: str, member: str) -> dict[str, object]:
        """The listed tool, or else the name with a colon. See `ToolBroker.member`."""
        if self._tools is None:
            return {"tool": f"{path}:{member}" if path else member}
        namespaces = await self._list_namespaces(self._tools)
        return self._lookup.member(namespaces, path, member, exists=member in self._tools).as_dict()

    async def _list_namespaces(self, tools: Mapping[str, Mapping[str, Any]]) -> Namespaces:
        if self._namespaces is None:
            app_ids = [(name, str(tool.get("appId") or "")) for name, tool in tools.items()]
            self._namespaces = await anyio.to_thread.run_sync(Namespaces.from_tools, app_ids)
        return self._namespaces

    async def _answer(
        self, called: CallKind, handler: Callable[..., Any] | None, name: str, *arguments: dict[str, object]
    ) -> str:
        # No rule about names holds for results that a caller's own scripts have left, and for types.
        named = called not in ("result", "extract")
        if named and is_meta_tool(name):
            raise SelfReferenceError(name.strip())
        label = f"{called.capitalize()} '{name}'"
        if handler is None:
            missing = self._lookup.missing(name) if called == "tool" else None
            hint = await self._suggestion(name) if called == "tool" and missing is None else None
            message, hint = missing or (f"{label} was not found", hint)
            raise NOT_FOUND[called](message, tool_name=name, called=called, hint=hint)
        if named and not self._may_call(name):
            raise AccessDeniedError(f"{label} is not among the allowed tools", tool_name=name, called=called)
        request = _perform(handler, called, name, *arguments)
        try:
            outcome = await (
                request if self._call_timeout_ms is None else with_timeout(self._call_timeout_ms / 1000, request)
            )
        except TimeoutError:
            hint = "It may still have taken effect. Ask it for less work per call, or make fewer calls at once."
            message = f"{label} did not answer within {self._call_timeout_ms}ms"
            outcome = ToolTimeoutError(message, tool_name=name, called=called, hint=hint)
        except WorkCancelledError:
            outcome = ToolCallError(f"{label} was cancelled before it answered", tool_name=name, called=called)
        if isinstance(outcome, str):
            return outcome
        is_large = exceeds_chars(arguments, MAX_QUICK_GIVEN)
        secrets = await self._cleaner.secrets_not_in([name, arguments], is_large=is_large)
        await self._cleaner.clean_error(outcome, self._sanitization, secrets)
        raise outcome

    def _may_call(self, name: str) -> bool:
        return self._allowed is None or any(fnmatchcase(name, pattern) for pattern in self._allowed)


class AnyTool(CallbackBroker):
    """Answers the questions of a script that is only checked, where no tool is known by name: each may be there, as
    the function that the script calls, too. No calls are made.

    Args:
        sanitization: As for `CallbackBroker`.
        unlisted: Says why no tool is known, in hints about names.
        guesses: Whether a name that looks like another one misspelt, or is only read, is taken for wrong.
    """

    def __init__(self, sanitization: SanitizationOptions, unlisted: str = "", *, guesses: bool = True) -> None:
        super().__init__(never_called, None, None, sanitization)
        self._unlisted = [unlisted] if unlisted else []
        self._guesses = guesses

    async def namespace(self, path: str) -> dict[str, object]:
        """Any name is one, and a tool where it is called. See `ToolBroker.namespace`."""
        return {
            **await super().namespace(path),
            "callable": True,
            "unlisted": self._unlisted,
            "anything": not self._guesses,
        }


def never_called(name: str, _: dict[str, object]) -> object:
    """Performs no calls: of a script that is only checked, none is made."""
    raise AssertionError(f"a dry run called {name}")


def _listed(option: str, values: object) -> Iterable[object]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        kind = type(cast("object", values)).__name__
        raise OptionsError(f"{option}: a list is needed, got {kind}")
    return cast("Iterable[object]", values)


def _named_tool(place: int, tool: object) -> tuple[str, Mapping[str, Any]]:
    """The name of a tool, and its metadata."""
    if not isinstance(tool, Mapping) or not isinstance(cast("Mapping[str, object]", tool).get("name"), str):
        raise OptionsError(
            f"tools.{place}: a mapping with a name is needed, got {tool!r:.80}",
            hint="Each is {'name': …, 'description': …, 'inputSchema': …, 'outputSchema': …}; only the name must be.",
        )
    described = cast("Mapping[str, Any]", tool)
    return described["name"], described


async def _perform(
    handler: Callable[..., Any], called: CallKind, name: str, *arguments: dict[str, object]
) -> str | ToolCallError:
    """The handler's value as JSON text, or its failure."""
    try:
        if inspect.iscoroutinefunction(handler):
            value: object = await handler(name, *arguments)
        else:
            value = await anyio.to_thread.run_sync(handler, name, *arguments, abandon_on_cancel=True)
            if inspect.isawaitable(value):
                value = await value
        return encode_exactly(value).decode()
    except ToolCallError as error:
        return error
    except CodeCallError as error:
        return ToolCallError(error.message, tool_name=name, called=called, code=error.code)
    except Exception as error:
        # Whatever the handler raises is the tool's failure.
        return ToolCallError(str(error) or type(error).__name__, tool_name=name, called=called)
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        # SystemExit and its like: a tool ends itself, not the server.
        message = f"{called.capitalize()} '{name}' ended with {type(error).__name__}"
        return ToolCallError(message, tool_name=name, called=called)


def _similar(name: str, names: Sequence[str]) -> list[str]:
    return nearest(name[:MAX_COMPARED], names[:MAX_COMPARED], limit=3)
