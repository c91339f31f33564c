"""Lookups in tables of a script whose value becomes a key or part of a text: where nothing is found, `undefined` does.

    `${byId[order.user]}: …`    'by ' + names.get(id)    totals[names[id]] = …    const name = byId[id]; … `${name}`

What is asked for first is left out: `byId[id] ?? 'nobody'`. Names are told apart by their spelling alone: whether a
lookup has found nothing, and whether that shows in the result, is looked at when the script has run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, TypeAlias, cast

from codecall.sandbox.agentscript.checked import LookupSite
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, PREFIX_LENGTH, children, key_name

MAX_LOOKUPS: Final = 50
"""Lookups of one script that are watched."""

_MAX_TRACES: Final = 8
"""Texts and keys that one of them may become a part of."""
_MAX_AROUND: Final = 8
"""Characters beside it that are looked for with it."""
_MAX_PARTS: Final = 8
"""Parts of one expression that are followed."""

LOOKUP: Final = re.compile(r"[\w$)\]](?:\?\.)?\[\s*[A-Za-z_$`(]|\.\s*get\s*\(")
"""What a script without such lookups does not have."""
_KEY: Final = '"undefined":'
_STORES: Final = frozenset({"AssignmentExpression", "UpdateExpression"})

_Part: TypeAlias = tuple[Node, str]
"""An expression that becomes part of a text, or a key; and the trace that `undefined` leaves there."""


def lookup_sites(statements: list[Node]) -> tuple[LookupSite, ...]:
    """The lookups of a script that may leave `undefined` in a text, or as a key."""
    search = _Search()
    holders: list[tuple[str, Node]] = []
    """Variables and functions, with what they are given or return."""
    beginnings: set[int] = set()
    """Where statements begin. What is inserted there would go on with the line before."""
    pending = list(reversed(statements))
    while pending:
        node = pending.pop()
        if node.type == "CallExpression" and getattr(getattr(node.callee, "object", None), "name", None) == "console":
            continue  # what is printed is in no result
        if node.type == "ExpressionStatement":
            beginnings.add(node.range[0] - PREFIX_LENGTH)
        for part, trace in _parts(node):
            search.add(part, (trace,))
        holders.extend(_held(node))
        pending.extend(reversed(list(children(node))))
    # What is used stands behind what it was made of.
    for name, value in reversed(holders):
        search.add(value, tuple(search.of_names.get(name, ())))
    sites = (_site(node, tuple(traces)) for node, traces in search.lookups.values())
    watched = [site for site in sites if site is not None and site.start not in beginnings]
    return tuple(sorted(watched, key=lambda site: site.start)[:MAX_LOOKUPS])


class _Search:
    """The lookups that were found, and what may have been made by one."""

    def __init__(self) -> None:
        self.lookups: dict[int, tuple[Node, dict[str, None]]] = {}
        """By identity, with the traces that they leave."""
        self.of_names: dict[str, dict[str, None]] = {}
        """By name: what the value of that variable, or of that function, leaves."""

    def add(self, value: Node, traces: tuple[str, ...]) -> None:
        """Add what `value` is made of; `traces` are what it leaves."""
        for source in _sources(value) if traces else ():
            if isinstance(source, str):
                known = self.of_names.setdefault(source, {})
            else:
                known = self.lookups.setdefault(id(source), (source, {}))[1]
            known.update(dict.fromkeys(traces[: max(0, _MAX_TRACES - len(known))]))


def _parts(node: Node) -> Iterator[_Part]:
    """The expressions whose text a node makes part of another, or a key."""
    kind = str(node.type)
    if kind == "TemplateLiteral":
        texts = [str(quasi.value.cooked) for quasi in node.quasis]
        for index, part in enumerate(node.expressions):
            yield part, _trace(texts[index], texts[index + 1])
    elif kind == "BinaryExpression" and node.operator == "+":
        left: Node = node.left
        before = left.right if left.type == "BinaryExpression" and left.operator == "+" else left
        if (text := _literal_text(before)) is not None:
            yield node.right, _trace(text, "")
        if (text := _literal_text(node.right)) is not None:
            yield before, _trace("", text)
    elif kind in _STORES:
        target: Node = node.left if kind == "AssignmentExpression" else node.argument
        if target.type == "MemberExpression" and target.computed:
            yield target.property, _KEY
    elif kind == "ObjectExpression":
        yield from ((item.key, _KEY) for item in node.properties if item.type == "Property" and item.computed)
    elif kind == "CallExpression":
        yield from _parts_of_call(node)


def _parts_of_call(call: Node) -> Iterator[_Part]:
    callee, arguments = call.callee, cast("list[Node]", call.arguments)
    if callee.type == "Identifier" and callee.name == "String" and arguments:
        yield arguments[0], "undefined"
    if callee.type != "MemberExpression" or callee.computed or not arguments:
        return
    name = key_name(callee.property)
    if name == "set" and len(arguments) == 2:
        yield arguments[0], _KEY
    elif name == "groupBy" and len(arguments) == 2:
        yield from ((value, _KEY) for value in _returned(arguments[1]))
    elif name == "fromEntries" and arguments[0].type == "CallExpression" and arguments[0].arguments:
        for pair in _returned(arguments[0].arguments[0]):
            if pair.type == "ArrayExpression" and len(pair.elements) == 2 and pair.elements[0] is not None:
                yield pair.elements[0], _KEY


def _trace(before: str, after: str) -> str:
    """What `undefined` between two texts leaves in JSON. Lines may be split, and blanks around it trimmed."""
    before, after = before.rpartition("\n")[2].lstrip(), after.partition("\n")[0].rstrip()
    text = f"{before[-_MAX_AROUND:].lstrip()}undefined{after[:_MAX_AROUND].rstrip()}"
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _literal_text(node: Node) -> str | None:
    """The text that stands there; of a template its beginning and end are not told apart, and stand for none."""
    if node.type == "Literal" and isinstance(node.value, str):
        return node.value
    return "" if node.type == "TemplateLiteral" else None


def _held(node: Node) -> Iterator[tuple[str, Node]]:
    if node.type == "VariableDeclarator" and node.id.type == "Identifier" and node.init is not None:
        yield from ((node.id.name, value) for value in _returned(node.init) or [node.init])
    elif node.type == "FunctionDeclaration":
        yield from ((node.id.name, value) for value in _returned(node))
    elif node.type == "AssignmentExpression" and node.operator == "=" and node.left.type == "Identifier":
        yield node.left.name, node.right


def _returned(function: Node) -> list[Node]:
    """What a function returns at its end; nothing where it is no function, or that is not plain."""
    if function.type not in FUNCTIONS:
        return []
    body: Node = function.body
    if body.type != "BlockStatement":
        return [body]
    last = body.body[-1] if body.body else None
    return [last.argument] if last is not None and last.type == "ReturnStatement" and last.argument else []


def _sources(node: Node) -> Iterator[Node | str]:
    """The lookups whose miss makes an expression undefined, and the names of what may have made one: `byId[id]?.name`,
    `found ? byId[id] : '-'`, `name`, `nameOf(id)`."""
    pending, left = [node], _MAX_PARTS
    while pending and left:
        left -= 1
        part = pending.pop()
        match str(part.type):
            case "ChainExpression":
                pending.append(part.expression if _is_lookup(part.expression) else _before_optional(part.expression))
            case "AwaitExpression":
                pending.append(part.argument)
            case "ConditionalExpression":
                pending += [part.consequent, part.alternate]
            case "Identifier":
                yield part.name
            case "CallExpression" if part.callee.type == "Identifier":
                yield part.callee.name
            case _ if _is_lookup(part):
                yield part
            case _:
                pass


def _before_optional(node: Node) -> Node:
    """What stands before the last `?.` of a chain, the only part of it that may be undefined."""
    while node.type in {"MemberExpression", "CallExpression"} and not node.optional:
        node = node.callee if node.type == "CallExpression" else node.object
    if not node.optional:
        return node
    return node.callee if node.type == "CallExpression" else node.object


def _is_lookup(node: Node) -> bool:
    return _key_of(node) is not None


def _key_of(node: Node) -> Node | None:
    """The key of a lookup that is no literal."""
    key: Node | None = None
    if node.type == "MemberExpression" and node.computed:
        key = node.property
    elif node.type == "CallExpression" and node.callee.type == "MemberExpression" and not node.callee.computed:
        callee, arguments = node.callee, cast("list[Node]", node.arguments)
        key = arguments[0] if key_name(callee.property) == "get" and len(arguments) == 1 else None
    return None if key is None or key.type in {"Literal", "SpreadElement", "UnaryExpression"} else key


def _site(node: Node, traces: tuple[str, ...]) -> LookupSite | None:
    key = cast("Node", _key_of(node))
    is_get = node.type == "CallExpression"
    table: Node = node.callee.object if is_get else node.object
    if table.type != "Identifier":
        return None  # to look at another table again could run code of the script's own
    places = (*node.range, *key.range)
    start, end, key_start, key_end = (cast("int", place) - PREFIX_LENGTH for place in places)
    return LookupSite(start, end, key_start, key_end, table.name, is_get, traces)
