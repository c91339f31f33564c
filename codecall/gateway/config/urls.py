"""URLs of servers: which may stand in options, and what of one may be shown."""

from __future__ import annotations

import re
from typing import Final

_PLAIN_PATHS: Final = frozenset({"", "/", "/mcp", "/mcp/", "/sse", "/sse/"})


_SHAPE: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/?#\\]*@)?(?:\[[^\]/?#@\\]+\]|[^/?#@:\[\]\\]+)(?::[0-9]*)?(?=[/?#\\]|\Z)",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")


def is_url(text: str) -> bool:
    """Whether a path or a URL is one of the latter, be it a mistyped one."""
    return "://" in text or re.match("https?:", text, re.IGNORECASE) is not None


def explain_url(url: str) -> str | None:
    """What keeps `url` from being one of a server; None: nothing. Programs read such URLs differently, so that a person
    may be shown another host than the one that gets the secrets."""
    if "#" in url:
        return "a URL of a server has no fragment; # in a part of it is written %23"
    if "\\" in url:
        return "a backslash is in the URL; in a part of it, it is written %5C"
    if not url.isprintable() or " " in url:
        return "a blank, a line break or another control character is in the URL"
    # A start says what is wrong with one that has no more than a host.
    if (is_url(url) or "@" in url) and not url.startswith("${") and _scheme(url) not in {"http", "https"}:
        return (
            "a URL of a server has http:// or https://, a host, and perhaps a port, which is a number; in what stands"
            " before the host, / ? @ are written %2F %3F %40"
        )
    return None


def url_without_secrets(url: str) -> str:
    """A URL without what may be a secret: user, query, and the path, in which some services put a key. Of a mistyped
    one anything may be."""
    scheme, separator, rest = url.partition("://")
    if url.startswith("${"):
        # Its references may stand for anything, and where it leads is shown as far as it is known.
        if not separator:
            return f"…{url.rpartition('@')[2]}" if "@" in url else url.partition("?")[0]
    elif not is_url(url) and re.search(":.*@", url) is None:
        return url.partition("?")[0]
    elif _scheme(url) is None:
        return f"{scheme}://…" if re.fullmatch(r"[A-Za-z][\w+.-]*", scheme) else "…"
    path = rest[len(_authority(url)) :]
    shown = path.partition("?")[0]
    return f"{scheme}://{url_address(url)}{shown if shown in _PLAIN_PATHS else '/…'}"


def url_address(url: str) -> str:
    """The host and the port of a URL as it is written, references included; empty where it has none."""
    # A letter that looks like another is shown as what it is.
    return _authority(url).rpartition("@")[2].encode("ascii", "backslashreplace").decode()


def _scheme(url: str) -> str | None:
    """The scheme of a URL that has a host, and a number as its port if it has one; what references stand for may be
    either."""
    shape = _SHAPE.match(_REFERENCE.sub("0", url))
    return None if shape is None else shape["scheme"].lower()


def _authority(url: str) -> str:
    # Programs differ in whether a backslash ends it. What comes first is shown: it may be where a request goes.
    return re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]
