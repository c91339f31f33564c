"""How a script reads a kept result, as hints write it in each language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec


@dataclass(frozen=True, slots=True)
class ReadingSyntax:
    """The forms of one language; `{}` stands for what differs."""

    language: str
    function: str
    wait: str
    """What stands before a call so that its value is had."""
    parts: str
    """What is read, beside the handle."""
    part: str
    """One of these: its name and its value."""
    start: str
    """What the number of the first item is called."""
    operand: str
    """A call that something is done with."""
    beginning: str
    """The first characters of a text: the text, and how many."""
    lines: str
    """How many lines a text has."""
    length: str
    """How many items an array has."""
    names: str
    """The first names of the members of an object: the object as an operand, and how many."""

    def call(self, handle: str, **parts: int | str | None) -> str:
        """The call that reads all of a result, or the parts that are not None."""
        arguments = {
            self.start if name == "start" else name: value for name, value in parts.items() if value is not None
        }
        texts = [self.part.format(name, msgspec.json.encode(value).decode()) for name, value in arguments.items()]
        return f"{self.function}('{handle}'{self.parts.format(', '.join(texts)) if texts else ''})"

    def value(self, handle: str, **parts: int | str | None) -> str:
        """What such a call gives, for something to be done with it."""
        return self.operand.format(self.wait + self.call(handle, **parts))


JAVASCRIPT: Final = ReadingSyntax(
    language="JavaScript",
    function="getResult",
    wait="await ",
    parts=", {{{}}}",
    part="{}: {}",
    start="from",
    operand="({})",
    beginning="{}.slice(0, {})",
    lines="{}.split('\\n').length",
    length="{}.length",
    names="Object.keys{}.slice(0, {})",
)

STARLARK: Final = ReadingSyntax(
    language="Starlark",
    function="get_result",
    wait="",
    parts=", {}",
    part="{}={}",
    start="start",
    operand="{}",
    beginning="{}[:{}]",
    lines='len({}.split("\\n"))',
    length="len({})",
    names="{}.keys()[:{}]",
)
