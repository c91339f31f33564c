"""The language table of Starlark: its built-in functions, what other languages have and it has not, and the names of
tools in it. Checker, engine, descriptions and `docs/reference/language.md` all read this table. It imports nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from keyword import iskeyword
from typing import Final, NamedTuple, cast

MAX_NESTING: Final = 64
"""Most levels of brackets, blocks and functions inside one another."""

MAX_TASKS: Final = 256
"""Most tasks of `parallel` that are alive at the same time; a `parallel` beyond them runs its functions one by one."""

MAX_PARAMETERS: Final = 1_000
"""Most parameters that are looked at for a signature."""

MAX_SIGNATURE: Final = 400
"""Most characters of the signature of a tool; it says how many more parameters there are."""


MAX_DEFAULT_TEXT: Final = 24
"""Most characters of a default that a signature shows."""

MAX_DEFAULT_NUMBER: Final = 10**15
"""Numbers from here on are not shown as defaults."""


class Builtin(NamedTuple):
    """A name that every script has."""

    name: str
    use: str
    """What it is for, in a few words, for the language table."""


BUILTINS: Final = (
    Builtin("call_tool", 'call_tool("any-name", key=value): a tool by its own name'),
    Builtin("try_call", 'try_call("any-name", key=value): {"ok": True, "value"} or {"ok": False, "error"}'),
    Builtin("parallel", "parallel([lambda: tool_a(), lambda: tool_b()]): the results in order"),
    Builtin("print", "a line of the logs"),
    Builtin("fail", "ends the script with a message"),
    Builtin("json", "json.encode(x), json.decode(text), json.indent(text), json.encode_indent(x)"),
    Builtin("None", "the value of a function without `return`"),
    Builtin("True", "true"),
    Builtin("False", "false"),
    *(
        Builtin(name, "as in Python")
        for name in (
            *("abs", "all", "any", "bool", "chr", "dict", "dir", "enumerate", "float", "getattr", "hasattr"),
            *("int", "len", "list", "max", "min", "ord", "range", "reversed", "set", "sorted", "sum"),
            *("tuple", "type", "zip"),
        )
    ),
    *(
        Builtin(
            name, "as in Python, but quotes are double, floats from 1e16 up to 1e17 are written out, infinity is +inf"
        )
        for name in ("repr", "str")
    ),
)
"""All of them; anything else is unknown before the script runs."""

BUILTIN_NAMES: Final = frozenset(builtin.name for builtin in BUILTINS)

TYPES: Final = {
    name: "string" if name == "str" else name
    for name in ("bool", "dict", "float", "int", "list", "range", "set", "str", "tuple")
}
"""Functions that are types in Python, and what `type` gives of their values."""

ALL_DATA: Final = frozenset({"data", "context", "codecallContext", "params", "args", "arguments", "inputs"})
"""What scripts call all of their data."""

EXTRACT: Final = "extract"
"""A name that scripts have where a model may read values for them, unless a tool or a variable has it."""

GET_RESULT: Final = "get_result"
"""A name that scripts have where large results are kept, unless a tool or a variable has it."""

GET_RESULT_FORM: Final = 'get_result("res_…", at="rows", start=0, count=500)'
"""How it is called."""

RESULT_PARTS: Final = ("at", "start", "count", "page")
"""The parameters of it that name a part."""


def builtin_names(*, console: bool, extracts: bool, results: bool) -> frozenset[str]:
    """The names that a script has by itself.

    Args:
        console: whether it may print.
        extracts: whether a model may read values for it.
        results: whether large results are kept.
    """
    optional = {"print": console, EXTRACT: extracts, GET_RESULT: results}
    return frozenset(name for name in BUILTIN_NAMES | optional.keys() if optional.get(name, True))


FIXED: Final = (
    'def fixed(x, n): a = int(abs(x) * (1 << 100)) * int("1" + "0" * n); '
    "s = str((a + (1 << 99) - 1 + (a >> 100 & 1)) >> 100); "
    's = "0" * (n + 1 - len(s)) + s; '
    'return ("-" if x < 0 else "") + s[:len(s) - n] + ("." + s[len(s) - n:] if n else "")'
)
"""A function for scripts: `x` with `n` decimals as text, rounded as Python rounds. No shorter formula is right for
negative numbers, for halves and for those that no float is; it counts in 2^-100, which is exact for 14 decimals."""

_ROUND: Final = (
    "round(x) is int(fixed(x, 0)), round(x, 2) is float(fixed(x, 2)), n from 0 to 14, with this function in a line of "
    f"its own: `{FIXED}`"
)
_COUNTS: Final = "Count with counts[key] = counts.get(key, 0) + 1, group with groups.setdefault(key, []).append(x)."


class Foreign(NamedTuple):
    """Something that Python or another language has."""

    name: str
    instead: str
    """What to write instead."""
    probe: str
    """The shortest script that is refused for it."""


FOREIGN_WORDS: Final = (
    Foreign("import", "There are no modules: call tools, and use `json`.", "import os"),
    Foreign("from", 'There are no modules. For an input of that name: tool(**{"from": value}).', "from os import path"),
    Foreign("while", "Loop with `for i in range(n):` and `break`.", "while True:\n  pass"),
    Foreign("try", 'try_call("name", …) gives {"ok", "value" | "error"}; nothing else is caught.', "try:\n  x()"),
    Foreign("except", 'try_call("name", …) gives {"ok", "value" | "error"}.', "except:\n  pass"),
    Foreign("finally", 'try_call("name", …) gives {"ok", "value" | "error"}.', "finally:\n  pass"),
    Foreign("raise", "fail(message) ends the script.", "raise x"),
    Foreign("assert", "if not condition: fail(message)", "assert True"),
    Foreign("class", 'Use dicts. For an input of that name: tool(**{"class": value}).', "class A:\n  pass"),
    Foreign("with", "Nothing has to be opened or closed here.", "with x as y:\n  pass"),
    Foreign("async", "Calls are synchronous; parallel([...]) runs several at once.", "async def f():\n  pass"),
    Foreign("await", "Calls are synchronous: leave `await` out.", "return await x()"),
    Foreign("yield", "Build a list and return it.", "def f():\n  yield 1"),
    Foreign("del", "Use .pop(key).", "del x"),
    Foreign("global", "Pass values as arguments and return them.", "global x"),
    Foreign("nonlocal", "Change a dict or a list of the outer function instead.", "nonlocal x"),
    Foreign("is", "Compare with `==`.", "return 1 is 1"),
    Foreign("load", "There are no other files: everything is in this script.", 'load("a.star", "b")'),
    Foreign("const", "Assign without a keyword: `x = 1`.", "const x = 1"),
    Foreign("let", "Assign without a keyword: `x = 1`.", "let x = 1"),
    Foreign("var", "Assign without a keyword: `x = 1`.", "var x = 1"),
    Foreign("new", "There are no classes: use dicts, lists and functions.", "return new Date()"),
    Foreign("throw", "fail(message) ends the script.", "throw x"),
    Foreign("switch", "Use `if`, `elif` and `else`.", "switch x"),
    Foreign("match", "Use `if`, `elif` and `else`.", "match x:\n  pass"),
    Foreign("function", "Define functions with `def` or `lambda`.", "function f() {}"),
)
"""Words at which the parser stops."""

FOREIGN_NAMES: Final = (
    Foreign(
        "isinstance",
        'Compare type(x) with "string", "int", "float", "bool", "list", "dict", "tuple" or "NoneType": '
        'type(x) == "string".',
        "isinstance(1, int)",
    ),
    Foreign("map", "Use a comprehension: [f(x) for x in items].", "map(1)"),
    Foreign("filter", "Use a comprehension: [x for x in items if f(x)].", "filter(1)"),
    Foreign("round", _ROUND, "round(1.5)"),
    Foreign("open", "There are no files here; a tool may have them.", 'open("x")'),
    Foreign("input", "Data comes in the argument `data`.", "input()"),
    Foreign("eval", "No script makes code while it runs.", 'eval("1")'),
    Foreign("exec", "No script makes code while it runs.", 'exec("1")'),
    Foreign("compile", "No script makes code while it runs.", 'compile("1")'),
    Foreign("__name__", "There are no modules: write `return main()` as last line.", '__name__ == "__main__"'),
    Foreign("__import__", "There are no modules: call tools, and use `json`.", '__import__("os")'),
    Foreign("globals", "Names are known before the script runs.", "globals()"),
    Foreign("locals", "Names are known before the script runs.", "locals()"),
    Foreign("vars", "Use dir(x) or a dict.", "vars()"),
    Foreign("setattr", "Use dicts: value[key] = x.", "setattr(1, 2, 3)"),
    Foreign("delattr", "Use dicts: value.pop(key).", "delattr(1, 2)"),
    Foreign("hash", "Use the value itself as a key.", 'hash("a")'),
    Foreign("id", "Compare values with `==`.", "id(1)"),
    Foreign("iter", "Loop with `for`.", "iter([])"),
    Foreign("next", "Take the first of a list: ([x for x in items if condition] or [None])[0].", "next([])"),
    Foreign("object", "Use dicts.", "object()"),
    Foreign("super", "There are no classes; use dicts and functions.", "super()"),
    Foreign("bytes", "Use text.", "bytes()"),
    Foreign(
        "format",
        f'format(x) is str(x), format(x, ".2f") is fixed(x, 2), with this function in a line of its own: `{FIXED}`',
        "format(1)",
    ),
    Foreign("pow", "Multiply: y = 1, then `for _ in range(n): y *= x` on the next line.", "pow(2, 3)"),
    Foreign("divmod", "Use (x // y, x % y).", "divmod(7, 2)"),
    Foreign("frozenset", "Use set(...).", "frozenset()"),
    Foreign("callable", 'Use type(x) in ("function", "builtin_function_or_method").', "callable(1)"),
    Foreign("struct", "Use dicts.", "struct(a = 1)"),
    Foreign("os", "There are no modules; a tool may do it.", "os.environ"),
    Foreign("sys", "There are no modules.", "sys.path"),
    Foreign("time", "There is no clock here; a tool may have one.", "time.now()"),
    Foreign("datetime", "There is no clock here; a tool may have one.", "datetime.now()"),
    Foreign(
        "math",
        "There are no modules: floor is int(x // 1), ceil -int(-x // 1); use //, % and comparisons.",
        "math.floor(1.5)",
    ),
    Foreign("random", "There is no chance here; a tool may have it.", "random.random()"),
    Foreign("re", "There are no patterns: use .find, .split, .startswith.", 're.match("a", "b")'),
    Foreign("asyncio", "parallel([...]) runs several calls at once.", "asyncio.gather()"),
    Foreign("console", "Use print(...).", 'console.log("x")'),
    Foreign("callTool", 'Use call_tool("name", key=value).', 'callTool("x", {})'),
    Foreign("requests", 'The outside is reached by tools: call_tool("name", key=value).', "requests.get(1)"),
    Foreign("httpx", 'The outside is reached by tools: call_tool("name", key=value).', "httpx.get(1)"),
    Foreign("urllib", 'The outside is reached by tools: call_tool("name", key=value).', "urllib.parse"),
    Foreign("fetch", 'The outside is reached by tools: call_tool("name", key=value).', "fetch(1)"),
    Foreign("tools", 'Call a tool by its name, name(key=value), or call_tool("any-name", key=value).', "tools.x()"),
    Foreign("getResult", f"What an earlier answer kept is read with {GET_RESULT_FORM}.", 'getResult("x")'),
    Foreign("get_result", "No results are kept here: return less.", 'get_result("x")'),
    Foreign("readResource", "Resources are read by scripts in JavaScript.", 'readResource("x")'),
    Foreign("getPrompt", "Prompts are had by scripts in JavaScript.", 'getPrompt("x")'),
    Foreign("JSON", "Use json.decode(text) and json.encode(value).", 'JSON.parse("1")'),
    Foreign("Promise", "parallel([...]) runs several calls at once.", "Promise.all([])"),
    Foreign("Object", "Use value.keys(), value.values() and value.items().", "Object.keys(1)"),
    Foreign(
        "Math",
        "There are no modules: floor is int(x // 1), ceil -int(-x // 1), round int((x + 0.5) // 1); min, max, abs.",
        "Math.max(1)",
    ),
    Foreign("Exception", "fail(message) ends the script.", 'Exception("x")'),
    Foreign("ValueError", "fail(message) ends the script.", 'ValueError("x")'),
    Foreign("logging", "Use print(...).", 'logging.info("x")'),
    Foreign("defaultdict", _COUNTS, "defaultdict(1)"),
    Foreign("Counter", _COUNTS, "Counter(1)"),
    Foreign("collections", _COUNTS, "collections.Counter(1)"),
    Foreign("itertools", "There are no modules: use loops and comprehensions.", "itertools.chain(1)"),
    Foreign("copy", "Use list(x) or dict(x), and for all that is in it json.decode(json.encode(x)).", "copy.copy(1)"),
    Foreign("deepcopy", "Use json.decode(json.encode(x)).", "deepcopy(1)"),
    Foreign("pd", "There are no modules: use loops and comprehensions.", "pd.DataFrame(1)"),
    Foreign("np", "There are no modules: use loops and comprehensions.", "np.array(1)"),
    Foreign("sleep", "There is no waiting here.", "sleep(1)"),
    Foreign("null", "Use None.", "return null"),
    Foreign("true", "Use True.", "return true"),
    Foreign("false", "Use False.", "return false"),
    Foreign("undefined", "Use None.", "return undefined"),
)
"""Names that no script has, unless it defines them or a tool has them."""

DEFAULT_HINTS: Final = {
    "VALIDATION_ERROR": "Assign it first, give it with the call as a variable (on the command line `--context`), or "
    "check its spelling; besides tools there are Python's built-in functions, def, lambda and comprehensions.",
    "EXECUTION_ERROR": "Mend the line shown.",
    "TOOL_EXECUTION_ERROR": "The call itself failed: change what its message complains of, or go on without it: "
    'try_call("name", …) gives {"ok", "value" | "error"}.',
    "INVALID_INPUT": "Correct the fields named here.",
    "TOO_MANY_PENDING_CALLS": "Make fewer calls at once.",
}
"""The hint of an error that has none, by its code."""

UNKNOWN_TOOL_HINT: Final = "codecall:search finds tools by what they do."
"""What to do where no tool has a name or one like it."""

DURATION_HINT: Final = "Make fewer or faster tool calls, run them side by side with parallel([...]), or split the work."
"""What to do where a script takes too long in all."""

MAX_READ: Final = 20_000
"""Characters of a script that are looked at to tell its language."""

_JAVASCRIPT: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^\s{0,40}(?:const|let|var)\s+[\w$\[{]",
        r"\bawait\s",
        r"=>",
        r"[!=]==",
        r"\bcallTool\(",
        r";[ \t]{0,9}$",
        r"^\s{0,40}//",
        r"\bfunction\b[^\n(]{0,80}\(",
        r"^\s{0,40}\}\s{0,40}(?:else|catch|[);,])",
        r"\$\{",
    )
)
"""Signs of JavaScript, of which a Starlark script has one at most."""

JAVASCRIPT_SENT: Final = (
    "This is JavaScript, sent as Starlark: `codecall:execute` runs it, without `language` (of files, those not called "
    ".star). In Starlark:"
)
"""What a hint says of it."""

_PYTHON: Final = re.compile(
    r"^[ \t]{0,40}(?:(?:def|for|if|elif|while)\b[^\n{}]{1,200}|else[ \t]{0,9}):[ \t]{0,9}(?:#.*)?$"
    r"|\bfor[ \t]+\w{1,60}(?:,[ \t]*\w{1,60})?[ \t]+in\b|\blambda\b[^:\n]{0,80}:|\b(?:None|True|False)\b"
    r"|\A\s{0,40}#[ \t]|\b\w{1,60}\(\w{1,60}[ \t]?=(?![=>])",
    re.MULTILINE,
)
"""A sign of Starlark."""

_PYTHON_CALLS: Final = re.compile(
    r"(?<![\w$.])(?:call_tool|dict|enumerate|len|print|range|sorted|str|try_call|zip)\(|,[ \t]?\w{1,60}=(?![=>])"
)
"""A sign of Starlark in a script with none of JavaScript, which may have functions of these names."""


def _javascript_signs(script: str) -> int:
    return sum(sign.search(script, 0, MAX_READ) is not None for sign in _JAVASCRIPT)


def reads_as_javascript(script: str) -> bool:
    """Whether a script that is no Starlark is JavaScript."""
    return _javascript_signs(script) > 1


def reads_as_starlark(script: str) -> bool:
    """Whether a script that is refused as JavaScript is Starlark."""
    signs = _javascript_signs(script)
    certain = signs < 2 and _PYTHON.search(script, 0, MAX_READ) is not None
    return certain or (not signs and _PYTHON_CALLS.search(script, 0, MAX_READ) is not None)


_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What may be a name."""
_QUOTABLE: Final = re.compile(r"[A-Za-z0-9_.$/-]{1,64}")
"""Names that code cannot write and signatures show; others could say anything there."""


def function_name(tool: str) -> str:
    """The name of the function that stands for a tool."""
    name = _NO_NAME.sub("_", tool)
    return f"_{name}" if name[:1].isdigit() else name


def function_names(tools: Iterable[str]) -> dict[str, str]:
    """The tools by the names of their functions; of two tools with one name that has it which is called so itself, else
    the first, and a built-in name is no tool's."""
    functions: dict[str, str] = {}
    for tool in tools:
        name = function_name(tool)
        if name and name not in BUILTIN_NAMES and (name == tool or name not in functions):
            functions[name] = tool
    return functions


def lower_case_names(names: Iterable[str]) -> dict[str, str]:
    """Names in lower case that stand for one of `names` each: where two would be one, and where there is one that is
    written so, that is no name of another."""
    exact = list(names)
    lower: dict[str, set[str]] = {}
    for name in exact:
        lower.setdefault(name.lower(), set()).add(name)
    return {name: next(iter(meant)) for name, meant in lower.items() if len(meant) == 1 and name not in meant}


def default_literal(schema: object) -> str | None:
    """The default of a parameter as code writes it; None where there is none, where it is long, and where the tool may
    refuse it if it is given: many a schema says null of what takes no null.

    Args:
        schema: That of the parameter.
    """
    known = cast("Mapping[str, object]", schema if isinstance(schema, Mapping) else {})
    match known.get("default"):
        case bool() as value:
            return str(value)
        case int() | float() as value if abs(value) < MAX_DEFAULT_NUMBER:
            return str(value)
        case str() as value if len(value) <= MAX_DEFAULT_TEXT and (not value or _QUOTABLE.fullmatch(value)):
            return f'"{value}"'
        case [] | {} if not known["default"]:
            return str(known["default"])
        case None if "default" in known and _takes_null(known):
            return "None"
        case _:
            return None


def _takes_null(schema: Mapping[str, object]) -> bool:
    """Whether a schema plainly allows null."""
    choices, kind = schema.get("anyOf", schema.get("oneOf")), schema.get("type")
    if isinstance(choices, list):
        return {"type": "null"} in cast("list[object]", choices)[:MAX_PARAMETERS]
    if isinstance(kind, list):
        return "null" in kind
    return kind == "null" or schema.keys() <= {"default", "title", "description"}


def signature(name: str, schema: Mapping[str, object], *, as_call: bool = False) -> str:
    """How a tool is called: `search(query, limit=10, [cursor=…])`, where what is in brackets may be left out, with
    `**{"class": …}` for names that code cannot write.

    Args:
        name: That of the function.
        schema: The schema of its input.
        as_call: Whether what is required reads `query=…`, as in a call.
    """
    properties, required = schema.get("properties"), schema.get("required")
    known = cast("Mapping[str, object]", properties if isinstance(properties, Mapping) else {})
    names = list(islice(known, MAX_PARAMETERS))
    listed = cast("list[object]", required) if isinstance(required, list) else []
    needed = {key for key in islice(listed, MAX_PARAMETERS) if isinstance(key, str)}
    words: list[str] = []
    quoted: list[str] = []
    left = MAX_SIGNATURE
    for key in sorted(names, key=lambda key: key not in needed):
        default = None if key in needed else default_literal(known[key])
        if NAME.fullmatch(key) and not iskeyword(key) and key != "load":
            word, kind = key if key in needed and not as_call else f"{key}={default or '…'}", words
        elif _QUOTABLE.fullmatch(key):
            word, kind = f'"{key}": {default or "…"}', quoted
        else:
            continue
        word = word if key in needed or default else f"[{word}]"
        left -= len(word) + 2
        if left < 0:
            break
        kind.append(word)
    more = len(known) - len(words) - len(quoted)
    parts = [*words, f"**{{{', '.join(quoted)}}}" if quoted else "", f"… {more} more" if more else ""]
    return f"{name}({', '.join(filter(None, parts))})"
