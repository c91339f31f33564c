"""The options of plugins and enclaves as dictionaries and keywords, so that editors complete them.

`options.py` has the models that check them and say what each option means; `tests/test_options.py` compares the two.
Every group may also be given as any mapping, with its keys in either spelling.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from fastmcp.tools import Tool

    from codecall.key_value import KeyValueStore
    from codecall.options import (
        AuditOptions,
        DirectCalls,
        Mode,
        ObservedOutputOptions,
        PoolOptions,
        ProgressOptions,
        ResultsOptions,
        ResumeOptions,
        SanitizationOptions,
        SearchOptions,
        ShutdownOptions,
    )


class LimitKeywords(TypedDict, total=False):
    """The limits that scripts run under, and the language they may use. See `codecall.Preset`."""

    timeout_ms: int
    max_duration_ms: int
    tool_call_timeout_ms: int
    max_iterations: int
    max_steps: int
    max_tool_calls: int
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

    strategy: Literal["tfidf", "embedding", "hybrid", "auto"]
    similarity_threshold: float
    model_name: str
    backend: Literal["torch", "onnx"]
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

    sinks: Sequence[Callable[[Any], Any]] | None
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


class PluginKeywords(TypedDict, total=False):
    """The keyword arguments of `CodeCallPlugin.init` except `vm`, for functions that pass them on."""

    mode: Mode
    app_ids: Sequence[str] | None
    include_tools: Callable[[Tool], bool] | None
    direct_calls: bool | Sequence[str] | DirectCallsDict | Mapping[str, object] | DirectCalls
    tool_name_separator: Literal[":", "_"]
    top_k: int
    mark_errors: bool
    embedding: SearchDict | Mapping[str, object] | SearchOptions | None
    observed_output: bool | ObservedOutputDict | Mapping[str, object] | ObservedOutputOptions
    sanitization: SanitizationDict | Mapping[str, object] | SanitizationOptions | None
    pool: PoolDict | Mapping[str, object] | PoolOptions | None
    audit: AuditDict | Mapping[str, object] | AuditOptions | None
    resume: ResumeDict | Mapping[str, object] | ResumeOptions | None
    results: bool | ResultsDict | Mapping[str, object] | ResultsOptions
    progress: ProgressDict | Mapping[str, object] | ProgressOptions | None
    shutdown: ShutdownDict | Mapping[str, object] | ShutdownOptions | None
    telemetry: bool
    tasks: bool
