"""What models write by habit: every row of the tables has a script that comes to it, and names the way to write it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.starlark.mistakes import (
    EVALUATION,
    LINES,
    METHODS,
    OF_DICTS,
    OF_JSON,
    OF_TEXTS,
    SYNTAX,
    Mistake,
)
from codecall.sandbox.starlark.policy import (
    FOREIGN_NAMES,
    FOREIGN_WORDS,
    JAVASCRIPT_SENT,
    Foreign,
    reads_as_javascript,
    reads_as_starlark,
)
from tests.sandbox.starlark.test_engine import Host


def hint_of(script: str, data: dict[str, Any] | None = None) -> str | None:
    """The hint of a script that is refused or fails."""
    host = Host(
        say=lambda text="": text,
        lists=lambda: {"items": []},
        rows=lambda: [{"id": 1}, {"id": 2}],
        table=lambda: {"columns": ["time", "value"], "rows": [["10:00", 1.5, None], ["11:00", 2.5, None]]},
        names=lambda: ["Ann", "Bob"],
    )
    try:
        outcome = host.run(script, data=data).outcome
    except InvalidScriptError as refused:
        return refused.findings[0].hint
    assert outcome is not None
    assert outcome.failure is not None, outcome.value
    return outcome.failure.hint


@pytest.mark.parametrize("row", [*FOREIGN_WORDS, *FOREIGN_NAMES], ids=lambda row: row.name)
def test_a_word_from_elsewhere_is_said_to_be_one(row: Foreign) -> None:
    assert hint_of(row.probe) == row.instead


@pytest.mark.parametrize("row", [*LINES, *SYNTAX, *EVALUATION], ids=lambda row: row.probe)
def test_the_probe_comes_to_its_row(row: Mistake) -> None:
    if not row.probe:
        pytest.skip("takes a script as deep as the evaluator goes")
    assert hint_of(row.probe) == row.instead


@pytest.mark.parametrize(
    ("owner", "method", "instead"),
    [
        *(("[1]", name, instead) for name, instead in METHODS.items() if name != "append"),
        *(("''", name, instead) for name, instead in OF_TEXTS.items()),
        *(("{}", name, instead) for name, instead in OF_DICTS.items()),
        *(("json", name, instead) for name, instead in OF_JSON.items()),
    ],
)
def test_a_method_from_elsewhere_is_said_to_be_one(owner: str, method: str, instead: str) -> None:
    assert hint_of(f"return {owner}.{method}(1)") == f"Instead of `{method}` write: {instead}."


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        ('name = "Ann"\nreturn say(text=f"hello {name}")', "There are no such literals"),
        ("if lists()['items'] && True:\n  pass", "Write `and`."),
        ("for x in [1]:\n  print(x)\nelse:\n  print(2)", "A loop has no `else`: "),
        ("if 1:\n  pass\nx = 1\nelif 2:\n  pass", "Put it under its `if`, indented as far as that."),
        ("x = {}\nreturn x.name", "Use brackets"),
        ("return None.get('a')", "The value is None"),
        ("return say(text='{}')['a']", "If the text holds JSON, json.decode(text)"),
        ("return {'a': 1, **lists()}", "Join dicts with `|`"),
        ("return parallel([lambda: {}['a']])", "Read with value.get("),
        ("return parallel([lambda: say(text='a'), lambda: fail('odd')])", 'lambda: try_call("name", …)'),
        ("return [r['id'] for r in lists()]", "A loop over a dict gives its keys"),
        ("a, b = [1, 2, 3]", "as many names on the left"),
        ("return None < 1", "The value is None"),
        ("return type(1) == int", 'type(x) == "int"'),
        ("return [x for x in [1] if str != type(x)]", 'type(x) == "string"'),
        ("n = 0\ndef f():\n  n += 1\nf()", "does not change variables outside"),
        ("return [1].map(x => x)", "lambda x: x + 1"),
        ('return call_tool(name="say")', "The tool comes first"),
        ("return unknown(1)", None),
        ("total = 0\ntotal += say(text='99.5')", "A number in a text is float(x)"),
        ("return say(text='99.5') - 50", "A number in a text is float(x)"),
        ("return say(text='99.5') > 50", "A number in a text is float(x)"),
        ("return sum([say(text='99.5')])", "sum([float(x) for x in items])"),
        ("return lists()['contacts']", 'The keys are "items". The list is value["items"].'),
        ("return parallel([lambda: lists()['itmes']])", 'Did you mean value["items"]?'),
        (
            "return rows()['result']",
            'What a tool returns is not wrapped: leave ["result"] out. It is a list, no dict: value[0]["key"] reads',
        ),
        (
            'r = try_call("rows")["value"]\nreturn r["items"]',
            'leave ["items"] out. It is a list, no dict: value[0]["key"]',
        ),
        (
            "return parallel([lambda: names()['data']])",
            'leave ["data"] out. It is a list of texts, no dict: its items are read by number, such as value[0].',
        ),
        ("return [{'name': 1}]['name']", '[x["key"] for x in value] all.'),
        ("return [][{}]", None),
        ("return [][None]", None),
        ("return try_call('none')['value']['a']", 'The call failed, so there is no value: look at value["ok"] first'),
        ("return {'ok': False, 'error': {'code': 'GONE'}}['value']", 'The call failed ("GONE"), so there is no value'),
        ("return {'ok': True, 'error': 1}['value']", 'The keys are "ok", "error".'),
        ("return call_tool('try_call')", "`try_call` is a function of the script, not a tool: write try_call(…)."),
        ("return lists()[0]", 'It is a dict, no list; its keys are "items". The list is value["items"].'),
        ("return {1: 'a'}[2]", "its keys are 1. Read with value.get("),
        ("return json.decode('{\"\\\\u202e\": 1}')['a']", "Read with value.get("),
        ("return parallel(lambda: say(), lambda: say())", "parallel([lambda: a(x=1), lambda: b()])"),
        (f"fail('{'NoneType ' * 1_000}')", None),
    ],
)
def test_scripts_as_models_write_them(script: str, hint: str | None) -> None:
    found = hint_of(script)
    assert found is None if hint is None else hint in (found or "")


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        (
            "t = table()\nreturn [r['value'] for r in t['rows']]",
            "It is a list of texts and numbers, no dict: its items are read by number, such as value[0].",
        ),
        (
            "return table()['rows']['value']",
            "It is a list of lists, no dict: its items are read by number, such as value[0].",
        ),
        ("return lists()['items']['result']", "It is a list, no dict: its items are read by number, such as value[0]."),
        ("return [{'data': 1}]['data']", 'It is a list, no dict: value[0]["key"] reads one item, '),
        ("return parallel([lambda: []['data']])", "It is a list, no dict: its items are read by number"),
        ("return ('a', 1)['data']", "It is a list, no dict: its items are read by number"),
    ],
)
def test_what_a_list_has_is_said_of_its_items(script: str, hint: str) -> None:
    """That nothing is wrapped around it is said of answers as a whole alone."""
    assert (hint_of(script) or "").startswith(hint)


@pytest.mark.parametrize(
    "script",
    [
        "const w = await wards();\nreturn w",
        "let total = 0;\nfor (const x of [1]) { total += x }\nreturn total",
        "return [1].map((x) => `${x}`)",
        "// all of them\nreturn callTool('say', {});",
    ],
)
def test_javascript_is_said_to_be_javascript(script: str) -> None:
    assert (hint_of(script) or "").startswith(JAVASCRIPT_SENT)


@pytest.mark.parametrize("row", [*FOREIGN_WORDS, *LINES, *SYNTAX], ids=lambda row: row.probe)
def test_one_sign_of_javascript_does_not_make_it(row: Foreign | Mistake) -> None:
    assert not reads_as_javascript(row.probe)


@pytest.mark.parametrize("mark", ["const x ", "for x,", "lambda x ", "function ", "} ", "def f(", "await ", "\n "])
def test_telling_the_language_takes_no_time(mark: str) -> None:
    began = time.process_time()
    assert not (reads_as_javascript(mark * 30_000) and reads_as_starlark(mark * 30_000))
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("script", "data", "hint"),
    [
        ("return data['rows']", {"rows": [1]}, "The keys of `data` are variables: write `rows`."),
        ("return context['a']", {"a": 1, "b": 2}, "The keys of `data` are variables: write `a`, `b`."),
        ("return data", {f"k{n}": n for n in range(30)}, "`k19` and 10 more."),
        ("return data", None, "This call has no `data`"),
        ("return row", {"rows": [1]}, "Did you mean `rows`?"),
        ("total = 1\nreturn totl", None, "Did you mean `total`?"),
        ("def f():\n  inner = 1\nf()\nreturn inner", None, "known only inside the function or comprehension"),
        ("x = [i for i in range(3)]\nreturn i", None, "known only inside the function or comprehension"),
        ("data = 1\nreturn dta(data)", None, "Did you mean `data`?"),
    ],
)
def test_a_name_that_is_unknown_is_compared_with_data_and_variables(
    script: str, data: dict[str, Any] | None, hint: str
) -> None:
    assert hint in (hint_of(script, data) or "")
