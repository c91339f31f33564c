"""Decides whether a script may call a tool, read a resource or render a prompt.

BY_NAME and BY_CATALOG are the whole policy, in the order in which it is applied. The rules of BY_NAME look at the name
alone, so that their answer is the same whether or not such a component exists. Only a name that passes them is looked
up; BY_CATALOG says what follows from what the caller can see. Nothing here widens what FastMCP shows the caller: view
and components are FastMCP's own listings for that caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from codecall.catalog.entries import CatalogEntry, JsonObject, Kind
from codecall.catalog.uris import HiddenComponent, ResolvedUri
from codecall.catalog.visibility import is_reserved
from codecall.errors import NOT_FOUND, AccessDeniedError, CallKind, CodeCallError, SelfReferenceError, ToolNotFoundError
from codecall.errors.hints import DEFAULT_HINTS, LISTING_WORDS, function_hint, listing_hint
from codecall.globs import MAX_NAME_CHARS, MAX_URI_CHARS, Patterns, display_name
from codecall.namespaces import NamespaceLookup, Namespaces
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.wording import join_names

MAX_LISTED_NAMES: Final = 10
"""Names a hint lists before it says how many more there are."""

MAX_SUGGESTIONS: Final = 5
"""Unknown names of one script for which tools are suggested that do what the name says."""

_SUGGESTION_KINDS: Final[dict[CallKind, tuple[Kind, ...]]] = {
    "resource": ("resource", "template"),
    "prompt": ("prompt",),
}
"""The kinds of components among which similar names are looked for, by the kind of the call."""

_OTHER_KINDS: Final[dict[CallKind, str]] = {
    "prompt": "`await getPrompt({name}, {{…}})` gets it",
    "resource": "`await readResource({name})` reads it",
}
"""How a script gets what it takes for a tool."""


class ToolLookup(Protocol):
    """The part of the catalog of tools that the rules and the broker need; `catalog.view.CatalogView` has it."""

    async def find(self, name: str) -> CatalogEntry | None:
        """The tool of exactly that name, if this caller and CodeCall may use it."""
        ...

    async def server_tool(self, name: str) -> object:
        """The tool that a call of that name reaches, FastMCP's own; None where the server has to be asked."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether this caller can see a tool of that name, usable by CodeCall or not."""
        ...

    async def retry_lookup(self, name: str) -> bool:
        """Look for a tool that is missing where it may come from; whether there are others now."""
        ...

    def unlisted(self, name: str | None = None) -> list[str]:
        """Why a tool may be missing: a sentence for each source that has not told its own."""
        ...

    async def suggest(self, name: str) -> list[str]:
        """Names like this one among the usable tools, best first."""
        ...

    async def describe(self, name: str) -> JsonObject | None:
        """The tool as `getTool(name)` returns it; None if there is none."""
        ...

    async def namespaces(self) -> Namespaces:
        """The namespaces of the usable tools."""
        ...

    def fresh_copy(self) -> ToolLookup:
        """The same, reading what there is from now on."""
        ...


class ComponentLookup(Protocol):
    """The part of the catalog of resources and prompts that the rules need; `ComponentView` has it."""

    async def resolve(self, uri: str) -> ResolvedUri | HiddenComponent | None:
        """The resource that `uri` names: a listed one, or one of a listed template."""
        ...

    async def find(self, kind: Kind, name: str) -> CatalogEntry | HiddenComponent | None:
        """The component of exactly that name; `HiddenComponent` if the caller sees it and CodeCall may not use it."""
        ...

    async def suggest(self, name: str, kinds: Collection[Kind]) -> list[str]:
        """Names like this one among the usable components of these kinds, best first."""
        ...

    def fresh_copy(self) -> ComponentLookup:
        """The same, reading what there is from now on."""
        ...


class AccessPolicy:
    """The rules for one request.

    Args:
        view: the tools this caller can see.
        allowed_tools: names, URIs or globs that may be called; None allows all, an empty list none. The URI template of
            a template stands for all that fits it.
        components: the resources and prompts this caller can see; without it there are none.
        composite: name of the composite tool whose calls these are: what it calls is its operator's choice, and no
            error says the name of what this caller cannot see. Empty: the caller has chosen.
    """

    def __init__(
        self,
        view: ToolLookup,
        allowed_tools: Sequence[str] | None,
        components: ComponentLookup | None = None,
        composite: str = "",
    ) -> None:
        self.view = view
        """The tools this caller can see."""
        self._components = components
        self.composite = composite
        entries = tuple(allowed_tools or ())
        shown = () if composite else entries
        self._allowed = None if allowed_tools is None else AllowedTools(entries, Patterns(entries), shown)
        self._templates = frozenset(name for name in allowed_tools or () if "{" in name)
        """The entries of `allowed_tools` that may name a template: URIs are looked up before they are refused."""

    async def prepare(self) -> None:
        """Make the view read and keep its listing, if any name could pass the rules."""
        if self._allowed is None or self._allowed.entries:
            await self.view.exists("")
        if self.composite and self._allowed is not None:
            seen = [name for name in self._allowed.entries if await self.view.find(name) is not None]
            self._allowed = self._allowed._replace(shown=tuple(seen))

    def refresh(self) -> None:
        """Look up names in what there is from now on."""
        self.view = self.view.fresh_copy()
        self._components = self._components.fresh_copy() if self._components is not None else None

    async def admit(self, name: str, *, suggest: bool = True) -> CatalogEntry:
        """The tool of that name.

        Args:
            name: name of the tool.
            suggest: whether the error for an unknown name suggests similar ones.

        Raises:
            SelfReferenceError: it is a meta-tool.
            AccessDeniedError: the name is reserved, outside `allowed_tools`, or not available to CodeCall.
            ToolNotFoundError: no such tool exists, this caller cannot see it, or no tool can have the name.
        """
        request = AccessRequest("tool", name)
        self._check(request)
        entry = await self.view.find(name)
        if entry is not None:
            return entry
        if await self.view.exists(name):
            raise BY_CATALOG["visible"](request, ())
        raise await self.not_found("tool", name, suggest=suggest)

    async def refusal(self, name: str) -> CodeCallError | None:
        """Why a tool that this caller sees is not available to CodeCall; None for all others."""
        if not self.permits(name) or not await self.view.exists(name) or await self.view.find(name) is not None:
            return None
        return BY_CATALOG["visible"](AccessRequest("tool", name), ())

    async def admit_prompt(self, name: str) -> CatalogEntry:
        """The prompt of that name.

        Raises:
            CodeCallError: as for `admit`; `PromptNotFoundError` when there is none.
        """
        request = AccessRequest("prompt", name)
        self._check(request)
        prompt = await self._components.find("prompt", name) if self._components else None
        if prompt is None:
            raise await self.not_found("prompt", name)
        if isinstance(prompt, HiddenComponent):
            raise BY_CATALOG["visible"](request, ())
        return prompt

    async def admit_resource(self, uri: str) -> ResolvedUri:
        """The resource that `uri` names, and how it is read.

        Raises:
            CodeCallError: as for `admit`; `ResourceNotFoundError` when there is none.
        """
        request = AccessRequest("resource", uri)
        if not self._templates:
            self._check(request)
        self._check(request, check_allowed=False)
        resource = await self._components.resolve(uri) if self._components else None
        by_template = isinstance(resource, ResolvedUri) and resource.entry.name in self._templates
        if not by_template:
            self._check(request)
        if resource is None:
            raise await self.not_found("resource", uri)
        if isinstance(resource, HiddenComponent):
            raise BY_CATALOG["visible"](request, ())
        self._check(AccessRequest("resource", resource.uri), check_allowed=not by_template)
        return resource

    async def not_found(self, called: CallKind, name: str, *, suggest: bool = True) -> CodeCallError:
        """The error for an unknown name; with `suggest` it has the most similar names that may be called."""
        if self.composite:
            return unavailable_error(self.composite, called)
        request, kinds = AccessRequest(called, name), _SUGGESTION_KINDS.get(called)
        suggestions: Sequence[str] = ()
        own = function_hint(name) if suggest and called == "tool" else None
        if suggest and kinds is None and name not in LISTING_WORDS and own is None:
            suggestions = await self.view.suggest(name)
        elif suggest and kinds is not None and self._components is not None:
            suggestions = await self._components.suggest(name, kinds)
        usable = [other for other in suggestions if self._refusal(AccessRequest(called, other)) is None]
        error = BY_CATALOG["absent"](request, usable)
        if own is not None:
            error.hint = own
        elif called == "tool":
            if suggest and name in LISTING_WORDS:
                namespaces = await self.view.namespaces()
                error.hint = listing_hint(await asyncio.to_thread(namespaces.names, self.permits), display_name)
            other = await self._of_another_kind(name) if suggest else ""
            error.hint = " ".join(filter(None, [other, *self.view.unlisted(name), error.hint])) or None
        return error

    async def _of_another_kind(self, name: str) -> str:
        """What a script writes for a name that is no tool's, but a prompt's or a resource's; empty for others."""
        if self._components is None:
            return ""
        for called, how in _OTHER_KINDS.items():
            if self._refusal(AccessRequest(called, name)) is None:
                found = await self._components.find("prompt" if called == "prompt" else "resource", name)
                if isinstance(found, CatalogEntry):
                    return f"There is a {called} of this name; {how.format(name=repr(display_name(name)))}."
        return ""

    def permits(self, name: str) -> bool:
        """Whether a tool of that name passes the rules about names."""
        return self._refusal(AccessRequest("tool", name)) is None

    async def find_usable(self, name: str) -> tuple[CatalogEntry, object] | None:
        """The tool of that name, and the server's tool that a call reaches; None for names that `admit` refuses."""
        entry = await self.view.find(name) if self.permits(name) else None
        return None if entry is None else (entry, await self.view.server_tool(name))

    async def describe(self, name: str) -> JsonObject | None:
        """The tool as `getTool(name)` returns it; None for every name that `admit` refuses."""
        return None if self._refusal(AccessRequest("tool", name)) is not None else await self.view.describe(name)

    def _check(self, request: AccessRequest, *, check_allowed: bool = True) -> None:
        """Raise the error of the first rule that refuses the name; without `check_allowed`, ignore `allowedTools`."""
        error = self._refusal(request, check_allowed=check_allowed)
        if error is not None:
            raise error

    def _refusal(self, request: AccessRequest, *, check_allowed: bool = True) -> CodeCallError | None:
        allowed = self._allowed if check_allowed else None
        for rule in BY_NAME:
            if rule.applies(request, allowed):
                return rule.refuse(request, allowed)
        return None


class RequestNamespaces:
    """Looks up namespaces of tools and their members for one request.

    Args:
        access: the tools this caller can see, and the rules that say which of them may be called.
    """

    def __init__(self, access: AccessPolicy) -> None:
        self._access = access
        self._namespace_lookup: NamespaceLookup | None = None
        """Created when a script looks up a namespace: most scripts use none."""
        self._suggestions = 0

    @property
    def _lookup(self) -> NamespaceLookup:
        if self._namespace_lookup is None:
            self._namespace_lookup = NamespaceLookup(self._access.permits, _similar_names, display_name)
        return self._namespace_lookup

    async def namespace(self, path: str) -> dict[str, object]:
        """Whether a namespace exists, and its first members. See `ToolBroker.namespace`."""
        namespaces = await self._access.view.namespaces()
        # Globs are compared with up to a thousand names.
        found = await asyncio.to_thread(self._lookup.namespace, namespaces, path)
        if "members" not in found and await self._retry_lookup(path):
            namespaces = await self._access.view.namespaces()
            found = await asyncio.to_thread(self._lookup.namespace, namespaces, path)
        if path and not (found.get("members") or found.get("tools")) and self._suggestions < MAX_SUGGESTIONS:
            self._suggestions += 1
            similar = [name for name in await self._access.view.suggest(path) if self._access.permits(name)]
            found["tools"] = [name for name in similar if not namespaces.reads_as_another(name)]
        if "members" not in found and (unlisted := self._access.view.unlisted(f"{path}_")):
            found["unlisted"] = unlisted
        if path and "members" not in found and (refused := await self._access.refusal(path)) is not None:
            found["refused"] = f"{refused.message}. {refused.hint}"
        return found

    async def member(self, path: str, member: str) -> dict[str, object]:
        """The tool or namespace that `path.member` names. See `ToolBroker.member`."""
        exists = not path and await self._access.view.find(member) is not None
        if exists:
            return {"tool": member}
        namespaces = await self._access.view.namespaces()
        result = await asyncio.to_thread(self._lookup.member, namespaces, path, member)
        if path and result.missing and await self._retry_lookup(f"{path}_{member}".replace(".", "_")):
            namespaces = await self._access.view.namespaces()
            result = await asyncio.to_thread(self._lookup.member, namespaces, path, member)
        return result.as_dict()

    async def _retry_lookup(self, name: str) -> bool:
        return self._access.permits(name) and await self._access.view.retry_lookup(name)

    def missing_tool_error(self, name: str) -> CodeCallError | None:
        """The error for a name that a namespace gave for a tool it does not have; None for other names."""
        missing = self._namespace_lookup.missing(name) if self._namespace_lookup is not None else None
        if missing is None:
            return None
        if self._access.composite:
            return unavailable_error(self._access.composite)
        unlisted = self._access.view.unlisted(name.replace(".", "_"))
        hint = " ".join([*unlisted, missing.hint or "codecall:search finds tools by what they do."])
        return ToolNotFoundError(missing.message, tool_name=display_name(name), hint=hint)


class AccessRequest(NamedTuple):
    """The kind and name of the component that a script wants to call."""

    called: CallKind
    name: str

    @property
    def label(self) -> str:
        """The component's name in messages."""
        return f"{self.called.capitalize()} '{display_name(self.name)}'"


class AllowedTools(NamedTuple):
    """The option `allowedTools`: its entries, and the patterns with which names are compared."""

    entries: tuple[str, ...]
    patterns: Patterns
    shown: tuple[str, ...]
    """The entries that an error may name."""


class AccessRule(NamedTuple):
    """One reason to refuse a name before it is looked up."""

    description: str
    applies: Callable[[AccessRequest, AllowedTools | None], bool]
    """Whether the rule refuses the request; called with `allowedTools`, too."""
    refuse: Callable[[AccessRequest, AllowedTools | None], CodeCallError]


def unavailable_error(composite: str, called: CallKind = "tool") -> CodeCallError:
    """The error of a composite tool that needs what its caller cannot see, or what is not there."""
    return NOT_FOUND[called](
        f"Tool '{composite}' needs a {called} that is not available to you",
        tool_name=composite,
    )


def _is_too_long(request: AccessRequest, _allowed: AllowedTools | None) -> bool:
    return len(request.name) > _max_chars(request)


def _too_long_error(request: AccessRequest, _allowed: AllowedTools | None) -> CodeCallError:
    name = "URI" if request.called == "resource" else "name"
    return NOT_FOUND[request.called](
        f"{request.label} was not found",
        tool_name=display_name(request.name),
        called=request.called,
        hint=f"No {request.called} has a {name} of {len(request.name)} characters; {_max_chars(request)} are the most.",
    )


def _max_chars(request: AccessRequest) -> int:
    return MAX_URI_CHARS if request.called == "resource" else MAX_NAME_CHARS


def _names_meta_tool(request: AccessRequest, _allowed: AllowedTools | None) -> bool:
    return is_meta_tool(request.name)


def _self_reference_error(request: AccessRequest, _allowed: AllowedTools | None) -> CodeCallError:
    return SelfReferenceError(display_name(request.name))


def _is_reserved(request: AccessRequest, _allowed: AllowedTools | None) -> bool:
    return is_reserved(request.name)


def _reserved_error(request: AccessRequest, _allowed: AllowedTools | None) -> CodeCallError:
    hint = "Names that begin with system:, internal: or __ cannot be called through CodeCall."
    hint = function_hint(request.name) or hint
    return _access_denied(request, "is reserved", hint)


def _is_not_allowed(request: AccessRequest, allowed: AllowedTools | None) -> bool:
    return allowed is not None and not allowed.patterns.matches(request.name)


def _not_allowed_error(request: AccessRequest, allowed: AllowedTools | None) -> CodeCallError:
    if allowed and allowed.shown:
        hint = f"Allowed here: {join_names(allowed.shown, MAX_LISTED_NAMES, display_name)}."
    elif allowed and allowed.entries:
        hint = f"No {request.called} that is allowed here is available to you."
    else:
        hint = f"allowedTools is empty: no {request.called} may be called here."
    return _access_denied(request, "is not in allowedTools", hint)


BY_NAME: Final[tuple[AccessRule, ...]] = (
    # First: the others read the whole name.
    AccessRule("longer than MAX_NAME_CHARS, a URI than MAX_URI_CHARS", _is_too_long, _too_long_error),
    AccessRule("a CodeCall meta-tool", _names_meta_tool, _self_reference_error),
    AccessRule("system:*, internal:*, __* in any letter case", _is_reserved, _reserved_error),
    AccessRule("outside allowedTools", _is_not_allowed, _not_allowed_error),
)
"""The rules every name is checked with, in this order; the first rule that applies refuses it."""


def _hidden_error(request: AccessRequest, _suggestions: Sequence[str]) -> CodeCallError:
    hint = f"The server's operator has not enabled it for CodeCall; use another {request.called}"
    hint += ", or, if it is in your own list of tools, call it from there." if request.called == "tool" else "."
    return _access_denied(request, "is not available to CodeCall", hint)


def _unknown_error(request: AccessRequest, suggestions: Sequence[str]) -> CodeCallError:
    names = " or ".join(f"'{display_name(candidate)}'" for candidate in suggestions)
    return NOT_FOUND[request.called](
        f"{request.label} was not found",
        tool_name=display_name(request.name),
        called=request.called,
        hint=f"Did you mean {names}?" if names else DEFAULT_HINTS[NOT_FOUND[request.called].code],
    )


BY_CATALOG: Final[dict[Literal["visible", "absent"], Callable[[AccessRequest, Sequence[str]], CodeCallError]]] = {
    "visible": _hidden_error,  # FastMCP shows it to this caller; mode, app_ids or include_tools keep CodeCall out
    "absent": _unknown_error,  # not there, or not for this caller: never told apart
}
"""The errors of names that pass BY_NAME, but name nothing that this caller and CodeCall may use."""


def _access_denied(request: AccessRequest, reason: str, hint: str) -> CodeCallError:
    return AccessDeniedError(
        f"{request.label} {reason}", tool_name=display_name(request.name), called=request.called, hint=hint
    )


def _similar_names(name: str, names: Sequence[str]) -> list[str]:
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    return similar_names(name, names)
