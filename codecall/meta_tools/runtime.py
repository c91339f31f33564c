"""`ToolSet`: the meta-tools and their services under one set of options. `CodeCallPlugin.reload` creates another set
while scripts run under this one.

A new set takes over whatever holds state: the search index unless its options change, the observed output schemas, and
the store of large results. The options of the last two are fixed for the life of the plugin, as are those of which the
server or the system learned when the plugin started.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

from anyio import to_thread
from fastmcp.tools import Tool
from pydantic.alias_generators import to_camel

from codecall.catalog.cache.cache import CatalogCaches
from codecall.catalog.search.lazy import LazySearchIndex, resolve_strategy
from codecall.catalog.visibility import VisibilityPolicy
from codecall.errors import OptionsError
from codecall.meta_tools.base import MetaTool, Runtime
from codecall.meta_tools.describe import DescribeTool
from codecall.meta_tools.execute import ExecuteTool
from codecall.meta_tools.invoke import InvokeTool
from codecall.meta_tools.naming import UNDERSCORE_CLIENTS
from codecall.meta_tools.search.tool import SearchTool
from codecall.meta_tools.starlark.options import TOOL_FILE_NAMES
from codecall.meta_tools.starlark.script import ScriptTool
from codecall.options import PluginOptions, SearchOptions, Separator
from codecall.results.service import max_kept_bytes
from codecall.sandbox.enclave import Enclave
from codecall.server.lifespan import EnclaveLifespan, EnclavePool
from codecall.telemetry.spans import Telemetry

if TYPE_CHECKING:
    from codecall.catalog.search.index import SearchIndex

logger = logging.getLogger("codecall")

BY_WORDS: Final = ("tfidf", "model")
"""Strategies of search that need no model here."""

FIXED_OPTIONS: Final = ("approvals", "audit", "extract", "flows", "observed_output", "results", "tasks", "telemetry")
"""Options that no reload changes."""


@dataclass(frozen=True, slots=True)
class ToolSet:
    """One set of options, with all that is built from it."""

    runtime: Runtime
    visibility: VisibilityPolicy
    catalogs: CatalogCaches
    by_separator: Mapping[Separator, tuple[MetaTool, ...]]
    """The meta-tools in each spelling of their names, in the order in which clients list them."""
    by_name: Mapping[str, MetaTool]
    """All of them, by name."""
    as_listed: Mapping[tuple[Separator, str], MetaTool]
    """What a client that reads names with a separator lists, by it and the name in either spelling."""

    @classmethod
    def from_runtime(cls, runtime: Runtime, *, warns_of_apps: bool = True) -> ToolSet:
        """Build the meta-tools and the visibility policy for a runtime; see `VisibilityPolicy` for `warns_of_apps`."""
        by_separator = {
            separator: _create_tools(runtime.with_separator(separator)) for separator in get_args(Separator)
        }
        by_name = {tool.name: tool for tools in by_separator.values() for tool in tools}
        as_listed = {
            (separator, tool.name_with(spelling)): tool
            for separator, tools in by_separator.items()
            for tool in tools
            for spelling in by_separator
        }
        visibility = VisibilityPolicy(runtime.options, warns_of_apps=warns_of_apps)
        return cls(runtime, visibility, CatalogCaches(visibility), by_separator, by_name, as_listed)

    def log_naming(self) -> None:
        """Log how the meta-tools are listed, where that depends on the client."""
        if self.runtime.options.tool_name_separator == "auto":
            known = ", ".join(client.name for client in UNDERSCORE_CLIENTS)
            logger.info("Clients list codecall:search and so on, but codecall_search if they are: %s", known)

    def check_names(self, tools: Sequence[Tool]) -> None:
        """Check that no tool of the server has the name of a meta-tool that has no other spelling.

        Raises:
            OptionsError: one has.
        """
        fixed = {tool.name for tool in self.by_name.values() if tool.name_with(":") == tool.name_with("_")}
        for tool in tools if fixed else ():
            if tool.name in fixed and not isinstance(tool, MetaTool):
                option = "tool_files" if tool.name in TOOL_FILE_NAMES else "starlark"
                raise OptionsError(
                    f"{option}: the server already has a tool named {tool.name!r}",
                    hint=f"Give the server's tool another name, or leave `{option}` out.",
                )

    async def with_options(self, lifetime: EnclaveLifespan, options: PluginOptions) -> ToolSet:
        """Build the set for other options and start its workers; the caller puts it in force.

        Raises:
            OptionsError: a model that search is to use, or its libraries, are not installed.
            WorkerError: no worker starts under these options.
        """
        index = self.runtime.index
        if options.embedding != self.runtime.options.embedding:
            embedding = await to_thread.run_sync(resolve_strategy, options.embedding)
            options = options.model_copy(update={"embedding": embedding})
            index = create_search_index(embedding)
            index.start_loading()
        enclaves = create_enclave_pool(options, lifetime, self.runtime.telemetry)
        runtime = replace(self.runtime, options=options, enclaves=enclaves, index=index)
        new = ToolSet.from_runtime(runtime, warns_of_apps=self.visibility.warns_of_apps)
        await lifetime.prepare(enclaves)
        return new


def _create_tools(runtime: Runtime) -> tuple[MetaTool, ...]:
    options = runtime.options
    invoke = (InvokeTool.create(runtime),) if options.direct_calls.enabled else ()
    execute = _execute_class(options).create(runtime)
    tools: tuple[MetaTool, ...] = (SearchTool.create(runtime), DescribeTool.create(runtime), *invoke, execute)
    if options.tool_files is not None:
        from codecall.meta_tools.starlark.code import CodeTool  # these write stubs, which few servers need
        from codecall.meta_tools.starlark.files import FILE_TOOLS

        tools = (*tools, *(kind.create(runtime) for kind in (*FILE_TOOLS, CodeTool)))
    if options.starlark is None or not options.runs_starlark:
        return tools
    script = ScriptTool.create(runtime)
    if not options.starlark.optimizer:
        return (*tools, script)
    return (
        *tools,
        script,
        SearchTool.create(runtime).called("find_tool"),
        InvokeTool.create(runtime).called("call_tool"),
    )


def changed_options(current: PluginOptions, vm: object, changes: Mapping[str, object]) -> PluginOptions:
    """Return `current` with the options in `changes`, each as `CodeCallPlugin.init` reads it.

    Raises:
        OptionsError: an option is wrong, or cannot be changed.
    """
    built = PluginOptions.build(vm=vm, **changes)
    names = [name for name in PluginOptions.model_fields if name in changes or to_camel(name) in changes]
    update = {name: getattr(built, name) for name in (*names, *(("preset", "preset_name") if vm is not None else ()))}
    options = current.model_copy(update=update)
    fixed = [name for name in FIXED_OPTIONS if getattr(options, name) != getattr(current, name)]
    if "model" in (options.embedding.strategy, current.embedding.strategy) and options.embedding != current.embedding:
        fixed.append("embedding")
    if options.shutdown.on_sigterm != current.shutdown.on_sigterm:
        fixed.append("shutdown.on_sigterm")
    if fixed:
        raise OptionsError(
            f"{', '.join(fixed)}: cannot be changed by a reload",
            hint="Nothing was changed. Leave it out, or start the server anew with it.",
        )
    return options


def create_enclave_pool(options: PluginOptions, lifetime: EnclaveLifespan, telemetry: Telemetry) -> EnclavePool:
    """Create the pool that runs scripts under these options."""
    kept_bytes = max_kept_bytes(options.results, options.preset)

    def create_enclave() -> Enclave:
        enclave = Enclave(
            options.preset,
            pool=options.pool,
            sanitization=options.sanitization,
            max_kept_bytes=kept_bytes,
            starlark=options.starlark is not None or options.tool_files is not None,
        )
        enclave.pool.workers.on_exit = telemetry.record_worker_exit
        return enclave

    return EnclavePool(lifetime, create_enclave)


def create_search_index(options: SearchOptions) -> LazySearchIndex:
    """Create the search index; it loads nothing yet."""
    return LazySearchIndex(partial(_load_search_index, options), preload=options.strategy not in BY_WORDS)


def _load_search_index(options: SearchOptions) -> SearchIndex:
    from codecall.catalog.search.index import SearchIndex, SemanticOptions, SemanticRanker

    def load_model() -> SemanticRanker:
        from codecall.catalog.search.embedding import embedding_ranker  # not needed by everybody

        ranker = embedding_ranker(options)
        _ = ranker.load()
        return ranker

    semantic_only = options.strategy == "embedding"
    semantic = None if options.strategy in BY_WORDS else SemanticOptions(load_model, semantic_only=semantic_only)
    return SearchIndex(semantic, synonyms=options.synonyms)


def _execute_class(options: PluginOptions) -> type[ExecuteTool]:
    if not options.tasks:
        return ExecuteTool
    try:
        from codecall.meta_tools.tasks import TaskExecuteTool
    except ImportError as missing:
        raise OptionsError(
            f"tasks: FastMCP's background tasks are not installed ({missing})",
            hint="Install them with: pip install 'codecall[tasks]'",
        ) from None
    return TaskExecuteTool
