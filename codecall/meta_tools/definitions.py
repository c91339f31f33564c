"""How much of definitions one answer of `codecall:search` or `codecall:describe` holds.

Servers write the definitions of their tools, and a caller asks for fifty at once: what one answer has no room for is
named in it, and read by describing it alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from codecall.jsonio.decode import encode_exactly
from codecall.meta_tools.base import JsonObject
from codecall.wording import cut, join_names

MAX_DEFINITION_BYTES: Final = 256 * 1024
"""Bytes of JSON of the definitions in one answer; of one that is alone any number."""

BEGINNING_CHARS: Final = 200
"""Characters of a title or description of which the rest is left out."""

_MAX_NAMED: Final = 10
_LEFT_OUT: Final = ("inputSchema", "outputSchema", "observedOutput", "annotations", "usageExamples")


def limit_definitions(documents: Sequence[JsonObject]) -> list[str]:
    """Cut those of the documents that an answer has no room for; what the answer says of it. Best done in a thread."""
    room, named = MAX_DEFINITION_BYTES, list[str]()
    for document in documents if len(documents) > 1 else ():
        size = _size(document)
        if size <= room:
            room -= size
            continue
        named.append(str(document["name"]))
        for key in {"title", "description"} & document.keys():
            document[key] = cut(str(document[key]), BEGINNING_CHARS)
        for key in _LEFT_OUT:
            document.pop(key, None)
    if not named:
        return []
    names = join_names(named, _MAX_NAMED, lambda name: repr(cut(name, BEGINNING_CHARS)))
    return [
        f"Only the beginning of the description, and no schema, is shown of {names}: an answer holds "
        f"{MAX_DEFINITION_BYTES:,} bytes of definitions. Describe one alone to see all of it."
    ]


def _size(document: JsonObject) -> int:
    try:
        return len(encode_exactly(document))
    except UnicodeEncodeError:  # the answer has another character for what is none
        return len(json.dumps(document, ensure_ascii=False).encode(errors="surrogatepass"))
