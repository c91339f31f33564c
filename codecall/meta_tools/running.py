"""One run of a script for a request: what it is given, and who sees it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastmcp.server.context import Context

from codecall.calls.broker import Broker
from codecall.calls.callers import client_key
from codecall.catalog.offers import offers_of
from codecall.catalog.view import CatalogView
from codecall.envelopes import ExecutionResult
from codecall.meta_tools.base import Wiring
from codecall.meta_tools.observing import watcher
from codecall.options import Preset
from codecall.sandbox.services import RunWatch, Services, Watches

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks to have run."""

    script: str
    context: Mapping[str, Any] | None = None
    """`codecallContext`, checked."""
    allowed_tools: tuple[str, ...] | None = None
    """Names, URIs and globs; None allows all."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a run before it begins."""

    run_id: str
    """Unguessable."""
    caller: str
    """Who it counts for, as a hash."""
    asked: Asked


def max_value_bytes(preset: Preset) -> int:
    """Longest JSON text of one tool's value that a script takes: a quarter of its heap, at most 16 MiB.

    Parsed data takes several times its text's room, and four such values fit into one frame to the worker.
    """
    return min(preset.memory_mb * _MIB // 4, 16 * _MIB)


async def run_script(wiring: Wiring, context: Context, view: CatalogView, asked: Asked) -> ExecutionResult:
    """Run what the client of `context` asks for."""
    options = wiring.options
    info = RunInfo(f"run_{secrets.token_urlsafe(16)}", client_key(context), asked)
    broker = Broker(
        context,
        view,
        allowed_tools=asked.allowed_tools,
        tool_call_timeout_ms=options.preset.tool_call_timeout_ms,
        max_value_bytes=max_value_bytes(options.preset),
        sanitization=options.sanitization,
        offers=offers_of(context, options),
        saw=watcher(wiring, context),
    )
    services = Services(info.run_id, Watches(_watches(wiring, context, info)))
    async with wiring.enclaves.use(context) as enclave:
        run = enclave.run(
            asked.script,
            broker,
            context=asked.context,
            owner="" if options.pool.share_workers else info.caller,
            dry_run=asked.dry_run,
            services=services,
        )
        return await services.attend(run)


def _watches(wiring: Wiring, context: Context, info: RunInfo) -> list[RunWatch]:
    """Who sees the run."""
    watches: list[RunWatch] = []
    return watches
