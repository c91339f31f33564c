"""What the expressions that a script compares, adds up or looks for were in the answers of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.diagnosis.context import FailureContext, Observation
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.diagnosis.flow.paths import ValuePath
from codecall.sandbox.agentscript.diagnosis.remedies import is_missing
from codecall.sandbox.agentscript.parser.esprima import Node

_MAX_OBSERVATIONS: Final = 8

TEXT: Final = "a text"
NUMBER: Final = "a number"
OBJECT: Final = "an object"
LIST: Final = "a list"
KINDS: Final[Mapping[type, str]] = {
    **{str: TEXT, bool: "a boolean", int: NUMBER, float: NUMBER},
    **{dict: OBJECT, list: LIST},
}
"""What values are, as warnings say it."""


class Mistake(NamedTuple):
    """An expression that takes a value for something else."""

    expression: Node
    observation: Observation | None
    """What it was; None where the answers do not matter."""
    says: str
    """What is wrong, and what to write."""


class Operand(NamedTuple):
    """What an expression is: a literal, or a value of answers, which have all of one kind, where they have one."""

    node: Node
    kind: str
    observation: Observation | None = None
    """The answer with most values; None of a literal."""
    values: int = 0
    """How many values there are in all answers."""

    @property
    def is_sure(self) -> bool:
        """Whether a value would be of that kind the next time, too: one of several items, or an object in an answer."""
        inside = self.observation is not None and len(self.observation.path) > 0
        return self.values > 1 or (self.kind == OBJECT and inside)


class Operands:
    """Looks up the operands of one script.

    Args:
        dataflow: The script.
        context: Its answers.
        writes: Names of properties that objects of its own have: their values are not those of the answers.
    """

    def __init__(self, dataflow: DataFlow, context: FailureContext, writes: Set[str]) -> None:
        self.dataflow = dataflow
        self._context = context
        self._writes = writes

    def text(self, node: Node) -> str:
        """An expression as a warning shows it."""
        return self._context.text(node)

    def observations(self, node: Node, further: ValuePath = ()) -> list[Observation]:
        """What an expression was, or is some steps further; nothing where it may be a value of the script's own."""
        if node.type == "Identifier" and not self.dataflow.is_bound_once(node):
            return []
        found = list(islice(self._context.observations(node, further), _MAX_OBSERVATIONS))
        return [] if any(item.path[-1:] and item.path[-1] in self._writes for item in found) else found

    def sources(self, node: Node) -> Iterator[Node]:
        """An expression, and those whose value it may have; see `FailureContext.sources`."""
        return self._context.sources(node)

    def operand(self, node: Node) -> Operand | None:
        """What an expression is; None where that is not known, or there are several kinds."""
        if node.type == "Literal":
            value: object = node.value
            return None if (kind := KINDS.get(type(value))) is None else Operand(node, kind)
        found = self.observations(node)
        values: list[object] = [value for item in found for value in item.values]
        kinds = {KINDS.get(type(value)) for value in values if not is_missing(value)}
        kind = kinds.pop() if len(kinds) == 1 else None
        return None if kind is None else Operand(node, kind, max(found, key=_size), len(values))

    def texts(self, node: Node) -> tuple[Observation, list[str]] | None:
        """What an expression was, and its values where all that are there are texts; an empty one counts as missing."""
        found = self.observations(node)
        values: list[object] = [value for item in found for value in item.values if not is_missing(value)]
        texts = [value for value in values if isinstance(value, str)]
        filled = [text for text in texts if text]
        return (found[0], filled) if filled and len(texts) == len(values) else None


def _size(observation: Observation) -> int:
    return len(observation.values)
