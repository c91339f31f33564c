"""Reads results of FastMCP: the values that scripts get, with the content blocks kept that stand in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp import FastMCP
from fastmcp.prompts import PromptResult
from fastmcp.resources import ResourceResult
from fastmcp.tools.base import ToolResult

from codecall.calls.access import AccessPolicy
from codecall.calls.blocks import BlockKeeper, BlocksTooLargeError
from codecall.calls.conversion import (
    ValueTooLargeError,
    empty_value,
    has_others_than_texts,
    is_repeated_by,
    is_wrapped,
    looks_wrapped,
    prompt_json,
    resource_json,
    to_json,
)
from codecall.calls.failures import too_large_error
from codecall.calls.repetitions import without_repetitions
from codecall.catalog.entries import CatalogEntry, JsonObject, call_kind, entry_label
from codecall.errors import ToolCallError
from codecall.sandbox.agentscript.policy import OBSERVED

ObservedSchema = Callable[[CatalogEntry], Awaitable[JsonObject | None]]
"""Gives what was learned of the results of a tool that declares nothing."""


class ResultReader:
    """Reads the results of the calls of one request.

    Args:
        server: the server that the request is for.
        create_blocks: creates the store of content blocks, once there are some; without it none are kept.
        observed_schema: gives what was learned of the results of a tool that declares nothing.
    """

    def __init__(
        self,
        server: FastMCP[Any],
        create_blocks: Callable[[], BlockKeeper] | None = None,
        observed_schema: ObservedSchema | None = None,
    ) -> None:
        self._server = server
        self._create_blocks = create_blocks
        self._observed_schema = observed_schema
        self._wrapped_tools: dict[str, bool] = {}
        self.blocks: BlockKeeper | None = None
        """The content blocks of all results so far; None while there are none."""

    def refresh(self) -> None:
        """Look up the schemas of tools again from now on."""
        self._wrapped_tools.clear()

    async def tool(self, result: ToolResult, entry: CatalogEntry, max_bytes: int) -> str:
        """The value of a tool's result as JSON text, see `to_json`.

        Raises:
            ToolCallError: it cannot be sent to a script.
        """
        wrapped = is_wrapped(result) or (looks_wrapped(result) and await self._declares_wrapper(entry.name))
        return await self._translate_errors(self._tool(result, entry, wrapped, max_bytes), entry, max_bytes)

    async def resource(self, result: ResourceResult, entry: CatalogEntry, max_bytes: int) -> str:
        """The value of a resource as JSON text, see `resource_json`; the name of `entry` is its URI.

        Raises:
            ToolCallError: it cannot be sent to a script.
        """
        blocks = self._blocks_for(any(isinstance(item.content, bytes) for item in result.contents))
        return await self._translate_errors(resource_json(result, entry.name, max_bytes, blocks), entry, max_bytes)

    async def prompt(self, result: PromptResult, entry: CatalogEntry, max_bytes: int) -> str:
        """The value of a prompt as JSON text, see `prompt_json`.

        Raises:
            ToolCallError: it cannot be sent to a script.
        """
        blocks = self._blocks_for(has_others_than_texts([message.content for message in result.messages]))
        return await self._translate_errors(prompt_json(result, max_bytes, blocks), entry, max_bytes)

    async def with_observed(self, access: AccessPolicy, name: str) -> JsonObject | None:
        """What `getTool` gives of a tool, and under `OBSERVED` what was seen of the results of one that declares
        nothing; None where it may not be called."""
        described = await access.describe(name)
        entry = await access.view.find(name) if described is not None and self._observed_schema is not None else None
        observed = None if entry is None or self._observed_schema is None else await self._observed_schema(entry)
        return described if described is None or observed is None else {**described, OBSERVED: observed}

    async def _tool(self, result: ToolResult, entry: CatalogEntry, wrapped: bool, max_bytes: int) -> str:
        if (structured := result.structured_content) is None:
            blocks = self._blocks_for(has_others_than_texts(result.content))
            learned = await self._observed_schema(entry) if self._observed_schema and not result.content else None
            empty = empty_value(entry.output_schema, learned)
            return await to_json(result, wrapped=wrapped, max_bytes=max_bytes, blocks=blocks, empty=empty)
        json = await to_json(result, wrapped=wrapped, max_bytes=max_bytes)
        if is_repeated_by(result.content, json):
            return json
        beside = await without_repetitions(result.content, structured, json)
        if (blocks := self._blocks_for(bool(beside))) is not None:
            await blocks.add_unreferenced(beside, entry)
        return json

    def _blocks_for(self, has_blocks: bool) -> BlockKeeper | None:
        """The store for the content blocks of a result; None if it has none."""
        if self._create_blocks is None or not has_blocks:
            return None
        self.blocks = self.blocks or self._create_blocks()
        return self.blocks

    async def _declares_wrapper(self, name: str) -> bool:
        """Whether the tool's schema says that its results are wrapped; some servers mark only their schemas."""
        if name not in self._wrapped_tools:
            tool = await self._server.get_tool(name)
            schema = tool.output_schema if tool is not None else None
            self._wrapped_tools[name] = bool(schema and schema.get("x-fastmcp-wrap-result"))
        return self._wrapped_tools[name]

    async def _translate_errors(self, value: Awaitable[str], entry: CatalogEntry, max_bytes: int) -> str:
        """The JSON text of a value; a value that cannot be sent becomes a named error."""
        try:
            return await value
        except ValueTooLargeError as failure:
            raise too_large_error(entry, failure.size, max_bytes) from None
        except BlocksTooLargeError as failure:
            raise ToolCallError(
                f"{entry_label(entry)} returned {failure}",
                tool_name=entry.name,
                called=call_kind(entry),
                code="MESSAGE_TOO_LARGE",
                hint="Ask for fewer or smaller pictures, sounds or files.",
            ) from None
        except ValueError:
            raise ToolCallError(
                f"{entry_label(entry)} returned a value that cannot be sent as JSON",
                tool_name=entry.name,
                called=call_kind(entry),
                hint="It is nested too deeply, or holds what JSON has no form for; ask the tool for less.",
            ) from None
