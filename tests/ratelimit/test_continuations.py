"""Answers of a person, which a client sends as further requests on connections of 2026-07-28: no rate rule counts them
again, and no other request passes as one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tests import asgi_server
from key_value.aio.stores.memory import MemoryStore
from mcp import MCPError
from mcp.server.request_state import RequestStateSecurity

from codecall import CodeCallPlugin, RateLimitPlugin
from tests.approvals.conftest import ONCE, Office, Person, Raw, run

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
ERAS = ("legacy", MODERN)
THREE = "const done = []; for (const to of ['a', 'b', 'c']) done.push(await send({to})); return done;"
ONE = {"script": "await read({number: 7}); return send({to: 'ann'})"}
KEY = "a key that all instances have, of 32 characters and more"
ASKS = """
name: confirm
description: Send once a person agrees.
parameters: {type: object, properties: {to: {type: string}}, required: [to]}
steps:
  - {id: first, tool: send, arguments: {to: first}}
  - id: question
    type: elicitation
    message: 'Go on?'
    schema: {type: object, properties: {to: {type: string}}, required: [to]}
    dependsOn: [first]
  - {id: last, tool: send, arguments: {to: '{{.steps.question.output.content.to}}'}, dependsOn: [question]}
"""


def limited(*rules: dict[str, Any], **options: Any) -> Office:
    """An office with these rules, where a person is asked for every call that writes."""
    office = Office(**options)
    RateLimitPlugin.init(rules=rules).install(office.server)
    return office


@pytest.mark.parametrize("mode", ERAS)
async def test_a_script_that_asks_counts_once(mode: str):
    office = limited({"tool": "codecall:execute", "rate": ["1/minute", "1/hour"]})
    person = Person(ONCE)
    async with office.client(person, mode=mode) as client:
        answer = await run(client, THREE)
        assert answer["result"] == ["sent to a", "sent to b", "sent to c"]
        assert len(person.questions) == 3
        refused = (await run(client, THREE))["error"]
        assert refused["code"] == "RATE_LIMIT"
        assert "requestState" not in refused["hint"]
    assert office.done == ["send a", "send b", "send c"]


@pytest.mark.parametrize("namespace", ["", "office"])
@pytest.mark.parametrize("mode", ERAS)
async def test_a_composite_tool_that_asks_counts_once(tmp_path: Path, mode: str, namespace: str):
    (tmp_path / "confirm.yaml").write_text(ASKS, encoding="utf-8")
    sent: list[str] = []
    server = FastMCP[Any]("office")

    @server.tool
    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return to

    CodeCallPlugin.init(composite_tools=[str(tmp_path)], pool={"min_workers": 0}).install(server)
    served = server
    if namespace:
        served = FastMCP[Any]("front")
        served.mount(server, namespace=namespace)
    name = f"{namespace}_confirm" if namespace else "confirm"
    RateLimitPlugin.init(rules=[{"tool": name, "rate": "1/minute"}]).install(served)

    async def answer(*_: Any) -> ElicitResult[dict[str, str]]:
        return ElicitResult(action="accept", content={"to": "last"})

    async with Client(served, mode=mode, elicitation_handler=answer) as client:
        await client.call_tool(name, {"to": "ann"})
        assert sent == ["first", "last"]
        refused = await client.call_tool(name, {"to": "ann"}, raise_on_error=False)
        assert "RATE_LIMIT" in str(refused.content)
    assert sent == ["first", "last"]


async def test_a_state_that_was_used_makes_a_new_call():
    office = limited({"tool": "codecall:execute", "rate": "2/minute"})
    async with office.client(Person(ONCE), mode=MODERN) as client:
        caller = Raw(client)
        asked = await caller.ask(ONE)
        assert (await caller.go_on(asked, ONE, ONCE))["result"] == "sent to ann"
        assert "no such call of yours" in await caller.go_on(asked, ONE, ONCE)
        assert (await caller.go_on(asked, ONE, ONCE))["error"]["code"] == "RATE_LIMIT"
        assert (await caller.ask(ONE))["error"]["code"] == "RATE_LIMIT"


async def test_no_other_request_passes_with_a_state():
    """FastMCP refuses those before any rule sees them, and they run nothing."""
    office = limited({"tool": "codecall:execute", "rate": "1/minute"}, mode="additive")
    async with office.client(Person(ONCE), mode=MODERN) as client:
        asked = await Raw(client).ask(ONE)
        for tool, arguments, state in (
            ("codecall:execute", ONE, "forged"),
            ("codecall:execute", ONE | {"dryRun": True}, asked.request_state),
            ("read", {"number": 1}, asked.request_state),
            ("codecall:execute", ONE, f"{asked.request_state}A"),
        ):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await Raw(client, tool).ask(arguments, request_state=state)
        assert office.done == ["read 7"]
        assert (await Raw(client).go_on(asked, ONE, ONCE))["result"] == "sent to ann"


async def test_the_state_of_another_caller_makes_a_new_call():
    """FastMCP lets it through where the server does not bind states to the principal."""
    tokens = {name: {"client_id": name, "sub": name, "scopes": []} for name in ("ann", "ben")}
    security = RequestStateSecurity(keys=[KEY], bind_principal=None)
    server = FastMCP[Any]("office", auth=StaticTokenVerifier(tokens=tokens), request_state_security=security)

    @server.tool
    def send(to: str) -> str:
        """Send a letter."""
        return f"sent to {to}"

    CodeCallPlugin.init(approvals="writes", pool={"min_workers": 0}).install(server)
    RateLimitPlugin.init(rules=[{"tool": "codecall:execute", "rate": "1/minute"}]).install(server)
    script = {"script": "return send({to: 'ann'})"}
    async with asgi_server(server) as served:
        options: dict[str, Any] = {"mode": MODERN, "elicitation_handler": Person(ONCE).answer}
        async with served.client(auth="ann", **options) as anns, served.client(auth="ben", **options) as bens:
            asked = await Raw(anns).ask(script)
            assert "no such call of yours" in await Raw(bens).go_on(asked, script, ONCE)
            assert (await Raw(bens).go_on(asked, script, ONCE))["error"]["code"] == "RATE_LIMIT"
            assert (await Raw(anns).go_on(asked, script, ONCE))["result"] == "sent to ann"


async def test_an_answer_that_reaches_another_instance_counts_for_none():
    store = MemoryStore()
    one, two = (
        limited({"tool": "codecall:execute", "rate": "1/minute"}, resume={"store": store}, state_key=KEY)
        for _ in range(2)
    )
    async with one.client(Person(ONCE), mode=MODERN) as first, two.client(Person(ONCE), mode=MODERN) as second:
        asked = await Raw(first).ask(ONE)
        assert (await Raw(second).go_on(asked, ONE, ONCE))["result"] == "sent to ann"
        # Only now a request counts there: the state was used.
        assert "no such call of yours" in await Raw(second).go_on(asked, ONE, ONCE)
        assert (await Raw(second).ask(ONE))["error"]["code"] == "RATE_LIMIT"
    assert (one.done, two.done) == (["read 7"], ["send ann"])


@pytest.mark.parametrize("resume", [None, {"store": MemoryStore()}], ids=["no record", "a record"])
async def test_a_limit_of_calls_at_once_holds_for_answers(resume: Any):
    rules = {"tool": "codecall:execute", "concurrent": 1}, {"tool": "codecall:execute", "rate": "2/minute"}
    office = limited(*rules, resume=resume)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Read slowly."""
        entered.set()
        await leave.wait()
        return "done"

    office.server.tool(slow, annotations={"readOnlyHint": True})
    async with office.client(Person(ONCE), mode=MODERN) as client:
        caller = Raw(client)
        asked = await caller.ask(ONE)
        other = asyncio.create_task(caller.ask({"script": "return slow()"}))
        await entered.wait()
        refused = await caller.go_on(asked, ONE, ONCE)
        leave.set()
        assert (await other)["result"] == "done"
        assert refused["error"]["code"] == "RATE_LIMIT"
        assert "still waits, and the calls that it has made stay made" in refused["error"]["message"]
        assert "the same requestState" in refused["error"]["hint"]
        assert ("resumeFrom" in refused["error"]["hint"]) is (resume is not None)
        assert ("runId" in refused) is (resume is not None)
        assert (await caller.go_on(asked, ONE, ONCE))["result"] == "sent to ann"
    assert office.done == ["read 7", "send ann"]
