"""Recordings: their file, what they lose, how calls find their answers, and what a live server gives to record."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall import CodeCallPlugin
from codecall.envelopes import ExecutionResult
from codecall.errors import ToolCallError
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.sandbox.enclave import Enclave
from codecall.testing.recording.brokers import (
    NOT_RECORDED,
    RecordingBroker,
    ReplayBroker,
    describe_unrecorded,
    describe_unused,
)
from codecall.testing.recording.cassette import (
    RecordedCall,
    RecordingFileError,
    Replay,
    format_recording,
    read_recording,
)
from codecall.testing.recording.live import LiveBroker, LiveServerError


def call(name: str, value: object = None, /, **given: object) -> RecordedCall:
    return RecordedCall("tool", name, given, value)


def document(*entries: RecordedCall, **settings: Any) -> list[dict[str, Any]]:
    return json.loads(format_recording(entries, **settings))["calls"]


# ------------------------------------------------------------------------------------------------------------ the file

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "é", "b c", ""]), inner),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from(["a", "é", "b c", ""]), JSON)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.builds(RecordedCall, st.sampled_from(["tool", "prompt"]), st.sampled_from(["x", "y:z"]), OBJECT, JSON))
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, entries: list[RecordedCall]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(format_recording(entries), encoding="utf-8")
    assert read_recording(path) == entries
    assert format_recording(read_recording(path)) == format_recording(entries)


def test_every_kind_of_entry(tmp_path: Path) -> None:
    entries = [
        RecordedCall("resource", "crm://rates", value=[1.5]),
        RecordedCall(
            "tool", "pay", {"amount": 5}, error={"code": "CARD_DECLINED", "message": "No funds", "retryAfterMs": 5}
        ),
        RecordedCall("tool", "nothing", {}),
        RecordedCall("getTool", "nobody"),
        RecordedCall("member", "users", {"member": "list"}, {"tool": "users_list"}),
        RecordedCall("space", "users", value={"members": {}}),
    ]
    text = format_recording([*entries, RecordedCall("tool", "cancelled", completed=False)])
    (tmp_path / "r.json").write_text(text)
    back = read_recording(tmp_path / "r.json")
    assert sorted(back, key=RecordedCall.key) == sorted(entries, key=RecordedCall.key)
    assert text.splitlines()[3:7] == [
        '  "calls": [',
        '    {"resource": "crm://rates", "value": [1.5]},',
        "    {",
        '      "tool": "pay",',
    ]


def one(rest: str) -> str:
    """The text of a recording with one call."""
    return f'{{"codecall": "recording", "version": 1, "calls": [{{"tool": "x", {rest}}}]}}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a recording"),
        ('{"codecall": "recording", "version": 2}', "version 2; this CodeCall reads version 1"),
        ('{"codecall": "recording", "version": 1, "calls": [{}]}', "calls, number 1: an entry is of a tool"),
        ('{"codecall": "recording", "version": 1, "calls": [7]}', "calls, number 1"),
        ('{"codecall": "recording", "version": 1, "calls": 7}', "calls, number 1"),
        ('{"codecall": "recording", "version": 1, "calls": [{"tool": 1, "value": 1}]}', "tool 1: a name"),
        ('{"codecall": "recording", "version": 1, "calls": [{"tool": "x"}]}', "either a value or an error"),
        ('{"codecall": "recording", "version": 1, "calls": [{"tool": "x", "error": {}}]}', "a code and a message"),
        (one('"error": {"code": [1], "message": {}}'), "a code and a message"),
        (one('"error": null'), "a code and a message"),
        (one('"error": {"code": "A", "message": "b", "hint": 1}'), "hint is a text"),
        (one('"error": {"code": "A", "message": "b", "retryAfterMs": true}'), "a whole number"),
        (one('"value": 1, "masked": 5'), "masked is a list of paths"),
        (one('"value": 1, "masked": [5]'), "masked is a list of paths"),
        (one(f'"value": {"[" * 900}{"]" * 900}'), "nested deeper than 256"),
        (one(f'"value": {"9" * 5_000}'), "not JSON"),
        (one('"value": [NaN]'), "not JSON: nan is no number"),
        (one('"value": 1e999'), "not JSON: inf is no number"),
        (one('"value": "\\ud800"'), "half of a surrogate pair"),
        (one('"value": {"\\ud800": 1}'), "half of a surrogate pair"),
        ('{"codecall": "recording", "version": 1, "lookups": [{"namespace": 1, "value": 1}]}', "lookups, number 1"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(RecordingFileError, match=problem) as caught:
        read_recording(path)
    assert str(caught.value).startswith(str(path))


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=3)
    | st.builds(lambda depth: json.loads("[" * depth + "]" * depth), st.sampled_from([250, 500])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(json.dumps, inner)
        | st.builds(lambda depth: "[" * depth + "]" * depth, st.sampled_from([250, 900]))
    ),
    max_leaves=5,
)
NAMES = ["tool", "resource", "prompt", "getTool", "namespace", "member", "input", "value", "error", "masked"]
ERRORS = st.dictionaries(st.sampled_from(["code", "message", "hint", "details", "retryAfterMs"]), ODD | st.just("a"))
ENTRIES = ODD | st.dictionaries(st.sampled_from(NAMES), st.just("a") | ODD | ERRORS | st.lists(st.just("a")))
DOCUMENTS = ODD | st.fixed_dictionaries(
    {"codecall": st.just("recording"), "version": st.just(1)},
    optional={"calls": st.lists(ENTRIES, max_size=3) | ODD, "lookups": st.lists(ENTRIES, max_size=3) | ODD},
)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS)
def test_odd_json_is_a_recording_or_said_to_be_none(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    path = tmp_path_factory.getbasetemp() / "odd.json"
    path.write_text(json.dumps(content))
    try:
        entries = read_recording(path)
    except RecordingFileError:
        return
    path.write_text(format_recording(entries, earlier=entries), encoding="utf-8")
    assert format_recording(read_recording(path)) == path.read_text(encoding="utf-8")
    replay, strange = Replay(entries), list[RecordedCall]()
    broker = ReplayBroker(replay, strange.append)
    for entry in entries:
        if entry.kind == "tool" and not is_meta_tool(entry.name):
            with suppress(ToolCallError):
                asyncio.run(broker.call(entry.name, entry.input))
    assert strange == []


def test_recorded_again_what_is_the_same_keeps_its_place() -> None:
    first = [call("a", 1), call("b", 1, x=1), call("b", 2, x=2), call("b", 2, x=2)]
    again = [call("b", 9, x=2), call("new"), call("b", 1, x=1), call("a", 1), call("b", 8, x=2)]
    assert [(item["tool"], item["input"], item["value"]) for item in document(*again, earlier=first)] == [
        ("a", {}, 1),
        ("new", {}, None),
        ("b", {"x": 1}, 1),
        ("b", {"x": 2}, 9),
        ("b", {"x": 2}, 8),
    ]


# ----------------------------------------------------------------------------------------------------------- the masks


def test_credentials_are_masked_by_name_by_shape_and_wherever_they_stand_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_API_KEY", "env-5e81-secret")
    calls = document(
        call("login", {"token": "tok-1234567", "expires": 60, "next": ""}, user="ann", password="hunter2!"),
        call("list", [{"link": "https://x.example/?t=tok-1234567"}], headers={"Authorization": "Bearer 1a2b3c4d5e6f"}),
        call("config", {"text": "AKIAIOSFODNN7EXAMPLE", "n": "env-5e81-secret"}, name="X-Api-Key", value="k-1"),
        call("fine", {"tokens": 5, "password": {"type": "string"}, "secret": True, "author": "ann"}),
    )
    assert "hunter2!" not in (text := json.dumps(calls))
    assert not any(secret in text for secret in ("tok-1234567", "1a2b3c", "AKIA", "env-5e81", "k-1"))
    assert calls[0] == {
        "tool": "login",
        "input": {"user": "ann", "password": "masked-credential-1"},
        "value": {"token": "masked-credential-2", "expires": 60, "next": ""},
        "masked": ["input.password", "value.token"],
    }
    assert calls[1]["value"] == [{"link": "https://x.example/?t=masked-credential-2"}]
    assert calls[1]["masked"] == ["input.headers.Authorization", "value[0].link"]
    assert calls[2]["masked"] == ["input.value", "value.text", "value.n"]
    assert "masked" not in calls[3]
    assert calls[3]["value"] == {"tokens": 5, "password": {"type": "string"}, "secret": True, "author": "ann"}


def test_more_names_to_mask() -> None:
    (one,) = document(call("get", {"EMail": "ann@x.example", "phones": ["1", "2"]}), names=["email", "phone*"])
    assert one["value"] == {"EMail": "masked-credential-1", "phones": ["masked-credential-2", "masked-credential-3"]}
    assert one["masked"] == ["value.EMail", "value.phones[0]", "value.phones[1]"]


def test_a_text_that_is_json_stays_json() -> None:
    text = json.dumps({"user": "bob", "password": "s3cr3tpw!", "inner": json.dumps([{"tokens": ["tk_9f8e7d"]}])})
    (one,) = document(call("get", {"text": text, "same": '{ "a": 1 }', "twice": '{"token": "a-1234567", "token": 5}'}))
    value = one["value"]
    assert json.loads(value["text"]) == {
        "user": "bob",
        "password": "masked-credential-1",
        "inner": '[{"tokens": ["masked-credential-2"]}]',
    }
    assert value["same"] == '{ "a": 1 }'
    assert json.loads(value["twice"]) == {"token": 5}
    assert not any(secret in str(one) for secret in ("s3cr3tpw", "tk_9f8e7d", "a-1234567"))
    assert one["masked"] == ["value.text", "value.twice"]


def test_json_within_a_text_keeps_its_quotes() -> None:
    (one,) = document(call("get", 'It said {"user": "ann", "api_key": "k-9876543"}, and db_password=hunter2, too.'))
    assert one["value"] == (
        'It said {"user": "ann", "api_key": "masked-credential-1"}, and db_password=masked-credential-2, too.'
    )


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"tokens": ["tk_9f8e7d6c5b4a"], "tokensUsed": "12"}, {"tokens": ["M"], "tokensUsed": "12"}),
        ({"api_keys": {"prod": "9f8e7d6c5b4a", "kind": "live"}}, {"api_keys": {"prod": "M", "kind": "live"}}),
        ({"passwords": ["hunter2!"], "pass": "x", "passing": "y"}, {"passwords": ["M"], "pass": "M", "passing": "y"}),
        (
            {"session_id": "9f8e7d", "sessionId": "1", "session": "s"},
            {"session_id": "M", "sessionId": "M", "session": "s"},
        ),
        ({"secrets": [{"of": "db", "is": ["abcd-1234"]}]}, {"secrets": [{"of": "db", "is": ["M"]}]}),
        ("Authorization header: Bearer abcdefghijklmnopqrst", "Authorization header: Bearer M"),
    ],
)
def test_what_stands_under_related_names_and_further_down(value: object, masked: object) -> None:
    (one,) = document(call("get", value))
    assert json.loads(re.sub(r"masked-credential-\d+", "M", json.dumps(one["value"]))) == masked


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"pwd": 12345678, "password": 42, "db_password": -1}, {"pwd": "M", "password": "M", "db_password": "M"}),
        ({"token": 123456789, "name": "pwd", "value": 7}, {"token": "M", "name": "pwd", "value": "M"}),
        ('{"pwd": 12345678}', '{"pwd": "M"}'),
        ([["Cookie", "sid=abcdef0123456789"], ["Accept", "text/html"]], [["Cookie", "M"], ["Accept", "text/html"]]),
        *(
            (value, value)
            for value in (
                {"tokens": 123456789, "max_tokens": 100_000_000, "password_attempts": 3, "token_id": 123456789},
                {"token": 57, "cookie": 3, "pwd": True, "password": None, "token_price": 0.12345678},
                {"sid": 123456789, "pass": 12, "passwords": 3, "id": 12345678},
                {"required": ["password", "email"], "headers": ["Cookie", "Accept", "x-123456789"]},
            )
        ),
    ],
)
def test_numbers_and_pairs_under_secret_names_are_masked_and_no_counts_and_ids(value: object, masked: object) -> None:
    (one,) = document(call("get", value))
    assert json.loads(re.sub(r"masked-credential-\d+", "M", json.dumps(one["value"]))) == masked


def test_a_number_that_was_masked_is_found_again() -> None:
    (one,) = document(call("login", "ok", pwd=12345678))
    assert one["input"] == {"pwd": "masked-credential-1"}
    assert Replay([RecordedCall.from_mapping(one)]).use(call("login", pwd=12345678)) is not None


def test_numbers_under_names_that_are_given_are_masked() -> None:
    assert "5551234" not in format_recording([call("get", {"phone": 5551234})], names=["phone*"])


def test_a_schema_under_a_telling_name_stays() -> None:
    schema = {"password": {"type": "string", "description": "At least 8 characters", "pattern": "[a-z0-9]{8,}"}}
    (one,) = document(call("describe", schema))
    assert one["value"] == schema


def test_uris_are_masked() -> None:
    uri = "crm://export?api_key=k-123456789"
    (one,) = document(RecordedCall("resource", uri, value=1))
    assert one == {"resource": "crm://export?api_key=masked-credential-1", "value": 1, "masked": ["resource"]}
    assert Replay([RecordedCall.from_mapping(one)]).use(RecordedCall("resource", uri)) is not None


def test_errors_and_keys_are_masked() -> None:
    entry = RecordedCall("tool", "x", {}, {"AKIAIOSFODNN7EXAMPLE": 1, "masked-credential-1": 2})
    failed = RecordedCall(
        "tool", "x", {}, error={"code": "NO", "message": "refused: password=hunter2", "details": {"pwd": "p"}}
    )
    one, two = document(entry, failed)
    assert one["value"] == {"masked-credential-1+": 1, "masked-credential-1": 2}
    assert two["error"]["message"] == "refused: password=masked-credential-2"
    assert two["masked"] == ["error.message", "error.details.pwd"]


# -------------------------------------------------------------------------------------------------------- the matching


def test_answers_are_found_by_input_whatever_the_order_and_each_once() -> None:
    replay = Replay([call("get", 1, id=1), call("get", 2, id=2), call("get", 3, id=2)])
    values = [matches.value for id_ in (2, 1, 2) if (matches := replay.use(call("get", id=id_))) is not None]
    assert values == [2, 1, 3]
    assert replay.use(call("get", id=2)) is None
    assert replay.use(call("get", id=True)) is None
    assert replay.unused == []


def test_in_order_when_asked() -> None:
    replay = Replay([RecordedCall("getTool", "z"), call("a"), call("b")], ordered=True)
    assert replay.use(call("b")) is None
    assert replay.use(call("a")) is not None
    assert replay.use(call("b")) is not None
    assert replay.use(RecordedCall("getTool", "z")) is not None


def test_a_mask_fits_every_credential() -> None:
    text = format_recording([call("login", {"token": "t-11111111"}, password="a"), call("me", 1, token="t-11111111")])
    replay = Replay([RecordedCall.from_mapping(item) for item in json.loads(text)["calls"]])
    matches = replay.use(call("login", password="another"))
    assert matches is not None
    token = matches.value["token"]  # type: ignore[index]
    assert replay.use(call("me", token=token)) is not None
    assert replay.use(call("me", user="x")) is None


def test_mismatches_are_told_with_a_diff() -> None:
    entries = [call("get", id=1, all=False), call("get", id=2, all=True), call("list")]
    replay = Replay(entries)
    replay.use(call("list"))
    text = describe_unrecorded(call("get", id=2, all=False, more=[1]), replay, ordered=False)
    assert text.splitlines() == [
        'made:     get({"id": 2, "all": false, "more": [1]})',
        'recorded: get({"id": 1, "all": false}), not made so far',
        "  --- recorded",
        "  +++ made",
        "  @@ -2,4 +2,7 @@",
        "   {",
        '     "all": false,',
        '  -  "id": 1',
        '  +  "id": 2,',
        '  +  "more": [',
        "  +    1",
        "  +  ]",
        "   }",
        "Others recorded and not made so far:",
        '  get({"id": 2, "all": true})',
    ]
    assert describe_unrecorded(call("list"), replay, ordered=False).endswith("recorded: once, and made as often before")
    assert "Made before:\n  list({})" in describe_unrecorded(call("list", page=2), replay, ordered=False)
    assert describe_unrecorded(call("gte"), replay, ordered=False).endswith(
        "recorded: nothing of that name; there is get"
    )
    assert 'recorded: get({"id": 1, "all": false}), which is due' in describe_unrecorded(
        call("list"), replay, ordered=True
    )
    assert describe_unused([call("x", n=n) for n in range(12)]).splitlines()[-1] == "  … 2 more"


# ------------------------------------------------------------------------------------------------------- a live server

SCRIPT = """
const { token } = await callTool('login', { user: 'ann', password: codecallContext.password });
const [me, list] = await Promise.all([callTool('me', { token }), callTool('rows', {})]);
const failed = [];
for (const [name, input] of [['broken', {}], ['rows', { limit: 'x' }], ['absent', {}]]) {
  try { await callTool(name, input) } catch (error) { failed.push([error.code, error.details ?? error.message]) }
}
const rates = await readResource('crm://rates');
const prompt = await getPrompt('greeting', { name: 'Ann' });
const schema = getTool('me').inputSchema.required;
return { me, list, failed, rates, said: prompt.messages[0].content, schema, none: getTool('x') ?? null };
"""


@pytest.fixture
def mcp() -> FastMCP[Any]:
    """A server with something of each kind."""
    mcp: FastMCP[Any] = FastMCP("crm")

    @mcp.tool
    async def login(user: str, password: str, ctx: Context) -> dict[str, str]:
        await ctx.report_progress(1, 1)  # needs a client
        return {"token": f"{user}-{len(password)}-0123456789"}

    @mcp.tool
    def me(token: str) -> str:
        return f"you are {token[:3]}"

    @mcp.tool
    def rows(limit: int = 2) -> list[float]:
        return [1.0, 2.5][:limit]

    @mcp.tool
    def broken() -> None:
        raise ToolError('{"code": "ON_FIRE", "message": "It burns"}')

    @mcp.resource("crm://rates")
    def rates() -> dict[str, int]:
        return {"eur": 1}

    @mcp.prompt
    def greeting(name: str) -> str:
        return f"Say hello to {name}"

    return mcp


@pytest.fixture(scope="module")
async def enclave() -> AsyncGenerator[Enclave]:
    async with Enclave("secure") as enclave:
        yield enclave


async def recorded(
    enclave: Enclave, server: object, script: str = SCRIPT
) -> tuple[ExecutionResult, list[RecordedCall]]:
    entries: list[RecordedCall] = []
    live = LiveBroker(server, enclave.preset)
    try:
        return await enclave.run(script, RecordingBroker(live, entries), context={"password": "hunter2!"}), entries
    finally:
        await live.close()


@pytest.mark.parametrize("how", ["server", "plugin", "client"])
async def test_a_script_sees_in_replay_what_it_saw_live(
    enclave: Enclave, mcp: FastMCP[Any], how: str, tmp_path: Path
) -> None:
    server = {
        "server": lambda: mcp,
        "plugin": lambda: CodeCallPlugin.init().install(mcp),
        "client": lambda: Client(mcp),
    }
    before = list(mcp.middleware)
    live, entries = await recorded(enclave, server[how]())
    assert live.error is None
    path = tmp_path / "r.json"
    path.write_text(format_recording(entries))
    replay, strange = Replay(read_recording(path)), list[RecordedCall]()
    played = await enclave.run(SCRIPT, ReplayBroker(replay, strange.append), context={"password": "none"})
    assert (strange, replay.unused) == ([], [])
    document: Any = live.value
    assert played.value == {**document, "me": "you are ann"}
    assert document["failed"][0] == ["ON_FIRE", "It burns"]
    assert [code for code, _ in document["failed"]] == ["ON_FIRE", "INVALID_INPUT", "TOOL_NOT_FOUND"]
    assert document["schema"] == ["token"]
    assert "hunter2!" not in path.read_text()
    assert "0123456789" not in path.read_text()
    assert [entry.name for entry in entries if entry.is_call][:3] == ["login", "me", "rows"]
    assert mcp.middleware == before


async def test_namespaces_are_recorded(enclave: Enclave, tmp_path: Path) -> None:
    outer: FastMCP[Any] = FastMCP("outer")
    inner: FastMCP[Any] = FastMCP("inner")
    inner.tool(lambda limit: [limit], name="list")
    outer.mount(inner, namespace="users")
    script = "return [await users.list({ limit: 5 }), await tools['users_list']({ limit: 6 })]"
    live, entries = await recorded(enclave, outer, script)
    assert live.value == [[5], [6]]
    (tmp_path / "r.json").write_text(format_recording(entries))
    replay, strange = Replay(read_recording(tmp_path / "r.json")), list[RecordedCall]()
    played = await enclave.run(script, ReplayBroker(replay, strange.append))
    assert (played.value, strange, replay.unused) == ([[5], [6]], [], [])


async def test_a_server_that_cannot_be_opened(enclave: Enclave, mcp: FastMCP[Any]) -> None:
    for server, problem in [
        ("http://127.0.0.1:9/mcp", "cannot be opened"),
        (Client(CodeCallPlugin.init().install(mcp)), "shows CodeCall's tools instead of its own"),
    ]:
        live = LiveBroker(server, enclave.preset)
        for _ in range(2):
            with pytest.raises(LiveServerError, match=problem):
                await live.call("me", {"token": "x"})
        await live.close()


async def test_a_call_that_was_not_recorded_fails_in_the_script(enclave: Enclave) -> None:
    strange: list[RecordedCall] = []
    broker = ReplayBroker(Replay([call("a", 1)]), strange.append)
    script = (
        "const r = []; for (const n of ['a', 'a']) r.push(await callTool(n, {}, { throwOnError: false })); return r"
    )
    result = await enclave.run(script, broker)
    first, second = result.value  # type: ignore[misc]
    assert first == {"success": True, "data": 1}
    assert second["error"]["code"] == NOT_RECORDED
    refused = await enclave.run("return await callTool('b', {})", ReplayBroker(Replay([]), strange.append))
    assert refused.error is not None
    assert "pytest --codecall-record" in (refused.error.hint or "")
    assert strange.pop() == call("b")
    assert strange == [call("a")]


async def test_what_a_script_did_not_wait_for_is_not_recorded(enclave: Enclave) -> None:
    server: FastMCP[Any] = FastMCP("slow")

    @server.tool
    async def never() -> None:
        await anyio.sleep_forever()

    @server.tool
    def quick() -> int:
        return 1

    script = "callTool('never', {}); return await callTool('quick', {})"
    entries: list[RecordedCall] = []
    live = LiveBroker(server, enclave.preset)
    preset = enclave.preset.replaced({"max_duration_ms": 500})
    result = await enclave.run(script, RecordingBroker(live, entries), preset=preset)
    await live.close()
    assert result.status in ("ok", "timeout")
    assert [entry["tool"] for entry in document(*entries)] == ["quick"]


async def test_a_recording_has_marks_of_pictures_and_scripts_show_them_again() -> None:
    server, data = FastMCP[Any]("camera"), b"\x89PNG" + bytes(2_000)
    taken: list[str] = []
    server.tool(lambda: Image(data=data, format="png"), name="shoot")

    @server.tool
    def store(data: str) -> None:
        """Take the base64 of a picture."""
        taken.append(data)

    script = (
        "const [block] = await callTool('shoot'); await callTool('store', { data: block }); emit(block); return block"
    )
    entries: list[RecordedCall] = []
    async with Enclave("secure", pool={"min_workers": 0}) as enclave:
        live = LiveBroker(server, enclave.preset)
        recorded = await enclave.run(script, RecordingBroker(live, entries))
        await live.close()
        replayed = await enclave.run(script, ReplayBroker(Replay(entries), lambda entry: pytest.fail(str(entry))))
    assert recorded.value == replayed.value
    assert recorded.blocks == replayed.blocks == (entries[1].input["data"]["ref"],)
    assert len(format_recording(entries)) < 1_500
    assert len(taken) == 1
