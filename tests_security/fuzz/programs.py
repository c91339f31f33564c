"""Programs in AgentScript, generated: over the whole language, nearly all of them accepted, most ending with a value.

`program(choices)` writes one; `programs()` is the Hypothesis strategy. A program records in `out` what it works out
and in which order (`t(number, value)`), and returns that, so that two ways of running it can be compared. The numbers
also mark places in the text: no two are the same.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from tests_security.fuzz import expressions, statements
from tests_security.fuzz.choices import Choices
from tests_security.fuzz.mutations import mutate
from tests_security.fuzz.writer import Writer, render

_HEAD: Final = (
    "const out = [];\n"
    "const t = (n, v) => { if (out.length < 400) out.push(n); return v };\n"
    "const tag = (s, ...v) => s.raw.join('|') + v.length;\n"
)


def program(choices: Choices, *, odd: bool = True) -> str:
    """A program over the whole language; `odd`: now and then with strange gaps and line ends."""
    strange = odd and choices.once_in(3)
    writer = Writer(choices)
    writer.reserve("out", "t", "tag")
    form = choices.below(8)
    body = statements.statements(writer, most=8)
    end = expressions.anything(writer)
    variables = ", ".join(writer.variables("number", "text", "array", "object", "any")[:6])
    if form == 6:
        body = f"async () => {{ {_HEAD} {body}\nreturn [out, {end}, {variables}] }}"
    elif form == 7:
        body = f"{_HEAD}{body}\n[out, {end}, {variables}]"
    else:
        body = f"{_HEAD}{body}\nreturn [out, {end}, {variables}]"
    return render(body, choices, odd=strange)


def hostile_program(choices: Choices) -> str:
    """A program with a few hostile changes to its text."""
    return mutate(program(choices), choices)


def bytes_for_programs(smallest: int = 250, largest: int = 500) -> st.SearchStrategy[bytes]:
    """The bytes a program is made of; zeros are the simplest choices, so that shrinking works with any length."""
    return st.binary(min_size=smallest, max_size=largest)


def programs() -> st.SearchStrategy[str]:
    """Programs over the whole language."""
    return bytes_for_programs().map(lambda data: program(Choices(data)))


def hostile_programs() -> st.SearchStrategy[str]:
    """Programs with hostile changes."""
    return bytes_for_programs().map(lambda data: hostile_program(Choices(data)))
