"""Names for the `type` aliases in TypeScript declarations: no two entries of a catalogue share one."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.references import title_of

MAX_NAME = 60
"""Characters of an entry's name that stand in an alias; a longer one is shortened to a digest."""
MAX_TITLE = 40
"""Characters of a definition's name that stand in an alias."""

_SPELLED: Final = {":": "$0", "-": "$1", ".": "$2", "/": "$3", " ": "$4", "$": "$5"}
"""How characters are written that no identifier can hold, so that different names stay different."""
_KINDS: Final = {"tool": "", "prompt": "$p", "resource": "$r", "template": "$t"}


class Names:
    """Names for the definitions of one entry: `User_users$0list` for the `User` of `users:list`.

    Up to the first underscore stands the definition, behind it the entry, both in letters, digits and `$` alone where
    the other could be mistaken for it; so the names of two entries differ wherever the entries' names do.
    """

    def __init__(self, entry: CatalogEntry) -> None:
        self._suffix = f"_{_KINDS[entry.kind]}{_spelled(entry.name)}"
        self._taken: set[str] = set()

    def of(self, place: str) -> str:
        """A new name for the definition at a place in a schema."""
        words = re.findall(r"[A-Za-z0-9]+", title_of(place))
        title = "".join(word[:1].upper() + word[1:] for word in words)[:MAX_TITLE] or "Type"
        title = title if title[0].isalpha() else f"T{title}"
        name, number = title, 2
        while name in self._taken:
            name, number = f"{title}{number}", number + 1
        self._taken.add(name)
        return f"{name}{self._suffix}"


def _spelled(name: str) -> str:
    """`name` in characters of identifiers."""
    spelled = re.sub(r"[^A-Za-z0-9_]", lambda found: _SPELLED.get(found[0], f"$x{ord(found[0]):x}_"), name)
    if len(spelled) <= MAX_NAME:
        return spelled
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{spelled[:20]}$z{digest}"
