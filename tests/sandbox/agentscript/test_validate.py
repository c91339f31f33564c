"""From a script as sent to one that may run: fences, JavaScript, TypeScript, and which refusal is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.checked import Finding, InvalidScriptError
from codecall.sandbox.agentscript.policy import TYPE_PLACES, VARIANTS, Rules
from codecall.sandbox.agentscript.validate import validate_javascript, validate_script
from codecall.sandbox.enclave import Enclave
from codecall.testing import read_programs

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
HERE = Path(__file__).parent
HONEST = [*HERE.glob("honest.script.js"), *(HERE.parents[2] / "tests_security" / "honest").glob("*.script.js")]


def finding(script: str, rules: Rules = EVERYTHING) -> Finding:
    """The first thing that is wrong with `script`."""
    with pytest.raises(InvalidScriptError) as error:
        validate_script(script, rules)
    return error.value.first


@pytest.mark.parametrize("file", HONEST, ids=lambda file: file.stem)
def test_javascript_runs_as_it_was_sent(file: Path):
    for program in read_programs(file):
        try:
            expected = validate_javascript(program.source, EVERYTHING)
        except InvalidScriptError:
            continue
        assert validate_script(program.source, EVERYTHING) == (program.source, expected)


# ---------------------------------------------------------------------------------------------------------------------
# Fences

FENCED = {
    "```js\nreturn 1\n```": "     \nreturn 1\n   ",
    "```\nreturn 1\n```\n": "   \nreturn 1\n   \n",
    "\n  ```typescript\nconst a: 1 = 1\n  ```  \n": "\n               \nconst a    = 1\n       \n",
    "~~~ts\nreturn 1\n~~~": "     \nreturn 1\n   ",
    "````js title=1\r\nreturn '```'\r\n`````\r\n": "              \r\nreturn '```'\r\n     \r\n",
    "```js\n```": "     \n   ",
    "~~~\nreturn `\n~~~\n`\n~~~": "   \nreturn `\n~~~\n`\n   ",
}


@pytest.mark.parametrize(("script", "text"), FENCED.items(), ids=FENCED)
def test_a_fence_around_the_script_becomes_blanks(script: str, text: str):
    assert validate_script(script, EVERYTHING).text == text


@pytest.mark.parametrize(
    "script",
    [
        "Here is the script:\n```js\nreturn 1\n```",
        "Script:\n```js\nreturn 1\n```",
        "```js\nreturn 1\n```\nIt returns 1.",
        "```js\nreturn 1\n```\nand\n```js\nreturn 2\n```",
        "```js\nreturn 1\n",
        "```js return 1 ```",
        "```",
        "```js\nreturn 1\n``",
        "````js\nreturn 1\n```",
    ],
)
def test_other_fences_are_refused_with_a_hint(script: str):
    assert finding(script).hint == VARIANTS["called text"].instead


@pytest.mark.parametrize("script", ["return `a\n~~~\n`", "return `\n\\`\\`\\`js\n\\`\\`\\`\n`", "/*\n```js\n```\n*/ 1"])
def test_fences_in_texts_and_comments_stay(script: str):
    assert validate_script(script, EVERYTHING).text == script


@pytest.mark.parametrize("hidden", ["\u202e", "\u2028", "\u00a0", "\0", "\ud800"])
@pytest.mark.parametrize("place", ["{}```js\nreturn 1\n```", "```js{}\nreturn 1\n```", "```js\nreturn 1\n```{}"])
def test_nothing_hides_around_a_fence(hidden: str, place: str):
    with pytest.raises(InvalidScriptError):
        validate_script(place.format(hidden), EVERYTHING)


# ---------------------------------------------------------------------------------------------------------------------
# JavaScript or TypeScript


def test_calls_with_types_that_javascript_would_compare():
    for script, text in {
        "return new Set<Date>([])": "return new Set      ([])",
        "class A {}; return callTool<A>('a')": "class A {}; return callTool   ('a')",
        "return new Map<Date, Error[]>()": "return new Map               ()",
        "return callTool<Map<String, Date>>('a')": "return callTool                   ('a')",
        "return callTool<undefined | null>('a')": "return callTool                  ('a')",
        "return new Set<string>(['a'])": "return new Set        (['a'])",
        "return 2 * await callTool<Number>('a', {})": "return 2 * await callTool        ('a', {})",
        "return 2 * await callTool<number>('a', {})": "return 2 * await callTool        ('a', {})",
        "return !callTool<{ at: Date }>('a')": "return !callTool              ('a')",
        "class user {}; return 1 + callTool<user>('a')": "class user {}; return 1 + callTool      ('a')",
        "const f = x => x; return f<Number>(1) * 2 + f<Number>(2)": (
            "const f = x => x; return f        (1) * 2 + f        (2)"
        ),
        "const f = Math.max, a = 1; return f(a < f<Date, Date>(1))": (
            "const f = Math.max, a = 1; return f(a < f            (1))"
        ),
    }.items():
        assert validate_script(script, EVERYTHING).text == text


@pytest.mark.parametrize(
    "script",
    [
        "const a = 1, b = 2, c = 3; return [a < b, b > (c)]",
        "const a = 1, b = 2, c = 3; return Math.max(a<b, c>(b))",
        "const N = 3; for (let i = 0; i<N && N>(i); i++) {}",
        "const a = 1, b = 2, c = 3, d = 4; return a < b && c > (d)",
        "const n = 3, x = 1, y = 2; for (let i=0;i<n;i++) if (x > (y)) return i",
        "const a = 1, b = 2, c = 3; return a < b ? a : b > (c)",
        "const a = 1, b = 2, c = 3; return a < b + c === c > (a)",
        "const a = 1, b = 2, c = 3; return a < b >> (c)",
        "return 'f<Number>(1)'; // f<Number>(2)",
    ],
)
def test_comparisons_stay(script: str):
    assert validate_script(script, EVERYTHING).text == script


def test_the_javascript_refusal_is_told_where_there_are_no_types():
    assert finding("const a = eval;").message == "Identifier 'eval' is not allowed in AgentScript"
    assert finding("const a = ;").column == 11
    assert finding("const a = '\u202e'; const b: string = 1").kind == "UnsafeSource"


@pytest.mark.parametrize(
    ("script", "line", "column", "said"),
    [
        ("const a: number = 1;\nconst b: any = = 2;", 2, 16, "Unexpected token ="),
        ("interface A { b: string }\nreturn c", 2, 8, "Unknown name 'c'"),
        ("const a: string = 'b';\n\tenum C { D }", 2, 2, "Syntax 'enum'"),
        ("const a: any = '😀😀'; const b: Function = eval;", 1, 42, "Identifier 'eval'"),
        ("const f = (a: number) => a;\nreturn [f(1), f(2;", 2, 18, "Unexpected token ;"),
    ],
)
def test_errors_point_at_what_was_sent(script: str, line: int, column: int, said: str):
    first = finding(script)
    assert (first.line, first.column) == (line, column), first
    assert first.message.startswith(said)


@pytest.mark.parametrize(
    "script",
    [
        "const f = 1, A = [2]; return f<A\n[0]>(1)",
        "const f = 1, A = [2]; return f<A\n[number]>(1)",
    ],
)
def test_calls_with_types_never_run_as_comparisons(script: str):
    assert finding(script).hint == TYPE_PLACES["type arguments in the way"].instead


@pytest.mark.parametrize("field", ["a = null as any;", "a = 1 satisfies number", "static a = <any>1 as string; b = 2"])
def test_fields_with_asserted_values(field: str):
    source = validate_script(f"class A {{ {field} }}", EVERYTHING)
    assert "any" not in source.text
    assert "satisfies" not in source.text


@pytest.mark.parametrize("members", ["a = 1 b = 2", "a b", "static a b() {}", "#a b", "a = 1 #b", "a get b() {}"])
def test_members_behind_a_field_need_a_semicolon_or_a_line(members: str):
    first = finding(f"class A {{ {members} }}")
    assert first.code == "SYNTAX_ERROR"
    assert "regular expression" not in (first.hint or "")


@pytest.mark.parametrize("members", ["a = 1\nb = 2", "a\nb", "a;b(){}", "static a\n#b\nc", "get\n*set(){}"])
def test_members_behind_a_field(members: str):
    script = f"class A {{ {members} }}"
    assert validate_script(script, EVERYTHING).text == script


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*"a1<>(){}[]:;,=?!|`~ \n\ré", "as ", "type ", "```", "~~~", "return "]), max_size=60))
def test_whatever_is_sent_is_judged_in_place(tokens: list[str]):
    script = "".join(tokens)
    findings: list[Finding] = []
    try:
        source = validate_script(script, EVERYTHING)
    except InvalidScriptError as error:
        findings = error.findings
    else:
        assert len(source.text) == len(script)
        assert validate_javascript(source.text, EVERYTHING) == source.checked
    lines = script.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for item in findings:
        assert 1 <= item.line <= len(lines)
        assert 1 <= item.column <= len(lines[item.line - 1]) + 1


# ---------------------------------------------------------------------------------------------------------------------
# Through a worker

TYPED = """```ts
import type { Other } from "./types";

interface User { id: string; name?: string; tags: readonly string[] }
type Page<T> = { items: T[]; next: string | null };

async function all<T extends object>(name: string, input: Record<string, unknown> = {}): Promise<T[]> {
  const page = await callTool<Page<T>>(name, input) as Page<T>;
  return page.items satisfies T[];
}

abstract class Named<T = string> {
  protected readonly of: Map<string, T> = new Map<string, T>();
  constructor(items: T[], key: (item: T) => string) {
    for (const item of items) this.of.set(key(item), item);
  }
  abstract label(): string;
}
class Users extends Named<User> implements Iterable<User> {
  static count?: number;
  label(): string { return [...this.of.values()].map((user): string => user.name!).join(", ") }
  *[Symbol.iterator](): Iterator<User> { yield* this.of.values() }
}

const users = new Users(await all<User>("users:list"), (user: User) => user.id);
const first = <User>[...users][0];
return { label: users.label(), first: (first as any).id, tags: first!.tags?.length } as const;
```
"""


USERS: list[object] = [{"id": "u1", "name": "Ada", "tags": ["a"]}, {"id": "u2", "name": "Bo", "tags": []}]


def answers(name: str, arguments: dict[str, object]) -> object:
    del name, arguments
    return {"items": USERS, "next": None}


async def test_a_script_with_types_runs(enclave: Enclave):
    result = await enclave.execute(TYPED, tool_handler=answers)
    assert result.error is None
    assert result.value == {"label": "Ada, Bo", "first": "u1", "tags": 1}


async def test_a_failure_points_at_what_was_sent(enclave: Enclave):
    script = "interface A { b?: { c: number } }\nconst a = {} as A;\nconst d: number = (a as Required<A>).b!.c;"
    text = validate_script(script, EVERYTHING).text
    result, javascript = [await enclave.execute(sent) for sent in (script, text)]
    assert result.error is not None
    assert result.status == "runtime_error"
    location = result.error.location
    assert location is not None
    assert location.line == 3
    assert location == (javascript.error and javascript.error.location)


async def test_a_refusal_points_at_what_was_sent(enclave: Enclave):
    result = await enclave.execute("type A = string;\nconst a: A = 'b';\nenum B { C }\nreturn a;")
    assert result.status == "illegal_access"
    assert result.error is not None
    location = result.error.location
    assert location is not None
    assert (location.line, location.column) == (3, 1)


@pytest.mark.parametrize("fork_server", [True, False])
async def test_types_are_erased_under_the_whole_jail(fork_server: bool):
    async with Enclave(preset="locked_down", pool={"fork_server": fork_server, "max_workers": 1}) as jailed:
        deep = "let a = " + "f<a,\n" * 9_000
        for script in ("const a: number = 1; return a as number", "const a: number = ; 1", deep):
            result = await jailed.execute(script)
            assert result.status == ("ok" if "return" in script else "syntax_error"), result.error
