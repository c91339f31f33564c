"""What one plugin tells OpenTelemetry, and what rate rules do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from codecall.errors import Called
from codecall.telemetry import listening, names
from codecall.telemetry.meters import Pools, observe
from codecall.telemetry.requests import Operation, Request, current
from codecall.telemetry.sizes import Definition, characters_of, tokens

WorkerEnding = Literal["recycled", "killed", "died", "replaced", "closed"]


class Telemetry:
    """What a plugin tells OpenTelemetry.

    Args:
        enabled: False: nothing.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._own: int | None = None

    def observe(self, source: Pools) -> None:
        """Let the gauges tell of these pools, for as long as `source` lives."""
        if self._enabled:
            observe(source)
            _ = listening.meters()

    def request(self, operation: Operation) -> Request | None:
        """What is to be entered around the answer to a request; None where nobody listens."""
        meters = listening.meters() if self._enabled else None
        tracer = listening.tracer() if self._enabled else None
        if meters is None and tracer is None and current() is None:
            return None
        # Where nobody listens to this one, a request whose tool calls it still must not be taken for it.
        return Request(operation, meters, tracer)

    def worker_ended(self, ending: WorkerEnding) -> None:
        """A worker process has ended, or is being ended."""
        if self._enabled and (meters := listening.meters()) is not None:
            meters.workers_ended.add(1, {names.WORKER_ENDING: ending})

    def listed(self, tools: Sequence[Definition], shown: int, own: Sequence[Definition]) -> None:
        """A client was listed `shown` of these tools, and CodeCall's `own`."""
        if not self._enabled or (meters := listening.meters()) is None:
            return
        if self._own is None:
            self._own = characters_of(own)
        hidden = characters_of(tools) * (len(tools) - shown) // max(1, len(tools))
        if hidden > self._own:
            meters.tokens_saved.add(tokens(hidden - self._own), {names.SAVING: "definitions"})


def rate_refused(called: Called, rule: str, reason: Literal["limit", "unchecked"]) -> None:
    """A rate rule has refused a call."""
    if (meters := listening.meters()) is not None:
        meters.refusals.add(1, {names.CALL_KIND: called, names.RULE: rule, names.REASON: reason})
