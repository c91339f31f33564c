"""What is known of one server, and when it is asked anew.

What it said last is read from the cache on disk. It is asked again

- at once, where nothing is kept: a listing waits for that, but no longer than `FIRST_WAIT_S` after the server was begun
  to be asked, and clients are told when there is something later;
- when it tells of a change, at most every `BETWEEN_S` seconds;
- once in each run when it is started for a call, if what is kept is older than `FRESH_S`;
- whenever it turns out to be of another version;
- when somebody calls `refresh`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mcp import MCPError

from codecall.errors import CodeCallError
from codecall.gateway.access import Access
from codecall.gateway.behind import Behind
from codecall.gateway.keeping import KeptFile
from codecall.gateway.listing import Listing
from codecall.gateway.screening import Names
from codecall.gateway.shown import Shown, show

logger = logging.getLogger("codecall")

FIRST_WAIT_S: Final = 10.0
"""Seconds that requests wait for a server of which nothing is known, counted from the moment it was first asked."""

RETRY_S: Final = 30.0
"""Seconds after which a server that could not be listed is asked again, if somebody wants to know."""

BETWEEN_S: Final = 1.0
"""Seconds between two listings of a server that tells of changes all the time."""

FRESH_S: Final = 3_600.0
"""Seconds for which what is kept is not looked at again when the server is started for a call."""

Told = Callable[[frozenset[str]], None]
"""Called on the event loop with what clients see otherwise now: `tools`, `resources`, `prompts`."""


class Known:
    """What is known of one server. Belongs to one event loop.

    Args:
        behind: the server.
        access: which of its tools may be used.
        kept: where its listing is kept; None: in memory only.
        names: which names its tools may not have.
        told: called with each change.
    """

    def __init__(
        self, behind: Behind, *, access: Access, kept: KeptFile | None, names: Names, told: Told | None
    ) -> None:
        self._behind = behind
        self._access = access
        self.kept: Final = kept
        self._names = names
        self._told = told
        self.shown = Shown()
        """What clients see of it."""
        self.error: CodeCallError | None = None
        """Why it could not be listed when it was asked last."""
        self._reading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        """Set when the background task has an answer, or knows that there is none."""
        self._again = False
        self._looked = False
        """Whether it was asked in this run."""
        self._asked_at: float | None = None
        self._open = False
        behind.on_changed(self._changed)

    @property
    def listed(self) -> bool:
        """Whether it is known what the server has."""
        return self.shown.listing is not None

    def load(self) -> None:
        """Take what is kept on disk. Reads the file: not on the event loop."""
        listing = self.kept.load() if self.kept is not None and not self.listed else None
        if listing is not None:
            self.shown = show(self._behind, listing, self._access, self._names)

    def open(self) -> None:
        """Let the server be asked from now on; at once, where nothing is known of it."""
        self._open = True
        if not self.listed:
            self._ask()

    async def close(self) -> None:
        """Ask it no more."""
        self._open = False
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def refresh(self) -> Listing:
        """Ask the server now, and take what it says.

        Raises:
            CodeCallError: it cannot be had; what was known stays.
        """
        if not self.listed and self._task is not None and not self._answered.is_set():
            # It is being asked for the first time: that answer will do.
            await self._answered.wait()
            if self.shown.listing is not None:
                return self.shown.listing
            if self.error is not None:
                raise self.error
        return await self._read()

    async def _read(self) -> Listing:
        async with self._reading:
            self._asked_at = time.monotonic()
            try:
                listing = await self._behind.listing()
            except CodeCallError as failure:
                self.error = failure
                raise
            except MCPError as failure:
                # Its message is the server's own, and may be anything.
                code = failure.error.code
                self.error = CodeCallError(f"Server {self._behind.name!r} answered with error {code} when it was asked")
                raise self.error from None
            self.error = None
            self._looked = True
            await self._take(listing)
            return listing

    async def _take(self, listing: Listing) -> None:
        old = self.shown
        new = await asyncio.to_thread(self._made, listing, old)
        if new is old:
            return
        self.shown = new
        kinds = _differences(old.listing, listing)
        if kinds and self._told is not None:
            self._told(kinds)

    def _made(self, listing: Listing, old: Shown) -> Shown:
        if old.listing is not None and old.listing.digest == listing.digest:
            if self.kept is not None:
                self.kept.confirm()
            return old
        if self.kept is not None:
            self.kept.save(listing)
        return show(self._behind, listing, self._access, self._names)

    def _changed(self, change: str) -> None:
        if change != "started":
            self._ask()
        elif not self._reading.locked():
            if self._is_another():
                self._ask()
            elif not self._looked:
                self._ask(only_if_old=True)

    def _is_another(self) -> bool:
        now, then = self._behind.server_info, (self.shown.listing or Listing()).server_info
        return now is not None and then is not None and (now.name, now.version) != (then.name, then.version)

    def _ask(self, *, only_if_old: bool = False) -> None:
        """Have the server asked in the background."""
        if self._task is not None and not self._task.done():
            self._again = True
        elif self._open:
            self._asked_at = time.monotonic()
            self._answered.clear()
            self._task = asyncio.create_task(self._asking(only_if_old), name=f"listing of {self._behind.name}")

    async def _asking(self, only_if_old: bool) -> None:
        try:
            if only_if_old and self.listed and await asyncio.to_thread(self._is_fresh):
                self._looked = True
                if not self._again:
                    return
            while True:
                self._again = False
                await self._read()
                self._answered.set()
                await asyncio.sleep(BETWEEN_S)
                if not self._again:
                    return
        except CodeCallError as failure:
            logger.warning("Server %s could not be listed: %s", self._behind.name, failure.message)
        except Exception:
            logger.exception("Server %s could not be listed", self._behind.name)
            self.error = CodeCallError("it could not be listed; the log says more")
        finally:
            self._answered.set()

    def _is_fresh(self) -> bool:
        age_s = self.kept.age_s() if self.kept is not None else None
        return age_s is not None and age_s < FRESH_S

    async def ready(self, waits: Callable[[], bool]) -> None:
        """Wait for a server of which nothing is known, if `waits` says so and it makes sense."""
        if self.listed or not self._open:
            return
        now = time.monotonic()
        if self._asked_at is None or (self._answered.is_set() and now - self._asked_at >= RETRY_S):
            self._ask()
            self._asked_at = now
        left = self._asked_at + FIRST_WAIT_S - now
        if left > 0 and waits():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), left)


def _differences(old: Listing | None, new: Listing) -> frozenset[str]:
    was = old or Listing()
    changed = {"tools": was.tools != new.tools, "prompts": was.prompts != new.prompts}
    changed["resources"] = (was.resources, was.templates) != (new.resources, new.templates)
    return frozenset(kind for kind, differs in changed.items() if differs)
