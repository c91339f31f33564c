"""Kept results as MCP resources: templates that are listed, for results that never are.

    codecall://results/{handle}                  the whole JSON text
    codecall://results/{handle}/pages/{page}     one page of it, counted from 1

Which template a URI fits is asked before it is read. For whoever has no such result none does, so that the answer is
FastMCP's own for a resource that there is not, and a server that mounts several of these asks the next one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from fastmcp.exceptions import NotFoundError, ResourceError
from fastmcp.resources import ResourceTemplate
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context

from codecall.identity import client_key
from codecall.key_value import StoreError
from codecall.results.service import URI_PREFIX, ResultService, log_store_failure
from codecall.results.store import PAGE_CHARS, ResultMeta

MAX_READ_CHARS: Final = 2 * 1024 * 1024
"""Characters that are given at once. One message with them holds the event loop up for everybody."""

_OURS: Final = re.compile(re.escape(URI_PREFIX) + r"([^/?#]+)(/pages/[^/?#]+)?")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


class ResultResources:
    """The templates of one plugin's kept results."""

    def __init__(self, results: ResultService) -> None:
        self._results = results
        self._whole = ResourceTemplate.from_function(
            self.read_all,
            uri_template=URI_PREFIX + "{handle}",
            name="codecall-result",
            title="Result of a script",
            description="The whole JSON text of a script's result that was too large for an answer, by the `handle` "
            f"in its `largeResult`, if it has no more than {MAX_READ_CHARS} characters; longer ones are read in "
            "pages. Only for whoever ran the script, until it expires.",
            mime_type="application/json",
        )
        self._page = ResourceTemplate.from_function(
            self.read_page,
            uri_template=URI_PREFIX + "{handle}/pages/{page}",
            name="codecall-result-page",
            title="Page of a result of a script",
            description=f"One page of that text: {PAGE_CHARS} characters, wherever they are cut. Pages count from 1 "
            "to the `pages` of `largeResult`; put together in order they are the whole.",
            mime_type="text/plain",
        )

    @property
    def templates(self) -> Sequence[ResourceTemplate]:
        """What is listed."""
        return self._whole, self._page

    async def find_template(self, uri: str) -> ResourceTemplate | None:
        """The template with which the caller of this request reads `uri`; None if there is nothing for them."""
        ours = _OURS.fullmatch(uri)
        if ours is None:
            return None
        if await self._found(ours[1]) is None:
            return None
        return self._page if ours[2] else self._whole

    async def read_all(self, handle: str) -> str:
        """The whole text.

        Raises:
            NotFoundError: there is none for this caller.
            ResourceError: it is too long to be given at once, or the store does not answer.
        """
        found = await self._found(handle)
        if found is not None and found.head.chars > MAX_READ_CHARS:
            message = (
                f"This result has {found.head.chars} characters, and no more than {MAX_READ_CHARS} are given at "
                f"once: read its {found.head.pages} pages, {URI_PREFIX}{{handle}}/pages/1 and so on"
            )
            raise ResourceError(message, log_level=logging.DEBUG)
        return await self._text(found, 0, None)

    async def read_page(self, handle: str, page: str) -> str:
        """One page of it.

        Raises:
            NotFoundError: there is no such result for this caller.
            ResourceError: no such page, or the store does not answer.
        """
        found = await self._found(handle)
        pages = found.head.pages if found is not None else 1
        number = int(page) if _NUMBER.fullmatch(page) else 0
        if not 1 <= number <= pages:
            message = f"This result has no page {page[:20]!r}: pages count from 1 to {pages}"
            raise ResourceError(message, log_level=logging.DEBUG)
        return await self._text(found, (number - 1) * PAGE_CHARS, number * PAGE_CHARS)

    async def _text(self, found: _Found | None, start: int, end: int | None) -> str:
        if found is not None:
            with _answering():
                text = await self._results.text(found.owner, found.handle, found.head, start, end)
            if text is not None:
                return text
        raise NotFoundError("There is no such result")

    async def _found(self, handle: str) -> _Found | None:
        owner = client_key(_context())
        with _answering():
            found = await self._results.meta(owner, handle)
        return None if found is None else _Found(owner, *found)


class _Found(NamedTuple):
    owner: str
    handle: str
    head: ResultMeta


@contextmanager
def _answering() -> Generator[None]:
    try:
        yield
    except StoreError as failure:
        log_store_failure("give a result", failure)
        message = "The store of kept results does not answer; try again later"
        raise ResourceError(message, log_level=logging.DEBUG) from None


def _context() -> Context | None:
    try:
        return get_context()
    except RuntimeError:
        return None
