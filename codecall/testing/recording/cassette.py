"""Recordings: the calls of a script with their answers, as a file that people review and tests replay.

    {
      "codecall": "recording",
      "version": 1,
      "calls": [
        {"tool": "users_list", "input": {"limit": 2}, "value": [{"id": 1}, {"id": 2}]},
        {"tool": "users_get", "input": {"id": 9}, "error": {"code": "NOT_FOUND", "message": "No user 9"}},
        {"tool": "login", "input": {}, "value": {"token": "masked-credential-1"}, "masked": ["value.token"]},
        {"resource": "crm://rates", "value": {"eur": 1}},
        {"prompt": "greeting", "input": {"name": "Ann"}, "value": {"messages": []}}
      ],
      "lookups": [
        {"getTool": "users_list", "value": {"name": "users_list"}},
        {"namespace": "users", "value": {"members": {"list": "users_list"}}},
        {"namespace": "users", "member": "list", "value": {"tool": "users_list"}}
      ]
    }

Calls stand in the order in which they were made; recorded again, those that are the same keep their places. `masked`
says where credentials were. A value that fits into a line is written in one, so that a change is a changed line.
"""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast, get_args

from codecall.jsonio.check import MAX_DEPTH
from codecall.redaction.clean import well_formed
from codecall.redaction.masking import Masker, unnumbered

JsonObject = dict[str, object]

RequestKind = Literal["tool", "resource", "prompt", "getTool", "space", "member"]
"""The kind of request: a call, or a lookup (`getTool`, a namespace, a member of one)."""

VERSION: Final = 1
"""Version of the format. Files of other versions are refused."""

_CALLS: Final = ("tool", "resource", "prompt")
_WIDTH: Final = 120
"""Longest line of a file that holds more than one plain value, in characters."""
_ENTRY: Final = 4
"""Indentation of entries; what is around them is never written in one line."""


class RecordingFileError(ValueError):
    """A file is no recording. The message begins with the file."""


@dataclass(slots=True)
class RecordedCall:
    """One call or lookup, and how it ended."""

    kind: RequestKind
    name: str
    """The tool's or the prompt's name, the resource's URI, or the namespace."""
    input: JsonObject = field(default_factory=dict[str, object])
    """The input of the script; for a member `{"member": name}`."""
    value: object = None
    """The result, as JSON data."""
    error: JsonObject | None = None
    """The error of a call that failed: `code`, `message`, and perhaps `details`, `hint`, `retryAfterMs`."""
    masked: list[str] = field(default_factory=list[str])
    """Paths of the credentials that were masked, in `input`, `value` and `error`."""
    completed: bool = True
    """Whether there was an answer."""

    @property
    def is_call(self) -> bool:
        """Whether it is a call, not a lookup."""
        return self.kind in _CALLS

    def key(self) -> str:
        """Identifies the request: the same for the same kind, name and input."""
        return json.dumps([self.kind, self.name, self.input], sort_keys=True)

    def as_dict(self) -> JsonObject:
        """The entry as it stands in the file."""
        match self.kind:
            case "space":
                document: JsonObject = {"namespace": self.name}
            case "member":
                document = {"namespace": self.name, **self.input}
            case "tool" | "prompt":
                document = {self.kind: self.name, "input": self.input}
            case "resource" | "getTool":
                document = {self.kind: self.name}
        document.update({"value": self.value} if self.error is None else {"error": self.error})
        return document | {"masked": self.masked} if self.masked else document

    @classmethod
    def from_mapping(cls, document: Mapping[str, object]) -> RecordedCall:
        """Read an entry that `as_dict` wrote.

        Raises:
            ValueError: it is malformed.
        """
        if "namespace" in document:
            member = document.get("member")
            kind, name = ("space", document["namespace"]) if member is None else ("member", document["namespace"])
            arguments: object = {} if member is None else {"member": member}
        else:
            kinds = [kind for kind in get_args(RequestKind) if kind in document]
            if len(kinds) != 1:
                raise ValueError("an entry is of a tool, a resource, a prompt, getTool, or a namespace")
            kind, name, arguments = kinds[0], document[kinds[0]], document.get("input", {})
        if (
            not isinstance(name, str)
            or not isinstance(arguments, dict)
            or ("value" in document) == ("error" in document)
        ):
            raise ValueError(f"{kind} {name!r}: a name, an object as input, and either a value or an error are needed")
        if (error := document.get("error")) is not None or "error" in document:
            _check_error(error, f"{kind} {name!r}")
        masked = document.get("masked", [])
        if not isinstance(masked, list) or not all(isinstance(path, str) for path in cast("list[object]", masked)):
            raise ValueError(f"{kind} {name!r}: masked is a list of paths")
        return cls(
            cast("RequestKind", kind),
            name,
            cast("JsonObject", arguments),
            document.get("value"),
            cast("JsonObject | None", error),
            cast("list[str]", masked),
        )


def _check_error(error: object, where: str) -> None:
    """Refuse what is no error of a call.

    Raises:
        ValueError: it is none.
    """
    document = cast("JsonObject", error) if isinstance(error, dict) else {}
    if not all(isinstance(document.get(key), str) for key in ("code", "message")):
        raise ValueError(f"{where}: an error has a code and a message")
    if not isinstance(document.get("hint"), str | None) or type(document.get("retryAfterMs")) not in (int, type(None)):
        raise ValueError(f"{where}: an error's hint is a text, its retryAfterMs a whole number")


def read_recording(path: str | os.PathLike[str]) -> list[RecordedCall]:
    """Read the entries of a recording.

    Raises:
        RecordingFileError: the file is no recording of this version.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    try:
        content: object = json.loads(Path(path).read_text(encoding="utf-8"))
        _check_json(content)
    except (ValueError, RecursionError) as failure:
        raise RecordingFileError(f"{name}: not JSON: {failure}") from None
    document = cast("JsonObject", content) if isinstance(content, dict) else {}
    if document.get("codecall") != "recording":
        raise RecordingFileError(f'{name}: not a recording: `"codecall": "recording"` is missing')
    if document.get("version") != VERSION:
        raise RecordingFileError(
            f"{name}: a recording of version {document.get('version')!r}; this CodeCall reads version {VERSION}"
        )
    entries: list[RecordedCall] = []
    for part in ("calls", "lookups"):
        items = document.get(part, [])
        for number, item in enumerate(cast("list[object]", items if isinstance(items, list) else [items]), 1):
            try:
                entries.append(RecordedCall.from_mapping(cast("JsonObject", item if isinstance(item, dict) else {})))
            except ValueError as failure:
                raise RecordingFileError(f"{name}: {part}, number {number}: {failure}") from None
    return entries


def _check_json(content: object) -> None:
    """Refuse what Python reads as JSON and no script could be answered with.

    Raises:
        ValueError: it is nested too deeply, or has a number or a text that JSON cannot hold.
    """
    level, depth = [content], 0
    while level:
        if (depth := depth + 1) > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH}")
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                mapping = cast("JsonObject", value)
                below += mapping.keys()
                below += mapping.values()
            elif isinstance(value, list):
                below += cast("list[object]", value)
            elif isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{value} is no number of JSON")
            elif isinstance(value, str) and well_formed(value) != value:
                raise ValueError("it has half of a surrogate pair")
        level = below


def format_recording(
    entries: Iterable[RecordedCall], earlier: Sequence[RecordedCall] = (), names: Sequence[str] = ()
) -> str:
    """Format a recording as the text of its file, with credentials masked.

    Args:
        entries: The recorded calls; those without an answer are left out.
        earlier: An earlier recording: calls that are the same keep their places.
        names: Names, or globs, of further values to mask.
    """
    completed = [entry for entry in entries if entry.completed]
    masker = Masker(names)
    for entry in completed:
        masker.learn([entry.input, entry.value, entry.error])
    masked = _in_order([_masked(entry, masker) for entry in completed], earlier)
    document: JsonObject = {
        "codecall": "recording",
        "version": VERSION,
        "calls": [entry.as_dict() for entry in masked if entry.is_call],
    }
    lookups = sorted((entry for entry in masked if not entry.is_call), key=RecordedCall.key)
    if lookups:
        document["lookups"] = [entry.as_dict() for entry in lookups]
    return f"{format_json(document)}\n"


def _masked(entry: RecordedCall, masker: Masker) -> RecordedCall:
    places = list(entry.masked)
    name = cast("str", masker.mask(entry.name, entry.kind, places))
    arguments = cast("JsonObject", masker.mask(entry.input, "input", places))
    value = masker.mask(entry.value, "value", places)
    error = cast("JsonObject | None", masker.mask(entry.error, "error", places))
    return RecordedCall(entry.kind, name, arguments, value, error, places)


def _in_order(entries: list[RecordedCall], earlier: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Sort those entries that `earlier` has too into its order: concurrent calls come in any order."""
    places: dict[str, deque[int]] = defaultdict(deque)
    for place, entry in enumerate(earlier):
        places[entry.key()].append(place)
    earlier_places = [places[key].popleft() if places[key := entry.key()] else None for entry in entries]
    ordered = iter(sorted((place, index) for index, place in enumerate(earlier_places) if place is not None))
    return [
        entry if place is None else entries[next(ordered)[1]]
        for entry, place in zip(entries, earlier_places, strict=True)
    ]


def format_json(value: object, indent: int = 0) -> str:
    """Format a value as JSON in which everything that fits into a line stands in one."""
    plain = json.dumps(value, ensure_ascii=False)
    if (indent >= _ENTRY and len(plain) + indent <= _WIDTH) or not isinstance(value, (dict, list)) or not value:
        return plain
    inner, outer = " " * (indent + 2), " " * indent
    if isinstance(value, list):
        items = [f"{inner}{format_json(item, indent + 2)}" for item in cast("list[object]", value)]
        return "[\n" + ",\n".join(items) + f"\n{outer}]"
    mapping = cast("JsonObject", value)
    items = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {format_json(item, indent + 2)}"
        for key, item in mapping.items()
    ]
    return "{\n" + ",\n".join(items) + f"\n{outer}}}"


class Replay:
    """Finds the answers to the calls of a script in a recording; each answer is used once.

    A call is answered by the first unused recorded call of the same kind, name and input. A masked credential in the
    recording matches every credential.

    Args:
        entries: The recording.
        names: Names, or globs, of further values that were masked.
        ordered: Whether calls must be made in the order of the recording.
    """

    def __init__(self, entries: Sequence[RecordedCall], *, names: Sequence[str] = (), ordered: bool = False) -> None:
        self._names = names
        self._ordered = ordered
        self._unused = [(entry.key(), unnumbered(entry.key()), entry) for entry in entries]
        self._used: list[RecordedCall] = []

    def use(self, request: RecordedCall) -> RecordedCall | None:
        """Use the recorded answer to a request; None if there is none, or another call is due."""
        key = request.key()
        position = next((index for index, (exact, _, _) in enumerate(self._unused) if exact == key), None)
        if position is None:
            key = self._without_credentials(request)
            position = next((index for index, (_, masked, _) in enumerate(self._unused) if masked == key), None)
        if position is None or (
            request.is_call and self._ordered and self._unused[position][2] is not self.next_call()
        ):
            return None
        entry = self._unused.pop(position)[2]
        self._used.append(entry)
        return entry

    def _without_credentials(self, request: RecordedCall) -> str:
        masker = Masker(self._names)
        name = cast("str", masker.mask(request.name, "", []))
        return unnumbered(
            RecordedCall(request.kind, name, cast("JsonObject", masker.mask(request.input, "", []))).key()
        )

    def next_call(self) -> RecordedCall | None:
        """The first recorded call that has not been used."""
        return next((entry for _, _, entry in self._unused if entry.is_call), None)

    @property
    def unused(self) -> list[RecordedCall]:
        """The entries that have not been used, in the order of the recording."""
        return [entry for _, _, entry in self._unused]

    @property
    def used(self) -> list[RecordedCall]:
        """The entries that have been used, in the order of their use."""
        return list(self._used)
