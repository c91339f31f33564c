"""Which entries of an app stand for it: those whose words most of the others share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from codecall.catalog.documents import NO_WORDS
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.text import terms

MAX_COMPARED = 100
"""Entries of one app that are looked at; of a larger one, evenly spread over it."""


def central_entries(
    entries: Sequence[CatalogEntry], per_app: int, apps: Sequence[str] | None = None
) -> dict[str, list[CatalogEntry]]:
    """For each app, or those named, the `per_app` entries most like the others; likest first, then by name.

    An entry is as central as its words (of name and description) are common in its app, on average. Some 20 ms for
    1,000 entries: do it in a thread.
    """
    by_app: dict[str, list[CatalogEntry]] = defaultdict(list)
    wanted = None if apps is None else set(apps)
    for entry in entries:
        if wanted is None or entry.app_id in wanted:
            by_app[entry.app_id].append(entry)
    return {app: _central(sorted(members, key=_by_name), per_app) for app, members in by_app.items()}


def _central(members: Sequence[CatalogEntry], most: int) -> list[CatalogEntry]:
    if len(members) <= most:
        return list(members)
    looked_at = members[:: -(-len(members) // MAX_COMPARED)]
    words = [frozenset(terms(entry.name, stop=NO_WORDS) + terms(entry.description)) for entry in looked_at]
    spread = Counter(word for each in words for word in each)
    # The root favours, among equals, what says more.
    worth = [sum(spread[word] for word in each) / max(1, len(each)) ** 0.5 for each in words]
    ranked = sorted(zip(worth, looked_at, strict=True), key=lambda pair: -pair[0])
    return [entry for _, entry in ranked[:most]]


def _by_name(entry: CatalogEntry) -> tuple[str, str]:
    return entry.name, entry.kind
