"""Characters that deceive a reader: invisible ones, those that change the reading order, letters that look like
others."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = "\x00-\x1f\x7f-\x9f"
_SEPARATORS: Final = "\u2028\u2029"

# Unicode property Bidi_Control
BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that show code in another order than it runs."""
SEPARATOR: Final = re.compile(f"[{_SEPARATORS}]")
"""Characters that end a line to some readers only."""
SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, in a text whose pairs are joined."""

BREAKS_CODE: Final = re.compile(f"[{_CONTROLS}`{_SEPARATORS}]+")
"""Characters that would end a line of a hint, or a piece of code in one."""
DECEIVES_IN_CODE: Final = re.compile(f"[{_CONTROLS}`{_SEPARATORS}\u202a-\u202e\u2066-\u2069]")
"""Characters with which a key in a hint would look like more than a key."""

# Characters that show nothing: controls, joiners, fillers, separators, variation selectors, tags.
_JOINERS: Final = "\u200d\ufe0e\ufe0f"
_INVISIBLE: Final = (
    "\x01-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u2028\u2029\u2060-\u2065"
    "\u206a-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
UNSEEN_IN_CODE: Final = re.compile(f"[{_INVISIBLE}{_JOINERS}]")
"""Characters that are refused in code, where they would be invisible."""
UNSEEN_IN_COMMENT: Final = re.compile(f"[{_INVISIBLE}]|(?<=[\\s!-~\u00a1-\u00a8\u00ab-\u02ff\u0370-\u1fff])\u200d")
"""Characters that are refused in a comment: emoji keep what joins them, a joiner that does not follow a letter."""
ODD_SPACE: Final = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
"""White space beyond ASCII; U+FEFF and line ends are refused for other reasons."""

# Letters of other alphabets that pass for Latin ones: all of Cyrillic, and the Greek that look alike
_ALIKE: Final = (
    "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f"
    "\u0370\u0371\u037f\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b3\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7\u03f2\u03f3\u03f9\u1d26-\u1d2a\u1f00-\u1fff"
)
_LOOK_ALIKE = re.compile(f"[{_ALIKE}]")
_LATIN = re.compile(
    "[A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a]"
)
_SUSPICIOUS = re.compile(f"[{_INVISIBLE}{_JOINERS}{_ALIKE}]")
_SURROGATES: Final = re.compile("([\\ud800-\\udbff])([\\udc00-\\udfff])|[\\ud800-\\udfff]")


def well_formed(text: str) -> str:
    """`text` with surrogate pairs joined, and U+FFFD for half a pair, so that it can be sent. The escapes of a literal
    can produce either."""
    # A worker in its jail can load no codec that would do it.
    return text if text.isascii() else _SURROGATES.sub(_join_surrogates, text)


def suspicious(text: str) -> bool:
    """Whether a closer look at `text` can find anything."""
    return _SUSPICIOUS.search(text) is not None


def mixes_alphabets(name: str) -> bool:
    """Whether `name` has Latin letters and others that look like Latin ones."""
    return _LOOK_ALIKE.search(name) is not None and _LATIN.search(name) is not None


def code_point(character: str) -> str:
    """A character as Unicode writes it: `U+200B`."""
    return f"U+{ord(character):04X}"


def _join_surrogates(match: re.Match[str]) -> str:
    high, low = match.groups()
    return "\ufffd" if high is None else chr(0x10000 + ((ord(high) - 0xD800) << 10) + ord(low) - 0xDC00)
