"""Configuration files as data: TOML, YAML, JSON, and JSON as editors take it, with comments and trailing commas.

Errors name the file and the line, and quote nothing of the file. A key that stands twice is refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from codecall.errors import OptionsError
from codecall.files import check_found_file

MAX_BYTES: Final = 1024 * 1024
"""Bytes of a file."""
MAX_CLAUDE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of Claude Code's `.claude.json`, which keeps more than configuration."""
MAX_DEPTH: Final = 64
"""Lists and mappings within each other."""
MAX_ALIASES: Final = 1_000
"""Times that a YAML document may refer to other parts of itself."""
MAX_REPEATED: Final = 100_000
"""Values that these references stand for, all in all."""

SUFFIXES = (".json", ".jsonc", ".toml", ".yaml", ".yml")
"""Endings of the files that are understood; any other is read as JSON."""

# What is never closed ends with the text: else it would be looked for from each of its beginnings again.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|,(?=\s*[}\]])', re.DOTALL)


def read_document(file: Path, *, discovered: bool = False) -> dict[str, object]:
    """The mapping that a file holds.

    Args:
        found: Nobody has named it. Then it must be a file that only this user or the system's writes: it says what
            programs are started.

    Raises:
        OptionsError: it cannot be read, is malformed, too large or too deep, somebody else's, or holds something else.
    """
    try:
        text = _text(file, found=discovered)
    except FileNotFoundError:
        raise OptionsError(f"{file}: there is no such file") from None
    except OSError as failure:
        raise OptionsError(f"{file}: cannot be read: {failure.strerror}") from None
    except UnicodeDecodeError:
        raise OptionsError(f"{file}: is not UTF-8") from None
    try:
        match file.suffix.lower():
            case ".toml":
                data = _toml(file, text)
            case ".yaml" | ".yml":
                data = _yaml(file, text)
            case _:
                data = _json(file, text)
    except RecursionError:
        raise OptionsError(f"{file}: is nested too deeply") from None
    if _deeper(data):
        raise OptionsError(f"{file}: is nested too deeply; lists and mappings may be {MAX_DEPTH} deep")
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise OptionsError(f"{file}: a mapping is needed, {_kind(data)} is there")
    mapping = cast("dict[object, object]", data)
    if odd := [key for key in mapping if not isinstance(key, str)]:
        raise OptionsError(f"{file}: keys must be texts; {_kind(odd[0])} is one")
    return cast("dict[str, object]", mapping)


def _text(file: Path, *, found: bool) -> str:
    # One that is named may be a pipe (`<(…)`), and is waited for.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | (getattr(os, "O_NONBLOCK", 0) if found else 0)
    most = MAX_CLAUDE_BYTES if file.name == ".claude.json" else MAX_BYTES
    with os.fdopen(os.open(file, flags), "rb") as opened:
        if found:
            _refuse_strangers(file, os.fstat(opened.fileno()))
        data = opened.read(most + 1)
    if len(data) > most:
        raise OptionsError(f"{file}: is larger than {most} bytes")
    return data.decode("utf-8-sig")


def _refuse_strangers(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OptionsError(f"{file}: is no file")
    try:
        check_found_file(file, status)
    except PermissionError as failure:
        raise OptionsError(
            f"{failure}, who would decide what is started",
            hint=f"Look at it; then make it yours alone (chown, chmod go-w), or name it: --config {file}",
        ) from None


def _deeper(data: object) -> bool:
    """Whether lists and mappings are more than `MAX_DEPTH` within each other."""
    level = [data]
    for _ in range(MAX_DEPTH):
        within: list[object] = []
        for each in level:
            if isinstance(each, Mapping):
                within.extend(cast("Mapping[object, object]", each).values())
            elif isinstance(each, list):
                within.extend(cast("list[object]", each))
        if not within:
            return False
        level = within
    return any(isinstance(each, (Mapping, list)) for each in level)


def is_harmless_yaml(text: str, *, depth: int = MAX_DEPTH) -> bool:
    """Whether reading this YAML, and walking over what it holds, takes no more time and room than its size says.

    Raises:
        YAMLError: it is none.
    """
    import yaml

    aliases = repeated = 0
    sizes: dict[str, int] = {}
    within: list[tuple[str | None, int]] = [(None, 0)]
    """The collections around, by their anchors, with the values in them so far."""
    events = cast("Iterator[object]", yaml.parse(text))  # pyright: ignore[reportUnknownMemberType]
    for event in events:
        anchor: str | None = getattr(event, "anchor", None)
        size = 0
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == around for around, _ in within):
                return False
            aliases, size = aliases + 1, sizes.get(anchor or "", 0)
            repeated += size
        elif isinstance(event, yaml.CollectionStartEvent):
            within.append((anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = within.pop()
        else:
            size = 1
        if anchor is not None and not isinstance(event, (yaml.AliasEvent, yaml.CollectionStartEvent)):
            sizes[anchor] = size
        within[-1] = within[-1][0], within[-1][1] + size
        if aliases > MAX_ALIASES or repeated > MAX_REPEATED or len(within) > depth + 1:
            return False
    return True


def _kind(value: object) -> str:
    return "a list" if isinstance(value, list) else f"a value of type {type(value).__name__}"


def _toml(file: Path, text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        # Its messages name keys and single characters, and no values.
        raise OptionsError(f"{file}: not TOML: {failure}") from None
    except ValueError:
        raise OptionsError(f"{file}: not TOML: a number has too many digits") from None


def _yaml(file: Path, text: str) -> object:
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes no key twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            if len({*keys}) < len(keys):
                raise yaml.MarkedYAMLError(problem="a key stands twice", problem_mark=node.start_mark)
            return super().construct_mapping(node, deep=deep)

    try:
        if is_harmless_yaml(text):
            return cast("object", yaml.load(text, Loader=Loader))  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        twice = ": a key stands twice in one mapping" if failure.problem == "a key stands twice" else ""
        raise OptionsError(f"{file}: not YAML{where}{twice}") from None
    except (yaml.YAMLError, ValueError):
        raise OptionsError(f"{file}: not YAML") from None
    raise OptionsError(f"{file}: is nested too deeply, or refers to itself too often")


class _StandsTwiceError(ValueError):
    pass


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    told = dict(pairs)
    if len(told) < len(pairs):
        seen: set[str] = set()
        raise _StandsTwiceError(next(key for key, _ in pairs if key in seen or seen.add(key)))
    return told


def _json(file: Path, text: str) -> object:
    if not text.strip():
        return None
    try:
        try:
            return json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError:
            return json.loads(_plain(text), object_pairs_hook=_once)
    except _StandsTwiceError as failure:
        raise OptionsError(f"{file}: the key {str(failure)!r:.80} stands twice in one object") from None
    except json.JSONDecodeError as failure:
        raise OptionsError(f"{file}: not JSON, line {failure.lineno}, column {failure.colno}: {failure.msg}") from None
    except ValueError:
        raise OptionsError(f"{file}: not JSON: a number has too many digits") from None


def _plain(text: str) -> str:
    """JSON with comments and trailing commas as plain JSON; every line and column stays where it is."""
    without = _TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\r\n]", " ", found[0]), text)
    return _TRAILING.sub(lambda found: found[0] if found[0][0] == '"' else " ", without)
