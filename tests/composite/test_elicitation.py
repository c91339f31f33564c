"""Questions to a person in the middle of a run, in both protocol eras."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from fastmcp.client.elicitation import ElicitResult

from codecall import CodeCallPlugin
from tests.composite.documents import Stubs

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
SCHEMA = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}


def flow(**ask: Any) -> dict[str, Any]:
    """A workflow that works, asks, and works on."""
    asking = {"id": "ask", "type": "elicitation", "message": "Who?", "schema": SCHEMA, "dependsOn": ["before"], **ask}
    shown = "{{.steps.ask.output.action}}{{with .steps.ask.output.content}} {{.who}}{{end}}"
    return {
        "name": "flow",
        "description": "Asks",
        "steps": [
            {"id": "before", "tool": "echo"},
            asking,
            {"id": "after", "tool": "echo", "arguments": {"q": shown}, "dependsOn": ["ask"]},
        ],
    }


async def run(definition: dict[str, Any], mode: str, *answers: ElicitResult[Any]) -> tuple[CallToolResult, Stubs]:
    """Run a definition with a person who gives these answers."""
    stubs, given = Stubs(), list(answers)
    stubs.add("echo", answer=lambda arguments: arguments)

    async def answer(*_: Any) -> ElicitResult[Any]:
        return given.pop(0)

    CodeCallPlugin.init(composite_tools=[definition]).install(stubs.server)
    async with Client(stubs.server, elicitation_handler=answer, mode=mode) as client:  # type: ignore[arg-type]
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert given == []
    return result, stubs


def steps(result: CallToolResult) -> dict[str, str]:
    body = result.structured_content if result.is_error else (result.meta or {})["codecall"]
    assert body is not None
    return body["steps"]


@ERAS
async def test_a_run_goes_on_with_the_answer_and_repeats_nothing(mode: str):
    result, stubs = await run(flow(), mode, ElicitResult(action="accept", content={"who": "Ann"}))
    assert result.structured_content == {"q": "accept Ann"}
    assert stubs.calls == [("echo", {}), ("echo", {"q": "accept Ann"})]


@ERAS
@pytest.mark.parametrize(("action", "code"), [("decline", "ELICITATION_DECLINED"), ("cancel", "ELICITATION_CANCELLED")])
async def test_no_ends_the_run(mode: str, action: Any, code: str):
    result, stubs = await run(flow(), mode, ElicitResult(action=action))
    assert (result.structured_content or {})[
        "code"
    ] == f"ELICITATION_{action.upper()}{'D' if action[-1] == 'e' else 'LED'}"
    assert steps(result) == {"before": "completed", "ask": "failed", "after": "not_run"}
    assert len(stubs.calls) == 1


@ERAS
async def test_no_skips_what_is_left(mode: str):
    result, stubs = await run(flow(onDecline="skip_remaining"), mode, ElicitResult(action="decline"))
    assert steps(result) == {"before": "completed", "ask": "completed", "after": "skipped"}
    assert len(stubs.calls) == 1


@ERAS
async def test_the_run_goes_on_after_no(mode: str):
    result, _ = await run(flow(onCancel="continue"), mode, ElicitResult(action="cancel"))
    assert result.structured_content == {"q": "cancel"}


@ERAS
async def test_an_answer_that_does_not_fit(mode: str):
    result, _ = await run(flow(), mode, ElicitResult(action="accept", content={"whom": "Ann"}))
    assert "who: Field required" in (result.structured_content or {})["message"]


@ERAS
async def test_two_questions_after_each_other(mode: str):
    definition = flow()
    definition["steps"].append({**definition["steps"][1], "id": "again", "dependsOn": ["after"]})
    accept: Any = ElicitResult(action="accept", content={"who": "Ann"})
    result, stubs = await run(definition, mode, accept, accept)
    assert steps(result) == {"before": "completed", "ask": "completed", "after": "completed", "again": "completed"}
    assert len(stubs.calls) == 2


async def test_a_question_beyond_the_rounds_that_clients_allow_is_not_asked():
    ask = {"type": "elicitation", "message": "Who?", "schema": SCHEMA}
    steps = [{"id": f"s{n}", **ask, **({"dependsOn": [f"s{n - 1}"]} if n else {})} for n in range(11)]
    result, _ = await run(
        {"name": "flow", "description": "Asks", "steps": steps},
        "2026-07-28",
        *[ElicitResult(action="accept", content={"who": "Ann"})] * 10,
    )
    error = result.structured_content or {}
    assert error["code"] == "INPUT_REQUIRED"
    assert "question of step 's10', and one request asks 10 times at most" in error["message"]
