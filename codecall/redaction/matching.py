"""Finds secrets in texts, however they are spelled there: what quotes a password with `repr` or as JSON writes `\\"`
for `"`, or `\\u00fc` for `ü`.

Secret and text are compared *folded*, with all undone that encoders do: escapes of JSON, JavaScript and Python to any
depth (JSON in JSON), percent-encoding with `%20` or `+` for a blank, entities of XML and HTML, and the choice between
composed and decomposed letters; characters that nobody sees are left out. Base64 is looked for, too.

No encoder changes the letters, digits and `_.-` of ASCII. A text is folded only if it has the longest run of them that
a secret has, so that most texts cost one search for each secret; secrets of nothing else are never folded.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, Self

from codecall.redaction.patterns import INVISIBLE

_FEW: Final = 128
"""Up to so many literals are searched for one by one. More are looked up by what stands at each place of a text."""

_HEAD: Final = 8
"""First characters of a literal, by which it is looked up; and the least that folding may leave of a longer one."""

_MIN_BASE64: Final = 12
"""Characters of the shortest secret that is looked for in Base64."""

_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
_PERCENT = re.compile(r"(?:%(?:25){0,8}[0-9A-Fa-f]{2}){1,4096}")
_OCTETS = re.compile(r"%(?:25){0,8}([0-9A-Fa-f]{2})")
_ESCAPED = re.compile(
    r"\\++(?:u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\++u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})"
    r"|u(?P<unit>[0-9A-Fa-f]{4})|u\{(?P<braced>[0-9A-Fa-f]{1,6})\}|U(?P<long>[0-9A-Fa-f]{8})"
    r"|(?P<bytes>x[0-9A-Fa-f]{2}(?:\\++x[0-9A-Fa-f]{2})*)|(?P<letter>[nrtbfv0]))?"
)
"""However many backslashes, and what is escaped; two halves of a character outside the first plane are one."""
_ENTITY = re.compile(
    r"&(?:amp;)*(?:(?P<name>quot|apos|lt|gt|amp)|#(?P<decimal>\d{1,7})|#[xX](?P<hex>[0-9A-Fa-f]{1,6}));"
    r"|\x1b\[[0-9;?]{0,20}[A-Za-z]"
)
"""An entity, or a terminal's colour."""
_ANY = re.compile("(?s:.)")
_ENTITIES: Final = {"quot": '"', "apos": "'", "lt": "<", "gt": ">", "amp": "&"}
_LETTERS: Final = dict(zip("nrtbfv0", "\n\r\t\b\f\v\0", strict=True))


def _percent_decode(match: re.Match[str]) -> str:
    return _decode_bytes("".join(_OCTETS.findall(match[0])))


def _unescape(escape: re.Match[str]) -> str:
    """What is escaped, without a backslash; of an escape that nobody knows nothing, so that its letter stays."""
    kind = escape.lastgroup or ""
    digits = escape[kind] if kind else ""
    match kind:
        case "low":
            return bytes.fromhex(escape["high"] + digits).decode("utf-16-be")
        case "unit" | "braced" | "long":
            return _character(int(digits, 16))
        case "bytes":
            return _decode_bytes(digits.replace("\\", "").replace("x", ""))
        case "letter":
            return _LETTERS[digits]
        case _:
            return ""


def _replace_entity(match: re.Match[str]) -> str:
    """The character that an entity stands for; a terminal's colour stands for nothing."""
    if name := match["name"]:
        return _ENTITIES[name]
    if decimal := match["decimal"]:
        return _character(int(decimal))
    return _character(int(match["hex"], 16)) if match["hex"] else ""


def _decode_bytes(digits: str) -> str:
    """The text of bytes: of a `bytes` that was quoted, or of characters up to `ÿ`."""
    data = bytes.fromhex(digits)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _character(code: int) -> str:
    return chr(code) if code <= 0x10FFFF else ""


class _Folded(dict[int, str]):
    """What each character becomes at last."""

    def __missing__(self, code: int) -> str:
        """Decompose a letter, and leave out what nobody sees. Not kept: there are too many of them."""
        character = chr(code)
        return "" if INVISIBLE.fullmatch(character) else unicodedata.normalize("NFD", character)


_FOLDED: Final = _Folded()
_FOLDED.update({code: _FOLDED[code] for code in range(128)})
_FOLDED.update({ord("+"): " ", ord("\\"): "", ord("\r"): ""})


def _fold_character(match: re.Match[str]) -> str:
    return match[0].translate(_FOLDED)


class _Step(NamedTuple):
    """One step of folding."""

    signs: str
    """Characters without which a text stays as it is."""
    pattern: re.Pattern[str]
    decode: Callable[[re.Match[str]], str]


_STEPS: Final = (
    _Step("%", _PERCENT, _percent_decode),
    _Step("\\", _ESCAPED, _unescape),
    _Step("&\x1b", _ENTITY, _replace_entity),
)
_LAST: Final = _Step("", _ANY, _fold_character)


def _fold(text: str) -> str:
    for step in _STEPS:
        if any(sign in text for sign in step.signs):
            text = step.pattern.sub(step.decode, text)
    return text.translate(_FOLDED)


class _Places(NamedTuple):
    """A folded text, and where each of its characters begins and ends in the text that it was."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, text: str) -> Self:
        """The same as `_fold`, with places."""
        starts, ends = list(range(len(text))), list(range(1, len(text) + 1))
        for step in (*_STEPS, _LAST):
            parts: list[str] = []
            new_starts: list[int] = []
            new_ends: list[int] = []
            at = 0
            for match in step.pattern.finditer(text):
                part = step.decode(match)
                parts += text[at : match.start()], part
                new_starts += [*starts[at : match.start()], *[starts[match.start()]] * len(part)]
                new_ends += [*ends[at : match.start()], *[ends[match.end() - 1]] * len(part)]
                at = match.end()
            parts.append(text[at:])
            starts, ends = new_starts + starts[at:], new_ends + ends[at:]
            text = "".join(parts)
        return cls(text, starts, ends)


def _base64(secret: str) -> Iterator[str]:
    """The characters that do not depend on what stands before and behind a secret, such as `user:`, for each of the
    three ways in which they fall."""
    data = secret.encode("utf-8", "surrogatepass")
    for before in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            text = encode(bytes(before) + data).decode()
            yield text[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]


def _longest_run(secret: str) -> str:
    """The longest run of characters that no encoder changes; empty if there is none."""
    forms = [secret, unicodedata.normalize("NFC", secret), unicodedata.normalize("NFD", secret)]
    runs = sorted(dict.fromkeys(_PLAIN.findall(forms[1])), key=len, reverse=True)
    return next((run for run in runs if all(run in form for form in forms)), "")


class _Literals:
    """Literals, each with the secret that it spells."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self._by_head: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, literal: str, secret: str) -> None:
        if literal not in self.secrets:
            self.secrets[literal] = secret
            self._by_head[literal[:_HEAD] if len(literal) >= _HEAD else ""].append(literal)

    def copy(self) -> Self:
        copied = type(self)()
        copied.secrets.update(self.secrets)
        copied._by_head.update({head: list(literals) for head, literals in self._by_head.items()})
        return copied

    def within(self, text: str) -> list[str]:
        """Those that stand in a text, the longest first. The time does not depend on how many there are."""
        candidates: Iterable[str] = self.secrets
        if len(self.secrets) > _FEW:
            heads = {text[at : at + _HEAD] for at in range(len(text) - _HEAD + 1)} | {""}
            candidates = chain.from_iterable(self._by_head[head] for head in heads if head in self._by_head)
        return sorted((literal for literal in candidates if literal in text), key=len, reverse=True)


class SecretMatcher:
    """Finds secrets in texts, in every spelling."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._literals = _Literals()
        self._folded = _Literals()
        self._runs: set[str] = set()
        for secret in secrets:
            self.add(secret)
            if len(secret) >= _MIN_BASE64:
                for encoded in _base64(secret):
                    self._add(encoded, secret)

    def copy(self) -> Self:
        """A matcher that finds the same now."""
        copied = type(self)()
        copied._literals, copied._folded, copied._runs = self._literals.copy(), self._folded.copy(), self._runs.copy()
        return copied

    def add(self, secret: str) -> None:
        """Find this secret, too; not in Base64."""
        self._add(secret, secret)
        if len(seen := INVISIBLE.sub("", secret)) >= min(len(secret), _HEAD):
            self._literals.add(seen, secret)

    def _add(self, literal: str, secret: str) -> None:
        self._literals.add(literal, secret)
        run = _longest_run(literal)
        if run != literal and len(folded := _fold(literal)) >= min(len(literal), _HEAD):
            self._folded.add(folded, secret)
            self._runs.add(run)

    def _may_be_spelled(self, text: str) -> bool:
        """Whether a text has to be folded."""
        return len(self._runs) > _FEW or any(run in text for run in self._runs)

    def secrets_in(self, text: str) -> set[str]:
        """The secrets that stand in a text."""
        found = {self._literals.secrets[literal] for literal in self._literals.within(text)}
        if self._may_be_spelled(text):
            found.update(self._folded.secrets[folded] for folded in self._folded.within(_fold(text)))
        return found

    def replace(self, text: str, mark: Callable[[str], str]) -> str:
        """A text with `mark(secret)` in place of each secret, the longest first."""
        if literals := self._literals.within(text):
            places = range(len(text)), range(1, len(text) + 1)
            text = _replace(text, _Places(text, *places), literals, self._literals.secrets, mark)
        if self._may_be_spelled(text) and (folded := self._folded.within(_fold(text))):
            text = _replace(text, _Places.of(text), folded, self._folded.secrets, mark)
        return text


def _replace(
    text: str, places: _Places, literals: Sequence[str], secrets: Mapping[str, str], mark: Callable[[str], str]
) -> str:
    """`text` with marks in place of literals that stand in `places`; a longer one before a shorter one in it."""
    found: list[tuple[int, int, str]] = []
    rest = places.text
    for literal in literals:
        at = rest.find(literal)
        while at >= 0:
            end = at + len(literal)
            found.append((places.starts[at], places.ends[end - 1], secrets[literal]))
            at = rest.find(literal, end)
        rest = rest.replace(literal, "\0" * len(literal))
    parts: list[str] = []
    done = 0
    for start, end, secret in sorted(found):
        if start >= done:
            parts += text[done:start], mark(secret)
            done = end
    return "".join([*parts, text[done:]])


@lru_cache(maxsize=64)
def matcher_of(secrets: tuple[str, ...]) -> SecretMatcher:
    """The matcher of these secrets, made once. Whoever adds others copies it."""
    return SecretMatcher(secrets)
