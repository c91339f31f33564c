"""Values that stay outside the engine, and are passed on by reference: `callTool(name, input, { reference: true })`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.envelopes import ExecutionResult
from codecall.errors import InvalidInputError, LimitExceeded, ToolCallError
from codecall.options import SanitizationOptions
from codecall.sandbox import wire
from codecall.sandbox.callbacks import CallbackBroker
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import references
from codecall.sandbox.host.references import ReferenceLimits, ReferenceResolver, ReferenceStore
from codecall.sandbox.interfaces import ObserverGroup, RunHooks, RunObserver

ROWS = [{"id": n, "name": f"user {n}", "tags": ["a", {"b": None}]} for n in range(200)]
TEXT = 'line "one"\n' * 400
VALUES: dict[str, Any] = {
    "rows": ROWS,
    "text": TEXT,
    "object": {"path": "x", "rows": ROWS},
    "small": {"a": [1]},
    "number": 5,
    "emoji": "😀" * 600,
    "deep": [[[[[[["x" * 2_000]]]]]]],
    "looks": [{"$reference": "ref_" + "0" * 29, "text": "see ref_" + "a" * 29} for _ in range(40)],
}
ASK = "{ reference: true }"


class Tools:
    """Tools that give values, and one that takes them."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []

    def __call__(self, name: str, arguments: dict[str, Any]) -> Any:
        if name == "take":
            self.inputs.append(arguments)
            return len(self.inputs)
        if name == "fail":
            raise ValueError("no such thing")
        return VALUES[name]


@pytest.fixture
def tools() -> Tools:
    """Fresh for every test."""
    return Tools()


@pytest.fixture(scope="module")
async def generous() -> AsyncIterator[Enclave]:
    """An enclave whose preset lets texts hold references."""
    async with Enclave("balanced", pool={"max_workers": 1}) as shared:
        yield shared


async def run(enclave: Enclave, tools: Tools, script: str, **config: Any) -> ExecutionResult:
    return await enclave.execute(
        script,
        tool_handler=tools,
        resource_handler=lambda uri: {"uri": uri, "rows": ROWS},
        prompt_handler=lambda name, arguments: {"messages": [arguments]},
        config=config,
    )


@pytest.mark.parametrize("name", VALUES)
async def test_the_other_tool_gets_what_the_one_gave(enclave: Enclave, tools: Tools, name: str) -> None:
    script = f"const v = await callTool('{name}', {{}}, {ASK}); return callTool('take', {{ v, all: [1, {{ v }}] }})"
    assert (await run(enclave, tools, script)).value == 1
    assert tools.inputs == [{"v": VALUES[name], "all": [1, {"v": VALUES[name]}]}]


async def test_small_values_are_given_as_they_are(enclave: Enclave, tools: Tools) -> None:
    script = f"""
    const [small, rows] = [await callTool('small', {{}}, {ASK}), await callTool('rows', {{}}, {ASK})];
    return [small, small?.$reference === undefined, rows?.$reference === undefined]
    """
    assert (await run(enclave, tools, script)).value == [{"a": [1]}, True, False]
    assert (await run(enclave, tools, f"return (await callTool('small', {{}}, {ASK})).a", reference_min_bytes=4)).error


async def test_a_reference_says_what_it_stands_for(enclave: Enclave, tools: Tools) -> None:
    script = f"""
    const seen = [];
    for (const name of ['rows', 'text', 'object', 'emoji']) {{
      const {{ type, bytes, length, preview }} = await callTool(name, {{}}, {ASK});
      seen.push({{ type, bytes, length, preview }});
    }}
    return seen;
    """
    recorders = (await run(enclave, tools, script)).value
    assert isinstance(recorders, list)
    for message, name in zip(recorders, ("rows", "text", "object", "emoji"), strict=True):
        text = json.dumps(VALUES[name], separators=(",", ":"), ensure_ascii=False)
        assert message["preview"] == f"{text[:200]}…"
        assert message["bytes"] == len(text.encode())
    assert [(said["type"], said.get("length")) for said in recorders] == [
        ("array", len(ROWS)),
        ("string", len(TEXT)),
        ("object", None),
        ("string", 1_200),
    ]


async def test_a_reference_behaves_like_an_object_that_cannot_be_changed(enclave: Enclave, tools: Tools) -> None:
    script = f"""
    const ref = await callTool('rows', {{}}, {ASK});
    const changed = (() => {{ try {{ ref.length = 1; return true }} catch {{ return false }} }})();
    return [
      Object.keys(ref), Object.isFrozen(ref), changed, structuredClone(ref) === ref, await ref === ref,
      `${{ref}}`.length, (ref + '').length, 'type' in ref, 'map' in ref, Object.keys({{ ...ref }}).length,
      Array.isArray(ref),
      Object.keys(JSON.parse(JSON.stringify(ref))), new Map([[ref, 1]]).get(ref), [1].concat(ref).length, typeof ref,
    ]
    """
    keys = ["$reference", "type", "bytes", "length", "preview"]
    expected = [keys, True, False, True, True, 33, 33, True, False, 5, False, keys, 1, 2, "object"]
    assert (await run(enclave, tools, script)).value == expected


COPIES = [
    "{ ...ref }",
    "JSON.parse(JSON.stringify(ref))",
    "structuredClone(ref)",
    "ref.$reference",
    "`${ref}`",
    "ref + ''",
]


@pytest.mark.parametrize("copy", COPIES)
async def test_copies_stand_for_the_value_too(enclave: Enclave, tools: Tools, copy: str) -> None:
    script = f"const ref = await callTool('rows', {{}}, {ASK}); return callTool('take', {{ v: {copy} }})"
    assert (await run(enclave, tools, script)).success
    assert tools.inputs == [{"v": ROWS}]


READS = [
    ("ref.map((row) => row.id)", "its property 'map' was read"),
    ("ref.rows", "its property 'rows' was read"),
    ("ref[0]", "its property '0' was read"),
    ("[...ref]", "it was iterated over"),
    ("(() => { for (const row of ref) {} })()", "it was iterated over"),
    ("(({ rows }) => rows)(ref)", "its property 'rows' was read"),
]


@pytest.mark.parametrize(("expression", "message"), READS)
async def test_reading_the_value_is_no_silent_undefined(
    enclave: Enclave, tools: Tools, expression: str, message: str
) -> None:
    result = await run(enclave, tools, f"const ref = await callTool('rows', {{}}, {ASK}); return {expression}")
    assert result.error is not None
    assert message in result.error.message
    assert result.error.message.startswith("the value of 'rows' stayed outside of the script")
    assert "Pass the reference on as it is" in str(result.error.hint)


async def test_every_way_of_asking(enclave: Enclave, tools: Tools) -> None:
    script = f"""
    const both = {{ reference: true, throwOnError: false }};
    const {{ success, data }} = await callTool('rows', {{}}, both);
    const failed = await callTool('fail', {{}}, both);
    const rows = await tools.rows({{}}, {ASK});
    const read = await readResource('data://a', {ASK});
    const prompt = await getPrompt('p', {{ text: 'x'.repeat(3000) }}, {ASK});
    await callTool('take', {{ data, rows, read, prompt }});
    await callTool('take', {{ v: await callTool('rows', {{}}, {{ reference: false }}) }});
    return [success, failed.error.message]
    """
    assert (await run(enclave, tools, script)).value == [True, "no such thing"]
    read, prompt = {"uri": "data://a", "rows": ROWS}, {"messages": [{"text": "x" * 3_000}]}
    assert tools.inputs == [{"data": ROWS, "rows": ROWS, "read": read, "prompt": prompt}, {"v": ROWS}]


async def test_a_prompt_takes_references(enclave: Enclave, tools: Tools) -> None:
    script = f"return (await getPrompt('p', {{ rows: await callTool('rows', {{}}, {ASK}) }})).messages[0].rows.length"
    assert (await run(enclave, tools, script)).value == len(ROWS)


async def test_a_reference_may_be_all_of_the_input(enclave: Enclave, tools: Tools) -> None:
    assert (await run(enclave, tools, f"return callTool('take', await callTool('object', {{}}, {ASK}))")).success
    assert tools.inputs == [VALUES["object"]]
    result = await run(enclave, tools, f"return callTool('take', await callTool('rows', {{}}, {ASK}))")
    assert isinstance(result.error, InvalidInputError)
    assert result.error.message == "The input of 'take' is a reference to what is no object"


async def test_each_place_has_a_value_of_its_own(enclave: Enclave) -> None:
    """What a tool does to its input is not seen by the next."""

    def handler(name: str, arguments: dict[str, Any]) -> Any:
        if name == "rows":
            return ROWS
        arguments["a"].clear()
        return len(arguments["b"])

    script = f"""
    const v = await callTool('rows', {{}}, {ASK});
    return [await callTool('take', {{ a: v, b: v }}), await callTool('take', {{ a: v, b: v }})]
    """
    assert (await enclave.execute(script, tool_handler=handler)).value == [len(ROWS)] * 2


# ------------------------------------------------------------------------------------------------------- composites


async def test_texts_with_references_in_them(enclave: Enclave, generous: Enclave, tools: Tools) -> None:
    script = f"""
    const [text, rows] = [await callTool('text', {{}}, {ASK}), await callTool('rows', {{}}, {ASK})];
    return callTool('take', {{ v: `see ${{text}}, and ${{rows}}, "and" ref_{"0" * 29}` }})
    """
    refused = await run(enclave, tools, script)
    assert isinstance(refused.error, InvalidInputError)
    assert "inside a longer text, which is not allowed here" in refused.error.message
    assert tools.inputs == []
    assert (await run(generous, tools, script)).success
    rows = json.dumps(ROWS, separators=(",", ":"))
    assert tools.inputs == [{"v": f'see {TEXT}, and {rows}, "and" ref_{"0" * 29}'}]


@pytest.mark.parametrize("key", ["[ref]", "[`a ${ref}`]"])
async def test_a_reference_is_no_key(enclave: Enclave, generous: Enclave, tools: Tools, key: str) -> None:
    script = f"const ref = await callTool('rows', {{}}, {ASK}); return callTool('take', {{ a: {{ {key}: 1 }} }})"
    for each in (enclave, generous):
        result = await run(each, tools, script)
        assert isinstance(result.error, InvalidInputError)
        assert result.error.message == "The input of 'take' has a reference for a key"


async def test_a_reference_with_members_of_its_own(enclave: Enclave, tools: Tools) -> None:
    script = f"const ref = await callTool('object', {{}}, {ASK}); return callTool('take', {{ ...ref, limit: 5 }})"
    result = await run(enclave, tools, script)
    assert result.error is not None
    assert result.error.message == "The input has a reference with a member of its own, 'limit'"
    assert tools.inputs == []


# ---------------------------------------------------------------------------------------------------------- limits


async def test_limits_are_told_and_can_be_caught(enclave: Enclave, tools: Tools) -> None:
    size = len(json.dumps(ROWS, separators=(",", ":")))
    rows = f"await callTool('rows', {{}}, {ASK})"
    cases = [
        (f"return {rows}", {"reference_max_bytes": size - 1}, "MESSAGE_TOO_LARGE", f"may have {size - 1}"),
        (f"{rows}; {rows}; return 1", {"reference_total_bytes": size}, "MESSAGE_TOO_LARGE", "was not called"),
        (f"{rows}; {rows}; return 1", {"reference_total_bytes": 2 * size - 1}, "MESSAGE_TOO_LARGE", "all values kept"),
        (f"const r = {rows}; await callTool('take', {{ a: r, b: r }})", {"reference_resolved_bytes": 2 * size - 1},
         "INVALID_INPUT", "the limit of one call"),
        (f"const r = {rows}; await callTool('take', {{ r }}); await callTool('take', {{ r }})",
         {"reference_passed_bytes": 2 * size - 1}, "INVALID_INPUT", f"of which {size} are used"),
        (rows, {"reference_max_bytes": 0}, "INVALID_INPUT", "references are switched off here"),
    ]  # fmt: skip
    for script, config, code, message in cases:
        caught = await run(enclave, tools, f"try {{ {script} }} catch (e) {{ return [e.code, e.message] }}", **config)
        assert isinstance(caught.value, list), (script, caught)
        assert caught.value[0] == code
        assert message in str(caught.value[1])
        failed = await run(enclave, tools, script, **config)
        assert isinstance(failed.error, ToolCallError)
        assert failed.error.hint


async def test_switched_off_means_that_nothing_is_called(enclave: Enclave) -> None:
    called: list[str] = []
    script = f"return callTool('rows', {{}}, {ASK})"
    config = {"reference_max_bytes": 0}
    result = await enclave.execute(script, tool_handler=lambda name, arguments: called.append(name), config=config)
    assert isinstance(result.error, InvalidInputError)
    assert called == []


async def test_too_many_parts_and_too_deep(enclave: Enclave, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"const v = await callTool('deep', {{}}, {ASK}); return callTool('take', {{ v }})"
    result = await run(enclave, tools, script, sanitize_max_depth=4)
    assert isinstance(result.error, InvalidInputError)
    assert "nested deeper than 6 levels" in result.error.message
    monkeypatch.setattr("codecall.jsonio.decode.FEWEST_CONTAINERS", 10)
    config = {"reference_resolved_bytes": 33_000, "max_result_bytes": 1_000, "max_tool_input_bytes": 1_000}
    result = await run(
        enclave, tools, f"return callTool('take', {{ v: await callTool('rows', {{}}, {ASK}) }})", **config
    )
    assert isinstance(result.error, InvalidInputError)
    assert "objects and arrays: too many for one call" in result.error.message


async def test_values_in_use_at_the_same_time_are_bounded(enclave: Enclave) -> None:
    """Calls wait for one another rather than hold more than one call may."""
    now = most = 0

    async def handler(name: str, arguments: dict[str, Any]) -> Any:
        nonlocal now, most
        if name == "rows":
            return ROWS
        now += 1
        most = max(most, now)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        now -= 1
        return len(arguments["v"])

    size = len(json.dumps(ROWS, separators=(",", ":")))
    script = f"""
    const v = await callTool('rows', {{}}, {ASK});
    return Promise.all(Array.from({{ length: 30 }}, () => callTool('take', {{ v }})))
    """
    config = {"reference_resolved_bytes": 3 * size + 100, "reference_passed_bytes": 100 * size}
    result = await enclave.execute(script, tool_handler=handler, config=config)
    assert result.value == [len(ROWS)] * 30, result.error
    assert most == 3


async def test_unknown_options_are_refused(enclave: Enclave, tools: Tools) -> None:
    for options, message in (
        ("{ timeout: 5 }", "has no option 'timeout'; there are throwOnError and reference"),
        ("{ reference: 1 }", "needs true or false for its option 'reference', got number"),
        ("{ ['refer' + 'ence']: true }", "Write the option 'reference' out where it is used"),
    ):
        result = await run(enclave, tools, f"return callTool('small', {{}}, {options})")
        assert result.error is not None
        assert message in result.error.message
    assert (await run(enclave, tools, "return [{}, {}].map(tools.small).length")).value == 2


# --------------------------------------------------------------------------------------------------------- results


async def test_a_result_has_the_values(enclave: Enclave, tools: Tools) -> None:
    rows = f"await callTool('rows', {{}}, {ASK})"
    assert (await run(enclave, tools, f"return {rows}")).value == ROWS
    result = await run(
        enclave, tools, f"const r = {rows}; return {{ r, all: [r.$reference, {{ ...r }}], n: r.length }}"
    )
    assert result.value == {"r": ROWS, "all": [ROWS, ROWS], "n": len(ROWS)}
    assert result.warnings == ()
    looks = await run(enclave, tools, f"return callTool('looks', {{}}, {ASK})")
    assert looks.value == VALUES["looks"]


async def test_a_reference_that_stays_in_a_result_is_warned_of(generous: Enclave, tools: Tools) -> None:
    script = f"const r = await callTool('rows', {{}}, {ASK}); return {{ text: `see \"${{r}}\"`, [r]: 1, r }}"
    result = await run(generous, tools, script)
    assert isinstance(result.value, dict)
    assert result.value["r"] == ROWS
    assert result.warnings == (
        "The result has references inside texts or keys (2): they mean nothing after the script",
    )


async def test_a_result_is_bounded_with_its_values(enclave: Enclave, tools: Tools) -> None:
    script = f"const r = await callTool('rows', {{}}, {ASK}); return Array.from({{ length: 5000 }}, () => r)"
    for config in ({}, {"reference_resolved_bytes": 50_000}):
        result = await run(enclave, tools, script, **config)
        assert isinstance(result.error, LimitExceeded)
        assert result.error.code == "OUTPUT_LIMIT"
        assert "with the values that it refers to" in result.error.message
    deep = await run(enclave, tools, f"return callTool('deep', {{}}, {ASK})", sanitize_max_depth=4)
    assert isinstance(deep.error, LimitExceeded)
    assert "nested deeper than 6 levels" in deep.error.message


async def test_the_console_shows_what_a_reference_is(enclave: Enclave, tools: Tools) -> None:
    result = await run(enclave, tools, f"console.log(await callTool('rows', {{}}, {ASK})); return 1")
    reference = json.loads(result.logs[0])
    assert list(reference) == ["$reference", "type", "bytes", "length", "preview"]


# -------------------------------------------------------------------------------------------- records and the end


class CallRecorder(RunObserver):
    """Observes the calls of a run, and remembers them for the next."""

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.values: list[str | None] = []
        self.remembered: dict[str, str] = {}
        self.reused = 0

    def on_call(self, record: Any, input_json: str) -> Any:
        self.inputs.append(f"{record.name} {input_json}")
        return self.values.append

    async def recall(self, record: Any, input_json: str) -> str | None:
        value = self.remembered.get(f"{record.name} {input_json}")
        self.reused += value is not None
        return value

    async def keep(self, record: Any, input_json: str, value: str | None) -> None:
        if value is not None:
            self.remembered[f"{record.name} {input_json}"] = value


async def test_records_and_memory_know_values_and_no_tokens(enclave: Enclave, tools: Tools) -> None:
    script = f"const v = await callTool('rows', {{}}, {ASK}); return callTool('take', {{ v, w: [v] }})"
    recorders = [CallRecorder(), CallRecorder()]
    recorders[1].remembered = recorders[0].remembered
    for recorder in recorders:
        broker = CallbackBroker(tools, None, None, SanitizationOptions())
        result = await enclave.run(script, broker, hooks=RunHooks(observer=ObserverGroup([recorder]), memory=recorder))
        assert result.value == 1
        assert re.search("ref_[0-9a-f]{29}", result.calls[1].input)
    assert recorders[0].inputs == recorders[1].inputs
    assert re.fullmatch(
        r'take \{"v":\{"\$reference":"(sha256:[0-9a-f]{64})"\},"w":\[\{"\$reference":"\1"\}\]\}', recorders[0].inputs[1]
    )
    assert json.loads(str(recorders[0].values[0])) == ROWS
    assert (recorders[0].reused, recorders[1].reused) == (0, 2)
    assert tools.inputs == [{"v": ROWS, "w": [ROWS]}]


async def test_a_dry_run_and_a_look_ahead_say_nothing_of_references(enclave: Enclave, tools: Tools) -> None:
    described = [
        {"name": "rows", "inputSchema": {"type": "object"}},
        {
            "name": "take",
            "inputSchema": {
                "type": "object",
                "properties": {"v": {"type": "array"}, "s": {"type": "array"}, "t": {"type": "array"}},
                "additionalProperties": False,
            },
        },
    ]
    script = (
        f"const v = await callTool('rows', {{}}, {ASK}); return callTool('take', {{ v, s: v.$reference, t: `${{v}}` }})"
    )
    looked = await enclave.execute(script, tool_handler=tools, tools=described, dry_run=True)
    assert isinstance(looked.value, dict)
    assert looked.value["valid"] is True, looked.value
    assert (await enclave.execute(script, tool_handler=tools, tools=described)).success
    assert tools.inputs == [{"v": ROWS, "s": ROWS, "t": ROWS}]


@pytest.mark.parametrize("end", ["returns", "throws", "is cancelled", "is killed"])
async def test_values_are_gone_with_the_run(enclave: Enclave, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[ReferenceStore] = []
    create = ReferenceStore.__init__

    def created(self: ReferenceStore, allowance: ReferenceLimits) -> None:
        create(self, allowance)
        stores.append(self)

    monkeypatch.setattr(ReferenceStore, "__init__", created)
    waits = anyio.Event()

    async def handler(name: str, arguments: dict[str, Any]) -> Any:
        if name == "wait":
            assert stores[0].size > 0
            waits.set()
            await anyio.sleep_forever()
        return ROWS

    then = {"returns": "return 1", "throws": "throw new Error('x')"}.get(end, "await callTool('wait')")
    async with anyio.create_task_group() as group:

        async def execute() -> None:
            await enclave.execute(f"const v = await callTool('rows', {{}}, {ASK}); {then}", tool_handler=handler)

        group.start_soon(execute)
        if end.startswith("is"):
            await waits.wait()
            if end == "is cancelled":
                group.cancel_scope.cancel()
            else:
                for worker in enclave.pool.busy_workers():
                    worker.kill()
    assert (stores[0].size, [match async for match in stores[0].find("ref_")]) == (0, [])


# -------------------------------------------------------------------------------------------------- any value, anywhere

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
    | st.sampled_from(["$reference", "ref_" + "0" * 29, '{"$reference":"', "\\", '"', "é😀"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.just("$reference"), inner, max_size=4)
    ),
    max_leaves=12,
)
ALLOWANCE = ReferenceLimits(0, 10_000_000, 100_000_000, 10_000_000, 10**9, True)
LIMITS = wire.Limits(**dict.fromkeys(wire.Limits.__struct_fields__, 100_000) | {"sanitize_max_depth": 50})


@settings(max_examples=80, deadline=None)
@given(values=st.lists(JSON, min_size=1, max_size=3), template=JSON, data=st.data())
def test_any_value_arrives_as_it_was_wherever_it_is_put(values: list[Any], template: Any, data: st.DataObject) -> None:
    async def check() -> None:
        store = ReferenceStore(ALLOWANCE)
        tokens: list[str] = []
        for number, value in enumerate(values):
            call = wire.Call(number + 1, "give", "{}", reference=True)
            reference = await store.keep(call, json.dumps(value, ensure_ascii=number % 2 == 0))
            tokens.append(json.loads(str(reference))["$reference"])
        sent, expected = placed(template, tokens)
        text = json.dumps({"input": sent}, separators=(",", ":"), ensure_ascii=False)
        resolve = ReferenceResolver(store, LIMITS, wire.Call(9, "take", text))
        async with resolve.arguments(json.loads(text)) as arguments:
            assert arguments == {"input": expected}
        result = await references.resolve_result(references.RawResult(text, len(text.encode())), store, LIMITS)
        if not result.warnings:
            assert json.loads(result.result.text) == {"input": expected}
            assert result.result.size == len(result.result.text.encode())

    def placed(template: Any, tokens: list[str]) -> tuple[Any, Any]:
        """The template with some of its parts replaced by references, as sent and as it should arrive."""
        if data.draw(st.integers(0, 3)) == 0:
            number = data.draw(st.integers(0, len(values) - 1))
            how = data.draw(st.sampled_from(["object", "text", "inside"]))
            value = values[number]
            if how == "inside":
                # The value's own JSON, as it was kept.
                reference = value if isinstance(value, str) else json.dumps(value, ensure_ascii=number % 2 == 0)
                return f'x"{tokens[number]}"5', f'x"{reference}"5'
            return ({"$reference": tokens[number]} if how == "object" else tokens[number]), value
        if isinstance(template, list):
            pairs = [placed(item, tokens) for item in template]
            return [sent for sent, _ in pairs], [expected for _, expected in pairs]
        if isinstance(template, dict):
            members = {key: placed(item, tokens) for key, item in template.items() if key != "$reference"}
            return {key: sent for key, (sent, _) in members.items()}, {
                key: value for key, (_, value) in members.items()
            }
        return template, template

    asyncio.run(check())


async def test_halves_of_surrogate_pairs_are_replaced() -> None:
    """As the engine would on their way to another tool."""
    store = ReferenceStore(ALLOWANCE)
    reference = await store.keep(
        wire.Call(1, "give", "{}", reference=True), r'["\ud83d\ude00 \ud83d \\ud83d \ude00", "é"]'
    )
    token = json.loads(str(reference))["$reference"]
    assert json.loads(str(reference))["length"] == 2
    text = json.dumps({"v": token})
    async with ReferenceResolver(store, LIMITS, wire.Call(2, "take", text)).arguments({"v": token}) as arguments:
        assert arguments == {"v": ["😀 \ufffd \\ud83d \ufffd", "é"]}


class Turns:
    """Counts the turns of the event loop while something else runs."""

    async def __aenter__(self) -> Turns:
        self.number = 0
        self._task = asyncio.create_task(self._count())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._task.cancel()

    async def _count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)


async def test_the_event_loop_has_its_turn_while_references_are_filled_in() -> None:
    store = ReferenceStore(ALLOWANCE)
    reference = await store.keep(wire.Call(1, "give", "{}", reference=True), json.dumps("x" * 100_000))
    token = json.loads(str(reference))["$reference"]
    arguments: dict[str, Any] = {"v": [token] * 80}
    async with (
        Turns() as turns,
        ReferenceResolver(store, LIMITS, wire.Call(2, "take", json.dumps(arguments))).arguments(arguments),
    ):
        assert turns.number >= 40


async def test_the_event_loop_has_its_turn_while_a_result_is_searched() -> None:
    store = ReferenceStore(ALLOWANCE)
    reference = await store.keep(wire.Call(1, "give", "{}", reference=True), json.dumps("x" * 100))
    token = json.loads(str(reference))["$reference"]
    limits = msgspec.structs.replace(LIMITS, max_kept_bytes=8_000_000)
    # Tokens at the edges of the windows, and within none.
    rows = [token if n % 37 == 0 else "{}," * n for n in range(1_000)]
    text = json.dumps(rows)
    async with Turns() as turns:
        result = await references.resolve_result(references.RawResult(text, len(text)), store, limits)
    assert turns.number >= len(text) // references.WINDOW
    assert json.loads(result.result.text) == ["x" * 100 if item == token else item for item in rows]


async def test_no_more_references_than_may_be_in_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MAX_RESULT_REFERENCES", 10)
    store = ReferenceStore(ALLOWANCE)
    token = json.loads(str(await store.keep(wire.Call(1, "give", "{}", reference=True), "[1]")))["$reference"]
    for count in (10, 11):
        text = json.dumps([token] * count)
        if count == 10:
            assert (
                await references.resolve_result(references.RawResult(text, len(text)), store, LIMITS)
            ).result.text == str([[1]] * count)
            continue
        with pytest.raises(LimitExceeded, match="more than 10 references"):
            await references.resolve_result(references.RawResult(text, len(text)), store, LIMITS)


def test_tokens_of_two_runs_have_nothing_in_common() -> None:
    async def tokens() -> list[str]:
        store = ReferenceStore(ALLOWANCE)
        reference = [await store.keep(wire.Call(n, "x", "{}", reference=True), "[1]") for n in (1, 2)]
        return [json.loads(str(item))["$reference"] for item in reference]

    first, second = asyncio.run(tokens()), asyncio.run(tokens())
    assert len({*first, *second}) == 4
    assert not {token[4:28] for token in first} & {token[4:28] for token in second}
    assert all(re.fullmatch("ref_[0-9a-f]{29}", token) for token in (*first, *second))
