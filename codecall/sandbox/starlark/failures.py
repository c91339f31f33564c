"""Why a Starlark script failed: the place in its text, and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple, cast

from starlark.eval.errors import EvalError
from starlark.eval.values import Dict, StarlarkList

from codecall.sandbox.agentscript.foreign_words import LIST_WRAPPERS
from codecall.sandbox.agentscript.parser.unicode import DECEIVES_IN_CODE, well_formed
from codecall.sandbox.lines import LineTable
from codecall.sandbox.starlark.evaluator_internals import dict_and_key, innermost_offset, list_and_index
from codecall.sandbox.starlark.mistakes import evaluation_hint
from codecall.sandbox.wire import Failure

_INTERNAL: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"^[\w.]+\(\) ", ""),
        (r"\bStarlarkList\b", "list"),
        (r"\bDict\b", "dict"),
        (r"\bStarlarkSet\b", "set"),
        (r"\bRange\b", "range"),
        (r"\b(Starlark|Builtin)Function\b", "function"),
        (r"\b_JsonModule\b", "json"),
        (r"\bstr\b", "string"),
        (r" object has no attribute '\w+'", " value cannot be used here"),
    )
)
"""Words of the evaluator's own errors, and what scripts call that."""


MAX_KEYS: Final = 12
"""Keys of a dict that a hint names."""

MAX_KEY: Final = 40
"""Most characters of such a key."""

MAX_LOOKED_AT: Final = 1_000
"""Characters of a message that are looked at for a hint."""


_UNWRAPPED: Final = 'What a tool returns is not wrapped: leave ["{}"] out.'


class ToolFailedError(EvalError):
    """A call failed; the server has the record of it."""

    def __init__(self, message: str, call: int) -> None:
        super().__init__(message)
        self.call = call


class TaskFailedError(EvalError):
    """A function given to `parallel` failed."""

    def __init__(self, index: int, failure: Exception) -> None:
        super().__init__(f"parallel: task {index} failed: {message_of(failure)}")
        self.offset = offset_of(failure)
        """Where in the script the function failed."""
        self.keys = keys_of(failure)
        """What the hint says of the value that lacks a key."""


def message_of(error: BaseException) -> str:
    """What an error says, in the words of the language: nothing of the evaluator's own classes and settings."""
    cause = error.__cause__ if isinstance(error, EvalError) else error
    if isinstance(error, EvalError) and (cause is None or not error.message.startswith(type(cause).__name__)):
        return error.message
    text = str(cause)
    if isinstance(cause, RecursionError):
        return "values or calls are too deeply nested"
    if isinstance(cause, OverflowError) or "integer string conversion" in text:
        return "integer too large"
    for pattern, word in _INTERNAL:
        text = pattern.sub(word, text)
    return text or "the operation failed"


def offset_of(error: BaseException) -> int | None:
    """The offset of the innermost expression or statement that an error passed."""
    if isinstance(error, TaskFailedError):
        return error.offset
    return innermost_offset(error.__traceback__)


def keys_of(error: BaseException) -> str | None:
    """What there is in the value that lacks the key which an error is about: of a dict its keys, the nearest, its only
    list; of a list that nothing is wrapped around it, where the key is one of those by which other clients wrap."""
    if isinstance(error, TaskFailedError):
        return error.keys
    if (read := list_and_index(error.__traceback__)) is not None:
        return _of_list(*read)
    found = dict_and_key(error.__traceback__)
    if found is None or not message_of(error).startswith("KeyError"):
        return None
    owner, key = found
    return _of_failed_call(owner, key) or keys_in(owner, key).text or None


def _of_failed_call(owner: Dict, key: object) -> str | None:
    """For the value of a call that `try_call` made in vain."""
    is_failed = set(cast("Iterable[object]", owner)) == {"ok", "error"} and owner["ok"] is False
    return failed_call(owner) if is_failed and key == "value" else None


def failed_call(owner: Dict) -> str:
    """What there is where `try_call` has called in vain."""
    error = cast("object", owner.get("error"))
    code = key_text(error["code"]) if isinstance(error, Dict) and "code" in error else None
    return (
        f'The call failed{f" ({code})" if code else ""}, so there is no value: look at value["ok"] first; '
        'value["error"]["message"] says why.'
    )


def _of_list(items: StarlarkList, key: object) -> str | None:
    first = next(iter(cast("Iterable[object]", items)), None)
    is_wrapper = isinstance(key, str) and key in LIST_WRAPPERS and not (isinstance(first, Dict) and key in first)
    return _UNWRAPPED.format(key) if is_wrapper else None


class KeysOfDict(NamedTuple):
    """What there is in a dict in place of a key that it lacks."""

    text: str
    """For a hint: its keys, and which was meant; empty where it has none."""
    near: str | None = None
    """The key that is the most similar."""
    only_list: str | None = None
    """The key of its only list."""
    listed: str = ""
    """The part of the text that lists the keys."""


def keys_in(owner: Dict, key: object) -> KeysOfDict:
    """What a script may have meant by a key that this dict lacks."""
    keys = islice(cast("Iterable[object]", owner), MAX_KEYS)
    named = {text: (name, cast("object", owner[name])) for name in keys if (text := key_text(name)) is not None}
    if not named:
        return KeysOfDict("")
    text = key_text(key)
    near = get_close_matches(text, named, n=1, cutoff=0.75) if text is not None else []
    lists = [name for name, (_, value) in named.items() if isinstance(value, StarlarkList)]
    more = f" and {len(owner) - len(named)} more" if len(owner) > len(named) else ""
    guess = (
        f" Did you mean value[{near[0]}]?" if near else f" The list is value[{lists[0]}]." if len(lists) == 1 else ""
    )
    kind = "It is a dict, no list; its keys are" if isinstance(key, int) else "The keys are"
    meant = [str(named[name][0]) for name in (*near[:1], *lists[:1])]
    listed = f"{kind} {', '.join(named)}{more}."
    return KeysOfDict(f"{listed}{guess}", meant[0] if near else None, meant[-1] if len(lists) == 1 else None, listed)


def key_text(key: object) -> str | None:
    """A key as a script writes it; None where that is long, or would deceive the reader."""
    if not isinstance(key, str):
        return str(key) if isinstance(key, int) else None
    return None if len(key) > MAX_KEY or DECEIVES_IN_CODE.search(key) else json.dumps(key, ensure_ascii=False)


def failure_of(error: Exception, lines: LineTable) -> Failure:
    """How the failure of a script is reported."""
    offset = offset_of(error)
    line, column = (None, None) if offset is None else lines.position(offset)
    if isinstance(error, ToolFailedError):
        return Failure(status="tool_error", code="TOOL", call=error.call, line=line, column=column)
    message = message_of(error)
    hint = " ".join(filter(None, (keys_of(error), evaluation_hint(message[:MAX_LOOKED_AT])))) or None
    return Failure(
        status="runtime_error",
        code="EXECUTION_ERROR",
        message=well_formed(message[:100_000]),
        name="Error",
        line=line,
        column=column,
        hint=hint,
    )
