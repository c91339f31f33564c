"""Translates every outcome of a call that is not a success to its named error: by type and code, never by message text.

BY_EXCEPTION_TYPE lists what FastMCP's `call_tool`, `read_resource` and `render_prompt` raise, most special first;
`from_result` reads what they return. A tool may name its own error by failing with a JSON object that has `code` and
`message`; those are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, cast

import msgspec
from fastmcp.exceptions import (
    AuthorizationError,
    DisabledError,
    InsufficientScopeError,
    NotFoundError,
    PromptError,
    ResourceError,
    ToolError,
    ValidationError,
)
from fastmcp.prompts import PromptResult
from fastmcp.prompts.base import InputRequiredPromptResult
from fastmcp.resources import ResourceResult
from fastmcp.resources.base import InputRequiredResourceResult
from fastmcp.server.middleware.rate_limiting import RateLimitError
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    CreateMessageRequest,
    ElicitRequest,
    TextContent,
)
from pydantic import BaseModel
from pydantic import ValidationError as PydanticValidationError

from codecall.calls.input_texts import problems_from_text, without_links
from codecall.calls.interfaces import FailedRunResult, InvalidArgumentsError
from codecall.calls.pydantic_errors import MAX_READ_ERRORS, problems_from_pydantic
from codecall.catalog.entries import CatalogEntry, JsonObject, call_kind, entry_label
from codecall.errors import (
    AccessDeniedError,
    ApprovalDeniedError,
    ApprovalRequiredError,
    InputRequiredError,
    InvalidInputError,
    RateLimitedError,
    ServerTimeoutError,
    ServerUnavailableError,
    TaskStartedError,
    ToolCallError,
    ToolTimeoutError,
)
from codecall.fastmcp_errors import UNREADABLE_HINT, client_message, is_raised_by_elicit, unreadable_answer
from codecall.jsonio.decode import read_json
from codecall.options import SanitizationOptions
from codecall.ratelimit.refusal import RateLimitRefusedError
from codecall.redaction.clean import clean_text, clean_value, secrets_not_in, well_formed
from codecall.schema.validation import (
    Problem,
    advise_on_nulls,
    describe_parameters,
    invalid_input_message,
    parameter_names,
    shallow_problems,
)

MAX_QUESTIONS: Final = 20
"""Questions of one result that its error lists."""

MAX_DETAILS_BYTES: Final = 16 * 1024
"""Bytes of JSON the details of one error may have; larger ones are replaced by a mark with their size."""

_MAX_OWN_ERROR_CHARS: Final = 64 * 1024
"""Characters of the longest error text that is searched for a tool's own `code` and `message`."""

_OWN_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
"""The form of a code that a tool may define itself."""

_PERSON_HINT: Final = (
    "Call the tool itself, not through CodeCall, where a person can answer; or give what it asks for as input."
)

_PROMPT_HINT: Final = "Correct the arguments of the prompt that are named here; codecall:describe has all of them."

_VERBS: Final = {"tool": "call tool", "resource": "read resource", "prompt": "get prompt"}
_PREFIXES: Final = ("Error calling tool ", "Error reading resource ", "Error rendering prompt ")
"""The prefixes that FastMCP puts before the text of an exception."""
_REMOTE_PREFIX: Final = re.compile(r"Error (?:calling|executing) tool '?([^\s':]{1,128})'?: (?=\S)")
"""The same in the answer of another server, which has a name of its own for the tool."""

_NARROWING_PARAMETERS: Final = frozenset(
    ["limit", "page", "per_page", "page_size", "pagesize", "fields", "columns", "cursor", "offset", "top", "max"]
)
"""Parameter names by which tools let callers ask for less."""

_RESULT_TYPES: Final = {"tool": ToolResult, "resource": ResourceResult, "prompt": PromptResult}
"""The type of FastMCP's results, by the kind of call."""

InputRequired = InputRequiredToolResult | InputRequiredResourceResult | InputRequiredPromptResult
"""What FastMCP's `call_tool`, `read_resource` and `render_prompt` return when they need more input (SEP-2322)."""

INPUT_REQUIRED_RESULTS: Final = (InputRequiredToolResult, InputRequiredResourceResult, InputRequiredPromptResult)


@dataclass(frozen=True, slots=True)
class FailureTranslator:
    """Makes named errors of failed calls; their messages and details are sanitized and bounded."""

    sanitization: SanitizationOptions
    """What is removed from error messages."""
    given: tuple[str, Mapping[str, object] | None] = ("", None)
    """What the caller has written: the call's name and its input."""

    def for_call(self, name: str, arguments: Mapping[str, object] | None = None) -> FailureTranslator:
        """The translator for a call: no secret is removed that its name or input has."""
        return replace(self, given=(name, arguments))

    def from_exception(
        self, failure: Exception, entry: CatalogEntry, arguments: Mapping[str, object] | None = None
    ) -> ToolCallError | None:
        """The error for an exception of FastMCP; None when it means that the component does not exist."""
        if isinstance(failure, (NotFoundError, DisabledError)):
            return None
        if (told := unreadable_answer(failure)) is not None:
            return self._error(entry, f"{entry_label(entry)} {told}", hint=UNREADABLE_HINT)
        if isinstance(failure, PromptError) and (problems := shallow_problems(arguments or {}, entry.input_schema)):
            return self.from_preflight(problems, entry)
        if isinstance(failure, (ValidationError, PydanticValidationError)):
            return self.from_validation(failure, entry, arguments)
        for kind, translate in BY_EXCEPTION_TYPE:
            if isinstance(failure, kind):
                return translate(self, failure, entry)
        return self._error(entry, f"{entry_label(entry)} failed inside the server ({type(failure).__name__})")

    def from_result(self, result: object, entry: CatalogEntry, arguments: Mapping[str, object]) -> ToolCallError | None:
        """The error that a returned result stands for; None when it is a success."""
        if not isinstance(result, _RESULT_TYPES[call_kind(entry)]):
            return self._missing_value_error(result, entry)
        if isinstance(result, INPUT_REQUIRED_RESULTS):
            return self._input_required_error(result, entry)
        if not isinstance(result, ToolResult) or not result.is_error:
            return None
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent) and block.text)
        if (prefix := _REMOTE_PREFIX.match(text)) and f"_{entry.name}".endswith(f"_{prefix[1]}"):
            text = text[prefix.end() :]
        own_error = _parse_own_error(result.structured_content) or _parse_own_error(_json_object(text))
        if own_error is None:
            if (told := problems_from_text(text, arguments, entry.input_schema)) is not None:
                return self.from_preflight(told, entry)
            if shallow := shallow_problems(arguments, entry.input_schema):
                problems = advise_on_nulls(shallow, arguments, entry.input_schema)
                suffix = f" The tool said: {without_links(text)}" if text else ""
                message = f"{invalid_input_message(entry.name, problems, entry.input_schema)}{suffix}"
                return self._error(entry, message, InvalidInputError, details=problems)
        is_run = isinstance(result, FailedRunResult)
        return self._run_error(result, entry, text, own_error) if is_run else self._tool_error(entry, text, own_error)

    def from_lookup(self, failure: Exception, entry: CatalogEntry) -> ToolCallError:
        """The error for an exception that the server raised while `entry` was looked up, before any call."""
        is_named = isinstance(failure, (AuthorizationError, MCPError, ToolError))
        if is_named and (named := self.from_exception(failure, entry)) is not None:
            return named
        return self._error(
            entry, f"{entry_label(entry)} could not be looked up: {client_message(failure, self.sanitization)}"
        )

    def from_rate_rule(self, failure: RateLimitRefusedError, entry: CatalogEntry) -> ToolCallError:
        """The error of a call that one of CodeCall's rate rules refuses."""
        error = failure.error
        hint, retry = error.hint, error.retry_after_ms
        return self._error(entry, error.message, RateLimitedError, details=error.details, hint=hint, retry=retry)

    def from_rate_limiter(self, _failure: Exception, entry: CatalogEntry) -> ToolCallError:
        """The error of a call that FastMCP's rate-limit middleware refuses; it does not say when to try again."""
        return self._error(entry, f"{entry_label(entry)} is called too often", RateLimitedError)

    def from_authorization(self, failure: AuthorizationError, entry: CatalogEntry) -> ToolCallError:
        """The error of a call that FastMCP's authorization refuses, which checks every call anew."""
        message = f"You may not {_VERBS[call_kind(entry)]} '{entry.name}'"
        scopes = failure.required_scopes if isinstance(failure, InsufficientScopeError) else None
        details = {"requiredScopes": scopes} if scopes else None
        return self._error(entry, message, AccessDeniedError, details=details)

    def from_validation(
        self, failure: Exception, entry: CatalogEntry, arguments: Mapping[str, object] | None = None
    ) -> ToolCallError:
        """The error of a call whose arguments the tool's validation refuses."""
        if isinstance(failure, InvalidArgumentsError):
            return self.from_preflight(failure.problems, entry)
        cause = failure if isinstance(failure, PydanticValidationError) else failure.__cause__
        if not isinstance(cause, PydanticValidationError):
            return self._error(entry, f"{failure} {describe_parameters(entry.input_schema)}", InvalidInputError)
        return self.from_preflight(problems_from_pydantic(cause, arguments, entry.input_schema), entry)

    def from_first_error(
        self, failure: PydanticValidationError, entry: CatalogEntry, arguments: Mapping[str, object]
    ) -> ToolCallError:
        """The error of a call whose large input is wrong, of which only the first wrong values were looked for."""
        problems = problems_from_pydantic(failure, arguments, entry.input_schema)
        if failure.error_count() <= MAX_READ_ERRORS:
            problems.append({"field": "input", "message": "Large inputs are checked up to their first wrong value"})
        return self.for_call(entry.name, arguments).from_preflight(problems, entry)

    def from_preflight(self, problems: Sequence[Problem], entry: CatalogEntry) -> ToolCallError:
        """The error of a call whose arguments do not fit: `problems` says why, before or after the call."""
        problems = advise_on_nulls(problems, self.given[1], entry.input_schema)
        message = invalid_input_message(entry.name, problems, entry.input_schema)
        hint = _PROMPT_HINT if call_kind(entry) == "prompt" else None
        return self._error(entry, message, InvalidInputError, details=problems, hint=hint)

    def from_mcp_error(self, failure: MCPError, entry: CatalogEntry) -> ToolCallError:
        """The error for an MCP error: a time limit, a capability the client lacks, an unreachable upstream server."""
        if isinstance(failure, RateLimitError):
            return self.from_rate_limiter(failure, entry)
        # FastMCP turns the timeout of a tool's own `timeout=` into a bare -32000; what it was stays in the context.
        if isinstance(failure.__context__, TimeoutError) or failure.error.code == REQUEST_TIMEOUT:
            return self._error(entry, failure.error.message, ToolTimeoutError)
        if failure.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
            data: object = failure.error.data
            capabilities = _mapping(_mapping(data).get("requiredCapabilities"))
            kind = InputRequiredError if "elicitation" in capabilities else ToolCallError
            return self._error(entry, failure.error.message, kind, details=data, hint=_PERSON_HINT)
        if (problems := problems_from_text(failure.error.message, {}, entry.input_schema)) is not None:
            return self.from_preflight(problems, entry)
        return self._tool_error(entry, failure.error.message, _parse_own_error(_json_object(failure.error.message)))

    def from_component_error(
        self, failure: ToolError | ResourceError | PromptError, entry: CatalogEntry
    ) -> ToolCallError:
        """The error for an exception of the tool, the resource or the prompt itself, which FastMCP passes on."""
        if is_raised_by_elicit(failure):
            message = f"{entry_label(entry)} asks a person for input, which this client cannot give to a script"
            return self._error(entry, message, InputRequiredError, hint=_PERSON_HINT)
        cause = failure.__cause__
        if isinstance(cause, MCPError):
            return self.from_mcp_error(cause, entry)
        if isinstance(cause, (ServerUnavailableError, ServerTimeoutError, InputRequiredError)):
            told, retry = cause.details, cause.retry_after_ms
            return self._error(entry, cause.message, type(cause), details=told, hint=cause.hint, retry=retry)
        text = str(failure)
        if cause is not None and text.startswith(_PREFIXES) and text.endswith(f": {cause}"):
            # FastMCP's prefix repeats the name, and hides that the rest may be the tool's own JSON.
            text = str(cause) or type(cause).__name__
        return self._tool_error(entry, text, _parse_own_error(_json_object(text)))

    def _missing_value_error(self, result: object, entry: CatalogEntry) -> ToolCallError:
        data = _mapping(result.model_dump(mode="json", by_alias=True)) if isinstance(result, BaseModel) else {}
        task = _mapping(data.get("task")) or data
        task_id = task.get("taskId")
        if not isinstance(task_id, str):
            return self._error(entry, f"{entry_label(entry)} answered with {type(result).__name__}, which has no value")
        return self._error(
            entry,
            f"{entry_label(entry)} started a background task instead of answering",
            TaskStartedError,
            details={key: task[key] for key in ("taskId", "status", "pollInterval") if task.get(key) is not None},
            hint="Its result is not available here; a client that supports tasks can ask for it.",
        )

    def _input_required_error(self, result: InputRequired, entry: CatalogEntry) -> ToolCallError:
        questions = input_questions(result)
        return self._error(
            entry,
            f"{entry_label(entry)} asks for input that a script cannot give",
            InputRequiredError,
            details={"requests": questions} if questions else None,
            hint=_PERSON_HINT,
        )

    def _tool_error(
        self, entry: CatalogEntry, text: str, own_error: JsonObject | None, kind: type[ToolCallError] = ToolCallError
    ) -> ToolCallError:
        if own_error is None:
            message = without_links(text).strip() or f"{entry_label(entry)} failed without a message"
            return self._error(entry, message, kind)
        retry = own_error.get("retryAfterMs")
        code = str(own_error["code"])
        return self._error(
            entry,
            str(own_error["message"]),
            kind,
            # A code is a word; one that has the form of a secret is none.
            code=code if clean_text(code, self.sanitization) == code else None,
            details=own_error.get("details"),
            retry=retry if isinstance(retry, int) and not isinstance(retry, bool) and retry >= 0 else None,
        )

    def _run_error(
        self, result: FailedRunResult, entry: CatalogEntry, text: str, own_error: JsonObject | None
    ) -> ToolCallError:
        decision = result.error if isinstance(result.error, (ApprovalDeniedError, ApprovalRequiredError)) else None
        error = self._tool_error(entry, text, own_error, ToolCallError if decision is None else type(decision))
        if decision is None:
            error.hint = result.hint
        else:
            # It is about the whole run, and no hint of a tool could be trusted to say how a call can be allowed.
            error.ends_script = decision.ends_script
            error.hint, error.shown_path = decision.hint, decision.shown_path
        error.hint = " ".join(filter(None, (error.hint, result.effects))) or None
        return error

    def _error(
        self,
        entry: CatalogEntry,
        message: str,
        kind: type[ToolCallError] = ToolCallError,
        *,
        code: str | None = None,
        details: object = None,
        hint: str | None = None,
        retry: int | None = None,
    ) -> ToolCallError:
        secrets = secrets_not_in(self.given)
        return kind(
            clean_text(message, self.sanitization, secrets),
            tool_name=entry.name,
            called=call_kind(entry),
            code=code,
            details=None if details is None else self._details(details, secrets),
            hint=hint,
            retry_after_ms=retry,
        )

    def _details(self, details: object, secrets: Sequence[str]) -> object:
        cleaned = clean_value(details, self.sanitization, secrets)
        try:
            size = len(msgspec.json.encode(cleaned))
        except (TypeError, ValueError, RecursionError):
            return {"__truncated": {"reason": "not JSON"}}
        return cleaned if size <= MAX_DETAILS_BYTES else {"__truncated": {"bytes": size}}


BY_EXCEPTION_TYPE: Final[tuple[tuple[type[Exception], Callable[..., ToolCallError]], ...]] = (
    (RateLimitRefusedError, FailureTranslator.from_rate_rule),
    (AuthorizationError, FailureTranslator.from_authorization),
    (MCPError, FailureTranslator.from_mcp_error),
    (ToolError, FailureTranslator.from_component_error),
    (ResourceError, FailureTranslator.from_component_error),
    (PromptError, FailureTranslator.from_component_error),
)
"""The types of FastMCP's exceptions, each with the method that translates it; the first row whose type fits is used."""


def too_large_error(entry: CatalogEntry, size: int, max_bytes: int) -> ToolCallError:
    """The error of a call whose value has `size` bytes; at most `max_bytes` are allowed."""
    narrowing = [name for name in parameter_names(entry.input_schema) if name.lower() in _NARROWING_PARAMETERS]
    advice = f" with {', '.join(narrowing)}" if narrowing else ": fewer rows, fewer fields, or a narrower question"
    return ToolCallError(
        f"{entry_label(entry)} returned {size} bytes; one value may have {max_bytes}",
        tool_name=entry.name,
        called=call_kind(entry),
        code="MESSAGE_TOO_LARGE",
        details={"bytes": size, "maxBytes": max_bytes},
        hint=f"Ask for less{advice}.",
    )


def input_questions(result: InputRequired) -> list[dict[str, str]]:
    """The questions a result asks, each with the name under which it expects its answer."""
    requests = result.input_required.input_requests or {}
    return [
        {"name": name, "kind": request.method, **_question_details(request)}
        for name, request in list(requests.items())[:MAX_QUESTIONS]
    ]


def _question_details(request: object) -> dict[str, str]:
    if isinstance(request, ElicitRequest):
        return {"message": request.params.message}
    if isinstance(request, CreateMessageRequest):
        return {"message": "asks the client's model"}
    return {}


def _parse_own_error(data: object) -> JsonObject | None:
    """`data` if it is a tool's own error: an object with a `code` that can be one, and a `message`."""
    error = _mapping(data)
    code, message = error.get("code"), error.get("message")
    if isinstance(code, str) and isinstance(message, str) and message and _OWN_CODE.fullmatch(code):
        return error
    return None


def _json_object(text: str) -> object:
    if text.lstrip().startswith("{") and len(text) <= _MAX_OWN_ERROR_CHARS:
        with suppress(msgspec.MsgspecError, RecursionError):
            return cast("object", read_json(well_formed(text)))
    return None


def _mapping(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
