"""URLs of servers: which may stand in options, and what of one may be shown."""

from __future__ import annotations

import re
from typing import Final

_PLAIN_PATHS: Final = frozenset({"", "/", "/mcp", "/mcp/", "/sse", "/sse/"})


def explain_url(url: str) -> str | None:
    """What keeps `url` from being one of a server; None: nothing. Programs read such URLs differently, so that a person
    may be shown another host than the one that gets the secrets."""
    if "#" in url:
        return "a URL of a server has no fragment; # in a part of it is written %23"
    if "\\" in url:
        return "a backslash is in the URL; in a part of it, it is written %5C"
    if not url.isprintable() or " " in url:
        return "a blank, a line break or another control character is in the URL"
    return None


def url_without_secrets(url: str) -> str:
    """A URL without what may be a secret: user, query, and the path, in which some services put a key."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url.partition("?")[0]
    path = rest[len(_authority(url)) :]
    shown = path.partition("?")[0]
    return f"{scheme}://{url_address(url)}{shown if shown in _PLAIN_PATHS else '/…'}"


def url_address(url: str) -> str:
    """The host and the port of a URL as it is written, references included; empty where it has none."""
    # A letter that looks like another is shown as what it is.
    return _authority(url).rpartition("@")[2].encode("ascii", "backslashreplace").decode()


def _authority(url: str) -> str:
    # Programs differ in whether a backslash ends it. What comes first is shown: it may be where a request goes.
    return re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]
