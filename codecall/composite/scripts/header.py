"""The header of a script that is a composite tool: YAML between two lines `---` in the comment at the file's top.

/* ---                                # ---
name: stock                           # name: stock
description: What is in stock         # description: What is in stock
--- */                                # ---
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from codecall.composite.definition import JsonObject, ScriptDefinition
from codecall.composite.fields import Fields, Findings, kind_of
from codecall.composite.parsing import check_schema_field, parameters_of
from codecall.errors import OptionsError
from codecall.jsonio.documents import Document, parse_yaml
from codecall.sandbox.languages import SCRIPT_LANGUAGES, Language

TESTS_SUFFIX: Final = ".script.js"
"""Ending of files with programs for pytest, which are no tools."""
RECORDING_SUFFIX: Final = ".recording.json"
"""Ending of files with the calls that the test of a script replays, which are no definitions."""

KEYS: Final = ("name", "description", "parameters", "output", "allowedTools", "annotations")
"""The keys of a header."""
HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

_KEY: Final = re.compile(rf"""[\s{{]*["']?(?:{"|".join(KEYS)})["']?\s*:""")
"""How a line of a header begins, and one of another comment does not."""

_BLOCK: Final = re.compile(r"\s*/\*(.*?)\*/", re.DOTALL)
_STAR: Final = re.compile(r"[ \t]*\*[ \t]?")
_LINE: Final[Mapping[str, re.Pattern[str]]] = {
    "javascript": re.compile(r"[ \t]*//[ \t]?"),
    "starlark": re.compile(r"[ \t]*#[ \t]?"),
}


def read_header(file: Path, text: str) -> Document | None:
    """The header of a script with the lines at which its fields stand; None if there is none.

    Raises:
        OptionsError: it is no YAML.
    """
    lines = _first_comment(text, SCRIPT_LANGUAGES[file.suffix.lower()])
    marks = _marks(lines)
    if not marks:
        return None
    if len(marks) < 2:
        raise OptionsError(f"{file}: the header does not end: a second line `---` is needed")
    first, last = marks[:2]
    # What is not the header is left empty, so that its lines are those of the file.
    documents = parse_yaml(file, "\n".join([*[""] * (first + 1), *lines[first + 1 : last]]))
    return documents[0] if documents else Document(None, {})


def has_header(text: str, language: Language) -> bool:
    """Whether a script begins as those that are tools do; its header may be wrong, or not end."""
    lines = _first_comment(text, language)
    marks = _marks(lines)
    return bool(marks) and any(map(_KEY.match, lines[marks[0] + 1 : marks[1] if len(marks) > 1 else None]))


def _marks(lines: Sequence[str]) -> list[int]:
    """The lines `---` of a comment; none where something stands before them."""
    marks = [number for number, line in enumerate(lines) if line.strip() == "---"]
    return [] if marks and any(line.strip() for line in lines[: marks[0]]) else marks


def end_of_header(text: str, suffix: str) -> int:
    """Where the comment ends in which a script has a header; 0 if it has none."""
    language = SCRIPT_LANGUAGES[suffix]
    lines = _first_comment(text, language)
    if [line.strip() for line in lines].count("---") < 2:
        return 0
    block = _BLOCK.match(text) if language == "javascript" else None
    return block.end() if block is not None else sum(len(line) + 1 for line in text.split("\n")[: len(lines)])


def _first_comment(text: str, language: str) -> list[str]:
    """The lines of a file up to the end of the comment that it begins with, without the marks of the comment."""
    block = _BLOCK.match(text) if language == "javascript" else None
    if block is not None:
        lines = text[: block.end(1)].replace("/*", "  ", 1).split("\n")
        inner = [line for line in lines[1:] if line.strip()]
        starred = bool(inner) and all(_STAR.match(line) for line in inner)
        return [_STAR.sub("", line, count=1) if starred else line for line in lines]
    lines: list[str] = []
    for line in text.split("\n"):
        mark = _LINE[language].match(line)
        if mark is None and line.strip():
            break
        lines.append(line[mark.end() :] if mark is not None else "")
    return lines


def parse_script(script: str, header: object, suffix: str, findings: Findings) -> ScriptDefinition | None:
    """The composite tool that a script with this header is; None where the header is wrong, which `findings` says.

    Args:
        script: The whole text of the file.
        header: The data of its header.
        suffix: The ending of the file.
        findings: Collects what is wrong.
    """
    if not isinstance(header, Mapping):
        findings.add("", f"the header of a script is a mapping with name and description; this is {kind_of(header)}")
        return None
    fields = Fields(cast("Mapping[object, object]", header), "", findings)
    name = fields.tool_name()
    fields.only(KEYS)
    output = fields.mapping("output")
    if output is not None:
        check_schema_field(output, "output", fields)
    definition = ScriptDefinition(
        name or "",
        fields.text("description", required=True) or "",
        script,
        SCRIPT_LANGUAGES[suffix.lower()],
        parameters_of(fields),
        output,
        fields.names("allowedTools") if "allowedTools" in fields.data else None,
        _annotations(fields),
    )
    return None if findings.found else definition


def _annotations(fields: Fields) -> JsonObject:
    block = fields.below("annotations")
    if block is None:
        return {}
    block.only((*HINTS, "title"))
    found: JsonObject = {}
    for key in HINTS:
        value = block.data.get(key)
        if isinstance(value, bool):
            found[key] = value
        elif value is not None:
            block.wrong(key, f"true or false is needed; this is {kind_of(value)}")
    title = block.text("title")
    return {**found, "title": title} if title is not None else found
