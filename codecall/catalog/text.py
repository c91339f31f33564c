"""How tool names, descriptions and queries become words: split, lowered, freed of filler, stemmed.

Both sides go through the same functions, so that `users:listAll`, "list all the users" and "listing users" meet.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Vowel signs and accents that no single letter includes: Thai, Devanagari and others write words with them.
_MARKS = "".join(mark for mark in map(chr, range(0x0300, 0x10A0)) if unicodedata.category(mark) in {"Mn", "Mc"})
_WORD = re.compile(rf"(?:[^\W_]+|[{_MARKS}]+)+")
# Humps are ASCII; every other letter goes on with the word it stands in.
_HUMPS = re.compile(rf"[A-Z]+(?=[A-Z][a-z])|[A-Z]?(?:[^\W\d_A-Z]+|[{_MARKS}]+)+|[A-Z]+|\d+|.")
_HUMPED = re.compile(r"[A-Za-z0-9]+")
_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u3040-\u30ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "]+"
)

STOP_WORDS = frozenset(
    word
    for line in (
        "a an and any anyone are as at be been being but by can could did do does doing done for from had has have",
        "having he her here hers him his how i if in into is it its itself just kindly let like may me might mine",
        "more most must my need needed needs of off on onto or our ours out over own per please shall she should",
        "so some such than thank thanks that the their theirs them then there these they this those though through",
        "thus to too under until up upon us very via want wanted wants was we were what whatever when where",
        "whether which while who whom whose why will wish with within without would yes you your yours also am",
        "about after again all another because before between both each either else ever every few further d ll m",
        "re s t ve don doesn didn isn wasn won able help give tell know looking",
    )
    for word in line.split()
)
"""Words that say nothing about which tool is meant. Verbs of command (get, list, show, find, make …) are not here."""

_LONGEST_WORD = 64
"""Characters of a word that count; what is longer is a key or a blob, not a word."""

LONGEST_TEXT = 20_000
"""Characters of a text that are read, from its beginning. Of 13,000 real tools the longest description has 13,078."""


def name_parts(name: str) -> list[str]:
    """The words of an identifier, lower case: split at what is no letter or digit, and at camelCase humps."""
    return [part for parts in _split(name) for part in parts]


def name_words(name: str) -> list[str]:
    """The same, and each camelCase word also whole (`getGitHubUser` → get, git, hub, user, getgithubuser): a brand
    written in humps is then found by its plain spelling too."""
    words: list[str] = []
    for parts in _split(name):
        words += parts
        whole = "".join(parts)
        if len(parts) > 1 and _HUMPED.fullmatch(whole):
            words.append(whole)
    return words


def _split(name: str) -> list[list[str]]:
    pieces = _WORD.findall(unicodedata.normalize("NFKC", name[:LONGEST_TEXT]))
    return [[hump.lower() for hump in _HUMPS.findall(piece)] for piece in pieces]


def terms(text: str, *, stop: frozenset[str] = STOP_WORDS) -> list[str]:
    """The stemmed terms of a text in their order, without the words of `stop`.

    Identifiers inside the text are split as names are. Scripts that put no blanks between words (Han, Kana, Thai, Lao)
    give one term for each pair of neighbouring characters.
    """
    found: list[str] = []
    for word in name_words(text):
        if word.isascii():
            if word not in stop:
                found.append(stem(word[:_LONGEST_WORD]))
        else:
            found.extend(_unspaced(word))
    return found


def _unspaced(word: str) -> list[str]:
    found: list[str] = []
    rest = word
    while match := _UNSPACED.search(rest):
        if match.start():
            found.append(rest[: min(match.start(), _LONGEST_WORD)])
        run = match.group()
        found.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
        rest = rest[match.end() :]
    if rest:
        found.append(rest[:_LONGEST_WORD])
    return found


_ENDINGS = (
    ("ations", "at"), ("ation", "at"), ("ators", "at"), ("ator", "at"), ("ating", "at"), ("ated", "at"),
    ("ates", "at"), ("ate", "at"), ("ities", "iti"), ("ity", "iti"), ("izing", "iz"), ("ized", "iz"), ("izes", "iz"),
    ("ize", "iz"), ("ising", "iz"), ("ised", "iz"), ("ises", "iz"), ("ise", "iz"),
)  # fmt: skip


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """`word` (ASCII, lower case) without its inflection: users → user, created, creating, creation → creat.

    Lighter than Porter's algorithm: plurals, -ing, -ed, -ion and a final e. A stem keeps at least three characters.
    """
    if len(word) < 4 or not word.isalpha():
        return word
    root = word
    if root.endswith("ies") and len(root) > 4:
        root = root[:-3] + "y"
    elif root.endswith(("sses", "shes", "ches", "xes", "zes")):
        root = root[:-2]
    elif root.endswith("s") and not root.endswith(("ss", "us", "is")):
        root = root[:-1]
    for ending in ("ing", "ed"):
        if root.endswith(ending) and _has_vowel(root[: -len(ending)]) and len(root) - len(ending) >= 3:
            root = root[: -len(ending)]
            if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz":
                root = root[:-1]
            break
    if root.endswith("ion") and len(root) > 5 and root[-4] in "ts":
        root = root[:-3]
    if root.endswith("e") and len(root) > 3:
        root = root[:-1]
    if root.endswith("y") and len(root) > 3:
        root = root[:-1] + "i"
    return root


def _has_vowel(text: str) -> bool:
    return any(letter in "aeiouy" for letter in text)


_BETWEEN_INTENTIONS = re.compile(
    r"(?<=[.?!;])\s+|\n+|(?<=[。？！；])|,?\s+(?:and then|then|and also|as well as)\s+|,\s+and\s+", re.IGNORECASE
)


MAX_INTENTIONS = 10
"""Parts of one query that are searched by themselves."""


def intentions(text: str, most: int) -> list[str]:
    """The parts of a request that asks for several things: its sentences, and what `then` or `, and` joins.

    Those of at least two words, at most `most` of them; none where there is one only.
    """
    found = [part for part in map(str.strip, _BETWEEN_INTENTIONS.split(text)) if len(terms(part)) > 1]
    return found[:most] if len(found) > 1 else []
