"""`tools_to_auto_execute`: what code may call without a person is read from its tree, and held to while it runs."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP

from codecall import ApprovalRequest, CodeCallPlugin, Decision, tool_metadata
from codecall.catalog.components import component_view
from codecall.errors import AccessDeniedError, OptionsError, ToolCallError, ToolNotFoundError
from codecall.meta_tools.starlark.auto_execution import CodeBroker
from codecall.meta_tools.starlark.options import ToolFilesOptions, read_tool_files
from codecall.options import SanitizationOptions
from tests.approvals.conftest import ONCE, SAME_IN_SESSION, Person

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
DOCUMENT = next(SEEDS.glob("001_*.txt"), None)
TEXT = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT is not None else ""
of_the_document = pytest.mark.skipif(DOCUMENT is None, reason="../shared/seeds is not beside this checkout")

LIST = {
    "name": "youtube",
    "tools_to_execute": ["*"],
    "tools_to_auto_execute": ["search"],
    "is_code_mode_client": True,
}


class Tube:
    """The server of the document with what was done on it, and one beside it that has no list."""

    def __init__(self, *servers: dict[str, Any], approvals: Any = None) -> None:
        self.done: list[str] = []
        self.server = FastMCP[Any]("gateway")
        self.youtube = youtube = FastMCP[Any]("youtube")
        mail = FastMCP[Any]("mail")

        @youtube.tool
        def search(query: str) -> dict[str, Any]:
            self.done.append(f"search {query}")
            return {"items": [query]}

        @youtube.tool
        def delete_video(id: str) -> str:  # noqa: A002
            self.done.append(f"delete {id}")
            return "gone"

        @mail.tool
        def send(to: str) -> str:
            self.done.append(f"send {to}")
            return "sent"

        self.server.mount(youtube, namespace="youtube")
        self.server.mount(mail, namespace="mail")
        options: dict[str, Any] = {"tool_files": {"servers": servers or [LIST]}, "approvals": approvals}
        self.plugin = CodeCallPlugin.init(**options, pool={"min_workers": 0})
        self.plugin.install(self.server)

    async def run(self, *codes: str, person: Person | None = None, mode: str = "legacy") -> str:
        """The text of the last answer."""
        handler = person.answer if person is not None else None
        text = ""
        async with Client(self.server, mode=mode, elicitation_handler=handler) as client:  # type: ignore[arg-type]
            for code in codes:
                answer = await client.call_tool("executeToolCode", {"code": code}, raise_on_error=False)
                text = answer.content[0].text
        return text

    def change(self, what: str) -> None:
        """What the server of the tools may do while a person looks at code."""
        if what != "another tool":
            self.youtube.local_provider.remove_tool("delete_video")
        match what:
            case "gone":
                return
            case "another tool":
                self.youtube.tool(lambda: self.done.append("wiped"), name="wipe")
                return
            case "moved":
                self.server.tool(self.delete, name="youtube_delete_video")
            case "version":
                self.youtube.tool(self.delete, name="delete_video", version="2")
            case "description":
                self.youtube.tool(self.delete, name="delete_video", description="Delete all videos")
            case _:
                self.youtube.tool(self.delete_all, name="delete_video")

    def delete(self, id: str) -> str:  # noqa: A002
        self.done.append(f"delete {id}")
        return "gone"

    def delete_all(self, id: str, everything: bool = True) -> str:  # noqa: A002
        self.done.append(f"delete {id} {everything}")
        return "gone"


@of_the_document
async def test_the_scripts_of_the_document_with_the_list_of_the_document():
    begin = TEXT.index("- If ANY call is not allowed")
    server, _ = json.JSONDecoder().raw_decode(TEXT[TEXT.index("{", begin) :])
    will, will_not = re.findall(r"^# This code (?i:will) .*?\n(.*?)\n(?=#|Code Ex)", TEXT, re.MULTILINE | re.DOTALL)
    tube = Tube(server)
    assert await tube.run(will) == '{"result":{"items":["AI"]}}'
    refused = await tube.run(will_not)
    assert refused.splitlines() == [
        "# Error: The code was not run: it calls what a person has to allow, and there is nobody to ask",
        "# Hints:",
        "# - A person has to allow: youtube.delete_video",
        "# - Available server keys: youtube, mail",
        "# - Without a person code may call: youtube.search",
    ]
    assert tube.done == ["search AI"]


CALLS = [
    'youtube.search(query="x")\nyoutube.delete_video(id="1")',
    'if False:\n  youtube.delete_video(id="1")',
    'f = youtube.delete_video\nf(id="1")',
    '[f(id="1") for f in [youtube.delete_video]]',
    'def f(g = youtube.delete_video):\n  g(id="1")\nf()',
    'parallel([lambda: youtube.delete_video(id="1")])',
    'call_tool("youtube_delete_video", id="1")',
    'try_call("youtube_delete_video", id="1")',
    'try_call(youtube.delete_video, id="1")',
    'mail.send(to="me")',
    'x = {"y": youtube.delete_video}\nx["y"](id="1")',
    '(youtube.delete_video)(id="1")',
    'call_tool("youtube_" + "delete_video", id="1")',
]
COMPUTED = [
    'getattr(youtube, "delete" + "_video")(id="1")',
    'getattr(youtube, "search")(query="1")',
    'y = youtube\ny.delete_video(id="1")',
    '[youtube][0].delete_video(id="1")',
    '(youtube if True else 1).delete_video(id="1")',
    'f = lambda s: s.delete_video(id="1")\nf(youtube)',
    'name = "youtube_delete_video"\ncall_tool(name, id="1")',
    'try_call(*["youtube_delete_video"], id="1")',
    'f = call_tool\nf("youtube_delete_video", id="1")',
    'n = "delete_video"\ncall_tool("youtube_" + n, id="1")',
    'call_tool("youtube_%s" % "delete_video", id="1")',
    'sorted(["youtube_delete_video"], key=try_call)',
    'call_tool(name="youtube_delete_video", id="1")',
    'f = youtube.search\ntry_call(f, query="1")',
    "dir(youtube)",
]


@pytest.mark.parametrize("code", [*CALLS, *COMPUTED])
async def test_code_that_may_call_anything_else_is_refused_before_it_calls_anything(code: str):
    tube = Tube()
    text = await tube.run(code)
    assert text.startswith("# Error: The code was not run: it calls what a person has to allow")
    assert ("any tool: names are computed" in text) is (code in COMPUTED)
    assert tube.done == []


@pytest.mark.parametrize(
    "code",
    [
        'result = youtube.search(query="x")',
        'f = youtube.search\nresult = f(query="x")',
        'result = call_tool("youtube_search", query="x")',
        'result = try_call(youtube.search, query="x")["value"]',
        'result = parallel([lambda q=q: youtube.search(query=q) for q in ["x"]])[0]',
        'mail = {"send": lambda to: to}\nmail["send"]("x")\nresult = youtube.search(query="x")',
    ],
)
async def test_code_that_calls_what_is_listed_runs(code: str):
    tube = Tube()
    assert await tube.run(code) == '{"result":{"items":["x"]}}'
    assert tube.done == ["search x"]


async def test_a_script_with_an_error_says_so_and_calls_nothing():
    tube = Tube()
    assert "is not defined" in await tube.run('youtube.search(query="x")\nnope()')
    assert "# Error: " in await tube.run('youtube.search(query="x")\nx = (')
    assert tube.done == []


async def test_a_name_that_no_tool_has_takes_the_others_nothing():
    tube = Tube()
    text = await tube.run('r = try_call("nope")\nyoutube.delete_video(id="1")')
    assert text.startswith("# Error: The code was not run")
    assert tube.done == []


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_person_is_shown_the_calls_and_the_code_and_may_allow_it(mode: str):
    tube, person = Tube(approvals=[]), Person(ONCE)
    code = 'token={"x": youtube.search(query="ghp_16C7e42F292c6912E7710c838347Ae178B4a")}\n'
    code += 'result = youtube.delete_video(id="1")'
    assert await tube.run(code, person=person, mode=mode) == '{"result":"gone"}'
    assert tube.done == ["search ghp_16C7e42F292c6912E7710c838347Ae178B4a", "delete 1"]
    (question,) = person.questions
    assert "Tool: executeToolCode" in question
    shown = json.loads(question.partition("Input:\n")[2])
    assert shown == {"calls": ["youtube.delete_video"], "code": code.split("\n")}


@pytest.mark.parametrize("answer", ["deny", "deny and stop the run", "decline", "cancel"])
async def test_code_that_a_person_does_not_allow_calls_nothing(answer: str):
    tube = Tube(approvals=[])
    text = await tube.run('youtube.search(query="x")\nyoutube.delete_video(id="1")', person=Person(answer))
    assert "# - A person has to allow: youtube.delete_video" in text
    assert tube.done == []


async def test_what_was_allowed_for_a_session_is_the_same_code_alone():
    tube, person = Tube(approvals=[]), Person(SAME_IN_SESSION, "deny")
    code = 'result = youtube.delete_video(id="1")'
    text = await tube.run(code, code, f"{code} ", person=person)
    assert tube.done == ["delete 1", "delete 1"]
    assert len(person.questions) == 2
    assert "a person denied it" in text


NAMED, ANY = 'result = youtube.delete_video(id="1")', 'result = getattr(youtube, "delete_video")(id="1")'


@pytest.mark.parametrize(
    ("code", "what"),
    [
        *((NAMED, what) for what in ("gone", "moved", "version", "description", "schema")),
        *((ANY, what) for what in ("gone", "moved", "version", "description", "schema", "another tool")),
    ],
)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_code_whose_tools_change_while_a_person_looks_at_it_does_not_run(code: str, what: str, mode: str):
    tube = Tube(approvals=[])

    class Slow(Person):
        async def answer(self, *args: Any) -> Any:
            tube.change(what)
            return await super().answer(*args)

    text = await tube.run(code, person=Slow(ONCE), mode=mode)
    said = "youtube.wipe" if what == "another tool" else "youtube.delete_video"
    error = text.splitlines()[0]
    assert error.startswith("# Error: The code was not run: tools have changed since a person was asked about it: ")
    assert said in error
    assert tube.done == []


async def test_a_tool_that_code_does_not_name_may_come_while_a_person_looks_at_it():
    tube = Tube(approvals=[])

    class Slow(Person):
        async def answer(self, *args: Any) -> Any:
            tube.change("another tool")
            return await super().answer(*args)

    assert await tube.run(NAMED, person=Slow(ONCE)) == '{"result":"gone"}'


@pytest.mark.parametrize(
    ("code", "what", "asks_again"),
    [
        (NAMED, "version", True),
        (NAMED, "description", True),
        (NAMED, "schema", True),
        (NAMED, "another tool", False),
        (ANY, "schema", True),
        (ANY, "another tool", True),
    ],
)
async def test_what_was_allowed_for_a_session_ends_when_the_tools_change(code: str, what: str, asks_again: bool):
    tube, person = Tube(approvals=[]), Person(SAME_IN_SESSION, "deny")
    async with Client(tube.server, mode="legacy", elicitation_handler=person.answer) as client:
        for expected in ('{"result":"gone"}', "# Error: " if asks_again else '{"result":"gone"}'):
            answer = await client.call_tool("executeToolCode", {"code": code}, raise_on_error=False)
            assert answer.content[0].text.startswith(expected)
            if len(person.questions) == 1 and tube.done == ["delete 1"]:
                tube.change(what)
    assert len(person.questions) == 1 + asks_again


async def test_the_operators_function_decides_about_code():
    seen: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> Decision:
        seen.append(request)
        return Decision.once() if "mail" not in str(request.arguments["calls"]) else Decision.deny()

    tube = Tube(approvals={"rules": [], "approver": approver})
    assert await tube.run('result = youtube.delete_video(id="1")') == '{"result":"gone"}'
    assert "a person denied it" in await tube.run('mail.send(to="me")')
    assert [request.arguments["calls"] for request in seen] == [["youtube.delete_video"], ["mail.send"]]


async def test_tools_that_are_not_to_be_executed_are_in_no_file_and_reached_by_no_name():
    tube = Tube({"name": "youtube", "tools_to_execute": ["sea*"]}, {"name": "mail", "code_mode": False})
    async with Client(tube.server) as client:
        listed = await client.call_tool("listToolFiles", {})
        file = await client.call_tool("readToolFile", {"fileName": "youtube"})
    assert listed.content[0].text == "servers/\n  youtube.pyi"
    assert "delete_video" not in file.content[0].text
    for code in (
        'youtube.delete_video(id="1")',
        'call_tool("youtube_delete_video", id="1")',
        'n = "youtube_delete_video"\ncall_tool(n, id="1")',
        'getattr(youtube, "delete_video")(id="1")',
        'mail.send(to="x")',
        'n = "mail_send"\ncall_tool(n, to="x")',
    ):
        assert "# Error:" in await tube.run(code)
    assert await tube.run('result = try_call("mail_send", to="x")["error"]["code"]') == '{"result":"TOOL_NOT_FOUND"}'
    said = await tube.run('result = try_call("youtube_serch", query="x")["error"]["message"]')
    assert "Did you mean `youtube_search`?" in said
    assert tube.done == []


def test_options_have_the_names_of_the_document_too():
    given = {"codeModeBindingLevel": "tool", "servers": {"youtube": {"isCodeModeClient": False}}}
    options = ToolFilesOptions.read(read_tool_files(given), where="")  # type: ignore[arg-type]
    assert options == ToolFilesOptions.read(
        {"binding_level": "tool", "servers": [{"name": "youtube", "code_mode": False}]}, where=""
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"servers": [LIST, LIST]}, "'youtube' is given twice"),
        ({"bindingLevel": "tool", "code_mode_binding_level": "tool"}, "given twice"),
        ({"servers": {"youtube": 1}}, "youtube: a mapping is needed"),
        ({"servers": [{"name": "a", "tools": []}]}, "unknown option"),
        ({"level": "tool"}, "unknown option"),
        ({"tool_execution_timeout": "30"}, "tool_execution_timeout"),
        ("tool", "tool_files"),
    ],
)
def test_options_that_are_wrong_are_named(value: Any, says: str):
    with pytest.raises(OptionsError, match=says):
        CodeCallPlugin.init(tool_files=value)


async def test_a_server_of_the_options_that_is_not_there_is_warned_of(caplog: pytest.LogCaptureFixture):
    await Tube({"name": "youtub"}).run("result = 1")
    assert "there is no tool of a server 'youtub'" in caplog.text


async def test_the_broker_holds_to_it_whatever_a_worker_asks_for():
    """What the worker of a script that has taken it over may ask the host, and what it gets to know."""
    server, seen = FastMCP[Any]("held"), dict[str, str]()
    plugin = CodeCallPlugin.init(tool_files=True)
    for name in ("listed", "named", "others_get"):
        server.tool(lambda name=name: seen.setdefault(name, "done"), name=name)

    server.resource("note://one")(lambda: "read")
    server.prompt(lambda: "hello", name="greet")

    @server.tool(meta=tool_metadata(enabled_in_codecall=False))
    async def go(context: Context) -> None:
        broker = CodeBroker(
            context,
            plugin.view(context).only(frozenset({"listed", "named"})),
            allowed_tools=None,
            tool_call_timeout_ms=1_000,
            max_value_bytes=1_000,
            sanitization=SanitizationOptions(),
            components=component_view(context, plugin.options),
        )
        for beside in (broker.read("note://one"), broker.prompt("greet", {})):
            with pytest.raises(ToolCallError, match="was not found"):
                await beside
        with pytest.raises(AccessDeniedError, match="may not be called without a person"):
            await broker.call("listed", {})
        broker.allowed = frozenset({"listed"})
        assert await broker.call("listed", {}) == '"done"'
        with pytest.raises(AccessDeniedError, match="may not be called without a person"):
            await broker.call("named", {})
        for allowed in (broker.allowed, None):
            broker.allowed = allowed
            for excluded, unknown in (("others_get", "athers_get"), ("others", "athers"), ("go", "gu")):
                answers = [[str(each) async for each in everything(broker, name)] for name in (excluded, unknown)]
                assert answers[0] == [answer.replace(unknown, excluded) for answer in answers[1]]
        assert await broker.call("named", {}) == '"done"'

    async def everything(broker: CodeBroker, name: str) -> AsyncIterator[object]:
        for asked in (name, f"{name}s", f"{name}_get"):
            yield await broker.describe(asked)
            yield await broker.find(asked)
            yield await broker.namespace(asked)
            yield await broker.check_reachable(asked)
            yield await broker.preflight(asked, {"x": 1})
            for path in ("", "others", "held", asked):
                yield await broker.member(path, asked)
            with pytest.raises(ToolNotFoundError) as failed:
                await broker.call(asked, {})
            yield failed.value.as_dict()
        yield await broker.namespace("")
        for reserved in ("list", "tools", "help"):
            with pytest.raises(ToolNotFoundError) as failed:
                await broker.call(reserved, {})
            yield failed.value.as_dict()

    plugin.install(server)
    async with Client(server):
        await server.call_tool("go", {})
    assert seen == {"listed": "done", "named": "done"}


async def test_lists_go_by_names_that_do_not_depend_on_what_a_caller_may_see():
    server, done = FastMCP[Any]("youtube"), list[str]()
    server.tool(lambda: done.append("wiped"), name="youtube_search")
    CodeCallPlugin.init(tool_files={"servers": {"youtube": {"tools_to_auto_execute": ["search"]}}}).install(server)
    async with Client(server) as client:
        refused = await client.call_tool("executeToolCode", {"code": "youtube.search()"}, raise_on_error=False)
    assert "# - A person has to allow: youtube.search" in refused.content[0].text
    assert done == []
