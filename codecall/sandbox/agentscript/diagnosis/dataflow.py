"""From an expression in a script to the call whose answer it was taken from, and the way from one to the other.

Reads the syntax tree of a script that has failed, and nothing else: what it says is a guess until somebody has gone the
same way in the answer. Followed are variables, destructuring, members, loops over lists, parameters of the usual
callbacks, and `Promise.all` of calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias, cast

import msgspec

from codecall.sandbox.agentscript.parser.ast import FUNCTIONS, children, declared_names, key_name, member_name, span
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import PREFIX, parse
from codecall.sandbox.agentscript.policy import GLOBALS, NAMES_A_CALL
from codecall.sandbox.wire import Answer

# ----------------------------------------------------------------------------------------------------
# From an expression in a script to the call whose answer it was taken from, and the way from one to the other.

SHIFT: Final = len(PREFIX)

MAX_DEPTH: Final = 16
"""Steps from an expression back to its call; what is further away is not found."""

MAX_STEPS: Final = 500
"""Expressions that are looked at on the way: variables may be assigned to one another without end."""

MAX_TEXT: Final = 400
"""Characters of an expression's source that are looked at."""

_SCOPES: Final = FUNCTIONS | {"BlockStatement", "ForStatement", "ForOfStatement", "CatchClause", "SwitchStatement"}

_SAME: Final = frozenset(
    {"filter", "slice", "sort", "reverse", "toSorted", "toReversed", "toSpliced", "concat", "splice"}
)
"""Methods of a list that give a list of the same things."""
_ONE: Final = frozenset({"find", "findLast", "at", "pop", "shift"})
"""Methods of a list that give one of its things."""
_FIRST_PARAMETER: Final = frozenset(
    {"map", "forEach", "filter", "find", "findLast", "findIndex", "findLastIndex", "some", "every", "flatMap", "sort"}
    | {"toSorted"}
)
"""Methods of a list whose function gets one of its things first."""
_SECOND_PARAMETER: Final = frozenset({"reduce", "reduceRight"})


class Step(Enum):
    """A step that is no name."""

    EACH = "each"
    """To some item of a list."""
    FOUND = "found"
    """To some item of a list, or to nothing."""
    GATHERED = "gathered"
    """From the answers of several calls that were made at one place to one of them."""


ValuePath: TypeAlias = tuple[str | int | Step, ...]


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """Where a value comes from."""

    call: Node
    """The call in the script."""
    path: ValuePath
    """From the call's answer to the value."""

    def then(self, *steps: str | int | Step) -> CallOrigin:
        """Some steps further on."""
        return CallOrigin(self.call, self.path + steps)


@dataclass(frozen=True, slots=True)
class _Binding:
    """One way by which a name gets its value."""

    scope: tuple[int, int]
    value: Node
    """The expression whose value is taken apart."""
    path: ValuePath
    """The way that the pattern goes in it."""


class DataFlow:
    """A script, read again.

    Args:
        script: What was checked.
    """

    def __init__(self, script: str) -> None:
        self.script = script
        self._left = MAX_STEPS
        self.nodes: list[Node] = []
        self._bindings: dict[str, list[_Binding]] = {}
        self._declared: dict[str, list[tuple[int, int]]] = {}
        """The scopes in which a name is declared."""
        statements, _ = parse(script)
        whole = (SHIFT, SHIFT + len(script))
        pending: list[tuple[Node, tuple[int, int]]] = [(statement, whole) for statement in reversed(statements)]
        while pending:
            node, scope = pending.pop()
            self.nodes.append(node)
            self._bind(node, scope)
            inner = span(node) if node.type in _SCOPES else scope
            pending.extend((child, inner) for child in reversed(list(children(node))))

    def text(self, node: Node) -> str:
        """The source of `node` in one line, or its beginning."""
        start, end = span(node)
        return " ".join(self.script[start - SHIFT : min(end, start + MAX_TEXT) - SHIFT].split())

    def declares(self, name: str) -> bool:
        """Whether the script has a variable or function of that name anywhere."""
        return name in self._declared

    def enclosing(self, offset: int, *types: str) -> list[Node]:
        """The nodes of these types that reach over `offset`, the innermost first."""
        place = offset + SHIFT
        found = [node for node in self.nodes if node.type in types and span(node)[0] <= place < span(node)[1]]
        return sorted(found, key=lambda node: span(node)[1] - span(node)[0])

    def origins(self, node: Node | None, depth: int = 0) -> Iterator[CallOrigin]:
        """The calls that the value of an expression may come from."""
        self._left = self._left - 1 if depth else MAX_STEPS
        if node is None or depth > MAX_DEPTH or self._left < 0:
            return
        depth += 1
        match node.type:
            case "AwaitExpression":
                yield from self.origins(node.argument, depth)
            case "ChainExpression":
                yield from self.origins(node.expression, depth)
            case "Identifier":
                for binding in self._bound(node):
                    for origin in self.origins(binding.value, depth):
                        yield origin.then(*binding.path)
            case "MemberExpression":
                step = member_name(node)
                for origin in self.origins(node.object, depth):
                    yield origin.then(Step.EACH if step is None else step)
            case "CallExpression":
                yield from self._of_call(node, depth)
            case _:
                return

    def _of_call(self, node: Node, depth: int) -> Iterator[CallOrigin]:
        callee: Node = node.callee
        method = member_name(callee) if callee.type == "MemberExpression" else None
        if callee.type == "Identifier" and (bodies := [_result(binding.value) for binding in self._bound(callee)]):
            # A function of the script's own
            for body in bodies:
                yield from self.origins(body, depth)
        elif method == "all" and callee.object.type == "Identifier" and callee.object.name == "Promise":
            yield from self._gathered(node.arguments[0] if node.arguments else None, depth)
        elif method in _SAME:
            yield from self.origins(callee.object, depth)
        elif method in _ONE:
            for origin in self.origins(callee.object, depth):
                yield origin.then(Step.FOUND)
        else:
            yield CallOrigin(node, ())

    def _gathered(self, promises: Node | None, depth: int) -> Iterator[CallOrigin]:
        """The answers of all calls in a list: `[a(), b()]`, or `items.map((item) => a(item))`."""
        if promises is None:
            return
        if promises.type == "ArrayExpression":
            for index, element in enumerate(cast("list[Node | None]", promises.elements)):
                yield from self._in_list(element, index, depth)
        elif promises.type == "CallExpression" and promises.arguments:
            yield from self._in_list(_result(promises.arguments[0]), Step.EACH, depth)

    def _in_list(self, promise: Node | None, place: int | Step, depth: int) -> Iterator[CallOrigin]:
        for origin in self.origins(promise, depth):
            if not origin.path:
                yield CallOrigin(origin.call, (Step.GATHERED, place))

    # ---------------------------------------------------------------------------------------------- variables

    def _bound(self, name: Node) -> list[_Binding]:
        """How the variable that `name` stands for gets its values."""
        home = self._home(name)
        return [binding for binding in self._bindings.get(name.name, ()) if binding.scope == home]

    def _home(self, name: Node) -> tuple[int, int] | None:
        """The scope of the variable that `name` stands for."""
        place = span(name)[0]
        return max((scope for scope in self._declared.get(name.name, ()) if scope[0] <= place < scope[1]), default=None)

    def _bind(self, node: Node, scope: tuple[int, int]) -> None:
        if node.type in FUNCTIONS:
            for param in node.params:
                self._declare(param, span(node))
        match node.type:
            case "VariableDeclarator":
                self._declare(node.id, scope)
                if node.init is not None:
                    self._take_apart(node.id, node.init, (), scope)
            case "FunctionDeclaration" | "ClassDeclaration":
                self._declare(node.id, scope)
                self._take_apart(node.id, node, (), scope)
            case "AssignmentExpression" if node.operator == "=":
                self._take_apart(node.left, node.right, (), None)
            case "ForOfStatement" if node.left.type == "VariableDeclaration":
                self._declare(node.left.declarations[0].id, span(node))
                self._take_apart(node.left.declarations[0].id, node.right, (Step.EACH,), span(node))
            case "CallExpression" if node.callee.type == "MemberExpression" and node.arguments:
                self._bind_parameters(node)
            case _:
                return

    def _bind_parameters(self, call: Node) -> None:
        """`items.map((item) => …)`: the parameter is one of the items; `then((value) => …)`: it is the value."""
        method, function = member_name(call.callee), call.arguments[0]
        if function.type not in FUNCTIONS:
            return
        params: list[Node] = function.params
        if method == "then":
            taken, way = params[:1], ()
        elif method in _FIRST_PARAMETER:
            taken, way = params[: 2 if method in {"sort", "toSorted"} else 1], (Step.EACH,)
        elif method in _SECOND_PARAMETER:
            taken, way = params[1:2], (Step.EACH,)
        else:
            return
        for param in taken:
            self._take_apart(param, call.callee.object, way, span(function))

    def _declare(self, pattern: Node, scope: tuple[int, int]) -> None:
        for target in declared_names(pattern):
            self._declared.setdefault(target.name, []).append(scope)

    def _take_apart(self, pattern: Node, value: Node, path: ValuePath, scope: tuple[int, int] | None) -> None:
        """The names in a pattern get their values in `scope`; None: where each is declared."""
        for target, way in pattern_parts(pattern, path):
            if target.type == "Identifier" and (home := scope or self._home(target)) is not None:
                self._bindings.setdefault(target.name, []).append(_Binding(home, value, way))


def pattern_parts(pattern: Node, path: ValuePath = ()) -> Iterator[tuple[Node, ValuePath]]:
    """Every part of a pattern, itself first, with the way to its value; but what has a default, and the rest."""
    pending: list[tuple[Node, ValuePath]] = [(pattern, path)]
    while pending:
        node, way = pending.pop()
        yield node, way
        if node.type == "ObjectPattern":
            plain = [item for item in node.properties if item.type == "Property" and not item.computed]
            pending.extend((item.value, (*way, key_name(item.key))) for item in plain)
        elif node.type == "ArrayPattern":
            pending.extend((item, (*way, index)) for index, item in enumerate(node.elements) if item is not None)


def _result(function: Node) -> Node | None:
    """The expression whose value a short function gives; None when that is not plain, or it is no function."""
    if function.type not in FUNCTIONS:
        return None
    body: Node = function.body
    if body.type != "BlockStatement":
        return body
    returned = [statement for statement in body.body if statement.type == "ReturnStatement"]
    return returned[-1].argument if returned else None


# ----------------------------------------------------------------------------------------------------
# What a realm keeps of its script's calls, for the case that the script fails: where each was made, and the last

MAX_SITES: Final = 16
"""Places in the script of which the last answer is kept."""

MAX_ANSWER_CHARS: Final = 512 * 1024
"""Characters of answers that are kept in all. A longer answer is not, and the oldest make room for the newest."""


class CallEntry(msgspec.Struct):
    """One call, as the prelude tells it, and what became of it."""

    name: str
    stack: str
    """What the engine said of where it was made."""
    wrapped: bool
    """Whether the script gets `{success: true, data}` of it."""
    reference: bool = False
    """Whether the script asked for a reference to its value."""
    number: int = 0
    payload: str | None = None
    """JSON text of its answer, while that is kept; of the error, when it failed."""
    failed: bool = False

    def value(self) -> object:
        """The answer as the script got it.

        Raises:
            msgspec.MsgspecError, RecursionError: it cannot be read.
        """
        value: object = msgspec.json.decode(self.payload or "null")
        return {"success": True, "data": value} if self.wrapped else value


@dataclass(slots=True)
class CallHistory:
    """The calls of one script."""

    open_calls: dict[int, CallEntry] = field(default_factory=dict[int, CallEntry])
    """By number: those that wait for an answer, and those that failed."""
    last_answers: dict[tuple[str, str], CallEntry] = field(default_factory=dict[tuple[str, str], CallEntry])
    """The last answers, one of each place and name, the newest last."""
    chars: int = 0

    def add_call(self, number: int, call: CallEntry) -> None:
        """The script made a call."""
        call.number = number
        self.open_calls[number] = call

    def add_answer(self, answer: Answer) -> None:
        """A call ended."""
        call = self.open_calls[answer.call]
        call.payload, call.failed = answer.payload, not answer.ok
        if call.failed:
            return
        del self.open_calls[answer.call]
        site = (call.stack, call.name)
        self._drop(site)
        if len(answer.payload) > MAX_ANSWER_CHARS:
            return
        self.last_answers[site] = call
        self.chars += len(answer.payload)
        while len(self.last_answers) > MAX_SITES or self.chars > MAX_ANSWER_CHARS:
            self._drop(next(iter(self.last_answers)))

    def _drop(self, site: tuple[str, str]) -> None:
        if (old := self.last_answers.pop(site, None)) is not None:
            self.chars -= len(old.payload or "")


# ----------------------------------------------------------------------------------------------------
# What an expression of a failed script really was: the way that its tracing says, gone in the answers.

MAX_VALUES: Final = 200
"""Values that are followed where a way leads to each item of a list."""


class Undefined:
    """What JavaScript has where there is nothing."""


UNDEFINED: Final = Undefined()


@dataclass(frozen=True, slots=True)
class Observation:
    """What an expression was, if it came from this answer."""

    tool: str
    """The name that was called."""
    answer: object
    """What the call gave, as decoded JSON."""
    values: list[object]
    """What the expression may have been: more than one, where the way leads to some item of a list."""
    parents: list[object]
    """What the last step was taken from; empty where there was none."""
    path: ValuePath
    """The way from the answer to the value."""


class AnswerTrace:
    """The answers of one script, seen from its text.

    Args:
        reading: The script.
        journal: Its calls.
        offsets: Where each call was made, as characters of the script, by number; where that is known.
    """

    def __init__(self, reading: DataFlow, journal: CallHistory, offsets: Mapping[int, int]) -> None:
        self.reading = reading
        self._made: list[tuple[CallEntry, Node]] = []
        for made in reversed(journal.last_answers.values()):
            if (offset := offsets.get(made.number)) is not None and (call := self.call_at(offset)) is not None:
                self._made.append((made, call))
        self._values: dict[int, object] = {}

    def call_at(self, offset: int) -> Node | None:
        """The call of a tool in the script over this place."""
        calls = self.reading.enclosing(offset, "CallExpression")
        return next((call for call in calls if is_server_call(self.reading, call.callee)), None)

    def observations(self, node: Node | None, further: ValuePath = ()) -> Iterator[Observation]:
        """What an expression was, or is some steps further, for each answer that it may have come from; the newest
        first."""
        for origin in self.reading.origins(node):
            for made, call in self._made:
                if call is not origin.call:
                    continue
                if made.number not in self._values:
                    try:
                        self._values[made.number] = made.value()
                    except (msgspec.MsgspecError, RecursionError):
                        self._values[made.number] = UNDEFINED
                answer = self._values[made.number]
                way = _from_answer(origin.path + further)
                if answer is not UNDEFINED and way is not None and (found := follow(answer, way)) is not None:
                    yield Observation(made.name, answer, *found, way)


def is_server_call(reading: DataFlow, callee: Node) -> bool:
    """Whether a call of this goes to the server: `callTool` and its kin, `tools["x"]`, or a member of a namespace."""
    if callee.type == "Identifier":
        return callee.name in NAMES_A_CALL
    root = callee
    while root.type == "MemberExpression":
        root = root.object
    if root is callee or root.type != "Identifier" or reading.declares(root.name):
        return False
    row = GLOBALS.get(root.name)
    return row is None or row.verdict == "refused" or root.name == "tools"


def follow(answer: object, path: ValuePath) -> tuple[list[object], list[object]] | None:
    """The values at the end of a way, and what the last step was taken from; None where a step before it fails."""
    values, parents = [answer], list[object]()
    for step in path:
        if any(value is UNDEFINED or value is None for value in values):
            # Of some, the way goes on; reading from the others was the script's mistake, but an earlier one.
            values = [value for value in values if value is not UNDEFINED and value is not None]
        if not values:
            return None
        parents = values
        values = [below for value in values for below in _below(value, step)][:MAX_VALUES]
    return values, parents


def _below(value: object, step: str | int | Step) -> list[object]:
    """What stands one step further; of some item of a list, all."""
    items = cast("list[object]", value) if isinstance(value, list) else None
    named = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if isinstance(step, Step):
        some = items if items is not None else list(named.values()) or [UNDEFINED]
        return [*some, UNDEFINED] if step is Step.FOUND else some
    if step == "length" and isinstance(value, list | str):
        return [len(cast("list[object] | str", value))]
    if items is not None and str(step).isdecimal():
        return items[int(step) :][:1] or [UNDEFINED]
    return [named.get(str(step), UNDEFINED)]


def _from_answer(path: ValuePath) -> ValuePath | None:
    """The way from one answer, of a way that may begin with the list of several; None: it does not lead to this one."""
    if not path or path[0] is not Step.GATHERED:
        return path
    if len(path) < 3:
        return None
    place, step = path[1], path[2]
    if step == place or step is Step.EACH or (place is Step.EACH and isinstance(step, int)):
        return path[3:]
    return None
