"""What is wrong where a script stops being JavaScript: line ends and quotes in another spelling, brackets left open,
operators that need parentheses, words of the language as names.

Read only after a failure, over the text before the place: a hint may be wrong, and nothing else follows from it.
"""

from __future__ import annotations

import re
from typing import Final

from codecall.sandbox.lines import LineTable

ESCAPED_LINES: Final = (
    r"`\n` stands in the script as two characters where a line should end: it was escaped twice. Send real line ends, "
    r"in JSON `\n` and not `\\n`."
)
ESCAPED_QUOTES: Final = (
    r"A backslash stands before a quote that begins or ends a text: the script was escaped twice. Send the quote "
    r"alone, in JSON `\"` and not `\\\"`."
)
TYPOGRAPHIC: Final = "`{found}` is a typographic quote: write `\"` or `'` around texts."
SHORTENED: Final = "`{found}` stands for something left out: write the script in full."
TWO_DOTS: Final = (
    "`..` is not written here: three dots spread a list or an object, `[...items]`; one leads to a member."
)
QUOTE_INSIDE: Final = (
    "The text ends at the quote before this place: a quote of the same kind inside a text is written with a backslash, "
    r"`'it\'s'`, or the text stands in other quotes."
)
CLOSES_NOTHING: Final = "`{found}` closes nothing: leave it out, or look for what should open it."
NOT_CLOSED: Final = "The `{opened}` at {place} is not closed before this `{found}`: `{closing}` is missing."
NOT_CLOSED_AT_END: Final = "The `{opened}` at {place}, or one inside it, is not closed: `{closing}` is missing."
PERHAPS_OPEN: Final = (
    "A comma or an operator is missing before this place, or `{closing}` for the `{opened}` at {place}."
)
ENDED_RETURN: Final = "A line break ends `return`: begin its value on the same line, `return { … }`."
ARROW_OBJECT: Final = (
    "Braces after `=>` hold statements: an object that a function returns stands in brackets, `=> ({ … })`."
)
SEMICOLON: Final = "Commas stand between the entries of an object: write `,` for this `;`."
MIXED_OPERATORS: Final = (
    "`??` beside `{logical}` needs parentheses: `(a {first} b) {second} c`, or `a {first} (b {second} c)`."
)
SIGNED_POWER: Final = "A sign, or a word such as `typeof`, needs parentheses before `**`: `(-a) ** b`, or `-(a ** b)`."
WORD_DECLARED: Final = "`{found}` is a word of the language and no name: choose another, `{declares} {found}_`."
WORD_IN_OBJECT: Final = "`{found}` is a word of the language and no name: write `{{ {found}: {found}_ }}`."
TEMPLATE: Final = "The template that begins at {place} is not closed: a backtick is missing."
"""Hints, with what was found and where."""

COMMENT_WITH_LINES: Final = re.compile(r"//[^\n]*\\n")
"""A comment that goes on over a line end in another spelling, and with it what should be code."""

RETURN_AND_LINE: Final = re.compile(
    r"return(?:[^\S\n]|/\*(?:[^*\n]|\*(?!/))*+\*/)*+(?://[^\n]*+)?\n(?:\s|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+\(?"
)
"""A `return` that a line break ends, up to what stands behind it."""

_RETURN_OF_OBJECT: Final = re.compile(r"\b" + RETURN_AND_LINE.pattern + r"\{[^{};]*\Z")

_ARROW_AND_KEY: Final = re.compile(
    r"""=>\s*+\{\s*+(?:[\w$]++\s*+:[^{};]*+|"[^"\n]*+"\s*+|'[^'\n]*+'\s*+|\[[^\[\]{};]*+\]\s*+)\Z"""
)
_ARROW_AND_SPREAD: Final = re.compile(r"=>\s*+\{\s*+(?:[\w$]++\s*+:[^{};]*,\s*)?\Z")
"""The function of an arrow that is meant to return an object, up to a `:` and to a spread in it."""

_OPERATOR: Final = re.compile(r"(?:\?\?|\|\||&&)(?!=)|\*\*")
_OPERAND: Final = re.compile(r"([\w$]+|[)\]}\"'`])\s*\Z")
"""The end of what stands before an operator."""
_DECLARES: Final = re.compile(r"\b(const|let|var|function|class)[^\S\n]+\Z")
_WORD: Final = re.compile(r"(?!(?:class|const|function|let|var)\s+[\w$])[a-z]+\b")
_WORD_IN_OBJECT: Final = re.compile(
    r"[{,]\s*(break|case|catch|class|const|continue|default|do|else|enum|export|extends|false|finally|for|function|if"
    r"|import|in|new|null|super|switch|this|true|try|var|while|with)\s*\Z"
)

_KEY: Final = r"""(?:[\w$]++|"[^"\n]*+"|'[^'\n]*+')\s*+"""
_OBJECT: Final = re.compile(rf"\{{\s*+(?:\.\.\.|{_KEY}[:,])")
_ENTRY_OR_END: Final = re.compile(rf"\s*+(?:\.\.\.|\}}|{_KEY}:)")

_QUOTES: Final = "“”„‟‘’‚‛«»‹›´"
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "`": "`"}

_TOKEN: Final = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
    r"""|(?P<slash>/)|(?P<mark>[()\[\]{}`])|(?P<word>[\w$]++)|(?P<other>[^\s\w$])""",
    re.DOTALL,
)
_REGEX: Final = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\])++/\w*")
_TEMPLATE: Final = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*+(?:(?P<end>`)|\$\{)", re.DOTALL)
_BEFORE_REGEX: Final = re.compile(r"[=(,:\[!&|?{};+\-*%<>~^]|return|typeof|case")


def hint_at(script: str, offset: int, message: str) -> str | None:
    """The hint for what stands at `offset`, where a script stops being JavaScript; None where nothing can be said of
    it."""
    found = script[offset : offset + 1]
    before = script[max(0, offset - 1_000) : offset]
    around = script[max(0, offset - 1) : offset + 2]
    if (escaped := re.search(r"\\([nrt\"'`])", around)) is not None:
        return ESCAPED_LINES if escaped[1] in "nrt" else ESCAPED_QUOTES
    if found and found in _QUOTES:
        return TYPOGRAPHIC.format(found=found)
    object_hint = _object_hint(before, script[offset : offset + 4])
    if object_hint is None and (found == "…" or script.startswith("...", offset)):
        return SHORTENED.format(found=found if found == "…" else "...")
    if object_hint is None and ".." in script[max(0, offset - 1) : offset + 2]:
        return TWO_DOTS
    if message.startswith("Unexpected identifier") and before.endswith(("'", '"')):
        return QUOTE_INSIDE
    return object_hint or _operator_hint(script, offset, before) or _word_hint(script, offset, before, message)


def _operator_hint(script: str, offset: int, before: str) -> str | None:
    """The hint for an operator that stands behind an operand, and still is not taken."""
    operator, operand = _OPERATOR.match(script, offset), _OPERAND.search(before)
    if operator is None or operand is None or _BEFORE_REGEX.fullmatch(operand[1]) is not None:
        return None
    second = operator[0]
    if second == "**":
        return SIGNED_POWER
    others = [first for first in _OPERATOR.findall(before) if first != "**" and (first == "??") != (second == "??")]
    if not others:
        return None
    logical = others[-1] if second == "??" else second
    return MIXED_OPERATORS.format(logical=logical, first=others[-1], second=second)


def _word_hint(script: str, offset: int, before: str, message: str) -> str | None:
    """The hint for a word of the language where a name is declared."""
    word, declares = _WORD.match(script, offset), _DECLARES.search(before)
    if word is not None and declares is not None and message.startswith("Unexpected"):
        return WORD_DECLARED.format(found=word[0], declares=declares[1])
    listed = _WORD_IN_OBJECT.search(before) if script[offset : offset + 1] in (",", "}") else None
    return WORD_IN_OBJECT.format(found=listed[1]) if listed is not None else None


def _object_hint(before: str, after: str) -> str | None:
    """The hint for an object that is meant where a block or nothing stands."""
    if after.startswith(":"):
        if _ARROW_AND_KEY.search(before) is not None:
            return ARROW_OBJECT
        return ENDED_RETURN if _RETURN_OF_OBJECT.search(before) is not None else None
    is_spread = re.fullmatch(r"\.\.\.[\w$(]", after) is not None
    return ARROW_OBJECT if is_spread and _ARROW_AND_SPREAD.search(before) is not None else None


def bracket_hint(script: str, offset: int, message: str) -> str | None:
    """The hint for a bracket that is open at `offset`, or that closes nothing; None where there is none."""
    found = script[offset : offset + 1]
    opened = _open_brackets(script, offset)
    if not opened:
        return CLOSES_NOTHING.format(found=found) if found and found in ")]}" else None
    bracket, start = opened[-1]
    line, column = LineTable(script).position(start)
    fields = {
        "found": found,
        "opened": bracket,
        "closing": _CLOSING[bracket],
        "place": f"line {line}, column {column}",
    }
    if bracket == "`":
        return TEMPLATE.format_map(fields)
    if offset >= len(script):
        return NOT_CLOSED_AT_END.format_map(fields)
    in_block = found == ";" and bracket == "{" and _OBJECT.match(script, start) is None
    if found == ";" and bracket == "{" and not in_block and _ENTRY_OR_END.match(script, offset + 1) is not None:
        return SEMICOLON
    if found in ")]};":
        return None if in_block or found == fields["closing"] else NOT_CLOSED.format_map(fields)
    # Between the braces of a block anything may be wrong, and of a second text the message says enough.
    is_open = bracket in "([" and re.match("Unexpected (?!string|template)", message) is not None
    return PERHAPS_OPEN.format_map(fields) if is_open else None


def _open_brackets(script: str, end: int) -> list[tuple[str, int]]:
    """The brackets and templates that are open before `end`, with their offsets, the outermost first."""
    opened: list[tuple[str, int]] = []
    at, previous = 0, ";"
    while (token := _TOKEN.search(script, at, end)) is not None:
        at, text = token.end(), token[0]
        if token["skip"]:
            previous = previous if text.startswith("/") else text
            continue
        if token["slash"] and _BEFORE_REGEX.fullmatch(previous) and (regex := _REGEX.match(script, token.start(), end)):
            at, text = regex.end(), "/"
        elif text == "`" or (text == "}" and len(opened) > 1 and opened[-2][0] == "`" and opened[-1][0] == "{"):
            # In a template again: up to its end, or to the next value in it.
            opened.append((text, token.start())) if text == "`" else opened.pop()
            if (part := _TEMPLATE.match(script, at, end)) is None:
                return opened
            at = part.end()
            if part["end"]:
                opened.pop()
            else:
                opened.append(("{", at - 1))
        elif text in "([{":
            opened.append((text, token.start()))
        elif text in ")]}" and opened and _CLOSING[opened[-1][0]] == text:
            opened.pop()
        previous = text
    return opened
