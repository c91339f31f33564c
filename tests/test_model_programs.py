"""Programs as language models write them, over a real server: they run at the first try, or the hint of their failure,
followed to the letter, makes them run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin
from examples.crm.server import create_crm

FOLDER = Path(__file__).parent / "model_programs"


def programs(file: str) -> list[Any]:
    """The programs of a file as parameters, named by their titles."""
    listed = tomllib.loads((FOLDER / file).read_text(encoding="utf-8"))["program"]
    return [pytest.param(program, id=program["title"]) for program in listed]


RUNS, FAILING = programs("runs.toml"), programs("failing.toml")


@pytest.fixture(scope="module")
def crm(tmp_path_factory: pytest.TempPathFactory) -> FastMCP:
    server = create_crm(tmp_path_factory.mktemp("crm") / "crm.sqlite", forecast_seconds=0)
    return CodeCallPlugin.init(vm={"preset": "secure"}).install(server)


@pytest.fixture(scope="module")
async def client(crm: FastMCP) -> AsyncIterator[Client[Any]]:
    async with Client(crm) as client:
        yield client


async def execute(client: Client[Any], script: str) -> dict[str, Any]:
    return (await client.call_tool("codecall:execute", {"script": script})).structured_content or {}


def test_there_are_sixty() -> None:
    assert len(RUNS) + len(FAILING) >= 60
    assert len({program.id for program in (*RUNS, *FAILING)}) == len(RUNS) + len(FAILING)


@pytest.mark.parametrize("program", RUNS)
async def test_runs_at_the_first_try(program: dict[str, Any], client: Client[Any]) -> None:
    envelope = await execute(client, program["script"])
    assert envelope["status"] == "ok", envelope
    assert envelope["result"] == json.loads(program["result"])
    assert "warnings" not in envelope


@pytest.mark.parametrize("program", FAILING)
async def test_the_hint_mends_it(program: dict[str, Any], client: Client[Any]) -> None:
    envelope = await execute(client, program["script"])
    codes = program["code"] if isinstance(program["code"], list) else [program["code"]]
    assert envelope["status"] != "ok"
    error = envelope["error"]
    assert error["code"] in codes, envelope
    text = f"{error['message']} {error['hint']}"
    assert all(word in text for word in program["hint"]), text
    repaired = await execute(client, program["repaired"])
    assert repaired["status"] == "ok", repaired
    assert repaired["result"] not in (None, [], {}, "")
