"""What persons have allowed beyond one call: grants, each bound to a caller, a run or session, a tool and its version,
and to an input, arguments or a number of calls.

All is counted on the event loop without waiting in between, so that no two calls use up the same grant.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from codecall.approvals.request import CallInput, Lifetime, Match

MAX_GRANTS: Final = 10_000
"""Most grants of a server; one more replaces the one that expires first, and its calls are asked for again."""


@dataclass(frozen=True, slots=True)
class GrantKey:
    """Whose calls of which tool a grant is about."""

    caller: str
    session: str
    """A hash of the session; where the protocol has none, of the caller."""
    run_id: str
    tool: str
    version: str
    """A hash of the tool's schema, version and description."""


@dataclass(slots=True)
class Grant:
    """Calls that a person has allowed in advance."""

    key: GrantKey = field(repr=False)
    lifetime: Lifetime
    """Whether it holds for the run or for the session."""
    match: Match | None = field(repr=False)
    """What the input has to be; None: any input."""
    calls_left: int | None
    """Calls that it still allows; None: any number."""
    expires: float
    """When it expires, by `time.time`."""
    ahead: bool = False
    """Whether it was given before the calls were known: an approver still decides about each of them first."""
    id: str = field(default_factory=lambda: f"grant_{secrets.token_urlsafe(12)}")
    """Names it, for `revoke`."""

    @property
    def tool(self) -> str:
        """Name of the tool."""
        return self.key.tool

    @property
    def caller(self) -> str:
        """A hash of the caller, as in the audit record."""
        return self.key.caller

    @property
    def shown(self) -> str:
        """The input, or the arguments, that it allows, as the person was shown them; empty for any input."""
        return self.match.shown if self.match is not None else ""

    def covers(self, key: GrantKey, call: CallInput) -> bool:
        """Whether it allows a call of that key with that input, if it has not expired."""
        mine = self.key
        bound = key.run_id == mine.run_id if self.lifetime == "run" else key.session == mine.session
        return (
            bound
            and (key.caller, key.tool, key.version) == (mine.caller, mine.tool, mine.version)
            and (self.match is None or call.fits(self.match))
        )


class Grants:
    """The grants of one server, in the memory of its process.

    Args:
        run_s: Seconds after which a grant for a run expires.
        session_s: Seconds after which a grant for a session expires.
        clock: Gives the time.
    """

    def __init__(self, run_s: float, session_s: float, clock: Callable[[], float] = time.time) -> None:
        self._seconds: dict[Lifetime, float] = {"run": run_s, "session": session_s}
        self._clock = clock
        self._by_tool: dict[tuple[str, str], dict[str, Grant]] = {}
        """By caller and tool, then by id."""

    def __len__(self) -> int:
        return sum(map(len, self._by_tool.values()))

    def list(self) -> list[Grant]:
        """All grants that have not expired, the oldest first."""
        self._drop_expired()
        return [grant for group in self._by_tool.values() for grant in group.values()]

    def revoke(self, grant_id: str) -> bool:
        """Withdraw the grant with this id; whether there was one. Calls that it has let through have been made."""
        return any(self._drop(grant) for grant in self.list() if grant.id == grant_id)

    def end_run(self, run_id: str) -> None:
        """Drop the grants of a run that has ended."""
        for grant in self.of_run(run_id):
            self._drop(grant)

    def of_run(self, run_id: str) -> Sequence[Grant]:
        """The grants of one run."""
        return [grant for grant in self.list() if grant.lifetime == "run" and grant.key.run_id == run_id]

    def of_tool(self, key: GrantKey) -> Sequence[Grant]:
        """The grants of a caller for a tool."""
        return [*self._by_tool.get((key.caller, key.tool), {}).values()]

    def use(self, key: GrantKey, call: CallInput, *, ahead: bool = True) -> Grant | None:
        """Use a grant for one call: the grant, or None if there is none for it.

        Args:
            key: Whose call of which tool.
            call: Its input.
            ahead: Whether a grant that was given ahead will do.
        """
        now = self._clock()
        for grant in list(self._by_tool.get((key.caller, key.tool), {}).values()):
            if grant.expires <= now:
                self._drop(grant)
            elif (ahead or not grant.ahead) and grant.covers(key, call):
                if grant.calls_left is not None:
                    grant.calls_left -= 1
                    if not grant.calls_left:
                        self._drop(grant)
                return grant
        return None

    def add(
        self,
        key: GrantKey,
        *,
        lifetime: Lifetime = "run",
        match: Match | None = None,
        calls: int | None = None,
        expires: float = math.inf,
        ahead: bool = False,
    ) -> Grant:
        """Keep what a person has allowed.

        Args:
            key: Whose calls of which tool.
            lifetime: For how long.
            match: What the input has to be; None: any input.
            calls: How many calls; None: any number.
            expires: When it expires at the latest, by `time.time`.
            ahead: Whether it is given before the calls are known.
        """
        grant = Grant(key, lifetime, match, calls, min(expires, self._clock() + self._seconds[lifetime]), ahead)
        if len(self) >= MAX_GRANTS:
            self._drop(min(self.list(), key=lambda other: other.expires))
        self._by_tool.setdefault((key.caller, key.tool), {})[grant.id] = grant
        return grant

    def _drop(self, grant: Grant) -> bool:
        place = (grant.key.caller, grant.key.tool)
        group = self._by_tool.get(place, {})
        found = group.pop(grant.id, None) is not None
        if not group:
            self._by_tool.pop(place, None)
        return found

    def _drop_expired(self) -> None:
        now = self._clock()
        for group in list(self._by_tool.values()):
            for grant in [grant for grant in group.values() if grant.expires <= now]:
                self._drop(grant)
