"""How a script differs from its recording, in words and diffs for a person."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Final

from codecall.testing.calls import short
from codecall.testing.recording import Entry, JsonObject, Replay

_MAX_LISTED: Final = 10
"""Most calls that one list shows."""

_MAX_COMPARED: Final = 50
"""Most recorded calls that one is compared with, to find the nearest."""

_MAX_DIFF: Final = 60
"""Most lines of one diff."""


def surplus(made: Entry, replay: Replay, *, ordered: bool) -> str:
    """What to say of a call that was made and was not recorded, or is not due."""
    left, used = ([entry for entry in entries if _alike(entry, made)] for entries in (replay.left, replay.used))
    due = replay.next_call() if ordered and made.is_call else None
    lines = [f"made:     {told(made)}"]
    if due is not None:
        lines += [f"recorded: {told(due)}, which is due", *_diff(due, made)]
    elif left:
        nearest = max(left[:_MAX_COMPARED], key=lambda entry: _likeness(entry, made))
        lines += [f"recorded: {told(nearest)}, not made so far", *_diff(nearest, made)]
        lines += listed("Others recorded and not made so far:", [entry for entry in left if entry is not nearest])
    elif any(entry.key() == made.key() for entry in used):
        count = sum(entry.key() == made.key() for entry in used)
        lines.append(f"recorded: {'once' if count == 1 else f'{count} times'}, and made as often before")
    elif used:
        lines += ["recorded: no such call that has not been made", *listed("Made before:", used)]
    else:
        lines.append(f"recorded: nothing of that name{_names(made, replay)}")
    return "\n".join(lines)


def missing(entries: Sequence[Entry]) -> str:
    """What to say of what was recorded and is no longer asked for."""
    return "\n".join(listed("Recorded, but the test no longer asks for:", entries))


def listed(title: str, entries: Sequence[Entry]) -> list[str]:
    """A titled list of calls; nothing for none."""
    if not entries:
        return []
    lines = [title, *(f"  {told(entry)}" for entry in entries[:_MAX_LISTED])]
    more = len(entries) - _MAX_LISTED
    return [*lines, f"  … {more} more"] if more > 0 else lines


def told(entry: Entry) -> str:
    """A call in one line."""
    match entry.kind:
        case "tool":
            return f"{entry.name}({short(entry.input)})"
        case "resource":
            return f"readResource({entry.name!r})"
        case "prompt":
            return f"getPrompt({entry.name!r}, {short(entry.input)})"
        case "getTool":
            return f"getTool({entry.name!r})"
        case "space":
            return f"the namespace {entry.name}"
        case "member":
            return f"the member {entry.name}.{entry.input.get('member')}"


def _alike(entry: Entry, made: Entry) -> bool:
    return (entry.kind, entry.name) == (made.kind, made.name)


def _diff(recorded: Entry, made: Entry) -> list[str]:
    """What changes from the recorded input to the one made."""
    if not made.is_call:
        return []
    before, after = _lines(recorded), _lines(made)
    lines = list(difflib.unified_diff(before, after, "recorded", "made", lineterm="", n=2))
    more = len(lines) - _MAX_DIFF
    return [f"  {line}" for line in [*lines[:_MAX_DIFF], *([f"… {more} more lines"] if more > 0 else [])]]


def _lines(entry: Entry) -> list[str]:
    text = json.dumps(entry.input, indent=2, sort_keys=True, ensure_ascii=False)
    return [f"{entry.kind} {entry.name}", *text.split("\n")]


def _likeness(entry: Entry, made: Entry) -> float:
    """How alike two inputs are: keys with the same value count, then keys."""
    return sum(1.0 if entry.input[key] == made.input[key] else 0.5 for key in _common(entry.input, made.input))


def _common(left: JsonObject, right: JsonObject) -> set[str]:
    return left.keys() & right.keys()


def _names(made: Entry, replay: Replay) -> str:
    names = {entry.name for entry in (*replay.left, *replay.used) if entry.kind == made.kind}
    near = difflib.get_close_matches(made.name, names, n=3)
    return f"; there is {', '.join(near)}" if near else ""
