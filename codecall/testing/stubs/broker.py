"""The broker of a test: stubs answer the calls of a script, and every call is recorded."""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import anyio
import msgspec
from anyio.from_thread import BlockingPortal

from codecall.envelopes import LargeResult
from codecall.errors import (
    NOT_FOUND,
    CallKind,
    CodeCallError,
    InvalidInputError,
    LimitExceeded,
    ToolCallError,
    ToolTimeoutError,
)
from codecall.options import SanitizationOptions
from codecall.sandbox.callbacks import CallbackBroker, ToolHandler
from codecall.schema.partial import PreflightError
from codecall.schema.validation import invalid_input_message
from codecall.testing.calls import Call, abbreviate
from codecall.testing.report import join_names
from codecall.testing.stubs.answers import (
    AnswersExhausted,
    Stub,
    TestFailed,
    answer_from_side_effect,
    describe_raised,
    label,
    without_internal_frames,
)
from codecall.testing.stubs.schemas import join_problems
from codecall.testing.stubs.stubs import Stubs

# ----------------------------------------------------------------------------------------------------
# The broker of a test: stubs answer the calls of a script, and every call is recorded.

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

_CALLED: Final[dict[CallKind, str]] = {
    "tool": "called the tool",
    "resource": "read the resource",
    "prompt": "asked for the prompt",
    "result": "asked for the result",
}

_ALIKE: Final = 0.8
"""Names less alike than this, 0 to 1, are not suggested: `users:list` and `orders:list` are 0.76."""


class StubBroker(CallbackBroker):
    """Answers the calls of one script with the stubs of a test.

    Args:
        stubs: What answers; they get to know every call and every problem.
        script: What messages call the script.
        allowed: Names, URIs or globs that may be asked for; None allows all.
        timeout_ms: Milliseconds one call may take.
        callers: The event loop of the test, if it has one: what a callable of the test awaits runs there.
        handler: Answers calls of tools that have no stub. Without it such a call fails the test.
    """

    def __init__(
        self,
        stubs: Stubs,
        script: str,
        allowed: Sequence[str] | None,
        timeout_ms: int,
        *,
        callers: BlockingPortal | None = None,
        handler: ToolHandler | None = None,
    ) -> None:
        super().__init__(_unused_handler, stubs.tool_descriptions(), allowed, SanitizationOptions())
        self._stubs = stubs
        self._script = script
        self._timeout_ms = timeout_ms
        self._callers = callers
        self._otherwise = handler
        self._wording = stubs.wording
        self.calls: list[Call] = []
        """The calls of this script, as they began."""

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text. See `ToolBroker.call`."""
        return await self._recorded("tool", name, arguments, max_bytes)

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text. See `ToolBroker.read`."""
        return await self._recorded("resource", uri, {}, max_bytes)

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text. See `ToolBroker.prompt`."""
        return await self._recorded("prompt", name, arguments, max_bytes)

    async def result(self, handle: str, part: dict[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text, whatever part of it is asked for."""
        return await self._recorded("result", handle, part, max_bytes)

    async def prepare(self) -> None:
        """Let what is behind the stubs get ready. See `ToolBroker.prepare`."""
        if self._stubs.upstream is not None:
            await self._stubs.upstream.prepare()

    async def describe(self, name: str) -> dict[str, object] | None:
        """What `getTool` gives: of a stub, else of what is behind. See `ToolBroker.describe`."""
        described = await super().describe(name)
        behind = self._stubs.upstream
        return await behind.describe(name) if described is None and behind is not None else described

    async def preflight(self, name: str, arguments: Mapping[str, object]) -> PreflightError | None:
        """What a schema is sure to refuse, which fails the test as the call would. See `ToolBroker.foresee`."""
        mistake = await super().preflight(name, arguments)
        behind = self._stubs.upstream
        if mistake is None:
            return None if behind is None else await behind.preflight(name, arguments)
        self._refused(f"{self._script} calls the tool {name!r} with what its input schema refuses: {mistake.message}")
        return mistake

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Why nobody would answer a call. See `ToolBroker.unreachable`."""
        behind = self._stubs.upstream
        mistake = await super().check_reachable(name)
        return mistake if mistake is None or behind is None else await behind.check_reachable(name)

    async def namespace(self, path: str) -> dict[str, object]:
        """The namespaces of stubs, and of what is behind them. See `ToolBroker.space`."""
        space = await super().namespace(path)
        if self._stubs.upstream is None:
            return space
        other = await self._stubs.upstream.namespace(path)
        members = [cast("dict[str, object]", item["members"]) for item in (other, space) if "members" in item]
        return (
            {**other, "members": {name: tool for item in members for name, tool in item.items()}} if members else other
        )

    async def member(self, path: str, member: str) -> dict[str, object]:
        """What is in one: of a stub, else of what is behind. See `ToolBroker.member`."""
        found = await super().member(path, member)
        behind = self._stubs.upstream
        return await behind.member(path, member) if "missing" in found and behind is not None else found

    async def _recorded(self, kind: CallKind, name: str, arguments: dict[str, object], max_bytes: int | None) -> str:
        call = self._stubs.history.begin(kind, name, copy.deepcopy(arguments))
        self.calls.append(call)
        try:
            text = await self._answer(kind, partial(self._respond, call, max_bytes), name, arguments)
        except CodeCallError as error:
            call.error = error
            self._stubs.history.end(call, error.code)
            raise
        except BaseException:
            self._stubs.history.end(call, "cancelled")
            raise
        call.value = msgspec.json.decode(text)
        self._stubs.history.end(call, "ok")
        return text

    async def _respond(self, call: Call, max_bytes: int | None, name: str, arguments: dict[str, Any]) -> object:
        """The value of one call, within its time.

        Raises:
            ToolCallError: how the call fails.
            Exception: what a callable of the test raised, as a tool's own failure.
        """
        given: object = name if call.kind == "resource" else arguments
        try:
            with anyio.move_on_after(self._timeout_ms / 1000) as limit:
                self._check_input(call)
                stub = self._chosen(call)
                if stub is None:
                    if self._stubs.upstream is not None:
                        limit.deadline = math.inf  # who is behind keeps the time, and knows how a call ended
                    return await self._unstubbed(call, arguments, max_bytes)
                stub.answered.append(call)
                await anyio.sleep(stub.delay_ms / 1000)
                value = await stub.answer(given, self._callers)
                self._check_output(stub, call, value)
                return value
        except TestFailed as failure:
            self._stubs.history.note("answer", f"the test's own callable for {name!r} failed", cause=failure.__cause__)
            raise ToolCallError(
                f"{label(call.kind, name)} failed in the test", tool_name=name, called=call.kind
            ) from None
        except AnswersExhausted:
            raise self._undeclared(
                call, "but no answer is left of its side_effect", "Expect more: another answer in side_effect"
            ) from None
        except Exception as failure:
            call.raised = describe_raised(failure)
            raise
        raise ToolTimeoutError(
            f"{label(call.kind, name)} did not answer within {self._timeout_ms}ms", tool_name=name, called=call.kind
        )

    def _chosen(self, call: Call) -> Stub | None:
        """The stub that answers, or None where something else does.

        Raises:
            ToolCallError: there is neither.
            TestFailed: a callable of the test failed that tells which calls a stub answers.
        """
        try:
            stub, named = self._stubs.choose(call.kind, call.name, call.input)
        except Exception as failure:
            raise TestFailed from without_internal_frames(failure)
        if stub is not None or (self._stubs.upstream is not None and call.kind != "result"):
            return stub
        if self._otherwise is not None and call.kind == "tool":
            return None
        spent = bool(named) and all(stub.spent for stub in named)
        raise self._undeclared(call, self._why(call, named), self._more(named) if spent else None)

    async def _unstubbed(self, call: Call, arguments: dict[str, Any], max_bytes: int | None) -> object:
        behind = self._stubs.upstream
        if behind is None or (self._otherwise is not None and call.kind == "tool"):
            answer, _ = answer_from_side_effect(
                call.kind, call.name, partial(cast("ToolHandler", self._otherwise), call.name)
            )
            return await answer(arguments, self._callers)
        match call.kind:
            case "tool":
                text = await behind.call(call.name, arguments, max_bytes=max_bytes)
            case "resource":
                text = await behind.read(call.name, max_bytes=max_bytes)
            case "prompt" | "result":  # of results nothing is behind
                text = await behind.prompt(call.name, arguments, max_bytes=max_bytes)
        return cast("object", msgspec.json.decode(text))

    def _why(self, call: Call, named: Sequence[Stub]) -> str:
        if not named:
            known = list(dict.fromkeys(stub.name for stub in self._stubs.stubs if stub.kind == call.kind))
            near = difflib.get_close_matches(call.name, known, cutoff=_ALIKE)
            if near:
                return f"which has no stub; did it mean {near[0]}?"
            return f"which has no stub; there are stubs of {join_names(known)}" if known else "which has no stub"
        if all(stub.spent for stub in named):
            total = sum(len(stub.answered) for stub in named)
            return f"which is declared for {total} call{'s' * (total > 1)}; this is one more"
        return f"and no stub of that name takes this input or has an answer left: {'; '.join(map(repr, named))}"

    def _more(self, named: Sequence[Stub]) -> str:
        """What to do where all stubs of that name are used up."""
        made = sum(len(stub.answered) for stub in named)
        return f"Expect more: {self._wording.more.replace('{times}', str(made + 1))}"

    def _undeclared(self, call: Call, why: str, advice: str | None = None) -> ToolCallError:
        error = NOT_FOUND[call.kind]
        shown = "" if call.kind == "resource" else f" with {abbreviate(call.input)}"
        self._stubs.history.note(
            "undeclared",
            f"{self._script} {_CALLED[call.kind]} {call.name!r}{shown}, {why}",
            f"  {advice or f'Declare it: {self._wording.declare}'}\n  Or allow it: {self._wording.undeclared}".format(
                kind=call.kind, name=call.name, code=error.code
            ),
        )
        return error(f"{label(call.kind, call.name)} was not found", tool_name=call.name, called=call.kind)

    def _check_input(self, call: Call) -> None:
        problems = self._stubs.declared.input_problems(call.name, call.input) if call.kind == "tool" else []
        if not problems:
            return
        self._refused(
            f"{self._script} called the tool {call.name!r} with {abbreviate(call.input)}, "
            "which its input schema refuses: "
            f"{join_problems(problems)}"
        )
        schema = self._stubs.declared.input_schema(call.name)
        raise InvalidInputError(
            invalid_input_message(call.name, problems, schema), tool_name=call.name, details=problems
        )

    def _refused(self, said: str) -> None:
        advice = f"  Mend the script; or, where the refusal is what is tested: {self._wording.invalid_input}"
        self._stubs.history.note("invalid_input", said, advice)

    def _check_output(self, stub: Stub, call: Call, value: object) -> None:
        if call.kind != "tool" or stub.fixed is not None or not stub.check_output:
            return
        if problems := self._stubs.declared.output_problems(call.name, value):
            self._stubs.history.note(
                "answer",
                f"{stub!r} gave {abbreviate(value)}, which does not fit the output schema of the tool: "
                f"{join_problems(problems)}",
                "  output_schema=False leaves answers unchecked",
            )
            raise ToolCallError(f"{label('tool', call.name)} gave what its schema refuses", tool_name=call.name)


def _unused_handler(_name: str, _arguments: dict[str, Any]) -> object:
    """What a broker of handlers has to have; here each call has an answer of its own."""
    return None


# ----------------------------------------------------------------------------------------------------
# Kept results of a test: stubs give them.


class StubbedResults:
    """Kept results of a test: stubs give them, and none is kept. A `sandbox.services.ResultStorage`.

    Args:
        broker: Has the stubs.
    """

    def __init__(self, broker: StubBroker) -> None:
        self._broker = broker

    async def keep(self, text: str, size: int) -> LargeResult:
        """Enclaves of tests keep nothing, so that scripts end with OUTPUT_LIMIT."""
        del text
        raise LimitExceeded(f"The result of {size} bytes is not kept", code="OUTPUT_LIMIT")

    async def fetch(self, handle: str, part: Mapping[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value. See `ResultStorage.fetch`."""
        return await self._broker.result(handle, dict(part), max_bytes=max_bytes)
