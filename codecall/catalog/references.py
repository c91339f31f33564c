"""`$ref` in JSON Schema: what a reference that stays within its document points to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast
from urllib.parse import unquote

MAX_STEPS = 64
"""Steps of a JSON pointer that are followed."""

_NOWHERE: Final = object()
_KEYWORDS: Final = frozenset({"properties", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"})


def pointed(reference: object, root: object) -> tuple[str, object] | None:
    """The place that `reference` names and what is there; None for anything else than a place within `root`.

    Names of equal places are equal, however they are spelled. Anchors and other documents are not looked up.
    """
    if not isinstance(reference, str) or re.match(r"#(/|\Z)", unquote(reference)) is None:
        return None
    place = unquote(reference[1:])
    steps = [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]]
    target: object = root
    for step in steps[:MAX_STEPS]:
        target = _step(target, step)
        if target is _NOWHERE:
            return None
    return (place, target) if len(steps) <= MAX_STEPS else None


def _step(target: object, step: str) -> object:
    """What is below `target` under a name or a number, if it is of the same document."""
    found: object = _NOWHERE
    if isinstance(target, Mapping):
        found = cast("Mapping[object, object]", target).get(step, _NOWHERE)
    elif isinstance(target, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", step):
        items = cast("Sequence[object]", target)
        found = items[int(step)] if int(step) < len(items) else _NOWHERE
    if isinstance(found, Mapping) and is_document(cast("Mapping[str, object]", found)):
        return _NOWHERE
    return cast("object", found)


def is_document(schema: Mapping[str, object]) -> bool:
    """Whether a schema within another is a document of its own, whose references start at itself."""
    return any(isinstance(name := schema.get(key), str) and not name.startswith("#") for key in ("$id", "id"))


def title_of(place: str) -> str:
    """What to call the definition at a place: the last step that is a name."""
    steps = [step for step in place.split("/") if step and not step.isdigit() and step not in _KEYWORDS]
    return steps[-1] if steps else "Root"
