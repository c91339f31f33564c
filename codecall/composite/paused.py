"""Runs that wait for answers which come with later requests: what they have done is kept in between."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from codecall.composite.elicitation import Question
from codecall.composite.failures import WorkflowError
from codecall.composite.run import RunState

MAX_PAUSED: Final = 1_000
"""Runs that may wait for answers at the same time."""
MAX_PAUSED_OF_CALLER: Final = 20
"""Those of one caller."""
MAX_PAUSED_CHARS: Final = 256 * 1024 * 1024
"""Characters of all that they have done."""


@dataclass(slots=True)
class PausedRun:
    """A run that waits for answers."""

    run_id: str
    owner: str
    """Key of its caller."""
    source: str
    """Its definition, which must be the same when it goes on."""
    arguments: str
    """Its arguments as JSON, the same."""
    state: RunState
    questions: Mapping[str, Question]
    chars: int
    """Characters of what it holds."""
    asked: float
    """When the questions were asked, by `time.monotonic`."""

    @property
    def expires(self) -> float:
        """When nobody can answer any more."""
        return self.asked + max(question.timeout_s for question in self.questions.values())


class PausedRuns:
    """The runs of this process that wait for answers."""

    def __init__(self) -> None:
        self._runs: dict[str, PausedRun] = {}

    def keep(self, run: PausedRun) -> str:
        """Keep a run, and give the token under which it goes on.

        Raises:
            WorkflowError: too many wait.
        """
        now = time.monotonic()
        # A late answer is told that it is late for a while.
        self._runs = {token: other for token, other in self._runs.items() if other.expires + 600 > now}
        of_caller = sum(other.owner == run.owner for other in self._runs.values())
        chars = run.chars + sum(other.chars for other in self._runs.values())
        if len(self._runs) >= MAX_PAUSED or of_caller >= MAX_PAUSED_OF_CALLER or chars > MAX_PAUSED_CHARS:
            raise WorkflowError(
                "Too many runs wait for answers of persons", code="RATE_LIMIT", hint="Answer one of them first."
            )
        token = secrets.token_urlsafe(24)
        self._runs[token] = run
        return token

    def take(self, token: str | None, owner: str, source: str, arguments: str) -> PausedRun | None:
        """The run of a token, which goes on now; None if there is none of this caller, tool and arguments."""
        run = self._runs.get(token or "")
        if run is None or (run.owner, run.source, run.arguments) != (owner, source, arguments):
            return None
        return self._runs.pop(token or "")


PAUSED_RUNS: Final = PausedRuns()
"""Of this process, whatever server they run on: a reload makes other tools, and runs go on."""
