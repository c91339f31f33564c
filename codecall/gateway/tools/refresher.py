"""What is known of one server's lists, and when the server is asked for them again.

What it listed last is read from the cache on disk. It is asked again

- at once, where nothing is kept: requests for lists wait for that, but no longer than `FIRST_WAIT_S` after
  the server was first asked, and clients are notified when there is something later;
- when it reports a change, `FIRST_PAUSE_S` seconds after the last listing, and ever later while that goes on
(`Backoff`);
- once in each run when it is started for a call, if what is kept is older than `FRESH_S`;
- before the first call in each run of a tool for which access rules rest on what the server says of it, and before the
  next one when the server turns out to be of another version: the call waits, and is not sent if the tool is
  hidden then;
- whenever it turns out to be of another version;
- before a name is said to be no tool that reads as one of it, once every `LIST_AGAIN_S`;
- when somebody calls `refresh`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from mcp import MCPError
from pydantic import ValidationError

from codecall.errors import CodeCallError
from codecall.fastmcp_errors import first_fault
from codecall.gateway.tools.access import AccessRules
from codecall.gateway.tools.components import CallGuard
from codecall.gateway.tools.disk_cache import ListingCacheFile
from codecall.gateway.tools.filter import ReservedNames, VisibleComponents, build_visible_components
from codecall.gateway.upstream.bounds.long_results import UnreadableResultError
from codecall.gateway.upstream.interface import Upstream
from codecall.gateway.upstream.listing import Listing, is_other_version
from codecall.globs import display_name
from codecall.wording import join_names

logger = logging.getLogger("codecall")

FIRST_WAIT_S: Final = 10.0
"""Seconds that requests wait for a server of which nothing is known, counted from the moment it was first asked."""

RETRY_S: Final = 30.0
"""Seconds since it failed after which a server that could not be listed is asked again, when a request needs its lists.
"""

LIST_AGAIN_S: Final = 60.0
"""Seconds after a listing for which a name that it does not have is believed to be none."""

FIRST_PAUSE_S: Final = 1.0
"""Seconds between the first two listings of a server that reports changes all the time."""

FRESH_S: Final = 3_600.0
"""Seconds for which a kept listing is not checked when the server is started for a call."""

MAX_REPORTED: Final = 10
"""Most names of tools in one line of the log."""

MAX_PAUSE_S: Final = 60.0
"""Seconds at most between two listings."""

QUIET_S: Final = 60.0
"""Seconds without a change after which a server counts as quiet."""

OnChanged: TypeAlias = Callable[[frozenset[str]], None]
"""Called on the event loop with the kinds of lists that have changed: `tools`, `resources`, `prompts`."""


class ListingRefresher:
    """Keeps what is known of one server's lists up to date. Belongs to one event loop.

    Args:
        upstream: the server.
        access: which of its tools may be used.
        cache_file: where its listing is kept; None: in memory only.
        names: which names its tools may not have.
        on_change: called with the kinds of lists that have changed.
        asking: has a person allow calls of tools that are asked for; None: there is no way to ask.
        guard: holds calls of the others against rules; None: no rule is about any.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        access: AccessRules,
        cache_file: ListingCacheFile | None,
        names: ReservedNames,
        on_change: OnChanged | None,
        asking: CallGuard | None = None,
        guard: CallGuard | None = None,
    ) -> None:
        self._upstream = upstream
        self._access = access
        self.cache_file: Final = cache_file
        self._names = names
        self._on_change = on_change
        self._asking = asking
        self._guard = guard
        self.visible = VisibleComponents()
        """What clients see of the server."""
        self.error: CodeCallError | None = None
        """Why the server could not be listed when it was asked last; None: it could."""
        self._lock = asyncio.Lock()
        self._again_lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._has_result = asyncio.Event()
        """Set when the background task has a listing, or knows that there is none."""
        self._ask_again = False
        self._is_checked = False
        """Whether it was asked in this run, or need not be."""
        self._is_confirmed = False
        """Whether what is visible was listed in this run, by the version that was started last."""
        self._reported_foreign: tuple[str, ...] = ()
        self._backoff = Backoff()
        self._last_asked_at: float | None = None
        self._asking_ended_at: float | None = None
        self._open = False
        self._is_late = False
        """Whether it was logged that requests no longer wait for the first listing."""
        upstream.on_changed(self._note_change)

    @property
    def is_listed(self) -> bool:
        """Whether it is known what the server lists."""
        return self.visible.listing is not None

    @property
    def is_missing(self) -> bool:
        """Whether it was asked, and what it lists is not known."""
        return not self.is_listed and (self._last_asked_at is not None or self.error is not None)

    def load(self) -> None:
        """Use what is kept on disk, unless something is wrong with it. Reads the file: not on the event loop."""
        try:
            listing = self.cache_file.load() if self.cache_file is not None and not self.is_listed else None
            if listing is not None:
                self.visible = self._build_components(listing)
        except Exception:
            logger.exception("Server %s: what is kept of it is not used, and it is asked instead", self._upstream.name)

    def open(self) -> None:
        """Let the server be asked from now on; at unless_confirmed, where nothing is known of it."""
        self._open = True
        if not self.is_listed:
            self._refresh_later()

    async def close(self) -> None:
        """Stop asking the server."""
        self._open = False
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def give_up(self, error: CodeCallError) -> None:
        """Stop asking the server, and have what it lists count as not to be known, for this reason."""
        await self.close()
        self.error = error

    async def refresh(self) -> Listing:
        """Ask the server now, and use what it lists.

        Raises:
            CodeCallError: it cannot be listed; what was known stays.
        """
        if not self.is_listed and self._task is not None and not self._has_result.is_set():
            # It is being asked for the first time: that listing will do.
            await self._has_result.wait()
            if self.visible.listing is not None:
                return self.visible.listing
            if self.error is not None:
                raise self.error
        return await self._fetch()

    async def list_again(self) -> None:
        """List the server anew for somebody who misses a tool, unless it was asked in the last `LIST_AGAIN_S`. Who
        comes meanwhile shares that listing; of a server that cannot be asked what is known stays."""
        async with self._again_lock:
            asked_at = self._last_asked_at
            recent = asked_at is not None and time.monotonic() - asked_at < LIST_AGAIN_S
            if self._open and self.is_listed and not recent:
                with suppress(CodeCallError):
                    await self._fetch()

    async def check_access(self, name: str, asked: bool = False) -> bool:
        """Whether the tool of that name may be used, by what the server has listed in this run; it is asked if need be.

        Args:
            name: of the tool.
            asked: whether a person has allowed the call.

        Raises:
            CodeCallError: the server cannot be listed.
        """
        if not self._is_confirmed:
            await self._fetch(unless_confirmed=True)
        return name in self.visible.tool_by_name or (asked and name in self.visible.approval_tool_by_name)

    async def _fetch(self, *, unless_confirmed: bool = False) -> Listing:
        """Ask the server; with `unless_confirmed` only if no other task has done so while this one waited."""
        async with self._lock:
            if unless_confirmed and self._is_confirmed and self.visible.listing is not None:
                return self.visible.listing
            self._last_asked_at = time.monotonic()
            try:
                listing = await self._upstream.fetch_listing()
                await self._adopt(listing)
            except Exception as failure:
                self.error = failure if isinstance(failure, CodeCallError) else self._listing_error(failure)
            else:
                self.error = None
                self._is_checked = self._is_confirmed = True
                return listing
            raise self.error  # outside of the block: it does not keep what it was raised from, which holds the listing

    def _listing_error(self, failure: Exception) -> CodeCallError:
        """The error for callers when the lists were read, and cannot be used; the log says more of some."""
        name = self._upstream.name
        if isinstance(failure, UnreadableResultError | ValidationError):
            reason = failure.reason if isinstance(failure, UnreadableResultError) else first_fault(failure)
            return CodeCallError(f"Server {name!r} lists what cannot be used: {reason}")
        if isinstance(failure, MCPError):  # its message is the server's own, and may be anything
            return CodeCallError(f"Server {name!r} answered with error {failure.error.code} when it was asked")
        logger.exception("Server %s: what it lists cannot be used", name)
        return CodeCallError(f"Server {name!r} lists what cannot be used; the log says more")

    async def _adopt(self, listing: Listing) -> None:
        old = self.visible
        new = await asyncio.to_thread(self._build, listing, old)
        if new is old:
            return
        self.visible = new
        kinds = _changed_kinds(old.listing, listing)
        if kinds and self._on_change is not None:
            self._on_change(kinds)

    def _build(self, listing: Listing, old: VisibleComponents) -> VisibleComponents:
        if old.listing is not None and old.listing.digest == listing.digest:
            if self.cache_file is not None:
                self.cache_file.confirm()
            return old
        new = self._build_components(listing)
        if self.cache_file is not None:
            self.cache_file.save(
                listing
            )  # only what could be shown: a gateway that fails at it would fail at each start
        return new

    def _build_components(self, listing: Listing) -> VisibleComponents:
        visible = build_visible_components(
            self._upstream,
            listing,
            self._access,
            self._names,
            check_access=self.check_access,
            asking=self._asking,
            guard=self._guard,
        )
        server = self._upstream.name
        if visible.foreign and visible.foreign != self._reported_foreign:
            names = join_names(visible.foreign, MAX_REPORTED, display_name)
            logger.warning(
                "Tools of server %s read as tools of another server: %s. Scripts call them by their full names only, "
                "as in tools['%s_%s'](…).",
                *(server, names, server, display_name(visible.foreign[0])),
            )
        self._reported_foreign = visible.foreign
        return visible

    def _note_change(self, change: str) -> None:
        if change != "started":
            self._backoff.note_change()
            self._refresh_later()
        elif not self._lock.locked():
            if is_other_version(self._upstream.server_info, (self.visible.listing or Listing()).server_info):
                self._is_confirmed = False
                self._refresh_later()
            elif not self._is_checked:
                self._refresh_later(only_if_old=True)

    def _refresh_later(self, *, only_if_old: bool = False) -> None:
        """Have the server asked in the background."""
        if self._task is not None and not self._task.done():
            self._ask_again = True
        elif self._open:
            self._last_asked_at = time.monotonic()
            self._has_result.clear()
            # Nothing of the request that happens to start the server is in a listing that serves all, or kept by it.
            self._task = asyncio.create_task(
                self._refresh_in_background(only_if_old),
                name=f"listing of {self._upstream.name}",
                context=contextvars.Context(),
            )

    async def _refresh_in_background(self, only_if_old: bool) -> None:
        try:
            if only_if_old and self.is_listed and await asyncio.to_thread(self._is_fresh):
                self._is_checked = True
                if not self._ask_again:
                    return
            while True:
                unless_confirmed, only_if_old, self._ask_again = only_if_old and not self._ask_again, False, False
                await self._fetch(unless_confirmed=unless_confirmed)
                self._has_result.set()
                await asyncio.sleep(self._backoff.next_pause_s(FIRST_PAUSE_S))
                if not self._ask_again:
                    return
        except CodeCallError as failure:
            logger.warning("Server %s could not be listed: %s", self._upstream.name, failure.message)
        except Exception:
            logger.exception("Server %s could not be listed", self._upstream.name)
            self.error = CodeCallError("it could not be listed; the log says more")
        finally:
            self._asking_ended_at = time.monotonic()
            self._has_result.set()

    def _is_fresh(self) -> bool:
        age_s = self.cache_file.age_s() if self.cache_file is not None else None
        return age_s is not None and age_s < FRESH_S

    async def wait_for_first_listing(self, wait_for_first: Callable[[], bool]) -> None:
        """Wait for the first listing, if nothing is known of the server and `wait_for_first` says so."""
        if self.is_listed or not self._open:
            return
        now = time.monotonic()
        may_retry = self._asking_ended_at is None or now - self._asking_ended_at >= RETRY_S
        if self._last_asked_at is None or (self._has_result.is_set() and may_retry):
            self._refresh_later()
            self._last_asked_at = now
        left = self._last_asked_at + FIRST_WAIT_S - now
        if not wait_for_first():
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_result.wait(), max(0.0, left))
        if not self._has_result.is_set() and not self._is_late:
            self._is_late = True
            logger.warning(
                "Server %r is still starting after %g s; until it has listed its tools there are none of it",
                *(self._upstream.name, FIRST_WAIT_S),
            )

    async def wait_until_listed(self) -> None:
        """Wait until it is known what the server lists, or that it could not be asked; not if it is not to be asked."""
        if self._open and not self.is_listed:
            await self._has_result.wait()


class Backoff:
    """1, 2, 4 … 60 seconds between the listings of one server, and 1 again when it has been quiet for a while.

    A server that goes on reporting changes is left alone for that long, as each listing of it makes a new catalog.

    Args:
        clock: gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_change_at: float | None = None
        self._count = 0

    def note_change(self) -> None:
        """Note that the server has reported a change."""
        now = self._clock()
        if self._last_change_at is None or now - self._last_change_at >= QUIET_S:
            self._count = 0
        self._last_change_at = now

    def next_pause_s(self, shortest_s: float) -> float:
        """Seconds to wait after a listing that was just built; `shortest_s` after the first one."""
        self._count += 1
        return min(MAX_PAUSE_S, shortest_s * 2.0 ** min(self._count - 1, 10))


def _changed_kinds(old: Listing | None, new: Listing) -> frozenset[str]:
    before = old or Listing()
    changed = {"tools": before.tools != new.tools, "prompts": before.prompts != new.prompts}
    changed["resources"] = (before.resources, before.templates) != (new.resources, new.templates)
    return frozenset(kind for kind, differs in changed.items() if differs)
