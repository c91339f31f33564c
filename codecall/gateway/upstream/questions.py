"""Questions of a server as a client gets them: for its model, a person's input or its roots, with who asks in them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import mcp_types
from fastmcp import Context
from mcp import MCPError, UrlElicitationRequiredError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.calls.clock import ASK_CLIENT
from codecall.errors import InputRequiredError
from codecall.gateway.upstream.addresses import check_url
from codecall.redaction.questions import HiddenTextError, check_size, quoted, visible_form

MAX_QUESTIONS: Final = 20
"""Most questions of a server during one call."""


class Question(NamedTuple):
    """What a server may ask a client."""

    what: str
    capabilities: mcp_types.ClientCapabilities
    """What the client has to offer for it."""
    answer: type[mcp_types.ClientResult]


def question_of(request: mcp_types.InputRequest) -> Question:
    """What a request of a server asks a client."""
    match request:
        case mcp_types.CreateMessageRequest(params=params):
            with_tools = params.tools is not None or params.tool_choice is not None
            tools = mcp_types.SamplingToolsCapability() if with_tools else None
            capabilities = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability(tools=tools))
            answer = mcp_types.CreateMessageResultWithTools if with_tools else mcp_types.CreateMessageResult
            return Question("its model", capabilities, answer)
        case mcp_types.ElicitRequest():
            capabilities = mcp_types.ClientCapabilities(elicitation=mcp_types.ElicitationCapability())
            return Question("a person's input", capabilities, mcp_types.ElicitResult)
        case mcp_types.ListRootsRequest():
            capabilities = mcp_types.ClientCapabilities(roots=mcp_types.RootsCapability())
            return Question("its roots", capabilities, mcp_types.ListRootsResult)


async def ask_client(context: Context, server: str, request: mcp_types.InputRequest, by: str = "") -> Any:
    """Ask the client whose request this is. Runs with that request's variables.

    Args:
        context: of the client's request.
        server: that asks.
        request: what it asks.
        by: what is said to ask, where it may not be the tool that a script calls in this context; empty: it is.

    Raises:
        MCPError: the client cannot be asked.
    """
    what, capabilities, answer = question_of(request)
    modern = context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
    if (ask := ASK_CLIENT.get()) is not None:
        try:
            reply = await ask(request, by)
        except InputRequiredError as refused:
            raise refusal(refused.message) from None
        if isinstance(reply, answer):
            return reply
        if not modern:
            raise refusal(f"the client cannot be asked for {what}: it does not offer it, or has not answered")
    if modern:
        raise refusal(
            f"the client cannot be asked for {what}: it speaks MCP {context.session.protocol_version}, in which only a "
            "server of that version can ask"
        )
    if not context.session.check_client_capability(capabilities):
        raise refusal(f"the client cannot be asked for {what}: it does not offer it")
    (request,) = named_questions(server, [request])
    if isinstance(params := request.params, mcp_types.ElicitRequestURLParams) and params.elicitation_id is None:
        # It has none on 2026-07-28, and needs one before.
        request = mcp_types.ElicitRequest(params=params.model_copy(update={"elicitation_id": uuid.uuid4().hex}))
    related = ServerMessageMetadata(related_request_id=context.request_id)
    return await context.session.send_request(request, answer, metadata=related)


def named_questions(server: str, requests: Sequence[mcp_types.InputRequest]) -> list[mcp_types.InputRequest]:
    """Questions of one message, those to a person with the name of their server before them: whoever is asked for a
    password knows who asks.

    Raises:
        MCPError: a part of one cannot be seen, a URL is none that a person can be sent to, or they are too long
            together.
    """
    to_person = [request.params for request in requests if isinstance(request, mcp_types.ElicitRequest)]
    try:
        check_size(*((params.message, _form_or_url(params)) for params in to_person))
        return [_named_question(server, request) for request in requests]
    except HiddenTextError as refused:
        raise refusal(str(refused)) from None


def _form_or_url(params: mcp_types.ElicitRequestParams) -> object:
    return params.requested_schema if isinstance(params, mcp_types.ElicitRequestFormParams) else params.url


def _named_question(server: str, request: mcp_types.InputRequest) -> mcp_types.InputRequest:
    if not isinstance(request, mcp_types.ElicitRequest):
        return request
    params, changes = request.params, dict[str, object]()
    if isinstance(params, mcp_types.ElicitRequestFormParams):
        changes["requested_schema"] = visible_form(params.requested_schema)
    else:
        check_url(params.url)
    changes["message"] = f"[{server}] {quoted(params.message).lstrip(' ')}"
    return mcp_types.ElicitRequest(params=params.model_copy(update=changes))


def named_url_error(server: str, error: mcp_types.ErrorData) -> MCPError:
    """The error of a server that wants a person to visit URLs first, its questions as `named_questions` has them.

    Raises:
        MCPError: as `named_questions`, or they are too many, or cannot be read.
    """
    try:
        listed = cast("dict[str, list[object]]", error.data or {}).get("elicitations", [])
        if len(listed) > MAX_QUESTIONS:
            raise refusal(f"the server sends a person to more than {MAX_QUESTIONS} URLs at once")
        asked = UrlElicitationRequiredError.from_error(error).elicitations
    except (ValueError, TypeError, AttributeError):
        raise refusal("the server sends a person to URLs in a way that cannot be read") from None
    named = [each.params for each in named_questions(server, [mcp_types.ElicitRequest(params=each) for each in asked])]
    return UrlElicitationRequiredError(cast("list[mcp_types.ElicitRequestURLParams]", named), error.message)


def check_permitted(request: mcp_types.InputRequest, server: str, *, sampling: bool) -> None:
    """Refuse what a server may not ask of clients.

    Raises:
        MCPError: it may not.
    """
    if isinstance(request, mcp_types.CreateMessageRequest) and not sampling:
        raise refusal(f"server {server!r} may not use the client's model; `sampling = true` in its options allows it")


def refusal(reason: str) -> MCPError:
    """The error that a server is answered with whose question is not asked."""
    return MCPError(code=mcp_types.INVALID_REQUEST, message=f"Refused by the gateway: {reason}")
