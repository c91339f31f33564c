"""Requests that bring answers to a call that waits for them: the rate rules have counted that call when it began.

FastMCP seals each `requestState`, bound to the server, the tool, the arguments and the principal: one that comes this
far was given to a request for the same tool. Whether a call of this caller still waits under it, only those know where
calls wait. A state that was used waits no longer, and its request is a new call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from codecall.catalog.components import providers_and_transforms
from codecall.errors import RateLimitedError
from codecall.identity import client_key

if TYPE_CHECKING:
    from fastmcp import Context


@runtime_checkable
class Asking(Protocol):
    """Where calls wait for answers; the attribute `asking` of a plugin, or of what serves composite tools."""

    async def waiting_run(self, state: str, caller: str) -> str | None:
        """The run of the caller's call that waits under a state, empty if it cannot be resumed; None: none waits."""
        ...


class Continuation(NamedTuple):
    """A request that goes on with a call that waits."""

    run_id: str
    """By which the run can be resumed; empty if it cannot."""

    def explain(self, error: RateLimitedError) -> None:
        """Says in a refusal of this request what became of its call, and how it goes on."""
        error.message += ". The call that asked still waits, and the calls that it has made stay made"
        error.hint = f"{error.hint or ''} Send the same request with the same requestState then.".lstrip()
        if self.run_id:
            error.hint += f" Once its run has ended, resumeFrom: '{self.run_id}' repeats no completed call."


async def find_continuation(context: Context | None) -> Continuation | None:
    """Returns what a request goes on with; None if it is a new call."""
    if context is None or (state := context.request_state) is None:
        return None
    caller = client_key(context)
    for part in providers_and_transforms(context.fastmcp):
        asking = getattr(part, "asking", None)
        if isinstance(asking, Asking) and (run_id := await asking.waiting_run(state, caller)) is not None:
            return Continuation(run_id)
    return None
