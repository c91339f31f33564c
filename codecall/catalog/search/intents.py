"""What a request wants done and what a tool does: to read, create, change, destroy or convert something.

Data, to be read and argued about. A tool that does something else than is asked for stays in the answer, further down
(`factors`): nobody who asks for a list should get a delete first.
"""

from __future__ import annotations

import re
from enum import IntFlag
from typing import Final

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import STOP_WORDS, name_parts, stem


class Intent(IntFlag):
    """Kinds of doing; a request may ask for several, a tool has one or none."""

    NONE = 0
    READ = 1
    CREATE = 2
    UPDATE = 4
    DESTROY = 8
    CONVERT = 16
    DEPRECATED = 32
    """Beside the others: the tool's description calls it deprecated."""


VERBS: Final = {
    Intent.READ: "get list show read view fetch find search display retrieve query describe browse lookup look see",
    Intent.CREATE: "create add new make insert register generate",
    Intent.UPDATE: "update edit change modify set patch rename adjust replace",
    Intent.DESTROY: "delete remove drop destroy erase purge wipe clear truncate uninstall revoke",
    Intent.CONVERT: "convert transform translate",
}
"""The verbs of each intent, in names of tools and in requests."""

ALSO_ASKED: Final = {
    Intent.READ: r"what|which|who|when|where|how (?:many|much|long|old)",
    Intent.CREATE: r"(?:open|raise|file|start|write|draft|book|schedule) (?:an?|new|another)",
    Intent.UPDATE: r"move|mark|assign|turn (?:on|off)",
    Intent.DESTROY: r"clean up|take down|(?:cancel|terminat|kill|unsubscrib|reset|undo|end|stop)\w*",
}
"""Other ways to ask for it, as regular expressions. They say nothing of a tool that has such words in its name."""

ELSE, DESTROYS, OUTDATED = 0.95, 0.65, 0.8
"""What is left of the score of a tool that does something else than is asked for; that destroys, unasked; that is
deprecated. On the development sets the first brings 0.1 / 0.2 and loses as much at 0.9; the others change nothing
there."""

_END_OF_OBJECT: Final = frozenset(
    ("from", "in", "on", "at", "of", "to", "with", "for", "by", "and", "or", "then", "if", "when", "where", "which")
)
"""Words after which a request no longer says what is to be destroyed."""

_INTENT_OF: Final = {stem(verb): intent for intent, verbs in VERBS.items() for verb in verbs.split()}
_ALSO_ASKED: Final = {intent: re.compile(rf"\b(?:{text})\b", re.IGNORECASE) for intent, text in ALSO_ASKED.items()}
_DEPRECATED: Final = re.compile(r"\W*(?:this (?:tool|function|endpoint) is )?deprecated\b", re.IGNORECASE)


def tool_intent(entry: CatalogEntry) -> Intent:
    """Returns what a tool does: by the first verb of its name that is in the table, else by its annotation as one that
    only reads; and whether its name or the beginning of its description says that it is deprecated."""
    words = name_parts(entry.name)
    intent = next((_INTENT_OF[word] for word in map(stem, words) if word in _INTENT_OF), Intent.NONE)
    if not intent and entry.annotations.get("readOnlyHint") is True:
        intent = Intent.READ
    if "deprecated" in words or _DEPRECATED.match(entry.description):
        intent |= Intent.DEPRECATED
    return intent


def query_intents(query: str) -> Intent:
    """Returns everything that a request asks for."""
    asked = Intent.NONE
    for word in name_parts(query):
        asked |= _INTENT_OF.get(stem(word), Intent.NONE)
    for intent, pattern in _ALSO_ASKED.items():
        if pattern.search(query):
            asked |= intent
    return asked


def to_destroy(query: str) -> list[str]:
    """Returns the words for what a request wants destroyed: those between the verb and the next preposition."""
    objects: list[str] = []
    inside = False
    for word in name_parts(query):
        if _INTENT_OF.get(stem(word)) is Intent.DESTROY:
            inside = True
        elif word in _END_OF_OBJECT:
            inside = False
        elif inside and word not in STOP_WORDS:
            objects.append(word)
    return objects


def intent_factors(asked: Intent, intents: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Returns, for tools of these intents, what is left of their scores when `asked` is asked for."""
    factor_of = np.array([_factor(asked, Intent(value)) for value in range(2 * Intent.DEPRECATED)], np.float32)
    return factor_of[intents]


def _factor(asked: Intent, intent: Intent) -> float:
    outdated = OUTDATED if intent & Intent.DEPRECATED else 1.0
    kind = intent & ~Intent.DEPRECATED
    if kind & asked or not kind:
        return outdated
    if kind & Intent.DESTROY:
        return outdated * DESTROYS
    return outdated * (ELSE if asked else 1.0)
