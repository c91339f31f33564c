"""Watches the definitions of composite tools: they are read again when one of their files changes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from codecall.errors import OptionsError
from codecall.gateway.gateway import Gateway

logger = logging.getLogger("codecall")

INTERVAL_S: Final = 1.0
"""Seconds between two looks at the files."""

Signature = frozenset[tuple[str, int, int]]
"""Each file with the time of its last change and its size."""


@contextmanager
def watching_definitions(gateway: Gateway) -> Generator[None]:
    """Within this, definitions of composite tools are read again when their files change."""
    paths = gateway.options.composite_tools.paths
    task = asyncio.create_task(_watch(gateway, paths), name="watching definitions") if paths else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


async def _watch(gateway: Gateway, paths: Sequence[str]) -> None:
    seen = await asyncio.to_thread(signature, paths)
    while True:
        await asyncio.sleep(INTERVAL_S)
        now = await asyncio.to_thread(signature, paths)
        if now == seen:
            continue
        seen = now
        try:
            await gateway.reload_definitions()
        except OptionsError as failure:
            logger.warning("composite tools stay as they were: %s", failure.message)
        except Exception:
            logger.exception("composite tools stay as they were")


def signature(paths: Sequence[str]) -> Signature:
    """What tells whether a file was changed, added or removed, at or below these paths."""
    found: set[tuple[str, int, int]] = set()
    for path in map(Path, paths):
        files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names] or [path]
        for file in files:
            try:
                status = file.stat()
            except OSError:
                continue  # it was removed in between
            found.add((str(file), status.st_mtime_ns, status.st_size))
    return frozenset(found)
