"""How a person at the client is asked: the form, and the way it takes on each kind of connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from fastmcp import Context
from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
    RootsCapability,
    SamplingCapability,
    SamplingToolsCapability,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.approvals.request import (
    DEFAULT_CALLS,
    MAX_GRANTED_CALLS,
    ApprovalRequest,
    Decision,
    Lifetime,
)
from codecall.sandbox.interfaces import CallMemory

DENY: Final = "deny"
"""The choice that denies one call."""

CHOICES: Final[Mapping[str, str]] = {
    "allow this call": "once",
    "allow several calls of this tool in this run": "several",
    "allow this input in this run": "run",
    "allow this input in this session": "session",
    "allow these fixed arguments in this run": "fixed run",
    "allow these fixed arguments in this session": "fixed session",
    DENY: "deny",
    "deny and stop the run": "stop",
}
"""What the form offers; fixed arguments where there are some."""


def form_for(request: ApprovalRequest) -> dict[str, Any]:
    """The form that a person fills in, as elicitation takes it."""
    explanation = "Allowing an input allows every call of this tool with exactly the input shown."
    if request.fixed:
        explanation += " Allowing fixed arguments allows every call with these, whatever its others are."
    properties: dict[str, Any] = {
        "decision": {"type": "string", "title": "Decision", "description": explanation, "enum": _offered(request)}
    }
    if not request.alone:
        properties["calls"] = {
            "type": "integer",
            "title": "Number of calls",
            "description": "With several calls: how many, this one included, whatever their input is.",
            "minimum": 1,
            "maximum": MAX_GRANTED_CALLS,
            "default": _proposed_calls(request),
        }
    return {"type": "object", "properties": properties, "required": ["decision"]}


def _offered(request: ApprovalRequest) -> list[str]:
    """The choices that a person has: of a run of one call nothing that is for more of its calls."""
    left_out = {"several", "run", "stop"} if request.alone else set[str]()
    return [
        text for text, choice in CHOICES.items() if choice not in left_out and (request.fixed or "fixed" not in choice)
    ]


def _proposed_calls(request: ApprovalRequest) -> int:
    """How many calls the form proposes: those that are left of what the script is certain to make."""
    return min(MAX_GRANTED_CALLS, max(1, request.foreseen - request.approved)) if request.foreseen else DEFAULT_CALLS


NO_ELICITATION: Final = "this client does not support elicitation"
"""Why a client is asked nothing."""

NO_ANSWER_HINT: Final = (
    "A person at this client has to allow the calls in `details`: tell them what these are for, and run the script "
    "again when they are ready to decide, or do the rest without them."
)
"""The hint where a person can be asked, and has not decided."""

ANSWERS: Final = (CreateMessageResult, CreateMessageResultWithTools, ListRootsResult, ElicitResult)
"""What a client answers with."""


class UnansweredError(Exception):
    """Nobody answered: the client cannot ask, or the person dismissed the question."""


class TooManyWaitError(UnansweredError):
    """The question is not asked: as many runs as may wait for a person do."""


class TooManyQuestionsError(UnansweredError):
    """The question is not asked: as many have been as may be."""


TOO_MANY_HINT: Final = (
    "What has been done stays done: do what is left in another run. Calls that wait side by side are asked for "
    "together, one answer may allow several calls of a tool, and the operator's option `approvals.ask_first` asks once "
    "for all."
)
"""The hint where as many questions have been asked as may be."""


class Channel(Protocol):
    """A way to the person at the client."""

    batches: bool
    """Whether it takes several questions at once. Else they are asked one after the other."""

    async def elicit(self, message: str, schema: Mapping[str, Any], identity: str = "") -> ElicitResult:
        """Show a form with a text, and wait for the answer.

        Args:
            message: The text.
            schema: The form.
            identity: What the question is about, the same if it is asked again; empty: the text says it.

        Raises:
            UnansweredError: there is none.
        """
        ...

    async def continue_here(self) -> None:
        """Return once the run goes on here and nowhere else; it ends if another instance has gone on with it."""
        ...

    def recorded(self, run_id: str, memory: CallMemory, *, has_worker: bool) -> None:
        """The calls of the run that asks are recorded.

        Args:
            run_id: The run.
            memory: Has its calls.
            has_worker: Whether it has a worker that it may give up.
        """
        ...

    async def ask(self, request: CreateMessageRequest | ListRootsRequest) -> object:
        """Ask the client's model, or for its folders, and wait for the answer.

        Raises:
            UnansweredError: there is none.
        """
        ...


class Model(Protocol):
    """A way to the model of the client."""

    async def ask(self, request: CreateMessageRequest) -> object:
        """Ask it, and wait for the answer.

        Raises:
            UnansweredError: there is none.
        """
        ...


class RequestChannel:
    """Asks by requests to the client (`elicitation/create`, `sampling/createMessage`), on connections of the handshake
    era.

    Args:
        context: FastMCP's context of the request.
    """

    batches = False

    def __init__(self, context: Context) -> None:
        self._context = context

    async def elicit(self, message: str, schema: Mapping[str, Any], identity: str = "") -> ElicitResult:  # noqa: ARG002
        """See `Channel`."""
        context = self._context
        try:
            return await context.session.elicit_form(message, dict(schema), context.request_id)
        except MCPError as failure:
            raise UnansweredError(f"the client refused the question: {failure.error.message}") from None

    async def continue_here(self) -> None:
        """No other instance knows of it."""

    def recorded(self, run_id: str, memory: CallMemory, *, has_worker: bool) -> None:
        """The run lives as long as this connection; no other instance goes on with it."""

    async def ask(self, request: CreateMessageRequest | ListRootsRequest) -> object:
        """See `Channel`."""
        context = self._context
        related = ServerMessageMetadata(related_request_id=context.request_id)
        answer = _ANSWERS["tools" if _with_tools(request) else request.method]
        try:
            return await context.session.send_request(request, answer, metadata=related)
        except MCPError as failure:
            raise UnansweredError(f"the client refused what it was asked: {failure.error.message:.200}") from None


_ANSWERS: Final[Mapping[str, type[CreateMessageResult | CreateMessageResultWithTools | ListRootsResult]]] = {
    "sampling/createMessage": CreateMessageResult,
    "tools": CreateMessageResultWithTools,
    "roots/list": ListRootsResult,
}


def _with_tools(request: CreateMessageRequest | ListRootsRequest) -> bool:
    """Whether a request lets the model call tools of the client."""
    params = request.params
    return isinstance(params, CreateMessageRequestParams) and (params.tools, params.tool_choice) != (None, None)


def can_answer(context: Context, request: CreateMessageRequest | ListRootsRequest) -> bool:
    """Whether the client of a request says that it answers such a thing."""
    if context.is_background_task or context.request_context is None:
        return False
    if isinstance(request, ListRootsRequest):
        wanted = ClientCapabilities(roots=RootsCapability())
    else:
        tools = SamplingToolsCapability() if _with_tools(request) else None
        wanted = ClientCapabilities(sampling=SamplingCapability(tools=tools))
    return context.session.check_client_capability(wanted)


def sampled_text(answer: object) -> str:
    """The text of a model's answer.

    Raises:
        UnansweredError: it is no text.
    """
    content = answer.content if isinstance(answer, CreateMessageResult) else None
    if not isinstance(content, TextContent):
        raise UnansweredError("the client's model answered with something other than a text")
    return content.text


def read_answer(result: ElicitResult, request: ApprovalRequest) -> Decision | None:
    """The decision in an answer to `form_for(request)`; None for one that is none of its choices.

    Raises:
        UnansweredError: the question was dismissed.
    """
    if result.action == "cancel":
        raise UnansweredError("the question was dismissed")
    content = result.content or {}
    decision = str(content.get("decision"))
    choice = (CHOICES[decision] if decision in _offered(request) else "") if result.action == "accept" else "deny"
    calls = content.get("calls", _proposed_calls(request))
    lifetime: Lifetime = "run" if choice.endswith("run") else "session"
    match choice:
        case "once":
            return Decision.once()
        case "several" if isinstance(calls, int | float) and 1 <= calls <= MAX_GRANTED_CALLS:
            return Decision.several(int(calls))
        case "run" | "session":
            return Decision.same_input(lifetime)
        case "fixed run" | "fixed session" if request.fixed:
            return Decision.fixed_arguments(*request.fixed, lifetime=lifetime)
        case "stop" | "deny":
            return Decision.stop() if choice == "stop" else Decision.deny()
        case _:
            return None


def form_of(request: object) -> ElicitRequestFormParams | None:
    """The form that a tool's question shows; None for a question of another kind."""
    params = request.params if isinstance(request, ElicitRequest) else None
    return params if isinstance(params, ElicitRequestFormParams) else None


def can_elicit(context: Context) -> bool:
    """Whether the client of a request says that it can show a person a form."""
    if context.is_background_task or context.request_context is None:
        return False
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    # A client that names no mode means forms; one that names only URLs shows none.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def can_sample(context: Context) -> bool:
    """Whether the client of a request says that it can ask a model."""
    if context.is_background_task or context.request_context is None:
        return False
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


def can_answer_requests(context: Context) -> bool:
    """Whether the client of a request says that it answers anything."""
    if context.is_background_task or context.request_context is None:
        return False
    capabilities = context.session.client_capabilities
    return capabilities is not None and any((capabilities.elicitation, capabilities.sampling, capabilities.roots))


def is_modern(context: Context) -> bool:
    """Whether the connection is of 2026-07-28, on which a server asks by answering with its questions."""
    return context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
