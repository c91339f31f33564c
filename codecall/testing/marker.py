"""The marker `@pytest.mark.codecall`: what it says for a test, and what is refused."""

from __future__ import annotations

import difflib
from typing import Final, NamedTuple, NoReturn

import pytest

__tracebackhide__ = True  # pytest: what is wrong is in the marker

MARKER: Final = "codecall"
"""The marker with which a test chooses its preset, limits, and what it allows."""

ALLOWANCES: Final = ("allow_unused", "allow_undeclared", "allow_invalid_input", "allow_failure")
"""What of the marker is about what fails a test."""

OTHER_KEYS: Final = ("preset", "recording")
"""What of it is neither that nor a limit."""


class Marked(NamedTuple):
    """What the markers of a test say, the nearest first."""

    preset: str | None
    allowances: tuple[str, ...]
    limits: dict[str, object]


def marked(node: pytest.Item) -> Marked:
    """What `@pytest.mark.codecall(...)` says for a test; the marker nearest to it decides, key by key. What is wrong
    fails the test."""
    said: dict[str, object] = {}
    for mark in reversed([*node.iter_markers(MARKER)]):
        if len(mark.args) > 1:
            _refuse(f" takes one preset and keywords, got {mark.args!r}")
        said |= {**({"preset": mark.args[0]} if mark.args else {}), **mark.kwargs}
    limits = {name: value for name, value in said.items() if name not in (*OTHER_KEYS, *ALLOWANCES)}
    preset = said.get("preset")
    if not isinstance(preset, str | None):
        _refuse(f": preset is a name or a path, got {preset!r}")
    if limits:
        _check(limits)
    return Marked(preset, tuple(name for name in ALLOWANCES if said.get(name, False)), limits)


def _check(limits: dict[str, object]) -> None:
    """Refuse what is no value of a preset."""
    from codecall.options import Preset

    known = (*OTHER_KEYS, *ALLOWANCES, *Preset.model_fields)
    spellings = {spelling for name, field in Preset.model_fields.items() for spelling in (name, field.alias)}
    for name in limits.keys() - spellings:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        _refuse(f" takes no {name!r}; {meant}Known: {', '.join(known)}")


def _refuse(why: str) -> NoReturn:
    pytest.fail(f"@pytest.mark.{MARKER}{why}", pytrace=False)
