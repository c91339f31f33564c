"""What a failed script was doing where it failed, and with what: the fields of its hint.

Each function here looks at one kind of failure and gives the fields, or None where it cannot tell. What is said of an
answer has been looked up in that answer. The engine's message may be read here: a hint may be wrong, and no code or
status follows from one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final, cast

from codecall.sandbox.agentscript.diagnosis.case import (
    MAX_WHAT,
    FailureContext,
    HintFields,
    MessageMatch,
    kind_of,
    message_fields,
    shape_of,
    short,
)
from codecall.sandbox.agentscript.diagnosis.case import member_text as written
from codecall.sandbox.agentscript.diagnosis.dataflow import (
    SHIFT,
    UNDEFINED,
    DataFlow,
    Observation,
    Step,
    ValuePath,
    is_server_call,
    pattern_parts,
)
from codecall.sandbox.agentscript.foreign_words import LIST_MEMBERS, METHODS, WRAPPERS
from codecall.sandbox.agentscript.parser.ast import member_name, span
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.policy import PROTOTYPES

# ----------------------------------------------------------------------------------------------------
# What a failed script was doing where it failed, and with what: the fields of its hint.

MAX_KEYS: Final = 100
"""Keys among which one that is spelled like another is looked for."""

_CALLS: Final = ("CallExpression", "NewExpression")
_ITERATES: Final = frozenset({"all", "allSettled", "any", "race", "from", "fromEntries", "Map", "Set"})
_TAKES_OBJECT: Final = frozenset({"keys", "values", "entries", "getOwnPropertyNames"})


# ------------------------------------------------------------------------------------------------ undefined and null


def missing_property(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A property is read of, or set in, what an answer does not have."""
    for node in _members(case, said["member"]):
        if fields := _gone(case, node.object, said["member"]):
            return fields
    return None


def missing_destructured_property(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A pattern takes apart, or `Object.keys` and its kin are given, what an answer does not have."""
    del said
    for call in case.enclosing("CallExpression"):
        if call.arguments and _called(call) in _TAKES_OBJECT and (fields := _gone(case, call.arguments[0], "")):
            return fields
    for value, pattern, way in _patterns(case):
        if pattern.type == "ObjectPattern":
            for sight in case.observations(value, way):
                if nothing := [one for one in sight.values if _is_nothing(one)]:
                    what = case.text(value) if not way else short(str(way[-1]))
                    return _of_sight(sight, what, nothing) | {"use": _meant("", sight, "")}
    return None


def missing_value(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A property is read of an expression that can be named, whatever it came from."""
    named = list(dict.fromkeys(case.text(node.object) for node in _members(case, said["member"])))
    return {"what": named[0], **message_fields(case, said)} if len(named) == 1 else None


def _members(case: FailureContext, member: str) -> list[Node]:
    """The member expressions at the place that may name `member`, the innermost first."""
    nodes = case.enclosing("MemberExpression")
    return [node for node in nodes if str(member_name(node)) == member or (node.computed and member_name(node) is None)]


def _patterns(case: FailureContext) -> Iterator[tuple[Node, Node, ValuePath]]:
    """Every part of the patterns that a declaration at the place has, with what it takes apart."""
    for declaration in case.enclosing("VariableDeclaration")[:1]:
        for declarator in declaration.declarations:
            if declarator.init is not None:
                for part, way in pattern_parts(declarator.id):
                    yield declarator.init, part, way


def _gone(case: FailureContext, node: Node, member: str) -> HintFields | None:
    for sight in case.observations(node):
        if nothing := [value for value in sight.values if _is_nothing(value)]:
            owner = case.owner_text(node.object) if node.type == "MemberExpression" else ""
            return _of_sight(sight, case.text(node), nothing) | {"use": _meant(owner, sight, member)}
    return None


def _of_sight(sight: Observation, what: str, nothing: Sequence[object] = ()) -> dict[str, str]:
    return {
        "what": what,
        "nothing": "null" if nothing and nothing[0] is None else "undefined",
        "some": " for some items" if len(nothing) < len(sight.values) and sight.path[-1:] != (Step.FOUND,) else "",
        "tool": short(sight.tool),
        "shape": shape_of([sight.answer]),
    }


def _meant(owner: str, sight: Observation, member: str) -> str:
    """What the script may have meant instead of what is not there; begins with a blank."""
    step = sight.path[-1] if sight.path else None
    if step is Step.FOUND:
        return " Nothing was found: test for it first, or write `?.` behind it."
    if not all(map(_is_nothing, sight.values)) or not isinstance(step, str):
        return " Test it first, or write `?.` behind it." if sight.path else ""
    parents = [cast("dict[str, object]", parent) for parent in sight.parents if isinstance(parent, dict)]
    keys = {key: way for parent in parents for key in islice(parent, MAX_KEYS) if (way := written(owner, key))}
    if list(keys) == ["success", "data"]:
        return f" With `throwOnError: false` the value is `{owner}data`."
    if near := get_close_matches(step[:MAX_WHAT], islice(keys, MAX_KEYS), n=1, cutoff=0.75):
        return f" Did you mean `{keys[near[0]]}`?"
    if step in WRAPPERS and len(sight.path) == 1:
        return f" The value is not wrapped: leave `.{step}` out."
    return _list_in(owner, sight.parents) if member in LIST_MEMBERS else ""


def _list_in(owner: str, values: Sequence[object]) -> str:
    """The one list among the properties of objects, as advice that begins with a blank."""
    objects = [cast("dict[str, object]", value) for value in values if isinstance(value, dict)]
    lists = {key for value in objects for key, item in value.items() if isinstance(item, list)}
    list_is = written(owner, lists.pop()) if len(lists) == 1 else None
    return f" The list is `{list_is}`." if list_is else ""


def _is_nothing(value: object) -> bool:
    return value is UNDEFINED or value is None


# ------------------------------------------------------------------------------------------- of another kind than meant


def missing_method(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A method is called that what an answer has there does not have."""
    del said
    for call in case.enclosing(*_CALLS):
        if call.callee.type != "MemberExpression" or not isinstance(method := member_name(call.callee), str):
            continue
        owner: Node = call.callee.object
        for sight in case.observations(owner):
            values = [value for value in sight.values if not _is_nothing(value)]
            if not values or any(_has(value, method) for value in values):
                continue
            what = case.text(owner)
            kind = kind_of(values[0])
            use = _list_in(case.owner_text(owner), values) if kind == "object" and method in LIST_MEMBERS else ""
            if method in WRAPPERS and not sight.path:
                use = f" The value is parsed already: use `{what}` itself."
            elif not use and method in METHODS:
                use = f" Write `{METHODS[method]}` for it."
            return _of_sight(sight, what) | {"kind": _article(kind), "method": short(method), "use": use}
    return None


def foreign_method(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A method is called that is another language's."""
    del said
    for call in _callers(case):
        if call.callee.type == "MemberExpression" and (method := str(member_name(call.callee))) in METHODS:
            return {"what": case.text(call.callee), "method": method, "instead": METHODS[method]}
    return None


def not_a_function(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """Something is called that can be named."""
    del said
    named = list(dict.fromkeys(case.text(call.callee) for call in _callers(case)))
    return {"what": named[0]} if len(named) == 1 else None


def _callers(case: FailureContext) -> list[Node]:
    """The calls that may have failed at the place. The engine says where the called name stands, or where the last
    argument was read."""
    calls = case.enclosing(*_CALLS)
    exact = [call for call in calls if span(_name(call.callee))[0] - SHIFT == case.offset]
    return exact or calls


def _name(callee: Node) -> Node:
    return callee.property if callee.type == "MemberExpression" else callee


def not_a_list(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """Something is iterated over that is no list in an answer."""
    del said
    for node in _iterated(case):
        for sight in case.observations(node):
            values: list[object] = [value for value in sight.values if not isinstance(value, list | str)]
            if not values:
                continue
            what = case.text(node)
            if not _is_nothing(values[0]):
                kind, use = _article(kind_of(values[0])), _list_in(case.owner_text(node), values)
                use = use or (f" For its keys and values write `Object.entries({what})`." if "object" in kind else "")
            else:
                owner = case.owner_text(node.object) if node.type == "MemberExpression" else ""
                kind, use = ("null" if values[0] is None else "undefined"), _meant(owner, sight, "map")
            return _of_sight(sight, what) | {"kind": kind, "use": use}
    return None


def not_iterable(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """Something is iterated over that can be named."""
    del said
    named = list(dict.fromkeys(map(case.text, _iterated(case))))
    return {"what": named[0]} if len(named) == 1 else None


def _iterated(case: FailureContext) -> Iterator[Node]:
    """The expressions at the place that are iterated over, the innermost first."""
    for node in case.enclosing("ForOfStatement", "SpreadElement", "YieldExpression", *_CALLS):
        if node.type == "ForOfStatement":
            yield node.right
        elif node.type in _CALLS:
            if node.arguments and _called(node) in _ITERATES:
                yield node.arguments[0]
        elif node.argument is not None:
            yield node.argument
    for value, pattern, way in _patterns(case):
        if pattern.type == "ArrayPattern" and not way:
            yield value


def parsed_twice(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """`JSON.parse` is given what is no text."""
    del said
    for call in case.enclosing("CallExpression"):
        if _called(call) == "parse" and call.arguments:
            for sight in case.observations(call.arguments[0]):
                if sight.values and not isinstance(sight.values[0], str):
                    return _of_sight(sight, case.text(call.arguments[0]))
    return None


def invalid_json(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """`JSON.parse` is given a text that is no JSON."""
    calls = [call for call in case.enclosing("CallExpression") if _called(call) == "parse" and call.arguments]
    return {"what": case.text(calls[0].arguments[0]), **message_fields(case, said)} if calls else None


def _has(value: object, method: str) -> bool:
    """Whether a value of an answer may have this method, or a property of that name."""
    kinds = ("Object", kind_of(value).capitalize())
    rows = [row for kind in kinds if (row := PROTOTYPES.get(f"{kind}.prototype"))]
    return any(method in row.allowed | row.regex for row in rows) or (isinstance(value, dict) and method in value)


def _called(call: Node) -> str | None:
    """The last name of what is called."""
    callee: Node = call.callee
    return str(member_name(callee)) if callee.type == "MemberExpression" else getattr(callee, "name", None)


def _article(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


# ----------------------------------------------------------------------------------------------------
# What in a script's own text may have led to its failure.

_NO_ERRORS: Final = frozenset({"Literal", "TemplateLiteral", "ObjectExpression", "ArrayExpression", "BinaryExpression"})


def read_in_own_declaration(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A variable is read in the expression that gives it its first value: `const users = await users.list()`."""
    for declarator in case.enclosing("VariableDeclarator"):
        if any(getattr(part, "name", None) == said["name"] for part, _ in pattern_parts(declarator.id)):
            return message_fields(case, said)
    return None


def assigned_constant(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A constant is assigned to."""
    for node in case.enclosing("AssignmentExpression", "UpdateExpression"):
        target = node.left if node.type == "AssignmentExpression" else node.argument
        if any(getattr(part, "name", None) == said["name"] for part, _ in pattern_parts(target)):
            return message_fields(case, said)
    return None


def thrown_by_script(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """The script threw it."""
    del said
    return {} if case.enclosing("ThrowStatement") else None


def thrown_values(reading: DataFlow) -> list[int]:
    """Where the script throws, or rejects with, what is plainly no error: `throw 'text'`, `Promise.reject()`."""
    found: list[int] = []
    for node in reading.nodes:
        if node.type == "ThrowStatement" and node.argument.type in _NO_ERRORS:
            found.append(span(node)[0] - SHIFT)
        elif node.type == "CallExpression" and reading.text(node.callee) == "Promise.reject":
            reasons = [argument for argument in node.arguments if argument.type not in _NO_ERRORS]
            found += [] if reasons else [span(node)[0] - SHIFT]
    return found


def unsettled_promises(reading: DataFlow) -> list[int]:
    """Where the script makes a promise that only the script itself can settle, or none can."""
    made = ("Promise.withResolvers", "Promise.race")
    return [
        span(node)[0] - SHIFT
        for node in reading.nodes
        if (node.type == "NewExpression" and reading.text(node.callee) == "Promise")
        or (node.type == "CallExpression" and reading.text(node.callee) in made)
    ]


def statement_calls(reading: DataFlow) -> list[tuple[int, int]]:
    """Start and end of each call of a tool that is a statement of its own: nobody has its promise."""
    found: list[tuple[int, int]] = []
    for node in reading.nodes:
        if node.type == "ExpressionStatement" and node.expression.type == "CallExpression":
            start, end = span(node.expression)
            if is_server_call(reading, node.expression.callee):
                found.append((start - SHIFT, end - SHIFT))
    return found


def regular_expressions(reading: DataFlow) -> list[int]:
    """Where the script has regular expressions."""
    return [span(node)[0] - SHIFT for node in reading.nodes if node.type == "Literal" and hasattr(node, "regex")]


def parallel_calls(reading: DataFlow) -> list[int]:
    """Where the script runs functions in parallel."""
    calls = [node for node in reading.nodes if node.type == "CallExpression"]
    return [span(node)[0] - SHIFT for node in calls if reading.text(node.callee) == "__safe_parallel"]


def invalid_regular_expression(case: FailureContext, said: MessageMatch) -> HintFields | None:
    """A regular expression is made of a text."""
    del said
    made = [node for node in case.enclosing("CallExpression", "NewExpression") if case.text(node.callee) == "RegExp"]
    return {} if made else None
