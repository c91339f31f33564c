"""What a run may have beside its broker: a name, somebody who watches, what remembers calls of earlier runs, and what
keeps results that are too large."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from codecall.envelopes import ExecutionResult, LargeResult, MadeCall
from codecall.schema.partial import Mistake

# ----------------------------------------------------------------------------------------------------
# The side of a broker that the sandbox sees. `calls/broker.py` implements it over FastMCP.


class ToolBroker(Protocol):
    """Performs the calls of one script, after checking each of them."""

    async def prepare(self) -> None:
        """Read ahead what the first call will need. Runs while the worker checks the script; may be cancelled."""
        ...

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Perform one call and give the tool's value as JSON text.

        Args:
            name: of the tool.
            arguments: its input.
            max_bytes: how long that text may be, where the script is not given it; None: as the broker has it.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `name` is a meta-tool; ends the script.
        """
        ...

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """Read one resource and give its value as JSON text. `max_bytes`: as for `call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Render one prompt and give `{description, messages}` as JSON text. `max_bytes`: as for `call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def foresee(self, name: str, known: Mapping[str, object]) -> Mistake | None:
        """What is sure to be wrong with a call, found out before it is made and without making it; None where nothing
        is, and for a name that may not be called or is none.

        Args:
            name: of the tool.
            known: what is known of its input, with gaps as `known.py` has them.
        """
        ...

    async def unreachable(self, name: str) -> Mistake | None:
        """Why no call of that name would reach a tool; None where it would."""
        ...

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool(name)` sees: name, description, inputSchema, outputSchema; None when it may not be called."""
        ...

    async def space(self, path: str) -> dict[str, object]:
        """Whether there is a namespace: `{"members": {"list": "users:list", …}}` with the first members and the tools
        they stand for, and `"listed": false` where any member would do. Else `{"near": [namespaces], "tools": [names]}`
        with what may have been meant, and what begins so all the same.

        Raises:
            ToolCallError: the server could not be asked.
        """
        ...

    async def member(self, path: str, member: str) -> dict[str, object]:
        """What `path.member` is: `{"tool": name}`, or `{"space": path}` of a namespace inside; else
        `{"missing": name}`, a name under which a call fails and says what there is. The empty path has every tool under
        its own name.

        Raises:
            ToolCallError: the server could not be asked.
        """
        ...


# ----------------------------------------------------------------------------------------------------
# What a run may have beside its broker: a name, somebody who watches, what remembers calls of earlier runs, and what

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("codecall")

Ending: TypeAlias = Callable[["str | None"], None]
"""Told that a call has ended: the JSON text of its value, or None of one that failed or was given up, of which
`MadeCall` says more."""


class RunWatch(Protocol):
    """Sees one run. Nothing of it may block or take long, since the run waits meanwhile; what it raises is logged, and
    the run goes on."""

    def waiting(self) -> None:
        """The run begins: it waits for a worker."""
        ...

    def running(self) -> None:
        """It has a worker, and is about to start."""
        ...

    def checked(self, validation_ms: float) -> None:
        """The script has been validated, which took so long by what its worker says; once, and not where the worker
        never said anything."""
        ...

    def said(self, lines: Sequence[str]) -> None:
        """Console lines."""
        ...

    def calling(self, made: MadeCall, text: str) -> Ending | None:
        """A call starts; `text` is its input as JSON. What is returned is called at its end, in the same task."""
        ...

    def ended(self, result: ExecutionResult) -> None:
        """The run has ended, with the result its caller gets; also where it never got a worker. Not told of a run that
        was cancelled."""
        ...

    def cancelled(self) -> None:
        """The run was cancelled; nobody gets a result."""
        ...


class CallMemory(Protocol):
    """Remembers the calls of runs, so that a later run need not make them again."""

    async def recall(self, made: MadeCall, text: str) -> str | None:
        """The JSON text of the value this call had in an earlier run; None to make it. `text` is its input as JSON.

        Raises:
            ToolCallError: it may not be made any more.
            SelfReferenceError: it never may.
        """
        ...

    async def keep(self, made: MadeCall, text: str, value: str | None) -> None:
        """A call has ended, with this value as JSON text, or failed. Must not fail: what cannot be kept is logged."""
        ...


class ResultVault(Protocol):
    """Keeps the results of one caller's scripts that are too large for an answer, and gives them to later ones."""

    async def keep(self, text: str, size: int) -> LargeResult:
        """Keep a result: JSON of `size` bytes.

        Raises:
            LimitExceeded: it cannot be kept.
        """
        ...

    async def fetch(self, handle: str, part: Mapping[str, object], *, max_bytes: int | None = None) -> str:
        """A kept result, or a part of it, as JSON text.

        Args:
            handle: of the result, or its URI.
            part: what of it, as `getResult` takes it.
            max_bytes: that it may have, where it stays outside the engine; None: as many as a script takes.

        Raises:
            ToolCallError: there is none, or no such part, or it is too large.
        """
        ...


class Watches:
    """Any number of watches as one that never raises."""

    __slots__ = ("_watches",)

    def __init__(self, watches: Sequence[RunWatch] = ()) -> None:
        self._watches = tuple(watches)

    def waiting(self) -> None:
        """See `RunWatch.waiting`."""
        for watch in self._watches:
            _told(watch.waiting)

    def running(self) -> None:
        """See `RunWatch.running`."""
        for watch in self._watches:
            _told(watch.running)

    def checked(self, validation_ms: float) -> None:
        """See `RunWatch.checked`."""
        for watch in self._watches:
            _told(watch.checked, validation_ms)

    def said(self, lines: Sequence[str]) -> None:
        """See `RunWatch.said`."""
        for watch in self._watches:
            _told(watch.said, lines)

    def calling(self, made: MadeCall, text: str) -> Ending | None:
        """See `RunWatch.calling`."""
        if not self._watches:
            return None
        endings = [ending for watch in self._watches if (ending := _told(watch.calling, made, text)) is not None]

        def end(value: str | None) -> None:
            for ending in reversed(endings):
                _told(ending, value)

        return end if endings else None

    def ended(self, result: ExecutionResult) -> None:
        """See `RunWatch.ended`."""
        for watch in self._watches:
            _told(watch.ended, result)

    def cancelled(self) -> None:
        """See `RunWatch.cancelled`."""
        for watch in self._watches:
            _told(watch.cancelled)


@dataclass(frozen=True, slots=True)
class Services:
    """What one run is given."""

    run_id: str = ""
    """Names it."""
    watch: Watches = field(default_factory=Watches)
    """Who sees it."""
    memory: CallMemory | None = None
    """What remembers its calls."""
    results: ResultVault | None = None
    """What keeps results that are too large, its own and those before it; None: they fail with OUTPUT_LIMIT."""

    async def attend(self, run: Awaitable[ExecutionResult]) -> ExecutionResult:
        """The result of `run`, which was given these services, under its name, seen from beginning to end."""
        self.watch.waiting()
        try:
            result = replace(await run, run_id=self.run_id)
        except BaseException:
            self.watch.cancelled()
            raise
        self.watch.ended(result)
        return result


NOTHING = Services()
"""For a run that has no name, that nobody sees and nothing remembers."""


def _told(tell: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
    try:
        return tell(*args, **kwargs)
    except Exception:
        logger.exception("a watch of a run failed; the run goes on")
        return None
