"""`CodeCallClient`: the four meta-tools as methods, over MCP clients that the author of an agent already has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, cast

import mcp_types
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext

from codecall.client.formats import Definitions, Envelope, definitions, instructions, parse_tool_call, tool_reply
from codecall.errors import CodeCallError, InputRequiredError, OptionsError
from codecall.gateway.config.options import AccessOptions
from codecall.gateway.tools.access import AccessRules
from codecall.gateway.tools.filter import ReservedNames
from codecall.gateway.tools.provider import ServerProvider
from codecall.gateway.upstream.errors import ServerUnavailableError
from codecall.gateway.upstream.listing import Listing, read_listing
from codecall.gateway.upstream.messages import shorten
from codecall.gateway.upstream.questions import MAX_QUESTIONS
from codecall.gateway.upstream.relay import MAX_ROUNDS, ROUND_PAUSE_S
from codecall.jsonio import incremental
from codecall.jsonio.check import MAX_DEPTH
from codecall.options import (
    AuditOptions,
    DirectCalls,
    Mode,
    ObservedOutputOptions,
    PoolOptions,
    ProgressOptions,
    ResultsOptions,
    ResumeOptions,
    SanitizationOptions,
    SearchOptions,
    ShutdownOptions,
    StarlarkOptions,
)
from codecall.plugin import CodeCallPlugin
from codecall.sandbox.languages import Language, language_of

if TYPE_CHECKING:
    from mcp_types import Tool

    from codecall.options import (
        AuditDict,
        DirectCallsDict,
        ObservedOutputDict,
        PoolDict,
        ProgressDict,
        ResultsDict,
        ResumeDict,
        SanitizationDict,
        SearchDict,
        ShutdownDict,
        StarlarkDict,
        VmOptions,
    )

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

MAX_ERROR_CHARS: Final = 4_096
"""Characters of a server's error text. FastMCP logs it in the agent's own process, and Rich, its default handler, takes
tens of seconds of the event loop for a word of 50,000 letters."""

Kind = Literal["tool", "resource", "template", "prompt"]


class CodeCallClient:
    """Code mode over one MCP client, or over several.

        async with CodeCallClient({"crm": Client("https://crm.example.com/mcp"), "git": Client("git.py")}) as codecall:
            answer = await codecall.execute("return (await crm.deals_list({ stage: 'won' })).deals.length;")
            print(answer.value)

    Scripts run in jailed worker processes of this process, under the same rules as on a server. The clients are
    connected while this is open; whatever they were given to answer questions with stays in force.

    Args:
        clients: one client, whose tools keep their names; or several by name, and then tools are `<name>_<tool>`.
        access: which tools may be used: `AccessOptions`, or a mapping of its fields. All of them, if it is left out,
            those that may destroy something included: they are the agent's own clients.
        vm: the limits scripts run under: `{"preset": name or path, <limit>: value, …}`.
        mode: which tools scripts may use: `codecall_only` (all; `additive` is the same here), or `codecall_opt_in`.
        app_ids: only tools of these apps are managed; None manages all.
        include_tools: a filter over FastMCP tools; False keeps a tool from scripts and from search.
        direct_calls: `invoke`: a bool, names or globs of the tools that it may call, or a mapping of `DirectCalls`.
        tool_name_separator: `_` names the tools `codecall_search` and so on; `:` names them `codecall:search`.
        top_k: hits of a search that does not say how many, 1 to 50; 5 if left out.
        inline_result_bytes: bytes of a result that an answer holds, 65,536 if left out; larger ones are kept.
        mark_errors: sets `isError` of MCP on every envelope whose status is not `ok`.
        embedding: how search works: `SearchOptions`, or a mapping of its fields.
        observed_output: output shapes learned from results: a bool, or a mapping of `ObservedOutputOptions`.
        sanitization: what is removed from error messages: `SanitizationOptions`, or a mapping of its fields.
        pool: the worker processes: `PoolOptions`, or a mapping of its fields.
        audit: records of what scripts did: `AuditOptions`, or a mapping of its fields.
        resume: lets `execute` resume a run that failed: `ResumeOptions`, or a mapping of its fields; None: it cannot.
        results: what happens to results that are too large: a bool, or a mapping of `ResultsOptions`.
        progress: which progress is reported while a script runs: `ProgressOptions`, or a mapping of its fields.
        shutdown: what happens to running scripts at the end: `ShutdownOptions`, or a mapping of its fields.
        telemetry: whether spans and metrics go to OpenTelemetry, where a provider is set; True if left out.
        tasks: whether `execute` may run as a background task of FastMCP (extra `tasks`); False if left out.
        starlark: whether scripts may be Starlark, too (extra `starlark`): a bool, or a mapping of `StarlarkOptions`.

    An option that is left out, or None, has the default of `codecall.options.PluginOptions`.

    Raises:
        OptionsError: an option or a name is wrong.
    """

    def __init__(
        self,
        clients: Client[Any] | Mapping[str, Client[Any]],
        *,
        access: AccessOptions | Mapping[str, object] | None = None,
        vm: VmOptions | Mapping[str, object] | None = None,
        mode: Mode | None = None,
        app_ids: Sequence[str] | None = None,
        include_tools: Callable[[Any], bool] | None = None,
        direct_calls: DirectCalls | DirectCallsDict | Mapping[str, object] | Sequence[str] | bool | None = None,
        tool_name_separator: Literal[":", "_"] = "_",
        top_k: int | None = None,
        inline_result_bytes: int | None = None,
        mark_errors: bool | None = None,
        embedding: SearchOptions | SearchDict | Mapping[str, object] | None = None,
        observed_output: ObservedOutputOptions | ObservedOutputDict | Mapping[str, object] | bool | None = None,
        sanitization: SanitizationOptions | SanitizationDict | Mapping[str, object] | None = None,
        pool: PoolOptions | PoolDict | Mapping[str, object] | None = None,
        audit: AuditOptions | AuditDict | Mapping[str, object] | None = None,
        resume: ResumeOptions | ResumeDict | Mapping[str, object] | None = None,
        results: ResultsOptions | ResultsDict | Mapping[str, object] | bool | None = None,
        progress: ProgressOptions | ProgressDict | Mapping[str, object] | None = None,
        shutdown: ShutdownOptions | ShutdownDict | Mapping[str, object] | None = None,
        telemetry: bool | None = None,
        tasks: bool | None = None,
        starlark: StarlarkOptions | StarlarkDict | Mapping[str, object] | bool | None = None,
    ) -> None:
        options: dict[str, object] = {
            "mode": mode,
            "app_ids": app_ids,
            "include_tools": include_tools,
            "direct_calls": direct_calls,
            "tool_name_separator": tool_name_separator,
            "top_k": top_k,
            "inline_result_bytes": inline_result_bytes,
            "mark_errors": mark_errors,
            "embedding": embedding,
            "observed_output": observed_output,
            "sanitization": sanitization,
            "pool": pool,
            "audit": audit,
            "resume": resume,
            "results": results,
            "progress": progress,
            "shutdown": shutdown,
            "telemetry": telemetry,
            "tasks": tasks,
            "starlark": starlark,
        }
        named = cast("object", {"": clients} if isinstance(clients, Client) else clients)
        values = cast("Mapping[str, object]", named).values() if isinstance(named, Mapping) else (None,)
        if not all(isinstance(client, Client) for client in values):
            raise OptionsError("clients: a fastmcp.Client is needed, or a mapping of names to clients")
        clients_by_name = dict(cast("Mapping[str, Client[Any]]", named))
        if not isinstance(clients, Client):
            for name in clients_by_name:
                if not _NAME.fullmatch(name):
                    raise OptionsError(f"clients: {name!r} is no name: letters, digits, _ and -, a letter first")
        rules = access if isinstance(access, AccessOptions) else _access_options(access)
        self._plugin = _create_plugin(vm, options)
        self._tools: dict[str, Tool] = {tool.name: tool.to_mcp_tool() for tool in self._plugin.meta_tools}
        names = ReservedNames([name for name in clients_by_name if name], self._tools)
        self._clients = clients_by_name
        self._providers = {
            name: ServerProvider(ConnectedUpstream(name, client), access=AccessRules(rules), names=names)
            for name, client in clients_by_name.items()
        }
        self._server: FastMCP[Any] = FastMCP("codecall")
        for name, provider in self._providers.items():
            self._server.add_provider(provider, namespace=name)
        self._plugin.install(self._server)
        self._open: AsyncExitStack | None = None
        self._internal_client: Client[Any] | None = None

    async def __aenter__(self) -> Self:
        """Connect the clients, and read what their servers list.

        Raises:
            CodeCallError: a server cannot be listed.
        """
        if self._open is not None:
            raise OptionsError("This CodeCallClient is open already")
        async with AsyncExitStack() as stack:
            for client in self._clients.values():
                await stack.enter_async_context(client)
            await self.refresh()
            internal_client: Client[Any] = Client(self._server)
            self._internal_client = await stack.enter_async_context(internal_client)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._open, self._internal_client = self._open, None, None
        if stack is not None:
            await stack.aclose()

    async def refresh(self) -> None:
        """List the servers' tools, resources and prompts anew.

        Raises:
            CodeCallError: a server cannot be asked; its earlier listing stays in use.
        """
        failures = await asyncio.gather(
            *(provider.refresh() for provider in self._providers.values()), return_exceptions=True
        )
        for failure in failures:
            if isinstance(failure, BaseException):
                raise failure

    async def search(
        self,
        query: str | Sequence[str],
        *,
        top_k: int | None = None,
        apps: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        kinds: Sequence[Kind] | None = None,
        exclude: Sequence[str] | None = None,
        min_score: float | None = None,
    ) -> Envelope:
        """Find tools, resources and prompts.

        Args:
            query: what the tool should do, in words; or several such texts.
            top_k: most hits for each query.
            apps: only of these clients, by name.
            tags: only with one of these tags.
            kinds: only of these kinds.
            exclude: names of tools that are known already.
            min_score: hits below it are left out; 0 to 1.

        Returns:
            `tools` with names and scores, and what else `codecall:search` answers.
        """
        values = {"appIds": apps, "tags": tags, "kinds": kinds}
        filters = {key: list(value) for key, value in values.items() if value is not None}
        return await self.call(
            "search",
            {
                "query": query if isinstance(query, str) else list(query),
                "topK": top_k,
                "filter": filters or None,
                "excludeToolNames": None if exclude is None else list(exclude),
                "minScore": min_score,
            },
        )

    async def describe(self, names: Sequence[str], *, style: Literal["json", "typescript"] = "json") -> Envelope:
        """Give schemas and usage examples of tools by name, as JSON Schema or as TypeScript."""
        return await self.call("describe", {"toolNames": list(names), "format": style})

    async def invoke(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Envelope:
        """Call one tool without a script."""
        return await self.call("invoke", {"tool": tool, "input": dict(arguments or {})})

    async def execute(
        self,
        script: str | Path,
        *,
        context: Mapping[str, Any] | None = None,
        allowed_tools: Sequence[str] | None = None,
        dry_run: bool = False,
        resume_from: str | None = None,
        language: Language | None = None,
    ) -> Envelope:
        """Run a script.

        Args:
            script: its source, or the path of its file.
            context: `codecallContext`, or in Starlark the variables of the script; JSON data.
            allowed_tools: names or globs that it may call and read; None: all.
            dry_run: only look at it: the result is `{valid, findings, manifest}`.
            resume_from: `runId` of a run that failed, to resume it; needs the option `resume`.
            language: `javascript`, or `starlark` with the option of that name; None: as the suffix of the file says
                (`.star` is Starlark), else JavaScript.

        Returns:
            The envelope of the run. A script that fails gives an envelope, not an exception; its `value` raises.

        Raises:
            OSError: the file of the script cannot be read.
        """
        if isinstance(script, Path):
            language = language or language_of(script)
            script = await asyncio.to_thread(script.read_text, encoding="utf-8")
        return await self.call(
            "execute",
            {
                "script": script,
                "context": None if context is None else dict(context),
                "allowedTools": None if allowed_tools is None else list(allowed_tools),
                "dryRun": dry_run or None,
                "resumeFrom": resume_from,
                "language": None if language == "javascript" else language,
            },
        )

    async def read_result(self, answer: Envelope) -> Any:
        """Give the result of an answer, also where it is too large for the answer and is kept.

        Raises:
            CodeCallError: the call failed, or its result has expired.
            OptionsError: this client is not open.
        """
        if (large := answer.large) is None:
            return answer.value
        client = self._connected()
        pages = [f"{large['uri']}/pages/{page}" for page in range(1, large["pages"] + 1)]
        try:
            parts = [await client.read_resource(page) for page in pages]
        except MCPError as failure:
            message = f"Result '{large['handle']}' could not be read: {failure}"
            hint = f"It is kept until {large['expires']}; run the script again, or have it return less."
            raise CodeCallError(message, code="RESULT_NOT_FOUND", hint=hint) from failure
        text = "".join(cast("mcp_types.TextResourceContents", contents[0]).text for contents in parts)
        return await incremental.read(text.encode(), MAX_DEPTH)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Envelope:
        """Call one of the four tools, as a model asked for it.

        Args:
            name: `codecall_search` or one of the other three; `codecall_` may be left out.
            arguments: the arguments of that tool; those that are None are left out.

        Returns:
            The envelope. Wrong arguments and names give one, too, with `status` `error`: models make mistakes, and
            correct them by what they read.

        Raises:
            OptionsError: this client is not open.
        """
        client = self._connected()
        tool = name if name in self._tools else self._tool_name(name)
        if tool is None:
            return _error_envelope("TOOL_NOT_FOUND", f"There is no {name!r}; there are {', '.join(self._tools)}")
        present = {key: value for key, value in arguments.items() if value is not None}
        try:
            result = await client.call_tool(tool, present)
        except ToolError as failure:
            return _error_envelope("INVALID_INPUT", str(failure))
        return Envelope(cast("dict[str, Any]", result.structured_content), result.content[1:])

    def definitions(self, style: Definitions, *, description_limit: int | None = None) -> list[Any]:
        """The four tools as a model provider's interface takes them.

        Args:
            style: `openai`, `openai-responses`, `anthropic`, or `langchain`: tools that call by themselves.
            description_limit: most characters of a description, such as `AZURE_DESCRIPTION_LIMIT`; the rest is given by
                `instructions`, for the system prompt.

        Raises:
            OptionsError: there is no such style, or its library is not installed.
        """
        return definitions([*self._tools.values()], style, self.call, description_limit=description_limit)

    def instructions(self, description_limit: int) -> str:
        """Give the parts of descriptions beyond the limit, for the system prompt; empty if there are none."""
        return instructions([*self._tools.values()], description_limit)

    async def answer(self, style: Definitions, call: object) -> dict[str, Any]:
        """Perform a tool call of a model, and give the message that answers it.

        Args:
            style: `openai`, `openai-responses` or `anthropic`.
            call: the tool call, as the provider's library gives it or as a mapping.

        Raises:
            OptionsError: it is no tool call of that style, or this client is not open.
        """
        try:
            name, arguments = parse_tool_call(style, call)
        except OptionsError:
            raise
        except ValueError as failure:
            return tool_reply(
                style, call, _error_envelope("INVALID_INPUT", f"The arguments are no JSON object: {failure}")
            )
        return tool_reply(style, call, await self.call(name, arguments))

    def _connected(self) -> Client[Any]:
        if self._internal_client is None:
            raise OptionsError("This CodeCallClient is not open", hint="Use it in `async with`.")
        return self._internal_client

    def _tool_name(self, verb: str) -> str | None:
        matches = (tool for tool in self._tools if tool.removeprefix("codecall")[1:] == verb)
        return next(matches, None)


def _access_options(access: Mapping[str, object] | None) -> AccessOptions:
    return AccessOptions(destructive=True) if access is None else AccessOptions.read(access, where="access")


def _error_envelope(code: str, message: str) -> Envelope:
    return Envelope({"status": "error", "error": CodeCallError(message, code=code).as_dict()})


def _create_plugin(vm: VmOptions | Mapping[str, object] | None, options: Mapping[str, object]) -> CodeCallPlugin:
    """Create the plugin; an option that is None has its default."""
    present: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    return CodeCallPlugin.init(vm=vm, **present)


T = TypeVar("T")


class ConnectedUpstream:
    """The upstream of a server whose client somebody else keeps connected.

    Its lists are read again by `refresh` only: notifications and elicitations belong to the owner of the client.

    Args:
        name: the prefix of its tools' names; empty for none.
        client: a client that is connected while this is used.
    """

    def __init__(self, name: str, client: Client[Any]) -> None:
        self.name = name
        self._client = client
        self._title = f"The client {name!r}" if name else "The client"

    @property
    def server_info(self) -> mcp_types.Implementation | None:
        """Name and version that the server reports; None while the client is not connected."""
        return self._client.session.server_info if self._client.is_connected() else None

    @asynccontextmanager
    async def use(self, context: Context | None) -> AsyncGenerator[_ConnectedCall]:  # noqa: ARG002 - all callers share it
        """Give the session of the client for one call.

        Raises:
            ServerUnavailableError: the client is not connected any more.
        """
        if not self._client.is_connected():
            raise ServerUnavailableError(
                f"{self._title} is not connected any more", tool_name=self.name, hint="Open the clients anew."
            )
        yield _ConnectedCall(self._client.session, self._title)

    async def fetch_listing(self) -> Listing:
        """List what the server has now. A kind that the server does not support is empty.

        Raises:
            ServerUnavailableError: the server cannot be asked, or lists more than is allowed.
        """
        try:
            return await read_listing(self._client.session, self.name or "client")
        except (MCPError, RuntimeError) as failure:
            raise ServerUnavailableError(
                f"{self._title} could not be listed: {shorten(str(failure), MAX_ERROR_CHARS)}",
                tool_name=self.name,
                hint="Look at its server.",
            ) from None

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Ignore the callback: notifications belong to the owner of the client."""


class _ConnectedCall:
    """The session of a connected client, for one call.

    Args:
        session: the session.
        title: the client, as messages name it.
    """

    def __init__(self, session: ClientSession, title: str) -> None:
        self.session = session
        self._title = title

    async def run(self, send: Callable[[mcp_types.InputResponses | None, str | None], Awaitable[T]]) -> T:
        """Make a request. What a server of 2026-07-28 asks in its answer, the client's handlers answer; those of an
        older server have answered in the middle of the request.

        Raises:
            InputRequiredError: the client has no handler for what is asked, or the server asks more than `MAX_ROUNDS`
                times or `MAX_QUESTIONS` questions.
            MCPError: the server answers with an error, whose text is cut if it is long.
        """
        try:
            result, asked = await send(None, None), 0
            for _ in range(MAX_ROUNDS):
                if not isinstance(result, mcp_types.InputRequiredResult):
                    return result
                questions = result.input_requests or {}
                if (asked := asked + len(questions)) > MAX_QUESTIONS:
                    raise self._unanswered(f"asks more than {MAX_QUESTIONS} questions in one call", questions)
                answers = {key: await self._answer(key, question, questions) for key, question in questions.items()}
                if not answers:
                    await asyncio.sleep(ROUND_PAUSE_S)
                result = await send(answers or None, result.request_state)
        except MCPError as failure:
            raise MCPError(failure.code, shorten(failure.message, MAX_ERROR_CHARS), failure.data) from None
        if isinstance(result, mcp_types.InputRequiredResult):
            raise self._unanswered(f"has asked {MAX_ROUNDS} times and does not answer", result.input_requests or {})
        return result

    async def _answer(
        self, key: str, question: mcp_types.InputRequest, questions: mcp_types.InputRequests
    ) -> mcp_types.InputResponse:
        """What the client's handler answers.

        Raises:
            InputRequiredError: there is none, or it fails.
        """
        meta = question.params.meta if question.params else None
        context = ClientRequestContext(session=self.session, request_id=key, meta=meta)
        answer = await self.session.dispatch_input_request(context, question)
        if isinstance(answer, mcp_types.ErrorData):
            reason = shorten(answer.message, MAX_ERROR_CHARS)
            raise self._unanswered(f"asks a question that nobody here answers ({reason})", questions)
        return answer

    def _unanswered(self, what: str, questions: mcp_types.InputRequests) -> InputRequiredError:
        requests = [
            {"name": name, "kind": question.method, "message": question.params.message}
            if isinstance(question, mcp_types.ElicitRequest)
            else {"name": name, "kind": question.method}
            for name, question in islice(questions.items(), MAX_ROUNDS)
        ]
        return InputRequiredError(
            f"The server of {self._title.replace('The', 'the', 1)} {what}",
            tool_name=self._title,
            details={"requests": requests} if requests else None,
            hint="Give what it asks for as input, if the tool takes it, or tell the person. Whoever writes the agent "
            "can give the client a handler for it: `elicitation_handler`, for a question to a person.",
        )

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Do nothing: an agent gets the result of a script as a whole."""
