"""The broker of a test: stubs answer the calls of a script, stored results included, and every call is recorded."""

from __future__ import annotations

import copy
import math
import sys
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
    ExtractionFailedError,
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
from codecall.testing.report import MAX_LISTED
from codecall.testing.stubs.answers import (
    AnswersExhaustedError,
    Stub,
    TestFailedError,
    answer_from_side_effect,
    describe_raised,
    label,
    without_internal_frames,
)
from codecall.testing.stubs.schemas import join_problems
from codecall.testing.stubs.stubs import Stubs
from codecall.wording import join_names, nearest

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

_CALL_VERBS: Final[dict[CallKind, str]] = {
    "tool": "called the tool",
    "resource": "read the resource",
    "prompt": "asked for the prompt",
    "result": "asked for the result",
    "extract": "extracted",
}

_MIN_SIMILARITY: Final = 0.8
"""Least similarity of suggested names, 0 to 1: `users:list` and `orders:list` have 0.76."""


class StubBroker(CallbackBroker):
    """Answers the calls of one script with the stubs of a test.

    Args:
        stubs: The stubs of the test; their history records every call and every failure.
        script: The name of the script in messages.
        allowed: Names, URIs or globs that may be called; None allows all.
        timeout_ms: Milliseconds that one call may take.
        test_loop: The event loop of the test, if it has one: what a callable of the test awaits runs there.
        handler: Answers calls of tools that have no stub. Without it such a call fails the test.
    """

    def __init__(
        self,
        stubs: Stubs,
        script: str,
        allowed: Sequence[str] | None,
        timeout_ms: int,
        *,
        test_loop: BlockingPortal | None = None,
        handler: ToolHandler | None = None,
    ) -> None:
        super().__init__(_unused_handler, stubs.tool_descriptions(), allowed, SanitizationOptions())
        self._stubs = stubs
        self._script = script
        self._timeout_ms = timeout_ms
        self._test_loop = test_loop
        self._handler = handler
        self._wording = stubs.wording
        self.calls: list[Call] = []
        """The calls of this script, in the order of their start."""

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text. See `ToolBroker.call`."""
        return await self._record("tool", name, arguments, max_bytes)

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text. See `ToolBroker.read`."""
        return await self._record("resource", uri, {}, max_bytes)

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text. See `ToolBroker.prompt`."""
        return await self._record("prompt", name, arguments, max_bytes)

    async def result(self, handle: str, part: dict[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value as JSON text, whatever part of it is requested."""
        return await self._record("result", handle, part, max_bytes)

    async def extract(self, name: str, arguments: dict[str, object]) -> str:
        """The stub's value as JSON text, which has to fit the type.

        Raises:
            ToolCallError: there is no value or no such type, or the stub's value does not fit it.
        """
        from codecall.extraction.extractor import checked_answer, read_arguments  # loads FastMCP; few scripts extract

        _, _, validator = await read_arguments(name, arguments)
        text = await self._record("extract", name, arguments, None)
        text, finding = await anyio.to_thread.run_sync(checked_answer, text, validator)
        if finding is not None:
            self._stubs.history.note(
                "answer",
                f"what the stub of extract gave does not fit the type {name!r}: {finding}",
                '  Answer with what fits it, or with raises="EXTRACTION_FAILED", as a model that is wrong twice',
            )
            raise ExtractionFailedError(f"extract: {finding}", tool_name=name, called="extract")
        return text

    async def prepare(self) -> None:
        """Prepare the upstream broker. See `ToolBroker.prepare`."""
        if self._stubs.upstream is not None:
            await self._stubs.upstream.prepare()

    async def describe(self, name: str) -> dict[str, object] | None:
        """The result of `getTool`: of a stub, else of the upstream broker. See `ToolBroker.describe`."""
        described = await super().describe(name)
        upstream = self._stubs.upstream
        return await upstream.describe(name) if described is None and upstream is not None else described

    async def preflight(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        """Find what a schema is sure to refuse; it fails the test as the call would. A name without a stub does so when
        it is called. See `ToolBroker.preflight`."""
        error = self._refused_input(name, arguments)
        if error is None:
            upstream, answered = self._stubs.upstream, self._handler is not None or name in (self._tools or ())
            return None if upstream is None or answered else await upstream.preflight(name, arguments)
        self._note_invalid_input(
            f"{self._script} calls the tool {name!r} with what its input schema refuses: {error.message}"
        )
        return error

    async def check_reachable(self, name: str) -> PreflightError | None:
        """Say why nothing would answer a call. See `ToolBroker.check_reachable`."""
        upstream = self._stubs.upstream
        error = await super().check_reachable(name)
        return error if error is None or upstream is None else await upstream.check_reachable(name)

    async def namespace(self, path: str) -> dict[str, object]:
        """The namespaces of stubs, and of the upstream broker. A name without a stub may be called: that fails the test
        as `callTool` does. See `ToolBroker.namespace`."""
        namespace = await super().namespace(path)
        if self._stubs.upstream is None:
            return namespace if "members" in namespace or not path else {**namespace, "callable": True}
        other = await self._stubs.upstream.namespace(path)
        members = [cast("dict[str, object]", item["members"]) for item in (other, namespace) if "members" in item]
        return (
            {**other, "members": {name: tool for item in members for name, tool in item.items()}} if members else other
        )

    async def member(self, path: str, member: str) -> dict[str, object]:
        """A member of a namespace: of a stub, else of the upstream broker. See `ToolBroker.member`."""
        result = await super().member(path, member)
        if "missing" not in result:
            return result
        if self._stubs.upstream is None:
            return result if path else {"tool": member}  # the call itself says that it has no stub
        return await self._stubs.upstream.member(path, member)

    async def _record(self, kind: CallKind, name: str, arguments: dict[str, object], max_bytes: int | None) -> str:
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
        """Answer one call within its time limit.

        Raises:
            ToolCallError: the call fails.
            Exception: a callable of the test raised it, as a tool's own failure.
        """
        argument: object = name if call.kind == "resource" else arguments
        try:
            with anyio.move_on_after(self._timeout_ms / 1000) as limit:
                self._check_input(call)
                stub = self._choose_stub(call)
                if stub is None:
                    if self._stubs.upstream is not None:
                        limit.deadline = math.inf  # the upstream broker keeps the time, and knows how a call ended
                    return await self._answer_without_stub(call, arguments, max_bytes)
                stub.answered.append(call)
                await anyio.sleep(stub.delay_ms / 1000)
                value = await stub.answer(argument, self._test_loop)
                self._check_output(stub, call, value)
                return value
        except TestFailedError as failure:
            self._stubs.history.note("answer", f"the test's own callable for {name!r} failed", cause=failure.__cause__)
            raise ToolCallError(
                f"{label(call.kind, name)} failed in the test", tool_name=name, called=call.kind
            ) from None
        except AnswersExhaustedError:
            raise self._undeclared(
                call, "but no answer is left of its side_effect", "Expect more: another answer in side_effect"
            ) from None
        except Exception as failure:
            call.raised = describe_raised(failure)
            raise
        raise ToolTimeoutError(
            f"{label(call.kind, name)} did not answer within {self._timeout_ms}ms", tool_name=name, called=call.kind
        )

    def _choose_stub(self, call: Call) -> Stub | None:
        """Choose the stub that answers; None if something else does.

        Raises:
            ToolCallError: nothing answers the call.
            TestFailedError: a callable of the test failed that says which calls a stub answers.
        """
        try:
            stub, same_name = self._stubs.choose(call.kind, call.name, call.input)
        except Exception as failure:
            raise TestFailedError from without_internal_frames(failure)
        if stub is not None or (self._stubs.upstream is not None and call.kind not in ("result", "extract")):
            return stub
        if self._handler is not None and call.kind == "tool":
            return None
        spent = bool(same_name) and all(stub.spent for stub in same_name)
        raise self._undeclared(call, self._reason(call, same_name), self._advice(same_name) if spent else None)

    async def _answer_without_stub(self, call: Call, arguments: dict[str, Any], max_bytes: int | None) -> object:
        upstream = self._stubs.upstream
        if upstream is None or (self._handler is not None and call.kind == "tool"):
            answer, _ = answer_from_side_effect(
                call.kind, call.name, partial(cast("ToolHandler", self._handler), call.name)
            )
            return await answer(arguments, self._test_loop)
        match call.kind:
            case "tool":
                text = await upstream.call(call.name, arguments, max_bytes=max_bytes)
            case "resource":
                text = await upstream.read(call.name, max_bytes=max_bytes)
            case "prompt" | "result" | "extract":  # the last two are not called upstream
                text = await upstream.prompt(call.name, arguments, max_bytes=max_bytes)
        return cast("object", msgspec.json.decode(text))

    def _reason(self, call: Call, same_name: Sequence[Stub]) -> str:
        if not same_name:
            known = list(dict.fromkeys(stub.name for stub in self._stubs.stubs if stub.kind == call.kind))
            near = nearest(call.name, known, min_similarity=_MIN_SIMILARITY)
            if near:
                return f"which has no stub; did it mean {near[0]}?"
            return (
                f"which has no stub; there are stubs of {join_names(known, MAX_LISTED)}"
                if known
                else "which has no stub"
            )
        if all(stub.spent for stub in same_name):
            total = sum(len(stub.answered) for stub in same_name)
            return f"which is declared for {total} call{'s' * (total > 1)}; this is one more"
        return f"and no stub of that name takes this input or has an answer left: {'; '.join(map(repr, same_name))}"

    def _advice(self, same_name: Sequence[Stub]) -> str:
        """What to do if all stubs of that name are used up."""
        count = sum(len(stub.answered) for stub in same_name)
        return f"Expect more: {self._wording.more.replace('{times}', str(count + 1))}"

    def _undeclared(self, call: Call, reason: str, advice: str | None = None) -> ToolCallError:
        error = NOT_FOUND[call.kind]
        arguments = "" if call.kind == "resource" else f" with {abbreviate(call.input)}"
        self._stubs.history.note(
            "undeclared",
            f"{self._script} {_CALL_VERBS[call.kind]} {call.name!r}{arguments}, {reason}",
            f"  {advice or f'Declare it: {self._wording.declare}'}\n  Or allow it: {self._wording.undeclared}".format(
                kind=call.kind, name=call.name, code=error.code
            ),
        )
        return error(f"{label(call.kind, call.name)} was not found", tool_name=call.name, called=call.kind)

    def _check_input(self, call: Call) -> None:
        problems = self._stubs.declared.input_problems(call.name, call.input) if call.kind == "tool" else []
        if not problems:
            return
        self._note_invalid_input(
            f"{self._script} called the tool {call.name!r} with {abbreviate(call.input)}, "
            "which its input schema refuses: "
            f"{join_problems(problems)}"
        )
        schema = self._stubs.declared.input_schema(call.name)
        raise InvalidInputError(
            invalid_input_message(call.name, problems, schema), tool_name=call.name, details=problems
        )

    def _note_invalid_input(self, text: str) -> None:
        advice = f"  Mend the script; or, where the refusal is what is tested: {self._wording.invalid_input}"
        self._stubs.history.note("invalid_input", text, advice)

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
    """The handler that the base class asks for; it is never called, since each call has its own answer."""
    return None


class StubbedExtractor:
    """A `ValueExtractor` whose values come from stubs; no model is asked, and none is counted.

    Args:
        broker: The broker with the stubs.
    """

    requests = tokens = 0

    def __init__(self, broker: StubBroker) -> None:
        self._broker = broker

    async def extract(self, name: str, arguments: Mapping[str, object]) -> str:
        """The stub's value. See `ValueExtractor.extract`."""
        return await self._broker.extract(name, dict(arguments))


class StubbedResults:
    """A `ResultStorage` whose results come from stubs; it stores none.

    Args:
        broker: The broker with the stubs.
    """

    def __init__(self, broker: StubBroker) -> None:
        self._broker = broker

    @property
    def inline_bytes(self) -> int:
        """No bound: a test gets whatever the preset allows."""
        return sys.maxsize

    async def keep(self, text: str, size: int) -> LargeResult:
        """Refuse to store a result: in tests such scripts end with OUTPUT_LIMIT."""
        del text
        raise LimitExceeded(f"The result of {size} bytes is not kept", code="OUTPUT_LIMIT")

    async def fetch(self, handle: str, part: Mapping[str, object], *, max_bytes: int | None = None) -> str:
        """The stub's value. See `ResultStorage.fetch`."""
        return await self._broker.result(handle, dict(part), max_bytes=max_bytes)
