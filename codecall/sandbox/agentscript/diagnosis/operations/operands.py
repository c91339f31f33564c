"""What the expressions that a script compares, adds up or looks for were in the answers of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.diagnosis.calls import CallHistory
from codecall.sandbox.agentscript.diagnosis.context import FailureContext, Observation
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.diagnosis.flow.paths import ValuePath
from codecall.sandbox.agentscript.diagnosis.reads.writes import written_names
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
        calls: Its calls.
        writes: Names of properties that objects of its own have: their values are not those of the answers.
    """

    def __init__(self, dataflow: DataFlow, context: FailureContext, calls: CallHistory, writes: Set[str]) -> None:
        self.dataflow = dataflow
        self._context = context
        self._calls = calls
        written = written_names(dataflow, context)
        self._writes = None if written is None else written | writes

    def text(self, node: Node) -> str:
        """An expression as a warning shows it."""
        return self._context.text(node)

    def observations(self, node: Node, further: ValuePath = ()) -> list[Observation]:
        """What an expression was, or is some steps further; nothing where it may be a value of the script's own."""
        if self._writes is None or (node.type == "Identifier" and not self.dataflow.is_bound_once(node)):
            return []
        found = list(islice(self._context.observations(node, further), _MAX_OBSERVATIONS))
        names = (item.path[len(item.path) - len(further) - 1 :][:1] for item in found)
        return [] if any(name and name[0] in self._writes for name in names) else found

    def has_value(self, node: Node) -> bool:
        """Whether an expression had a value in an answer, before the script may have given it another one."""
        found = islice(self._context.observations(node), _MAX_OBSERVATIONS)
        return any(not is_missing(value) for item in found for value in item.values)

    def sources(self, node: Node) -> Iterator[Node]:
        """An expression, and those whose value it may have; see `FailureContext.sources`."""
        return self._context.sources(node)

    def operand(self, node: Node, further: ValuePath = ()) -> Operand | None:
        """What an expression is, or is some steps further; None where that is not known, or there are several kinds."""
        if node.type == "Literal":
            value: object = node.value
            return None if (kind := KINDS.get(type(value))) is None else Operand(node, kind)
        found = self.observations(node, further)
        values: list[object] = [value for item in found for value in item.values]
        kinds = {KINDS.get(type(value)) for value in values if not is_missing(value)}
        kind = kinds.pop() if len(kinds) == 1 else None
        return None if kind is None else Operand(node, kind, max(found, key=_size), len(values))

    def sees_all(self, *operands: Operand) -> bool:
        """Whether all answers were kept that these are from: an earlier one may have had values of another kind."""
        return all(self.sees_answers(item.observation.tool) for item in operands if item.observation is not None)

    def sees_answers(self, tool: str) -> bool:
        """Whether all answers of a tool were kept."""
        kept = [entry.name for entry in self._calls.last_answers.values()]
        return self._calls.answered[tool] <= kept.count(tool)

    def texts(self, node: Node) -> tuple[Observation, list[str]] | None:
        """What an expression was, and its values where all that are there are texts; an empty one counts as missing."""
        found = self.observations(node)
        values: list[object] = [value for item in found for value in item.values if not is_missing(value)]
        texts = [value for value in values if isinstance(value, str)]
        filled = [text for text in texts if text]
        return (found[0], filled) if filled and len(texts) == len(values) else None


def _size(observation: Observation) -> int:
    return len(observation.values)
