"""Where the items and members of a JSON text are, compared with what a JSON decoder makes of it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from codecall.errors import InvalidInputError, ToolCallError
from codecall.jsonio import incremental as results_parts
from codecall.jsonio.incremental import MAX_MEMBERS, ArrayIndex, JsonIndex, index_json
from codecall.results.examples import usage_example
from codecall.results.languages import JAVASCRIPT
from codecall.results.query import parse_part, read_part_json
from codecall.results.store import ResultMeta


def parts_of(text: str) -> JsonIndex:
    """The parts, found without a pause; how many there were does not matter here."""
    looking = index_json(text)
    while True:
        try:
            next(looking)
        except StopIteration as end:
            return msgspec.json.decode(msgspec.json.encode(end.value), type=JsonIndex)  # as a store gives it back


def meta_of(text: str) -> ResultMeta:
    return ResultMeta(len(text.encode()), len(text), parts_of(text))


async def read(meta: ResultMeta, text: str, part: Mapping[str, object], max_bytes: int = 10**9) -> Any:
    """What a script gets of `text`; never more of it is read than that and a little."""

    async def give(start: int, end: int) -> str:
        return text[start:end]

    return json.loads(await read_part_json(parse_part("res", part, JAVASCRIPT), meta, give, max_bytes))


def anything(chance: random.Random, depth: int) -> Any:
    """JSON data of all kinds, with all that could be taken for something else in its texts."""
    kind = chance.randrange(8)
    if not depth or kind < 4:
        return chance.choice([1, -2.5e9, 'a"]},[{\\', "", None, True, "é😀", 10**20, -(10**40), "\\", "x" * 30, '\\"'])
    if kind < 6:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(6))]
    return {f'k{number}"]': anything(chance, depth - 1) for number in range(chance.randrange(5))}


@pytest.mark.parametrize("stride", [20, 16 * 1024])
@pytest.mark.parametrize("window", [30, 64 * 1024])
async def test_every_item_is_found(monkeypatch: pytest.MonkeyPatch, window: int, stride: int) -> None:
    monkeypatch.setattr(results_parts, "_WINDOW", window)
    monkeypatch.setattr(results_parts, "STRIDE", stride)
    chance = random.Random(7)
    for turn in range(60):
        rows = [anything(chance, 7) for _ in range(chance.randrange(120))]
        indent = chance.choice([None, 1])
        text = f" {json.dumps(rows, ensure_ascii=turn % 2 == 0, indent=indent)} "
        meta = meta_of(text)
        assert meta.parts.items is not None
        assert meta.parts.items.count == len(rows)
        for start in {0, 1, chance.randrange(130), len(rows) - 1, len(rows)}:
            if start >= 0:
                count = chance.randrange(40)
                assert await read(meta, text, {"from": start, "count": count}) == rows[start : start + count]
        wrapped = f'{{"first": {json.dumps(rows[:1])}, "rows" : {text}, "last":"]}}"}}'
        meta = meta_of(wrapped)
        assert await read(meta, wrapped, {"at": "last"}) == "]}"
        assert await read(meta, wrapped, {"at": "rows"}) == rows
        assert await read(meta, wrapped, {"at": "rows", "from": 3, "count": 20}) == rows[3:23]
        assert await read(meta, wrapped, {}) == json.loads(wrapped)


async def test_large_items_and_deep_ones() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep, {"a": "]" * 10}]
    rows = [{"n": number, "text": "é" * 100_000 if number % 3 else "", "deep": deep} for number in range(9)]
    text = json.dumps(rows, ensure_ascii=False)
    meta = meta_of(text)
    for start in range(9):
        assert await read(meta, text, {"from": start, "count": 1}) == [rows[start]]


def test_looking_is_done_in_pieces() -> None:
    rows = json.dumps([{"id": number, "name": "x" * 50} for number in range(20_000)])
    assert len(list(index_json(rows))) >= len(rows) / (2 * results_parts.STRIDE)
    assert len(list(index_json(f'["{"x" * 10**6}"]'))) >= 10
    assert len(list(index_json(f'{{"a": {{"b": [[[[[[{"[]," * 10**5}1]]]]]]}}}}'))) >= 10


def test_what_would_take_too_long_has_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_parts, "_MAX_STEPS", 1_000)
    assert parts_of(f"[{','.join(['[[[[[[]]]]]]'] * 500)}]") == JsonIndex()
    assert parts_of(f"[{','.join(['[]'] * 2_000)}]").items is not None


@pytest.mark.parametrize("text", ['"text"', "1", "null", "true"])
def test_what_has_no_parts(text: str) -> None:
    assert parts_of(text) == JsonIndex()


def test_only_the_first_members_are_found() -> None:
    members = {f"{'n' * (300 if number == 3 else 1)}{number}": number for number in range(200)}
    indexed = parts_of(json.dumps(members)).members
    assert indexed is not None
    # The one with the long name is not among them.
    assert list(indexed) == [name for name in list(members)[:MAX_MEMBERS] if len(name) < 100]


@pytest.mark.parametrize("name", ["k", "n" * 300])
def test_members_that_are_not_kept_are_counted_too(name: str) -> None:
    text = "{" + ",".join([f'"{name}": 1'] * 10_000) + "}"
    assert len(list(index_json(text))) <= MAX_MEMBERS


async def test_what_is_too_large_for_a_script() -> None:
    text = json.dumps({"rows": [{"id": number} for number in range(1_000)], "text": "é" * 4_000}, ensure_ascii=False)
    meta = meta_of(text)
    asked: list[tuple[dict[str, object], str]] = [
        ({}, "in 2 pages: getResult('res', {page: 1})"),
        ({"at": "text"}, "in 2 pages: getResult('res', {page: 1})"),
        ({"at": "rows"}, "getResult('res', {at: \"rows\", from: 0, count: 100})"),
        ({"at": "rows", "from": 10}, "getResult('res', {at: \"rows\", from: 10, count: 100})"),
        ({"page": 1}, "{page: 1}"),
    ]
    for part, hint in asked:
        with pytest.raises(ToolCallError) as caught:
            await read(meta, text, part, 5_000)
        assert caught.value.code == "MESSAGE_TOO_LARGE"
        assert hint in (caught.value.hint or "")
        assert "; a script takes 5000" in caught.value.message
    assert len(await read(meta, text, {"at": "rows", "from": 10, "count": 100}, 5_000)) == 100


def test_examples_name_round_numbers() -> None:
    text = json.dumps([{"id": number, "name": "x" * 500} for number in range(3_210)])
    example = usage_example("res", meta_of(text), text, 64 * 1024, JAVASCRIPT)
    assert "{from: 0, count: 60})` gives the first 60 items of 3210" in example
    example = usage_example("res", meta_of(text), text, 10**9, JAVASCRIPT)
    assert "{from: 0, count: 900})` gives the first 900 items of 3210" in example


def test_spans_are_bounded() -> None:
    items = ArrayIndex(100, ((0, 1), (50, 10**7)), 2 * 10**7)
    known, start, stop = items.span(49)
    assert (known, start) == (0, 1)
    assert stop - start <= 200_000
    assert items.span(50)[:2] == items.span(99)[:2] == (50, 10**7)


@pytest.mark.parametrize("part", [{"page": True}, {"at": 1}, {"count": [1]}, {"x": 1}, {"at": None, "count": -1}])
def test_parts_are_checked(part: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        parse_part("res", part, JAVASCRIPT)
