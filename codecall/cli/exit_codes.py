"""The exit codes of every command, as data: `docs/reference/cli.md` and `codecall --help` print this table."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNAVAILABLE: Final = 3
BUG: Final = 70
INTERRUPTED: Final = 130
NO_READER: Final = 141
TERMINATED: Final = 143

MEANINGS: Final[dict[int, str]] = {
    OK: "what was asked for is done",
    FAILED: "it was done and the answer is no: a script failed, a check found something, something is unhealthy",
    USAGE: "wrong arguments or configuration, a file that cannot be read: nothing was done",
    UNAVAILABLE: "a server could not be started or reached, or did not answer in time",
    BUG: "a fault of CodeCall itself; the traceback is on stderr",
    INTERRUPTED: "Ctrl-C",
    NO_READER: "whoever read the output went away before its end",
    TERMINATED: "SIGTERM",
}
"""Every exit code, and what it says."""

BY_CODE: Final[dict[str, int]] = {
    "INVALID_OPTIONS": USAGE,
    "USAGE": USAGE,
    "NO_CONFIGURATION": USAGE,
    "UNTRUSTED_CONFIGURATION": USAGE,
    "CANNOT_READ": USAGE,
    "CANNOT_WRITE": USAGE,
    "EXISTS_ALREADY": USAGE,
    "NOT_FOUND": FAILED,
    "NOTHING_FOUND": FAILED,
    "INTERRUPTED": INTERRUPTED,
    "BUG": BUG,
    "SERVER_UNAVAILABLE": UNAVAILABLE,
    "SERVER_TIMEOUT": UNAVAILABLE,
}
"""Error codes of commands, and those of scripts and tools that do not end in `FAILED`."""


COMMAND_CODES: Final[dict[str, str]] = {
    "USAGE": "The command line is wrong, or there is nobody to ask.",
    "NO_CONFIGURATION": "There is no configuration, and no servers are named.",
    "UNTRUSTED_CONFIGURATION": "A folder's configuration is not trusted: `codecall trust`, or `--config`.",
    "CANNOT_READ": "A file or folder cannot be read.",
    "CANNOT_WRITE": "A file, or the answer, cannot be written.",
    "EXISTS_ALREADY": "What would be written is there already.",
    "NOT_FOUND": "There is nothing of that name.",
    "NOTHING_FOUND": "There is nothing to work on.",
    "NOT_REPLAYABLE": "A run cannot be made again from its record.",
    "INTERRUPTED": "Ctrl-C ended the command.",
    "BUG": "A fault of CodeCall itself; the traceback is on stderr.",
}
"""The error codes of commands, and when they come; scripts and tools have theirs in `codecall.errors`."""


def exit_for(code: str | None) -> int:
    """The exit code of a command that ended with an error of this code; of one that ended well for None."""
    return OK if code is None else BY_CODE.get(code, FAILED)
