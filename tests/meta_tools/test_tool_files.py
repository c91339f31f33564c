"""`listToolFiles`, `readToolFile`, `getToolDocs` and `executeToolCode`: the texts of the document, names, errors."""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from pydantic import BaseModel, Field

from codecall import CodeCallPlugin, RateLimitPlugin, tool_metadata
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.pyi.stubs import ToolStub, server_file, tool_docs
from codecall.catalog.pyi.types import MAX_FILE_CHARS, MAX_TOOL_CHARS, MAX_TYPE_CHARS, FileTypes, parameters
from codecall.errors import OptionsError
from tests.work import python_steps

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
DOCUMENT = next(SEEDS.glob("001_*.txt"), None)
TEXT = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT is not None else ""
of_the_document = pytest.mark.skipif(DOCUMENT is None, reason="../shared/seeds is not beside this checkout")

VIDEOS = {"items": [{"id": n, "snippet": {"title": f"title {n}"}} for n in range(5)]}


class Video(BaseModel):
    """One video."""

    title: str
    seconds: int | None = None
    related: list[Video] = []


def create_server(about: str = "Search for videos", youtube: str = "youtube", **tool_files: Any) -> FastMCP:
    """The two servers of the document, mounted on one."""
    server, videos, files = FastMCP("gateway"), FastMCP(youtube), FastMCP("filesystem")

    @videos.tool(description=about)
    def search(
        query: Annotated[str, Field(description="Search query")],
        maxResults: Annotated[int | None, Field(description="Max results to return")] = None,  # noqa: N803
    ) -> dict[str, Any]:
        return VIDEOS

    @videos.tool(description="Get video details")
    def get_video(id: str) -> dict[str, Any]:  # noqa: A002
        return {"id": id, "title": "one"}

    @files.tool(description="Read a file")
    def read_file(path: str) -> dict[str, Any]:
        return {"text": path}

    @files.tool(description="Write a file")
    def write_file(path: str, text: str) -> dict[str, Any]:
        return {"written": True}

    server.mount(videos, namespace=youtube)
    server.mount(files, namespace="filesystem")
    CodeCallPlugin.init(tool_files=tool_files or True, vm={"preset": "secure"}).install(server)
    return server


@asynccontextmanager
async def connected(about: str = "Search for videos", **options: Any) -> AsyncIterator[Client[Any]]:
    async with Client(create_server(about, **options)) as client:
        yield client


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client[Any]]:
    """For tests that leave everything as it was."""
    async with connected() as connection:
        yield connection


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    return str(block.text)


async def ask(client: Client[Any], tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert result.structured_content is None
    return text_of(result)


async def run(client: Client[Any], code: str) -> CallToolResult:
    return await client.call_tool("executeToolCode", {"code": code}, raise_on_error=False)


def lines(text: str) -> list[str]:
    """What is left of a text in the document, which has lost blank lines and what lines begin with."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def printed(after: str, first: str, last: str) -> list[str]:
    """The lines of the document from `first` to `last`, both included, behind `after`."""
    found = TEXT[TEXT.index(after) :]
    begin = found.index(f"\n{first}\n") + 1
    return lines(found[begin : found.index(f"\n{last}\n", begin) + len(last) + 1])


# ------------------------------------------------------------------------------------------------------ the document


@of_the_document
async def test_the_listings_of_the_document():
    async with connected() as client:
        listed = lines(await ask(client, "listToolFiles"))
    assert listed == printed("Server-level binding)", "servers/", "filesystem.pyi")
    async with connected(bindingLevel="tool") as client:
        listed = lines(await ask(client, "listToolFiles"))
    assert listed == printed("Tool-level binding)", "servers/", "write_file.pyi")


@of_the_document
async def test_the_file_of_the_document():
    async with connected() as client:
        text = await ask(client, "readToolFile", fileName="servers/youtube.pyi")
    expected = printed(
        "1-based ending line", "# youtube server tools", "def get_video(id: str) -> dict: # Get video details"
    )
    assert text.splitlines() == expected


@of_the_document
async def test_the_documentation_of_the_document():
    async with connected("Search for videos on YouTube.") as client:
        text = await ask(client, "getToolDocs", server="youtube", tool="search")
    begin = TEXT.index("# =====")
    end = TEXT.index("\n...\n", begin) + 4
    assert lines(text) == lines(TEXT[begin:end])


@of_the_document
async def test_the_scripts_of_the_document():
    script = "\n".join(
        printed(
            "Example code:",
            "# Search YouTube and return formatted results",
            'result = {"titles": titles, "count": len(titles)}',
        )
    )
    automatic = "\n".join(printed("# This code WILL", 'results = youtube.search(query="AI")', "result = results"))
    exposed = re.search(r"^results = youtube\.search\(query=\"AI news\"\)$", TEXT, re.MULTILINE)
    assert exposed
    async with connected() as client:
        found = await run(client, script)
        assert found.structured_content == {
            "result": {"titles": [f"title {n}" for n in range(5)], "count": 5},
            "logs": ["Found 5 videos"],
        }
        assert (await run(client, automatic)).structured_content == {"result": VIDEOS}
        assert not (await run(client, exposed[0])).is_error


@of_the_document
async def test_the_error_of_the_document():
    begin = TEXT.index("# Error: youtube is not defined")
    expected = TEXT[begin : TEXT.index("as the object name", begin) + len("as the object name")]
    async with connected(youtube="youtubeAPI") as client:
        result = await run(client, 'result = youtube.search(query="x")')
    assert result.is_error
    assert text_of(result).startswith(expected)
    assert text_of(result).endswith("# Place: line 1, column 10")


# ------------------------------------------------------------------------------------------------- names of files


@pytest.mark.parametrize(
    "name", ["servers/youtube.pyi", "youtube", "YouTube.PYI", "SERVERS/youtube", " youtube.pyi ", "servers/Youtube"]
)
async def test_a_file_is_found_in_any_letter_case_with_or_without_folder_and_suffix(name: str, client: Client[Any]):
    assert (await ask(client, "readToolFile", fileName=name)).startswith("# youtube server tools\n")


@pytest.mark.parametrize("name", ["servers/youtube/get_video.pyi", "youtube/get_video", "YOUTUBE/Get_Video.pyi"])
@pytest.mark.parametrize("level", ["server", "tool"])
async def test_the_file_of_one_tool_is_read_at_both_levels(name: str, level: str):
    async with connected(bindingLevel=level) as client:
        assert (await ask(client, "readToolFile", fileName=name)).splitlines() == [
            "# youtube.get_video tool",
            "# Usage: youtube.get_video(param=value)",
            '# For detailed docs: use getToolDocs(server="youtube", tool="get_video")',
            "def get_video(id: str) -> dict: # Get video details",
        ]


async def test_a_name_that_is_none_gets_near_names_and_what_there_is():
    async with connected() as client:
        assert (await ask(client, "readToolFile", fileName="yutube.pyi")).splitlines() == [
            "Did you mean servers/youtube.pyi?",
            "No server found matching 'yutube'. Available virtual files are:",
            "  - servers/youtube.pyi",
            "  - servers/filesystem.pyi",
        ]
        assert "Did you mean servers/youtube/search.pyi?" in await ask(
            client, "readToolFile", fileName="servers/youtube/serch.pyi"
        )
        assert (await ask(client, "getToolDocs", server="youtube", tool="get_vidoe")).splitlines() == [
            "Did you mean get_video?",
            "Tool 'get_vidoe' not found in server 'youtube'. Available tools are:",
            "  - search",
            "  - get_video",
        ]
        assert "Did you mean filesystem?" in await ask(client, "getToolDocs", server="file_system", tool="read_file")


@pytest.mark.parametrize(
    "name",
    ["../etc/passwd", "servers/../youtube.pyi", "/etc/passwd", "servers//youtube.pyi", "servers/./youtube.pyi", "..",
     "servers\\youtube.pyi", "youtube/search/x", "servers/youtube/..", "file:///etc/passwd", "", "/", "a" * 900],
)  # fmt: skip
async def test_no_name_leads_out_of_the_files(name: str, client: Client[Any]):
    result = await client.call_tool("readToolFile", {"fileName": name}, raise_on_error=False)
    assert result.is_error
    assert "passwd'" in text_of(result) or "def " not in text_of(result)


def create_ambiguous_server() -> FastMCP:
    server = FastMCP("home")
    for name in ("Video-Store", "video-store", "class", "json", "result"):
        mounted = FastMCP(name)
        for tool in ("getItem", "getitem", "PUT", "a-b", "a_b", "import"):
            mounted.tool(lambda name=name, tool=tool: f"{name} {tool}", name=tool)
        server.mount(mounted, namespace=name)
    CodeCallPlugin.init(tool_files=True).install(server)
    return server


async def test_where_several_may_be_meant_all_are_named_and_the_exact_name_is_always_one():
    async with Client(create_ambiguous_server()) as client:
        assert lines(await ask(client, "listToolFiles"))[1:] == [
            "Video_Store.pyi", "video_store.pyi", "class_.pyi", "json_.pyi", "result_.pyi"
        ]  # fmt: skip
        assert (await ask(client, "readToolFile", fileName="VIDEO_STORE")).splitlines() == [
            "Multiple servers match filename 'VIDEO_STORE':",
            "  - servers/Video_Store.pyi",
            "  - servers/video_store.pyi",
            "Use the exact name from listToolFiles.",
        ]
        assert "# video_store server" in await ask(client, "readToolFile", fileName="video_store")
        assert "# Video_Store server" in await ask(client, "readToolFile", fileName="servers/Video_Store.pyi")
        assert "Multiple tools" in await ask(client, "getToolDocs", server="json", tool="GETITEM")
        assert "json_.getitem tool" in await ask(client, "getToolDocs", server="json", tool="getitem")


async def test_names_are_as_they_are_and_lower_cased_where_that_is_one_tools():
    code = (
        "result = [class_.getItem(), class_.getitem(), class_.put(), class_.PUT(), class_.a_b(), class_.a_b_2(), "
        "json_.import_(), result_.put(), Video_Store.put(), video_store.put()]"
    )
    async with Client(create_ambiguous_server()) as client:
        result = await run(client, code)
        assert text_of(await run(client, "result = VIDEO_STORE.put()")).startswith(
            "# Error: VIDEO_STORE is not defined"
        )
    assert result.structured_content == {
        "result": [
            *("class getItem", "class getitem", "class PUT", "class PUT", "class a_b", "class a-b", "json import"),
            *("result PUT", "Video-Store PUT", "video-store PUT"),
        ]
    }


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (1, 1, slice(0, 1)),
        (4, None, slice(3, None)),
        (None, 2, slice(0, 2)),
        (-5, 2, slice(0, 2)),
        (0, 0, slice(0, 1)),
        (99, None, slice(4, None)),
        (4, 2, slice(3, 4)),
        (2, 10**9, slice(1, None)),
    ],
)
async def test_lines_outside_of_the_file_are_its_first_or_its_last(
    first: int, last: int, expected: slice, client: Client[Any]
):
    whole = (await ask(client, "readToolFile", fileName="youtube")).splitlines()
    part = await ask(client, "readToolFile", fileName="youtube", startLine=first, endLine=last)
    assert part.splitlines() == whole[expected]


# ---------------------------------------------------------------------------------------------------------- types


def typed_server() -> FastMCP:
    server = FastMCP("shop")

    @server.tool
    def order(
        zip_code: str,
        amount: int,
        size: Annotated[str, Field(json_schema_extra={"enum": ["S", "L"]})] = "S",
        tags: list[str] | None = None,
        extra: dict[str, Any] | None = None,
        anything: Any = None,
        fast: bool = False,
        price: float = 1.5,
        page: int | None = 1,
        note: str = "Ask, then send",
    ) -> Video:
        """Order something. It comes later.

        And a text that ends nothing: \"\"\" or \\.
        """
        return Video(title="one", related=[Video(title="two")])

    @server.tool
    def rows() -> list[dict[str, Any]]:
        return []

    @server.tool
    def titles() -> list[str]:
        return ["one"]

    @server.tool
    def learned(deep: bool = False, season: str = "2026/27") -> dict[str, Any]:
        return {"rows": [{"id": 1, "a-b": "x"}], "next": None}

    @server.tool
    def first(video: Video) -> Video:
        return video

    CodeCallPlugin.init(tool_files=True).install(server)
    return server


async def test_types_of_parameters_in_order_and_typed_dicts_of_results():
    async with Client(typed_server()) as client:
        text = await ask(client, "readToolFile", fileName="shop")
    assert text.splitlines()[3:] == [
        "class Video(TypedDict):",
        "    title: str",
        "    seconds: NotRequired[int | None]",
        "    related: NotRequired[list[Video]]",
        "def order(amount: int, zip_code: str, anything: Any = None, extra: dict = None, fast: bool = False, "
        'note: str = ..., page: int | None = 1, price: float = 1.5, size: Literal["S", "L"] = "S", '
        "tags: list[str] = None) -> Video: # Order something.",
        "def rows() -> list[dict]: ...",
        "def titles() -> list[str]: ...",
        'def learned(deep: bool = False, season: str = "2026/27") -> dict: ...',
        "def first(video: Video) -> Video: ...",
    ]


async def test_what_was_learned_of_results_is_a_type_that_says_so():
    async with Client(typed_server()) as client:
        await run(client, "result = shop.learned()")
        text = await ask(client, "readToolFile", fileName="shop/learned")
        docs = await ask(client, "getToolDocs", server="shop", tool="learned")
    assert text.splitlines()[3:] == [
        'LearnedRows = TypedDict("LearnedRows", {"id": int, "a-b": str}) # observed, not declared',
        "class LearnedResult(TypedDict): # observed, not declared",
        "    rows: list[LearnedRows]",
        "    next: None",
        'def learned(deep: bool = False, season: str = "2026/27") -> LearnedResult: ...',
    ]
    assert "LearnedResult: Response from the tool (observed, not declared)." in docs


class Address(BaseModel):
    """Where somebody lives."""

    street: Annotated[str, Field(description="With the number")]
    country: Annotated[str, Field(min_length=2, max_length=2)] = "DE"


class Employee(BaseModel):
    """Somebody new."""

    name: str
    born: datetime.date
    homes: Annotated[list[Address], Field(min_length=1)]
    chief: Employee | None = None


async def test_fields_of_nested_inputs_are_listed_and_the_example_runs():
    server = FastMCP("hr")

    @server.tool
    def hire(person: Employee, days: Annotated[int, Field(ge=30)]) -> str:
        """Hire somebody."""
        return f"{days} {person.homes[0].street}"

    CodeCallPlugin.init(tool_files=True).install(server)
    async with Client(server) as client:
        text = await ask(client, "readToolFile", fileName="hr")
        docs = await ask(client, "getToolDocs", server="hr", tool="hire")
        example = next(line.strip() for line in docs.splitlines() if "result = hr.hire(" in line and "#" not in line)
        ran = await run(client, example)
    assert text.splitlines()[3:] == [
        "class Address(TypedDict):",
        "    street: str",
        "    country: NotRequired[str]",
        "class Employee(TypedDict):",
        "    name: str",
        "    born: str",
        "    homes: list[Address]",
        "    chief: NotRequired[Employee | None]",
        "def hire(days: int, person: Employee) -> str: # Hire somebody.",
    ]
    listed = docs[docs.index("Args:") : docs.index("Returns:")]
    for line in (
        "        person (Employee): ",
        "            name (str): name field (required)",
        "            homes (list[Address]): ",
        "                street (str): With the number (required)",
        "                country (str): ",
        "            chief (Employee | None): ",
    ):
        assert f"\n{line}" in listed, (line, listed)
    assert "CRITICAL" not in docs
    assert "brackets" not in docs
    assert (ran.structured_content or {}).get("result", "").startswith("30 "), ran


async def test_documentation_is_python_whatever_descriptions_hold():
    async with Client(typed_server()) as client:
        for tool in ("order", "titles", "learned", "first"):
            docs = await ask(client, "getToolDocs", server="shop", tool=tool)
            (function,) = [item for item in ast.parse(docs).body if isinstance(item, ast.FunctionDef)]
            assert function.name == tool
            if tool == "order":
                assert 'ends nothing: """ or \\.' in str(ast.get_docstring(function))


async def test_parameters_that_no_code_can_name_are_shown_as_such_and_can_be_given():
    class Send(Tool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult(structured_content={"got": arguments})

    server = FastMCP("odd")
    schema = {
        "type": "object",
        "properties": {"from": {"type": "string"}, "x-id": {"type": "integer"}, "to": {"type": "string"}},
        "required": ["from", "to"],
    }
    server.add_tool(Send(name="send", description="Send it.", parameters=schema))
    CodeCallPlugin.init(tool_files=True).install(server)
    async with Client(server) as client:
        text = await ask(client, "readToolFile", fileName="odd")
        docs = await ask(client, "getToolDocs", server="odd", tool="send")
        sent = await run(
            client, 'result = [odd.send(to="a", **{"from": "b"}), odd.send({"from": "c", "x-id": 1, "to": "d"})]'
        )
    assert text.splitlines()[-1] == (
        'def send(to: str, **more: Any) -> dict: # Send it. (in **{…}: "from": str, "x-id": int)'
    )
    assert 'odd.send(to="...", **{"from": "..."})' in docs
    assert sent.structured_content == {
        "result": [{"got": {"to": "a", "from": "b"}}, {"got": {"from": "c", "x-id": 1, "to": "d"}}]
    }


# ----------------------------------------------------------------------------------------------------------- code


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 1", None),
        ("result = None\nfor i in range(3):\n  result = i", 2),
        ("if False:\n  result = 1", None),
        ("def f():\n  result = 2\nf()", None),
        ("result = 1\nreturn 2", 2),
        ('result = youtube.get_video({"id": "a"})["id"]', "a"),
        ('f = youtube.get_video\nresult = f(id="b")["id"]', "b"),
        ('result = getattr(youtube, "get" + "_video")(id="c")["id"]', "c"),
        ('result = [hasattr(youtube, "search"), hasattr(youtube, "x"), type(youtube), str(youtube)]',
         [True, False, "server", "<server youtube>"]),
        ('result = dir(filesystem)', ["read_file", "write_file"]),
        ('result = parallel([lambda: youtube.get_video(id="a"), lambda: filesystem.read_file(path="/")])',
         [{"id": "a", "title": "one"}, {"text": "/"}]),
        ('result = try_call(filesystem.read_file, path="/")', {"ok": True, "value": {"text": "/"}}),
        ('result = try_call(filesystem.read_file)["error"]["code"]', "INVALID_INPUT"),
        ('result = call_tool("filesystem_read_file", path="/")', {"text": "/"}),
        ("youtube = 5\nresult = youtube", 5),
        ("script = 5\nresult = script", 5),
    ],
)  # fmt: skip
async def test_the_value_of_result_is_the_value(code: str, expected: object, client: Client[Any]):
    result = await run(client, code)
    assert not result.is_error, text_of(result)
    assert (result.structured_content or {})["result"] == expected


async def test_code_that_gives_nothing_is_told_how():
    async with connected() as client:
        result = await run(client, "x = 1")
    assert "assign what it is for to `result`" in str(result.structured_content)


KEYS = "# - Available server keys: youtube, filesystem"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("result = youtube.serch(query='x')",
         ["# Error: youtube has no tool 'serch'", "# Hints:", "# - Did you mean `youtube.search`?", KEYS,
          "# - Tools of youtube: search, get_video", "# Place: line 1, column 18"]),
        ("r = youtube.get_video(id='x')\nresult = r.title",
         ["# Error: 'dict' value has no field or method 'title'", "# Hints:",
          '# - Use brackets: value["key"], or value.get("key").', KEYS, "# Place: line 2, column 10"]),
        ("r = youtube.search(query='x')\nresult = [i for i in r.items]",
         ["# Error: got value of type 'builtin_function_or_method', want 'iterable'", "# Hints:",
          '# - Call it: value.items(). For a key of that name use brackets: value["items"].', KEYS,
          "# Place: line 2, column 10"]),
        ("r = youtube.get_video(id='x')\nr.title = 1",
         ["# Error: dict value does not support field assignment", "# Hints:",
          '# - Use brackets: value["key"] = x.', KEYS, "# Place: line 2, column 1"]),
        ("print('a\\nb')\nresult = youtube.search('x')",
         ["# Error: youtube.search: tools take their input by name: youtube.search(query=…, maxResults=None)",
          "# Hints:", '# - Name each parameter, as shown; those in a dict go in as **{"key": value}.', KEYS,
          "# Place: line 2, column 10", "# Logs:", "# a", "# b"]),
        ("import os", ["# Error: 'import' not supported"]),
        ("result = isinstance(1, 2)",
         ["# Error: isinstance is not defined", "# Hints:",
          "# - Variable or identifier 'isinstance' is not defined", KEYS,
          '# - Compare type(x) with "string", "int", "float", "bool", "list", "dict", "tuple" or "NoneType": '
          'type(x) == "string".', "# Place: line 1, column 10"]),
        ("result = youtub.search(query='x')",
         ["# Error: youtub is not defined", "# Hints:", "# - Variable or identifier 'youtub' is not defined", KEYS,
          "# - Use one of the available server keys as the object name", "# Place: line 1, column 10"]),
        ("youtube.search = 1",
         ["# Error: server value does not support field assignment"]),
    ],
)  # fmt: skip
async def test_an_error_has_hints_and_the_server_keys(code: str, expected: list[str], client: Client[Any]):
    result = await run(client, code)
    assert result.is_error
    done = re.compile(r" \d tool calls? had completed and (is|are) not undone: \w+\.")
    seen = done.sub("", text_of(result)).splitlines()
    assert seen == expected or (len(expected) == 1 and seen[:1] == expected), seen


async def test_a_server_that_has_such_a_tool_is_refused_by_name():
    for name in ("listToolFiles", "readToolFile", "getToolDocs", "executeToolCode"):
        server = FastMCP("taken")
        server.tool(lambda: "", name=name)
        CodeCallPlugin.init(tool_files=True).install(server)
        with pytest.raises(OptionsError, match=f"tool_files: the server already has a tool named '{name}'"):
            await server.list_tools()


async def test_both_sets_stand_beside_one_another():
    server = FastMCP("both")
    server.tool(lambda: 1, name="one")
    CodeCallPlugin.init(tool_files=True, starlark={"optimizer": True}).install(server)
    async with Client(server) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert len(names) == len(set(names)) == 11
        assert (await run(client, "result = both.one()")).structured_content == {"result": 1}
        script = await client.call_tool("execute_tool_script", {"script": "return one()"})
        assert script.structured_content == {"result": 1}


async def test_the_tools_are_off_by_default():
    server = FastMCP("off")
    CodeCallPlugin.init().install(server)
    async with Client(server) as client:
        assert "executeToolCode" not in [tool.name for tool in await client.list_tools()]


@pytest.mark.parametrize(
    ("mode", "files", "tools"),
    [
        ("codecall_only", "servers/\n  shop.pyi", []),
        ("additive", "servers/\n  shop.pyi", ["open", "plain"]),
        ("codecall_opt_in", "servers/\n  shop.pyi", ["open", "plain"]),
        ("metadata_driven", "servers/\n  shop.pyi", ["open", "plain"]),
    ],
)
async def test_files_hold_what_the_mode_lets_scripts_use(mode: Any, files: str, tools: list[str]):
    server = FastMCP("shop")
    server.tool(lambda: 1, name="open", meta=tool_metadata(enabled_in_codecall=True))
    server.tool(lambda: 2, name="plain")
    CodeCallPlugin.init(mode=mode, tool_files=True).install(server)
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()][8:] == tools
        assert await ask(client, "listToolFiles") == files
        opted = mode in ("codecall_opt_in", "metadata_driven")
        assert ("def plain(" in await ask(client, "readToolFile", fileName="shop")) is not opted
        assert (await run(client, "result = shop.open()")).structured_content == {"result": 1}
        assert (await run(client, "result = shop.plain()")).is_error is opted


async def test_records_say_which_tool_ran_what():
    server, events = FastMCP("seen"), list[Any]()
    server.tool(lambda: 1, name="one")
    CodeCallPlugin.init(tool_files=True, audit={"sinks": [events.append]}).install(server)
    async with Client(server) as client:
        await run(client, "result = seen.one()")
    started = next(event for event in events if event.name == "codecall.execute.start")
    assert (started.fields["tool"], started.fields["language"]) == ("executeToolCode", "starlark")


async def test_an_error_has_its_code_for_programs(client: Client[Any]):
    result = await run(client, "fail('x')")
    assert (result.meta or {})["codecall"]["error"]["code"] == "EXECUTION_ERROR"


async def test_a_rate_rule_for_execute_counts_code_too():
    server = FastMCP("counted")
    server.tool(lambda: 1, name="one")
    CodeCallPlugin.init(tool_files=True).install(server)
    RateLimitPlugin.init(rules=[{"tool": "codecall:execute", "limit": 1, "window": "1h"}]).install(server)
    async with Client(server) as client:
        assert not (await run(client, "result = 1")).is_error
        refused = await run(client, "result = 1")
    assert refused.is_error
    assert text_of(refused).startswith("# Error: ")


async def test_a_line_number_in_another_form_is_read_and_said(client: Client[Any]):
    text = await ask(client, "readToolFile", fileName="youtube", startLine="2", endLine=2)
    assert text.splitlines()[0] == "# Usage: youtube.tool_name(param=value)"
    assert re.fullmatch(r"# .*startLine.*", text.splitlines()[1])


def test_definitions_that_double_each_other_stay_short() -> None:
    levels = {
        f"d{level}": {
            "anyOf": [
                {"type": "array", "items": {"$ref": f"#/$defs/d{level + 1}"}},
                {"type": "array", "items": {"type": "array", "items": {"$ref": f"#/$defs/d{level + 1}"}}},
            ]
        }
        for level in range(40)
    }
    defs = {**levels, "d40": {"type": "string"}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}
    (found,) = parameters(schema, FileTypes()) or []
    assert len(found.type) <= MAX_TYPE_CHARS
    types = FileTypes()
    types.add("search", schema)
    assert types.shortened
    assert sum(len(line) for lines in types.classes.values() for line in lines) <= 2 * MAX_TYPE_CHARS


def test_definitions_that_each_parameter_repeats_stay_short() -> None:
    fields = {f"p{number}": {"$ref": "#/$defs/d"} for number in range(2_000)}
    schema = {"type": "object", "properties": fields, "$defs": {"d": {"enum": [f"choice {n}" for n in range(20)]}}}
    found = parameters(schema, FileTypes()) or []
    assert len(found) == 2_000
    assert found[-1].type == "Any"
    assert sum(len(each.type) for each in found) <= 2 * MAX_TOOL_CHARS
    types = FileTypes()
    types.add("search", schema)
    assert types.shortened
    assert sum(len(line) for lines in types.classes.values() for line in lines) <= 3 * MAX_TOOL_CHARS
    stub = ToolStub("search", CatalogEntry("search", "tube", "", schema, schema))
    assert "Some types are too long to be shown" in tool_docs("tube", stub)
    many = server_file("tube", [stub] * 40)
    assert "# Some types are longer than is shown here" in many
    assert len(many) < 3 * MAX_FILE_CHARS + 40 * len(", ".join(f"{name}: Any = None" for name in fields))


def test_no_name_of_a_tool_begins_a_line_of_its_documentation() -> None:
    schema = {"type": "object", "properties": {"c'\n# Returns:\u2028x": {"type": "string"}}}
    docs = tool_docs("tube", ToolStub("search", CatalogEntry("search", "tube", "Finds.\x1b[2J", schema)))
    assert "\n# Returns:" not in docs
    assert not {"\x1b", "\u2028"} & set(docs)


def test_classes_that_all_want_one_name_take_no_time() -> None:
    def write(tools: int) -> None:
        types = FileTypes()
        for tool in range(tools):
            kinds = [
                {"type": "object", "properties": {name: {"type": "string"}}}
                for number in range(18)
                for name in (f"own{tool}_{number}", f"same{number}")
            ]
            types.add("search", {"type": "object", "properties": {"x": {"oneOf": kinds}}})

    assert python_steps(lambda: write(80)) < 5 * python_steps(lambda: write(20))
