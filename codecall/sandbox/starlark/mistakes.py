"""What models write by habit and Starlark has not, and what to write instead: data for hints, read after a failure.
Each row has the shortest script that comes to it, which is its test."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from codecall.sandbox.starlark.policy import FIXED

PLACE: Final = "\0"
"""Stands in a line for the place at which the parser stopped."""


class Mistake(NamedTuple):
    """One kind of failure and what to do about it."""

    pattern: re.Pattern[str]
    instead: str
    """What to write instead."""
    probe: str
    """The shortest script that fails so."""


def _row(pattern: str, instead: str, probe: str) -> Mistake:
    return Mistake(re.compile(pattern), instead, probe)


_WITH: Final = "with this function in a line of its own"
_NUMBERS: Final = (
    'There are no widths: " " * (n - len(text)) + text, or text + " " * (n - len(text)). There are no decimals: '
    f'fixed(x, 2), in percent fixed(100 * x, 1) + "%", {_WITH}: `{FIXED}`'
)
_NO_LITERAL: Final = 'There are no such literals: use "{}".format(x) or "%s" % x.'
_BRACES: Final = "Blocks begin with `:` and are indented; there are no braces around them."
_GENERIC: Final = "Look for a bracket, a comma or an operator before this place: Starlark is a small Python."

LINES: Final = (
    _row(
        r"(?:^|\W)[fF][rR]?\0[\"'].*\{[^{}]*:[ ,.<>^+\d][^{}]*\}",
        f'There are no such literals: use "{{}}".format(x). {_NUMBERS}',
        'return f"{1:.2f}"',
    ),
    _row(r"(?:^|\W)[fFbBuU][rR]?\0[\"']", _NO_LITERAL, 'return f"{1}"'),
    _row(
        r"[\w)\]\"']\s*\0\*\*",
        "There is no `**`: multiply, x * x, or `for _ in range(n): y *= x` on a line of its own, with y = 1 above.",
        "return 2 ** 3",
    ),
    _row(r"\0\*\*", 'Join dicts with `|`: {"a": 1} | other.', "return {**x}"),
    _row(r"^\s*\w+\s*,\s*\0\*", "Take the rest by a slice: rest = items[1:].", "a, *b = [1]"),
    _row(r"\0\*", "Join lists with `+`: [1] + items.", "return [*x]"),
    _row(r"\0:\s*=", "Assign on a line of its own.", "if (n := 3): pass"),
    _row(r"^\s*def\b.*\w\s*\0:", "Leave types out: def f(a, b):", "def f(a: int): pass"),
    _row(r"\)\s*\0->", "Leave types out: def f(a, b):", "def f() -> int: pass"),
    _row(r"^\s*\w+\s*\0:", "Leave types out: x = 1.", "x: int = 1"),
    _row(r"^\s*print\s+\0", "Write print(x), with brackets.", 'print "a"'),
    _row(r"\belse\s+\0if\b", "Write `elif`.", "if 1:\n  pass\nelse if 2:\n  pass"),
    _row(r";\s*\0(?:for|if|def)\b", "Begin a new line for `for`, `if` and `def`.", "x = 1; for y in [x]: pass"),
    _row(r"^\s*\0elif\b", "Put it under its `if`, indented as far as that.", "elif 1:\n  pass"),
    _row(
        r"^\s*\0else\b",
        "Put it under its `if`, indented as far as that. A loop has no `else`: set a variable before `break`, and test "
        "it after the loop.",
        "else:\n  pass",
    ),
    _row(r"\0=>|=\0>", "Write a function so: lambda x: x + 1.", "return x => x"),
    _row(r"lambda[^:]*:[^=]*\0=", "A lambda is one expression: use `def` to assign.", "return lambda: x = 1"),
    _row(r"[=!]=\0=", "Compare with `==` and `!=`.", "return 1 === 1"),
    _row(r"<\0>", "Compare with `!=`.", "return 1 <> 2"),
    _row(r"&\0&", "Write `and`.", "return 1 && 2"),
    _row(r"\|\0\|", "Write `or`.", "return 1 || 2"),
    _row(r"\0!", "Write `not`.", "return !x"),
    _row(r"\+\+\s*\0|--\s*\0", "Write `x += 1` on a line of its own.", "x++"),
    _row(r"\0//|\0/\*", "A comment begins with `#`.", "// a"),
    _row(r"\0`", "Texts stand between quotes; values go in with `%s` or .format().", "return `a`"),
    _row(r"\0@", "There are no decorators: call the function with the other.", "@f\ndef g(): pass"),
    _row(r"\{[^:{}]*\0for\b", "Write set([x for x in items]).", "return {x for x in [1]}"),
    _row(r"\{[^:{}]*\0[,}]", "Write set([1, 2]).", "return {1, 2}"),
    _row(r"^\s*(?:if|elif|for|def)\b.*\0\{", _BRACES, "if 1 { x }"),
    _row(r"=\s*\0\.\.\.?", "Leave out what is to have its default.", "return f(x=...)"),
    _row(r"\[\w+\s*\0=(?!=)", "Leave the brackets out: what they stand around may be left out.", "return f([x=1])"),
    _row(r"\0\?", 'Write `a if condition else b`; for `?.` and `??` value.get("key", default).', "return 1 ? 2 : 3"),
    _row(r"^\s*(?:if|elif)\b.*\0=(?!=)", "Compare with `==`.", "if 1 = 1: pass"),
    _row(r"=.*\0=(?!=)", "One assignment a line; to compare write `==`.", "a = b = 1"),
    _row(r"\d\0_\d", "Write numbers without `_`.", "return 1_000"),
)
"""By the line at which the parser stopped, with `PLACE` at the place."""

OF_ESCAPES: Final = re.compile(r"^(?:invalid (?:\\x )?escape|octal escape)")
"""Messages about escapes; what stands around those in a text is no code."""

SYNTAX: Final = (
    _row(
        r"^invalid escape sequence: \S+ is a surrogate",
        r'Write the whole character, or its number in eight digits: "\U0001f600".',
        r'return "\ud83d"',
    ),
    _row(
        OF_ESCAPES.pattern,
        r'A backslash itself is "\\"; a character by its number is "\xe9", "\u00e9" or "\U0001f600".',
        r'return "\?"',
    ),
    _row(
        r"^invalid character",
        "Remove it, or put it between quotes: code has the letters of ASCII, and plain spaces.",
        "x\u200b = 1",
    ),
    _row(r"not associative", "Compare two values at a time: 1 < x and x < 9.", "return 1 < 2 < 3"),
    _row(r"generator", "Put brackets around it: [x for x in items].", "return len(x for x in [1])"),
    _row(
        r"missing else",
        "Write both, a if condition else b; a list takes it behind: [x for x in items if x].",
        "return 1 if True",
    ),
    _row(r"implicit string", "Join texts with `+`.", "return 'a' 'b'"),
    _row(r"unclosed string", "Close the text on its line; one of several lines has three quotes.", "return 'a"),
    _row(r"octal literal", "Write the number without the 0 before it.", "return 07"),
    _row(r"tab characters", "Indent with spaces.", "if 1:\n\tpass"),
    _row(r"indented block", "Indent what belongs to the line above, or write `pass` there.", "if 1:\nreturn 1"),
    _row(r"indentation", "Begin the line as far in as those that it belongs to.", "  return 1"),
    _row(r"newline': expected :", "End the line with `:`.", "def f()\n  return 1"),
    _row(r"expected :$", "Put `:` before what belongs to it.", "if 1 return 2"),
    _row(r"newline': expected .*[])}]", "Close the bracket that is open on the line before it, or above.", "return [1"),
    _row(r"duplicate keyword", "Give each parameter once.", "return dict(a = 1, a = 2)"),
    _row(r"", _GENERIC, "x = 1 2"),
)
"""By the message of the parser, for lines that match none of `LINES`."""

_BY_NAME: Final = 'Name each parameter, as shown; those in a dict go in as **{"key": value}.'
GROUPED: Final = (
    'def grouped(text): p = text.partition("."); s = p[0].removeprefix("-"); '
    'return ("-" if text[:1] == "-" else "") + ",".join([s[max(0, i - 3):i] for i in range(len(s), 0, -3)][::-1]) '
    "+ p[1] + p[2]"
)
"""A function for scripts: a number that is a text, with commas between its thousands."""
_THOUSANDS: Final = (
    "There are no commas, widths and decimals: grouped(str(x)), or grouped(fixed(x, 2)), with these functions in a "
    f"line each: `{GROUPED}` and `{FIXED}`"
)
CENTER: Final = (
    'def center(text, n): p = max(0, n - len(text)); i = p // 2 + (p & n & 1); return " " * i + text + " " * (p - i)'
)
"""A function for scripts: what `center` is in Python."""
ZFILL: Final = (
    'def zfill(text, n): i = 1 if text[:1] in ("-", "+") else 0; return text[:i] + "0" * (n - len(text)) + text[i:]'
)
"""A function for scripts: what `zfill` is in Python."""
_NO_NUMBER: Final = "The text is no such number: look at it first, "
_IN_TEXT: Final = "A number in a text is float(x)"
_IN_TEXTS: Final = "The numbers are texts"
_NONE: Final = "The value is None: look where it comes from, and test it first."

BY_NUMBER: Final = "It is a list, no dict: its items are read by number, such as value[0]."
"""Said of a list that is read by key, unless more is known of its items."""

EVALUATION: Final = (
    _row(r"NoneType.* has no|'NoneType'|on NoneType|^unsupported .*NoneType", _NONE, "return None.x"),
    _row(r"tools take their input by name", _BY_NAME, 'return call_tool("say", {})'),
    _row(
        r"got string for string index",
        'It is a text, no dict. A loop over a dict gives its keys: loop over the list in it, value["key"], or over '
        "value.items(). If the text holds JSON, json.decode(text) gives the value.",
        'return "{}"["a"]',
    ),
    _row(
        r"got string for sequence index",
        BY_NUMBER,
        'return []["a"]',
    ),
    _row(
        r"^parallel: (?:element|a list|it takes one list)",
        "Give it functions: parallel([lambda: a(x=1), lambda: b()]); of a list [lambda i=i: a(x=i) for i in items].",
        "return parallel([1])",
    ),
    _row(r"'dict' value has no field", 'Use brackets: value["key"], or value.get("key").', "return {}.a"),
    _row(
        r"value has no field or method",
        "dir(value) lists what it has; keys of dicts are read with brackets.",
        "return [].a",
    ),
    _row(
        r"'builtin_function_or_method'",
        'Call it: value.items(). For a key of that name use brackets: value["items"].',
        "return {}.items[0]",
    ),
    _row(r"does not support field assignment", 'Use brackets: value["key"] = x.', "x = {}\nx.a = 1"),
    _row(
        r"^KeyError",
        'Read with value.get("key", default), collect with value.setdefault("key", []).append(x); value.keys() are '
        "those there are.",
        'return {}["a"]',
    ),
    _row(
        r"^unsupported comparison: dict",
        'Say by what: sorted(items, key=lambda x: x["key"]).',
        "return sorted([{'a': 1}, {}])",
    ),
    _row(
        r"for \+: 'list' and 'list'",
        "Join lists so: [x for part in parts for x in part].",
        "return sum([[1], [2]], [])",
    ),
    _row(r"keyword argument default", "Without `default`: max(items) if items else None.", "return max([], default=0)"),
    _row(r"keyword argument end", "print takes values and `sep`; each is a line.", 'print("a", end="")'),
    _row(
        r"'string' is not iterable",
        "Use text.elems() for its characters, text.split() for its words.",
        "for x in 'a': pass",
    ),
    _row(
        r"free variable .* referenced before",
        "Bind it where the function is made: lambda x=x: …",
        "def f():\n  return x\ny = f()\nx = 1",
    ),
    _row(
        r"referenced before assignment",
        "Assign it before, on every way that leads here. A function does not change variables outside of it: return "
        "the value, or keep it in a dict or a list.",
        "if False:\n  x = 1\nreturn x",
    ),
    _row(
        r"called recursively",
        "No function may call itself: use a loop and a list of what is left to do.",
        "def f():\n  return f()\nreturn f()",
    ),
    _row(
        r"for \+: '(?:int|float)' and 'string'", f"{_IN_TEXTS}: sum([float(x) for x in items]).", 'return sum(["9.5"])'
    ),
    _row(
        r"unsupported binary operation: string \+ (?:int|float)",
        f"Make a text of it: str(x), or use format(). {_IN_TEXT}.",
        'return "a" + 1',
    ),
    _row(
        r"(?:int|float) (?:\+|-|/|//|%|<=>) string|string (?:-|/|//|<=>) (?:int|float)",
        f"{_IN_TEXT}, or int(x) where it is a whole one. Where a text is meant, make one of the number: str(x).",
        'return 1 + "9.5"',
    ),
    _row(
        r"unsupported binary operation: string \+|: \w+ \+ string",
        "Make a text of it: str(x), or use format().",
        'return "a" + []',
    ),
    _row(
        r"^unsupported binary operation: dict \+ dict",
        'Join dicts with `|`: {"a": 1} | other; in a loop result |= other.',
        "return {} + {}",
    ),
    _row(
        r"unsupported binary operation: range|\+ range", "Make a list of it: list(range(n)).", "return range(2) + [1]"
    ),
    _row(r"on tuple$", "A tuple does not change: make a list of it, list(x).", "x = (1,)\nx[0] = 2"),
    _row(
        r"^unsupported |unsupported operand",
        "The values are of different types: convert one, float(x), str(x) or list(x).",
        "return [] < 1",
    ),
    _row(r"too deeply nested", "Give parts of it names, or call fewer functions inside one another.", ""),
    _row(r"index out of range|from empty list", "Look at len(items) first.", "return [][1]"),
    _row(r"(?:division|modulo) by zero", "Test it first: a / b if b else 0.", "return 1 / 0"),
    _row(r"format specifier: %\($", 'Write "{key}".format(**values).', "return '%(a)s' % {'a': 1}"),
    _row(
        r"not enough arguments for format",
        'Write one value for each `%s`, in round brackets: "%s of %s" % (a, b).',
        "return '%s %s' % 'a'",
    ),
    _row(r"unknown format specifier", _NUMBERS, "return '%.2f' % 1.5"),
    _row(r"^Invalid character ',' inside replacement field", _THOUSANDS, "return '{:,}'.format(1.5)"),
    _row(
        r"^Invalid character '\['", 'Braces hold names alone: "{}".format(value["key"]).', "return '{0[a]}'.format({})"
    ),
    _row(
        r"the name of a tool is a string|required positional argument: name",
        'The tool comes first, then its input: try_call("name", key=value), call_tool("name", key=value).',
        "return try_call(lambda: 1)",
    ),
    _row(
        r"^function .* missing required argument",
        "It gets fewer values than it takes; a pair is one value: lambda pair: pair[1].",
        "return sorted([(1, 2)], key=lambda k, v: v)",
    ),
    _row(r"inside replacement field|^Missing argument '\w*:", _NUMBERS, "return '{:.2f}'.format(1.5)"),
    _row(r"not all arguments converted", "Write one `%s` for each value.", "return 'a' % 1"),
    _row(r"sequence of strings", 'Make texts of them: ", ".join([str(x) for x in items]).', "return ','.join([1])"),
    _row(
        r"sequence assignment|values to unpack",
        "There are as many names on the left as values; a dict gives keys and values by .items().",
        "for k, v in {'a': 1}: pass",
    ),
    _row(
        r"base-\d+ literal: |^empty string$",
        f'{_NO_NUMBER}int(text.strip()) if text.strip().removeprefix("-").isdigit() else None; '
        "of a decimal number it is int(float(text)).",
        "return int('a')",
    ),
    _row(
        r"float literal: ",
        f'{_NO_NUMBER}float(text) if text.strip().removeprefix("-").replace(".", "", 1).isdigit() else None; '
        'with a decimal comma float(text.replace(",", ".")), with commas in thousands float(text.replace(",", "")).',
        "return float('a')",
    ),
    _row(r"at least one item", "Test whether there are any: max(items) if items else None.", "return max([])"),
    _row(r"not found in list", "Test it first: if x in items.", "return [1].index(2)"),
    _row(r"json\.decode: requires", "It is decoded already: use it as it is.", "return json.decode({})"),
    _row(r"at offset \d+$", "The text is no JSON: use it as it is.", "return json.decode('a')"),
    _row(r"is not callable", "It is a value, no function: leave the brackets out.", "return 'a'()"),
    _row(r"unhashable", "Keys are texts, numbers and tuples: use str(x) or tuple(x).", "return {[]: 1}"),
    _row(
        r"keyword argument|positional argument|got value of type|requires int",
        "Look at what the function takes: a parameter is wrong, missing or too many.",
        "return len(5)",
    ),
)
"""By the message of an error of the evaluator."""

_IN_PARALLEL: Final = re.compile(r"^(?:parallel: task \d+ failed: )+")
_FAILED_TASK: Final = (
    'If a call in it may fail, use lambda: try_call("name", …), which gives {"ok", "value" | "error"}.'
)

_METHOD: Final = re.compile(r"'(\w+)' value has no field or method '(\w+)'")

METHODS: Final = {
    name: instead
    for names, instead in (
        ("sort sort_by sortBy", "items = sorted(items, key=lambda x: x), a list of its own"),
        ("sorted toSorted", "sorted(items, key=lambda x: x)"),
        ("reverse", "items = reversed(items), a list of its own"),
        ("toReversed reversed", "reversed(items)"),
        ("push add append", "items.append(x); of a set .add(x)"),
        ("concat", "a + b"),
        ("length size len", "len(x)"),
        ("map forEach each collect", "[f(x) for x in items]"),
        ("filter where select", "[x for x in items if condition]"),
        ("find", "([x for x in items if condition] or [None])[0]"),
        ("reduce fold", "a loop over the items, or sum(items)"),
        ("join", '", ".join([str(x) for x in items])'),
        ("charAt", "x[i]"),
        ("sum", "sum(items)"),
        ("contains includes has", "x in items"),
        ("copy", "list(items)"),
        ("slice substring", "x[a:b]"),
        ("substr", "x[a:a + n]"),
        ("first", "items[0]"),
        ("last", "items[-1]"),
        ("head", "items[0], or the first ones items[:n]"),
        ("tail", "items[1:], or the last one items[-1]"),
        ("some any", "any([condition for x in items])"),
        ("every all", "all([condition for x in items])"),
        ("get", "items[0], by number"),
        ("items keys values", "dicts alone have it, and this is none: print(type(value), value) shows what it is"),
        ("trim", "text.strip()"),
        ("toLowerCase casefold", "text.lower()"),
        ("toUpperCase", "text.upper()"),
        ("startsWith", 'text.startswith("x")'),
        ("endsWith", 'text.endswith("x")'),
        ("indexOf", "x.find(y), of a list x.index(y) if y in x else -1"),
        ("replaceAll", 'text.replace("a", "b")'),
        ("isnumeric isdecimal", "text.isdigit()"),
        ("format_map", "text.format(**values)"),
        ("encode decode", "the text itself"),
        ("rjust padStart", '" " * (n - len(text)) + text'),
        ("ljust padEnd", 'text + " " * (n - len(text))'),
        ("center", f"center(text, n), {_WITH}: `{CENTER}`"),
        ("zfill", f"zfill(text, n), {_WITH}: `{ZFILL}`"),
        ("match search sub", "there are no patterns: .find, .split, .startswith"),
        ("toString", "str(x)"),
        ("toFixed", f"fixed(x, n), {_WITH}: `{FIXED}`"),
    )
    for name in names.split()
}
"""What lists, texts and numbers have in other languages."""

OF_DICTS: Final = {
    **dict.fromkeys(("iteritems", "entries"), "value.items()"),
    **dict.fromkeys(("has_key", "hasOwnProperty", "containsKey"), '"key" in value'),
    "copy": "dict(value)",
}
"""The same of dicts, whose other members a script means as keys."""

OF_TEXTS: Final = {
    **dict.fromkeys(
        ("get", "items", "keys", "values"), 'json.decode(text)["key"] if it holds JSON: it is a text, no dict'
    ),
}
"""The same of texts, where it is something else than of lists."""

OF_JSON: Final = {
    **dict.fromkeys(("loads", "parse"), "json.decode(text)"),
    **dict.fromkeys(("dumps", "stringify", "dump"), "json.encode(value)"),
}
"""The same of `json`."""


def syntax_hint(line: str, column: int, message: str) -> str:
    """The hint for a script at which the parser stopped.

    Args:
        line: The line.
        column: The place in it, from 0.
        message: What the parser says.
    """
    marked = f"{line[:column]}{PLACE}{line[column:]}"
    rows = [] if OF_ESCAPES.search(message) else [row.instead for row in LINES if row.pattern.search(marked)]
    return rows[0] if rows else next(row.instead for row in SYNTAX if row.pattern.search(message))


def evaluation_hint(message: str) -> str | None:
    """The hint for an error of the evaluator."""
    inner = _IN_PARALLEL.sub("", message)
    if inner != message:
        return evaluation_hint(inner) or _FAILED_TASK
    if (found := _METHOD.search(message)) is not None:
        kind, method = found.groups()
        special = {"dict": OF_DICTS, "json": OF_JSON, "NoneType": {}, "string": METHODS | OF_TEXTS}
        known = special.get(kind, METHODS)
        if method in known:
            return f"Instead of `{method}` write: {known[method]}."
    return next((row.instead for row in EVALUATION if row.pattern.search(message)), None)
