"""Runs that wait for a person and that another instance may go on with: the one that the client's next request reaches.

Once all branches of a script wait, its record (`resume`) holds every call that it has made, and nothing more happens
without an answer. What else the next instance needs is kept here under the state that the client was given: whose run
it is, and which questions are open. Whoever deletes that entry goes on with the run, and nobody else; so does the
instance where it waits, and lets go of it once the entry is gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import time as now
from typing import Annotated, Final, Literal

import msgspec
from mcp_types import ElicitResult

from codecall.approvals.grants import Grant
from codecall.approvals.request import Match
from codecall.jsonio.decode import sha256
from codecall.key_value import REQUEST_TIMEOUT_S, CheckedStore, KeyValueStore, StoreError

logger = logging.getLogger("codecall")

COLLECTION: Final = "codecall_waiting"
"""The collection of the store."""

LOOK_S: Final = 15.0
"""Seconds after which an instance looks whether another one has gone on with its run."""

SLACK_S: Final = 60.0
"""Seconds that an entry outlives its questions."""

Text = Annotated[str, msgspec.Meta(max_length=128)]


class OpenQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question that a run waits for."""

    name: Text
    """The name of its answer."""
    identity: Text
    """What it is about; the same for the same question of the same run on every instance."""
    expires: float
    """Unix time after which no answer counts."""


class MovedGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is left of what a person has allowed in the run; see `grants.Grant`."""

    tool: Annotated[str, msgspec.Meta(max_length=1_024)]
    version: Text
    expires: float
    calls_left: Annotated[int, msgspec.Meta(ge=1)] | None = None
    digest: Text | None = None
    names: tuple[str, ...] | None = None
    shown: str = ""
    ahead: bool = False

    @classmethod
    def of(cls, grant: Grant) -> MovedGrant:
        """The form of a grant."""
        match = grant.match
        bounds = (match.digest, match.names, match.shown) if match is not None else (None, None, "")
        return cls(grant.tool, grant.key.version, grant.expires, grant.calls_left, *bounds, grant.ahead)

    @property
    def match(self) -> Match | None:
        """What the input has to be; None: any input."""
        return Match(self.digest, self.shown, self.names) if self.digest is not None else None


class WaitingRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a meta-tool or a composite tool that waits for answers."""

    version: Literal[1]
    state: Text
    """The key under which it was written, so that no entry can be moved to another, if the store encrypts."""
    caller: Text
    request: Text
    """A digest of the name and the arguments of the tool."""
    run_id: Text
    """The run; empty where there is no record of it."""
    calls: Annotated[int, msgspec.Meta(ge=0)]
    """How many calls its record has: with fewer, some would be made again."""
    questions: Annotated[list[OpenQuestion], msgspec.Meta(max_length=10_000)]
    denied: Annotated[list[Text], msgspec.Meta(max_length=10_000)]
    """The questions that were answered with no, which are not asked again."""
    grants: Annotated[list[MovedGrant], msgspec.Meta(max_length=10_000)]
    notes: Annotated[dict[Text, str], msgspec.Meta(max_length=10_000)] = {}
    """Notes of the run for the instance that continues it."""

    @property
    def has_expired(self) -> bool:
        """Whether a question has run out of time: the run has gone on without an answer, or has ended."""
        return any(question.expires <= now() for question in self.questions)


class EarlierAnswers:
    """The answers to questions that another instance has asked. They count once the script has come as far as there.

    Args:
        run: What that instance has kept.
        responses: What the client says.
    """

    def __init__(self, run: WaitingRun, responses: Mapping[str, object]) -> None:
        self.run = run
        self._pending = [question.identity for question in run.questions]
        self._denied = list(run.denied)
        self._arrived = False
        self._answers: dict[str, list[ElicitResult]] = {}
        for question in run.questions:
            if question.name in responses:
                response = responses[question.name]
                answer = response if isinstance(response, ElicitResult) else ElicitResult(action="cancel")
                self._answers.setdefault(question.identity, []).append(answer)

    def expects(self, name: str, digest: str) -> bool:
        """Whether the script may call that tool with that input: it waited for that, or has come as far as it was."""
        call = call_identity(name, digest)
        return self._arrived or any(identity.startswith(call) for identity in (*self._pending, *self._denied))

    def left_s(self, identity: str) -> float | None:
        """Seconds that this question may still wait; None if it has an answer, or was not asked."""
        expires = [question.expires for question in self.run.questions if question.identity == identity]
        return None if not expires or self._answers.get(identity) else min(expires) - now()

    def waits_for(self, identity: str) -> bool:
        """Whether the run waited for the answer to this question."""
        return identity in self._pending

    def is_denied(self, identity: str) -> bool:
        """Whether this question was answered with no, which counts once for each time."""
        if identity not in self._denied:
            return False
        self._denied.remove(identity)
        return True

    def arrive(self, identities: Iterable[str]) -> bool:
        """Note that all branches of the script wait for these questions; whether they did so there."""
        self._arrived = Counter(identities) == Counter(self._pending)
        return self._arrived

    def pop(self, identity: str) -> ElicitResult | None:
        """The answer to a question, once; None if there is none."""
        answers = self._answers.get(identity)
        return answers.pop(0) if answers else None


def call_identity(name: str, digest: str) -> str:
    """What a question about a call of a tool with an input begins with."""
    return sha256(json.dumps([name, digest]))


class WaitingRuns:
    """The runs that wait, in a store that all instances share.

    Args:
        store: The store.
        wait_s: Seconds that a question may wait.
    """

    def __init__(self, store: KeyValueStore, wait_s: float) -> None:
        self._store = CheckedStore(store, COLLECTION, REQUEST_TIMEOUT_S)
        self.retention_s = wait_s + SLACK_S
        """Seconds for which a run is kept."""

    async def share(self, run: WaitingRun) -> bool:
        """Let any instance go on with a run; whether one can."""
        if not self._store.can_delete:  # then no instance can tell whether another one goes on
            return False
        try:
            await self._store.put(run.state, msgspec.to_builtins(run), self.retention_s)
        except StoreError as failure:
            logger.warning("the store of runs failed (%s); a run waits for its answers here alone", failure.reason)
            return False
        return True

    async def find(self, state: str) -> WaitingRun | None:
        """The run that waits under a state.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        data = await self._store.get(state)
        try:
            run = None if data is None else msgspec.convert(data, WaitingRun)
        except msgspec.ValidationError:
            return None
        return run if run is not None and run.state == state else None

    async def claim(self, state: str) -> bool:
        """Go on with a run; False if somebody else does.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        # A store that does not answer this would delete the entry later, and no instance would continue the run.
        if not self._store.can_delete or await self.find(state) is None:
            return False
        return await self._store.delete(state)

    async def wait_until_removed(self, state: str) -> None:
        """Wait until somebody goes on with a run. A store that fails says nothing of that."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                if await self.find(state) is None:
                    return
            except StoreError:
                continue


class RunLease:
    """A run that waits here, and that any instance may go on with: the first to claim it.

    Args:
        runs: All that wait.
        run: This one.
    """

    def __init__(self, runs: WaitingRuns, run: WaitingRun) -> None:
        self._runs = runs
        self._state = run.state
        self._share = asyncio.create_task(runs.share(run))
        self._claim: asyncio.Task[bool] | None = None
        """Who goes on here claims it once, together: an answer, and the end of a question's time."""

    async def is_shared(self) -> bool:
        """Whether other instances can go on with it."""
        return await asyncio.shield(self._share)

    async def claim(self) -> bool:
        """Go on with it here; False if another instance does.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        if not await self.is_shared():
            return True
        claim = self._claim
        if claim is None or (claim.done() and claim.exception() is not None):
            claim = self._claim = asyncio.create_task(self._runs.claim(self._state))
        return await asyncio.shield(claim)

    async def claimed(self) -> bool | None:
        """Whether it was claimed here; None before the first try."""
        try:
            return await asyncio.shield(self._claim) if self._claim is not None else None
        except StoreError:
            return None

    async def wait_until_claimed(self) -> bool:
        """Wait until somebody goes on with it; whether that is this instance."""
        while True:
            await self._runs.wait_until_removed(self._state)
            with suppress(StoreError):
                return await self.claim()
