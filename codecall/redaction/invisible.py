"""Characters nobody sees: controls, separators, marks that reorder text, halves of pairs."""

from __future__ import annotations

from collections.abc import Callable


def code_point_escape(character: str) -> str:
    """The escape `\\u{200B}`; a blank for a tab."""
    return " " if character == "\t" else f"\\u{{{ord(character):X}}}"


def json_escape(character: str) -> str:
    """The escape `\\u200b` of JSON and JavaScript, one for each UTF-16 unit."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def escape_invisible(text: str, *, keep: str = "", escape: Callable[[str], str] = code_point_escape) -> str:
    """`text` with every character that does not print written as an escape, but those in `keep`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else escape(char) for char in text)
