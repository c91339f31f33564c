"""Properties that a script reads of `codecallContext` and the request has not brought: warnings about scripts that end
well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis.calls import MAX_SHOWN, shorten
from codecall.sandbox.agentscript.diagnosis.context import member_text, shape_of
from codecall.sandbox.agentscript.diagnosis.flow.bindings import pattern_parts
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow, with_dataflow
from codecall.sandbox.agentscript.diagnosis.remedies import MAX_KEYS, may_have
from codecall.sandbox.agentscript.diagnosis.uses import AnswerUses
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH, span
from codecall.sandbox.agentscript.ruleset import closest_key

NAME: Final = "codecallContext"

_MAX_WARNED: Final = 3
"""Properties that are warned of in one run."""
_MAX_READS: Final = 200
"""Reads of properties that are looked at."""
_SHORTEST: Final = 3
"""Fewest characters of a name that abbreviates another one."""


def warn_of_context(warnings: list[str], program: InstrumentedScript, context: str | None, room_ms: float) -> list[str]:
    """The warnings of a script, with those about what it reads of `codecallContext` that is not there.

    Args:
        warnings: The others. One that says only that such a property is undefined says why then.
        program: What ran.
        context: `codecallContext` as JSON text; None where the request brought none.
        room_ms: Milliseconds of its own time that it has left.
    """
    if NAME not in program.script:
        return warnings

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


def _warning(
    program: InstrumentedScript, dataflow: DataFlow, node: Node, name: str, brought: Mapping[str, object]
) -> str:
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


class _Search:
    """Looks in one script for what it reads of the context."""

    def __init__(self, dataflow: DataFlow, brought: Mapping[str, object]) -> None:
        self._dataflow = dataflow
        self._uses = AnswerUses(dataflow)
        self._brought = brought

    def missing(self) -> dict[str, Node]:
        """The properties that are read and were not brought, each with the first place; not those of which the script
        asks anywhere whether they are there."""
        found: dict[str, Node] = {}
        guarded = set[str]()
        for node, name in islice(self._reads(), _MAX_READS):
            if name in self._brought or may_have(self._brought, name):
                continue
            if self._is_optional(node, name):
                guarded.add(name)
            found.setdefault(name, node)
        return {name: node for name, node in found.items() if name not in guarded}

    def _reads(self) -> Iterator[tuple[Node, str]]:
        """Reads of properties of the context, and the names that a pattern takes from it."""
        owners = {NAME}
        for node in self._dataflow.nodes:
            if node.type == "VariableDeclarator" and getattr(node.init, "name", None) in owners:
                if node.id.type == "Identifier":
                    owners.add(node.id.name)
                for part, path in pattern_parts(node.id):
                    if len(path) == 1 and part.type != "AssignmentPattern":
                        yield part, str(path[0])
            elif node.type == "MemberExpression" and getattr(node.object, "name", None) in owners and not node.computed:
                yield node, node.property.name

    def _is_optional(self, read: Node, name: str) -> bool:
        """Whether the script is ready for the property to be missing, everywhere or at one place."""
        parent = self._uses.parent(read)
        if parent is not None and parent.type == "Property" and read.type == "MemberExpression" and self._brought:
            # An input may have what only some requests bring: `callTool('list', { limit: codecallContext.limit })`.
            return _closest(name, self._brought) is None
        return any(map(self._uses.is_guarded, self._uses.spots(read)))
