"""Strips the types of a TypeScript script in place: each character of a type becomes a blank, line ends stay, so that
every offset stays what it was.

`policy.TYPESCRIPT` says what happens to each kind of node; what is special about some of them is here. A type whose
removal would change what the rest means is a violation.
"""

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
from codecall.sandbox.agentscript.ruleset import refusal_message, refused_name
from codecall.sandbox.agentscript.typescript.parser import (
    TypeScriptNode,
    comparison_offsets,
    holds_only_types,
    misranked_nodes,
    parse,
)

_KEPT: Final = TypeScriptRow("", "allowed", erasure="kept")
_REMOVED: Final = TypeScriptRow("", "allowed", erasure="removed")
_NOT_LINE_END: Final = re.compile(r"[^\r\n]")

_BROKEN: Final = "ERROR"
"""The kind of a node for text that the parser could not read."""

_REMOVED_WITH_A_PART: Final = frozenset({"export_statement", "import_statement", "public_field_definition"})
"""Nodes that are removed as a whole when a part of them is: `export interface …`, `import type …`, `declare name`."""

_ENDED_BY_LINE: Final = frozenset(
    {"expression_statement", "lexical_declaration", "public_field_definition"}
    | {"return_statement", "throw_statement", "variable_declaration"}
)
"""Nodes that a line end can end. Where a type ended one, a semicolon does so instead: it would continue on the next
line, or, as a field that is called `get` or `static`, with the next member."""

_BRACKET_ON_SAME_LINE: Final = frozenset(
    {"array_type", "call_expression", "generic_type", "instantiation_expression", "lookup_type", "subscript_expression"}
)
"""In types: nodes that continue with a bracket. The language wants that on the line where the rest ends; the parser
does not, and would take the code of the next line for a part of the type."""

_OPENS_A_STATEMENT: Final = re.compile(r"\{|(?:function|class|let|async)\b")
"""Text an expression cannot begin with where a statement or the body of an arrow function can stand."""

_ABOVE_AS: Final = frozenset({"+", "-", "*", "/", "%", "**", "<<", ">>", ">>>"})
"""Operators that rank above `as`."""

_MODIFIERS: Final = frozenset(
    {"abstract", "declare", "interface", "module", "namespace", "readonly", "type"}
    | {"accessibility_modifier", "override_modifier"}
)
"""Words that are names themselves when a line end follows them; the parser does not always see that."""

_MEMBERS: Final = frozenset({"method_definition", "public_field_definition"})

_NAMESPACES: Final = frozenset({"internal_module", "module"})

_KIND_WITHOUT_TYPES: Final = {
    "abstract_class_declaration": "class_declaration",
    "optional_parameter": "required_parameter",
}
"""The kind of a node after its types are removed, where that differs."""

_CHAINS: Final = frozenset(
    {"await_expression", "call_expression", "member_expression"}
    | {"new_expression", "subscript_expression", "unary_expression"}
)
"""Nodes that are left out of a shape: after `await` and the like the parser ranks a call with types otherwise than one
without, and no type between them can change their order."""

TreeShape: TypeAlias = list[tuple[str, int]]
"""A tree without types, comments and semicolons: words and signs with their offsets; the kinds of nodes around them,
and brackets that may move, with -1; `end` ends a node."""

_IN_TYPES = r"[\s.|\[\]<>]|&(?!&)|\{[^{}()]*\}|\"[^\"\n]*\"|'[^'\n]*'"
_SEVERAL = rf"<(?:[A-Z][\w$]*|null|undefined|true|false|,|{_IN_TYPES}){{1,40}}+(?<=>)(?=[(`])"
_ONE = rf"<(?![<=])(?:[\w$]++|{_IN_TYPES}){{1,40}}?>(?=\s*[(`])"
_FROM_SIGN: Final = re.compile(f"{_SEVERAL}|{_ONE}")
TYPE_ARGUMENTS: Final = re.compile(rf"[\w$)\]](?:{_SEVERAL}|\s*{_ONE})")
"""A call with type arguments, or text that looks like one: `callTool<User>(…)`, `new Map<Key, Date[]>(…)`. To
JavaScript they are comparisons, of names it may know. In a list of several, those that begin with small letters may be
two honest
comparisons: `f(a<b, c>(d))`."""

_MAX_COMPARED: Final = 64
"""Most different texts that may be types, each of which is parsed for itself."""
_MAX_ROUNDS: Final = 4
"""Most times that a script is parsed in which the parser ranks operators wrongly."""


class StrippedScript(NamedTuple):
    """A script without its types."""

    text: str
    """As long as the script, and with the same lines."""
    violations: list[Violation]
    """Types that cannot be removed."""
    complete: bool
    """Whether the parser could read all of the script; otherwise `text` serves only to find out what is wrong."""


def strip_types(script: str) -> StrippedScript | None:
    """Remove the types from `script`; None when it has none, or takes too long to parse."""
    original, violations = script, list[Violation]()
    tree = parse(script)
    for _ in range(_MAX_ROUNDS):
        if tree is None:
            return None
        ranked = list(misranked_nodes(script, tree.root))
        types = [(node.start_byte, node.end_byte) for node in ranked]
        violations.extend(violation for node in ranked for violation in _types_across_lines(script, node))
        if tree.complete:
            types.extend(_type_argument_spans(script, comparison_offsets(script, tree.root), violations))
        if not types:
            break
        # Without the nodes it ranks wrongly, the parser reads the rest as everyone does
        violations.extend(_unseen_characters(script, types))
        script = _blank_out(script, types)
        if not tree.complete:
            break
        tree = parse(script)
    if tree is None:
        return None
    eraser = _TypeEraser(script)
    eraser.run(tree.root)
    if not eraser.spans and not eraser.violations and not violations and script == original:
        return None
    text = eraser.text()
    violations.extend((*eraser.violations, *_unseen_characters(script, eraser.spans), *eraser.changed_meanings(text)))
    if tree.complete and not violations:
        violations.extend(_meaning_changes(text, eraser.shape))
    return StrippedScript(text, violations, tree.complete)


def _type_argument_spans(script: str, offsets: list[int], violations: list[Violation]) -> Iterator[tuple[int, int]]:
    """Spans that begin at one of the `offsets` of `<` and are a call's type arguments to everyone but the parser. Adds
    a violation where there are too many to tell."""
    is_type: dict[str, bool] = {}
    end = 0
    for offset in offsets:
        match = _FROM_SIGN.match(script, offset) if offset >= end else None
        if match is None:
            continue
        types = match[0]
        if types not in is_type:
            if len(is_type) == _MAX_COMPARED:
                violations.append(misplaced_type(offset, "type arguments in the way"))
                return
            text = f"let a: A{types};"
            tree = parse(text)
            is_type[types] = tree is not None and tree.complete and not any(_types_across_lines(text, tree.root))
        if is_type[types]:
            end = match.end()
            yield match.span()


def _meaning_changes(text: str, expected: TreeShape) -> list[Violation]:
    """The violation of a script that means something else without its types."""
    tree = parse(text)
    eraser = _TypeEraser(text)
    if tree is not None:
        eraser.run(tree.root)
        if tree.complete and not eraser.spans and not eraser.violations and eraser.shape == expected:
            return []
    pairs = zip(eraser.shape, expected, strict=False)
    same = next((index for index, (one, other) in enumerate(pairs) if one != other), len(eraser.shape))
    offset = next((start for _, start in reversed(expected[: same + 1]) if start >= 0), 0)
    return [misplaced_type(offset, "type in the way")]


def _unseen_characters(script: str, spans: list[tuple[int, int]]) -> Iterator[Violation]:
    """The violations of characters nobody would see in the types, which the validator does not look at."""
    for start, end in spans if not script.isascii() else ():
        for pattern, row in ((UNSEEN_IN_CODE, "invisible character"), (ODD_SPACE, "unusual white space")):
            if match := pattern.search(script, start, end):
                yield source_violation(row, match.start(), f"the {row} {code_point(match[0])}")


def misplaced_type(offset: int, place: str) -> Violation:
    """The violation of a type at `offset` in one of the `TYPE_PLACES`."""
    row = TYPE_PLACES[place]
    return refused_name("Syntax", row.name, row, offset)


def _blank_out(script: str, spans: list[tuple[int, int]]) -> str:
    """`script` with blanks in place of `spans`, except for line ends."""
    pieces: list[str] = []
    at = 0
    for start, end in sorted(spans):
        pieces.append(script[at:start])
        pieces.append(_NOT_LINE_END.sub(" ", script[start:end]))
        at = end
    return "".join((*pieces, script[at:]))


def _types_across_lines(script: str, node: TypeScriptNode) -> Iterator[Violation]:
    """The violations of types below `node` that continue after the end of their line."""
    if "\n" not in script[node.start_byte : node.end_byte]:
        return
    stack = [node]
    while stack:
        part = stack.pop()
        inside = part.children
        stack.extend(inside)
        if part.type in _BRACKET_ON_SAME_LINE and "\n" in script[inside[0].end_byte : inside[1].start_byte]:
            yield misplaced_type(inside[1].start_byte, "type at the end of a line")


class _TypeEraser:
    """One walk over the tree of one script, iterative, so that the depth of the tree does not matter."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.spans: list[tuple[int, int]] = []
        """The spans that become blanks."""
        self.replacements: dict[int, str] = {}
        """Characters that replace others, by offset."""
        self.violations: list[Violation] = []
        self.shape: TreeShape = []
        self._erased_start: dict[int, int] = {}
        """The start of an erased span, by its end."""
        self._semicolons: set[int] = set()
        """Offsets at which an erased span is replaced by a semicolon and blanks."""
        self._continuations: dict[int, int] = {}
        """Where calls, members and the like continue, by the end of the expression before."""
        self._await_starts: dict[int, int] = {}
        """The start of an `await` before an operator that binds more tightly than `as`, by the end of the awaited."""
        self._prefixes: list[int] = []
        """Offsets at which an expression begins with a type."""
        self._starts: set[int] = set()
        """Offsets at which a statement that is an expression begins, or an arrow function's body."""

    def run(self, root: TypeScriptNode) -> None:
        """Walk the tree below `root`."""
        # A node with the kind of its parent; or, to leave it, with the index at which its shape begins
        stack: list[tuple[TypeScriptNode, str, int]] = [(root, "", -1)]
        while stack:
            node, parent, shape_start = stack.pop()
            if shape_start >= 0:
                self._leave(node, shape_start)
            elif node.type != "comment" and node.start_byte < len(self.script):
                self._visit(node, parent, stack)

    def _visit(self, node: TypeScriptNode, parent: str, stack: list[tuple[TypeScriptNode, str, int]]) -> None:
        kind = node.type
        row = _row(node, parent)
        if kind in _REMOVED_WITH_A_PART and any(_row(child, kind).erasure == "removed" for child in node.children):
            row = _REMOVED
        if row.erasure == "removed" or kind in _MEMBERS:
            self._check_modifiers(node)
        match row.erasure:
            case "erased":
                self._blank(node)
            case "removed":
                self._semicolons.add(node.start_byte)
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
                self._add_word(node)
            case "kept":
                if kind in _CHAINS:
                    self._continuations[node.children[0].end_byte] = node.children[1].start_byte
                else:
                    stack.append((node, "", len(self.shape)))
                    self.shape.append((_KIND_WITHOUT_TYPES.get(kind, kind), -1))
                stack.extend((child, kind, -1) for child in reversed(self._parts(node, parent)))
            case _:
                message = refusal_message("Syntax", row.name)
                self.violations.append(Violation(node.start_byte, row.kind, message, row.instead or None))

    def _add_word(self, node: TypeScriptNode) -> None:
        kind = node.type
        if kind != ";":
            self.shape.append((kind, -1 if kind in "()" else node.start_byte))

    def text(self) -> str:
        """The script without its types."""
        characters = list(_blank_out(self.script, self.spans))
        for offset, character in self.replacements.items():
            characters[offset] = character
        return "".join(characters)

    def _blank(self, node: TypeScriptNode) -> None:
        start, end = node.start_byte, min(node.end_byte, len(self.script))
        self.spans.append((start, end))
        self._erased_start[end] = start
        if start in self._semicolons:
            self.replacements[start] = ";"
        self.violations.extend(_types_across_lines(self.script, node))

    def changed_meanings(self, text: str) -> Iterator[Violation]:
        """The violations where `text`, without types, would mean something else because of a removed type."""
        for end in self._continuations.keys() & self._erased_start.keys():
            # With its type in between, only the parser reads the next line as a continuation
            yield misplaced_type(self._continuations[end], "type at the end of a line")
        for end in self._await_starts.keys() & self._erased_start.keys():
            # `1 + await a as T * 2`: the parser ranks the type above `await`, and so above what stands before it
            yield misplaced_type(self._await_starts[end], "type in the way")
        for start in self._prefixes:
            begin = token_start(text, start, len(text))
            at_start = start in self._starts and _OPENS_A_STATEMENT.match(text, begin)
            if at_start or "\n" in text[start:begin]:
                yield misplaced_type(start, "type in the way")

    def _check_modifiers(self, node: TypeScriptNode) -> None:
        """Add a violation for each modifier that is a name, because a line ends after it."""
        for word, following in pairwise(node.children):
            if word.type in _MODIFIERS and "\n" in self.script[word.end_byte : following.start_byte]:
                self.violations.append(misplaced_type(word.start_byte, "type at the end of a line"))

    def _parts(self, node: TypeScriptNode, parent: str) -> list[TypeScriptNode]:
        """The parts of a node that is kept, without those that have been erased."""
        parts = node.children
        match node.type:
            case "arrow_function":
                self._keep_arrow_on_line(node)
                self._starts.add(parts[-1].start_byte)
            case "binary_expression":
                self._check_await(parts)
            case "expression_statement":
                self._starts.add(node.start_byte)
            case "formal_parameters":
                for index, part in enumerate(parts):
                    if part.child_count and part.children[0].type == "this":
                        after = 2 if index + 1 < len(parts) and parts[index + 1].type == "," else 1
                        for erased in parts[index : index + after]:
                            self._blank(erased)
                        return parts[:index] + parts[index + after :]
            case "method_definition" | "public_field_definition" if parent == "class_body":
                # Text before a modifier would continue with the name after it
                self._semicolons.add(node.start_byte)
            case _:
                pass
        return parts

    def _check_await(self, parts: list[TypeScriptNode]) -> None:
        """Record operators that the parser ranks otherwise than everyone else does."""
        left, operator = parts[0], parts[1].type
        if left.type == "await_expression" and operator in _ABOVE_AS:
            self._await_starts[left.end_byte] = left.start_byte

    def _keep_arrow_on_line(self, node: TypeScriptNode) -> None:
        """Move brackets around line ends in the types of an arrow function, where JavaScript allows none."""
        parameters = node.child_by_field_name("parameters")
        result, types = node.child_by_field_name("return_type"), node.child_by_field_name("type_parameters")
        arrow = next((child for child in node.children if child.type == "=>"), None)
        if parameters is None or arrow is None:
            return
        if result is not None and "\n" in self.script[parameters.end_byte : arrow.start_byte]:
            self.replacements[parameters.end_byte - 1] = " "
            self.replacements[result.end_byte - 1] = ")"
        if types is not None and "\n" in self.script[types.start_byte : parameters.start_byte]:
            self.replacements[types.start_byte] = "("
            self.replacements[parameters.start_byte] = " "

    def _leave(self, node: TypeScriptNode, shape_start: int) -> None:
        if len(self.shape) == shape_start + 1:
            self.shape.pop()  # the node is empty now
        else:
            self.shape.append(("end", -1))
        if node.type in _ENDED_BY_LINE and node.children[-1].type != ";":
            start = self._erased_start.get(node.end_byte)
            if start is not None:
                self.replacements[start] = ";"


def _row(node: TypeScriptNode, parent: str) -> TypeScriptRow:
    """The row for `node`, a part of a node of kind `parent`."""
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
