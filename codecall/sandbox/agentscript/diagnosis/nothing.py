"""Why a script gave nothing: warnings about a script without a value, and about values that became `null`.

Whether there was a value is known only when the script has ended; where it should have come from is looked up in the
script then. What a warning says of an answer has been looked up in that answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from codecall.sandbox.agentscript.analysis.reachability import sole_function
from codecall.sandbox.agentscript.diagnosis.calls import MAX_WARNED_CALLS, OBJECT, CallHistory, shorten
from codecall.sandbox.agentscript.diagnosis.causes import missing_fields
from codecall.sandbox.agentscript.diagnosis.context import FailureContext, HintFields
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow, with_dataflow
from codecall.sandbox.agentscript.diagnosis.operations.operands import Mistake, Operands
from codecall.sandbox.agentscript.diagnosis.operations.prefilter import may_mistake
from codecall.sandbox.agentscript.diagnosis.operations.search import find_mistakes
from codecall.sandbox.agentscript.diagnosis.reads.elsewhere import names_elsewhere
from codecall.sandbox.agentscript.diagnosis.reads.misread import Declares, MisreadSearch, suspects
from codecall.sandbox.agentscript.diagnosis.remedies import NOTHING_FOUND, answer_fields, is_certain
from codecall.sandbox.agentscript.diagnosis.report import NO_VALUE, Ending
from codecall.sandbox.agentscript.diagnosis.tables import collection_remedy
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.mistakes import COMMENT_WITH_LINES, ESCAPED_LINES, RETURN_AND_LINE
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, PREFIX_LENGTH, key_name, member_name, span

_NOTHING: Final = "Nothing was returned: "
_ENDS_WITH_EMIT: Final = re.compile(r"(?:\A|[;\n{}])\s*+(?:return\s++)?emit\s*+\([^\n]*\)\s*+;?\s*+\Z")
_MAX_END: Final = 500
"""Characters of the end of a script in which that is looked for."""

_SORTS_NOTHING: Final = (
    "gives true or false, which does not sort: for numbers write `a.n - b.n`, for texts `a.name < b.name ? -1 : 1`."
)

_NO_JSON: Final = {
    "function": "the value of the script is a function; call it, and return what it gives.",
    "symbol": "the value of the script is a symbol, for which JSON has no form; return a text in its place.",
}
"""Why there is no value, by the kind of what was returned."""

_MAPS: Final = frozenset({"map", "flatMap", "from", "__safe_parallel", "all"})
"""Functions whose result has an item for each value of a callback."""

_NEVER_UNDEFINED: Final = frozenset(
    {"Literal", "TemplateLiteral", "ObjectExpression", "ArrayExpression", "BinaryExpression", "NewExpression"}
)
"""Types of expressions that always have a value."""

_VALUES: Final = frozenset({"ExpressionStatement", "BlockStatement"})
"""Types of statements as which a value is read that stands alone; an object is read as a block."""

_MAX_CHAIN: Final = 8
"""Most parts of a chain, as `r?.users?.[0]?.name` is, that are looked at."""


def misread_properties(
    program: InstrumentedScript,
    calls: CallHistory,
    missing: Sequence[str],
    room_ms: float,
    declares: Declares,
    *,
    shows_undefined: bool,
    failed_at: int | None = None,
) -> list[str]:
    """The warnings about properties that the script reads and no answer has.

    Args:
        program: What ran.
        calls: Its calls.
        missing: Keys that are left out of its value.
        room_ms: Milliseconds of its own time that it has left.
        declares: What the tools say of their answers.
        shows_undefined: Whether a text in its value, or in what it threw, has the word `undefined`.
        failed_at: Where the script failed, in characters; what it had not reached then is left out.
    """
    elsewhere = names_elsewhere(calls, program.script)
    if not (names := suspects(program, calls, elsewhere, shows_undefined=shows_undefined)):
        return []

    def find(dataflow: DataFlow | None) -> list[str]:
        if dataflow is None:
            return []
        search = _Search(program, dataflow, calls)
        reads = MisreadSearch(dataflow, search.context, calls, missing, declares=declares, elsewhere=elsewhere)
        found = reads.find(names, room_ms, shows_undefined=shows_undefined)
        return [search.missing_text(node, fields) for node, fields in found if dataflow.may_precede(node, failed_at)]

    return with_dataflow(program.script, room_ms, find, fallback=[])


def misread_before_failure(
    program: InstrumentedScript | None,
    calls: CallHistory,
    room_ms: float,
    thrown: str,
    failed_at: int,
    *,
    declares: Declares,
) -> str | None:
    """The first warning of `misread_properties` about a script that failed, and may have `thrown` a text itself."""
    if program is None:
        return None
    shows_undefined = calls.shows_undefined or "undefined" in thrown
    if not calls.may_misread(program.script, shows_undefined=shows_undefined):
        return None
    try:
        found = misread_properties(
            program, calls, (), room_ms, declares, shows_undefined=shows_undefined, failed_at=failed_at
        )
    except Exception:
        return None  # The failure is reported all the same.
    return next(iter(found), None)


def mistaken_values(program: InstrumentedScript, calls: CallHistory, value: str, room_ms: float) -> list[str]:
    """The warnings about values of answers that the script takes for something else, and objects that it shows.

    Args:
        program: What ran.
        calls: Its calls.
        value: Its value as JSON text.
        room_ms: Milliseconds of its own time that it has left.
    """

    if not may_mistake(calls, program.script, value):
        return []

    def find(dataflow: DataFlow | None) -> list[str]:
        if dataflow is None:
            return []
        search = _Search(program, dataflow, calls)
        operands = Operands(dataflow, search.context, calls, program.ending.writes)
        shows_objects = calls.shows_objects or OBJECT in value
        found = {each.says: each for each in find_mistakes(operands, room_ms, shows_objects=shows_objects)}
        return [search.mistake_text(each) for each in found.values()]

    return with_dataflow(program.script, room_ms, find, fallback=[])


def nothing_returned(program: InstrumentedScript, calls: CallHistory, ending: Ending, room_ms: float) -> list[str]:
    """The warnings about what is missing in the value of a script that has ended well.

    Args:
        program: What ran.
        calls: Its calls.
        ending: How it ended.
        room_ms: Milliseconds of its own time that it has left.
    """

    def search(find: Callable[[_Search], str | None]) -> str | None:
        return with_dataflow(
            program.script,
            room_ms,
            lambda dataflow: find(_Search(program, dataflow, calls)) if dataflow else None,
            fallback=None,
        )

    warnings = [
        f"The callback of `.{site.method}()` on line {program.lines.line(site.start)} "
        f"{_SORTS_NOTHING if site.compares else 'returns nothing: with braces it needs a `return`.'}"
        for site in program.ending.mistaken_callbacks[:MAX_WARNED_CALLS]
    ]
    # A script that ends by showing something has nothing to return.
    if ending.kind in NO_VALUE and _ENDS_WITH_EMIT.search(program.script[-_MAX_END:]) is None:
        reason = _without_search(program, calls, ending)
        if reason is None:
            reason = search(lambda found: found.missing_value())
        warnings.append(_NOTHING + (reason or "the value of the script is undefined."))
    if ending.empty_lists:
        reason = search(lambda found: found.missing_items())
        warnings.append(f"A list in the result has only undefined items, which became null{reason or '.'}")
    if ending.missing and (reason := search(lambda found: found.missing_property(ending.missing))) is not None:
        warnings.append(f"The result lacks a property: {reason}")
    return warnings


def _without_search(program: InstrumentedScript, calls: CallHistory, ending: Ending) -> str | None:
    """Why there is no value, where the script need not be parsed again for it."""
    if ending.kind in _NO_JSON:
        return _NO_JSON[ending.kind]
    if program.form != "statements" or program.ending.returns:
        return None
    if not program.script.strip():
        return "the script is empty."
    if COMMENT_WITH_LINES.search(program.script):
        return f"a comment holds code, up to the end of its line. {ESCAPED_LINES}"
    name = program.ending.uncalled_function
    if name is not None and not calls.open_calls and not calls.last_answers:
        function = shorten(name)
        return f"`{function}` is declared but never called; end with `return {function}();`"
    return "the script has no `return`. If a value matters, end with `return value`."


class _Search:
    """Looks in one script for what has no value."""

    def __init__(self, program: InstrumentedScript, dataflow: DataFlow, calls: CallHistory) -> None:
        self._program = program
        self._dataflow = dataflow
        offsets = {
            entry.number: program.lines.offset(*position)
            for entry in calls.last_answers.values()
            if (position := program.position_in_stack(entry.stack)) is not None
        }
        self.context = FailureContext(dataflow, None, calls, offsets)

    def missing_value(self) -> str | None:
        """Why the script has no value."""
        values, reached = self._values_of_script()
        if (reason := self._ended_return(None)) is not None:
            return reason
        if (reason := self._reason_of_values(values, reached)) is not None:
            return reason
        suspects = [value for value in values if value.type not in _NEVER_UNDEFINED]
        if len(values) == len(suspects) == 1 and suspects[0] in reached:
            if getattr(suspects[0], "name", None) == "undefined":
                return f"`undefined` is written on line {self._line(suspects[0])}."
            return f"{self._named(suspects[0])} is undefined.{collection_remedy(self._dataflow, suspects[0])}"
        return "no `return` that gives a value was reached."

    def missing_items(self) -> str | None:
        """Which callback gives no values."""
        for node in self._dataflow.nodes:
            if node.type != "CallExpression" or not node.arguments or _called_name(node) not in _MAPS:
                continue
            for function in self._functions(node.arguments[-1]):
                if (reason := self._reason_of_function(function)) is not None:
                    return f": {reason}"
        return None

    def missing_property(self, keys: Sequence[str]) -> str | None:
        """Which of these keys of an object should have a value that an answer has under a similar name, in its list, or
        as JSON."""
        for node in self._dataflow.nodes:
            if node.type == "Property" and node.value.type == "MemberExpression" and key_name(node.key) in keys:
                fields = missing_fields(self.context, node.value, "")
                if fields is None or fields["nothing"] != "undefined":
                    continue
                if is_certain(fields["use"]) or "`JSON.parse` it" in fields["shape"]:
                    return self.missing_text(node.value, fields)
        return None

    def _values_of_script(self) -> tuple[list[Node], list[Node]]:
        """The expressions that may be the script's value, and those of them that no condition stands before."""
        statements = [node for node in self._dataflow.statements if node.type != "EmptyStatement"]
        if self._program.form == "function" and (function := sole_function(statements)) is not None:
            return self._values_of(function)
        if self._program.form == "expression":
            return [statements[-1].expression], [statements[-1].expression]
        return self._returned(None), _reached_values(statements)

    def _values_of(self, function: Node) -> tuple[list[Node], list[Node]]:
        """What a function returns, and that of it that no condition stands before."""
        if function.body.type != "BlockStatement":
            return [function.body], [function.body]
        return self._returned(function), _reached_values(function.body.body)

    def _returned(self, function: Node | None) -> list[Node]:
        """The values of the `return`s of a function, or of the top level."""
        returns = [
            node for node in self._dataflow.nodes if node.type == "ReturnStatement" and node.argument is not None
        ]
        return [node.argument for node in returns if self._function_of(node) is function]

    def _function_of(self, node: Node) -> Node | None:
        """The innermost function that holds a node; None at top level."""
        return next(iter(self._dataflow.enclosing(span(node)[0] - PREFIX_LENGTH, *FUNCTIONS)), None)

    def _reason_of_values(self, values: Sequence[Node], reached: Sequence[Node], depth: int = 0) -> str | None:
        """Why the one of these expressions that a script or a function has given is undefined."""
        reasons = chain(
            (self._reason(value, depth) for value in reached),
            (self._reason(value, depth, is_reached=False) for value in values if value not in reached),
        )
        return next((reason for reason in reasons if reason is not None), None)

    def _reason(self, value: Node, depth: int = 0, *, is_reached: bool = True) -> str | None:
        """Why this expression is undefined, where more can be said than that. Of one that may not have been reached it
        is said only where another name was meant."""
        while value.type in {"AwaitExpression", "ChainExpression"}:
            value = value.argument if value.type == "AwaitExpression" else value.expression
        member, is_optional = "", False
        for part in _chain(value):
            fields = missing_fields(self.context, part, member)
            if fields is not None and fields["nothing"] == "undefined" and (is_reached or is_certain(fields["use"])):
                if is_optional and fields["use"].startswith(NOTHING_FOUND):
                    fields = {**fields, "use": f"{NOTHING_FOUND} what was searched for is not there."}
                return self.missing_text(part, fields)
            read: Node = part.callee if part.type == "CallExpression" else part
            if read.type == "MemberExpression":
                member, is_optional = str(member_name(read)), bool(read.optional)
        if not is_reached:
            return None
        if value.type == "CallExpression" and getattr(value.callee, "name", None) == "getTool":
            return f"{self._named(value)} is undefined: the script may call no tool of that name."
        if value.type == "CallExpression" and depth < 3:
            for function in self._functions(value.callee):
                if (reason := self._reason_of_function(function, depth + 1)) is not None:
                    return reason
            if _called_name(value) in {"forEach", "log", "info", "warn", "error", "debug"}:
                return f"{self._named(value)} gives no value. If one matters, end with `return value`."
        return None

    def _ended_return(self, function: Node | None) -> str | None:
        """Which `return` of a function, None for the script, a line break ends before its value."""
        blocks: list[list[Node]] = [node.body for node in self._dataflow.nodes if node.type == "BlockStatement"]
        for first, second in chain.from_iterable(map(pairwise, (self._dataflow.statements, *blocks))):
            if self._is_ended_return(first, second) and self._function_of(first) is function:
                line = self._line(first)
                return f"a line break ends `return` on line {line}: begin its value on the same line, `return (…)`."
        return None

    def _is_ended_return(self, statement: Node, following: Node) -> bool:
        if statement.type != "ReturnStatement" or following.type not in _VALUES:
            return False
        start = span(statement)[0] - PREFIX_LENGTH
        between = self._program.script[start : span(following)[0] - PREFIX_LENGTH]
        return statement.argument is None and RETURN_AND_LINE.fullmatch(between) is not None

    def _reason_of_function(self, function: Node, depth: int = 1) -> str | None:
        if (reason := self._ended_return(function)) is not None:
            return reason
        values, reached = self._values_of(function)
        if not values:
            instead = " Write `=> ({ … })` to return an object." if _is_meant_as_object(function) else ""
            return f"the function on line {self._line(function)} has no `return` that gives a value.{instead}"
        return self._reason_of_values(values, reached, depth)

    def _functions(self, node: Node) -> Iterator[Node]:
        """The functions of the script that an expression may be."""
        if node.type in FUNCTIONS:
            yield node
        elif node.type == "Identifier":
            yield from (value for value in self._dataflow.values_of(node) if value.type in FUNCTIONS)

    def missing_text(self, node: Node, fields: HintFields) -> str:
        """What is undefined, what the tool returned, and what to write."""
        returned = f"{fields.get('items', '')}{fields['tool']} returned {fields['shape']}"
        return f"{self._named(node)} is undefined: {returned}.{fields['use']}"

    def mistake_text(self, found: Mistake) -> str:
        """What takes a value for something else, what to write, and what the tool returned."""
        said = f"{self._named(found.expression)} {found.says}"
        if found.observation is None:
            return said
        fields = answer_fields(found.observation, "")
        return f"{said} {fields['tool']} returned {fields['shape']}."

    def _named(self, node: Node) -> str:
        return f"`{shorten(self._dataflow.text(node))}` on line {self._line(node)}"

    def _line(self, node: Node) -> int:
        return self._program.lines.line(span(node)[0] - PREFIX_LENGTH)


def _reached_values(statements: Sequence[Node]) -> list[Node]:
    """The values of the `return`s that stand at the end of statements, none of them in a branch, a loop or `try`."""
    for statement in statements:
        if statement.type == "ReturnStatement":
            return [] if statement.argument is None else [statement.argument]
        if statement.type == "BlockStatement" and (values := _reached_values(statement.body)):
            return values
    return []


def _chain(value: Node) -> Iterator[Node]:
    """An expression, and what stands before its `?.`: where a part is undefined, so is the whole."""
    for _ in range(_MAX_CHAIN):
        yield value
        value = value.callee if value.type == "CallExpression" else value
        if value.type != "MemberExpression":
            return
        value = value.object


def _called_name(call: Node) -> str | None:
    callee: Node = call.callee
    return str(member_name(callee)) if callee.type == "MemberExpression" else getattr(callee, "name", None)


def _is_meant_as_object(function: Node) -> bool:
    """Whether the braces of an arrow function hold what would be the members of an object, `id: x.id` or `id, name`."""
    body = function.body
    if function.type != "ArrowFunctionExpression" or body.type != "BlockStatement" or len(body.body) != 1:
        return False
    statement: Node = body.body[0]
    if statement.type == "LabeledStatement":
        return True
    names: list[Node] = [statement.expression] if statement.type == "ExpressionStatement" else []
    if names and names[0].type == "SequenceExpression":
        names = names[0].expressions
    return bool(names) and all(name.type == "Identifier" for name in names)
