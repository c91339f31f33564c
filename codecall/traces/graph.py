"""The graph of a composite tool's steps: each beside those that it waits for, with what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from codecall.traces.escape import escape_attribute, truncate
from codecall.traces.model import Trace

MAX_STEPS: Final = 100
"""Steps that are drawn: as many as a composite tool may have."""
_WIDTH: Final = 190
_HEIGHT: Final = 46
_GAP: Final = 34
_MAX_LABEL: Final = 24


class GraphStep(NamedTuple):
    """A step, at its place."""

    id: str
    about: str
    """The tool that it calls, or its type."""
    depends_on: tuple[str, ...]
    column: int
    row: int


def step_graph(trace: Trace) -> Iterator[str]:
    """The graph as a picture; nothing for what is no run of a workflow, or where the record has no definition."""
    steps = place_steps(_steps_of(trace)) if trace.language == "workflow" else {}
    if not steps:
        return
    width = (1 + max(step.column for step in steps.values())) * (_WIDTH + _GAP)
    height = (1 + max(step.row for step in steps.values())) * (_HEIGHT + _GAP // 2)
    yield f'<div class="graph"><svg width="{width}" height="{height}" role="img" aria-label="Steps">'
    for step in steps.values():
        for name in step.depends_on:
            if name in steps:
                yield _edge(steps[name], step)
    for step in steps.values():
        yield from _box(step, trace.steps.get(step.id, "not recorded"))
    yield "</svg></div>"


def place_steps(steps: Sequence[Mapping[str, object]]) -> dict[str, GraphStep]:
    """Each step in the column after those that it waits for, by its id."""
    placed: dict[str, GraphStep] = {}
    rows: dict[int, int] = {}
    waiting = {str(step.get("id")): step for step in steps[:MAX_STEPS]}
    while waiting:
        ready = [name for name, step in waiting.items() if not {*_names(step)} & waiting.keys()]
        for name in ready or list(waiting):  # a record may have been changed by hand, and hold a circle
            step = waiting.pop(name)
            column = 1 + max((placed[other].column for other in _names(step) if other in placed), default=-1)
            rows[column] = rows.get(column, -1) + 1
            inner = step.get("step")
            called = cast("Mapping[str, object]", inner).get("tool") if isinstance(inner, Mapping) else step.get("tool")
            about = f"for each: {called}" if isinstance(inner, Mapping) else str(called or step.get("type") or "")
            placed[name] = GraphStep(name, about, _names(step), column, rows[column])
    return placed


def _steps_of(trace: Trace) -> list[Mapping[str, object]]:
    try:
        definition: object = json.loads(trace.script or "")
    except (ValueError, RecursionError):
        return []
    steps = cast("Mapping[str, object]", definition).get("steps") if isinstance(definition, Mapping) else None
    found = cast("list[object]", steps) if isinstance(steps, list) else []
    return [cast("Mapping[str, object]", step) for step in found if isinstance(step, Mapping)]


def _names(step: Mapping[str, object]) -> tuple[str, ...]:
    names = step.get("dependsOn")
    return tuple(str(name) for name in cast("list[object]", names)) if isinstance(names, list) else ()


def _left(step: GraphStep) -> int:
    return step.column * (_WIDTH + _GAP) + 1


def _top(step: GraphStep) -> int:
    return step.row * (_HEIGHT + _GAP // 2) + 1


def _edge(before: GraphStep, after: GraphStep) -> str:
    middle = _HEIGHT // 2
    return (
        f'<line class="edge" x1="{_left(before) + _WIDTH}" y1="{_top(before) + middle}" '
        f'x2="{_left(after)}" y2="{_top(after) + middle}"/>'
    )


def _box(step: GraphStep, status: str) -> Iterator[str]:
    mood = {"completed": "good", "failed": "bad"}.get(status, "quiet")
    x, y = _left(step), _top(step)
    # No markup: an element of HTML would end the picture.
    labels = [escape_attribute(truncate(text, _MAX_LABEL)) for text in (step.id, step.about, status)]
    yield f'<g class="step {mood}"><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
    yield f'<text class="name" x="{x + 10}" y="{y + 19}">{labels[0]}</text>'
    yield f'<text x="{x + 10}" y="{y + 36}">{labels[1]} · {labels[2]}</text></g>'
