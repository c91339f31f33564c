"""Why a Starlark script failed: the place in its text, and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple, cast

from starlark.eval.errors import EvalError
from starlark.eval.values import Dict, StarlarkList

from codecall.sandbox.agentscript.foreign_words import LIST_WRAPPERS
from codecall.sandbox.agentscript.parser.unicode import DECEIVES_IN_CODE, well_formed
from codecall.sandbox.agentscript.ruleset import closest_key
from codecall.sandbox.lines import LineTable
from codecall.sandbox.starlark.evaluator_internals import dict_and_key, innermost_offset, list_and_index
from codecall.sandbox.starlark.mistakes import BY_NUMBER, evaluation_hint
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


_UNWRAPPED: Final = 'What a tool returns is not wrapped: leave ["{}"] out. '

_OF_DICTS: Final = 'It is a list, no dict: value[0]["key"] reads one item, [x["key"] for x in value] all.'
_KINDS: Final = ((str, "texts"), ((int, float), "numbers"), (StarlarkList, "lists"))
"""What items of lists are called, by their class."""
_MAX_ITEMS: Final = 10
"""Items by which a list is described."""

IsAnswer = Callable[[object], bool]
"""Whether a value is what a tool has returned, as a whole."""


class ToolFailedError(EvalError):
    """A call failed; the server has the record of it."""

    def __init__(self, message: str, call: int) -> None:
        super().__init__(message)
        self.call = call


class TaskFailedError(EvalError):
    """A function given to `parallel` failed."""

    def __init__(self, index: int, failure: Exception, is_answer: IsAnswer) -> None:
        super().__init__(f"parallel: task {index} failed: {message_of(failure)}")
        self.offset = offset_of(failure)
        """Where in the script the function failed."""
        self.keys = keys_of(failure, is_answer)
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


def keys_of(error: BaseException, is_answer: IsAnswer) -> str | None:
    """What there is in the value that lacks the key which an error is about: of a dict its keys, the nearest, its only
    list; of a list what its items are, and of an answer that nothing is wrapped around it, where the key is one of
    those by which other clients wrap."""
    if isinstance(error, TaskFailedError):
        return error.keys
    if (read := list_and_index(error.__traceback__)) is not None:
        return _of_list(*read, is_answer)
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


def _of_list(items: StarlarkList, key: object, is_answer: IsAnswer) -> str | None:
    if not isinstance(key, str):
        return None
    first = list(islice(cast("Iterable[object]", items), _MAX_ITEMS))
    dicts = [item for item in first if isinstance(item, Dict)]
    kinds = [kind for classes, kind in _KINDS if any(isinstance(item, classes) for item in first)]
    is_wrapper = key in LIST_WRAPPERS and is_answer(items) and not any(key in item for item in dicts)
    by_number = BY_NUMBER.replace("a list", f"a list of {' and '.join(kinds)}" if kinds else "a list", 1)
    return f"{_UNWRAPPED.format(key) if is_wrapper else ''}{_OF_DICTS if dicts else by_number}"


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
    named = {name: text for name in keys if (text := key_text(name)) is not None}
    if not named:
        return KeysOfDict("")
    texts = {name: text for name, text in named.items() if isinstance(name, str)}
    near = closest_key(key, texts) if isinstance(key, str) and key_text(key) is not None else None
    lists = [name for name in texts if isinstance(owner[name], StarlarkList)]
    only_list = lists[0] if len(lists) == 1 else None
    more = f" and {len(owner) - len(named)} more" if len(owner) > len(named) else ""
    guess = f" Did you mean value[{texts[near]}]?" if near is not None else ""
    guess = f" The list is value[{texts[only_list]}]." if near is None and only_list is not None else guess
    kind = "It is a dict, no list; its keys are" if isinstance(key, int) else "The keys are"
    listed = f"{kind} {', '.join(named.values())}{more}."
    return KeysOfDict(f"{listed}{guess}", near, only_list, listed)


def key_text(key: object) -> str | None:
    """A key as a script writes it; None where that is long, or would deceive the reader."""
    if not isinstance(key, str):
        return str(key) if isinstance(key, int) else None
    return None if len(key) > MAX_KEY or DECEIVES_IN_CODE.search(key) else json.dumps(key, ensure_ascii=False)


def failure_of(error: Exception, lines: LineTable, is_answer: IsAnswer) -> Failure:
    """How the failure of a script is reported."""
    offset = offset_of(error)
    line, column = (None, None) if offset is None else lines.position(offset)
    if isinstance(error, ToolFailedError):
        return Failure(status="tool_error", code="TOOL", call=error.call, line=line, column=column)
    message = message_of(error)
    keys, hint = keys_of(error, is_answer), evaluation_hint(message[:MAX_LOOKED_AT])
    hint = " ".join(filter(None, (keys, None if keys and hint == BY_NUMBER else hint))) or None
    return Failure(
        status="runtime_error",
        code="EXECUTION_ERROR",
        message=well_formed(message[:100_000]),
        name="Error",
        line=line,
        column=column,
        hint=hint,
    )
