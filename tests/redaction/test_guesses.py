"""A caller who guesses a secret of the server's environment is not told by any text whether the guess is right."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError

from codecall import CodeCallPlugin
from codecall.sandbox.enclave import Enclave

SECRET, WRONG = "Winter2026!Prod", "Winter2025!Prod"
NAME, WRONG_NAME = "kestrel_harbour_9", "kestrel_harbour_8"


@pytest.fixture
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    monkeypatch.setenv("CRM_SIGNING_SECRET", NAME)


def server() -> FastMCP[Any]:
    mcp = FastMCP[Any]("crm")

    @mcp.tool
    def find(name: str) -> int:
        """Find a user."""
        raise ToolError(f"no user {name}")

    @mcp.tool
    def fail(name: str) -> int:
        """Fail with an exception that shows what it was given."""
        raise ValueError(f"no user {name!r}")

    @mcp.tool
    def count(number: int) -> dict[str, Any]:
        """Count."""
        return {"number": number}

    @mcp.tool
    def leak(name: str) -> int:
        """Show a secret of the server."""
        raise ToolError(f"{name} cannot connect with {SECRET}")

    CodeCallPlugin.init(vm={"preset": "secure"}).install(mcp)
    return mcp


@pytest.mark.parametrize(
    "script",
    [
        "await callTool('find', { name: '%s' })",
        "await callTool('fail', { name: '%s' })",
        "try { await callTool('find', { name: '%s' }) } catch (e) { return { ...e, message: e.message } }",
        "const name = '%s'; try { await callTool('count', { [name]: 1 }) } catch (e) { return [e.message, e.details] }",
        "await callTool('count', { number: '%s' })",
        "await callTool('count', { '%s': 1 })",
        "await callTool('%s', {})",
        "await readResource('crm://%s')",
        "callTool('count', { ['%s']: 1 }); return 1",
        "const kestrel_harbour_X = await callTool('count', { number: 1 }); return { user: kestrel_harbour_X.nubmer }",
        "const r = await callTool('count', { number: 1 }); const kestrel_harbour_X = r; return `${kestrel_harbour_X}`",
        "const kestrel_harbour_X = () => callTool('count', { number: 1 }); kestrel_harbour_X(); return 1",
        "throw new Error('%s')",
        "return (await callTool('count', { number: 1 })).number.kestrel_harbour_X.a",
    ],
)
@pytest.mark.usefixtures("_environment")
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_right_guess_is_answered_as_a_wrong_one(script: str, dry_run: bool) -> None:
    answers: list[str] = []
    async with Client(server()) as client:
        for guess, name in ((SECRET, NAME), (WRONG, WRONG_NAME)):
            text = script.replace("%s", guess).replace("kestrel_harbour_X", name)
            arguments = {"script": text, "dryRun": dry_run}
            result = await client.call_tool("codecall:execute", arguments, raise_on_error=False)
            envelope = dict(result.structured_content or {})
            for field in ("runId", "stats"):
                envelope.pop(field, None)
            text = re.sub(r'"durationMs": [\d.]+', "", json.dumps(envelope))
            answers.append(text.replace(SECRET, WRONG).replace(NAME, WRONG_NAME))
    assert answers[0] == answers[1]
    assert "[credential]" not in answers[0]


@pytest.mark.usefixtures("_environment")
async def test_handlers_of_an_enclave_tell_no_more() -> None:
    def fail(_name: str, arguments: dict[str, Any]) -> object:
        raise ToolError(f"no user {arguments['name']}")

    async with Enclave("secure") as enclave:
        results = [
            await enclave.execute(f"await callTool('find', {{ name: '{guess}' }})", tool_handler=fail)
            for guess in (SECRET, WRONG)
        ]
    assert str(results[0].error).replace(SECRET, WRONG) == str(results[1].error)


@pytest.mark.usefixtures("_environment")
async def test_what_a_tool_leaks_is_removed() -> None:
    async with Client(server()) as client:
        for script in (
            "await callTool('leak', { name: 'a' })",
            "try { await leak({ name: 'a' }) } catch (e) { return e }",
        ):
            result = await client.call_tool("codecall:execute", {"script": script}, raise_on_error=False)
            assert SECRET not in str(result.content)
            assert "cannot connect with [credential]" in str(result.content)
