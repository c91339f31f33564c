"""Validates a script: from the script as sent to one that may run. What is validated is what runs, character by
character.

    fences        the lines of a markdown code fence around the whole script become blanks
    JavaScript    a script that is valid as it stands runs as it stands
    TypeScript    otherwise its types become blanks (`typescript/strip.py`), and the rest is validated

Nothing moves: every offset in what runs is an offset in the script as sent.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.analysis.calls import outline_script
from codecall.sandbox.agentscript.analysis.lookups import LOOKUP, lookup_sites
from codecall.sandbox.agentscript.analysis.reachability import sole_function
from codecall.sandbox.agentscript.checked import (
    CheckedScript,
    Finding,
    IntegerSite,
    InvalidScriptError,
    ScriptEnding,
    ScriptForm,
    Violation,
    invalid_script,
)
from codecall.sandbox.agentscript.instrument import statement_sites
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, PREFIX_LENGTH, parse, prescan
from codecall.sandbox.agentscript.policy import PROTOTYPES, VARIANTS, Rules
from codecall.sandbox.agentscript.ruleset import rule_set
from codecall.sandbox.agentscript.typescript.strip import TYPE_ARGUMENTS, misplaced_type, strip_types
from codecall.sandbox.agentscript.validator.names import FindNamespaces, no_namespaces
from codecall.sandbox.agentscript.validator.nodes import CHILDREN, HANDLERS
from codecall.sandbox.agentscript.validator.walk import Walk

_OPENING_FENCE: Final = re.compile(r"[ \t\r\n]*(`{3,}|~{3,})[ -_a-~]*\r?\n")
"""The line that opens a fence, with the blanks before it. It may name the language."""
_TYPE_START: Final = re.compile(r"[:<!?]|(?:as|satisfies|interface|type|declare|abstract)\b")
"""A place where a type stops the JavaScript parser, if something stands before it on the line."""
_UNREADABLE_HINT: Final = (
    "Types may stay, but something is wrong from here on: look for a bracket, a comma or an operator."
)

_ALSO_FIELDS: Final = frozenset({"description", "length", "name", "next", "size", "source"})
"""Names of what values of the language have themselves, and of fields that answers have as often."""

_BUILT_IN: Final = frozenset(name for row in PROTOTYPES.values() for name in row.allowed | row.regex) - _ALSO_FIELDS
"""Names of properties that scripts do not read of an answer."""

MAX_READS: Final = 64
"""Names of properties that are looked for in answers."""

_BLANK_CHARACTERS: Final = " \t\r\n"
_FENCE_LINE: Final = re.compile(r"^[ \t]*```", re.MULTILINE)


class ValidatedScript(NamedTuple):
    """A script that may run."""

    text: str
    """What was validated, and what runs: as long as the script as sent, and with the same lines."""
    checked: CheckedScript


def validate_script(
    script: str, rules: Rules, *, coverage: bool = False, find_namespaces: FindNamespaces = no_namespaces
) -> ValidatedScript:
    """Validate `script` under `rules`, as JavaScript or else as TypeScript.

    Args:
        script: the script as it was sent; any text.
        rules: the language it may use.
        coverage: collect its statements too; see `validate_javascript`.
        find_namespaces: see `validate_javascript`.

    Returns:
        The script that may run.

    Raises:
        InvalidScriptError: the script must not run.
    """
    text = without_fence(script)
    javascript: CheckedScript | InvalidScriptError
    try:
        javascript = validate_javascript(text, rules, coverage=coverage, find_namespaces=find_namespaces)
    except InvalidScriptError as error:
        if error.first.kind == "UnsafeSource":
            raise  # no parser of any language gets to see it
        javascript = error
    else:
        if TYPE_ARGUMENTS.search(text) is None:
            return ValidatedScript(text, javascript)

    stripped = strip_types(text)
    if stripped is not None and stripped.complete and not stripped.violations:
        return ValidatedScript(
            stripped.text, validate_javascript(stripped.text, rules, coverage=coverage, find_namespaces=find_namespaces)
        )
    is_syntax = isinstance(javascript, InvalidScriptError) and _is_syntax(javascript.first)
    if stripped is not None and stripped.complete and not is_syntax and TYPE_ARGUMENTS.search(text) is not None:
        # JavaScript takes the types of a call for comparisons, perhaps of names it does not know
        raise invalid_script(text, [misplaced_type(stripped.violations[0].offset, "type arguments in the way")])
    if isinstance(javascript, CheckedScript):
        return ValidatedScript(text, javascript)
    if stripped is None or not is_syntax:
        raise _with_markdown_hint(text, javascript)
    if stripped.complete:
        raise invalid_script(text, stripped.violations)
    raise _with_markdown_hint(text, _later_error(text, javascript, stripped.text, rules))


def validate_javascript(
    script: str, rules: Rules, *, coverage: bool = False, find_namespaces: FindNamespaces = no_namespaces
) -> CheckedScript:
    """Validate `script` under `rules` as it stands.

    Args:
        script: what is to run; any text.
        rules: the language it may use.
        coverage: collect its statements too, for line coverage.
        find_namespaces: looks up namespaces; called at most once, and only with names that are not declared.

    Returns:
        Where the script is instrumented, and what it calls.

    Raises:
        InvalidScriptError: the script must not run.
    """
    violations = prescan(script)
    if violations:
        raise invalid_script(script, violations)
    statements, escapes = parse(script)
    walk = Walk(script, rule_set(rules))
    names = walk.run(statements, HANDLERS, CHILDREN, find_namespaces)
    violations = walk.violations
    if escapes:
        row = VARIANTS["escape"]
        violations.extend(Violation(offset, row.kind, f"Script has a {row.name}", row.instead) for offset in escapes)
    outline = outline_script(statements, walk, names.namespaces)
    if violations:
        raise invalid_script(script, violations, outline)
    form, last_start = _form(statements, returns=walk.returns)
    sites = statement_sites(statements) if coverage else None
    return CheckedScript(
        form,
        last_start,
        walk.loops,
        walk.functions,
        walk.catches,
        names.runtime_names,
        outline,
        sites,
        names.namespaces,
        walk.data_sites,
        walk.destructuring_sites,
        ScriptEnding(
            walk.returns,
            None
            if walk.returns or form == "function"
            else _uncalled_function(statements, {use.name for use in walk.uses}),
            tuple(walk.mistaken_callbacks),
            tuple(walk.async_callbacks),
            frozenset(islice((name for name in walk.reads if name not in _BUILT_IN), MAX_READS)),
            frozenset(walk.writes),
            lookup_sites(statements) if LOOKUP.search(script) is not None else (),
        ),
        tuple(IntegerSite(node.range[1] - PREFIX_LENGTH, node.raw.replace("_", "")) for node in walk.integers),
    )


def without_fence(script: str) -> str:
    """`script` with blanks for the fence around it, if there is one."""
    opening = _OPENING_FENCE.match(script)
    if opening is None:
        return script
    fence, begin = opening[1], opening.end()
    end = script.rstrip(_BLANK_CHARACTERS).rfind("\n") + 1
    last = script[end:].strip(_BLANK_CHARACTERS)
    # Nothing that JavaScript can run ends with ~~~, or begins with ```, which is a text that is called
    if end < begin or len(last) < len(fence) or last.strip(fence[0]):
        return script
    return f"{_blanks(script[:begin])}{script[begin:end]}{_blanks(script[end:])}"


def _blanks(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _later_error(text: str, javascript: InvalidScriptError, stripped: str, rules: Rules) -> InvalidScriptError:
    """The error that comes later in the script: of `text` as JavaScript, or of `stripped`, the text without its types.
    The parser that got further was right up to there."""
    first, *others = javascript.findings
    try:
        validate_javascript(stripped, rules)
    except InvalidScriptError as error:
        if _is_syntax(error.first) and (error.first.line, error.first.column) > (first.line, first.column):
            return error
    line = text.split("\n")[first.line - 1]
    is_type = line[: first.column - 1].strip() and _TYPE_START.match(line, first.column - 1)
    hint = _UNREADABLE_HINT if is_type else first.hint
    return InvalidScriptError([replace(first, hint=hint), *others])


def _with_markdown_hint(text: str, error: InvalidScriptError) -> InvalidScriptError:
    """The error of `text`, with a hint if code fences in it are the cause."""
    first, *others = error.findings
    if not _is_syntax(first) or _FENCE_LINE.search(text) is None:
        return error
    return InvalidScriptError([replace(first, hint=VARIANTS["called text"].instead), *others])


def _is_syntax(finding: Finding) -> bool:
    return finding.code == "SYNTAX_ERROR"


def _uncalled_function(statements: list[Node], used_names: set[str]) -> str | None:
    """The first top-level function that nothing refers to."""
    for statement in statements:
        declared: list[Node] = []
        if statement.type == "FunctionDeclaration":
            declared = [statement.id]
        elif statement.type == "VariableDeclaration":
            functions = [item for item in statement.declarations if item.init and item.init.type in FUNCTIONS]
            declared = [item.id for item in functions]
        for name in declared:
            if name.type == "Identifier" and name.name not in used_names:
                return name.name
    return None


def _form(statements: list[Node], *, returns: bool) -> tuple[ScriptForm, int | None]:
    """What the script's value is, and where the statement that gives it starts."""
    effective = [statement for statement in statements if statement.type != "EmptyStatement"]
    if not effective:
        return "statements", None
    last = effective[-1]
    start: int = last.range[0] - PREFIX_LENGTH
    if sole_function(effective) is not None:
        return "function", start
    return ("statements", None) if returns or last.type != "ExpressionStatement" else ("expression", start)
