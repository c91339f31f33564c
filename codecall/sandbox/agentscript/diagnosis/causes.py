"""Why a script failed: looks for the cause at the place of the failure, and gives the fields of its hint.

Each function looks for one cause and gives the fields, or None where this is not the cause. What a hint says of an
answer has been looked up in that answer. The engine's message may be read here: a hint may be wrong, and no code or
status follows from one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, Literal

import msgspec

from codecall.sandbox.agentscript.analysis.reachability import sole_function
from codecall.sandbox.agentscript.diagnosis.calls import shorten
from codecall.sandbox.agentscript.diagnosis.context import (
    FailureContext,
    HintFields,
    MessageMatch,
    Observation,
    kind_of,
    member_text,
    message_fields,
    shape_of,
)
from codecall.sandbox.agentscript.diagnosis.flow.bindings import pattern_parts
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.diagnosis.flow.paths import UNDEFINED, Step, ValuePath
from codecall.sandbox.agentscript.diagnosis.places import (
    CALLS,
    callee_name,
    iterated_nodes,
    may_be_named,
    member_nodes,
    patterns,
)
from codecall.sandbox.agentscript.diagnosis.remedies import (
    NOTHING_FOUND,
    advise,
    answer_fields,
    is_missing,
    items_advice,
    json_in,
    list_advice,
    may_have,
)
from codecall.sandbox.agentscript.diagnosis.tables import collection_kind
from codecall.sandbox.agentscript.foreign_words import LIST_MEMBERS, METHODS, WRAPPERS
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import (
    FUNCTIONS,
    PREFIX_LENGTH,
    children,
    member_name,
    span,
)
from codecall.sandbox.agentscript.policy import PROTOTYPES

_MAX_OPERANDS: Final = 200
"""Parts of an expression among which one without a value is looked for."""

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER: Final = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?")

_BUILT_IN: Final = frozenset(
    {"Array", "BigInt", "Boolean", "Date", "Map", "Number", "Object", "RegExp", "Set", "String"}
)
"""Functions that no script can declare anew: a call of one does not fail since it is none."""
_TAKES_OBJECT: Final = frozenset({"keys", "values", "entries", "getOwnPropertyNames"})
_NOT_ERRORS: Final = frozenset(
    {"Literal", "TemplateLiteral", "ObjectExpression", "ArrayExpression", "BinaryExpression"}
)
"""Types of expressions whose value is no error."""


# Undefined and null


def missing_property(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A property is read from, or set on, a value that an answer does not have."""
    for node in member_nodes(context, match["member"]):
        if fields := missing_fields(context, node.object, match["member"], match["nothing"]):
            return fields
    return None


def missing_destructured_property(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A value that an answer does not have is destructured, or passed to `Object.keys` or one of its kin."""
    del match
    for call in context.enclosing("CallExpression"):
        if (
            call.arguments
            and callee_name(call) in _TAKES_OBJECT
            and (fields := missing_fields(context, call.arguments[0], ""))
        ):
            return fields
    for value, pattern, path in patterns(context):
        if pattern.type == "ObjectPattern":
            for observation in context.observations(value, path):
                if missing := [item for item in observation.values if is_missing(item)]:
                    what = context.text(value)
                    if path:
                        what = f"{what}[i]" if path[-1] is Step.EACH else shorten(str(path[-1]))
                    return answer_fields(observation, what, missing) | {"use": _advice(context, "", observation, "")}
    return None


def missing_value(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A property is read from an expression that the hint can name, whatever it came from."""
    texts = list(dict.fromkeys(context.text(node.object) for node in member_nodes(context, match["member"])))
    return {"what": texts[0], **message_fields(context, match)} if len(texts) == 1 else None


def data_of_failed_call(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """What is read of the value of a call that has failed under `throwOnError: false`, which has none."""
    failed = [call for call in context.calls.open_calls.values() if call.failed and call.wrapped]
    if not failed or context.dataflow is None:
        return None
    member = match.groupdict().get("member")
    owners: list[tuple[Node, ValuePath]] = (
        [(node.object, ()) for node in member_nodes(context, member)] if member else []
    )
    owners += [(value, path) for value, _, path in patterns(context)]
    for owner, path in owners:
        if any((*origin.path, *path) == ("data",) for origin in context.dataflow.origins(owner)):
            result: Node | None = owner if path else owner.object if owner.type == "MemberExpression" else None
            return {
                "what": "data" if path else context.text(owner),
                "result": "`" if result is None else f"`{context.owner_text(result)}",
                "tool": shorten(failed[-1].name),
            }
    return None


def list_of_promises(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A property is read from an item of what `map` gave of calls, or of an async function."""
    for node in member_nodes(context, match["member"]) if context.dataflow is not None else ():
        for origin in context.dataflow.origins(node.object) if context.dataflow is not None else ():
            callee = origin.call.callee
            if origin.path and callee.type == "MemberExpression" and member_name(callee) in {"map", "flatMap"}:
                return {"what": context.text(origin.call)}
    return None


def unknown_tool(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A property is read from what `getTool` gives of a tool that does not exist."""
    for node in member_nodes(context, match["member"]):
        if (call := _get_tool_call(context, node.object)) is not None:
            return _no_tool(context, match, call)
    return None


def unknown_tool_destructured(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """What `getTool` gives of a tool that does not exist is destructured."""
    for value, _, path in patterns(context):
        if not path and (call := _get_tool_call(context, value)) is not None:
            return _no_tool(context, match, call)
    return None


def _no_tool(context: FailureContext, match: MessageMatch, call: Node) -> HintFields:
    name = getattr(call.arguments[0], "value", None) if call.arguments else None
    meant = context.meant_tool(name if isinstance(name, str) else None) if context.meant_tool is not None else None
    advice = "" if meant is None else f" Did you mean {json.dumps(meant)}?"
    return {"what": context.text(call), "meant": advice, **message_fields(context, match)}


def _get_tool_call(context: FailureContext, value: Node) -> Node | None:
    """The call of `getTool` that an expression's value comes from."""
    values = [value]
    if value.type == "Identifier" and context.dataflow is not None:
        values = context.dataflow.values_of(value)
    calls = [item.argument if item.type == "AwaitExpression" else item for item in values]
    return next((call for call in calls if call.type == "CallExpression" and callee_name(call) == "getTool"), None)


def unreturned_accumulator(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """What a callback of `reduce` collects in is undefined from its second turn on, because it returns nothing."""
    del match
    for call in context.enclosing("CallExpression"):
        function: Node = call.arguments[0] if call.arguments else None
        if callee_name(call) not in {"reduce", "reduceRight"} or function is None or function.type not in FUNCTIONS:
            continue
        name = getattr(function.params[0], "name", None) if function.params else None
        reads = [node for node in _own_nodes(function) if node.type == "MemberExpression"]
        if (
            name is not None
            and function.body.type == "BlockStatement"
            and any(getattr(node.object, "name", None) == name for node in reads)
            and not any(node.type == "ReturnStatement" for node in _own_nodes(function))
            and function in context.enclosing(function.type)
        ):
            return {"name": shorten(name), "method": str(callee_name(call))}
    return None


def _own_nodes(function: Node) -> Iterator[Node]:
    """The nodes of a function's body, without those of the functions in it."""
    pending = [function.body]
    while pending:
        node = pending.pop()
        yield node
        pending += [child for child in children(node) if child.type not in FUNCTIONS]


_EMPTY: Final[Mapping[str, str]] = {"push": "[]", "unshift": "[]", "add": "new Set()", "set": "new Map()"}
"""What a method that adds something is called on before there is anything."""


def missing_collection(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """Something is to be added where there is nothing yet: leaving that out would lose it."""
    changed = list(_changed(context, match["member"]))
    # A computed member may have any name, so one that is written out comes first.
    places = [place for place in changed if member_name(place[0]) is not None] or changed
    if len({context.text(member.object) for member, _ in places}) != 1:
        return None
    member, change = places[0]
    what, name = context.text(member.object), member_name(member)
    adds = change == "adds"
    empty = _EMPTY[match["member"]] if adds else f"{{ {name}: 0 }}" if change == "writes" and name else "{}"
    if member.object.type != "MemberExpression":
        make = f"begin with `{empty}` where there is none, and keep it"
    else:
        make = f"make it first, `({what} ??= {empty}).{name}(…)`" if adds else f"make it first, `{what} ??= {empty};`"
    return {"what": what, "make": make, **message_fields(context, match)}


def _changed(context: FailureContext, name: str) -> Iterator[tuple[Node, Literal["adds", "writes", "leads"]]]:
    """The members of this name at the place of the failure that are called to add something, or written, or lead to
    one that is."""
    for node in context.enclosing("CallExpression", "AssignmentExpression", "UpdateExpression"):
        is_call = node.type == "CallExpression"
        member = node.callee if is_call else node.left if node.type == "AssignmentExpression" else node.argument
        if member.type != "MemberExpression" or (is_call and str(member_name(member)) not in _EMPTY):
            continue
        if may_be_named(member, name):
            yield member, "adds" if is_call else "writes" if not member.computed else "leads"
        while (member := member.object).type == "MemberExpression":
            if may_be_named(member, name):
                yield member, "leads"


def _advice(context: FailureContext, owner: str, observation: Observation, member: str) -> str:
    """What to write instead of what an answer does not have; see `advise`."""
    step, calls = observation.path[-1] if observation.path else None, context.calls
    if step is Step.FOUND and (misread := _misread(context, "")) is not None:
        return f"{NOTHING_FOUND} {misread}"
    had = step in calls.reads and step not in calls.unseen.get(observation.tool, ())
    return advise(owner, observation, member, had=had).text


def missing_fields(context: FailureContext, node: Node, member: str, nothing: str = "undefined") -> HintFields | None:
    """The fields of a hint about an expression that an answer does not have.

    Args:
        context: The failure.
        node: The expression.
        member: What is read from it.
        nothing: What its value is: `undefined` or `null`.
    """
    for source in context.sources(node):
        owner = context.owner_text(source.object) if source.type == "MemberExpression" else ""
        for observation in context.observations_of(source):
            missing = [value for value in observation.values if is_missing(value)]
            fields = answer_fields(observation, context.text(node), missing) if missing else None
            if fields is not None and (source is node or fields["nothing"] == nothing):
                return fields | {"use": _advice(context, owner, observation, member)}
    return None


def parameter_of_script(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """The first parameter of the function that the script consists of is destructured, or a member of it is read: it is
    called without one."""
    function = None if context.dataflow is None else sole_function(context.dataflow.statements)
    if function is None or not function.params or context.offset is None:
        return None
    if match["member"] is None:
        return {} if context.offset < span(function.body)[0] - PREFIX_LENGTH else None
    name = getattr(function.params[0], "name", None)
    owners = [node.object for node in member_nodes(context, match["member"])]
    return {} if name and any(getattr(owner, "name", None) == name for owner in owners) else None


def undefined_operand(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """What is given to a call was computed from something that an answer does not have."""
    del match
    for call in context.enclosing("CallExpression"):
        for argument in call.arguments:
            for node in _operands(context, argument):
                if fields := missing_fields(context, node, ""):
                    return fields
    return None


def date_of_nothing(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A date is made of what an answer does not have."""
    del match
    for call in context.enclosing("CallExpression")[:1]:
        owner: Node = call.callee.object if call.callee.type == "MemberExpression" else call.callee
        for made in context.sources(owner):
            if made.type == "NewExpression" and callee_name(made) == "Date" and len(made.arguments) == 1:
                for node in chain(made.arguments, _operands(context, made.arguments[0])):
                    fields = missing_fields(context, node, "")
                    if fields is not None and fields["nothing"] == "undefined":
                        return fields
    return None


def _operands(context: FailureContext, value: Node) -> Iterator[Node]:
    """The members of objects that a value is computed from; of variables, those of what they were given."""
    pending, seen = [value], set[int]()
    while pending and len(seen) < _MAX_OPERANDS:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.type == "MemberExpression":
            yield node
        if node.type == "Identifier" and context.dataflow is not None:
            pending += context.dataflow.values_of(node)
        elif node.type not in FUNCTIONS:
            pending += children(node)


# Values of the wrong kind


def missing_method(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A method is called that the value in an answer does not have."""
    del match
    for call in context.enclosing(*CALLS):
        if call.callee.type != "MemberExpression" or not isinstance(method := member_name(call.callee), str):
            continue
        owner: Node = call.callee.object
        what = context.text(owner)
        for source, observation in _observations(context, owner):
            values = [value for value in observation.values if not is_missing(value)]
            if not values or any(may_have(value, method) for value in values):
                continue
            kind = kind_of(values[0])
            use = (
                items_advice(context.owner_text(source), what, values)
                if kind == "object" and method in LIST_MEMBERS
                else ""
            )
            if method in WRAPPERS and not observation.path:
                use = f" The value is parsed already: use `{what}` itself."
            elif isinstance(values[0], str) and (made := _made_of_text(values[0], method, what)):
                use = f" It is a text: write `{made}`."
            elif kind == "string" and method in LIST_MEMBERS and json_in(values[0]) is UNDEFINED:
                use = f" It is one text: its lines are `{what}.split('\\n')`."
            elif not use and method in METHODS:
                use = f" Write `{METHODS[method]}` for it."
            return answer_fields(observation, what) | {
                "kind": with_article(kind),
                "method": shorten(method),
                "use": use,
            }
    return None


def _observations(context: FailureContext, node: Node) -> Iterator[tuple[Node, Observation]]:
    """What an expression was, and what those were that it may have its value from."""
    for source in context.sources(node):
        for observation in context.observations_of(source):
            yield source, observation


def _made_of_text(text: str, method: str, what: str) -> str | None:
    """What a script writes to call a method of dates, or of numbers, on a text that holds one."""
    if _DATE.match(text) and method in PROTOTYPES["Date.prototype"].allowed:
        return f"new Date({what}).{method}()"
    if _NUMBER.fullmatch(text) and method in PROTOTYPES["Number.prototype"].allowed:
        return f"Number({what}).{method}(…)"
    return None


def foreign_method(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A method of another language is called."""
    del match
    for call in _failing_calls(context):
        if call.callee.type == "MemberExpression" and (method := str(member_name(call.callee))) in METHODS:
            return {"what": context.text(call.callee), "method": method, "instead": METHODS[method]}
    return None


def list_method(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A method of lists is called on a Map, a Set or an iterator that the script has made."""
    del match
    for call in _failing_calls(context):
        method = member_name(call.callee) if call.callee.type == "MemberExpression" else None
        if context.dataflow is None or method not in PROTOTYPES["Array.prototype"].allowed:
            continue
        owner: Node = call.callee.object
        if (kind := collection_kind(context.dataflow, owner)) is not None:
            items = ", whose items are `[key, value]`" if kind == "a Map" else ""
            return {"what": context.text(owner), "kind": kind, "method": str(method), "items": items}
    return None


def not_a_function(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """An expression that the hint can name is called, and is not a function."""
    del match
    texts = list(dict.fromkeys(context.text(call.callee) for call in _failing_calls(context)))
    return {"what": texts[0]} if len(texts) == 1 else None


def _failing_calls(context: FailureContext) -> list[Node]:
    """The calls that may have failed at the place. The engine reports where the called name stands, or where the last
    argument was read."""
    calls = [call for call in context.enclosing(*CALLS) if getattr(call.callee, "name", None) not in _BUILT_IN]
    exact = [call for call in calls if span(_called_name(call.callee))[0] - PREFIX_LENGTH == context.offset]
    return exact or calls


def _called_name(callee: Node) -> Node:
    return callee.property if callee.type == "MemberExpression" else callee


def not_a_list(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A value of an answer is iterated over, and is not a list."""
    is_nothing = match[0].endswith(("undefined", "null"))
    for node in iterated_nodes(context):
        what = context.text(node)
        for source, observation in _observations(context, node):
            values: list[object] = [value for value in observation.values if not isinstance(value, list | str)]
            if not values or (source is not node and is_missing(values[0]) is not is_nothing):
                continue
            if not is_missing(values[0]):
                kind = with_article(kind_of(values[0]))
                use = items_advice(context.owner_text(source), what, values)
            else:
                owner = context.owner_text(source.object) if source.type == "MemberExpression" else ""
                kind, use = ("null" if values[0] is None else "undefined"), _advice(context, owner, observation, "map")
            return answer_fields(observation, what) | {"kind": kind, "use": use}
    return None


def list_elsewhere(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """Something is iterated over that is no list, and an answer has a list that the script does not read: an empty list
    in place of it would hide that."""
    del match
    nodes = list(iterated_nodes(context))
    if not nodes or context.dataflow is None:
        return None
    texts = list(dict.fromkeys(map(context.text, nodes)))
    what = f"`{texts[0]}` is no list" if len(texts) == 1 else "What is used as a list here is none"
    for entry in reversed(context.calls.last_answers.values()):
        try:
            answer: object = msgspec.json.decode(entry.payload or "null")
        except (msgspec.MsgspecError, RecursionError):
            continue
        key = list_advice("", [answer]).key
        text = None if key is None else member_text("", key)
        if key is not None and text is not None and key not in context.calls.reads:
            return {"what": what, "tool": shorten(entry.name), "shape": shape_of([answer]), "key": text}
    return None


def promises_in_object(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """`Promise.all` or one of its kin is given an object."""
    del match
    for call in context.enclosing("CallExpression"):
        callee = context.text(call.callee)
        if not callee.startswith("Promise.") or not call.arguments or context.dataflow is None:
            continue
        given: Node = call.arguments[0]
        values = context.dataflow.values_of(given) if given.type == "Identifier" else [given]
        if values and all(value.type == "ObjectExpression" for value in values):
            return {"callee": callee}
    return None


def not_iterable(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """An expression that the hint can name is iterated over, and is not iterable."""
    del match
    texts = list(dict.fromkeys(map(context.text, iterated_nodes(context))))
    return {"what": texts[0]} if len(texts) == 1 else None


def parsed_twice(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """`JSON.parse` is called with a value that is not a text."""
    del match
    for call in context.enclosing("CallExpression"):
        if callee_name(call) == "parse" and call.arguments:
            for observation in context.observations(call.arguments[0]):
                if observation.values and not isinstance(observation.values[0], str):
                    return answer_fields(observation, context.text(call.arguments[0]))
    return None


def invalid_json(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """`JSON.parse` is called with a text that is not JSON."""
    calls = [call for call in context.enclosing("CallExpression") if callee_name(call) == "parse" and call.arguments]
    return {"what": context.text(calls[0].arguments[0]), **message_fields(context, match)} if calls else None


def with_article(kind: str) -> str:
    """A kind of value as a sentence has it."""
    return kind if kind == "null" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


# Causes in the script's own text


def read_in_own_declaration(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A variable is read in the expression that gives it its first value: `const users = await users.list()`."""
    for declarator in context.enclosing("VariableDeclarator"):
        if any(getattr(part, "name", None) == match["name"] for part, _ in pattern_parts(declarator.id)):
            return message_fields(context, match)
    return None


def thrown_after_misread(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """The script threw the error itself, after it read what no answer has."""
    misread = _misread(context, match.string) if context.enclosing("ThrowStatement") else None
    return None if misread is None else {"misread": misread}


def missing_after_misread(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A property is read of nothing, after the script read what no answer has."""
    misread = _misread(context, "")
    return None if misread is None else {**message_fields(context, match), "misread": misread}


def _misread(context: FailureContext, thrown: str) -> str | None:
    """What the script misread before it failed; `thrown`: what it threw itself."""
    return None if context.misread is None or context.offset is None else context.misread(thrown, context.offset)


def thrown_by_script(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """The script threw the error itself."""
    del match
    return {} if context.enclosing("ThrowStatement") else None


def thrown_values(dataflow: DataFlow) -> list[int]:
    """Where the script throws, or rejects with, a value that is plainly not an error: `throw 'text'`,
    `Promise.reject()`."""
    offsets: list[int] = []
    for node in dataflow.nodes:
        if node.type == "ThrowStatement" and node.argument.type in _NOT_ERRORS:
            offsets.append(span(node)[0] - PREFIX_LENGTH)
        elif node.type == "CallExpression" and dataflow.text(node.callee) == "Promise.reject":
            reasons = [argument for argument in node.arguments if argument.type not in _NOT_ERRORS]
            offsets += [] if reasons else [span(node)[0] - PREFIX_LENGTH]
    return offsets


def unsettled_promises(dataflow: DataFlow) -> list[int]:
    """Where the script creates a promise that only the script itself can settle, or nothing can."""
    constructors = ("Promise.withResolvers", "Promise.race")
    return [
        span(node)[0] - PREFIX_LENGTH
        for node in dataflow.nodes
        if (node.type == "NewExpression" and dataflow.text(node.callee) == "Promise")
        or (node.type == "CallExpression" and dataflow.text(node.callee) in constructors)
    ]


def regular_expressions(dataflow: DataFlow) -> list[int]:
    """Where the script has regular expressions."""
    return [
        span(node)[0] - PREFIX_LENGTH for node in dataflow.nodes if node.type == "Literal" and hasattr(node, "regex")
    ]


def parallel_calls(dataflow: DataFlow) -> list[int]:
    """Where the script runs functions in parallel."""
    calls = [node for node in dataflow.nodes if node.type == "CallExpression"]
    return [span(node)[0] - PREFIX_LENGTH for node in calls if dataflow.text(node.callee) == "__safe_parallel"]


def invalid_regular_expression(context: FailureContext, match: MessageMatch) -> HintFields | None:
    """A regular expression is created from a text."""
    del match
    calls = [node for node in context.enclosing(*CALLS) if context.text(node.callee) == "RegExp"]
    return {} if calls else None
