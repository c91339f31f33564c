"""Hints for scripts that threw: the table of rules, and the choice among them. REVIEW THIS FILE.

The first rule whose pattern matches the error's name and message, and whose cause can be found, gives the hint.
Patterns match what this engine and the runtime say; codes, statuses and whatever else the server decides by never
follow from them. Every rule has a probe, the shortest script that leads to it, which is its test. Messages about limits
are in `report.py`, those of the validator in `policy.py` and `foreign_words.py`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.diagnosis import causes, request
from codecall.sandbox.agentscript.diagnosis.context import Cause, FailureContext, message_fields

MAX_HINT: Final = 600
"""Most characters of a hint from here; longer ones are cut, and end with an ellipsis."""


def hint_for(name: str, message: str, context: FailureContext) -> str | None:
    """The hint for an error that ended a script; None when no rule applies."""
    text = f"{name}: {message}"
    for rule in HINT_RULES:
        if (match := rule.pattern.match(text)) is not None and (fields := rule.cause(context, match)) is not None:
            hint = rule.hint.format_map(fields)
            return hint if len(hint) <= MAX_HINT else f"{hint[: MAX_HINT - 1]}…"
    return None


class HintRule(NamedTuple):
    """One kind of failure and what to do about it."""

    name: str
    pattern: re.Pattern[str]
    """What the error's name and message look like: `TypeError: not a function`."""
    hint: str
    """A template; the cause gives its fields."""
    probe: str
    """The shortest script that fails so. Its tools: `users` gives `{users: [{id, name, email?}], next}`, `count` a
    number, `nothing` null, `say` a text, `echo` its input."""
    cause: Cause = message_fields


def _rule(name: str, pattern: str, hint: str, probe: str, cause: Cause = message_fields) -> HintRule:
    return HintRule(name, re.compile(pattern, re.DOTALL), hint, probe, cause)


_READS = r"TypeError: cannot (?:read|set) property '(?!Symbol\.)(?P<member>.*)' of (?P<nothing>undefined|null)"
_CONVERTS = r"TypeError: Cannot convert undefined or null to object"
_CALLS = r"TypeError: not a (?:function|constructor)"
_ITERATES = r"TypeError: (?:value is not iterable|cannot read property 'Symbol\.\w*terator' of (?:undefined|null))"
_NO_DATE = r"RangeError: (?:Date value is NaN|invalid date|Invalid (?:Date|time value)).*"
NO_TEXT_FORM: Final = "an object has no form as a text or number"
"""The message for an object without a `toString` or `valueOf` that is a function; the engine's own is `toPrimitive`."""
DATE_HINT: Final = (
    "Dates are in UTC here, as en-US, whatever is left out. The clock time of a text such as "
    "2026-10-20T19:30:00+01:00 stands in it: `text.slice(11, 16)`, and the day, `text.slice(0, 10)`. "
    "For another offset from UTC, in minutes: `new Date(date.getTime() + minutes * 60000).toISOString().slice(11, 16)`."
)
"""The hint for a locale or time zone of a date."""
_AWAIT = "Write `await` in front of it: `const value = await callTool(…)`"
HINT_RULES: Final[tuple[HintRule, ...]] = (
    # What the script is, as other code modes call one
    _rule(
        "parameter of the script",
        f"(?:{_CONVERTS}|{_READS})",
        "The function that the script consists of is called without arguments: `callTool`, `tools` and "
        "`codecallContext` are there by themselves, so leave its parameters out.",
        "async ({ tools }) => { return await tools.users({}) }",
        causes.parameter_of_script,
    ),
    # The value of a call that has failed
    _rule(
        "value of a failed call",
        f"(?:{_READS}|{_CONVERTS})",
        "`{what}` is undefined: {tool} failed, and with `throwOnError: false` the message is at "
        "{result}error.message`: test {result}success` first.",
        "const r = await callTool('none', {}, { throwOnError: false }); return r.data.name",
        causes.data_of_failed_call,
    ),
    # A promise where its value is meant
    _rule(
        "promise iterated",
        r"TypeError: .* was not awaited: it was iterated over",
        f"{_AWAIT}, and for a list of promises `await Promise.all(promises)`.",
        "for (const user of callTool('users')) {}",
    ),
    _rule(
        "item of a list of promises read",
        r"TypeError: .* was not awaited: its property '(?P<member>.*)' was read",
        "`{what}` gives a list of promises: wait for them all, `await Promise.all({what})`.",
        "const r = [1].map(() => callTool('users')); return r.map((x) => x.users)",
        causes.list_of_promises,
    ),
    _rule(
        "promise read",
        r"TypeError: .* was not awaited: its property '(?P<member>.*)' was read",
        f"{_AWAIT}, then `value.{{member}}`; in one expression `(await callTool(…)).{{member}}`.",
        "return callTool('users').users",
    ),
    _rule(
        "promise used",
        r"TypeError: .* was not awaited: ",
        f"{_AWAIT}, and use the value; functions that are `async` give promises too.",
        "const load = async () => 1; return load() + 1",
    ),
    _rule(
        "promise in an input",
        r"TypeError: The input of .* contains a promise; await it first",
        "Write `await` in front of what makes the promise, and pass its value.",
        "await callTool('echo', { user: callTool('users') })",
    ),
    # An answer that is not what the script takes it for
    _rule(
        "no such property in an answer",
        _READS,
        "`{what}` is {nothing}{some}: {tool} returned {shape}.{use}",
        "const r = await callTool('users'); return r.items.length",
        causes.missing_property,
    ),
    _rule(
        "no such property in an answer that is destructured",
        _CONVERTS,
        "`{what}` is {nothing}{some}: {tool} returned {shape}.{use}",
        "const { data: { users } } = await callTool('users')",
        causes.missing_destructured_property,
    ),
    _rule(
        "no such method in an answer",
        _CALLS,
        "`{what}` is {kind} and has no `{method}()`: {tool} returned {shape}.{use}",
        "const r = await callTool('users'); return r.map((user) => user.id)",
        causes.missing_method,
    ),
    _rule(
        "no list in an answer",
        _ITERATES,
        "`{what}` is {kind}, no list: {tool} returned {shape}.{use}",
        "const r = await callTool('users'); for (const user of r) {}",
        causes.not_a_list,
    ),
    _rule(
        "an answer parsed twice",
        r"SyntaxError: ",
        "`{what}` is no text: {tool} returned {shape}, parsed already. Use it as it is, without `JSON.parse`.",
        "const r = await callTool('users'); return JSON.parse(r)",
        causes.parsed_twice,
    ),
    # What the request has not brought
    _rule(
        "no such property in the context",
        _READS,
        "`{what}` is {kind}: the request brought {brought}.{use}",
        "return codecallContext.filter.name",
        request.missing_property,
    ),
    _rule(
        "no such property in the context, destructured",
        _CONVERTS,
        "`{what}` is {kind}: the request brought {brought}.{use}",
        "const { filter: { name } } = codecallContext; return name",
        request.missing_destructured_property,
    ),
    _rule(
        "no list in the context",
        _ITERATES,
        "`{what}` is {kind}, no list: the request brought {brought}.{use}",
        "for (const id of codecallContext.ids) {}",
        request.not_a_list,
    ),
    # Values of the script's own
    _rule(
        "nothing returned to reduce",
        rf"(?:{_READS}|TypeError: value has no property)",
        "The callback of `{method}` returns nothing, so that `{name}` is undefined from its second turn on: end the "
        "callback with `return {name};`.",
        "return ['a', 'b'].reduce((g, key) => { g[key] = 1; }, {})",
        causes.unreturned_accumulator,
    ),
    _rule(
        "nothing to add to",
        _READS,
        "`{what}` is {nothing}: {make}.",
        "const groups = {}; for (const key of ['a']) { groups[key].push(1); }",
        causes.missing_collection,
    ),
    _rule(
        "description of no tool, destructured",
        _CONVERTS,
        "`{what}` is undefined: no tool is called so.{meant} `Object.keys(tools)` gives the names of those there are.",
        "const { inputSchema } = getTool('nothing at all'); return inputSchema",
        causes.unknown_tool_destructured,
    ),
    _rule(
        "description of no tool",
        _READS,
        "`{what}` is {nothing}: no tool is called so.{meant} `Object.keys(tools)` gives the names of those there are.",
        "return getTool('nothing at all').inputSchema",
        causes.unknown_tool,
    ),
    _rule(
        "property of nothing after a misread property",
        _READS,
        "What stands before `.{member}` is {nothing}, after this: {misread}",
        "const r = await callTool('users'); const u = r.users.filter((x) => x.nam === 'Ann')[0]; return u.id",
        causes.missing_after_misread,
    ),
    _rule(
        "property of nothing",
        _READS,
        "`{what}` is {nothing}: see what it holds (`return` it, or `console.log` it), and test it or write `?.` where "
        "it may be missing.",
        "let x; return x.y",
        causes.missing_value,
    ),
    _rule(
        "property of nothing, in a line with several",
        _READS,
        "What stands before `.{member}` is {nothing}: test it first; to read what may be missing write `?.{member}`.",
        "const x = {}; return x.z.z.z",
    ),
    _rule(
        "nothing destructured",
        _CONVERTS,
        "What is taken apart here is undefined or null: give it a default, such as `const {{ a }} = x ?? {{}}`. One "
        "inside a pattern, `{{ a = {{}} }}`, does not stand in for null.",
        "const x = null; const { a } = x",
    ),
    _rule(
        "method of lists on a collection",
        _CALLS,
        "`{what}` is {kind} and has no `{method}()`: write `[...{what}].{method}(…)`{items}.",
        "const m = new Map(); return m.filter(([key]) => key)",
        causes.list_method,
    ),
    _rule(
        "method from elsewhere",
        _CALLS,
        "`{what}` is no function: instead of `{method}` write `{instead}`.",
        "const list = []; list.append(1)",
        causes.foreign_method,
    ),
    _rule(
        "no constructor",
        r"TypeError: not a constructor",
        "What stands behind `new` is no class: if it is a function, call it without `new`.",
        "return new Date.now()",
    ),
    _rule(
        "no function",
        _CALLS,
        "`{what}` is no function: check its spelling, and what it holds at this place.",
        "const f = 5; f()",
        causes.not_a_function,
    ),
    _rule(
        "no function, in a line with several",
        _CALLS,
        "Something is called on this line that is no function: check the spelling of each name that is called.",
        "const o = { f: (x) => x }; let x = 1; o.g(o.f(x))",
    ),
    _rule(
        "promises in an object",
        _ITERATES,
        "`{callee}` takes a list: `const [a, b] = await {callee}([callTool(…), callTool(…)])`.",
        "return await Promise.all({ a: callTool('users'), b: callTool('count') })",
        causes.promises_in_object,
    ),
    _rule(
        "no list, where an answer has one",
        _ITERATES,
        "{what}. {tool} returned {shape}: the list in it is `{key}`.",
        "const pick = (x) => x.rows; const [list] = [await callTool('users')].map(pick); for (const x of list) {}",
        causes.list_elsewhere,
    ),
    _rule(
        "no list",
        _ITERATES,
        "`{what}` is no list: for the keys and values of an object write `Object.entries({what})`, for what may be "
        "missing `{what} ?? []`.",
        "const o = {}; return [...o]",
        causes.not_iterable,
    ),
    _rule(
        "no list, in a line with several",
        _ITERATES,
        "What is iterated over here is no list: for an object write `Object.entries(x)`, for what may be missing "
        "`x ?? []`.",
        "const o = {}; return new Map([...o], new Set([...o]))",
    ),
    _rule(
        "no regular expression",
        r"SyntaxError: ",
        "The text is no regular expression: write two backslashes before what has a meaning of its own in one.",
        "return new RegExp('(')",
        causes.invalid_regular_expression,
    ),
    _rule(
        "no JSON",
        r"SyntaxError: (?P<why>.*)",
        "`{what}` is no JSON text. What tools return is parsed already; a text that is no JSON is used as it is.",
        "return JSON.parse('no')",
        causes.invalid_json,
    ),
    # Variables
    _rule(
        "variable read by its own declaration",
        r"ReferenceError: (?P<name>\S+) is not initialized",
        "In its own declaration `{name}` means the new variable, which has no value yet: give the variable another "
        "name, such as `const {name}Result = …`.",
        "const users = (() => users.length)()",
        causes.read_in_own_declaration,
    ),
    _rule(
        "variable read too early",
        r"ReferenceError: (?P<name>\S+) is not initialized",
        "`{name}` is read before its declaration has run: move the declaration up.",
        "f(); const x = 1; function f() { return x }",
    ),
    _rule(
        "frozen object changed",
        r"TypeError: (?:'.*' is read-only|object is not extensible|.* not extensible|could not delete property.*)",
        "The object is frozen, as `codecallContext` is: change a copy, `const copy = structuredClone(x)`.",
        "codecallContext.a = 1",
    ),
    _rule(
        "property set on a primitive",
        r"TypeError: not an object",
        "Texts, numbers and booleans have no properties of their own: put it into an object, `{{ value, extra }}`.",
        "const s = 'a'; s.b = 1",
    ),
    _rule(
        "class without new",
        r"TypeError: class constructors must be invoked with 'new'",
        "Write `new` in front of the class.",
        "class A {}; A()",
    ),
    # Numbers and texts
    _rule(
        "no text form",
        rf"TypeError: {re.escape(NO_TEXT_FORM)}",
        "An object is used as a text or a number here, and its `toString` or `valueOf` is data, or not there: pick the "
        "member that is meant, or write `JSON.stringify(x)`.",
        "const x = { toString: 1 }; return `${x}`",
    ),
    _rule(
        "bigint and number",
        r"TypeError: (?:cannot (?:convert (?:to )?BigInt|mix BigInt|convert bigint)|bigint argument with unary).*",
        "Numbers and BigInts do not mix, and integers beyond 2^53 are BigInts here, to keep every digit: convert one "
        "of them, `Number(big)` (which rounds) or `BigInt(n)`; sort by `a < b ? -1 : 1`.",
        "return 1n + 1",
    ),
    _rule(
        "reduce of nothing",
        r"TypeError: empty array",
        "Give `reduce` a value to begin with: `items.reduce((sum, n) => sum + n, 0)`.",
        "return [].reduce((a, b) => a + b)",
    ),
    _rule(
        "date of what an answer does not have",
        _NO_DATE,
        "`{what}` is undefined{some}: {tool} returned {shape}.{use}",
        "const r = await callTool('users'); return new Date(r.since).toISOString()",
        causes.date_of_nothing,
    ),
    _rule(
        "no date",
        _NO_DATE,
        "The text or number is no date: check it with `Number.isNaN(date.getTime())` first; months count from 0.",
        "return new Date('nonsense').toISOString()",
    ),
    _rule(
        "circle in JSON",
        r"TypeError: circular reference",
        "The value refers to itself, which JSON cannot: pick the fields that are needed.",
        "const a = {}; a.a = a; return JSON.stringify(a)",
    ),
    _rule(
        "no such locale or zone of a date",
        r"RangeError: AgentScript knows no (?:locale .* for dates|`timeZone(?:Name)?` )",
        DATE_HINT,
        "return new Date(0).toLocaleString(undefined, { timeZone: 'Europe/London' })",
    ),
    _rule(
        "no such locale",
        r"RangeError: AgentScript knows no (?:locale|capitals of the locale) ",
        "Leave the locale out, or write the text by hand: `n.toFixed(2)`, `String(n).padStart(2, '0')`, "
        "`date.toISOString().slice(0, 10)`.",
        "return (1.5).toLocaleString('de-DE')",
    ),
    _rule(
        "no such format",
        r"RangeError: AgentScript knows no ",
        "Leave the option out, or write the text by hand: `n.toFixed(2)`, `String(n).padStart(2, '0')`, "
        "`date.toISOString().slice(0, 10)`.",
        "return (1234).toLocaleString('en-US', { notation: 'compact' })",
    ),
    _rule(
        "out of range",
        r"RangeError: ",
        "The number is outside of what this function takes; `Math.max` and `Math.min` keep it inside.",
        "return 'a'.repeat(-1)",
    ),
    # The runtime
    _rule(
        "tool that is called by another function",
        r"TypeError: callTool\('(?:call|callTool|call_tool|use|run|invoke|execute)', …\) needs an object as input",
        "Call a tool by its own name: `await callTool('name', {{ … }})`, or `await tools['name']({{ … }})`.",
        "await tools.call('users', {})",
    ),
    _rule(
        "part of a result that is no object",
        r"TypeError: getResult\('.*', …\) needs an object as input",
        "The second argument says which part, as an object: `{{ at: 'rows' }}` for one member, "
        "`{{ from: 0, count: 100 }}` for items of a list, `{{ page: 1 }}` for a page of its text. Without "
        "it all of the result is read.",
        "await getResult('res_1', 1)",
    ),
    _rule(
        "arguments of a prompt that are no object",
        r"TypeError: getPrompt\('.*', …\) needs an object as input",
        "Give the arguments of the prompt as one object, by their names: `getPrompt('name', {{ topic: 'x' }})`.",
        "await getPrompt('name', 'x')",
    ),
    _rule(
        "input that is no object",
        r"TypeError: \w+\('?.*'?, …\) needs an object as input",
        "Give the input as one object with the tool's parameters: `callTool('name', {{ id: 1 }})`.",
        "await callTool('echo', [1])",
    ),
    _rule(
        "name that is no text",
        r"TypeError: \w+ needs (?:a tool name|a URI|a prompt name) ",
        "The name comes first: `await callTool('name', {{ … }})`.",
        "await callTool({ name: 'echo' })",
    ),
    _rule(
        "handle that is no text",
        r"TypeError: getResult needs ",
        "`getResult` takes the `handle` in the `largeResult` of an earlier answer, as text: "
        "`await getResult('res_…')`.",
        "return await getResult()",
    ),
    _rule(
        "nothing to emit",
        r"TypeError: emit needs a content block that",
        "`emit` was given nothing: `{what}` is {nothing}{some}. {tool} returned {shape}.{use}",
        "const r = await callTool('users'); emit(r.picture)",
        causes.undefined_operand,
    ),
    _rule(
        "no content block",
        r"TypeError: emit needs a content block that",
        "`emit` takes what a tool or resource gave in place of a picture, a sound or a file, an object with `ref`, or "
        "a list of these: `emit(await callTool('draw', {{ … }}))`. For all else there is `return`.",
        "emit('x')",
    ),
    _rule(
        "promises for functions",
        r"TypeError: __safe_parallel needs ",
        "Pass functions, not promises: `__safe_parallel(ids.map((id) => () => callTool('name', {{ id }})))`; for "
        "promises there is `await Promise.all(promises)`.",
        "await __safe_parallel([callTool('users')])",
    ),
    _rule(
        "too much at once",
        r"Error: Cannot execute more than 100 operations in parallel",
        "Call it for 100 at a time: `items.slice(i, i + 100)` in a loop that adds 100 to `i`. Where that "
        "is more tool calls than a run may make, split the work into several runs: `dryRun` gives the limits.",
        "await __safe_parallel(Array.from({ length: 101 }, () => () => 1))",
    ),
    _rule(
        "some of many failed",
        r"Error: \d+ of \d+ parallel operations failed:",
        "Mend those named here, or catch the failure in each function: `() => callTool(…).catch((e) => e.message)`.",
        "await __safe_parallel([() => callTool('fail')])",
    ),
    _rule(
        "reference read",
        r"TypeError: the value of '.*' stayed outside of the script",
        "Pass the reference on as it is, `callTool('name', {{ rows: reference }})`; to read the value, call without "
        "`reference: true`.",
        "const r = await callTool('echo', { text: 'x'.repeat(2000) }, { reference: true }); return r.text",
    ),
    _rule(
        "reference spread",
        r"TypeError: The input has a reference with a member of its own",
        "A reference stands for all of its value: give it to a parameter as it is, `{{ rows: reference, limit: 5 }}`. "
        "To add to its value, call without `reference: true`.",
        "const r = await callTool('echo', { text: 'x'.repeat(2000) }, { reference: true }); "
        "await callTool('echo', { ...r, limit: 5 })",
    ),
    _rule(
        "unknown option",
        r"TypeError: (?:\w+\('.*', …\) (?:has no|needs true or false for its)|Write the) option ",
        "The third argument has options of the call, `{{ throwOnError: false }}` and `{{ reference: true }}`; the "
        "tool's own parameters belong into the second.",
        "await callTool('echo', {}, { timeout: 5 })",
    ),
    _rule(
        "input computed from nothing",
        r"TypeError: The input of .* has what JSON cannot hold: .* is NaN",
        "`{what}` is {nothing}{some}, and a number computed from it is NaN: {tool} returned {shape}.{use}",
        "const r = await callTool('users'); await callTool('echo', { price: r.price * 1.1 })",
        causes.undefined_operand,
    ),
    _rule(
        "input with a number that is none",
        r"TypeError: The input of .* has what JSON cannot hold: .* is (?:NaN|-?Infinity|an invalid date)",
        "Look at what the value is computed from: a part of it is undefined, no number, no date, or 0 and divided by. "
        "Write `null` where the tool is to get none.",
        "await callTool('echo', { price: 1 / 0 })",
    ),
    _rule(
        "input with a function",
        r"TypeError: The input of .* has what JSON cannot hold: ",
        "An input is plain data: call a function and pass what it gives, write a text in place of a symbol, or leave "
        "the property out.",
        "await callTool('echo', { now: () => 1 })",
    ),
    _rule(
        "input that cannot be sent",
        r"TypeError: The input (?:refers to itself|is nested deeper)",
        "An input is plain data: pick the fields that the tool needs, without what refers back to its owner.",
        "const a = {}; a.a = a; await callTool('echo', a)",
    ),
    _rule(
        "built-in changed",
        r"TypeError: Built-in objects are read-only in AgentScript",
        "Built-ins cannot be changed: write a function of your own.",
        "const p = ['proto', 'type'].join(''); const [O] = [Object]; O[p].toString = 1",
    ),
    _rule(
        "all failed",
        r"AggregateError: ",
        "None of the promises came to a value; `await Promise.allSettled(promises)` says why for each.",
        "await Promise.any([callTool('fail')])",
    ),
    # What the script threw
    _rule(
        "own error after a misread property",
        r"",
        "The script threw this itself, on the line shown. {misread}",
        "const r = await callTool('users'); if (!r.success) throw new Error('no users')",
        causes.thrown_after_misread,
    ),
    _rule(
        "own error",
        r"",
        "The script threw this itself, on the line shown: mend what leads there, or return a value instead.",
        "throw new Error('no users')",
        causes.thrown_by_script,
    ),
)
"""In the order in which they are tried."""

NOT_AN_ERROR_HINT: Final = (
    "What was thrown is no Error: write `throw new Error(message)`, and reject promises with an Error, too; it says "
    "what went wrong, and where."
)
"""The hint for `throw 'text'`, `throw {code: 1}` and `Promise.reject()`."""
