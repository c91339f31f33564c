"""Whether the guard, the engine and the realm take a program for the same thing.

reads_alike     the engine compiles what the parser accepts, and the other way round     exceptions: `DIFFERENCES`
marks_alike     what is code to one is code to the other, also where it never runs
runs_alike      the text, the guard's tree printed again, and the instrumented program in the realm end the same,
                and what is refused by name is never reached
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from codecall.sandbox.agentscript.checked import CheckedScript, InvalidScriptError
from codecall.sandbox.agentscript.diagnosis.hints import NO_TEXT_FORM
from codecall.sandbox.agentscript.parser.parse import parse, prescan
from codecall.sandbox.agentscript.policy import GLOBALS, NEVER_NAMES
from codecall.sandbox.agentscript.validate import validate_javascript
from tests_security.fuzz.engines import ALL, TAMED, Ending, compile_error, new_engine, returning, run_counted, run_plain
from tests_security.fuzz.printing import printed


class DisagreementError(AssertionError):
    """Two readers take a program for different things: the message says which and how."""


@dataclass(frozen=True)
class Difference:
    """A kind of program that only one of the two accepts, and why that is no danger."""

    accepted_by: Literal["parser", "engine"]
    message: str
    """A regular expression for the whole of what the other says."""
    reason: str
    examples: tuple[str, ...]
    """Short programs that show it; a test runs them, so that rows of the past go."""


_EARLY: Final = "An early error that the parser does not look for: the script ends as SYNTAX_ERROR, nothing of it runs."
_LOOK_AHEAD: Final = (
    "To tell an arrow function from parentheses the engine looks ahead with a scanner that does not know every token; "
    "where that misleads it, it gives up with a syntax error and runs nothing."
)
_STRICTER: Final = "The engine is stricter than the language; it gives up with a syntax error and runs nothing."
_ASYNC: Final = (
    "Before the arrow of an async function the parser takes any list of expressions, of which it looks at the names; "
    "the engine takes parameters only, and runs nothing."
)
_POLICY: Final = "The parser reads it so that the policy refuses it with a better word than a syntax error."
_PATTERN: Final = (
    "What a regular expression says is the engine's to judge; it runs nothing of a script with a wrong one."
)
_EARLY_HERE: Final = "An error of the language that the engine does not see; the script is refused."
_GAP: Final = "A form the parser does not know; the script is refused with a syntax error."


def _engine_says(message: str, reason: str, *examples: str) -> Difference:
    return Difference("parser", message, reason, examples)


def _parser_says(message: str, reason: str, *examples: str) -> Difference:
    return Difference("engine", message, reason, examples)


DIFFERENCES: Final = (
    _engine_says(r"Unexpected token '=>'", _LOOK_AHEAD, "(async => 1)"),
    _engine_says(r"expecting ';'", _LOOK_AHEAD, "const f = async => { a: for (;;) {} }", "as\\u{79}nc () => {}"),
    _engine_says(r"invalid redefinition of .*", _EARLY, "let a; let a", "(x) => { let x }", "var a; let a"),
    _engine_says(r"'super' is only valid in a method", _EARLY, "class A { [super.a] = 1 }"),
    _engine_says(r"super\(\) is only valid in a derived class constructor", _EARLY, "super()"),
    _engine_says(r"missing formal parameter", _EARLY, "(await s) => 1"),
    _engine_says(r"await in default expression", _EARLY, "async (x = await 1) => x"),
    _engine_says(r"Octal (literals|escape sequences) are not allowed in strict mode", _EARLY, "08", "'\\08'"),
    _engine_says(r"invalid (assignment|increment/decrement) .*", _EARLY, "[a] += 1", "++[]", "(a = 1) = 2"),
    _engine_says(r"invalid destructuring target", _EARLY, "[(a = 1)] = [1]"),
    _engine_says(r"Unexpected token '='", _EARLY, "({ a = 1 } ??= {})"),
    _engine_says(r"Unexpected token '[-+*/%<>&|^.?=(]+'", _ASYNC, "async (x, y ??= 1) => 1", "async (x.y) => 1"),
    _engine_says(r"undefined private field '.*'", _EARLY, "a.#x"),
    _engine_says(r"private class field is already defined", _EARLY, "class A { #x; #x }"),
    _engine_says(r"cannot delete a private class field", _EARLY, "class A { #x; m() { delete this.#x } }"),
    _engine_says(r"invalid (method|field|property) name", _EARLY, "class A { #constructor }", "({ async x })"),
    _engine_says(r"break/continue label not found", _EARLY, "x: { continue x }"),
    _engine_says(
        r"(class|function) declarations can't appear in single-statement context", _EARLY, "if (1) class A {}"
    ),
    _engine_says(r"Invalid Unicode escape sequence", _EARLY, "`\\u`"),
    _engine_says(r"Unexpected token '\['", _EARLY, "({ ge\\u{74} [1]() {} })"),
    _engine_says(r"Unexpected token 'function'", _LOOK_AHEAD, "f(a\\u{73}ync function(){})"),
    _engine_says(r"unexpected 'await' keyword", _EARLY, "class A { static { await ({}) } }"),
    _engine_says(r"expected 'of' or 'in' in for control expression", _LOOK_AHEAD, "for (from \\u{6f}f []) {}"),
    _engine_says(r"unexpected token in expression: '#.*'", _EARLY, "(#x)()"),
    _engine_says(r"invalid lvalue in strict mode", _EARLY, "({ ...eval } = {})"),
    _engine_says(r"invalid keyword: with", _POLICY, "with ({}) {}"),
    _engine_says(r"import.meta only valid in module code", _POLICY, "import.meta"),
    _parser_says(r"Use of future reserved word in strict mode", _GAP, "function* g() { let [y = yield] = [] }"),
    _parser_says(r"Keyword must not contain escaped characters", _GAP, "({ i\\u0066: 1 })"),
    _engine_says(r"expecting '\)'", _PATTERN, "/a(/", "/(?<=a/"),
    _engine_says(r"nothing to repeat", _PATTERN, "/+/"),
    _engine_says(r"invalid regular expression flags", _PATTERN, "/a/gg", "/a/q"),
    _engine_says(
        r"invalid (repetition count|class range|group|((class set )?operation|escape sequence|character in class) in"
        r" regular expression)",
        _PATTERN,
        "/(?/",
        "/[a&&b--c]/v",
        "/[a&&&b]/v",
        "/[a&&]/v",
    ),
    _engine_says(r"(duplicate group name|group name not defined|too many captures)", _PATTERN, "/(?<n>a)(?<n>b)/"),
    _engine_says(r"(syntax error|unknown unicode property .*)", _PATTERN, "/{/u", "/\\p{Foo}/u"),
    _parser_says(r"Unexpected token ILLEGAL", _GAP, "x => x`\\u{/`"),
    _parser_says(r"Setter function argument must not be a rest parameter", _EARLY_HERE, "({ set w(...b) {} })"),
    _parser_says(r"Unexpected token =>", _EARLY_HERE, "class A { p = 1; async()=>{} }"),
    _parser_says(r"Unexpected token \[", _GAP, "for await (async of []) ;"),
)
"""All that generated programs have shown. A row says what the other reader says, not which program it was."""


@dataclass(frozen=True)
class Verdict:
    """What became of a program."""

    accepted: bool
    """By the guard."""
    ending: Ending | None = None
    """How it ended in a plain engine; None when it did not run."""


def examine(script: str, *, engine: Any = None) -> Verdict:
    """Put all questions to one program.

    Raises:
        DisagreementError: the readers differ.
    """
    compiled = reads_alike(script, engine)
    try:
        checked = validate_javascript(script, ALL)
    except InvalidScriptError:
        return Verdict(accepted=False)
    if not compiled:
        return Verdict(accepted=True)
    marks_alike(script, engine)
    return Verdict(accepted=True, ending=runs_alike(script, checked))


def reads_alike(script: str, engine: Any = None) -> bool:
    """Whether parser and engine both accept `script`. Texts that the guard refuses as such are not asked about."""
    if prescan(script):
        return False
    parsed: str | None = None
    try:
        parse(script)
    except InvalidScriptError as error:
        if error.first.code != "SYNTAX_ERROR":
            return False
        parsed = re.sub(r" at line \d+", "", error.first.message)
    compiled = compile_error(script, engine)
    if (parsed is None) == (compiled is None):
        return parsed is None
    by, message = ("parser", compiled) if parsed is None else ("engine", parsed)
    if known_difference(by, message or "") is None:
        raise DisagreementError(f"only the {by} accepts this; the other says: {message}")
    return False


def known_difference(by: str, message: str) -> Difference | None:
    """The row of `DIFFERENCES` for what the other says of a program that `by` accepts."""
    message = message.removeprefix("SyntaxError: ")
    return next((row for row in DIFFERENCES if row.accepted_by == by and re.fullmatch(row.message, message)), None)


_MARK = re.compile(r"\bt\((\d{3})(?=, )")
_MOST_MARKS: Final = 8


def marks_alike(script: str, engine: Any = None) -> None:
    """Every `t(101, …)` that the engine compiles as code is in the guard's tree, and the other way round.

    A broken mark, `t(101 101, …)`, keeps the engine from compiling exactly when the mark is code to it.
    """
    found = [mark for mark in _MARK.finditer(script) if script.count(mark[1]) == 1]
    if not found:
        return
    in_tree = {node.raw for node in nodes_of(script) if node.type == "Literal"}
    for mark in found[:: max(1, len(found) // _MOST_MARKS)]:
        broken = f"{script[: mark.start()]}t({mark[1]} {mark[1]}{script[mark.end() :]}"
        is_code = compile_error(broken, engine) is not None
        if is_code != (mark[1] in in_tree):
            raise DisagreementError(f"mark {mark[1]} is code only to the {'engine' if is_code else 'guard'}")


def nodes_of(script: str) -> list[Any]:
    """Every node of the guard's tree, found by looking at all fields of all nodes: nothing of the walk is used."""
    nodes: list[Any] = []
    pending: list[Any] = list(parse(script)[0])
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif hasattr(item, "type"):
            nodes.append(item)
            pending.extend(value for name, value in vars(item).items() if name not in {"type", "range"})
    return nodes


def _traps() -> str:
    """Every name that is refused tells when it is reached; so do the members that no script may name."""
    names = [name for name, row in GLOBALS.items() if row.verdict == "refused" and name != "arguments"]
    return f"""
        {TAMED};
        globalThis.reached = [];
        ((names, never, reached, define) => {{
          const trap = (owner, name) => define(owner, name, {{
            configurable: true, get() {{ reached.push(name) }}, set() {{ reached.push(name + ' =') }} }});
          const made = [function () {{}}, async function () {{}}, function* () {{}}, async function* () {{}}];
          const prototypes = made.map(Object.getPrototypeOf);
          for (const name of never) if (name.startsWith('__')) trap(Object.prototype, name);
          for (const owner of prototypes) trap(owner, 'constructor');
          trap(Object.prototype, 'constructor');
          for (const name of names) if (name !== 'globalThis') trap(globalThis, name);
          trap(globalThis, 'globalThis');
        }})({names!r}, {sorted(NEVER_NAMES)!r}, reached, Object.defineProperty);
    """


TRAPS: Final = _traps()


def runs_alike(script: str, checked: CheckedScript) -> Ending:
    """How an accepted program ends in a plain engine; it ends so from the guard's tree and in the realm too."""
    text = returning(script, checked)
    call = checked.form == "function"
    plain = run_plain(text, call=call, before=TRAPS)
    if plain.reached and not _names_in_strings(script) & {name.removesuffix(" =") for name in plain.reached}:
        raise DisagreementError(f"the engine reached what is refused: {plain.reached}")
    if plain.sort in {"limit", "odd"}:
        return plain
    from_tree = run_plain(printed(parse(text)[0]), call=call, before=TRAPS)
    if from_tree != plain and from_tree.sort != "limit":
        raise DisagreementError(f"the guard's tree does something else:\n  text {plain}\n  tree {from_tree}")
    counted = run_counted(script, checked)
    if counted != _in_our_words(plain) and counted.sort != "limit":
        raise DisagreementError(f"the realm does something else:\n  plain {plain}\n  realm {counted}")
    return plain


def _in_our_words(plain: Ending) -> Ending:
    """An ending as the realm says it: it puts one of the engine's own messages into words."""
    return replace(plain, what=("TypeError", NO_TEXT_FORM)) if plain.what == ("TypeError", "toPrimitive") else plain


def _names_in_strings(script: str) -> set[str]:
    """The never-names in texts of the script, which it may put together and ask for at run time."""
    nodes = nodes_of(script)
    texts = [node.value for node in nodes if node.type == "Literal" and isinstance(node.value, str)]
    texts += [str(node.value.cooked) for node in nodes if node.type == "TemplateElement"]
    return {name for name in NEVER_NAMES if any(name in text for text in texts)}


__all__ = [
    "DIFFERENCES",
    "Difference",
    "DisagreementError",
    "Verdict",
    "examine",
    "known_difference",
    "new_engine",
    "nodes_of",
]
