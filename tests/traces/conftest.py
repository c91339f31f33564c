"""One browser for all tests of a session, and the traces of real runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codecall.traces import Trace, render, write_page
from tests.traces.browser import Browser, BrowserError, Page
from tests.traces.shop import FAILING, REPORT, traced

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; where there is none, the test fails."""
    try:
        chromium = Browser()
    except BrowserError as missing:
        pytest.fail(str(missing), pytrace=False)
    yield chromium
    chromium.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a trace in a tab of its own."""
    pages: list[Page] = []

    def open_page(trace: Trace, *, scheme: str = "light", script: bool = True) -> Page:
        file = tmp_path / f"{len(pages)}.html"
        write_page(file, render(trace))
        pages.append(Page(browser, file, scheme=scheme, script=script))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


@pytest.fixture(scope="session")
def runs() -> list[Trace]:
    """A run that ended well, and one that failed."""
    return asyncio.run(traced(REPORT, FAILING))
