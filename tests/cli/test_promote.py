"""`codecall promote`: a recorded run becomes a composite tool with a test that passes at once."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError

from codecall import CodeCallPlugin, JsonLinesSink
from codecall.cli.literals import read_parameters, with_parameters
from codecall.cli.promotion import promote_run
from codecall.composite.reading import read_definitions
from codecall.traces import traces_of
from codecall.traces.model import TraceValue
from tests.cli.conftest import CommandLine
from tests.loaded_python import LoadedPython

STOCK = {"tea": 4, "mug": 0, "cup": 9}

JAVASCRIPT = """
// What there is more of than a few.
const names = await callTool('shop_items', { kind: 'kitchen' });
const units = await Promise.all(names.map((item) => shop.units({ item })));
const lost = await shop_units({ item: 'none' }).catch((error) => error.code);
return { kind: 'kitchen', much: names.filter((name, i) => units[i] > codecallContext.few), lost, from: -1 };
"""
TYPED = JAVASCRIPT.replace("const names =", "const names: string[] =")
STARLARK = """
# What there is more of than a few.
names = shop_items(kind = "kitchen")
units = parallel([lambda n = n: shop_units(item = n) for n in names])
return {"kind": "kitchen", "much": [names[i] for i in range(len(names)) if units[i] > few], "ü": [1, 2]}
"""


def server(**options: Any) -> FastMCP[Any]:
    """A server with two tools."""
    shop: FastMCP[Any] = FastMCP("shop")

    @shop.tool(name="shop_items")
    def items(kind: str) -> list[str]:
        return list(STOCK) if kind == "kitchen" else []

    @shop.tool(name="shop_units")
    def units(item: str) -> int:
        if item not in STOCK:
            raise ToolError("no such item")
        return STOCK[item]

    return CodeCallPlugin.init(**options).install(shop)


def recorded(
    file: Path, *scripts: str, context: Mapping[str, object] | None = None, **audit: Any
) -> list[dict[str, Any]]:
    """Run scripts with a record in `file`; the answers."""

    async def main() -> list[dict[str, Any]]:
        shown = {"include_arguments": True, "include_results": True, **audit}
        shop = server(audit={"sinks": [JsonLinesSink(file)], **shown}, starlark=True)
        answers: list[dict[str, Any]] = []
        async with Client(shop) as client:
            for script in scripts:
                if "shop_items(kind" in script:
                    arguments = {"script": script, "data": {"few": 2}}
                    answer = await client.call_tool("execute_tool_script", arguments)
                else:
                    arguments = {"script": script, "context": context or {"few": 2}}
                    answer = await client.call_tool("codecall:execute", arguments)
                answers.append(answer.structured_content or {})
        return answers

    return asyncio.run(main())


def run_ids(file: Path) -> list[str]:
    """The ids of the recorded runs, in order."""
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [event["run_id"] for event in events if event["event"].endswith(".start")]


def run_pytest(python: LoadedPython, folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """A run without what takes a second to load."""
    left_out = ("no:cacheprovider", "no:hypothesispytest", "no:langsmith_plugin")
    options = [word for name in left_out for word in ("-p", name)]
    command = [python.executable, "-m", "pytest", "-q", *options, tests]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


RUNS = [
    ("much", JAVASCRIPT, ".js"),
    ("much_typed", TYPED, ".js"),
    ("much_fenced", f"```js\n{JAVASCRIPT}```\n", ".js"),
    ("much_starlark", STARLARK, ".star"),
]


def test_runs_become_tools_with_tests(cli: CommandLine, loaded_python: LoadedPython):
    records = cli.folder / "audit.jsonl"
    answers = [answer["result"] for answer in recorded(records, *(script for _, script, _ in RUNS))]
    folder = cli.folder / "promoted"
    for (name, _, suffix), run_id in zip(RUNS, run_ids(records), strict=True):
        words = ("--name", name, "--description", f"What there is {name} of", "--parameter", "kind=kitchen@all")
        result = cli("promote", run_id, "--records", str(records), *words, "--to", "promoted")
        assert result.code == 0, result.err
        names = [f"{name}{suffix}", f"{name}.recording.json", f"test_{name}.py"]
        assert [Path(line).name for line in result.out.splitlines()] == names

        text = (folder / names[0]).read_text(encoding="utf-8")
        body = text.partition("---\n")[2].partition("---\n")[2]
        assert "kitchen" not in body
        assert ("codecallContext.kind" if suffix == ".js" else "shop_items(kind = kind)") in body

    tested = run_pytest(loaded_python, cli.folder, str(folder))
    assert f"{len(RUNS)} passed" in tested.stdout, tested.stdout

    definitions = {definition.name: definition for definition in read_definitions([folder]).tools}
    assert {*definitions} == {name for name, _, _ in RUNS}
    for name, definition in definitions.items():
        assert definition.description == f"What there is {name} of"
        assert definition.parameters["required"] == ["few", "kind"]

    async def served() -> list[object]:
        answers: list[object] = []
        async with Client(server(composite_tools=[folder], starlark=True)) as client:
            for name, _, _ in RUNS:
                other = await client.call_tool(name, {"few": 5, "kind": "garden"})
                assert (other.structured_content or {})["much"] == []
                answers.append((await client.call_tool(name, {"few": 2, "kind": "kitchen"})).structured_content)
        return answers

    assert asyncio.run(served()) == answers


def test_a_change_of_the_script_fails_its_test(cli: CommandLine, loaded_python: LoadedPython):
    records = cli.folder / "audit.jsonl"
    recorded(records, JAVASCRIPT)
    result = cli("promote", *run_ids(records), "--records", str(records), "--name", "much")
    assert result.code == 0, result.err
    script = cli.folder / "much.js"
    script.write_text(script.read_text(encoding="utf-8").replace("from: -1", "from: 1"), encoding="utf-8")
    tested = run_pytest(loaded_python, cli.folder, "test_much.py")
    assert "1 failed" in tested.stdout, tested.stdout


def test_a_promoted_script_is_promoted_again(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, "// ---\n// name: old\n// description: Old\n// ---\nreturn 5;")
    assert cli("promote", *run_ids(records), "--records", str(records), "--name", "five").code == 0
    assert "name: old" not in (cli.folder / "five.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("script", "words", "code", "message"),
    [
        ("return 1;", ("--parameter", "n=2"), 2, "the script has no literal 2"),
        ("return 1;", ("--parameter", "few=1"), 2, "the run has an argument of that name"),
        ("return 1 + 1;", ("--parameter", "n=1"), 2, "the literal 1 is in 2 places of the script (line:column): 1:8 `"),
        ("return 1 + 1;", ("--parameter", "n=1@1"), 2, "`--parameter n=1@1:12`, several with commas, or `@all`"),
        ("return 1 + 1;", ("--parameter", "n=1@2"), 2, "the literal 1 is not at 2 of the script"),
        ("return 1 + 1;", ("--parameter", "n=1@1:8,1:9"), 2, "the literal 1 is not at 1:9 of the script"),
        ("return -5;", ("--parameter", "n=5"), 2, "the script has no literal 5"),
        ("return 1;", ("--parameter", "n"), 2, "key=value is needed"),
        ("return 1;", ("--parameter", "a b=1"), 2, "is no name of a variable"),
        ("throw new Error('x');", (), 1, "it ended with the status runtime_error"),
        ("throw new Error('x');", (), 1, "promote the run that ends well"),
        ("return !!(await getTool('shop_units'));", (), 1, "gives another result"),
        ("return !!(await getTool('shop_units'));", (), 1, "such as the schemas of tools, the time"),
        ("return new Date().getTime() + Math.random();", (), 1, "it uses the time or chance: new Date() without"),
        ("return 'x'.repeat(100000);", (), 1, "has not all of its result, which has 100,002 characters"),
        ("return 'x '.repeat(2500);", (), 1, "A record keeps 32,000 characters of a value, 4,000 of one text"),
        ("return Array(2000).fill(0);", (), 1, "the record has not all of its result"),
        ("const o = {}; for (let i = 0; i < 2000; i++) o['k' + i] = i; return o;", (), 1, "has not all of its result"),
    ],
)
def test_what_cannot_be_promoted(cli: CommandLine, script: str, words: tuple[str, ...], code: int, message: str):
    records = cli.folder / "audit.jsonl"
    recorded(records, script)
    result = cli("promote", *run_ids(records), "--records", str(records), "--name", "x", *words)
    assert (result.code, message in result.err) == (code, True), result.err
    assert not (cli.folder / "x.js").exists()


ON_TIME_OR_CHANCE = [
    "return new Date().getUTCFullYear();",
    "return (new Date).getUTCFullYear();",
    "return Date().length;",
    "return { at: Date.now() > 5 };",
    "const { now } = Date; return now() > 5;",
    "const day = new Date().toISOString().slice(0, 4); return (await shop_items({ kind: day })).length;",
    "return ['a'][Math.floor(Math.random())];",
    "const D = Date; return new D().getUTCFullYear();",
    "return [Date].map((D) => new D().getUTCFullYear());",
    "return [0].map(Date).length;",
]


def test_what_reads_the_time_or_chance_is_not_promoted_although_it_gives_the_same_now(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, *ON_TIME_OR_CHANCE)
    for script, run_id in zip(ON_TIME_OR_CHANCE, run_ids(records), strict=True):
        result = cli("promote", run_id, "--records", str(records), "--name", "x")
        assert (result.code, "it uses the time or chance: " in result.err) == (1, True), (script, result.err)
        assert "in the script `codecallContext.now`" in result.err
    assert not (cli.folder / "x.js").exists()


def test_a_date_that_is_given_is_no_time_of_its_own(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, "return new Date(codecallContext.now).getUTCDay();", context={"now": "2026-10-25T10:00:00Z"})
    result = cli("promote", *run_ids(records), "--records", str(records), "--name", "x")
    assert result.code == 0, result.err


EVIL = 'x"""\nimport os\nos.abort()\n---\n"""\u2028\\'


def test_a_run_with_an_id_that_no_server_makes_is_no_run(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, JAVASCRIPT)
    (run,) = run_ids(records)
    records.write_text(records.read_text(encoding="utf-8").replace(run, json.dumps(run + EVIL)[1:-1]), encoding="utf-8")
    result = cli("promote", run, "--records", str(records), "--name", "x")
    assert result.code == 1
    assert "7 lines are no events, the first is line 1" in result.err
    assert f"There is no run '{run}'" in result.err
    assert [path.name for path in cli.folder.iterdir()] == ["audit.jsonl"]


def test_what_a_record_holds_is_no_code_of_the_test(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, "return codecallContext;")
    events = records.read_text(encoding="utf-8").replace('"few":2', f'"few":{json.dumps(EVIL)}')
    (run,) = traces_of(events.splitlines())
    value = {"few": EVIL}
    result = TraceValue(value, True, 60)
    promoted = asyncio.run(promote_run(replace(run, run_id=EVIL, result=result), "x", "Does x", {}))
    module = ast.parse(promoted.files["test_x.py"])
    docstring, imported, test = module.body
    assert isinstance(imported, ast.Import)
    assert isinstance(test, ast.FunctionDef)
    assert isinstance(docstring, ast.Expr)
    assert ast.get_docstring(module, clean=False) == (
        f'The run "{EVIL}" of `x.js`: the calls that it made, and its result.'
    )
    assert all(isinstance(node, (ast.Expr, ast.Assign, ast.Assert)) for node in test.body)


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\f", "\x1c"])
def test_only_line_feeds_and_carriage_returns_end_lines_of_starlark(character: str):
    script = f"note='first{character}second ü'\r\nreturn call_tool('t', limit=50)"
    text, literals = with_parameters(script, read_parameters(["n=50"]), starlark=True)
    assert text == script.replace("50", "n")
    assert literals["n"].replaced == ("2:29",)


PAGES = """const all = [];
for (let i = 0; i < 5; i++) { all.push(await pages({ from: i, limit: 5 })) }
return all.concat([5, -5]);"""
PAGES_STARLARK = """all = []
for i in range(5): all.append(pages(start = i, limit = 5))
return all + [5, -5]"""


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("limit=5", [1]),
        ("limit=5@2", [1]),
        ("limit=5@3", [2]),
        ("limit=5@2:FIRST", [0]),
        ("limit=5@3,2:FIRST", [0, 2]),
        ("limit=5@all", [0, 1, 2]),
    ],
)
@pytest.mark.parametrize("script", [PAGES, PAGES_STARLARK])
def test_of_several_literals_the_one_that_is_meant_becomes_a_parameter(script: str, said: str, places: list[int]):
    starlark = script is PAGES_STARLARK
    first = script.splitlines()[1].index("5") + 1
    wanted = read_parameters([said.replace("FIRST", str(first))])
    text, told = with_parameters(script, wanted, starlark=starlark)
    parts = script.split("5")
    name = "limit" if starlark else "codecallContext.limit"
    expected = "".join(part + (name if at in places else "5") * (at < 4) for at, part in enumerate(parts))
    assert text == expected
    assert (len(told["limit"].replaced), len(told["limit"].left)) == (len(places), 3 - len(places))
    assert told["limit"].value == 5


def test_an_at_sign_may_be_part_of_the_value():
    script = "return [{to: 'ann@example.com'}, 'bob@1', 'bob'];"
    for said, whole in [("to=ann@example.com", "ann@example.com"), ("to=bob@1", "bob@1"), ("to=bob@1:43", "bob")]:
        _, told = with_parameters(script, read_parameters([said]), starlark=False)
        assert told["to"].value == whole


def test_a_parameter_is_the_argument_of_its_name_and_the_answer_says_so(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, JAVASCRIPT)
    words = ("--records", str(records), "--name", "much", "--parameter", "kind=kitchen")
    result = cli("promote", run_ids(records)[0][:12], *words)
    assert result.code == 0, result.err
    text = (cli.folder / "much.js").read_text(encoding="utf-8")
    assert "shop_items', { kind: codecallContext.kind }" in text
    assert "return { kind: 'kitchen'" in text
    assert "kind stands at 3:52 of the script (line:column) now; the same value stays as it is at 6:16" in result.err
    again = cli("promote", *run_ids(records), *words, "--to", "again", "--json")
    assert again.json["literals"] == {"kind": {"replaced": ["3:52"], "left": ["6:16"]}}


def test_a_run_is_named_by_how_its_id_begins_if_one_does(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, "return 1;", "return 2;")
    words = ("--records", str(records), "--name", "x")
    several = cli("promote", "run_", *words)
    assert (several.code, "2 runs begin with 'run_'" in several.err) == (2, True)
    assert cli("promote", run_ids(records)[1][:-1], *words).code == 0
    assert "return 2;" in (cli.folder / "x.js").read_text(encoding="utf-8")
    assert len(cli("trace", str(records), "--run", run_ids(records)[0][:-1], "--json").json["runs"]) == 1


def test_a_record_without_values_is_refused(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, "return 1;", include_arguments=False)
    words = ("--records", str(records), "--name", "x")
    assert "the record has no script" in cli("promote", *run_ids(records), *words).err
    assert "letters, digits" in cli("promote", "run_none", "--records", str(records), "--name", "a b").err
    assert "There is no run 'run_none'" in cli("promote", "run_none", *words).err


@pytest.mark.parametrize("name", ["*", "w[a-z]pe", "wip?", "[*]"])
def test_a_promoted_run_may_call_no_other_tool_than_it_called(cli: CommandLine, name: str):
    records, called = cli.folder / "audit.jsonl", list[str]()

    def crafted(then: str, **options: Any) -> FastMCP[Any]:
        shop = FastMCP[Any]("shop")
        shop.tool(lambda: {"next": then}, name=name)
        for other in ("ping", "wipe", "*"):
            if other != name:
                shop.tool(lambda other=other: called.append(other), name=other)
        return CodeCallPlugin.init(**options).install(shop)

    async def record() -> None:
        audit = {"sinks": [JsonLinesSink(records)], "include_arguments": True, "include_results": True}
        async with Client(crafted("ping", audit=audit)) as client:
            script = f"const next = (await callTool({name!r})).next; await callTool(next); return 1;"
            await client.call_tool("codecall:execute", {"script": script})

    async def invoke(then: str) -> dict[str, Any]:
        async with Client(crafted(then, composite_tools=[str(cli.folder / "x.js")])) as client:
            answer = await client.call_tool("codecall:invoke", {"tool": "x", "input": {}})
            return answer.structured_content or {}

    asyncio.run(record())
    assert cli("promote", *run_ids(records), "--records", str(records), "--name", "x").code == 0
    assert asyncio.run(invoke("ping"))["result"] == 1
    for other in {"wipe", "*"} - {name}:
        assert asyncio.run(invoke(other))["status"] != "ok"
    assert called == ["ping", "ping"]


def test_whole_arguments_are_integers_and_whole_results_are_numbers(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    context = {"few": 2, "all": [1, 2.5], "ids": [1, 2], "rows": [{"n": 1}, {"n": 2.5}], "at": {"x": 1, "y": 0.5}}
    recorded(records, "return { few: codecallContext.few, all: [1, 2.5], limit: 20 }", context=context)
    words = ("--records", str(records), "--name", "x", "--parameter", "limit=20")
    assert cli("promote", *run_ids(records), *words).code == 0
    (tool,) = read_definitions([cli.folder / "x.js"]).scripts
    integer, number = {"type": "integer"}, {"type": "number"}
    assert tool.parameters["properties"] == {
        "few": integer,
        "all": {"type": "array", "items": number},
        "ids": {"type": "array", "items": integer},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"n": number}}},
        "at": {"type": "object", "properties": {"x": integer, "y": number}},
        "limit": integer,
    }
    # Another run may give a fraction.
    assert (tool.output or {})["properties"] == {
        "few": number,
        "all": {"type": "array", "items": number},
        "limit": number,
    }


def test_nothing_is_written_through_a_link(cli: CommandLine):
    records, folder = cli.folder / "audit.jsonl", cli.folder / "cloned"
    recorded(records, "return 1 + 1")
    folder.mkdir()
    (folder / "test_much.py").symlink_to(cli.folder / "elsewhere.py")
    result = cli("promote", *run_ids(records), "--records", str(records), "--name", "much", "--to", str(folder))
    assert (result.code, "exists already" in result.err) == (2, True), result.err
    assert not (cli.folder / "elsewhere.py").exists()
    assert [path.name for path in folder.iterdir()] == ["test_much.py"]


def test_nothing_is_written_over(cli: CommandLine):
    records = cli.folder / "audit.jsonl"
    recorded(records, "return 1;")
    cli.write("test_x.py", "mine")
    result = cli("promote", *run_ids(records), "--records", str(records), "--name", "x")
    assert (result.code, (cli.folder / "test_x.py").read_text(encoding="utf-8")) == (2, "mine")
    assert not (cli.folder / "x.js").exists()
