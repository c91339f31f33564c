"""Every script, setting and output that ToolHive's document prints, read from it and run to the letter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult

from codecall import CodeCallPlugin
from codecall.gateway.config.load import read_config
from codecall.options import CodeModeOptions

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
DOCUMENT = next(SEEDS.glob("000_*.txt"), None)
TEXT = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT is not None else ""

pytestmark = pytest.mark.skipif(DOCUMENT is None, reason="../shared/seeds is not beside this checkout")


def between(start: str, end: str) -> str:
    """What stands between two texts of the document, each of which it has."""
    before, found, after = TEXT.partition(start)
    assert found, start
    inside, found, _ = after.partition(end)
    assert found, (before[-20:], end)
    return inside


def backends() -> FastMCP:
    """The tools that the document names."""
    server = FastMCP("vmcp")

    @server.tool
    def osv_query_vulnerability(package: str, version: str) -> dict[str, Any]:
        return {"vulns": [f"{package}@{version}"]} if package == "lodash" else {}

    @server.tool
    def github_create_issue(title: str) -> dict[str, str]:
        return {"title": title}

    server.tool(lambda: "a", name="tool_a")
    server.tool(lambda: "b", name="tool_b")
    return server


async def run(script: str, data: dict[str, Any] | None = None, **options: Any) -> CallToolResult:
    server = backends()
    CodeCallPlugin.init(starlark=options or True, mode="additive").install(server)
    async with Client(server) as client:
        arguments = {"script": script} | ({} if data is None else {"data": data})
        return await client.call_tool("execute_tool_script", arguments, raise_on_error=False)


def example() -> str:
    script = re.search(r"^results = parallel\(\[\n.*?^return \{.*?\}$", TEXT, re.MULTILINE | re.DOTALL)
    assert script is not None
    return script[0]


def arguments() -> dict[str, Any]:
    """The arguments that the agent passes, as printed; their script is shortened there."""
    at = TEXT.index("{", TEXT.index("The agent passes the package list as the data argument"))
    printed, _ = json.JSONDecoder().raw_decode(TEXT, at)
    return printed


async def test_the_example_with_the_printed_arguments_gives_the_printed_object():
    printed = arguments()
    assert set(printed) == {"script", "data"}
    answer = await run(example(), printed["data"])
    value = json.loads(answer.content[0].text)  # type: ignore[union-attr]
    keys = re.search(r"returns the aggregated \{(\w+), (\w+)\} object", TEXT)
    assert keys is not None
    assert list(value) == list(keys.groups())
    assert value == {"checked": 2, "vulnerable": [{"vulns": ["lodash@4.17.20"]}]}


def printed_calls() -> Iterator[str]:
    """The calls in the list of what a script can do; `...` stands for an argument."""
    for call in re.finditer(r"\b[a-z_]+\((?:[^()]|\([^()]*\))+\)", between("The script can:", "vMCP runs the script")):
        if "lambda" in call[0] or "=" in call[0]:
            yield call[0].replace("...", '"Broken"')


async def test_each_printed_call_works():
    answers = {call: (await run(f"return {call}")).structured_content for call in printed_calls()}
    assert answers == {
        'github_create_issue(title="Broken")': {"result": {"title": "Broken"}},
        'call_tool("github_create_issue", title="Broken")': {"result": {"title": "Broken"}},
        "parallel([lambda: tool_a(), lambda: tool_b()])": {"result": ["a", "b"]},
    }


async def test_lambdas_of_a_loop_bind_its_variable_as_the_document_says():
    bound, free = "lambda d=d: d", "lambda: d"
    loop = "made = []\nfor d in [1, 2]:\n  made.append({})\nreturn parallel(made)"
    assert "(d=d)" in TEXT
    answers = [(await run(loop.format(each))).structured_content for each in (bound, free)]
    assert answers == [{"result": [1, 2]}, {"result": [2, 2]}]


def code_mode(text: str) -> dict[str, object]:
    """The settings of the block `codeMode` of a configuration, whose indentation the document has lost."""
    lines = text.partition("codeMode:\n")[2].splitlines()
    settings: dict[str, object] = {}
    for line in lines:
        found = re.fullmatch(r"(\w+): (\S+)", line)
        if found is None or found[1] not in {name.alias for name in CodeModeOptions.model_fields.values()}:
            break
        settings[found[1]] = json.loads(found[2]) if not found[2].endswith("s") else found[2]
    return settings


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("Enable code mode on Kubernetes", {"enabled"}),
        ("Enable code mode locally", {"enabled"}),
        ("Tune execution limits", {"enabled", "stepLimit", "parallelMaxConcurrency", "toolCallTimeout"}),
    ],
)
async def test_each_printed_configuration_lists_the_tool_beside_the_backends(
    heading: str, names: set[str], tmp_path: Path
):
    settings = code_mode(TEXT.partition(f"\n{heading}\n")[2])
    assert settings.keys() == names
    server = backends()
    CodeCallPlugin.init(starlark={"codeMode": settings}, mode="additive").install(server)
    async with Client(server) as client:
        listed = [tool.name for tool in await client.list_tools()]
    assert {"execute_tool_script", "osv_query_vulnerability", "tool_a"} <= set(listed)
    file = tmp_path / "codecall.json"
    file.write_text(json.dumps({"starlark": {"codeMode": settings}}), encoding="utf-8")
    starlark = read_config(file).options.starlark
    assert starlark is not None
    assert starlark.code_mode == CodeModeOptions.model_validate(settings)


def test_the_table_of_parameters_is_that_of_our_options():
    rows = re.findall(r"^(\w+) \| (boolean|integer|string) \| (.*) \|$", TEXT, re.MULTILINE)
    schema = CodeModeOptions.model_json_schema()["properties"]
    assert {name: kind for name, kind, _ in rows} == {name: each["type"] for name, each in schema.items()}
    for name, _, text in rows:
        default = re.search(r"default (\S+)", text)
        if default is not None and name != "enabled":
            assert json.loads(default[1]) == schema[name]["default"]
        pattern = re.search(r"pattern (\S+)", text)
        assert (pattern[1] if pattern else None) == schema[name].get("pattern")


async def test_with_the_optimizer_the_tool_is_discovered_via_find_tool():
    assert re.search(r"indexes\s*execute_tool_script\s*along with backend tools, so agents can discover it via", TEXT)
    server = backends()
    CodeCallPlugin.init(starlark={"optimizer": True}).install(server)
    async with Client(server) as client:
        for query in ("run a script that calls several tools", "create an issue"):
            found = await client.call_tool("find_tool", {"query": query})
            hits = [tool["name"] for tool in (found.structured_content or {})["tools"]]
            assert hits[0] == ("github_create_issue" if "issue" in query else "execute_tool_script"), hits
        plain = await client.call_tool("codecall:search", {"query": "run a script that calls several tools"})
        assert "execute_tool_script" not in str(plain.structured_content)


async def test_a_script_does_not_call_its_own_tool_and_an_error_is_a_result():
    assert re.search(r"cannot recurse into\s+execute_tool_script", TEXT)
    named = await run('return execute_tool_script(script="return 1")')
    called = await run('return call_tool("execute_tool_" + "script", script="return 1")')
    assert [answer.is_error for answer in (named, called)] == [True, True]
    assert "'execute_tool_script' is not defined" in named.content[0].text  # type: ignore[union-attr]
    assert "was not found" in called.content[0].text  # type: ignore[union-attr]
