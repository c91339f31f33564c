"""The tree of all errors. Each class has a stable code and the envelope status that it leads to.

    CodeCallError
    ├── OptionsError              (also ValueError)   INVALID_OPTIONS
    ├── ScriptRefused             nothing ran
    │   ├── ScriptSyntaxError     syntax_error        SYNTAX_ERROR
    │   └── IllegalAccess         illegal_access      VALIDATION_ERROR
    │       └── SelfReferenceError                    SELF_REFERENCE_BLOCKED
    ├── ScriptError               runtime_error       EXECUTION_ERROR            source "script"
    ├── LimitExceeded             runtime_error       ITERATION_LIMIT, …         source "limit"
    ├── ScriptTimeoutError        timeout             TIMEOUT
    ├── ToolCallError             tool_error          TOOL_EXECUTION_ERROR       source "tool"
    │   ├── ToolNotFoundError                         TOOL_NOT_FOUND
    │   ├── ResourceNotFoundError                     RESOURCE_NOT_FOUND
    │   ├── PromptNotFoundError                       PROMPT_NOT_FOUND
    │   ├── ResultNotFoundError                       RESULT_NOT_FOUND
    │   ├── AccessDeniedError                         ACCESS_DENIED
    │   ├── ApprovalDeniedError                       APPROVAL_DENIED
    │   ├── FlowDeniedError                           FLOW_DENIED
    │   ├── ExtractionFailedError                     EXTRACTION_FAILED
    │   ├── RunDivergedError                          RUN_DIVERGED, which a script cannot catch
    │   ├── ApprovalRequiredError                     APPROVAL_REQUIRED, which a script cannot catch
    │   ├── InvalidInputError                         INVALID_INPUT
    │   ├── ToolTimeoutError                          TOOL_TIMEOUT
    │   ├── InputRequiredError                        INPUT_REQUIRED
    │   ├── TaskStartedError                          TASK_STARTED
    │   ├── ServerUnavailableError                    SERVER_UNAVAILABLE
    │   ├── ServerTimeoutError                        SERVER_TIMEOUT
    │   └── RateLimitedError                          RATE_LIMIT
    └── WorkerError               runtime_error       see each class             source "worker"
        ├── WorkerTimeoutError    timeout             WORKER_TIMEOUT
        ├── WorkerMemoryError                         WORKER_MEMORY_EXCEEDED
        ├── WorkerCrashedError                        WORKER_CRASHED
        ├── WorkerStartupError                        WORKER_STARTUP_FAILED
        ├── WorkerPoolDisposedError                   POOL_DISPOSED
        ├── QueueFullError                            QUEUE_FULL
        ├── QueueTimeoutError                         QUEUE_TIMEOUT
        ├── ExecutionAbortedError                     EXECUTION_ABORTED
        ├── MessageFloodError                         MESSAGE_FLOOD
        ├── MessageValidationError                    MESSAGE_INVALID
        ├── MessageSizeError                          MESSAGE_TOO_LARGE
        └── TooManyPendingCallsError                  TOO_MANY_PENDING_CALLS

A failed run carries one of these in `ExecutionResult.error`; `ExecutionResult.raise_for_status()` raises it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Literal, NamedTuple

from codecall.sandbox.agentscript.policy import FindingKind

Status = Literal["ok", "syntax_error", "illegal_access", "runtime_error", "tool_error", "timeout"]
Source = Literal["script", "worker", "limit", "tool"]

CallKind = Literal["tool", "resource", "prompt", "result", "extract"]
"""What a script asks a server for: `callTool`, `readResource`, `getPrompt`, `getResult`, `extract`."""

LimitCode = Literal[
    "ITERATION_LIMIT",
    "STEP_LIMIT",
    "TOOL_CALL_LIMIT",
    "OUTPUT_LIMIT",
    "STACK_OVERFLOW",
    "DEADLOCK",
]
"""Which limit of the preset a script ran into."""

LIMITS: Final[Mapping[LimitCode, str]] = MappingProxyType(
    {
        "ITERATION_LIMIT": "A loop makes more turns than `max_iterations`.",
        "STEP_LIMIT": "Loop turns and function entries together exceed `max_steps`.",
        "TOOL_CALL_LIMIT": "The script makes more calls than `max_tool_calls`.",
        "OUTPUT_LIMIT": "The result is larger than an answer may be, and cannot be kept for later reading.",
        "STACK_OVERFLOW": "Functions call one another too deep.",
        "DEADLOCK": "The script awaits something that can never settle.",
    }
)
"""When each limit ends a script."""


FURTHER_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CODECALL_ERROR": "Something failed for which there is no code; the message says what.",
        "CANNOT_RESUME": "`resumeFrom` names a run that cannot be resumed; nothing has run.",
        "WORKFLOW_ERROR": "A composite tool cannot go on; its definition, or what its steps return, has to change.",
        "TEMPLATE_ERROR": "A template of a composite tool failed, or took more than it may.",
        "ELICITATION_DECLINED": "A person declined to answer the question of a composite tool.",
        "ELICITATION_CANCELLED": "A person cancelled the question of a composite tool.",
        "NOT_RECORDED": "A recorded test makes a call that its recording does not have.",
    }
)
"""Codes of single parts of CodeCall, whose errors are raised nowhere else, and when they come."""


class Location(NamedTuple):
    """A place in the script as the caller sent it."""

    line: int
    """From 1."""
    column: int
    """From 1, in Unicode characters."""


class CodeCallError(Exception):
    """Base of every error CodeCall reports: `message` says what is wrong, `hint` what to do about it. `code` is stable:
    programs match on it."""

    code: str = "CODECALL_ERROR"
    status: ClassVar[Status] = "runtime_error"
    source: ClassVar[Source | None] = None
    location: Location | None = None
    """The place in the script, if it is known."""
    excerpt: str | None = None
    """The script's line at `location`, shortened."""
    shown_path: str = ""
    """A path that `hint` names to somebody who may know it; it is not cleaned away."""
    quotes_script: bool = False
    """Whether `hint` quotes the script, between backticks: not every caller of a composite tool may read it."""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def as_dict(self) -> dict[str, object]:
        """Returns the `error` object of an envelope, with only the keys that have a value."""
        error: dict[str, object] = {"code": self.code}
        if self.source is not None:
            error["source"] = self.source
        error["message"] = self.message
        error.update((key, value) for key, value in self._extras().items() if value is not None)
        if self.location is not None:
            text = {} if self.excerpt is None else {"text": self.excerpt}
            error["location"] = {"line": self.location.line, "column": self.location.column, **text}
        if self.hint is not None:
            error["hint"] = self.hint
        return error

    def _extras(self) -> dict[str, object]:
        """Returns the keys of this class besides code, source, message, location and hint."""
        return {}


class OptionsError(CodeCallError, ValueError):
    """An option is unknown, of the wrong type, or out of range. The message names the option."""

    code = "INVALID_OPTIONS"

    def __str__(self) -> str:
        """The message, and in a second line the hint: a traceback, which is where these are read, has nothing else."""
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class _LocatedError(CodeCallError):
    """An error that may have a place in the script."""

    def __init__(
        self, message: str, *, code: str | None = None, location: Location | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.location = location


class ScriptRefused(_LocatedError):  # noqa: N818 - reads as the state it is
    """The script was not run."""


class ScriptSyntaxError(ScriptRefused):
    """The script is not parseable JavaScript."""

    code = "SYNTAX_ERROR"
    status = "syntax_error"


class IllegalAccess(ScriptRefused):
    """The script uses something AgentScript does not have."""

    code = "VALIDATION_ERROR"
    status = "illegal_access"

    def __init__(
        self,
        message: str,
        *,
        kind: FindingKind,
        code: str | None = None,
        location: Location | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, code=code, location=location, hint=hint)
        self.kind: FindingKind = kind

    def _extras(self) -> dict[str, object]:
        return {"kind": self.kind}


class SelfReferenceError(IllegalAccess):
    """The script names or calls a CodeCall meta-tool. This ends the script, which cannot catch it."""

    code = "SELF_REFERENCE_BLOCKED"
    PREFIX: ClassVar = "Cannot call CodeCall tools from within AgentScript: "

    def __init__(self, tool_name: str, *, location: Location | None = None) -> None:
        super().__init__(
            f"{self.PREFIX}{tool_name}",
            kind="SelfReference",
            location=location,
            hint="Call the tools themselves with callTool(name, input); search and describe before writing the script.",
        )


class ScriptError(_LocatedError):
    """The script threw an exception and did not catch it."""

    code = "EXECUTION_ERROR"
    source = "script"

    def __init__(
        self, message: str, *, name: str = "Error", location: Location | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, location=location, hint=hint)
        self.name = name

    def _extras(self) -> dict[str, object]:
        return {"name": self.name}


class LimitExceeded(_LocatedError):  # noqa: N818 - reads as the event it is
    """The script exceeded a limit of its preset. The script cannot catch this error."""

    source = "limit"

    def __init__(
        self, message: str, *, code: LimitCode, location: Location | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, code=code, location=location, hint=hint)

    def _extras(self) -> dict[str, object]:
        return {"name": "LimitError"}


class ScriptTimeoutError(CodeCallError):
    """The script's own time, or the time for the whole run, is used up."""

    code = "TIMEOUT"
    status = "timeout"


class ToolCallError(CodeCallError):
    """A call of a tool, the read of a resource, or a prompt failed. `code` and `details` are the tool's own, if it
    reports any. `tool_name` is the tool's name, the resource's URI or the prompt's name; `called` says which."""

    code = "TOOL_EXECUTION_ERROR"
    status = "tool_error"
    source = "tool"
    ends_script: bool = False
    """Whether it ends the script, which then cannot catch it."""

    def __init__(
        self,
        message: str,
        *,
        tool_name: str,
        code: str | None = None,
        called: CallKind = "tool",
        details: object = None,
        hint: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.tool_name = tool_name
        self.called: CallKind = called
        self.details = details
        self.retry_after_ms = retry_after_ms

    def _extras(self) -> dict[str, object]:
        return {**self.subject(), "details": self.details, "retryAfterMs": self.retry_after_ms}

    def subject(self) -> dict[str, str]:
        """Returns what was called: `toolName`, with `resource` or `prompt`; only `result` or `extract` for these."""
        if self.called in ("result", "extract"):
            return {self.called: self.tool_name}
        return {"toolName": self.tool_name} | ({} if self.called == "tool" else {self.called: self.tool_name})


class ToolNotFoundError(ToolCallError):
    """The tool does not exist or is not visible to this caller; the error never says which."""

    code = "TOOL_NOT_FOUND"


class ResourceNotFoundError(ToolCallError):
    """The resource does not exist or is not visible to this caller; the error never says which."""

    code = "RESOURCE_NOT_FOUND"


class PromptNotFoundError(ToolCallError):
    """The prompt does not exist or is not visible to this caller; the error never says which."""

    code = "PROMPT_NOT_FOUND"


class ResultNotFoundError(ToolCallError):
    """The result does not exist, has expired or belongs to another caller; the error never says which."""

    code = "RESULT_NOT_FOUND"


NOT_FOUND: Final[dict[CallKind, type[ToolCallError]]] = {
    "tool": ToolNotFoundError,
    "resource": ResourceNotFoundError,
    "prompt": PromptNotFoundError,
    "result": ResultNotFoundError,
    "extract": ToolNotFoundError,
}
"""The error for each kind of call when its target does not exist."""


class AccessDeniedError(ToolCallError):
    """`allowedTools`, the access policy or `include_tools` does not allow the call."""

    code = "ACCESS_DENIED"


class ApprovalDeniedError(ToolCallError):
    """A person did not allow the call. It ends the script if that person wants the run to end."""

    code = "APPROVAL_DENIED"


class FlowDeniedError(ToolCallError):
    """The call carries what another tool has returned, and a rule of `flows` denies that. A person may not allow it."""

    code = "FLOW_DENIED"


class ExtractionFailedError(ToolCallError):
    """`extract` has no answer that fits the type: no model may be asked, or it did not answer, or wrongly twice."""

    code = "EXTRACTION_FAILED"


class RunDivergedError(ToolCallError):
    """A run that went on from its record came to another call than before, which was not made; `details` has both."""

    code = "RUN_DIVERGED"
    ends_script = True


class ApprovalRequiredError(ToolCallError):
    """A rule asks a person for the call, and nobody answered, which ends the script; `details` has the calls."""

    code = "APPROVAL_REQUIRED"
    ends_script = True


class InvalidInputError(ToolCallError):
    """The tool refused its input; `details` names each bad field."""

    code = "INVALID_INPUT"


class ToolTimeoutError(ToolCallError):
    """One tool call exceeded `tool_call_timeout_ms`."""

    code = "TOOL_TIMEOUT"


class InputRequiredError(ToolCallError):
    """The tool asks a person for input, which a script cannot supply."""

    code = "INPUT_REQUIRED"


class TaskStartedError(ToolCallError):
    """The tool answered with a background-task handle; `details.taskId` names it."""

    code = "TASK_STARTED"


class ServerUnavailableError(ToolCallError):
    """The tool's server behind the gateway does not start, cannot be reached, ended during the call, or gave an answer
    that cannot be read."""

    code = "SERVER_UNAVAILABLE"


class ServerTimeoutError(ToolCallError):
    """The tool's server behind the gateway did not answer in time; the call was cancelled there."""

    code = "SERVER_TIMEOUT"


class RateLimitedError(ToolCallError):
    """A rate-limit rule refused the call; `retry_after_ms` is when to try again."""

    code = "RATE_LIMIT"


class WorkerError(CodeCallError):
    """The worker or the pool failed, not the script's logic."""

    source = "worker"

    def _extras(self) -> dict[str, object]:
        return {"name": type(self).__name__}


class WorkerTimeoutError(WorkerError):
    """The script did not stop when its time was up, and the watchdog killed the worker."""

    code = "WORKER_TIMEOUT"
    status = "timeout"


class WorkerMemoryError(WorkerError):
    """The script used more memory than its preset allows."""

    code = "WORKER_MEMORY_EXCEEDED"


class WorkerCrashedError(WorkerError):
    """The worker process died while it ran the script."""

    code = "WORKER_CRASHED"


class WorkerStartupError(WorkerError):
    """A worker process could not be started."""

    code = "WORKER_STARTUP_FAILED"


class WorkerPoolDisposedError(WorkerError):
    """The server is shutting down and takes no more scripts, or the enclave was closed while the script waited or
    ran."""

    code = "POOL_DISPOSED"


class QueueFullError(WorkerError):
    """The queue for workers is full."""

    code = "QUEUE_FULL"


class QueueTimeoutError(WorkerError):
    """No worker became free within `queue_timeout_ms`."""

    code = "QUEUE_TIMEOUT"


class ExecutionAbortedError(WorkerError):
    """The script was ended from outside: by the server when it shuts down, or when the client is gone; or by a signal
    to its worker process. Calls already made have taken effect."""

    code = "EXECUTION_ABORTED"


class MessageFloodError(WorkerError):
    """The worker sent more messages, more console output, or smaller pieces than the protocol allows."""

    code = "MESSAGE_FLOOD"


class MessageValidationError(WorkerError):
    """The worker violated the protocol; it was killed and replaced."""

    code = "MESSAGE_INVALID"


class MessageSizeError(WorkerError):
    """A frame was larger than the protocol allows."""

    code = "MESSAGE_TOO_LARGE"


class TooManyPendingCallsError(WorkerError):
    """The worker asked for more tool calls at once than may be pending."""

    code = "TOO_MANY_PENDING_CALLS"
