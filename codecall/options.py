"""The options of `CodeCallPlugin.init` as frozen models, one for each group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Required, Self, TypedDict, cast

from pydantic import Field, model_validator
from pydantic.alias_generators import to_snake

from codecall.approvals.options import ApprovalOptions, FlowRules, read_approvals
from codecall.audit.options import AuditReceiver
from codecall.errors import OptionsError
from codecall.extraction.options import ExtractOptions
from codecall.key_value import KeyValueStore
from codecall.meta_tools.starlark.options import ToolFilesOptions, read_tool_files
from codecall.option_base import DURATION, Millis, OptionProblems, Options
from codecall.presets import Preset, load_preset, preset_example, read_vm

if TYPE_CHECKING:
    from fastmcp.tools import Tool

    from codecall.approvals.options import Approvals, FlowRuleDict
    from codecall.extraction.options import ExtractDict
    from codecall.meta_tools.starlark.options import ToolFiles

Names = Annotated[tuple[str, ...] | None, Field(strict=False)]
"""A list or tuple of names; None stands for all of them."""
Word = Annotated[str, Field(pattern=r"^[^\W_]+$", max_length=64)]


class SearchOptions(Options):
    """How `codecall:search` finds tools."""

    strategy: Literal["tfidf", "embedding", "hybrid", "auto", "model"] = "tfidf"
    """`tfidf` compares words and needs no model; `embedding` uses an embedding model, `hybrid` uses both; `auto` is
    `hybrid` where the model and its libraries are installed, else `tfidf` with a warning. `model` finds candidates by
    words and has the client's own model choose among them (MCP sampling); where it cannot, words decide, with a
    warning."""
    similarity_threshold: float = Field(default=0.3, ge=0.0, le=1.0)
    """The lowest score of a hit in a search that sets no `minScore`; lower ones are left out."""
    model_name: str = Field(default="sentence-transformers/all-MiniLM-L6-v2", min_length=1)
    """The model of the strategies that use one: a directory with a sentence-transformers model, the name of a model on
    the Hugging Face hub, or `wordllama`, a small model without PyTorch."""
    backend: Literal["auto", "onnx", "torch"] = "auto"
    """The library that runs the model: ONNX Runtime, for models of BERT's architecture and those with an ONNX file, in
    8 bits, small and fast; or PyTorch, for all. `auto` is ONNX Runtime where it is installed and runs the model, else
    PyTorch. `wordllama` needs neither."""
    download: bool = False
    """Whether the server may download a missing model from the hub when it starts. When False, a model that is not on
    this machine is an error; nothing is ever downloaded silently."""
    cache_dir: str | Path | Literal[False] | None = None
    """The folder where the vectors of tools are stored between starts; None: `codecall` in the user's cache folder;
    False: they are not stored. Several servers may share it. A folder that anyone but its owner may write to is not
    used. The vectors of `wordllama` are not stored, since computing them is as fast."""
    threads: int | None = Field(default=None, ge=1, le=256)
    """Most processor threads that the model may use; None: half of the machine's."""
    synonyms: Annotated[
        tuple[Annotated[tuple[Word, ...], Field(strict=False, min_length=2)], ...], Field(strict=False)
    ] = ()
    """Groups of single words that mean the same in this domain, such as
    `[["deal", "opportunity"], ["rep", "salesperson"]]`, in addition to the built-in general ones. Search also matches
    their inflections."""


class SanitizationOptions(Options):
    """What is removed from error messages before they reach a model."""

    remove_stack_traces: bool = True
    """Whether stack frames are removed. Switch this off only in development."""
    remove_file_paths: bool = True
    """Whether marks replace file paths, internal addresses and credentials. Switch this off only in development."""


class PoolOptions(Options):
    """The worker processes of one enclave."""

    min_workers: int = Field(default=1, ge=0, le=256)
    """Workers that the enclave starts when it opens, before any script needs them."""
    max_workers: int = Field(default=8, ge=1, le=256)
    """Most worker processes; further scripts wait."""
    max_queue: int = Field(default=256, ge=0, le=100_000)
    """Most scripts that may wait for a worker; one more is refused with QUEUE_FULL."""
    queue_timeout_ms: Millis = 30_000
    """Milliseconds a script may wait for a worker before it fails with QUEUE_TIMEOUT."""
    startup_timeout_ms: Millis = 15_000
    """Milliseconds a worker process may take to start before its script fails with WORKER_STARTUP_FAILED."""
    share_workers: bool = False
    """Whether one worker may serve scripts of several clients, one after the other. This saves starting a worker for
    another client; but a worker that a script has compromised would then see the data of the next client."""
    fork_server: bool = True
    """Whether workers are forked from a small clean process that has all modules loaded. When False, or where the
    system cannot fork, each worker starts as a new process, which takes some hundred milliseconds."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_workers > self.max_workers:
            raise ValueError(f"min_workers ({self.min_workers}) is more than max_workers ({self.max_workers})")
        return self


class DirectCalls(Options):
    """Whether `codecall:invoke` exists, and which tools it may call."""

    enabled: bool = True
    """Whether `codecall:invoke` exists."""
    allowed_tools: Names = None
    """Names or globs of the tools that `codecall:invoke` may call; None allows all that scripts may call."""


class ObservedOutputOptions(Options):
    """Output shapes that are learned from the results of tools whose output schema is missing or says nothing: types
    and names of fields, no values."""

    enabled: bool = True
    """Whether shapes are learned and shown."""
    per_caller: bool = False
    """Whether each caller sees only the shapes learned from their own results. When False, callers see the shapes
    learned from the results of all callers, except field names that occurred in the results of only one caller: these
    are shown to that caller alone."""
    store: KeyValueStore | None = None
    """The store that keeps shapes between starts: any key-value store that FastMCP accepts, such as
    `FileTreeStore(data_directory=…)`. None: the memory of this process. Several servers may share a store; the callers
    of stdio servers then count as one caller. Servers whose tools have the same name and description but another
    meaning need separate stores (`PrefixCollectionsWrapper`)."""
    max_tools: int = Field(default=1_000, ge=1, le=100_000)
    """Most tools whose shapes are remembered; beyond that the one unused for longest is forgotten."""


class AuditOptions(Options):
    """Where the records of runs go, and what they hold besides names, sizes, times and hashes."""

    sinks: Annotated[tuple[AuditReceiver, ...] | None, Field(strict=False)] = None
    """The receivers of each event: `LoggingSink`, `JsonLinesSink`, `OpenTelemetrySink`, or any callable, sync or async,
    that takes an `AuditEvent`; a path or `{"file": …, "max_bytes": …, "backups": …}` stands for a `JsonLinesSink`.
    None: the logger `codecall.audit`, at INFO. An empty list: there are no records."""
    include_arguments: bool = False
    """Whether the input of each call is recorded, with secrets masked; when False, only its hash."""
    include_results: bool = False
    """Whether the values of calls and of the script, its console output and the texts of errors are recorded, with
    secrets masked; when False, only sizes."""
    watchers: Annotated[tuple[Callable[[Any], Any], ...], Field(strict=False)] = ()
    """Callables such as `codecall.traces.TraceRecorder`. Each is called before a run begins, with its `RunDetails`, and
    returns a `RunObserver`, which receives the whole run, unmasked, on the event loop."""


class ResumeOptions(Options):
    """Where the completed calls of runs are stored for `resumeFrom`, how long, and how much of them."""

    store: KeyValueStore
    """The store of completed calls: any key-value store that FastMCP accepts, such as `RedisStore(url=…)`. All
    instances that clients may reach must share it."""
    ttl_s: int = Field(default=3_600, ge=1, le=30 * 86_400)
    """Seconds after its end during which a run can be resumed."""
    max_value_chars: int = Field(default=256 * 1024, ge=1, le=16 * 1024 * 1024)
    """Most characters of JSON in the value of one stored call; a call with a longer value is made again."""
    max_run_chars: int = Field(default=16 * 1024 * 1024, ge=1, le=256 * 1024 * 1024)
    """Most characters of all values of one run together."""
    max_caller_chars: int = Field(default=128 * 1024 * 1024, ge=1_024)
    """Most characters that this process stores of all runs of one caller at the same time; a run beyond that continues
    and is not stored."""


class ResultsOptions(Options):
    """How results that are larger than `inline_result_bytes` are stored for later reading."""

    enabled: bool = True
    """Whether large results are stored; when False, answers hold up to `max_result_bytes` of the preset, and larger
    results fail with OUTPUT_LIMIT."""
    store: KeyValueStore | None = None
    """The store of large results: any key-value store that FastMCP accepts, such as `RedisStore(url=…)`; all instances
    that clients may reach must share it. None: the memory of this process."""
    ttl_s: int = Field(default=900, ge=1, le=30 * 86_400)
    """Seconds for which a result is stored."""
    max_bytes: int = Field(default=32 * 1024 * 1024, ge=1_024, le=48 * 1024 * 1024)
    """Most bytes of JSON in one result, or a quarter of the preset's `memory_mb` if that is less; a larger result fails
    with OUTPUT_LIMIT."""
    max_total_bytes: int = Field(default=256 * 1024 * 1024, ge=1_024)
    """Most bytes that this process stores at the same time for all callers together. Beyond it, until others expire,
    answers hold results of up to `max_result_bytes`, and larger ones fail with OUTPUT_LIMIT; no stored result is
    evicted."""
    max_caller_bytes: int = Field(default=40 * 1024 * 1024, ge=1_024)
    """Most bytes that this process stores for one caller. A caller's share must also leave four times as much free for
    others, so it shrinks as the store fills, and a few callers (without authentication: a few network addresses) cannot
    fill it. The default has room for one result of the greatest size."""


class ProgressOptions(Options):
    """Progress notifications to a client that requests them while its script runs."""

    enabled: bool = True
    """Whether progress is reported."""
    heartbeat_s: float = Field(default=10.0, gt=0, le=60)
    """Seconds after which progress is reported again though nothing has happened, so that clients do not give up."""


class ShutdownOptions(Options):
    """How running scripts end when the server stops, or when their client is gone."""

    grace_s: float = Field(default=5.0, ge=0, le=3_600)
    """Seconds that running scripts have to finish once the server is stopping; then they end with EXECUTION_ABORTED.
    New scripts are refused during this time."""
    on_sigterm: bool = False
    """Whether SIGTERM starts the shutdown; other handlers of the signal run once it is
    complete. When False, only `drain()` starts it. `codecall serve` turns this on."""
    end_abandoned: bool = True
    """Whether a script ends when its client's connection closes and nobody can receive its answer any more. When False,
    it runs to its end."""


class CodeModeOptions(Options):
    """The limits of one Starlark script, within those of the preset."""

    enabled: bool = True
    """Whether there is `execute_tool_script`."""
    step_limit: int = Field(default=100_000, ge=0)
    """Most steps of one script; 0 stands for the default."""
    parallel_max_concurrency: int = Field(default=10, ge=0, le=1_000)
    """Most functions of one `parallel` that run at the same time; 0 stands for the default."""
    tool_call_timeout: str = Field(default="30s", pattern=f"^{DURATION}$", max_length=64)
    """How long one call may take: `30s`, `1m30s`, `500ms`."""


class StarlarkOptions(Options):
    """Scripts in Starlark: the tool `execute_tool_script`."""

    code_mode: CodeModeOptions = CodeModeOptions()
    """The limits of one script."""
    optimizer: bool = False
    """Whether there are `find_tool` and `call_tool` as well: `codecall:search` and `codecall:invoke` by other names."""
    description_tokens: int = Field(default=4_000, ge=100, le=100_000)
    """Most tokens of the list of tools in the description of `execute_tool_script`. A longer list has names alone, and
    says where to find the others."""


Mode = Literal["codecall_only", "codecall_opt_in", "metadata_driven", "additive"]
Separator = Literal[":", "_"]
"""What stands behind `codecall` in the name of a meta-tool."""


class PluginOptions(Options):
    """All options of `CodeCallPlugin.init(...)`."""

    mode: Mode = "codecall_only"
    """Which tools clients list and scripts may call. `codecall_only`: clients list only the meta-tools;
    `additive`: clients list all tools and the meta-tools beside them, and scripts may call all; `codecall_opt_in`:
    clients list all tools, and scripts may call only those that opt in; `metadata_driven`: each tool decides both, with
    the same defaults. What a tool's own metadata says comes first in each mode."""
    app_ids: Names = None
    """The apps that CodeCall manages; tools of other apps stay unchanged. None: all apps."""
    include_tools: Callable[[Any], bool] | None = None
    """A filter of FastMCP tools: scripts and `codecall:invoke` cannot reach a tool for which it returns False."""
    direct_calls: DirectCalls = DirectCalls()
    """`codecall:invoke`: a bool, a list of names or globs, or `{"enabled": …, "allowed_tools": […]}`."""
    tool_name_separator: Literal["auto", ":", "_"] = "auto"
    """The separator in the listed names of meta-tools: `:` lists `codecall:search`, `_` `codecall_search`. `auto`: `_`
    for clients that are known to refuse colons, or whose model's API does, by the name they give; `:` for all others.
    Both spellings always work."""
    top_k: int = Field(default=5, ge=1, le=50)
    """Most hits of a search that sets no `topK`."""
    inline_result_bytes: int = Field(default=64 * 1024, ge=64, le=256 * 1024 * 1024)
    """Most bytes of JSON of a result that `codecall:execute` and `codecall:invoke` answer with, within the preset's
    `max_result_bytes`. A larger one is kept whole, as `results` says, and the answer has its handle, preview and shape:
    64 KiB are some 16,000 tokens."""
    mark_errors: bool = False
    """Whether MCP's `isError` is set on every envelope whose status is not `ok`."""
    preset: Preset
    """The limits that scripts run under, resolved from the `vm` option."""
    preset_name: str
    """The name or path of the preset, for messages."""
    embedding: SearchOptions = SearchOptions()
    """How `codecall:search` finds tools."""
    observed_output: ObservedOutputOptions = ObservedOutputOptions()
    """Output shapes learned from results: a bool, or `{"per_caller": …, "store": …}`."""
    sanitization: SanitizationOptions = SanitizationOptions()
    """What is removed from error messages."""
    pool: PoolOptions = PoolOptions()
    """The worker processes."""
    audit: AuditOptions = AuditOptions()
    """Records of runs: where they go, and what they hold."""
    resume: ResumeOptions | None = None
    """Lets `codecall:execute` resume a failed run (`resumeFrom`). None: it cannot."""
    results: ResultsOptions = ResultsOptions()
    """Storage of results that are larger than `inline_result_bytes`: a bool, or `{"store": …, "ttl_s": …}`."""
    approvals: ApprovalOptions | None = None
    """Which calls a person has to allow: `"writes"`, `"destructive"`, a list of rules, or
    `{"rules": …, "approver": …}`. None: CodeCall asks for none."""
    flows: FlowRules = ()
    """Which values that tools have returned may go to other tools in the same run:
    `[{"from": "mail:*", "to": "http:*", "action": "ask"}]`."""
    extract: ExtractOptions | None = None
    """Whether scripts may have a model read values into types with `extract(value, type)`: a bool, or
    `{"max_requests": …, "extractor": …}`. None: they may not."""
    progress: ProgressOptions = ProgressOptions()
    """Progress notifications while a script runs."""
    shutdown: ShutdownOptions = ShutdownOptions()
    """How running scripts end when the server stops."""
    composite_tools: Annotated[tuple[Any, ...], Field(strict=False)] = ()
    """Workflows and scripts that are served as tools: files of definitions (YAML, JSON, TOML, scripts with a header),
    folders of them, or definitions as mappings."""
    telemetry: bool = True
    """Whether spans and metrics are recorded with OpenTelemetry, where a provider is set."""
    tasks: bool = False
    """Whether clients may run `codecall:execute` as a background task of FastMCP (`fastmcp-tasks`, extra `tasks`)."""
    starlark: StarlarkOptions | None = None
    """Scripts in Starlark with `execute_tool_script` (extra `starlark`): a bool, or `{"code_mode": …, "optimizer": …}`.
    None: there is no such tool."""
    tool_files: ToolFilesOptions | None = None
    """Tools as `.pyi` files, with `listToolFiles`, `readToolFile`, `getToolDocs` and `executeToolCode` (extra
    `starlark`): a bool, or `{"binding_level": …, "servers": …}`. None: there are no such tools."""

    @property
    def runs_starlark(self) -> bool:
        """Whether scripts may be Starlark."""
        return self.starlark is not None and self.starlark.code_mode.enabled

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Returns the keywords of `CodeCallPlugin.init`."""
        return ("vm", *(name for name in cls.model_fields if name not in ("preset", "preset_name")))

    @classmethod
    def build(cls, *, vm: object = None, **options: object) -> PluginOptions:
        """Builds options from the keywords of `CodeCallPlugin.init`; `vm` is `{"preset": …, <override>: …}`.

        Raises:
            OptionsError: an option is unknown, of the wrong type or out of range; the message names the field.
        """
        problems = OptionProblems()
        values: dict[str, object] = {}
        for key, value in options.items():
            with problems.collecting():
                values[key] = _read_option(key, value)
        # What is read below is for the other problems, where one of these is wrong.
        values |= {"preset": load_preset("secure"), "preset_name": "secure"}
        with problems.collecting():
            values["preset"], values["preset_name"] = read_vm(vm)
        with problems.collecting():
            built = cls.read(values, where="")
            if not problems.found:
                return built
        raise problems.as_error()


def _read_option(given: str, value: object) -> object:
    """The value of an option other than `vm`, in its long form."""
    if given in _PRESET_SPELLINGS:
        raise OptionsError(f"{given}: set it as {preset_example(value)}")
    if to_snake(given) in Preset.model_fields:
        raise OptionsError(f"{given}: is a limit; set it as vm={{'{given}': …}}, in TOML vm = {{ {given} = … }}")
    if to_snake(given) in _RATE_LIMIT_SPELLINGS:
        raise OptionsError(f"{given}: limits on calls are no option of the plugin", hint=_RATE_LIMIT_HINT)
    read = _SHORT_FORMS.get(to_snake(given))
    return value if read is None else read(value)


_PRESET_SPELLINGS: Final = frozenset({"preset", "presets", "preset_name", "presetName"})
"""What people call the preset, which is part of `vm`."""

_RATE_LIMIT_SPELLINGS: Final = frozenset({"rate_limit", "rate_limits", "rate_limiting", "ratelimit", "ratelimits"})
"""What people call the limits on calls, which are a plugin of their own."""

_RATE_LIMIT_HINT: Final = (
    "In Python: RateLimitPlugin.init(rules=[{'tool': '*', 'rate': '10/minute'}]).install(mcp), from codecall. "
    'In the gateway\'s file, at its top: [rate_limits] with rules = [{ tool = "*", rate = "10/minute" }].'
)


def _direct_calls(value: object) -> object:
    """Expands the short forms of `direct_calls`: a bool, or a list of names."""
    if not isinstance(value, (bool, list, tuple, Mapping, DirectCalls)):
        example = [value] if isinstance(value, str) else ["users:*"]
        raise OptionsError(
            f"direct_calls: True, False, a list of names or globs, or a mapping is needed (got {value!r:.80})",
            hint=f"For these tools alone: direct_calls={example!r:.100}.",
        )
    if isinstance(value, bool):
        return DirectCalls(enabled=value)
    if isinstance(value, (list, tuple)):
        return {"allowed_tools": cast("Sequence[object]", value)}
    return cast("object", value)


def _enabled(value: object) -> object:
    return {"enabled": value} if isinstance(value, bool) else value


def _starlark(value: object) -> object:
    return value if not isinstance(value, bool) else StarlarkOptions() if value else None


def _extract(value: object) -> object:
    """Expands a bool for `extract`."""
    return (ExtractOptions() if value else None) if isinstance(value, bool) else value


_SHORT_FORMS: Final[Mapping[str, Callable[[object], object]]] = {
    "direct_calls": _direct_calls,
    "observed_output": _enabled,
    "approvals": read_approvals,
    "results": _enabled,
    "extract": _extract,
    "starlark": _starlark,
    "tool_files": read_tool_files,
}
"""What expands the short forms of an option."""


class LimitKeywords(TypedDict, total=False):
    """The limits that scripts run under, and the language they may use. See `codecall.Preset`."""

    timeout_ms: int
    max_duration_ms: int
    tool_call_timeout_ms: int
    max_iterations: int
    max_steps: int
    max_tool_calls: int
    max_tool_input_bytes: int
    memory_mb: int
    max_result_bytes: int
    allow_console: bool
    max_console_calls: int
    max_console_bytes: int
    allow_loops: bool
    allow_regex: bool
    allow_clock: bool
    sanitize_max_depth: int
    sanitize_max_properties: int
    sanitize_max_string: int
    sanitize_max_array: int
    reference_min_bytes: int
    reference_max_bytes: int
    reference_total_bytes: int
    reference_resolved_bytes: int
    reference_passed_bytes: int
    reference_composites: bool
    max_content_blocks: int
    max_content_bytes: int
    worker_max_runs: int
    require_jail: bool | Literal["on_linux"]


class VmOptions(LimitKeywords, total=False):
    """`vm`: a preset, and the limits that replace some of its own."""

    preset: str | os.PathLike[str]


class DirectCallsDict(TypedDict, total=False):
    """`direct_calls`: which tools `codecall:invoke` may call. See `codecall.options.DirectCalls`."""

    enabled: bool
    allowed_tools: Sequence[str] | None


class SearchDict(TypedDict, total=False):
    """`embedding`: how search works. See `codecall.options.SearchOptions`."""

    strategy: Literal["tfidf", "embedding", "hybrid", "auto", "model"]
    similarity_threshold: float
    model_name: str
    backend: Literal["auto", "onnx", "torch"]
    download: bool
    cache_dir: str | Path | Literal[False] | None
    threads: int | None
    synonyms: Sequence[Sequence[str]]


class ObservedOutputDict(TypedDict, total=False):
    """`observed_output`: output shapes learned from results. See `codecall.options.ObservedOutputOptions`."""

    enabled: bool
    per_caller: bool
    store: KeyValueStore | None
    max_tools: int


class SanitizationDict(TypedDict, total=False):
    """`sanitization`: what is removed from error messages. See `codecall.options.SanitizationOptions`."""

    remove_stack_traces: bool
    remove_file_paths: bool


class PoolDict(TypedDict, total=False):
    """`pool`: the worker processes. See `codecall.PoolOptions`."""

    min_workers: int
    max_workers: int
    max_queue: int
    queue_timeout_ms: int
    startup_timeout_ms: int
    share_workers: bool
    fork_server: bool


class AuditDict(TypedDict, total=False):
    """`audit`: records of runs. See `codecall.options.AuditOptions`."""

    sinks: Sequence[Callable[[Any], Any] | str | Mapping[str, object]] | None
    include_arguments: bool
    include_results: bool
    watchers: Sequence[Callable[[Any], Any]]


class ResumeDict(TypedDict, total=False):
    """`resume`: where completed calls are stored for `resumeFrom`. See `codecall.options.ResumeOptions`."""

    store: Required[KeyValueStore]
    ttl_s: int
    max_value_chars: int
    max_run_chars: int
    max_caller_chars: int


class ResultsDict(TypedDict, total=False):
    """`results`: the store of large results. See `codecall.options.ResultsOptions`."""

    enabled: bool
    store: KeyValueStore | None
    ttl_s: int
    max_bytes: int
    max_total_bytes: int
    max_caller_bytes: int


class ProgressDict(TypedDict, total=False):
    """`progress`: progress notifications while a script runs. See `codecall.options.ProgressOptions`."""

    enabled: bool
    heartbeat_s: float


class ShutdownDict(TypedDict, total=False):
    """`shutdown`: how running scripts end when the server stops. See `codecall.options.ShutdownOptions`."""

    grace_s: float
    on_sigterm: bool
    end_abandoned: bool


class CodeModeDict(TypedDict, total=False):
    """`starlark["code_mode"]`: the limits of one script. See `codecall.options.CodeModeOptions`."""

    enabled: bool
    step_limit: int
    parallel_max_concurrency: int
    tool_call_timeout: str


class StarlarkDict(TypedDict, total=False):
    """`starlark`: scripts in Starlark. See `codecall.options.StarlarkOptions`."""

    code_mode: CodeModeDict
    optimizer: bool
    description_tokens: int


class PluginKeywords(TypedDict, total=False):
    """The keyword arguments of `CodeCallPlugin.init` except `vm`, for functions that pass them on."""

    mode: Mode
    app_ids: Sequence[str] | None
    include_tools: Callable[[Tool], bool] | None
    direct_calls: bool | Sequence[str] | DirectCallsDict | Mapping[str, object] | DirectCalls
    tool_name_separator: Literal["auto", ":", "_"]
    top_k: int
    inline_result_bytes: int
    mark_errors: bool
    embedding: SearchDict | Mapping[str, object] | SearchOptions | None
    observed_output: bool | ObservedOutputDict | Mapping[str, object] | ObservedOutputOptions
    sanitization: SanitizationDict | Mapping[str, object] | SanitizationOptions | None
    pool: PoolDict | Mapping[str, object] | PoolOptions | None
    audit: AuditDict | Mapping[str, object] | AuditOptions | None
    resume: ResumeDict | Mapping[str, object] | ResumeOptions | None
    results: bool | ResultsDict | Mapping[str, object] | ResultsOptions
    approvals: Approvals
    flows: Sequence[FlowRuleDict | Mapping[str, object]]
    extract: bool | ExtractDict | Mapping[str, object] | ExtractOptions | None
    progress: ProgressDict | Mapping[str, object] | ProgressOptions | None
    shutdown: ShutdownDict | Mapping[str, object] | ShutdownOptions | None
    composite_tools: Sequence[str | os.PathLike[str] | Mapping[str, object]]
    telemetry: bool
    tasks: bool
    starlark: bool | StarlarkDict | Mapping[str, object] | StarlarkOptions | None
    tool_files: ToolFiles
