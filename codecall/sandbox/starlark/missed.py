"""Keys that a script asks an answer for with `get`, and that no answer of the tool has: a warning where another key was
meant, since the default then stands in place of what there is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, TypeGuard, cast

from starlark.eval import builtins, methods
from starlark.eval.collection_methods import d_get
from starlark.eval.values import Dict, StarlarkList
from starlark.syntax import ast
from starlark.syntax.tokens import TokenKind

from codecall.sandbox.agentscript.diagnosis.remedies import declares
from codecall.sandbox.agentscript.validator.names import AskHost
from codecall.sandbox.starlark.evaluator_internals import calling_offset
from codecall.sandbox.starlark.failures import MAX_KEY, keys_in
from codecall.sandbox.starlark.read import StarlarkProgram, walk
from codecall.sandbox.starlark.thread import TaskThread

MAX_ANSWERS: Final = 16
"""Answers in which keys are looked for, the newest."""

MAX_MISSED: Final = 3
"""Keys that are warned of in one run."""

_MAX_KEYS: Final = 200
"""Keys of one answer that are remembered."""
_MAX_FIELDS: Final = 50
"""Keys from which on a dict is a table to look things up in: what it lacks is no field."""
_MAX_LOOKED_AT: Final = 100
"""Missing keys of one run that are looked at."""


class _Missed(NamedTuple):
    """One key that was asked for in vain."""

    offset: int | None
    """Where."""
    meant: str
    """The key that may have been meant."""
    text: str
    """What a warning says of the keys there are."""
    if_list: bool
    """Whether that is meant only where the script has a list in place of what is missing: `… or []`."""


def _starts_before_list(node: Any) -> Iterator[int]:
    """Where the operands begin in whose place an expression has a list: of `a or b or []` those of `a` and `b`."""
    if _is_or(node) and isinstance(node.rhs, ast.ListExpression):
        left: ast.Expression = node.lhs
        while _is_or(left):
            yield left.rhs.start
            left = left.lhs
        yield left.start


def _is_or(node: object) -> TypeGuard[ast.BinaryOperatorExpression]:
    return isinstance(node, ast.BinaryOperatorExpression) and node.op is TokenKind.OR


class MissedKeys:
    """The keys that one script has asked its answers for in vain."""

    def __init__(self) -> None:
        self._answers: dict[int, tuple[str, Dict]] = {}
        self._keys: dict[str, set[object]] = {}
        self._missed: dict[tuple[str, str], _Missed] = {}
        self._looked_at: set[tuple[str, str]] = set()

    def add_answer(self, tool: str, answer: object) -> None:
        """Add what a tool gave."""
        if isinstance(answer, Dict):
            while len(self._answers) >= MAX_ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[id(answer)] = tool, answer
            self._keys.setdefault(tool, set()).update(islice(cast("Iterable[object]", answer), _MAX_KEYS))

    def add_read(self, owner: Dict, key: object, default: object) -> None:
        """Add that a dict was asked for a key that it lacks."""
        tool, answer = self._answers.get(id(owner), ("", None))
        if answer is not owner or not isinstance(key, str) or not self._is_new(tool, key, owner):
            return
        found = keys_in(owner, key)
        wants_list = isinstance(default, StarlarkList) or key.casefold() in tool.casefold()
        meant = found.near or (found.only_list if wants_list or default is None else None)
        if meant is not None:
            if_list = found.near is None and not wants_list
            self._missed[tool, key] = _Missed(calling_offset(), meant, found.text, if_list)

    def _is_new(self, tool: str, key: str, owner: Dict) -> bool:
        """Whether a missing key is looked at, which takes a while: each once, and not in tables."""
        if len(owner) > _MAX_FIELDS or len(key) > MAX_KEY or len(self._looked_at) >= _MAX_LOOKED_AT:
            return False
        before = len(self._looked_at)
        self._looked_at.add((tool, key))
        return len(self._looked_at) > before

    def warnings(self, program: StarlarkProgram, ask: AskHost) -> list[str]:
        """The warnings about keys that no answer of their tool had, where the script does not name what was meant.

        Args:
            program: What ran.
            ask: Asks the host what a tool says of its answers.
        """
        missed = {name: row for name, row in self._missed.items() if name[1] not in self._keys.get(name[0], ())}
        if not missed:
            return []
        nodes = [node for node, _ in walk(program.file.statements)]
        texts = {node.value for node in nodes if isinstance(node, ast.StringLiteral)}
        lists = {start for node in nodes for start in _starts_before_list(node)}
        return [
            f"The answer of {tool} has no key {json.dumps(key)}"
            f"{'' if row.offset is None else f', which line {program.lines.line(row.offset)} asks for'}. {row.text}"
            for (tool, key), row in missed.items()
            if (row.offset in lists or not row.if_list)
            and row.meant not in texts
            and not declares(ask(tool, "tool", ""), key)
        ][:MAX_MISSED]


def _get(owner: Dict, key: Any, default: Any = None, /) -> Any:
    thread = builtins.current_thread()
    if isinstance(thread, TaskThread) and key not in owner:
        thread.missing_key(owner, key, default)
    return d_get(owner, key, default)


methods.register_dict_method("get", _get)  # pyright: ignore[reportUnknownMemberType]
