"""Attacks by theme. All of them end with a documented error or a harmless value."""

from __future__ import annotations

from collections.abc import Mapping

from tests_security.starlark.programs import Program, fails, gives, malformed, refused, stopped

_NO_MEMBER = "has no field or method"
_DUNDERS = ("__class__", "__dict__", "__globals__", "__init__", "__mro__", "__reduce__", "_data", "mutability", "impl")

_TEN_TO_8192 = "x = 10\nfor i in range(13):\n  x = x * x\n"
_NESTED = "x = [1]\nfor i in range(60):\n  x = [x, x]\n"
_NESTED_TUPLE = "x = 1\nfor i in range(60):\n  x = (x, x)\n"
_DEEP = "x = []\nfor i in range(5000):\n  x = [x]\n"
_DEEP_TUPLE = "x = ()\nfor i in range(5000):\n  x = (x,)\n"
_CYCLE = "x = []\nx.append(x)\n"


def _chain(start: str, link: str, times: int, end: str) -> str:
    """Many links, each on its own line: no line may be very long."""
    return start + f"{link}\n" * times + end


def _functions(body: str, first: str, times: int) -> str:
    """Functions that each call the one before, and a call of the last."""
    rows = [f"def f0():\n  return {first}"]
    rows += [f"def f{i}():\n  return {body.replace('F', f'f{i - 1}')}" for i in range(1, times)]
    return "\n".join([*rows, f"return f{times - 1}()"])


WALKS = (
    *(fails(f'return getattr([], "{name}")', _NO_MEMBER) for name in _DUNDERS),
    *(fails(f"return len.{name}", _NO_MEMBER) for name in _DUNDERS),
    *(fails(f'return "{{0.{name}}}".format(len)', "Invalid character") for name in _DUNDERS[:4]),
    fails('return "{0[0]}".format([1])', "Invalid character"),
    fails('return "{a.b}".format(a = {})', "Invalid character"),
    fails('return "{0!a}".format(1)', "unknown conversion"),
    fails('return "{:>9999999999}".format(1)', "Missing argument"),
    fails('return "{{0}".format(1)', "matching"),
    fails('return "{0:{1}}".format(1, 2)', "Nested"),
    fails('return "%(__class__)s" % {}', "format specifier"),
    fails('return "%999999999d" % 1', "format specifier"),
    gives('return [hasattr(x, "__class__") for x in ["", [], {}, set(), len, json, None, 1, range(1)]]', [False] * 9),
    gives('return [n for x in ["", [], {}, set(), json] for n in dir(x) if n.startswith("_")]', []),
    gives("return [dir(x) for x in [len, None, 1, 1.5, (), range(1), lambda: 1]]", [[]] * 7),
    gives(
        "return [type(x) for x in [len, json, lambda: 1, [], {}, range(1)]]",
        ["builtin_function_or_method", "json", "function", "list", "dict", "range"],
    ),
    gives(
        'return [str(len), str("".join), str(json), str(lambda: 1), str(parallel), str(echo)]',
        [
            "<built-in function len>",
            "<built-in method join of string value>",
            "<module json>",
            "<function lambda>",
            "<built-in function parallel>",
            "<built-in function echo>",
        ],
    ),
    fails("f = lambda: 1\nreturn f.closure", _NO_MEMBER),
    fails("f = lambda: 1\nreturn f.ast_node", _NO_MEMBER),
    fails("return range(3).start", _NO_MEMBER),
    fails('return getattr("", chr(0xD800))', _NO_MEMBER),
    fails('return getattr("", 1)', "want 'string'"),
    fails("return call_tool.__self__", _NO_MEMBER),
    fails("return echo.impl", _NO_MEMBER),
    fails("return json.encode.__globals__", _NO_MEMBER),
    gives('return {"__class__": 1}["__class__"]', 1),
    *(
        refused(f"return {name}", "is not defined")
        for name in ("__builtins__", "__name__", "eval", "exec", "open", "globals", "script", "hash", "struct")
    ),
    refused('load("x.star", "y")'),
    malformed("import os"),
    malformed("class A:\n  pass"),
    malformed("@len\ndef f():\n  pass"),
    malformed('return f"{len}"'),
)
"""From a value to the evaluator behind it."""

NUMBERS = (
    refused("return " + "9" * 5_000, "too large"),
    refused("x = -" + "1" * 5_000, "too large"),
    fails('return json.decode("' + "9" * 5_000 + '")', "too large"),
    fails('return int("9" * 5000)', "invalid base-10 literal"),
    fails('return int("z" * 200000, 36)', "invalid base-36 literal|too large"),
    fails('return int("f" * 200000, 16)', "too large"),
    *(
        fails(_TEN_TO_8192 + attempt, "too large")
        for attempt in (
            "return x",
            "return str(x)",
            "return str(range(x))",
            "return [][x]",
            "print(x)",
            "return json.encode(x)",
            "return json.encode_indent([x])",
            "return 1 << x",
            "return [1] * x",
            'return "%d" % x',
            'return "%e" % x',
            'return "{}".format(x)',
            "return echo(x = x)",
            "return try_call('echo', x = x)",
            "return x / 3",
            "return float(x)",
            "return x * 1.5",
            "fail(x)",
            "return {}[x]",
            "return range(x)[:5]",
        )
    ),
    fails(_TEN_TO_8192 + "return chr(x)", "range"),
    gives(_TEN_TO_8192 + "return [x % 7, x == x, -x < 0, x // x, x > 1 << 512]", [2, True, True, 1, True]),
    fails("x = 3\nfor i in range(100):\n  x = x * x", "too large"),
    fails("x = 1\nfor i in range(2000):\n  x = x << 512", "too large"),
    fails("return 1 << 100000", "shift count"),
    fails("return 1 << -1", "negative"),
    fails("return 1 >> -1", "negative"),
    fails("return 1 // 0", "by zero"),
    fails("return 1.0 % 0", "by zero"),
    malformed("return 2 ** 100000"),
    fails("return len(range(1 << 100))", "too large"),
    fails("return list(range(1 << 100))", "too large"),
    fails("return bool(range(1 << 100))", "too large"),
    fails('return "a".split("b", 1 << 100)', "too large"),
    fails("x = []\nx.insert(1 << 100, 1)", "too large"),
    fails("return range(1, 2, 0)", "step"),
    fails('return float("1e999")', "too large"),
    fails('return int("٣" * 5000)', "invalid"),
    fails('return "{²}".format(1)', "invalid literal"),
    gives("return 5 in range(1 << 200)", True),
    gives("return [1e999, float('nan'), -1e999]", [None, None, None]),
    fails("return echo(x = float('inf'))", "not finite"),
    fails("return echo(x = [float('nan')])", "not finite"),
)
"""Integers beyond measure, and what is no number."""

_REFUSED_OR_STOPPED = ("EXECUTION_ERROR", "TIMEOUT", "WORKER_TIMEOUT", "WORKER_MEMORY_EXCEEDED")
"""Whichever bound comes first on this machine: the interpreter's of one list, or those of time and memory."""

BOMBS = (
    fails('return "a" * (1 << 100)', "repeat"),
    fails("return [0] * 99999999", "repeat"),
    fails("return (0,) * 99999999", "repeat"),
    fails('return 99999999 * "ab"', "repeat"),
    fails("return list(range(99999999))", "excessive"),
    fails("return sorted(range(99999999))", "excessive"),
    fails("return [].extend(range(99999999))", "excessive"),
    fails("return [None for x in zip(range(99999999))]", "excessive"),
    fails("return reversed(range(99999999))", "excessive"),
    fails('x = "a"\nfor i in range(100):\n  x = x + x', "excessive|memory"),
    stopped("x = [1]\nfor i in range(100):\n  x = x + x")._replace(codes=_REFUSED_OR_STOPPED),
    stopped("x = [1]\nfor i in range(100):\n  x += x")._replace(codes=_REFUSED_OR_STOPPED),
    stopped("x = (1,)\nfor i in range(100):\n  x = x * 2")._replace(codes=_REFUSED_OR_STOPPED),
    stopped('return "".join(["y" * 100000] * 100000)'),
    stopped('return ("a" * 100000).replace("", "b" * 100000)'),
    stopped('return sum(["a" * 1000000] * 10000, "")'),
    stopped('return ("%s" * 10000) % tuple(["y" * 100000] * 10000)'),
    stopped('return ("{0}" * 12).format("a" * 15000000)'),
    stopped("def f(*a):\n  return 1\nreturn f(*range(10000000000))"),
    stopped("a, b = range(10000000000)"),
    stopped("x = []\nx += range(10000000000)\nreturn len(x)")._replace(codes=_REFUSED_OR_STOPPED),
    stopped("return all(range(1, 1000000000000))"),
    stopped("return sum(range(1000000000000))"),
    stopped("return set([1]).union(range(1000000000000))"),
    stopped("return set([1]).issuperset(range(1, 2)) and set([1]).issubset(range(1000000000000))"),
    stopped("for i in range(1000000000000):\n  pass"),
    stopped("return [0 for i in range(1000000000000)]"),
    stopped("return {i: [i] * 1000 for i in range(1000000000)}"),
    stopped("x = [1]\nfor y in x:\n  x.append(y)"),
    stopped(_NESTED + "return x"),
    stopped(_NESTED + "return str(x)"),
    stopped(_NESTED + "print(x)"),
    stopped(_NESTED + "return json.encode(x)"),
    stopped(_NESTED + 'return "%r" % (x,)'),
    stopped(_NESTED + "fail(x)"),
    stopped(_NESTED.replace("60", "40") + "return echo(x = x)")._replace(codes=("EXECUTION_ERROR", "TIMEOUT")),
    stopped(_NESTED + "y = [1]\nfor i in range(60):\n  y = [y, y]\nreturn x == y"),
    stopped(_NESTED_TUPLE + "return {x: 1}"),
    stopped("return [i for i in range(3000) for j in range(3000) for k in range(3000)]"),
    stopped("x = list(range(100000))\nfor i in x:\n  x.remove(99999 - i) if 99999 - i in x else None"),
    stopped('return "a" * 2000000'),
    stopped('return ["b" * 100000] * 100'),
    stopped("return big() * 10"),
    stopped('return json.encode_indent([[]] * 10, indent = "x" * 5000000)'),
)
"""Much out of little."""

DEPTHS = (
    refused(_chain("return (", "not", 10_000, "1)"), "nested"),
    refused(_chain("return (", "lambda:", 5_000, "1)"), "nested"),
    refused(_chain("return (", "1 if 1 else", 4_000, "1)"), "nested"),
    refused(_chain("x = 1\nreturn (x", ".a", 9_000, ")"), "nested"),
    refused(_chain("x = 1\nreturn (x", "()", 9_000, ")"), "nested"),
    refused(_chain("x = 1\nreturn (x", "[0]", 9_000, ")"), "nested"),
    refused(_chain("return (", "1 +", 9_000, "1)"), "nested"),
    refused(_chain("return (", "1 and", 9_000, "1)"), "nested"),
    refused("if 1:\n pass\n" + "elif 1:\n pass\n" * 3_000, "nested"),
    malformed(_chain("return (", "-", 9_000, "1)"), "nested"),
    malformed(_chain("return ", "[", 9_000, ""), "nested"),
    malformed(_chain("return ", "(", 9_000, ""), "nested"),
    malformed(_chain("return ", "{1:", 9_000, ""), "nested"),
    refused(_chain("return ", "len(", 9_000, ""), "nested"),
    malformed("".join(" " * i + "if 1:\n" for i in range(200)), "nested"),
    malformed("".join(" " * i + f"def f{i}():\n" for i in range(200)), "nested"),
    malformed(_chain("return (", '"a"', 9_000, ")")),
    stopped(_chain("return [1 for a in [1]", "for a in [1]", 3_000, "]")),
    stopped(_chain("return [1 for a in [1]", "if 1", 9_000, "]")),
    stopped(_chain("return [1 for a in [1]", "for a in [1, 2]", 140, "]")),
    stopped(_functions("F()", "0", 800))._replace(codes=("STACK_OVERFLOW", "EXECUTION_ERROR")),
    fails(_functions("sorted([1], key = lambda x: F())", "0", 200), "nested"),
    fails(_DEEP + "return str(x)", "nested"),
    fails(_DEEP + "print(x)", "nested"),
    fails(_DEEP + "return json.encode(x)", "nesting"),
    fails(_DEEP + "return json.encode_indent(x)", "nested"),
    fails(_DEEP + "return echo(x = x)", "nested"),
    fails(_DEEP_TUPLE + "return x == x", "nested"),
    fails(_DEEP_TUPLE + "return x in [x]", "nested"),
    fails(_DEEP_TUPLE + "return sorted([x, x])", "nested"),
    stopped(_DEEP_TUPLE + "return {x: 1}"),
    fails(_CYCLE + "return echo(x = x)", "contains itself"),
    fails(_CYCLE + "return json.encode(x)", "nesting"),
    fails(_CYCLE + "return json.encode_indent(x)", "nested"),
    gives(_CYCLE + "return [x, str(x), x == [x]]", [["[Circular]"], "[...]", True]),
    fails('return json.decode("[" * 100000)', "nesting"),
    fails("""return json.decode('{"a":' * 1000)""", "nesting"),
    fails('return json.indent("[" * 300 + "]" * 300)', "nesting"),
    refused("#" + "x\n" * 40_000, "65536 bytes"),
    refused("x = 1 # " + "x" * 30_000, "longer than"),
)
"""Nesting, in the text and in values."""

RECURSION = (
    fails("def f():\n  return f()\nreturn f()", "recursively"),
    fails("l = []\ndef f(x):\n  return l[0](x)\nl.append(f)\nreturn f(1)", "recursively"),
    fails("d = {}\nd['f'] = lambda: d['f']()\nreturn d['f']()", "recursively"),
    fails("def f(x):\n  return sorted([x], key = f)\nreturn f(1)", "recursively"),
    fails("def f(x):\n  return max([x, x], key = f)\nreturn f(1)", "recursively"),
    fails("def f():\n  return parallel([f])\nreturn f()", "recursively"),
    fails("def f():\n  return parallel([f, f])\nreturn f()", "recursively"),
    fails("def f():\n  return parallel([lambda: f(), lambda: f()])\nreturn f()", "recursively"),
    fails("def f():\n  return parallel([lambda: sorted([1], key = lambda x: f())] * 2)\nreturn f()", "recursively"),
    fails("f = lambda x: x(x)\nreturn f(f)", "recursively"),
    fails(
        "y = lambda f: (lambda x: x(x))(lambda y: f(lambda a: y(y)(a)))\nreturn y(lambda f: lambda n: f(n))(1)",
        "recursively",
    ),
    fails("def f():\n  return g()\ndef g():\n  return f()\nreturn f()", "recursively"),
    fails("return sorted([1], key = sorted)", "iterable"),
    fails("return sorted([1], key = 1)", "callable"),
    fails("return sorted([1, 'a'])", "comparison"),
    fails("return sorted([lambda: 1, len])", "comparison"),
    fails("return min([None, 1])", "comparison"),
    fails("return sorted([1], key = parallel)", "list of functions"),
    fails("return sorted([1], key = call_tool)", "name of a tool"),
    fails("x = [3, 1]\nreturn sorted(x, key = lambda i: fail(i))", "3"),
    gives("x = [3, 1]\nreturn [sorted(x, key = lambda i: x.clear() or i), x]", [[1, 3], []]),
    malformed("while True:\n  pass"),
)
"""Functions that come back to themselves, and sort keys."""

TASKS = (
    stopped("def g():\n  for i in range(10000000):\n    pass\nparallel([g] * 300)"),
    stopped("parallel([lambda: parallel([lambda: [0 for i in range(10000000)]] * 10)] * 10)"),
    stopped("return parallel([lambda: all(range(1, 1000000000000))] * 3)"),
    stopped('return parallel([lambda: ["x" * 10000000 for i in range(100)]] * 10)')._replace(
        codes=("WORKER_MEMORY_EXCEEDED", "TIMEOUT", "WORKER_TIMEOUT")
    ),
    stopped("return parallel([lambda: users_list()] * 5000)"),
    stopped("parallel([lambda: [echo() for i in range(1000)]] * 10)"),
    stopped(_functions("parallel([F] * 2)", "echo(x = 1)", 60))._replace(codes=("TOOL_CALL_LIMIT", "EXECUTION_ERROR")),
    stopped(_functions("parallel([F] * 10)", "1", 30)),
    gives("return len(parallel([lambda: 1] * 5000))", 5000),
    gives("return parallel([])", []),
    gives(
        "return parallel([lambda: parallel([lambda: parallel([lambda: echo(x = 1)] * 2)] * 2)] * 2)",
        [[[{"x": 1}] * 2] * 2] * 2,
    ),
    gives("l = []\nl.append(lambda: l.append(lambda: 1))\nreturn [parallel(l), len(l)]", [[None], 2]),
    gives("l = [lambda: l.clear() or len(l)] * 3\nreturn parallel(l)", [0, 0, 0]),
    gives("return parallel([lambda: sorted([3, 1], key = lambda x: echo(x = x)['x'])] * 3)", [[1, 3]] * 3),
    fails("parallel([lambda: fail('a'), lambda: fail('b')])", "task 0 failed: a"),
    fails("parallel([lambda: echo(), lambda: fail('b'), lambda: call_tool('fail')])", "task 1 failed: b"),
    fails("parallel([lambda: echo(), lambda: call_tool('fail')])", "task 1 failed: it failed"),
    fails("parallel([lambda: call_tool('fail')] * 90)", "task 0 failed: it failed"),
    fails("parallel([lambda: parallel([lambda: call_tool('fail'), echo])])", "task 0 failed: parallel: task 0 failed"),
    fails("parallel([lambda: 1 / 0, lambda: [][1]])", "task 0 failed: integer division"),
    fails("parallel([lambda: fail(chr(0xD800))])", "task 0 failed"),
    fails("parallel([call_tool])", "task 0 failed: missing"),
    fails("parallel([lambda x: x])", "missing required"),
    fails("parallel(parallel)", "list of functions"),
    fails('parallel("ab")', "list of functions"),
    fails('parallel({"a": len})', "list of functions"),
    fails("parallel([len, 1])", "element 1 is not callable"),
    fails("parallel()", "missing"),
    fails("parallel(functions = [])"),
    fails("parallel([dict, json])", "element 1 is not callable"),
)
"""Tasks that run side by side."""

JSON = (
    *(
        fails(f"return json.decode({text!r})", says)
        for text, says in (
            ("", "end"),
            ("-", "incomplete"),
            ("nul", "invalid literal"),
            ("NaN", "unexpected character"),
            ("[1,]", "unexpected character"),
            ("{1:2}", "string key"),
            ("01", "leading zero"),
            ("1 2", "trailing"),
        )
    ),
    fails("return json.decode('\"' + chr(92) + 'ud800\"')", "surrogate"),
    fails("return json.decode('\"' + chr(92) + 'x41\"')", "escape"),
    fails("return json.decode('\"' + chr(92))", "dangling"),
    fails("return json.decode(chr(34) + chr(1) + chr(34))", "control character"),
    fails("return json.decode(1)", "string"),
    fails("return json.encode(len)", "cannot encode"),
    fails("return json.encode({1: 2})", "key"),
    fails("return json.encode(float('nan'))", "non-finite"),
    fails("return json.encode_indent(1, indent = 2)", "strings"),
    fails("json.encode = len", "field assignment"),
    fails("json['encode']", "no operator"),
    gives("return json", None),
    gives('return json.decode(\'{"__proto__": {"a": 1}, "a": 1, "a": 2}\')', {"__proto__": {"a": 1}, "a": 2}),
    gives("return json.encode(chr(0xD800)) == chr(34) + chr(0xD800) + chr(34)", True),
)
"""The module `json`."""

OUTPUT = (
    gives("for i in range(10000):\n  print(i)\nreturn 1", 1),
    gives("for i in range(100):\n  print('x' * 10000)\nreturn 1", 1),
    gives("print('x' * 10000000)\nreturn 1", 1),
    gives("print(*range(1000))\nreturn 1", 1),
    gives("print(chr(0xD800), chr(0))\nreturn 1", 1),
    gives("parallel([lambda: [print(i) for i in range(100)]] * 100)\nreturn 1", 1),
    fails("print(1, 2, sep = [1])", "sep is a string"),
    fails("print(1, sep = len)", "sep is a string"),
    fails("print(1, file = 2)", "keyword"),
    fails("fail(1, sep = [1])", "list"),
    fails("fail(chr(0xD800))"),
    fails("fail('x' * 1000000)", "x"),
    fails("fail()"),
    fails("return {}[chr(0xD800)]", "KeyError"),
    fails("f = lambda: 1\nreturn f(**{chr(0xD800): 1})", "unexpected keyword"),
    fails('return "".join(len)', "function"),
    fails('return "".join(json)', "json"),
    fails("return sum([[1], [2]], [])", "list"),
    fails("return sum([{}])", "dict"),
    fails("return sum([set()])", "set"),
    fails("return len(1, 2, 3)"),
    fails("return [].append()"),
    fails('return "".split(1)', "string"),
    fails('return "a".split("b", "c")'),
    fails("d = {1: 1}\nfor k in d:\n  d[k + 1] = 1", "changed size"),
    fails("d = {1: 1}\nfor k in d:\n  d.pop(k)", "changed size"),
    fails("s = set([1])\nfor k in s:\n  s.add(k + 1)", "changed size"),
    fails('"a".x = 1', "field assignment"),
    fails("t = (1,)\nt[0] = 2", "assignment"),
    fails("r = range(3)\nr[0] = 2", "assignment"),
    fails('s = "abc"\ns[0] = "x"', "assignment"),
    fails("return {[]: 1}", "unhashable"),
    fails("return set([{}])", "unhashable"),
    gives("return chr(0xD800)", "\ufffd"),
    gives("return {1: 2, '1': 3}", {"1": 3}),
    gives("return [len, lambda: 1, [].append]", [None] * 3),
)
"""What comes out: logs, messages, marks; and what may not be changed."""

TOOLS = (
    fails("secret_read()", "not among the allowed", "ACCESS_DENIED"),
    fails('call_tool("secret:read")', "not among the allowed", "ACCESS_DENIED"),
    fails('n = "secret" + ":read"\ncall_tool(n)', "not among the allowed", "ACCESS_DENIED"),
    fails('parallel([lambda: call_tool("secret:read")])', "task 0 failed"),
    fails("sorted(['secret:read'], key = call_tool)", "not among", "ACCESS_DENIED"),
    gives('return try_call("secret:read")["ok"]', False),
    gives('return [try_call(n)["ok"] for n in ["", "..", "echo ", "ECHO", "echo/../secret:read", "*"]]', [False] * 6),
    refused('call_tool("nope")', "was not found"),
    fails('n = "nope"\ncall_tool(n)', "was not found", "TOOL_NOT_FOUND"),
    fails("call_tool(chr(0xD800))", "was not found", "TOOL_NOT_FOUND"),
    fails('call_tool("x" * 100000)', "100000 characters"),
    fails("call_tool(1)", "is a string"),
    fails("call_tool()", "missing"),
    fails("call_tool(name = 'echo')"),
    fails('call_tool("echo", 1)', "by name"),
    fails('call_tool("echo", *[1])', "by name"),
    fails("echo(*[1])", "by name"),
    fails("echo(*range(100000))", "by name"),
    refused("echo(1)", "by name"),
    fails("echo(**{1: 2})", "strings"),
    fails("echo(**[1])", "dict"),
    fails("return echo(x = len)", "no data"),
    fails("return echo(x = {'a': [lambda: 1]})", "no data"),
    fails("return echo(x = json)", "no data"),
    fails("return echo(x = {1: 2})", "key"),
    fails('return echo(x = "a" * 2000000)', "larger than"),
    fails('return echo(x = ["a" * 100000] * 100)', "larger than"),
    fails("return call_tool('fail')", "it failed", "TOOL_EXECUTION_ERROR"),
    fails("fail('mine')", "mine"),
    stopped("return [big() for i in range(200)]"),
    gives("return echo(self = 1, function = 2, name = 3)", {"self": 1, "function": 2, "name": 3}),
    gives("return call_tool('echo', self = 1, name = 2)", {"self": 1, "name": 2}),
    gives("return echo(**{'': 1, chr(0xDC00): 2, '__class__': 3})", {"": 1, "\ufffd": 2, "__class__": 3}),
    gives("return [k for k in hostile()][:5]", ["__proto__", "constructor", "then", "toString", "valueOf"]),
    gives("return hostile()['code']", "return eval('1')"),
    fails("return hostile().code", _NO_MEMBER),
    gives("echo = lambda **k: 5\nreturn echo(a = 1)", 5),
    gives("x = echo(a = [1])\nx['a'].append(2)\nreturn [x, echo(a = [1])]", [{"a": [1, 2]}, {"a": [1]}]),
    gives("def script():\n  return 1\nreturn script()", 1),
)
"""Calls: names, inputs, refusals."""

ATTACKS: Mapping[str, tuple[Program, ...]] = {
    "walks": WALKS,
    "numbers": NUMBERS,
    "bombs": BOMBS,
    "depths": DEPTHS,
    "recursion": RECURSION,
    "tasks": TASKS,
    "json": JSON,
    "output": OUTPUT,
    "tools": TOOLS,
}
