"""What is sure to be wrong with a call, found out before it is made, from what its caller may see of the tool.

| what answers | what is certain |
|---|---|
| a Python function of this server, or of one mounted on it | what its parameters refuse: `signatures.py` |
| a tool of another server (a proxy) | that a required parameter is missing: MCP has servers check that |
| any other: OpenAPI, a transformed tool, a class of the author's | nothing |

Finding out is bounded, for each call and for all calls of a script: what takes more steps is not certain.

Nor is anything certain where middleware or an extension may change the arguments on their way, answer by itself, or
make a success of a failure. FastMCP's own middleware does nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from fastmcp import FastMCP
from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers.fastmcp_provider import FastMCPProviderTool
from fastmcp.server.providers.proxy import FastMCPProxy, ProxyTool
from fastmcp.tools import FunctionTool, Tool
from fastmcp.utilities.types import get_cached_typeadapter
from fastmcp.utilities.versions import VersionSpec
from pydantic_core import SchemaValidator

from codecall.calls.access import AccessPolicy
from codecall.calls.failures import MAX_READ_ERRORS, FailureTranslator, problems_from_pydantic
from codecall.calls.partial_validation import MAX_STEPS, Steps, loosened, refusal
from codecall.catalog.entries import CatalogEntry
from codecall.errors import CodeCallError, ToolNotFoundError
from codecall.ratelimit.middleware import RateLimitPlugin
from codecall.redaction.clean import MAX_QUICK_CHARS, ThreadedCleaner
from codecall.schema.partial import JsonPath, PreflightError
from codecall.schema.validation import MAX_FIELDS, Problem, find_missing, violation_problems

MAX_STEPS_PER_SCRIPT: Final = 4 * MAX_STEPS
"""Steps for all calls of one script, about 20 ms. Of a call for which none are left nothing is certain."""

MAX_SUGGESTIONS: Final = 10
"""Names of one script that lead nowhere for which names like them are looked for: 5 ms each, of 4,000 tools."""

MAX_MOUNTS: Final = 20
"""Servers mounted in servers that are looked through for the function that answers."""

_HOOKS: Final = ("__call__", "_dispatch_handler", "on_message", "on_request", "on_call_tool")
"""Every way in which a middleware sees a call pass."""

_OWN: Final = "fastmcp.server.middleware."
"""Where FastMCP's own middleware is: it passes on what it was given, refuses it, or repeats an answer it has seen."""

Judge = Callable[[Mapping[str, object], CatalogEntry, Steps], "tuple[Sequence[Problem], Sequence[JsonPath]] | None"]
"""What is certain of an input of one tool, found in so many steps: the problems, and where in the input they are."""

T = TypeVar("T")


class CallPreflight:
    """Looks at the calls of one request beforehand.

    Args:
        server: the server the request came to.
        access: what its caller may call.
        failures: names what is found.
    """

    def __init__(self, server: FastMCP[Any], access: AccessPolicy, failures: FailureTranslator) -> None:
        self._server = server
        self._access = access
        self._failures = failures
        self._turns = ThreadedCleaner()
        self._judges: dict[str, Judge | None] = {}
        self._steps = MAX_STEPS_PER_SCRIPT
        self._suggested = 0

    async def preflight(self, name: str, known: Mapping[str, object]) -> PreflightError | None:
        """See `ToolBroker.foresee`."""
        usable = await self._access.find_usable(name)
        if usable is None:
            return None
        entry, tool = usable
        if name not in self._judges:
            self._judges[name] = await _judge_of(self._server, entry.name, entry.version, tool)
        judge = self._judges[name]
        if judge is None or self._steps <= 0:
            return None
        steps = Steps(most := min(MAX_STEPS, self._steps))
        found = judge(known, entry, steps)
        self._steps -= most - max(0, steps.left)
        if found is None:
            return None
        told, paths = found
        long = sum(len(item["field"]) for item in told) > MAX_QUICK_CHARS
        error = (
            await self._turns.run(self._failures.from_preflight, told, entry)
            if long
            else self._failures.from_preflight(told, entry)
        )
        cleaned = cast("list[Problem]", error.details) if isinstance(error.details, list) else []
        return PreflightError(error.code, error.message, error.hint, tuple(cleaned), tuple(paths))

    async def check_reachable(self, name: str) -> PreflightError | None:
        """See `ToolBroker.unreachable`."""
        try:
            await self._access.admit(name, suggest=self._suggested < MAX_SUGGESTIONS)
        except CodeCallError as error:
            self._suggested += isinstance(error, ToolNotFoundError)
            return PreflightError(error.code, error.message, error.hint)
        return None


async def _judge_of(
    server: object, name: str, version: str | None, tool: object = None, depth: int = 0
) -> Judge | None:
    """What judges calls of a tool of `server`, which is `tool` if that is known; None where nothing is certain."""
    if depth > MAX_MOUNTS or not isinstance(server, FastMCP) or not _passes_on(cast("FastMCP[Any]", server)):
        return None
    if tool is None:
        tool = await cast("FastMCP[Any]", server).get_tool(name, VersionSpec(eq=version) if version else None)
    if not isinstance(tool, Tool) or not vars(tool).keys().isdisjoint(("run", "_run")):
        return None
    if type(tool) is FastMCPProviderTool:
        own_name = _hidden(tool, "_original_name")
        below = _hidden(tool, "_server")
        return await _judge_of(below, own_name, tool.version, depth=depth + 1) if isinstance(own_name, str) else None
    if type(tool) is ProxyTool:
        return _by_contract
    return _of_function(tool, strict=bool(server.strict_input_validation)) if type(tool) is FunctionTool else None


def _of_function(tool: FunctionTool, *, strict: bool) -> Judge | None:
    try:
        validator = _validator(tool.fn, strict)
    except Exception:  # a signature that cannot be read, a function that cannot be remembered
        return None

    def judge(
        known: Mapping[str, object], entry: CatalogEntry, steps: Steps
    ) -> tuple[Sequence[Problem], Sequence[JsonPath]] | None:
        error = None if validator is None else refusal(validator, known, steps)
        if error is None:
            return None
        few = error.error_count() <= MAX_READ_ERRORS
        errors = error.errors(include_url=False, include_context=False, include_input=False) if few else []
        return problems_from_pydantic(error, entry.input_schema), [item["loc"] for item in errors[:MAX_FIELDS]]

    return judge


@lru_cache(maxsize=5_000)
def _validator(function: Callable[..., Any], strict: bool) -> SchemaValidator | None:
    # As `FunctionTool` does it: without what FastMCP puts in itself.
    adapter = get_cached_typeadapter(without_injected_parameters(function))
    return loosened(cast("Mapping[str, Any]", adapter.core_schema), strict=strict)


def _by_contract(
    known: Mapping[str, object], entry: CatalogEntry, _steps: Steps
) -> tuple[Sequence[Problem], Sequence[JsonPath]] | None:
    found = find_missing(known, entry.input_schema)
    return (violation_problems(found, entry.input_schema), [item.path for item in found]) if found else None


def _passes_on(server: FastMCP[Any]) -> bool:
    """Whether a call reaches a tool of `server` with the arguments it was made with, and its failure the caller."""
    if (
        type(server) not in (FastMCP, FastMCPProxy)
        or "call_tool" in vars(server)
        or any(map(_may_change, server.middleware))
    ):
        return False
    extensions = _hidden(server, "_extensions")
    known = cast("Mapping[str, object]", extensions).values() if isinstance(extensions, dict) else [extensions]
    return all(
        isinstance(item, ServerExtension) and type(item).intercept_tool_call is ServerExtension.intercept_tool_call
        for item in known
    )


def _may_change(item: Middleware) -> bool:
    kind = type(item)
    if not vars(item).keys().isdisjoint(_HOOKS):
        return True
    if kind is RateLimitPlugin or kind.__module__.startswith(_OWN):
        return False
    return any(getattr(kind, hook, None) is not getattr(Middleware, hook) for hook in _HOOKS)


def _hidden(owner: object, name: str) -> object:
    """What FastMCP has no public name for."""
    return getattr(owner, name, None)
