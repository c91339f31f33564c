"""Random programs full of types, most of which are TypeScript: for comparing readers of it. They are not to be run."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

TYPES = (
    *("A", "B", "A.B", "string", "number", "any", "void", "null", "undefined"),
    *("'x'", "1", "this", "unknown", "bigint", "object", "never"),
)


class TypedPrograms:
    """Makes programs of what `random` says. Few semicolons, and line ends wherever they might matter."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def program(self) -> str:
        """A few statements."""
        return "".join(self.statement(3) + self.one_of("\n", "\n", ";\n") for _ in range(self.random.randint(1, 4)))

    def one_of(self, *choices: str | Callable[[], str]) -> str:
        """One of the texts, or what one of the makers makes."""
        choice = self.random.choice(choices)
        return choice if isinstance(choice, str) else choice()

    def gap(self, share: float = 0.15) -> str:
        """Nothing, a blank, or now and then the end of a line."""
        return "\n" if self.random.random() < share else self.one_of("", " ")

    # Types

    def type(self, depth: int = 3) -> str:
        if depth <= 0:
            return self.one_of(*TYPES)

        def inner() -> str:
            return self.type(depth - 1)

        return self.one_of(
            inner,
            lambda: f"{self.type(0)}[]",
            lambda: f"A<{inner()}, {inner()}>",
            lambda: f"{inner()}{self.gap()}|{self.gap()}{self.type(0)}",
            lambda: f"{{ a: {inner()}; b?: {inner()} }}",
            lambda: f"{{ readonly a: {inner()}\n b(c: {inner()}): {inner()}\n [k: string]: {inner()} }}",
            lambda: f"[{inner()}, {inner()}]",
            lambda: f"({inner()})",
            lambda: f"((a: {inner()}, ...b: {inner()}) => {inner()})",
            lambda: f"(A extends B ? {inner()} : {inner()})",
            lambda: f"keyof {self.type(0)}",
            lambda: f"{{ [K in keyof A]?: {inner()} }}",
            "typeof a",
            "A['b']",
            lambda: f"`a${{{inner()}}}`",
            "readonly string[]",
        )

    def annotation(self, share: float = 0.5) -> str:
        return f"{self.one_of('', ' ')}:{self.gap()}{self.type(2)}" if self.random.random() < share else ""

    def type_arguments(self) -> str:
        return f"<{self.gap()}{self.type(1)}{self.gap()}>" if self.random.random() < 0.6 else ""

    def type_parameters(self) -> str:
        if self.random.random() < 0.7:
            return ""
        return self.one_of("<T>", "<T,>", "<T extends A>", "<T = any>", "<\nT\n>", "<T, U extends { a: T }>")

    # Expressions

    def primary(self, depth: int) -> str:
        if depth <= 0:
            return self.one_of("a", "b", "c", "'s'", "x", "this", "null", "`t`")

        def inner() -> str:
            return self.expression(depth - 1)

        def of() -> str:
            return self.primary(depth - 1)

        return self.one_of(
            lambda: self.primary(0),
            lambda: f"({self.gap()}{inner()}{self.gap()})",
            lambda: f"[{inner()}, {inner()}]",
            lambda: f"{{ k: {inner()}, m{self.function(depth)} }}",
            lambda: f"{of()}.p",
            lambda: f"{of()}!.p",
            lambda: f"{of()}!",
            lambda: f"{of()}?.q",
            lambda: f"{of()}{self.gap(0.05)}({inner()})",
            lambda: f"{of()}[{inner()}]",
            lambda: f"{self.one_of('a', 'a.b')}{self.type_arguments()}({inner()})",
            lambda: f"new A{self.type_arguments()}({inner()})",
            lambda: f"`u${{{inner()}}}`",
            lambda: f"function{self.function(depth)}",
            lambda: f"class {self.members(depth - 2)}",
            "/re/g",
        )

    def unary(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.25:
            return f"{self.one_of('!', '-', 'typeof ', 'void ', 'await ')}{self.unary(depth - 1)}"
        if self.random.random() < 0.05:
            return f"<{self.type(1)}>{self.gap(0.05)}{self.primary(depth)}"
        return self.primary(depth)

    def expression(self, depth: int) -> str:
        if depth <= 0:
            return self.primary(0)

        def inner() -> str:
            return self.expression(depth - 1)

        def typed() -> str:
            return f"{self.unary(depth - 1)} {self.one_of('as', 'satisfies')} {self.type(2)}"

        def binary() -> str:
            sign = self.one_of(*["+", "-", "*", "/", "%", "<", "===", "&&", "||", "??", "in", "instanceof"])
            return f"{inner()}{self.gap(0.05)} {sign}{self.gap(0.1)} {inner()}"

        return self.one_of(
            *[lambda: self.unary(depth)] * 4,
            *[typed] * 3,
            lambda: f"{self.unary(depth - 1)} as const",
            *[binary] * 4,
            lambda: f"{self.unary(depth - 1)} ? {inner()} : {inner()}",
            lambda: self.arrow(depth),
            lambda: f"a = {inner()}",
            lambda: f"({typed()})",
        )

    # Functions and classes

    def parameters(self, depth: int) -> str:
        makers: list[Callable[[], str]] = [
            lambda: f"p{self.one_of('', '?')}{self.annotation()}",
            lambda: f"q{self.annotation()} = {self.expression(depth - 1)}",
            lambda: f"{{ r }}{self.annotation()}",
        ]
        parts = [self.one_of(*makers) for _ in range(self.random.randint(0, 3))]
        if self.random.random() < 0.2:
            parts.append(f"...rest{self.annotation()}")
        return f",{self.gap()}".join(parts)

    def function(self, depth: int) -> str:
        """What follows the name of a function."""
        this = self.one_of("", "", "", f"this: {self.type(1)}, ") if depth else ""
        head = f"{self.type_parameters()}({this}{self.parameters(depth - 1)}){self.annotation()}"
        return f"{head} {{ {self.statements(depth - 2)} }}"

    def arrow(self, depth: int) -> str:
        head = f"{self.one_of('', 'async ')}{self.type_parameters()}({self.parameters(depth - 1)}){self.annotation()}"
        return f"{head} => {self.one_of(self.expression(depth - 1), f'{{ {self.statements(depth - 2)} }}')}"

    def members(self, depth: int) -> str:
        def modifiers() -> str:
            return self.one_of("", "", "private ", "static ", "private static ", "protected ", "public ", "override ")

        makers: list[str | Callable[[], str]] = [
            lambda: f"{modifiers()}f{self.one_of('', '?', '!')}{self.annotation(1)}",
            lambda: f"{modifiers()}readonly g{self.annotation()} = {self.expression(depth)}",
            lambda: f"{modifiers()}m{self.function(depth)}",
            lambda: f"{modifiers()}[{self.primary(0)}]{self.annotation()} = {self.expression(depth)}",
            lambda: f"{modifiers()}*g(){self.annotation()} {{}}",
            lambda: f"{self.one_of('get', 'set', 'static', 'async')}{self.one_of('', '?')}{self.annotation(1)}",
            lambda: f"declare h{self.annotation(1)}",
            lambda: f"n(){self.annotation()}",
            "[k: string]: any",
            "get o(): any { return 1 }",
        ]
        ends = ("\n", ";", "\n", ";\n")
        parts = [self.one_of(*makers) + self.one_of(*ends) for _ in range(self.random.randint(0, 3))]
        return f"{{ {''.join(parts)} }}"

    # Statements

    def alone(self, depth: int) -> str:
        """An expression as a statement; in parentheses it would be another to the compiler, when it prints a class."""
        expression = self.expression(depth)
        starts = ("{", "class", "function", "async", "<", "(")
        return f"a = {expression}" if expression.startswith(starts) else expression

    def statement(self, depth: int) -> str:
        def inner() -> str:
            return self.expression(depth)

        def below() -> str:
            return self.statement(depth - 1)

        simple: list[str | Callable[[], str]] = [
            *[lambda: self.alone(depth)] * 3,
            lambda: f"{self.one_of('let', 'const', 'var')} v{self.annotation()} = {inner()}",
            lambda: f"let w{self.annotation()}",
            lambda: f"return {inner()}",
            lambda: f"throw {inner()}",
            lambda: f"interface I{self.type_parameters()} {{ a: {self.type(1)} }}",
            lambda: f"type T{self.type_parameters()} = {self.type(2)}",
            lambda: f"declare const z{self.annotation(1)}",
            lambda: f"function o({self.parameters(1)}){self.annotation()}",
        ]
        compound: list[str | Callable[[], str]] = [
            lambda: f"if ({inner()}) {below()}{self.one_of(chr(10), ';')}else {below()}",
            lambda: f"for (const i of {inner()}) {below()}",
            lambda: f"function f{self.function(depth)}",
            lambda: (
                f"{self.one_of('', 'abstract ')}class C{self.type_parameters()} "
                f"{self.one_of('', 'extends B', 'extends B<T>')} "
                f"{self.one_of('', 'implements I, J<T>')} {self.members(depth - 1)}"
            ),
            lambda: f"{{ {self.statements(depth - 1)} }}",
            lambda: f"try {{ {self.alone(depth)} }} catch (e{self.annotation()}) {{ }}",
        ]
        return self.one_of(*simple, *(compound if depth > 0 else ()))

    def statements(self, depth: int) -> str:
        if depth < 0:
            return ""
        ends = ("\n", "\n", ";\n", ";")
        return "".join(self.statement(depth) + self.one_of(*ends) for _ in range(self.random.randint(0, 2)))
