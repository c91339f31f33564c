"""Finds errors that a call is certain to get, before it is made, from what its caller may see of the tool.

The literal parts of a planned call's input are compared with the tool's JSON Schema; parts that are not literal fit
everything. Nothing of the tool runs. How far the schema can be trusted depends on what answers the call:

| what answers | which errors are certain |
|---|---|
| a Python function, of this server or of a mounted one | those its schema finds (*) |
| a tool of another server: proxy, gateway, OpenAPI | those the published schema finds, read leniently |
| any other: a tool that is transformed by a function, a class of the author's | none |

(*) Where the author's code, or an option of pydantic, may accept more than the schema: missing parameters only.

The comparison is bounded, for each call and for all calls of a script: one that takes more steps finds nothing. Nor is
anything certain where middleware or an extension may change the arguments on their way, answer by itself, or make a
success of a failure. FastMCP's own middleware does nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, EnumType
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from fastmcp import FastMCP
from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers.fastmcp_provider import FastMCPProviderTool
from fastmcp.tools import FunctionTool, Tool
from fastmcp.utilities.types import get_cached_typeadapter
from fastmcp.utilities.versions import VersionSpec

from codecall.calls.access import AccessPolicy
from codecall.calls.failures import FailureTranslator
from codecall.calls.fastmcp_internals import dispatches_otherwise, intercepts_calls
from codecall.calls.pydantic_errors import find_first_error
from codecall.catalog.cache.fastmcp_internals import MIDDLEWARE_METHODS, mounted_origin, sees_requests
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.errors import CodeCallError, ToolCallError, ToolNotFoundError
from codecall.globs import display_name
from codecall.redaction.clean import MAX_QUICK_CHARS
from codecall.redaction.threaded import ThreadedCleaner
from codecall.schema.comparison import StepBudget, Violation, find_missing, find_violations, violation_problems
from codecall.schema.partial import PreflightError, Unknown
from codecall.schema.validation import MAX_FIELDS, MAX_PARAMETERS, Problem, parameter_names

MAX_STEPS_PER_CALL: Final = 1_500
"""Steps for one call, about 3 ms. A call that takes more gets no error."""

MAX_STEPS_PER_SCRIPT: Final = 4 * MAX_STEPS_PER_CALL
"""Steps for all calls of one script. A call for which none are left gets no error."""

MAX_QUICK_VALUES: Final = 2_000
"""Values of an input that FastMCP may find wrong, each with one error for every type of a union: some 20 ms."""

MAX_SUGGESTIONS: Final = 10
"""Unknown names of one script for which similar names are looked for: 5 ms each, among 4,000 tools."""

MAX_NAMED: Final = 5
"""Tools of one script, and parameters of one tool, that a warning names."""

MAX_MOUNTS: Final = 20
"""Depth of servers mounted in servers in which the function that answers is looked for."""

MAX_NODES: Final = 5_000
"""Nodes of a function's core schema that are searched; in a larger one only missing parameters are certain."""

InputCheck = Callable[[Mapping[str, object], dict[str, object], StepBudget], list[Violation]]
"""Finds the certain violations of a tool's schema in an input."""

_KNOWN_MIDDLEWARE: Final = ("fastmcp.server.middleware.", "codecall.ratelimit.")
"""Packages whose middleware passes a call on, refuses it, or repeats an earlier answer. By name, as below."""

_REMOTE_TOOLS: Final = frozenset(
    {
        "fastmcp.server.providers.proxy.ProxyTool",
        "fastmcp.server.providers.openapi.components.OpenAPITool",
        "codecall.gateway.tools.components.GatewayTool",
    }
)
"""Classes of tools that another server has published with their schema. By name: none is loaded where it is not
used."""

_OTHERS_NAMED: Final = frozenset(
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "$ref", "$dynamicRef"}
    | {"allOf", "anyOf", "oneOf", "if", "dependentSchemas"}
)
"""Keywords of a schema that may name or refuse members besides its `properties`, or say that there may be others."""

_OPEN_NODES: Final = frozenset({"function-before", "function-wrap", "function-plain", "generator", "complex"})
"""Nodes of pydantic's core schema at which code, of the author or of pydantic, sees a value before it is checked, at
which nothing is checked yet, or that take more than they publish."""

_WIDENING_SETTINGS: Final = frozenset(
    {"custom_init", "populate_by_name", "validate_by_name", "pydantic_js_annotation_functions",
     "pydantic_js_extra", "pydantic_js_updates", "coerce_numbers_to_str", "strip_whitespace", "to_lower", "to_upper",
     "str_strip_whitespace", "str_to_lower", "str_to_upper"}
)  # fmt: skip
"""Settings of a node with which the function's JSON Schema and the values it accepts may differ."""


class CallPreflight:
    """Checks the calls of one request before they are made.

    Args:
        server: the server that received the request.
        access: the rules that say what its caller may call.
        failures: makes the errors.
    """

    def __init__(self, server: FastMCP[Any], access: AccessPolicy, failures: FailureTranslator) -> None:
        self._server = server
        self._access = access
        self._failures = failures
        self._checks: dict[str, _Check | None] = {}
        self._steps_left = MAX_STEPS_PER_SCRIPT
        self._suggestions = 0
        self._unnamed: dict[str, tuple[JsonObject, dict[str, None]]] = {}
        """Tools that have been given what their schema does not name, their schemas, and the names."""

    async def preflight(self, name: str, arguments: Mapping[str, object]) -> PreflightError | None:
        """The error that a call is certain to get, if any. See `ToolBroker.preflight`."""
        if self._steps_left <= 0:
            return None
        budget = StepBudget(steps := min(MAX_STEPS_PER_CALL, self._steps_left))
        found = await self._find_error(name, arguments, budget)
        self._steps_left -= steps - max(0, budget.left)
        if found is None:
            return None
        error, violations = found
        cleaned = cast("list[Problem]", error.details) if isinstance(error.details, list) else []
        paths = tuple(item.path for item in violations[:MAX_FIELDS])
        return PreflightError(error.code, error.message, error.hint, tuple(cleaned), paths)

    async def check_input(self, name: str, arguments: Mapping[str, object]) -> None:
        """Find what is wrong with the whole input of a call that is about to be made.

        Raises:
            ToolCallError: the call is certain to get it.
        """
        if (found := await self._find_error(name, arguments, StepBudget(MAX_STEPS_PER_CALL))) is not None:
            raise found[0]

    async def check_published(self, name: str, entry: CatalogEntry, arguments: Mapping[str, object]) -> None:
        """Find what is wrong with the whole input of a call of `entry` that goes to another server, by the schema it
        publishes.

        Functions of this server say it themselves, but for large inputs, of which the first wrong value is found here.

        Raises:
            ToolCallError: the call is certain to get it.
        """
        self._note_unnamed(arguments, entry)
        if (check := await self._check_for(name)) is None:
            return
        if check.function is None:
            await self.check_input(name, arguments)
        elif has_many_values(arguments) and (
            failure := find_first_error(check.function, arguments, strict=check.strict)
        ):
            raise self._failures.from_first_error(failure, entry, arguments)

    async def _check_for(self, name: str) -> _Check | None:
        """The check for calls of a tool that may be called; None where nothing is certain."""
        if name not in self._checks:
            usable = await self._access.find_usable(name)
            if usable is None:
                return None
            entry, tool = usable
            self._checks[name] = await _find_check(self._server, entry.name, entry.version, tool)
        return self._checks[name]

    async def _find_error(
        self, name: str, arguments: Mapping[str, object], budget: StepBudget
    ) -> tuple[ToolCallError, list[Violation]] | None:
        usable = await self._access.find_usable(name)
        if usable is None:
            return None
        entry, check = usable[0], await self._check_for(name)
        self._note_unnamed(arguments, entry)
        find = check.find if check is not None else None
        violations = find(arguments, entry.input_schema, budget) if find is not None else []
        if not violations:
            return None
        problems = violation_problems(violations, entry.input_schema)
        failures = self._failures.for_call(entry.name, arguments)
        if sum(len(item["field"]) for item in problems) > MAX_QUICK_CHARS:
            return await ThreadedCleaner().run(failures.from_preflight, problems, entry), violations
        return failures.from_preflight(problems, entry), violations

    def _note_unnamed(self, arguments: Mapping[str, object], entry: CatalogEntry) -> None:
        """Take note of arguments that the tool's schema neither names nor refuses: most tools ignore those."""
        properties = entry.input_schema.get("properties")
        if (
            not isinstance(properties, dict)
            or not properties
            or not entry.input_schema.keys().isdisjoint(_OTHERS_NAMED)
        ):
            return
        for name in arguments:
            if name not in properties and arguments[name] is not Unknown.MAYBE_ABSENT:
                _, names = self._unnamed.setdefault(entry.name, (entry.input_schema, {}))
                if len(names) < MAX_NAMED:
                    names[name] = None

    def warnings(self) -> list[str]:
        """What is said of arguments that the tools' schemas do not name: one text for a tool."""
        return [
            f"{tool} has no parameter {_or(map(display_name, names))}; it has {_listed(parameter_names(schema))}. Most "
            "tools ignore what they do not have."
            for tool, (schema, names) in list(self._unnamed.items())[:MAX_NAMED]
        ]

    async def check_reachable(self, name: str) -> PreflightError | None:
        """The reason why no call of that name would reach a tool, if any. See `ToolBroker.check_reachable`."""
        try:
            await self._access.admit(name, suggest=self._suggestions < MAX_SUGGESTIONS)
        except CodeCallError as error:
            self._suggestions += isinstance(error, ToolNotFoundError)
            return PreflightError(error.code, error.message, error.hint)
        return None


def has_many_values(arguments: Mapping[str, object]) -> bool:
    """Whether an input has more than `MAX_QUICK_VALUES` values, or a text that may hold as many as JSON."""
    count, pending = 0, list[object]([arguments])
    while pending:
        value = pending.pop()
        if isinstance(value, str) and len(value) > 2 * MAX_QUICK_VALUES and value.lstrip()[:1] in ("[", "{"):
            return True
        if not isinstance(value, dict | list):
            continue
        held = cast("dict[str, object] | list[object]", value)
        count += len(held)
        if count > MAX_QUICK_VALUES:
            return True
        pending += held.values() if isinstance(held, dict) else held
    return False


def _or(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_PARAMETERS} more" if len(names) > MAX_PARAMETERS else ""
    return ", ".join(map(display_name, names[:MAX_PARAMETERS])) + more


class _Check(NamedTuple):
    """What is known of how the calls of a tool are validated."""

    find: InputCheck | None
    """Finds what is certain; None: nothing is."""
    function: Callable[..., Any] | None = None
    """What validates; None: another server does."""
    strict: bool = False
    """Whether its server validates strictly."""


async def _find_check(
    server: object, name: str, version: str | None, tool: object = None, depth: int = 0
) -> _Check | None:
    """The check for calls of a tool of `server`, which is `tool` if that is known; None where nothing is certain."""
    if depth > MAX_MOUNTS or not isinstance(server, FastMCP) or not _is_transparent(cast("FastMCP[Any]", server)):
        return None
    if tool is None:
        tool = await cast("FastMCP[Any]", server).get_tool(name, VersionSpec(eq=version) if version else None)
    if not isinstance(tool, Tool) or not vars(tool).keys().isdisjoint(("run", "_run")):
        return None
    kind = type(tool)
    if kind is FastMCPProviderTool:
        origin = mounted_origin(tool)
        if origin is None or origin[1] is None:
            return None
        return await _find_check(origin[0], origin[1], tool.version, depth=depth + 1)
    if isinstance(tool, FunctionTool) and kind is FunctionTool:
        return _Check(function_check(tool.fn), tool.fn, cast("FastMCP[Any]", server).strict_input_validation)
    return _Check(_check_published) if f"{kind.__module__}.{kind.__qualname__}" in _REMOTE_TOOLS else None


def function_check(function: Callable[..., Any]) -> InputCheck | None:
    """The check for calls of a Python function; None if nothing about them is certain."""
    try:
        return find_violations if _is_fully_described(function) else _check_missing
    except Exception:  # a signature that cannot be read, a function that cannot be remembered
        return None


def _check_published(arguments: Mapping[str, object], schema: dict[str, object], budget: StepBudget) -> list[Violation]:
    return find_violations(arguments, schema, budget)


def _check_missing(arguments: Mapping[str, object], schema: dict[str, object], _: StepBudget) -> list[Violation]:
    return find_missing(arguments, schema)


@lru_cache(maxsize=5_000)
def _is_fully_described(function: Callable[..., Any]) -> bool:
    """Whether the JSON Schema of a function's parameters covers every value they accept."""
    # As `FunctionTool` does it: without the parameters that FastMCP injects.
    pending: list[object] = [get_cached_typeadapter(without_injected_parameters(function)).core_schema]
    for _ in range(MAX_NODES):
        if not pending:
            return True
        node = pending.pop()
        if isinstance(node, dict):
            members = cast("dict[str, object]", node)
            alias = members.get("validation_alias", members.get("alias"))
            if (
                members.get("type") in _OPEN_NODES
                or any(members.get(key) for key in _WIDENING_SETTINGS)
                or not isinstance(alias, (str, dict, type(None)))
                or _accepts_other_values(members.get("cls"))
                or _has_flags(members.get("pattern"))
            ):
                return False
            pending += [item for key, item in members.items() if key != "serialization"]
        elif isinstance(node, (list, tuple)):
            pending += cast("list[object]", node)
    return False


def _accepts_other_values(kind: object) -> bool:
    """Whether a class is an enumeration with code that finds members for other values."""
    if not isinstance(kind, EnumType):
        return False
    return type(kind) is not EnumType or any("_missing_" in vars(base) for base in kind.__mro__ if base is not Enum)


def _has_flags(pattern: object) -> bool:
    """Whether a pattern is compiled with flags, which the JSON Schema leaves out."""
    return isinstance(pattern, re.Pattern) and cast("re.Pattern[str]", pattern).flags != re.UNICODE


def _is_transparent(server: FastMCP[Any]) -> bool:
    """Whether `server` passes a call to its tool with unchanged arguments, and the tool's failure to the caller."""
    return not (
        dispatches_otherwise(server) or intercepts_calls(server) or any(map(_may_change_calls, server.middleware))
    )


def _may_change_calls(item: Middleware) -> bool:
    kind = type(item)
    if kind.__module__.startswith(_KNOWN_MIDDLEWARE):
        return not vars(item).keys().isdisjoint((*MIDDLEWARE_METHODS, "on_call_tool"))
    return sees_requests(item, "on_call_tool")
