"""`tool_stub`: the stubs of one test, and the tools that it declares.

Strict by default. A call for which there is no stub, input that the declared schema refuses, and a stub that is not
used each fail the test; the message says how to allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from codecall.errors import CallKind
from codecall.testing.calls import Calls
from codecall.testing.report import IN_TESTS, MAX_LISTED, CallHistory, FailureReason, Wording, suggest_arguments
from codecall.testing.stubs.answers import (
    SideEffect,
    Stub,
    StubCondition,
    StubFailure,
    answer_from_side_effect,
    answer_with_failure,
    answer_with_value,
    as_value,
    caller_place,
)
from codecall.testing.stubs.schemas import DeclaredTool, DeclaredTools, join_problems
from codecall.wording import join_names

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from fastmcp import FastMCP

    from codecall.sandbox.interfaces import ToolBroker

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING: Final = _Missing()


class Stubs:
    """The stubs of one test. The fixture `tool_stub` is one.

    Of several stubs that fit a call, one with `when` goes before one without, a required one before an optional one,
    and otherwise the one declared first that may still answer.

    Args:
        portal: Gives the event loop on which a server lists its tools.
        wording: The wording of messages.
    """

    def __init__(self, portal: Callable[[], BlockingPortal], wording: Wording = IN_TESTS) -> None:
        self._portal = portal
        self.wording = wording
        """The wording of messages."""
        self.stubs: list[Stub] = []
        """The stubs in the order of their declaration."""
        self.declared = DeclaredTools()
        """The declared tools."""
        self.history = CallHistory()
        """The calls so far, and what is wrong with them."""
        self.upstream: ToolBroker | None = None
        """The broker that answers calls without a stub; None lets such a call fail the test."""
        self.recorded: tuple[str, ...] = ()
        """The names of the tools in the recording that `upstream` replays."""

    @suggest_arguments("tool_stub")
    def __call__(
        self,
        name: str,
        *,
        returns: object = _MISSING,
        raises: StubFailure | None = None,
        side_effect: SideEffect | None = None,
        delay_ms: float = 0,
        when: StubCondition | None = None,
        times: int | None = None,
        optional: bool = False,
        input_schema: Mapping[str, object] | None = None,
        output_schema: Mapping[str, object] | Literal[False] | None = None,
        description: str | None = None,
    ) -> Stub:
        """Declare a tool that scripts of this test may call.

        Args:
            name: The tool's name.
            returns: What it gives: JSON data, or models, dataclasses and dates, which become JSON data. Default null.
            raises: How it fails instead: one of CodeCall's codes (`"TOOL_TIMEOUT"`), a text, an exception, or
                `{"code": "CARD_DECLINED", "message": "…"}` for an error of the tool's own.
            side_effect: A callable that gets the input and gives the value or raises, sync or async; or a list of
                answers given in turn, where an exception is raised. A list has to be used up.
            delay_ms: Milliseconds before it answers. Beyond the preset's `tool_call_timeout_ms` it ends as a real
                tool would: TOOL_TIMEOUT.
            when: Answer only calls whose input has these keys with these values, or for which this callable is true.
            times: Answer exactly so many calls. Default: any number, at least one.
            optional: Do not mind if it is called less often, or never.
            input_schema: JSON Schema that the input must fit; `getTool` shows it.
            output_schema: JSON Schema that the answers must fit. False: do not check them, whatever was declared.
            description: What `getTool` shows.

        Raises:
            TypeError: more than one of `returns`, `raises` and `side_effect`; an answer that is not JSON data.
            ValueError: the answer does not fit the output schema; the server given to `from_server` has no such tool.
        """
        self.declared.require(name)
        if input_schema is not None or output_schema or description is not None:
            self.declared.add(DeclaredTool(name, description, input_schema, output_schema or None))
        return self._add(
            "tool",
            name,
            (returns, raises, side_effect),
            delay_ms=delay_ms,
            when=when,
            times=times,
            optional=optional,
            check_output=output_schema is not False,
        )

    @suggest_arguments("resource_stub")
    def resource(
        self,
        uri: str,
        *,
        returns: object = _MISSING,
        raises: StubFailure | None = None,
        side_effect: SideEffect | None = None,
        delay_ms: float = 0,
        times: int | None = None,
        optional: bool = False,
    ) -> Stub:
        """Declare a resource that scripts may read with `readResource(uri)`; `uri` may be a glob (`users://*`).

        A callable gets the URI. For the rest see `tool_stub`.
        """
        answers = (returns, raises, side_effect)
        return self._add("resource", uri, answers, delay_ms=delay_ms, times=times, optional=optional)

    @suggest_arguments("prompt_stub")
    def prompt(
        self,
        name: str,
        *,
        returns: object = _MISSING,
        raises: StubFailure | None = None,
        side_effect: SideEffect | None = None,
        delay_ms: float = 0,
        when: StubCondition | None = None,
        times: int | None = None,
        optional: bool = False,
    ) -> Stub:
        """Declare a prompt that scripts may render with `getPrompt(name, args)`.

        It gives `{"description", "messages": [{"role", "content"}]}`; a text stands for one message of the user. For
        the rest see `tool_stub`.
        """
        answers = (returns, raises, side_effect)
        return self._add("prompt", name, answers, delay_ms=delay_ms, when=when, times=times, optional=optional)

    @suggest_arguments("result_stub")
    def result(
        self,
        handle: str,
        *,
        returns: object = _MISSING,
        raises: StubFailure | None = None,
        side_effect: SideEffect | None = None,
        delay_ms: float = 0,
        when: StubCondition | None = None,
        times: int | None = None,
        optional: bool = False,
    ) -> Stub:
        """Declare a result of an earlier script, which scripts may read with `getResult(handle, part)`.

        It gives what is declared, whatever part of it the script asks for; `when` tells parts apart. For the rest see
        `tool_stub`.
        """
        answers = (returns, raises, side_effect)
        return self._add("result", handle, answers, delay_ms=delay_ms, when=when, times=times, optional=optional)

    @suggest_arguments("extract_stub")
    def extract(
        self,
        name: str = "*",
        *,
        returns: object = _MISSING,
        raises: StubFailure | None = None,
        side_effect: SideEffect | None = None,
        delay_ms: float = 0,
        when: StubCondition | None = None,
        times: int | None = None,
        optional: bool = False,
    ) -> Stub:
        """Declare what `extract(value, type)` of scripts gives; it has to fit the type.

        The input has `value` and `type`; `when` tells values apart. `name` is a type as the script writes it, or `*`
        for any. For the rest see `tool_stub`.
        """
        answers = (returns, raises, side_effect)
        return self._add("extract", name, answers, delay_ms=delay_ms, when=when, times=times, optional=optional)

    def declare(self, tools: Sequence[Mapping[str, object]]) -> None:
        """Declare the schemas of tools: mappings with `name`, `description`, `inputSchema`, `outputSchema`.

        Scripts see them with `getTool`; input and answers of stubs are checked with them. A call still needs a stub.

        Raises:
            ValueError: a schema is none; a stub's answer does not fit it.
        """
        for tool in tools:
            self.declared.add(DeclaredTool.from_mapping(tool))
        self._check_answers(self.stubs)

    def from_server(self, server: FastMCP[Any]) -> None:
        """Declare all tools of a FastMCP server, as its scripts would see them; see `declare`.

        A stub of a tool that the server does not have is refused from then on.

        Raises:
            ValueError: a stub is of a tool that the server does not have, or its answer does not fit.
        """
        from codecall.testing.servers import server_tools  # FastMCP is needed only here

        self.declared.add_server(server.name, self._portal().call(server_tools, server))
        for stub in self.stubs:
            if stub.kind == "tool":
                self.declared.require(stub.name)
        self._check_answers(self.stubs)

    def allow_unused(self) -> None:
        """Let stubs be unused in this test; `optional=True` does so for one stub."""
        self.history.allowed.add("unused")

    def allow_undeclared(self) -> None:
        """Let scripts of this test call what has no stub; they get TOOL_NOT_FOUND."""
        self.history.allowed.add("undeclared")

    def allow_invalid_input(self) -> None:
        """Let scripts of this test give input that the declared schema refuses; they get INVALID_INPUT."""
        self.history.allowed.add("invalid_input")

    def allow_failure(self) -> None:
        """Let scripts of this test fail without anybody looking at how they ended."""
        self.history.allowed.add("failed")

    @property
    def calls(self) -> Calls:
        """Every call the scripts of this test have made so far, those that failed included."""
        return self.history.calls

    def failures(self) -> list[FailureReason]:
        """The reasons for which the test fails, now that it has ended; unused stubs come last."""
        shortfalls = [(stub, text) for stub in self.stubs if (text := stub.shortfall()) is not None]
        unused = [FailureReason("unused", text, self._advice(stub)) for stub, text in shortfalls]
        return [*self.history.failures(), *(unused if "unused" not in self.history.allowed else ())]

    def choose(self, kind: CallKind, name: str, arguments: dict[str, Any]) -> tuple[Stub | None, list[Stub]]:
        """Choose the stub that answers a call, if there is one; also returns all stubs of that name."""
        same_name = [stub for stub in self.stubs if stub.stands_for(kind, name)]
        fitting = [stub for stub in same_name if not stub.spent and stub.takes(arguments)]
        return min(fitting, key=lambda stub: (stub.when is None, stub.optional), default=None), same_name

    def tool_descriptions(self) -> list[dict[str, object]]:
        """The results of `getTool`, for every tool that has a stub or was declared."""
        names = dict.fromkeys([*(stub.name for stub in self.stubs if stub.kind == "tool"), *self.declared.names])
        return [self.declared.describe(name) for name in names]

    def _add(
        self,
        kind: CallKind,
        name: str,
        answers: tuple[object, StubFailure | None, SideEffect | None],
        *,
        times: int | None,
        **settings: Any,
    ) -> Stub:
        returns, raises, effect = answers
        title = f"{kind}_stub({name!r})"
        if (returns is not _MISSING) + (raises is not None) + (effect is not None) > 1:
            raise TypeError(f"{title}: give one of returns, raises and side_effect")
        if times is not None and times < 1:
            raise ValueError(f"{title}: times is 1 or more, got {times}")
        if not (settings.get("when") is None or isinstance(settings["when"], dict) or callable(settings["when"])):
            raise TypeError(f"{title}: when is a dictionary or a callable, got {settings['when']!r}")
        answer_count: int | None = None
        fixed: tuple[object] | None = None
        if effect is not None:
            answer, answer_count = answer_from_side_effect(kind, name, effect)
        elif raises is not None:
            answer = answer_with_failure(kind, name, raises)
        else:
            fixed = (as_value(kind, name, None if returns is _MISSING else returns),)
            answer = answer_with_value(fixed[0])
        stub = Stub(
            kind=kind,
            name=name,
            answer=answer,
            fixed=fixed,
            times=answer_count if times is None else times,
            wording=self.wording,
            place=caller_place(),
            **settings,
        )
        self._check_answers([stub])
        self.stubs.append(stub)
        return stub

    def _check_answers(self, stubs: Sequence[Stub]) -> None:
        """Refuse stubs whose answer does not fit the output schema of their tool."""
        for stub in stubs:
            if stub.kind != "tool" or stub.fixed is None or not stub.check_output:
                continue
            if problems := self.declared.output_problems(stub.name, stub.fixed[0]):
                raise ValueError(
                    f"{stub!r}: what it returns does not fit the output schema of the tool: {join_problems(problems)}. "
                    "output_schema=False leaves answers unchecked"
                )

    def _advice(self, stub: Stub) -> str:
        """Which calls there were instead, and how to allow that the stub is unused."""
        names = list(dict.fromkeys(self.calls.names))
        lines = [f"  The scripts called: {join_names(names, MAX_LISTED) or 'nothing'}"]
        others = [other for other in self.stubs if other is not stub and other.stands_for(stub.kind, stub.name)]
        if not stub.answered and any(other.answered for other in others):
            lines.append(f"  Another stub of that name answered: {self.wording.several}")
        lines.append(f"  If that is fine: {self.wording.unused}")
        return "\n".join(lines).replace("{kind}", stub.kind).replace("{name}", stub.name)
