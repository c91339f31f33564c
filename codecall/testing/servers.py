"""Servers that tests use: the tools of a server as its scripts would see them, and the server that a text names."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import traceback
from pathlib import Path
from typing import Any, Final

from fastmcp import FastMCP
from fastmcp.server.context import Context

from codecall.catalog.cache.cache import CatalogCaches
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.view import CatalogView
from codecall.catalog.visibility import VisibilityPolicy
from codecall.options import PluginOptions
from codecall.plugin import CodeCallPlugin
from codecall.testing.stubs.schemas import DeclaredTool
from codecall.wording import nearest

_MODULE_AND_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class ServerNameError(ValueError):
    """A text names no server. The message says why."""


def load_server(name: str, root: Path) -> object:
    """Load the server that a text names, for `fastmcp.Client`; modules and files are looked for below `root`, too.

    Quotes around the text, which belong to TOML, are ignored.

    Raises:
        ServerNameError: the text is no `module:name`, URL or file, or it cannot be imported.
    """
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    if "://" in name:
        return name
    if (root / name).suffix == ".json" and (root / name).is_file():
        import json

        return json.loads((root / name).read_text(encoding="utf-8"))
    if (root / name).is_file():
        return str(root / name)
    if not _MODULE_AND_NAME.fullmatch(name):
        raise ServerNameError(f"{name!r} is no `module:name`, no URL and no file")
    value = _import_object(name, root)
    # A server is no function; what makes one may be a coroutine function, as with `fastmcp run`.
    server: object = value() if inspect.isroutine(value) else value
    if inspect.isawaitable(server):
        import asyncio

        async def awaited() -> object:
            return await server

        # Not `anyio.run`, which refuses while a fixture of the session has an event loop, even if none is running.
        return asyncio.run(awaited())
    return server


async def server_tools(server: FastMCP[Any]) -> list[DeclaredTool]:
    """List every tool that a script on `server` may call, by the options of its CodeCall plugin if it has one."""
    plugins = [transform for transform in server.transforms if isinstance(transform, CodeCallPlugin)]
    async with Context(fastmcp=server) as context:
        entries = await (plugins[0].view(context).entries() if plugins else _without_plugin(server))
    return [DeclaredTool(entry.name, entry.description, entry.input_schema, entry.output_schema) for entry in entries]


async def _without_plugin(server: FastMCP[Any]) -> tuple[CatalogEntry, ...]:
    reach = VisibilityPolicy(PluginOptions.build())
    return await CatalogView(server, server.list_tools, reach, CatalogCaches(reach).for_server(server)).entries()


def _import_object(path: str, root: Path) -> object:
    module, _, name = path.partition(":")
    if str(root) not in sys.path:
        sys.path.append(str(root))  # and it stays: a server may import more when it is called
    try:
        imported = importlib.import_module(module)
    except Exception as failure:
        missing = getattr(failure, "name", None) if isinstance(failure, ModuleNotFoundError) else None
        if missing is not None and (missing == module or module.startswith(f"{missing}.")):
            reason = f"{failure}; is its folder on `pythonpath`?"
        else:
            at = traceback.extract_tb(failure.__traceback__)[-1]
            reason = f"{type(failure).__name__}: {failure} ({Path(at.filename).name}:{at.lineno})"
        raise ServerNameError(f"{path!r} cannot be imported: {reason}") from None
    if not hasattr(imported, name):
        near = nearest(name, dir(imported))
        suggestion = f"; did you mean {module}:{near[0]}?" if near else ""
        raise ServerNameError(f"{path!r} cannot be imported: {module} has no {name!r}{suggestion}")
    return getattr(imported, name)
