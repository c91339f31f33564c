"""`CodeCallClient`: the four meta-tools as methods, over MCP clients that an agent's author has already."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, cast

import mcp_types
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp import ClientSession, MCPError

from codecall.client.formats import Definitions, Envelope, definitions, instructions, parse_tool_call, tool_reply
from codecall.errors import CodeCallError, OptionsError
from codecall.gateway.config.options import AccessOptions
from codecall.gateway.tools.filter import AccessRules, ReservedNames
from codecall.gateway.tools.provider import ServerProvider
from codecall.gateway.upstream.errors import ServerUnavailableError
from codecall.gateway.upstream.listing import Listing
from codecall.plugin import CodeCallPlugin

if TYPE_CHECKING:
    from mcp_types import Tool

    from codecall.option_types import PluginKeywords, VmOptions


# ----------------------------------------------------------------------------------------------------
# A server whose client somebody else has made: what it lists, and calls over that client's own session.

T = TypeVar("T")


class _ConnectedCall:
    """The session of such a client, for one call."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Nobody waits for it: an agent hears of a script as a whole."""


class ConnectedUpstream:
    """A server behind a client that its owner keeps connected. Changes of its lists are taken with `refresh` only:
    notifications are its owner's, and so are questions to a person.

    Args:
        name: what its tools' names begin with; empty: nothing.
        client: connected while this is used.
    """

    def __init__(self, name: str, client: Client[Any]) -> None:
        self.name = name
        self._client = client
        self._called = f"The client {name!r}" if name else "The client"

    @property
    def server_info(self) -> mcp_types.Implementation | None:
        """What the server called itself."""
        return self._client.session.server_info if self._client.is_connected() else None

    @asynccontextmanager
    async def use(self, context: Context | None) -> AsyncGenerator[_ConnectedCall]:  # noqa: ARG002 - all callers share it
        """The client's session.

        Raises:
            ServerUnavailableError: the client is not connected any more.
        """
        if not self._client.is_connected():
            raise ServerUnavailableError(
                f"{self._called} is not connected any more", tool_name=self.name, hint="Open the clients anew."
            )
        yield _ConnectedCall(self._client.session)

    async def fetch_listing(self) -> Listing:
        """What the server lists now. A kind of things that it does not know is empty.

        Raises:
            ServerUnavailableError: it cannot be asked.
        """
        client = self._client
        try:
            return Listing(
                tools=tuple(await client.list_tools()),
                resources=tuple(await _if_known(client.list_resources)),
                templates=tuple(await _if_known(client.list_resource_templates)),
                prompts=tuple(await _if_known(client.list_prompts)),
                server_info=self.server_info,
                instructions=client.session.instructions,
            )
        except (MCPError, RuntimeError) as failure:
            raise ServerUnavailableError(
                f"{self._called} could not be listed: {failure}", tool_name=self.name, hint="Look at its server."
            ) from failure

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Never called: see above."""


async def _if_known(ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
    try:
        return await ask()
    except MCPError as failure:
        if failure.error.code == mcp_types.METHOD_NOT_FOUND:
            return []
        raise


# ----------------------------------------------------------------------------------------------------
# `CodeCallClient`: the four meta-tools as methods, over MCP clients that an agent's author has already.

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

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
        vm: the limits scripts run under, as for `CodeCallPlugin.init`.
        **options: the others of `CodeCallPlugin.init`: `top_k`, `audit`, `results` and the rest.

    Raises:
        OptionsError: an option or a name is wrong.
    """

    def __init__(
        self,
        clients: Client[Any] | Mapping[str, Client[Any]],
        *,
        access: AccessOptions | Mapping[str, object] | None = None,
        vm: VmOptions | Mapping[str, object] | None = None,
        **options: Unpack[PluginKeywords],
    ) -> None:
        named = cast("Mapping[str, Client[Any]]", {"": clients} if isinstance(clients, Client) else dict(clients))
        if wrong := [name for name in named if not _NAME.fullmatch(name) and not isinstance(clients, Client)]:
            raise OptionsError(f"clients: {wrong[0]!r} is no name: letters, digits, _ and -, a letter first")
        rules = access if isinstance(access, AccessOptions) else _access(access)
        options.setdefault("tool_name_separator", "_")
        self._plugin = CodeCallPlugin.init(vm=vm, **options)
        self._tools: dict[str, Tool] = {tool.name: tool.to_mcp_tool() for tool in self._plugin.meta_tools}
        names = ReservedNames([name for name in named if name], self._tools)
        self._clients = named
        self._providers = {
            name: ServerProvider(ConnectedUpstream(name, client), access=AccessRules(rules), names=names)
            for name, client in named.items()
        }
        self._server: FastMCP[Any] = FastMCP("codecall")
        for name, provider in self._providers.items():
            self._server.add_provider(provider, namespace=name)
        self._plugin.install(self._server)
        self._open: AsyncExitStack | None = None
        self._inside: Client[Any] | None = None

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
            inside: Client[Any] = Client(self._server)
            self._inside = await stack.enter_async_context(inside)
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._open, self._inside = self._open, None, None
        if stack is not None:
            await stack.aclose()

    async def refresh(self) -> None:
        """Read again what the servers list.

        Raises:
            CodeCallError: one cannot be asked; what was known of it stays.
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
            query: what to do, in words; or several such.
            top_k: hits at most for each.
            apps: only of these clients, by name.
            tags: only with one of these tags.
            kinds: only of these kinds.
            exclude: names of tools that are known already.
            min_score: hits below it are left out; 0 to 1.

        Returns:
            `tools` with names and scores, and what else `codecall:search` tells.
        """
        wanted = {"appIds": apps, "tags": tags, "kinds": kinds}
        filters = {key: list(value) for key, value in wanted.items() if value is not None}
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
        """Schemas and usage examples of tools by name, as JSON Schema or as TypeScript."""
        return await self.call("describe", {"toolNames": list(names), "format": style})

    async def invoke(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Envelope:
        """Call one tool without a script."""
        return await self.call("invoke", {"tool": tool, "input": dict(arguments or {})})

    async def execute(
        self,
        script: str,
        *,
        context: Mapping[str, Any] | None = None,
        allowed_tools: Sequence[str] | None = None,
        dry_run: bool = False,
        resume_from: str | None = None,
    ) -> Envelope:
        """Run a script.

        Args:
            script: AgentScript source.
            context: `codecallContext`; JSON data.
            allowed_tools: names or globs that it may call and read; None: all.
            dry_run: only look at it: the result is `{valid, findings, manifest}`.
            resume_from: `runId` of a run that failed, to take it up; needs the option `resume`.

        Returns:
            How it ended. A script that fails is an answer, not an exception; `value` makes it one.
        """
        return await self.call(
            "execute",
            {
                "script": script,
                "context": None if context is None else dict(context),
                "allowedTools": None if allowed_tools is None else list(allowed_tools),
                "dryRun": dry_run or None,
                "resumeFrom": resume_from,
            },
        )

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Envelope:
        """Do what a model asked for.

        Args:
            name: `codecall_search` or one of the other three; `codecall_` may be left out.
            arguments: as that tool takes them; None stands for left out.

        Returns:
            The answer. Wrong arguments and names give one, too, with `status` `error`: models make mistakes, and learn
            by what they are told.

        Raises:
            OptionsError: this is not open.
        """
        if self._inside is None:
            raise OptionsError("This CodeCallClient is not open", hint="Use it in `async with`.")
        tool = name if name in self._tools else self._plugin_name(name)
        if tool is None:
            return _mistake("TOOL_NOT_FOUND", f"There is no {name!r}; there are {', '.join(self._tools)}")
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            answer = await self._inside.call_tool(tool, given)
        except ToolError as failure:
            return _mistake("INVALID_INPUT", str(failure))
        return Envelope(cast("dict[str, Any]", answer.structured_content))

    def definitions(self, style: Definitions, *, description_limit: int | None = None) -> list[Any]:
        """The four tools as a model provider's interface takes them.

        Args:
            style: `openai`, `openai-responses`, `anthropic`, or `langchain`: tools that call by themselves.
            description_limit: characters a description may have, such as `AZURE_DESCRIPTION_LIMIT`; what is beyond goes
                into the system prompt: `instructions`.

        Raises:
            OptionsError: there is no such style, or its library is not installed.
        """
        return definitions([*self._tools.values()], style, self.call, description_limit=description_limit)

    def instructions(self, description_limit: int) -> str:
        """What of the descriptions is beyond that limit, for the system prompt; empty where nothing is."""
        return instructions([*self._tools.values()], description_limit)

    async def answer(self, style: Definitions, call: object) -> dict[str, Any]:
        """Do what a tool call of a model asks, and give the message that answers it.

        Args:
            style: `openai`, `openai-responses` or `anthropic`.
            call: the tool call, as the provider's library gives it or as a mapping.

        Raises:
            OptionsError: it is no tool call of that style, or this is not open.
        """
        try:
            name, arguments = parse_tool_call(style, call)
        except OptionsError:
            raise
        except ValueError as mistake:
            return tool_reply(style, call, _mistake("INVALID_INPUT", f"The arguments are no JSON object: {mistake}"))
        return tool_reply(style, call, await self.call(name, arguments))

    def _plugin_name(self, verb: str) -> str | None:
        found = (tool for tool in self._tools if tool.removeprefix("codecall")[1:] == verb)
        return next(found, None)


def _access(given: Mapping[str, object] | None) -> AccessOptions:
    return AccessOptions(destructive=True) if given is None else AccessOptions.read(given, where="access")


def _mistake(code: str, message: str) -> Envelope:
    return Envelope({"status": "error", "error": CodeCallError(message, code=code).as_dict()})
