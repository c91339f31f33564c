"""Hostile changes to a program's text: what a reader of JavaScript may read in another way than its neighbour."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tests_security.fuzz.choices import Choices
from tests_security.fuzz.tokens import ASSIGNING, BINARY, BREAKS, GAPS, HOSTILE, KEYS, NUMBERS, REGEXES, STRINGS, UNARY

_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_TOKEN = re.compile(r"[\w$\\#]+|\s+|[^\w\s]", re.ASCII)
_MOST_BYTES: Final = 64 * 1024

Change = Callable[[str, Choices], str]


def mutate(script: str, choices: Choices) -> str:
    """`script` with one change, now and then with more."""
    for _ in range(choices.pick([1, 1, 1, 2, 3])):
        script = choices.pick(_HARD if choices.once_in(3) else _SOFT)(script, choices)
    return script[:_MOST_BYTES]


def _insert(script: str, choices: Choices) -> str:
    at = _edge(script, choices)
    return script[:at] + choices.pick(HOSTILE) + script[at:]


def _insert_apart(script: str, choices: Choices) -> str:
    at = _edge(script, choices)
    return f"{script[:at]} {choices.pick(HOSTILE)} {script[at:]}"


def _replace(script: str, choices: Choices) -> str:
    start, end = _span(script, choices, 1)
    return script[:start] + choices.pick(HOSTILE) + script[end:]


def _delete(script: str, choices: Choices) -> str:
    start, end = _span(script, choices, 1 + choices.below(3))
    return script[:start] + script[end:]


def _double(script: str, choices: Choices) -> str:
    start, end = _span(script, choices, 1 + choices.below(12))
    return script[:end] + script[start:end] + script[end:]


def _swap(script: str, choices: Choices) -> str:
    start, middle = _span(script, choices, 1 + choices.below(4))
    following = _TOKEN.match(script, middle)
    end = middle if following is None else following.end()
    return script[:start] + script[middle:end] + script[start:middle] + script[end:]


def _rename(script: str, choices: Choices) -> str:
    """One name becomes another, or is written with an escape."""
    matches = list(_NAME.finditer(script))
    if not matches:
        return script
    name = choices.pick(matches)
    at = name.start() + choices.below(len(name[0]))
    letter = ord(script[at])
    new = choices.pick(
        [
            script[name.start() : at] + f"\\u{letter:04x}" + script[at + 1 : name.end()],
            script[name.start() : at] + f"\\u{{{letter:x}}}" + script[at + 1 : name.end()],
            choices.pick(HOSTILE),
            choices.pick(matches)[0],
        ]
    )
    return script[: name.start()] + new + script[name.end() :]


def _line_ends(script: str, choices: Choices) -> str:
    return script.replace("\n", choices.pick(["\r\n", "\n", " ", "\r", "\u2028", "\u2029", "\n\n"]))


def _no_semicolons(script: str, choices: Choices) -> str:
    return re.sub(r";(?=\s|$)", choices.pick(["", "\n", " "]), script)


def _tight(script: str, choices: Choices) -> str:
    """Without the blanks that stand beside a sign."""
    del choices
    return re.sub(r"(?<=[^\w\s$]) +| +(?=[^\w\s$])", "", script)


def _cut(script: str, choices: Choices) -> str:
    return script[: _edge(script, choices)]


def _gap(script: str, choices: Choices) -> str:
    at = _edge(script, choices)
    return script[:at] + choices.pick([*GAPS, *BREAKS]) + script[at:]


def _another(pattern: re.Pattern[str], others: tuple[str, ...]) -> Change:
    """A change of one thing that `found` finds into another."""

    def change(script: str, choices: Choices) -> str:
        places = [place.span() for place in pattern.finditer(script)]
        if not places:
            return script
        start, end = choices.pick(places[-200:])
        return script[:start] + choices.pick(others) + script[end:]

    return change


_SOFT: Final[tuple[Change, ...]] = (
    *(_gap, _gap, _rename, _line_ends, _no_semicolons, _tight),
    _another(re.compile(r"'[^'\\\n]*'"), (*STRINGS, *REGEXES, "`${0}`")),
    _another(re.compile(r"(?<![\w.'])\d[\w.]*"), (*NUMBERS, *REGEXES)),
    _another(
        re.compile(r"(?<= )(?:[-+*/%<>&|^]|[=!]==?|>>>?|<<|\*\*)(?= )"), (*BINARY, "/ 1 /", "/1/g*", "\n/", "/\n")
    ),
    _another(re.compile(r"(?<= )(?:[-+*/%&|^?]|\*\*|>>>?|<<|&&|\|\|)?=(?= )"), ASSIGNING),
    _another(re.compile(r"(?<=\.)[A-Za-z]\w*"), KEYS),
    _another(
        re.compile(r"(?<=\()(?=[\w'(])"), (*UNARY, "await ", "yield ", "async ", "...", "x => ", "/a/g, ", "`${1}` + ")
    ),
    _another(re.compile(r"; ?"), ("", "\n", ",", ";;", "\n;", "\n/ 2 /", "\n++", "\n(", "\n[", "\n`")),
)
"""Changes after which a program often is one still."""
_HARD: Final[tuple[Change, ...]] = (
    *(_insert, _insert_apart, _replace, _delete, _double, _swap, _rename, _insert, _insert_apart, _replace, _rename),
    _cut,
)
"""Changes after which a program seldom is one."""


def _edge(script: str, choices: Choices) -> int:
    """Where a token begins."""
    start, _ = _span(script, choices, 1)
    return start


def _span(script: str, choices: Choices, count: int) -> tuple[int, int]:
    """Where some `count` neighbouring tokens begin and end."""
    if not script:
        return 0, 0
    about = choices.below(min(len(script), 65_536))
    first = script.rfind("\n", 0, about) + 1
    start = first
    for token in _TOKEN.finditer(script, first):
        start = token.start()
        if token.end() > about:
            break
    end = start
    for _ in range(count):
        token = _TOKEN.match(script, end)
        if token is None:
            break
        end = token.end()
    return start, end
