"""What hints tell a script to write is run here, over several values, and compared with what Python gives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from codecall.sandbox.starlark.mistakes import METHODS, OF_DICTS, OF_JSON, OF_TEXTS
from codecall.sandbox.starlark.policy import FOREIGN_NAMES
from tests.sandbox.starlark.test_engine import Host, value
from tests.sandbox.starlark.test_mistakes import hint_of


class Formula(NamedTuple):
    """Something that hints tell a script to write."""

    written: str
    """It, as it stands in the hints."""
    variables: str
    """The variables in it."""
    python: Callable[..., object]
    """What Python gives of the same values."""
    values: Sequence[tuple[object, ...]]
    """Values for the variables."""
    probes: Sequence[str]
    """What is told so."""
    script: str = "y = {}"
    """What stands around it, and assigns `y`."""


X = [0, 7, -7, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 2.7, -2.7, 1.005, 2.675, -2.675, 0.125, -0.001, 1e-9, 3e15, 123456.789]
NUMBERS = [(x,) for x in X]
TEXTS = [
    (text,) for text in ("", "7", "-7", "+7", "-", "--7", "abcdefg", "é", " 12 ", "1.5", "-1.5", "1.2.3", ".", "x")
]
PADDED = [(text, n) for (text,) in TEXTS for n in (0, 1, 4, 5, 8)]
LISTS = [([3, 1, 2],), ([-1, -2],), (["b", "a"],), ([],)]
FILLED = LISTS[:3]
DICTS = [({"a": 1, "b": [2]},), ({},)]
JSON = [([1, {"a": [None, 1.5, "é"]}],), ("a",)]


def number(kind: Callable[[str], object], text: str) -> object:
    """A number; None of what is none, and of those with a `+`."""
    try:
        return None if "+" in text else kind(text)
    except ValueError:
        return None


def same(x: object) -> object:
    return x


FORMULAS = (
    Formula("int(fixed(x, 0))", "x", round, NUMBERS, ["round(1)"]),
    Formula("float(fixed(x, 2))", "x", lambda x: round(float(x), 2), NUMBERS, ["round(1, 2)"]),
    Formula(
        "fixed(x, 2)",
        "x",
        lambda x: f"{x:.2f}",
        NUMBERS,
        ["'%.2f' % 1", "'{:.2f}'.format(1)", "'{0:8.2f}'.format(1)", "format(1, '.2f')"],
    ),
    Formula('fixed(100 * x, 1) + "%"', "x", lambda x: f"{x:.1%}", NUMBERS, ["'{:.1%}'.format(1)"]),
    Formula(
        "fixed(x, n)", "x n", lambda x, n: f"{x:.{n}f}", [(x, n) for x in X for n in (0, 1, 5, 14)], ["(1).toFixed(1)"]
    ),
    Formula(
        "grouped(str(x))",
        "x",
        lambda x: f"{x:,}",
        [(x,) for x in (0, 999, -999, 1000, -123456, 10**12, 1234.5, -0.5)],
        ["'{:,}'.format(1)"],
    ),
    Formula("grouped(fixed(x, 2))", "x", lambda x: f"{x:,.2f}", NUMBERS, ["'{:,.2f}'.format(1)"]),
    Formula("str(x)", "x", str, [*NUMBERS[:12], ("a",)], ["format(1)", "(1).toString()"]),
    Formula("int(x // 1)", "x", math.floor, NUMBERS, ["math.floor(1)", "Math.floor(1)"]),
    Formula("-int(-x // 1)", "x", math.ceil, NUMBERS, ["math.ceil(1)", "Math.ceil(1)"]),
    Formula("int((x + 0.5) // 1)", "x", lambda x: math.floor(x + 0.5), NUMBERS, ["Math.round(1)"]),
    Formula(
        "(x // y, x % y)",
        "x y",
        lambda x, y: list(divmod(x, y)),
        [(7, 2), (-7, 2), (7, -2), (-7.5, 2)],
        ["divmod(1, 2)"],
    ),
    Formula(
        "for _ in range(n): y *= x",
        "x n",
        lambda x, n: x**n,
        [(2, 0), (2, 5), (-3, 3), (1.5, 2)],
        ["pow(1, 2)", "1 ** 2"],
        "y = 1\n{}",
    ),
    Formula(
        '" " * (n - len(text)) + text',
        "text n",
        str.rjust,
        PADDED,
        ["'a'.rjust(1)", "'a'.padStart(1)", "'%5s' % 1", "'{:>5}'.format(1)", "'{a:>5}'.format(a=1)"],
    ),
    Formula(
        'text + " " * (n - len(text))',
        "text n",
        str.ljust,
        PADDED,
        ["'a'.ljust(1)", "'a'.padEnd(1)", "'%-5s' % 1", "'{:<5}'.format(1)"],
    ),
    Formula("center(text, n)", "text n", str.center, PADDED, ["'a'.center(1)"]),
    Formula("zfill(text, n)", "text n", str.zfill, PADDED, ["'a'.zfill(1)"]),
    Formula(
        'int(text.strip()) if text.strip().removeprefix("-").isdigit() else None',
        "text",
        lambda text: number(int, text),
        TEXTS,
        ["int('a')", "int('')"],
    ),
    Formula(
        'float(text) if text.strip().removeprefix("-").replace(".", "", 1).isdigit() else None',
        "text",
        lambda text: number(float, text),
        TEXTS,
        ["float('a')"],
    ),
    Formula(
        "items = sorted(items, key=lambda x: x)", "items", sorted, LISTS, ["[].sort()", "[].sortBy(1)"], "{}\ny = items"
    ),
    Formula("sorted(items, key=lambda x: x)", "items", sorted, LISTS, ["[].toSorted()"]),
    Formula("items = reversed(items)", "items", lambda items: items[::-1], LISTS, ["[].reverse()"], "{}\ny = items"),
    Formula("reversed(items)", "items", lambda items: items[::-1], LISTS, ["[].toReversed()"]),
    Formula("items.append(x)", "items x", lambda items, x: [*items, x], [([], 1)], ["[].push(1)"], "{}\ny = items"),
    Formula("a + b", "a b", lambda a, b: a + b, [([1], [2]), ("a", "b")], ["[].concat([1])"]),
    Formula("len(x)", "x", len, LISTS, ["[].size", "'a'.length"]),
    Formula("list(items)", "items", same, LISTS, ["[].copy()"]),
    Formula("dict(value)", "value", same, DICTS, ["{}.copy()"]),
    Formula("list(x)", "x", same, LISTS, ["copy.copy(1)"]),
    Formula("dict(x)", "x", same, DICTS, ["copy.copy(1)"]),
    Formula("json.decode(json.encode(x))", "x", same, JSON, ["deepcopy(1)", "copy.deepcopy(1)"]),
    Formula(
        '", ".join([str(x) for x in items])',
        "items",
        lambda items: ", ".join(map(str, items)),
        LISTS,
        ["[].join(',')", "','.join([1])"],
    ),
    Formula(
        "x[a:b]",
        "x a b",
        lambda x, a, b: x[a:b],
        [([1, 2, 3], a, b) for a in (-2, 0, 1) for b in (-1, 2, 9)],
        ["[].slice(1)", "'a'.substring(1)"],
    ),
    Formula(
        "x[a:a + n]", "x a n", lambda x, a, n: x[a : a + n], [("abcdef", 2, 3), ("abc", 1, 9)], ["'a'.substr(1, 2)"]
    ),
    Formula("items[0]", "items", lambda items: items[0], FILLED, ["[].first", "[].get(0)", "[].head()"]),
    Formula("items[-1]", "items", lambda items: items[-1], FILLED, ["[].last", "[].tail()"]),
    Formula("items[:n]", "items n", lambda items, n: items[:n], [([1, 2, 3], 2), ([], 2)], ["[].head(2)"]),
    Formula("items[1:]", "items", lambda items: items[1:], LISTS, ["[].tail()"]),
    Formula("x in items", "x items", lambda x, items: x in items, [(1, [1]), (1, []), ("a", "ba")], ["[].includes(1)"]),
    Formula(
        "[f(x) for x in items]",
        "items",
        lambda items: [-len(items), *items],
        FILLED,
        ["map(1)", "[].map(1)"],
        "f = lambda x: x\ny = [-len(items)] + {}",
    ),
    Formula(
        "[x for x in items if f(x)]",
        "items",
        lambda items: [x for x in items if x == 1],
        FILLED,
        ["filter(1)"],
        "f = lambda x: x == 1\ny = {}",
    ),
    *(
        Formula(
            written,
            "items condition",
            python,
            [(items, condition) for (items,) in LISTS for condition in (True, False)],
            probes,
        )
        for written, python, probes in (
            ("[x for x in items if condition]", lambda items, c: [x for x in items if c], ["[].filter(1)"]),
            (
                "([x for x in items if condition] or [None])[0]",
                lambda items, c: next((x for x in items if c), None),
                ["[].find(1)", "next([])"],
            ),
            ("any([condition for x in items])", lambda items, c: any(c for _ in items), ["[].some(1)"]),
            ("all([condition for x in items])", lambda items, c: all(c for _ in items), ["[].every(1)"]),
        )
    ),
    Formula("sum(items)", "items", sum, LISTS[:2], ["[].reduce(1)", "[].sum()"]),
    Formula("x.find(y)", "x y", str.find, [("abc", "c"), ("abc", "x")], ["'a'.indexOf('a')"]),
    Formula(
        "x.index(y) if y in x else -1",
        "x y",
        lambda x, y: x.index(y) if y in x else -1,
        [([1, 2], 2), ([1, 2], 3)],
        ["[].indexOf(1)"],
    ),
    Formula("text.strip()", "text", str.strip, TEXTS, ["'a'.trim()"]),
    Formula("text.lower()", "text", str.lower, [("AÉb",)], ["'a'.toLowerCase()"]),
    Formula("text.upper()", "text", str.upper, [("AÉb",)], ["'a'.toUpperCase()"]),
    Formula("text.isdigit()", "text", str.isnumeric, TEXTS, ["'a'.isnumeric()"]),
    Formula('text.startswith("x")', "text", lambda text: text.startswith("x"), TEXTS, ["'a'.startsWith('x')"]),
    Formula('text.endswith("x")', "text", lambda text: text.endswith("x"), TEXTS, ["'a'.endsWith('x')"]),
    Formula('text.replace("a", "b")', "text", lambda text: text.replace("a", "b"), TEXTS, ["'a'.replaceAll('a', 'b')"]),
    Formula(
        "text.format(**values)",
        "values",
        lambda values: "{a}{b}".format(**values),
        [({"a": 1, "b": "x"},)],
        ["'a'.format_map({})"],
        'text = "{{a}}{{b}}"\ny = {}',
    ),
    Formula("value.items()", "value", lambda value: list(map(list, value.items())), DICTS, ["{}.iteritems()"]),
    Formula('"key" in value', "value", lambda value: "key" in value, [*DICTS, ({"key": 0},)], ["{}.has_key('a')"]),
    Formula('json.decode(text)["key"]', "text", lambda text: 1, [('{"key": 1}',)], ["'a'.get('a')", "'a'.items()"]),
    Formula("json.decode(text)", "text", lambda text: [1], [("[1]",)], ["json.loads('1')", "JSON.parse('1')"]),
    Formula("json.encode(value)", "value", lambda value: "[1]", [([1],)], ["json.dumps(1)", "JSON.stringify(1)"]),
    Formula(
        "counts[key] = counts.get(key, 0) + 1",
        "counts key",
        lambda counts, key: counts | {key: 1 + counts.get(key, 0)},
        [({}, "a"), ({"a": 1}, "a")],
        ["Counter([1])", "collections.Counter()"],
        "{}\ny = counts",
    ),
    Formula(
        "groups.setdefault(key, []).append(x)",
        "groups key x",
        lambda groups, key, x: groups | {key: [*groups.get(key, []), x]},
        [({}, "a", 1), ({"a": [1]}, "a", 2)],
        ["defaultdict(list)"],
        "{}\ny = groups",
    ),
    Formula(
        'type(x) == "string"', "x", lambda x: isinstance(x, str), [("a",), (1,), ([],), (None,)], ["isinstance(1, str)"]
    ),
    Formula(
        'type(x) in ("function", "builtin_function_or_method")',
        "",
        lambda: [True, True, False],
        [()],
        ["callable(1)"],
        "y = [{} for x in (len, lambda: 1, 1)]",
    ),
    Formula(
        "value.pop(key)", "value key", lambda value, key: {}, [({"a": 1}, "a")], ["delattr(1, 2)"], "{}\ny = value"
    ),
    Formula(
        "value[key] = x",
        "value key x",
        lambda value, key, x: {key: x},
        [({}, "a", 1)],
        ["setattr(1, 2, 3)"],
        "{}\ny = value",
    ),
    Formula(
        "max(items) if items else None",
        "items",
        lambda items: max(items, default=None),
        LISTS,
        ["max([])", "max([], default=0)"],
    ),
    Formula('{"a": 1} | other', "other", lambda other: {"a": 1, **other}, [({"b": 2},), ({"a": 2},)], ["{**x}"]),
    Formula("[1] + items", "items", lambda items: [1, *items], LISTS, ["[*x]"]),
    Formula("set([1, 2])", "", lambda: [1, 2], [()], ["{1, 2}"]),
    Formula("list(range(n))", "n", lambda n: list(range(n)), [(0,), (3,)], ["range(2) + [1]"]),
    Formula("[x for x in items]", "items", same, LISTS, ["len(x for x in [1])"]),
    Formula(
        "set([x for x in items])", "items", lambda items: items, [([],), ([2],)], ["{x for x in [1]}"], "y = list({})"
    ),
    Formula(
        "[x for part in parts for x in part]",
        "parts",
        lambda parts: [x for part in parts for x in part],
        [([[1], [2, 3]],), ([],)],
        ["sum([[1], [2]], [])"],
    ),
    Formula(
        'sorted(items, key=lambda x: x["key"])',
        "items",
        lambda items: sorted(items, key=lambda x: x["key"]),
        [([{"key": 2}, {"key": -1}],)],
        ["sorted([{'a': 1}, {}])"],
    ),
    Formula(
        'value.setdefault("key", []).append(x)',
        "value x",
        lambda value, x: {"key": [*value.get("key", []), x]},
        [({}, 1), ({"key": [1]}, 2)],
        ["{}['a']"],
        "{}\ny = value",
    ),
    Formula("x[i]", "x i", lambda x, i: x[i], [("abc", 1), ("abc", 0)], ["'a'.charAt(1)"]),
    Formula(
        "lambda pair: pair[1]",
        "",
        lambda: [["b", 1], ["a", 2]],
        [()],
        ["sorted([(1, 2)], key=lambda k, v: v)"],
        "y = sorted([('a', 2), ('b', 1)], key={})",
    ),
    Formula(
        '"{key}".format(**values)',
        "values",
        lambda values: str(values["key"]),
        [({"key": 1},)],
        ["'%(a)s' % {'a': 1}"],
        "y = {}",
    ),
    Formula("text.elems()", "text", list, [("aé",), ("",)], ["[x for x in 'a']"], "y = list({})"),
    Formula(
        "float(x)",
        "x",
        float,
        [("99.5",), ("-7",)],
        ["1 + '99.5'", "'99.5' - 50", "'99.5' > 50", "1.5 < '99.5'", "'99.5' + 1"],
    ),
    Formula(
        "sum([float(x) for x in items])",
        "items",
        lambda items: sum(map(float, items)),
        [(["99.5", "1"],), ([],)],
        ["sum(['99.5'])"],
    ),
    Formula("a / b if b else 0", "a b", lambda a, b: a / b if b else 0, [(1, 2), (-1, 4), (1, 0)], ["1 / 0"]),
)

ADVICE = {
    "getResult",
    *(
        "input",
        "exit",
        "open",
        "eval",
        "exec",
        "compile",
        "__import__",
        "globals",
        "locals",
        "vars",
        "hash",
        "id",
        "iter",
    ),
    *("object", "super", "bytes", "frozenset", "struct", "console", "callTool", "tools", "Exception", "ValueError"),
    *("requests", "httpx", "urllib", "fetch", "logging", "Object", "itertools", "pd", "np", "re", "encode", "decode"),
    *("match", "search", "sub", "Promise", "asyncio", "__name__"),
}
"""What is told in words, or has no value of its own."""


PROBES = [(probe, formula) for formula in FORMULAS for probe in formula.probes]


@pytest.mark.parametrize(("probe", "formula"), PROBES, ids=[f"{probe} {formula.written}" for probe, formula in PROBES])
def test_what_a_hint_tells_to_write_gives_what_python_gives(probe: str, formula: Formula) -> None:
    hint = hint_of(f"return {probe}") or ""
    assert formula.written in hint
    functions = re.findall(r"`(def [^`]*)`", hint)
    script = "\n".join([*functions, formula.script.format(formula.written), "return y"])
    for given in formula.values:
        data = dict(zip(formula.variables.split(), given, strict=True))
        assert value(Host().run(script, data=data)) == formula.python(*given), given


def _told() -> Iterator[str]:
    yield from (*METHODS, *OF_DICTS, *OF_TEXTS, *OF_JSON)
    yield from (row.name for row in FOREIGN_NAMES if re.search(r"[\[(=]", row.instead))


def test_every_formula_is_run() -> None:
    rows = {**METHODS, **OF_DICTS, **OF_TEXTS, **OF_JSON} | {row.name: row.instead for row in FOREIGN_NAMES}
    untested = [name for name in _told() if not any(formula.written in rows[name] for formula in FORMULAS)]
    assert sorted(set(untested) - ADVICE) == []
