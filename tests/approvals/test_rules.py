"""Which rule decides a call, whatever a script writes into its input."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import to_thread
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, OptionsError
from codecall.approvals.options import ApprovalRule
from codecall.approvals.rules import MAX_RULING_THREADS, RuleSet, _CompiledRule
from codecall.approvals.unmatched import KnownNames, rule_warnings
from codecall.catalog.entries import CatalogEntry
from codecall.schema.readings import MAX_VALUES
from tests.work import python_steps

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, object] = {
    "properties": {"amount": {"type": "integer", "default": 500}, "urgent": {"type": "boolean", "default": False}}
}
TOOL = CatalogEntry("bank:pay", "bank", "", SCHEMA, annotations={"openWorldHint": True}, owner="bank server")
READ = CatalogEntry("bank:read", "bank", "", {}, annotations={"readOnlyHint": True})


async def action(entry: CatalogEntry, *rules: dict[str, Any], **arguments: object) -> str:
    compiled = RuleSet([ApprovalRule.read(rule, where="") for rule in rules])
    return (await compiled.ruling(entry, arguments)).action


@pytest.mark.parametrize(
    ("rule", "pay", "read"),
    [
        ({}, True, True),
        ({"tools": ["bank:p*"]}, True, False),
        ({"apps": ["bank"]}, True, True),
        ({"apps": ["shop"]}, False, False),
        ({"servers": ["bank server"]}, True, False),
        ({"read_only": True}, False, True),
        ({"readOnly": False}, True, False),
        ({"destructive": True}, False, False),
        ({"open_world": True}, True, False),
        ({"tools": ["bank:*"], "open_world": False}, False, True),
    ],
)
async def test_a_rule_applies_where_all_that_it_names_fits(rule: dict[str, Any], pay: bool, read: bool) -> None:
    assert (await action(TOOL, {"action": "ask", **rule}) == "ask") is pay
    assert (await action(READ, {"action": "ask", **rule}) == "ask") is read


async def test_the_first_rule_that_applies_decides_and_without_one_the_call_is_allowed() -> None:
    rules = ({"action": "deny", "tools": ["bank:pay"]}, {"action": "ask"})
    assert [await action(TOOL, *rules), await action(READ, *rules), await action(READ)] == ["deny", "ask", "allow"]


LARGE = {"properties": {"amount": {"type": "integer", "minimum": 100}}, "required": ["amount"]}
SMALL = {"properties": {"amount": {"type": "integer", "maximum": 99}}, "required": ["amount"]}
URGENT = {"properties": {"urgent": {"const": True}}, "required": ["urgent"]}


@pytest.mark.parametrize("amount", [100, "100", " 100 ", "1_00", 100.0, "100.0", "1e2"])
async def test_a_number_is_the_same_in_every_spelling_that_a_tool_may_take(amount: object) -> None:
    assert await action(TOOL, {"action": "ask", "input": LARGE}, amount=amount) == "ask"
    assert await action(TOOL, {"action": "allow", "input": SMALL}, {"action": "ask"}, amount=amount) == "ask"


@pytest.mark.parametrize("urgent", [True, "true", "YES", 1, "1", 1.0, "on"])
async def test_so_is_a_truth_value(urgent: object) -> None:
    assert await action(TOOL, {"action": "deny", "input": URGENT}, urgent=urgent) == "deny"


@pytest.mark.parametrize("kind", ["number", ["number", "string"], None])
@pytest.mark.parametrize("amount", [float("nan"), "NaN", " nan "])
async def test_what_cannot_be_compared_counts_against_the_call(kind: Any, amount: object) -> None:
    entry = replace(TOOL, input_schema={"properties": {"amount": {"type": kind} if kind else {}}})
    bounds = {"type": kind, "minimum": 0, "maximum": 100} if kind else {"minimum": 0, "maximum": 100}
    allow = {"action": "allow", "input": {"properties": {"amount": bounds}, "required": ["amount"]}}
    deny = {"action": "deny", "input": {"properties": {"amount": {"not": {"maximum": 100}}}, "required": ["amount"]}}
    assert await action(entry, allow, {"action": "ask"}, amount=amount) == "ask"
    assert await action(entry, allow, {"action": "ask"}, amount=5.5) == "allow"
    assert await action(entry, deny, amount=amount) == "deny"
    assert await action(entry, deny, amount=5.5) == "allow"


@pytest.mark.parametrize(("amount", "urgent"), [("500", "no"), (" 5e2 ", "x"), ("5", "yes"), ("1", "ON")])
async def test_rules_that_restrict_read_texts_as_what_they_spell(amount: str, urgent: str) -> None:
    text = {"type": "string"}
    entry = replace(TOOL, input_schema={"properties": {"amount": text, "urgent": text}})
    restricting = [{"action": "deny", "input": LARGE}, {"action": "deny", "input": URGENT}]
    assert await action(entry, *restricting, amount=amount, urgent=urgent) == "deny"
    assert await action(entry, *restricting, amount="5", urgent="no") == "allow"
    # To a rule that allows, they are texts.
    assert await action(entry, {"action": "allow", "input": SMALL}, {"action": "ask"}, amount="5") == "ask"


BULK = {"properties": {"amount": {"minimum": 100}}, "required": ["amount"]}
"""A bound without a type."""


@pytest.mark.parametrize(
    ("schema", "hit", "others"),
    [
        ({"type": "integer"}, [100, "100", True, "yes", " 10 ", "1_0", "1e1", "010"], [0, 1, 1.0, 10, "10", "-1", "0"]),
        ({"type": "integer", "default": 1}, [100], [0, 1, "1"]),
        ({"type": "number"}, [100.5, "100.5", "nan"], [0.5, "0.5", "-99.5"]),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, [None, "null", "100"], [1, "1"]),
        ({"type": ["integer", "string"]}, ["10", "x", 100], [10, 1]),
        ({"type": "string"}, ["10", 1], []),
        ({"type": "boolean"}, [1, True], []),
        ({}, [1, "10"], [10]),
    ],
)
async def test_a_bound_without_a_type_holds_for_each_number_that_a_tool_can_see(
    schema: dict[str, Any], hit: list[object], others: list[object]
) -> None:
    entry = replace(TOOL, input_schema={"properties": {"amount": schema}})
    deny = {"action": "deny", "input": BULK}
    assert {repr(each): await action(entry, deny, amount=each) for each in hit} == {repr(each): "deny" for each in hit}
    assert {repr(each): await action(entry, deny, amount=each) for each in others} == {
        repr(each): "allow" for each in others
    }
    assert await action(entry, deny) == "allow"


async def test_so_it_does_for_what_is_nested() -> None:
    deny = {"action": "deny", "input": {"properties": {"lines": {"contains": {"properties": {"n": {"minimum": 100}}}}}}}
    line = {"type": "object", "properties": {"n": {"type": "integer"}}}
    entry = replace(TOOL, input_schema={"properties": {"lines": {"type": "array", "items": line}}})
    assert await action(entry, deny, lines=[{"n": "10"}, {"n": 1}]) == "allow"
    assert await action(entry, deny, lines=[{"n": "10"}, {"n": "100"}]) == "deny"
    assert await action(entry, deny, lines=[{"n": "10"}, {}]) == "deny"


@pytest.mark.parametrize(
    "about", [{"const": True}, {"type": "boolean"}, {"enum": [True, "x"]}, {"type": "boolean", "const": True}]
)
@pytest.mark.parametrize("kind", ["integer", "number", "boolean"])
@pytest.mark.parametrize("amount", [1, 1.0, True, "1", "yes"])
async def test_a_number_is_still_the_truth_value_that_a_rule_names(about: Any, kind: str, amount: object) -> None:
    entry = replace(TOOL, input_schema={"properties": {"amount": {"type": kind}}})
    condition = {"properties": {"amount": about}, "required": ["amount"]}
    assert await action(entry, {"action": "deny", "input": condition}, amount=amount) == "deny"


@pytest.mark.parametrize("about", [{"type": "string"}, {"pattern": "^10$"}, {"not": {"type": "integer"}}])
async def test_a_text_for_a_number_is_still_a_text_to_rules_that_look_at_texts(about: dict[str, Any]) -> None:
    condition = {"properties": {"amount": about}, "required": ["amount"]}
    assert await action(TOOL, {"action": "deny", "input": condition}, amount="10") == "deny"


async def test_a_parameter_that_is_left_out_has_its_default() -> None:
    assert await action(TOOL, {"action": "ask", "input": LARGE}) == "ask"
    assert await action(TOOL, {"action": "ask", "input": LARGE}, amount=5) == "allow"
    assert await action(TOOL, {"action": "allow", "input": SMALL}, {"action": "ask"}, amount=5) == "allow"


async def test_a_condition_reaches_into_what_is_nested_even_as_text() -> None:
    condition = {"properties": {"to": {"contains": {"const": "all"}}}, "required": ["to"]}
    for to in (["ann", "all"], '["ann", "all"]'):
        assert await action(TOOL, {"action": "ask", "input": condition}, to=to) == "ask"


BOTH = {
    "properties": {"recursive": {"const": True}, "depth": {"type": "integer", "minimum": 1}},
    "required": ["recursive", "depth"],
}


@pytest.mark.parametrize("recursive", [True, "yes", "1", 1])
@pytest.mark.parametrize("depth", [1, "1", "5", True])
async def test_two_properties_are_read_each_as_its_own_type_says(recursive: object, depth: object) -> None:
    typed = {"properties": {"recursive": {"type": "boolean"}, "depth": {"$ref": "#/$defs/depth"}}}
    schemas: list[dict[str, Any]] = [{**typed, "$defs": {"depth": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}]
    if depth is not True:
        schemas.append({})  # a tool that does not say
    for schema in schemas:
        entry, deny = replace(TOOL, input_schema=schema), {"action": "deny", "input": BOTH}
        assert await action(entry, deny, recursive=recursive, depth=depth) == "deny"
        assert await action(entry, deny, recursive="no", depth=depth) == "allow"


async def test_an_input_of_too_many_readings_counts_against_the_call() -> None:
    condition = {"properties": {"ids": {"contains": {"const": "x"}}}, "required": ["ids"]}
    deny, allow = {"action": "deny", "input": condition}, {"action": "allow", "input": {"properties": {"ids": {}}}}
    many: list[object] = ["1"] * 10
    assert await action(TOOL, deny, ids=many) == "deny"
    assert await action(TOOL, allow, {"action": "ask"}, ids=many) == "ask"
    assert await action(TOOL, deny, ids=["1"], others=many) == "allow"  # the condition does not look there
    typed = replace(TOOL, input_schema={"properties": {"ids": {"type": "array", "items": {"type": "string"}}}})
    assert await action(typed, deny, ids=many) == "allow"


@pytest.mark.parametrize("opts", [{}, "{}", {"force": "yes"}, '{"force": "yes"}', {"n": 1}])
async def test_defaults_within_a_parameter_count_too(opts: object) -> None:
    fields = {"force": {"type": "boolean", "default": True}, "n": {"type": "integer", "default": 1}}
    schema = {"properties": {"opts": {"$ref": "#/$defs/Opts"}}, "$defs": {"Opts": {"properties": fields}}}
    force = {"properties": {"force": {"const": True}}, "required": ["force"], "type": "object"}
    entry, rule = replace(TOOL, input_schema=schema), {"properties": {"opts": force}, "required": ["opts"]}
    assert await action(entry, {"action": "deny", "input": rule}, opts=opts) == "deny"
    assert await action(entry, {"action": "deny", "input": rule}, opts={"force": "no"}) == "allow"


async def test_a_schema_whose_defaults_have_no_end_is_compared_as_far_as_it_is_followed() -> None:
    node = {"properties": {"left": {"$ref": "#/$defs/Node", "default": {}}}}
    entry = replace(TOOL, input_schema={"properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    rule = {"properties": {"tree": {"required": ["left"]}}, "required": ["tree"]}
    assert await action(entry, {"action": "deny", "input": rule}, tree={}) == "deny"
    assert await action(entry, {"action": "deny", "input": rule}, other=1) == "allow"


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("levels", [1, 40])
async def test_alternatives_without_end_count_against_the_call(key: str, levels: int) -> None:
    # Followed to their end, they take longer than anybody waits
    below = {f"d{n}": {key: [{"$ref": f"#/$defs/d{(n + 1) % levels}"}] * 8} for n in range(levels)}
    entry = replace(TOOL, input_schema={"properties": {"to": {"$ref": "#/$defs/d0"}}, "$defs": below})
    rule = {"properties": {"to": {"const": "all"}}, "required": ["to"]}
    assert await action(entry, {"action": "deny", "input": rule}, to="al") == "deny"
    assert await action(entry, {"action": "allow", "input": rule}, {"action": "ask"}, to="all") == "ask"
    assert await action(entry, {"action": "deny", "input": rule}, other="al") == "allow"


async def test_a_condition_that_cannot_be_compared_allows_nothing() -> None:
    lost = {"$ref": "https://example.com/schema.json"}
    assert await action(TOOL, {"action": "deny", "input": lost}, amount=1) == "deny"
    assert await action(TOOL, {"action": "allow", "input": lost}, {"action": "ask"}, amount=1) == "ask"


@pytest.mark.parametrize(
    ("approvals", "message"),
    [
        ("write", "approvals: 'write' is no short form; known here: writes, destructive"),
        (7, "approvals.rules: a list of rules or a short form is needed"),
        ([{"tools": ["x"]}], "approvals.rules.0.action: missing"),
        ([{"action": "ask", "tool": "x"}], "approvals.rules.0.tool: unknown option"),
        ([{"action": "ask", "input": {"type": 7}}], "approvals.rules.0.input: not a JSON Schema"),
        ({"approver": print}, "approvals.rules: missing"),
        ({"rules": "writes", "max_waiting": 0}, "approvals.max_waiting"),
    ],
)
def test_wrong_options_are_named(approvals: Any, message: str) -> None:
    with pytest.raises(OptionsError) as caught:
        CodeCallPlugin.init(approvals=approvals)
    assert message in caught.value.message


async def test_rules_that_name_what_there_is_not_are_logged_once_for_each_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = [
        {"tools": ["send_mial", "send_*"], "action": "ask"},
        {"servers": ["offise"], "action": "deny"},
        {"apps": ["post"], "tools": ["nosuch*"], "action": "allow"},
    ]
    flows = [{"from": "send_maill", "to": ["data://x", "greeting"], "action": "deny"}]
    server = FastMCP[None]("office")
    server.tool(lambda: 1, name="send_mail")
    plugin = CodeCallPlugin.init(approvals=rules, flows=flows, pool={"min_workers": 0})
    async with Client(plugin.install(server)) as client:
        for _ in range(2):
            await client.call_tool("codecall:search", {"query": "mail"})
            await client.list_tools()
    assert sorted(record.getMessage() for record in caplog.records if record.name == "codecall") == [
        "approvals.apps: 'post' matches no app",
        "approvals.servers: 'offise' matches no server; did you mean 'office'?",
        "approvals.tools: 'nosuch*' matches no tool that scripts may use on 'office'",
        "approvals.tools: 'send_mial' matches no tool that scripts may use on 'office'; did you mean 'send_mail'?",
        "approvals: what a rule denies, it denies to scripts and codecall:invoke; a client that calls such a tool by "
        "its name, without CodeCall, is not stopped",
        "flows.from: 'send_maill' matches no tool that scripts may use on 'office'; did you mean 'send_mail'?",
    ]


def number(**about: Any) -> dict[str, Any]:
    """A condition on a number of pieces."""
    return {"properties": {"pieces": {"minimum": 100, **about}}, "required": ["pieces"]}


LEFT_OUT = "approvals.input: 'pieces' is not in `required`: calls of 'order' without it fit, too"


@pytest.mark.parametrize(
    ("does", "condition", "warnings"),
    [
        ("deny", number(), []),
        ("deny", number(type="integer"), []),
        ("deny", {**number(), "required": []}, [LEFT_OUT]),
        ("ask", {"properties": {"article": {"const": "vial"}, "pieces": {"type": "integer"}}}, [LEFT_OUT]),
        ("allow", {"properties": {"pieces": {"type": "integer", "maximum": 9}}}, []),  # its default counts
        ("deny", {"properties": {"note": {"type": "string"}}}, [LEFT_OUT.replace("pieces", "note")]),
        ("allow", {"properties": {"note": {"type": "string"}}}, []),  # its default does not fit
        (
            "deny",
            {"properties": {"note": {"pattern": "^!"}}, "required": ["note"]},
            ["approvals.input: 'note' has `pattern` and no `type`: what is no text fits, too"],
        ),
        ("deny", {"properties": {"article": {"pattern": "^!"}, "pieces": {}, "note": False}}, []),
        (
            "deny",
            {"anyOf": [number(), {"properties": {"note": {"const": "all"}}, "required": ["note"]}]},
            [],
        ),
        (
            "deny",
            {"not": {"properties": {"peaces": {"maximum": 9, "type": "integer"}}, "required": ["article"]}},
            ["approvals.input: 'peaces' is no parameter of the tools that the rule is about; did you mean 'pieces'?"],
        ),
        (
            "deny",
            number(tpye="integer"),
            ["approvals.input: 'tpye' is no keyword of JSON Schema; did you mean 'type'?"],
        ),
        (
            "deny",
            {"pieces": {"minimum": 100}, "x-why": "bulk", "$comment": "bulk"},
            ["approvals.input: 'pieces' is no keyword of JSON Schema: conditions on parameters stand in `properties`"],
        ),
        (
            "deny",
            {"properties": {"article": {"allOf": [{"items": {"$comment": "", "nulable": True}}]}}},
            ["approvals.input: 'nulable' is no keyword of JSON Schema"],
        ),
    ],
)
async def test_conditions_that_fit_more_than_they_seem_to_are_logged(
    caplog: pytest.LogCaptureFixture, does: str, condition: dict[str, Any], warnings: list[str]
) -> None:
    server = FastMCP[None]("lab")

    @server.tool
    def order(article: str, pieces: int = 1, note: str | None = None) -> str:
        return f"{pieces} x {article}{note}"

    server.tool(lambda: 1, name="stop")
    rules = [{"tools": ["order"], "input": condition, "action": does}]
    plugin = CodeCallPlugin.init(approvals=rules, pool={"min_workers": 0})
    async with Client(plugin.install(server)) as client:
        await client.list_tools()
    said = [record.getMessage() for record in caplog.records if record.name == "codecall"]
    assert [each for each in said if each.startswith("approvals.")] == warnings


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object"}, []),
        ({"properties": {}, "additionalProperties": True}, []),
        ({"properties": {"n": {}}, "allOf": [{"properties": {"to": {}}}]}, []),
        ({"properties": {}}, ["is no parameter of the tools that the rule is about"]),
        ({"properties": {"to": {"type": "string"}}, "required": ["to"]}, []),
        ({"properties": {"to": {"type": "string"}}}, ["calls of 'a' without it fit, too"]),
        ({"properties": {"to": {"$ref": "#/x"}}}, ["what is no text fits, too", "calls of 'a' without it fit, too"]),
    ],
)
def test_nothing_is_said_of_what_the_schemas_of_tools_leave_open(schema: dict[str, Any], said: list[str]) -> None:
    condition = {"properties": {"to": {"pattern": "^all$"}}}
    rules = [ApprovalRule.read({"action": does, "input": condition}, where="") for does in ("deny", "allow")]
    for rule in rules:
        known = KnownNames((), (), (), "tool", [CatalogEntry("a", "a", "", schema)])
        assert [each.split(": ", 2)[-1].split("'to' ")[-1] for each in rule_warnings([rule], [], known)] == said


EACH = {"properties": {"data": {"contains": {"const": "all"}}}}
"""A condition on each item of a list."""


@pytest.mark.parametrize(
    "data",
    [
        lambda many: [1] * many,
        lambda many: ["x"] * many,
        lambda many: [[1] * 100] * (many // 100),
        lambda many: f"[{'1,' * many}1]",
    ],
    ids=["ambiguous", "texts", "nested", "as a text"],
)
def test_an_input_of_too_many_values_counts_against_the_call_and_is_not_compared(data: Callable[[int], object]) -> None:
    for does in ("allow", "deny"):
        rule = _CompiledRule(1, ApprovalRule.read({"action": does, "input": EACH}, where=""))
        few, many = {"data": data(2 * MAX_VALUES)}, {"data": data(4 * MAX_VALUES)}
        assert rule.applies(few, {}) is rule.applies(many, {}) is (does == "deny")
        assert python_steps(partial(rule.applies, many, {})) < 1.1 * python_steps(partial(rule.applies, few, {}))


def test_so_does_one_of_many_values_that_can_be_read_in_many_ways() -> None:
    deny = _CompiledRule(1, ApprovalRule.read({"action": "deny", "input": EACH}, where=""))
    assert not deny.applies({"data": [5] * 1_000 + [1] * 6}, {})
    assert deny.applies({"data": [5] * 4_000 + [1] * 6}, {})


def test_values_that_a_condition_does_not_name_cost_nothing() -> None:
    deny = _CompiledRule(1, ApprovalRule.read({"action": "deny", "input": EACH}, where=""))
    assert not deny.applies({"data": ["none"], "rows": [[1] * 100] * 2_000}, {})


async def test_conditions_are_compared_in_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, comparing = threading.Event(), 0

    def wait(*_: object) -> bool:
        nonlocal comparing
        comparing += 1
        go_on.wait(30)
        return True

    monkeypatch.setattr(_CompiledRule, "applies", wait)
    async with anyio.create_task_group() as group:
        for _ in range(40):
            group.start_soon(partial(action, TOOL, {"action": "deny", "input": EACH}))
        await anyio.sleep(0.05)
        assert await to_thread.run_sync(lambda: "a tool runs") == "a tool runs"
        assert 1 <= comparing <= MAX_RULING_THREADS
        go_on.set()
