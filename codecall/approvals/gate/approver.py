"""The operator's function that decides calls before a person is asked."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from codecall.approvals.request import ApprovalRequest, Decision

logger = logging.getLogger("codecall")


async def call_approver(approver: Callable[[Any], Any], request: ApprovalRequest) -> Decision | None:
    """The decision of `approver`; None if it leaves the question to the client. One that fails denies."""
    try:
        answer: object = approver(request)
        decision = await answer if inspect.isawaitable(answer) else answer
    except Exception:
        logger.exception("approvals: the approver failed; the call of %r is denied", request.tool)
        return Decision.deny()
    if decision is None or isinstance(decision, Decision):
        return decision
    logger.error("approvals: the approver returned %s, no Decision; the call is denied", type(decision).__name__)
    return Decision.deny()
