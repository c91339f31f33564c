"""Functions, methods, parameters, patterns and classes of generated programs."""

from __future__ import annotations

from tests_security.fuzz import expressions, statements
from tests_security.fuzz.tokens import PRIVATE
from tests_security.fuzz.writer import Writer


def pattern(w: Writer, kind: str, *, mutable: bool) -> str:
    """A pattern that takes an object or array apart (`kind` says which) and declares its names."""
    names = [w.fresh() for _ in range(1 + w.choices.below(2))]
    default = f" = {expressions.anything(w)}" if w.choices.below(2) else ""
    if kind == "array":
        text = w.choices.pick(
            ["[{0}{1}]", "[, {0}{1}]", "[{0}{1}, ...{2}]", "[[{0}] = []{3}]", "[{{ a: {0} }} = {{}}]"]
        )
    else:
        text = w.choices.pick(
            [
                "{{ {0}{1} }}",
                "{{ a: {0}{1} }}",
                "{{ [{4}]: {0}, ...{2} }}",
                "{{ b: {{ c: {0} }} = {{}} }}",
                "{{ if: {0} }}",
            ]
        )
    two = len(names) > 1 and "{2}" in text
    if not two:
        text = text.replace(", ...{2}", "")
    result = text.format(
        names[0], default, names[-1], w.choices.pick(["", ","]), expressions.text(w) if "{4}" in text else ""
    )
    for name in names if two else names[:1]:
        w.declare(name, "any", mutable=mutable)
    return result


def parameters(w: Writer) -> str:
    """What stands between the parentheses of a function."""
    given: list[str] = []
    while len(given) < 3 and w.shallow and w.choices.below(2):
        sort = w.choices.below(6)
        if sort == 4:
            given.append(pattern(w, "object", mutable=True) + " = {}")
        elif sort == 5:
            given.append(pattern(w, "array", mutable=True) + " = []")
        else:
            name = w.fresh()
            given.append(name if sort < 2 else f"{name} = {expressions.anything(w)}")
            w.declare(name, "any", mutable=True)
    if w.choices.once_in(6):
        name = w.fresh()
        w.declare(name, "array")
        given.append(f"...{name}")
    return ", ".join(given)


def body(w: Writer) -> str:
    """The block of a function."""
    return "{ " + statements.statements(w, most=3) + f" return {expressions.anything(w)} }}"


def arrow(w: Writer) -> str:
    """An arrow function of any form."""
    asynchronous = w.choices.once_in(5)
    lead = "async " if asynchronous else ""
    with w.function_scope(asynchronous=asynchronous, arrow=True):
        # Patterns and defaults of an async arrow's parameters may not await
        if w.choices.below(2):
            name = w.fresh()
            w.declare(name, "any", mutable=True)
            head = name if w.choices.below(2) else f"({name})"
        else:
            with w.scope(asynchronous=False):
                head_text = parameters(w)
                declared = w.variables()
            for name in declared:
                if name in head_text and name not in w.variables():
                    w.declare(name, "any", mutable=True)
            head = f"({head_text})"
        sort = w.choices.below(4)
        if sort == 3 and w.shallow:
            return f"{lead}{head} => {body(w)}"
        if sort == 2:
            return f"{lead}{head} => ({expressions.object_literal(w)})"
        return f"{lead}{head} => {expressions.anything(w)}"


def function(w: Writer, name: str = "") -> str:
    """A function expression, or, with a name, a declaration."""
    asynchronous, generator = w.choices.once_in(5), w.choices.once_in(6)
    return _function(w, name, asynchronous=asynchronous, generator=generator)


def declaration(w: Writer) -> str:
    """A function declaration; it is in reach afterwards."""
    name = w.fresh()
    asynchronous, generator = w.choices.once_in(4), w.choices.once_in(4)
    text = _function(w, name, asynchronous=asynchronous, generator=generator)
    kind = {(False, False): "function", (True, False): "function", (False, True): "generator", (True, True): "asyncgen"}
    w.declare(name, kind[asynchronous, generator])
    return text


def _function(w: Writer, name: str, *, asynchronous: bool, generator: bool) -> str:
    lead = ("async " if asynchronous else "") + "function" + ("*" if generator else "")
    with w.function_scope(asynchronous=False, generator=False):
        given = parameters(w)
        outer = w.place
        with w.scope(asynchronous=asynchronous, generator=generator, function=outer.function):
            return f"{lead} {name}({given}) {body(w)}"


def method(w: Writer, name: str) -> str:
    """A method, of an object or a class."""
    sort = w.choices.below(6)
    asynchronous, generator = sort in {3, 5}, sort in {4, 5}
    with w.function_scope(method=True):
        given = parameters(w)
        with w.scope(asynchronous=asynchronous, generator=generator):
            return f"{'async ' if asynchronous else ''}{'*' if generator else ''}{name}({given}) {body(w)}"


def getter(w: Writer, name: str) -> str:
    """A getter."""
    with w.function_scope(method=True):
        return f"get {name}() {body(w)}"


def setter(w: Writer, name: str) -> str:
    """A setter."""
    with w.function_scope(method=True):
        given = w.fresh()
        w.declare(given, "any", mutable=True)
        return f"set {name}({given}) {{ {statements.statements(w, most=2)} }}"


def class_expression(w: Writer) -> str:
    """A class without a name, or with one that only it sees."""
    name = w.fresh() if w.choices.once_in(4) else ""
    return f"class {name}{class_body(w)}"


def class_declaration(w: Writer) -> str:
    """A class declaration; it is in reach afterwards."""
    name = w.fresh()
    text = f"class {name}{class_body(w)}"
    w.declare(name, "class")
    return text


def class_body(w: Writer) -> str:
    """What follows a class's name."""
    parents = ["", "", *(f" extends {name}" for name in w.variables("class")[:2]), " extends Error"]
    parent = w.choices.pick(parents)
    inside: list[str] = []
    private = list(PRIVATE[: w.choices.below(3)])
    inside.extend(f"{name} = {w.mark()};" for name in private)
    with w.scope(
        this=True, superclass=True, arguments=False, asynchronous=False, generator=False, loop=False, switch=False,
        labels=(), private=(*w.place.private, *private), function=False,
    ):  # fmt: skip
        if w.choices.below(2):
            call = "super();" if parent else ""
            with w.function_scope():
                given = parameters(w)
                inside.append(f"constructor({given}) {{ {call} this.a = {expressions.anything(w)} }}")
        names: set[str] = set()
        while len(inside) < 5 and w.shallow and w.choices.below(3):
            name = expressions.key(w)
            if name in names:
                continue
            names.add(name)
            inside.append(_member(w, name))
    return f"{parent} {{ {' '.join(inside)} }}"


def _member(w: Writer, name: str) -> str:
    lead = "static " if w.choices.once_in(4) else ""
    match w.choices.below(7):
        case 0 | 1:
            return f"{lead}{name} = {expressions.anything(w)};"
        case 2:
            return f"{lead}{name};"
        case 3 | 4:
            return lead + method(w, name)
        case 5:
            return lead + getter(w, name)
        case _:
            with w.scope(asynchronous=False, generator=False):
                return f"static {{ {statements.statements(w, most=2)} }}"
