"""Stores the records of runs in a key-value store, so that failed runs can be resumed: a header for each run, an entry
for each call.

    codecall_runs / <run id>                     RunHeader: its owner, how it ended, which attempt counts
    codecall_runs / <run id>.<attempt>.<number>  StoredCall: one of its calls, by its number in the script
    codecall_runs / <run id>.<attempt>.i<number> StoredCall: a call of an earlier run that this one resumed

The store needs only `get` and `put`. Only the header ever changes: the entry of a call is written once, after the call
has ended and before the script receives its value. An entry that is read must have exactly the form defined here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace as change

from codecall.envelopes import MAX_SOURCES
from codecall.jsonio.check import is_json
from codecall.key_value import REQUEST_TIMEOUT_S, CheckedStore, KeyValueStore
from codecall.quota import text_bytes
from codecall.resume.processes import MAX_CHARS

COLLECTION: Final = "codecall_runs"
"""The collection of the store."""

MAX_CALLS: Final = 10_000
"""Most stored calls of one run, including those of the runs it resumed."""

MAX_EPOCHS: Final = 16
"""Most runs of a chain whose epochs are stored with a call; those of earlier runs are dropped."""

MAX_CONCURRENT_REQUESTS: Final = 20
"""Most requests to the store at the same time. At least as many as calls of one script run at the same time: when a
server is killed, no more entries in a row are missing than calls were running."""

ENTRY_BYTES: Final = 1_500
"""Bytes of memory that a call takes besides its name, its value and its sources."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Name = Annotated[str, msgspec.Meta(max_length=1_024)]
State = Literal["running", "ok", "failed", "cancelled"]
"""How a run ended. `running` is also the state of a run whose server was killed."""


class DamagedRecordError(Exception):
    """A part of the record is missing or was altered."""


class RunHeader(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"last_call": "last", "stored_calls": "kept", "complete": "whole"},
):
    """The header of a run's record."""

    version: Literal[1]
    place: Annotated[str, msgspec.Meta(max_length=128)]
    """The key under which the entry was written: no entry can be moved to another run, if the store encrypts."""
    owner: Annotated[str, msgspec.Meta(max_length=128)]
    """The caller of the run, as `client_key`."""
    state: State
    ends: float
    """Unix time by which the run has ended even if its end was never written."""
    attempt: Natural = 0
    """How often a run with this id was started before."""
    generation: Natural = 0
    """Number of runs in the chain before this one, each resumed by the next."""
    inherited: Annotated[int, msgspec.Meta(ge=0, le=MAX_CALLS)] = 0
    """Number of calls that this run inherits from earlier ones."""
    last_call: Annotated[int, msgspec.Meta(ge=0, le=MAX_CALLS)] = 0
    """The highest number of a call; set when the run has ended."""
    stored_calls: Annotated[int, msgspec.Meta(ge=0, le=MAX_CALLS)] = 0
    """Number of stored calls; set when the run has ended."""
    complete: bool = True
    """False: a call is missing because it could not be written."""
    process: Annotated[str, msgspec.Meta(max_length=MAX_CHARS)] = ""
    """The process that runs it, as `process_identity` gives it."""
    size: Natural = 0
    """Bytes of memory that its calls take when they are read; set when the run has ended."""


class StoredCall(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"diverged": "parted"}
):
    """One call of a run."""

    place: Annotated[str, msgspec.Meta(max_length=128)] = ""
    """See `RunHeader.place`."""
    called: Annotated[str, msgspec.Meta(max_length=16)] = ""
    name: Name = ""
    digest: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """`canonical_digest` of its input."""
    state: Literal["ok", "failed", "lost", "reused", "unknown"] = "unknown"
    """`lost`: the call succeeded and its value is not stored; `unknown`: it began and its outcome is not known."""
    value: str | None = None
    """The value of a call that succeeded, as JSON text."""
    epochs: Annotated[tuple[tuple[Natural, Natural], ...], msgspec.Meta(max_length=MAX_EPOCHS)] = ()
    """A pair for each run that made the call or answered it from its record: the run's place in the chain
    (`RunHeader.generation`) and the call's time in it (`CallRecord.epoch`). Empty if the server was killed during the
    call, so that only its existence is known."""
    inherits: Natural = 0
    """Number of the earlier run's call that answered this one, or whose place it took; 0 for none."""
    diverged: bool = False
    """Whether the call matched no call of the earlier run although calls of its tool were still unmatched. Every call
    of the tool that the script makes after awaiting all calls under way is then made anew."""
    made_of: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_SOURCES)] | None = None
    """`CallRecord.made_of`; None: not known, or not all of it."""

    @property
    def chars(self) -> int:
        """Characters of what differs most in length from call to call."""
        return len(self.value or "") + sum(map(len, self.made_of or ()))

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that it takes."""
        texts = (self.name, self.value or "", *(self.made_of or ()))
        return ENTRY_BYTES + sum(map(text_bytes, texts))

    @property
    def key(self) -> tuple[str, str]:
        """The kind and the name of what was called."""
        return self.called, self.name

    def precedes(self, other: StoredCall) -> bool:
        """Whether this call came before the other in every run that had both.

        Calls that ran at the same time in any run have no order.
        """
        other_epochs = dict(other.epochs)
        earlier = [epoch < other_epochs[run] for run, epoch in self.epochs if run in other_epochs]
        return bool(earlier) and all(earlier)


class RunStore:
    """Reads and writes the records of runs.

    Args:
        store: the store, which is neither opened nor closed here.
        ttl_s: seconds for which a record is kept after the end of its run.
        max_value_chars: most characters of one value.
    """

    def __init__(self, store: KeyValueStore, ttl_s: int, max_value_chars: int) -> None:
        self._store = CheckedStore(store, COLLECTION, REQUEST_TIMEOUT_S)
        self._ttl_s = ttl_s
        self._max_value_chars = max_value_chars

    async def header(self, run_id: str) -> RunHeader | None:
        """Returns the header of that run; None if there is none.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        data = await self._store.get(run_id)
        try:
            header = None if data is None else msgspec.convert(data, RunHeader)
        except msgspec.ValidationError:
            return None
        return header if header is not None and header.place == run_id else None

    async def calls(self, run_id: str, header: RunHeader, at_least: int = 0) -> list[StoredCall]:
        """Returns all calls that may answer calls of a later run.

        Args:
            run_id: the earlier run.
            header: its header.
            at_least: how many calls of its own its record must have.

        Raises:
            DamagedRecordError: a part of the record is missing or was altered.
            StoreError: the store failed, or did not answer in time.
        """
        prefix = f"{run_id}.{header.attempt}."
        inherited = await self._read_up_to(f"{prefix}i", header.inherited)
        if header.state == "running":
            own = await self._read_until_gap(prefix)
        else:
            own = await self._read_up_to(prefix, header.last_call)
        if len(inherited) < header.inherited or len(own) < max(header.stored_calls, at_least) or not header.complete:
            raise DamagedRecordError
        last = header.last_call if header.state != "running" else max(own, default=0)
        if len(calls := merge_calls(inherited, own, last)) > MAX_CALLS:
            raise DamagedRecordError
        return calls

    async def put_header(self, run_id: str, header: RunHeader) -> None:
        """Writes the header of a run. One that has not come to its end outlasts the time that it may take: it may wait
        for a person.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        left_s = max(0.0, header.ends - time.time()) if header.state in ("running", "cancelled") else 0.0
        await self._put(run_id, header, self._ttl_s + 60 + left_s)

    async def put_call(self, run_id: str, header: RunHeader, number: int, call: StoredCall, *, lasts_s: float) -> None:
        """Writes one call; the entry outlives the header of a run that lasts `lasts_s` seconds.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        await self._put(f"{run_id}.{header.attempt}.{number}", call, self._ttl_s + 120 + lasts_s)

    async def put_inherited(self, run_id: str, attempt: int, calls: list[StoredCall], *, lasts_s: float) -> None:
        """Writes all calls that a run inherits from earlier ones.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        entries = [(f"{run_id}.{attempt}.i{number}", call) for number, call in enumerate(calls, 1)]
        for first in range(0, len(entries), MAX_CONCURRENT_REQUESTS):
            batch = entries[first : first + MAX_CONCURRENT_REQUESTS]
            await asyncio.gather(*(self._put(key, call, self._ttl_s + 120 + lasts_s) for key, call in batch))

    async def _read_until_gap(self, prefix: str) -> dict[int, StoredCall]:
        calls: dict[int, StoredCall] = {}
        first = 1
        while first <= MAX_CALLS:
            calls |= await self._read(prefix, range(first, first + MAX_CONCURRENT_REQUESTS))
            # No entry follows as many gaps as calls can run at the same time.
            first += MAX_CONCURRENT_REQUESTS
            if max(calls, default=0) + MAX_CONCURRENT_REQUESTS < first:
                break
        return calls

    async def _read_up_to(self, prefix: str, last: int) -> dict[int, StoredCall]:
        calls: dict[int, StoredCall] = {}
        for first in range(1, last + 1, MAX_CONCURRENT_REQUESTS):
            calls |= await self._read(prefix, range(first, min(first + MAX_CONCURRENT_REQUESTS, last + 1)))
        return calls

    async def _read(self, prefix: str, numbers: Iterable[int]) -> dict[int, StoredCall]:
        """Reads the calls of these numbers at the same time; leaves out those that are not in the store."""
        calls = await asyncio.gather(*(self._call(f"{prefix}{number}") for number in numbers))
        return {number: call for number, call in zip(numbers, calls, strict=True) if call is not None}

    async def _call(self, key: str) -> StoredCall | None:
        data = await self._store.get(key)
        if data is None:
            return None
        try:
            call = msgspec.convert(data, StoredCall)
            if (call.state == "ok") != (call.value is not None) or call.place != key:
                raise DamagedRecordError
            if call.value is not None:
                if len(call.value) > self._max_value_chars:
                    raise DamagedRecordError
                if not await is_json(call.value):
                    raise DamagedRecordError
        except ValueError:
            raise DamagedRecordError from None
        return call

    async def _put(self, key: str, entry: RunHeader | StoredCall, ttl_s: float) -> None:
        await self._store.put(key, msgspec.to_builtins(change(entry, place=key)), ttl_s)


def merge_calls(inherited: dict[int, StoredCall], own: dict[int, StoredCall], last: int) -> list[StoredCall]:
    """Merges the calls that a resumed run inherited with the calls that it made itself.

    An inherited call that the run has not matched stays; one whose place another call took is replaced by that call.

    Args:
        inherited: the inherited calls by number.
        own: the run's own calls by number; the outcome of missing ones is unknown.
        last: the highest number of a call that the run made.

    Raises:
        DamagedRecordError: a call refers to one that does not exist.
    """
    unmatched, reused = dict(inherited), dict[int, StoredCall]()
    fresh: list[StoredCall] = []
    diverged_at: dict[tuple[str, str], int] = {}
    obsolete: set[tuple[str, str]] = set()
    for number in range(1, last + 1):
        call = own.get(number, _UNKNOWN)
        replaced = unmatched.pop(call.inherits, None)
        epoch = call.epochs[-1][1] if call.epochs else 0
        if call.state == "reused":
            if replaced is None:
                raise DamagedRecordError
            reused[call.inherits] = call = change(replaced, epochs=(*replaced.epochs, *call.epochs)[-MAX_EPOCHS:])
        else:
            if epoch > diverged_at.get(call.key, epoch):
                obsolete.add(call.key)
            fresh.append(change(call, inherits=0))
        if call.diverged:
            diverged_at.setdefault(call.key, epoch)
    calls = [*reused.values(), *fresh, *(call for call in unmatched.values() if call.key not in obsolete)]
    return [change(call, diverged=False) if call.key in obsolete else call for call in calls]


_UNKNOWN: Final = StoredCall()
