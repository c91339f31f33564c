"""What can be said of a script before it runs: calls whose input the tool is sure to refuse, and, for a dry run, calls
of tools that there are not."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from codecall.errors import (
    AccessDeniedError,
    InvalidInputError,
    Location,
    MessageValidationError,
    ToolCallError,
    ToolNotFoundError,
)
from codecall.sandbox import wire
from codecall.sandbox.broker import ToolBroker
from codecall.sandbox.host.excerpts import excerpt
from codecall.sandbox.host.payloads import Bounds, NotJson, TooManyContainers, decode_json
from codecall.sandbox.host.places import Places
from codecall.sandbox.known import MAX_NESTING, Known, Mistake, NotKnown

MAX_OTHERS: Final = 3
"""Other calls with a wrong input that a hint names."""

_KINDS: Final[dict[str, type[ToolCallError]]] = {
    kind.code: kind for kind in (AccessDeniedError, InvalidInputError, ToolNotFoundError)
}

logger = logging.getLogger("codecall")


class Foresight:
    """Looks at the calls of one script.

    Args:
        broker: Knows the tools.
        start: The script, and its limits.
    """

    def __init__(self, broker: ToolBroker, start: wire.Start) -> None:
        self._broker = broker
        self._script = start.script
        self._limits = start.limits
        self._places = Places(start.script)
        self.asked = False
        """Whether it has looked."""
        self.mistakes: list[ToolCallError] = []
        """The calls that cannot end well, in the script's order."""

    async def look(self, plan: wire.Plan) -> bool:
        """Whether the calls of `plan` may be made, as far as that can be known; `mistakes` has those that may not.

        Raises:
            MessageValidationError: the worker names what no script has.
        """
        self.asked = True
        if sum(len(site.input) for site in plan.sites) > wire.MAX_PLAN_CHARS:
            raise MessageValidationError("The worker knows more of its calls than a script can say")
        for number, site in enumerate(plan.sites):
            if number:
                await asyncio.sleep(0)
            known, place = await self._known(site), self.place(site.start)
            mistake = await self._foreseen(site.name, known.value)
            if mistake is not None:
                offset = known.place(mistake.paths)
                self.mistakes.append(no_call(site.name, mistake, place if offset is None else self.place(offset)))
        return not self.mistakes

    def verdict(self) -> ToolCallError | None:
        """The error of a script that may not run; None while nothing is against it."""
        if not self.mistakes:
            return None
        first, *others = self.mistakes
        if first.location is not None:
            first.excerpt = excerpt(self._script, first.location)
        more = ""
        if others:
            named = [f"line {error.location.line} ('{error.tool_name}')" for error in others if error.location]
            rest = len(others) - MAX_OTHERS
            more = f" So are other calls: {', '.join(named[:MAX_OTHERS])}{f' and {rest} more' if rest > 0 else ''}."
        first.hint = (
            f"Nothing has run. The input is wrong whenever the call is made: correct the fields named here.{more}"
        )
        return first

    def place(self, offset: int) -> Location:
        """Where the character at `offset` stands.

        Raises:
            MessageValidationError: the script has none there.
        """
        place = self._places.at(offset)
        if place is None:
            raise MessageValidationError("The worker names a place that is not in the script")
        return place

    async def _known(self, site: wire.Site) -> Known:
        # Each level of the input is an array and an object in the form that carries it, and a member another array.
        bounds = Bounds.of(self._limits)._replace(depth=3 * MAX_NESTING)
        try:
            return Known.read(await decode_json(site.input, bounds))
        except (NotJson, NotKnown, TooManyContainers):
            raise MessageValidationError("The worker says of an input what nobody can know") from None

    async def _foreseen(self, name: str, known: dict[str, object]) -> Mistake | None:
        try:
            return await self._broker.foresee(name, known)
        except Exception as failure:
            # What fails here fails again at the call, if it is made.
            logger.debug("looking at a call of %r beforehand failed with %s", name, type(failure).__name__)
            return None


def no_call(name: str, mistake: Mistake, place: Location) -> ToolCallError:
    """The error of a call of the tool `name` that is not to be made, at its place."""
    kind = _KINDS.get(mistake.code, ToolCallError)
    details = list(mistake.problems) or None
    error = kind(mistake.message, tool_name=name, code=mistake.code, details=details, hint=mistake.hint)
    error.location = place
    return error
