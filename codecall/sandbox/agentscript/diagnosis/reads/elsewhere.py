"""Names that a script reads where an answer does not have them, though it has them elsewhere.

As in `event.attendees.filter((a) => a.status === 'yes')`, where only the event has a `status`. This is a quick look at
the text of a script and the objects of its answers: what it finds may be wrong, and is looked up before anything is
said.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis.calls import CallHistory

MAX_ANSWER: Final = 64 * 1024
"""Characters of the longest answer that is looked at."""
_MAX_OBJECTS: Final = 100
"""Objects of one answer that are looked at."""
_MAX_PATTERN: Final = 200
"""Characters of a pattern that are looked at."""
_MAX_LINKS: Final = 16
"""Properties that one variable may have its value from, as far as they are looked at."""

_ROOT: Final = ""
"""Stands for the answer itself, or the items of one that is a list."""

# Each begins at a word and goes forward only: a hostile script of 60 KB takes no longer than any other.
_DOT = r"\s*+(?:\?\s*+)?\.\s*+"
_OWNERS = rf"(?:\w++\s*+(?:(?:\?\s*+\.\s*+)?\[[\w'\"]*+\]\s*+)?{_DOT})"
_MEMBER: Final = re.compile(rf"\b(\w++)(?:\s*+\[\w*+\])?(?={_DOT}(\w++))")
_CALLBACK: Final = re.compile(
    rf"\b(\w++)(?:\s*+(?:\|\||\?\?)\s*+\[\s*+\]\s*+\)|\s*+\))?{_DOT}"
    r"(?:map|flatMap|filter|find\w*+|some|every|forEach|reduce|sort|toSorted)\s*+\(\s*+(?:async\s*+)?\(?\s*+"
    r"(?:\{([^{}]*+)\}|(\w++)(?:\s*+,\s*+(\w++))?)"
)
_LOOP: Final = re.compile(rf"\b(?:const|let|var)\s++(?:\{{([^{{}}]*+)\}}|(\w++))\s++of\s++\(?\s*+{_OWNERS}*+(\w++)")
_GIVEN: Final = re.compile(rf"(?:\{{([^{{}}]*+)\}}|\b(\w++))\s*+=\s*+\(?{_OWNERS}*+(\w++)")
_MAPPED: Final = re.compile(
    rf"\b(\w++)\s*+=\s*+{_OWNERS}*+(?:map|flatMap)\s*+\(\s*+\(?\s*+\w++\s*+\)?\s*+=>\s*+{_OWNERS}++(\w++)"
)
_AWAITED: Final = re.compile(r"(?:([\]}])|\b(\w++))\s*+=\s*+await\b")
_THEN: Final = re.compile(r"\.\s*+then\s*+\(\s*+(?:async\s*+)?\(?\s*+(?:\{([^{}]*+)\}|(\w++))")
_INNER: Final = re.compile(r"\b(\w++)\s*+:\s*+\{([^{}]*+)\}")
_WORD: Final = re.compile(r"\w++")


def names_elsewhere(calls: CallHistory, script: str) -> dict[str, set[str]]:
    """By what was called: the names that the script may read of objects in its answers that do not have them, where
    others in the same answer do.

    Args:
        calls: The calls of the script.
        script: The script.
    """
    found: dict[str, set[str]] = {}
    reads: set[tuple[str, str]] | None = None
    kept = [entry.name for entry in calls.last_answers.values()]
    for entry in calls.last_answers.values():
        payload = entry.payload or ""
        # Without those that are not kept it is not known what they have.
        if len(payload) > MAX_ANSWER or "{" not in payload[1:] or kept.count(entry.name) < calls.answered[entry.name]:
            continue
        keys = _keys_of(payload)
        names = calls.reads & set[str]().union(*keys.values())
        lacking = {(holder, name) for holder in keys for name in names - keys[holder]}
        if lacking:
            reads = set(_reads(script)) if reads is None else reads
            if misplaced := {name for _, name in lacking & reads}:
                found.setdefault(entry.name, set()).update(misplaced)
    return found


def _keys_of(payload: str) -> dict[str, set[str]]:
    """By property: the keys of the objects that are its values, or items of them."""
    found: dict[str, set[str]] = {}
    try:
        pending: deque[tuple[str, object]] = deque([(_ROOT, msgspec.json.decode(payload))])
    except (msgspec.MsgspecError, RecursionError):
        return found
    count = 0
    while pending and count < _MAX_OBJECTS:
        holder, value = pending.popleft()
        if isinstance(value, list):
            pending.extend((holder, item) for item in islice(cast("list[object]", value), _MAX_OBJECTS))
        elif isinstance(value, dict):
            count += 1
            owner = cast("dict[str, object]", value)
            found.setdefault(holder, set()).update(owner)
            pending.extend(
                (key, cast("object", inner)) for key, inner in owner.items() if isinstance(inner, dict | list)
            )
    return found


def _reads(script: str) -> Iterator[tuple[str, str]]:
    """The names that a script reads, each with a property of answers that they may be read of."""
    sources: dict[str, set[str]] = {}
    members = set(_MEMBER.findall(script))
    members |= {(owner, name) for owner, text in _INNER.findall(script) for name in _WORD.findall(text)}

    def add(variables: str, text: str, source: str) -> None:
        for variable in _WORD.findall(variables):
            if len(links := sources.setdefault(variable, set())) < _MAX_LINKS:
                links.add(source)
        members.update((source, name) for name in _WORD.findall(text))

    for source, text, first, second in _CALLBACK.findall(script):
        add(f"{first} {second}", text, source)
    for pattern in (_LOOP, _GIVEN):
        for text, variable, source in pattern.findall(script):
            add(variable, text, source)
    for variable, source in _MAPPED.findall(script):
        add(variable, "", source)
    for match in _AWAITED.finditer(script):
        pattern = _pattern_before(script, match.start()) if match[1] else ""
        add(match[2] or pattern, pattern, _ROOT)
    for text, variable in _THEN.findall(script):
        add(variable, text, _ROOT)
    for owner, name in members:
        yield from ((holder, name) for holder in _origins(owner, sources))


def _pattern_before(script: str, end: int) -> str:
    """The pattern whose last bracket stands at a place, or its last characters: `{ id, total }`."""
    text = script[max(0, end - _MAX_PATTERN) : end]
    return text[max(text.rfind(word) for word in ("const ", "let ", "var ", "(", ";")) + 1 :]


def _origins(variable: str, sources: dict[str, set[str]]) -> set[str]:
    """The properties that a variable may have its value from, by way of others."""
    found, pending = set[str](), [variable]
    while pending and len(found) < _MAX_LINKS:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += sources.get(name, ())
    return found
