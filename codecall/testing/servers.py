"""The tools of a FastMCP server as its scripts would see them."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from fastmcp.server.context import Context

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.reach import Reach
from codecall.catalog.remembered import Catalogues
from codecall.catalog.view import CatalogView
from codecall.options import PluginOptions
from codecall.plugin import CodeCallPlugin
from codecall.testing.declared import DeclaredTool


async def tools_of(server: FastMCP[Any]) -> list[DeclaredTool]:
    """Every tool that a script on `server` may call; with the options of its CodeCall plugin, if it has one."""
    plugins = [transform for transform in server.transforms if isinstance(transform, CodeCallPlugin)]
    async with Context(fastmcp=server) as context:
        entries = await (plugins[0].view(context).entries() if plugins else _without_plugin(server))
    return [DeclaredTool(entry.name, entry.description, entry.input_schema, entry.output_schema) for entry in entries]


async def _without_plugin(server: FastMCP[Any]) -> tuple[CatalogEntry, ...]:
    reach = Reach(PluginOptions.build())
    return await CatalogView(server, server.list_tools, reach, Catalogues(reach).of(server)).entries()
