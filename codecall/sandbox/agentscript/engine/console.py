"""The console lines of one script, of any language: as many and as long as its preset allows."""

from __future__ import annotations

from codecall.sandbox.wire import Limits, utf8_length


class Console:
    """What a script has printed and the worker has not sent yet.

    Args:
        limits: The preset's numbers.
    """

    def __init__(self, limits: Limits) -> None:
        self.lines: list[str] = []
        """Lines since they were last drained."""
        self.dropped = 0
        """Lines that had no room."""
        self._limits = limits
        self._count = 0
        self._bytes = 0
        self._full = False

    def drain(self) -> list[str]:
        """The lines since the last call."""
        lines, self.lines = self.lines, []
        return lines

    def add(self, text: str) -> bool:
        """Keep a line, or as much of it as there is room for; whether there may be room for another."""
        limits, size = self._limits, utf8_length(text)
        room = limits.max_console_bytes - self._bytes
        whole = size <= room
        if not whole:
            mark = f"… [a line of {size} bytes, cut]"
            text = text.encode()[: max(0, room - utf8_length(mark))].decode(errors="ignore")
            text += mark if text else ""
        if self._full or self._count >= limits.max_console_calls or not (whole or text):
            self._full = True
            self.dropped += 1
            return False
        self._full = not whole
        self._count += 1
        self._bytes += utf8_length(text)
        self.lines.append(text)
        return whole
