"""Scripts whose header makes them composite tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import date, datetime, time, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from pydantic import EmailStr

from codecall import CodeCallPlugin, CompositeTools
from codecall.composite.definition import ScriptDefinition
from codecall.composite.failures import CALLER_HINTS, caller_hint
from codecall.composite.reading import read_definitions
from codecall.errors import CodeCallError, ScriptError
from codecall.errors.hints import DEFAULT_HINTS, add_default_hint

HEADER = """\
name: stock
description: Units of some items
parameters:
  type: object
  properties:
    items: { type: array, items: { type: string } }
    unit: { type: string, default: pcs }
  required: [items]
output:
  type: object
  properties: { total: { type: integer } }
  required: [total]
allowedTools: [units]
annotations: { title: Stock }
"""
JAVASCRIPT = """
const counts = await Promise.all(codecallContext.items.map((item) => callTool('units', { item })));
console.log(codecallContext.unit);
return { total: counts.reduce((sum, count) => sum + count, 0) };
"""
STARLARK = """
counts = parallel([lambda item=item: units(item=item) for item in items])
print(unit)
return {"total": sum(counts)}
"""


def commented(header: str, style: str) -> str:
    """A header as the comment of a style."""
    if style == "block":
        return f"/* ---\n{header}--- */\n".replace("/* ---", "/*\n---").replace("--- */", "---\n*/")
    if style == "stars":
        return "".join(["/**\n", *(f" * {line}\n" for line in ("---", *header.splitlines(), "---")), " */\n"])
    return "".join(f"{style} {line}\n" for line in ("---", *header.splitlines(), "---"))


def write(folder: Path, name: str, body: str, style: str = "block", header: str = HEADER) -> Path:
    """Write a script with its header."""
    file = folder / name
    file.write_text(commented(header, style) + body, encoding="utf-8")
    return file


@asynccontextmanager
async def served(*sources: Path, **options: Any) -> AsyncGenerator[Client[Any]]:
    """A client of a server with the tool `units`, and with composite tools."""
    server: FastMCP[Any] = FastMCP("shop")

    @server.tool(annotations={"readOnlyHint": True})
    def units(item: str) -> int:
        return len(item)

    @server.tool
    def drop(item: str) -> str:
        if item == "none":
            raise ToolError("there is none")
        return item

    CodeCallPlugin.init(composite_tools=list(sources), **options).install(server)
    async with Client(server) as client:
        yield client


@pytest.mark.parametrize(
    ("name", "style", "body"),
    [
        ("stock.js", "block", JAVASCRIPT),
        ("stock.mjs", "stars", JAVASCRIPT),
        ("stock.ts", "//", "const one: number = 1;" + JAVASCRIPT),
        ("stock.star", "#", STARLARK),
        ("stock.starlark", "#", STARLARK),
    ],
)
async def test_a_script_is_a_typed_tool(tmp_path: Path, name: str, style: str, body: str):
    file = write(tmp_path, name, body, style)
    async with served(file, starlark=True) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}["stock"]
        result = await client.call_tool("stock", {"items": ["tea", "mugs"]})
        refused = await client.call_tool("stock", {"items": "tea"}, raise_on_error=False)
        needless = await client.call_tool("stock", {"items": [], "unit": None}, raise_on_error=False)
        script = "return await callTool('stock', { items: ['a'] });"
        ran = await client.call_tool("codecall:execute", {"script": script})
        found = await client.call_tool("codecall:search", {"query": "stock units of items"})
    assert listed.description == "Units of some items"
    assert listed.output_schema is not None
    assert listed.output_schema["required"] == ["total"]
    assert listed.annotations is not None
    assert listed.annotations.title == "Stock"
    assert result.structured_content == {"total": 7}
    assert (result.meta or {})["codecall"]["logs"] == ["pcs"]
    assert "'tea' is not of type 'array'" in str(refused.content)
    assert "None is not of type 'string'; leave it out rather than give null" in str(needless.content)
    assert (ran.structured_content or {})["result"] == {"total": 1}
    assert "stock" in [tool["name"] for tool in (found.structured_content or {})["tools"]]


BROKEN = {"broken.js": "const csv = ;", "broken.ts": "return eval('1');", "broken.star": "import csv"}


@pytest.mark.parametrize(("name", "body"), BROKEN.items())
async def test_a_script_that_the_language_refuses_is_not_served(
    tmp_path: Path, name: str, body: str, caplog: pytest.LogCaptureFixture
):
    style = "#" if name.endswith(".star") else "block"
    file = write(tmp_path, name, body, style, HEADER.replace("stock", "broken"))
    good = write(tmp_path, "stock.js", JAVASCRIPT)
    server: FastMCP[Any] = FastMCP("shop")
    plugin = CodeCallPlugin.init(composite_tools=[file, good], starlark=True)
    plugin.install(server)
    line = file.read_text().rstrip().count("\n") + 1
    async with Client(server) as client:
        assert {"stock"} == {"stock", "broken"} & {tool.name for tool in await client.list_tools()}
        (finding,) = plugin.composite_findings
        assert str(finding).startswith(f"{file}:{line}: ")
        assert f"composite tool broken is not served: {finding}" in caplog.text
        write(tmp_path, name, "return 1", style, HEADER.replace("stock", "broken"))
        await plugin.reload()
        assert plugin.composite_findings == ()
        assert "broken" in {tool.name for tool in await client.list_tools()}
        write(tmp_path, name, body, style, HEADER.replace("stock", "broken"))
        await plugin.reload()
        assert "broken" not in {tool.name for tool in await client.list_tools()}
    provider = CompositeTools(file, good, starlark=True)
    async with Client(FastMCP("plain", providers=[provider])) as client:
        assert [tool.name for tool in await client.list_tools()] == ["stock"]
        assert [each.tool for each in provider.findings] == ["broken"]
        write(tmp_path, name, "return 1", style, HEADER.replace("stock", "broken"))
        assert await provider.reload()
        assert provider.findings == ()


async def test_a_name_that_may_be_a_server_is_left_to_the_run(tmp_path: Path):
    body = "return [math.add({ a: 1 }), totl(), maps].length;"
    file = write(tmp_path, "stock.js", body)
    starlark = "def main():\n    return [math_add(a=1), totl(), get_result('x'), map_of]\nreturn main()"
    other = write(tmp_path, "other.star", starlark, "#", HEADER.replace("stock", "other"))
    async with served(file, other, starlark=True) as client:
        assert {"stock", "other"} <= {tool.name for tool in await client.list_tools()}


@pytest.mark.parametrize(
    ("form", "kind", "good", "bad"),
    [
        ("date", date, "2026-03-01", "March 1"),
        ("date-time", datetime, "2026-03-01T10:00:00", "2026-03-01T25:00:00Z"),
        ("time", time, "10:00:00", "noon"),
        ("duration", timedelta, "PT5M", "5 minutes"),
        ("uuid", UUID, "550e8400-e29b-41d4-a716-446655440000", "550e8400"),
        ("ipv4", IPv4Address, "10.0.0.1", "10.0.0"),
        ("ipv6", IPv6Address, "::1", "10.0.0.1"),
        ("email", EmailStr, "ann@example.com", "ann"),
    ],
)
async def test_texts_of_a_format_are_refused_that_functions_refuse(
    tmp_path: Path, form: str, kind: Any, good: str, bad: str
):
    field = f"{{ type: string, format: {form}, default: '' }}"
    listed = f"{{ type: array, items: {{ anyOf: [{{ type: string, format: {form} }}, {{ type: 'null' }}] }} }}"
    parameters = f"parameters: {{ properties: {{ x: {field}, all: {listed} }} }}\noutput: {field}\n"
    header = f"name: given\ndescription: What was given\n{parameters}"
    file = write(tmp_path, "given.js", "return codecallContext.x;", header=header)
    async with served(file) as client:

        async def outcome(name: str, **arguments: object) -> bool:
            return (await client.call_tool(name, arguments, raise_on_error=False)).is_error

        # What its own default and its own result are is no affair of the caller's.
        assert not await outcome("given")
        assert not await outcome("given", x=good, all=[good, None])
        refused = await client.call_tool("given", {"x": bad}, raise_on_error=False)
        assert refused.is_error
        assert "Invalid input for 'given': x: " in refused.content[0].text
        assert await outcome("given", all=[good, bad])
    server: FastMCP[Any] = FastMCP("functions")

    def given(x: Any) -> None: ...

    given.__annotations__["x"] = kind
    server.tool(given)
    async with Client(server) as client:
        for value, wrong in ((good, False), (bad, True)):
            assert (await client.call_tool("given", {"x": value}, raise_on_error=False)).is_error is wrong


async def test_it_may_call_what_its_header_allows(tmp_path: Path):
    file = write(tmp_path, "stock.js", "return await callTool('drop', { item: 'x' });")
    async with served(file) as client:
        result = await client.call_tool("stock", {"items": []}, raise_on_error=False)
    assert (result.structured_content or {})["code"] == "ACCESS_DENIED"
    assert (result.structured_content or {})["runId"].startswith("run_")


@pytest.mark.parametrize("body", ["return { total: 'x' };", "return 5;", "return null;"])
async def test_a_result_that_is_not_of_its_output_is_an_error(tmp_path: Path, body: str):
    file = write(tmp_path, "stock.js", body)
    async with served(file) as client:
        result = await client.call_tool("stock", {"items": []}, raise_on_error=False)
    assert result.is_error
    assert (result.structured_content or {})["code"] == "WORKFLOW_ERROR"
    assert "not what `output` of the tool says" in (result.structured_content or {})["message"]
    hint = "The script or its `output` has to change; the operator can do that."
    assert (result.structured_content or {})["hint"] == hint


async def test_an_output_that_is_no_object(tmp_path: Path):
    header = "name: count\ndescription: Counts\noutput: { type: integer }\n"
    file = write(tmp_path, "count.js", "return 4;", header=header)
    async with served(file) as client:
        assert (await client.call_tool("count", {})).data == 4
        script = "return await callTool('count', {});"
        ran = await client.call_tool("codecall:execute", {"script": script})
    assert (ran.structured_content or {})["result"] == 4


async def test_a_script_that_fails_says_where(tmp_path: Path):
    file = write(tmp_path, "stock.js", "throw new Error('no stock');")
    async with served(file) as client:
        result = await client.call_tool("stock", {"items": []}, raise_on_error=False)
    body = result.structured_content or {}
    assert body["location"]["line"] == len(commented(HEADER, "block").splitlines()) + 1
    assert "no stock" in body["message"]


MAKES_CALL = "A call that this tool makes failed: change the arguments that it is made of, if they were wrong."
NOT_THEIRS = "The script of this tool failed, and its operator alone can change it; other arguments may do."


@pytest.mark.parametrize(
    ("file", "script", "hint"),
    [
        (
            "t.js",
            "const u = await units({ item: 'a' }); return u.rows.map((x) => x);",
            f"{NOT_THEIRS} For its operator: ",
        ),
        ("t.js", "throw new Error('no stock');", f"{NOT_THEIRS} For its operator: The script threw this itself, "),
        ("t.js", "return await drop({ item: 'none' });", MAKES_CALL),
        (
            "t.js",
            "const t = 'unit'; return await callTool(t, {});",
            "This tool calls what is not there, or not for you: ",
        ),
        ("t.js", "const i = { x: 1 }; return await units(i);", "A call that this tool makes is wrong: change the "),
        ("t.js", "let n = 0; for (let i = 0; i < 1e9; i++) n += i; return n;", "Ask this tool for less, where its "),
        ("t.star", "return drop(item='none')", MAKES_CALL),
        ("t.star", "return units(item='a')['rows']", NOT_THEIRS),
    ],
)
async def test_the_hint_of_a_failure_is_for_its_caller(tmp_path: Path, file: str, script: str, hint: str):
    if file.endswith("star"):
        pytest.importorskip("starlark")
    path = write(tmp_path, file, script, "#" if file.endswith("star") else "block", "name: t\ndescription: T\n")
    async with served(path, starlark={"code_mode": {"enabled": False}} if file.endswith("star") else None) as client:
        failed = await client.call_tool("t", {}, raise_on_error=False)
        assert failed.structured_content is not None
        told = failed.structured_content["hint"]
        run = await client.call_tool("codecall:execute", {"script": "return await t({});"}, raise_on_error=False)
        assert run.structured_content is not None
        outer = run.structured_content["error"]["hint"]
    assert told.startswith(hint)
    assert not any(
        words in told.partition(" For its operator:")[0] for words in ("try {", "Mend", "getTool", "codecall:")
    )
    assert not any(words in outer for words in ("Mend", "Do less", "Return less"))


@pytest.mark.parametrize("code", DEFAULT_HINTS)
def test_a_hint_of_any_code_is_whole_that_quotes_no_script(code: str):
    error = CodeCallError("m", code=code)
    add_default_hint(error)
    if code not in CALLER_HINTS:
        assert caller_hint(error) == (error.hint or "").replace("Send the script again", "Call the tool again")
    error.hint = "Run `codecall doctor`, or `codecall tools`."
    assert caller_hint(error).endswith(error.hint)


@pytest.mark.parametrize(
    "hint", ["Write `secret` or `secret`", "Write `sec`ret`", "Write `ok`, not `" + "secret " * 200]
)
def test_a_quotation_that_is_cut_or_has_backticks_is_left_out_as_well(hint: str):
    error = ScriptError("m", hint=hint)
    error.quotes_script = True
    add_default_hint(error, "1 tool call had completed and is not undone: a.")
    told = caller_hint(error)
    assert told.endswith("For its operator: Write `…` 1 tool call had completed and is not undone: a.")


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("const rows = { a: 1 }; return rows.lst.map((x) => x);", "For its operator: `…` where it may be missing."),
        ("return [`a`, `b`].nope(`c`);", "For its operator: `…` is no function: check its spelling, and what it "),
        ("return await units({ itm: 'a' });", "if they were. For its operator: No call was made. The input is wrong "),
        ("await units({}); return await units({ itm: 'a' });", "named here. Other calls are wrong, too: line 7 (`…`)."),
    ],
)
async def test_what_a_hint_quotes_of_the_script_is_left_out(tmp_path: Path, body: str, hint: str):
    file = write(tmp_path, "t.js", body, header="name: t\ndescription: T\n")
    async with served(file) as client:
        failed = await client.call_tool("t", {}, raise_on_error=False)
    assert hint in (failed.structured_content or {})["hint"]


@pytest.mark.parametrize(
    ("allowed", "annotations", "hints"),
    [
        ("[units]", "{}", (True, False)),
        ("[drop]", "{}", (False, True)),
        ("[units, 'd*']", "{}", (False, True)),
        ("[drop]", "{ destructiveHint: false }", (False, False)),
    ],
)
async def test_annotations_are_those_of_its_tools(tmp_path: Path, allowed: str, annotations: str, hints: object):
    header = f"name: t\ndescription: T\nallowedTools: {allowed}\nannotations: {annotations}\n"
    async with served(write(tmp_path, "t.js", "return 1;", header=header), mode="additive") as client:
        listed = {tool.name: tool.annotations for tool in await client.list_tools()}["t"]
    assert listed is not None
    assert (listed.read_only_hint, listed.destructive_hint) == hints


async def test_starlark_gives_none_for_what_is_left_out(tmp_path: Path):
    header = "name: t\ndescription: T\nparameters: { properties: { a: {}, b: {} } }\n"
    file = write(tmp_path, "t.star", "return [a, b]", "#", header)
    async with served(file, starlark={"code_mode": {"enabled": False}}) as client:
        assert "execute_tool_script" not in [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("t", {"a": 1})
    assert result.data == [1, None]


async def test_starlark_needs_its_option(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async with served(write(tmp_path, "stock.star", STARLARK, "#")) as client:
        assert "stock" not in [tool.name for tool in await client.list_tools()]
    assert "with the option `starlark` only" in caplog.text


async def test_without_code_mode(tmp_path: Path):
    server: FastMCP[Any] = FastMCP("plain")
    header = "name: t\ndescription: T\n"
    server.add_provider(CompositeTools(write(tmp_path, "t.js", "return 2;", header=header)))
    async with Client(server) as client:
        assert (await client.call_tool("t", {})).data == 2


def test_scripts_and_workflows_of_a_folder(tmp_path: Path):
    write(tmp_path, "stock.js", JAVASCRIPT)
    (tmp_path / "stock.recording.json").write_text("{}", encoding="utf-8")
    (tmp_path / "stock.script.js").write_text("--- one\nreturn 1;", encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(
        "name: flow\ndescription: F\nsteps: [{ id: a, tool: stock, arguments: { items: [] } }]\n", encoding="utf-8"
    )
    read = read_definitions([tmp_path])
    assert read.findings == ()
    assert [tool.name for tool in read.tools] == ["flow", "stock"]
    assert isinstance(read.tools[1], ScriptDefinition)


WRONG = {
    "no header": ("return 1;", "begins with a comment that has its header"),
    "no end": ("/*\n---\nname: x\n*/", "a second line `---` is needed"),
    "no YAML": ("/*\n---\nname: [\n---\n*/", "not YAML, line 3"),
    "a list": ("/*\n---\n- name\n---\n*/", ":3: the header of a script is a mapping"),
    "no name": ("// ---\n// description: d\n// ---", "name: missing"),
    "an unknown key": ("// ---\n// name: x\n// description: d\n// ouput: {}\n// ---", ":4: ouput: unknown key"),
    "a hint": (
        "// ---\n// name: x\n// description: d\n// annotations: {readOnlyHint: 1}\n// ---",
        ":4: annotations.readOnlyHint: true or false is needed",
    ),
    "a schema": (
        "// ---\n// name: x\n// description: d\n// output: {type: nothing}\n// ---",
        "output.type: not a JSON Schema",
    ),
    "itself": (
        "// ---\n// name: x\n// description: d\n// allowedTools: [x]\n// ---",
        "allowedTools: the tool calls itself: x → x",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_header(tmp_path: Path, name: str):
    text, message = WRONG[name]
    (tmp_path / "x.js").write_text(text, encoding="utf-8")
    read = read_definitions([tmp_path])
    assert read.tools == ()
    assert message in "; ".join(map(str, read.findings))


@pytest.mark.parametrize("suffix", [".js", ".star"])
async def test_a_script_tool_reads_kept_results_of_its_caller_and_of_nobody_else(tmp_path: Path, suffix: str) -> None:
    if suffix == ".star":
        pytest.importorskip("starlark")
    header = "name: reader\ndescription: Reads\nparameters: { type: object, properties: { h: { type: string } } }\n"
    body = {".js": "return (await getResult(codecallContext.h)).length", ".star": "return len(get_result(h))"}[suffix]
    write(tmp_path, f"reader{suffix}", body, "block" if suffix == ".js" else "#", header)
    mcp = FastMCP[Any]("shop")
    CodeCallPlugin.init(composite_tools=[str(tmp_path)], starlark=suffix == ".star").install(mcp)
    async with Client(mcp) as client:
        kept = await client.call_tool("codecall:execute", {"script": "return Array(20_000).fill('row')"})
        assert kept.structured_content is not None
        handle = kept.structured_content["largeResult"]["handle"]
        call = f"return callTool('reader', {{ h: '{handle}' }})"
        answer = await client.call_tool("codecall:execute", {"script": call})
        assert answer.structured_content is not None
        assert answer.structured_content["result"] == 20_000
        direct = await client.call_tool("reader", {"h": handle})
        assert direct.structured_content == {"result": 20_000}
        unknown = await client.call_tool("reader", {"h": f"res_{'0' * 40}"}, raise_on_error=False)
        assert "RESULT_NOT_FOUND" in str(unknown.content)


async def test_its_own_result_is_whole_or_refused(tmp_path: Path) -> None:
    header = "name: rows\ndescription: Rows\nparameters: { type: object, properties: { n: { type: integer } } }\n"
    write(tmp_path, "rows.js", "return 'x'.repeat(codecallContext.n)", header=header)
    mcp = FastMCP[Any]("shop")
    CodeCallPlugin.init(composite_tools=[str(tmp_path)]).install(mcp)
    async with Client(mcp) as client:
        whole = await client.call_tool("rows", {"n": 200_000})
        assert whole.structured_content == {"result": "x" * 200_000}
        refused = await client.call_tool("rows", {"n": 1_100_000}, raise_on_error=False)
        assert "OUTPUT_LIMIT" in str(refused.content)
