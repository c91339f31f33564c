"""`codecall composite list|check|run`, and `codecall check` of definitions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.loaded_python import LoadedPython

SERVER = """
from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

mcp = FastMCP("math")

@mcp.tool
def add(a: int, b: int) -> int:
    return a + b

@mcp.tool
def name(of: str) -> dict[str, str]:
    return {"name": of}

@mcp.tool(output_schema=None)
def owner(ctx: Context):
    if ctx.input_responses:
        return f"owned by {ctx.input_responses['who'].content['name']}"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    form = ElicitRequestFormParams(message="Whose is it?", requested_schema=schema)
    return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)}, request_state="kept")

mcp.run(show_banner=False)
"""

FLOW = """
name: twice
description: Adds a number to itself
parameters:
  type: object
  properties: { n: { type: integer } }
  required: [n]
steps:
  - id: sum
    tool: math_add
    arguments: { a: '{{.params.n}}', b: '{{.params.n}}' }
  - id: again
    tool: math_add
    arguments: { a: '{{.steps.sum.output.result}}', b: 0 }
    dependsOn: [sum]
"""


@pytest.fixture
def configured(cli: CommandLine, loaded_python: LoadedPython) -> CommandLine:
    """A configuration with one server and one composite tool, which runs Starlark."""
    server = cli.write("server.py", SERVER)
    cli.write("workflows/twice.yaml", FLOW)
    cli.write(
        "codecall.toml",
        f"[servers.math]\ncommand = {json.dumps(loaded_python.executable)}\nargs = {json.dumps([str(server)])}\n"
        '[composite_tools]\npaths = ["workflows"]\n[starlark]\n',
    )
    assert cli("trust").code == 0
    return cli


def test_list(configured: CommandLine):
    assert configured("composite", "list").rows == [["twice", "2 steps", "Adds a number to itself"]]
    configured.write("workflows/wrong.yaml", FLOW.replace("twice", "wrong").replace("tool: math_add", "toool: x", 1))
    result = configured("composite", "list")
    assert result.code == 1
    assert "not served: " in result.err
    assert "did you mean tool?" in result.err
    assert [tool["name"] for tool in configured("composite", "list", "--json").json["tools"]] == ["twice"]


def test_run_asks_for_calls(configured: CommandLine):
    config = configured.folder / "codecall.toml"
    config.write_text(config.read_text() + "[codecall]\napprovals = 'writes'\n")
    assert configured("trust").code == 0
    refused = configured("composite", "run", "twice", "--param", "n=4")
    assert refused.code == 1
    assert "to be allowed: math_add of math" in refused.err
    assert "say --allow math_add;" in refused.err
    assert configured("composite", "run", "twice", "--param", "n=4", "--allow", "*").code == 0
    assert configured("composite", "run", "twice", "--param", "n=4", stdin="yes\nall\n", terminal=True).code == 0


def test_run_names_all_calls_that_nobody_has_allowed(configured: CommandLine):
    steps = [{"id": f"step{n}", "tool": "math_name", "arguments": {"of": f"it {n}"}} for n in range(4)]
    steps.append({"id": "sum", "tool": "math_add", "arguments": {"a": 1, "b": 2}})
    flow = {"name": "side_by_side", "description": "Asks all at once", "steps": steps}
    configured.write("workflows/side_by_side.yaml", json.dumps(flow))
    config = configured.folder / "codecall.toml"
    config.write_text(config.read_text() + "[codecall]\napprovals = 'writes'\n")
    assert configured("trust").code == 0
    refused = configured("composite", "run", "side_by_side")
    named = [line for line in refused.err.splitlines() if line.startswith("to be allowed: ")]
    assert [line.partition(": ")[2] for line in named] == [
        *(f'math_name of math: {{"of":"it {n}"}}' for n in range(4)),
        'math_add of math: {"a":1,"b":2}',
    ]
    assert "say --allow math_name --allow math_add;" in refused.err


ASKING = """
name: asking
description: Asks how often
steps:
  - id: ask
    type: elicitation
    message: 'How often?'
    schema:
      type: object
      properties:
        times: { type: integer, minimum: 1, title: Times }
        kind: { type: string, enum: [sum, other] }
        note: { type: string }
      required: [times, kind]
  - id: sum
    tool: math_add
    arguments: { a: '{{.steps.ask.output.content.times}}', b: 1 }
    dependsOn: [ask]
"""


def test_run_asks_the_questions_of_steps(configured: CommandLine):
    configured.write("workflows/asking.yaml", ASKING)
    run = ("composite", "run", "asking")
    refused = configured(*run)
    assert refused.code == 1
    assert "this command asks nobody in a pipe or with --json" in refused.err
    assert "hint: Run the command at a terminal, without --json: there you are asked." in refused.err
    error = configured(*run, "--json").json["error"]
    assert (error["code"], error["hint"][:27]) == ("INPUT_REQUIRED", "Run the command at a termin")
    answered = configured(*run, stdin="yes\n0\nsum\n\n" + "4\nsum\n\n", terminal=True)
    assert answered.code == 0, answered.err
    assert "5" in answered.out
    assert "How often?" in answered.err
    assert "times: " in answered.err  # 0 is less than the minimum
    for said, code in (("no\n", "ELICITATION_DECLINED"), ("", "ELICITATION_CANCELLED")):
        assert code in configured(*run, stdin=said, terminal=True).err


def test_run_of_a_script_asks_what_its_calls_ask(configured: CommandLine):
    configured.write("workflows/asking.yaml", ASKING)
    configured.write("a.js", "return [await callTool('asking', {}), await callTool('math_owner', {})]")
    refused = configured("run", "a.js")
    assert "this command asks nobody in a pipe" in refused.err
    assert "hint: Run the command at a terminal" in refused.err
    answered = configured("run", "a.js", stdin="yes\n4\nsum\n\n" + "yes\nAnn\n", terminal=True)
    assert answered.code == 0, answered.err
    assert "owned by Ann" in answered.out
    configured.write("b.js", "return callTool('math_owner', {})")
    assert "hint: Run the command at a terminal" in configured("run", "b.js").err


def test_run(configured: CommandLine, tmp_path: Path):
    page = tmp_path / "run.html"
    result = configured("composite", "run", "twice", "--param", "n=21", "--trace", str(page))
    assert (result.code, result.json) == (0, 42), result.err
    text = page.read_text(encoding="utf-8")
    assert text.count('<g class="step good">') == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("twice",), 2, "n: Field required"),
        (("twice", "--param", "n"), 2, "key=value is needed"),
        (("twise",), 1, "Did you mean twice?"),
        ((), 2, "run takes the name of one composite tool"),
    ],
)
def test_what_cannot_be_run(configured: CommandLine, words: tuple[str, ...], code: int, message: str):
    result = configured("composite", "run", *words)
    assert result.code == code
    assert message in result.err


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("quarter", "Did you mean quarterly_sales_report?"),
        ("Quarterly-Sales-Report", "Did you mean quarterly_sales_report?"),
        ("weekly_sale", "Did you mean weekly_sales or weekly_sums?"),
        ("brokn", "Did you mean broken?"),  # which then says what is wrong with it
        ("", "`codecall composite list` shows"),
        ("zzz", "`codecall composite list` shows"),
    ],
)
def test_near_names_of_composite_tools(cli: CommandLine, word: str, hint: str):
    for name in ("quarterly_sales_report", "weekly_sales", "weekly_sums"):
        cli.write(f"workflows/{name}.yaml", FLOW.replace("twice", name))
    cli.write("workflows/broken.yaml", FLOW.replace("twice", "broken").replace("tool:", "toool:"))
    cli.write("codecall.toml", '[composite_tools]\npaths = ["workflows"]\n')
    result = cli("composite", "run", word, "--config", "codecall.toml", "--json")
    assert result.json["error"]["hint"].startswith(hint)


def test_a_dry_run_shows_the_order(configured: CommandLine):
    result = configured("composite", "run", "twice", "--param", "n=21", "--dry-run")
    assert result.out.splitlines() == [
        'sum: math_add {"a": 21, "b": 21}',  # as the tool's schema asks for them
        '  again: math_add {"a": "{{.steps.sum.output.result}}", "b": 0}, after sum',
    ]
    configured.write(
        "workflows/more.yaml", FLOW.replace("twice", "more").replace("math_add", "twice", 1).replace(" a:", " n:", 1)
    )
    result = configured("composite", "run", "more", "--param", "n=21", "--dry-run", "--no-cache", "--json")
    assert result.json["steps"][0]["arguments"] == {"n": 21, "b": "21"}  # twice takes no b
    (configured.folder / "server.py").write_text("raise SystemExit(1)")
    result = configured("composite", "run", "twice", "--param", "n=21", "--dry-run", "--no-cache")
    assert result.out.startswith('sum: math_add {"a": "21", "b": "21"}')
    assert "math cannot be asked" in result.err


def test_check_of_a_file(cli: CommandLine):
    cli.write("good.yaml", FLOW)
    cli.write("bad.yaml", FLOW.replace("dependsOn: [sum]", "dependsOn: [som]"))
    good = cli("check", "good.yaml")
    assert (good.code, good.err.strip()) == (0, "1 definition checked without the tools of servers, nothing found")
    result = cli("check", "bad.yaml", "--json")
    assert result.code == 1
    assert result.json["findings"][0]["path"] == "steps[1].dependsOn[0]"
    assert cli("composite", "check", "bad.yaml").out.startswith("bad.yaml:15: steps[1].dependsOn[0]: there is no")


def test_check_against_servers(configured: CommandLine):
    clean = configured("composite", "check")
    assert (clean.code, clean.err.strip()) == (0, "1 definition checked against the tools of 1 server, nothing found")
    output = "output:\n  properties:\n    x: {type: integer, description: d, value: '{{.steps.name.output.name}}'}\n"
    bad = FLOW.replace("tool: math_add", "tool: math_ad", 1).replace("b: 0", "b: [1]") + output
    configured.write("workflows/bad.yaml", bad.replace("twice", "bad"))
    messages = [finding["message"] for finding in configured("composite", "check", "--json").json["findings"]]
    assert messages[0] == "there is no step 'name'"
    assert "there is no tool 'math_ad'; did you mean math_add?" in messages
    step = "  - id: name\n    tool: math_name\n    arguments: {}\n"
    configured.write("workflows/bad.yaml", bad.replace("twice", "bad").replace("output:\n", f"{step}output:\n", 1))
    messages = [finding["message"] for finding in configured("composite", "check", "--json").json["findings"]]
    assert "there is no tool 'math_ad'; did you mean math_add?" in messages
    assert any(message.startswith("'math_add' refuses it: ") for message in messages), messages
    assert any(message.startswith("'math_name' refuses it: ") for message in messages), messages
    left_out = (
        "'math_add' requires it, and the parameter 'n' may be left out: add it to `required`, or give it a `default`"
    )
    configured.write("workflows/bad.yaml", FLOW.replace("twice", "bad").replace("  required: [n]\n", ""))
    found = configured("composite", "check", "--json").json["findings"]
    assert [(each["path"], each["message"]) for each in found] == [
        (f"steps[0].arguments.{name}", left_out) for name in "ab"
    ]


SCRIPT = """/*
---
name: thrice
description: Adds a number to itself, twice
parameters: { properties: { n: { type: integer } }, required: [n] }
allowedTools: [math_add]
---
*/
const { n } = codecallContext;
return await callTool('math_add', { a: await callTool('math_add', { a: n, b: n }), b: n });
"""
STARLARK = "# ---\n# name: four\n# description: Four\n# allowedTools: [math_add]\n# ---\nreturn math_add(a=2, b=2)\n"


def test_a_script_in_a_language_that_is_not_served_is_a_finding(configured: CommandLine):
    path = configured.write("workflows/four.star", STARLARK).parent.parent / "codecall.toml"
    path.write_text(path.read_text().replace("[starlark]\n", ""))
    assert configured("trust").code == 0
    says = "the script is Starlark, which this server runs with the option `starlark` only"
    for words in (("composite", "check"), ("check", "workflows/four.star")):
        found = configured(*words)
        assert (found.code, says in found.out) == (1, True), (words, found.out)
    listed = configured("composite", "list")
    assert (listed.code, listed.rows, says in listed.err) == (
        1,
        [["twice", "2 steps", "Adds a number to itself"]],
        True,
    )
    health = configured("doctor", "--json").json
    assert [check["verdict"] for check in health["checks"] if says in check["said"]] == ["fail"]


def test_scripts(configured: CommandLine):
    configured.write("workflows/thrice.js", SCRIPT)
    configured.write("workflows/four.star", STARLARK)
    assert configured("composite", "list").rows == [
        ["four", "starlark script", "Four"],
        ["thrice", "javascript script", "Adds a number to itself, twice"],
        ["twice", "2 steps", "Adds a number to itself"],
    ]
    assert configured("composite", "check").out == ""
    result = configured("composite", "run", "thrice", "--param", "n=7")
    assert (result.code, result.json) == (0, 21), result.err
    manifest = configured("composite", "run", "thrice", "--param", "n=7", "--dry-run").json["manifest"]
    assert [tool["name"] for tool in manifest["tools"]] == ["math_add"]


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("{ type: array, items: { type: object, properties: { at: { type: string, format: date-time } } } }",
         [{"at": "2026-01-31T10:15:00Z", "n": 1}]),
        ("{ type: array, items: { type: string, format: date } }", ["2026-01-31"]),
        ("{ type: number }", 12),
        ("{ type: array, items: { type: number } }", [3, 1.5]),
        ("{ type: object, properties: { at: { type: string, format: date } } }", {"at": "2026-01-31"}),
    ],
)  # fmt: skip
def test_the_result_of_a_run_is_printed_as_it_is(configured: CommandLine, output: str, value: object):
    header = f"/*\n---\nname: odd\ndescription: Odd\nallowedTools: []\noutput: {output}\n---\n*/\n"
    configured.write("workflows/odd.js", f"{header}return {json.dumps(value)};\n")
    ran = configured("composite", "run", "odd", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, value), ran.err
    assert "12.0" not in ran.out


def test_check_of_scripts(configured: CommandLine):
    configured.write("workflows/thrice.js", SCRIPT.replace("[math_add]", "[math_ad]").replace("return", "fetch('x');"))
    configured.write("workflows/four.star", STARLARK.replace("return", "import x"))
    found = configured("composite", "check", "--json").json["findings"]
    assert [(Path(each["file"]).name, each["line"], each["path"]) for each in found] == [
        ("four.star", 6, ""),
        ("thrice.js", 10, ""),
        ("thrice.js", 6, "allowedTools[0]"),
    ]
    assert "did you mean math_add?" in found[2]["message"]


def test_a_script_is_checked_for_what_it_calls(configured: CommandLine):
    calls = SCRIPT.replace("return await callTool('math_add', { a: ", "return await math_add({ a: ")
    configured.write("workflows/thrice.js", calls)
    assert configured("composite", "check").code == 0
    configured.write("workflows/thrice.js", calls.replace("await math_add(", "await math_ad("))
    found = configured("composite", "check", "--json").json["findings"]
    assert [(each["line"], each["message"]) for each in found] == [(10, "Unknown name 'math_ad'")]
    configured.write("workflows/thrice.js", SCRIPT.replace("b: n })", "b: 'x' })", 1))
    found = configured("composite", "check", "--json").json["findings"]
    assert [(each["line"], "b: " in each["message"]) for each in found] == [(10, True)]


GREET = STARLARK.replace(
    "# allowedTools", "# parameters: { properties: { n: { type: integer } } }\n# allowedTools"
).replace("a=2", "a=n")
LOOP = "let n = 0;\nwhile (n < 3) { n++ }\nreturn n;\n"


def test_check_takes_a_script_with_a_header_for_a_tool(configured: CommandLine):
    configured.write("tools/thrice.js", SCRIPT)
    configured.write("tools/four.star", GREET)
    for names in (["tools"], ["tools/four.star"], ["tools/*"]):
        told = configured("check", *names, "--json")
        assert (told.code, told.json["files"]) == (0, []), told.out
        assert "four" in told.json["definitions"]["tools"]
    configured.write("tools/five.star", GREET.replace("four", "five").replace("[math_add]", "[math_ad]"))
    configured.write("tools/thrice.js", SCRIPT.replace("description", "descripton"))
    configured.write("tools/broken.ts", "// ---\n// name: x\nreturn 1;\n")
    configured.write("tools/plain.js", "// ---\n// What sells\n// ---\nreturn nothing;\n")
    told = configured("check", "tools", "--json").json
    assert [Path(each["path"]).name for each in told["files"]] == ["plain.js"]
    by_name = [Path(each["file"]).name for each in told["definitions"]["findings"]]
    assert sorted(set(by_name)) == ["broken.ts", "five.star", "thrice.js"]
    same = configured("composite", "check", *(f"tools/{name}" for name in dict.fromkeys(by_name)), "--json").json
    messages = [each["message"] for each in told["definitions"]["findings"]]
    assert sorted(each["message"] for each in same["findings"]) == sorted(messages)


def test_scripts_with_a_header_are_checked_with_the_limits_that_they_run_with(configured: CommandLine):
    head = SCRIPT.partition("const")[0].replace("thrice", "loop")
    configured.write("workflows/loop.js", head + LOOP)
    assert [configured(*words).code for words in (("composite", "check"), ("check", "workflows"))] == [1, 1]
    assert configured("check", "workflows", "--preset", "balanced").code == 0
    assert configured("check", "workflows", "--preset", "none", "--json").json["error"]["code"] == "INVALID_OPTIONS"
    servers = (configured.folder / "codecall.toml").read_text(encoding="utf-8")
    configured.write("codecall.toml", f'codecall = {{ vm = {{ preset = "balanced" }} }}\n{servers}')
    assert configured("trust").code == 0
    assert configured("composite", "run", "loop", "--param", "n=1").json == 3
    assert configured("composite", "run", "loop", "--param", "n=1", "--dry-run").code == 0
    assert [configured(*words).code for words in (("composite", "check"), ("check", "workflows"))] == [0, 0]
    checks = {check["name"]: check["verdict"] for check in configured("doctor", "--json").json["checks"]}
    assert "loop" not in checks
    assert configured("check", "workflows", "--preset", "secure").code == 1


def test_doctor_says_what_is_not_served(configured: CommandLine):
    configured.write(
        "workflows/wrong.yaml", FLOW.replace("twice", "wrong").replace("dependsOn: [sum]", "dependsOn: []")
    )
    checks = {check["name"]: check for check in configured("doctor", "--json").json["checks"]}
    assert (checks["composite tools"]["verdict"], checks["composite tools"]["said"]) == ("ok", "twice")
    assert checks["wrong"]["verdict"] == "fail"
    assert "is not served: " in checks["wrong"]["said"]
    configured.write("workflows/broken.js", SCRIPT.replace("thrice", "broken").replace("return", "const csv = ;"))
    configured.write("workflows/other.js", SCRIPT.replace("thrice", "other").replace("callTool('math_add'", "math_ad("))
    unknown = SCRIPT.replace("thrice", "unknown").replace("allowedTools: [math_add]\n", "")
    configured.write("workflows/unknown.js", unknown.replace("'math_add', { a: n", "'math_ad', { a: n"))
    checks = {check["name"]: check for check in configured("doctor", "--json").json["checks"]}
    assert checks["composite tools"]["said"] == "twice"
    assert "is not served: " in checks["broken"]["said"]
    assert "broken.js:10: " in checks["broken"]["said"]
    assert (checks["unknown"]["verdict"], "math_ad" in checks["unknown"]["said"]) == ("fail", True)
    assert "is not served" not in checks["unknown"]["said"]
    shutil.rmtree(configured.folder / "workflows")
    checks = {check["name"]: check for check in configured("doctor", "--json").json["checks"]}
    assert "there is no file or folder" in checks["composite tools"]["said"]


def test_nothing_is_configured(cli: CommandLine):
    cli.serve(one=["a_tool"])
    result = cli("composite", "list")
    assert result.code == 2
    assert "[composite_tools]" in result.err


def tool(name: str, **annotations: bool) -> dict[str, object]:
    schema = {"type": "object", "properties": {"of": {"type": "string"}}}
    return {"name": name, "inputSchema": schema, "annotations": annotations}


STEP = "name: {name}\ndescription: Calls a tool\nsteps:\n  - id: a\n    tool: {tool}\n    arguments: {{}}\n"
CALLS = "/*\n---\nname: {name}\ndescription: Calls a tool\n{header}---\n*/\nreturn await callTool('{tool}', {{}});\n"


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    """A server with a tool that is asked for, and one that access rules hide."""
    cli.serve(shop=[tool("look"), tool("wipe", destructiveHint=True), tool("refund")])
    config = cli.folder / "codecall.toml"
    rules = '[servers.shop.access]\ndeny = ["refund"]\n[composite_tools]\npaths = ["workflows"]\n'
    config.write_text(config.read_text() + rules)
    cli.write("workflows/step.yaml", STEP.format(name="step", tool="shop_wipe"))
    header = "allowedTools: [shop_wipe]\n"
    cli.write("workflows/script.js", CALLS.format(name="script", header=header, tool="shop_wipe"))
    cli.write("workflows/any.js", CALLS.format(name="any", header="", tool="shop_wipe"))
    assert cli("trust").code == 0
    return cli


@pytest.mark.parametrize("expose", ["auto", "never"])
def test_a_tool_that_is_asked_for_is_there(shop: CommandLine, expose: str):
    config = shop.folder / "codecall.toml"
    config.write_text(f'{config.read_text()}[expose]\nmode = "{expose}"\n')
    assert shop("trust").code == 0
    checked = shop("composite", "check")
    assert (checked.code, checked.out) == (0, "")
    assert shop("check", "workflows/step.yaml").code == 0
    checks = shop("doctor", "--json").json["checks"]
    said = [(check["verdict"], check["said"]) for check in checks if check["name"] == "composite tools"]
    assert said == [("ok", "any, script, step")]
    assert {check["name"] for check in checks}.isdisjoint(("step", "script", "any"))
    manifest = shop("composite", "run", "script", "--dry-run")
    assert manifest.code == 0, manifest.out
    for name in ("step", "script"):
        refused = shop("composite", "run", name)
        assert "hint: Run it at a terminal, where you are asked, or say --allow shop_wipe; which calls" in refused.err
        assert shop("composite", "run", name, "--allow", "shop_wipe").code == 0
    shop.write("workflows/step.yaml", STEP.format(name="step", tool="shop_wipe").replace("{}", "{of: [1]}"))
    (found,) = shop("composite", "check", "--json").json["findings"]
    assert "'shop_wipe' refuses it" in found["message"]


def test_a_tool_that_access_rules_hide_is_said_to_be_hidden(shop: CommandLine):
    for name, header in (("script", "allowedTools: [shop_refund]\n"), ("any", "")):
        shop.write(f"workflows/{name}.js", CALLS.format(name=name, header=header, tool="shop_refund"))
    spaced = CALLS.format(name="spaced", header="", tool="").replace("callTool('', {})", "shop.refund({})")
    shop.write("workflows/spaced.js", spaced)
    shop.write("workflows/step.yaml", STEP.format(name="step", tool="shop_refund"))
    found = shop("composite", "check", "--json").json["findings"]
    hidden = "the tool 'shop_refund' is hidden: it is in access.deny"
    assert sorted((Path(each["file"]).name, each["message"]) for each in found) == [
        ("any.js", hidden),
        ("script.js", hidden),
        ("spaced.js", hidden),
        ("step.yaml", hidden),
    ]
    checks = {check["name"]: check for check in shop("doctor", "--json").json["checks"]}
    assert hidden in checks["step"]["said"]
    assert checks["step"]["advice"] == "Have its server offer the tool, or mend the definition."


def test_tools_of_a_server_that_is_not_listed_are_not_known(shop: CommandLine):
    config = shop.folder / "codecall.toml"
    working = config.read_text()
    config.write_text(working.replace("args = [", "args = ['-c', 'raise SystemExit(1)', "))
    assert shop("trust").code == 0
    result = shop("composite", "check", "--no-cache")
    assert result.code == 1
    assert "it is not known whether there is a tool 'shop_wipe': Server 'shop' is not available: it en" in result.out
    assert "there is no tool" not in result.out
    assert "3 definitions checked without the tools of servers, 2 findings" in result.err
    checks = {check["name"]: check for check in shop("doctor", "--json").json["checks"]}
    assert checks["step"]["advice"] == "Have its server offer the tool, or mend the definition."
    config.write_text(working.replace("[servers.shop]\n", "[servers.shop]\nenabled = false\n"))
    assert shop("trust").code == 0
    result = shop("composite", "check")
    assert "it is not known whether there is a tool 'shop_wipe': the server shop is switched off" in result.out
