"""Options of running CodeCall in production: records, resumption, large results, progress, shutdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from codecall.configuring import KeyValueStore, Options


class AuditOptions(Options):
    """The record of every run: where it goes, and what it holds beside names, sizes, times and hashes."""

    sinks: Annotated[tuple[Callable[[Any], Any], ...] | None, Field(strict=False)] = None
    """What is told each event: `LoggingSink`, `JsonLinesSink`, `OpenTelemetrySink`, or any callable, sync or async,
    that takes an `AuditEvent`. None: the logger `codecall.audit`, at INFO; an empty list: nothing."""
    include_arguments: bool = False
    """Record the input of each call, with secrets masked, too; without it a hash."""
    include_results: bool = False
    """Record the value of each call and of the script, its console and the texts of errors, with secrets masked, too;
    without it their sizes."""
    watchers: Annotated[tuple[Callable[[Any], Any], ...], Field(strict=False)] = ()
    """Each is called with what is known of a run before it begins (`Recorded`) and gives a `RunWatch`, which sees all
    of the run as it is, nothing masked, on the event loop: `codecall.traces.TraceRecorder`."""


class ResumeOptions(Options):
    """What `resumeFrom` needs: where the completed calls of runs are kept, and for how long."""

    store: KeyValueStore
    """A store as FastMCP takes them, such as `RedisStore(url=…)`; shared by all instances that clients may reach."""
    ttl_s: int = Field(default=3_600, ge=1, le=30 * 86_400)
    """Seconds a run can be taken up after its end."""
    max_value_chars: int = Field(default=256 * 1024, ge=1, le=16 * 1024 * 1024)
    """Characters of JSON one call's value may have to be kept; a call with a longer one is made again."""
    max_run_chars: int = Field(default=16 * 1024 * 1024, ge=1, le=256 * 1024 * 1024)
    """Characters that the values of one run may have together."""
    max_caller_chars: int = Field(default=128 * 1024 * 1024, ge=1_024)
    """Characters that this process keeps at the same time of all runs of one caller; a run beyond that goes on and is
    not kept."""


class ResultsOptions(Options):
    """The store of results that are larger than `max_result_bytes`."""

    enabled: bool = True
    """False: such a result fails with OUTPUT_LIMIT."""
    store: KeyValueStore | None = None
    """Where they are kept: a store as FastMCP takes them, such as `RedisStore(url=…)`; shared by all instances that
    clients may reach. None: in the memory of this process."""
    ttl_s: int = Field(default=900, ge=1, le=30 * 86_400)
    """Seconds a result is kept."""
    max_bytes: int = Field(default=32 * 1024 * 1024, ge=1_024, le=48 * 1024 * 1024)
    """Bytes of JSON one result may have, if a quarter of the preset's `memory_mb` is not less; a larger one fails with
    OUTPUT_LIMIT."""
    max_total_bytes: int = Field(default=256 * 1024 * 1024, ge=1_024)
    """Bytes that this process keeps at the same time, for all callers together. Beyond it results fail with
    OUTPUT_LIMIT, until others have expired; none is thrown out."""
    max_caller_bytes: int = Field(default=40 * 1024 * 1024, ge=1_024)
    """Bytes of them that one caller may take, as long as that leaves four times as much free for others: the fuller it
    is, the less. So a few callers cannot fill it, which without authentication are a few network addresses. The
    default has room for one result of the greatest size."""


class ProgressOptions(Options):
    """What a client that asked for it hears while its script runs."""

    enabled: bool = True
    """False: nothing."""
    heartbeat_s: float = Field(default=10.0, gt=0, le=60)
    """Seconds after which progress is told again though nothing has happened, so that idle clients do not give up."""


class ShutdownOptions(Options):
    """What becomes of running scripts when the server is to end."""

    grace_s: float = Field(default=5.0, ge=0, le=3_600)
    """Seconds running scripts have to end by themselves once the server is to stop; then they end with
    EXECUTION_ABORTED. New ones are refused meanwhile."""
    on_sigterm: bool = True
    """Begin at SIGTERM, and let what else handles it wait until then. False: only `drain()` begins it."""
    end_abandoned: bool = True
    """End a script whose client's connection is closed, where nobody could get its answer any more. False: it runs to
    its end."""
