"""Suggests existing tool names for one that does not exist: the hint behind `notFound` and `TOOL_NOT_FOUND`.

A suggestion may differ by other separators and letter case (`users_list`, `UsersList` for `users:list`), a missing or
additional prefix (`list`, `crm_users_list`), words in another order or form (`list_user`), another word for the same
action (`fetchUsers`), and typing errors (`users:lsit`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from heapq import nsmallest

from codecall.catalog.search.analysis import name_parts, stem
from codecall.catalog.search.synonyms import ACTIONS
from codecall.globs import is_glob
from codecall.wording import similarity

MAX_NAME_CHARS = 128
"""Characters of a name that are compared; MCP allows 128."""

MIN_SIMILARITY = 0.7
"""Names less similar than this (0 to 1) are not suggested. `difflib`'s own default of 0.6 lets `users:get` and
`orders:get` stand for each other."""

_MAX_COMPARED = 24
"""How many candidates are compared letter by letter: those that share the most pairs of letters. Bounds the time."""

_SAME_NAMESPACE_SIMILARITY = 0.7
"""The least similarity of two names with the same text before the first `:`, `.` or `/`."""

_MAX_PAIRS = 16
"""How many pairs of letters of a name are looked for: evenly spread over the name when it has more."""

_ACTIONS = [frozenset(map(stem, group.split())) for group in ACTIONS]

_SEPARATORS = str.maketrans("", "", ":._-/ ")
_NAMESPACE = re.compile(r"[^:./]+[:./]")


def similar_names(name: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """Returns up to `limit` of `names` that `name` may stand for, the most similar first, equal ones in order of name.

    The list is empty when no name is similar. `name` itself is never in it. About 15 ms for 10,000 names: beyond a few
    thousand, call it in a thread.
    """
    word = name[:MAX_NAME_CHARS]
    key = _key(word)
    if not key or limit < 1:
        return []
    pairs = [key[i : i + 2] for i in range(len(key) - 1)] or [key]
    pairs = pairs[:: -(-len(pairs) // _MAX_PAIRS)]
    # Pairs of letters are a cheap sieve: a name that shares few of them cannot be near.
    least = max(1, len(pairs) // 3)
    candidates: list[tuple[int, int, str]] = []
    for other in set(names):
        if other == name:
            continue
        other_key = _key(other[:MAX_NAME_CHARS])
        shared = sum(map(other_key.__contains__, pairs))
        if shared >= least:
            candidates.append((-shared, abs(len(other_key) - len(key)), other))
    words = _words(word)
    ranked = [(-_similarity(word, words, other), other) for _, _, other in nsmallest(_MAX_COMPARED, candidates)]
    return [other for negative, other in sorted(ranked) if -negative >= MIN_SIMILARITY][:limit]


def nearest_name(pattern: str, names: Iterable[str]) -> str | None:
    """The one of `names` that a name in a rule may stand for that is none of them; None for a glob, and where none is
    similar."""
    return next(iter([] if is_glob(pattern) else similar_names(pattern, names, limit=1)), None)


def _same_action(words: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two names differ in one word each, and these are words for the same action."""
    mine, theirs = words - others, others - words
    if len(mine) != 1 or len(theirs) != 1 or len(words) == 1:
        return False
    return any(mine <= group and theirs <= group for group in _ACTIONS)


def _key(name: str) -> str:
    return name.casefold().translate(_SEPARATORS)


def _words(name: str) -> frozenset[str]:
    return frozenset(stem(word) for word in name_parts(name))


def _namespace(name: str) -> str:
    match = _NAMESPACE.match(name)
    return match.group().casefold() if match else ""


def _similarity(word: str, words: frozenset[str], other: str) -> float:
    """How similar `other` is to the name that was given, 0 to 1."""
    other = other[:MAX_NAME_CHARS]
    key, other_key = _key(word), _key(other)
    if key == other_key:
        return 1.0
    other_words = _words(other)
    best = _SAME_NAMESPACE_SIMILARITY if _namespace(word) and _namespace(word) == _namespace(other) else 0.0
    best = max(best, similarity(key, other_key))
    if words and other_words:
        common = len(words & other_words)
        if words == other_words:
            best = max(best, 0.95)
        elif _same_action(words, other_words):
            best = max(best, 0.85)
        elif common == len(words) or common == len(other_words):
            # All words of one stand in the other: a prefix is missing, or there is one too many.
            best = max(best, 0.75 + 0.2 * common / max(len(words), len(other_words)))
    return best
