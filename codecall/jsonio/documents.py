"""Files that people write, as data: TOML, YAML, JSON, and JSON as editors take it, with comments and trailing commas.

Errors name the file and the line, and quote nothing of the file. A key that stands twice is refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from codecall.errors import OptionsError
from codecall.files import check_found_file

MAX_BYTES: Final = 1024 * 1024
"""Bytes of a file."""
MAX_CLAUDE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of Claude Code's `.claude.json`, which keeps more than configuration."""
MAX_DEPTH: Final = 64
"""Lists and mappings within each other."""
MAX_ALIASES: Final = 1_000
"""Aliases that a YAML document may contain."""

MAX_TAGS: Final = 100
"""Directives `%TAG` for a loader in C: libyaml compares each with all before it, which holds the interpreter."""
MAX_REPEATED: Final = 100_000
"""Values that these aliases stand for, all in all."""

SUFFIXES = (".json", ".jsonc", ".toml", ".yaml", ".yml")
"""Endings of the files that are understood; any other is read as JSON."""

# What is never closed ends with the text: else it would be looked for from each of its beginnings again.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|,(?=\s*[}\]])', re.DOTALL)


def read_document(file: Path, *, discovered: bool = False) -> dict[str, object]:
    """Read the mapping that a file holds.

    Args:
        discovered: whether the file was found rather than named. Then it must be a file that only this user or the
            system writes: it decides what programs are started.

    Raises:
        OptionsError: it cannot be read, is malformed, too large or too deep, somebody else's, or holds something else.
    """
    documents = read_documents(file, discovered=discovered)
    if len(documents) > 1:
        raise OptionsError(f"{file}: not YAML, line {documents[1].lines.get((), 1)}: one document is needed")
    data = documents[0].data if documents else None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise OptionsError(f"{file}: a mapping is needed, {_describe_type(data)} is there")
    return cast("dict[str, object]", data)


class Document(NamedTuple):
    """One document of a file."""

    data: object
    lines: Mapping[tuple[str | int, ...], int]
    """The lines, from 1, at which values stand, by their paths; empty where the format does not tell."""


def read_documents(file: Path, *, discovered: bool = False) -> list[Document]:
    """Read all documents of a file: a YAML file may have several, or none.

    Args:
        discovered: as for `read_document`.

    Raises:
        OptionsError: it cannot be read, is malformed, too large or too deep, or somebody else's.
    """
    text = read_text(file, discovered=discovered)
    match file.suffix.lower():
        case ".toml":
            return _checked(file, lambda: [Document(_toml(file, text), {})])
        case ".yaml" | ".yml":
            return parse_yaml(file, text)
        case _:
            return _checked(file, lambda: [Document(_json(file, text), {})])


def parse_yaml(file: Path, text: str) -> list[Document]:
    """Read all documents of a YAML text that stands in a file.

    Raises:
        OptionsError: it is malformed or too deep.
    """
    return _checked(file, lambda: _yaml(file, text))


def _checked(file: Path, read: Callable[[], list[Document]]) -> list[Document]:
    try:
        documents = read()
    except RecursionError:
        raise OptionsError(f"{file}: is nested too deeply") from None
    if any(_is_too_deep(document.data) for document in documents):
        raise OptionsError(f"{file}: is nested too deeply; lists and mappings may be {MAX_DEPTH} deep")
    return documents


def read_text(file: Path, *, discovered: bool = False) -> str:
    """Read the text of a file.

    Args:
        discovered: as for `read_document`.

    Raises:
        OptionsError: it cannot be read, is too large, or somebody else's.
    """
    try:
        return _read_text(file, discovered=discovered)
    except FileNotFoundError:
        raise OptionsError(f"{file}: there is no such file") from None
    except OSError as failure:
        raise OptionsError(f"{file}: cannot be read: {failure.strerror}") from None
    except UnicodeDecodeError:
        raise OptionsError(f"{file}: is not UTF-8") from None


def _read_text(file: Path, *, discovered: bool) -> str:
    # One that is named may be a pipe (`<(…)`), and is waited for.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | (getattr(os, "O_NONBLOCK", 0) if discovered else 0)
    most = MAX_CLAUDE_BYTES if file.name == ".claude.json" else MAX_BYTES
    with os.fdopen(os.open(file, flags), "rb") as opened:
        if discovered:
            _check_owner(file, os.fstat(opened.fileno()))
        data = opened.read(most + 1)
    if len(data) > most:
        raise OptionsError(f"{file}: is larger than {most} bytes")
    return data.decode("utf-8-sig")


def _check_owner(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OptionsError(f"{file}: is no file")
    try:
        check_found_file(file, status)
    except PermissionError as failure:
        raise OptionsError(
            f"{failure}, who would decide what is started",
            hint=f"Look at it; then make it yours alone (chown, chmod go-w), or name it: --config {file}",
        ) from None


def _is_too_deep(data: object) -> bool:
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


def is_harmless_yaml(text: str, *, depth: int = MAX_DEPTH, loader: Any = None) -> bool:
    """Whether reading this YAML, and walking over what it holds, takes no more time and room than its size says.

    Args:
        text: of the document.
        depth: lists and mappings that may be within each other.
        loader: the class of PyYAML that parses it; None: the one whose errors say what a person can mend.

    Raises:
        YAMLError: it is none.
    """
    import yaml

    if loader is not None and text.count("%TAG") > MAX_TAGS:
        return False
    aliases = repeated = 0
    sizes: dict[str, int] = {}
    within: list[tuple[str | None, int]] = [(None, 0)]
    """The collections around, by their anchors, with the values in them so far."""
    events = cast("Iterator[object]", yaml.parse(text, loader or yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
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


def _describe_type(value: object) -> str:
    return "a list" if isinstance(value, list) else f"a value of type {type(value).__name__}"


def _toml(file: Path, text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        # Its messages name keys and single characters, and no values.
        hint = 'Texts stand in quotes: key = "text".' if str(failure).startswith("Invalid value") else None
        raise OptionsError(f"{file}: not TOML: {failure}", hint=hint) from None
    except ValueError:
        raise OptionsError(f"{file}: not TOML: a number has too many digits") from None


def _yaml(file: Path, text: str) -> list[Document]:
    import yaml

    from codecall.jsonio.core_yaml import CoreLoader

    class Loader(CoreLoader):
        """Takes no key twice."""

        def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
            # Before anything is merged into it: what a mapping has itself may stand in what it merges too.
            node = super().compose_mapping_node(anchor)
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            if len({*keys}) < len(keys):
                raise yaml.MarkedYAMLError(problem="a key stands twice", problem_mark=node.start_mark)
            return node

    try:
        if is_harmless_yaml(text):
            loader = Loader(text)
            documents: list[Document] = []
            while loader.check_node():
                node = loader.get_node()
                lines = dict(_yaml_lines(node, ()))
                documents.append(Document(cast("object", loader.construct_document(node)), lines))  # pyright: ignore[reportUnknownMemberType]
            return documents
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        if mark is not None and mark.line >= len(text.splitlines()) and failure.context_mark is not None:
            mark = failure.context_mark  # what is never closed, and not the end of the file
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problems = ", ".join(filter(None, map(_yaml_problem, (failure.context or "", failure.problem or ""))))
        raise OptionsError(f"{file}: not YAML{where}: {problems}" if problems else f"{file}: not YAML{where}") from None
    except (yaml.YAMLError, ValueError):
        raise OptionsError(f"{file}: not YAML") from None
    raise OptionsError(f"{file}: is nested too deeply, or refers to itself too often")


_YAML_PROBLEMS: Final = {
    "found unhashable key": "a mapping or list is a key here; put a template in quotes, '{{ … }}'",
    "a key stands twice": "a key stands twice in one mapping",
}
_YAML_WORDS: Final = {
    "<stream end>": "the end of the file",
    "<block end>": "the end of the block",
    "<scalar>": "a text",
}
_YAML_QUOTED: Final = re.compile(r"'([^']*)'|<[a-z ]+>")


def _yaml_problem(problem: str) -> str:
    """What the parser says is wrong; of what it quotes only single characters and its own words stay."""

    def word(found: re.Match[str]) -> str:
        text = found[1] if found[1] is not None else found[0]
        if text in _YAML_WORDS:
            return _YAML_WORDS[text]
        return found[0] if len(text) <= 1 or re.fullmatch(r"\\\w|<[a-z ]+>", text) else "…"

    return _YAML_PROBLEMS.get(problem) or _YAML_QUOTED.sub(word, problem)


def _yaml_lines(node: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The line of each value below a node of YAML; that of a mapping's value is its key's."""
    yield path, node.start_mark.line + 1
    if node.id == "mapping":
        for key, value in node.value:
            yield from _yaml_lines(value, (*path, str(key.value)))
            yield (*path, str(key.value)), key.start_mark.line + 1
    elif node.id == "sequence":
        for number, item in enumerate(node.value):
            yield from _yaml_lines(item, (*path, number))


class _DuplicateKeyError(ValueError):
    pass


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        raise _DuplicateKeyError(next(key for key, _ in pairs if key in seen or seen.add(key)))
    return mapping


def _json(file: Path, text: str) -> object:
    if not text.strip():
        return None
    try:
        try:
            return json.loads(text, object_pairs_hook=_without_duplicates)
        except json.JSONDecodeError:
            return json.loads(strip_comments(text), object_pairs_hook=_without_duplicates)
    except _DuplicateKeyError as failure:
        raise OptionsError(f"{file}: the key {str(failure)!r:.80} stands twice in one object") from None
    except json.JSONDecodeError as failure:
        raise OptionsError(f"{file}: not JSON, line {failure.lineno}, column {failure.colno}: {failure.msg}") from None
    except ValueError:
        raise OptionsError(f"{file}: not JSON: a number has too many digits") from None


def strip_comments(text: str, *, trailing: bool = True) -> str:
    """JSON with comments as plain JSON; every line and column stays where it is.

    Args:
        trailing: whether trailing commas go, too.
    """
    without = _TOKEN.sub(lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\r\n]", " ", match[0]), text)
    return _TRAILING.sub(lambda match: match[0] if match[0][0] == '"' else " ", without) if trailing else without
