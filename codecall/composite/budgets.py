"""What one run of a workflow may hold, and what its templates may take."""

from __future__ import annotations

from threading import Lock
from typing import Final

from codecall.composite.failures import TemplateError, WorkflowError
from codecall.jsonio.decode import (
    BYTES_PER_CONTAINER,
    FEWEST_CONTAINERS,
    count_containers_in_thread,
    decode_in_thread,
)
from codecall.meta_tools.invoke import MAX_DEPTH as MAX_JSON_DEPTH

MAX_BUFFERED_FACTOR: Final = 4
"""Bytes that all values of one run may have together, in largest values."""
MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""Bytes that one value may have where no preset says so."""
MAX_RUN_CHARS: Final = 10_000_000
"""Characters that all templates of one run may give, and that the functions they call may return."""


class HeldData:
    """The values of one run, counted by their JSON.

    Args:
        max_value_bytes: Bytes that one value may have.
    """

    def __init__(self, max_value_bytes: int = MAX_VALUE_BYTES) -> None:
        self.chars: int = 0
        """Characters of all values so far."""
        self._most_chars: Final = MAX_BUFFERED_FACTOR * max_value_bytes
        self._most_containers: Final = FEWEST_CONTAINERS + self._most_chars // BYTES_PER_CONTAINER
        self._containers: int = 0

    @property
    def containers_left(self) -> int:
        """Objects and arrays that further values may have."""
        return self._most_containers - self._containers

    def add(self, chars: int, containers: int) -> None:
        """Count a value. One that is too much is not counted, since nobody keeps it.

        Raises:
            WorkflowError: the run would hold more than it may.
        """
        chars, containers = self.chars + chars, self._containers + containers
        for count, most, what in (
            (chars, self._most_chars, "characters"),
            (containers, self._most_containers, "objects and arrays"),
        ):
            if count > most:
                raise WorkflowError(
                    f"The outputs of the steps, and what `fromJson` reads, have {count:,} {what} together; "
                    f"a run may hold {most:,}",
                    code="OUTPUT_LIMIT",
                    hint="Have the steps return less, or go through the data in several runs.",
                )
        self.chars, self._containers = chars, containers


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
        """By the id of a value of the run: the value, and what `templates.py` has made of it."""

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
            WorkflowError: the run would hold more than it may.
            NotJsonError: the text is not JSON, or is nested too deeply.
        """
        with self._in_thread:  # iterations side by side read the same text
            if text not in self._decoded:
                containers = count_containers_in_thread(text, self._held.containers_left)
                self._held.add(len(text), containers)
                self._decoded[text] = decode_in_thread(text, containers, MAX_JSON_DEPTH)
            return self._decoded[text]
