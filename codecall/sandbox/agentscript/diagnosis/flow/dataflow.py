"""Data flow of a script: from an expression to the call whose answer its value came from, and the path between the two.

Reads the syntax tree of a script that has ended, and nothing else: the result is a guess until somebody has followed
the same path in the answer. It follows variables (`bindings.py` has their values), members, what stands in place of a
missing value, `Promise.all` of calls, and lists that the script makes of others: by `...`, `push`, `concat`, `map`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final, TypeAlias, TypeVar

from codecall.sandbox.agentscript.diagnosis.flow.bindings import Binding, Bindings, Span, item_of
from codecall.sandbox.agentscript.diagnosis.flow.paths import AnyStep, CopyWithout, Step, ValuePath
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import (
    FUNCTIONS,
    PREFIX_LENGTH,
    children,
    key_name,
    member_name,
    parse,
    span,
)
from codecall.sandbox.agentscript.policy import GLOBALS, NAMES_A_CALL

CHARS_PER_MS: Final = 50
"""Characters of script that are parsed again in a millisecond of the time the script has left: a fifth of what this
takes, so that a slow machine does it too. Of a script with less time only the message is looked at."""

MAX_DEPTH: Final = 16
"""Steps from an expression back to its call; what is further away is not found."""

MAX_STEPS: Final = 500
"""Expressions that are looked at on the way: variables may be assigned to one another without end."""

MAX_TEXT: Final = 400
"""Characters of an expression's source that are looked at."""

_OF_LISTS: Final[Mapping[object, ValuePath]] = {
    **dict.fromkeys(("filter", "slice", "sort", "reverse", "toSorted", "toReversed", "toSpliced", "splice"), ()),
    **dict.fromkeys(("find", "findLast", "at", "pop", "shift"), (Step.FOUND,)),
    "flat": (Step.EACH, Step.FLAT, Step.LISTED),
}
"""Methods of a list that return a list of the same items, or one of them: the path there from the list."""
_OF_CALLBACKS: Final[Mapping[object, ValuePath]] = {
    "map": (Step.LISTED,),
    "flatMap": (Step.FLAT, Step.LISTED),
    "reduce": (),
    "reduceRight": (),
    "then": (),
}
"""Methods that return what their callback does, or a list of that: the path there from what it returns."""
_OF_OBJECTS: Final[Mapping[str, ValuePath]] = {
    "Object.values": (Step.EACH, Step.LISTED),
    "Object.entries": (Step.EACH, Step.GATHERED, 1, Step.LISTED),
    "Object.groupBy": (Step.EACH, Step.LISTED, Step.GATHERED, Step.EACH),
}
"""Functions that make a list of an object, or an object of a list: the path there from that."""
_TO_SETTLED: Final[ValuePath] = (Step.EACH, Step.GATHERED, "value", Step.LISTED)
_COPIES: Final = frozenset({"Promise.all", "Array.from", "structuredClone"})
"""Functions that return what they are given, or another list of it."""

_Frames: TypeAlias = "Mapping[Span, Node]"
"""By function: the call of it that is followed; by list, too, that is being looked into."""

_SHARE_OF_ROOM: Final = 3
"""A script's answer must not be late for what is said of it: the search has one part in so many of the time left."""
_LEAST_MS: Final = 20
_MOST_MS: Final = 400
"""Milliseconds that it has in any case, and at most: one of a usual script takes some five."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """The call a value comes from."""

    call: Node
    path: ValuePath
    """From the call's answer to the value."""

    def then(self, *steps: AnyStep) -> CallOrigin:
        """The origin of what is some steps further."""
        return CallOrigin(self.call, self.path + steps)


_NO_FRAMES: Final[_Frames] = {}


def _frames_outside(binding: Binding, frames: _Frames) -> _Frames | None:
    """The calls that are followed where the value of a binding is; None: it is of another call."""
    if binding.call is None or (followed := frames.get(binding.scope)) is None:
        return frames
    others = {function: call for function, call in frames.items() if function != binding.scope}
    return others if followed is binding.call else None


class DataFlow:
    """The syntax tree of a script, with the values of its variables.

    Args:
        script: A script that has been validated.
        until: When the search for origins ends with a `TimeoutError`, by the clock of `time.monotonic`.
    """

    def __init__(self, script: str, until: float = inf) -> None:
        self.script = script
        self._until = until
        self._steps_left = MAX_STEPS
        self._returned: dict[int, list[Node]] = {}
        self._variables: dict[int, tuple[str, Span | None]] = {}
        self.statements, _ = parse(script)
        """The statements at top level."""
        self._bindings = Bindings(self.statements, (PREFIX_LENGTH, PREFIX_LENGTH + len(script)))
        self.nodes = self._bindings.nodes
        self.declares = self._bindings.declares
        self.is_followed = self._bindings.is_followed
        self.is_item = self._bindings.is_item

    def text(self, node: Node) -> str:
        """The source of `node` in one line, or its beginning."""
        start, end = span(node)
        return " ".join(self.script[start - PREFIX_LENGTH : min(end, start + MAX_TEXT) - PREFIX_LENGTH].split())

    def enclosing(self, offset: int, *types: str) -> list[Node]:
        """The nodes of these types that contain `offset`, the innermost first."""
        place = offset + PREFIX_LENGTH
        nodes = [node for node in self.nodes if node.type in types and span(node)[0] <= place < span(node)[1]]
        return sorted(nodes, key=lambda node: span(node)[1] - span(node)[0])

    def may_precede(self, node: Node, failed_at: int | None) -> bool:
        """Whether a node may have been reached when the script failed: not behind that place outside of functions."""
        if failed_at is None or self.enclosing(failed_at, *FUNCTIONS):
            return True
        throws = self.enclosing(failed_at, "ThrowStatement")
        return span(node)[0] < (span(throws[0])[1] if throws else failed_at + PREFIX_LENGTH)

    def origins(self, node: Node | None, depth: int = 0, frames: _Frames = _NO_FRAMES) -> Iterator[CallOrigin]:
        """The calls that the value of an expression may come from."""
        self._steps_left = self._steps_left - 1 if depth else MAX_STEPS
        if node is None or depth > MAX_DEPTH or self._steps_left < 0:
            return
        self._check_time()
        depth += 1
        match node.type:
            case "AwaitExpression" | "ChainExpression":
                yield from self.origins(getattr(node, "argument", None) or node.expression, depth, frames)
            case "Identifier" | "AssignmentPattern":
                for binding in self._bindings.of(node):
                    outer = _frames_outside(binding, frames)
                    if outer is not None:
                        yield from self._further(binding.value, depth, outer, binding.path)
            case "MemberExpression":
                step = member_name(node)
                yield from self._further(node.object, depth, frames, (Step.EACH if step is None else step,))
            case "CallExpression":
                yield from self._call_origins(node, depth, frames)
            case "ArrayExpression":
                yield from self._array_origins(node, depth, frames)
            case "ObjectExpression":
                yield from self._object_origins(node, depth, frames)
            case "LogicalExpression" | "ConditionalExpression":
                for operand in possible_values(node):
                    yield from self.origins(operand, depth, frames)
            case _:
                return

    def _check_time(self) -> None:
        if monotonic() > self._until:
            raise TimeoutError

    def _call_origins(self, node: Node, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        callee: Node = node.callee
        if callee.type == "Identifier" and (bindings := self._bindings.of(callee)):
            for binding in bindings:
                for value in self._values_returned(binding.value):
                    yield from self.origins(value, depth, {**frames, span(binding.value): node})
        elif callee.type != "MemberExpression" or is_server_call(self, callee):
            yield CallOrigin(node, ())
        else:
            yield from self._method_origins(node, depth, frames)

    def _method_origins(self, node: Node, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        """The origins of what a method of lists or objects returns."""
        callee: Node = node.callee
        arguments: list[Node] = node.arguments
        method, called = member_name(callee), self.text(callee)
        if method in _OF_CALLBACKS and arguments:
            yield CallOrigin(node, ())
            for value in self._values_of_callback(arguments[0]):
                yield from self._further(value, depth, frames, _OF_CALLBACKS[method])
            if method in {"reduce", "reduceRight"}:
                yield from self.origins(arguments[1] if len(arguments) > 1 else None, depth, frames)
        elif method == "concat":
            yield from self._joined_origins(node, depth, frames)
        elif method in _OF_LISTS:
            yield from self._further(callee.object, depth, frames, _OF_LISTS[method])
        elif called == "Promise.allSettled" and arguments:
            yield from self._further(arguments[0], depth, frames, _TO_SETTLED)
        elif called in _OF_OBJECTS and arguments:
            yield from self._further(arguments[0], depth, frames, _OF_OBJECTS[called])
        elif called in _COPIES:
            for value in self._values_of_callback(arguments[1]) if len(arguments) > 1 else ():
                yield from self._further(value, depth, frames, (Step.LISTED,))
            yield from self.origins(arguments[0] if len(arguments) == 1 else None, depth, frames)
        else:
            yield CallOrigin(node, ())

    def _further(self, node: Node | None, depth: int, frames: _Frames, path: ValuePath) -> Iterator[CallOrigin]:
        """The origins of what is some steps further than an expression."""
        for origin in self.origins(node, depth, frames):
            yield origin.then(*path)

    def _array_origins(self, array: Node, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        """The origins of the items of a list: of `[a(), b()]`, or of `[...all, ...page.items]`."""
        elements: list[Node] = [element for element in array.elements if element is not None]
        if span(array) in frames:
            return
        frames = {**frames, span(array): array}
        if any(element.type == "SpreadElement" for element in elements):
            for element in elements:
                value, path = item_of(element)
                yield from self._further(value, depth, frames, path)
        else:
            for index, element in enumerate(array.elements):
                yield from self._further(element, depth, frames, (Step.GATHERED, index))

    def _object_origins(self, made: Node, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        """The origins of the values in an object: of `{ ...item, total: item.net + item.tax }`."""
        if span(made) in frames:
            return
        frames = {**frames, span(made): made}
        properties: list[Node] = made.properties
        named = [
            (None if item.computed else key_name(item.key), item) for item in properties if item.type == "Property"
        ]
        others = CopyWithout(frozenset(name for name, _ in named if name is not None))
        for item in properties:
            if item.type == "SpreadElement":
                yield from self._further(item.argument, depth, frames, (others,))
        for name, item in named:
            yield from self._further(item.value, depth, frames, (Step.GATHERED, Step.EACH if name is None else name))

    def _joined_origins(self, call: Node, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        """The origins of `all.concat(page.items)`."""
        if span(call) in frames:
            return
        frames = {**frames, span(call): call}
        yield from self.origins(call.callee.object, depth, frames)
        for argument in call.arguments:
            value, path = item_of(argument)
            yield from self._further(value, depth, frames, (*path[:-1], Step.FLAT, Step.LISTED))

    def _values_of_callback(self, callback: Node) -> list[Node]:
        functions = self.values_of(callback) if callback.type == "Identifier" else [callback]
        return [value for function in functions for value in self._values_returned(function)]

    def _values_returned(self, function: Node) -> list[Node]:
        """The expressions whose values a function may return."""
        if id(function) not in self._returned:
            values = self._returned[id(function)] = list[Node]()
            pending: list[Node] = [function.body] if function.type in FUNCTIONS else []
            while pending:
                node = pending.pop()
                if node is function.body and node.type != "BlockStatement":
                    values.append(node)
                elif node.type == "ReturnStatement":
                    values += [] if node.argument is None else [node.argument]
                elif node.type not in FUNCTIONS:
                    pending.extend(children(node))
        return self._returned[id(function)]

    def variable(self, name: Node) -> tuple[str, Span | None]:
        """What tells the variable that `name` stands for from others."""
        if id(name) not in self._variables:
            self._variables[id(name)] = name.name, self._bindings.declaring_scope(name)
        return self._variables[id(name)]

    def is_bound_once(self, name: Node) -> bool:
        """Whether the variable that `name` stands for gets a value at one place only."""
        return len(self._bindings.of(name)) == 1

    def bindings_of(self, name: Node) -> Sequence[Binding]:
        """How the variable that `name` stands for, or a pattern, gets its values."""
        return self._bindings.of(name)

    def values_of(self, name: Node) -> list[Node]:
        """The expressions whose values the variable that `name` stands for may have."""
        return [binding.value for binding in self._bindings.of(name) if not binding.path]


def with_dataflow(script: str, room_ms: float, use: Callable[[DataFlow | None], _T], *, fallback: _T) -> _T:
    """What `use` returns for the data flow of `script`, or for None where there is no time to parse it again.

    Args:
        script: A script that has been validated.
        room_ms: Milliseconds of its own time that the script has left.
        use: What the data flow is needed for.
        fallback: What is returned where parsing or `use` fails.
    """
    try:
        if not script or len(script) > room_ms * CHARS_PER_MS:
            return use(None)
        search_ms = min(max(room_ms / _SHARE_OF_ROOM, _LEAST_MS), _MOST_MS)
        try:
            return use(DataFlow(script, monotonic() + search_ms / 1000))
        except TimeoutError:
            return use(None)
    except Exception:
        # A script nested to the limit, an answer beyond the stack: the failure is reported all the same. The engine
        # calls this, and an exception would end the process.
        return fallback


def possible_values(choice: Node) -> Iterator[Node]:
    """The operands of `??`, `||`, `&&` or `? :` whose value it may have."""
    if choice.type == "ConditionalExpression":
        yield choice.consequent
        yield choice.alternate
        return
    if choice.operator != "&&":
        yield choice.left
    yield choice.right


def is_server_call(dataflow: DataFlow, callee: Node) -> bool:
    """Whether a call of `callee` goes to the server: `callTool` and its kin, `tools["x"]`, a namespace's member, or a
    tool as a function."""
    if callee.type == "Identifier" and callee.name in GLOBALS:
        return callee.name in NAMES_A_CALL
    root = callee
    while root.type == "MemberExpression":
        root = root.object
    if root.type != "Identifier" or dataflow.declares(root.name):
        return False
    row = GLOBALS.get(root.name)
    return row is None or row.verdict == "refused" or root.name == "tools"


def returned_expression(function: Node) -> Node | None:
    """The expression whose value a short function returns; None when that is not plain, or it is not a function."""
    if function.type not in FUNCTIONS:
        return None
    body: Node = function.body
    if body.type != "BlockStatement":
        return body
    returns = [statement for statement in body.body if statement.type == "ReturnStatement"]
    return returns[-1].argument if returns else None
