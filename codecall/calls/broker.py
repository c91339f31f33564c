"""The only code that calls a tool, reads a resource or renders a prompt: access -> approval -> rate -> FastMCP ->
conversion.

Every call re-enters FastMCP with its middleware and authorization (`call_tool`, `read_resource`, `render_prompt`), so a
script can do nothing its caller could not do one call at a time. Rate rules are FastMCP middleware (`ratelimit/`), so
they apply here too. Every outcome that is not a success is raised as a `ToolCallError` under its own code; none ever
turns into an empty value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar, cast

from fastmcp.prompts import PromptResult
from fastmcp.resources import ResourceResult
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp import MCPError
from mcp_types import InputRequest, InputRequiredResult

from codecall.calls.access import AccessPolicy, ComponentLookup, RequestNamespaces, ToolLookup
from codecall.calls.blocks import BlockInputError, BlockKeeper
from codecall.calls.clock import CallClock
from codecall.calls.failures import INPUT_REQUIRED_RESULTS, FailureTranslator
from codecall.calls.fastmcp_internals import call_tool
from codecall.calls.interfaces import AnswerQuestions, CurrentEntry, Gate, ResolvedInput
from codecall.calls.preflight import CallPreflight
from codecall.calls.results import ObservedSchema, ResultReader
from codecall.calls.task import ToolExitError, check_nesting, request_with_timeout
from codecall.catalog.entries import CatalogEntry, JsonObject, call_kind, entry_label
from codecall.concurrency import release_frames
from codecall.errors import CallKind, CodeCallError, InputRequiredError, InvalidInputError, ToolCallError
from codecall.fastmcp_errors import log_unexpected
from codecall.globs import display_name
from codecall.jsonio.decode import encode_json, exceeds_chars
from codecall.options import SanitizationOptions
from codecall.redaction.threaded import MAX_QUICK_CHARS, MAX_QUICK_GIVEN, ThreadedCleaner
from codecall.sandbox.interfaces import RunClock
from codecall.schema.partial import PreflightError

if TYPE_CHECKING:
    from fastmcp import Context

T = TypeVar("T")

MAX_ROUNDS: Final = 10
"""How often a tool may answer one call with questions; clients allow as many."""


class Broker:
    """Performs the calls of one request, for `codecall:execute` and `codecall:invoke` alike.

    Args:
        context: FastMCP's context of the request.
        view: the tools this caller can see.
        allowed_tools: names, URIs or globs that may be called; None allows everything that the caller can see.
        tool_call_timeout_ms: milliseconds each call may take.
        max_value_bytes: bytes one value may have as JSON.
        sanitization: what is removed from error messages.
        components: the resources and prompts this caller can see; without it there are none.
        on_result: called with each tool's entry and the JSON text of its value. It must not fail.
        observed_schema: gives what was learned of the results of a tool that declares nothing.
        create_blocks: creates the store of content blocks, once there are some; without it none are kept.
        gate: called before each call is made; raises what keeps it from being made.
        questions: called with the questions that a tool answers with; gives the answers, or None if there are none.
        clock: of the run; stands still while a tool has something asked at the client.
        composite: name of the composite tool that makes the calls, if one does.
    """

    reads_components: ClassVar[bool] = True
    """Whether its scripts can read resources and prompts at all."""

    def __init__(
        self,
        context: Context,
        view: ToolLookup,
        *,
        allowed_tools: Sequence[str] | None,
        tool_call_timeout_ms: int,
        max_value_bytes: int,
        sanitization: SanitizationOptions,
        components: ComponentLookup | None = None,
        on_result: Callable[[CatalogEntry, str], None] | None = None,
        observed_schema: ObservedSchema | None = None,
        create_blocks: Callable[[], BlockKeeper] | None = None,
        gate: Gate | None = None,
        questions: AnswerQuestions | None = None,
        clock: RunClock | None = None,
        composite: str = "",
    ) -> None:
        self._server = context.fastmcp
        self._access = AccessPolicy(view, allowed_tools, components if self.reads_components else None, composite)
        self._namespaces = RequestNamespaces(self._access)
        self._timeout_ms = tool_call_timeout_ms
        self._max_value_bytes = max_value_bytes
        self._failures = FailureTranslator(sanitization)
        self._preflight = CallPreflight(self._server, self._access, self._failures)
        self.parameter_warnings = self._preflight.warnings
        """Gives what whoever wrote the script is told of parameters that the tools do not have."""
        self._cleaner = ThreadedCleaner()
        self._results = ResultReader(self._server, create_blocks, observed_schema)
        self._on_result = on_result
        self._gate = gate
        self._questions = questions
        self._clock = clock
        self.used_components: set[tuple[CallKind, str]] = set()
        """Kinds and names of the tools and prompts that have been called and that this caller may use."""

    @property
    def blocks(self) -> BlockKeeper | None:
        """The content blocks that calls have returned; None while there are none."""
        return self._results.blocks

    async def prepare(self) -> None:
        """Read in advance what this caller can see, which the first call needs."""
        await self._access.prepare()

    def refresh(self) -> None:
        """Look up names anew from now on, since time has passed that is not the run's."""
        self._access.refresh()
        self._results.refresh()

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Call a tool and return its value as JSON text; `null` for a tool that returns nothing. `max_bytes` replaces
        `max_value_bytes` for this call, see `ToolBroker.call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `name` is a meta-tool.
        """
        operation = self._call(name, arguments, max_bytes or self._max_value_bytes)
        return await self._translate_errors("tool", name, operation)

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """Read one resource and return its value as JSON text (see `resource_json`). `max_bytes`: as for `call`.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `uri` is spelled like a meta-tool.
        """
        return await self._translate_errors("resource", uri, self._read(uri, max_bytes or self._max_value_bytes))

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """Render one prompt and return `{description, messages}` as JSON text. `max_bytes`: as for `call`.

        Arguments of prompts are strings in MCP; other values are sent as their JSON, as FastMCP's client does.

        Raises:
            ToolCallError: every outcome that is not a success, under its own code.
            SelfReferenceError: `name` is the name of a meta-tool.
        """
        return await self._translate_errors(
            "prompt", name, self._prompt(name, arguments, max_bytes or self._max_value_bytes)
        )

    async def describe(self, name: str) -> JsonObject | None:
        """The tool as `getTool(name)` returns it, with what was seen of its answers, where it declares nothing; None
        when it may not be called.

        Raises:
            ToolCallError: the server could not be asked.
        """
        return await self._translate_errors("tool", name, self._results.with_observed(self._access, name))

    async def admit(self, kind: CallKind, name: str) -> str:
        """Check that a call may be made, without making it; raises what the call would.

        Returns:
            The name as the call would have it, which for a resource is the URI under which it is read.
        """
        if kind == "extract":
            return name  # of no tool, so there is nothing to look up
        if kind == "resource":
            return (await self._translate_errors(kind, name, self._access.admit_resource(name))).uri
        if kind == "prompt":
            return (await self._translate_errors(kind, name, self._access.admit_prompt(name))).name
        return (await self._translate_errors("tool", name, self._access.admit(name))).name

    async def find(self, name: str) -> CatalogEntry | None:
        """The tool of that name, if it may be called."""
        try:
            return await self._translate_errors("tool", name, self._access.admit(name, suggest=False))
        except CodeCallError:
            return None

    async def preflight(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        """The error that a call is certain to get, if any. See `ToolBroker.preflight`.

        Raises:
            ToolCallError: the server could not be asked.
        """
        error = await self.check_reachable(name)
        if error is not None or arguments is None:
            return error
        return await self._translate_errors("tool", name, self._preflight.preflight(name, arguments))

    async def check_reachable(self, name: str) -> PreflightError | None:
        """The reason why no call of that name would reach a tool, if any. See `ToolBroker.check_reachable`.

        Raises:
            ToolCallError: the server could not be asked.
        """
        if (missing := self._namespaces.missing_tool_error(name)) is not None:
            return PreflightError(missing.code, missing.message, missing.hint)
        return await self._translate_errors("tool", name, self._preflight.check_reachable(name))

    async def namespace(self, path: str) -> JsonObject:
        """Whether a namespace exists, and its first members. See `ToolBroker.namespace`.

        Raises:
            ToolCallError: the server could not be asked.
        """
        return await self._translate_errors("tool", path, self._namespaces.namespace(path))

    async def member(self, path: str, member: str) -> JsonObject:
        """The tool or namespace that `path.member` names. See `ToolBroker.member`.

        Raises:
            ToolCallError: the server could not be asked.
        """
        return await self._translate_errors("tool", f"{path}.{member}", self._namespaces.member(path, member))

    async def _translate_errors(
        self, kind: Literal["tool", "resource", "prompt"], name: str, operation: Awaitable[T]
    ) -> T:
        """The result of `operation`, whose exceptions become named errors. Middleware, providers and transforms may
        raise anything while they are asked for lists. An error keeps nothing of what its frames held."""
        try:
            return await operation
        except Exception as failure:
            try:
                if isinstance(failure, CodeCallError):
                    raise
                log_unexpected(f"looking up {kind} {display_name(name)!r}", failure)
                entry = CatalogEntry(display_name(name), app_id="", description="", input_schema={}, kind=kind)
                raise await self._cleaner.run(self._failures.for_call(name).from_lookup, failure, entry) from None
            finally:
                release_frames(failure)

    async def _call(self, name: str, arguments: dict[str, object], max_bytes: int) -> str:
        if (missing := self._namespaces.missing_tool_error(name)) is not None:
            raise missing
        entry = await self._access.admit(name)
        self.used_components.add(("tool", name))
        check_nesting(entry)
        # Before the gate: rules and persons decide about what the tool gets.
        resolved = ResolvedInput(arguments, arguments)
        if self.blocks is not None:
            resolved = await self._resolve_blocks(self.blocks, arguments, entry)
        if self._gate is not None:
            current_entry = partial(self._current_entry, partial(self._access.admit, name, suggest=False))
            check = partial(self._preflight.check_input, name, resolved.arguments)
            await self._gate(entry, arguments, resolved, current_entry, check)
        arguments = resolved.arguments
        await self._preflight.check_published(name, entry, arguments)
        # The version that was listed: left open, FastMCP looks for another where the highest is disabled, and finds the
        # listing in which this plugin hides the tools.
        request = call_tool(self._server, entry.name, arguments, _version(entry.version))
        result = await self._result(request, entry, arguments)
        value = await self._results.tool(result, entry, max_bytes)
        if self._on_result is not None:
            self._on_result(entry, value)
        return value

    async def _read(self, uri: str, max_bytes: int) -> str:
        resource = await self._access.admit_resource(uri)
        # Rules and persons decide about what is read, whatever spelling of it the script has found.
        entry = replace(resource.entry, name=resource.uri, kind="resource")
        check_nesting(entry)
        if self._gate is not None:

            async def find() -> CatalogEntry | None:
                now = await self._access.admit_resource(uri)
                # By the same template, if it is of one.
                before = resource.entry
                same = now.uri == resource.uri and (now.entry.kind, now.entry.name) == (before.kind, before.name)
                return replace(now.entry, name=resource.uri, kind="resource") if same else None

            await self._gate(entry, {"uri": resource.uri}, None, partial(self._current_entry, find), None)
        request = self._server.read_resource(resource.uri, version=_version(resource.version))
        result: ResourceResult = await self._result(request, entry, {})
        return await self._results.resource(result, entry, max_bytes)

    async def _prompt(self, name: str, arguments: dict[str, object], max_bytes: int) -> str:
        entry = await self._access.admit_prompt(name)
        self.used_components.add(("prompt", name))
        check_nesting(entry)
        if self._gate is not None:
            current_entry = partial(self._current_entry, partial(self._access.admit_prompt, name))
            await self._gate(entry, arguments, None, current_entry, None)
        texts = {key: value if isinstance(value, str) else encode_json(value) for key, value in arguments.items()}
        request = self._server.render_prompt(entry.name, texts, version=_version(entry.version))
        result: PromptResult = await self._result(request, entry, texts)
        return await self._results.prompt(result, entry, max_bytes)

    async def _current_entry(self, find: CurrentEntry) -> CatalogEntry | None:
        """What is called as it is now; None if it may be called no longer."""
        self.refresh()
        try:
            return await find()
        except CodeCallError:
            return None

    async def _resolve_blocks(
        self, blocks: BlockKeeper, arguments: dict[str, object], entry: CatalogEntry
    ) -> ResolvedInput:
        """An input with the content of blocks in place of what stands for them."""
        try:
            return await blocks.resolve(arguments, entry.input_schema)
        except BlockInputError as failure:
            raise InvalidInputError(
                f"The input of {entry_label(entry)} {failure}",
                tool_name=entry.name,
                hint="Pass on what a tool returned as a content block as it is, or its `ref` where a text is needed.",
            ) from None

    async def _result(self, request: Coroutine[Any, Any, T], entry: CatalogEntry, arguments: Mapping[str, object]) -> T:
        """FastMCP's result, if it is a success."""
        try:
            result = await self._timed(request, entry)
            if isinstance(result, InputRequiredToolResult) and self._questions is not None:
                result = cast("T", await self._answer(result, entry, arguments, self._questions))
        except CodeCallError:
            raise
        except Exception as failure:
            if isinstance(failure, ToolExitError):
                log_unexpected(f"calling {entry.kind} {entry.name!r}", failure)
                message = f"{entry_label(entry)} ended with {failure.kind}"
                raise ToolCallError(message, tool_name=entry.name, called=call_kind(entry)) from None
            error = await self._error(failure, entry, arguments)
            if error is None:
                raise await self._access.not_found(call_kind(entry), entry.name) from None
            log_unexpected(f"calling {entry.kind} {entry.name!r}", failure)
            raise error from None
        # An ordinary tool's, as nearly all are. Middleware may replace it by anything.
        if isinstance(result, ToolResult) and not isinstance(result, INPUT_REQUIRED_RESULTS) and not result.is_error:
            return result
        translate = self._failures.for_call(entry.name, arguments).from_result
        if (error := await self._cleaner.run(translate, result, entry, arguments)) is not None:
            raise error
        return result

    async def _answer(
        self, result: ToolResult, entry: CatalogEntry, arguments: Mapping[str, object], questions: AnswerQuestions
    ) -> ToolResult:
        """The result of a tool once its questions have been answered; its last questions if they are not. Only this
        call is made again, with the state that the tool gave.
        """
        for _ in range(MAX_ROUNDS):
            if not isinstance(result, InputRequiredToolResult):
                break
            pending = result.input_required
            answers = await questions(entry, pending)
            if answers is None:
                break
            now = await self._current_entry(partial(self._access.admit, entry.name, suggest=False))
            if now is None or (now.server, now.version) != (entry.server, entry.version):
                raise InputRequiredError(
                    f"{entry_label(entry)} was not called again with the answers to its questions: it is another now",
                    tool_name=entry.name,
                    hint="Look up what it is now, then make the call again.",
                )
            answered = (answers, pending.request_state)
            again = call_tool(self._server, entry.name, dict(arguments), _version(entry.version), answered)
            result = await self._timed(again, entry)
        return result

    async def _timed(self, request: Coroutine[Any, Any, T], entry: CatalogEntry) -> T:
        """The result of a request about `entry`, within the time of a call."""
        clock, questions = CallClock(self._timeout_ms / 1000, self._clock), self._questions
        if questions is None:
            return await request_with_timeout(request, entry, self._timeout_ms, clock, None)

        async def ask(asked: InputRequest, by: str) -> object | None:
            asker = replace(entry, name=by) if by else entry
            with clock.stopped():
                answers = await questions(asker, InputRequiredResult(input_requests={"asked": asked}))
            return None if answers is None else answers["asked"]

        return await request_with_timeout(request, entry, self._timeout_ms, clock, ask)

    async def _error(
        self, failure: Exception, entry: CatalogEntry, arguments: Mapping[str, object]
    ) -> ToolCallError | None:
        """The error for an exception of a call. A hostile tool can make its translation slow, so a thread does that."""
        translate = self._failures.for_call(entry.name, arguments).from_exception
        is_short = len(str(failure)) <= MAX_QUICK_CHARS and not exceeds_chars(arguments, MAX_QUICK_GIVEN)
        if is_short and not isinstance(failure, MCPError):
            return translate(failure, entry, arguments)
        return await self._cleaner.run(translate, failure, entry, arguments)


def _version(version: str | None) -> VersionSpec | None:
    return VersionSpec(eq=version) if version else None
