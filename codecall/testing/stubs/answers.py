"""One stub, which calls it answers and how: with a value, a failure, or what a callable or a sequence gives."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeGuard, cast

import anyio.to_thread
import pytest
from anyio.from_thread import BlockingPortal
from pydantic_core import PydanticSerializationError, to_jsonable_python

from codecall.errors import (
    AccessDeniedError,
    CallKind,
    ExtractionFailedError,
    InputRequiredError,
    InvalidInputError,
    PromptNotFoundError,
    RateLimitedError,
    ResourceNotFoundError,
    ResultNotFoundError,
    TaskStartedError,
    ToolCallError,
    ToolNotFoundError,
    ToolTimeoutError,
)
from codecall.testing.calls import Call, Calls, abbreviate
from codecall.testing.enclaves import run_on_loop
from codecall.testing.report import IN_TESTS, Wording
from codecall.wording import cut

CODES: Final[dict[str, tuple[type[ToolCallError], str]]] = {
    "TOOL_EXECUTION_ERROR": (ToolCallError, "{0} failed"),
    "TOOL_NOT_FOUND": (ToolNotFoundError, "{0} was not found"),
    "RESOURCE_NOT_FOUND": (ResourceNotFoundError, "{0} was not found"),
    "PROMPT_NOT_FOUND": (PromptNotFoundError, "{0} was not found"),
    "RESULT_NOT_FOUND": (ResultNotFoundError, "{0} was not found"),
    "ACCESS_DENIED": (AccessDeniedError, "{0} is not among the allowed tools"),
    "INVALID_INPUT": (InvalidInputError, "{0} refused its input"),
    "TOOL_TIMEOUT": (ToolTimeoutError, "{0} did not answer in time"),
    "INPUT_REQUIRED": (InputRequiredError, "{0} asks for input that a script cannot give"),
    "TASK_STARTED": (TaskStartedError, "{0} started a background task instead of answering"),
    "EXTRACTION_FAILED": (ExtractionFailedError, "{0}: the model's answer does not fit the type"),
    "RATE_LIMIT": (RateLimitedError, "{0} is called too often"),
}
"""The failures that a stub can have by name: CodeCall's codes of failed calls, with the error and its message."""


__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

StubFailure = str | BaseException | type[BaseException] | Mapping[str, object]
"""A failure: a code of CodeCall's, a text, an exception, or `{"code", "message", "details", "retryAfterMs"}`."""

SideEffect = Callable[[Any], Any] | Iterable[Any]
"""A callable that gets the input, sync or async; or the answers in turn, an exception among them being raised."""

Answer = Callable[[object, BlockingPortal | None], Awaitable[object]]
"""Answers one call: gets the input, and the event loop of the test or None, and returns JSON data or raises."""

_CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")

_MAX_EXCEPTION_CHARS: Final = 200
"""Most characters of an exception that a report shows."""

_INTERNAL_PACKAGES = ("codecall", "anyio", "asyncio", "concurrent", "threading")
"""Packages between a test and its own callable, whose frames are left out of tracebacks."""


class TestFailedError(Exception):
    """A callable of the test failed as a test fails, by an assertion or `pytest.fail`, and not as a tool fails. The
    cause is what it raised."""

    __test__ = False


class AnswersExhaustedError(Exception):
    """A sequence of answers has no further one."""


def label(kind: CallKind, name: str) -> str:
    """The name of what was called, for messages."""
    return f"{kind.capitalize()} '{name}'"


def json_data(value: object, title: str) -> object:
    """Convert a value to the JSON data that a script would get; models, dataclasses and dates as FastMCP writes them.

    Raises:
        TypeError: the value has no JSON form.
    """
    try:
        return cast("object", to_jsonable_python(value, by_alias=True, inf_nan_mode="null"))
    except (PydanticSerializationError, ValueError, RecursionError) as failure:
        raise TypeError(f"{title}: JSON data is needed: {failure}") from None


def answer_with_value(value: object) -> Answer:
    """Answer with the same JSON data every time."""

    async def answer(_arguments: object, _test_loop: BlockingPortal | None) -> object:
        return value

    return answer


def answer_with_failure(kind: CallKind, name: str, failure: StubFailure) -> Answer:
    """Answer with the same failure every time.

    Raises:
        TypeError: `failure` is of the wrong type.
        ValueError: `failure` is malformed.
    """
    create = failure_factory(kind, name, failure)

    async def answer(_arguments: object, _test_loop: BlockingPortal | None) -> object:
        raise create()

    return answer


def answer_from_side_effect(kind: CallKind, name: str, effect: SideEffect) -> tuple[Answer, int | None]:
    """Answer with what `effect` gives. Returns the answer, and how many of them there are if that is known.

    Raises:
        TypeError: `effect` is neither callable nor iterable.
        ValueError: it is an empty list.
    """
    if callable(effect):
        return _answer_from_callable(kind, name, effect), None
    sequence = cast("object", effect)
    if isinstance(sequence, (str, bytes, dict)) or not isinstance(sequence, Iterable):
        got = type(cast("object", sequence)).__name__
        raise TypeError(f"side_effect: a callable or a list of answers is needed, got {got}")
    items = cast("Iterable[object]", sequence)
    count = len(items) if isinstance(items, Sized) else None
    if count == 0:
        raise ValueError("side_effect: the list of answers is empty")
    return _answer_in_turn(kind, name, iter(items)), count


def as_value(kind: CallKind, name: str, value: object) -> object:
    """Convert the value of a stub to what a script gets. A prompt given as text becomes one message of the user."""
    if kind == "prompt" and isinstance(value, str):
        return {"description": None, "messages": [{"role": "user", "content": value}]}
    return json_data(value, label(kind, name))


def failure_factory(kind: CallKind, name: str, failure: StubFailure) -> Callable[[], BaseException]:
    """Create a factory of the exception that `failure` stands for.

    Raises:
        TypeError: `failure` is of the wrong type.
        ValueError: `failure` is malformed.
    """
    title = label(kind, name)
    if _is_exception(failure):
        return lambda: failure if isinstance(failure, BaseException) else failure()
    if isinstance(failure, Mapping):
        texts = {key: failure[key] for key in ("code", "message") if isinstance(failure.get(key), str)}
        unknown = failure.keys() - {"code", "message", "details", "retryAfterMs"}
        if len(texts) != 2 or unknown:
            raise ValueError("raises: a mapping has `code` and `message`, and may have `details` and `retryAfterMs`")
        error_type = CODES.get(str(texts["code"]), (ToolCallError, ""))[0]
        return lambda: error_type(
            str(texts["message"]),
            tool_name=name,
            called=kind,
            code=str(texts["code"]),
            details=failure.get("details"),
            retry_after_ms=cast("int | None", failure.get("retryAfterMs")),
        )
    if not isinstance(failure, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"raises: a code, a text, an exception or a mapping is needed, got {type(failure).__name__}")
    if failure in CODES:
        error, text = CODES[failure]
        return lambda: error(text.format(title), tool_name=name, called=kind)
    if _CODE.fullmatch(failure):
        raise ValueError(
            f"raises: {failure!r} is no code of CodeCall's; it has {', '.join(CODES)}. "
            f'A code of the tool\'s own is written raises={{"code": {failure!r}, "message": "…"}}'
        )
    return lambda: ToolCallError(failure, tool_name=name, called=kind)


def _answer_in_turn(kind: CallKind, name: str, answers: Iterator[object]) -> Answer:
    async def answer(_arguments: object, _test_loop: BlockingPortal | None) -> object:
        try:
            item = next(answers)
        except StopIteration:
            raise AnswersExhaustedError from None
        if _is_exception(item):
            raise item
        return as_value(kind, name, item)

    return answer


def _answer_from_callable(kind: CallKind, name: str, effect: Callable[[Any], Any]) -> Answer:
    async def answer(arguments: object, test_loop: BlockingPortal | None) -> object:
        try:
            if inspect.iscoroutinefunction(effect):
                value: object = await _await_in_test(effect(arguments), test_loop)
            else:
                value = await anyio.to_thread.run_sync(effect, arguments, abandon_on_cancel=True)
                if inspect.isawaitable(value):
                    value = await _await_in_test(value, test_loop)
        except (AssertionError, pytest.fail.Exception, pytest.skip.Exception) as failure:
            raise TestFailedError from without_internal_frames(failure)
        return as_value(kind, name, value)

    return answer


def without_internal_frames(failure: BaseException) -> BaseException:
    """Cut the traceback of `failure` to the part in the test's own code."""
    trace = failure.__traceback__
    while trace is not None and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] in _INTERNAL_PACKAGES:
        trace = trace.tb_next
    return failure.with_traceback(trace)


def describe_raised(failure: Exception) -> str | None:
    """Describe what a function of the test raised, and where in its file; None if there is no such function."""
    internal, place, file = True, "", ""
    for frame, line in traceback.walk_tb(failure.__traceback__):
        internal = internal and str(frame.f_globals.get("__name__")).partition(".")[0] in _INTERNAL_PACKAGES
        if not internal and file in ("", frame.f_code.co_filename):
            file = frame.f_code.co_filename
            place = f"{Path(file).name}:{line}"
    text = f"{type(failure).__name__}: {failure}"
    excerpt = cut(text, _MAX_EXCEPTION_CHARS)
    return f"{excerpt} at {place}" if place else None


def _is_exception(item: object) -> TypeGuard[BaseException | type[BaseException]]:
    return isinstance(item, BaseException) or (isinstance(item, type) and issubclass(item, BaseException))


async def _await_in_test(value: Awaitable[object], test_loop: BlockingPortal | None) -> object:
    """Await a value in the event loop of the test if there is one: what the test shares with it (events, locks,
    clients) belongs to that loop."""
    if test_loop is None:
        return await value

    async def finish() -> object:
        return await value

    return await run_on_loop(test_loop, finish)


StubCondition = dict[str, Any] | Callable[[dict[str, Any]], object]
"""Which calls a stub answers: those whose input has these keys with these values, or for which this is true."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Stub:
    """One declared tool, resource or prompt. Made by `tool_stub(...)` and its like."""

    kind: CallKind
    """`tool`, `resource`, `prompt`, `result` or `extract`."""
    name: str
    """Its name or URI; for a resource perhaps a glob."""
    answer: Answer
    """Gives the answer to each call."""
    fixed: tuple[object] | None = None
    """The value of each answer in a tuple, if it is always the same."""
    delay_ms: float = 0
    """Milliseconds before each answer."""
    when: StubCondition | None = None
    """Which calls it answers; None answers all of its name."""
    times: int | None = None
    """How many calls it answers; None stands for any number, at least one."""
    optional: bool = False
    """Whether fewer calls are fine, none included."""
    check_output: bool = True
    """Whether its answers must fit the tool's output schema."""
    wording: Wording = IN_TESTS
    """The wording of messages for where it was declared."""
    place: str = ""
    """File and line where it was declared."""
    answered: list[Call] = field(default_factory=list[Call])
    """The calls it answered, as they came."""

    @property
    def calls(self) -> Calls:
        """The calls it answered."""
        return Calls(tuple(self.answered))

    def assert_called_once_with(self, arguments: dict[str, object] | None = None, /, **named: object) -> None:
        """Fail unless it answered exactly one call, with that input: `({"limit": 5})` or `(limit=5)`.

        Raises:
            AssertionError: it answered no call, several, or one with another input.
        """
        self.calls.assert_called_once_with(arguments, **named)

    def stands_for(self, kind: CallKind, name: str) -> bool:
        """Whether it is a stub of that name at all, whatever the input."""
        return self.kind == kind and (
            self.name == name
            or (kind == "resource" and fnmatchcase(name, self.name))
            or (kind == "extract" and self.name == "*")
        )

    def takes(self, arguments: dict[str, Any]) -> bool:
        """Whether it answers calls with that input.

        Raises:
            Exception: what the test's own callable raised.
        """
        if self.when is None:
            return True
        if callable(self.when):
            return bool(self.when(arguments))
        return all(key in arguments and _equal(value, arguments[key]) for key, value in self.when.items())

    @property
    def spent(self) -> bool:
        """Whether it has answered as many calls as it may."""
        return self.times is not None and len(self.answered) >= self.times

    def shortfall(self) -> str | None:
        """Describe how it was used too rarely; None if it was used enough."""
        count = len(self.answered)
        if self.optional or (count > 0 and (self.times is None or count >= self.times)):
            return None
        used = f"called {count} of {self.times} times" if count else "never called"
        return f"{self!r} was {used} (declared at {self.place})"

    def __repr__(self) -> str:
        text = self.wording.stub.format(kind=self.kind, name=self.name)
        if self.wording is not IN_TESTS:
            return text if self.when is None else f"{text} {abbreviate(self.when)} -> …"
        if self.when is None:
            return f"{text})"
        return f"{text}, when={self.when!r})" if callable(self.when) else f"{text}, when={abbreviate(self.when)})"


def caller_place() -> str:
    """File and line of the code that uses this package."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("codecall.testing"):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _equal(expected: object, actual: object) -> bool:
    """Python's equality, with which `unittest.mock.ANY` works; but True is not 1."""
    if isinstance(expected, (bool, int, float)) and isinstance(expected, bool) != isinstance(actual, bool):
        return False
    return expected == actual
