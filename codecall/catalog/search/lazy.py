"""What a server needs of search before the first one, which loads the rest: NumPy and SciPy take 0.3 s and 30 MB."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import to_thread

from codecall.catalog.search.threads import search_threads
from codecall.concurrency import load_and_freeze
from codecall.errors import OptionsError
from codecall.options import SearchOptions

if TYPE_CHECKING:
    from codecall.catalog.search.index import SearchIndex

logger = logging.getLogger("codecall")


class LazySearchIndex:
    """A search index that is created when it is first asked for.

    Args:
        create: Imports what a search needs, and creates the index; runs in a thread.
        preload: Whether `start_loading` does anything: a model takes too long to load for a first search.
    """

    def __init__(self, create: Callable[[], SearchIndex], *, preload: bool = False) -> None:
        self._create = create
        self._preload = preload
        self._lock = threading.Lock()
        self._index: SearchIndex | None = None

    async def get(self) -> SearchIndex:
        """Returns the index; the first call loads it, off the event loop.

        Raises:
            Exception: what stopped it from being loaded; the next call tries again.
        """
        return self._index or await to_thread.run_sync(self._load, limiter=search_threads())

    def start_loading(self) -> None:
        """Starts to load index and model in a thread that nobody waits for. Without a model it does nothing."""
        if self._preload:
            threading.Thread(target=self._load_with_model, name="codecall-model", daemon=True).start()

    def _load(self) -> SearchIndex:
        with self._lock:
            if self._index is None:
                self._index = load_and_freeze(self._create)
            return self._index

    def _load_with_model(self) -> None:
        with suppress(Exception):  # the first search tries again and reports it
            self._load().start_loading()


def resolve_strategy(options: SearchOptions) -> SearchOptions:
    """Returns `options` with a strategy that works here: the requested one, or the one that `auto` stands for.

    `auto` becomes `hybrid` where extra and model are installed, else `tfidf` with a warning that says what is missing.

    Raises:
        OptionsError: `embedding` or `hybrid` is requested, and the extra or the model is missing; the hint says what to
            install.
    """
    if options.strategy in ("tfidf", "model"):
        return options
    from codecall.catalog.search.models.locate import locate_model

    if options.strategy != "auto":
        locate_model(options)
        return options
    try:
        locate_model(options)
    except OptionsError as missing:
        logger.warning("Search goes by words alone: %s. %s", missing.message, missing.hint)
        return options.model_copy(update={"strategy": "tfidf"})
    return options.model_copy(update={"strategy": "hybrid"})
