"""Options of running CodeCall in production: records, resumption, large results, progress, shutdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from codecall.configuring import KeyValueStore, Options


class AuditOptions(Options):
    """The record of every run: where it goes, and what it holds beside names, sizes, times and hashes."""

    sinks: Annotated[tuple[Callable[[Any], None], ...], Field(strict=False)] = ()
    """What is told each event; see `codecall.calls.audit`."""
    include_arguments: bool = False
    """Record the input of each call, with secrets masked, too; without it a hash."""
    include_results: bool = False
    """Record the value of each call and of the script, with secrets masked, too; without it their sizes."""


class ResumeOptions(Options):
    """What `resumeFrom` needs: where the completed calls of runs are kept, and for how long."""

    store: KeyValueStore
    """A store as FastMCP takes them, such as `RedisStore(url=…)`; shared by all instances that clients may reach."""
    ttl_s: int = Field(default=3_600, ge=1, le=30 * 86_400)
    """Seconds a run can be taken up after its last call."""


class ResultsOptions(Options):
    """The store of results that are larger than `max_result_bytes`."""

    enabled: bool = True
    """False: such a result fails with OUTPUT_LIMIT."""
    store: KeyValueStore | None = None
    """Where they are kept: a store as FastMCP takes them. None: in the memory of this process."""
    ttl_s: int = Field(default=900, ge=1, le=30 * 86_400)
    """Seconds a result is kept."""
    max_bytes: int = Field(default=16 * 1024 * 1024, ge=1_024, le=64 * 1024 * 1024)
    """Bytes of JSON one result may have; a larger one fails with OUTPUT_LIMIT."""
    max_total_bytes: int = Field(default=256 * 1024 * 1024, ge=1_024)
    """Bytes that this process keeps at the same time, for all callers together."""
    max_caller_bytes: int = Field(default=64 * 1024 * 1024, ge=1_024)
    """Bytes of them that one caller may take."""


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
    """Begin at SIGTERM, before whatever else handles it. False: only when the server's lifespan ends, or `drain()`."""
