"""Resolves URIs: which listed resource or resource template a URI stands for, and the spelling under which it is read.

A script may spell a URI as it likes, and read only what its caller's listings show. So a URI that fits a template is
spelled anew from its parameters: an additional percent sign, or a query, would otherwise lead through the template to a
resource of the server behind it that is hidden here under its plain URI. Resources that FastMCP itself hides are hidden
under that one spelling too, and its middleware sees no other. `match_steps` bounds what comparing a URI with the
templates costs, before any are compared.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, unquote, unquote_plus

from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.resources.template import extract_query_params, forward_uri
from fastmcp.server.providers import AggregateProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.transforms import Namespace
from pydantic import AnyUrl, ValidationError

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.fastmcp_internals import inner_provider
from codecall.catalog.entries import CatalogEntry, Kind
from codecall.concurrency import iterate_cooperatively

UriComponent = Resource | ResourceTemplate | Prompt
"""A component besides tools, as FastMCP represents it."""

T = TypeVar("T")

MAX_MATCH_STEPS: Final = 200_000
"""Steps that comparing a URI with all templates of a server together may take at worst, as `match_steps` counts them:
about 2 ms. One read of a resource compares it some six times, on the event loop."""

_SEPARATORS: Final = re.compile(r"[/\\]")

_QUERY: Final = re.compile(r"\{\?[^}]+\}")
_VARIABLES: Final = re.compile(r"(\{[^}]+\})")
_CHARACTERS: Final = re.compile(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
"""The characters that are not escaped in a URI (RFC 3986, 2.2), besides letters, digits and `-._~`."""

_Literal = tuple[tuple[str, ...], ...]
"""A text in pieces, each with its alternative spellings."""


class ResolvedUri(NamedTuple):
    """The component that a URI stands for, and how it is read from FastMCP."""

    entry: CatalogEntry
    """The entry of the resource, or of the template that the URI fits."""
    uri: str
    """The one spelling under which the resource is read."""
    version: str | None
    """The listed version of a resource that has versions."""


class HiddenComponent(NamedTuple):
    """Stands for a component that the caller sees and CodeCall may not use."""


HIDDEN: Final = HiddenComponent()


class DeclaredUris(NamedTuple):
    """The URIs of all components that a server's providers declare, for any caller and enabled or not."""

    resources: frozenset[str]
    """URIs of resources. FastMCP reads none of them by a template, even where it hides the resource."""
    templates: frozenset[str]
    """URI templates. FastMCP compares every other URI with all of them."""


class ListedComponents(Protocol):
    """What one caller sees; `catalog.offers.ComponentView` is one."""

    async def list_components(self, kind: Kind) -> Mapping[str, UriComponent]:
        """Returns what FastMCP lists of one kind for this caller, by name."""
        ...

    async def find(self, kind: Kind, name: str) -> CatalogEntry | HiddenComponent | None:
        """Finds the component of exactly that name."""
        ...

    async def declared_uris(self) -> DeclaredUris:
        """Returns all URIs and URI templates of the server."""
        ...


def is_app_page(uri: str) -> bool:
    """Whether a URI is that of an app's page, which hosts show to people and no model reads."""
    return uri.strip().casefold().startswith("ui:")


async def resolve_uri(
    uri: str, server: FastMCPServer, components: ListedComponents
) -> ResolvedUri | HiddenComponent | None:
    """Resolves what FastMCP would read at `uri`; returns None if the caller does not see it in a listing."""
    if not uri.isprintable() or is_app_page(uri):
        return None
    resource = await _resource(uri, components)
    return resource if resource is not None else await _from_template(uri, server, components)


async def declared_uris(server: FastMCPServer) -> DeclaredUris:
    """Collects all URIs and URI templates that `server` declares.

    Those of mounted servers are included; what a server behind a proxy hides or compares is its own affair.
    """
    resources = await _collect(server, lambda provider: provider.list_resources(), Namespace.list_resources)
    templates = await _collect(
        server, lambda provider: provider.list_resource_templates(), Namespace.list_resource_templates
    )
    return DeclaredUris(
        frozenset(str(item.uri) for item in resources), frozenset(item.uri_template for item in templates)
    )


def match_steps(uri: str, template: str, limit: int) -> int:
    """Returns the steps that `re` takes at worst to match `uri` with `template`, of 4 to 12 ns each.

    It is 0 where the text before the first variable differs, and never too low, but counting ends beyond `limit`. `uri`
    must have printable characters only.
    """
    path = (uri if "#" in template else uri.partition("#")[0]).partition("?")[0]
    head, parts = _parse_template(template)
    reached = _after_literal(head, path, {0: 1})
    steps = 0
    for place, part in enumerate(parts, 1):
        steps += sum(ways * (_last_end(path, start, wide=part.wide) - start + 1) for start, ways in reached.items())
        if not reached or steps > limit:
            break
        ends: Iterable[int]
        if part.after:
            first = {spelling[0] for spelling in part.after[0]}
            ends = [end for end, char in enumerate(path) if char in first]
        else:
            ends = (len(path),) if place == len(parts) else range(1, len(path) + 1)
        reached = _after_variable(path, reached, ends, wide=part.wide)
        steps += part.length * sum(reached.values())
        reached = _after_literal(part.after, path, reached)
    return steps


async def _resource(uri: str, components: ListedComponents) -> ResolvedUri | HiddenComponent | None:
    """The resource of that URI, spelled as it was declared or as clients would spell it."""
    for spelling in (uri, _normalized(uri)):
        entry = await components.find("resource", spelling)
        if entry is not None:
            return HIDDEN if isinstance(entry, HiddenComponent) else ResolvedUri(entry, spelling, entry.version)
    return None


async def _collect(
    provider: Provider,
    listing: Callable[[Provider], Awaitable[Sequence[T]]],
    renaming: Callable[[Namespace, Sequence[T]], Awaitable[Sequence[T]]],
) -> Sequence[T]:
    inner = inner_provider(provider)
    if isinstance(provider, FastMCPProvider):
        inner = provider.server
    components: Sequence[T]
    if inner is not None:
        components = await _collect(inner, listing, renaming)
    elif isinstance(provider, AggregateProvider):
        listings = (_collect(member, listing, renaming) for member in provider.providers)
        results = await asyncio.gather(*listings, return_exceptions=True)
        # FastMCP too goes on without a provider that fails.
        components = [item for part in results if not isinstance(part, BaseException) for item in part]
    else:
        return await listing(provider)
    # Other transforms may leave out what is there all the same.
    for transform in provider.transforms:
        if isinstance(transform, Namespace):
            components = await renaming(transform, components)
    return components


async def _affordable(uri: str, components: ListedComponents) -> bool:
    """Whether FastMCP may match `uri` with every template within `MAX_MATCH_STEPS`; yields to other tasks meanwhile."""
    await asyncio.sleep(0)
    remaining = MAX_MATCH_STEPS
    async for template in iterate_cooperatively(
        {*await components.list_components("template"), *(await components.declared_uris()).templates}
    ):
        remaining -= match_steps(uri, template, remaining)
        if remaining < 0:
            return False
    return True


async def _from_template(
    uri: str, server: FastMCPServer, components: ListedComponents
) -> ResolvedUri | HiddenComponent | None:
    templates = await components.list_components("template")
    if not templates or _has_dot_segments(uri) or not await _affordable(uri, components):
        return None
    fits = (isinstance(item, ResourceTemplate) and item.matches(uri) is not None for item in templates.values())
    template = await _listed_template(uri, server, templates) if any(fits) else None
    if template is None:
        return None
    spelled = _respelled(template.uri_template, template.matches(uri) or {}, uri)
    # What was looked at so far was spelled otherwise: `%75i:` is `ui:` now, and `%2D` a hyphen to divide the text at.
    if is_app_page(unquote(spelled)) or (spelled != uri and not await _affordable(spelled, components)):
        return None
    resource = await _resource(spelled, components)
    return resource if resource is not None else await _by_template(uri, spelled, template, server, components)


async def _by_template(
    uri: str, spelled: str, template: ResourceTemplate, server: FastMCPServer, components: ListedComponents
) -> ResolvedUri | HiddenComponent | None:
    """What FastMCP would read at `spelled` by `template`, which fits `uri`; None where another component comes
    first."""
    # Whatever the query: servers that know none read what the path names. And a resource is hidden under its own
    # spelling, which need not be the one of the template.
    path = spelled.partition("?")[0]
    path_spellings = (path, unquote(path))
    if any([isinstance(await _resource(spelling, components), HiddenComponent) for spelling in path_spellings]):
        return HIDDEN
    template_again = await _listed_template(spelled, server, await components.list_components("template"))
    same = (
        template_again
        and template_again.uri_template == template.uri_template
        and template_again.matches(spelled) == template.matches(uri)
    )
    if not same or await _is_unlisted({uri, spelled, *path_spellings}, server, components):
        return None
    entry = await components.find("template", template.uri_template)
    return ResolvedUri(entry, spelled, None) if isinstance(entry, CatalogEntry) else entry


def _respelled(template: str, parameters: dict[str, object], uri: str) -> str:
    """Spells `uri` anew: its path from the parameters, and of its query what the template names, as FastMCP matches
    it."""
    path, _, query = (uri if "#" in template else uri.partition("#")[0]).partition("?")
    names = extract_query_params(template)
    query_pairs = "&".join(pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) in names)
    return forward_uri(template, parameters, f"{path}?{query_pairs}" if query_pairs else path)


async def _listed_template(
    uri: str, server: FastMCPServer, listed: Mapping[str, UriComponent]
) -> ResourceTemplate | None:
    """The template by which FastMCP would read `uri`; None when that very template is not listed."""
    template = await server.get_resource_template(uri)
    if template is None or template.matches(uri) is None:
        return None
    listed_template = listed.get(template.uri_template)
    return None if listed_template is None or listed_template.version != template.version else template


async def _is_unlisted(uris: set[str], server: FastMCPServer, components: ListedComponents) -> bool:
    """Whether there is a resource with one of these URIs that FastMCP has not listed, hidden or not."""
    spellings = (uris | set(map(_normalized, uris))) - (await components.list_components("resource")).keys()
    if not spellings.isdisjoint((await components.declared_uris()).resources):
        return True
    # Of providers that list less than they have.
    return any([await server.get_resource(spelling) is not None for spelling in spellings])


def _has_dot_segments(uri: str) -> bool:
    """Whether a segment of the path is `.` or `..`: a server that resolves it later reads another URI than was
    checked."""
    path = uri.partition("#")[0].partition("?")[0]
    return not {".", ".."}.isdisjoint(_SEPARATORS.split(unquote(path)))


def _normalized(uri: str) -> str:
    """Spells `uri` as pydantic does, and so do FastMCP's clients that pass it to another server."""
    try:
        return str(AnyUrl(uri))
    except ValidationError:
        return uri


class _VariablePart(NamedTuple):
    """A variable and the text behind it."""

    wide: bool
    """Whether the variable may contain slashes."""
    after: _Literal
    length: int
    """The length of `after` in characters."""


class _ParsedTemplate(NamedTuple):
    """A template, parsed."""

    head: _Literal
    """The text before the first variable: most URIs differ there already."""
    parts: tuple[_VariablePart, ...]


def _after_variable(path: str, reached: Mapping[int, int], ends: Iterable[int], *, wide: bool) -> dict[int, int]:
    """In how many ways a variable that begins at a position in `reached` may end at each of `ends`, which are in
    order."""
    ways_by_end: dict[int, int] = {}
    starts = sorted(reached, reverse=True)
    ways = reach = 0
    for end in ends:
        while starts and starts[-1] < end:
            start = starts.pop()
            # A variable that began in an earlier segment has ended there.
            if (here := _last_end(path, start, wide=wide)) != reach:
                ways, reach = 0, here
            ways += reached[start]
        if ways and end <= reach:
            ways_by_end[end] = ways
    return ways_by_end


def _last_end(path: str, start: int, *, wide: bool) -> int:
    """The last position at which a variable that begins at `start` may end."""
    slash = -1 if wide else path.find("/", start)
    return len(path) if slash < 0 else slash


def _after_literal(literal: _Literal, path: str, reached: dict[int, int]) -> dict[int, int]:
    """In how many ways each position behind `literal` is reached, from the positions before it."""
    for spellings in literal:
        ways_by_end: dict[int, int] = {}
        for start, ways in reached.items():
            for spelling in spellings:
                end = start + len(spelling)
                if _is_spelling(path[start:end], spelling):
                    ways_by_end[end] = ways_by_end.get(end, 0) + ways
        reached = ways_by_end
    return reached


def _is_spelling(text: str, spelling: str) -> bool:
    return text == spelling or (len(spelling) > 1 and spelling[0] == "%" and text.lower() == spelling)


@lru_cache(maxsize=4096)
def _parse_template(template: str) -> _ParsedTemplate:
    head, *rest = _VARIABLES.split(_QUERY.sub("", template))
    parts = [
        _VariablePart(variable.endswith("*}"), _literal(text), len(text))
        for variable, text in zip(rest[::2], rest[1::2], strict=True)
    ]
    return _ParsedTemplate(_literal(head), tuple(parts))


def _literal(text: str) -> _Literal:
    """Splits `text` into runs with one spelling, and between them characters with two, or in any letter case."""
    pieces: list[tuple[str, ...]] = []
    plain = ""
    for char in _CHARACTERS.findall(text):
        coded = char if len(char) > 1 else quote(char, safe=_RESERVED, errors="surrogatepass")
        if coded == char and len(char) == 1:
            plain += char
            continue
        if plain:
            pieces.append((plain,))
        plain = ""
        pieces.append((coded.lower(),) if len(char) > 1 else (char, coded.lower()))
    return tuple([*pieces, (plain,)] if plain else pieces)
