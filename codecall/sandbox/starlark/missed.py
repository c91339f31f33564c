"""Keys that a script asks an answer for with `get`, and that no answer of the tool has: a warning where another key was
meant, since the default then stands in place of what there is, and where none of several items has the key.

What counts as meant is decided as in JavaScript (`diagnosis.reads`), from what the script does with the value.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, islice
from typing import Any, Final, NamedTuple, cast

from starlark.eval import builtins, methods
from starlark.eval.collection_methods import d_get
from starlark.eval.values import Dict, StarlarkList

from codecall.sandbox.agentscript.diagnosis.flow.paths import Step
from codecall.sandbox.agentscript.diagnosis.reads.declared import declares
from codecall.sandbox.agentscript.diagnosis.reads.meant import is_list_meant, is_misspelt, is_page
from codecall.sandbox.agentscript.diagnosis.reads.needs import FLAGS, OF_FEW
from codecall.sandbox.agentscript.validator.names import AskHost
from codecall.sandbox.starlark.evaluator_internals import calling_offset
from codecall.sandbox.starlark.failures import MAX_KEY, KeysOfDict, failed_call, key_text, keys_in
from codecall.sandbox.starlark.key_reads import KeyReads
from codecall.sandbox.starlark.read import StarlarkProgram
from codecall.sandbox.starlark.thread import TaskThread

MAX_ANSWERS: Final = 16
"""Answers in which keys are looked for, the newest."""

MAX_MISSED: Final = 3
"""Keys that are warned of in one run."""

_MAX_KEYS: Final = 200
"""Keys of one answer that are remembered."""
_MAX_PLACES: Final = 200
"""Dicts of one answer in which keys are looked for."""
_MAX_LEVELS: Final = 2
"""Keys that lead to such a dict, or to the list that it is in, less one."""
_MAX_COMPARED: Final = 2_000
"""Items that are looked through for a key that one of them lacks."""
_MAX_ALIKE: Final = 50
"""Items of one list that are compared as to whether they have the same keys."""
_MAX_FIELDS: Final = 50
"""Keys from which on a dict is a table to look things up in: what it lacks is no field."""
_MAX_LOOKED_AT: Final = 100
"""Missing keys of one run that are looked at."""
_MAX_HOLDERS: Final = 20_000
"""Values in which one run looks for keys that stand deeper."""

_OF_CALL: Final = frozenset({"ok", "value", "error"})
"""The keys of what `try_call` gives."""


class _Place(NamedTuple):
    """A dict in an answer that scripts may ask for keys."""

    tool: str
    """The tool that gave the answer."""
    path: tuple[str, ...]
    """The keys that lead to it from the answer, or to the list that it is an item of."""
    owner: Dict
    siblings: StarlarkList | None = None
    """The list."""
    of_call: bool = False
    """Whether it is what `try_call` gives, which has the answer in it."""


class _Asked(NamedTuple):
    """A key of dicts in the answers of a tool."""

    tool: str
    path: tuple[str, ...]
    of_items: bool
    of_call: bool
    key: str

    @property
    def owner(self) -> str:
        """What lacks the key."""
        if self.of_call:
            return f"what try_call gives for {self.tool}"
        names = [key_text(key) for key in self.path]
        where = "" if None in names else "".join(f"[{name}]" for name in names)
        if self.of_items:
            return f"item of {f'value{where}' if where else 'the list'} in the answer of {self.tool}"
        return f"value{where} in the answer of {self.tool}" if where else f"the answer of {self.tool}"


class _Why(Enum):
    """Why a key that is missing may have been meant to be there."""

    NEAR = 1
    """There is one with a similar name."""
    DEEPER = 2
    """It is a key of what stands under another key."""
    LIST = 3
    """A list was meant, and there is one."""
    CALL = 4
    """The answer itself was meant, not what `try_call` gives."""
    NOWHERE = 5
    """None of several items has it."""


class _Missed(NamedTuple):
    """One key that was asked for in vain."""

    why: _Why
    offset: int | None
    """Where."""
    meant: str
    """The key that may have been meant, or leads there; empty where none is known."""
    text: str
    """What a warning says of the keys there are."""
    items: int = 0
    """How many items lack it."""
    has_list: bool = False
    """Whether the key that may have been meant has a list."""
    gives_list: bool = False
    """Whether `get` gives a list in place of what is missing."""
    of_page: bool = False
    """Whether `is_page` says so of what lacks it."""


class _Answer(NamedTuple):
    """What a tool gave."""

    tool: str
    value: object
    places: list[_Place]


def _places(tool: str, answer: object) -> Iterator[_Place]:
    """The dicts of an answer: itself, those below it, and the items of its lists."""
    left = _MAX_PLACES
    pending: deque[tuple[tuple[str, ...], object]] = deque([((), answer)])
    while pending and left > 0:
        path, value = pending.popleft()
        if isinstance(value, StarlarkList):
            items = list(islice(cast("Iterable[object]", value), left))
            left -= len(items)
            yield from (_Place(tool, path, item, value) for item in items if isinstance(item, Dict))
        elif isinstance(value, Dict):
            left -= 1
            yield _Place(tool, path, value)
            if len(path) < _MAX_LEVELS:
                found = cast("Iterable[tuple[object, object]]", value.items())  # pyright: ignore[reportUnknownMemberType]
                pending.extend(((*path, key), below) for key, below in islice(found, _MAX_KEYS) if isinstance(key, str))


class MissedKeys:
    """The keys that one script has asked its answers for in vain."""

    def __init__(self) -> None:
        self._answers: dict[int, _Answer] = {}
        """By the identity of the answer, or of what `try_call` has put around it."""
        self._places: dict[int, _Place] = {}
        """By the identity of the dict."""
        self._forgotten: set[str] = set()
        """Tools of which not all answers are kept."""
        self._keys: dict[str, set[object]] = {}
        self._missed: dict[_Asked, list[_Missed]] = {}
        """Of each key why it may have been meant to be there; another reason counts where the first one does not."""
        self._looked_at: set[_Asked] = set()
        self._holders_left = _MAX_HOLDERS

    def add_answer(self, tool: str, answer: object, wrapper: Dict | None = None) -> None:
        """Add what a tool gave, and what `try_call` has put around it."""
        places = list(_places(tool, answer)) if wrapper is None or wrapper["ok"] else []
        if wrapper is not None:
            places.append(_Place(tool, (), wrapper, of_call=True))
        if not places and not isinstance(answer, StarlarkList):
            return
        while len(self._answers) >= MAX_ANSWERS:
            oldest = self._answers.pop(next(iter(self._answers)))
            self._forgotten.add(oldest.tool)
            for place in oldest.places:
                del self._places[id(place.owner)]
        self._answers[id(answer if wrapper is None else wrapper)] = _Answer(tool, answer, places)
        self._places.update((id(place.owner), place) for place in places)
        if isinstance(answer, Dict):
            self._keys.setdefault(tool, set()).update(islice(cast("Iterable[object]", answer), _MAX_KEYS))

    def is_answer(self, value: object) -> bool:
        """Whether a value is one of these answers as a whole."""
        return any(answer.value is value for answer in self._answers.values())

    def add_read(self, owner: Dict, key: object, default: object) -> None:
        """Add that a dict was asked for a key that it lacks."""
        place = self._places.get(id(owner))
        if place is None or not isinstance(key, str):
            return
        asked = _Asked(place.tool, place.path, place.siblings is not None, place.of_call, key)
        if self._is_new(place, asked) and (missed := list(self._why(place, asked, default))):
            self._missed[asked] = missed

    def _is_new(self, place: _Place, asked: _Asked) -> bool:
        """Whether a missing key is looked at, which takes a while: each once, and not in tables."""
        if len(place.owner) > _MAX_FIELDS or len(asked.key) > MAX_KEY or len(self._looked_at) >= _MAX_LOOKED_AT:
            return False
        before = len(self._looked_at)
        self._looked_at.add(asked)
        return len(self._looked_at) > before

    def _why(self, place: _Place, asked: _Asked, default: object) -> Iterator[_Missed]:
        """Why the key may have been meant to be there; nothing where it may as well be missing."""
        offset, key = calling_offset(), asked.key
        if place.of_call:
            if key not in _OF_CALL:
                yield _Missed(_Why.CALL, offset, "value", _advice_of_call(place.owner, key))
            return
        siblings = [place.owner] if place.siblings is None else place.siblings
        first = islice(cast("Iterable[object]", siblings), _MAX_COMPARED)
        items = [item for item in first if isinstance(item, Dict)]
        if any(key in item for item in items):
            # Items differ: what another one has is a field that this one goes without.
            return
        found = keys_in(place.owner, key)
        if (near := found.near) is not None:
            has_list, gives_list = isinstance(place.owner[near], StarlarkList), isinstance(default, StarlarkList)
            yield _Missed(_Why.NEAR, offset, near, found.text, has_list=has_list, gives_list=gives_list)
        if place.siblings is None:
            yield from self._beyond(place, asked, found, default)
        elif len(siblings) <= _MAX_COMPARED:
            yield from self._of_items(items, asked, found)

    def _beyond(self, place: _Place, asked: _Asked, found: KeysOfDict, default: object) -> Iterator[_Missed]:
        """For a key of a dict that is no item: one that stands deeper, or the only list."""
        offset, key = calling_offset(), asked.key
        gives_list = isinstance(default, StarlarkList)
        if not (default is None or gives_list or key.casefold() in place.tool.casefold()):
            return
        kind = object if default is None else StarlarkList
        if (missed := self._deeper([place.owner], key, found, offset, kind)) is not None:
            yield missed
        elif found.only_list is not None:
            of_page = is_page(cast("Mapping[str, object]", place.owner), place.tool, lists=StarlarkList, dicts=Dict)
            text = f"{found.listed} The list is value[{key_text(found.only_list)}]."
            yield _Missed(_Why.LIST, offset, found.only_list, text, gives_list=gives_list, of_page=of_page)

    def _of_items(self, items: Sequence[Dict], asked: _Asked, found: KeysOfDict) -> Iterator[_Missed]:
        """For a key of items: one that stands deeper, or that none of them has."""
        offset, key = calling_offset(), asked.key
        if (missed := self._deeper(items, key, found, offset)) is not None:
            yield missed
        # Where some lack what others have, the tool leaves out keys, and may have left out this one.
        elif len({frozenset(cast("Iterable[object]", item)) for item in items[:_MAX_ALIKE]}) == 1 < len(items):
            text = found.listed if found.near is None else found.text
            yield _Missed(_Why.NOWHERE, offset, "", text, len(items))

    def _deeper(
        self, owners: Sequence[Dict], key: str, found: KeysOfDict, offset: int | None, kind: type = object
    ) -> _Missed | None:
        """For a key that stands one or two levels deeper, always at the same place."""
        level: list[tuple[tuple[str, ...], Dict]] = [((), owner) for owner in owners]
        for _ in range(0 if FLAGS.search(key) else _MAX_LEVELS):
            below: list[tuple[tuple[str, ...], Dict]] = []
            for path, owner in level:
                self._holders_left -= len(owner)
                if self._holders_left < 0:
                    return None
                values = cast("Iterable[tuple[object, object]]", owner.items())  # pyright: ignore[reportUnknownMemberType]
                below += [
                    ((*path, name), value)
                    for name, value in values
                    if isinstance(name, str) and isinstance(value, Dict)
                ]
            having = {path for path, value in below if key in value and isinstance(value[key], kind)}
            if having:
                path = having.pop()
                names = [key_text(name) for name in (*path, key)]
                where = "" if having or None in names else "".join(f"[{name}]" for name in names)
                text = f"{found.listed} Did you mean value{where}?"
                return _Missed(_Why.DEEPER, offset, path[0], text) if where else None
            level = below
        return None

    def _is_elsewhere(self, asked: _Asked) -> bool:
        """Whether the tool gives the key at that place, or beside it, as far as its answers are looked through."""
        if not asked.path and not asked.of_items and asked.key in self._keys.get(asked.tool, ()):
            return True
        answers = (answer.value for answer in self._answers.values() if answer.tool == asked.tool)
        found = (value for answer in answers for value in _beside(answer, asked.path))
        if asked.of_items:
            lists = (cast("Iterable[object]", value) for value in found if isinstance(value, StarlarkList))
            found = chain.from_iterable(lists)
        return any(isinstance(owner, Dict) and asked.key in owner for owner in islice(found, _MAX_COMPARED))

    def warnings(self, program: StarlarkProgram, ask: AskHost) -> list[str]:
        """The warnings about keys that no answer of their tool had, where the script does not name what was meant.

        Args:
            program: What ran.
            ask: Asks the host what a tool says of its answers.
        """
        missed = {key: rows for key, rows in self._missed.items() if key.of_call or not self._is_elsewhere(key)}
        if not missed:
            return []
        reads = KeyReads(program)
        found = (
            (asked, row)
            for asked, rows in missed.items()
            if (row := self._first_meant(asked, rows, reads)) is not None and not _may_be(asked, ask)
        )
        return [_warning(asked, row, program) for asked, row in islice(found, MAX_MISSED)]

    def _first_meant(self, asked: _Asked, rows: Sequence[_Missed], reads: KeyReads) -> _Missed | None:
        """The first reason that holds. A script that reads the similar key, too, or asks for the opposite of it, needs
        no other one."""
        for row in rows:
            if self._is_meant(asked, row, reads):
                return row
            if row.meant in reads.texts or not is_misspelt(asked.key, row.meant, is_optional=False):
                return None
        return None

    def _is_meant(self, asked: _Asked, row: _Missed, reads: KeyReads) -> bool:
        """Whether the key was meant to be there, and the script has no other way to what was meant."""
        match row.why:
            case _Why.DEEPER:
                other_way = reads.names(row.meant, asked.key, row.offset) or reads.is_asked_for(asked.key)
                return asked.tool not in self._forgotten and not other_way
            case _Why.NOWHERE:
                is_rare = asked.tool in self._forgotten or OF_FEW.search(asked.key) or FLAGS.search(asked.key)
                return not is_rare and reads.needs(asked.key, row.offset, row.items)
            case _Why.CALL:
                return row.meant not in reads.texts
            case _Why.NEAR | _Why.LIST:
                is_other = row.meant not in reads.texts and reads.is_written(asked.key, row.offset)
                return is_other and _is_other_name(asked, row, reads)


def _is_other_name(asked: _Asked, row: _Missed, reads: KeyReads) -> bool:
    """Whether the key was meant that is similar, or that has the only list."""
    key, meant = asked.key, row.meant
    means_list = row.gives_list or row.offset in reads.before_lists
    if row.why is _Why.NEAR:
        is_of_kind = row.has_list or not means_list
        return is_of_kind and is_misspelt(key, meant, is_optional=reads.is_ready(key, row.offset))
    if FLAGS.search(meant):
        return False
    return is_list_meant(key, asked.tool, of_answer=not asked.path, is_page=row.of_page, means_list=means_list)


def _beside(answer: object, path: Sequence[str]) -> Iterator[object]:
    """What a path leads to in an answer, and where it leads with another key in the place of one: by key, as by number
    in a list, the values of a table are of one kind."""
    for depth, key in enumerate(path):
        if not isinstance(answer, Dict):
            return
        others = (other for other in cast("Iterable[object]", answer) if other != key)
        for other in islice(others, _MAX_COMPARED):
            yield _at(answer[other], path[depth + 1 :])
        answer = cast("object", answer.get(key))
    yield answer


def _at(value: object, path: Sequence[str]) -> object:
    for key in path:
        value = cast("object", value.get(key)) if isinstance(value, Dict) else None
    return value


def _may_be(asked: _Asked, ask: AskHost) -> bool:
    """Whether the tool says that its answers may have the key."""
    path = (*asked.path, Step.EACH) if asked.of_items else asked.path
    return not asked.of_call and declares(ask(asked.tool, "answers", ""), path, asked.key)


def _advice_of_call(owner: Dict, key: str) -> str:
    """What there is in place of a key that what `try_call` gives never has."""
    if not owner.get("ok"):
        return failed_call(owner)
    answer, text = cast("object", owner.get("value")), key_text(key)
    if text is None or not isinstance(answer, Dict) or key not in answer:
        return 'Its keys are "ok" and "value": the answer is value["value"].'
    return f'Its keys are "ok" and "value": write value["value"][{text}].'


def _warning(asked: _Asked, row: _Missed, program: StarlarkProgram) -> str:
    where = "" if row.offset is None else f", which line {program.lines.line(row.offset)} asks for"
    if row.why is _Why.NOWHERE:
        return f"No {asked.owner} has a key {json.dumps(asked.key)}{where}. {row.text}"
    owner = f"An {asked.owner}" if asked.of_items else f"{asked.owner[0].upper()}{asked.owner[1:]}"
    owner = asked.owner if owner.startswith("Value[") else owner
    return f"{owner} has no key {json.dumps(asked.key)}{where}. {row.text}"


def _get(owner: Dict, key: Any, default: Any = None, /) -> Any:
    thread = builtins.current_thread()
    if isinstance(thread, TaskThread) and key not in owner:
        thread.missing_key(owner, key, default)
    return d_get(owner, key, default)


methods.register_dict_method("get", _get)  # pyright: ignore[reportUnknownMemberType]
