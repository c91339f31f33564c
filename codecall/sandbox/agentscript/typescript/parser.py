"""The TypeScript parser, within bounds. Its tree decides only which characters become blanks: what is left is
validated, and that is what runs.

The parser is made for editors and reads broken programs too. That takes time and memory that grow with the square of
the length and more, in single steps that nothing can interrupt; so parsing stops at the first error of a longer script.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import tree_sitter
import tree_sitter_typescript

MAX_BROKEN_LENGTH: Final = 4 * 1024
"""Longest script that is parsed to its end although it is broken, in characters. The worst known take 0.1 s and 20 MiB;
one of 64 KiB would take 20 s and 5 GiB."""

MAX_SECONDS: Final = 1.0
"""Most processor time to parse one text. An honest script of 64 KiB takes about 0.4 s."""
MAX_SHORT_SECONDS: Final = 0.2
"""The same, for one that is parsed although it is broken: an honest one takes 0.004 s."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_END: Final = b"\n" + b";" * 400
"""Appended, so that what is left open at the end of the script is an error before the end of the text: there it would
be too late. It is longer than what the parser reads between two looks at the clock."""
_CHUNK: Final = 64 * 1024

_LANGUAGE: Final = tree_sitter.Language(tree_sitter_typescript.language_typescript())

_OPERATIONS: Final = frozenset(
    {"await_expression", "binary_expression", "ternary_expression", "unary_expression", "yield_expression"}
    | {"assignment_expression", "augmented_assignment_expression", "arrow_function", "update_expression"}
)
"""Types of expressions that need parentheses around them to be called."""

_DECLARE_TYPES: Final = frozenset({"interface_declaration", "type_alias_declaration"})

TypeScriptNode = tree_sitter.Node
"""A node of the parser's tree."""


class SyntaxTree(NamedTuple):
    """The parser's tree of a script."""

    root: TypeScriptNode
    """Its offsets are the script's; nodes that begin after the end of the script belong to the appended text."""
    complete: bool
    """Whether all of the script could be parsed."""


def parse(script: str) -> SyntaxTree | None:
    """Parse `script` as TypeScript; None where that takes too long, or where the script is long and broken."""
    # One byte for each character, so that its offsets are characters; which letter a letter is does not matter to it.
    source = _BEYOND_ASCII.sub("x", script).encode("ascii") + _END
    short = len(script) <= MAX_BROKEN_LENGTH
    deadline = time.thread_time() + (MAX_SHORT_SECONDS if short else MAX_SECONDS)
    broken = False

    def on_log(_: tree_sitter.LogType, message: str) -> None:
        # No way to continue without an error is left
        nonlocal broken
        broken = broken or message.startswith("resume")

    def should_stop(*_: object) -> bool:
        return broken or time.thread_time() > deadline

    parser = tree_sitter.Parser(_LANGUAGE, logger=None if short else on_log)
    try:
        tree = parser.parse(lambda offset, _: source[offset : offset + _CHUNK], progress_callback=should_stop)
    except ValueError:
        return None
    return SyntaxTree(tree.root_node, complete=not tree.root_node.has_error)


def misranked_nodes(script: str, root: TypeScriptNode) -> Iterator[TypeScriptNode]:
    """Nodes that the parser ranks below all operators although they bind most tightly: the `!` of non-null assertions,
    and the type arguments of calls after operators, as in `1 + f<T>(x)`."""
    stack = [root]
    while stack:
        node = stack.pop()
        parts = node.children
        stack.extend(parts)
        if node.start_byte >= len(script):
            continue
        if node.type == "non_null_expression" and parts[-1].type == "!":
            yield parts[-1]
        elif node.type == "call_expression" and parts[0].type in _OPERATIONS:
            yield from (part for part in parts if part.type == "type_arguments")


def comparison_offsets(script: str, root: TypeScriptNode) -> list[int]:
    """The offsets of the `<` of comparisons, in order."""
    offsets: list[int] = []
    stack = [root]
    while stack:
        node = stack.pop()
        parts = node.children
        stack.extend(parts)
        if node.type == "binary_expression" and node.start_byte < len(script):
            offsets.extend(part.start_byte for part in parts if part.type == "<")
    return sorted(offsets)


def holds_only_types(namespace: TypeScriptNode) -> bool:
    """Whether a namespace holds only types, so that it produces no code."""
    body = namespace.child_by_field_name("body")
    members = [child for child in body.named_children if child.type != "comment"] if body else []
    declarations = [
        child.child_by_field_name("declaration") if child.type == "export_statement" else child for child in members
    ]
    return bool(members) and all(child is not None and child.type in _DECLARE_TYPES for child in declarations)
