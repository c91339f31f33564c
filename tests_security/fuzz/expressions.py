"""Expressions of generated programs, by what they give: numbers, texts, truths, lists, objects, functions, anything.

In every table the first entry is a leaf: where the choices run out, the writing ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests_security.fuzz import functions
from tests_security.fuzz.tokens import (
    ASSIGNING,
    BIGINTS,
    BINARY,
    KEYS,
    NUMBERS,
    REGEXES,
    STRINGS,
    TEMPLATE_TEXTS,
    UNARY,
)
from tests_security.fuzz.writer import Writer, literal

Rule = Callable[[Writer], str]


def _choose(w: Writer, rules: Sequence[Rule], leaves: int) -> str:
    """One of `rules`, of which the first `leaves` are leaves."""
    if not w.shallow:
        return rules[w.choices.below(leaves)](w)
    w.depth += 1
    try:
        return w.choices.pick(rules)(w)
    finally:
        w.depth -= 1


def number(w: Writer) -> str:
    """An expression that gives a number (now and then something else)."""
    return _choose(w, _NUMBERS, 2)


def text(w: Writer) -> str:
    """An expression that gives a text."""
    return _choose(w, _TEXTS, 2)


def truth(w: Writer) -> str:
    """An expression that gives true or false."""
    return _choose(w, _TRUTHS, 1)


def items(w: Writer) -> str:
    """An expression that gives an array."""
    return _choose(w, _LISTS, 2)


def record(w: Writer) -> str:
    """An expression that gives an object."""
    return _choose(w, _RECORDS, 2)


def anything(w: Writer) -> str:
    """Any expression; one that may be an operand or an argument."""
    return _choose(w, _ANYTHING, 4)


def iterable(w: Writer) -> str:
    """An expression that `for…of` and spread can walk; it ends."""
    generators = w.variables("generator")
    if generators and w.choices.below(3) == 2:
        return f"{w.choices.pick(generators)}()"
    return w.choices.pick(_ITERABLES)(w)


def key(w: Writer) -> str:
    """The key of a property, as it stands before `:` or `(`."""
    if w.choices.once_in(6):
        return f"[{text(w)}]"
    return literal(w.choices.pick(KEYS))


def traced(w: Writer, value: str) -> str:
    """`value`, with a mark that says when it was worked out."""
    return f"t({w.mark()}, {value})"


def _variable(w: Writer, fallback: Rule, *kinds: str) -> str:
    names = w.variables(*kinds)
    return w.choices.pick(names) if names else fallback(w)


def _number_literal(w: Writer) -> str:
    return w.choices.pick(NUMBERS)


def _string_literal(w: Writer) -> str:
    return literal(w.choices.pick(STRINGS))


def template(w: Writer) -> str:
    """A template literal, with expressions in it."""
    parts = [literal(w.choices.pick(TEMPLATE_TEXTS))]
    while w.shallow and len(parts) < 6 and w.choices.below(2):
        parts.append("${" + anything(w) + "}")
        parts.append(literal(w.choices.pick(TEMPLATE_TEXTS)))
    joined = "".join(parts)
    # A `$` must not meet a `{` that is text
    return "`" + joined.replace("${}", "$ {}").replace("$${", "$ ${") + "`"


def _member(w: Writer) -> str:
    owner = _variable(w, record, "object", "any")
    name = literal(w.choices.pick(KEYS))
    dot = w.choices.pick(["?.", "."])
    if name[0] in "'0123456789":
        return f"{owner}{'?.' if dot == '?.' else ''}[{name}]"
    return f"{owner}{dot}{name}"


def _chain(w: Writer) -> str:
    owner = _variable(w, record, "object", "any", "array", "text")
    for _ in range(1 + w.choices.below(3)):
        owner += w.choices.pick(
            ["?.a", f"?.[{w.choices.pick(['0', w.mark()])}]", "?.toString?.()", "?.b?.c", "?.x?.()"]
        )
    return owner


def _call(w: Writer) -> str:
    name = _variable(w, lambda w: f"({functions.arrow(w)})", "function")
    given = ", ".join(anything(w) for _ in range(w.choices.below(3)))
    if w.choices.once_in(6):
        given = f"{given}{', ' if given else ''}...{iterable(w)}"
    return f"{name}({given})"


def _assignment(w: Writer) -> str:
    names = w.variables("any", mutable=True)
    if not names:
        return number(w)
    return f"({w.choices.pick(names)} {w.choices.pick(ASSIGNING)} {number(w)})"


def _swap(w: Writer) -> str:
    names = w.variables("any", mutable=True)
    if not names:
        return items(w)
    one, other = w.choices.pick(names), w.choices.pick(names)
    return w.choices.pick(
        [
            f"([{one}, {other}] = [{other}, {one}])",
            f"([{one} = {number(w)}, ...[{other}]] = {items(w)})",
            f"({{ a: {one}, b: {other} = {anything(w)} }} = {record(w)})",
            f"({{ {one} = {number(w)} }} = {record(w)})",
            f"({{ [{text(w)}]: {one}, ...{other} }} = {record(w)})",
        ]
    )


def _update(w: Writer) -> str:
    names = w.variables("any", mutable=True)
    if not names:
        return number(w)
    return w.choices.pick(["{}++", "++{}", "{}--", "-(--{})"]).format(w.choices.pick(names))


def _binary(w: Writer) -> str:
    operator = w.choices.pick(BINARY)
    left, right = number(w), number(w)
    return f"({left}) {operator} ({right})" if operator == "**" or w.choices.below(3) else f"{left} {operator} {right}"


def _divisions(w: Writer) -> str:
    return w.choices.pick(["{0} / {1} / 2", "({0}) /{1}/ 1", "[{0}][0]/{1}/-1", "{0} /2/ {1}"]).format(
        number(w), number(w)
    )


def _conditional(w: Writer) -> str:
    return f"({truth(w)} ? {anything(w)} : {anything(w)})"


def _logical(w: Writer) -> str:
    operator = w.choices.pick(["||", "&&", "??"])
    return f"({anything(w)} {operator} {anything(w)})"


def _await(w: Writer) -> str:
    if not w.place.asynchronous:
        return anything(w)
    return w.choices.pick(
        [
            lambda: f"(await {anything(w)})",
            lambda: f"(await Promise.all([{anything(w)}, {anything(w)}]))",
            lambda: f"(await (async () => {anything(w)})())",
            lambda: f"(await Promise.allSettled([Promise.reject({text(w)}), {anything(w)}]))",
            lambda: f"(await Promise.resolve({anything(w)}).then(v => [v]).finally(() => {traced(w, '0')}))",
            lambda: f"(await Promise.race([{anything(w)}]))",
            lambda: f"(await Promise.reject({text(w)}).catch((e) => {traced(w, 'e')}))",
        ]
    )()


def _yield(w: Writer) -> str:
    if not w.place.generator:
        return anything(w)
    return w.choices.pick([f"(yield {anything(w)})", "(yield)", f"(yield* [{anything(w)}])"])


def _own(w: Writer) -> str:
    """What only a function or method has."""
    options = ["undefined"]
    if w.place.this:
        options += ["this?.a", "(this === undefined)", "typeof this"]
    if w.place.arguments:
        options += ["arguments.length", "arguments[0]", "[...arguments]"]
    if w.place.superclass:
        options += ["super.m?.()", "super.a", "super['m']"]
    if w.place.private:
        name = w.choices.pick(w.place.private)
        options += [f"({name} in {{}})", f"this?.{name}"]
    return w.choices.pick(options)


def array(w: Writer) -> str:
    """An array literal."""
    inside: list[str] = []
    while len(inside) < 4 and w.shallow and w.choices.below(3):
        inside.append(
            w.choices.pick([anything, anything, anything, number, lambda w: f"...{iterable(w)}", lambda _: ""])(w)
        )
    return "[" + ", ".join(inside) + w.choices.pick(["", "", ","] if inside else [""]) + "]"


def object_literal(w: Writer) -> str:
    """An object literal, with all kinds of properties."""
    inside: list[str] = []
    while len(inside) < 4 and w.shallow and w.choices.below(4):
        inside.append(w.choices.pick(_PROPERTIES)(w))
    return "{ " + ", ".join(inside) + w.choices.pick(["", "", ","] if inside else [""]) + " }"


_PROPERTIES: Sequence[Rule] = (
    lambda w: f"{key(w)}: {anything(w)}",
    lambda w: f"{key(w)}: {number(w)}",
    lambda w: _variable(w, lambda w: f"a: {number(w)}"),
    lambda w: f"...{record(w)}",
    lambda w: functions.method(w, key(w)),
    lambda w: functions.getter(w, key(w)),
    lambda w: functions.setter(w, key(w)),
    lambda w: f"{key(w)}: {functions.function(w)}",
)
_CALLBACK_METHODS = ("map", "filter", "flatMap", "findLast", "toSorted")
_REPLACEMENTS = ("x => `[${x}]`", "_ => 1", "() => ``")
_ARROW_OF_ONE = (
    "x => x",
    "(x) => [x]",
    "function (x) { return x }",
    "x => ({ x })",
    "(x, i) => i",
    "(x) => { return }",
)

_NUMBERS: Sequence[Rule] = (
    _number_literal,
    lambda w: _variable(w, _number_literal, "number"),
    lambda w: traced(w, number(w)),
    _binary,
    lambda w: f"{w.choices.pick(UNARY)}({number(w)})",
    lambda w: f"{items(w)}.length",
    _divisions,
    _update,
    _assignment,
    lambda w: f"Math.{w.choices.pick(['floor', 'max', 'abs', 'round', 'sign', 'hypot'])}({number(w)}, {number(w)})",
    lambda w: f"{w.choices.pick(['parseInt', 'parseFloat', 'Number'])}({text(w)})",
    lambda w: f"{items(w)}.reduce((sum, x) => sum + x, {number(w)})",
    lambda w: f"({number(w)}, {number(w)})",
    _conditional,
    lambda w: f"{text(w)}.indexOf({text(w)})",
    lambda w: f"Number(BigInt.asIntN(32, {w.choices.pick(BIGINTS)} {w.choices.pick('+-*')} {w.choices.pick(BIGINTS)}))",
    lambda w: f"new Date({number(w)}).getTime()",
)
_TEXTS: Sequence[Rule] = (
    _string_literal,
    lambda w: _variable(w, _string_literal, "text"),
    template,
    lambda w: f"({text(w)} + {anything(w)})",
    lambda w: f"{text(w)}.{w.choices.pick(['trim', 'toUpperCase', 'toLowerCase', 'toString', 'normalize'])}()",
    lambda w: f"{text(w)}.slice({number(w)})",
    lambda w: f"{text(w)}.replace({literal(w.choices.pick(REGEXES))}, {w.choices.pick(_REPLACEMENTS)})",
    lambda w: f"typeof {anything(w)}",
    lambda w: f"String({number(w)})",
    lambda w: f"JSON.stringify({anything(w)})",
    lambda w: f"String.raw{template(w)}",
    lambda w: f"tag{template(w)}",
    lambda w: f"{items(w)}.join({text(w)})",
    lambda w: f"{literal(w.choices.pick(REGEXES))}.exec({text(w)})?.[0]",
    lambda w: f"encodeURIComponent({text(w)}.toWellFormed())",
    lambda w: f"{w.choices.pick(BIGINTS)}.toString()",
    lambda w: literal(w.choices.pick(REGEXES)) + ".source",
)
_TRUTHS: Sequence[Rule] = (
    lambda w: w.choices.pick(["true", "false"]),
    lambda w: f"{number(w)} {w.choices.pick(['<', '>', '<=', '>=', '===', '!==', '==', '!='])} {number(w)}",
    lambda w: f"!{truth(w)}",
    lambda w: f"({number(w)} {w.choices.pick(['==', '<', '===', '+', '<<'])} {number(w)} in {record(w)})",
    lambda w: f"({number(w)} {w.choices.pick(['==', '<', '!==', '-'])} {record(w)} instanceof Object)",
    lambda w: f"({text(w)} in {record(w)})",
    lambda w: f"({record(w)} instanceof {w.choices.pick(['Object', 'Array', 'Map', 'Error', 'Set'])})",
    lambda w: f"{literal(w.choices.pick(REGEXES))}.test({text(w)})",
    lambda w: f"Array.isArray({anything(w)})",
    lambda w: f"{items(w)}.includes({anything(w)})",
    lambda w: f"({truth(w)} {w.choices.pick(['&&', '||'])} {truth(w)})",
    lambda w: f"Object.hasOwn({record(w)}, {text(w)})",
    lambda w: f"delete {record(w)}.{w.choices.pick('abc')}",
)
_LISTS: Sequence[Rule] = (
    lambda _: "[]",
    lambda w: _variable(w, array, "array"),
    array,
    array,
    lambda w: f"({items(w)}.{w.choices.pick(_CALLBACK_METHODS)}({w.choices.pick(_ARROW_OF_ONE)}) ?? [])",
    lambda w: f"{items(w)}.concat({items(w)})",
    lambda w: f"{items(w)}.slice({w.choices.pick(['', '1', '-1', '0, 2'])})",
    lambda w: f"Object.{w.choices.pick(['keys', 'values', 'entries'])}({record(w)})",
    lambda w: f"Array.from({iterable(w)}, {w.choices.pick(_ARROW_OF_ONE)})",
    lambda w: f"[...{iterable(w)}]",
    lambda w: f"{text(w)}.split({w.choices.pick([text(w), literal(w.choices.pick(REGEXES))])})",
    lambda w: f"({_swap(w)})",
    lambda w: f"[{literal(w.choices.pick(REGEXES))}, {number(w)}]",
)
_RECORDS: Sequence[Rule] = (
    lambda _: "({})",
    lambda w: _variable(w, lambda w: f"({object_literal(w)})", "object"),
    lambda w: f"({object_literal(w)})",
    lambda w: f"({object_literal(w)})",
    lambda w: f"Object.assign({{}}, {record(w)})",
    lambda w: f"Object.fromEntries([[{text(w)}, {anything(w)}]])",
    lambda w: f"new Map([[{anything(w)}, {anything(w)}]])",
    lambda w: f"new Set({items(w)})",
    lambda w: f"new Error({text(w)}, {{ cause: {anything(w)} }})",
    lambda w: f"new ({functions.class_expression(w)})({anything(w)})",
    lambda w: f"new {_variable(w, lambda _: 'Object', 'class')}({anything(w)})",
    lambda w: f"Object.freeze({record(w)})",
    lambda w: f"Object.groupBy({items(w)}, x => typeof x)",
)
_ITERABLES: Sequence[Rule] = (
    array,
    text,
    lambda w: f"new Set({array(w)})",
    lambda w: f"new Map([[{text(w)}, {number(w)}]])",
    lambda w: f"{array(w)}.entries()",
    lambda w: f"(function* () {{ yield {number(w)}; yield* {array(w)} }})()",
    lambda w: f"Object.entries({record(w)})",
    lambda w: f"{{ *[Symbol.iterator]() {{ yield {anything(w)} }} }}",
)
_ANYTHING: Sequence[Rule] = (
    _number_literal,
    lambda w: _variable(w, _string_literal),
    _string_literal,
    lambda w: w.choices.pick(["null", "undefined", "true", "false", "void 0", "NaN"]),
    lambda w: traced(w, anything(w)),
    number,
    text,
    truth,
    items,
    record,
    _conditional,
    _logical,
    _member,
    _chain,
    _call,
    _await,
    _yield,
    _own,
    _assignment,
    _swap,
    lambda w: f"({functions.arrow(w)})",
    lambda w: f"({functions.function(w)})",
    lambda w: f"({functions.class_expression(w)})",
    lambda w: literal(w.choices.pick(REGEXES)),
    lambda w: w.choices.pick(BIGINTS),
    template,
    lambda w: f"tag{template(w)}",
    lambda w: f"(() => {{ try {{ return {anything(w)} }} finally {{ {traced(w, number(w))} }} }})()",
)
