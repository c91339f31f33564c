"""Tells literal secrets from other values: by their names, by how they look, and by what `redaction` masks."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from codecall.gateway.config.variables import REFERENCE
from codecall.redaction.masking import Masker

SCHEME: Final = re.compile(r"(?:bearer|basic|token|apikey|api-key)\s+", re.IGNORECASE)
_WORDS: Final = frozenset(
    {"true", "false", "yes", "no", "on", "off", "0", "1", "none", "oauth", "bearer", "basic", "token"}
)
"""Values that are no secrets, whatever their name."""
_MANY_DIGITS: Final = 6
AUTHORIZATION_NAMES: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-auth"})
_NAMED: Final = re.compile(
    r"(?:.*(?:[\W_]|[a-z](?=[A-Z])))?(?i:key|pw|pin|pass|pat|auth|credentials?)"
    r"|[A-Z0-9_]*(?:KEY|PW|PASS)|(?i:.*(?:passw(?:or)?d|pwd|passphrase|passcode|secret|token|apikey|credentials))"
)
"""How settings of servers are called that hold a secret, beside what `masking` knows: there `key` is often a field."""

_PUBLIC: Final = re.compile(r"(?:.*[\W_])?public[\W_]?key", re.IGNORECASE)
_DIGITS: Final = re.compile(r"(?:.*[\W_])?(?:pin|pw|pwd|pass|passw(?:or)?d|passcode|secret)", re.IGNORECASE)
"""Names of secrets that may be digits alone, however few."""


def is_secret(name: str, value: str) -> bool:
    """Whether a literal `value` under `name` is a secret, by the name or by how it looks. A value of references alone
    is none; their defaults count as literal."""
    literal = _literal(value)
    if not literal or literal.lower() in _WORDS or literal.isdecimal():
        return False
    places: list[str] = []
    # Not by what the environment holds now: what is written must not depend on the shell it is written in.
    Masker(environment=False).mask({name: literal}, "", places)
    return bool(places) or name.lower() in AUTHORIZATION_NAMES


def is_secret_setting(name: str, value: str) -> bool:
    """Whether a literal `value` of a setting is a secret. In the environment, arguments, headers and URL queries of
    servers more names than elsewhere are those of secrets."""
    if is_secret(name, value):
        return True
    literal = _literal(value)
    if "://" in literal and _query_has_secret(literal):
        return True
    if not literal or literal.lower() in _WORDS or not _NAMED.fullmatch(name) or _PUBLIC.fullmatch(name):
        return False
    return not literal.isdecimal() or len(literal) >= _MANY_DIGITS or _DIGITS.fullmatch(name) is not None


def _literal(value: str) -> str:
    """The part of `value` that stands in the file itself, without references and without `Bearer` and the like."""
    literal = REFERENCE.sub(lambda found: "" if found["escaped"] else found["default"] or "", value)
    return SCHEME.sub("", literal + " ").strip()


def _query_has_secret(url: str) -> bool:
    try:
        pairs = parse_qsl(urlsplit(url).query)
    except ValueError:
        return False
    return any("://" not in value and is_secret_setting(name, value) for name, value in pairs)
