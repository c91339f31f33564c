"""What a URI stands for: a listed resource, or one of a listed template; and how FastMCP is asked for it.

A script may spell a URI as it likes, and read only what its caller's listings show. So a URI that fits a template is
spelled anew from its parameters: a percent sign more, or a query, would otherwise lead through the template to a
resource of the server behind it that is hidden here under its plain URI. What FastMCP hides itself it hides under that
one spelling too, and its middleware sees no other.
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
"""What a server may offer besides tools, as FastMCP has it."""

T = TypeVar("T")

MAX_MATCH_STEPS: Final = 200_000
"""Steps that comparing a URI with all templates of a server together may take at worst, as `catalog/matching.py` counts
them: about 2 ms. One read of a resource compares it some six times, on the event loop."""

_SEPARATORS: Final = re.compile(r"[/\\]")

_QUERY: Final = re.compile(r"\{\?[^}]+\}")
_VARIABLES: Final = re.compile(r"(\{[^}]+\})")
_CHARACTERS: Final = re.compile(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
"""What stands in a URI as it is (RFC 3986, 2.2), besides letters, digits and `-._~`."""

_Literal = tuple[tuple[str, ...], ...]
"""A text in pieces, each with its spellings."""


class ResolvedUri(NamedTuple):
    """What a URI stands for, and how FastMCP is asked for it."""

    entry: CatalogEntry
    """Of the resource, or of the template that the URI fits."""
    uri: str
    """The one spelling under which it is read."""
    version: str | None
    """Of a resource that has versions: the one that is listed."""


class HiddenComponent(NamedTuple):
    """In the place of what the caller sees and CodeCall may not use."""


HIDDEN: Final = HiddenComponent()


class DeclaredUris(NamedTuple):
    """What the providers of a server have, for whomever and enabled or not."""

    resources: frozenset[str]
    """URIs. FastMCP reads at none of them by a template, even where it hides the resource."""
    templates: frozenset[str]
    """URI templates. FastMCP compares every other URI with all of them."""


class ListedComponents(Protocol):
    """What one caller sees; `catalog.offers.ComponentView` is one."""

    async def list_components(self, kind: Kind) -> Mapping[str, UriComponent]:
        """What FastMCP lists for this caller, by name."""
        ...

    async def find(self, kind: Kind, name: str) -> CatalogEntry | HiddenComponent | None:
        """The one of exactly that name."""
        ...

    async def declared_uris(self) -> DeclaredUris:
        """All that the server has a URI for."""
        ...


def is_app_page(uri: str) -> bool:
    """Whether hosts show it to people, and no model reads it: the pages of apps."""
    return uri.strip().casefold().startswith("ui:")


async def resolve_uri(
    uri: str, server: FastMCPServer, components: ListedComponents
) -> ResolvedUri | HiddenComponent | None:
    """What FastMCP would read at `uri`, if the caller sees it in a listing; None if not."""
    if not uri.isprintable() or is_app_page(uri):
        return None
    found = await _resource(uri, components)
    return found if found is not None else await _of_template(uri, server, components)


async def declared_uris(server: FastMCPServer) -> DeclaredUris:
    """All that `server` has a URI for.

    What mounted servers have is part of it; what a server behind a proxy hides or compares is its own affair.
    """
    resources = await _all(server, lambda provider: provider.list_resources(), Namespace.list_resources)
    templates = await _all(
        server, lambda provider: provider.list_resource_templates(), Namespace.list_resource_templates
    )
    return DeclaredUris(
        frozenset(str(item.uri) for item in resources), frozenset(item.uri_template for item in templates)
    )


def match_steps(uri: str, template: str, most: int) -> int:
    """Steps that `re` takes at worst to compare the two, of 4 to 12 ns each; 0 where the first text differs.

    Never fewer than it takes, but beyond `most` the counting ends. A `uri` of printable characters is expected.
    """
    path = (uri if "#" in template else uri.partition("#")[0]).partition("?")[0]
    head, parts = _taken_apart(template)
    reached = _past(head, path, {0: 1})
    taken = 0
    for place, part in enumerate(parts, 1):
        taken += sum(ways * (_reach(path, start, wide=part.wide) - start + 1) for start, ways in reached.items())
        if not reached or taken > most:
            break
        ends: Iterable[int]
        if part.after:
            first = {spelling[0] for spelling in part.after[0]}
            ends = [end for end, char in enumerate(path) if char in first]
        else:
            ends = (len(path),) if place == len(parts) else range(1, len(path) + 1)
        reached = _through(path, reached, ends, wide=part.wide)
        taken += part.length * sum(reached.values())
        reached = _past(part.after, path, reached)
    return taken


async def _resource(uri: str, offers: ListedComponents) -> ResolvedUri | HiddenComponent | None:
    """The resource of that URI, spelled as it was declared or as clients would spell it."""
    for spelling in (uri, _normal(uri)):
        entry = await offers.find("resource", spelling)
        if entry is not None:
            return HIDDEN if isinstance(entry, HiddenComponent) else ResolvedUri(entry, spelling, entry.version)
    return None


async def _all(
    provider: Provider,
    listing: Callable[[Provider], Awaitable[Sequence[T]]],
    renaming: Callable[[Namespace, Sequence[T]], Awaitable[Sequence[T]]],
) -> Sequence[T]:
    inner = inner_provider(provider)
    if isinstance(provider, FastMCPProvider):
        inner = provider.server
    found: Sequence[T]
    if inner is not None:
        found = await _all(inner, listing, renaming)
    elif isinstance(provider, AggregateProvider):
        parts = (_all(member, listing, renaming) for member in provider.providers)
        lists = await asyncio.gather(*parts, return_exceptions=True)
        # FastMCP too goes on without a provider that fails.
        found = [item for part in lists if not isinstance(part, BaseException) for item in part]
    else:
        return await listing(provider)
    # Other transforms may leave out what is there all the same.
    for transform in provider.transforms:
        if isinstance(transform, Namespace):
            found = await renaming(transform, found)
    return found


async def _affordable(uri: str, offers: ListedComponents) -> bool:
    """Whether FastMCP may compare `uri` with every template; lets other tasks of the event loop have their turn."""
    await asyncio.sleep(0)
    left = MAX_MATCH_STEPS
    async for template in iterate_cooperatively(
        {*await offers.list_components("template"), *(await offers.declared_uris()).templates}
    ):
        left -= match_steps(uri, template, left)
        if left < 0:
            return False
    return True


async def _of_template(
    uri: str, server: FastMCPServer, offers: ListedComponents
) -> ResolvedUri | HiddenComponent | None:
    templates = await offers.list_components("template")
    if not templates or _climbs(uri) or not await _affordable(uri, offers):
        return None
    fits = (isinstance(item, ResourceTemplate) and item.matches(uri) is not None for item in templates.values())
    template = await _template(uri, server, templates) if any(fits) else None
    if template is None:
        return None
    spelled = _spelled(template.uri_template, template.matches(uri) or {}, uri)
    # What was looked at so far was spelled otherwise: `%75i:` is `ui:` now, and `%2D` a hyphen to divide the text at.
    if is_app_page(unquote(spelled)) or (spelled != uri and not await _affordable(spelled, offers)):
        return None
    found = await _resource(spelled, offers)
    return found if found is not None else await _by_template(uri, spelled, template, server, offers)


async def _by_template(
    uri: str, spelled: str, template: ResourceTemplate, server: FastMCPServer, offers: ListedComponents
) -> ResolvedUri | HiddenComponent | None:
    """What FastMCP would read at `spelled` by `template`, which fits `uri`; None where something else is in the way."""
    # Whatever the query: servers that know none read what the path names. And a resource is hidden under its own
    # spelling, which need not be the one of the template.
    path = spelled.partition("?")[0]
    plain = (path, unquote(path))
    if any([isinstance(await _resource(spelling, offers), HiddenComponent) for spelling in plain]):
        return HIDDEN
    again = await _template(spelled, server, await offers.list_components("template"))
    same = again and again.uri_template == template.uri_template and again.matches(spelled) == template.matches(uri)
    if not same or await _unlisted({uri, spelled, *plain}, server, offers):
        return None
    entry = await offers.find("template", template.uri_template)
    return ResolvedUri(entry, spelled, None) if isinstance(entry, CatalogEntry) else entry


def _spelled(template: str, parameters: dict[str, object], uri: str) -> str:
    """`uri` anew: its path from the parameters, of its query what the template names, as FastMCP compares it too."""
    path, _, query = (uri if "#" in template else uri.partition("#")[0]).partition("?")
    names = extract_query_params(template)
    kept = "&".join(pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) in names)
    return forward_uri(template, parameters, f"{path}?{kept}" if kept else path)


async def _template(uri: str, server: FastMCPServer, listed: Mapping[str, UriComponent]) -> ResourceTemplate | None:
    """The template with which FastMCP would read `uri`; None when that very one is not listed."""
    template = await server.get_resource_template(uri)
    if template is None or template.matches(uri) is None:
        return None
    shown = listed.get(template.uri_template)
    return None if shown is None or shown.version != template.version else template


async def _unlisted(uris: set[str], server: FastMCPServer, offers: ListedComponents) -> bool:
    """Whether there is a resource of just one of these URIs that FastMCP has not listed, hidden or not."""
    spellings = (uris | set(map(_normal, uris))) - (await offers.list_components("resource")).keys()
    if not spellings.isdisjoint((await offers.declared_uris()).resources):
        return True
    # Of providers that list less than they have.
    return any([await server.get_resource(spelling) is not None for spelling in spellings])


def _climbs(uri: str) -> bool:
    """Whether a segment of its path is `.` or `..`: whoever resolves it later reads another URI than was looked at."""
    path = uri.partition("#")[0].partition("?")[0]
    return not {".", ".."}.isdisjoint(_SEPARATORS.split(unquote(path)))


def _normal(uri: str) -> str:
    """`uri` as pydantic spells it, and with it FastMCP's clients on their way to another server."""
    try:
        return str(AnyUrl(uri))
    except ValidationError:
        return uri


class _Part(NamedTuple):
    """A variable and the text behind it."""

    wide: bool
    """Whether it may hold slashes."""
    after: _Literal
    length: int
    """Characters of `after`."""


class _Template(NamedTuple):
    """A template taken apart."""

    head: _Literal
    """The text before the first variable: most URIs differ there already."""
    parts: tuple[_Part, ...]


def _through(path: str, reached: Mapping[int, int], ends: Iterable[int], *, wide: bool) -> dict[int, int]:
    """In how many ways a variable that begins at a place `reached` may end at each of `ends`, which are in order."""
    found: dict[int, int] = {}
    starts = sorted(reached, reverse=True)
    ways = reach = 0
    for end in ends:
        while starts and starts[-1] < end:
            start = starts.pop()
            # Whoever began in a segment before this one has come to its end.
            if (here := _reach(path, start, wide=wide)) != reach:
                ways, reach = 0, here
            ways += reached[start]
        if ways and end <= reach:
            found[end] = ways
    return found


def _reach(path: str, start: int, *, wide: bool) -> int:
    """Where a variable that begins at `start` ends at the latest."""
    slash = -1 if wide else path.find("/", start)
    return len(path) if slash < 0 else slash


def _past(literal: _Literal, path: str, reached: dict[int, int]) -> dict[int, int]:
    """In how many ways each place behind `literal` is come to, from those before it."""
    for spellings in literal:
        found: dict[int, int] = {}
        for start, ways in reached.items():
            for spelling in spellings:
                end = start + len(spelling)
                if _alike(path[start:end], spelling):
                    found[end] = found.get(end, 0) + ways
        reached = found
    return reached


def _alike(text: str, spelling: str) -> bool:
    return text == spelling or (len(spelling) > 1 and spelling[0] == "%" and text.lower() == spelling)


@lru_cache(maxsize=4096)
def _taken_apart(template: str) -> _Template:
    head, *rest = _VARIABLES.split(_QUERY.sub("", template))
    parts = [
        _Part(variable.endswith("*}"), _literal(text), len(text))
        for variable, text in zip(rest[::2], rest[1::2], strict=True)
    ]
    return _Template(_literal(head), tuple(parts))


def _literal(text: str) -> _Literal:
    """`text` in pieces: runs that have one spelling, and between them characters that have two, or in any case."""
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
