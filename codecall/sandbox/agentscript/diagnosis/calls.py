"""The calls of a running script: which wait for an answer, what the last ones returned, and warnings about calls that
the script did not await."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from codecall.sandbox.agentscript.checked import AsyncCallback
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow, is_server_call, with_dataflow
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH, span
from codecall.sandbox.wire import Answer

MAX_SITES: Final = 16
"""Places in the script of which the last answer is kept."""

MAX_ANSWER_CHARS: Final = 512 * 1024
"""Characters of answers that are kept in all. A longer answer is not, and the oldest make room for the newest."""

LOOKED_AT: Final = 8 * 1024
"""Characters at the beginning and at the end of an answer in which names of properties are looked for."""

MAX_WARNED_CALLS: Final = 5
"""Calls that one warning names, and calls that failed unseen of which each has a warning."""

MAX_FAILED_CALLS: Final = 50
"""Failed calls that are looked at when a script ends well."""

MAX_MESSAGE: Final = 300
"""Most characters of a failed call's message in a warning."""

MAX_SHOWN: Final = 80
"""Most characters of an expression, a key or a name in a warning or a hint."""

_ASYNC_CALLBACK: Final = {
    "forEach": "`.forEach()` on line {line} does not wait for its async callback: write "
    "`for (const x of items) {{ await … }}`, or `await Promise.all(items.map(async (x) => …))`.",
    "": "`.{method}()` on line {line} takes the promise of its async callback for true, whatever it comes to: get the "
    "values first, `const found = await Promise.all(items.map(async (x) => …))`, then "
    "`items.{method}((x, i) => found[i])`.",
}
"""By method: what is said of an `async` callback; the empty one for those that ask it something."""

_REFUSALS: Final = frozenset({"INVALID_INPUT", "TOOL_NOT_FOUND"})
"""Codes of calls that no tool has seen, for what the script wrote."""

_ERRORS: Final = re.compile(r'"errors":\s*\[\s*\{')
_READS_ERRORS: Final = re.compile(r"\berrors\b")
_UNREAD_ERRORS: Final = (
    "{name} returned `errors`, which the script does not read: write `if (r.errors?.length) throw new "
    "Error(r.errors[0].message)`, with its answer for `r`."
)

_AWAIT_IT: Final = "Write `await` in front of a call whose value or failure matters."

SETTLED: Final = "allSettled"
"""The function that wraps each answer, or its failure."""

OBJECT: Final = "[object Object]"
"""What a text shows of an object."""

_LENGTHS: Final = re.compile(r"\b(\w++)\s*\??\.\s*length\b")
_KINDS: Final = {"": "text", '"': "text", "{": "object", "[": "list", "t": "boolean", "f": "boolean"}
"""By the first character of a value as JSON text: what it is; all others are numbers."""
_VALUES: Final = re.compile(r'"(\w{1,60})":\s*([^\sn])')
"""Properties of answers, each with the first character of its value, except for `null`."""

_OPERATES: Final = re.compile(
    r"[-+*/%[<>]|[!=]=|\b(?:Date|Set|if)\b|\.\s*(?:includes|indexOf|has|add|set|filter|some|every|find|groupBy)\b"
)
"""What stands in scripts that compute, compare, ask for something, or take a value for a key."""
_USES_PROMISE = re.compile(r"\bawait\b|\breturn\b|=")
"""What stands before a call whose promise is awaited or kept."""


class CallEntry(msgspec.Struct):
    """One call, as the prelude reports it, and its answer."""

    name: str
    stack: str
    """The engine's stack where it was made."""
    wrapped: bool
    """Whether the script gets `{success: true, data}` of it."""
    reference: bool = False
    """Whether the script asked for a reference to its value."""
    number: int = 0
    payload: str | None = None
    """JSON text of its answer, while that is kept; of the error, when it failed."""
    failed: bool = False

    def value(self) -> object:
        """The answer as the script got it.

        Raises:
            msgspec.MsgspecError, RecursionError: it cannot be decoded.
        """
        value: object = msgspec.json.decode(self.payload or "null")
        return {"success": True, "data": value} if self.wrapped else value


@dataclass(slots=True)
class CallHistory:
    """The calls of one script: where each was made, and the last answers."""

    open_calls: dict[int, CallEntry] = field(default_factory=dict[int, CallEntry])
    """By number: those that wait for an answer, and those that failed."""
    last_answers: dict[tuple[str, str], CallEntry] = field(default_factory=dict[tuple[str, str], CallEntry])
    """The last answers, one of each place and name, the newest last."""
    chars: int = 0
    """Characters of those answers in all."""
    reads: frozenset[str] = frozenset()
    """Names of properties that the script reads."""
    answered: Counter[str] = field(default_factory=Counter[str])
    """By what was called: how many answers it gave."""
    shows_objects: bool = False
    """Whether a text in the input of a call shows an object."""
    shows_undefined: bool = False
    """Whether one has the word `undefined`."""
    unseen: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By what was called: those of them that stood in none of its answers, as far as these were looked at."""

    def add_call(self, number: int, call: CallEntry, arguments: str) -> None:
        """Add a call that the script has made, with its input as JSON text."""
        call.number = number
        self.shows_objects = self.shows_objects or OBJECT in arguments
        self.shows_undefined = self.shows_undefined or "undefined" in arguments
        self.open_calls[number] = call

    def add_answer(self, answer: Answer) -> None:
        """Add the answer to an open call, or its failure."""
        call = self.open_calls[answer.call]
        call.payload, call.failed = answer.payload, not answer.ok
        if call.failed:
            return
        del self.open_calls[answer.call]
        self.answered[call.name] += 1
        if unseen := self.unseen.setdefault(call.name, set(self.reads)):
            ends = answer.payload[:LOOKED_AT], answer.payload[LOOKED_AT:][-LOOKED_AT:]
            unseen -= {name for name in unseen if any(f'"{name}":' in text for text in ends)}
        site = (call.stack, call.name)
        self._drop(site)
        if len(answer.payload) > MAX_ANSWER_CHARS:
            return
        self.last_answers[site] = call
        self.chars += len(answer.payload)
        while len(self.last_answers) > MAX_SITES or self.chars > MAX_ANSWER_CHARS:
            self._drop(next(iter(self.last_answers)))

    def may_lack(self, script: str, *, shows_undefined: bool) -> bool:
        """Whether an answer may lack what the script reads of it and no answer has: a quick look, which nearly every
        script passes."""
        if not self.unseen:
            return False
        wrapped = any(call.wrapped for call in self.last_answers.values())
        is_looked_at = shows_undefined or wrapped or "length" in script or SETTLED in script
        return is_looked_at or any(self.unseen.values())

    @property
    def has_objects(self) -> bool:
        """Whether an answer has an object in it, which may have what the script reads of another one."""
        return any((entry.payload or "").find("{", 1) > 0 for entry in self.last_answers.values())

    def may_misread(self, script: str, *, shows_undefined: bool) -> bool:
        """Whether the script may read what an answer lacks, or has at another place: a quick look."""
        return self.has_objects or self.may_lack(script, shows_undefined=shows_undefined)

    def may_mistake(self, script: str, value: str) -> bool:
        """Whether a script does with its answers what could be a mistake, or its value, JSON text, or an input shows an
        object: the first look."""
        is_shown = self.shows_objects or OBJECT in value
        return bool(self.last_answers) and (is_shown or _OPERATES.search(script) is not None)

    def measures_others(self, script: str) -> bool:
        """Whether a script asks an object, or a number, that a property of an answer has for a `length`."""
        names = set(_LENGTHS.findall(script))
        payloads = [(entry.payload or "")[:LOOKED_AT] for entry in self.last_answers.values()] if names else []
        kinds = {name: value_kind(first) for payload in payloads for name, first in _VALUES.findall(payload)}
        return any(kinds.get(name) in {"object", "number"} for name in names)

    def _drop(self, site: tuple[str, str]) -> None:
        if (call := self.last_answers.pop(site, None)) is not None:
            self.chars -= len(call.payload or "")


def value_kind(first: str) -> str:
    """Of what kind a value is, by the first character of its JSON text; empty: a text."""
    return _KINDS.get(first, "number")


def shorten(text: str) -> str:
    """`text`, or its beginning and an ellipsis, as warnings and hints show it."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


class CallWarnings:
    """Warnings about the calls of a script that ends well.

    Args:
        program: What ran; None where nothing did.
        calls: Its calls.
        room_ms: Milliseconds of its own time that it has left.
    """

    def __init__(self, program: InstrumentedScript | None, calls: CallHistory, room_ms: float) -> None:
        self._program = program
        self._calls = calls
        self._room_ms = room_ms

    def unawaited_failure(self, number: int) -> str:
        """The warning about a call that failed where nobody could catch it."""
        call = self._calls.open_calls[number]
        error = cast("dict[str, object]", msgspec.json.decode(call.payload or "{}"))
        message = f"{error.get('message', '')!s:.{MAX_MESSAGE}} ({error.get('code')})"
        advice = "" if self._in_callback(call) else f" {_AWAIT_IT}"
        return f"{self._call_text(call)} was not awaited, and failed: {message}.{advice}"

    def at_end(self, raced: Sequence[int]) -> list[str]:
        """Warnings about the calls the script has not waited for. It wanted one at most of those that `raced`."""
        warnings = [self._of_callback(site) for site in self._callbacks[:MAX_WARNED_CALLS]]
        warnings += [self.unawaited_failure(call.number) for call in self._failed_statements()]
        calls = self._calls.open_calls.items()
        running = [call for number, call in calls if not call.failed and number not in raced]
        if running:
            names = ", ".join(map(self._call_text, running[:MAX_WARNED_CALLS]))
            more = f" and {len(running) - MAX_WARNED_CALLS} more" if len(running) > MAX_WARNED_CALLS else ""
            advice = "" if all(map(self._in_callback, running)) else f" {_AWAIT_IT}"
            warnings.append(f"The script ended without the values of {names}{more}: not awaited.{advice}")
        return warnings

    def refused(self, said: str) -> list[str]:
        """Warnings about what was called only in vain, each call refused before any tool ran, where the script has
        caught that and says nothing of it.

        Args:
            said: The value of the script, JSON text, and the warnings that there are.
        """
        refusals: dict[str, list[str]] = {}
        for call in self._calls.open_calls.values():
            if call.failed and not self._calls.answered[call.name] and len(refusals) < MAX_FAILED_CALLS:
                refusals.setdefault(call.name, []).append(call.payload or "{}")
        return [
            f"{'The call' if len(errors) == 1 else f'All {len(errors)} calls'} of {shorten(name)} "
            f"{'was' if len(errors) == 1 else 'were'} refused, and the script went on: {text}"
            for name, errors in refusals.items()
            if (text := _refusal(errors, said)) is not None
        ][:MAX_WARNED_CALLS]

    def unread_errors(self, said: str) -> list[str]:
        """Warnings about answers with a list of errors, as GraphQL has it, of which the script takes no notice.

        Args:
            said: The value of the script, JSON text.
        """
        if self._program is None or _READS_ERRORS.search(self._program.script) is not None:
            return []
        answers = [
            call for call in self._calls.last_answers.values() if _ERRORS.search((call.payload or "")[:LOOKED_AT])
        ]
        names = dict.fromkeys(call.name for call in answers if (text := _first_error(call)) and not _is_in(text, said))
        return [_UNREAD_ERRORS.format(name=shorten(name)) for name in names][:MAX_WARNED_CALLS]

    @property
    def _callbacks(self) -> Sequence[AsyncCallback]:
        return () if self._program is None else self._program.ending.async_callbacks

    def _of_callback(self, site: AsyncCallback) -> str:
        line = 0 if self._program is None else self._program.lines.line(site.start)
        text = _ASYNC_CALLBACK.get(site.method, _ASYNC_CALLBACK[""])
        return text.format(method=site.method, line=line)

    def _in_callback(self, call: CallEntry) -> bool:
        """Whether an `async` callback makes the call for which nothing waits: it is awaited in there."""
        position = None if self._program is None or not self._callbacks else self._program.position_in_stack(call.stack)
        if position is None or self._program is None:
            return False
        offset = self._program.lines.offset(*position)
        return any(site.start <= offset < site.end for site in self._callbacks)

    def _call_text(self, call: CallEntry) -> str:
        position = None if self._program is None else self._program.position_in_stack(call.stack)
        return f"{shorten(call.name)}{f' (line {position[0]})' if position else ''}"

    def _failed_statements(self) -> list[CallEntry]:
        """Calls that failed and are statements of their own, without `await`: their failure went nowhere."""
        program = self._program
        failed = [call for call in self._calls.open_calls.values() if call.failed][:MAX_FAILED_CALLS]
        if program is None or not failed:
            return []
        # Whoever waits, or keeps the promise, writes so before the call: most scripts need not be parsed for it.
        offsets: dict[int, int] = {}
        for call in failed:
            if (position := program.position_in_stack(call.stack)) is not None:
                line_start, offset = program.lines.offset(position[0], 1), program.lines.offset(*position)
                if not _USES_PROMISE.search(program.script[line_start:offset]):
                    offsets[call.number] = offset
        if not offsets:
            return []
        spans = with_dataflow(program.script, self._room_ms, _statement_calls, fallback=[])
        bare = [call for call in failed if call.number in offsets]
        return [call for call in bare if any(start <= offsets[call.number] < end for start, end in spans)][
            :MAX_WARNED_CALLS
        ]


def _refusal(errors: Sequence[str], said: str) -> str | None:
    """The last of these errors, all refusals of calls, with its code; None where one is none, or is said already."""
    decoded = [cast("dict[str, object]", msgspec.json.decode(error)) for error in errors]
    if not all(error.get("code") in _REFUSALS for error in decoded):
        return None
    message, code = str(decoded[-1].get("message", "")), decoded[-1]["code"]
    is_said = any(str(error["code"]) in said for error in decoded) or json.dumps(message)[1:MAX_SHOWN] in said
    return None if is_said else f"{message:.{MAX_MESSAGE}} ({code})."


def _is_in(text: str, json_text: str) -> bool:
    """Whether JSON text has a text somewhere, perhaps as JSON text once more."""
    return text in json_text or any(
        json.dumps(text, ensure_ascii=escapes)[1:-1] in json_text for escapes in (True, False)
    )


def _first_error(call: CallEntry) -> str | None:
    """The message of the first of an answer's `errors`; None where there is none."""
    try:
        answer: object = msgspec.json.decode(call.payload or "null")
    except (msgspec.MsgspecError, RecursionError):
        return None
    members = cast("dict[str, object]", answer) if isinstance(answer, dict) else {}
    # As GraphQL has it: beside `data`, and not the data itself.
    errors = members.get("errors") if "data" in members else None
    first = cast("list[object]", errors)[0] if isinstance(errors, list) and errors else None
    message = cast("dict[str, object]", first).get("message") if isinstance(first, dict) else None
    return message if isinstance(message, str) else None


def _statement_calls(dataflow: DataFlow | None) -> list[tuple[int, int]]:
    """Start and end of each call of a tool that is a statement of its own: nothing has its promise."""
    spans: list[tuple[int, int]] = []
    for node in dataflow.nodes if dataflow else ():
        if node.type == "ExpressionStatement" and node.expression.type == "CallExpression":
            start, end = span(node.expression)
            if dataflow is not None and is_server_call(dataflow, node.expression.callee):
                spans.append((start - PREFIX_LENGTH, end - PREFIX_LENGTH))
    return spans
