"""Data flow of a script: from an expression to the call whose answer its value came from, and the path between the two.

Reads the syntax tree of a script that has failed, and nothing else: the result is a guess until somebody has followed
the same path in the answer. It follows variables, destructuring, members, loops over lists, `Promise.all` of calls, and
parameters: of the usual callbacks, and of functions of the script that are only called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, TypeVar, cast

from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import (
    FUNCTIONS,
    PREFIX_LENGTH,
    children,
    declared_names,
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

_MAX_CALLS: Final = 8
"""Calls of one function whose arguments are followed; of one with more, those of none are."""

_SCOPES: Final = FUNCTIONS | {"BlockStatement", "ForStatement", "ForOfStatement", "CatchClause", "SwitchStatement"}

_LIST_METHODS: Final = frozenset(
    {"filter", "slice", "sort", "reverse", "toSorted", "toReversed", "toSpliced", "concat", "splice"}
)
"""Methods of a list that return a list of the same items."""
_ITEM_METHODS: Final = frozenset({"find", "findLast", "at", "pop", "shift"})
"""Methods of a list that return one of its items."""
_FIRST_PARAMETER: Final = frozenset(
    {"map", "forEach", "filter", "find", "findLast", "findIndex", "findLastIndex", "some", "every", "flatMap", "sort"}
    | {"toSorted"}
)
"""Methods of a list that pass an item as the first argument of their callback."""
_SECOND_PARAMETER: Final = frozenset({"reduce", "reduceRight"})


class Step(Enum):
    """A step of a path that is not a name or an index."""

    EACH = "each"
    """To some item of a list."""
    FOUND = "found"
    """To some item of a list, or to nothing."""
    GATHERED = "gathered"
    """From the answers of several calls that were made at one place to one of them."""


ValuePath: TypeAlias = tuple[str | int | Step, ...]
"""How to get from one value to another inside it."""

_Span: TypeAlias = tuple[int, int]
"""Start and end in the parsed text."""

_Frames: TypeAlias = "Mapping[_Span, Node]"
"""By function: the call of it that is followed."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """The call a value comes from."""

    call: Node
    path: ValuePath
    """From the call's answer to the value."""

    def then(self, *steps: str | int | Step) -> CallOrigin:
        """The origin of what is some steps further."""
        return CallOrigin(self.call, self.path + steps)


@dataclass(frozen=True, slots=True)
class _Binding:
    """One way by which a name gets its value."""

    scope: _Span
    value: Node
    """The expression whose value is bound or destructured."""
    path: ValuePath
    """From that value to the name's."""
    call: Node | None = None
    """The call of the script's own function that the value is an argument of."""


_NO_FRAMES: Final[_Frames] = {}


def _frames_outside(binding: _Binding, frames: _Frames) -> _Frames | None:
    """The calls that are followed where the value of a binding is; None: it is of another call."""
    if binding.call is None or (followed := frames.get(binding.scope)) is None:
        return frames
    others = {function: call for function, call in frames.items() if function != binding.scope}
    return others if followed is binding.call else None


class DataFlow:
    """The syntax tree of a script, with the values of its variables.

    Args:
        script: A script that has been validated.
    """

    def __init__(self, script: str) -> None:
        self.script = script
        self._steps_left = MAX_STEPS
        self.nodes: list[Node] = []
        self._bindings: dict[str, list[_Binding]] = {}
        self._defaulted: dict[int, list[_Binding]] = {}
        """By the identity of a pattern with a default: what its value is taken from."""
        self._arguments: set[int] = set()
        """The identities of arguments that are followed to a parameter."""
        self._returned: dict[int, list[Node]] = {}
        self._declared: dict[str, list[_Span]] = {}
        """The scopes in which a name is declared."""
        statements, _ = parse(script)
        self.statements = statements
        """The statements at top level."""
        top = (PREFIX_LENGTH, PREFIX_LENGTH + len(script))
        pending: list[tuple[Node, _Span]] = [(statement, top) for statement in reversed(statements)]
        while pending:
            node, scope = pending.pop()
            self.nodes.append(node)
            self._bind(node, scope)
            inner = span(node) if node.type in _SCOPES else scope
            pending.extend((child, inner) for child in reversed(list(children(node))))
        self._bind_arguments()

    def text(self, node: Node) -> str:
        """The source of `node` in one line, or its beginning."""
        start, end = span(node)
        return " ".join(self.script[start - PREFIX_LENGTH : min(end, start + MAX_TEXT) - PREFIX_LENGTH].split())

    def declares(self, name: str) -> bool:
        """Whether the script has a variable or function of that name anywhere."""
        return name in self._declared

    def enclosing(self, offset: int, *types: str) -> list[Node]:
        """The nodes of these types that contain `offset`, the innermost first."""
        place = offset + PREFIX_LENGTH
        nodes = [node for node in self.nodes if node.type in types and span(node)[0] <= place < span(node)[1]]
        return sorted(nodes, key=lambda node: span(node)[1] - span(node)[0])

    def is_followed(self, argument: Node) -> bool:
        """Whether an argument of a call becomes the value of a parameter that is looked at in its place."""
        return id(argument) in self._arguments

    def origins(self, node: Node | None, depth: int = 0, frames: _Frames = _NO_FRAMES) -> Iterator[CallOrigin]:
        """The calls that the value of an expression may come from."""
        self._steps_left = self._steps_left - 1 if depth else MAX_STEPS
        if node is None or depth > MAX_DEPTH or self._steps_left < 0:
            return
        depth += 1
        match node.type:
            case "AwaitExpression":
                yield from self.origins(node.argument, depth, frames)
            case "ChainExpression":
                yield from self.origins(node.expression, depth, frames)
            case "Identifier" | "AssignmentPattern":
                for binding in (
                    self._bindings_of(node) if node.type == "Identifier" else self._defaulted.get(id(node), ())
                ):
                    outer = _frames_outside(binding, frames)
                    for origin in self.origins(binding.value, depth, outer) if outer is not None else ():
                        yield origin.then(*binding.path)
            case "MemberExpression":
                step = member_name(node)
                for origin in self.origins(node.object, depth, frames):
                    yield origin.then(Step.EACH if step is None else step)
            case "CallExpression":
                yield from self._call_origins(node, depth, frames)
            case _:
                return

    def _call_origins(self, node: Node, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        callee: Node = node.callee
        method = member_name(callee) if callee.type == "MemberExpression" else None
        if callee.type == "Identifier" and (bindings := self._bindings_of(callee)):
            for binding in bindings:
                for value in self._values_returned(binding.value):
                    yield from self.origins(value, depth, {**frames, span(binding.value): node})
        elif method == "all" and callee.object.type == "Identifier" and callee.object.name == "Promise":
            yield from self._gathered_origins(node.arguments[0] if node.arguments else None, depth, frames)
        elif method in _LIST_METHODS:
            yield from self.origins(callee.object, depth, frames)
        elif method in _ITEM_METHODS:
            for origin in self.origins(callee.object, depth, frames):
                yield origin.then(Step.FOUND)
        else:
            yield CallOrigin(node, ())

    def _gathered_origins(self, promises: Node | None, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        """The answers of all calls in a list: `[a(), b()]`, or `items.map((item) => a(item))`."""
        if promises is None:
            return
        if promises.type == "ArrayExpression":
            for index, element in enumerate(cast("list[Node | None]", promises.elements)):
                yield from self._item_origins(element, index, depth, frames)
        elif promises.type == "CallExpression" and promises.arguments:
            yield from self._item_origins(returned_expression(promises.arguments[0]), Step.EACH, depth, frames)

    def _item_origins(self, item: Node | None, index: int | Step, depth: int, frames: _Frames) -> Iterator[CallOrigin]:
        for origin in self.origins(item, depth, frames):
            if not origin.path:
                yield CallOrigin(origin.call, (Step.GATHERED, index))

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

    def variable(self, name: Node) -> tuple[str, _Span | None]:
        """What tells the variable that `name` stands for from others."""
        return name.name, self._declaring_scope(name)

    def values_of(self, name: Node) -> list[Node]:
        """The expressions whose values the variable that `name` stands for may have."""
        return [binding.value for binding in self._bindings_of(name) if not binding.path]

    def _bindings_of(self, name: Node) -> list[_Binding]:
        """How the variable that `name` stands for gets its values."""
        scope = self._declaring_scope(name)
        return [binding for binding in self._bindings.get(name.name, ()) if binding.scope == scope]

    def _declaring_scope(self, name: Node) -> _Span | None:
        """The scope of the variable that `name` stands for."""
        place = span(name)[0]
        return max((scope for scope in self._declared.get(name.name, ()) if scope[0] <= place < scope[1]), default=None)

    def _bind(self, node: Node, scope: _Span) -> None:
        if node.type in FUNCTIONS:
            for param in node.params:
                self._declare(param, span(node))
        match node.type:
            case "VariableDeclarator":
                self._declare(node.id, scope)
                if node.init is not None:
                    self._bind_pattern(node.id, node.init, (), scope)
            case "FunctionDeclaration" | "ClassDeclaration":
                self._declare(node.id, scope)
                self._bind_pattern(node.id, node, (), scope)
            case "AssignmentExpression" if node.operator == "=":
                self._bind_pattern(node.left, node.right, (), None)
            case "ForOfStatement" if node.left.type == "VariableDeclaration":
                self._declare(node.left.declarations[0].id, span(node))
                self._bind_pattern(node.left.declarations[0].id, node.right, (Step.EACH,), span(node))
            case "CallExpression" if node.callee.type == "MemberExpression" and node.arguments:
                self._bind_parameters(node)
            case _:
                return

    def _bind_parameters(self, call: Node) -> None:
        """`items.map((item) => …)`: the parameter is one of the items; `then((value) => …)`: it is the value."""
        method, function, items = member_name(call.callee), call.arguments[0], call.callee.object
        if method == "groupBy" and len(call.arguments) == 2:
            items, function = call.arguments
        if function.type not in FUNCTIONS:
            return
        params: list[Node] = function.params
        if method == "then":
            bound, path = params[:1], ()
        elif method in _FIRST_PARAMETER or method == "groupBy":
            bound, path = params[: 2 if method in {"sort", "toSorted"} else 1], (Step.EACH,)
        elif method in _SECOND_PARAMETER:
            bound, path = params[1:2], (Step.EACH,)
        else:
            return
        for param in bound:
            self._bind_pattern(param, items, path, span(function))

    def _bind_arguments(self) -> None:
        """The parameters of functions that have a name of their own, and are only called by it, a few times."""
        calls: dict[str, list[Node]] = {}
        mentions: dict[str, int] = {}
        for node in self.nodes:
            if node.type == "Identifier":
                mentions[node.name] = mentions.get(node.name, 0) + 1
            elif node.type == "CallExpression" and node.callee.type == "Identifier":
                calls.setdefault(node.callee.name, []).append(node)
            elif node.type in {"MemberExpression", "Property"} and not node.computed:
                name: Node = node.property if node.type == "MemberExpression" else node.key
                if name.type == "Identifier":
                    mentions[name.name] = mentions.get(name.name, 0) - 1
        for name, places in calls.items():
            # It is mentioned where it is declared, too.
            if len(self._declared.get(name, ())) == mentions[name] - len(places) == 1 and len(places) <= _MAX_CALLS:
                functions = [binding.value for binding in self._bindings.get(name, ()) if not binding.path]
                for call in places if len(functions) == 1 and functions[0].type in FUNCTIONS else ():
                    self._bind_call(call, functions[0])

    def _bind_call(self, call: Node, function: Node) -> None:
        for param, argument in zip(function.params, call.arguments, strict=False):
            if param.type == "RestElement" or argument.type == "SpreadElement":
                return
            self._arguments.add(id(argument))
            target = param.left if param.type == "AssignmentPattern" else param
            self._bind_pattern(target, argument, (), span(function), call)

    def _declare(self, pattern: Node, scope: _Span) -> None:
        for target in declared_names(pattern):
            self._declared.setdefault(target.name, []).append(scope)

    def _bind_pattern(
        self, pattern: Node, value: Node, path: ValuePath, scope: _Span | None, call: Node | None = None
    ) -> None:
        """Bind the names in a pattern to their values in `scope`; None: in the scope where each is declared."""
        for target, steps in pattern_parts(pattern, path):
            if target.type == "AssignmentPattern" and steps:
                binding = _Binding(scope or span(target), value, steps, call)
                self._defaulted.setdefault(id(target), []).append(binding)
            elif target.type == "Identifier" and (home := scope or self._declaring_scope(target)) is not None:
                self._bindings.setdefault(target.name, []).append(_Binding(home, value, steps, call))


def with_dataflow(script: str, room_ms: float, use: Callable[[DataFlow | None], _T], *, fallback: _T) -> _T:
    """What `use` returns for the data flow of `script`, or for None where there is no time to parse it again.

    Args:
        script: A script that has been validated.
        room_ms: Milliseconds of its own time that the script has left.
        use: What the data flow is needed for.
        fallback: What is returned where parsing or `use` fails.
    """
    try:
        return use(DataFlow(script) if script and len(script) <= room_ms * CHARS_PER_MS else None)
    except Exception:
        # A script nested to the limit, an answer beyond the stack: the failure is reported all the same. The engine
        # calls this, and an exception would end the process.
        return fallback


def pattern_parts(pattern: Node, path: ValuePath = ()) -> Iterator[tuple[Node, ValuePath]]:
    """Every part of a pattern, itself first, with the path to its value; without defaults and the rest element."""
    pending: list[tuple[Node, ValuePath]] = [(pattern, path)]
    while pending:
        node, steps = pending.pop()
        yield node, steps
        if node.type == "ObjectPattern":
            plain = [item for item in node.properties if item.type == "Property" and not item.computed]
            pending.extend((item.value, (*steps, key_name(item.key))) for item in plain)
        elif node.type == "ArrayPattern":
            pending.extend((item, (*steps, index)) for index, item in enumerate(node.elements) if item is not None)


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
