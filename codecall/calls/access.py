"""Whether a tool, a resource or a prompt may be asked for.

BY_NAME and BY_CATALOG are the whole policy, in the order in which it is asked. The rules of BY_NAME look at the name
alone, so that their answer is the same whether or not such a thing exists. Only a name that passes them is looked up;
BY_CATALOG says what follows from what the caller can see. Nothing here widens what FastMCP shows the caller: view and
offers are FastMCP's own listings for that caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from codecall.catalog.entries import CatalogEntry, JsonObject, Kind
from codecall.catalog.uris import HiddenComponent, ResolvedUri
from codecall.catalog.visibility import is_reserved
from codecall.errors import NOT_FOUND, AccessDeniedError, CallKind, CodeCallError, SelfReferenceError, ToolNotFoundError
from codecall.namespaces import NamespaceLookup, Namespaces
from codecall.patterns import MAX_NAME_CHARS, MAX_URI_CHARS, Patterns, display_name
from codecall.sandbox.agentscript.policy import is_meta_tool

MAX_LISTED_NAMES: Final = 10
"""Names a hint lists before it says how many more there are."""


class ToolLookup(Protocol):
    """What the rules and the broker ask of the catalog; `catalog.view.CatalogView` is one."""

    async def find(self, name: str) -> CatalogEntry | None:
        """The tool of exactly that name, if this caller and CodeCall may use it."""
        ...

    async def server_tool(self, name: str) -> object:
        """The tool that a call of that name reaches, FastMCP's own; None where the server has to be asked."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether this caller can see a tool of that name, usable by CodeCall or not."""
        ...

    async def suggest(self, name: str) -> list[str]:
        """Names like this one among the usable tools, best first."""
        ...

    async def describe(self, name: str) -> JsonObject | None:
        """What `getTool(name)` sees, or None."""
        ...

    async def namespaces(self) -> Namespaces:
        """The namespaces of the usable tools."""
        ...


class ComponentLookup(Protocol):
    """What the rules ask of the rest of the catalog; `catalog.offers.ComponentView` is one."""

    async def resolve(self, uri: str) -> ResolvedUri | HiddenComponent | None:
        """What `uri` stands for: a listed resource, or one of a listed template."""
        ...

    async def find(self, kind: Kind, name: str) -> CatalogEntry | HiddenComponent | None:
        """The one of exactly that name; `HiddenComponent` if the caller sees it and CodeCall may not use it."""
        ...

    async def suggest(self, name: str, kinds: Collection[Kind]) -> list[str]:
        """Names like this one among those of these kinds that may be used, best first."""
        ...


class AccessRequest(NamedTuple):
    """What a script asks for."""

    called: CallKind
    name: str

    @property
    def label(self) -> str:
        """How a message names it."""
        return f"{self.called.capitalize()} '{display_name(self.name)}'"


class AllowedTools(NamedTuple):
    """`allowedTools`, as it was given and as names are compared with it."""

    entries: tuple[str, ...]
    patterns: Patterns


class AccessRule(NamedTuple):
    """One reason to refuse a name before it is looked up."""

    description: str
    applies: Callable[[AccessRequest, AllowedTools | None], bool]
    """Of what is asked for and `allowedTools`."""
    refuse: Callable[[AccessRequest, AllowedTools | None], CodeCallError]


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(display_name(name) for name in names[:MAX_LISTED_NAMES])
    more = len(names) - MAX_LISTED_NAMES
    return f"{text} and {more} more" if more > 0 else text


def _too_long(asked: AccessRequest, _allowed: AllowedTools | None) -> CodeCallError:
    name = "URI" if asked.called == "resource" else "name"
    return NOT_FOUND[asked.called](
        f"{asked.label} was not found",
        tool_name=display_name(asked.name),
        called=asked.called,
        hint=f"No {asked.called} has a {name} of {len(asked.name)} characters; {_longest(asked)} are the most.",
    )


def _self_reference(asked: AccessRequest, _allowed: AllowedTools | None) -> CodeCallError:
    return SelfReferenceError(display_name(asked.name))


def _denied(asked: AccessRequest, why: str, hint: str) -> CodeCallError:
    return AccessDeniedError(f"{asked.label} {why}", tool_name=display_name(asked.name), called=asked.called, hint=hint)


def _reserved(asked: AccessRequest, _allowed: AllowedTools | None) -> CodeCallError:
    hint = "Names that begin with system:, internal: or __ cannot be called through CodeCall."
    return _denied(asked, "is reserved", hint)


def _outside(asked: AccessRequest, allowed: AllowedTools | None) -> CodeCallError:
    given = allowed.entries if allowed else ()
    nothing = f"allowedTools is empty: no {asked.called} may be called here."
    return _denied(asked, "is not in allowedTools", f"Allowed here: {_listed(given)}." if given else nothing)


def _longest(asked: AccessRequest) -> int:
    return MAX_URI_CHARS if asked.called == "resource" else MAX_NAME_CHARS


def _is_too_long(asked: AccessRequest, _allowed: AllowedTools | None) -> bool:
    return len(asked.name) > _longest(asked)


def _is_meta(asked: AccessRequest, _allowed: AllowedTools | None) -> bool:
    return is_meta_tool(asked.name)


def _is_reserved(asked: AccessRequest, _allowed: AllowedTools | None) -> bool:
    return is_reserved(asked.name)


def _is_outside(asked: AccessRequest, allowed: AllowedTools | None) -> bool:
    return allowed is not None and not allowed.patterns.matches(asked.name)


BY_NAME: Final[tuple[AccessRule, ...]] = (
    # First: the others read the whole name.
    AccessRule("longer than MAX_NAME_CHARS, a URI than MAX_URI_CHARS", _is_too_long, _too_long),
    AccessRule("a CodeCall meta-tool", _is_meta, _self_reference),
    AccessRule("system:*, internal:*, __* in any letter case", _is_reserved, _reserved),
    AccessRule("outside allowedTools", _is_outside, _outside),
)
"""Asked of every name, in this order; the first rule that applies refuses it."""


def _out_of_reach(asked: AccessRequest, _near: Sequence[str]) -> CodeCallError:
    hint = f"The server's operator has not enabled it for CodeCall; use another {asked.called}."
    return _denied(asked, "is not available to CodeCall", hint)


def _unknown(asked: AccessRequest, near: Sequence[str]) -> CodeCallError:
    names = " or ".join(f"'{display_name(candidate)}'" for candidate in near)
    return NOT_FOUND[asked.called](
        f"{asked.label} was not found",
        tool_name=display_name(asked.name),
        called=asked.called,
        hint=f"Did you mean {names}?" if names else f"codecall:search finds {asked.called}s by what they do.",
    )


BY_CATALOG: Final[dict[Literal["visible", "absent"], Callable[[AccessRequest, Sequence[str]], CodeCallError]]] = {
    "visible": _out_of_reach,  # FastMCP shows it to this caller; mode, app_ids or include_tools keep CodeCall out
    "absent": _unknown,  # not there, or not for this caller: never told apart
}
"""What a name gets that passes BY_NAME and still is nothing this caller and CodeCall may use."""

_ALIKE: Final[dict[CallKind, tuple[Kind, ...]]] = {"resource": ("resource", "template"), "prompt": ("prompt",)}
"""Where names are looked for that somebody may have meant."""


class AccessPolicy:
    """The rules for one request.

    Args:
        view: the tools this caller can see.
        allowed_tools: names, URIs or globs that may be asked for; None allows all, an empty list none. The URI template
            of a template stands for all that fits it.
        offers: what else this caller can see; without it there is nothing else.
    """

    def __init__(
        self, view: ToolLookup, allowed_tools: Sequence[str] | None, components: ComponentLookup | None = None
    ) -> None:
        self._view = view
        self._offers = components
        self._allowed = None if allowed_tools is None else AllowedTools(tuple(allowed_tools), Patterns(allowed_tools))
        self._templates = frozenset(name for name in allowed_tools or () if "{" in name)
        """What of `allowed_tools` may be the name of a template: what fits it is looked up before it is refused."""

    async def prepare(self) -> None:
        """Have the view read its listing, which it keeps, where any name could pass the rules."""
        if self._allowed is None or self._allowed.entries:
            await self._view.exists("")

    async def admit(self, name: str, *, suggest: bool = True) -> CatalogEntry:
        """The tool of that name.

        Args:
            name: of the tool.
            suggest: look for names like it where there is none.

        Raises:
            SelfReferenceError: it is a meta-tool.
            AccessDeniedError: reserved, outside `allowed_tools`, or out of CodeCall's reach.
            ToolNotFoundError: no such tool, not visible to this caller, or a name no tool can have.
        """
        asked = AccessRequest("tool", name)
        self._check(asked)
        entry = await self._view.find(name)
        if entry is not None:
            return entry
        if await self._view.exists(name):
            raise BY_CATALOG["visible"](asked, ())
        raise await self.not_found("tool", name) if suggest else BY_CATALOG["absent"](asked, ())

    async def admit_prompt(self, name: str) -> CatalogEntry:
        """The prompt of that name.

        Raises:
            CodeCallError: as for `admit`; `PromptNotFoundError` when there is none.
        """
        asked = AccessRequest("prompt", name)
        self._check(asked)
        found = await self._offers.find("prompt", name) if self._offers else None
        if found is None:
            raise await self.not_found("prompt", name)
        if isinstance(found, HiddenComponent):
            raise BY_CATALOG["visible"](asked, ())
        return found

    async def admit_resource(self, uri: str) -> ResolvedUri:
        """What `uri` stands for, and how it is read.

        Raises:
            CodeCallError: as for `admit`; `ResourceNotFoundError` when there is none.
        """
        asked = AccessRequest("resource", uri)
        if not self._templates:
            self._check(asked)
        self._check(asked, outside=False)
        found = await self._offers.resolve(uri) if self._offers else None
        by_template = isinstance(found, ResolvedUri) and found.entry.name in self._templates
        if not by_template:
            self._check(asked)
        if found is None:
            raise await self.not_found("resource", uri)
        if isinstance(found, HiddenComponent):
            raise BY_CATALOG["visible"](asked, ())
        self._check(AccessRequest("resource", found.uri), outside=not by_template)
        return found

    async def not_found(self, called: CallKind, name: str) -> CodeCallError:
        """The error for a name there is nothing of, with the nearest names that may be asked for."""
        if called == "tool":
            near = await self._view.suggest(name)
        else:
            near = await self._offers.suggest(name, _ALIKE[called]) if self._offers else []
        usable = [candidate for candidate in near if self._refusal(AccessRequest(called, candidate)) is None]
        return BY_CATALOG["absent"](AccessRequest(called, name), usable)

    def permits(self, name: str) -> bool:
        """Whether nothing is against a tool of that name, as far as the name goes."""
        return self._refusal(AccessRequest("tool", name)) is None

    async def find_usable(self, name: str) -> tuple[CatalogEntry, object] | None:
        """The tool of that name, and what the view says it reaches; None for every name that `admit` refuses."""
        entry = await self._view.find(name) if self.permits(name) else None
        return None if entry is None else (entry, await self._view.server_tool(name))

    async def describe(self, name: str) -> JsonObject | None:
        """What `getTool(name)` sees; None for every name that `admit` refuses."""
        return None if self._refusal(AccessRequest("tool", name)) is not None else await self._view.describe(name)

    def _check(self, asked: AccessRequest, *, outside: bool = True) -> None:
        """Raise what refuses it by name; unless `outside`, whatever `allowedTools` says."""
        refusal = self._refusal(asked, outside=outside)
        if refusal is not None:
            raise refusal

    def _refusal(self, asked: AccessRequest, *, outside: bool = True) -> CodeCallError | None:
        allowed = self._allowed if outside else None
        for rule in BY_NAME:
            if rule.applies(asked, allowed):
                return rule.refuse(asked, allowed)
        return None


class RequestNamespaces:
    """The namespaces of one request.

    Args:
        view: the tools this caller can see.
        access: which of them may be called.
    """

    def __init__(self, view: ToolLookup, access: AccessPolicy) -> None:
        self._view = view
        self._access = access
        self._used: NamespaceLookup | None = None
        """Made when a script asks for a namespace: most use none."""

    @property
    def _lookup(self) -> NamespaceLookup:
        if self._used is None:
            self._used = NamespaceLookup(self._access.permits, _near, display_name)
        return self._used

    async def space(self, path: str) -> dict[str, object]:
        """Whether there is a namespace. See `ToolBroker.space`."""
        spaces = await self._view.namespaces()
        # Globs are compared with up to a thousand names.
        return await asyncio.to_thread(self._lookup.namespace, spaces, path)

    async def member(self, path: str, member: str) -> dict[str, object]:
        """What `path.member` is. See `ToolBroker.member`."""
        exists = not path and await self._view.find(member) is not None
        if exists:
            return {"tool": member}
        spaces = await self._view.namespaces()
        found = await asyncio.to_thread(self._lookup.member, spaces, path, member)
        return found.as_dict()

    def missing_tool_error(self, name: str) -> CodeCallError | None:
        """The error for a name that a namespace gave out for a tool it does not have."""
        found = self._used.missing(name) if self._used is not None else None
        if found is None:
            return None
        hint = found.hint or "codecall:search finds tools by what they do."
        return ToolNotFoundError(found.message, tool_name=display_name(name), hint=hint)


def _near(name: str, names: Sequence[str]) -> list[str]:
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    return similar_names(name, names)
