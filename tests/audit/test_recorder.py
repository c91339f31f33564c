"""The record of what scripts did: which events there are, and what is in them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from key_value.aio.stores.memory import MemoryStore
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import use_span

from codecall import AuditEvent, CodeCallPlugin, LoggingSink, OpenTelemetrySink, RateLimitPlugin
from codecall.audit.recorder import Audit
from codecall.audit.sinks import AUDIT_LOGGER
from codecall.audit.values import call_subject, redact_json, redact_script, redact_value
from codecall.envelopes import CallRecord
from codecall.errors import OptionsError
from codecall.jsonio.decode import MAX_SORTED, canonical_digest, canonical_digest_async
from codecall.options import AuditOptions

Answer = dict[str, Any]
SECRET = "hunter22-4eC39HqLyjWD"


class Office:
    """A server with a record, and one client of it."""

    def __init__(
        self, client: Client[Any], plugin: CodeCallPlugin, events: list[AuditEvent], hanging: anyio.Event
    ) -> None:
        self.client = client
        self.hanging = hanging
        self.plugin = plugin
        self._events = events

    async def execute(self, script: str, **more: Any) -> Answer:
        result = await self.client.call_tool("codecall:execute", {"script": script, **more})
        assert result.structured_content is not None
        return result.structured_content

    async def events(self) -> list[AuditEvent]:
        """Those since it was last asked for them."""
        await self.plugin._now.runtime.audit.flush()  # pyright: ignore[reportPrivateUsage]
        events = [*self._events]
        self._events.clear()
        return events


@asynccontextmanager
async def office(resume: Any = None, **options: Any) -> AsyncGenerator[Office]:
    server = FastMCP("office")
    events: list[AuditEvent] = []
    hanging = anyio.Event()

    @server.tool
    def login(name: str, password: str) -> dict[str, str]:
        return {"session": f"for {name}", "token": SECRET}

    @server.tool
    async def hang() -> None:
        hanging.set()
        await asyncio.Event().wait()

    @server.tool
    def refuse() -> None:
        raise ValueError("never")

    RateLimitPlugin.init(rules=[{"tool": "refuse", "rate": "1/hour"}]).install(server)
    audit = {"sinks": [events.append], **options}
    plugin = CodeCallPlugin.init(
        vm={"preset": "secure", "max_duration_ms": 2_000}, pool={"min_workers": 0}, audit=audit, resume=resume
    )
    async with Client(plugin.install(server)) as client:
        yield Office(client, plugin, events, hanging)


@pytest.fixture(scope="module")
async def running() -> AsyncGenerator[Office]:
    async with office() as server:
        yield server


@pytest.fixture
async def desk(running: Office) -> Office:
    """The server of the module, with nothing in its record."""
    await running.events()
    return running


LOGIN = f"await callTool('login', {{name: 'ann', password: '{SECRET}'}})"


async def test_a_run_from_beginning_to_end(desk: Office):
    script = f"{LOGIN}; return 1"
    envelope = await desk.execute(script, context={"a": 1}, allowedTools=["log*"])
    start, call, complete = await desk.events()
    assert [event.name for event in (start, call, complete)] == [
        "codecall.execute.start",
        "codecall.execute.tool_call",
        "codecall.execute.complete",
    ]
    assert {event.run_id for event in (start, call, complete)} == {envelope["runId"]}
    (caller,) = {event.caller for event in (start, call, complete)}
    assert len(caller) == 32
    assert dict(start.fields) == {
        "script_sha256": hashlib.sha256(script.encode()).hexdigest(),
        "script_chars": len(script),
        "context_bytes": 7,
        "preset": "secure",
        "dry_run": False,
        "allowed_tools": 1,
        "resumed_from": None,
        "tool": "codecall:execute",
        "language": "javascript",
    }
    fields = dict(call.fields)
    began_ms = fields.pop("start_ms")
    assert began_ms > 0
    ended_ms = began_ms + fields.pop("duration_ms")
    assert ended_ms > began_ms
    assert fields == {
        "number": 1,
        "called": "tool",
        "name": "login",
        "input_chars": len(f'{{"name":"ann","password":"{SECRET}"}}'),
        "input_sha256": canonical_digest(json.dumps({"password": SECRET, "name": "ann"})),
        "outcome": "ok",
        "code": None,
        "line": 1,
        "column": 7,
        "result_chars": len(f'{{"session":"for ann","token":"{SECRET}"}}'),
        "reused": False,
    }
    fields = dict(complete.fields)
    assert fields["status"] == "ok"
    assert fields["code"] is None
    assert (fields["tool_calls"], fields["max_tool_calls"]) == (1, 100)
    assert (fields["steps"], fields["max_steps"]) == (envelope["stats"]["steps"], 1_000_000)
    assert 0 < fields["script_ms"] <= fields["run_ms"] <= fields["duration_ms"] + 1
    assert (fields["max_script_ms"], fields["max_run_ms"]) == (3_500, 2_000)
    assert fields["validation_ms"] > 0
    assert fields["queue_ms"] > 0
    assert fields["queue_ms"] <= began_ms < ended_ms <= fields["duration_ms"]
    assert (fields["returned_bytes"], fields["max_returned_bytes"], fields["max_memory_mb"]) == (1, 1024 * 1024, 64)
    assert not fields.keys() & {"console", "warnings", "error", "result"}
    assert start.time <= call.time <= complete.time
    assert SECRET not in "".join(event.as_json() for event in (start, call, complete))


@pytest.mark.parametrize(
    ("script", "blocked", "status"),
    [
        ("eval('1')", {"code": "VALIDATION_ERROR", "kind": "IllegalBuiltinAccess", "line": 1, "column": 1}, None),
        ("let a = ;", {"code": "SYNTAX_ERROR", "kind": None, "line": 1, "column": 9}, "syntax_error"),
        (
            "const name = ['codecall', 'invoke'].join(':'); await callTool(name)",
            {"code": "SELF_REFERENCE_BLOCKED", "kind": "SelfReference"},
            None,
        ),
    ],
)
async def test_a_script_that_is_refused(desk: Office, script: str, blocked: Answer, status: str | None):
    await desk.execute(script)
    start, *calls, block, complete = await desk.events()
    assert (start.name, block.name) == ("codecall.execute.start", "codecall.execute.blocked")
    assert all(event.name == "codecall.execute.tool_call" for event in calls)
    assert block.fields["what"] == "script"
    assert {key: block.fields[key] for key in blocked} == blocked
    assert complete.fields["status"] == (status or "illegal_access")


async def test_calls_that_are_refused(desk: Office):
    quiet = "{throwOnError: false}"
    script = f"for (const name of ['system:x', 'refuse', 'refuse']) await callTool(name, {{}}, {quiet});"
    await desk.execute(script)
    events = await desk.events()
    calls = [event.fields for event in events if event.name.endswith(".tool_call")]
    assert [call["code"] for call in calls] == ["ACCESS_DENIED", "TOOL_EXECUTION_ERROR", "RATE_LIMIT"]
    blocked = [dict(event.fields) for event in events if event.name.endswith(".blocked")]
    assert blocked == [
        {"what": "call", "called": "tool", "name": "system:x", "code": "ACCESS_DENIED"},
        {"what": "call", "called": "tool", "name": "refuse", "code": "RATE_LIMIT"},
    ]
    assert events[-1].fields["calls_failed"] == 3


async def test_a_run_that_cannot_be_taken_up():
    async with office(resume={"store": MemoryStore()}) as desk:
        unknown = "run_" + "x" * 22
        with pytest.raises(ToolError, match="there is no run"):
            await desk.execute("return 1", resumeFrom=unknown)
        (blocked,) = await desk.events()
        assert blocked.name == "codecall.execute.blocked"
        assert dict(blocked.fields) == {"what": "resume", "code": "CANNOT_RESUME", "resumed_from": unknown}


async def test_a_run_that_is_cancelled(desk: Office):
    running = asyncio.ensure_future(desk.execute("await callTool('hang')"))
    await desk.hanging.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    events: list[AuditEvent] = []
    with anyio.fail_after(60):
        while len(events) < 3:
            events += await desk.events()
            await asyncio.sleep(0.01)
    _, call, complete = events
    assert (call.fields["outcome"], complete.fields["status"]) == ("unfinished", "cancelled")


async def test_calls_without_a_script(desk: Office):
    await desk.client.call_tool("codecall:invoke", {"tool": "login", "input": {"name": "ann", "password": SECRET}})
    await desk.client.call_tool("codecall:invoke", {"tool": "system:x", "input": {}})
    call, denied, blocked = await desk.events()
    assert call.name == denied.name == "codecall.invoke.tool_call"
    assert call.run_id.startswith("invoke_")
    assert call.fields["input_sha256"] == canonical_digest(json.dumps({"password": SECRET, "name": "ann"}))
    assert call.fields["result_chars"] == len(f'{{"session":"for ann","token":"{SECRET}"}}')
    assert blocked.name == "codecall.invoke.blocked"
    assert blocked.run_id == denied.run_id != call.run_id


async def test_arguments_and_results_only_when_asked_for_and_then_without_credentials():
    async with office(include_arguments=True, include_results=True) as desk:
        script = f"const a = {LOGIN}; console.log('token: ' + a.token); return [a, codecallContext.key]"
        await desk.execute(script, context={"key": SECRET})
        start, call, complete = await desk.events()
        assert "callTool('login', {name: 'ann', password: 'masked-credential-1'})" in start.fields["script"]
        assert call.fields["input"] == {"name": "ann", "password": "masked-credential-1"}
        assert call.fields["result"] == {"session": "for ann", "token": "masked-credential-1"}
        # What stands under no telling name is known by where it stood under one.
        assert complete.fields["result"] == [
            {"session": "for ann", "token": "masked-credential-1"},
            "masked-credential-1",
        ]
        ((at_ms, line),) = complete.fields["console"]
        assert 0 < at_ms <= complete.fields["duration_ms"]
        assert line == "token: masked-credential-1"
        assert (complete.fields["warnings"], complete.fields["error"]) == ([], None)
        await desk.execute(f"const a = 1;\nthrow new TypeError('token: {SECRET}')")
        _, complete = await desk.events()
        assert (complete.fields["line"], complete.fields["column"]) == (2, 11)
        assert complete.fields["error"]["name"] == "TypeError"
        assert SECRET not in str(complete.fields)


# ------------------------------------------------------------------------------------------------ inputs and values


def test_what_is_recorded_is_bounded():
    wide = redact_value([[1] * 20] * 2_000)
    assert len(json.dumps(wide)) < 20_000
    assert "__truncated" in json.dumps(wide)
    assert redact_value("x" * 5_000 + " y") == f"…[truncated {5_002} characters]"
    assert redact_value("word " * 1_000) == f"{('word ' * 800).rstrip()}…[truncated 1001 characters]"
    deep: object = 1
    for _ in range(50):
        deep = [deep]
    assert "__truncated" in json.dumps(redact_value(deep))
    assert redact_json('"' + "x" * MAX_SORTED + '"') == {"__truncated": {"characters": MAX_SORTED + 2}}
    assert redact_json("[") == {"__unreadable": {"characters": 1}}
    assert len(json.dumps(redact_value({str(n): "x" * 900 for n in range(900)}))) < 60_000


def test_the_value_of_a_secret_option_of_a_command_line_is_masked():
    command = ["login", "--user", "ann", "--password", SECRET, "--verbose", "-x", "12"]
    recorded = redact_value({"argv": command, "again": f"it was {SECRET}"})
    assert recorded == {
        "argv": [*command[:4], "masked-credential-1", *command[5:]],
        "again": "it was masked-credential-1",
    }
    assert redact_value(["--password", "--force"]) == ["--password", "masked-credential-1"]


def test_a_script_is_recorded_whole():
    key = "-----BEGIN PRIVATE KEY-----\n" + "QUJD\n" * 1_000 + "-----END PRIVATE KEY-----"
    script = "const a = 1;\n" * 400 + f"const key = `{key}`;\n" + "x" * 9_000
    assert redact_script(script) == script.replace(key, "[credential]")
    assert redact_script("") == ""


@pytest.mark.parametrize("value", ["hunter2-and-more", "'hunter2-and-more'"])
@pytest.mark.parametrize("between", ["  \n", "\n", " "])
def test_no_cut_of_a_script_separates_a_credential_from_its_name(value: str, between: str):
    for filler in range(3_930, 4_000, 6):
        script = f"{'x = 1;' * (filler // 6)}\nconst password={between}{value};\n{'y = 2; ' * 600}"
        told = redact_script(script)
        assert "hunter2" not in told, filler
        assert told.endswith("y = 2; ")


def test_of_the_uri_of_a_resource_no_query_and_no_credential_is_recorded():
    uri = "crm://ann:pa55word-long@host/people?name=Ann#x"
    made = CallRecord(1, "resource", uri)
    name = str(call_subject(made, full_uri=False)["name"])
    assert "Ann" not in name
    assert name.endswith(f"?sha256={hashlib.sha256(uri.encode()).hexdigest()}")
    for whole in (False, True):
        assert "pa55word" not in str(call_subject(made, full_uri=whole)["name"])
    assert (
        call_subject(CallRecord(1, "resource", "crm://people?name=Ann"), full_uri=True)["name"]
        == "crm://people?name=Ann"
    )
    assert call_subject(CallRecord(1, "resource", "crm://people"), full_uri=False)["name"] == "crm://people"


async def test_digests_are_of_what_is_meant():
    assert canonical_digest('{"a":1,"b":{"c":[1,2],"d":3}}') == canonical_digest('{"b":{"d":3,"c":[1,2]},"a":1}')
    assert canonical_digest('{"a":1}') != canonical_digest('{"a":2}')
    assert canonical_digest('{"a":[1,2]}') != canonical_digest('{"a":[2,1]}')
    # Longer ones are compared as they are written.
    long = [json.dumps({"a": 1, "b": "x" * MAX_SORTED}), json.dumps({"b": "x" * MAX_SORTED, "a": 1})]
    assert canonical_digest(long[0]) != canonical_digest(long[1])
    assert await canonical_digest_async(long[0]) == canonical_digest(long[0])
    for odd in ('"\\ud800"', "[" * 9_999, "1e999", "nothing"):
        assert len(canonical_digest(odd)) == 64


# ----------------------------------------------------------------------------------------------------------- sinks


async def test_without_sinks_the_logger_gets_them_where_anybody_listens(caplog: pytest.LogCaptureFixture):
    audit = Audit(AuditOptions())
    assert not audit.enabled
    with caplog.at_level(logging.INFO, AUDIT_LOGGER):
        assert audit.enabled
        audit.note("codecall.execute.start", "run_1", "ann", lambda: {"name": "a\nb\u2028\x7f\ud800 é"})
        await audit.flush()
    (record,) = [record for record in caplog.records if record.name == AUDIT_LOGGER]
    assert record.levelno == logging.INFO
    assert record.getMessage().isascii()
    assert record.getMessage().isprintable()
    told = json.loads(record.getMessage())
    assert told["name"] == "a\nb\u2028\x7f\ufffd é"
    assert told["event"] == "codecall.execute.start"
    assert record.__dict__["codecall"]["run_id"] == "run_1"
    assert not Audit(AuditOptions(sinks=())).enabled


async def test_a_file_may_be_named_in_place_of_a_sink(tmp_path: Path):
    plain, small = tmp_path / "plain.jsonl", tmp_path / "small.jsonl"
    given = {"sinks": [str(plain), {"file": str(small), "maxBytes": 1, "backups": 1}]}
    audit = Audit(AuditOptions.read(given, where="audit"))
    for number in range(3):
        audit.note("codecall.execute.start", f"run_{number}", "ann", dict)
    await audit.flush()
    assert [json.loads(line)["run_id"] for line in plain.read_text().splitlines()] == ["run_0", "run_1", "run_2"]
    assert "run_2" in small.read_text()
    assert {file.name for file in os.scandir(tmp_path)} == {"plain.jsonl", "small.jsonl", "small.jsonl.1"}
    for wrong, said in (({"path": "a"}, "path: unknown option"), (3, "a path, a table with file")):
        with pytest.raises(OptionsError, match=f"^audit.sinks.0: .*{said}"):
            AuditOptions.read({"sinks": [wrong]}, where="audit")
    with pytest.raises(OptionsError, match="there is no folder"):
        Audit(AuditOptions.read({"sinks": [str(tmp_path / "away" / "a")]}, where="audit"))


async def test_opentelemetry_gets_them_in_the_span_they_happened_in():
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    audit = Audit(AuditOptions(sinks=(OpenTelemetrySink(provider),)))
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("run")
    with use_span(span, end_on_exit=True):
        audit.note(
            "codecall.execute.blocked", "run_1", "ann", lambda: {"what": "call", "code": None, "input": {"a": 1}}
        )
    audit.note("codecall.execute.complete", "run_1", "ann", lambda: {"steps": 3})
    await audit.flush()
    blocked, complete = [item.log_record for item in exporter.get_finished_logs()]
    assert (blocked.event_name, blocked.severity_text) == ("codecall.execute.blocked", "WARN")
    assert dict(blocked.attributes or {}) == {
        "codecall.run_id": "run_1",
        "codecall.caller": "ann",
        "codecall.what": "call",
        "codecall.input": '{"a": 1}',
    }
    assert blocked.trace_id == span.get_span_context().trace_id
    assert blocked.span_id == span.get_span_context().span_id
    assert (complete.severity_text, complete.trace_id) == ("INFO", 0)
    assert (complete.attributes or {})["codecall.steps"] == 3


async def test_opentelemetry_gets_nothing_that_exporters_cannot_encode():
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    audit = Audit(AuditOptions(sinks=(OpenTelemetrySink(provider),)))
    fields = {
        "largest": 2**63 - 1,
        "larger": 2**63,
        "smallest": -(2**63),
        "smaller": -(2**63) - 1,
        "nested": {"a": [2**80, "\ud800"]},
        "script": "return '\ud800\ud83d\ude00'",
        "done": True,
        "share": 0.5,
    }
    audit.note("codecall.execute.complete", "run_1", "ann", lambda: fields)
    await audit.flush()
    (item,) = exporter.get_finished_logs()
    attributes = dict(item.log_record.attributes or {})
    assert {key: attributes[f"codecall.{key}"] for key in fields} == {
        **fields,
        "larger": str(2**63),
        "smaller": str(-(2**63) - 1),
        "nested": '{"a": [1208925819614629174706176, "\ufffd"]}',
        "script": "return '\ufffd\U0001f600'",
    }
    assert attributes["codecall.done"] is True
    for value in attributes.values():  # as protobuf takes them
        if isinstance(value, str):
            assert value.encode()
        elif isinstance(value, int):
            assert value.to_bytes(8, signed=True)


async def test_a_sink_of_the_logger_asks_before_anything_is_made(caplog: pytest.LogCaptureFixture):
    made: list[None] = []
    audit = Audit(AuditOptions(sinks=(LoggingSink("codecall.elsewhere"),)))
    assert not audit.enabled
    with caplog.at_level(logging.INFO, "codecall.elsewhere"):
        audit.note("codecall.execute.start", "run_1", "ann", lambda: made.append(None) or {})
        await audit.flush()
    assert [record.name for record in caplog.records] == ["codecall.elsewhere"]
