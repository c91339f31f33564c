"""What a run may have beside its broker: a name, somebody who watches, what remembers calls of earlier runs, and what
keeps results that are too large."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from codecall.envelopes import CallRecord, ExecutionResult, LargeResult
from codecall.schema.partial import PreflightError

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

    async def preflight(self, name: str, arguments: Mapping[str, object]) -> PreflightError | None:
        """What is sure to be wrong with a call, found out before it is made and without making it; None where nothing
        is, and for a name that may not be called or is none.

        Args:
            name: of the tool.
            known: what is known of its input, with gaps as `known.py` has them.
        """
        ...

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Why no call of that name would reach a tool; None where it would."""
        ...

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool(name)` sees: name, description, inputSchema, outputSchema; None when it may not be called."""
        ...

    async def namespace(self, path: str) -> dict[str, object]:
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

OnCallEnd: TypeAlias = Callable[["str | None"], None]
"""Told that a call has ended: the JSON text of its value, or None of one that failed or was given up, of which
`CallRecord` says more."""


class RunObserver(Protocol):
    """Sees one run. Nothing of it may block or take long, since the run waits meanwhile; what it raises is logged, and
    the run goes on."""

    def on_queued(self) -> None:
        """The run begins: it waits for a worker."""
        ...

    def on_started(self) -> None:
        """It has a worker, and is about to start."""
        ...

    def on_validated(self, validation_ms: float) -> None:
        """The script has been validated, which took so long by what its worker says; once, and not where the worker
        never said anything."""
        ...

    def on_console(self, lines: Sequence[str]) -> None:
        """Console lines."""
        ...

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:
        """A call starts; `text` is its input as JSON. What is returned is called at its end, in the same task."""
        ...

    def on_finished(self, result: ExecutionResult) -> None:
        """The run has ended, with the result its caller gets; also where it never got a worker. Not told of a run that
        was cancelled."""
        ...

    def on_cancelled(self) -> None:
        """The run was cancelled; nobody gets a result."""
        ...


class CallMemory(Protocol):
    """Remembers the calls of runs, so that a later run need not make them again."""

    async def recall(self, record: CallRecord, input_json: str) -> str | None:
        """The JSON text of the value this call had in an earlier run; None to make it. `text` is its input as JSON.

        Raises:
            ToolCallError: it may not be made any more.
            SelfReferenceError: it never may.
        """
        ...

    async def keep(self, record: CallRecord, input_json: str, value: str | None) -> None:
        """A call has ended, with this value as JSON text, or failed. Must not fail: what cannot be kept is logged."""
        ...


class ResultStorage(Protocol):
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


class ObserverGroup:
    """Any number of watches as one that never raises."""

    __slots__ = ("_watches",)

    def __init__(self, watches: Sequence[RunObserver] = ()) -> None:
        self._watches = tuple(watches)

    def on_queued(self) -> None:
        """See `RunObserver.waiting`."""
        for watch in self._watches:
            _told(watch.on_queued)

    def on_started(self) -> None:
        """See `RunObserver.running`."""
        for watch in self._watches:
            _told(watch.on_started)

    def on_validated(self, validation_ms: float) -> None:
        """See `RunObserver.checked`."""
        for watch in self._watches:
            _told(watch.on_validated, validation_ms)

    def on_console(self, lines: Sequence[str]) -> None:
        """See `RunObserver.said`."""
        for watch in self._watches:
            _told(watch.on_console, lines)

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:
        """See `RunObserver.calling`."""
        if not self._watches:
            return None
        endings = [
            ending for watch in self._watches if (ending := _told(watch.on_call, record, input_json)) is not None
        ]

        def end(value: str | None) -> None:
            for ending in reversed(endings):
                _told(ending, value)

        return end if endings else None

    def on_finished(self, result: ExecutionResult) -> None:
        """See `RunObserver.ended`."""
        for watch in self._watches:
            _told(watch.on_finished, result)

    def on_cancelled(self) -> None:
        """See `RunObserver.cancelled`."""
        for watch in self._watches:
            _told(watch.on_cancelled)


@dataclass(frozen=True, slots=True)
class RunHooks:
    """What one run is given."""

    run_id: str = ""
    """Names it."""
    observer: ObserverGroup = field(default_factory=ObserverGroup)
    """Who sees it."""
    memory: CallMemory | None = None
    """What remembers its calls."""
    results: ResultStorage | None = None
    """What keeps results that are too large, its own and those before it; None: they fail with OUTPUT_LIMIT."""

    async def observe(self, run: Awaitable[ExecutionResult]) -> ExecutionResult:
        """The result of `run`, which was given these services, under its name, seen from beginning to end."""
        self.observer.on_queued()
        try:
            result = replace(await run, run_id=self.run_id)
        except BaseException:
            self.observer.on_cancelled()
            raise
        self.observer.on_finished(result)
        return result


NO_HOOKS = RunHooks()
"""For a run that has no name, that nobody sees and nothing remembers."""


def _told(tell: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
    try:
        return tell(*args, **kwargs)
    except Exception:
        logger.exception("a watch of a run failed; the run goes on")
        return None
