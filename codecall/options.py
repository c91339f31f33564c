"""Options and presets as frozen models: unknown keys are refused, every error names the field.

Each option accepts its Python spelling (`tool_name_separator`) and its wire spelling (`toolNameSeparator`).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, SupportsFloat, cast, get_args, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel, to_snake

from codecall.errors import OptionsError

# ----------------------------------------------------------------------------------------------------
# What all option models share: they are frozen, know both spellings, and every error names its field.

Millis = Annotated[int, Field(ge=1, le=86_400_000)]
"""Milliseconds, up to a day."""


class Options(BaseModel):
    """Base of every option model: frozen, both spellings, nothing unknown."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        arbitrary_types_allowed=True,
    )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The options a caller may set here, in their Python spelling."""
        return tuple(cls.model_fields)

    @classmethod
    def read(cls, values: Mapping[str, object], *, where: str, show_values: bool = True) -> Self:
        """Validate `values`; raises `OptionsError` naming each bad field under `where`. `show_values=False` keeps
        what was given out of the message: it may be a secret."""
        reject_double_spelling(cls, values, where)
        try:
            return cls.model_validate(dict(values))
        except ValidationError as failure:
            raise OptionsError(_explain(cls, failure, where, show_values)) from None


def reject_double_spelling(model: type[Options], values: Mapping[str, object], where: str) -> None:
    """Refuse an option given in both its spellings; which one counts would be a matter of chance."""
    for name in model.model_fields:
        if name in values and to_camel(name) in values and name != to_camel(name):
            raise OptionsError(f"{_dotted(where, name)}: given twice, as {name} and as {to_camel(name)}")


def _dotted(where: str, *parts: object) -> str:
    return ".".join([*([where] if where else []), *map(str, parts)])


def _explain(model: type[Options], failure: ValidationError, where: str, shown: bool) -> str:
    lines: list[str] = []
    for item in failure.errors(include_url=False):
        path = _dotted(where, *item["loc"])
        if item["type"] == "extra_forbidden":
            known = _model_at(model, item["loc"]).names()
            near = get_close_matches(to_snake(str(item["loc"][-1])), known, n=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            lines.append(f"{path}: unknown option; known here: {', '.join(known)}{meant}")
        elif item["type"] == "missing":
            lines.append(f"{path}: missing")
        elif item["type"] == "tuple_type":
            such = '["--local-timezone", "UTC"]' if item["loc"][-1] == "args" else '["one", "two"]'
            lines.append(
                f"{path}: a list is needed, such as {such}" + (f" (got {item['input']!r:.80})" if shown else "")
            )
        else:
            lines.append(f"{path}: {item['msg']}" + (f" (got {item['input']!r:.80})" if shown else ""))
    return "; ".join(lines)


def _model_at(model: type[Options], path: Sequence[int | str]) -> type[Options]:
    """The option model that the last part of `path` was looked for in."""
    for part in path[:-1]:
        for name, field in model.model_fields.items():
            if part not in (name, field.alias):
                continue
            for annotation in (field.annotation, *get_args(field.annotation)):
                if isinstance(annotation, type) and issubclass(annotation, Options):
                    model = annotation
    return model


@runtime_checkable
class KeyValueStore(Protocol):
    """Where something is kept for longer than a process lives: what is used of `AsyncKeyValue`, the interface of the
    stores that FastMCP takes (`key_value.aio`: files, Redis and many more)."""

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """What was put under `key`; None if there is nothing."""
        ...

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep `value` under `key`, for `ttl` seconds."""
        ...


# ----------------------------------------------------------------------------------------------------
# Options of running CodeCall in production: records, resumption, large results, progress, shutdown.


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
    """A store as FastMCP takes them, such as `RedisCounterStore(url=…)`; shared by all instances that clients may
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
    """Where they are kept: a store as FastMCP takes them, such as `RedisCounterStore(url=…)`; shared by all
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
    on_sigterm: bool = True
    """Begin at SIGTERM, and let what else handles it wait until then. False: only `drain()` begins it."""
    end_abandoned: bool = True
    """End a script whose client's connection is closed, where nobody could get its answer any more. False: it runs to
    its end."""


# ----------------------------------------------------------------------------------------------------
# Options and presets as frozen models: unknown keys are refused, every error names the field.

PRESET_NAMES = ("locked_down", "secure", "balanced", "experimental")
"""The shipped presets, from strictest to most generous."""

SECURITY_LEVELS = {"STRICT": "locked_down", "SECURE": "secure", "STANDARD": "balanced", "PERMISSIVE": "experimental"}
"""The same four presets in the vocabulary of `Enclave(security_level=…)`."""

PRESET_ENVIRONMENT_VARIABLE = "CODECALL_VM_PRESET"
"""Sets the preset where the code names none, so that a test run can be repeated under another one."""

Names = Annotated[tuple[str, ...] | None, Field(strict=False)]
Word = Annotated[str, Field(pattern=r"^[^\W_]+$", max_length=64)]
"""A list or tuple of names; None stands for all."""


class Preset(Options):
    """One complete set of limits and language rules, as a file in `presets/` states it."""

    timeout_ms: Millis
    """The script's own time in milliseconds; waiting for tools is not counted."""
    max_duration_ms: Millis
    """Milliseconds for everything, waiting included."""
    tool_call_timeout_ms: Millis
    """Milliseconds for each tool call."""
    max_iterations: int = Field(ge=1, le=2**31 - 1)
    """Turns of any one loop, counted anew each time the loop is entered."""
    max_steps: int = Field(ge=1, le=2**31 - 1)
    """Loop turns and function entries in all."""
    max_tool_calls: int = Field(ge=0, le=1_000_000)
    """Tool calls one script may make."""
    memory_mb: int = Field(ge=4, le=4096)
    """Engine heap in MiB."""
    max_result_bytes: int = Field(ge=64, le=256 * 1024 * 1024)
    """Size of the script's result as JSON, in bytes."""
    allow_console: bool
    """Whether `console` exists."""
    max_console_calls: int = Field(ge=0, le=100_000)
    """Console calls one script may make."""
    max_console_bytes: int = Field(ge=0, le=64 * 1024 * 1024)
    """UTF-8 bytes of console text one script may write."""
    allow_loops: bool
    """Whether `while` and `do…while` are allowed; `for` and `for…of` always are."""
    allow_regex: bool
    """Whether regular expressions are allowed."""
    allow_clock: bool
    """Whether `Date.now`, `new Date()` without arguments and `Math.random` are allowed."""
    sanitize_max_depth: int = Field(ge=1, le=200)
    """Nesting of a result; deeper parts are replaced by a mark. MCP's own layer refuses to send more than 255."""
    sanitize_max_properties: int = Field(ge=1, le=10_000_000)
    """Properties of any one object of a result."""
    sanitize_max_string: int = Field(ge=16, le=64 * 1024 * 1024)
    """Characters of any one string of a result."""
    sanitize_max_array: int = Field(ge=1, le=10_000_000)
    """Items of any one array of a result."""
    reference_min_bytes: int = Field(ge=0, le=64 * 1024 * 1024)
    """Bytes of JSON up to which a value is given as it is, though the script asked for a reference."""
    reference_max_bytes: int = Field(ge=0, le=256 * 1024 * 1024)
    """Bytes of one value that stays outside the engine; 0: none may."""
    reference_total_bytes: int = Field(ge=0, le=2**31 - 1)
    """Bytes of all values that one run may have outside the engine."""
    reference_resolved_bytes: int = Field(ge=0, le=256 * 1024 * 1024)
    """Bytes of the values that references in the input of one call, or in the result, stand for; also of all calls that
    are made at the same time."""
    reference_passed_bytes: int = Field(ge=0, le=2**40)
    """The same of all calls of one run."""
    reference_composites: bool
    """Whether a reference may be part of a longer text, into which its value is written then."""
    worker_max_runs: int = Field(ge=1, le=1_000_000)
    """Scripts a worker serves before it is replaced; 1 is a fresh process for every script."""
    require_jail: bool | Literal["on_linux"]
    """Refuse to run scripts (WORKER_STARTUP_FAILED, naming the layer) unless every layer of the worker's jail holds.
    `on_linux`: only where the layers exist at all. False: run with those there are, and report the others."""

    def replaced(self, overrides: Mapping[str, object]) -> Preset:
        """This preset with some values replaced; both spellings of a field are accepted.

        Raises:
            OptionsError: unknown field, wrong type, or out of range.
        """
        reject_double_spelling(Preset, overrides, "vm")
        aliases = {to_camel(field): field for field in Preset.model_fields}
        merged = self.model_dump() | {aliases.get(key, key): value for key, value in overrides.items()}
        return Preset.read(merged, where="vm")


def presets_folder() -> Path:
    """Where the shipped preset files are: inside the installed package, or beside it in a checkout."""
    installed = Path(__file__).parent / "presets"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "presets"


@cache
def _shipped(name: str) -> Preset:
    return _from_file(presets_folder() / f"{name}.toml")


def _from_file(path: Path) -> Preset:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise OptionsError(f"vm.preset: cannot read the preset file {str(path)!r}: {failure.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
        raise OptionsError(f"vm.preset: {str(path)!r} is not valid TOML: {failure}") from None
    return Preset.read(values, where=f"preset {path.name}")


def load_preset(name: str | os.PathLike[str]) -> Preset:
    """The preset of that name, or the one in the TOML file at that path.

    Raises:
        OptionsError: no such preset or file, or a file that does not state every field.
    """
    text = os.fspath(name)
    if text in PRESET_NAMES:
        return _shipped(text)
    if text.endswith(".toml") or os.sep in text:
        return _from_file(Path(text))
    raise OptionsError(
        f"vm.preset: unknown preset {text!r}; known: {', '.join(PRESET_NAMES)}, or the path of a .toml file"
    )


def resolve_preset(
    preset: str | os.PathLike[str] | None = None, overrides: Mapping[str, object] | None = None
) -> Preset:
    """The preset to run under: the one named, else `CODECALL_VM_PRESET`, else `secure`; with `overrides` on top.

    Raises:
        OptionsError: unknown preset, unknown override, or a value of the wrong type or out of range.
    """
    base = load_preset(preset if preset is not None else os.environ.get(PRESET_ENVIRONMENT_VARIABLE) or "secure")
    return base.replaced(overrides) if overrides else base


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
