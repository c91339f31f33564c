"""Cleaning error texts on their way to a model: `clean_error` for a whole error, `clean_text`, `clean_value`; and
`escape_invisible`, for text that a person reads.

`patterns.py` has the whole policy as data. Only error texts pass through here, never the values that tools return.

Two things go beside that table. The values of this process's own environment variables that hold secrets are removed
wherever they stand, in every spelling that `matching.py` knows, but in texts of scripts: a script could have its
guesses confirmed. And characters nobody sees
(zero-width ones, terminal colours) are left out of the text in which the patterns look; where nothing is found, the
text keeps them. Texts are cut to `MAX_TEXT_CHARS` first, at a blank, so that no half of a credential can stay behind.

This is a net under tools that let their exceptions out as they are, not a wall against a tool that means to leak: what
has no shape (a password in a sentence, a path in a made-up notation) passes.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, ParamSpec, TypeVar, cast

from codecall.errors import CodeCallError, ScriptError, ScriptRefused, ToolCallError
from codecall.options import SanitizationOptions
from codecall.redaction.matching import matcher_of
from codecall.redaction.patterns import (
    COMMON_VARIABLES,
    CONNECTION,
    CREDENTIAL,
    INVISIBLE,
    MARK,
    MIN_SECRET_BITS,
    MIN_SECRET_CHARS,
    PATH_LIKE,
    PATTERNS,
    REPEATED_STACK,
    SECRET_KEY,
    SECRET_LOOKING,
    SECRET_VARIABLE,
    STACK,
    SURROGATE,
)

T = TypeVar("T")
P = ParamSpec("P")

MAX_TEXT_CHARS: Final = 4_000
"""Characters of one error text that are kept; more is cut with a mark. About 1,000 tokens."""

MAX_DEPTH: Final = 20
"""Nesting of error details; deeper parts are replaced by a mark."""

MAX_NODES: Final = 1_000
"""Values in one error's details, nested ones included; what is beyond is replaced by a mark."""

MAX_VALUE_CHARS: Final = 32_000
"""Characters of all strings in one error's details; each that is beyond is replaced by a mark."""

MAX_KNOWN_CLEAN: Final = 1_024
"""Texts that are remembered to have nothing to lose; 2 MB of text at most."""

MAX_QUICK_CHARS: Final = 500
"""Longest text that is cleaned on the event loop. One made to take long takes 5 microseconds a character."""

_CUT_WINDOW: Final = 400
"""How far a cut may move back to reach a blank. Longer than the credentials PATTERNS knows, but for JWTs."""

_MAX_MATCH: Final = 1_500
"""Characters of a credential with its name, as far as they are looked for where a text is cut. The patterns take longer
ones without their end."""

_WINDOWS: Final = (1, 2, 4, 8)
"""How much of a text is looked at, in multiples of what is kept, where most of it is invisible or a secret."""

_MAX_SPELLING: Final = 12
"""Characters that one of a secret may be spelled with where a text is cut: `\\\\ud83d\\\\ude00` has twelve."""


_NAME_KEYS: Final = ("name", "key", "header")
"""Under which an object with a `value` has the name of that value."""


def well_formed(text: str) -> str:
    """`text` as it can be sent: both halves of a surrogate pair joined, a half without its other half U+FFFD."""
    if text.isascii() or not SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_text(text: str, options: SanitizationOptions, secrets: Sequence[str] | None = None) -> str:
    """`text` without stack traces, file paths, internal addresses and credentials; well-formed.

    Each thing removed leaves a mark such as `[path]`; consecutive stack frames leave one. A text longer than
    `MAX_TEXT_CHARS` characters is cut and says by how much.

    Args:
        text: of an error.
        options: what is removed.
        secrets: the values of this process's environment that are removed; None: all of `environment_secrets`. From
            one that stands in what a script has written, `secrets_not_in`, it would learn that its guess is right.
    """
    known = tuple(environment_secrets() if secrets is None else secrets) if options.remove_file_paths else ()
    shortened = text
    if len(text) > MAX_TEXT_CHARS:
        head, most, end = _beginning(text, known)
        shortened = head[: _cut_place(head, most, options)]
        text = head + text[end:]
    valid = well_formed(shortened)
    visible = INVISIBLE.sub("", valid)
    cleaned = _clean_visible(visible, options, known)
    if cleaned == visible:
        cleaned = valid
    if len(shortened) < len(text):
        return f"{cleaned}…[truncated {len(text) - len(shortened)} characters]"
    return cleaned.strip() if cleaned != text else text


def _beginning(text: str, secrets: tuple[str, ...]) -> tuple[str, int, int]:
    """The beginning of a long text without secrets and what nobody sees, how many characters of it may be kept, and
    where it ends in the text. At its end half a credential may stand."""
    margin = _MAX_MATCH + _MAX_SPELLING * max(map(len, secrets), default=0)
    head, most, end = "", 0, 0
    for factor in _WINDOWS:
        end = factor * (MAX_TEXT_CHARS + margin)
        head = INVISIBLE.sub("", well_formed(text[:end]))
        if secrets:
            head = matcher_of(secrets).replace(head, lambda _: CREDENTIAL)
        most = len(head) - margin if end < len(text) else len(head)
        if most >= MAX_TEXT_CHARS or end >= len(text):
            break
    return head, min(max(most, 0), MAX_TEXT_CHARS), end


def _cut_place(text: str, most: int, options: SanitizationOptions) -> int:
    """Where `text` is cut to `most` characters: at a blank, and amid nothing that the patterns would remove."""
    place = most
    while most - _CUT_WINDOW < place < len(text) and not text[place].isspace():
        place -= 1
    if place == len(text) or not options.remove_file_paths:
        return max(place, 0)
    matches = [
        match.span()
        for rule in PATTERNS
        if CREDENTIAL in rule.mark or CONNECTION in rule.mark
        for match in rule.pattern.finditer(text)
        if most - _MAX_MATCH <= match.start() < most < match.end() + _CUT_WINDOW
    ]
    for start, stop in sorted(matches, reverse=True):
        if start < place < stop:
            place = start
    return max(place, 0)


def _clean_visible(text: str, options: SanitizationOptions, secrets: tuple[str, ...]) -> str:
    if secrets:
        text = matcher_of(secrets).replace(text, lambda _: CREDENTIAL)
    rules = options.remove_stack_traces, options.remove_file_paths
    if (text, rules) in _KNOWN_CLEAN:
        return text
    cleaned = text
    for rule in PATTERNS:
        if getattr(options, rule.option):
            cleaned = rule.pattern.sub(rule.mark, cleaned)
    if options.remove_stack_traces:
        cleaned = REPEATED_STACK.sub(rf"\1{STACK}", cleaned)
    if cleaned == text and len(text) <= MAX_QUICK_CHARS:
        _KNOWN_CLEAN[text, rules] = None
        if len(_KNOWN_CLEAN) > MAX_KNOWN_CLEAN:
            _ = _KNOWN_CLEAN.popitem(last=False)
    return cleaned


_KNOWN_CLEAN: Final[OrderedDict[tuple[str, tuple[bool, bool]], None]] = OrderedDict()
"""Texts in which the patterns found nothing, by what was looked for. Each text of an error comes by several times, and
hints are always the same. Texts that have lost something are not kept. Threads share it (`Turns`): each step on it is
one that no other can come into."""


def environment_secrets() -> list[str]:
    """What this process's environment variables that hold secrets hold now; the longest first."""
    values = {os.environ.get(name, "") for name in list(os.environ) if _is_secret_variable(name)}
    return sorted(filter(_is_secret_value, values), key=len, reverse=True)


def secrets_not_in(given: object) -> list[str]:
    """The `environment_secrets` that do not stand, in any spelling, in JSON data which a caller has written."""
    if not (secrets := environment_secrets()):
        return secrets
    try:
        text = _written(given)
    except (ValueError, RecursionError):
        return []
    matcher = matcher_of(tuple(secrets))
    known = matcher.secrets_in(text)
    if not text.isascii() or "\x1b" in text or "\x7f" in text:
        known |= matcher.secrets_in(_removed(_INVISIBLE_RUN, "\x1b\r", text))
    return [secret for secret in secrets if secret not in known]


def _written(given: object) -> str:
    """JSON data as text in which nothing is escaped; control characters that nobody sees are left out.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    text = json.dumps(given, ensure_ascii=False, default=str)
    if "\\" in text:
        text = text.replace("\\\\", "\0")
        for escape, character in _JSON_ESCAPES.items():
            text = text.replace(escape, character)
        if "\\" in text:
            text = _removed(_JSON_CONTROLS, "\\", text)
        text = text.replace("\0", "\\")
    return text


_JSON_ESCAPES: Final = {json.dumps(character)[1:-1]: character for character in '"\n\r\t\x1b'}
_JSON_CONTROLS: Final = re.compile(r"(?:\\(?:u00[01][0-9a-f]|[bf]))++")
_INVISIBLE_RUN: Final = re.compile(f"(?:{INVISIBLE.pattern})++")
_LONGEST_MATCH: Final = 24  # an escape sequence
_PIECE: Final = 256 * 1024  # characters: some 15 ms


def _removed(run: re.Pattern[str], beginnings: str, text: str) -> str:
    """`text` without the runs, each piece of it by itself: a pattern keeps the interpreter until its end. `beginnings`
    are the characters with which what is longer than one character begins."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + _PIECE
        if end < len(text):
            begun = max(text.rfind(first, end - _LONGEST_MATCH, end) for first in beginnings)
            end = end if begun < 0 else begun  # none is cut in two
        pieces.append(run.sub("", text[start:end]))
        start = end
    return "".join(pieces)


@lru_cache(maxsize=1_024)
def _is_secret_variable(name: str) -> bool:
    known = COMMON_VARIABLES.get(name)
    return SECRET_VARIABLE.fullmatch(name) is not None if known is None else known


@lru_cache(maxsize=1_024)
def _is_secret_value(value: str) -> bool:
    """Whether nobody meets or guesses `value` by chance."""
    if len(value) < MIN_SECRET_CHARS or PATH_LIKE.fullmatch(value):
        return False
    return sum(count * math.log2(len(value) / count) for count in Counter(value).values()) >= MIN_SECRET_BITS


def looks_secret(value: str) -> bool:
    """Whether `value` is no word of everyday language, which a text may hold by chance."""
    return SECRET_LOOKING.fullmatch(value) is not None


def names_of_value(mapping: Mapping[Any, object]) -> list[str]:
    """What an object says its `value` is: `{"name": "Authorization", "value": "…"}`."""
    return [name for key in _NAME_KEYS if isinstance(name := mapping.get(key), str)]


def is_secret_name(name: str) -> bool:
    """Whether text under this name, in data, is taken for a secret."""
    return SECRET_KEY.fullmatch(name) is not None


def clean_error(error: CodeCallError, options: SanitizationOptions, secrets: Sequence[str] | None = None) -> None:
    """Clean every text that `error` takes into its envelope: message and hint, an error's name, a tool's details.

    The script's line stays as it was sent: whoever reads it has written it. Doing it twice changes nothing more.

    Args:
        error: any.
        options: what is removed.
        secrets: as of `clean_text`. Where it is None, what a script says, or is quoted with, loses none; nor does the
            error of a call, which has lost them where it was made.
    """
    if secrets is None and isinstance(error, ScriptError | ScriptRefused | ToolCallError):
        secrets = ()
    clean = partial(clean_text, options=options, secrets=secrets)
    error.message = clean(error.message)
    if error.hint is not None:
        parts = error.hint.split(error.shown_path) if error.shown_path else [error.hint]
        error.hint = error.shown_path.join(clean(part) for part in parts)
    if isinstance(error, ScriptError):
        error.name = clean(error.name)
    elif isinstance(error, ToolCallError) and error.details is not None:
        error.details = clean_value(error.details, options, secrets)


class _Budget:
    """What is left of the bounds of one value."""

    def __init__(self, secrets: Sequence[str] | None) -> None:
        self._secrets = secrets
        self.nodes = MAX_NODES
        self.chars = MAX_VALUE_CHARS

    def text(self, text: str, options: SanitizationOptions) -> str:
        """`text` cleaned, or a mark when it is too much."""
        self.chars -= min(len(text), MAX_TEXT_CHARS)
        return clean_text(text, options, self._secrets) if self.chars >= 0 else f"…[truncated {len(text)} characters]"


def clean_value(value: object, options: SanitizationOptions, secrets: Sequence[str] | None = None) -> object:
    """JSON data with every string in it cleaned, keys included, and the values of secret-named keys removed.

    Bounded: nesting deeper than `MAX_DEPTH`, anything past the first `MAX_NODES` values, and strings past the first
    `MAX_VALUE_CHARS` characters of all become a mark.
    """
    return _clean(value, options, 0, _Budget(secrets))


_MASKED: Final = re.compile(rf"{MARK}-\d+(?: \(\d+ characters\))?")
"""What stands in place of a credential already, under the name by which others know it."""


def _clean(value: object, options: SanitizationOptions, depth: int, left: _Budget) -> object:
    left.nodes -= 1
    if isinstance(value, str):
        return left.text(value, options)
    if not isinstance(value, (Mapping, list, tuple)):
        return value
    if depth >= MAX_DEPTH:
        return {"__truncated": {"depth": depth}}
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        cleaned: dict[str, object] = {}
        value_key = "value" if any(is_secret_name(name) for name in names_of_value(mapping)) else None
        for key, item in mapping.items():
            if left.nodes <= 0 or left.chars <= 0:
                cleaned["__truncated"] = {"properties": len(mapping) - len(cleaned)}
                break
            secret = (
                options.remove_file_paths and isinstance(item, str) and (is_secret_name(str(key)) or key == value_key)
            )
            name = left.text(str(key), options)
            secret = secret and not _MASKED.fullmatch(str(item))
            cleaned[name] = CREDENTIAL if secret else _clean(item, options, depth + 1, left)
        return cleaned
    items: list[object] = []
    sequence = cast("Sequence[object]", value)
    for item in sequence:
        if left.nodes <= 0:
            items.append({"__truncated": {"items": len(sequence) - len(items)}})
            break
        items.append(_clean(item, options, depth + 1, left))
    return items


def code_point_escape(character: str) -> str:
    """The escape `\\u{200B}`; a blank for a tab."""
    return " " if character == "\t" else f"\\u{{{ord(character):X}}}"


def json_escape(character: str) -> str:
    """The escape `\\u200b` of JSON and JavaScript, one for each UTF-16 unit."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def escape_invisible(text: str, *, keep: str = "", escape: Callable[[str], str] = code_point_escape) -> str:
    """`text` with every character that does not print written as an escape, but those in `keep`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else escape(char) for char in text)
