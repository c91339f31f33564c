"""Questions of servers behind the gateway: of both eras of MCP to clients of both, to clients and in their scripts."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import ToolError
from mcp import MCPError, UrlElicitationRequiredError
from mcp_types import URL_ELICITATION_REQUIRED, ElicitRequestURLParams

from codecall import CodeCallPlugin
from codecall.gateway.config.options import HttpServer, StdioServer
from codecall.gateway.upstream.server import Backend
from codecall.redaction import questions
from codecall.redaction.questions import MAX_SHOWN_CHARS
from tests.approvals.conftest import run
from tests.gateway.backends import plain_server, result_text, serve_components, serve_over_http

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
HELLO = [{"role": "user", "content": {"type": "text", "text": "Hi"}}]
RAW: dict[str, dict[str, Any]] = {
    "person": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}},
    "model": {"method": "sampling/createMessage", "params": {"messages": HELLO, "maxTokens": 9}},
    "roots": {"method": "roots/list"},
}
LONG_FORM = {"type": "object", "properties": {"name": {"type": "string", "title": "\u2800" * MAX_SHOWN_CHARS}}}
CLIENTS = pytest.mark.parametrize("client_era", ["legacy", "2026-07-28"])
SERVERS = pytest.mark.parametrize("server_era", ["old", "new"])
WHAT = pytest.mark.parametrize(("what", "said"), [("person", "Ann"), ("model", "Hi there"), ("roots", "file:///srv")])


@dataclass
class Person:
    """What a person is asked for."""

    name: str


class Home:
    """A client that answers everything, and what it was asked."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.urls: list[str] = []

    async def elicit(self, message: str, _type: Any, asked: Any, _context: Any) -> Any:
        """FastMCP's `elicitation_handler`."""
        self.questions.append(message)
        if isinstance(asked, ElicitRequestURLParams):
            self.urls.append(asked.url)
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(self, messages: Any, *_: Any) -> str:
        """FastMCP's `sampling_handler`."""
        self.questions.append(messages[0].content.text)
        return f"{messages[0].content.text} there"

    def client(self, server: FastMCP[Any], mode: str, **options: Any) -> Client[Any]:
        """A client of `server`."""
        offers: dict[str, Any] = {"elicitation_handler": self.elicit, "sampling_handler": self.sample}
        return Client(server, **{"mode": mode, "roots": ["file:///srv"], **offers, **options})


Gateway = Callable[..., AbstractAsyncContextManager[FastMCP[Any]]]


@pytest.fixture
def gateway(asking_server: Callable[..., StdioServer]) -> Gateway:
    """Makes a server with the tools of one behind it, which speaks the old or the new era."""

    @asynccontextmanager
    async def make(server_era: str, *, sampling: bool = True, scripts: bool = False) -> AsyncGenerator[FastMCP[Any]]:
        behind = (plain_server if server_era == "old" else asking_server)(sampling=sampling)
        async with serve_components(Backend("door", behind)) as server, Client(server, mode="auto") as first:
            if server_era == "new":
                await first.call_tool("pid", {})  # the first client decides which era is spoken
            if scripts:
                CodeCallPlugin.init(approvals=[], pool={"min_workers": 0}).install(server)
            yield server

    return make


def call(server_era: str, what: str) -> tuple[str, dict[str, Any]]:
    """The tool that asks, and its input."""
    if server_era == "old":
        return "ask", RAW[what]
    return ("guard", {}) if what == "person" else ("wonder", {"what": what})


@CLIENTS
@SERVERS
@WHAT
async def test_a_script_goes_on_where_a_tool_has_asked(
    gateway: Gateway, client_era: str, server_era: str, what: str, said: str
) -> None:
    home, (tool, arguments) = Home(), call(server_era, what)
    script = f"return await callTool({json.dumps(tool)}, {json.dumps(arguments)})"
    async with gateway(server_era, scripts=True) as server, home.client(server, client_era) as client:
        answer = await run(client, script)
    assert answer["status"] == "ok", answer
    assert said in json.dumps(answer["result"])
    assert len(home.questions) == (what != "roots")
    if what == "person":
        assert "[door] Who?" in home.questions[0] or f"Tool: {tool}\n" in home.questions[0]


@CLIENTS
@SERVERS
@WHAT
async def test_a_tool_that_a_client_calls_itself(
    gateway: Gateway, client_era: str, server_era: str, what: str, said: str
) -> None:
    home, (tool, arguments) = Home(), call(server_era, what)
    async with gateway(server_era) as server, home.client(server, client_era) as client:
        text = result_text(await client.call_tool(tool, arguments))
    if (server_era, client_era) == ("old", "2026-07-28"):
        assert "in which only a server of that version can ask" in text
    else:
        assert said in text


@CLIENTS
@pytest.mark.parametrize("call", ["callTool('asks', {})", "callTool('asks_below', {})", "readResource('ask://me')"])
async def test_a_server_that_cannot_ask_under_way_is_told_of_by_the_option_that_helps(
    gateway: Gateway, client_era: str, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home()
    async with gateway("new", scripts=True) as server, home.client(server, client_era) as client:
        error = (await run(client, f"return await {call}"))["error"]
        with pytest.raises(ToolError, match=r"INPUT_REQUIRED: Server 'door' asks .*`handshake = true` in the options"):
            await client.call_tool("asks", {})
    assert error["code"] == "INPUT_REQUIRED"
    assert "Server 'door' asks the client while a call is under way" in error["message"]
    assert "Whoever runs the gateway can set `handshake = true` in the options of this server" in error["hint"]
    warned = [record.getMessage() for record in caplog.records if record.name.endswith(".door")]
    assert len([text for text in warned if "`handshake = true`" in text]) == 2
    assert home.questions == []


async def test_a_server_behind_a_url_that_cannot_ask_is_not_told_of_by_an_option_it_lacks() -> None:
    behind: FastMCP[Any] = FastMCP("behind")

    @behind.tool
    async def asks(ctx: Context) -> str:
        return str(await ctx.elicit("Who?", Person))

    @behind.tool
    async def fails() -> str:
        raise ToolError("a text about server-initiated requests")

    async with serve_over_http(behind) as url, serve_components(Backend("door", HttpServer(url=url))) as server:
        async with Home().client(server, "2026-07-28") as client:
            with pytest.raises(ToolError, match=r"INPUT_REQUIRED: .* It can ask clients of an earlier version of MCP"):
                await client.call_tool("asks", {})
            with pytest.raises(ToolError, match=r"^a text about server-initiated requests$"):
                await client.call_tool("fails", {})
        async with Home().client(server, "legacy") as client:
            assert "Ann" in result_text(await client.call_tool("asks", {}))


@pytest.mark.parametrize("scripts", [False, True])
async def test_a_server_that_asks_again_and_again_is_refused_and_speaks_for_itself_alone(
    asking_server: Callable[..., StdioServer], scripts: bool
) -> None:
    home = Home()
    backend = Backend("door", asking_server(handshake=True))
    async with serve_components(backend) as server:
        if scripts:
            CodeCallPlugin.init(approvals=[], pool={"min_workers": 0}).install(server)
        async with home.client(server, "legacy") as client:
            if scripts:
                several = "return [await callTool('pester', {times: 15}), await callTool('pester', {times: 15})].join()"
                text = (await run(client, several))["result"]
            else:
                text = result_text(await client.call_tool("pester", {"times": 30}))
    assert len(home.questions) == 20
    assert text.count("Refused by the gateway") == 10
    for question in home.questions:
        assert [line for line in question.split("\n") if line.startswith("[")] == ([] if scripts else ["[door] Who?"])
        assert "\\u202e" in question


@CLIENTS
@pytest.mark.parametrize("scripts", [False, True])
async def test_a_question_in_an_answer_has_the_name_of_its_server(
    gateway: Gateway, client_era: str, scripts: bool
) -> None:
    home = Home()
    async with gateway("new", scripts=scripts) as server, home.client(server, client_era) as client:
        if scripts:
            await run(client, "return await callTool('guard', {})")
        else:
            await client.call_tool("guard", {})
    text = "A tool asks a question.\n\nTool: guard\nServer: front\n\nQuestion:\n\n    Who?"
    assert home.questions == [text if scripts else "[door] Who?"]


@CLIENTS
@SERVERS
@pytest.mark.parametrize("scripts", [False, True])
async def test_no_server_uses_a_clients_model_unless_its_options_say_so(
    gateway: Gateway, client_era: str, server_era: str, scripts: bool
) -> None:
    home, (tool, arguments) = Home(), call(server_era, "model")
    async with (
        gateway(server_era, sampling=False, scripts=scripts) as server,
        home.client(server, client_era) as client,
    ):
        try:
            if scripts:
                text = json.dumps(await run(client, f"return callTool({json.dumps(tool)}, {json.dumps(arguments)})"))
            else:
                text = result_text(await client.call_tool(tool, arguments))
        except (ToolError, MCPError) as refused:
            text = str(refused)
    assert "server 'door' may not use the client's model; `sampling = true` in its options allows it" in text
    assert home.questions == []


@CLIENTS
@SERVERS
@WHAT
async def test_a_client_that_offers_nothing_is_not_asked(
    gateway: Gateway, client_era: str, server_era: str, what: str, said: str
) -> None:
    tool, arguments = call(server_era, what)
    script = f"return await callTool({json.dumps(tool)}, {json.dumps(arguments)})"
    async with gateway(server_era, scripts=True) as server, Client(server, mode=client_era) as client:
        answer = await run(client, script)
    assert said not in json.dumps(answer)
    assert "annot be asked" in json.dumps(answer) or answer["error"]["code"] == "INPUT_REQUIRED"


GOOD_URLS = ["https://bank.example/sign-in?of=a%20b#c", "http://127.0.0.1:8080/", "http://[::1]/", "http://localhost/x"]
GOOD_URLS += ["https://a-b.xn--bnk-5cd.example.:443/", "https://8.8.8.8/", "https://1.2.3.example/"]
BAD_URLS = [
    "javascript:alert(1)//\u202e\u200b https://bank.example\nfoo",
    "http://bank.example/",
    "file:///etc/passwd",
    "https:///sign-in",
    "https://[bank.example/",
    "https://bank.example@evil.example/",
    "https://evil.example\\@bank.example/",
    "https://bank.example/\u200b",
    "https://b\u0430nk.example/",
    "https://bank.example/\u05d0",
    "https://bank.example/ ",
    "\thttps://bank.example/",
    "https://bank.example%40evil.example/",
    "https://bank.example%2F.evil.example/",
    "https://bank.example&x.evil.example/",
    "https://bank.example;x.evil.example/",
    "https://evil.example:abc/",
    "https://evil.example:99999/",
    "https://*.example/",
    "https://%00/",
    "https://.../",
    "https://-/",
    "https://[::1]evil.example/",
    "https://[fe80::1%25bank.example]/",
    "https://0177.0.0.1/",
    "https://2130706433/",
    "https://bank.0x7f/",
    "",
]


def visit(url: str, message: str = "Sign in") -> dict[str, Any]:
    """What a server says that wants a person to visit a URL."""
    return {"mode": "url", "message": message, "url": url, "elicitationId": "1"}


@CLIENTS
@SERVERS
@pytest.mark.parametrize("scripts", [False, True])
async def test_a_person_is_sent_only_to_urls_that_they_see_as_what_they_are(
    gateway: Gateway, client_era: str, server_era: str, scripts: bool
) -> None:
    home = Home()
    async with gateway(server_era, scripts=scripts) as server, home.client(server, client_era) as client:
        for url in BAD_URLS + GOOD_URLS:
            tool, arguments = (
                ("ask", {"method": "elicitation/create", "params": visit(url)})
                if server_era == "old"
                else ("question", {"params": visit(url)})
            )
            try:
                if scripts:
                    script = f"return callTool({json.dumps(tool)}, {json.dumps(arguments)})"
                    text = json.dumps(await run(client, script))
                else:
                    text = result_text(await client.call_tool(tool, arguments))
            except (ToolError, MCPError) as refused:
                text = str(refused)
            # No URL goes to whom a script asks, and none to a client that the server cannot ask.
            if scripts or (server_era, client_era) == ("old", "2026-07-28"):
                assert "accept" not in text
            else:
                assert ("Refused by the gateway: its URL" in text) is (url in BAD_URLS), text
    passed = [] if scripts or (server_era, client_era) == ("old", "2026-07-28") else GOOD_URLS
    assert home.urls == passed
    assert home.questions == ["[door] Sign in"] * len(passed)


async def test_an_error_that_sends_a_person_to_urls_has_them_checked(gateway: Gateway) -> None:
    home = Home()

    async def refusal(**data: Any) -> MCPError:
        error = json.dumps({"code": URL_ELICITATION_REQUIRED, "message": "Sign in first", "data": data})
        with pytest.raises(MCPError) as refused:
            await client.get_prompt("greet", {"who": error})
        return refused.value

    async with gateway("old") as server, home.client(server, "legacy") as client:
        passed = UrlElicitationRequiredError.from_error((await refusal(elicitations=list(map(visit, GOOD_URLS)))).error)
        assert [(asked.message, asked.url) for asked in passed.elicitations] == [
            ("[door] Sign in", url) for url in GOOD_URLS
        ]
        for url in BAD_URLS:
            assert str(await refusal(elicitations=[visit(url)])).startswith("Refused by the gateway: its URL")
        assert "more than 20 URLs" in str(await refusal(elicitations=[visit(GOOD_URLS[0])] * 21))
        for odd in ([1], [{}], 1, {"a": 1}, None):
            assert "cannot be read" in str(await refusal(elicitations=odd))


@CLIENTS
@SERVERS
@pytest.mark.parametrize(
    "params",
    [
        {"message": "\n" * MAX_SHOWN_CHARS, "requestedSchema": FORM},
        {"message": "Who?", "requestedSchema": LONG_FORM},
        visit("https://bank.example/", "\n" * MAX_SHOWN_CHARS),
        visit(f"https://bank.example/{'a' * MAX_SHOWN_CHARS}"),
    ],
    ids=["message", "form", "message with a URL", "URL"],
)
async def test_a_question_is_no_longer_than_a_person_can_judge(
    gateway: Gateway, client_era: str, server_era: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shown = Home(), list[int]()

    def visible(text: str) -> str:
        shown.append(len(text))
        return text

    monkeypatch.setattr(questions, "visible", visible)
    tool, arguments = ("ask", {"method": "elicitation/create", "params": params})
    if server_era == "new":
        tool, arguments = "question", {"params": params}
    async with gateway(server_era) as server, home.client(server, client_era) as client:
        try:
            text = result_text(await client.call_tool(tool, arguments))
        except (ToolError, MCPError) as refused:
            text = str(refused)
    if (server_era, client_era) == ("old", "2026-07-28"):
        assert "the client cannot be asked" in text
    else:
        assert "characters, and a person is shown at most 16,384" in text
    assert home.questions == []
    assert sum(shown) <= MAX_SHOWN_CHARS
