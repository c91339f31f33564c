"""What a stub answers: a value, a failure, or what a callable or a sequence gives."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any, Final, TypeGuard, cast

import anyio.to_thread
import pytest
from anyio.from_thread import BlockingPortal
from pydantic_core import PydanticSerializationError, to_jsonable_python

from codecall.errors import Called, ToolCallError
from codecall.testing.failures import CODES
from codecall.testing.loops import elsewhere

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

Raises = str | BaseException | type[BaseException] | Mapping[str, object]
"""A failure: a code of CodeCall's, a text, an exception, or `{"code", "message", "details", "retryAfterMs"}`."""

SideEffect = Callable[[Any], Any] | Iterable[Any]
"""A callable that gets the input, sync or async; or the answers in turn, an exception among them being raised."""

Answer = Callable[[object, BlockingPortal | None], Awaitable[object]]
"""Answers one call: given its input, and the event loop of the test if that has one, it gives JSON data or raises."""

_CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")

_MAX_SAID: Final = 200
"""Most characters that a report shows of an exception."""

_BETWEEN = ("codecall", "anyio", "asyncio", "concurrent", "threading")
"""Modules between a test and its own callable, which its traceback leaves out."""


class TestFailed(Exception):  # noqa: N818 - named for what happened
    """A callable of the test failed as a test fails, by an assertion or `pytest.fail`: not the failure of a tool. The
    cause is what it raised."""

    __test__ = False


class Exhausted(Exception):  # noqa: N818 - named for what happened
    """A sequence of answers has no further one."""


def label(kind: Called, name: str) -> str:
    """What was called, as messages name it."""
    return f"{kind.capitalize()} '{name}'"


def json_data(value: object, what: str) -> object:
    """`value` as the JSON data a script would get; models, dataclasses and dates as FastMCP writes them.

    Raises:
        TypeError: it has no JSON form.
    """
    try:
        return cast("object", to_jsonable_python(value, by_alias=True, inf_nan_mode="null"))
    except (PydanticSerializationError, ValueError, RecursionError) as failure:
        raise TypeError(f"{what}: JSON data is needed: {failure}") from None


def returning(value: object) -> Answer:
    """The same JSON data every time."""

    async def answer(_given: object, _callers: BlockingPortal | None) -> object:
        return value

    return answer


def raising(kind: Called, name: str, failure: Raises) -> Answer:
    """The same failure every time.

    Raises:
        TypeError, ValueError: `failure` is none.
    """
    make = failure_of(kind, name, failure)

    async def answer(_given: object, _callers: BlockingPortal | None) -> object:
        raise make()

    return answer


def giving(kind: Called, name: str, effect: SideEffect) -> tuple[Answer, int | None]:
    """What `effect` gives; and how many answers it has, if that is known.

    Raises:
        TypeError: `effect` is neither callable nor iterable.
        ValueError: it is an empty list.
    """
    if callable(effect):
        return _calling(kind, name, effect), None
    given = cast("object", effect)
    if isinstance(given, (str, bytes, dict)) or not isinstance(given, Iterable):
        got = type(cast("object", given)).__name__
        raise TypeError(f"side_effect: a callable or a list of answers is needed, got {got}")
    items = cast("Iterable[object]", given)
    count = len(items) if isinstance(items, Sized) else None
    if count == 0:
        raise ValueError("side_effect: the list of answers is empty")
    return _in_turn(kind, name, iter(items)), count


def as_value(kind: Called, name: str, value: object) -> object:
    """What a script gets for `value`. A prompt given as text is one message of the user."""
    if kind == "prompt" and isinstance(value, str):
        return {"description": None, "messages": [{"role": "user", "content": value}]}
    return json_data(value, label(kind, name))


def failure_of(kind: Called, name: str, failure: Raises) -> Callable[[], BaseException]:
    """What makes the exception that `failure` means.

    Raises:
        TypeError, ValueError: `failure` is none.
    """
    named = label(kind, name)
    if _is_exception(failure):
        return lambda: failure if isinstance(failure, BaseException) else failure()
    if isinstance(failure, Mapping):
        own = {key: failure[key] for key in ("code", "message") if isinstance(failure.get(key), str)}
        unknown = failure.keys() - {"code", "message", "details", "retryAfterMs"}
        if len(own) != 2 or unknown:
            raise ValueError("raises: a mapping has `code` and `message`, and may have `details` and `retryAfterMs`")
        kind_of_error = CODES.get(str(own["code"]), (ToolCallError, ""))[0]
        return lambda: kind_of_error(
            str(own["message"]),
            tool_name=name,
            called=kind,
            code=str(own["code"]),
            details=failure.get("details"),
            retry_after_ms=cast("int | None", failure.get("retryAfterMs")),
        )
    if not isinstance(failure, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"raises: a code, a text, an exception or a mapping is needed, got {type(failure).__name__}")
    if failure in CODES:
        error, text = CODES[failure]
        return lambda: error(text.format(named), tool_name=name, called=kind)
    if _CODE.fullmatch(failure):
        raise ValueError(
            f"raises: {failure!r} is no code of CodeCall's; it has {', '.join(CODES)}. "
            f'A code of the tool\'s own is written raises={{"code": {failure!r}, "message": "…"}}'
        )
    return lambda: ToolCallError(failure, tool_name=name, called=kind)


def _in_turn(kind: Called, name: str, answers: Iterator[object]) -> Answer:
    async def answer(_given: object, _callers: BlockingPortal | None) -> object:
        try:
            item = next(answers)
        except StopIteration:
            raise Exhausted from None
        if _is_exception(item):
            raise item
        return as_value(kind, name, item)

    return answer


def _calling(kind: Called, name: str, effect: Callable[[Any], Any]) -> Answer:
    async def answer(given: object, callers: BlockingPortal | None) -> object:
        try:
            if inspect.iscoroutinefunction(effect):
                value: object = await _awaited(effect(given), callers)
            else:
                value = await anyio.to_thread.run_sync(effect, given, abandon_on_cancel=True)
                if inspect.isawaitable(value):
                    value = await _awaited(value, callers)
        except (AssertionError, pytest.fail.Exception, pytest.skip.Exception) as failure:
            raise TestFailed from own(failure)
        return as_value(kind, name, value)

    return answer


def own(failure: BaseException) -> BaseException:
    """`failure` with the part of its traceback that is in the test's own code."""
    trace = failure.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        trace = trace.tb_next
    return failure.with_traceback(trace)


def told_by(failure: Exception) -> str | None:
    """What a function of the test raised, and where in its file; None where there is no function of the test."""
    between, place, file = True, "", ""
    for frame, line in traceback.walk_tb(failure.__traceback__):
        between = between and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN
        if not between and file in ("", frame.f_code.co_filename):
            file = frame.f_code.co_filename
            place = f"{Path(file).name}:{line}"
    said = f"{type(failure).__name__}: {failure}"
    shown = said if len(said) <= _MAX_SAID else f"{said[:_MAX_SAID]}…"
    return f"{shown} at {place}" if place else None


def _is_exception(item: object) -> TypeGuard[BaseException | type[BaseException]]:
    return isinstance(item, BaseException) or (isinstance(item, type) and issubclass(item, BaseException))


async def _awaited(value: Awaitable[object], callers: BlockingPortal | None) -> object:
    """The end of `value`, awaited in the event loop of the test if there is one: what the test shares with it (events,
    locks, clients) belongs to that loop."""
    if callers is None:
        return await value

    async def finish() -> object:
        return await value

    return await elsewhere(callers, finish)
