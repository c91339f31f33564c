"""What a tool is for: create, list, get, update, delete, search or something else, told from its name first."""

from __future__ import annotations

import re
from typing import Literal

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.schema import Schema
from codecall.catalog.text import name_parts, stem

Intent = Literal["create", "list", "get", "update", "delete", "search", "other"]

_VERBS: dict[Intent, str] = {
    "create": "create add new insert register open make post submit upload draft start publish send generate",
    "list": "list enumerate index browse all",
    "get": "get fetch read show describe retrieve view load lookup download inspect whoami status info details",
    "update": "update edit modify change set patch rename move replace put assign upsert enable disable close",
    "delete": "delete remove destroy drop purge erase clear cancel revoke unregister unassign",
    "search": "search find query filter match locate discover",
}
"""The words that give an intent away. Stemmed like all words, so that `creates` and `listing` count too."""

_INTENT_OF: dict[str, Intent] = {stem(verb): intent for intent, verbs in _VERBS.items() for verb in verbs.split()}
_CHANGES: frozenset[Intent] = frozenset({"create", "update", "delete"})


def intent_of(entry: CatalogEntry) -> Intent:
    """The intent of a tool: the first verb of the last part of its name, else of the whole name or the description.

    `get` over a plural without a required parameter is `list`. A tool that says it only reads never creates, updates or
    deletes.
    """
    last = re.split(r"[:./]", entry.name)[-1]
    sentence = " ".join(entry.description.split()[:6])
    found = _first_intent(last) or _first_intent(entry.name) or _first_intent(sentence) or "other"
    if entry.annotations.get("readOnlyHint") is True and found in _CHANGES:
        return "other"
    if found == "get" and not Schema(entry.input_schema).required and _plural(name_parts(last)):
        return "list"
    return found


def _first_intent(text: str) -> Intent | None:
    for word in name_parts(text):
        intent = _INTENT_OF.get(stem(word)) if word.isascii() else None
        if intent is not None:
            return intent
    return None


def _plural(words: list[str]) -> bool:
    return any(
        word.endswith("s") and not word.endswith(("ss", "us", "is")) and stem(word) not in _INTENT_OF for word in words
    )
