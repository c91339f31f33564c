"""Values that a JSON Schema lets be written in several ways, and which of them are the same.

A tool whose schema says `{"type": "string", "format": "uuid"}` takes a UUID in upper case, without dashes or in braces
for the same one. So what such a text stands for is compared, not the text. It is read as pydantic reads it, which is
what tools of FastMCP do; what that does not read has a meaning that only the tool knows, and so has a number for a
time.
"""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any, Final, Self, cast
from uuid import UUID

from pydantic import AnyUrl, EmailStr, IPvAnyAddress, IPvAnyInterface, IPvAnyNetwork, TypeAdapter
from pydantic_core import MultiHostUrl

MAX_TEXT: Final = 65_536
"""Longest text of a format that is read: a millisecond or two."""

MAX_EMAIL: Final = 320
"""Longest address that is read, with the name before it; pydantic's pattern for it takes a time that grows faster."""

JSON: Final = "json"
"""Stands for the format of texts whose `contentMediaType` is `application/json`."""

_TYPES: Final[Mapping[str, Any]] = {
    "date": date,
    "date-time": datetime,
    "time": time,
    "duration": timedelta,
    **dict.fromkeys(("uuid", *(f"uuid{version}" for version in (1, 3, 4, 5, 6, 7, 8))), UUID),
    **{"ipv4": IPv4Address, "ipv4network": IPv4Network, "ipv4interface": IPv4Interface},
    **{"ipv6": IPv6Address, "ipv6network": IPv6Network, "ipv6interface": IPv6Interface},
    **{"ipvanyaddress": IPvAnyAddress, "ipvanynetwork": IPvAnyNetwork, "ipvanyinterface": IPvAnyInterface},
    **dict.fromkeys(("uri", "url", "iri"), AnyUrl),
}
"""What pydantic reads texts of a format as."""

_FROM_NUMBERS: Final = {name for name in _TYPES if name.startswith(("date", "time", "duration", "ip"))}
"""Formats of values that are made of numbers, too."""

_NUMBER: Final = re.compile(r"\s*[+-]?[\d_]+(\.\d*)?\s*")
_WHOLE: Final = re.compile(r"([+-]?[\d_]+)\.0*")
_NAMED_ADDRESS: Final = re.compile(r"[^<>]*<([^<>]+)>\s*")
_NOTHING: Final = object()


class UnreadableError(ValueError):
    """What a value stands for cannot be said."""


class FormattedText(str):
    """A text of a format, equal to every text that stands for the same value."""

    __slots__ = ("form", "value")

    form: str
    """Its format."""
    value: object
    """What it stands for."""

    @classmethod
    def read(cls, form: str, text: str) -> Self:
        """Read a text of the format `form`.

        Raises:
            UnreadableError: it is none, or may stand for several values.
        """
        if len(text) > (MAX_EMAIL if "email" in form else MAX_TEXT) or is_ambiguous(form, text):
            raise UnreadableError
        return cls._of(text, form, _value(form, text))

    @classmethod
    def _of(cls, text: str, form: str, value: object) -> Self:
        formatted = cls(text)
        formatted.form, formatted.value = form, value
        return formatted

    def plain(self) -> Self:
        """The text that is usual for what it stands for."""
        return self._of(_plain(self.form, self.value), self.form, self.value)

    def __repr__(self) -> str:
        """Other than that of the same text without a format, or of another."""
        return f"<{self.form} {super().__repr__()}>"


class IntOrText(int):
    """An integer, equal to texts of it."""

    def __repr__(self) -> str:
        """Other than that of a plain number."""
        return f"<{super().__repr__()} or text>"


class FloatOrText(float):
    """Another number, likewise."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Other than that of a plain number."""
        return f"<{super().__repr__()} or text>"


class IntOrTruth(int):
    """An integer, equal to the truth value that it stands for. Bounds hold for it, as they do not for truth values."""

    __slots__ = ()


class NumberText(str):
    """A text that stands for one number and nothing else. Bounds hold for that number, all other keywords for the
    text."""

    __slots__ = ("number",)

    number: float

    @classmethod
    def of(cls, text: str) -> Self:
        """The text of a number."""
        made = cls(text)
        made.number = read_number(text)
        return made


class FilledObject(dict[str, object]):
    """An object with the defaults of its schema, equal to objects that are equal once these are filled in.

    Members that a tool does not read do not count.
    """

    __slots__ = ("defaults", "names")

    defaults: Mapping[str, object]
    names: frozenset[str] | None
    """Names of the members that the tool reads; None: all."""

    @classmethod
    def of(
        cls, members: Iterable[tuple[str, object]], defaults: Mapping[str, object], names: frozenset[str] | None
    ) -> Self:
        """An object of these members."""
        filled = cls(members)
        filled.defaults, filled.names = defaults, names
        return filled

    def __repr__(self) -> str:
        """Other than that of the same object of another schema."""
        names = None if self.names is None else sorted(self.names)
        return f"<{super().__repr__()} of {names} {self.defaults}>"


class UnorderedList(list[object]):
    """An array whose items are unique: equal to every array of the same items, in any order."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Other than that of a plain array."""
        return f"<unique {super().__repr__()}>"


def is_ambiguous(name: str, value: object) -> bool:
    """Whether this is a number for a value of the format, such as a time: which one depends on a unit."""
    if name not in _FROM_NUMBERS or isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def read_number(text: str) -> int | float:
    """The number that a text is.

    Raises:
        ValueError: it is none.
    """
    bare = text.strip()
    whole = _WHOLE.fullmatch(bare)
    try:
        return int(whole[1] if whole is not None else bare)  # exactly, where a float is not
    except ValueError:
        return float(bare)


def equal(value: object, constant: object) -> bool:
    """Whether a value that was read is a constant of a schema; true is not 1.

    Raises:
        UnreadableError: that depends on what no schema says, such as a zone of time.
    """
    if isinstance(value, FormattedText):
        return value == constant or _stands_for(value, constant)
    if isinstance(value, IntOrTruth):
        return value == constant
    if isinstance(value, IntOrText | FloatOrText) and isinstance(constant, str):
        with suppress(ValueError):
            return value == read_number(constant)
    elif isinstance(value, list) and isinstance(constant, list):
        return _equal_arrays(cast("list[object]", value), cast("list[object]", constant))
    elif isinstance(value, Mapping) and isinstance(constant, Mapping):
        return _equal_objects(cast("Mapping[str, object]", value), cast("Mapping[str, object]", constant))
    return isinstance(value, bool) is isinstance(constant, bool) and value == constant


def _equal_objects(members: Mapping[str, object], constant: Mapping[str, object]) -> bool:
    wanted, names = constant, members.keys()
    if isinstance(members, FilledObject):
        wanted = {**members.defaults, **constant}
        names = names if members.names is None else names & (members.names | wanted.keys())
    return names == wanted.keys() and all(equal(members[name], wanted[name]) for name in wanted)


def _equal_arrays(items: list[object], constants: list[object]) -> bool:
    if isinstance(items, UnorderedList):
        return all(any(equal(item, constant) for constant in constants) for item in items) and all(
            any(equal(item, constant) for item in items) for constant in constants
        )
    return len(items) == len(constants) and all(map(equal, items, constants))


def identity(value: object) -> object:
    """Equal for JSON values that are equal, and for no others."""
    if isinstance(value, FormattedText):
        return value.form, value.value
    if isinstance(value, Mapping):
        return frozenset((key, identity(item)) for key, item in cast("Mapping[str, object]", value).items())
    if isinstance(value, list):
        return ("list", *map(identity, cast("list[object]", value)))
    return (
        ("bool", value) if isinstance(value, bool) else value
    )  # to Python 1.0 is 1, as in JSON Schema; but so is true


def unique(items: Iterable[object]) -> UnorderedList:
    """The items, each once."""
    return UnorderedList({identity(item): item for item in items}.values())


def _stands_for(text: FormattedText, constant: object) -> bool:
    number = isinstance(constant, int | float) and not isinstance(constant, bool) and text.form in _FROM_NUMBERS
    if not number and not isinstance(constant, str):
        return False
    one, two = text.value, _constant(text.form, cast("str | float", constant))
    if isinstance(one, datetime | time) and isinstance(two, datetime | time) and _has_zone(one) is not _has_zone(two):
        if isinstance(one, time) or isinstance(two, time) or abs(_bare(one) - _bare(two)) <= timedelta(days=1):
            raise UnreadableError
        return False
    return one == two


def _has_zone(value: datetime | time) -> bool:
    return value.tzinfo is not None


def _bare(value: datetime) -> datetime:
    return value.replace(tzinfo=None)


@lru_cache(maxsize=1_024)
def _constant(name: str, constant: str | float) -> object:
    """What a constant of a rule stands for, whichever unit a number is in."""
    try:
        return _value(name, constant)
    except UnreadableError:
        return _NOTHING


def _value(name: str, text: str | float) -> object:
    """What a text of a format stands for, in a form that is the same for all texts that stand for it."""
    try:
        if (read := _READERS.get(name)) is not None:
            return read(cast("str", text))
        value = _adapter(_TYPES[name]).validate_python(text)
        if isinstance(value, datetime) and _has_zone(value):
            return value.astimezone(UTC)
        if isinstance(value, time) and _has_zone(value):
            return datetime.combine(date(2000, 1, 2), value).astimezone(UTC).timetz()
        return str(value) if isinstance(value, AnyUrl) else value
    except (ValueError, OverflowError, RecursionError):
        raise UnreadableError from None


def _plain(name: str, value: object) -> str:
    if isinstance(value, date | time):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return cast("str", _adapter(timedelta).dump_python(value, mode="json"))
    if isinstance(value, bytes):
        return (urlsafe_b64encode if name == "base64url" else b64encode)(value).decode()
    return str(value)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _email(text: str) -> str:
    try:
        return str(_adapter(EmailStr).validate_python(text))
    except ValueError:
        # Of a domain that only a network of its own knows.
        named = _NAMED_ADDRESS.fullmatch(text)
        address = (text if named is None else named[1]).strip()
        local, _, domain = address.rpartition("@")
        if not local or not domain or re.search(r"\s", address):
            raise
        return f"{local}@{_hostname(domain)}"


def _hostname(text: str) -> str:
    return unicodedata.normalize("NFKC", text.strip()).casefold().rstrip(".")


def _path(text: str) -> str:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError  # what it leads to depends on links
    return ("/" if text.startswith("/") else "") + "/".join(parts) or "."


def _json(text: str) -> str:
    return json.dumps(json.loads(text, parse_float=read_number), sort_keys=True)


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    JSON: _json,
    **dict.fromkeys(("base64", "byte"), b64decode),
    "base64url": urlsafe_b64decode,
    "multi-host-uri": lambda text: str(MultiHostUrl(text)),
    **dict.fromkeys(("email", "idn-email", "name-email"), _email),
    **dict.fromkeys(("hostname", "idn-hostname"), _hostname),
    **dict.fromkeys(("path", "file-path", "directory-path"), _path),
}
"""Formats that pydantic has no type for, or does not read all of."""

FORMATS: Final = frozenset((*_TYPES, *_READERS))
"""The formats whose texts are compared by what they stand for."""
