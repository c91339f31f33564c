"""Questions at the terminal, which nothing answers that was typed before they were shown."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO

from rich import prompt
from rich.console import Console
from rich.text import TextType


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
