"""One failure of one script, as its symptoms are looked for: where it was, and what is left to look at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from codecall.sandbox.agentscript.evidence import Evidence, Sight
from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.journal import Journal
from codecall.sandbox.agentscript.tracing import Path, Reading

MAX_WHAT: Final = 80
"""Most characters of an expression, a key or a tool's name in a hint."""

Fields: TypeAlias = Mapping[str, str]
"""What a hint's template names."""

_ENDING: Final = re.compile("[\x00-\x1f\x7f-\x9f`\u2028\u2029]+")
"""What would end a line, or a piece of code in a hint."""
_PLAIN: Final = frozenset({"Identifier", "MemberExpression", "CallExpression", "ThisExpression"})


@dataclass(frozen=True)
class Case:
    """One failure of one script.

    Args:
        reading: The script, where there was time to read it again.
        offset: Where it failed, in characters of the script; None when nobody knows.
        journal: The script's calls.
        offsets: Where each of them was made, by number.
    """

    reading: Reading | None
    offset: int | None
    journal: Journal
    offsets: Mapping[int, int]

    @cached_property
    def evidence(self) -> Evidence | None:
        """Its answers."""
        return None if self.reading is None else Evidence(self.reading, self.journal, self.offsets)

    def sights(self, node: Node, further: Path = ()) -> Iterator[Sight]:
        """What an expression was, or is some steps further; see there."""
        return iter(()) if self.evidence is None else self.evidence.sights(node, further)

    def around(self, *types: str) -> list[Node]:
        """The nodes of these types over the place, the innermost first."""
        return [] if self.offset is None or self.reading is None else self.reading.around(self.offset, *types)

    def named(self, node: Node) -> str:
        """An expression as a hint shows it."""
        return short(self.reading.text(node)) if self.reading is not None else ""

    def before(self, node: Node) -> str:
        """An expression as it stands before a member's name, the dot with it."""
        return f"{self.named(node)}." if node.type in _PLAIN else f"({self.named(node)})."


Said: TypeAlias = "re.Match[str]"
"""The message, as the table's row found it."""

Symptom: TypeAlias = Callable[[Case, Said], Fields | None]


def short(text: str) -> str:
    """`text`, or its beginning and a mark."""
    return text if len(text) <= MAX_WHAT else f"{text[:MAX_WHAT]}…"


def as_said(case: Case, said: Said) -> Fields:
    """What the message itself says, in one line: what it names may be a key of an answer."""
    del case
    return {name: short(_ENDING.sub(" ", text or "")) for name, text in said.groupdict().items()}
