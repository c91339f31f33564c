"""Pages as files: whole or not at all, and for their owner only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page, in place of what has that name; readable by its owner only.

    Raises:
        OSError: it cannot be written; what had that name is as it was.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=".trace-", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(page)
        os.replace(name, target)  # noqa: PTH105 - beside mkstemp, which gives a name
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
