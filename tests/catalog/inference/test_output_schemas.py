"""Output shapes learned from results: of which tool, how often, and who is shown which names."""

from __future__ import annotations

import copy
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.inference.output_schemas import MAX_OWNERS, MAX_SKIPPED_RESULTS, OutputObserver
from codecall.options import ObservedOutputOptions
from tests.catalog.catalog import tool
from tests.work import python_steps

LIST = tool("users:list", "List users", limit={"type": "integer"})
ROWS = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob", "email": None}]


def observations(**options: Any) -> OutputObserver:
    return OutputObserver(ObservedOutputOptions.read(options, where=""))


def saw(observed: OutputObserver, *values: Any, entry: CatalogEntry = LIST, owner: str = "") -> None:
    for value in values:
        observed.observe(entry, json.dumps(value), owner)


async def names(observed: OutputObserver, viewer: str = "", entry: CatalogEntry = LIST) -> list[str] | None:
    """The names shown of an object; None where there are none."""
    schema: Any = await observed.output_schema(entry, viewer)
    return list(schema["properties"]) if schema is not None and "properties" in schema else None


async def test_what_is_seen_is_shown():
    observed = observations()
    assert await observed.output_schema(LIST) is None
    saw(observed, ROWS)
    assert await observed.output_schema(LIST) == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "email": {"type": "null"}},
            "required": ["id", "name"],
        },
        "x-observed": {"results": 1},
    }
    saw(observed, [{"id": 1.5, "name": "Ann", "email": "ann@example.org"}], "none found")
    assert await observed.output_schema(LIST) == {
        "type": ["array", "string"],
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "number"},
                "name": {"type": "string"},
                "email": {"type": ["string", "null"]},
            },
            "required": ["id", "name"],
        },
        "x-observed": {"results": 2},
    }


async def test_what_was_not_read_is_said():
    observed = observations()
    saw(observed, {"rows": [1] * 100_000})
    assert await observed.output_schema(LIST) == {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "integer"}}},
        "required": ["rows"],
        "additionalProperties": True,
        "x-observed": {"results": 1, "partial": True},
    }


async def test_tools_that_declare_their_output_are_left_alone():
    observed = observations()
    declared = replace(LIST, output_schema={"type": "object", "properties": {"id": {"type": "integer"}}})
    saw(observed, {"id": 1}, entry=declared)
    assert await observed.output_schema(declared) is None
    assert await observed.output_schema(LIST) is None
    vague = replace(LIST, name="vague", output_schema={"type": "object", "additionalProperties": True})
    saw(observed, {"id": 1}, entry=vague)
    assert await observed.output_schema(vague) is not None
    resource = replace(LIST, kind="resource")
    saw(observed, {"id": 1}, entry=resource)
    assert await observed.output_schema(resource) is None


async def test_opting_out():
    observed = observations(enabled=False)
    saw(observed, ROWS)
    assert await observed.output_schema(LIST) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2"},
        {"description": "List all users"},
        {"input_schema": {"type": "object", "properties": {"limit": {"type": "number"}}}},
        {"name": "users:all"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_tool_that_changes_starts_anew(change: dict[str, Any]):
    observed = observations()
    saw(observed, {"id": 1})
    changed = replace(LIST, **change)
    assert await observed.output_schema(changed) is None
    saw(observed, {"uuid": "x"}, entry=changed)
    assert await names(observed, entry=changed) == ["uuid"]
    assert await names(observed) == ["id"]
    # And both go on, as two servers of one plugin do.
    saw(observed, {"id": 1, "name": "Ann"})
    saw(observed, {"uuid": "x", "title": "y"}, entry=changed)
    assert await names(observed) == ["id", "name"]
    assert await names(observed, entry=changed) == ["uuid", "title"]


async def test_copies_of_a_tool_are_that_tool():
    observed = observations()
    saw(observed, {"id": 1})
    for copied in (
        replace(LIST, app_id="other", tags=frozenset({"x"})),
        replace(LIST, input_schema=dict(LIST.input_schema)),
        replace(LIST, input_schema=copy.deepcopy(LIST.input_schema)),
    ):
        assert await names(observed, entry=copied) == ["id"]


async def test_schemas_that_are_no_plain_data():
    class Odd:
        pass

    observed = observations()
    entry = replace(LIST, input_schema={"default": Odd()})
    saw(observed, {"id": 1}, entry=entry)
    assert await names(observed, entry=replace(LIST, input_schema={"default": Odd()})) == ["id"]


async def test_a_shape_that_is_known_is_seldom_looked_at():
    observed = observations()
    saw(observed, *[{"id": 1}] * 300)
    saw(observed, {"id": "x"})
    assert (await observed.output_schema(LIST) or {})["properties"] == {"id": {"type": "integer"}}
    saw(observed, *[{"id": "x"}] * MAX_SKIPPED_RESULTS)
    assert (await observed.output_schema(LIST) or {})["properties"] == {"id": {"type": ["string", "integer"]}}
    text = json.dumps({"id": "x"})
    seldom = python_steps(lambda: [observed.observe(LIST, text) for _ in range(100)])
    fresh = observations()
    assert seldom < python_steps(lambda: [fresh.observe(LIST, text) for _ in range(100)])


async def test_a_caller_who_is_new_is_looked_at():
    observed = observations()
    saw(observed, *[{"id": 1}] * 300, owner="ann")
    assert await names(observed, "bob") is None
    saw(observed, {"id": 1}, owner="bob")
    assert await names(observed, "carl") == ["id"]
    for number in range(2 * MAX_OWNERS):
        saw(observed, {"id": "x"}, owner=f"caller {number}")
    assert await names(observed, "carl") == ["id"]


async def test_names_that_one_caller_had_are_for_that_caller():
    observed = observations()
    saw(observed, {"total": 2, "acme": 1}, owner="ann")
    saw(observed, {"total": 2, "globex": 1}, owner="bob")
    assert await names(observed, "ann") == ["total", "acme"]
    assert await names(observed, "bob") == ["total", "globex"]
    assert await observed.output_schema(LIST, "carl") == {
        "type": "object",
        "properties": {"total": {"type": "integer"}},
        "required": ["total"],
        "additionalProperties": True,
        "x-observed": {"results": 2},
    }


async def test_what_nobody_else_may_see_is_there_as_a_dictionary():
    observed = observations()
    saw(observed, {"acme": {"id": 1}}, owner="ann")
    assert await observed.output_schema(LIST, "bob") == {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
        "x-observed": {"results": 1},
    }


async def test_each_caller_apart():
    observed = observations(per_caller=True)
    saw(observed, {"id": 1}, owner="ann")
    saw(observed, {"name": "x"}, owner="bob")
    assert await names(observed, "ann") == ["id"]
    assert await names(observed, "bob") == ["name"]
    assert await observed.output_schema(LIST, "carl") is None


async def test_keys_that_vary_are_data():
    observed = observations()
    companies = ["acme", "globex", "initech"]
    saw(observed, *({company: {"revenue": 1}} for company in companies))
    assert await observed.output_schema(LIST) == {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"revenue": {"type": "integer"}},
            "required": ["revenue"],
        },
        "x-observed": {"results": 2},
    }
    # Two answers that differ are two answers that differ.
    observed = observations()
    saw(observed, {"value": 1}, {"error": "x"})
    assert await names(observed) == ["value", "error"]


async def test_keys_that_vary_beside_fields_are_data():
    observed = observations()
    words = [f"{a}{b}" for a in "abcdefgh" for b in "uvwxyz"]
    saw(observed, *({"total": 1, "page": 1, word: "x"} for word in words))
    assert await names(observed) == ["total", "page"]
    observed = observations()
    kinds = [{f"{kind}_{field}": 1 for field in ("a", "b", "c")} for kind in ("push", "issue", "fork", "star")]
    saw(observed, *({"type": "x"} | kind for kind in kinds))
    assert len(await names(observed) or []) == 13


async def test_entries_that_are_all_alike_are_a_dictionary():
    observed = observations()
    people = ["ann", "bob", "carl", "dora", "emil", "fay", "gus", "hal"]
    saw(observed, {person: {"age": 1, "height": 2.5} for person in people})
    schema: Any = await observed.output_schema(LIST)
    assert list(schema["additionalProperties"]["properties"]) == ["age", "height"]
    assert "properties" not in schema
    # A few measures of the same form are fields.
    observed = observations()
    saw(observed, {side: {"value": 1, "unit": "m"} for side in ("width", "height", "depth")})
    assert await names(observed) == ["width", "height", "depth"]


async def test_the_tool_unused_for_longest_is_forgotten():
    observed = observations(max_tools=2)
    tools = [tool(f"t{number}", "A tool") for number in range(3)]
    for entry in tools[:2]:
        saw(observed, {"id": 1}, entry=entry)
    assert await names(observed, entry=tools[0]) == ["id"]
    saw(observed, {"id": 1}, entry=tools[2])
    assert await observed.output_schema(tools[1]) is None
    assert await names(observed, entry=tools[0]) == ["id"]
    saw(observed, {"id": 1}, entry=tools[1])
    assert await names(observed, entry=tools[1]) == ["id"]


async def test_counts_are_round():
    observed = observations()
    shown: list[int] = []
    for number in range(100):
        saw(observed, {f"f{chr(97 + number // 26)}{chr(97 + number % 26)}": 1, "id": 1})
        schema: Any = await observed.output_schema(LIST)
        shown.append(schema["x-observed"]["results"])
    assert set(shown) <= {1, 2, 5, 10, 20, 50}
    assert shown == sorted(shown)


async def test_what_changes_with_every_result_is_looked_at_ever_less_often():
    observed = observations()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for number in range(2_000):
        saw(observed, {"same": 1, f"{letters[number % 26]}{letters[number // 26 % 26]}x": number})
    schema: Any = await observed.output_schema(LIST)
    assert schema["x-observed"]["results"] <= 200


async def test_hostile_results_leave_no_more_than_the_bounds():
    observed = observations()
    for value in (
        {f"key{number}": number for number in range(10_000)},
        {"__proto__": 1, "constructor": 2},
        [[[[[[[[[[[[1]]]]]]]]]]]],
        ["x" * 10**6] * 3,
        {"\ud800": "\udfff"},
    ):
        saw(observed, value)
    observed.observe(LIST, "[" * 1_000 + "]" * 1_000)
    observed.observe(LIST, "1" * 10_000)
    written = json.dumps(await observed.output_schema(LIST))
    assert len(written) < 2_000
    written.encode()
    assert "__proto__" not in written


async def test_what_is_shown_is_made_once():
    observed = observations()
    saw(observed, *[ROWS] * 3)
    assert await observed.output_schema(LIST) is await observed.output_schema(LIST)
    for number in range(20):
        assert await observed.output_schema(LIST, f"viewer {number}") is not None


def test_many_threads():
    observed = observations(max_tools=5)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(500):
                saw(observed, {"id": turn}, entry=tool(f"t{(number + turn) % 10}", "A tool"), owner=str(number))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
