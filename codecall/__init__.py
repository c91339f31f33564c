"""CodeCall: code mode for FastMCP. A public name is imported when it is first used, so `import codecall` is free.

The plugin and rate limits need FastMCP; `Enclave` and the errors do not.

PYTEST_DONT_REWRITE: coverage.py loads its plugin, and so this package, before pytest could.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codecall.approvals.request import ApprovalRequest, Decision
    from codecall.audit.events import AuditEvent
    from codecall.audit.sinks import JsonLinesSink, LoggingSink, OpenTelemetrySink
    from codecall.catalog.entries import tool_metadata
    from codecall.composite.provider import CompositeTools
    from codecall.envelopes import ExecutionResult, Stats
    from codecall.errors import (
        AccessDeniedError,
        ApprovalDeniedError,
        ApprovalRequiredError,
        CodeCallError,
        ExecutionAbortedError,
        ExtractionFailedError,
        FlowDeniedError,
        IllegalAccess,
        InputRequiredError,
        InvalidInputError,
        LimitExceeded,
        Location,
        MessageFloodError,
        MessageSizeError,
        MessageValidationError,
        OptionsError,
        PromptNotFoundError,
        QueueFullError,
        QueueTimeoutError,
        RateLimitedError,
        ResourceNotFoundError,
        ResultNotFoundError,
        RunDivergedError,
        ScriptError,
        ScriptRefused,
        ScriptSyntaxError,
        ScriptTimeoutError,
        SelfReferenceError,
        ServerTimeoutError,
        ServerUnavailableError,
        TaskStartedError,
        ToolCallError,
        ToolNotFoundError,
        ToolTimeoutError,
        TooManyPendingCallsError,
        WorkerCrashedError,
        WorkerError,
        WorkerMemoryError,
        WorkerPoolDisposedError,
        WorkerStartupError,
        WorkerTimeoutError,
    )
    from codecall.extraction.extractor import ExtractionRequest
    from codecall.options import PoolOptions
    from codecall.plugin import CodeCallPlugin
    from codecall.presets import Preset, load_preset
    from codecall.ratelimit.middleware import RateLimitPlugin
    from codecall.sandbox.enclave import Enclave

__all__ = [  # noqa: RUF022 - alphabetical, whatever the letter case
    "AccessDeniedError",
    "ApprovalDeniedError",
    "ApprovalRequest",
    "ApprovalRequiredError",
    "AuditEvent",
    "CodeCallError",
    "CodeCallPlugin",
    "CompositeTools",
    "Decision",
    "Enclave",
    "ExecutionAbortedError",
    "ExecutionResult",
    "ExtractionFailedError",
    "ExtractionRequest",
    "FlowDeniedError",
    "IllegalAccess",
    "InputRequiredError",
    "InvalidInputError",
    "JsonLinesSink",
    "LimitExceeded",
    "load_preset",
    "Location",
    "LoggingSink",
    "MessageFloodError",
    "MessageSizeError",
    "MessageValidationError",
    "OpenTelemetrySink",
    "OptionsError",
    "PoolOptions",
    "Preset",
    "PromptNotFoundError",
    "QueueFullError",
    "QueueTimeoutError",
    "RateLimitedError",
    "RateLimitPlugin",
    "ResourceNotFoundError",
    "ResultNotFoundError",
    "RunDivergedError",
    "ScriptError",
    "ScriptRefused",
    "ScriptSyntaxError",
    "ScriptTimeoutError",
    "SelfReferenceError",
    "ServerTimeoutError",
    "ServerUnavailableError",
    "Stats",
    "TaskStartedError",
    "tool_metadata",
    "ToolCallError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "TooManyPendingCallsError",
    "WorkerCrashedError",
    "WorkerError",
    "WorkerMemoryError",
    "WorkerPoolDisposedError",
    "WorkerStartupError",
    "WorkerTimeoutError",
]

_HOMES = {
    "ApprovalRequest": "codecall.approvals.request",
    "AuditEvent": "codecall.audit.events",
    "CodeCallPlugin": "codecall.plugin",
    "CompositeTools": "codecall.composite.provider",
    "Decision": "codecall.approvals.request",
    "ExtractionRequest": "codecall.extraction.extractor",
    "Enclave": "codecall.sandbox.enclave",
    "ExecutionResult": "codecall.envelopes",
    "JsonLinesSink": "codecall.audit.sinks",
    "LoggingSink": "codecall.audit.sinks",
    "OpenTelemetrySink": "codecall.audit.sinks",
    "PoolOptions": "codecall.options",
    "Preset": "codecall.presets",
    "RateLimitPlugin": "codecall.ratelimit.middleware",
    "Stats": "codecall.envelopes",
    "load_preset": "codecall.presets",
    "tool_metadata": "codecall.catalog.entries",
}
"""Where each name lives that is not in `codecall.errors`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'codecall' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "codecall.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
