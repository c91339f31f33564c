"""What recordings and records of runs lose before they are written: credentials, by the patterns of the sanitizer, by
the names they stand under, and by the environment of this process.

A text that is JSON is masked as the data it holds, and stays JSON. Below a telling name (`api_keys: {prod: …}`) goes
what looks like a credential; a JSON schema that stands there stays.

Every credential has a mark of its own, `masked-credential-1`, so that what was the same stays the same: a script that
is given a token by one tool and hands it to the next finds its call in the recording. The marks pass through URLs
unchanged. Under a telling name a whole number goes where it is a password or as long as a credential; counts, ids and
truth values stay, and so does what the patterns do not know.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import count
from typing import Final, cast

from codecall.envelopes import CallRecord
from codecall.redaction.clean import environment_secrets, is_secret_name, looks_secret, names_of_value
from codecall.redaction.matching import matcher_of
from codecall.redaction.patterns import CONNECTION, CREDENTIAL, MARK, PATTERNS, PatternText, RedactionRule

_MARK = re.compile(rf"{MARK}-\d+")
_TAKEN = re.compile(rf"{MARK}-([0-9]{{1,9}})")
"""A mark that an input has; no input has room for so many credentials that a longer number is needed."""
_RULES = [
    *(rule for rule in PATTERNS if CREDENTIAL in rule.mark or CONNECTION in rule.mark),
    RedactionRule(
        "bearer token of letters alone",
        "remove_file_paths",
        PatternText(r"\b(bearer[ ]+)(?!authenti|authoriz)[\w.~+/=-]{16,4096}", re.IGNORECASE),
        rf"\1{CREDENTIAL}",
        "Authorization header: Bearer abcdefghijklmnopqrst",
        f"Authorization header: Bearer {CREDENTIAL}",
    ),
]
_RELATED = re.compile(
    r"(?:[\w-]{0,40}[_-])?(?:pass|passcode|sid|otp|jwt)s?|[\w-]{0,40}?session[_-]?(?:id|key)s?", re.IGNORECASE
)
"""Names of credentials that messages use for other things too."""
_PASSWORD = re.compile(r".*(?:passw(?:or)?d|passphrase|pwd)", re.IGNORECASE)
"""Names under which a number of any length is a credential."""
_PLAIN_KEY = re.compile(r"[\w-]+")
_FORMS = [rule.pattern for rule in PATTERNS if rule.name in ("json web token", "key of a known issuer")]
_VALUE = re.compile(r"[A-Za-z0-9_.+/=-]+")
"""What a credential is written with, and code that does anything is not."""
_RANDOM = re.compile(r"(?=.*\d).*[A-Za-z0-9]{16}", re.ASCII)
"""What a key of an issuer holds, and a name made of words (`sk-some-package`) does not."""
_QUOTED = re.compile(r"(?P<start>[bu]?(?P<end>\\{0,15}[\"']))(?P<secret>.+)(?P=end)", re.DOTALL | re.IGNORECASE)

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_COMPOSED: Final = frozenset({"$ref", "anyOf", "oneOf", "allOf"})

Visit = Callable[[str, str, bool], str]
"""Given a text, its place, and whether it stands under a secret name: what stands in its place."""


class MaskingTimeoutError(Exception):
    """The time for masking is over."""


class Masker:
    """Masks the credentials of one recording, or of one run.

    Args:
        names: Names, or globs, of further values to mask, in any letter case.
        environment: Mask what this process's environment variables with secret names hold, too.
        deadline: When masking has to end, in seconds of `time.monotonic`. From then on `learn` and `mask` raise
            `MaskingTimeoutError`, also amid a value.
    """

    def __init__(self, names: Sequence[str] = (), *, environment: bool = True, deadline: float | None = None) -> None:
        self.deadline: Final = deadline
        self._names = [name.casefold() for name in names]
        self._numbers: dict[str, int] = {}
        self._credentials = matcher_of(tuple(environment_secrets() if environment else ())).copy()
        """Credentials that are masked wherever they stand."""

    def learn(self, value: object) -> None:
        """Take note of the credentials in JSON data, so that `mask` finds them elsewhere, too."""

        def visit(text: str, _place: str, secret: bool) -> str:
            if secret and looks_secret(text) and not _MARK.search(text):
                self._credentials.add(text)
            return text

        self._walk(value, "", visit)

    def mask(self, value: object, path: str, masked_paths: list[str]) -> object:
        """JSON data without credentials. Where there were some is added to `masked_paths`, which begin with `path`."""
        known = set(masked_paths)

        def visit(text: str, path: str, secret: bool) -> str:
            masked = self._mark(text) if secret and text and not _MARK.fullmatch(text) else self._text(text)
            if masked != text and path not in known:
                known.add(path)
                masked_paths.append(path)
            return masked

        return self._walk(value, path, visit)

    def _walk(self, value: object, path: str, visit: Visit, *, secret: bool = False, under: bool = False) -> object:
        """`secret`: it stands under a secret name; `under`: further down, beneath one."""
        if isinstance(value, str):
            self.check_deadline()
            parsed = None if secret else _parse_json(value)
            if parsed is not None:
                # A text that is nested too deeply to be walked through, or compared, counts as any other.
                with contextlib.suppress(RecursionError):
                    within = self._walk(
                        parsed, "", lambda text, _, is_secret: visit(text, path, is_secret), under=under
                    )
                    return value if within == parsed else json.dumps(within, ensure_ascii=False)
            return visit(value, path, secret or (under and looks_secret(value)))
        if isinstance(value, list):
            items = cast("list[object]", value)
            return [
                self._walk(
                    item,
                    f"{path}[{index}]",
                    visit,
                    secret=secret or self._is_secret_flag(before) or (index == 1 and self._is_secret_pair(items)),
                    under=under,
                )
                for index, (before, item) in enumerate(zip([None, *items], items, strict=False))
            ]
        if isinstance(value, dict):
            mapping = cast("dict[str, object]", value)
            names = names_of_value(mapping)
            named = any(map(self._is_secret, names))
            under = (under or secret) and not _is_schema(mapping)
            walked: dict[str, object] = {}
            for key, item in mapping.items():
                below = f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{key!r}]"
                is_secret = self._is_secret(key) or (named and key == "value")
                masked_key = visit(key, path, False)
                while masked_key in walked or (masked_key != key and masked_key in mapping):
                    masked_key += "+"  # no key may hide another, not even one that is written like a mark
                if type(item) is int and any(
                    self._is_secret_number(name, item) for name in (key, *(names if key == "value" else ()))
                ):
                    walked[masked_key] = visit(str(item), below, True)
                else:
                    walked[masked_key] = self._walk(item, below, visit, secret=is_secret, under=under)
            return walked
        return value

    def _is_secret_flag(self, item: object) -> bool:
        """Whether an item of a list is an option of a command line whose value follows it, and is secret."""
        return isinstance(item, str) and item.startswith("-") and self._is_secret(item.lstrip("-"))

    def _is_secret_pair(self, items: Sequence[object]) -> bool:
        """Whether a list is a secret name and its value, as lists of headers have them, and not two names."""
        match items:
            case [str(name), str(value)]:
                return looks_secret(value) and self._is_secret(name)
            case _:
                return False

    def _is_secret_number(self, name: str, number: int) -> bool:
        """Whether a whole number is a credential by its name."""
        is_secret = is_secret_name(name) and (_PASSWORD.fullmatch(name) is not None or looks_secret(str(number)))
        return is_secret or self._is_further(name)

    def _is_secret(self, name: str) -> bool:
        is_secret = (
            is_secret_name(name) or is_secret_name(name.removesuffix("s")) or _RELATED.fullmatch(name) is not None
        )
        return is_secret or self._is_further(name)

    def _is_further(self, name: str) -> bool:
        """Whether it is one of `names`."""
        return any(fnmatchcase(name.casefold(), pattern) for pattern in self._names)

    def check_deadline(self) -> None:
        """See that there is time left.

        Raises:
            MaskingTimeoutError: there is none.
        """
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise MaskingTimeoutError

    def _text(self, text: str) -> str:
        self.check_deadline()
        text = self._credentials.replace(text, self._mark)
        for rule in _RULES:
            text = rule.pattern.sub(lambda match, rule=rule: self._replace(match, rule), text)
        return text

    def _replace(self, match: re.Match[str], rule: RedactionRule) -> str:
        if _MARK.search(match[0]):
            return match[0]
        before, mark, after = match.expand(rule.mark).partition(CREDENTIAL)
        if not mark:
            return before.replace(CONNECTION, self._mark(match[0]))
        secret = match[0].removeprefix(before).removesuffix(after)
        if quoted := _QUOTED.fullmatch(secret):  # stays so: the text may hold JSON
            return f"{before}{quoted['start']}{self._mark(quoted['secret'])}{quoted['end']}{after}"
        return f"{before}{self._mark(secret)}{after}"

    def _mark(self, secret: str) -> str:
        return f"{MARK}-{self._numbers.setdefault(secret, len(self._numbers) + 1)}"


class QuestionMasker(Masker):
    """Masks the credentials of what a person decides about, and nothing else: values under secret names that are
    written as credentials are, keys of known issuers, and secrets of this process's environment. Keys, and what
    could be code, stay: whoever writes an input could hide a part of it otherwise."""

    def __init__(self, *, environment: bool = True) -> None:
        super().__init__(environment=False)
        if environment:
            self._credentials = matcher_of(tuple(filter(_VALUE.fullmatch, environment_secrets())))

    def mask_input(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """An input without credentials; each mark says how long the credential is."""
        taken = _taken_numbers(json.dumps(arguments)).union(self._numbers.values())
        free = (number for number in count(1) if number not in taken)

        def mark(secret: str) -> str:
            if secret not in self._numbers:
                self._numbers[secret] = next(free)
            return f"{self._mark(secret)} ({len(secret)} characters)"

        def replace(match: re.Match[str]) -> str:
            is_credential = _VALUE.fullmatch(match[0]) and _RANDOM.match(match[0])
            return mark(match[0]) if is_credential else match[0]

        def walk(value: object, secret: bool) -> object:
            if isinstance(value, str):
                if secret and _VALUE.fullmatch(value):
                    return mark(value)
                value = self._credentials.replace(value, mark)
                for pattern in _FORMS:
                    value = pattern.sub(replace, value)
                return value
            if isinstance(value, list):
                return [walk(item, secret) for item in cast("list[object]", value)]
            if isinstance(value, dict):
                return {key: walk(item, self._is_secret(key)) for key, item in cast("dict[str, object]", value).items()}
            return value

        return {key: walk(item, self._is_secret(key)) for key, item in arguments.items()}


def _taken_numbers(text: str) -> set[int]:
    """The numbers whose marks occur in `text`, be it as the beginning of another."""
    longest = {match[1] for match in _TAKEN.finditer(text)}
    return {int(digits[:end]) for digits in longest for end in range(1, len(digits) + 1)}


def _parse_json(text: str) -> list[object] | dict[str, object] | None:
    """The list or object that `text` is the JSON of."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        parsed: object = json.loads(
            text, object_pairs_hook=_unique_keys, parse_float=_parse_finite, parse_constant=_parse_finite
        )
    except (ValueError, RecursionError):
        return None
    return cast("list[object] | dict[str, object]", parsed)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object no key of which hides another.

    Raises:
        ValueError: one does.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return members


def _parse_finite(text: str) -> float:
    """A number that JSON can hold.

    Raises:
        ValueError: it is none.
    """
    number = float(text)
    if number - number:
        raise ValueError("no number of JSON")
    return number


def _is_schema(value: dict[str, object]) -> bool:
    """Whether an object says what a credential looks like."""
    kind = value.get("type")
    return (isinstance(kind, str) and kind in _TYPES) or not _COMPOSED.isdisjoint(value)


def mask_call_inputs(calls: Sequence[CallRecord]) -> None:
    """Mask what is shown of the inputs of calls: a credential that a script hands from one tool to the next need not be
    seen by whoever reads its answer."""
    masker = Masker(environment=False)  # a script would see which of its guesses is masked
    for call in calls:
        call.input = cast("str", masker.mask(call.input, "", []))


def unnumbered(text: str) -> str:
    """`text` with all marks alike: which credential was which depends on what was recorded with it."""
    return _MARK.sub(MARK, text)
