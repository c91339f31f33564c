"""Reads the fields of a definition, and collects what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

from codecall.composite.definition import MISSING, NAME, Finding, JsonObject, Place
from codecall.option_base import go_duration, parse_duration
from codecall.wording import nearest

Path = tuple[str | int, ...]
T = TypeVar("T")


def path_text(path: Path) -> str:
    """A path as findings name it: `steps[2].dependsOn`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class Findings:
    """Collects what is wrong with one definition.

    Args:
        file: The file that it stands in; empty for a Python value.
        lines: Lines of that file by paths.
        base: The path of the definition in that file.
    """

    def __init__(self, file: str = "", lines: Mapping[Path, int] | None = None, base: Path = ()) -> None:
        self.found: list[Finding] = []
        self.tool = ""
        self._file = file
        self._base = base
        self._lines = {
            path_text(path[len(base) :]): line for path, line in (lines or {}).items() if path[: len(base)] == base
        }

    def add(self, path: str, message: str, *, line: int | None = None, by_server: bool = False) -> None:
        """Add a finding at a path below the definition, or at a line of its file; `by_server`: see `Finding`."""
        self.found.append(Finding(Place(self._file, path, line or self._line(path)), message, self.tool, by_server))

    def has(self, path: str) -> bool:
        """Whether something is wrong at a path or below it."""
        return any(re.match(rf"{re.escape(path)}($|[.\[])", each.place.path) for each in self.found)

    def _line(self, path: str) -> int | None:
        """The line of a value, or of the nearest one around it that has a line."""
        while path and path not in self._lines:
            path = path.rstrip("]").rpartition("[" if path.endswith("]") else ".")[0]
        return self._lines.get(path)


class Fields:
    """Reads the fields of one mapping, and notes each that is wrong."""

    def __init__(self, data: Mapping[object, object], path: str, findings: Findings) -> None:
        self.data = data
        self.path = path
        self.findings = findings

    def at(self, key: str) -> str:
        """The path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def wrong(self, key: str, message: str) -> None:
        """Note that a field is wrong."""
        self.findings.add(self.at(key), message)

    def only(self, known: Sequence[str]) -> None:
        """Note each key that is not one of `known`."""
        for key in self.data:
            if key not in known:
                near = nearest(str(key), known) if isinstance(key, str) else []
                suggestion = f" (did you mean {near[0]}?)" if near else ""
                self.findings.add(self.at(str(key)[:80]), f"unknown key; known here: {', '.join(known)}{suggestion}")

    def tool_name(self) -> str | None:
        """The name of the tool that this is the definition of."""
        name = self.text("name", required=True)
        if name is not None:
            self.findings.tool = name
            if not NAME.fullmatch(name):
                self.wrong("name", f"{name!r:.80} is no name of a tool: letters, digits, _ and -, at most 64 of them")
        return name

    def _typed(self, key: str, kind: type[T], named: str, *, required: bool = False) -> T | None:
        value = self.data.get(key, MISSING)
        if value is MISSING:
            if required:
                self.wrong(key, f"missing: {named} is needed")
            return None
        # A truth value is no number here.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            self.wrong(key, f"{named} is needed; this is {kind_of(value)}")
            return None
        return value

    def text(self, key: str, *, required: bool = False) -> str | None:
        """A text that is not empty."""
        value = self._typed(key, str, "a text", required=required)
        if value is not None and not value.strip():
            self.wrong(key, "is empty")
            return None
        return value

    def mapping(self, key: str, *, required: bool = False) -> JsonObject | None:
        """A mapping whose keys are texts."""
        value = cast("dict[object, object] | None", self._typed(key, dict, "a mapping", required=required))
        if value is not None and not all(isinstance(name, str) for name in value):
            self.wrong(key, "its keys must be texts")
            return None
        return cast("JsonObject | None", value)

    def items(self, key: str, *, required: bool = False) -> list[object]:
        """A list."""
        return cast("list[object] | None", self._typed(key, list, "a list", required=required)) or []

    def names(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        found: list[str] = []
        for number, item in enumerate(self.items(key)):
            if isinstance(item, str):
                found.append(item)
            else:
                self.findings.add(f"{self.at(key)}[{number}]", f"a text is needed; this is {kind_of(item)}")
        return tuple(found)

    def number(self, key: str, default: int, most: int, *, least: int = 1) -> int:
        """A whole number."""
        value = self._typed(key, int, "a whole number")
        if value is not None and not least <= value <= most:
            self.wrong(key, f"{value} is not within {least} to {most:,}")
            return default
        return default if value is None else value

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        """One of some words."""
        value = self._typed(key, str, f"one of {', '.join(choices)}")
        if value is not None and value not in choices:
            self.wrong(key, f"{value!r:.80} is none of {', '.join(choices)}")
            return default
        return default if value is None else value

    def duration(self, key: str, default: float, most: float) -> float:
        """Seconds, written as Go writes durations."""
        value = self._typed(key, str, "a duration such as 30s or 1h30m")
        if value is None:
            return default
        seconds = parse_duration(value.strip())
        if seconds is None:
            self.wrong(key, f"{value!r:.40} is no duration above zero, such as 500ms, 30s or 1h30m")
            return default
        if seconds > most:
            self.wrong(key, f"{value} is more than {go_duration(most)}")
            return default
        return seconds

    def below(self, key: str) -> Fields | None:
        """The fields of a mapping that is the value of a field; None where there is none."""
        value = self.mapping(key)
        return None if value is None else Fields(cast("Mapping[object, object]", value), self.at(key), self.findings)


def kind_of(value: object) -> str:
    """What a value is, for messages."""
    names: dict[type, str] = {
        bool: "a truth value",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "a mapping",
        type(None): "nothing",
    }
    return names.get(type(value), f"a value of type {type(value).__name__}")
