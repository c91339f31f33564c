"""The options of `CodeCallPlugin.init` as frozen models, one for each group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, model_validator

from codecall.errors import OptionsError
from codecall.key_value import KeyValueStore
from codecall.option_model import Millis, Options
from codecall.presets import PRESET_ENVIRONMENT_VARIABLE, Preset, resolve_preset

Names = Annotated[tuple[str, ...] | None, Field(strict=False)]
"""A list or tuple of names; None stands for all."""
Word = Annotated[str, Field(pattern=r"^[^\W_]+$", max_length=64)]


class SearchOptions(Options):
    """How `codecall:search` finds tools."""

    strategy: Literal["tfidf", "embedding", "hybrid", "auto"] = "tfidf"
    """`tfidf` goes by words and needs no model; `embedding` goes by an embedding model, `hybrid` by both; `auto` is
    `hybrid` where the model and its libraries are installed, else `tfidf` with a warning."""
    similarity_threshold: float = Field(default=0.3, ge=0.0, le=1.0)
    """Hits below this score are left out when the call gives no `minScore`."""
    model_name: str = Field(default="sentence-transformers/all-MiniLM-L6-v2", min_length=1)
    """For the strategies that use one: the directory of a model of sentence-transformers, the name of one on the
    Hugging Face hub, or `wordllama`, a small model without PyTorch."""
    backend: Literal["torch", "onnx"] = "torch"
    """What runs the model: PyTorch, or ONNX Runtime. `wordllama` needs neither."""
    download: bool = False
    """Let a model that is not on this machine be fetched from the hub when the server starts. Without it a model that
    is not here is an error; nothing is ever fetched in silence."""
    cache_dir: str | Path | Literal[False] | None = None
    """Folder in which the vectors of tools are kept from one start to the next; None: `codecall` in the user's cache
    folder, False: nowhere. Several servers may share it; one that others than its owner may write to is not used. The
    vectors of `wordllama` are made anew, which is as fast."""
    threads: int | None = Field(default=None, ge=1, le=256)
    """Processor threads the model may use; None: half of those there are."""
    synonyms: Annotated[
        tuple[Annotated[tuple[Word, ...], Field(strict=False, min_length=2)], ...], Field(strict=False)
    ] = ()
    """Groups of words that mean the same here, such as `[["deal", "opportunity"], ["rep", "salesperson"]]`; beside the
    general ones that search knows. Single words; their inflections are found, too."""


class SanitizationOptions(Options):
    """What error messages lose on their way to a model."""

    remove_stack_traces: bool = True
    """Drop stack frames. Switch off only in development."""
    remove_file_paths: bool = True
    """Replace file paths, internal addresses and credentials by marks. Switch off only in development."""


class PoolOptions(Options):
    """The worker processes of one enclave."""

    min_workers: int = Field(default=1, ge=0, le=256)
    """Workers started ahead of need when the enclave opens."""
    max_workers: int = Field(default=8, ge=1, le=256)
    """Worker processes at most; further scripts wait."""
    max_queue: int = Field(default=256, ge=0, le=100_000)
    """Scripts that may wait for a worker; one more is refused with QUEUE_FULL."""
    queue_timeout_ms: Millis = 30_000
    """Milliseconds a script may wait for a worker before QUEUE_TIMEOUT."""
    startup_timeout_ms: Millis = 15_000
    """Milliseconds a worker process may take to start before WORKER_STARTUP_FAILED."""
    share_workers: bool = False
    """Let one worker serve scripts of several clients, one after the other. Saves making a worker when another client
    comes; a worker that a script has taken over would then see what the next client brings."""
    fork_server: bool = True
    """Fork workers from a small clean process that has everything loaded. False, or where the system cannot: start
    each worker as a process of its own, which takes some hundred milliseconds."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_workers > self.max_workers:
            raise ValueError(f"min_workers ({self.min_workers}) is more than max_workers ({self.max_workers})")
        return self


class DirectCalls(Options):
    """What `codecall:invoke` may do."""

    enabled: bool = True
    """False removes `codecall:invoke`."""
    allowed_tools: Names = None
    """Tool names or globs that `codecall:invoke` may call; None allows all that scripts may call."""


class ObservedOutputOptions(Options):
    """What is learned of the results of tools whose output schema is missing or says nothing: types and names of
    fields, no values."""

    enabled: bool = True
    """False: nothing is learned, and nothing that was learned is shown."""
    per_caller: bool = False
    """Show each caller only what their own results told. False: what the results of all callers told together, but for
    names that only one caller's results had; those are shown to that caller alone."""
    store: KeyValueStore | None = None
    """Where it is kept from one start to the next: a store as FastMCP takes them, such as
    `FileTreeStore(data_directory=…)`. Several servers may share one; those that are spoken to over stdio count as one
    caller then, and those whose tools have the same name and description, but mean something else, need stores of their
    own (`PrefixCollectionsWrapper`). None: in the memory of this process."""
    max_tools: int = Field(default=1_000, ge=1, le=100_000)
    """Tools of which something is remembered at the same time; the one unused for longest goes first."""


class AuditOptions(Options):
    """The record of every run: where it goes, and what it holds beside names, sizes, times and hashes."""

    sinks: Annotated[tuple[Callable[[Any], Any], ...] | None, Field(strict=False)] = None
    """What is told each event: `LoggingSink`, `JsonLinesSink`, `OpenTelemetrySink`, or any callable, sync or async,
    that takes an `AuditEvent`. None: the logger `codecall.audit`, at INFO; an empty list: nothing."""
    include_arguments: bool = False
    """Record the input of each call, with secrets masked, too; without it a hash."""
    include_results: bool = False
    """Record the value of each call and of the script, its console and the texts of errors, with secrets masked, too;
    without it their sizes."""
    watchers: Annotated[tuple[Callable[[Any], Any], ...], Field(strict=False)] = ()
    """Each is called with what is known of a run before it begins (`RunDetails`) and gives a `RunObserver`, which
    sees all of the run as it is, nothing masked, on the event loop: `codecall.traces.TraceRecorder`."""


class ResumeOptions(Options):
    """What `resumeFrom` needs: where the completed calls of runs are kept, and for how long."""

    store: KeyValueStore
    """A store as FastMCP takes them, such as `RedisStore(url=…)`; shared by all instances that clients may
    reach."""
    ttl_s: int = Field(default=3_600, ge=1, le=30 * 86_400)
    """Seconds a run can be taken up after its end."""
    max_value_chars: int = Field(default=256 * 1024, ge=1, le=16 * 1024 * 1024)
    """Characters of JSON one call's value may have to be kept; a call with a longer one is made again."""
    max_run_chars: int = Field(default=16 * 1024 * 1024, ge=1, le=256 * 1024 * 1024)
    """Characters that the values of one run may have together."""
    max_caller_chars: int = Field(default=128 * 1024 * 1024, ge=1_024)
    """Characters that this process keeps at the same time of all runs of one caller; a run beyond that goes on and is
    not kept."""


class ResultsOptions(Options):
    """The store of results that are larger than `max_result_bytes`."""

    enabled: bool = True
    """False: such a result fails with OUTPUT_LIMIT."""
    store: KeyValueStore | None = None
    """Where they are kept: a store as FastMCP takes them, such as `RedisStore(url=…)`; shared by all
    instances that clients may reach. None: in the memory of this process."""
    ttl_s: int = Field(default=900, ge=1, le=30 * 86_400)
    """Seconds a result is kept."""
    max_bytes: int = Field(default=32 * 1024 * 1024, ge=1_024, le=48 * 1024 * 1024)
    """Bytes of JSON one result may have, if a quarter of the preset's `memory_mb` is not less; a larger one fails with
    OUTPUT_LIMIT."""
    max_total_bytes: int = Field(default=256 * 1024 * 1024, ge=1_024)
    """Bytes that this process keeps at the same time, for all callers together. Beyond it results fail with
    OUTPUT_LIMIT, until others have expired; none is thrown out."""
    max_caller_bytes: int = Field(default=40 * 1024 * 1024, ge=1_024)
    """Bytes of them that one caller may take, as long as that leaves four times as much free for others: the fuller it
    is, the less. So a few callers cannot fill it, which without authentication are a few network addresses. The
    default has room for one result of the greatest size."""


class ProgressOptions(Options):
    """What a client that asked for it hears while its script runs."""

    enabled: bool = True
    """False: nothing."""
    heartbeat_s: float = Field(default=10.0, gt=0, le=60)
    """Seconds after which progress is told again though nothing has happened, so that idle clients do not give up."""


class ShutdownOptions(Options):
    """What becomes of running scripts when the server is to end."""

    grace_s: float = Field(default=5.0, ge=0, le=3_600)
    """Seconds running scripts have to end by themselves once the server is to stop; then they end with
    EXECUTION_ABORTED. New ones are refused meanwhile."""
    on_sigterm: bool = False
    """Begin at SIGTERM, and let what else handles it wait until then. False: only `drain()` begins it. `codecall serve`
    turns it on."""
    end_abandoned: bool = True
    """End a script whose client's connection is closed, where nobody could get its answer any more. False: it runs to
    its end."""


Mode = Literal["codecall_only", "codecall_opt_in", "metadata_driven"]


class PluginOptions(Options):
    """Everything `CodeCallPlugin.init(...)` takes."""

    mode: Mode = "codecall_only"
    """`codecall_only`: clients list only the meta-tools; `codecall_opt_in`: all are listed, only opted-in ones are
    usable by CodeCall; `metadata_driven`: both per tool."""
    app_ids: Names = None
    """Apps CodeCall manages; tools of other apps stay as they are. None manages all."""
    include_tools: Callable[[Any], bool] | None = None
    """Filter over FastMCP tools: False keeps a tool out of CodeCall's reach."""
    direct_calls: DirectCalls = DirectCalls()
    """`codecall:invoke`: a bool, a list of names or globs, or `{"enabled": …, "allowed_tools": […]}`."""
    tool_name_separator: Literal[":", "_"] = ":"
    """`_` advertises `codecall_search` for clients that refuse colons; both spellings always work."""
    top_k: int = Field(default=5, ge=1, le=50)
    """Hits of a search that does not say `topK`."""
    mark_errors: bool = False
    """Set MCP's `isError` on every envelope whose status is not `ok`."""
    preset: Preset
    """The resolved limits; built from the `vm` option."""
    preset_name: str
    """What the limits were built from, for messages."""
    embedding: SearchOptions = SearchOptions()
    """How search works."""
    observed_output: ObservedOutputOptions = ObservedOutputOptions()
    """Output shapes learned from results: a bool, or `{"per_caller": …, "store": …}`."""
    sanitization: SanitizationOptions = SanitizationOptions()
    """What leaves in error messages."""
    pool: PoolOptions = PoolOptions()
    """The worker processes."""
    audit: AuditOptions = AuditOptions()
    """Records of what scripts did: where they go, and what they hold."""
    resume: ResumeOptions | None = None
    """Lets `codecall:execute` take up a run that failed (`resumeFrom`); None: it cannot."""
    results: ResultsOptions = ResultsOptions()
    """What becomes of results that are larger than `max_result_bytes`: a bool, or `{"store": …, "ttl_s": …}`."""
    progress: ProgressOptions = ProgressOptions()
    """What clients hear while a script runs."""
    shutdown: ShutdownOptions = ShutdownOptions()
    """What becomes of running scripts when the server is to end."""
    telemetry: bool = True
    """Tell OpenTelemetry, where a provider is set: spans and metrics. False: nothing."""
    tasks: bool = False
    """Let clients run `codecall:execute` as a background task of FastMCP (`fastmcp-tasks`, extra `tasks`)."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The keywords of `CodeCallPlugin.init`."""
        return ("vm", *(name for name in cls.model_fields if name not in ("preset", "preset_name")))

    @classmethod
    def build(cls, *, vm: object = None, **options: object) -> PluginOptions:
        """Options from the keywords of `CodeCallPlugin.init`; `vm` is `{"preset": …, <override>: …}`.

        Raises:
            OptionsError: anything unknown, of the wrong type or out of range; the message names the field.
        """
        if vm is not None and not isinstance(vm, Mapping):
            raise OptionsError(f"vm: a mapping is needed, got {type(vm).__name__}")
        limits = dict(cast("Mapping[str, object]", vm or {}))
        named = limits.pop("preset", None)
        if named is not None and not isinstance(named, (str, os.PathLike)):
            raise OptionsError(f"vm.preset: a name or a path is needed, got {type(named).__name__}")
        preset = cast("str | os.PathLike[str] | None", named)
        values: dict[str, object] = dict(options)
        for spelling in ("direct_calls", "directCalls"):
            if spelling in values:
                values[spelling] = _direct_calls(values[spelling])
        for spelling in ("observed_output", "observedOutput"):
            if isinstance(values.get(spelling), bool):
                values[spelling] = {"enabled": values[spelling]}
        if isinstance(values.get("results"), bool):
            values["results"] = {"enabled": values["results"]}
        for reserved in ("preset", "preset_name", "presetName"):
            if reserved in values:
                raise OptionsError(f"{reserved}: set it as vm={{'preset': …}}")
        name = preset if preset is not None else os.environ.get(PRESET_ENVIRONMENT_VARIABLE) or "secure"
        values["preset"] = resolve_preset(name, limits)
        values["preset_name"] = os.fspath(name)
        return cls.read(values, where="")


def _direct_calls(value: object) -> object:
    """The short forms of `direct_calls`: a switch, or a list of names."""
    if isinstance(value, bool):
        return DirectCalls(enabled=value)
    if isinstance(value, (list, tuple)):
        return {"allowed_tools": cast("Sequence[object]", value)}
    return value
