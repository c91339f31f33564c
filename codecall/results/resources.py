"""Serves kept results as MCP resources: the templates are listed, the results never are.

    codecall://results/{handle}                  the whole JSON text
    codecall://results/{handle}/pages/{page}     one page of it, counted from 1

FastMCP looks for a template before it reads a URI. A caller who has no such result gets none, so that the answer is
FastMCP's own for an unknown resource, and a server that mounts several of these asks the next one.
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
"""Characters that are returned at once. One message with more would block the event loop for everybody."""

_RESULT_URI: Final = re.compile(re.escape(URI_PREFIX) + r"([^/?#]+)(/pages/[^/?#]+)?")

_PAGE_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


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
        """The templates that are listed."""
        return self._whole, self._page

    async def find_template(self, uri: str) -> ResourceTemplate | None:
        """The template with which the caller of this request reads `uri`; None if they have no such result."""
        match = _RESULT_URI.fullmatch(uri)
        if match is None or await self._find(match[1]) is None:
            return None
        return self._page if match[2] else self._whole

    async def read_all(self, handle: str) -> str:
        """The whole text of a result.

        Raises:
            NotFoundError: this caller has no such result.
            ResourceError: it is too long to be returned at once, or the store does not answer.
        """
        result = await self._find(handle)
        if result is not None and result.meta.chars > MAX_READ_CHARS:
            message = (
                f"This result has {result.meta.chars} characters, and no more than {MAX_READ_CHARS} are given at "
                f"once: read its {result.meta.pages} pages, {URI_PREFIX}{{handle}}/pages/1 and so on"
            )
            raise ResourceError(message, log_level=logging.DEBUG)
        return await self._text(result, 0, None)

    async def read_page(self, handle: str, page: str) -> str:
        """One page of a result's text.

        Raises:
            NotFoundError: this caller has no such result.
            ResourceError: the page does not exist, or the store does not answer.
        """
        result = await self._find(handle)
        pages = result.meta.pages if result is not None else 1
        number = int(page) if _PAGE_NUMBER.fullmatch(page) else 0
        if not 1 <= number <= pages:
            message = f"This result has no page {page[:20]!r}: pages count from 1 to {pages}"
            raise ResourceError(message, log_level=logging.DEBUG)
        return await self._text(result, (number - 1) * PAGE_CHARS, number * PAGE_CHARS)

    async def _text(self, result: _OwnedResult | None, start: int, end: int | None) -> str:
        if result is not None:
            with _translate_store_errors():
                text = await self._results.text(result.owner, result.handle, result.meta, start, end)
            if text is not None:
                return text
        raise NotFoundError("There is no such result")

    async def _find(self, handle: str) -> _OwnedResult | None:
        owner = client_key(_context())
        with _translate_store_errors():
            stored = await self._results.meta(owner, handle)
        return None if stored is None else _OwnedResult(owner, *stored)


class _OwnedResult(NamedTuple):
    owner: str
    handle: str
    meta: ResultMeta


@contextmanager
def _translate_store_errors() -> Generator[None]:
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
