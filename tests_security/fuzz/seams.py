"""Hostile programs for a whole enclave, biased to where the runtime meets a script's values: what it reads, coerces,
awaits, iterates, calls and throws.

Every program looks for a way out by itself and says so in a word that stands nowhere in its text (`FOUND`): code made
of text that runs, a prototype that is changed, a limit that was swallowed. What it returns and logs is the report.
"""

from __future__ import annotations

from typing import Final

from tests_security.fuzz.choices import Choices
from tests_security.fuzz.mutations import mutate

FOUND: Final = "WAY-OUT"
"""What a program says when it has found a way out."""

HEAD: Final = """
const k = (...s) => s.join('');
const C = k('constr', 'uctor'), P = k('__pro', 'to__'), T = k('proto', 'type'), G = k('__lookup', 'Getter__');
const N = [C, P, T, G, k('__define', 'Getter__'), 'then', 'toJSON', 'toString', 'valueOf', 'name', 'message', 'stack',
  'length', 'cause', 'code', 'next', 'return', 'throw', 'callee', 'caller', 'call', 'bind', 'apply', 'species', 'for'];
const code = k('return 7', ' * 191'), word = k('WAY', '-OUT ');
const log = [];
const found = (what) => { log.push(word + what); console.log(word + what) };
const now = () => [[].map, 'a'.slice, Promise.resolve, JSON.stringify, Object.keys, new Map().get, (1).toFixed,
  callTool, getTool, [][Symbol.iterator], Object.assign, String.raw];
const natives = now();
let fuel = 60;
function probe(x, depth = 0) {
  if (fuel-- < 0 || depth > 3 || x === null || x === undefined) return x;
  for (const n of N) {
    let y;
    try { y = x[n] } catch (e) { y = e }
    if (typeof y !== 'function') { if (typeof y === 'object') probe(y, depth + 1); continue }
    if (n !== C && n !== 'callee' && n !== 'caller') continue;
    try { const f = y(code); if ((typeof f === 'function' ? f() : f) === 1337) found('text runs') } catch {}
    try { const f = new y(code); if (typeof f === 'function' && f() === 1337) found('text runs, made new') } catch {}
    if (n === C) probe(y, depth + 1);
  }
  try { if (typeof x === 'function' && x(k('7', ' * 191')) === 1337) found('an eval') } catch {}
  try { if ('callTool' in x || 'parseInt' in x) found('the global object') } catch {}
  try { x.polluted = 1 } catch {}
  try { x[P].polluted = 1 } catch {}
  return x;
}
const check = () => {
  const fresh = [{}, [], () => 1, '', 0, new Map(), new Error('')];
  if (fresh.some(x => x.polluted !== undefined)) found('a prototype is changed');
  const then = now();
  natives.forEach((f, i) => { if (f !== then[i]) found('a built-in is changed') });
};
const dive = () => 1 + dive();
const spin = () => { try { for (;;) {} } catch { found('a limit was swallowed') } };
const deep = () => { try { dive() } catch { found('a limit was swallowed') } };
const tagged = (...a) => probe(a[0]);
const globals = [callTool, getTool, __safe_parallel, console, Math, JSON];
"""
_TAIL: Final = "\ncheck();\nreturn [log, {0}]"

_FUNCTIONS: Final = (
    *(
        "() => {v}",
        "x => x",
        "() => {{ throw {v} }}",
        "function () {{ return this }}",
        "function () {{ return arguments }}",
    ),
    *(
        "async () => {v}",
        "x => probe(x)",
        "(...a) => {{ a.forEach(x => probe(x)); return {v} }}",
        "dive",
        "spin",
        "deep",
    ),
    *(
        "function* () {{ yield {v}; return {v} }}",
        "async function* () {{ yield {v}; throw {v} }}",
        "() => callTool('echo', {v})",
    ),
    *(
        "(resolve, reject) => {{ probe(resolve); resolve?.({v}); reject?.({v}) }}",
        "class {{ constructor() {{ return {v} }} }}",
    ),
    *(
        "(a, b) => {{ probe(a); return b }}",
        "probe",
        "getTool",
        "callTool",
        "() => getTool('echo')",
        "String",
        "Promise.resolve",
    ),
    *(
        "function () {{ probe(this); return probe(arguments) }}",
        "() => fuel--",
        "async x => {{ await {v}; return probe(x) }}",
    ),
)
_VALUES: Final = (
    *(
        "1",
        "'a'",
        "null",
        "undefined",
        "-1",
        "NaN",
        "1e9",
        "10n",
        "true",
        "[]",
        "({{}})",
        "/a/g",
        "[1, , 3]",
        "Symbol.iterator",
    ),
    *(
        "'echo'",
        "'users:list'",
        "'secret:read'",
        "'fail'",
        "'hostile'",
        "'nope'",
        "'codecall' + '_x'",
        "codecallContext",
        "''",
    ),
    *(
        "([Symbol][0])[{n}]",
        "({{ [([Symbol][0])[{n}]]: {f} }})",
        "{f}",
        "({{ then: {f} }})",
        "({{ get then() {{ return ({f})() }} }})",
        "({{ toJSON: {f} }})",
        "({{ toString: {f}, valueOf: {f} }})",
    ),
    *(
        "({{ get [{n}]() {{ return ({f})() }} }})",
        "({{ [{n}]: {v} }})",
        "({{ [{n}]: {f}, [{n}]: {v} }})",
        "({{ ...{v}, [{n}]: {f} }})",
    ),
    *(
        "({{ [Symbol.iterator]: {f} }})",
        "({{ *[Symbol.iterator]() {{ yield {v}; probe(yield) }} }})",
        "({{ [Symbol.asyncIterator]: {f} }})",
    ),
    *(
        "({{ [Symbol.iterator]: () => ({{ next: {f}, return: {f}, get done() {{ return {v} }} }}) }})",
        "({{ length: {v}, 0: {v} }})",
    ),
    *("Object.assign([1, 2, 3], {{ [{n}]: {v}, [{n}]: {f} }})", "Object.assign(Promise.resolve({v}), {{ then: {f} }})"),
    *(
        "Object.assign(Promise.resolve(1), {{ [C]: {f} }})",
        "Object.assign([1], {{ [C]: {{ [Symbol.iterator]: {f} }} }})",
    ),
    *(
        "Object.assign({f}, {{ [{n}]: {v} }})",
        "Object.fromEntries([[{n}, {v}], [{n}, {f}]])",
        "new Map([[{v}, {v}], [{n}, {v}]])",
    ),
    *(
        "new Error({v}, {{ cause: {v} }})",
        "Object.assign(new Error('e'), {{ [{n}]: {v}, name: {v} }})",
        "new AggregateError([{v}], {v})",
    ),
    *("new (class extends Error {{ get name() {{ return ({f})() }} get message() {{ return {v} }} }})()",),
    *("new (class extends Error {{ static [{n}] = {f}; [{n}] = {v}; constructor() {{ super({v}) }} }})()",),
    *("new (class {{ #x = {v}; get [{n}]() {{ return this.#x }} static {{ probe(this) }} [{n}]() {{}} }})()",),
    *(
        'JSON.parse(\'{{"__proto__": {{"polluted": 1}}, "a": [1]}}\')',
        "Object.create({v})",
        "Object.freeze({v})",
        "structuredClone({v})",
    ),
    *(
        "({f}).bind({v})",
        "[{v}, {v}, {f}]",
        "new Set([{v}, {f}])",
        "Array.from({{ length: 3, 0: {v} }})",
        "new Date({v})",
        "Array(5)",
    ),
    *(
        "(function* () {{ try {{ probe(yield {v}) }} finally {{ yield {v} }} }})()",
        "(async function* () {{ yield {v} }})()",
    ),
    *(
        "`${{1}}`",
        "tagged`a${{1}}`",
        "({{ a: {{ b: {{ c: {v} }} }} }})",
        "'x'.repeat(3000)",
        "[...Array(200).keys()]",
        "fuel",
        "log",
    ),
)
_SINKS: Final = (
    *("{v}", "await {v}", "callTool({v}, {v}, {v})", "await callTool('echo', {v})", "await callTool('echo', {v}, {v})"),
    *(
        "await callTool({v}, {{ a: {v} }})",
        "await callTool('hostile', {{}})",
        "await callTool('fail', {{}}, {{ throwOnError: {v} }})",
    ),
    *("getTool({v})", "getTool('echo')", "await __safe_parallel({v}, {v})", "await __safe_parallel([{f}, {f}], {v})"),
    *(
        "await __safe_parallel([{f}, () => {v}], {{ get maxConcurrency() {{ return {v} }} }})",
        "console.log({v}, {v})",
        "console.error({f})",
    ),
    *(
        "structuredClone({v})",
        "JSON.stringify({v}, {v}, {v})",
        "JSON.stringify({v})",
        "JSON.parse('[1]', {f})",
        "`${{{v}}}`",
        "{v} + ''",
    ),
    *(
        "await Promise.all({v})",
        "await Promise.race([{v}, {v}])",
        "await Promise.allSettled([{v}])",
        "await Promise.any([{v}, {v}])",
    ),
    *(
        "await Promise.resolve({v}).then({f}, {f})",
        "await Promise.reject({v}).catch({f}).finally({f})",
        "new Promise({f})",
    ),
    *(
        "({v}).then({f}, {f})",
        "await (async () => {{ throw {v} }})()",
        "Promise.withResolvers().resolve({v})",
        "Promise.try({f}, {v})",
    ),
    *(
        "Array.from({v}, {f})",
        "await Array.fromAsync({v})",
        "Object.groupBy({v}, {f})",
        "Map.groupBy({v}, {f})",
        "new Map({v})",
        "[...{v}]",
    ),
    *(
        "[3, 1, 2].sort({f})",
        "[3, 1, 2].toSorted({f})",
        "[1, 2].map({f}, {v})",
        "[1, 2].reduce({f}, {v})",
        "[1, [2]].flatMap({f})",
    ),
    *(
        "'abc'.replace({v}, {f})",
        "'abc'.split({v})",
        "'abc'.replaceAll('b', {f})",
        "'abc'.match({v})",
        "[{v}].concat({v}, {v})",
    ),
    *(
        "[{v}, {v}].join({v})",
        "[{v}].includes({v})",
        "Object.keys({v})",
        "Object.entries({v})",
        "Object.assign({v}, {v})",
        "Object.freeze({v})",
    ),
    *(
        "({f}).call({v}, {v})",
        "({f}).apply({v}, {v})",
        "new ({f})({v})",
        "({f})({v})",
        "{v} instanceof {v}",
        "{n} in {v}",
        "({v})[{n}]",
    ),
    *(
        "({v})[{n}] = {v}",
        "delete ({v})[{n}]",
        "(({{ [{n}]: a }}) => probe(a))({v})",
        "(([a, ...b]) => probe(b))({v})",
        "({v})[{n}]({v})",
    ),
    *(
        "({v})?.next?.({v})",
        "({v})?.return?.({v})",
        "({v})?.throw?.({v})",
        "String({v})",
        "Number({v})",
        "BigInt({v})",
        "Symbol({v})",
    ),
    *(
        "new Date({v}, {v})",
        "Object.fromEntries({v})",
        "String.raw({v}, {v})",
        "parseInt({v})",
        "Math.max({v}, {v})",
        "({v})`a${{{v}}}b`",
    ),
    *(
        "await (async () => {{ for await (const x of {v}) probe(x) }})()",
        "(() => {{ for (const x of {v}) probe(x) }})()",
    ),
    "(() => {{ a: try {{ throw {v} }} catch ({{ [{n}]: c }}) {{ probe(c); break a }} finally {{ probe({v}) }} }})()",
    *(
        "(() => {{ try {{ return ({f})({v}) }} finally {{ ({f})({v}) }} }})()",
        "RegExp({v}, {v})",
        "/a/g.exec({v})",
        "Error({v})",
    ),
    *(
        "structuredClone({{ a: {v}, b: [{v}] }})",
        "Object.is({v}, {v})",
        "encodeURIComponent({v})",
        "log.push({v})",
        "probe(globals)",
    ),
)
_AROUND_SINKS: Final = ("try { probe({0}) } catch (e) { probe(e) }", "try { {0} } catch (e) { probe(e) }", "{0};")
_ENDS: Final = (
    "log",
    "{v}",
    "{v}",
    "[{v}, {f}]",
    "{{ a: {v}, b: {v} }}",
    "(() => {{ throw {v} }})()",
    "await {v}",
    "probe({v})",
)


def hostile_script(choices: Choices) -> str:
    """What follows `HEAD` in a program that looks for a way out."""
    lines: list[str] = []
    names = 0
    for number in range(1 + choices.below(5)):
        value = _value(choices, number, 2)
        lines.append(f"let v{number}; try {{ v{number} = {value} }} catch (e) {{ v{number} = probe(e) }}")
        names = number + 1
    for _ in range(1 + choices.below(6)):
        sink = _fill(choices.pick(_SINKS), choices, names, 1)
        if choices.once_in(8):
            lines.append(f"try {{ {sink} }} finally {{ probe({_name(choices, names)}) }}")
        else:
            lines.append(choices.pick(_AROUND_SINKS).replace("{0}", sink))
        if choices.once_in(12):
            lines.append(choices.pick(["spin();", "deep();", "try { dive() } catch (e) { probe(e) }", "await null;"]))
    script = "\n".join(lines) + _TAIL.replace("{0}", _fill(choices.pick(_ENDS), choices, names, 1))
    return mutate(script, choices) if choices.once_in(6) else script


def _name(choices: Choices, names: int) -> str:
    return f"v{choices.below(names)}" if names else "1"


def _value(choices: Choices, names: int, depth: int) -> str:
    if depth <= 0 or (names and choices.below(3) == 0):
        return _name(choices, names)
    return _fill(choices.pick(_VALUES), choices, names, depth - 1)


def _fill(form: str, choices: Choices, names: int, depth: int) -> str:
    """`form` with its places filled: `{v}` a value, `{f}` a function, `{n}` the name of a property."""
    out: list[str] = []
    at = 0
    while at < len(form):
        two, three = form[at : at + 2], form[at : at + 3]
        if two in ("{{", "}}"):
            out.append(two[0])
            at += 2
        elif three == "{v}":
            out.append(_value(choices, names, depth))
            at += 3
        elif three == "{n}":
            out.append(f"N[{choices.below(25)}]")
            at += 3
        elif three == "{f}":
            out.append(_fill(choices.pick(_FUNCTIONS), choices, names, depth - 1))
            at += 3
        else:
            out.append(form[at])
            at += 1
    return "".join(out)
