"""Properties that a script reads of answers that have none of that name: warnings about scripts that end well.

While a script runs, only the names that it reads are looked for in the text of each answer. The script is parsed again
where one was in no answer, and may be a misspelling or was needed; what a warning says has been looked up in an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, cast

from codecall.sandbox.agentscript.diagnosis.calls import CallHistory
from codecall.sandbox.agentscript.diagnosis.causes import answer_fields, is_list_hint, suggestion
from codecall.sandbox.agentscript.diagnosis.context import UNDEFINED, FailureContext, HintFields, Observation
from codecall.sandbox.agentscript.diagnosis.dataflow import DataFlow, Step
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, children, key_name, member_name
from codecall.sandbox.agentscript.ruleset import closest_key

MAX_MISREAD: Final = 3
"""Properties that are warned of in one run."""

_MAX_KEYS: Final = 200
"""Keys of answers that a name is compared with."""

_KEY = re.compile(r'"([\w$-]{1,60})":')
_AWAITED = re.compile(r"\b(\w++)\s*=\s*await\b")
_LENGTH = re.compile(r"\b(\w++)\s*\.\s*length\b")

_NUMERIC: Final = frozenset({"+", "-", "*", "/", "%", "**", "<", ">", "<=", ">="})
_OF_NUMBERS: Final = frozenset({"Number", "parseFloat", "parseInt", "Date"})
_CHOICES: Final = frozenset({"LogicalExpression", "ConditionalExpression", "IfStatement"})
_PREDICATES: Final = frozenset({"filter", "find", "findIndex", "findLast", "some", "every"})
_FLAGS: Final = re.compile(r"(?i)err|fail|warn|delet|archiv|hidden|disabl|cancel|is_?null")
"""Names of what is commonly there only where something is special: a condition that asks for one means that."""

Declares = Callable[[str, str], bool]
"""Whether a tool says that its answers may have a property of a name."""


def suspects(program: InstrumentedScript, calls: CallHistory) -> frozenset[str]:
    """Names that the script reads and that some answers should have had, perhaps; empty for nearly every script."""
    if not calls.unseen:
        return frozenset()
    found: set[str] = set[str].intersection(*calls.unseen.values()) - program.ending.writes - {"length"}
    for tool, unseen in calls.unseen.items():
        names = unseen - found - {"length"}
        payloads = [entry.payload or "" for entry in calls.last_answers.values() if entry.name == tool]
        keys = list(dict.fromkeys(key for text in payloads for key in _KEY.findall(text[:16_384])))[:_MAX_KEYS]
        found |= {name for name in names if closest_key(name, keys) is not None}
    if any((entry.payload or "").startswith("{") for entry in calls.last_answers.values()) and (
        set(_AWAITED.findall(program.script)) & set(_LENGTH.findall(program.script))
    ):
        found.add("length")
    return frozenset(found)


class MisreadSearch:
    """Looks in one script for reads of properties that no answer has.

    Args:
        dataflow: The script.
        context: Its answers.
        calls: Its calls.
        missing: Keys that are left out of its value.
        declares: What the tools say of their answers.
    """

    def __init__(
        self, dataflow: DataFlow, context: FailureContext, calls: CallHistory, missing: list[str], declares: Declares
    ) -> None:
        self._dataflow = dataflow
        self._context = context
        self._calls = calls
        self._missing = missing
        self._declares = declares
        self._parents = {id(child): node for node in dataflow.nodes for child in children(node)}

    def find(self, names: frozenset[str]) -> Iterator[tuple[Node, HintFields]]:
        """The reads to warn of, one of each tool and name, with the fields of a hint."""
        told = set[tuple[str, str]]()
        for node, name in self._reads(names):
            for observation in self._context.observations(node):
                if (observation.tool, name) in told or observation.path[-1:] != (name,):
                    continue
                fields = self._fields(node, name, observation)
                if fields is not None and not self._declares(observation.tool, name):
                    told.add((observation.tool, name))
                    yield node, fields
                if fields is not None:
                    break
            if len(told) == MAX_MISREAD:
                return

    def _reads(self, names: frozenset[str]) -> Iterator[tuple[Node, str]]:
        for node in self._dataflow.nodes:
            if node.type == "MemberExpression" and member_name(node) in names:
                parent = self._parents.get(id(node))
                if parent is None or parent.type != "AssignmentExpression" or parent.left is not node:
                    yield node, str(member_name(node))
            elif node.type == "ObjectPattern":
                for item in node.properties:
                    plain = item.type == "Property" and not item.computed and item.value.type == "Identifier"
                    if plain and (name := key_name(item.key)) in names:
                        yield item.value, name
            elif node.type == "Property" and node.value.type == "Identifier" and node.value.name in names:
                yield node.value, node.value.name

    def _fields(self, node: Node, name: str, observation: Observation) -> HintFields | None:
        objects = [cast("dict[str, object]", parent) for parent in observation.parents if isinstance(parent, dict)]
        if not any(objects) or any(value is not UNDEFINED for value in observation.values):
            return None
        if name != "length" and name not in self._calls.unseen.get(observation.tool, ()):
            return None
        owner = self._context.owner_text(node.object) if node.type == "MemberExpression" else ""
        named = name.casefold() in observation.tool.casefold()
        use = suggestion(owner, observation, "map" if named else "")
        near = use.startswith(" Did you mean")
        if near and self._tries_both(node, use):
            return None
        if near or (is_list_hint(use) and (named or name == "length")) or self._is_needed(node, name, observation):
            return {**answer_fields(observation, "", observation.values), "use": use}
        return None

    def _is_needed(self, node: Node, name: str, observation: Observation) -> bool:
        """Whether what becomes of the value is never meant of an undefined one."""
        parent = self._parents.get(id(node))
        if parent is None:
            return False
        kind: str = parent.type
        if kind in {"BinaryExpression", "UnaryExpression", "AssignmentExpression"}:
            operator: str = parent.operator
            return operator in _NUMERIC or operator.removesuffix("=") in _NUMERIC
        if kind in {"CallExpression", "NewExpression"}:
            called = self._dataflow.text(parent.callee)
            return called in _OF_NUMBERS or called.startswith(("Math.", "Number."))
        if kind == "TemplateLiteral" or Step.EACH not in observation.path:
            return kind == "TemplateLiteral"
        if kind == "Property":
            return key_name(parent.key) in self._missing
        return self._is_condition(parent, node) and not _FLAGS.search(name)

    def _tries_both(self, node: Node, use: str) -> bool:
        """Whether the script tries the other name, too: `answer.user ?? answer.users`."""
        parent = self._parents.get(id(node))
        other = use.rpartition("Did you mean `")[2].removesuffix("`?").rpartition(".")[2]
        return parent is not None and parent.type in _CHOICES and other in self._calls.reads

    def _is_condition(self, function: Node, node: Node) -> bool:
        """Whether `node` is all that a callback asks of an item: `items.filter((item) => item.active)`."""
        call = self._parents.get(id(function))
        return (
            function.type in FUNCTIONS
            and function.body is node
            and call is not None
            and call.type == "CallExpression"
            and call.callee.type == "MemberExpression"
            and member_name(call.callee) in _PREDICATES
        )
