"""The walk over a script's TypeScript tree that finds which characters are types. What becomes of each kind of node
says `policy.TYPESCRIPT`; what is special about some of them stands here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from codecall.sandbox.agentscript.checked import Violation
from codecall.sandbox.agentscript.parser.parse import source_violation
from codecall.sandbox.agentscript.parser.tokens import token_start
from codecall.sandbox.agentscript.parser.unicode import ODD_SPACE, UNSEEN_IN_CODE, code_point
from codecall.sandbox.agentscript.policy import TYPE_PLACES, TYPESCRIPT, WORDS_OF_JAVASCRIPT, TypeScriptRow
from codecall.sandbox.agentscript.ruleset import refusal_message
from codecall.sandbox.agentscript.typescript.parser import (
    Node,
    comparison_offsets,
    holds_only_types,
    misranked_nodes,
    parse,
)

# ----------------------------------------------------------------------------------------------------
# The walk over a script's TypeScript tree that finds which characters are types. What becomes of each kind of node

_KEPT: Final = TypeScriptRow("", "allowed", erasure="kept")
_REMOVED: Final = TypeScriptRow("", "allowed", erasure="removed")
_NOT_LINE_END: Final = re.compile(r"[^\r\n]")

_BROKEN: Final = "ERROR"
"""The kind of a node that holds what the parser could not read."""

_GO_WITH_A_PART: Final = frozenset({"export_statement", "import_statement", "public_field_definition"})
"""What is removed as a whole when a part of it says so: `export interface …`, `import type …`, `declare name`."""

_ENDED_BY_LINE: Final = frozenset(
    {
        "expression_statement",
        "lexical_declaration",
        "public_field_definition",
        "return_statement",
        "throw_statement",
        "variable_declaration",
    }
)
"""What a line end can end. Where a type ended it, a semicolon does so instead: it would run on into the next line, or,
as a field that is called `get` or `static`, into the next member."""

_ON_ITS_LINE: Final = frozenset(
    {"array_type", "call_expression", "generic_type", "instantiation_expression", "lookup_type", "subscript_expression"}
)
"""In types: what goes on with a bracket. The language wants that on the line where the rest ends; the parser does not
care, and would take the code of the next line for a part of the type."""

_OPENS_A_STATEMENT: Final = re.compile(r"\{|(?:function|class|let|async)\b")
"""What an expression cannot begin with where a statement or the body of an arrow function can stand."""

_TIGHT: Final = frozenset({"+", "-", "*", "/", "%", "**", "<<", ">>", ">>>"})
"""Operators that rank above `as`."""

_WORDS: Final = frozenset(
    {"abstract", "declare", "interface", "module", "namespace", "readonly", "type"}
    | {"accessibility_modifier", "override_modifier"}
)
"""Before what stands on the next line they are names themselves; the parser does not always care."""

_MEMBERS: Final = frozenset({"method_definition", "public_field_definition"})

_NAMESPACES: Final = frozenset({"internal_module", "module"})

_SAME: Final = {"abstract_class_declaration": "class_declaration", "optional_parameter": "required_parameter"}
"""What a kind of node is called when its types are gone."""

_CHAINS: Final = frozenset(
    {
        "await_expression",
        "call_expression",
        "member_expression",
        "new_expression",
        "subscript_expression",
        "unary_expression",
    }
)
"""What is left out of a shape: behind `await` and the like the parser ranks a call with types otherwise than one
without, and no type between them can change their order."""

TreeShape: TypeAlias = list[tuple[str, int]]
"""A tree without types, comments and semicolons: words and signs with their places, the kinds of nodes around them with
-1, as are brackets that may move; `end` ends a node."""


def misplaced_type(offset: int, place: str) -> Violation:
    """The finding about a type at `offset` in one of the `TYPE_PLACES`."""
    row = TYPE_PLACES[place]
    return Violation(offset, row.kind, refusal_message("Syntax", row.name), row.instead)


def blanked(script: str, spans: list[tuple[int, int]]) -> str:
    """`script` with blanks in place of `spans`, save line ends."""
    pieces: list[str] = []
    at = 0
    for start, end in sorted(spans):
        pieces.append(script[at:start])
        pieces.append(_NOT_LINE_END.sub(" ", script[start:end]))
        at = end
    return "".join((*pieces, script[at:]))


def broken_lines(script: str, node: Node) -> Iterator[Violation]:
    """Findings about types below `node` that go on over the end of their line."""
    if "\n" not in script[node.start_byte : node.end_byte]:
        return
    stack = [node]
    while stack:
        part = stack.pop()
        inside = part.children
        stack.extend(inside)
        if part.type in _ON_ITS_LINE and "\n" in script[inside[0].end_byte : inside[1].start_byte]:
            yield misplaced_type(inside[1].start_byte, "type at the end of a line")


class TypeEraser:
    """One walk over the tree of one script, iterative, so that its depth does not matter."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.spans: list[tuple[int, int]] = []
        """What is erased."""
        self.signs: dict[int, str] = {}
        """Characters that stand for others, by their place."""
        self.marks: list[Violation] = []
        self.shape: TreeShape = []
        self._erased_before: dict[int, int] = {}
        """Where an erased span begins, by where it ends."""
        self._borders: set[int] = set()
        """Places where an erased span begins with a semicolon."""
        self._joints: dict[int, int] = {}
        """Where calls, members and the like go on, by where what they are of ends."""
        self._awaited: dict[int, int] = {}
        """Where a binding operator has an `await` before it, by where the awaited ends."""
        self._prefixes: list[int] = []
        """Where an expression begins with a type."""
        self._starts: set[int] = set()
        """Where a statement that is an expression begins, or an arrow function's body."""

    def run(self, root: Node) -> None:
        """Walk the tree below `root`."""
        # A node with the kind of its parent; or, to leave it, with where its shape begins
        stack: list[tuple[Node, str, int]] = [(root, "", -1)]
        while stack:
            node, parent, begun = stack.pop()
            if begun >= 0:
                self._leave(node, begun)
            elif node.type != "comment" and node.start_byte < len(self.script):
                self._visit(node, parent, stack)

    def _visit(self, node: Node, parent: str, stack: list[tuple[Node, str, int]]) -> None:
        kind = node.type
        row = _row(node, parent)
        if kind in _GO_WITH_A_PART and any(_row(child, kind).erasure == "removed" for child in node.children):
            row = _REMOVED
        if row.erasure == "removed" or kind in _MEMBERS:
            self._look_for_names(node)
        match row.erasure:
            case "erased":
                self._blank(node)
            case "removed":
                self._borders.add(node.start_byte)
                self._blank(node)
            case "unwrapped":
                parts = [child for child in node.children if child.type != "comment"]
                inner = parts.pop(-1 if kind == "type_assertion" else 0)
                for part in parts:
                    self._blank(part)
                if kind == "type_assertion":
                    self._prefixes.append(node.start_byte)
                stack.append((inner, kind, -1))
            case "kept" if node.child_count == 0:
                self._keep_word(node)
            case "kept":
                if kind in _CHAINS:
                    self._joints[node.children[0].end_byte] = node.children[1].start_byte
                else:
                    stack.append((node, "", len(self.shape)))
                    self.shape.append((_SAME.get(kind, kind), -1))
                stack.extend((child, kind, -1) for child in reversed(self._parts(node, parent)))
            case _:
                message = refusal_message("Syntax", row.name)
                self.marks.append(Violation(node.start_byte, row.kind, message, row.instead or None))

    def _keep_word(self, node: Node) -> None:
        kind = node.type
        if kind != ";":
            self.shape.append((kind, -1 if kind in "()" else node.start_byte))

    def text(self) -> str:
        """The script without its types."""
        characters = list(blanked(self.script, self.spans))
        for place, sign in self.signs.items():
            characters[place] = sign
        return "".join(characters)

    def _blank(self, node: Node) -> None:
        start, end = node.start_byte, min(node.end_byte, len(self.script))
        self.spans.append((start, end))
        self._erased_before[end] = start
        if start in self._borders:
            self.signs[start] = ";"
        self.marks.extend(broken_lines(self.script, node))

    def bared(self, text: str) -> Iterator[Violation]:
        """Findings about what of `text`, without types, would mean something else for where a type was."""
        for end in self._joints.keys() & self._erased_before.keys():
            # With its type in between, nobody but the parser takes the next line for more of it
            yield misplaced_type(self._joints[end], "type at the end of a line")
        for end in self._awaited.keys() & self._erased_before.keys():
            # `1 + await a as T * 2`: the parser ranks the type above `await`, and so above what stands before it
            yield misplaced_type(self._awaited[end], "type in the way")
        for start in self._prefixes:
            begin = token_start(text, start, len(text))
            at_start = start in self._starts and _OPENS_A_STATEMENT.match(text, begin)
            if at_start or "\n" in text[start:begin]:
                yield misplaced_type(start, "type in the way")

    def _look_for_names(self, node: Node) -> None:
        """Look for words that are names where a line ends behind them."""
        for word, behind in pairwise(node.children):
            if word.type in _WORDS and "\n" in self.script[word.end_byte : behind.start_byte]:
                self.marks.append(misplaced_type(word.start_byte, "type at the end of a line"))

    def _parts(self, node: Node, parent: str) -> list[Node]:
        """The parts of a node that is kept, but for what has been erased of them."""
        parts = node.children
        match node.type:
            case "arrow_function":
                self._close_ranks(node)
                self._starts.add(parts[-1].start_byte)
            case "binary_expression":
                self._look_at_ranks(parts)
            case "expression_statement":
                self._starts.add(node.start_byte)
            case "formal_parameters":
                for index, part in enumerate(parts):
                    if part.child_count and part.children[0].type == "this":
                        after = 2 if index + 1 < len(parts) and parts[index + 1].type == "," else 1
                        for gone in parts[index : index + after]:
                            self._blank(gone)
                        return parts[:index] + parts[index + after :]
            case "method_definition" | "public_field_definition" if parent == "class_body":
                # What stood before a modifier would run on into the name behind it
                self._borders.add(node.start_byte)
            case _:
                pass
        return parts

    def _look_at_ranks(self, parts: list[Node]) -> None:
        """Look for operators that the parser ranks otherwise than everyone else does."""
        left, sign = parts[0], parts[1].type
        if left.type == "await_expression" and sign in _TIGHT:
            self._awaited[left.end_byte] = left.start_byte

    def _close_ranks(self, node: Node) -> None:
        """Keep line ends in the types of an arrow function from where JavaScript can have none."""
        parameters = node.child_by_field_name("parameters")
        result, types = node.child_by_field_name("return_type"), node.child_by_field_name("type_parameters")
        arrow = next((child for child in node.children if child.type == "=>"), None)
        if parameters is None or arrow is None:
            return
        if result is not None and "\n" in self.script[parameters.end_byte : arrow.start_byte]:
            self.signs[parameters.end_byte - 1] = " "
            self.signs[result.end_byte - 1] = ")"
        if types is not None and "\n" in self.script[types.start_byte : parameters.start_byte]:
            self.signs[types.start_byte] = "("
            self.signs[parameters.start_byte] = " "

    def _leave(self, node: Node, begun: int) -> None:
        if len(self.shape) == begun + 1:
            self.shape.pop()  # nothing of it is left
        else:
            self.shape.append(("end", -1))
        if node.type in _ENDED_BY_LINE and node.children[-1].type != ";":
            start = self._erased_before.get(node.end_byte)
            if start is not None:
                self.signs[start] = ";"


def _row(node: Node, parent: str) -> TypeScriptRow:
    """What becomes of `node`, a part of a node of kind `parent`."""
    kind = node.type
    if kind in _NAMESPACES and holds_only_types(node):
        return _REMOVED
    row = TYPESCRIPT.get(f"{parent}.{kind}")
    if row is None:
        if node.is_named:
            row = TYPESCRIPT.get(kind)
        elif kind in WORDS_OF_JAVASCRIPT:
            return _KEPT
    if row is None and _BROKEN in (kind, parent):
        return _KEPT
    return row or TypeScriptRow(kind, "refused")


# ----------------------------------------------------------------------------------------------------
# Types taken out of a script, in place: each character of a type becomes a blank, line ends stay, so that everything

_IN_TYPES = r"[\s.|\[\]<>]|&(?!&)|\{[^{}()]*\}|\"[^\"\n]*\"|'[^'\n]*'"
_SEVERAL = rf"<(?:[A-Z][\w$]*|null|undefined|true|false|,|{_IN_TYPES}){{1,40}}+(?<=>)(?=[(`])"
_ONE = rf"<(?![<=])(?:[\w$]++|{_IN_TYPES}){{1,40}}?>(?=\s*[(`])"
_FROM_SIGN: Final = re.compile(f"{_SEVERAL}|{_ONE}")
TYPE_ARGUMENTS: Final = re.compile(rf"[\w$)\]](?:{_SEVERAL}|\s*{_ONE})")
"""What is a call with type arguments, or looks like one: `callTool<User>(…)`, `new Map<Key, Date[]>(…)`. To JavaScript
they are comparisons, of names it may know. In a list of several, those that begin with small letters may be two honest
comparisons: `f(a<b, c>(d))`."""

_MAX_COMPARED: Final = 64
"""Different texts that may be types, each of which is read for itself."""
_MAX_ROUNDS: Final = 4
"""Readings of a script in which the parser ranks operators wrongly."""


class StrippedScript(NamedTuple):
    """A script without its types."""

    text: str
    """As long as the script, and with the same lines."""
    violations: list[Violation]
    """What cannot be erased."""
    complete: bool
    """Whether the parser could read all of the script; otherwise `text` is good for finding out what is wrong, and for
    nothing else."""


def strip_types(script: str) -> StrippedScript | None:
    """Take the types out of `script`; None when there is nothing of TypeScript in it, or too much to read."""
    before, marks = script, list[Violation]()
    reading = parse(script)
    for _ in range(_MAX_ROUNDS):
        if reading is None:
            return None
        ranked = list(misranked_nodes(script, reading.root))
        types = [(node.start_byte, node.end_byte) for node in ranked]
        marks.extend(mark for node in ranked for mark in broken_lines(script, node))
        if reading.complete:
            types.extend(_read_as_types(script, comparison_offsets(script, reading.root), marks))
        if not types:
            break
        # Without what the parser ranks wrongly, it reads the rest as everyone does
        marks.extend(_hidden(script, types))
        script = blanked(script, types)
        if not reading.complete:
            break
        reading = parse(script)
    if reading is None:
        return None
    eraser = TypeEraser(script)
    eraser.run(reading.root)
    if not eraser.spans and not eraser.marks and not marks and script == before:
        return None
    text = eraser.text()
    marks.extend((*eraser.marks, *_hidden(script, eraser.spans), *eraser.bared(text)))
    if reading.complete and not marks:
        marks.extend(_changed(text, eraser.shape))
    return StrippedScript(text, marks, reading.complete)


def _read_as_types(script: str, places: list[int], marks: list[Violation]) -> Iterator[tuple[int, int]]:
    """What begins at one of the `places` of the sign `<`, and is a call's type arguments to everyone but the parser.
    Where it takes too much to tell, there is a finding."""
    known: dict[str, bool] = {}
    read = 0
    for place in places:
        found = _FROM_SIGN.match(script, place) if place >= read else None
        if found is None:
            continue
        types = found[0]
        if types not in known:
            if len(known) == _MAX_COMPARED:
                marks.append(misplaced_type(place, "type arguments in the way"))
                return
            text = f"let a: A{types};"
            reading = parse(text)
            known[types] = reading is not None and reading.complete and not any(broken_lines(text, reading.root))
        if known[types]:
            read = found.end()
            yield found.span()


def _changed(text: str, wanted: TreeShape) -> list[Violation]:
    """The finding about a script that means something else without its types."""
    reading = parse(text)
    eraser = TypeEraser(text)
    if reading is not None:
        eraser.run(reading.root)
        if reading.complete and not eraser.spans and not eraser.marks and eraser.shape == wanted:
            return []
    pairs = zip(eraser.shape, wanted, strict=False)
    same = next((index for index, (one, other) in enumerate(pairs) if one != other), len(eraser.shape))
    offset = next((place for _, place in reversed(wanted[: same + 1]) if place >= 0), 0)
    return [misplaced_type(offset, "type in the way")]


def _hidden(script: str, spans: list[tuple[int, int]]) -> Iterator[Violation]:
    """What nobody would see in the types, at which the guard does not look."""
    for start, end in spans if not script.isascii() else ():
        for unseen, row in ((UNSEEN_IN_CODE, "invisible character"), (ODD_SPACE, "unusual white space")):
            if found := unseen.search(script, start, end):
                yield source_violation(row, found.start(), f"the {row} {code_point(found[0])}")
