"""Runs that end because a call waits in the operator's folder. The client that sends the same request again, once the
operator has allowed the call, goes on from the record of that run: no completed call is made again.

Where the plugin's options keep no records (`resume`), these are in the memory of this process. A record that has to
make room leaves a note, so that the request says what it makes again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self, SupportsFloat

import anyio

from codecall.envelopes import ExecutionResult
from codecall.errors import ApprovalRequiredError
from codecall.globs import display_name
from codecall.key_value import LocalStore
from codecall.options import ResumeOptions

if TYPE_CHECKING:
    from codecall.resume.replay import RunMemory

TTL_S: Final = 3_600
"""Seconds for which a run can be gone on with: as long as a decision of the operator counts."""

MAX_RUNS: Final = 1_000
"""Runs that can be gone on with at the same time; for one more the caller with the most loses the oldest."""

MAX_RUNS_OF_CALLER: Final = 100
"""The same for one caller, so that none takes the room of others: as many as calls of theirs may wait."""

MAX_VALUE_CHARS: Final = 4 * 1024 * 1024
"""Characters of JSON in the value of one recorded call; one with a longer value is made again."""

MAX_CALLER_CHARS: Final = 16 * 1024 * 1024
"""Characters of all records of one caller."""

MAX_CHARS: Final = 64 * 1024 * 1024
"""Characters of the records of all runs that can be gone on with; beyond it the caller with the most loses the
oldest."""

MAX_RUNNING_CHARS: Final = 256 * 1024 * 1024
"""Characters of all records in memory, those of runs under way included, which are recorded no further beyond it."""

ENTRY_CHARS: Final = 1_500
"""Characters that each entry of a record counts beside its value."""

MAX_NAMES: Final = 10
"""Names of calls in a warning."""

MAX_WAITING: Final = 20
"""Runs of one request that wait for another one; more do not wait."""

MAX_LOST: Final = 10_000
"""Requests of which it is known that their record had to make room."""


@dataclass(frozen=True, slots=True)
class _StoppedRun:
    run_id: str
    caller: str
    completed: int
    """How many of its calls have completed."""
    ends: float
    """When it can no more be gone on with, by `time.monotonic`."""
    drop: Callable[[], None]
    chars: int
    """Characters of its record in memory."""


class StoppedRuns:
    """The runs of one plugin that can be gone on with by the same request."""

    def __init__(self) -> None:
        self._records = _MemoryRecords()
        self._runs: OrderedDict[str, _StoppedRun] = OrderedDict()
        """By a digest of the request, the oldest first."""
        self._lost: OrderedDict[str, None] = OrderedDict()
        self._under_way: dict[str, list[StoppableRun]] = {}
        """By request."""
        self._waiting = Counter[str]()
        """How many runs of a request wait for another one."""
        self._options = ResumeOptions(
            store=self._records, ttl_s=TTL_S, max_value_chars=MAX_VALUE_CHARS, max_caller_chars=MAX_CALLER_CHARS
        )

    async def begin(self, request: str, caller: str, run_id: str, options: ResumeOptions | None) -> StoppableRun:
        """Begin a run, which goes on from the record of the one that the same request has made before. If one that goes
        on is under way, wait for it: its client may have given up, and its calls are not in the record yet.

        Args:
            request: A digest of all that the run depends on, its caller included.
            caller: The caller.
            run_id: The id of the run.
            options: How calls are recorded; None: in memory.
        """
        if self._waiting[request] < MAX_WAITING:
            self._waiting[request] += 1
            try:
                while (other := self._going_on(request)) is not None:
                    await other.has_ended.wait()
            finally:
                self._waiting[request] -= 1
                if not self._waiting[request]:
                    del self._waiting[request]
        now = monotonic()
        for expired in [other for other, run in self._runs.items() if run.ends <= now]:
            self._lose(expired)
        run = StoppableRun(self, request, caller, run_id, options or self._options, self._runs.get(request))
        run.is_repeated = request in self._lost
        self._under_way.setdefault(request, []).append(run)
        return run

    def _going_on(self, request: str) -> StoppableRun | None:
        return next((run for run in self._under_way.get(request, ()) if run.previous is not None), None)

    def end(self, run: StoppableRun, *, completed: int | None) -> None:
        """A run has ended.

        Args:
            run: The run.
            completed: How many of its calls have completed, if it can be gone on with; None: it cannot.
        """
        run.has_ended.set()
        others = self._under_way[run.request]
        others.remove(run)
        if not others:
            del self._under_way[run.request]
        kept = self._runs.get(run.request)
        if completed is None or (kept is not None and kept.run_id != run.previous and kept.completed > completed):
            self._drop(run)
            return
        self.forget(run.request)
        chars = self._records.chars_of(run.run_id)
        self._runs[run.request] = _StoppedRun(
            run.run_id, run.caller, completed, run.ends, lambda: self._drop(run), chars
        )
        while victim := self._over_limit(run.caller):
            self._lose(next(request for request, kept in self._runs.items() if kept.caller == victim))

    def forget(self, request: str) -> None:
        """Let this request go on with no run."""
        if (run := self._runs.pop(request, None)) is not None:
            run.drop()

    def give_up(self, run: StoppableRun) -> None:
        """The run that this one went on with can no more be gone on with, and neither can this one."""
        if (kept := self._runs.get(run.request)) is not None and kept.run_id == run.previous:
            self._lose(run.request)

    def answer(self, run: StoppableRun) -> None:
        """The request has been answered: no run of it can be gone on with."""
        self.forget(run.request)
        for other in self._under_way[run.request]:
            other.is_answered = True

    def repeated(self, request: str) -> None:
        """The client is told what this request has made again."""
        self._lost.pop(request, None)

    def _over_limit(self, caller: str) -> str:
        """The caller who loses a run; empty where there is room."""
        runs, chars = Counter[str](), Counter[str]()
        for run in self._runs.values():
            runs[run.caller] += 1
            chars[run.caller] += run.chars
        if runs[caller] > MAX_RUNS_OF_CALLER:
            return caller
        crowded = runs if runs.total() > MAX_RUNS else chars if chars.total() > MAX_CHARS else None
        return crowded.most_common(1)[0][0] if crowded else ""

    def _lose(self, request: str) -> None:
        if self._runs[request].completed:
            self._lost[request] = None
        self.forget(request)
        while len(self._lost) > MAX_LOST:
            self._lost.popitem(last=False)

    def _drop(self, run: StoppableRun) -> None:
        """Forget the calls of a run, if they are in memory."""
        if run.options is self._options:
            self._records.drop(run.run_id)
            if run.memory is not None:
                run.memory.release()


@dataclass(slots=True, eq=False)
class StoppableRun:
    """One run whose calls are recorded, and whose record stays if a call of it waits for the operator. A context
    manager: what it is not told to keep is dropped at the end."""

    _runs: StoppedRuns
    request: str
    """A digest of all that it depends on."""
    caller: str
    run_id: str
    options: ResumeOptions
    """How its calls are recorded."""
    _earlier: _StoppedRun | None
    memory: RunMemory | None = None
    """The record of its calls."""
    is_repeated: bool = False
    """An earlier run of this request is forgotten, whose calls are made again."""
    is_answered: bool = False
    """Another run of the same request has ended well meanwhile."""
    has_ended: anyio.Event = field(default_factory=anyio.Event, init=False)
    ends: float = field(default=0.0, init=False)
    """When it can no more be gone on with."""
    _completed: int | None = field(default=None, init=False)

    @property
    def previous(self) -> str | None:
        """The id of the run that it goes on with; None: it begins anew."""
        return None if self._earlier is None else self._earlier.run_id

    def ended(self, result: ExecutionResult) -> ExecutionResult:
        """The run has ended so. It can be gone on with if a call waits, or if it has itself gone on with one that
        waited: what was allowed there is not asked for again.

        Returns:
            The result, with a warning of completed calls that are made again.
        """
        waits = isinstance(result.error, ApprovalRequiredError)
        is_stored = self.memory is not None and self.memory.is_stored
        completed = [call for call in result.calls if call.outcome == "ok"]
        if result.error is None:
            self._runs.answer(self)
        elif is_stored and (waits or self.previous is not None):
            self._completed = len(completed)
            # Values do not live on by being asked for again.
            is_newer = self._earlier is None or any(not call.reused for call in completed)
            self.ends = monotonic() + TTL_S if is_newer or self._earlier is None else self._earlier.ends
        warnings: list[str] = []
        if self.is_repeated:
            self._runs.repeated(self.request)
            warnings.append(
                "An earlier run of this request stopped for the operator, and its record is gone: calls that had "
                "completed there were made again"
            )
        if waits and (again := {call.name for call in completed if not (is_stored and call.kept)}):
            names = ", ".join(repr(display_name(name)) for name in sorted(again)[:MAX_NAMES])
            warnings.append(f"The same request makes calls again that have completed, since they are not kept: {names}")
        return replace(result, warnings=(*result.warnings, *warnings)) if warnings else result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._earlier is not None and self.memory is not None and self.memory.is_stored:
            # Given up while it went on: its record has what the earlier one has, and what has completed since.
            self._completed, self.ends = self._earlier.completed, self._earlier.ends
        elif kind is None and self._completed is None:
            self._runs.give_up(self)
        self._runs.end(self, completed=None if self.is_answered else self._completed)


class _MemoryRecords(LocalStore):
    """A key-value store of `RunStore` in memory, whose entries are dropped run by run."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._chars: dict[str, int] = {}
        self._total = 0

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:  # noqa: ARG002
        """What was put under `key`; None if there is nothing."""
        entry = self._runs.get(_run_of(key), {}).get(key)
        return None if entry is None else dict(entry)

    async def put(
        self,
        key: str,
        value: Mapping[str, Any],
        *,
        collection: str | None = None,  # noqa: ARG002
        ttl: SupportsFloat | None = None,  # noqa: ARG002
    ) -> None:
        """Keep `value` under `key`.

        Raises:
            MemoryError: there is no room.
        """
        run_id, chars = _run_of(key), len(value.get("value") or "") + ENTRY_CHARS
        entries = self._runs.setdefault(run_id, {})
        if key not in entries:
            if self._total + chars > MAX_RUNNING_CHARS:
                raise MemoryError
            self._chars[run_id] = self.chars_of(run_id) + chars
            self._total += chars
        entries[key] = value

    def chars_of(self, run_id: str) -> int:
        """Characters of the record of a run."""
        return self._chars.get(run_id, 0)

    def drop(self, run_id: str) -> None:
        """Drop the entries of a run."""
        self._runs.pop(run_id, None)
        self._total -= self._chars.pop(run_id, 0)


def _run_of(key: str) -> str:
    return key.partition(".")[0]
