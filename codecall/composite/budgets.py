"""What one run of a workflow may hold, and what its templates may take and go through."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, cast

from codecall.composite.failures import TemplateError, WorkflowError
from codecall.jsonio.decode import count_containers, count_values, decode_in_thread
from codecall.jsonio.incremental import finish
from codecall.meta_tools.invoke import MAX_DEPTH as MAX_JSON_DEPTH
from codecall.quota import Quota, QuotaExceededError, Reservation, text_bytes

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""Bytes that one value may have where no preset says so."""
MEMORY_FACTOR: Final = 16
"""Memory that the values of one run may take together, in largest values: nearly two of ordinary rows, which count nine
times the bytes of their JSON, and eight of texts."""
MAX_MEMORY_OF_ALL: Final = 5 * MEMORY_FACTOR * MAX_VALUE_BYTES
"""Memory of the runs of all callers together; see `Quota.grow`, which gives a caller as much as one run may have."""
MAX_RUN_CHARS: Final = 10_000_000
"""Characters that all templates of one run may give, and that the functions they call may return."""

_BYTES_PER_VALUE: Final = 64
_BYTES_PER_CONTAINER: Final = 128
"""Memory that a value takes besides its characters, and an object or array besides being a value; measured with
CPython 3.11."""

MAX_KEYS: Final = 25_000
"""Keys of an object that a template goes through, with `range` or by writing it: the engine sorts them in one go, and
more do not fit into what a template may give."""
_FEWEST_CHARS: Final = 5 * MAX_KEYS
"""Characters that the JSON of so many keys has at least."""

_memory = Quota()
_memory_lock = Lock()


class HeldData:
    """The values of one run, counted by the memory that they and their JSON take.

    Args:
        max_value_bytes: Bytes that one value may have.
        reservation: Counts it among what all runs hold; None: nothing does.
    """

    def __init__(self, max_value_bytes: int = MAX_VALUE_BYTES, reservation: Reservation | None = None) -> None:
        self.chars: int = 0
        """Characters of all values so far."""
        self._most: Final = MEMORY_FACTOR * max_value_bytes
        self._size: int = 0
        self._reservation: Final = reservation

    @classmethod
    @contextmanager
    def of_run(cls, max_value_bytes: int, owner: str) -> Generator[HeldData]:
        """The values of a run of a caller, `owner`, which count among those of all runs until its end."""
        with _memory_lock:
            reservation = _memory.reserve(owner, None)
        try:
            yield cls(max_value_bytes, reservation)
        finally:
            with _memory_lock:
                _memory.shrink(reservation, 0)

    async def add(self, text: str) -> int:
        """Count a value by its JSON. One that is too much is not counted, since nobody keeps it.

        Returns:
            The objects and arrays in it.

        Raises:
            WorkflowError: the run, or all runs of its caller, would hold more than they may.
        """
        size, left = 2 * text_bytes(text), self._most - self._size  # the text itself, and the texts in it
        containers = await count_containers(text, left // _BYTES_PER_CONTAINER)
        size += containers * _BYTES_PER_CONTAINER
        size += await count_values(text, max(0, left - size) // _BYTES_PER_VALUE) * _BYTES_PER_VALUE
        if (total := self._size + size) > self._most:
            raise WorkflowError(
                f"The outputs of the steps, and what `fromJson` reads, take {total:,} bytes of memory together; "
                f"a run may hold {self._most:,}",
                code="OUTPUT_LIMIT",
                hint="Have the steps return less, or go through the data in several runs.",
            )
        if self._reservation is not None:
            self._reserve(self._reservation, size)
        self._size += size
        self.chars += len(text)
        return containers

    def add_in_thread(self, text: str) -> int:
        """As `add`, for a thread."""
        return finish(self.add(text))

    def _reserve(self, reservation: Reservation, size: int) -> None:
        try:
            with _memory_lock:
                _memory.grow(reservation, size, max_total=MAX_MEMORY_OF_ALL)
        except QuotaExceededError:
            raise WorkflowError(
                f"The workflows that run now hold so much data that {size:,} bytes of memory more are too many",
                code="OUTPUT_LIMIT",
                hint="Run it again when other runs have ended, fewer at the same time, or have the steps return less.",
            ) from None


class TemplateBudget:
    """The characters that the templates of one run may still give, and the JSON that they have decoded.

    Args:
        chars: The characters.
        held: Counts what the run holds.
    """

    def __init__(self, chars: int = MAX_RUN_CHARS, held: HeldData | None = None) -> None:
        self.left = chars
        self._held = held or HeldData()
        self._decoded: dict[str, object] = {}
        self._in_thread = Lock()
        self.without_marks: dict[int, tuple[object, object]] = {}
        """By the id of a value of the run: the value, and what `templates/rendering.py` has made of it."""

    def spend(self, chars: int) -> None:
        """Spend so many characters.

        Raises:
            TemplateError: there are not as many left.
        """
        self.left -= chars
        if self.left < 0:
            raise TemplateError(
                f"The templates of one run may give {MAX_RUN_CHARS:,} characters together",
                hint="Pass on the fields that are needed instead of whole outputs.",
            )

    def add_decoded(self, text: str, value: object) -> None:
        """Note the value of a JSON text that the run holds anyway."""
        self._decoded[text] = value

    def decode(self, text: str) -> object:
        """The value of a JSON text, which is decoded once in a run and counts among its values.

        Raises:
            WorkflowError: the run would hold more than it may; see `HeldData.add`.
            NotJsonError: the text is not JSON, or is nested too deeply.
        """
        with self._in_thread:  # iterations side by side read the same text
            if text not in self._decoded:
                containers = self._held.add_in_thread(text)
                value = decode_in_thread(text, containers, MAX_JSON_DEPTH)
                self._decoded[text] = _copy(value) if len(text) >= _FEWEST_CHARS and _has_large(value) else value
            elif _is_large(value := self._decoded[text]):
                self._decoded[text] = _copy(value)  # the value of a step, whose inside is limited
            return self._decoded[text]


class LargeObject(dict[str, Any]):
    """An object whose fields templates read, and whose keys they do not go through."""

    def __iter__(self) -> Iterator[str]:
        raise too_many_keys(len(self))


def too_many_keys(count: int) -> TemplateError:
    """What a template fails with that goes through an object of so many keys."""
    return TemplateError(
        f"An object has {count:,} keys; a template goes through at most {MAX_KEYS:,}",
        hint="Read single fields of it, or have the step return a list.",
    )


async def limit_keys(value: object, chars: float = math.inf) -> object:
    """Data that templates read: `value`, or a copy with each large object in it, but for itself, as a `LargeObject`.

    Args:
        value: JSON data.
        chars: Characters of its JSON, or more.
    """
    if chars < _FEWEST_CHARS or not isinstance(value, (dict, list)):
        return value
    return await asyncio.to_thread(_limit_keys, cast("dict[str, object] | list[object]", value))


def _limit_keys(value: dict[str, object] | list[object]) -> object:
    items = value.values() if isinstance(value, dict) else value
    if not any(map(_has_large, items)):
        return value
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value]


def _is_large(value: object) -> bool:
    return type(value) is dict and len(cast("dict[str, object]", value)) > MAX_KEYS


def _has_large(value: object) -> bool:
    waiting = [value]
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            fields = cast("dict[str, object]", container)
            if _is_large(fields):
                return True
            items = fields.values()
        else:
            items = cast("list[object]", container) if isinstance(container, list) else ()
        waiting += [item for item in items if isinstance(item, (dict, list))]
    return False


def _copy(value: object) -> object:
    if isinstance(value, list):
        return [_copy(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    copied: dict[str, object] = LargeObject() if _is_large(fields) else {}
    for key, item in fields.items():  # `update` would hold the interpreter
        copied[key] = _copy(item)
    return copied
