"""`codecall check`, and how places in scripts are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from codecall.cli import exit_codes as exits
from codecall.cli.render import source_excerpt
from tests.cli.conftest import CommandLine


def test_a_good_script_is_said_nothing_about(cli: CommandLine):
    cli.write("good.js", "const a = await git.status({ repo: 1 }); return await callTool('any thing', { a });")
    result = cli("check", "good.js")
    assert (result.code, result.out, result.err) == (exits.OK, "", "")


def test_without_servers_what_is_called_may_be_a_tool(cli: CommandLine):
    cli.write("a.js", "const rows = await orders_list({ limit: 1 });\nreturn rows.map(row => total(row));")
    told = cli("check", "a.js")
    assert (told.code, told.out, told.err) == (0, "", "")
    cli.write("b.js", "const total = 1;\nreturn [orders_list, totl(), print('x'), await orders_get()];")
    found = cli("check", "b.js", "--json").json["files"][0]["findings"]
    assert [each["message"] for each in found] == [
        "Unknown name 'orders_list'",
        "Unknown name 'totl'",
        "Identifier 'print' is not allowed in AgentScript",
    ]
    assert ["--config names a file with servers" in each["hint"] for each in found] == [True, False, False]


def test_findings_have_a_place_a_picture_and_a_hint(cli: CommandLine):
    cli.write("bad.js", "const x = 1;\n\treturn eval('日本') + process.env;\n")
    result = cli("check", "bad.js")
    assert result.code == exits.FAILED
    assert result.out.splitlines()[:4] == [
        "bad.js:2:9: VALIDATION_ERROR Identifier 'eval' is not allowed in AgentScript",
        "    2 │  return eval('日本') + process.env;",
        "      │         ^",
        "  hint: Write the code itself; what depends on data goes into functions, objects and `switch`.",
    ]
    # The mark counts cells: each of the two characters takes two.
    assert result.out.splitlines()[6] == f"      │ {' ' * 23}^"
    assert result.err == "1 script checked, 1 with 2 findings\n"


def test_json_has_every_finding_and_the_manifest(cli: CommandLine):
    cli.write("a.js", "return await callTool('x', {})")
    cli.write("b.ts", "let a: number = ;")
    result = cli("check", "a.js", "b.ts", "--json")
    assert result.code == exits.FAILED
    told = result.json
    assert set(told) == {"valid", "files", "leftOut"}
    assert [(item["path"], item["valid"]) for item in told["files"]] == [("a.js", True), ("b.ts", False)]
    assert told["files"][0]["manifest"]["tools"][0]["name"] == "x"
    assert told["files"][1]["findings"][0]["code"] == "SYNTAX_ERROR"


def test_variables_of_a_script_in_starlark_are_given_as_for_a_run(cli: CommandLine):
    cli.write("deps.star", "return [d for d in deps]\n")
    unknown = cli("check", "deps.star", "--json").json["files"][0]["findings"]
    assert [one["message"] for one in unknown] == ["'deps' is not defined"]
    assert "--context" in unknown[0]["hint"]
    assert "callTool" not in unknown[0]["hint"]
    assert cli("check", "deps.star", "--context", '{"deps": []}').code == exits.OK
    assert cli("check", "deps.star", "--context", "[]").code == exits.USAGE
    cli.serve(git=["status"])
    assert cli("check", "deps.star", "--context", '{"deps": []}').code == exits.OK


def test_starlark_is_known_by_its_suffix(cli: CommandLine):
    cli.write("s/good.star", "r = git_status(repo=1)\nreturn call_tool('any thing', a=r)\n")
    cli.write("s/bad.star", "x = 1\nreturn isinstance(x, open('y'))\n")
    cli.write("s/a.js", "return 1")
    told = cli("check", "s", "--json")
    assert told.code == exits.FAILED
    assert {Path(item["path"]).name: item["valid"] for item in told.json["files"]} == {
        "a.js": True,
        "bad.star": False,
        "good.star": True,
    }
    (bad,) = [item for item in told.json["files"] if not item["valid"]]
    assert [(one["message"], one["location"]["line"]) for one in bad["findings"]] == [
        ("'isinstance' is not defined", 2),
        ("'open' is not defined", 2),
    ]
    assert all(one["hint"] for one in bad["findings"])
    assert not any("callTool" in one["hint"] for one in bad["findings"])
    cli.write("d.txt", "return [x for x in range(2)]")
    assert cli("check", "d.txt", "--language", "starlark").code == exits.OK
    assert cli("check", "d.txt").code == exits.FAILED
    cli.serve(git=["status"])
    known = cli("check", "s/good.star", "--json")
    assert [one["message"] for one in known.json["files"][0]["findings"]] == ["Tool 'any thing' was not found"]


def test_folders_and_globs_stand_for_their_scripts(cli: CommandLine):
    for name in ("s/a.js", "s/deep/b.ts", "s/c.script.js", "s/.hidden/d.js", "s/node_modules/e.js", "s/f.txt"):
        cli.write(name, "return 1")
    told = cli("check", "s", "--json").json
    assert [Path(item["path"]).name for item in told["files"]] == ["a.js", "b.ts"]
    assert [Path(name).name for name in told["leftOut"]] == ["c.script.js"]
    told = cli("check", "s/**/*.ts", str(cli.folder / "s" / "*.js"), "--json").json
    assert [Path(item["path"]).name for item in told["files"]] == ["b.ts", "a.js", "c.script.js"]
    assert "left out" in cli("check", "s").err


def test_composite_tools_in_a_folder_are_checked_beside_its_scripts(cli: CommandLine):
    workflow = "kind: VirtualMCPCompositeToolDefinition\nspec:\n  name: w\n  description: d\n  steps:\n"
    cli.write("y/a.yaml", f"{workflow}    - {{id: a, tool: t}}\n")
    cli.write("y/ci.yml", "jobs: {build: {runs-on: x}}\n")
    good = cli("check", "y", "--json")
    assert (good.code, good.json["definitions"]) == (exits.OK, {"valid": True, "findings": [], "tools": ["w"]})
    cli.write("y/b.js", "return 1")
    cli.write("y/c.yaml", f"{workflow}    - {{id: a, tol: t}}\n")
    for names in (["y"], ["y/b.js", "y/c.yaml"]):
        told = cli("check", *names, "--json")
        assert told.code == exits.FAILED
        assert [item["valid"] for item in told.json["files"]] == [True]
        assert {Path(finding["file"]).name for finding in told.json["definitions"]["findings"]} == {"c.yaml"}
    assert "c.yaml" in cli("check", "y").out


def test_the_preset_decides(cli: CommandLine):
    cli.write("a.js", "let n = 0; while (n < 3) { n++ } return n")
    assert cli("check", "a.js", "--preset", "balanced").code == exits.OK
    assert cli("check", "a.js", "--preset", "secure").code == exits.FAILED
    assert cli("check", "a.js", "--preset", "none", "--json").json["error"]["code"] == "INVALID_OPTIONS"


def test_standard_input_is_a_script(cli: CommandLine):
    result = cli("check", "-", stdin="return eval(1)")
    assert result.code == exits.FAILED
    assert result.out.startswith("<stdin>:1:8: VALIDATION_ERROR")


def test_what_cannot_be_read_is_a_finding_and_hides_no_other(cli: CommandLine):
    (cli.folder / "a.js").write_bytes(b"\xff\xfe")
    cli.write("b.js", "return 1")
    told = cli("check", "a.js", "b.js", "--json").json
    assert [(item["valid"], [matches["code"] for matches in item["findings"]]) for item in told["files"]] == [
        (False, ["CANNOT_READ"]),
        (True, []),
    ]


@pytest.mark.parametrize("word", ["none.js", "*.js", "empty"])
def test_a_word_that_stands_for_nothing_is_an_error(cli: CommandLine, word: str):
    (cli.folder / "empty").mkdir()
    result = cli("check", word, "--json")
    assert result.code == exits.USAGE
    assert result.json["error"]["code"] == "CANNOT_READ"


def test_named_servers_are_checked_against(cli: CommandLine):
    cli.serve(shop=["list_orders"])
    cli.write("good.js", "return await shop.list_orders({ text: 'a' })")
    cli.write("bad.js", "return await callTool('shop_list_order', {})")
    told = cli("check", "good.js", "bad.js", "--config", "codecall.toml", "--json").json
    assert [item["valid"] for item in told["files"]] == [True, False]
    (matches,) = told["files"][1]["findings"]
    assert matches["code"] == "TOOL_NOT_FOUND"
    assert "shop_list_orders" in matches["hint"]


def test_an_argument_that_a_tool_does_not_name_is_warned_of(cli: CommandLine):
    cli.serve(shop=["list_orders"])
    cli.write("a.js", "return await shop.list_orders({ limit: 1 })")
    warning = "shop_list_orders has no parameter limit; it has text."
    told = cli("check", "a.js")
    assert told.code == 0
    assert f"a.js: {warning}" in " ".join(told.err.split())
    assert warning in cli("check", "a.js", "--json").json["files"][0]["warnings"][0]


def test_the_servers_of_the_folder_are_checked_against_as_run_does_it(cli: CommandLine):
    cli.serve(shop=["list_orders"])
    cli.write("bad.js", "await shop.list_orders({ text: 1 }); return await shop_list_order({})")
    told = cli("check", "bad.js", "--json")
    run = cli("run", "bad.js", "--dry-run", "--json").json["result"]
    (checked,) = told.json["files"]
    assert {key: checked[key] for key in ("valid", "findings")} == {key: run[key] for key in ("valid", "findings")}
    assert [each["code"] for each in checked["findings"]] == ["INVALID_INPUT", "VALIDATION_ERROR"]
    assert "tools['shop_list_orders']" in checked["findings"][1]["hint"]
    with (cli.folder / "codecall.toml").open("a") as file:
        file.write('\n[servers.other]\ncommand = "other"\n')
    untrusted = cli("check", "bad.js")
    assert "has changed since it was trusted" in " ".join(untrusted.err.split())
    assert "names and inputs of tools are not checked" in " ".join(untrusted.err.split())


def test_pictures_of_long_lines_and_of_no_lines():
    line = f"{'a' * 200}!{'b' * 200}"
    shown_text = source_excerpt(line, 1, 201).plain.splitlines()
    assert shown_text[0] == f"    1 │ …{'a' * 33}!{'b' * 32}…"
    assert shown_text[1].index("^") == shown_text[0].index("!")
    assert source_excerpt(line, 2, 1).plain == ""
    assert source_excerpt("\n \n", 2, 1).plain == ""
    assert source_excerpt("\x1b[2J!", 1, 5).plain.splitlines() == ["    1 │ \\u{1B}[2J!", "      │ " + " " * 9 + "^"]
