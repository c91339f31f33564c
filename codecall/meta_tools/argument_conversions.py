"""Arguments that models send in another form than the schema asks for, where their meaning is certain.

The schema that clients see stays strict: arguments that it refuses are converted and read again, and each conversion
leaves a note, which the answer has in its `warnings`. Whatever is not in `CONVERSIONS` stays refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from codecall.jsonio.decode import read_json

MAX_TEXT_CHARS: Final = 256 * 1024
"""Longest text that is read as the JSON it may hold: decoding happens on the event loop."""


class Converted(NamedTuple):
    """A value that stands for another."""

    value: object
    note: str
    """What was done; follows the name of the argument."""


Conversion = Callable[[object], Converted | None]
"""Returns what a value stands for; None where it is not of the form that it converts."""


def object_in_text(value: object) -> Converted | None:
    """An object as the text of its JSON."""
    read = _read(value, "{")
    if not isinstance(read, dict):
        return None
    return Converted(cast("object", read), "the JSON object in the text was taken; send the object itself.")


def list_in_text(value: object) -> Converted | None:
    """An array of texts as the text of its JSON, or one text for an array of it."""
    if not isinstance(value, str) or not value.strip():
        return None
    read = _read(value, "[")
    if isinstance(read, list) and all(isinstance(item, str) for item in cast("list[object]", read)):
        return Converted(cast("object", read), "the JSON array in the text was taken; send the array itself.")
    return Converted([value], "one text was taken for an array of it; send an array.")


def each_once(value: object) -> Converted | None:
    """An array of texts of which some are repeated."""
    if not isinstance(value, list):
        return None
    names = cast("list[object]", value)
    if not all(isinstance(name, str) for name in names) or len(once := list(dict.fromkeys(names))) == len(names):
        return None
    return Converted(once, "what is given twice was taken once.")


def whole_number(value: object) -> Converted | None:
    """A whole number as text, or with a fraction of nothing, as JSON's numbers may be written."""
    if isinstance(value, float) and value.is_integer():
        return Converted(int(value), "a whole number was taken; send it without a fraction.")
    if not isinstance(value, str) or re.fullmatch(r"[0-9]{1,4}", value.strip()) is None:
        return None
    return Converted(int(value), "the number in the text was taken; send a number.")


def number(value: object) -> Converted | None:
    """A number as text."""
    if not isinstance(value, str) or re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,20})?", value.strip()) is None:
        return None
    return Converted(float(value), "the number in the text was taken; send a number.")


def boolean(value: object) -> Converted | None:
    """`true` or `false` as text."""
    known = {"true": True, "false": False}
    if not isinstance(value, str) or (read := known.get(value.strip().lower())) is None:
        return None
    return Converted(read, "the text was taken for true or false; send true or false without quotes.")


CONVERSIONS: Final[Mapping[str, tuple[Conversion, ...]]] = {
    "input": (object_in_text,),
    "context": (object_in_text,),
    "filter": (object_in_text,),
    "filter.appIds": (list_in_text,),
    "filter.tags": (list_in_text,),
    "filter.kinds": (list_in_text,),
    "toolNames": (list_in_text, each_once),
    "excludeToolNames": (list_in_text,),
    "allowedTools": (list_in_text,),
    "topK": (whole_number,),
    "startLine": (whole_number,),
    "endLine": (whole_number,),
    "minScore": (number,),
    "dryRun": (boolean,),
}
"""What is done to each argument of the meta-tools, in this order; names are as clients write them."""


def convert_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns `arguments` in the form that the schemas ask for, as far as their meaning is certain, and a note on each
    that was converted."""
    converted, notes = dict(arguments), list[str]()
    for path, conversions in CONVERSIONS.items():
        name, _, inner = path.partition(".")
        holder = converted
        if inner:
            if not isinstance(converted.get(name), dict):
                continue
            holder = converted[name] = dict(converted[name])
        key = inner or name
        for conversion in conversions:
            if key in holder and (result := conversion(holder[key])) is not None:
                holder[key] = result.value
                notes.append(f"{path}: {result.note}")
    return converted, notes


def _read(value: object, opening: str) -> object:
    """The JSON in a text that begins with `opening`; None for anything else."""
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS or not value.lstrip().startswith(opening):
        return None
    try:
        return cast("object", read_json(value))
    except (msgspec.DecodeError, RecursionError):
        return None
