"""Whether a name may be called. BY_NAME and BY_CATALOGUE are the whole policy, in the order in which it is asked.

The rules of BY_NAME look at the name alone, so that their answer is the same whether or not such a tool exists. Only
a name that passes all of them is looked up; BY_CATALOGUE says what follows from what the caller can see. Nothing here
widens what FastMCP shows the caller: the view is FastMCP's own listing for that caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, Protocol

from codecall.catalog.reach import is_reserved
from codecall.catalog.view import JsonObject, ToolEntry
from codecall.errors import AccessDeniedError, CodeCallError, SelfReferenceError, ToolNotFoundError
from codecall.sandbox.agentscript.policy import is_meta_tool

MAX_LISTED_NAMES: Final = 10
"""Names a hint lists before it says how many more there are."""

MAX_SHOWN_NAME: Final = 128
"""Characters of a name that a message repeats; MCP allows a tool name 128 (SEP-986)."""


class View(Protocol):
    """What the rules and the broker ask of the catalogue; `catalog.view.CatalogView` is one."""

    async def find(self, name: str) -> ToolEntry | None:
        """The tool of exactly that name, if this caller and CodeCall may use it."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether this caller can see a tool of that name, usable by CodeCall or not."""
        ...

    async def near(self, name: str) -> list[str]:
        """Names like this one among the usable tools, best first."""
        ...

    async def describe(self, name: str) -> JsonObject | None:
        """What `getTool(name)` sees, or None."""
        ...


class Rule(NamedTuple):
    """One reason to refuse a name before it is looked up."""

    what: str
    applies: Callable[[str, tuple[str, ...] | None], bool]
    """Of the name and `allowedTools`."""
    refuse: Callable[[str, tuple[str, ...] | None], CodeCallError]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether `name` is one of `patterns`, or fits one that is a glob (`*`, `?`, `[seq]`); letter case counts."""
    return name in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def shown(name: str) -> str:
    """`name` as a message repeats it: a script may ask for a name of any length."""
    if len(name) <= MAX_SHOWN_NAME:
        return name
    return f"{name[:MAX_SHOWN_NAME]}…[truncated {len(name) - MAX_SHOWN_NAME} characters]"


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(shown(name) for name in names[:MAX_LISTED_NAMES])
    more = len(names) - MAX_LISTED_NAMES
    return f"{text} and {more} more" if more > 0 else text


def _self_reference(name: str, _allowed: tuple[str, ...] | None) -> CodeCallError:
    return SelfReferenceError(shown(name))


def _reserved(name: str, _allowed: tuple[str, ...] | None) -> CodeCallError:
    return AccessDeniedError(
        f"Tool '{shown(name)}' is reserved",
        tool_name=shown(name),
        hint="Names that begin with system:, internal: or __ cannot be called through CodeCall.",
    )


def _outside(name: str, allowed: tuple[str, ...] | None) -> CodeCallError:
    return AccessDeniedError(
        f"Tool '{shown(name)}' is not in allowedTools",
        tool_name=shown(name),
        hint=f"Allowed here: {_listed(allowed)}." if allowed else "allowedTools is empty: no tool may be called here.",
    )


def _is_meta(name: str, _allowed: tuple[str, ...] | None) -> bool:
    return is_meta_tool(name)


def _is_reserved(name: str, _allowed: tuple[str, ...] | None) -> bool:
    return is_reserved(name)


def _is_outside(name: str, allowed: tuple[str, ...] | None) -> bool:
    return allowed is not None and not matches(name, allowed)


BY_NAME: Final[tuple[Rule, ...]] = (
    Rule("a CodeCall meta-tool", _is_meta, _self_reference),
    Rule("system:*, internal:*, __* in any letter case", _is_reserved, _reserved),
    Rule("outside allowedTools", _is_outside, _outside),
)
"""Asked of every name, in this order; the first rule that applies refuses it."""


def _out_of_reach(name: str, _near: Sequence[str]) -> CodeCallError:
    return AccessDeniedError(
        f"Tool '{shown(name)}' is not available to CodeCall",
        tool_name=shown(name),
        hint="The server's operator has not enabled it for CodeCall; use another tool.",
    )


def _unknown(name: str, near: Sequence[str]) -> CodeCallError:
    names = " or ".join(f"'{candidate}'" for candidate in near)
    return ToolNotFoundError(
        f"Tool '{shown(name)}' was not found",
        tool_name=shown(name),
        hint=f"Did you mean {names}?" if names else "codecall:search finds tools by what they do.",
    )


BY_CATALOGUE: Final[dict[Literal["visible", "absent"], Callable[[str, Sequence[str]], CodeCallError]]] = {
    "visible": _out_of_reach,  # FastMCP shows it to this caller; mode, app_ids or include_tools keep CodeCall out
    "absent": _unknown,  # not there, or not for this caller: never told apart
}
"""What a name gets that passes BY_NAME and still is no tool this caller and CodeCall may use."""


class AccessPolicy:
    """The rules for one request.

    Args:
        view: what this caller can see.
        allowed_tools: names or globs that may be called; None allows all, an empty list none.
    """

    def __init__(self, view: View, allowed_tools: Sequence[str] | None) -> None:
        self._view = view
        self._allowed = None if allowed_tools is None else tuple(allowed_tools)

    async def admit(self, name: str) -> ToolEntry:
        """The tool of that name.

        Raises:
            SelfReferenceError: it is a meta-tool.
            AccessDeniedError: reserved, outside `allowed_tools`, or out of CodeCall's reach.
            ToolNotFoundError: no such tool, or not visible to this caller.
        """
        refusal = self._refusal(name)
        if refusal is not None:
            raise refusal
        entry = await self._view.find(name)
        if entry is not None:
            return entry
        if await self._view.exists(name):
            raise BY_CATALOGUE["visible"](name, ())
        raise await self.not_found(name)

    async def not_found(self, name: str) -> CodeCallError:
        """The error for a name that is no tool, with the nearest names that may be called."""
        near = [candidate for candidate in await self._view.near(name) if self._refusal(candidate) is None]
        return BY_CATALOGUE["absent"](name, near)

    async def describe(self, name: str) -> JsonObject | None:
        """What `getTool(name)` sees; None for every name that `admit` refuses."""
        return None if self._refusal(name) is not None else await self._view.describe(name)

    def _refusal(self, name: str) -> CodeCallError | None:
        for rule in BY_NAME:
            if rule.applies(name, self._allowed):
                return rule.refuse(name, self._allowed)
        return None
