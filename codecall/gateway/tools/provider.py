"""What is known of one server, and when it is asked anew.

What it said last is read from the cache on disk. It is asked again

- at once, where nothing is kept: a listing waits for that, but no longer than `FIRST_WAIT_S` after the server was begun
  to be asked, and clients are told when there is something later;
- when it tells of a change, `BETWEEN_S` seconds after the last time, and ever later while it goes on (`relisting`);
- once in each run when it is started for a call, if what is kept is older than `FRESH_S`;
- before the first call in each run of a tool for which access rules rest on what it says, and before the next one when
  it turns out to be of another version: the call waits, and is not sent if the tool is hidden then;
- whenever it turns out to be of another version;
- when somebody calls `refresh`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from mcp import MCPError

from codecall.catalog.uris import match_steps
from codecall.errors import CodeCallError
from codecall.gateway.config.options import AccessOptions
from codecall.gateway.tools.components import VisibleComponents, build_visible_components
from codecall.gateway.tools.disk_cache import ListingCacheFile
from codecall.gateway.tools.filter import AccessRules, HiddenComponent, ReservedNames
from codecall.gateway.upstream.interface import Upstream
from codecall.gateway.upstream.listing import Listing

# ----------------------------------------------------------------------------------------------------
# How long a server is left alone that goes on telling of changes: each listing of it makes a new catalog.

MAX_PAUSE_S: Final = 60.0
"""Seconds at most between two listings."""

QUIET_S: Final = 60.0
"""Seconds without a change after which a server is one that changes seldom."""


class Backoff:
    """1, 2, 4 … 60 seconds between the listings of one server, and 1 again when it has been quiet for a while.

    Args:
        clock: gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard_at: float | None = None
        self._count = 0

    def note_change(self) -> None:
        """Note that the server has told of a change."""
        now = self._clock()
        if self._heard_at is None or now - self._heard_at >= QUIET_S:
            self._count = 0
        self._heard_at = now

    def next_pause_s(self, shortest_s: float) -> float:
        """Seconds to wait after a listing that was just made; `shortest_s` after the first one."""
        self._count += 1
        return min(MAX_PAUSE_S, shortest_s * 2.0 ** min(self._count - 1, 10))


# ----------------------------------------------------------------------------------------------------
# What is known of one server, and when it is asked anew.

logger = logging.getLogger("codecall")

FIRST_WAIT_S: Final = 10.0
"""Seconds that requests wait for a server of which nothing is known, counted from the moment it was first asked."""

RETRY_S: Final = 30.0
"""Seconds after which a server that could not be listed is asked again, if somebody wants to know."""

FIRST_PAUSE_S: Final = 1.0
"""Seconds between the first two listings of a server that tells of changes all the time."""

FRESH_S: Final = 3_600.0
"""Seconds for which what is kept is not looked at again when the server is started for a call."""

OnChanged = Callable[[frozenset[str]], None]
"""Called on the event loop with what clients see otherwise now: `tools`, `resources`, `prompts`."""


class ListingRefresher:
    """What is known of one server. Belongs to one event loop.

    Args:
        behind: the server.
        access: which of its tools may be used.
        kept: where its listing is kept; None: in memory only.
        names: which names its tools may not have.
        told: called with each change.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        access: AccessRules,
        cache_file: ListingCacheFile | None,
        names: ReservedNames,
        on_change: OnChanged | None,
    ) -> None:
        self._behind = upstream
        self._access = access
        self.cache_file: Final = cache_file
        self._names = names
        self._told = on_change
        self.visible = VisibleComponents()
        """What clients see of it."""
        self.error: CodeCallError | None = None
        """Why it could not be listed when it was asked last."""
        self._reading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        """Set when the background task has an answer, or knows that there is none."""
        self._again = False
        self._looked = False
        """Whether it was asked in this run, or need not be."""
        self._judged = False
        """Whether what is shown was said in this run, by the version that was started last."""
        self._pauses = Backoff()
        self._asked_at: float | None = None
        self._open = False
        upstream.on_changed(self._changed)

    @property
    def is_listed(self) -> bool:
        """Whether it is known what the server has."""
        return self.visible.listing is not None

    def load(self) -> None:
        """Take what is kept on disk, unless something is wrong with it. Reads the file: not on the event loop."""
        try:
            listing = self.cache_file.load() if self.cache_file is not None and not self.is_listed else None
            if listing is not None:
                self.visible = self._shown(listing)
        except Exception:
            logger.exception("Server %s: what is kept of it is not used, and it is asked instead", self._behind.name)

    def open(self) -> None:
        """Let the server be asked from now on; at once, where nothing is known of it."""
        self._open = True
        if not self.is_listed:
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
        if not self.is_listed and self._task is not None and not self._answered.is_set():
            # It is being asked for the first time: that answer will do.
            await self._answered.wait()
            if self.visible.listing is not None:
                return self.visible.listing
            if self.error is not None:
                raise self.error
        return await self._read()

    async def check_access(self, name: str) -> bool:
        """Whether the tool of that name may be used by what the server has said in this run; it is asked if need be.

        Raises:
            CodeCallError: it does not say.
        """
        if not self._judged:
            await self._read(once=True)
        return name in self.visible.tool_by_name

    async def _read(self, *, once: bool = False) -> Listing:
        """Ask it; with `once`, not if that has been done by the time it could be."""
        async with self._reading:
            if once and self._judged and self.visible.listing is not None:
                return self.visible.listing
            self._asked_at = time.monotonic()
            try:
                listing = await self._behind.fetch_listing()
                await self._take(listing)
            except CodeCallError as failure:
                self.error = failure
                raise
            except MCPError as failure:
                # Its message is the server's own, and may be anything.
                code = failure.error.code
                self.error = CodeCallError(f"Server {self._behind.name!r} answered with error {code} when it was asked")
                raise self.error from None
            except Exception as failure:
                # What it lists is not what MCP has, or nothing can be made of it.
                logger.exception("Server %s: what it lists cannot be used", self._behind.name)
                self.error = CodeCallError(f"Server {self._behind.name!r} lists what cannot be used; the log says more")
                raise self.error from failure
            self.error = None
            self._looked = self._judged = True
            return listing

    async def _take(self, listing: Listing) -> None:
        old = self.visible
        new = await asyncio.to_thread(self._made, listing, old)
        if new is old:
            return
        self.visible = new
        kinds = _differences(old.listing, listing)
        if kinds and self._told is not None:
            self._told(kinds)

    def _made(self, listing: Listing, old: VisibleComponents) -> VisibleComponents:
        if old.listing is not None and old.listing.digest == listing.digest:
            if self.cache_file is not None:
                self.cache_file.confirm()
            return old
        new = self._shown(listing)
        if self.cache_file is not None:
            self.cache_file.save(
                listing
            )  # only what could be shown: a gateway that fails at it would fail at each start
        return new

    def _shown(self, listing: Listing) -> VisibleComponents:
        return build_visible_components(self._behind, listing, self._access, self._names, self.check_access)

    def _changed(self, change: str) -> None:
        if change != "started":
            self._pauses.note_change()
            self._ask()
        elif not self._reading.locked():
            if self._is_another():
                self._judged = False
                self._ask()
            elif not self._looked:
                self._ask(only_if_old=True)

    def _is_another(self) -> bool:
        now, then = self._behind.server_info, (self.visible.listing or Listing()).server_info
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
            if only_if_old and self.is_listed and await asyncio.to_thread(self._is_fresh):
                self._looked = True
                if not self._again:
                    return
            while True:
                once, only_if_old, self._again = only_if_old and not self._again, False, False
                await self._read(once=once)
                self._answered.set()
                await asyncio.sleep(self._pauses.next_pause_s(FIRST_PAUSE_S))
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
        age_s = self.cache_file.age_s() if self.cache_file is not None else None
        return age_s is not None and age_s < FRESH_S

    async def wait_for_first_listing(self, waits: Callable[[], bool]) -> None:
        """Wait for a server of which nothing is known, if `waits` says so and it makes sense."""
        if self.is_listed or not self._open:
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


# ----------------------------------------------------------------------------------------------------
# One server as a FastMCP provider: it lists what is known of the server, and does not start it for that.


MAX_MATCH_STEPS: Final = 200_000
"""Steps that one URI may take to be compared with all templates of a server, of about 10 ns each."""

ComponentT = TypeVar("ComponentT", bound=FastMCPComponent)


class ServerProvider(Provider):
    """The tools, resources, templates and prompts of one server.

    Args:
        behind: the server.
        access: which of its tools may be used.
        kept: where its listing is kept; None: in memory only.
        names: which names its tools may not have.
        told: called with each change.
        waits: asked whether this request has to wait for a server of which nothing is known yet.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        access: AccessRules | None = None,
        cache_file: ListingCacheFile | None = None,
        names: ReservedNames | None = None,
        on_change: OnChanged | None = None,
        wait_for_first: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self.upstream: Final = upstream
        self._known = ListingRefresher(
            upstream,
            access=access or AccessRules(AccessOptions()),
            cache_file=cache_file,
            names=names or ReservedNames(),
            on_change=on_change,
        )
        self._waits = wait_for_first

    @property
    def codecall_tools(self) -> tuple[Tool, ...] | None:
        """What is listed before any transform: the same tuple until something changes; None while that is not known.
        `codecall.catalog.cache.fingerprint` knows this attribute."""
        shown = self._known.visible
        return shown.tools if shown.listing is not None else None

    @property
    def cache_file(self) -> ListingCacheFile | None:
        """Where its listing is kept."""
        return self._known.cache_file

    @property
    def is_listed(self) -> bool:
        """Whether it is known what the server has."""
        return self._known.is_listed

    @property
    def listing(self) -> Listing:
        """What the server said last; nothing while that is not known."""
        return self._known.visible.listing or Listing()

    @property
    def failure(self) -> str | None:
        """Why it could not be listed when it was asked last; None if it could."""
        return self._known.error.message if self._known.error is not None else None

    @property
    def hidden(self) -> tuple[HiddenComponent, ...]:
        """What of it nobody sees, and why."""
        return self._known.visible.hidden

    @property
    def tokens(self) -> int:
        """What the definitions of its tools cost, about."""
        return self._known.visible.tokens

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Those that may be used, under the names that their server gives them."""
        return self._known.visible.tools

    def load(self) -> None:
        """Take what is kept on disk. Reads the file: not on the event loop."""
        self._known.load()

    def open(self) -> None:
        """Let the server be asked from now on; at once, where nothing is known of it."""
        self._known.open()

    async def close(self) -> None:
        """Ask it no more."""
        await self._known.close()

    async def refresh(self) -> Listing:
        """Ask the server now, and take what it says.

        Raises:
            CodeCallError: it cannot be had; what was known stays.
        """
        return await self._known.refresh()

    async def _list_tools(self) -> Sequence[Tool]:
        await self._known.wait_for_first_listing(self._waits)
        return self._known.visible.tools

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        await self._known.wait_for_first_listing(self._waits)
        return _of_version(self._known.visible.tool_by_name.get(name), version)

    async def _list_resources(self) -> Sequence[Resource]:
        await self._known.wait_for_first_listing(self._waits)
        return self._known.visible.resources

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        await self._known.wait_for_first_listing(self._waits)
        return _of_version(self._known.visible.resource_by_uri.get(uri), version)

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        await self._known.wait_for_first_listing(self._waits)
        return self._known.visible.templates

    async def _get_resource_template(self, uri: str, version: VersionSpec | None = None) -> ResourceTemplate | None:
        await self._known.wait_for_first_listing(self._waits)
        left = MAX_MATCH_STEPS
        for template in self._known.visible.templates:
            left -= match_steps(uri, template.uri_template, left)
            if left < 0:
                logger.warning("Server %s: a URI is not compared with its templates, it takes too long", self)
                return None
            if template.matches(uri) is not None and _of_version(template, version) is not None:
                return template
        return None

    async def _list_prompts(self) -> Sequence[Prompt]:
        await self._known.wait_for_first_listing(self._waits)
        return self._known.visible.prompts

    async def _get_prompt(self, name: str, version: VersionSpec | None = None) -> Prompt | None:
        await self._known.wait_for_first_listing(self._waits)
        return _of_version(self._known.visible.prompt_by_name.get(name), version)

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """None: what a server of its own runs is no background task of this one."""
        return ()

    def __repr__(self) -> str:
        return f"ServerProvider({self.upstream.name!r})"


def _of_version(component: ComponentT | None, version: VersionSpec | None) -> ComponentT | None:
    return component if component is None or version is None or version.matches(component.version) else None
