"""What a session leaves for the next start: answers that will still be right, with all that they depend on.

Answers are noted as they are given and written when the session has ended, for by then catalogs may have been written
that answers came from. An answer that came from other listings than are in force then is left out.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from codecall.gateway.gateway import Gateway
from codecall.gateway.warm_start.door import OPENINGS, Question
from codecall.gateway.warm_start.record import keep, place, recall, regular

PACKAGES: Final = ("codecall", "fastmcp", "mcp")
"""Packages whose version decides what is answered."""

_VARIABLE: Final = re.compile(rb"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")


class Recording:
    """The record of one gateway over stdio.

    Args:
        gateway: Whose answers are noted.
        words: The words behind `codecall serve`, by which the next start finds the record.
        files: Files that answers depend on, whether there or not.
    """

    def __init__(self, gateway: Gateway, words: Sequence[str], files: Iterable[Path]) -> None:
        self._gateway = gateway
        self._path = place(words) if gateway.options.cache_dir is not False else None
        self._files = [*files, Path(".env").absolute()]  # FastMCP's settings
        self._answers = recall(self._path)
        self._came_of: dict[str, tuple[str, str]] = {}

    def note(self, question: Question, answer: str | None) -> None:
        """The server has answered; None: it has refused."""
        self._answers.pop(question.key, None)
        if answer is not None:
            self._answers[question.key] = answer
            self._came_of[question.key] = question.method, self._listings(question.method)

    def write(self) -> None:
        """Keep what will be right at the next start, if anything of it is new. Reads and writes files."""
        if self._path is None or not self._came_of or not self._known():
            return
        for key, (method, listings) in self._came_of.items():
            if key in self._answers and listings != self._listings(method):
                del self._answers[key]
            elif key in self._answers and method in OPENINGS:
                self._answers[key] = _instructing(self._answers[key], self._gateway.server.instructions)
        files = [str(file) for file in (*self._files, *self._gateway.cache_files)]
        keep(self._path, self._answers, files=files, packages=_installed(), named=_referenced(self._files))

    def _known(self) -> bool:
        """Whether a next start would know of all servers what it has to know."""
        always = self._gateway.options.expose.mode == "always"
        return always or all(provider.is_listed for provider in self._gateway.providers.values())

    def _listings(self, method: str) -> str:
        """The same as long as servers that list other things would not change an answer to that method."""
        exposed = self._gateway.exposure.mode
        independent = method not in ("resources/list", "resources/templates/list", "prompts/list")
        if method in OPENINGS or method == "ping" or (independent and exposed == "meta_tools"):
            return "" if method != "tools/list" else exposed
        return self._gateway.digest


def _instructing(answer: str, instructions: str | None) -> str:
    """An answer to an opening with the instructions that it would have now."""
    result: dict[str, Any] = json.loads(answer)
    if instructions is None:
        result.pop("instructions", None)
    elif result.get("instructions") != instructions:
        result["instructions"] = instructions
    else:
        return answer
    return json.dumps(result, separators=(",", ":"), ensure_ascii=False)


def _installed() -> Iterable[str]:
    """A file of each package that is another, or gone, when another version is installed."""
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found = distribution(name)
            yield str(found.locate_file(f"{name}-{found.version}.dist-info/METADATA"))


def _referenced(files: Iterable[Path]) -> set[str]:
    """The environment variables that configurations name."""
    names: set[str] = set()
    for file in files:
        with contextlib.suppress(OSError):
            names.update(name.decode() for name in _VARIABLE.findall(regular(str(file)) or b""))
    return names
