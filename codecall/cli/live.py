"""What a run says while it lasts, on stderr: its console, the logs of servers, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence

from codecall.cli.gateways import Ear
from codecall.cli.printing import Working


class Live(Ear):
    """Shows it.

    Args:
        working: Where.
    """

    def __init__(self, working: Working) -> None:
        self._working = working
        self._lines = 0

    def said(self, line: str) -> None:
        """See `Ear.said`."""
        self._lines += 1
        self._working.say(line, "")

    def logged(self, level: str, server: str, text: str) -> None:
        """See `Ear.logged`. What is less than a warning is the server's own business."""
        if level not in ("debug", "info", "notice"):
            self._working.say(f"{server or 'server'}: {level}: {text}", "yellow")

    def progressed(self, message: str) -> None:
        """See `Ear.progressed`."""
        self._working.at(0, None, message)

    def rest(self, lines: Sequence[str]) -> None:
        """What of the script's lines came with its answer only."""
        for line in lines[self._lines :]:
            self._working.say(line, "")
