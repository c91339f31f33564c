"""Reads a Starlark script: parses it, puts its statements into one function in the tree, and checks every name before
anything runs. No text is moved or indented: each position is one of the script as sent."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, cast

from starlark.eval.limits import MAX_INT_BITS
from starlark.syntax import Parser, ast, resolve
from starlark.syntax.errors import StarlarkSyntaxException
from starlark.syntax.errors import SyntaxError as StarlarkError
from starlark.syntax.resolver import Binding, Scope

from codecall.sandbox import wire
from codecall.sandbox.agentscript.checked import MAX_FINDINGS, Violation, invalid_script
from codecall.sandbox.agentscript.parser.parse import prescan
from codecall.sandbox.agentscript.validate import without_fence
from codecall.sandbox.agentscript.validator.names import AskHost, is_about_server
from codecall.sandbox.lines import LineTable
from codecall.sandbox.starlark.lexer import ScriptLexer
from codecall.sandbox.starlark.mistakes import OF_ESCAPES, syntax_hint
from codecall.sandbox.starlark.policy import (
    ALL_DATA,
    BUILTIN_NAMES,
    FOREIGN_NAMES,
    FOREIGN_WORDS,
    JAVASCRIPT_SENT,
    MAX_NESTING,
    NAME,
    TYPES,
    UNKNOWN_TOOL_HINT,
    builtin_names,
    function_name,
    lower_case_names,
    reads_as_javascript,
)
from codecall.wording import join_names

SCRIPT: Final = "<script>"
"""The function that the statements of a script are put into; no script can have that name."""

MAX_DEPTH: Final = 150
"""Most levels of the tree; the operands of a long sum count, too."""

MAX_DIGITS: Final = 4_000
"""Most digits of a number that is written out; Python converts 4,300."""

MAX_LINE: Final = 2_000
"""Characters of a line that are looked at for a hint."""

MAX_QUESTIONS: Final = 20
"""Most unknown names and literal names of tools of one script that the host is asked about."""

MAX_GUESSED: Final = 60
"""Most characters of a name that is compared with others."""

_WORDS: Final = {row.name: row.instead for row in FOREIGN_WORDS}
_NAMES: Final = {row.name: row.instead for row in FOREIGN_NAMES}
_BY_NAME: Final = frozenset({"call_tool", "try_call"})
"""What calls a tool that it is told of."""

MAX_LISTED_TOOLS: Final = 20
"""Most tools of a server that an error lists."""

_FUNCTION: Final = "`{0}` is a function of the script, not a tool: write {0}(…)."
_POSITIONAL: Final = "tools take their input by name"


@dataclass(frozen=True, slots=True)
class StarlarkProgram:
    """A script that may run."""

    file: ast.StarlarkFile
    """One `def` without a text of its own, which holds the statements; its parameters are the keys of the data."""
    lines: LineTable
    calls: tuple[wire.NamedCall, ...]
    """The tools that it names, where they are called or looked at."""
    computed: bool
    """Whether it may call others, too: names are computed, or a server is used as a value."""
    loops: tuple[wire.Loop, ...]
    lost_value: str | None
    """What to write where the script gives no value, if its last statement has one that nothing takes."""


def read_script(start: wire.Start, terms: wire.StarlarkTerms, data: Sequence[str], ask: AskHost) -> StarlarkProgram:
    """Read and check the script of `start`.

    Args:
        start: the script and its limits.
        terms: the tools that are functions in it.
        data: names of its variables.
        ask: asks the host about names that are unknown.

    Raises:
        InvalidScriptError: it must not run.
    """
    text = without_fence(start.script)
    if violations := prescan(text):
        raise invalid_script(text, violations)
    lines = LineTable(text)
    lexer = ScriptLexer(text)
    try:
        file = Parser(lexer, max_depth=MAX_NESTING).parse_file(file="")
        errors = cast("list[StarlarkError]", file.errors)  # pyright: ignore[reportUnknownMemberType]
    except StarlarkSyntaxException as failure:
        raise invalid_script(text, _syntax_violations(text, lines, failure.errors)) from None
    except RecursionError:  # the parser counts brackets, not `not not …`, lambdas and conditions inside one another
        raise invalid_script(text, [_too_deep(0)]) from None
    if errors:
        raise invalid_script(text, _syntax_violations(text, lines, errors))
    nodes = list(walk(file.statements))
    if violations := [found for node, depth in nodes if (found := _structure(node, depth)) is not None]:
        raise invalid_script(text, violations[:MAX_FINDINGS])
    lost_value = _lost_value(file.statements, lines) if not terms.value else None
    file.statements = [_wrapped(_with_value(file.statements, terms.value, len(text)), data, len(text))]
    builtins = builtin_names(console=start.limits.allow_console, extracts=terms.extracts, results=terms.results)
    resolve(file, lexer.locs, universal=builtins)
    if errors := cast("list[StarlarkError]", file.errors):  # pyright: ignore[reportUnknownMemberType]
        raise invalid_script(text, _syntax_violations(text, lines, errors))
    own = {node.name for node, _ in nodes if isinstance(node, ast.Identifier) and _is_own(node)}
    check = _Names(start, terms, ask, data, own)
    for node, _ in nodes:
        check.visit(node)
    if check.violations:
        raise invalid_script(text, check.violations)
    loops = tuple(wire.Loop("for", node.start) for node, _ in nodes if isinstance(node, ast.ForStatement))
    return StarlarkProgram(file, lines, tuple(check.calls), check.computed, loops, lost_value)


def _lost_value(statements: Sequence[ast.Statement], lines: LineTable) -> str | None:
    """What to write for an expression or an assignment at the end."""
    last = statements[-1] if statements else None
    expression = last.expression if isinstance(last, ast.ExpressionStatement) else None
    called = expression.fn if isinstance(expression, ast.CallExpression) else None
    prints = isinstance(called, ast.Identifier) and called.name == "print"
    assigned = last.lhs if isinstance(last, ast.AssignmentStatement) else None
    if last is None or (isinstance(called, ast.Identifier) and called.name == "fail"):
        return None
    line = lines.position(last.start)[0]
    if prints or isinstance(assigned, ast.Identifier):
        if any(isinstance(node, ast.ReturnStatement) and _is_none(node.value) for node, _ in walk(statements)):
            return None  # it may have ended there, or is to have no value
        if isinstance(assigned, ast.Identifier):
            return f"`return {assigned.name:.{MAX_GUESSED}}` after line {line}, its last"
        return f"`return` in place of `print` in line {line}, its last"
    return None if expression is None else f"`return` before the expression in line {line}, its last"


def _is_none(value: ast.Expression | None) -> bool:
    return value is None or (isinstance(value, ast.Identifier) and value.name == "None")


def _with_value(statements: list[ast.Statement], name: str, end: int) -> list[ast.Statement]:
    """The statements with the value of a variable as theirs, if there is to be one."""
    if not name:
        return statements
    first = ast.AssignmentStatement(0, 0, ast.Identifier(0, 0, name), None, ast.Identifier(0, 0, "None"))
    return [first, *statements, ast.ReturnStatement(end, end, ast.Identifier(end, end, name))]


def _wrapped(statements: list[ast.Statement], data: Sequence[str], end: int) -> ast.DefStatement:
    """The statements as the body of a function, in which `return` ends the script."""
    parameters: list[ast.Parameter] = [ast.MandatoryParameter(0, 0, ast.Identifier(0, 0, key)) for key in data]
    return ast.DefStatement(0, end, ast.Identifier(0, 0, SCRIPT), parameters, statements)


def _field_names(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


@cache
def _children(kind: type[object]) -> tuple[str, ...]:
    """The fields of a node that hold other nodes."""
    skipped = {"start", "end", "op", "kind", "binding", "locals", "freevars", "is_tuple", "is_dict", "value"}
    literal = issubclass(kind, (ast.IntLiteral, ast.FloatLiteral, ast.StringLiteral))
    return tuple(name for name in _field_names(kind) if name not in skipped or (name == "value" and not literal))


def inside(node: object) -> list[Any]:
    """The nodes right below a node, in the order of the text."""
    found: list[Any] = []
    for name in _children(type(node)):
        value = getattr(node, name)
        if isinstance(value, list):
            found.extend(cast("list[object]", value))
        elif value is not None and not isinstance(value, (str, int)):
            found.append(value)
    return found


def walk(statements: Sequence[ast.Statement]) -> Iterator[tuple[Any, int]]:
    """Every node below `statements` with its depth, in the order of the text; no recursion, whatever the tree is."""
    stack: list[tuple[Any, int]] = [(node, 1) for node in reversed(statements)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        if depth > MAX_DEPTH:
            continue
        stack.extend((child, depth + 1) for child in reversed(inside(node)))


def _too_deep(offset: int) -> Violation:
    message = f"The script is nested deeper than {MAX_DEPTH} levels"
    return Violation(offset, "DisallowedSyntax", message, "Give parts of it names.")


def _structure(node: Any, depth: int) -> Violation | None:
    """What is wrong with one node, whatever names mean."""
    if depth == MAX_DEPTH + 1:
        return _too_deep(getattr(node, "start", 0))
    if isinstance(node, ast.LoadStatement):
        return Violation(node.start, "DisallowedSyntax", "'load' is not allowed", _WORDS["load"])
    # The lexer reads a decimal number of more digits than Python converts as 0.
    unread = isinstance(node, ast.IntLiteral) and not node.value and node.end - node.start > MAX_DIGITS
    if unread or (isinstance(node, ast.IntLiteral) and node.value.bit_length() > MAX_INT_BITS):
        return Violation(node.start, "DisallowedSyntax", "The number is too large", "Write it as a text.")
    return None


def _syntax_violations(text: str, lines: LineTable, errors: Sequence[StarlarkError]) -> list[Violation]:
    """The first error of the parser: what follows is mostly its consequence."""
    first = errors[0]
    offset = min(lines.offset(first.position.line, first.position.column), len(text))
    found = NAME.match(text, offset)
    word = found[0] if found else ""
    if word not in _WORDS and (before := text[:offset].split()) and before[-1] in _WORDS:
        word = before[-1]
    message = first.message.removeprefix("syntax error at ").removesuffix(", use 'load' instead")
    begin, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    line = text[begin : end if end >= 0 else len(text)]
    hint = None if OF_ESCAPES.search(message) else _WORDS.get(word)
    hint = hint or syntax_hint(line[:MAX_LINE], offset - begin, message)
    if reads_as_javascript(text):
        hint = f"{JAVASCRIPT_SENT} {hint}"
    return [Violation(offset, None, message, hint, "SYNTAX_ERROR")]


def _is_builtin(node: Any, names: Container[str]) -> bool:
    """Whether a node is one of these names, and means the built-in."""
    named = isinstance(node, ast.Identifier) and node.name in names
    return named and getattr(node.binding, "scope", None) is Scope.UNIVERSAL


def _is_own(node: ast.Identifier) -> bool:
    """Whether a name is that of a variable of the script."""
    return isinstance(node.binding, Binding) and node.binding.scope not in (Scope.GLOBAL, Scope.UNIVERSAL)


class _Names:
    """What the names of a script mean: each is defined in it, built in, or a tool of the caller's."""

    def __init__(
        self, start: wire.Start, terms: wire.StarlarkTerms, ask: AskHost, data: Sequence[str], own: Set[str]
    ) -> None:
        self.violations: list[Violation] = []
        self.calls: list[wire.NamedCall] = []
        self.computed = False
        """Whether names of tools are computed, or a server is used as a value."""
        self._functions = {function.name: function for function in terms.functions}
        self._servers = {server.name: {tool.name: tool for tool in server.tools} for server in terms.servers}
        self._by_server = bool(terms.value)
        """Whether tools are members of servers alone: what the script is made for is one of them."""
        self._data = data
        self._own = own
        """The variables of the script and of its functions."""
        self._console = start.limits.allow_console
        self._builtins = builtin_names(console=self._console, extracts=terms.extracts, results=terms.results)
        self._ask = ask
        self._known: dict[str, bool] = {}
        self._near: dict[str, str | None] = {}
        self._lower: dict[str, dict[str, str]] = {}
        """The names of tools in lower case, by server."""
        self._members: dict[int, str] = {}
        """By the place of a name: the member that is read of it."""
        self._seen: set[int] = set()
        """The places of names whose use says which tool it is about."""

    def visit(self, node: Any) -> None:
        """Check one node. What holds a node comes before it."""
        if isinstance(node, ast.Identifier):
            self._name(node)
        elif isinstance(node, ast.DotExpression) and isinstance(node.obj, ast.Identifier):
            self._member(node, node.obj)
        elif isinstance(node, ast.CallExpression) and isinstance(node.fn, ast.Identifier):
            self._call(node, node.fn)
        elif isinstance(node, ast.BinaryOperatorExpression) and node.op.value in ("==", "!="):
            self._comparison(node)

    def _comparison(self, node: Any) -> None:
        """`type(x) == int` is never true: types are texts here."""
        for side, other in ((node.lhs, node.rhs), (node.rhs, node.lhs)):
            called = side.fn if isinstance(side, ast.CallExpression) else None
            if _is_builtin(called, {"type"}) and _is_builtin(other, TYPES):
                hint = f'Compare with its name: type(x) == "{TYPES[other.name]}".'
                self._add(other.start, "type(x) gives the name of a type, which no function equals", hint)

    def _name(self, node: ast.Identifier) -> None:
        binding = node.binding
        if not isinstance(binding, Binding) or node.start in self._seen:
            return
        if binding.scope is Scope.UNIVERSAL and node.name in _BY_NAME:
            self.computed = True
        elif binding.scope is Scope.GLOBAL and (tool := self._functions.get(node.name)) is not None:
            self.calls.append(wire.NamedCall("tool", tool.tool, node.start))
        elif binding.scope is Scope.GLOBAL and node.name in self._servers:
            self.computed = True
        elif binding.scope is Scope.GLOBAL:
            self._unknown(node)

    def _member(self, node: ast.DotExpression, server: ast.Identifier) -> None:
        """`server.tool`, called or not."""
        tools = self._servers.get(server.name)
        self._members[server.start] = node.name.name
        if tools is None or not isinstance(server.binding, Binding) or server.binding.scope is not Scope.GLOBAL:
            return
        self._seen.add(server.start)
        name = node.name.name
        if name not in tools and server.name not in self._lower:
            self._lower[server.name] = lower_case_names(tools)
        written = name if name in tools else self._lower[server.name].get(name, name)
        if written in tools:
            self.calls.append(wire.NamedCall("tool", tools[written].tool, node.start))
            return
        near = self._nearest(name, tools, 0.6)
        listed = join_names(tools, MAX_LISTED_TOOLS)
        guess = f"Did you mean `{server.name}.{near[0]}`?\n" if near else ""
        hint = f"{guess}Tools of {server.name}: {listed}"
        self._add(node.name.start, f"{server.name} has no tool '{name}'", hint)

    def _call(self, node: ast.CallExpression, function: ast.Identifier) -> None:
        binding = function.binding
        if not isinstance(binding, Binding):
            return
        if binding.scope is Scope.UNIVERSAL and function.name in _BY_NAME:
            self._literal_name(node, function)
        elif binding.scope is Scope.GLOBAL and (tool := self._functions.get(function.name)) is not None:
            positional = next((arg for arg in node.args if isinstance(arg, ast.PositionalArgument)), None)
            if positional is not None:
                self._add(positional.start, f"{function.name}: {_POSITIONAL}", f"Write {tool.signature}.")

    def _literal_name(self, node: ast.CallExpression, function: ast.Identifier) -> None:
        """A name of a tool that is written out: it has to exist, but where the script asks for its failure."""
        first = node.args[0] if node.args else None
        if not isinstance(first, ast.PositionalArgument):
            return
        if self._is_tool(first.value):
            self._seen.add(function.start)  # the tool itself is seen with its own name
            return
        if not isinstance(first.value, ast.StringLiteral):
            return
        self._seen.add(function.start)
        name = first.value.value
        if not name or len(name) > wire.MAX_NAME_LENGTH:
            return
        self.calls.append(wire.NamedCall("tool", name, node.start))
        if function.name == "call_tool" and not self._exists(name):
            hint = _FUNCTION.format(name) if name in self._builtins else self._hint(name, as_function=False)
            self._add(first.start, f"Tool '{name}' was not found", hint or UNKNOWN_TOOL_HINT)

    def _is_tool(self, node: Any) -> bool:
        """Whether an expression names one tool: `server.tool`, or its function."""
        named = node.obj if isinstance(node, ast.DotExpression) else node
        known = self._servers if isinstance(node, ast.DotExpression) else self._functions
        if not isinstance(named, ast.Identifier) or not isinstance(named.binding, Binding):
            return False
        return named.binding.scope is Scope.GLOBAL and named.name in known

    def _exists(self, name: str) -> bool:
        if name not in self._known:
            if len(self._known) >= MAX_QUESTIONS:
                return True  # the call itself says so
            answer = self._ask(name, "member", "") if not name else self._ask("", "member", name)
            self._known[name] = answer is None or "missing" not in json.loads(answer)
        return self._known[name]

    def _unknown(self, node: ast.Identifier) -> None:
        name = node.name
        if name == "print" and not self._console:
            self._add(node.start, "There are no logs here", "Return what is to be seen.")
            return
        if self._by_server:
            known = self._nearest(name, [*BUILTIN_NAMES, *self._servers], 0.75)
            instead = _NAMES.get(name) or "Use one of the available server keys as the object name"
            guess = f"\nDid you mean `{known[0]}`?" if known else ""
            hint = f"Variable or identifier '{name:.80}' is not defined\n{instead}{guess}"
            self._add(node.start, f"{name} is not defined", hint)
            return
        hint = _NAMES.get(name) or self._variable_hint(name) or self._joined_hint(node)
        hint = hint or self._hint(name, as_function=True, is_tool="_" in name or node.start in self._members)
        self._add(node.start, f"'{name}' is not defined", hint)

    def _variable_hint(self, name: str) -> str | None:
        """What to do about a name that stands for all data, or is that of a variable elsewhere."""
        if name in self._own:
            return "It is known only inside the function or comprehension that has it: return it from there."
        if name not in ALL_DATA:
            return None
        if not self._data:
            return "This call has no `data`; what is given there are variables, each by its key."
        keys = join_names(self._data, MAX_LISTED_TOOLS, "`{}`".format)
        return f"The keys of `data` are variables: write {keys}."

    def _joined_hint(self, node: ast.Identifier) -> str | None:
        """The function that is meant by `server.tool`, where there are no servers."""
        member = self._members.get(node.start)
        if member is None or len(self.violations) >= MAX_QUESTIONS:
            return None
        if max(len(node.name), len(member)) > wire.MAX_NAME_LENGTH:
            return None
        answer = self._ask(node.name, "member", member)
        tool = cast("Mapping[str, str]", json.loads(answer) if answer is not None else {}).get("tool")
        return f"Did you mean `{function_name(tool)}`?" if tool else None

    def _hint(self, name: str, *, as_function: bool, is_tool: bool = True) -> str | None:
        """What may have been meant by `name`; where it is that of a tool, why that may be missing."""
        if as_function and len(name) <= MAX_GUESSED:
            known = self._nearest(name, [*BUILTIN_NAMES, *self._functions, *self._data, *self._own], 0.75)
            if known:
                return f"Did you mean `{known[0]}`?"
        if name not in self._near:
            answer = None
            if len(self._near) < MAX_QUESTIONS and len(name) <= wire.MAX_NAME_LENGTH:
                answer = self._ask(name, "space")
            found = cast("Mapping[str, list[str]]", json.loads(answer) if answer is not None else {})
            written = [function_name(tool) if as_function else tool for tool in found.get("tools") or []]
            guess = f"Did you mean {' or '.join(f'`{tool}`' for tool in written)}?" if written else ""
            unlisted = (found.get("unlisted") or []) if is_tool else []
            # Where its own server is missing, whatever else there is was not meant.
            own = [sentence for sentence in unlisted if is_about_server(sentence, name)]
            self._near[name] = " ".join(own or filter(None, [*unlisted, guess])) or None
        return self._near[name]

    def _nearest(self, name: str, known: Iterable[str], cutoff: float) -> list[str]:
        """The one of some names that is nearest, for the first errors: comparing takes a while."""
        if len(self.violations) >= MAX_QUESTIONS:
            return []
        return get_close_matches(name[:MAX_GUESSED], known, n=1, cutoff=cutoff)

    def _add(self, offset: int, message: str, hint: str | None) -> None:
        self.violations.append(Violation(offset, "DisallowedGlobal", message, hint))
