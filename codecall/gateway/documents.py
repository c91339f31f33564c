"""Configuration files as data: TOML, YAML, JSON, and JSON as editors take it, with comments and trailing commas.

Errors name the file and the line, and quote nothing of the file. A key that stands twice is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Hashable
from pathlib import Path
from typing import Any, cast

from codecall.errors import OptionsError

SUFFIXES = (".json", ".jsonc", ".toml", ".yaml", ".yml")
"""Endings of the files that are understood; any other is read as JSON."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def read_document(file: Path) -> dict[str, object]:
    """The mapping that a file holds.

    Raises:
        OptionsError: it cannot be read, is malformed, or holds something else.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
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
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise OptionsError(f"{file}: a mapping is needed, {_kind(data)} is there")
    mapping = cast("dict[object, object]", data)
    if odd := [key for key in mapping if not isinstance(key, str)]:
        raise OptionsError(f"{file}: keys must be texts; {_kind(odd[0])} is one")
    return cast("dict[str, object]", mapping)


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
        return cast("object", yaml.load(text, Loader=Loader))  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        twice = ": a key stands twice in one mapping" if failure.problem == "a key stands twice" else ""
        raise OptionsError(f"{file}: not YAML{where}{twice}") from None
    except (yaml.YAMLError, ValueError):
        raise OptionsError(f"{file}: not YAML") from None


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
