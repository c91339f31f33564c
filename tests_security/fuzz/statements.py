"""Statements of generated programs."""

# ruff: noqa: PLW0108 - the modules of the grammar need each other: rules of others are looked up when they are used

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests_security.fuzz import expressions, functions
from tests_security.fuzz.writer import MAX_DEPTH, Writer

Rule = Callable[[Writer], str]
_MOST_LOOPS = 3


def statements(w: Writer, *, most: int) -> str:
    """Up to `most` statements."""
    written: list[str] = []
    while len(written) < most and w.choices.left > 0 and w.depth < MAX_DEPTH and w.choices.below(6):
        written.append(statement(w))
    return "\n".join(written)


def statement(w: Writer) -> str:
    """One statement, with what ends it."""
    if not w.shallow:
        return _trace(w)
    return w.choices.pick(_STATEMENTS)(w)


def _block(w: Writer, *, most: int = 3, **changes: object) -> str:
    with w.scope(**changes):
        return f"{{ {statements(w, most=most)} }}"


def _trace(w: Writer) -> str:
    return expressions.traced(w, expressions.anything(w)) + ";"


def _variable(w: Writer) -> str:
    word = w.choices.pick(["const", "let", "var", "let"])
    mutable = word != "const"
    sort = w.choices.below(10)
    if sort == 8:
        value = expressions.record(w)
        return f"{word} {functions.pattern(w, 'object', mutable=mutable)} = {value};"
    if sort == 9:
        value = expressions.items(w)
        return f"{word} {functions.pattern(w, 'array', mutable=mutable)} = {value};"
    kind, rule = _KINDS[sort]
    value = rule(w)
    name = w.fresh()
    # A variable that may change may hold anything
    w.declare(name, "any" if mutable else kind, mutable=mutable)
    return f"{word} {name} = {value};"


_KINDS: Sequence[tuple[str, Rule]] = (
    ("number", lambda w: expressions.number(w)),
    ("any", lambda w: expressions.anything(w)),
    ("text", lambda w: expressions.text(w)),
    ("array", lambda w: expressions.array(w)),
    ("object", lambda w: expressions.record(w)),
    ("function", lambda w: functions.arrow(w)),
    ("class", lambda w: functions.class_expression(w)),
    ("any", lambda w: expressions.truth(w)),
)


def _if(w: Writer) -> str:
    text = f"if ({expressions.truth(w)}) {_block(w)}"
    if w.choices.below(2):
        text += f" else {_block(w)}"
    elif w.choices.once_in(3):
        text = f"if ({expressions.truth(w)}) {_trace(w)} else if ({expressions.truth(w)}) {_trace(w)} else {_trace(w)}"
    return text


def _loop_body(w: Writer) -> str:
    if w.choices.once_in(4):
        return _trace(w)
    place = w.place
    return _block(w, loop=True, switch=False, loops_around=place.loops_around + 1)


def _for(w: Writer) -> str:
    if w.place.loops_around >= _MOST_LOOPS:
        return _trace(w)
    with w.scope():
        name = w.fresh()
        w.declare(name, "number")
        bound = w.choices.pick("0123")
        step = w.choices.pick([f"{name}++", f"++{name}", f"{name} += 1"])
        return f"for (let {name} = 0; {name} < {bound}; {step}) {_loop_body(w)}"


def _for_of(w: Writer) -> str:
    if w.place.loops_around >= _MOST_LOOPS:
        return _trace(w)
    walked = expressions.iterable(w)
    lead = "for await (" if w.place.asynchronous and w.choices.once_in(4) else "for ("
    generators = w.variables("asyncgen")
    if lead == "for await (" and generators and w.choices.below(2):
        walked = f"{w.choices.pick(generators)}()"
    with w.scope():
        word = w.choices.pick(["const", "let", "var"])
        if w.choices.once_in(6):
            head = f"{word} {functions.pattern(w, 'array', mutable=word != 'const')}"
            walked = f"[[{expressions.anything(w)}], []]"
        else:
            name = w.fresh()
            w.declare(name, "any", mutable=word != "const")
            head = f"{word} {name}"
        return f"{lead}{head} of {walked}) {_loop_body(w)}"


def _while(w: Writer) -> str:
    if w.place.loops_around >= _MOST_LOOPS:
        return _trace(w)
    with w.scope():
        name = w.fresh()
        w.declare(name, "number")
        body = _block(w, loop=True, switch=False, loops_around=w.place.loops_around + 1)
        if w.choices.below(2):
            return f"{{ let {name} = 3; while ({name}-- > 0) {body} }}"
        return f"{{ let {name} = 0; do {body} while ({name}++ < 2) }}"


def _labeled(w: Writer) -> str:
    if w.place.loops_around >= _MOST_LOOPS:
        return _trace(w)
    label = w.fresh()
    with w.scope(labels=(*w.place.labels, label)):
        return f"{label}: {w.choices.pick([_for, _for_of])(w)}"


def _leave(w: Writer) -> str:
    """Out of a loop or switch, under a condition so that what follows has a chance."""
    options = ["break", "continue"] if w.place.loop else ["break"] if w.place.switch else []
    if w.place.loop:
        options += [f"{word} {label}" for label in w.place.labels for word in ("break", "continue")]
    if not options:
        return _trace(w)
    return f"if ({expressions.truth(w)}) {w.choices.pick(options)};"


def _switch(w: Writer) -> str:
    cases = [f"case {expressions.anything(w)}:" for _ in range(w.choices.below(3))]
    with w.scope(switch=True):
        inside = " ".join(f"{case} {{ {statements(w, most=2)} }} {w.choices.pick(['', 'break;'])}" for case in cases)
        if w.choices.below(2):
            inside += f" default: {statements(w, most=2)}"
        return f"switch ({expressions.anything(w)}) {{ {inside} }}"


def _try(w: Writer) -> str:
    thrown = w.choices.pick(["", "", "throw new Error({0});", "throw {1};", "null.x;"])
    thrown = thrown.format(expressions.text(w), expressions.anything(w)) if "{" in thrown else thrown
    with w.scope():
        text = f"try {{ {statements(w, most=3)} {thrown} }}"
    sort = w.choices.below(5)
    if sort < 4:
        with w.scope():
            if sort == 0:
                head = ""
            elif sort == 1:
                head = " (" + functions.pattern(w, "object", mutable=True).replace("=", " =") + ")"
            else:
                name = w.fresh()
                w.declare(name, "any", mutable=True)
                head = f" ({name})"
            text += f" catch{head} {_block(w)}"
    if sort in {3, 4}:
        text += f" finally {_block(w)}"
    return text if sort < 4 else f"try {{ {text} }} catch {{ {_trace(w)} }}"


def _return(w: Writer) -> str:
    if not w.place.function:
        return _trace(w)
    return f"if ({expressions.truth(w)}) return {expressions.anything(w)};"


def _property(w: Writer) -> str:
    owners = w.variables("object", "array")
    if not owners:
        return _trace(w)
    owner = w.choices.pick(owners)
    value = expressions.anything(w)
    return w.choices.pick(
        [
            f"try {{ {owner}.a = {value} }} catch {{}}",
            f"{owner}[{expressions.text(w)}] ??= {value};",
            f"delete {owner}.b;",
        ]
    )


def _expression(w: Writer) -> str:
    """An expression statement; one that begins like another statement gets parentheses."""
    text = expressions.anything(w)
    return f"({text});" if text.startswith(("{", "function", "class", "let", "async")) else f"{text};"


_STATEMENTS: Sequence[Rule] = (
    _trace,
    _trace,
    _variable,
    _variable,
    _variable,
    _variable,
    _expression,
    _if,
    _for,
    _for_of,
    _while,
    _labeled,
    _leave,
    _leave,
    _switch,
    _try,
    _return,
    _property,
    lambda w: functions.declaration(w),
    lambda w: functions.class_declaration(w),
    _block,
    lambda _: ";",
)
