"""Whether a script may take values of its answers for something else: a quick look, which most scripts pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from codecall.sandbox.agentscript.diagnosis.calls import LOOKED_AT, OBJECT, CallHistory, value_kind

# Each begins at a word or an operator and goes forward only: a hostile script of 60 KB takes no longer than any other.
_PATH = r"(?:\w++\s*+(?:\?\s*+)?\.\s*+)"
_OF_DATES: Final = re.compile(r'"\d{4}-\d\d-\d\d')
_OF_SECONDS: Final = re.compile(r':\s*"?[1-3]\d{9}\b')
_VALUES: Final = re.compile(r'"([\w$-]{1,60})":\s*+(?:"(-?\d+(?:\.\d+)?|true|false)"|([^\sn]))')
"""Properties of answers, each with the text of a number or a boolean, or with the first character of another value."""
_EQUALS: Final = re.compile(r"\b(\w++)\s*[!=]==?\s*(?:(['\"])|(\d)|([tf](?:rue|alse)\b)|(?:\w++\s*\.\s*)++(\w++))")
_VARIABLE_EQUALS: Final = re.compile(r"(?<![.\w])\w++\s*+[!=]==?\s*+['\"\d]")
_ORDERED: Final = re.compile(rf"\b(\w++)\s*[<>]=?\s*[\w('\"]|[<>]=?\s*{_PATH}*+(\w++)")
_COMPUTED: Final = re.compile(rf"\b(\w++)\s*[-*/%]\s*[\w(]|[-*/%]\s*{_PATH}*+(\w++)")
"""Names on either side of an operator that is meant for numbers."""
_SOUGHT_IN: Final = re.compile(r"\b(\w++)\s*\??\.\s*(?:includes|indexOf)\s*\(")
_SOUGHT: Final = re.compile(rf"\.\s*+(?:includes|indexOf|has|get|set|add)\s*+\(\s*+{_PATH}++(\w++)")
_SEEKS_NUMBER: Final = re.compile(r"\.\s*+(?:includes|indexOf|has)\s*+\(\s*+['\"]-?\d")
_KEYS: Final = re.compile(rf"\[\s*+{_PATH}++(\w++)\s*+\]|=>\s*+{_PATH}++(\w++)")
_SUMS_ITEMS: Final = re.compile(r"\+=?\s*+\(?\w++\s*+\[\s*+\d|\[[\w\s,]*+\]\s+of\b")
_NUMBERS_IN_LISTS: Final = re.compile(r'[\[,]\s*+"-?\d+(?:\.\d+)?"')
_EQUALS_TEXT: Final = re.compile(r"\b(\w++)\s*+[!=]==?\s*+(?:'([^'\n]{1,60})'|\"([^\"\n]{1,60})\")")
_DATE_OF: Final = re.compile(rf"\bDate(?:\s*+\.\s*+parse)?\s*+\(\s*+{_PATH}*+(\w++)")
_LITERALS: Final = re.compile(r"\[\s*+['\"\d]")
_ALWAYS_TRUE: Final = re.compile(
    rf"(?:=>|\bif\s*+\(|&&|\|\||\breturn\b|\()\s*+{_PATH}++\w++\s*+=\s*+['\"\d]"
    r"|[!=]==?\s*+['\"\d][^|&;\n]{0,80}\|\|\s*+['\"\d]"
    r"|\bif\s*+\([^;{}]{0,120}?\.\s*+(?:filter|map|flatMap)\s*+\("
)
"""An assignment, a literal behind `||`, or a list, where a condition may stand."""
_COUNTABLE: Final = frozenset({"text", "number"})


def may_mistake(calls: CallHistory, script: str, value: str) -> bool:
    """Whether a script may take values of its answers for something else, or has a condition that is always true.

    Args:
        calls: The calls of the script.
        script: The script.
        value: Its value as JSON text.
    """
    if calls.shows_objects or OBJECT in value or _ALWAYS_TRUE.search(script) is not None:
        return True
    payloads = [(entry.payload or "")[:LOOKED_AT] for entry in calls.last_answers.values()]
    if "Date" in script and any(_OF_DATES.search(payload) or _OF_SECONDS.search(payload) for payload in payloads):
        return True
    kinds: dict[str, str] = {}
    for payload in payloads:
        for name, text, first in _VALUES.findall(payload):
            if text and name in calls.reads:
                return True
            kinds.setdefault(name, value_kind(first))
    return (
        (_VARIABLE_EQUALS.search(script) is not None and any('":[{' in payload for payload in payloads))
        or (_SUMS_ITEMS.search(script) is not None and any(map(_NUMBERS_IN_LISTS.search, payloads)))
        or _compares_kinds(script, kinds)
        or _seeks_others(script, kinds, payloads)
        or _spells_otherwise(script, payloads)
    )


def _compares_kinds(script: str, kinds: Mapping[str, str]) -> bool:
    """Whether a property is compared with a literal, or another one, of a different kind, or takes an object or a list
    for a number, or a text."""
    for name, quote, digit, boolean, other in _EQUALS.findall(script):
        literal = "text" if quote else "number" if digit else "boolean" if boolean else None
        kind, meant = kinds.get(name), kinds.get(other) if other else literal
        if kind is not None and meant is not None and (kind != meant or kind == "object"):
            return True
    ordered = {name for names in _ORDERED.findall(script) for name in names}
    computed = {name for names in _COMPUTED.findall(script) for name in names}
    return any(kinds.get(name) in {"object", "list"} for name in ordered | computed) or any(
        kinds.get(name) == "text" for name in computed
    )


def _seeks_others(script: str, kinds: Mapping[str, str], payloads: list[str]) -> bool:
    """Whether a value may be looked for among those of another kind, or an object be taken for a key."""
    sought = {*_SOUGHT.findall(script), *_DATE_OF.findall(script)}
    keys = {name for names in _KEYS.findall(script) for name in names}
    if any(kinds.get(name) == "object" for name in sought | keys):
        return True
    if _SEEKS_NUMBER.search(script) is not None and "number" in kinds.values():
        return True
    has_items = _LITERALS.search(script) is not None or {"text", "number"} <= set(kinds.values())
    if has_items and any(kinds.get(name) in _COUNTABLE for name in sought):
        return True
    return any(f'"{name}":[{{' in payload for name in set(_SOUGHT_IN.findall(script)) for payload in payloads)


def _spells_otherwise(script: str, payloads: list[str]) -> bool:
    """Whether a property is compared with a text that it has only in other letters."""
    for name, single, double in _EQUALS_TEXT.findall(script):
        member = f'"{name}":"{single or double}"'
        if any(member not in text and member.casefold() in text.casefold() for text in payloads):
            return True
    return False
