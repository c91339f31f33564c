"""The server that a text names: `module:name`, a URL, or a file."""

from __future__ import annotations

import difflib
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

# ----------------------------------------------------------------------------------------------------
# The tools of a FastMCP server as its scripts would see them.


async def server_tools(server: FastMCP[Any]) -> list[DeclaredTool]:
    """Every tool that a script on `server` may call; with the options of its CodeCall plugin, if it has one."""
    plugins = [transform for transform in server.transforms if isinstance(transform, CodeCallPlugin)]
    async with Context(fastmcp=server) as context:
        entries = await (plugins[0].view(context).entries() if plugins else _without_plugin(server))
    return [DeclaredTool(entry.name, entry.description, entry.input_schema, entry.output_schema) for entry in entries]


async def _without_plugin(server: FastMCP[Any]) -> tuple[CatalogEntry, ...]:
    reach = VisibilityPolicy(PluginOptions.build())
    return await CatalogView(server, server.list_tools, reach, CatalogCaches(reach).for_server(server)).entries()


# ----------------------------------------------------------------------------------------------------
# The server that a text names: `module:name`, a URL, or a file.

_OBJECT: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class ServerNameError(ValueError):
    """A text names no server. The message says why."""


def load_server(named: str, root: Path) -> object:
    """What `named` names, for `fastmcp.Client`; modules and files are looked for below `root`, too. Quotes around it,
    which belong to TOML, do not matter.

    Raises:
        ServerNameError: it is nothing of all that, or cannot be imported.
    """
    if len(named) > 1 and named[0] == named[-1] and named[0] in "\"'":
        named = named[1:-1]
    if "://" in named:
        return named
    if (root / named).suffix == ".json" and (root / named).is_file():
        import json

        return json.loads((root / named).read_text(encoding="utf-8"))
    if (root / named).is_file():
        return str(root / named)
    if not _OBJECT.fullmatch(named):
        raise ServerNameError(f"{named!r} is no `module:name`, no URL and no file")
    found = _imported(named, root)
    # A server is no function; what makes one may be a coroutine function, as with `fastmcp run`.
    made: object = found() if inspect.isroutine(found) else found
    if inspect.isawaitable(made):
        import asyncio

        async def awaited() -> object:
            return await made

        # Not `anyio.run`, which refuses while a fixture of the session has an event loop, even if none is running.
        return asyncio.run(awaited())
    return made


def _imported(named: str, root: Path) -> object:
    module, _, name = named.partition(":")
    if str(root) not in sys.path:
        sys.path.append(str(root))  # and it stays: a server may import more when it is called
    try:
        home = importlib.import_module(module)
    except Exception as failure:
        missing = getattr(failure, "name", None) if isinstance(failure, ModuleNotFoundError) else None
        if missing is not None and (missing == module or module.startswith(f"{missing}.")):
            why = f"{failure}; is its folder on `pythonpath`?"
        else:
            at = traceback.extract_tb(failure.__traceback__)[-1]
            why = f"{type(failure).__name__}: {failure} ({Path(at.filename).name}:{at.lineno})"
        raise ServerNameError(f"{named!r} cannot be imported: {why}") from None
    if not hasattr(home, name):
        near = difflib.get_close_matches(name, dir(home), n=1)
        meant = f"; did you mean {module}:{near[0]}?" if near else ""
        raise ServerNameError(f"{named!r} cannot be imported: {module} has no {name!r}{meant}")
    return getattr(home, name)
