"""Whether a name may be called. BY_NAME and BY_CATALOGUE are the whole policy, in the order in which it is asked.

The rules of BY_NAME look at the name alone, so that their answer is the same whether or not such a tool exists. Only
a name that passes all of them is looked up; BY_CATALOGUE says what follows from what the caller can see. Nothing here
widens what FastMCP shows the caller: the view is FastMCP's own listing for that caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from codecall.calls.names import MAX_NAME_CHARS, Patterns, shown
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.catalog.reach import is_reserved
from codecall.errors import AccessDeniedError, CodeCallError, SelfReferenceError, ToolNotFoundError
from codecall.sandbox.agentscript.policy import is_meta_tool

MAX_LISTED_NAMES: Final = 10
"""Names a hint lists before it says how many more there are."""


class View(Protocol):
    """What the rules and the broker ask of the catalogue; `catalog.view.CatalogView` is one."""

    async def find(self, name: str) -> CatalogEntry | None:
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


class Allowed(NamedTuple):
    """`allowedTools`, as it was given and as names are compared with it."""

    given: tuple[str, ...]
    patterns: Patterns


class Rule(NamedTuple):
    """One reason to refuse a name before it is looked up."""

    what: str
    applies: Callable[[str, Allowed | None], bool]
    """Of the name and `allowedTools`."""
    refuse: Callable[[str, Allowed | None], CodeCallError]


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(shown(name) for name in names[:MAX_LISTED_NAMES])
    more = len(names) - MAX_LISTED_NAMES
    return f"{text} and {more} more" if more > 0 else text


def _too_long(name: str, _allowed: Allowed | None) -> CodeCallError:
    return ToolNotFoundError(
        f"Tool '{shown(name)}' was not found",
        tool_name=shown(name),
        hint=f"No tool has a name of {len(name)} characters; {MAX_NAME_CHARS} are the most.",
    )


def _self_reference(name: str, _allowed: Allowed | None) -> CodeCallError:
    return SelfReferenceError(shown(name))


def _reserved(name: str, _allowed: Allowed | None) -> CodeCallError:
    return AccessDeniedError(
        f"Tool '{shown(name)}' is reserved",
        tool_name=shown(name),
        hint="Names that begin with system:, internal: or __ cannot be called through CodeCall.",
    )


def _outside(name: str, allowed: Allowed | None) -> CodeCallError:
    return AccessDeniedError(
        f"Tool '{shown(name)}' is not in allowedTools",
        tool_name=shown(name),
        hint=(
            f"Allowed here: {_listed(allowed.given)}."
            if allowed and allowed.given
            else "allowedTools is empty: no tool may be called here."
        ),
    )


def _is_too_long(name: str, _allowed: Allowed | None) -> bool:
    return len(name) > MAX_NAME_CHARS


def _is_meta(name: str, _allowed: Allowed | None) -> bool:
    return is_meta_tool(name)


def _is_reserved(name: str, _allowed: Allowed | None) -> bool:
    return is_reserved(name)


def _is_outside(name: str, allowed: Allowed | None) -> bool:
    return allowed is not None and not allowed.patterns.cover(name)


BY_NAME: Final[tuple[Rule, ...]] = (
    Rule("longer than MAX_NAME_CHARS", _is_too_long, _too_long),  # first: the others read the whole name
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
    names = " or ".join(f"'{shown(candidate)}'" for candidate in near)
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
        self._allowed = None if allowed_tools is None else Allowed(tuple(allowed_tools), Patterns(allowed_tools))

    async def prepare(self) -> None:
        """Have the view read its listing, which it keeps, where any name could pass the rules."""
        if self._allowed is None or self._allowed.given:
            await self._view.exists("")

    async def admit(self, name: str) -> CatalogEntry:
        """The tool of that name.

        Raises:
            SelfReferenceError: it is a meta-tool.
            AccessDeniedError: reserved, outside `allowed_tools`, or out of CodeCall's reach.
            ToolNotFoundError: no such tool, not visible to this caller, or a name no tool can have.
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
