"""What a URI stands for: a listed resource, or one of a listed template; and how FastMCP is asked for it.

A script may spell a URI as it likes, and read only what its caller's listings show. So a URI that fits a template is
spelled anew from its parameters: a percent sign more, or a query, would otherwise lead through the template to a
resource of the server behind it that is hidden here under its plain URI. What FastMCP hides itself it hides under that
one spelling too, and its middleware sees no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import comb
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote, unquote_plus

from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.resources.template import extract_query_params, forward_uri
from pydantic import AnyUrl, ValidationError

from codecall.catalog.apps import Server
from codecall.catalog.entries import CatalogEntry, Kind

Component = Resource | ResourceTemplate | Prompt
"""What a server may offer besides tools, as FastMCP has it."""

MAX_STEPS: Final = 1_000_000
"""Steps that comparing a URI with one template may take at worst, and FastMCP compares it with all of them on the event
loop: about 10 ms. Three wildcards and a thousand slashes would take it 1.5 s."""

_WILDCARD: Final = re.compile(r"\{[^{}?]+\*\}")
_SIMPLE: Final = re.compile(r"\{[^{}?*]+\}")
_SEPARATORS: Final = re.compile(r"[/\\]")


class Readable(NamedTuple):
    """What a URI stands for, and how FastMCP is asked for it."""

    entry: CatalogEntry
    """Of the resource, or of the template that the URI fits."""
    uri: str
    """The one spelling under which it is read."""
    version: str | None
    """Of a resource that has versions: the one that is listed."""


class Hidden(NamedTuple):
    """In the place of what the caller sees and CodeCall may not use."""


HIDDEN: Final = Hidden()


class Listed(Protocol):
    """What one caller sees; `catalog.offers.Offers` is one."""

    async def listed(self, kind: Kind) -> Mapping[str, Component]:
        """What FastMCP lists for this caller, by name."""
        ...

    async def find(self, kind: Kind, name: str) -> CatalogEntry | Hidden | None:
        """The one of exactly that name."""
        ...


def for_apps(uri: str) -> bool:
    """Whether hosts show it to people, and no model reads it: the pages of apps."""
    return uri.strip().casefold().startswith("ui:")


async def resolve(uri: str, server: Server, offers: Listed) -> Readable | Hidden | None:
    """What FastMCP would read at `uri`, if the caller sees it in a listing; None if not."""
    if not uri.isprintable() or for_apps(uri):
        return None
    found = await _resource(uri, offers)
    return found if found is not None else await _of_template(uri, server, offers)


async def _resource(uri: str, offers: Listed) -> Readable | Hidden | None:
    """The resource of that URI, spelled as it was declared or as clients would spell it."""
    for spelling in (uri, _normal(uri)):
        entry = await offers.find("resource", spelling)
        if entry is not None:
            return HIDDEN if isinstance(entry, Hidden) else Readable(entry, spelling, entry.version)
    return None


async def _of_template(uri: str, server: Server, offers: Listed) -> Readable | Hidden | None:
    templates = await offers.listed("template")
    if any(_steps(uri, template) > MAX_STEPS for template in templates):
        return None
    fits = (isinstance(item, ResourceTemplate) and item.matches(uri) is not None for item in templates.values())
    template = await _template(uri, server, templates) if any(fits) and not _climbs(uri) else None
    if template is None:
        return None
    parameters = template.matches(uri)
    spelled = _spelled(template.uri_template, parameters or {}, uri)
    found = await _resource(spelled, offers)
    if found is not None:
        return found
    # Whatever the query: servers that know none read what the path names.
    path = spelled.partition("?")[0]
    if isinstance(await _resource(path, offers), Hidden):
        return HIDDEN
    again = await _template(spelled, server, templates)
    same = again and again.uri_template == template.uri_template and again.matches(spelled) == parameters
    if not same or await _unlisted({spelled, path}, server, offers):
        return None
    entry = await offers.find("template", template.uri_template)
    return Readable(entry, spelled, None) if isinstance(entry, CatalogEntry) else entry


def _spelled(template: str, parameters: dict[str, object], uri: str) -> str:
    """`uri` anew: its path from the parameters, of its query what the template names, as FastMCP compares it too."""
    path, _, query = (uri if "#" in template else uri.partition("#")[0]).partition("?")
    names = extract_query_params(template)
    kept = "&".join(pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) in names)
    return forward_uri(template, parameters, f"{path}?{kept}" if kept else path)


async def _template(uri: str, server: Server, listed: Mapping[str, Component]) -> ResourceTemplate | None:
    """The template with which FastMCP would read `uri`; None when that very one is not listed."""
    template = await server.get_resource_template(uri)
    if template is None or template.matches(uri) is None:
        return None
    shown = listed.get(template.uri_template)
    return None if shown is None or shown.version != template.version else template


async def _unlisted(uris: set[str], server: Server, offers: Listed) -> bool:
    """Whether there is a resource of just one of these URIs, which FastMCP would read and has not listed."""
    spellings = (uris | set(map(_normal, uris))) - (await offers.listed("resource")).keys()
    return any([await server.get_resource(spelling) is not None for spelling in spellings])


def _steps(uri: str, template: str) -> int:
    """How long comparing them may take: in how many ways the variables of `template` may divide `uri` among them."""
    scheme = template.partition(":")[0]
    if "{" not in scheme and not uri.startswith(f"{scheme}:"):
        return 0
    together = max(len(_SIMPLE.findall(segment)) for segment in template.split("/"))
    longest = max(map(len, uri.split("/")))
    return comb(len(uri), len(_WILDCARD.findall(template))) * (comb(longest, together) if together > 1 else 1)


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
