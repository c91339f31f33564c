"""From a script as it was sent to one that may run: what the guard judges is what runs, character for character.

    fences        the lines of a markdown code fence around the whole script become blanks
    JavaScript    what the guard accepts as it stands runs as it stands
    TypeScript    of anything else the types become blanks (`erasing.py`), and the guard judges what is left

Nothing moves: every place in what runs is a place in the script as sent.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.analysis.calls import outline_script
from codecall.sandbox.agentscript.checked import (
    MAX_FINDINGS,
    CatchSite,
    CheckedScript,
    Finding,
    FunctionSite,
    InvalidScript,
    LoopSite,
    ScriptForm,
    Violation,
    invalid_script,
)
from codecall.sandbox.agentscript.parser.ast import FUNCTIONS, lone_function
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import parse, prescan
from codecall.sandbox.agentscript.policy import VARIANTS, Rules
from codecall.sandbox.agentscript.ruleset import rule_set
from codecall.sandbox.agentscript.typescript.strip import TYPE_ARGUMENTS, misplaced_type, strip_types
from codecall.sandbox.agentscript.validator.expressions import CHILDREN as _EXPRESSION_CHILDREN
from codecall.sandbox.agentscript.validator.expressions import HANDLERS as _EXPRESSION_HANDLERS
from codecall.sandbox.agentscript.validator.names import FindNamespaces, no_namespaces
from codecall.sandbox.agentscript.validator.statements import CHILDREN as _STATEMENT_CHILDREN
from codecall.sandbox.agentscript.validator.statements import HANDLERS as _STATEMENT_HANDLERS
from codecall.sandbox.agentscript.validator.statements import statement_sites
from codecall.sandbox.agentscript.validator.walk import PREFIX_LENGTH, Walk

# ----------------------------------------------------------------------------------------------------
# The guard: judges a script by the policy before it runs.

__all__ = [
    "MAX_FINDINGS",
    "CatchSite",
    "CheckedScript",
    "Finding",
    "FunctionSite",
    "InvalidScript",
    "LoopSite",
    "ScriptForm",
    "validate_javascript",
]

_HANDLERS = {**_EXPRESSION_HANDLERS, **_STATEMENT_HANDLERS}
_CHILDREN = {**_EXPRESSION_CHILDREN, **_STATEMENT_CHILDREN}


def validate_javascript(
    script: str, rules: Rules, *, coverage: bool = False, find_namespaces: FindNamespaces = no_namespaces
) -> CheckedScript:
    """Judge `script` under `rules`. For any text, ends in one of two ways.

    Args:
        script: what is to run.
        rules: the language it may use.
        coverage: look for its statements too, so that it can be said which lines ran.
        spaces: finds namespaces; asked once, and only about names that are not declared.

    Returns:
        Where the realm counts, catches and returns.

    Raises:
        Refused: the script will not run; says why.
    """
    marks = prescan(script)
    if marks:
        raise invalid_script(script, marks)
    statements, escapes = parse(script)
    walk = Walk(script, rule_set(rules))
    names = walk.run(statements, _HANDLERS, _CHILDREN, find_namespaces)
    marks = walk.violations
    if escapes:
        row = VARIANTS["escape"]
        marks.extend(Violation(offset, row.kind, f"Script has a {row.name}", row.instead) for offset in escapes)
    outline = outline_script(statements, walk, names.namespaces)
    if marks:
        raise invalid_script(script, marks, outline)
    form, last_start = _form(statements, returns=walk.returns)
    sites = statement_sites(statements, PREFIX_LENGTH) if coverage else None
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
        None if walk.returns or form == "function" else _uncalled(statements, {use.name for use in walk.uses}),
    )


def _uncalled(statements: list[Node], used: set[str]) -> str | None:
    """The first function at top level that nothing names."""
    for statement in statements:
        declared: list[Node] = []
        if statement.type == "FunctionDeclaration":
            declared = [statement.id]
        elif statement.type == "VariableDeclaration":
            declared = [one.id for one in statement.declarations if one.init and one.init.type in FUNCTIONS]
        for name in declared:
            if name.type == "Identifier" and name.name not in used:
                return name.name
    return None


def _form(statements: list[Node], *, returns: bool) -> tuple[ScriptForm, int | None]:
    """What the script's value is, and where the statement starts that gives it."""
    effective = [statement for statement in statements if statement.type != "EmptyStatement"]
    if not effective:
        return "statements", None
    last = effective[-1]
    start: int = last.range[0] - PREFIX_LENGTH
    if lone_function(effective) is not None:
        return "function", start
    return ("statements", None) if returns or last.type != "ExpressionStatement" else ("expression", start)


# ----------------------------------------------------------------------------------------------------
# From a script as it was sent to one that may run: what the guard judges is what runs, character for character.

_OPENING: Final = re.compile(r"[ \t\r\n]*(`{3,}|~{3,})[ -_a-~]*\r?\n")
"""The line that opens a fence, with what stands before it. Behind it may be said which language follows."""
_TYPED: Final = re.compile(r"[:<!?]|(?:as|satisfies|interface|type|declare|abstract)\b")
"""Where JavaScript stumbles over a type, if something stands before it on the line."""
_UNREADABLE: Final = "Types may stay, but something is wrong from here on: look for a bracket, a comma or an operator."

_AROUND: Final = " \t\r\n"
_FENCE_LINE: Final = re.compile(r"^[ \t]*```", re.MULTILINE)


class ValidatedScript(NamedTuple):
    """A script that may run."""

    text: str
    """What was checked, and what runs: as long as the script as sent, and with the same lines."""
    checked: CheckedScript


def validate_script(
    script: str, rules: Rules, *, coverage: bool = False, find_namespaces: FindNamespaces = no_namespaces
) -> ValidatedScript:
    """Judge `script` under `rules`, as JavaScript or else as TypeScript. For any text, ends in one of two ways.

    Args:
        script: the script as it was sent.
        rules: the language it may use.
        coverage: look for its statements too; see `guard.check`.
        spaces: finds namespaces; see `guard.check`.

    Returns:
        What may run.

    Raises:
        Refused: the script will not run; says why.
    """
    text = _without_fence(script)
    javascript: CheckedScript | InvalidScript
    try:
        javascript = validate_javascript(text, rules, coverage=coverage, find_namespaces=find_namespaces)
    except InvalidScript as refused:
        if refused.first.kind == "UnsafeSource":
            raise  # no reader of any language gets to see it
        javascript = refused
    else:
        if TYPE_ARGUMENTS.search(text) is None:
            return ValidatedScript(text, javascript)

    erased = strip_types(text)
    if erased is not None and erased.complete and not erased.violations:
        return ValidatedScript(
            erased.text, validate_javascript(erased.text, rules, coverage=coverage, find_namespaces=find_namespaces)
        )
    is_syntax = isinstance(javascript, InvalidScript) and _is_syntax(javascript.first)
    if erased is not None and erased.complete and not is_syntax and TYPE_ARGUMENTS.search(text) is not None:
        # JavaScript takes the types of a call for comparisons, perhaps of names it does not know
        raise invalid_script(text, [misplaced_type(erased.violations[0].offset, "type arguments in the way")])
    if isinstance(javascript, CheckedScript):
        return ValidatedScript(text, javascript)
    if erased is None or not is_syntax:
        raise _without_markdown(text, javascript)
    if erased.complete:
        raise invalid_script(text, erased.violations)
    raise _without_markdown(text, _further(text, javascript, erased.text, rules))


def _without_fence(script: str) -> str:
    """`script` with blanks for the fence around it, if there is one."""
    opening = _OPENING.match(script)
    if opening is None:
        return script
    fence, begin = opening[1], opening.end()
    end = script.rstrip(_AROUND).rfind("\n") + 1
    last = script[end:].strip(_AROUND)
    # Nothing that JavaScript can run ends with ~~~, or begins with ```, which is a text that is called
    if end < begin or len(last) < len(fence) or last.strip(fence[0]):
        return script
    return f"{_blanks(script[:begin])}{script[begin:end]}{_blanks(script[end:])}"


def _blanks(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _further(text: str, javascript: InvalidScript, erased: str, rules: Rules) -> InvalidScript:
    """Of what is wrong with `text`, and with what is left of it without its types, what comes later: that reader was
    right up to there."""
    first, *others = javascript.findings
    try:
        validate_javascript(erased, rules)
    except InvalidScript as refused:
        if _is_syntax(refused.first) and (refused.first.line, refused.first.column) > (first.line, first.column):
            return refused
    line = text.split("\n")[first.line - 1]
    typed = line[: first.column - 1].strip() and _TYPED.match(line, first.column - 1)
    hint = _UNREADABLE if typed else first.hint
    return InvalidScript([replace(first, hint=hint), *others])


def _without_markdown(text: str, refused: InvalidScript) -> InvalidScript:
    """The refusal of `text`, with a hint if that is because it has code fences in it."""
    first, *others = refused.findings
    if not _is_syntax(first) or _FENCE_LINE.search(text) is None:
        return refused
    return InvalidScript([replace(first, hint=VARIANTS["called text"].instead), *others])


def _is_syntax(finding: Finding) -> bool:
    return finding.code == "SYNTAX_ERROR"
