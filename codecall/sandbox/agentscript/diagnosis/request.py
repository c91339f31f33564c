"""Properties that a script reads of `codecallContext` and the request has not brought: warnings about scripts that end
well, and why others failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Final, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis.calls import MAX_SHOWN, shorten
from codecall.sandbox.agentscript.diagnosis.causes import with_article
from codecall.sandbox.agentscript.diagnosis.context import (
    FailureContext,
    HintFields,
    MessageMatch,
    kind_of,
    member_text,
    shape_of,
)
from codecall.sandbox.agentscript.diagnosis.flow.bindings import pattern_parts
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow, with_dataflow
from codecall.sandbox.agentscript.diagnosis.flow.paths import UNDEFINED, ValuePath
from codecall.sandbox.agentscript.diagnosis.flow.values import CONTEXT as NAME
from codecall.sandbox.agentscript.diagnosis.flow.values import UNKNOWN, KnownValues
from codecall.sandbox.agentscript.diagnosis.places import iterated_nodes, member_nodes, patterns
from codecall.sandbox.agentscript.diagnosis.reads.uses import AnswerUses
from codecall.sandbox.agentscript.diagnosis.remedies import MAX_KEYS, is_missing, list_advice, may_have
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import EQUALITY, PREFIX_LENGTH, member_name, span
from codecall.sandbox.agentscript.ruleset import closest_key, closest_name

_MAX_WARNED: Final = 3
"""Properties that are warned of in one run."""
_MAX_READS: Final = 200
"""Reads of properties that are looked at."""
_SHORTEST: Final = 3
"""Fewest characters of a name that abbreviates another one."""
_ALIKE: Final = 0.9
"""How similar another spelling of a name is to it."""
_DIGITS: Final = re.compile(r"\d")
_ASKS: Final = re.compile(r"Array\.isArray|Boolean|Number\.is[A-Z]\w*|isNaN")
"""Functions by which scripts ask what a value is."""


def warn_of_context(warnings: list[str], program: InstrumentedScript, context: str | None, room_ms: float) -> list[str]:
    """The warnings of a script, with those about what it reads of `codecallContext` that is not there.

    Args:
        warnings: The others. One that says only that such a property is undefined says why then.
        program: What ran.
        context: `codecallContext` as JSON text; None where the request brought none.
        room_ms: Milliseconds of its own time that it has left.
    """

    def find(dataflow: DataFlow | None) -> list[str]:
        if dataflow is None:
            return []
        brought = cast("dict[str, object]", msgspec.json.decode(context or "{}"))
        search = _Search(dataflow, brought)
        missing = islice(search.missing().items(), _MAX_WARNED)
        return [_warning(program, dataflow, node, name, brought) for name, node in missing]

    for text in with_dataflow(program.script, room_ms, find, fallback=list[str]()):
        what = f"{text.partition(': ')[0]}."
        known = next((number for number, told in enumerate(warnings) if told.endswith(what)), None)
        if known is None:
            warnings = [*warnings, text]
        else:
            warnings = [*warnings[:known], warnings[known].removesuffix(what) + text, *warnings[known + 1 :]]
    return warnings


def missing_property(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A property is read from what the request has not brought."""
    nodes = [node.object for node in member_nodes(context, match["member"])]
    return brought_fields(context, [(node, ()) for node in nodes])


def missing_destructured_property(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """What the request has not brought is destructured, or passed to `Object.keys` or one of its kin."""
    del match
    given = [call.arguments[0] for call in context.enclosing("CallExpression") if call.arguments]
    taken = [(value, path) for value, part, path in patterns(context) if part.type == "ObjectPattern"]
    return brought_fields(context, [*((node, ()) for node in given), *taken])


def not_a_list(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """What the request has brought, or has not brought, is iterated over, and is no list."""
    del match
    return brought_fields(context, [(node, ()) for node in iterated_nodes(context)], is_list=True)


def brought_fields(
    context: FailureContext, places: Sequence[tuple[Node, ValuePath]], *, is_list: bool = False
) -> HintFields | None:
    """The fields of a hint about the first of these expressions, each with a way further, that the request has not
    brought; `is_list`: or that is no list."""
    if context.dataflow is None or NAME not in context.dataflow.script:
        return None
    values = KnownValues(context.dataflow, context.brought)
    for node, further in places:
        for source in context.sources(node):
            owner, steps = values.path_of(source), [step for step in further if isinstance(step, str)]
            if owner is None or len(steps) < len(further):
                continue
            value = values.at(path := (*owner, *steps))
            is_meant = is_list and value is not UNKNOWN and kind_of(value) not in {"string", "array"}
            if value is UNDEFINED or value is None or is_meant:
                kind = "undefined" if value is UNDEFINED else kind_of(value)
                brought = shape_of([context.brought]) if context.brought else "no context"
                return {
                    "what": context.text(node) if not steps else shorten(steps[-1]),
                    "kind": kind if is_missing(value) else with_article(kind),
                    "brought": brought,
                    "use": _use(values, path) if is_missing(value) else list_advice(f"{NAME}.", [value]).text,
                }
    return None


def _use(values: KnownValues, path: Sequence[str]) -> str:
    """The advice to use a property with a similar name for the first one of a path that was not brought."""
    for number, name in enumerate(path):
        owner = values.at(path[:number])
        if isinstance(owner, dict) and values.at(path[: number + 1]) is UNDEFINED:
            key = _closest(name, cast("dict[str, object]", owner))
            meant = None if key is None else member_text(".".join((NAME, *path[:number], "")), key)
            return f" Did you mean `{meant}`?" if meant else ""
    return ""


def _warning(
    program: InstrumentedScript, dataflow: DataFlow, node: Node, name: str, brought: Mapping[str, object]
) -> str:
    node = node.left if node.type == "AssignmentPattern" else node
    line = program.lines.line(span(node)[0] - PREFIX_LENGTH)
    begins = f"`{shorten(dataflow.text(node))}` on line {line} is undefined: the request brought "
    if not brought:
        return f"{begins}no context."
    key = _closest(name, brought)
    meant = None if key is None else member_text(f"{NAME}.", key)
    return f"{begins}{shape_of([brought])}.{f' Did you mean `{meant}`?' if meant else ''}"


def _closest(name: str, brought: Mapping[str, object]) -> str | None:
    """The property that is meant by `name`: the most similar one, else the only one that `name` abbreviates."""
    keys = list(islice(brought, MAX_KEYS))
    if (key := closest_key(name[:MAX_SHOWN], keys)) is not None:
        return key
    begun = [key for key in keys if len(name) >= _SHORTEST and key.casefold().startswith(name.casefold())]
    return begun[0] if len(begun) == 1 else None


def _is_misspelt(name: str, key: str) -> bool:
    """Whether a name is certainly another spelling of a key: `min_year` of `minYear`, `limits` of `limit`."""
    if _DIGITS.findall(name) != _DIGITS.findall(key):
        return False
    return _folded(name) == _folded(key) or closest_name(name[:MAX_SHOWN], [key], cutoff=_ALIKE) is not None


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold().removesuffix("s")


class _Search:
    """Looks in one script for what it reads of the context."""

    def __init__(self, dataflow: DataFlow, brought: Mapping[str, object]) -> None:
        self._dataflow = dataflow
        self._uses = AnswerUses(dataflow)
        self._brought = brought
        self._values = KnownValues(dataflow, brought)

    def missing(self) -> dict[str, Node]:
        """The properties that are read and were not brought, each with the first place; not those of which the script
        asks anywhere whether they are there, unless another spelling of the name was brought."""
        found: dict[str, Node] = {}
        guarded = set[str]()
        reads = list(islice(self._reads(), _MAX_READS))
        named = {name for _, name in reads}
        for node, name in reads:
            if name in self._brought or may_have(self._brought, name):
                continue
            if self._is_optional(node, name):
                guarded.add(name)
            if self._values.is_reached(node):
                found.setdefault(name, node)
        return {name: node for name, node in found.items() if name not in guarded or self._is_meant(name, named)}

    def _is_meant(self, name: str, named: Set[str]) -> bool:
        """Whether a property was brought under another spelling of a name, and the script has no other way to it."""
        key = next((key for key in islice(self._brought, MAX_KEYS) if _is_misspelt(name, key)), None)
        return key is not None and key not in named and not self._is_used_whole()

    def _is_used_whole(self) -> bool:
        """Whether the script does more with the context than to read properties by their names."""
        names = [node for node in self._dataflow.nodes if node.type == "Identifier" and node.name == NAME]
        return not all(map(self._is_plain_use, names))

    def _is_plain_use(self, name: Node) -> bool:
        parent = self._uses.parent(name)
        if parent is not None and parent.type == "MemberExpression":
            return parent.object is name and member_name(parent) is not None
        if parent is None or parent.type != "VariableDeclarator" or parent.id.type != "ObjectPattern":
            return False
        return all(item.type == "Property" for item in parent.id.properties)

    def _reads(self) -> Iterator[tuple[Node, str]]:
        """Reads of properties of the context, and the names that a pattern takes from it."""
        owners = {NAME}
        for node in self._dataflow.nodes:
            if node.type == "VariableDeclarator" and getattr(node.init, "name", None) in owners:
                if node.id.type == "Identifier":
                    owners.add(node.id.name)
                for part, path in pattern_parts(node.id):
                    if len(path) == 1:
                        yield part, str(path[0])
            elif node.type == "MemberExpression" and getattr(node.object, "name", None) in owners:
                name = member_name(node)
                yield from [(node, name)] if isinstance(name, str) else ()

    def _is_optional(self, read: Node, name: str) -> bool:
        """Whether the script is ready for the property to be missing, everywhere or at one place."""
        if read.type == "AssignmentPattern":
            return True
        spots = list(self._uses.spots(read))
        if self._brought and self._is_given_on(read, spots):
            # An input may have what only some requests bring: `callTool('list', { limit: codecallContext.limit })`.
            return _closest(name, self._brought) is None
        return any(self._is_ready(spot, name) for spot in spots)

    def _is_given_on(self, read: Node, spots: Sequence[Node]) -> bool:
        """Whether a value becomes a property of an object, as in an input, and no more, in a variable or at once."""
        places = [spot for spot in spots if spot is not read] if len(spots) > 1 else spots
        properties = [parent for spot in places if (parent := self._uses.parent(spot)) is not None]
        return all(node.type == "Property" and self._is_in_object(node) for node in properties)

    def _is_in_object(self, item: Node) -> bool:
        owner = self._uses.parent(item)
        return owner is not None and owner.type == "ObjectExpression"

    def _is_ready(self, spot: Node, name: str) -> bool:
        """Whether something may stand in place of a value at one place, it stands in place of another one itself, or
        the script asks whether it is there or which it is."""
        parent = self._uses.parent(spot)
        if parent is None or self._uses.is_guarded(spot):
            return parent is not None
        match parent.type:
            case "LogicalExpression":
                return parent.operator != "&&"
            case "CallExpression":
                return parent.callee is not spot and _ASKS.fullmatch(self._dataflow.text(parent.callee)) is not None
            case "BinaryExpression":
                # `if (codecallContext.mode === 'full') …`
                whole = self._uses.parent(parent)
                is_test = whole is not None and (
                    whole.type == "VariableDeclarator" or getattr(whole, "test", None) is parent
                )
                sides = {parent.left.type, parent.right.type}
                is_asked = is_test and parent.operator in EQUALITY and "Literal" in sides
                return is_asked and bool(self._brought) and _closest(name, self._brought) is None
            case _:
                return False
