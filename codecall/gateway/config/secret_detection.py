"""Whether a literal value in the options of a server is a secret: by its name, or by how it looks."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from codecall.gateway.config.variables import REFERENCE
from codecall.redaction.masking import Masker

SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey|api-key)\s+", re.IGNORECASE)
"""What may stand before a credential in a header."""

AUTHORIZATION_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-auth"})
"""Headers that sign in, in lower case."""

_PLAIN_WORDS: Final = frozenset(
    {"true", "false", "yes", "no", "on", "off", "0", "1", "none", "oauth", "bearer", "basic", "token"}
)
"""Values that are no secrets, whatever their name."""
_MANY_DIGITS: Final = 6

_SECRET_NAME: Final = re.compile(
    r"(?:.*(?:[\W_]|[a-z](?=[A-Z])))?(?i:key|pw|pin|pass|pat|auth|credentials?)"
    r"|[A-Z0-9_]*(?:KEY|PW|PASS)|(?i:.*(?:passw(?:or)?d|pwd|passphrase|passcode|secret|token|apikey|credentials))"
)
"""Names of settings of servers that hold a secret, beside those that `masking` knows: there `key` is often a field."""

_PUBLIC_KEY: Final = re.compile(r"(?:.*[\W_])?public[\W_]?key", re.IGNORECASE)
_ASK_PASS: Final = re.compile(r"(?:.*(?:[\W_]|[a-z](?=A)))?(?i:ask)[\W_]?(?i:pass)")
"""Names of programs that ask for a password: these are started."""
_DIGIT_SECRET: Final = re.compile(r"(?:.*[\W_])?(?:pin|pw|pwd|pass|passw(?:or)?d|passcode|secret)", re.IGNORECASE)
"""Names of secrets that may be digits alone, however few."""


def is_secret(name: str, value: str) -> bool:
    """Whether a literal `value` under `name` is to be kept out of files: by the name, or by how it looks. References
    are no secrets; their defaults count as literal."""
    literal = _literal(value)
    if not literal or literal.lower() in _PLAIN_WORDS or literal.isdecimal():
        return False
    places: list[str] = []
    # Not by what the environment holds now: what is written must not depend on the shell it is written in.
    Masker(environment=False).mask({name: literal}, "", places)
    return bool(places) or name.lower() in AUTHORIZATION_HEADERS


def is_secret_setting(name: str, value: str) -> bool:
    """`is_secret` for what a server gets in its environment, arguments, headers or a URL's query, where more names than
    elsewhere belong to secrets."""
    if is_secret(name, value):
        return True
    literal = _literal(value)
    if "://" in literal and _query_has_secret(literal):
        return True
    if (
        not literal
        or literal.lower() in _PLAIN_WORDS
        or not _SECRET_NAME.fullmatch(name)
        or _PUBLIC_KEY.fullmatch(name)
        or _ASK_PASS.fullmatch(name)
    ):
        return False
    return not literal.isdecimal() or len(literal) >= _MANY_DIGITS or _DIGIT_SECRET.fullmatch(name) is not None


def _literal(value: str) -> str:
    """The part of `value` that stands in the file itself: without references, and without `Bearer` and the like."""
    literal = REFERENCE.sub(lambda match: "" if match["escaped"] else match["default"] or "", value)
    return SCHEME.sub("", literal + " ").strip()


def _query_has_secret(url: str) -> bool:
    try:
        pairs = parse_qsl(urlsplit(url).query)
    except ValueError:
        return False
    return any("://" not in value and is_secret_setting(name, value) for name, value in pairs)
