"""What recordings lose before they are written: credentials, by the patterns of the sanitizer, by the names they stand
under, and by the environment of this process.

Every credential has a mark of its own, `masked-credential-1`, so that what was the same stays the same: a script that
is given a token by one tool and hands it to the next finds its call in the recording. The marks pass through URLs
unchanged. Numbers, truth values and objects under a telling name stay; so does what the patterns do not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final, cast

from codecall.sanitizing import CONNECTION, CREDENTIAL, PATTERNS, Row, is_secret_name, is_telling, secret_values

MARK: Final = "masked-credential"
"""What stands for a credential; a number follows."""

_MARK = re.compile(rf"{MARK}-\d+")
_ROWS = [row for row in PATTERNS if CREDENTIAL in row.mark or CONNECTION in row.mark]
_PLAIN_KEY = re.compile(r"[\w-]+")
_NAMES: Final = ("name", "key", "header")
"""Under which an object with a `value` says what that is: `{"name": "Authorization", "value": "…"}`."""

See = Callable[[str, str, bool], str]
"""Given a text, its place, and whether it stands under a secret name: what stands in its place."""


class Masker:
    """Masks the credentials of one recording.

    Args:
        names: Names, or globs, of further values to mask, in any letter case.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = [name.casefold() for name in names]
        self._numbers: dict[str, int] = {}
        self._known = set(secret_values())
        """Credentials that are masked wherever they stand."""

    def learn(self, value: object) -> None:
        """Take note of the credentials in JSON data, so that `mask` finds them elsewhere, too."""

        def see(text: str, _place: str, secret: bool) -> str:
            if secret and is_telling(text) and not _MARK.search(text):
                self._known.add(text)
            return text

        self._walk(value, "", see)

    def mask(self, value: object, place: str, places: list[str]) -> object:
        """JSON data without credentials. Where there were some is added to `places`: paths that begin with `place`."""

        def see(text: str, place: str, secret: bool) -> str:
            masked = self._mark(text) if secret and text and not _MARK.fullmatch(text) else self._text(text)
            if masked != text and place not in places:
                places.append(place)
            return masked

        return self._walk(value, place, see)

    def _walk(self, value: object, place: str, see: See, *, secret: bool = False) -> object:
        if isinstance(value, str):
            return see(value, place, secret)
        if isinstance(value, list):
            items = cast("list[object]", value)
            return [self._walk(item, f"{place}[{index}]", see, secret=secret) for index, item in enumerate(items)]
        if isinstance(value, dict):
            mapping = cast("dict[str, object]", value)
            named = any(isinstance(name := mapping.get(key), str) and self._is_secret(name) for key in _NAMES)
            walked: dict[str, object] = {}
            for key, item in mapping.items():
                below = f"{place}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{place}[{key!r}]"
                hidden = self._is_secret(key) or (named and key == "value")
                walked[see(key, place, False)] = self._walk(item, below, see, secret=hidden)
            return walked
        return value

    def _is_secret(self, name: str) -> bool:
        return is_secret_name(name) or any(fnmatchcase(name.casefold(), pattern) for pattern in self._names)

    def _text(self, text: str) -> str:
        for value in sorted(self._known, key=len, reverse=True):
            if value in text:
                text = text.replace(value, self._mark(value))
        for row in _ROWS:
            text = row.pattern.sub(lambda found, row=row: self._removed(found, row), text)
        return text

    def _removed(self, found: re.Match[str], row: Row) -> str:
        if _MARK.search(found[0]):
            return found[0]
        return found.expand(row.mark).replace(CREDENTIAL, self._mark(found[0]))

    def _mark(self, secret: str) -> str:
        return f"{MARK}-{self._numbers.setdefault(secret, len(self._numbers) + 1)}"


def without_numbers(text: str) -> str:
    """`text` with all marks alike: which credential was which depends on what was recorded with it."""
    return _MARK.sub(MARK, text)
