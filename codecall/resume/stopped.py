"""Runs that end because a call waits in the operator's folder. The client that sends the same request again, once the
operator has allowed the call, goes on from the record of that run: no completed call is made again.

Where the plugin's options keep no records (`resume`), these are in the memory of this process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, SupportsFloat

from codecall.envelopes import ExecutionResult
from codecall.errors import ApprovalRequiredError
from codecall.globs import display_name
from codecall.options import ResumeOptions

if TYPE_CHECKING:
    from codecall.resume.replay import RunMemory

TTL_S: Final = 3_600
"""Seconds for which a run can be gone on with: as long as a decision of the operator counts."""

MAX_RUNS: Final = 1_000
"""Runs that can be gone on with at the same time; the oldest is dropped for one more."""

MAX_VALUE_CHARS: Final = 4 * 1024 * 1024
"""Characters of JSON in the value of one recorded call; one with a longer value is made again."""

MAX_CALLER_CHARS: Final = 16 * 1024 * 1024
"""Characters of all records of one caller."""

MAX_NAMES: Final = 10
"""Names of calls in a warning."""

MAX_CHARS: Final = 64 * 1024 * 1024
"""Characters of the records of all runs that can be gone on with; the oldest are dropped beyond it."""


class _StoppedRun(NamedTuple):
    run_id: str
    ends: float
    """When it can no more be gone on with, by `time.monotonic`."""
    drop: Callable[[], None]


class StoppedRuns:
    """The runs of one plugin that can be gone on with by the same request."""

    def __init__(self) -> None:
        self._records = _MemoryRecords()
        self._runs: OrderedDict[str, _StoppedRun] = OrderedDict()
        """By a digest of the request."""
        self._options = ResumeOptions(
            store=self._records, ttl_s=TTL_S, max_value_chars=MAX_VALUE_CHARS, max_caller_chars=MAX_CALLER_CHARS
        )

    def begin(self, request: str, run_id: str, options: ResumeOptions | None) -> StoppableRun:
        """Begin a run, which goes on from the record of the one that the same request has made before.

        Args:
            request: A digest of all that the run depends on, its caller included.
            run_id: The id of the run.
            options: How calls are recorded; None: in memory.
        """
        now = monotonic()
        while self._runs and (oldest := next(iter(self._runs.items())))[1].ends <= now:
            self._runs.pop(oldest[0]).drop()
        earlier = self._runs.get(request)
        previous = None if earlier is None else earlier.run_id
        return StoppableRun(self, request, run_id, options or self._options, previous)

    def forget(self, request: str, run_id: str) -> None:
        """Let this request go on with that run no more."""
        if (run := self._runs.get(request)) is not None and run.run_id == run_id:
            del self._runs[request]
            run.drop()

    def keep(self, request: str, run_id: str, drop: Callable[[], None]) -> None:
        """Let this request go on with a run that has ended."""
        if (other := self._runs.pop(request, None)) is not None:
            other.drop()
        self._runs[request] = _StoppedRun(run_id, monotonic() + TTL_S, drop)
        while len(self._runs) > MAX_RUNS or self._records.chars > MAX_CHARS:
            self._runs.popitem(last=False)[1].drop()

    def drop(self, run_id: str, options: ResumeOptions) -> bool:
        """Forget the calls of a run, if they are in memory; whether they were."""
        if options is not self._options:
            return False
        self._records.drop(run_id)
        return True


class StoppableRun:
    """One run whose calls are recorded, and whose record stays if a call of it waits for the operator. A context
    manager: what it is not told to keep is dropped at the end.

    Args:
        runs: Those of the plugin.
        request: A digest of all that it depends on.
        run_id: Its id.
        options: How its calls are recorded.
        previous: The id of the run that it goes on with; None: it begins anew.
    """

    def __init__(
        self, runs: StoppedRuns, request: str, run_id: str, options: ResumeOptions, previous: str | None
    ) -> None:
        self.options = options
        self.previous = previous
        self.memory: RunMemory | None = None
        """The record of its calls."""
        self._runs = runs
        self._request = request
        self._run_id = run_id
        self._stays = False

    def ended(self, result: ExecutionResult) -> ExecutionResult:
        """The run has ended so. It can be gone on with if a call waits, or if it has itself gone on with one that
        waited: what was allowed there is not asked for again.

        Returns:
            The result, with a warning of completed calls that the same request makes again.
        """
        waits = isinstance(result.error, ApprovalRequiredError)
        is_stored = self.memory is not None and self.memory.is_stored
        self._stays = is_stored and (waits or (result.error is not None and self.previous is not None))
        again = {call.name for call in result.calls if call.outcome == "ok" and not (is_stored and call.kept)}
        if not waits or not again:
            return result
        names = ", ".join(repr(display_name(name)) for name in sorted(again)[:MAX_NAMES])
        warning = f"The same request makes calls again that have completed, since their record is not kept: {names}"
        return replace(result, warnings=(*result.warnings, warning))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.previous is not None:
            self._runs.forget(self._request, self.previous)
        if self._stays:
            self._runs.keep(self._request, self._run_id, self._drop)
        else:
            self._drop()

    def _drop(self) -> None:
        if self._runs.drop(self._run_id, self.options) and self.memory is not None:
            self.memory.release()


class _MemoryRecords:
    """A key-value store of `RunStore` in memory, whose entries are dropped run by run."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._chars: dict[str, int] = {}
        self.chars = 0
        """Characters of all values."""

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
        """Keep `value` under `key`."""
        run_id, chars = _run_of(key), len(value.get("value") or "")
        self._runs.setdefault(run_id, {})[key] = value
        self._chars[run_id] = self._chars.get(run_id, 0) + chars
        self.chars += chars

    def drop(self, run_id: str) -> None:
        """Drop the entries of a run."""
        self._runs.pop(run_id, None)
        self.chars -= self._chars.pop(run_id, 0)


def _run_of(key: str) -> str:
    return key.partition(".")[0]
