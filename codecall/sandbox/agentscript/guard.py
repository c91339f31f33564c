"""The guard: judges a script by the policy before it runs.

    prescan   the raw text: size, line ends, what no text may have    prescan.py, characters.py
    parse     JavaScript, in strict mode, as an async function        parsing.py, grammar/, unsafe.py
    walk      every node, name and member against the policy          walk.py, expressions.py, statements.py, names.py

Every finding is collected, with its place in the script as sent, a stable kind, and what to write instead. The guard
is for clear errors and depth of defence; what keeps the server safe is the process the script runs in and the broker.
"""

from __future__ import annotations

from codecall.sandbox.agentscript.callsites import outline_of
from codecall.sandbox.agentscript.expressions import CHILDREN as _EXPRESSION_CHILDREN
from codecall.sandbox.agentscript.expressions import HANDLERS as _EXPRESSION_HANDLERS
from codecall.sandbox.agentscript.findings import MAX_FINDINGS, Finding, Mark, Refused, refusal
from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.lines import statement_sites
from codecall.sandbox.agentscript.nodes import FUNCTIONS, lone_function
from codecall.sandbox.agentscript.parsing import parse
from codecall.sandbox.agentscript.policy import VARIANTS, Rules
from codecall.sandbox.agentscript.prescan import prescan
from codecall.sandbox.agentscript.sites import CatchSite, Checked, FunctionSite, LoopSite, ScriptForm
from codecall.sandbox.agentscript.spaces import FindSpaces, no_spaces
from codecall.sandbox.agentscript.statements import CHILDREN as _STATEMENT_CHILDREN
from codecall.sandbox.agentscript.statements import HANDLERS as _STATEMENT_HANDLERS
from codecall.sandbox.agentscript.vocabulary import vocabulary
from codecall.sandbox.agentscript.walk import SHIFT, Walk

__all__ = [
    "MAX_FINDINGS",
    "CatchSite",
    "Checked",
    "Finding",
    "FunctionSite",
    "LoopSite",
    "Refused",
    "ScriptForm",
    "check",
]

_HANDLERS = {**_EXPRESSION_HANDLERS, **_STATEMENT_HANDLERS}
_CHILDREN = {**_EXPRESSION_CHILDREN, **_STATEMENT_CHILDREN}


def check(script: str, rules: Rules, *, coverage: bool = False, spaces: FindSpaces = no_spaces) -> Checked:
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
        raise refusal(script, marks)
    statements, escapes = parse(script)
    walk = Walk(script, vocabulary(rules))
    names = walk.run(statements, _HANDLERS, _CHILDREN, spaces)
    marks = walk.marks
    if escapes:
        row = VARIANTS["escape"]
        marks.extend(Mark(offset, row.kind, f"Script has a {row.name}", row.instead) for offset in escapes)
    outline = outline_of(statements, walk, names.spaces)
    if marks:
        raise refusal(script, marks, outline)
    form, last_start = _form(statements, returns=walk.returns)
    sites = statement_sites(statements, SHIFT) if coverage else None
    return Checked(
        form,
        last_start,
        walk.loops,
        walk.functions,
        walk.catches,
        names.runtime,
        outline,
        sites,
        names.spaces,
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
    start: int = last.range[0] - SHIFT
    if lone_function(effective) is not None:
        return "function", start
    return ("statements", None) if returns or last.type != "ExpressionStatement" else ("expression", start)
