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
from codecall.sandbox.starlark.failures import MAX_KEY, key_text, keys_in
from codecall.sandbox.starlark.read import StarlarkProgram, walk
from codecall.sandbox.starlark.thread import TaskThread

MAX_ANSWERS: Final = 16
"""Answers in which keys are looked for, the newest."""

MAX_MISSED: Final = 3
"""Keys that are warned of in one run."""

_MAX_KEYS: Final = 200
"""Keys of one answer that are remembered."""
_MAX_ITEMS: Final = 200
"""Dicts in the lists of one answer in which keys are looked for."""
_MAX_COMPARED: Final = 2_000
"""Items of one list that are looked through for a key that one of them lacks."""
_MAX_FIELDS: Final = 50
"""Keys from which on a dict is a table to look things up in: what it lacks is no field."""
_MAX_LOOKED_AT: Final = 100
"""Missing keys of one run that are looked at."""


class _Place(NamedTuple):
    """A dict in an answer that scripts may ask for keys."""

    tool: str
    """The tool that gave the answer."""
    path: str | None
    """The key of the list that it is an item of, empty where the answer is that list; None: it is the answer."""
    owner: Dict
    siblings: StarlarkList | None
    """The list."""


class _Asked(NamedTuple):
    """A key of the answers of a tool, or of the items of a list in them."""

    tool: str
    path: str | None
    key: str

    @property
    def owner(self) -> str:
        """What lacks the key, at the beginning of a warning."""
        if self.path is None:
            return f"The answer of {self.tool}"
        key = key_text(self.path) if self.path else None
        return f"An item of {'the list' if key is None else f'value[{key}]'} in the answer of {self.tool}"


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


def _places(tool: str, answer: object) -> Iterator[_Place]:
    """The dicts of an answer: itself, and the items of its lists."""
    lists = [("", answer)]
    if isinstance(answer, Dict):
        yield _Place(tool, None, answer, None)
        found = cast("Iterable[tuple[object, object]]", answer.items())  # pyright: ignore[reportUnknownMemberType]
        lists = [(key, value) for key, value in islice(found, _MAX_KEYS) if isinstance(key, str)]
    left = _MAX_ITEMS
    for path, value in lists:
        if isinstance(value, StarlarkList):
            items = list(islice(cast("Iterable[object]", value), left))
            left -= len(items)
            yield from (_Place(tool, path, item, value) for item in items if isinstance(item, Dict))


class MissedKeys:
    """The keys that one script has asked its answers for in vain."""

    def __init__(self) -> None:
        self._answers: dict[int, list[_Place]] = {}
        self._places: dict[int, _Place] = {}
        """By the identity of the dict."""
        self._keys: dict[str, set[object]] = {}
        self._missed: dict[_Asked, _Missed] = {}
        self._looked_at: set[_Asked] = set()

    def add_answer(self, tool: str, answer: object) -> None:
        """Add what a tool gave."""
        places = list(_places(tool, answer))
        if not places:
            return
        while len(self._answers) >= MAX_ANSWERS:
            for place in self._answers.pop(next(iter(self._answers))):
                del self._places[id(place.owner)]
        self._answers[id(places[0].owner)] = places
        self._places.update((id(place.owner), place) for place in places)
        if isinstance(answer, Dict):
            self._keys.setdefault(tool, set()).update(islice(cast("Iterable[object]", answer), _MAX_KEYS))

    def add_read(self, owner: Dict, key: object, default: object) -> None:
        """Add that a dict was asked for a key that it lacks."""
        place = self._places.get(id(owner))
        if place is None or not isinstance(key, str) or not self._is_new(place, key):
            return
        found = keys_in(owner, key)
        if place.siblings is not None:
            # Items differ: what another one has is a field that this one goes without.
            siblings = islice(cast("Iterable[object]", place.siblings), _MAX_COMPARED)
            if found.near is None or any(isinstance(item, Dict) and key in item for item in siblings):
                return
        wants_list = isinstance(default, StarlarkList) or key.casefold() in place.tool.casefold()
        meant = found.near or (found.only_list if wants_list or default is None else None)
        if meant is not None:
            if_list = found.near is None and not wants_list
            asked = _Asked(place.tool, place.path, key)
            self._missed[asked] = _Missed(calling_offset(), meant, found.text, if_list)

    def _in_items(self, asked: _Asked) -> bool:
        """Whether an item of that list has the key, in another answer of the tool."""
        places = (place for place in self._places.values() if (place.tool, place.path) == (asked.tool, asked.path))
        return any(asked.key in place.owner for place in places)

    def _is_new(self, place: _Place, key: str) -> bool:
        """Whether a missing key is looked at, which takes a while: each once, and not in tables."""
        if len(place.owner) > _MAX_FIELDS or len(key) > MAX_KEY or len(self._looked_at) >= _MAX_LOOKED_AT:
            return False
        before = len(self._looked_at)
        self._looked_at.add(_Asked(place.tool, place.path, key))
        return len(self._looked_at) > before

    def warnings(self, program: StarlarkProgram, ask: AskHost) -> list[str]:
        """The warnings about keys that no answer of their tool had, where the script does not name what was meant.

        Args:
            program: What ran.
            ask: Asks the host what a tool says of its answers.
        """
        missed = {
            asked: row
            for asked, row in self._missed.items()
            if not (asked.key in self._keys.get(asked.tool, ()) if asked.path is None else self._in_items(asked))
        }
        if not missed:
            return []
        nodes = [node for node, _ in walk(program.file.statements)]
        texts = {node.value for node in nodes if isinstance(node, ast.StringLiteral)}
        lists = {start for node in nodes for start in _starts_before_list(node)}
        return [
            f"{asked.owner} has no key {json.dumps(asked.key)}"
            f"{'' if row.offset is None else f', which line {program.lines.line(row.offset)} asks for'}. {row.text}"
            for asked, row in missed.items()
            if (row.offset in lists or not row.if_list)
            and row.meant not in texts
            and not declares(ask(asked.tool, "answers", ""), asked.key)
        ][:MAX_MISSED]


def _get(owner: Dict, key: Any, default: Any = None, /) -> Any:
    thread = builtins.current_thread()
    if isinstance(thread, TaskThread) and key not in owner:
        thread.missing_key(owner, key, default)
    return d_get(owner, key, default)


methods.register_dict_method("get", _get)  # pyright: ignore[reportUnknownMemberType]
