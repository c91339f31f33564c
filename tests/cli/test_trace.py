"""`codecall trace`: runs of a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codecall import JsonLinesSink
from codecall.cli import exit_codes as exits
from codecall.cli.gateway import open_gateway
from codecall.gateway.config.options import GatewayOptions, StdioServer
from tests.cli.conftest import LISTED, CommandLine


@pytest.fixture
async def records(tmp_path: Path) -> Path:
    """The record of two runs."""
    path = tmp_path / "audit.jsonl"
    what = tmp_path / "shop.json"
    what.write_text(json.dumps({"tools": [{"name": "list", "inputSchema": {"type": "object"}}]}))
    server = StdioServer(command=__import__("sys").executable, args=(str(LISTED), str(what)))
    options = GatewayOptions(
        servers={"shop": server}, cache_dir=False, codecall={"audit": {"sinks": [JsonLinesSink(path)]}}
    )
    async with open_gateway(options) as gateway:
        await gateway.call("execute", {"script": "return await shop.list({})"})
        await gateway.call("execute", {"script": "await shop.list({}); throw new Error('no')"})
    return path


def test_runs_of_a_record(cli: CommandLine, records: Path):
    document = cli("trace", str(records), "--json").json
    first, second = document["runs"]
    assert (first["status"], second["status"], second["error"]["code"]) == ("ok", "runtime_error", "EXECUTION_ERROR")
    assert [call["name"] for call in first["timeline"]] == ["shop_list"]
    rows = cli("trace", str(records)).rows
    assert [(row[1], row[2], row[4]) for row in rows] == [
        (first["runId"], "ok", "1"),
        (second["runId"], "runtime_error EXECUTION_ERROR", "1"),
    ]
    drawn = cli("trace", str(records), "--run", second["runId"], terminal=True).out
    assert "shop_list" in drawn
    page = cli("trace", str(records), "--run", first["runId"], "-o", "run.html")
    assert (page.code, page.out) == (exits.OK, "")
    assert first["runId"] in (cli.folder / "run.html").read_text()
    lost = cli("trace", str(records), "--run", "nosuch", "--json")
    assert (lost.code, lost.json["error"]["code"]) == (exits.FAILED, "NOT_FOUND")
    assert cli("trace", "nosuch.jsonl", "--json").json["error"]["code"] == "CANNOT_READ"
    with records.open("a") as file:
        file.write('{"torn\n')
    assert "line 7 is no event" in cli("trace", str(records)).err


def test_a_call_of_invoke_is_listed_and_not_promoted(cli: CommandLine, records: Path):
    lines = records.read_text().splitlines()
    call = next(json.loads(line) for line in lines if "tool_call" in line)
    invoked = {**call, "event": "codecall.invoke.tool_call", "run_id": "invoke_4oGi8Q2Z5kW1mBzXtq0cRw"}
    records.write_text("\n".join([*lines, json.dumps(invoked)]) + "\n")
    listed = cli("trace", str(records))
    assert [row[1] for row in listed.rows][2:] == [invoked["run_id"]]
    assert listed.err == ""
    refused = cli("promote", "invoke_4oGi", "--records", str(records), "--name", "x")
    assert "is a call of codecall:invoke, which has no script" in refused.err
    assert "promote that run: its answer has the runId" in refused.err
