"""Words of other languages and libraries that models write by habit, and what to write here: data for hints, read only
after a failure.

A name without a meaning here, such as `time`, may be a tool's namespace; that is why the policy refuses none of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _by_name(rows: Mapping[str, str]) -> Mapping[str, str]:
    """Expands rows whose key has several names."""
    return MappingProxyType({name: instead for names, instead in rows.items() for name in names.split()})


_BY_TOOLS = "A script reaches the outside only through tools: `await callTool(name, input)`."
LOOKS_FOR_TOOLS: Final = (
    "Scripts do not look for tools: search and describe them before it. `Object.keys(tools)` gives their names, "
    "`getTool('name')` one's schema."
)
_NO_LIBRARIES = "There are no libraries: use the methods of arrays and texts, `Object.groupBy` and `Date`."

NAMES: Final = _by_name(
    {
        # Python
        "len": "Write `x.length` for arrays and texts, `Object.keys(x).length` for objects.",
        "range": "Write `for (let i = 0; i < n; i++) { … }`, or `Array.from({ length: n }, (_, i) => i)`.",
        "None nil NULL": "Write `null`, or `undefined` for what is not there.",
        "True TRUE": "Write `true`.",
        "False FALSE": "Write `false`.",
        "str repr": "Write `String(x)`, or a template: `${x}`.",
        "int long": "Write `Number(x)`, or `Math.trunc(x)` to cut the fraction off.",
        "float double": "Write `Number(x)`.",
        "bool": "Write `Boolean(x)`.",
        "dict": "Write `{ … }`, or `Object.fromEntries(pairs)`.",
        "list tuple": "Write `[ … ]`, or `Array.from(x)`.",
        "isinstance type": "Write `typeof x`, `Array.isArray(x)` or `x instanceof Error`.",
        "enumerate": "Write `for (const [i, x] of items.entries()) { … }`.",
        "zip": "Write `a.map((x, i) => [x, b[i]])`.",
        "sorted": "Write `items.toSorted((a, b) => a.n - b.n)`.",
        "reversed": "Write `items.toReversed()`.",
        "sum": "Write `numbers.reduce((sum, n) => sum + n, 0)`.",
        "max min": "Write `Math.max(...numbers)` or `Math.min(...numbers)`.",
        "abs round floor ceil sqrt pow": "Write it as a member of `Math`, such as `Math.round(x)`.",
        "any": "Write `items.some((x) => …)`.",
        "all": "Write `items.every((x) => …)`, or `await Promise.all(promises)`.",
        "map filter reduce": "Write it as a method of the array, such as `items.map((x) => …)`.",
        "Exception ValueError KeyError IndexError RuntimeError": "Write `new Error(message)`.",
        "asyncio": "For several calls at once write `await Promise.all([callTool(…), …])`; there is no sleep.",
        "json": "Write `JSON.parse(text)` and `JSON.stringify(value)`; what tools return is parsed already.",
        "re": "Write a regular expression where the preset allows it, else `includes`, `startsWith` and `split`.",
        "datetime time timedelta": "Use `Date`; there is no sleep.",
        "math random np numpy pd pandas": "Use `Math` and the methods of arrays.",
        "os sys subprocess pathlib requests httpx urllib": _BY_TOOLS,
        # Node and browsers
        "fs path child_process http https net dns axios got superagent jQuery $": _BY_TOOLS,
        "_ lodash underscore R moment dayjs z zod uuid chalk": _NO_LIBRARIES,
        "log logger puts echo printf println": "`return` the value, or use `console.log` where the preset allows it.",
        # Other ways of calling tools
        "input inputs args params ctx context": "What the request brings is in `codecallContext`.",
        "listTools list_tools getTools get_tools searchTools search_tools": LOOKS_FOR_TOOLS,
        "findTools find_tools describeTools describe_tools codecall_search codecall_describe": LOOKS_FOR_TOOLS,
        "codemode codeMode toolbox codecall_invoke codecall_execute": (
            "Call a tool so: `await callTool('name', { … })`, or `await tools['name']({ … })`."
        ),
        "functions default_api": "Call a tool so: `await callTool('name', { … })`.",
        "mcp client server session use_tool useTool invoke invokeTool executeTool runTool execute_tool run_tool": (
            "Call a tool so: `await callTool('name', { … })`."
        ),
    }
)
"""Names of variables and functions from elsewhere, for scripts that do not define them."""

METHODS: Final = _by_name(
    {
        "append add": "push(x)",
        "contains has_key": "includes(x)",
        "isEmpty empty is_empty": "length === 0",
        "size count len": "length",
        "length": "length, without brackets",
        "first head": "[0]",
        "last tail": "at(-1)",
        "each foreach": "forEach((x) => …)",
        "select collect": "map((x) => …)",
        "where": "filter((x) => …)",
        "sum": "reduce((sum, n) => sum + n, 0)",
        "inject fold": "reduce((a, x) => …, start)",
        "sort_by sortBy orderBy": "toSorted((a, b) => a.n - b.n)",
        "groupBy group_by": "Object.groupBy(items, (x) => x.key)",
        "uniq unique distinct": "[...new Set(items)]",
        "compact": "filter(Boolean)",
        "flatten": "flat()",
        "extend": "push(...items)",
        "take limit": "slice(0, n)",
        "skip drop": "slice(n)",
        "strip": "trim()",
        "lstrip": "trimStart()",
        "rstrip": "trimEnd()",
        "upper": "toUpperCase()",
        "lower": "toLowerCase()",
        "startswith": "startsWith(x)",
        "endswith": "endsWith(x)",
        "capitalize title": "s[0].toUpperCase() + s.slice(1)",
        "format": "toISOString().slice(0, 10)` of a date, for a text a template with `${x}",
        "items": "Object.entries(x)",
        "keys": "Object.keys(x)",
        "values": "Object.values(x)",
        "get": "x[key] ?? fallback",
        "update": "{ ...a, ...b }",
        "pluck": "map((x) => x.key)",
        "strftime": "toISOString().slice(0, 10)",
        "isoformat": "toISOString()",
    }
)
"""Methods of other languages and libraries, and their equivalents here."""

WRAPPERS: Final = frozenset(
    {"content", "structuredContent", "structured_content", "data", "result", "results", "response", "body", "value"}
    | {"output", "payload", "text", "json"}
)
"""Members in which other clients wrap what a tool returns. Values here have them only by chance."""

LIST_WRAPPERS: Final = WRAPPERS.union(
    {"items", "rows", "records", "list", "elements", "entities", "hits", "nodes", "edges", "docs", "documents"},
    {"objects", "matches", "entries", "values", "all"},
)
"""Members by which scripts that do not know an answer look for the list in it."""

SUCCEEDED: Final = frozenset({"ok", "isOk", "is_ok", "success", "succeeded", "successful", "isSuccess", "is_success"})
"""Members that say whether something has succeeded: scripts ask for them where no answer has one."""

SUCCESS: Final = frozenset(
    {"ok", "isOk", "is_ok", "status", "statusCode", "status_code", "succeeded", "successful", "isSuccess", "is_success"}
    | {"isError", "is_error", "failed", "sent", "done", "accepted", "completed", "success"}
)
"""Members by which other clients say whether a call has succeeded."""

CONTENT_MEMBERS: Final = frozenset(
    {
        "data",
        "blob",
        "text",
        "base64",
        "content",
        "contents",
        "resource",
        "url",
        "uri",
        "src",
        "body",
        "buffer",
        "value",
    }
)
"""Members in which other clients have the bytes of a picture, a sound or a file."""

LIST_MEMBERS: Final = frozenset(
    {"at", "concat", "every", "filter", "find", "findIndex", "findLast", "flat", "flatMap", "forEach", "includes"}
    | {"indexOf", "join", "length", "map", "reduce", "slice", "some", "sort", "toReversed", "toSorted", "values", "0"}
)
"""Members of lists: a script that reads one from an object meant a list in it."""

_PYTHON = "This is Python; a script is JavaScript: "

_PROSE: Final = r"[\s*>\d.-]*(?!(?:None|True|False)\b)[A-Z][a-z']*[,.:;!*]*(?:\s+(?=\w)[\w'-]+[,.:;!?*]*(?=\s|$)){2}"
"""The beginning of a sentence: three words in a row, with a capital letter, and nothing of code between them."""

SYNTAX: Final = (
    (rf"{_PROSE}|\s*(?:Here|Sure|Certainly|This|The|I|To)\b", "Send the script alone, without words around it."),
    (r"\s*def\s+\w+\s*\(", f"{_PYTHON}write `const name = async (x) => {{ … }}`."),
    (r"\s*for\s+\w+(?:\s*,\s*\w+)*\s+in\b", f"{_PYTHON}write `for (const x of items) {{ … }}`."),
    (r".+\bfor\s+\w+(?:\s*,\s*\w+)*\s+in\b", f"{_PYTHON}write `items.map((x) => …)`."),
    (r"\s*(?:try|else|finally|except\b[^{]*)\s*:\s*$", f"{_PYTHON}write `try {{ … }} catch (e) {{ … }}`."),
    (r"\s*(?:if|elif|while|with|class)\b[^{]*:\s*(?:#.*)?$", f"{_PYTHON}write `if (x) {{ … }}`, with braces."),
    (r"\s*(?:from\s+\S+\s+)?import\s", f"{_PYTHON}there is nothing to import, `callTool` is there."),
    (r"\s*(?:print|raise|del|assert|global|nonlocal)\s+[\w\"']", f"{_PYTHON}write `throw new Error(…)`, `return …`."),
    (r".*\blambda\b[^:]*:", f"{_PYTHON}write an arrow function, `(x) => …`."),
    (r".*(?<![\w$])[fr][\"']", f"{_PYTHON}a text with values in it is a template, `Hello ${{x}}`."),
    (r".*(?:\"\"\"|''')", f"{_PYTHON}a text of several lines stands between backticks."),
    (r".*\b(?:and|or|not|is|elif|except)\b", f"{_PYTHON}write `&&`, `||` and `!` for and, or and not."),
    (r"\s*#(?!\w)", "In JavaScript a comment begins with `//`."),
    (r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\s", "A script is JavaScript, no SQL: ask a tool for the data."),
    (r"\s*(?:curl|npm|npx|pip|cd|ls|cat|echo|python3?|node|bash|sh)\s", "A script is JavaScript, no command line."),
    (r"\s*<[a-zA-Z]", "A script is JavaScript, no markup: `return` data."),
    (r"\s*\{\s*\"", "A script is JavaScript: to give data back write `return { … }`."),
)
"""Hints for a line on which a script stops being JavaScript, by a regular expression for its beginning; the first that
matches applies. The contents of texts and the comments have been removed from the line."""

SYNTAX_MESSAGES: Final = (
    (r"Missing initializer in const", "Give the constant its value, or declare it with `let`."),
    (
        r"invalid redefinition|Identifier '.*' has already been declared",
        "The name is declared already: assign without `const` or `let`, or choose another name.",
    ),
    (
        r"Unterminated template|Unexpected token ILLEGAL|Invalid or unexpected token",
        "Close the text on its line; a text of several lines stands between backticks, and a quote inside is written "
        "with a backslash.",
    ),
    (
        r"Unexpected (?:string|template)",
        "Put an operator or a comma before the text, `+` to join; escape quotes in it.",
    ),
    (
        r"Unexpected (?:identifier|number|token)|expecting '[;,:=(]",
        "Something is left open or out before this place: look for a bracket, a comma or an operator.",
    ),
    (
        r"Invalid regular expression|expecting '[)}>]|nothing to repeat|invalid .*(?:group|class|escape|repeat)",
        "Write a backslash before what has a meaning of its own in a regular expression, such as brackets and `/`.",
    ),
    (r"Unexpected end of input", "Something is left open: close every bracket, string and template."),
    (r"Illegal newline after throw", "A line break ends `throw`: begin what is thrown on the same line."),
    (
        r"Illegal (?:break|continue)|Undefined label",
        "`break` and `continue` stand in loops; the function of `forEach` is left by `return`.",
    ),
    (
        r"Use of future reserved word|Unexpected reserved word|Variable name may not be|let is disallowed",
        "A word of the language is no name: choose another one.",
    ),
    (r"Invalid (?:left-hand|destructuring)", "Only variables and members can be assigned to; to compare write `===`."),
)
"""Hints by the message of the parser or the engine, for lines that match none of `SYNTAX`."""


def line_hint(line: str) -> str | None:
    """The hint for a line on which a script stops being JavaScript."""
    return next((hint for pattern, hint in SYNTAX if line and re.match(pattern, line)), None)


def message_hint(message: str) -> str | None:
    """The hint for a syntax error by its message."""
    return next((hint for pattern, hint in SYNTAX_MESSAGES if re.match(pattern, message)), None)
