"""How much text of each server is indexed: a server that lists 10,000 long descriptions would take gigabytes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from typing import Final

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import MAX_TEXT_CHARS

logger = logging.getLogger("codecall")

MAX_SERVER_CHARS: Final = 2_000_000
"""Characters of one server whose entries are read in full. Words that no other entry has take some 150 bytes of memory
for each; of 120 real servers the largest lists 600,000 characters."""

SHORT_TEXT_CHARS: Final = 200
"""Characters that are read of each further entry: its name, and how its description begins."""


class TextQuota:
    """Counts the characters of entries that are indexed, server by server. One thread at a time uses it."""

    def __init__(self) -> None:
        self._by_server: Counter[str] = Counter()
        self._by_id: dict[int, tuple[str, int]] = {}
        self._warned: set[str] = set()

    def max_chars(self, entry: CatalogEntry) -> int:
        """Returns how many characters of `entry` are to be read."""
        if self._by_server[entry.server] < MAX_SERVER_CHARS:
            return MAX_TEXT_CHARS
        if entry.server not in self._warned:
            self._warned.add(entry.server)
            logger.warning(
                "The tools of %r describe themselves with more than %d characters: search reads only the first %d of "
                "each further one",
                entry.server,
                MAX_SERVER_CHARS,
                SHORT_TEXT_CHARS,
            )
        return SHORT_TEXT_CHARS

    def add(self, number: int, entry: CatalogEntry, chars: int) -> None:
        """Counts the characters of an entry that were read."""
        self._by_server[entry.server] += chars
        self._by_id[number] = entry.server, chars

    def remove(self, numbers: Collection[int]) -> None:
        """Counts entries no more. Ids that are not counted are passed over: adding theirs may have failed."""
        for number in self._by_id.keys() & set(numbers):
            server, chars = self._by_id.pop(number)
            self._by_server[server] -= chars
            if not self._by_server[server]:
                del self._by_server[server]
