"""`codecall run`: the result on stdout and nothing else, the rest on stderr; and the drawing of calls."""

from __future__ import annotations

import json
import os

import pytest

from codecall.cli import exit_codes as exits
from codecall.cli.render import timeline
from codecall.gateway.tools import refresher
from tests.cli.conftest import CommandLine, CommandResult
from tests.cli.terminal import typed_at_terminal

SCRIPT = """
console.log('hello \\x1b[2J', codecallContext.who);
const all = await Promise.all([shop.list({ text: 'a' }), shop.list({ text: 'b' })]);
return all.map((one) => one.text);
"""


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    cli.serve(shop=["list"])
    cli.write("a.js", SCRIPT)
    return cli


def test_the_result_is_all_there_is_on_stdout(shop: CommandLine):
    result = shop("run", "a.js", "--context", '{"who": "ann"}')
    assert (result.code, result.out) == (exits.OK, '["a","b"]\n')
    assert result.err == "hello \\u{1B}[2J ann\n"


def test_a_forgotten_context_is_warned_of_with_its_option(shop: CommandLine):
    shop.write("b.js", "return [1, 2].filter((x) => x >= codecallContext.min).length;")
    result = shop("run", "b.js")
    assert (result.code, result.out) == (exits.OK, "0\n")
    assert "`codecallContext.min` on line 1 is undefined: the request brought no context: give it as" in result.err
    assert """`--context '{"…": …}'`.""" in result.err
    assert "codecallContext" not in shop("run", "b.js", "--context", '{"min": 2}').err


def test_on_a_terminal_there_is_a_timeline(shop: CommandLine):
    shop.write("who.json", '{"who": "bob"}')
    result = shop("run", "a.js", "--context", "@who.json", terminal=True)
    assert result.code == exits.OK
    assert result.err.count("shop_list") >= 2
    assert "█" in result.err or "▏" in result.err
    assert "shop_list" not in result.out


@pytest.mark.parametrize("call", ["callTool('shop_wipe', {})", "shop.wipe({})"])
def test_the_operator_is_told_of_a_tool_that_access_hides(cli: CommandLine, call: str):
    cli.serve(shop=["list", "wipe"])
    config = cli.folder / "codecall.toml"
    config.write_text(f'{config.read_text()}\n[servers.shop.access]\ndeny = ["wipe"]\n')
    assert cli("trust").code == exits.OK
    cli.write("a.js", f"return {call};")
    for words in (["run", "a.js"], ["check", "a.js"]):
        result = cli(*words)
        assert result.code == exits.FAILED
        assert "'shop_wipe' is hidden: `codecall tools --all` says why." in result.err + result.out, result


def test_a_first_start_that_is_slow_is_waited_for(shop: CommandLine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(refresher, "FIRST_WAIT_S", 0.0)
    result = shop("run", "a.js", "--context", "{}")
    assert (result.code, result.out) == (exits.OK, '["a","b"]\n'), result


def test_json_is_the_envelope_with_a_timeline(shop: CommandLine):
    document = shop("run", "a.js", "--context", "{}", "--json").json
    assert (document["status"], document["result"], document["logs"]) == ("ok", ["a", "b"], ["hello \x1b[2J undefined"])
    assert [(call["number"], call["name"], call["outcome"], call["line"]) for call in document["timeline"]] == [
        (1, "shop_list", "ok", 3),
        (2, "shop_list", "ok", 3),
    ]
    assert all(call["durationMs"] >= 0 for call in document["timeline"])


@pytest.fixture
def asked(cli: CommandLine) -> CommandLine:
    """The only tool may change something, for which a rule asks."""
    cli.serve(shop=["send"])
    config = cli.folder / "codecall.toml"
    config.write_text(config.read_text() + "[codecall]\napprovals = 'writes'\n")
    assert cli("trust").code == 0
    cli.write(
        "a.js", "const one = await shop.send({ text: 'a' });\nreturn [one.text, (await shop.send({ text: 'b' })).text]"
    )
    return cli


@pytest.mark.parametrize(
    ("typed", "code", "shown"),
    [
        ("yes\nyes\n", exits.OK, "May this tool be called?"),
        ("all\n", exits.OK, "Line of the script: 1"),
        ("yes\nno\n", exits.FAILED, "a person denied it"),
        ("y\nY\n", exits.OK, "May this tool be called?"),
        ("y\nn\n", exits.FAILED, "a person denied it"),
        ("A\n", exits.OK, "May this tool be called?"),
        ("Yes\nYES\n", exits.OK, "May this tool be called?"),
        ("s\n", exits.FAILED, "a person denied it"),
        ("maybe\ny\nn\n", exits.FAILED, "Please select one of the available options"),
        ("", exits.FAILED, "a person denied it"),
    ],
)
def test_the_person_at_the_terminal_is_asked(asked: CommandLine, typed: str, code: int, shown: str):
    result = asked("run", "a.js", terminal=True, stdin=typed)
    assert (result.code, shown in result.err) == (code, True), result.err
    # Whoever has said no does not read what a model is told.
    assert "ask the person" not in result.err
    assert ("Run the command again to be asked once more." in result.err) == (code == exits.FAILED)


def test_the_person_at_the_terminal_reads_nothing_that_is_for_a_model(asked: CommandLine):
    result = asked("run", "a.js", terminal=True, stdin="y\nn\n")
    assert "Do not make the call again" not in result.err
    assert "1 tool call had completed and is not undone: shop_send." in " ".join(result.err.split())


@pytest.mark.parametrize(
    ("keys", "code", "said"),
    [
        (["\x03"], exits.INTERRUPTED, "1 tool call was never started."),
        (["y\n", "\x03"], exits.INTERRUPTED, "1 tool call had completed and is not undone: shop_send; 1 tool call was"),
        (["\x04"], exits.FAILED, "a person denied it"),
    ],
    ids=["ctrl-c", "ctrl-c later", "ctrl-d"],
)
def test_ctrl_c_and_ctrl_d_at_a_question_make_no_call(asked: CommandLine, keys: list[str], code: int, said: str):
    asked.write("a.js", f"const long = '{'x' * 200}';\n" + (asked.folder / "a.js").read_text())
    ended, shown = typed_at_terminal(["run", "a.js"], keys, "(no)", asked.folder, dict(os.environ))
    assert ended == code, shown
    assert said in " ".join(shown.split())
    assert "may have taken effect" not in shown


def test_what_was_typed_before_a_question_is_shown_does_not_answer_it(asked: CommandLine):
    # The second line is typed with the first answer, which is read alone.
    ended, shown = typed_at_terminal(
        ["run", "a.js"], ["y\ny\n", "n\n"], "(no)", asked.folder, dict(os.environ), ahead="yes\nall\n"
    )
    assert ended == exits.FAILED, shown
    assert shown.count("Allow it?") == 2
    assert "1 tool call had completed and is not undone: shop_send." in " ".join(shown.split())


def test_calls_that_nobody_can_be_asked_for_are_allowed_by_name(asked: CommandLine):
    refused = asked("run", "a.js")
    assert refused.code == exits.FAILED
    assert 'to be allowed: shop_send of shop in line 1: {"text":"a"}' in refused.err
    assert "say --allow shop_send;" in refused.err
    assert asked("run", "a.js", "--allow", "shop_s*").out == '["a","b"]\n'
    assert "--allow shop" in asked("run", "a.js", "--json", "--allow", "x").json["error"]["hint"]


STAR = """
print("hello", who)
return parallel([lambda t=t: shop_list(text=t) for t in ["a", "b"]])
"""


def test_a_file_that_ends_in_star_is_starlark(shop: CommandLine):
    shop.write("a.star", STAR)
    result = shop("run", "a.star", "--context", '{"who": "ann"}')
    assert (result.code, result.err) == (exits.OK, "hello ann\n")
    assert [item["text"] for item in json.loads(result.out)] == ["a", "b"]
    shop.write("b.star", "x = 1\nreturn shop_list(1)\n")
    failed = shop("run", "b.star")
    assert (failed.code, failed.out) == (exits.FAILED, "")
    assert failed.err.startswith("b.star:2:18: VALIDATION_ERROR shop_list: tools take their input by name")
    shop.write("d.txt", "return [x for x in range(2)]\n")
    assert shop("run", "d.txt", "--language", "starlark").out == "[0,1]\n"
    shop.write("c.star", "return shop_list(text='x')['missing']\n")
    document = shop("run", "c.star", "--json")
    assert (document.json["status"], document.json["error"]["location"]["line"]) == ("runtime_error", 1)
    assert document.json["timeline"][0]["name"] == "shop_list"


def test_a_failure_is_a_picture_and_exit_code_1(shop: CommandLine):
    shop.write("b.js", "const a = await shop.list({});\nreturn a.missing.name;\n")
    result = shop("run", "b.js")
    assert (result.code, result.out) == (exits.FAILED, "")
    lines = result.err.splitlines()
    assert lines[0].startswith("b.js:2:")
    assert lines[0].partition(": ")[2].startswith("EXECUTION_ERROR")
    assert lines[1] == "    2 │ return a.missing.name;"
    assert any(line.startswith("  hint: ") for line in lines)
    document = shop("run", "b.js", "--json")
    assert (document.code, document.json["error"]["code"], document.json["calls"][0]["outcome"]) == (
        1,
        "EXECUTION_ERROR",
        "ok",
    )


def test_a_server_that_is_down_is_exit_code_3(shop: CommandLine):
    assert shop("tools").code == exits.OK
    (shop.folder / "shop.json").unlink()
    result = shop("run", "a.js", "--context", "{}")
    assert (result.code, result.out) == (exits.UNAVAILABLE, "")
    assert "a.js:3:" in result.err
    assert "SERVER_UNAVAILABLE Server 'shop' is not available" in result.err


def test_a_dry_run_runs_nothing(shop: CommandLine):
    result = shop("run", "a.js", "--dry-run")
    assert result.code == exits.OK
    assert json.loads(result.out)["manifest"]["tools"][0]["name"] == "shop_list"
    shop.write("b.js", "return await callTool('shop_lost', {})")
    wrong = shop("run", "b.js", "--dry-run")
    assert wrong.code == exits.FAILED
    assert "b.js:1:14: TOOL_NOT_FOUND" in wrong.err
    assert "tools/call" not in (shop.folder / "shop.json.log").read_text()


def test_limits_of_the_command_line(cli: CommandLine):
    cli.write("a.js", "let n = 0; while (n < 3) { n++ } return n")
    assert without(cli("run", "a.js", "--preset", "balanced")).out == "3\n"
    assert without(cli("run", "a.js")).code == exits.FAILED
    cli.write("b.js", "let n = 0; for (let i = 0; i < 1e9; i++) { n += 1 } return n")
    document = cli("run", "b.js", "--preset", "experimental", "--timeout", "0.001", "--json").json
    assert document["error"]["code"] in ("TIMEOUT", "ITERATION_LIMIT")


def without(result: CommandResult) -> CommandResult:
    """A run where no servers are configured."""
    assert "no servers are configured" in result.err
    return result


def test_standard_input_and_a_script_without_servers(cli: CommandLine):
    result = without(cli("run", "-", stdin="return { a: codecallContext }"))
    assert result.out == '{"a":{}}\n'


def test_a_large_result_is_whole(cli: CommandLine):
    cli.write("b.js", "return Array.from({ length: 9000 }, (_, i) => 'é'.repeat(60) + i)")
    document = cli("run", "b.js", "--json").json
    assert "largeResult" not in document
    assert (len(document["result"]), document["result"][-1]) == (9000, "é" * 60 + "8999")
    piped = cli("run", "b.js")
    assert json.loads(piped.out) == document["result"]
    shown = cli("run", "b.js", terminal=True)
    preview, count = shown.out, len(piped.out.encode())
    assert preview.startswith('["' + "é" * 60 + '0","')
    assert len(preview) < 3_000
    assert f"{count - 1:,} bytes" in shown.err
    assert '"type": "array"' in shown.err
    assert "codecall run … > result.json" in shown.err


def test_a_trace_is_written(shop: CommandLine):
    result = shop("run", "a.js", "--context", "{}", "--trace", "out.html")
    assert result.code == exits.OK
    assert result.err.endswith("trace: out.html\n")
    assert "shop_list" in (shop.folder / "out.html").read_text()
    wrong = shop("run", "a.js", "--trace", "no/such/folder.html", "--json")
    assert (wrong.code, wrong.json["error"]["code"]) == (exits.USAGE, "CANNOT_WRITE")
    (shop.folder / "taken").mkdir()
    taken = shop("run", "a.js", "--trace", "taken", "--json")
    assert (taken.code, taken.json["error"]["code"]) == (exits.USAGE, "CANNOT_WRITE")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("none.js",), "CANNOT_READ"),
        (("a.js", "--context", "{"), "USAGE"),
        (("a.js", "--context", "[1]"), "USAGE"),
        (("a.js", "--context", "@none.json"), "CANNOT_READ"),
        (("a.js", "--preset", "nosuch"), "INVALID_OPTIONS"),
    ],
)
def test_wrong_arguments(shop: CommandLine, words: tuple[str, ...], code: str):
    result = shop("run", *words, "--json")
    assert (result.code, result.json["error"]["code"]) == (exits.USAGE, code)


def call(number: int, start: float, duration: float | None, outcome: str = "ok", **more: object) -> dict[str, object]:
    return {
        "number": number,
        "name": f"tool_{number}",
        "startMs": start,
        "durationMs": duration,
        "outcome": outcome,
        **more,
    }


def test_bars_stand_where_calls_ran():
    drawn = timeline([call(1, 0, 50), call(2, 50, 50, "error", code="RATE_LIMIT")], 100, 80).plain.splitlines()
    assert drawn[0].split() == ["0", "100.0", "ms"]
    first, second = drawn[1].count("█"), drawn[2].count("█")
    assert first == second > 10
    assert drawn[1].index("█") + first == drawn[2].index("█")
    assert drawn[2].endswith("50.0 ms RATE_LIMIT")
    assert max(map(len, drawn)) <= 80


def test_calls_that_have_no_end_or_no_beginning():
    calls = [
        call(1, 10, None, "unfinished"),
        call(2, 90, 0.001, reused=True),
        {**call(3, 0, None, "not_started"), "startMs": None},
    ]
    drawn = timeline(calls, 100, 70).plain.splitlines()
    assert drawn[1].rstrip().endswith("unfinished")
    assert "▏" in drawn[2]
    assert drawn[2].endswith("reused")
    assert drawn[3].rstrip().endswith("not started")


def test_many_calls_are_told_by_their_number():
    drawn = timeline([call(number, number, 1) for number in range(1, 61)], 100, 70).plain.splitlines()
    assert len(drawn) == 52
    assert "and 10 more calls" in drawn[-1]


def test_pictures_are_named_or_written_to_a_folder(cli: CommandLine):
    cli.serve(shop=["picture"])
    cli.write("a.js", "const [block] = await shop.picture({}); emit(block); return block.bytes")
    named = cli("run", "a.js")
    assert (named.code, named.out) == (exits.OK, "5\n")
    assert named.err == "content: image (image/png, 5 bytes)\n--content FOLDER writes it to files\n"
    written = cli("run", "a.js", "--content", "shown", "--json").json
    assert written["content"] == [{"type": "image", "mimeType": "image/png", "bytes": 5, "file": "shown/1.png"}]
    assert (cli.folder / "shown" / "1.png").read_bytes() == b"\x89PNG\x00"
    (cli.folder / "file").write_text("")
    refused = cli("run", "a.js", "--content", "file")
    assert (refused.code, refused.out) == (exits.USAGE, "5\n")
    assert "content: image (image/png, 5 bytes): cannot write file/1.png: " in refused.err


def test_words_that_mean_nothing_are_said(cli: CommandLine):
    cli.serve(shop=["delete_order"])
    cli.write("a.js", "return getTool('shop_delete_order') === null ? 0 : 1")
    told = cli("run", "a.js", "--allow", "shop_deletOrder", "--allow", "shop_*")
    assert (told.code, told.out) == (0, "1\n")
    assert told.err == "--allow shop_deletOrder matches no tool that is known; did you mean shop_delete_order?\n"
    assert cli("run", "a.js", "--timeout", "0", "--json").json["error"]["message"].startswith("--timeout: more than 0")
    assert "codecall.toml" not in cli("run", "a.js", "--preset", "nope").err
