"""Makes the pictures of docs/guide/traces.md, from real runs in a real browser: `make screenshots`."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from codecall.traces import render, write_page
from tests.traces.browser import Browser, Page
from tests.traces.shop import FAILING, REPORT, traced

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
MAX_BYTES = 150_000
HEIGHT = 1_000
OPEN = """(() => {
  document.querySelector('#call-%d details').open = true;
  return Math.floor(document.getElementById('calls').getBoundingClientRect().top + scrollY - 24);
})()"""


def main(folder: Path) -> None:
    """Write the pictures into a folder."""
    logging.disable()  # a tool that fails is told at length, while the clock of the run is going
    _, done, failed = asyncio.run(traced(REPORT, REPORT, FAILING))  # the first waits for its worker to start
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as pages:
            for name, trace, scheme, call in (
                ("trace-light", done, "light", None),
                ("trace-calls-light", done, "light", 2),
                ("trace-failed-dark", failed, "dark", None),
            ):
                file = Path(pages) / f"{name}.html"
                write_page(file, render(trace))
                page = Page(browser, file, scheme=scheme)
                page.do("Emulation.setDeviceMetricsOverride", width=1080, height=900, deviceScaleFactor=1, mobile=False)
                top = 0 if call is None else page.get(OPEN % call)
                page.settled()
                picture = page.picture(top, HEIGHT)
                assert len(picture) < MAX_BYTES, f"{name}: {len(picture):,} bytes"
                (folder / f"{name}.png").write_bytes(picture)
                sys.stdout.write(f"{name}.png: {len(picture):,} bytes\n")
                page.close()
    finally:
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
