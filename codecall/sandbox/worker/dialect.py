"""What a language is to the worker: the loop of turns in `serve.py` knows nothing else of it.
`agentscript/dialect.py` is JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from codecall.sandbox import wire
from codecall.sandbox.agentscript.dialect import ReadScript
from codecall.sandbox.agentscript.engine.console import Console
from codecall.sandbox.agentscript.engine.realm import ScriptOutcome


class Engine(Protocol):
    """What runs one script."""

    console: Console
    """What the script prints."""
    covered_lines: list[int]
    """Lines that ran for the first time since they were last taken; only with line coverage."""
    outcome: ScriptOutcome | None
    """Set once the script has ended."""

    @property
    def pending_calls(self) -> int:
        """Calls without an answer."""
        ...

    @property
    def steps(self) -> int:
        """Steps of the script at the last count."""
        ...

    def resume(self, answers: list[wire.Answer]) -> None:
        """Give the script the answers to its calls and run it until it waits again."""
        ...

    def drain_calls(self, budget: int) -> list[wire.Call]:
        """The calls not yet taken, in order, as many as fit into `budget` bytes and one frame; at least one."""
        ...

    def count_steps(self) -> int:
        """Steps of the script so far."""
        ...


EngineT = TypeVar("EngineT", bound=Engine)


class Dialect(Protocol[EngineT]):
    """A language that scripts may be written in."""

    def engine(self, limits: wire.Limits) -> EngineT:
        """An engine that no script has used."""
        ...

    def read(self, engine: EngineT, start: wire.Start) -> ReadScript:
        """Read and check the script; it then runs in `engine`.

        Raises:
            InvalidScriptError: it must not run.
        """
        ...

    def check(self, engine: EngineT, start: wire.Start) -> tuple[ScriptOutcome, wire.Plan | None]:
        """What a dry run of the script gives, and the calls that it plans."""
        ...

    def release(self, engine: EngineT) -> None:
        """Take back an engine whose script has ended, or did not run."""
        ...

    def rest(self, has_work: Callable[[float], bool]) -> None:
        """Get ready for the next script, until `has_work(seconds)` reports work within that time."""
        ...
