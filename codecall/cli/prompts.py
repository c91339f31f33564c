"""Questions at the terminal, which nothing answers that was typed before they were shown."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO

from rich import prompt
from rich.console import Console
from rich.text import Text, TextType

from codecall.cli.output import Output, escape_unprintable
from codecall.errors import CodeCallError


def _drop_typed_ahead() -> None:
    """Drop what was typed and not read yet."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    import termios

    with suppress(OSError, ValueError, termios.error):  # whatever is no terminal has nothing to drop
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


class Prompt(prompt.Prompt):
    """A question for a text."""

    @classmethod
    def get_input(cls, console: Console, prompt: TextType, password: bool, stream: TextIO | None = None) -> str:
        """See `PromptBase`."""
        _drop_typed_ahead()
        return super().get_input(console, prompt, password, stream)


class Confirm(prompt.Confirm):
    """A question for yes or no."""

    @classmethod
    def get_input(cls, console: Console, prompt: TextType, password: bool, stream: TextIO | None = None) -> str:
        """See `PromptBase`."""
        _drop_typed_ahead()
        return super().get_input(console, prompt, password, stream)


def somebody_is_there(output: Output) -> bool:
    """Whether there is somebody at a terminal to ask."""
    return not output.as_json and sys.stdin.isatty() and output.err.is_terminal


def confirm(output: Output, question: str, *, hint: str) -> bool:
    """Ask the person at the terminal whether a file is written; who closes the input says no. Not for the event loop,
    in which Ctrl-C would end nothing.

    Args:
        output: Where the question goes.
        question: What is asked.
        hint: What to do where no terminal can be asked.

    Raises:
        CodeCallError: there is no terminal to ask.
    """
    if not somebody_is_there(output):
        raise CodeCallError("There is nobody to ask whether to write it", code="USAGE", hint=hint)
    try:
        return Confirm.ask(Text(escape_unprintable(question)), console=output.err, default=True)
    except EOFError:
        output.note("")  # the line of the question ends
        return False
