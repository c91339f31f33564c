"""The benchmarks run, compute the right answers on every side, and the event loop stays responsive."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fastmcp import Client

from benchmarks import declarations, loop_lag, vs_codemode
from benchmarks.jobs import jobs
from tests.loaded_python import LoadedPython

REPOSITORY = Path(__file__).parent.parent


def run(python: LoadedPython, *words: str, seconds: int = 120) -> str:
    """What a benchmark prints, which must succeed."""
    command = [python.executable, *words]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=seconds, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


async def test_every_job_has_the_same_right_answer_on_every_side():
    work = jobs()
    for side in vs_codemode.sides(10, work):
        async with Client(side.server) as client:
            answers = [(job.name, await side.run(client, job, number)) for number, job in enumerate(work)]
            assert answers == [(job.name, job.answer) for job in work]


def test_what_was_measured_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    arguments = ["--rounds", "1", "--tools", "10", "--only", "constant", "--small", "0", "--json"]
    monkeypatch.setattr(sys, "argv", ["vs_codemode.py", *arguments])
    assert vs_codemode.main() == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["conditions"]["tools"], result["conditions"]["rounds"]) == (10, 1)
    (row,) = result["jobs"]
    assert min(row["codecall"], row["codemode"], row["direct"], row["inside"], row["server"]) > 0


def test_steps_of_a_composite_tool_are_measured(loaded_python: LoadedPython):
    measured = json.loads(run(loaded_python, "benchmarks/composite.py", "--rounds", "1", "--json"))
    assert set(measured) == {"step_ms", "direct_ms", "added_ms"}


def test_starlark_is_measured_beside_javascript(loaded_python: LoadedPython):
    measured = json.loads(run(loaded_python, "benchmarks/starlark.py", "--rounds", "1", "--tools", "2", "--json"))
    assert {name: row["target"] for name, row in measured.items() if row["target"]} == {
        "constant": 2.0,
        "100 calls with parallel": 1.3,
    }
    assert all(min(row["javascript_ms"], row["starlark_ms"]) > 0 for row in measured.values())


def test_approvals_and_runs_that_wait_are_measured(loaded_python: LoadedPython):
    words = ["--rounds", "1", "--waiting", "2", "--seconds", "0.1", "--rest", "0", "--json"]
    measured = json.loads(run(loaded_python, "benchmarks/approvals.py", *words))
    assert (measured["waiting"], measured["workers"]) == (2, 2)
    assert measured["released"] == 2
    assert min(measured["off_ms"], measured["on_ms"]) > 0


def test_stages_are_taken_apart(loaded_python: LoadedPython):
    stages = json.loads(run(loaded_python, "benchmarks/stages.py", "--rounds", "1", "--tools", "2", "--json"))
    assert set(stages) == {
        "constant",
        "1 call",
        "10 calls in turn",
        "100 calls in turn",
        "a new script of 2 KB, 3 calls",
    }
    assert all(min(times.values()) >= 0 and times["execute"] > 0 for times in stages.values())


def test_functions_of_requests_are_counted(loaded_python: LoadedPython):
    words = ["--functions", "--rounds", "1", "--tools", "2", "--json"]
    counts = json.loads(run(loaded_python, "benchmarks/stages.py", *words))
    # The other server of the process may keep house during a direct call.
    assert counts["direct call"]["codecall"] < 20 < counts["constant"]["codecall"] < counts["1 call"]["codecall"]
    assert all(sum(each.values()) == 2 * each["all"] for each in counts.values())


async def test_the_lag_of_the_event_loop_is_measured(loaded_python: LoadedPython, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", loaded_python.executable)
    work = {job.name: job for job in loop_lag.jobs() if job.call is not None}
    worst: dict[str, float] = {}
    async with Client(loop_lag.transport(50, codecall=True)) as client:
        for job in sorted(work.values(), key=lambda job: job.when):
            worst[job.name] = (await loop_lag.lag_of(client, job.call, job.status))["worst"]
    assert len(worst) == 5
    assert min(worst.values()) > 0


@pytest.mark.parametrize("arguments", [["--tools", "1"], ["--rounds", "0"], ["--only", "no such job"]])
def test_wrong_arguments_are_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["vs_codemode.py", *arguments])
    with pytest.raises(SystemExit) as refused:
        vs_codemode.main()
    assert refused.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_servers_can_be_put_under_load(loaded_python: LoadedPython):
    printed = run(loaded_python, "benchmarks/load.py", "--quick", "--json")
    (result,) = json.loads(printed)["results"]
    for side in ("codecall", "codemode"):
        measured = result[side]
        assert (measured["wrong"], measured["plain"]["wrong"]) == ({}, {})
        assert measured["done"] >= result["clients"]
        assert min(measured["memoryMb"]["server"], measured["plain"]["perSecond"]) > 0


def test_fresh_processes_can_be_measured(loaded_python: LoadedPython):
    printed = run(loaded_python, "benchmarks/once_only.py", "--rounds", "2", "--scripts", "10", seconds=60)
    assert printed.count("goal") == 3


def test_a_gateway_can_be_timed(loaded_python: LoadedPython):
    few = ["--servers", "2", "--tools", "3", "--starts", "1", "--calls", "20", "--settle", "0", "--json"]
    printed = run(loaded_python, "benchmarks/gateway.py", *few)
    result = json.loads(printed)
    assert result["tools"] == 6
    assert [len(times) for times in result["calls"].values()] == [20, 20, 20, 1]
    assert result["starts"].keys() == result["first_calls"].keys()
    assert len(result["starts"]) == 4


async def test_declarations_are_compiled_and_set_beside_the_schemas(tmp_path: Path):
    schema = {"type": "object", "properties": {"limit": {"type": "integer"}}}
    tool = {
        "server": "shop",
        "name": "list",
        "description": "List all",
        "inputSchema": schema,
        "source": "package:shop",
    }
    lines = [json.dumps(each) for each in (tool, {**tool, "server": "mail", "outputSchema": schema})]
    (tmp_path / "tools.jsonl").write_text("\n".join(lines), encoding="utf-8")
    tools = declarations.load(tmp_path)
    assert [each["name"] for each in tools] == ["list", "mail:list"]
    compiled = declarations.compiled(tools)
    assert (compiled["declarations"], compiled["errors"], compiled["shortened"]) == (2, 0, 0)
    found = await declarations.answers(tools)
    assert [each.source for each in found] == ["package", "package"]
    for each in found:
        assert len(each.pairs) == len(declarations.WAYS)
        assert all("inputSchema" in before and "declare function" in after for before, after in each.pairs)
