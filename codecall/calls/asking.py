"""What asks a person, or the client's model, instead of answering: a script can do neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastmcp import Context
from fastmcp.prompts.base import InputRequiredPromptResult
from fastmcp.resources.base import InputRequiredResourceResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp_types import CreateMessageRequest, ElicitRequest

MAX_QUESTIONS: Final = 20
"""Questions of one result that are told."""

Asks = InputRequiredToolResult | InputRequiredResourceResult | InputRequiredPromptResult
"""What FastMCP's `call_tool`, `read_resource` and `render_prompt` return when they need more input (SEP-2322)."""

ASKS: Final = (InputRequiredToolResult, InputRequiredResourceResult, InputRequiredPromptResult)


def questions(result: Asks) -> list[dict[str, str]]:
    """What is asked, by the names under which answers would be given."""
    requests = result.input_required.input_requests or {}
    return [
        {"name": name, "kind": request.method, **_question(request)}
        for name, request in list(requests.items())[:MAX_QUESTIONS]
    ]


def _question(request: object) -> dict[str, str]:
    if isinstance(request, ElicitRequest):
        return {"message": request.params.message}
    if isinstance(request, CreateMessageRequest):
        return {"message": "asks the client's model"}
    return {}


def asked_somebody(failure: BaseException) -> bool:
    """Whether `failure`, or what it was raised from, was raised within FastMCP's `Context.elicit`.

    FastMCP has no exception type for it: on 2026-07-28 connections it raises a plain ToolError, on older ones the
    client's refusal comes back as an MCP error.
    """
    return any(code is Context.elicit.__code__ for code in _codes(failure))


def _codes(failure: BaseException) -> Iterator[object]:
    seen: set[int] = set()
    current: BaseException | None = failure
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        step = current.__traceback__
        while step is not None:
            yield step.tb_frame.f_code
            step = step.tb_next
        current = current.__cause__
