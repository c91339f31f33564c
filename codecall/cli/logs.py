"""Log records of this process as remarks on stderr, while a command runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager


class _Remarks(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        # The command says itself which servers it could not list, and why.
        if not str(record.msg).startswith("Server %s could not be listed"):
            self._say(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def remarks(say: Callable[[str], None]) -> Generator[None]:
    """Within, warnings of CodeCall go to `say`."""
    logger = logging.getLogger("codecall")
    handler, before = _Remarks(say), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
