"""`listToolFiles`, `readToolFile` and `getToolDocs`: the tools of a caller as virtual `.pyi` files, by server."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from anyio import to_thread
from fastmcp.tools.base import ToolResult
from mcp_types import TextContent, ToolAnnotations
from pydantic import Field, PrivateAttr

from codecall.catalog.pyi.stubs import ToolStub, server_file, tool_docs, tool_file
from codecall.concurrency import iterate_cooperatively
from codecall.meta_tools.base import (
    WELL_FORMED,
    Arguments,
    JsonObject,
    MetaTool,
    Runtime,
    observed_output_schema,
    parse_arguments,
)
from codecall.meta_tools.starlark.lookup import NotFoundError, file_names, find_file, find_server, find_tool
from codecall.meta_tools.starlark.options import EXECUTE_CODE, GET_DOCS, LIST_FILES, READ_FILE, ToolFilesOptions
from codecall.meta_tools.starlark.servers import ServerRules, ToolServer
from codecall.telemetry.spans import Operation

MAX_NAME_CHARS: Final = 2_000
"""Most characters of a name that is looked up at all."""

Name = Annotated[str, Field(max_length=MAX_NAME_CHARS), WELL_FORMED]


class ListFilesArguments(Arguments):
    """Arguments of `listToolFiles`: none."""


class ReadFileArguments(Arguments):
    """Arguments of `readToolFile`."""

    file_name: Name
    start_line: int | None = None
    end_line: int | None = None


class GetDocsArguments(Arguments):
    """Arguments of `getToolDocs`."""

    server: Name
    tool: Name


class FileTool(MetaTool):
    """Base of the tools that show files."""

    _rules: ServerRules = PrivateAttr()
    _by_tool: bool = PrivateAttr()

    @classmethod
    def create_named(
        cls, runtime: Runtime, *, name: str, verb: Operation, title: str, description: str, parameters: JsonObject
    ) -> Self:
        """Create the tool; `runtime` has the option `tool_files`."""
        tool = cls.build(
            runtime,
            verb=verb,
            title=title,
            description=description,
            parameters={"type": "object", **parameters, "additionalProperties": False},
            output_schema=None,
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        ).called(name)
        options = runtime.options.tool_files or ToolFilesOptions()
        tool._rules = ServerRules(options)
        tool._by_tool = options.binding_level == "tool"
        return tool

    async def stub(self, server: ToolServer, function: str) -> ToolStub:
        """One tool of a server, with what has been learned of its results."""
        context, _ = self._view()
        entry = server.tools[function]
        return ToolStub(function, entry, await observed_output_schema(self._runtime, context, entry))

    async def servers(self) -> dict[str, ToolServer]:
        """The servers of the caller of this request."""
        return await self._rules.of_caller(*self._view())


class ListFilesTool(FileTool):
    """Lists the files."""

    @classmethod
    def create(cls, runtime: Runtime) -> Self:
        """Create the tool; `runtime` has the option `tool_files`."""
        return cls.create_named(
            runtime,
            name=LIST_FILES,
            verb="search",
            title="List tool files",
            description=(
                "Lists all available virtual .pyi stub files: what servers there are"
                f"{', and their tools' if _is_by_tool(runtime) else ''}. Read them with {READ_FILE}, then call their "
                f"functions with {EXECUTE_CODE}."
            ),
            parameters={"properties": {}},
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """List the files of this caller's tools."""
        parse_arguments(ListFilesArguments, self.name, arguments)
        servers = await self.servers()
        if not servers:
            return _text("There are no tools, and so there are no files.")
        return _text("\n".join(file_names(servers, by_tool=self._by_tool)))


class ReadFileTool(FileTool):
    """Reads a file."""

    @classmethod
    def create(cls, runtime: Runtime) -> Self:
        """Create the tool; `runtime` has the option `tool_files`."""
        example = "servers/youtube/search.pyi" if _is_by_tool(runtime) else "servers/youtube.pyi"
        return cls.create_named(
            runtime,
            name=READ_FILE,
            verb="describe",
            title="Read a tool file",
            description=(
                "Reads a virtual .pyi file: compact Python function signatures of tools, with the names to call them "
                f"by in {EXECUTE_CODE}. {GET_DOCS} has more about one tool."
            ),
            parameters={
                "properties": {
                    "fileName": {"type": "string", "description": f"As {LIST_FILES} shows it, such as {example}"},
                    "startLine": {"type": "integer", "description": "1-based first line, for a part of the file"},
                    "endLine": {"type": "integer", "description": "1-based last line, for a part of the file"},
                },
                "required": ["fileName"],
            },
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Read the file, or those of its lines that are asked for."""
        parsed = parse_arguments(ReadFileArguments, self.name, arguments)
        servers = await self.servers()
        try:
            found = await to_thread.run_sync(lambda: find_file(parsed.file_name, servers, by_tool=self._by_tool))
        except NotFoundError as missing:
            return _text(str(missing), is_error=True)
        server, function = found.server, found.function
        if function is not None:
            stub = await self.stub(server, function)
            text = await to_thread.run_sync(tool_file, server.key, stub)
        else:
            stubs = [await self.stub(server, each) async for each in iterate_cooperatively(server.tools)]
            text = await to_thread.run_sync(server_file, server.key, stubs)
        return _text(_lines(text, parsed.start_line, parsed.end_line))


class GetDocsTool(FileTool):
    """Documents one tool."""

    @classmethod
    def create(cls, runtime: Runtime) -> Self:
        """Create the tool; `runtime` has the option `tool_files`."""
        return cls.create_named(
            runtime,
            name=GET_DOCS,
            verb="describe",
            title="Read the documentation of a tool",
            description=(
                "Detailed documentation of one tool, when the compact signature from "
                f"{READ_FILE} is not sufficient: all parameters, what it returns, an example."
            ),
            parameters={
                "properties": {
                    "server": {"type": "string", "description": 'The server name, such as "youtube"'},
                    "tool": {"type": "string", "description": 'The tool name, such as "search"'},
                },
                "required": ["server", "tool"],
            },
        )

    async def respond(self, arguments: dict[str, Any]) -> ToolResult:
        """Document the tool."""
        parsed = parse_arguments(GetDocsArguments, self.name, arguments)
        servers = await self.servers()

        def find() -> tuple[ToolServer, str]:
            server = find_server(parsed.server, servers)
            return server, find_tool(server, parsed.tool)

        try:
            server, function = await to_thread.run_sync(find)
        except NotFoundError as missing:
            return _text(str(missing), is_error=True)
        return _text(await to_thread.run_sync(tool_docs, server.key, await self.stub(server, function)))


FILE_TOOLS: Final = (ListFilesTool, ReadFileTool, GetDocsTool)
"""All of them, in the order in which clients list them."""


def _is_by_tool(runtime: Runtime) -> bool:
    options = runtime.options.tool_files
    return options is not None and options.binding_level == "tool"


def _lines(text: str, first: int | None, last: int | None) -> str:
    """Lines `first` to `last` of a text, counted from 1; what is outside of it stands for its first or last line."""
    if first is None and last is None:
        return text
    lines = text.split("\n")
    start = min(max(first or 1, 1), len(lines))
    end = min(max(len(lines) if last is None else last, start), len(lines))
    return "\n".join(lines[start - 1 : end])


def _text(text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult.model_construct(
        content=[TextContent(type="text", text=text)], structured_content=None, meta=None, is_error=is_error
    )
