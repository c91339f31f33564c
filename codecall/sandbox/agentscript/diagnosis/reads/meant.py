"""Whether another key was meant by one that an answer does not have, which is a misspelling of it, or another name of a
list: the rules of both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, cast

from codecall.sandbox.agentscript.diagnosis.reads.needs import FLAGS
from codecall.sandbox.agentscript.foreign_words import LIST_WRAPPERS
from codecall.sandbox.agentscript.ruleset import closest_name

MAX_KEYS: Final = 200
"""Keys of answers that a name is compared with."""

_NEARLY_EQUAL: Final = 0.85
"""Similarity of a misspelt name of what may be missing: `deletion_time` is none of `creation_time`."""
_NEGATION: Final = re.compile(r"(?i)(?:un|in|dis|non|not)[_-]?")


def is_misspelt(name: str, key: str, *, is_optional: bool) -> bool:
    """Whether a similar key was meant; `is_optional`: the script is ready for the value to be missing."""
    if FLAGS.search(name) or _are_opposites(name, key):
        return False
    if not is_optional:
        return True
    plain = [text.casefold().replace("_", "") for text in (name, key)]
    return closest_name(plain[0], plain[1:], cutoff=_NEARLY_EQUAL) is not None


def _are_opposites(*names: str) -> bool:
    """Whether one of two names denies the other: `unpaid` and `paid`."""
    short, long = sorted(names, key=len)
    return long.endswith(short) and _NEGATION.fullmatch(long.removesuffix(short)) is not None


def is_list_meant(name: str, tool: str, *, of_answer: bool, is_page: bool, means_list: bool) -> bool:
    """Whether the only list of an object was meant by another name.

    Args:
        name: The name.
        tool: The tool whose answer the object is in.
        of_answer: Whether the object is the answer itself.
        is_page: What `is_page` says of the object.
        means_list: Whether the script takes what it reads for a list.
    """
    if name in LIST_WRAPPERS and means_list and (of_answer or is_page):
        return True
    is_named = name.casefold() in tool.casefold()
    return of_answer and (is_named or (means_list and is_page and not FLAGS.search(name)))


def is_page(owner: Mapping[str, object], tool: str, *, lists: type = list, dicts: type = dict) -> bool:
    """Whether an object is a list of objects with what belongs to it, rather than one object with a list, or a table
    that has one list so far.

    Args:
        owner: The object.
        tool: The tool that gave it.
        lists: The class of lists in the language.
        dicts: That of objects.
    """
    found = [(key, cast("list[object]", value)) for key, value in _first(owner) if isinstance(value, lists)]
    if len(found) != 1 or not isinstance(next(iter(found[0][1]), None), dicts):
        return False
    key = found[0][0]
    return "id" not in owner and (len(owner) > 1 or key in LIST_WRAPPERS or key.casefold() in tool.casefold())


def _first(owner: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    return islice(owner.items(), MAX_KEYS)
