"""Runs that end because a call waits in the operator's folder. When the client sends the same request again, once the
operator has allowed the call, the run is resumed from its record: no completed call is made again.

Where the plugin's options keep no records (`resume`), these are in the memory of this process. Of a record that is
evicted the request is remembered, so that its next answer says what was made again.
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
from codecall.quota import text_bytes

if TYPE_CHECKING:
    from codecall.resume.replay import RunMemory

TTL_S: Final = 3_600
"""Seconds for which a run can be resumed: as long as a decision of the operator counts."""

MAX_RUNS: Final = 1_000
"""Runs that can be resumed at the same time; for one more, the oldest of the caller with the most is evicted."""

MAX_RUNS_OF_CALLER: Final = 100
"""The same for one caller, so that none takes the room of others: as many as calls of theirs may wait."""

MAX_VALUE_CHARS: Final = 4 * 1024 * 1024
"""Characters of JSON in the value of one recorded call; one with a longer value is made again."""

MAX_CALLER_CHARS: Final = 16 * 1024 * 1024
"""Characters of all records of one caller."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of memory of the records of all runs that can be resumed; beyond it, the oldest of the caller with the most is
evicted."""

MAX_RUNNING_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all records in memory, those of runs under way included, which are recorded no further beyond it."""

ENTRY_BYTES: Final = 1_500
"""Bytes that each entry of a record counts beside its value."""

MAX_NAMES: Final = 10
"""Names of calls in a warning."""

MAX_WAITING: Final = 20
"""Runs of one request that wait for another one; more do not wait."""

MAX_EVICTED: Final = 10_000
"""Requests that are remembered whose records have been evicted."""


@dataclass(frozen=True, slots=True)
class _StoppedRun:
    run_id: str
    caller: str
    completed: int
    """How many of its calls have completed."""
    expires: float
    """When it can no longer be resumed, by `time.monotonic`."""
    discard: Callable[[], None]
    size: int
    """Bytes of its record in memory."""


class StoppedRuns:
    """The runs of one plugin that the same request resumes."""

    def __init__(self) -> None:
        self._records = _MemoryRecords()
        self._runs: OrderedDict[str, _StoppedRun] = OrderedDict()
        """By a digest of the request, the oldest first."""
        self._evicted: OrderedDict[str, None] = OrderedDict()
        """The requests whose records have been evicted."""
        self._active: dict[str, list[StoppableRun]] = {}
        """The runs under way, by request."""
        self._waiting = Counter[str]()
        """How many runs of a request wait for another one."""
        self._options = ResumeOptions(
            store=self._records, ttl_s=TTL_S, max_value_chars=MAX_VALUE_CHARS, max_caller_chars=MAX_CALLER_CHARS
        )

    async def begin(self, request: str, caller: str, run_id: str, options: ResumeOptions | None) -> StoppableRun:
        """Begin a run, which resumes the one that the same request has made before. While another one resumes that,
        wait for it: its client may have given up, and its calls are not in the record yet.

        Args:
            request: A digest of all that the run depends on, its caller included.
            caller: The caller.
            run_id: The id of the run.
            options: How calls are recorded; None: in memory.
        """
        if self._waiting[request] < MAX_WAITING:
            self._waiting[request] += 1
            try:
                while (other := self._resuming(request)) is not None:
                    await other.finished.wait()
            finally:
                self._waiting[request] -= 1
                if not self._waiting[request]:
                    del self._waiting[request]
        now = monotonic()
        for expired in [other for other, run in self._runs.items() if run.expires <= now]:
            self._evict(expired)
        run = StoppableRun(self, request, caller, run_id, options or self._options, self._runs.get(request))
        run.is_repeated = request in self._evicted
        self._active.setdefault(request, []).append(run)
        return run

    def _resuming(self, request: str) -> StoppableRun | None:
        """A run under way that resumes one of this request."""
        return next((run for run in self._active.get(request, ()) if run.previous is not None), None)

    def finish(self, run: StoppableRun, *, completed: int | None) -> None:
        """Keep a run that has ended, or discard its record.

        Args:
            run: The run.
            completed: How many of its calls have completed, if it can be resumed; None: it cannot.
        """
        run.finished.set()
        active = self._active[run.request]
        active.remove(run)
        if not active:
            del self._active[run.request]
        other = self._runs.get(run.request)
        if completed is None or (other is not None and other.run_id != run.previous and other.completed > completed):
            self._discard(run)
            return
        self._forget(run.request)
        size = self._records.size_of(run.run_id)
        self._runs[run.request] = _StoppedRun(
            run.run_id, run.caller, completed, run.expires, lambda: self._discard(run), size
        )
        while caller := self._crowding_caller(run.caller):
            self._evict(next(request for request, stopped in self._runs.items() if stopped.caller == caller))

    def abandon(self, run: StoppableRun) -> None:
        """Evict the run that this one resumed: it has failed, and its own record is incomplete."""
        if (stopped := self._runs.get(run.request)) is not None and stopped.run_id == run.previous:
            self._evict(run.request)

    def answer(self, run: StoppableRun) -> None:
        """Let no run of this request be resumed: it has been answered."""
        self._forget(run.request)
        for other in self._active[run.request]:
            other.is_answered = True

    def acknowledge(self, request: str) -> None:
        """Remember no longer that the record of a request was evicted: its client has been told."""
        self._evicted.pop(request, None)

    def _forget(self, request: str) -> None:
        if (run := self._runs.pop(request, None)) is not None:
            run.discard()

    def _crowding_caller(self, caller: str) -> str:
        """The caller whose oldest run has to make room for one of `caller`; empty where there is room."""
        runs, sizes = Counter[str](), Counter[str]()
        for run in self._runs.values():
            runs[run.caller] += 1
            sizes[run.caller] += run.size
        if runs[caller] > MAX_RUNS_OF_CALLER:
            return caller
        crowded = runs if runs.total() > MAX_RUNS else sizes if sizes.total() > MAX_BYTES else None
        return crowded.most_common(1)[0][0] if crowded else ""

    def _evict(self, request: str) -> None:
        if self._runs[request].completed:
            self._evicted[request] = None
        self._forget(request)
        while len(self._evicted) > MAX_EVICTED:
            self._evicted.popitem(last=False)

    def _discard(self, run: StoppableRun) -> None:
        """Delete the record of a run, if it is in memory."""
        if run.options is self._options:
            self._records.delete(run.run_id)
            if run.memory is not None:
                run.memory.release()


@dataclass(slots=True, eq=False)
class StoppableRun:
    """One run whose calls are recorded, and whose record stays if a call of it waits for the operator. A context
    manager: a run without a result that can be resumed is discarded at its end."""

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
    """The record of an earlier run of this request was evicted: its calls are made again."""
    is_answered: bool = False
    """Another run of the same request has ended well meanwhile."""
    finished: anyio.Event = field(default_factory=anyio.Event, init=False)
    """Set when it has ended, and its record is kept or discarded."""
    expires: float = field(default=0.0, init=False)
    """See `_StoppedRun.expires`."""
    _completed: int | None = field(default=None, init=False)

    @property
    def previous(self) -> str | None:
        """The id of the run that it resumes; None: it begins anew."""
        return None if self._earlier is None else self._earlier.run_id

    def with_result(self, result: ExecutionResult) -> ExecutionResult:
        """Take the result of the run, and give it with a warning of completed calls that are made again.

        The run can be resumed if a call waits, or if it has itself resumed one whose call waited: what was allowed
        there is not asked for again.
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
            self.expires = monotonic() + TTL_S if is_newer or self._earlier is None else self._earlier.expires
        warnings: list[str] = []
        if self.is_repeated:
            self._runs.acknowledge(self.request)
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
            # Cancelled while it resumed: its record has what the earlier one has, and what has completed since.
            self._completed, self.expires = self._earlier.completed, self._earlier.expires
        elif kind is None and self._completed is None:
            self._runs.abandon(self)
        self._runs.finish(self, completed=None if self.is_answered else self._completed)


class _MemoryRecords(LocalStore):
    """A key-value store of `RunStore` in memory, whose entries are deleted run by run."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._sizes: dict[str, int] = {}
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
        run_id, made_of = _run_of(key), value.get("made_of") or ()
        size = text_bytes(value.get("value") or "") + sum(map(text_bytes, made_of)) + ENTRY_BYTES
        entries = self._runs.setdefault(run_id, {})
        if key not in entries:
            if self._total + size > MAX_RUNNING_BYTES:
                raise MemoryError
            self._sizes[run_id] = self.size_of(run_id) + size
            self._total += size
        entries[key] = value

    def size_of(self, run_id: str) -> int:
        """Bytes of the record of a run."""
        return self._sizes.get(run_id, 0)

    def delete(self, run_id: str) -> None:
        """Delete the entries of a run."""
        self._runs.pop(run_id, None)
        self._total -= self._sizes.pop(run_id, 0)


def _run_of(key: str) -> str:
    return key.partition(".")[0]
