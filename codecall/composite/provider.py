"""Composite tools on a server: those of `CodeCallPlugin`, and a FastMCP provider for servers without code mode."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from fastmcp.server.context import Context
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec
from mcp_types import ToolAnnotations

from codecall.audit.recorder import Audit
from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.cache import CatalogCaches
from codecall.catalog.view import CatalogView
from codecall.catalog.visibility import VisibilityPolicy
from codecall.composite.definition import Definition, Finding, ScriptDefinition, Workflow
from codecall.composite.reading import DefinitionSource, read_definitions
from codecall.composite.scripts.checking import check_script
from codecall.composite.scripts.tool import ScriptFileTool
from codecall.composite.tool import CompositeTool, WorkflowTool
from codecall.errors import CodeCallError
from codecall.meta_tools.approval_source import PluginApprovals
from codecall.meta_tools.base import Runtime
from codecall.meta_tools.runtime import create_enclave_pool, create_search_index
from codecall.options import PluginOptions
from codecall.sandbox.enclave import Enclave
from codecall.server.lifespan import EnclaveLifespan
from codecall.telemetry.spans import Telemetry

logger = logging.getLogger("codecall")


class CompositeToolSet:
    """The composite tools of one set of definitions.

    Args:
        sources: Files, folders and values with definitions.
        runtime: Returns the services of their runs.
        resumes: Whether runs can be resumed.
        starlark: Whether scripts may be Starlark.

    Raises:
        OptionsError: a file or folder is not there.
    """

    def __init__(
        self,
        sources: Iterable[DefinitionSource],
        runtime: Callable[[], Runtime],
        *,
        resumes: bool,
        starlark: bool = False,
    ) -> None:
        read = read_definitions(sources).served(starlark=starlark)
        findings = list(read.findings)
        tools: dict[str, CompositeTool] = {}
        for definition in read.tools:
            if isinstance(definition, Workflow):
                tools[definition.name] = WorkflowTool.create(definition, runtime, resumes=resumes)
            else:
                tools[definition.name] = ScriptFileTool.create(definition, runtime, resumes=resumes)
        self.findings: tuple[Finding, ...] = tuple(findings)
        """What is wrong with definitions that are not served."""
        self.tools: Mapping[str, CompositeTool] = tools
        self._shadowed: set[str] = set()
        self._unchecked = {name: read.places[name] for name, tool in tools.items() if isinstance(tool, ScriptFileTool)}
        _log(findings)

    @property
    def has_unchecked_scripts(self) -> bool:
        """Whether scripts are served that have not been looked into."""
        return bool(self._unchecked)

    async def check_scripts(self, enclave: Enclave) -> None:
        """Serve those scripts no longer that the language refuses. Before, nothing has looked into them: no script is
        parsed in the server's process."""
        while self._unchecked:
            name, place = self._unchecked.popitem()
            try:
                found = await check_script(cast("ScriptFileTool", self.tools[name]).script, place, enclave)
            except CodeCallError as failure:
                logger.warning("composite tool %s: its script could not be checked: %s", name, failure.message)
                continue
            if found:
                self.findings = (*self.findings, *found)
                self.tools = {other: tool for other, tool in self.tools.items() if other != name}
                _log(found)

    def serves_as(self, other: CompositeToolSet | None) -> bool:
        """Whether clients get the same tools as of another set."""
        return self._definitions() == (other._definitions() if other is not None else {})

    def _definitions(self) -> dict[str, Definition]:
        return {name: tool.definition for name, tool in self.tools.items()}

    def added_to(self, tools: Sequence[Tool]) -> list[Tool]:
        """These tools of a server, and the composite tools, annotated by what the tools they call say. A tool with the
        name of a composite tool is left out: whoever mounts a server does not know what names it will offer."""
        others = [tool for tool in tools if tool.name not in self.tools]
        known = {tool.name: tool for tool in others}
        for name in {tool.name for tool in tools} - known.keys() - self._shadowed:
            self._shadowed.add(name)
            logger.warning("tool %s cannot be reached: a composite tool has its name", name)
        return [*others, *(self._annotated(tool, known) for tool in self.tools.values())]

    def _annotated(self, tool: CompositeTool, known: Mapping[str, Tool]) -> CompositeTool:
        annotated = tool.annotated(self._annotations_of(tool, known))
        if annotated is not tool:
            # The same object in the next listing, by which caches know that nothing has changed.
            self.tools = {**self.tools, tool.name: annotated}
        return annotated

    def _annotations_of(self, tool: CompositeTool, known: Mapping[str, Tool]) -> list[ToolAnnotations | None]:
        found: list[ToolAnnotations | None] = []
        if isinstance(tool.definition, ScriptDefinition) and not tool.definition.names_its_tools:
            return [None]
        for name in tool.definition.tools():
            called = known.get(name)
            if called is None and name in self.tools:
                found += self._annotations_of(self.tools[name], known)
            else:
                found.append(called.annotations if called is not None else None)
        return found


def _log(findings: Iterable[Finding]) -> None:
    for finding in findings:
        logger.warning("composite tool %s is not served: %s", finding.tool or "without a name", finding)


class CompositeTools(Provider):
    """A FastMCP provider of composite tools, for a server without `CodeCallPlugin`:

        FastMCP("ops", providers=[CompositeTools("workflows/")])

    With the plugin give the same definitions to its option `composite_tools` instead.

    Args:
        *sources: Files, folders, or definitions as Python values.
        **options: Options of `CodeCallPlugin.init` that runs keep to, such as `audit`, `resume` and `vm`.

    Raises:
        OptionsError: a file, a folder or an option is wrong. A definition that is wrong is logged, and not served.
    """

    def __init__(self, *sources: DefinitionSource, vm: object = None, **options: object) -> None:
        super().__init__()
        built = PluginOptions.build(vm=vm, **options)
        visibility = VisibilityPolicy(built)
        self._caches = CatalogCaches(visibility)
        self._visibility = visibility
        telemetry = Telemetry(enabled=built.telemetry)
        audit = Audit(built.audit)
        # Its tools may ask, whether or not a rule does.
        self.asking = PluginApprovals(built.model_copy(update={"composite_tools": sources}), audit, self._is_composite)
        """What asks persons in its runs; a plugin of a server that this one is mounted on looks at it."""
        lifetime = EnclaveLifespan()
        self._runtime = Runtime(
            built,
            self._view,
            lambda: self._runtime,
            create_enclave_pool(built, lifetime, telemetry),
            create_search_index(built.embedding),
            telemetry,
            audit,
            asking=self.asking,
        )
        self._read = partial(
            CompositeToolSet,
            sources,
            lambda: self._runtime,
            resumes=built.resume is not None,
            starlark=built.starlark is not None,
        )
        self._set = self._read()

    def _is_composite(self, name: str) -> bool:
        return name in self._set.tools

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Look into the scripts; end the runs that wait for a person, and write the records of all, before the server
        ends."""
        await self._check_scripts(self._set)
        try:
            yield
        finally:
            await self.asking.flush()
            await self._runtime.audit.flush()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with definitions that are not served."""
        return self._set.findings

    async def reload(self) -> bool:
        """Read the definitions again; whether other tools are served now.

        Raises:
            OptionsError: a file or folder is not there; nothing has changed then.
        """
        read = await asyncio.to_thread(self._read)
        await self._check_scripts(read)
        before, self._set = self._set, read
        return not self._set.serves_as(before)

    async def _check_scripts(self, read: CompositeToolSet) -> None:
        if read.has_unchecked_scripts:
            async with self._runtime.enclaves.create_enclave() as enclave:
                await read.check_scripts(enclave)

    async def _list_tools(self) -> Sequence[Tool]:
        return list(self._set.tools.values())

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:  # noqa: ARG002 - without versions
        return self._set.tools.get(name)

    def _view(self, context: Context) -> CatalogView:
        """The tools of the caller of a request."""
        server: FastMCPServer = context.fastmcp
        read = partial(server.list_tools)
        return CatalogView(server, read, self._visibility, self._caches.for_server(server))
