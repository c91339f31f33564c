"""The interfaces between the sandbox and those who use it: the broker that performs a script's calls, observers of a
run, the memory of its calls, and the storage of large results."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from codecall.envelopes import CallRecord, ExecutionResult, LargeResult
from codecall.errors import LimitExceeded
from codecall.sandbox.clock import RunClock
from codecall.schema.partial import PreflightError

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("codecall")

BLOCK_REFERENCE: Final = re.compile(r"block:[0-9a-f]{40}")
"""The reference of a content block, by which scripts pass on pictures, sounds and files."""


class ToolBroker(Protocol):
    """Performs the calls of one script, after checking each of them. `calls/broker.py` implements it over FastMCP."""

    async def prepare(self) -> None:
        """Read ahead what the first call will need. Runs while the worker checks the script; may be cancelled."""
        ...

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Perform one call and give the tool's value as JSON text.

        Args:
            name: Name of the tool.
            arguments: Its input.
            max_bytes: Most bytes of that text if it stays outside the engine; None: as many as the broker allows for a
                value that the script gets.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `name` is a meta-tool; ends the script.
        """
        ...

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """Read one resource and give its value as JSON text. `max_bytes`: as for `call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Render one prompt and give `{description, messages}` as JSON text. `max_bytes`: as for `call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: as for `call`.
        """
        ...

    async def preflight(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        """Check a call before any call of the script is made, without making it.

        Args:
            name: Name of the tool.
            arguments: What is known of its input, with gaps as in `schema/partial.py`; None: nothing.

        Returns:
            An error that is sure to come, for its name or for its input. None if there is none to find.
        """
        ...

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Why no call of that name would reach a tool; None if it would."""
        ...

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool(name)` gives, and `observedOutput` for warnings; None when it may not be called."""
        ...

    async def namespace(self, path: str) -> dict[str, object]:
        """Look up a namespace, or a tool that is called as a function.

        Returns:
            `{"members": {"list": "users:list", …}}` with the first members and the tools they stand for, and
            `"listed": false` where any member would do. The member `""` is the tool of the name `path` itself. If there
            is neither, `{"near": [namespaces], "tools": [names]}` that may be meant, `"unlisted": [sentences]` about
            servers not read, `"callable": true` if a call may say so, `"refused": text` of a tool not for scripts.

        Raises:
            ToolCallError: the server could not be asked.
        """
        ...

    async def member(self, path: str, member: str) -> dict[str, object]:
        """Look up `path.member`. The empty path has every tool under its own name.

        Returns:
            `{"tool": name}`, or `{"space": path}` of a namespace inside; else `{"missing": name}`, a name under which a
            call fails with an error that says what there is.

        Raises:
            ToolCallError: the server could not be asked.
        """
        ...


OnCallEnd: TypeAlias = Callable[["str | None"], None]
"""Called when a call has ended, with the JSON text of its value, or None if it failed or was given up; the `CallRecord`
says more of that."""


class PlannedCall(NamedTuple):
    """A call of a tool that a script names, as far as its text says. Nothing keeps a script from making others."""

    tool: str
    line: int
    fixed: Mapping[str, object]
    """The arguments that literals spell out."""
    certain: bool
    """Whether every run comes to it."""


Foresee: TypeAlias = Callable[[], Awaitable[Sequence[PlannedCall]]]
"""Gives the calls that a script names."""


class RunObserver:
    """Observes one run. These methods do nothing: a subclass overrides those it needs.

    No method may block or take long, since the run waits for it. What one raises is logged, and the run goes on.
    """

    __slots__ = ()

    def on_queued(self) -> None:
        """The run begins: it waits for a worker."""

    def on_started(self) -> None:
        """The run has a worker, and is about to start."""

    def on_validated(self, validation_ms: float) -> None:
        """The script has been validated in so many milliseconds, as its worker reports. Called at most once."""

    def on_console(self, lines: Sequence[str]) -> None:
        """The script has written lines to its console."""

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:
        """A call starts. What is returned is called when it ends, in the same task."""

    def on_finished(self, result: ExecutionResult) -> None:
        """The run has ended, with the result its caller gets; also if it never got a worker. Not called for a run that
        was cancelled."""

    def on_cancelled(self) -> None:
        """The run was cancelled, and has no result."""


class ObserverGroup(RunObserver):
    """Any number of observers as one that never raises."""

    __slots__ = ("_observers",)

    def __init__(self, observers: Sequence[RunObserver] = ()) -> None:
        self._observers = tuple(observers)

    def on_queued(self) -> None:
        """See `RunObserver`."""
        for observer in self._observers:
            _logged(observer.on_queued)

    def on_started(self) -> None:
        """See `RunObserver`."""
        for observer in self._observers:
            _logged(observer.on_started)

    def on_validated(self, validation_ms: float) -> None:
        """See `RunObserver`."""
        for observer in self._observers:
            _logged(observer.on_validated, validation_ms)

    def on_console(self, lines: Sequence[str]) -> None:
        """See `RunObserver`."""
        for observer in self._observers:
            _logged(observer.on_console, lines)

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:
        """See `RunObserver`."""
        callbacks = [
            callback
            for observer in self._observers
            if (callback := _logged(observer.on_call, record, input_json)) is not None
        ]

        def on_end(value: str | None) -> None:
            for callback in reversed(callbacks):
                _logged(callback, value)

        return on_end if callbacks else None

    def on_finished(self, result: ExecutionResult) -> None:
        """See `RunObserver`."""
        for observer in self._observers:
            _logged(observer.on_finished, result)

    def on_cancelled(self) -> None:
        """See `RunObserver`."""
        for observer in self._observers:
            _logged(observer.on_cancelled)


def _logged(method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
    try:
        return method(*args, **kwargs)
    except Exception:
        logger.exception("an observer of a run failed; the run goes on")
        return None


class CallMemory(Protocol):
    """Remembers the calls of runs, so that a later run need not make them again."""

    async def recall(self, record: CallRecord, input_json: str) -> str | None:
        """The JSON text of the value this call had in an earlier run; None to make it.

        Raises:
            ToolCallError: it may not be made any more.
            SelfReferenceError: it never may.
        """
        ...

    async def keep(self, record: CallRecord, input_json: str, value: str | None) -> None:
        """Remember a call that has ended: its value as JSON text, or None if it failed. Must not fail: what cannot be
        kept is logged."""
        ...

    def unmatched(self) -> Sequence[str]:
        """The names of calls of the earlier run that the script has not made again."""
        ...

    def recorded_calls(self) -> int | None:
        """How many calls are in the record; None if one that has ended is missing there, or its value."""

    def is_whole(self) -> bool:
        """Whether each call that has ended has its value here, so that a later run makes none of them again."""
        ...


class ResultStorage(Protocol):
    """Keeps the results of one caller's scripts that are too large for an answer, and gives them to later scripts."""

    @property
    def inline_bytes(self) -> int:
        """Most bytes of JSON of a result that is in the answer itself; the preset may allow fewer."""
        ...

    async def keep(self, text: str, size: int) -> LargeResult:
        """Keep a result: JSON of `size` bytes.

        Raises:
            LimitExceeded: it cannot be kept.
        """
        ...

    async def fetch(self, handle: str, part: Mapping[str, object], *, max_bytes: int | None = None) -> str:
        """A kept result, or a part of it, as JSON text.

        Args:
            handle: Its handle or URI.
            part: Which part, as `getResult` takes it.
            max_bytes: Its longest text where it stays outside the engine; None: as long as a script takes.

        Raises:
            ToolCallError: there is none, or no such part, or it is too large.
        """
        ...


class ValueExtractor(Protocol):
    """Has a model read values into types, for `extract` of a script."""

    @property
    def requests(self) -> int:
        """Requests to the model so far."""
        ...

    @property
    def tokens(self) -> int:
        """Tokens of them and of their answers, as estimated."""
        ...

    async def extract(self, name: str, arguments: Mapping[str, object]) -> str:
        """The value in `arguments` as JSON text that fits the type in `arguments`.

        Raises:
            ToolCallError: there is none.
        """
        ...


class BlockStorage(Protocol):
    """Holds the content blocks that the calls of one script have returned."""

    def knows(self, reference: str) -> bool:
        """Whether this is the reference of one of them."""
        ...

    async def in_result(self, text: str) -> list[str]:
        """The references in the JSON text of a result, of blocks that are more than the text says of them."""
        ...


@dataclass(frozen=True, slots=True)
class ResultPlace:
    """Where the value of a script or of a tool goes, by its size: the one rule of `execute` and `invoke`.

    Up to `inline_bytes` of the storage it is in the answer; a larger one is kept. Without a storage, or where that has
    no room, it is in the answer up to `max_result_bytes` of the preset. Nothing is cut.
    """

    storage: ResultStorage | None
    """Keeps what is too large; None where nothing does."""
    max_result_bytes: int
    """Most bytes of JSON in any answer."""

    def is_inline(self, size: int) -> bool:
        """Whether a value of `size` bytes is in the answer itself."""
        return size <= self.max_result_bytes and (self.storage is None or size <= self.storage.inline_bytes)

    async def keep(self, text: str, size: int) -> LargeResult | str:
        """Keep a value that is not inline, JSON of `size` bytes; a warning instead where it has to go into the answer.

        Raises:
            LimitExceeded: it can neither be kept nor be in an answer.
        """
        if self.storage is None:
            limit = f"the limit is {self.max_result_bytes} bytes"
            raise LimitExceeded(f"The result is {size} bytes; {limit}", code="OUTPUT_LIMIT")
        try:
            return await self.storage.keep(text, size)
        except LimitExceeded as error:
            if size > self.max_result_bytes:
                raise
            return f"{error.message}; so this answer holds all {size} bytes of it"


@dataclass(frozen=True, slots=True)
class RunHooks:
    """What one run has beside its broker."""

    run_id: str = ""
    """Names the run."""
    observer: ObserverGroup = field(default_factory=ObserverGroup)
    """Observes it."""
    memory: CallMemory | None = None
    """Remembers its calls."""
    results: ResultStorage | None = None
    """Keeps results that are too large for an answer; None: those of the run fail with OUTPUT_LIMIT."""
    whole_result: bool = False
    """Whether its own result is never kept there."""
    blocks: Callable[[], BlockStorage | None] | None = None
    """Gives the content blocks of its calls, None while there are none. Without it any reference is of one."""
    clock: RunClock | None = None
    """Stops the limit of its whole duration; None: nothing does."""
    on_plan: Callable[[Foresee], Awaitable[None]] | None = None
    """Awaited before the first call is made. A `ToolCallError` that it raises ends the run; None: no calls are
    foreseen."""
    extractor: ValueExtractor | None = None
    """Answers `extract`; None: nothing does."""

    async def observe(self, run: Awaitable[ExecutionResult]) -> ExecutionResult:
        """The result of `run`, which was given these hooks, under its name, observed from beginning to end."""
        self.observer.on_queued()
        try:
            result = replace(await run, run_id=self.run_id)
            if (model := self.extractor) is not None and model.requests:
                used = replace(result.stats, model_requests=model.requests, model_tokens=model.tokens)
                result = replace(result, stats=used)
        except BaseException:
            self.observer.on_cancelled()
            raise
        self.observer.on_finished(result)
        return result


NO_HOOKS = RunHooks()
"""For a run without a name, observers, memory and storage."""
