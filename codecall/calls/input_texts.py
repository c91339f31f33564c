"""Reads the texts in which servers refuse an input: of FastMCP and the SDKs, each in its validator's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, cast

import msgspec

from codecall.jsonio.decode import read_json
from codecall.redaction.clean import well_formed
from codecall.schema.comparison import find_violations, violation_problems
from codecall.schema.locations import located_problems
from codecall.schema.validation import MAX_FIELDS, Problem, add_overflow_note, make_problem, parameter_names

MAX_TEXT_CHARS: Final = 16_384
"""Characters of the longest text that is read."""

_CLAIMS: Final = re.compile(
    r"""(?:MCP\ error\ -32602:\s+)?
    ((?:invalid\ params:\s+)?validating\ "arguments":\s+
    |(?:deserialization\ error:\s+)?failed\ to\ deserialize\ parameters:\s+
    |(?:Input\ validation\ error:\s+)?(?:Invalid\ arguments\ for\ tool\ [^\s:]{1,200}:\s+)?)""",
    re.VERBOSE,
)
"""What begins a text about an input, in the SDKs for TypeScript and Python, Go, and Rust."""

_PYDANTIC_HEAD: Final = re.compile(r"\d{1,4} validation errors? for (?:call\[[^\]\n]{1,200}\]|\w{1,200}Arguments)\n")
"""The first line, of FastMCP's servers and of those made with the SDK alone. A model that the tool itself reads
has a name of its own."""

_PYDANTIC_LINK: Final = re.compile(r"\n? {4}For further information visit https://errors\.pydantic\.dev/\S+")


def without_links(text: str) -> str:
    """A text without the links to the documentation of pydantic, which say nothing of the input."""
    return _PYDANTIC_LINK.sub("", text) if "https://errors.pydantic.dev/" in text else text


def problems_from_text(text: str, arguments: Mapping[str, object], schema: dict[str, object]) -> list[Problem] | None:
    """The fields that a text refuses; None if it is no such text, or is about what is no parameter.

    Args:
        text: What the tool answered.
        arguments: The input.
        schema: The tool's input schema.
    """
    claim = _CLAIMS.match(text) if len(text) <= MAX_TEXT_CHARS else None
    if claim is None:
        return None
    claimed = text[claim.end() :].strip()
    known = {*arguments, *parameter_names(schema)}
    found = _pydantic_problems(claimed, known, arguments, schema)
    if found is None:
        found = _zod_problems(claimed, None if claim[1] else known, schema)
    if found or not claim[1]:
        return found
    # It names a value, or nothing: the schema says which field that is.
    fields = violation_problems(find_violations(arguments, schema), schema)
    return fields or [make_problem([], claimed[:300] or "The server refused it", schema)]


def _pydantic_problems(
    text: str, known: set[str], arguments: Mapping[str, object], schema: dict[str, object]
) -> list[Problem] | None:
    head = _PYDANTIC_HEAD.match(text)
    if head is None:
        return None
    errors: list[tuple[list[str], str]] = []
    field: str | None = None
    for line in without_links(text[head.end() - 1 :]).splitlines():
        if line and not line.startswith(" "):
            if line.split(".")[0] not in known:
                return None
            field = line
        elif field is not None and line.startswith("  "):
            errors.append((field.split("."), line.strip().rpartition(" [type=")[0] or line.strip()))
            field = None
    return located_problems(errors, arguments or None, schema) if errors else None


def _zod_problems(text: str, known: set[str] | None, schema: dict[str, object]) -> list[Problem] | None:
    """The fields of a JSON list of zod's issues; None if it is none, or is about others than the `known` ones."""
    issues = _json_list(text)
    problems: list[Problem] = []
    for item in issues:
        issue = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        path, message = issue.get("path"), issue.get("message")
        if not isinstance(path, list) or not isinstance(message, str) or not isinstance(issue.get("code"), str):
            return None
        place = [str(part) for part in cast("list[object]", path)]
        extra = issue.get("keys") if issue["code"] == "unrecognized_keys" else None
        names = [str(key) for key in cast("list[object]", extra)] if isinstance(extra, list) else []
        if known is not None and (place or names or [""])[0] not in known:
            return None
        problems += [make_problem([*place, name], "Unknown parameter", schema) for name in names[:MAX_FIELDS]]
        if not names:
            problems.append(make_problem(place, message, schema))
    return add_overflow_note(problems[:MAX_FIELDS], len(problems)) if problems else None


def _json_list(text: str) -> list[object]:
    if text.startswith("["):
        with suppress(msgspec.MsgspecError, RecursionError):
            found = cast("object", read_json(well_formed(text)))
            return cast("list[object]", found) if isinstance(found, list) else []
    return []
