"""What follows from one set of options: the meta-tools, and what they work with. `CodeCallPlugin.reload` makes another
set while scripts run under this one.

What has a memory of its own is handed on: the search index unless its options change, what was learned of results, and
the store of large ones. Options of the latter are fixed for the life of the plugin, as is all that was announced to the
server or to the system when it started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from anyio import to_thread
from pydantic.alias_generators import to_camel

from codecall.catalog.cache.cache import CatalogCaches
from codecall.catalog.search.index import SearchIndex, SemanticOptions, SemanticRanker
from codecall.catalog.search.models import resolve_strategy
from codecall.catalog.visibility import VisibilityPolicy
from codecall.errors import OptionsError
from codecall.meta_tools.base import MetaTool, Runtime
from codecall.meta_tools.describe import DescribeTool
from codecall.meta_tools.execute import ExecuteTool
from codecall.meta_tools.invoke import InvokeTool
from codecall.meta_tools.search import SearchTool
from codecall.options import PluginOptions, SearchOptions
from codecall.results.service import max_kept_bytes
from codecall.sandbox.enclave import Enclave
from codecall.server.lifespan import EnclaveLifespan, EnclavePool
from codecall.telemetry.spans import Telemetry

FIXED_OPTIONS: Final = ("audit", "observed_output", "results", "tasks", "telemetry")
"""Options that no reload changes."""


@dataclass(frozen=True, slots=True)
class ToolSet:
    """One set of options at work."""

    runtime: Runtime
    visibility: VisibilityPolicy
    catalogs: CatalogCaches
    tools: tuple[MetaTool, ...]
    """As they are advertised."""
    by_name: Mapping[str, MetaTool]
    """Under either spelling of their names."""

    @classmethod
    def from_runtime(cls, runtime: Runtime) -> ToolSet:
        """What the plugin does with that."""
        options = runtime.options
        tools: list[MetaTool] = [
            SearchTool.create(runtime),
            DescribeTool.create(runtime),
            _execute(options).create(runtime),
        ]
        if options.direct_calls.enabled:
            tools.insert(2, InvokeTool.create(runtime))
        verbs = [tool.name.removeprefix("codecall")[1:] for tool in tools]
        by_name = {f"codecall{mark}{verb}": tool for verb, tool in zip(verbs, tools, strict=True) for mark in ":_"}
        reach = VisibilityPolicy(options)
        return cls(runtime, reach, CatalogCaches(reach), tuple(tools), by_name)

    async def with_options(self, lifetime: EnclaveLifespan, options: PluginOptions) -> ToolSet:
        """The same under other options, with workers that are ready; nothing of it is in force yet.

        Raises:
            OptionsError: a model that search is to use, or its libraries, are not installed.
            WorkerError: no worker can be had under these options.
        """
        index = self.runtime.index
        if options.embedding != self.runtime.options.embedding:
            embedding = await to_thread.run_sync(resolve_strategy, options.embedding)
            options = options.model_copy(update={"embedding": embedding})
            index = create_search_index(embedding)
            index.start_loading()
        enclaves = create_enclave_pool(options, lifetime, self.runtime.telemetry)
        new = ToolSet.from_runtime(replace(self.runtime, options=options, enclaves=enclaves, index=index))
        await lifetime.prepare(enclaves)
        return new


def changed_options(current: PluginOptions, vm: object, changes: Mapping[str, object]) -> PluginOptions:
    """`now` with the options that are `given`, each as `CodeCallPlugin.init` reads it.

    Raises:
        OptionsError: one is wrong, or cannot be changed.
    """
    built = PluginOptions.build(vm=vm, **changes)
    names = [name for name in PluginOptions.model_fields if name in changes or to_camel(name) in changes]
    update = {name: getattr(built, name) for name in (*names, *(("preset", "preset_name") if vm is not None else ()))}
    options = current.model_copy(update=update)
    fixed = [name for name in FIXED_OPTIONS if getattr(options, name) != getattr(current, name)]
    if options.shutdown.on_sigterm != current.shutdown.on_sigterm:
        fixed.append("shutdown.on_sigterm")
    if fixed:
        raise OptionsError(
            f"{', '.join(fixed)}: cannot be changed by a reload",
            hint="Nothing was changed. Leave it out, or start the server anew with it.",
        )
    return options


def create_enclave_pool(options: PluginOptions, lifetime: EnclaveLifespan, telemetry: Telemetry) -> EnclavePool:
    """What runs scripts under these options."""
    kept = max_kept_bytes(options.results, options.preset)

    def make() -> Enclave:
        enclave = Enclave(options.preset, pool=options.pool, sanitization=options.sanitization, max_kept_bytes=kept)
        enclave.pool.workers.on_exit = telemetry.record_worker_exit
        return enclave

    return EnclavePool(lifetime, make)


def create_search_index(options: SearchOptions) -> SearchIndex:
    """The search index; nothing of it is loaded yet."""

    def load() -> SemanticRanker:
        from codecall.catalog.search.embedding import (
            embedding_ranker,  # loads nothing yet, but is not needed by everybody
        )

        ranker = embedding_ranker(options)
        _ = ranker.load()
        return ranker

    meaning = (
        None if options.strategy == "tfidf" else SemanticOptions(load, semantic_only=options.strategy == "embedding")
    )
    return SearchIndex(meaning, synonyms=options.synonyms)


def _execute(options: PluginOptions) -> type[ExecuteTool]:
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
