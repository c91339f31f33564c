"""What is kept of runs, so that one that failed can be taken up: a header for each run, and an entry for each call.

    codecall_runs / <run id>                     Header: whose, how it ended, which attempt counts
    codecall_runs / <run id>.<attempt>.<number>  Call: one of its calls, by its number in the script
    codecall_runs / <run id>.<attempt>.i<number> Call: one of an earlier run that this one took up

Only `get` and `put` are asked of the store, and nothing is ever changed but the header: an entry is written once, when
its call has ended, and before the script hears of it. What is read is believed only where it has the form written here.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec.structs import replace as change

from codecall.concurrency import with_timeout
from codecall.jsonio.decode import read_json
from codecall.key_value import KeyValueStore

COLLECTION: Final = "codecall_runs"
"""The collection of the store."""

SECONDS: Final = 2.0
"""How long one request to the store may take."""

MAX_CALLS: Final = 10_000
"""Calls of one run that are kept, those of the runs it took up among them."""

MAX_EPOCHS: Final = 16
"""Runs of a chain of which it is known when they made a call; those before them are forgotten."""

AT_ONCE: Final = 20
"""Requests to the store at the same time. Not less than the calls of one script that run at the same time: of a server
that was killed, no more entries in a row are missing than calls were running."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
State = Literal["running", "ok", "failed", "cancelled"]
"""`running`: also of a run whose server was killed."""


class DamagedRecord(Exception):  # noqa: N818 - internal signal, named for what happened
    """Something of the record is missing, or is not what was written."""


class RunHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a run as a whole."""

    version: Literal[1]
    place: Annotated[str, msgspec.Meta(max_length=128)]
    """The key it was written under: with a store that encrypts, nothing can be moved from one run to another."""
    owner: Annotated[str, msgspec.Meta(max_length=128)]
    """Whose run it is: `client_key`."""
    state: State
    ends: float
    """Unix time at which it has ended even if nobody has said so."""
    attempt: Natural = 0
    """Counts from 0 how often a run of this id was begun."""
    generation: Natural = 0
    """How many runs were taken up, one by the other, before this one."""
    inherited: Annotated[int, msgspec.Meta(ge=0, le=MAX_CALLS)] = 0
    """Calls of earlier runs it was given."""
    last: Annotated[int, msgspec.Meta(ge=0, le=MAX_CALLS)] = 0
    """The highest number of a call that was made; of a run that has ended."""
    kept: Annotated[int, msgspec.Meta(ge=0, le=MAX_CALLS)] = 0
    """How many were kept; of a run that has ended."""
    whole: bool = True
    """Whether nothing failed to be written."""


class StoredCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call of a run."""

    place: Annotated[str, msgspec.Meta(max_length=128)] = ""
    """As of `RunHeader`."""
    called: Annotated[str, msgspec.Meta(max_length=16)] = ""
    name: Annotated[str, msgspec.Meta(max_length=1_024)] = ""
    digest: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Of its input."""
    state: Literal["ok", "failed", "lost", "reused", "unknown"] = "unknown"
    """`lost`: it went well, and its value is not kept; `unknown`: it was made, and nobody knows how it ended."""
    value: str | None = None
    """Of one that went well: its value as JSON text."""
    epochs: Annotated[tuple[tuple[Natural, Natural], ...], msgspec.Meta(max_length=MAX_EPOCHS)] = ()
    """For each run that made it or was answered it: which run of the chain (`RunHeader.generation`), and when
    (`CallRecord.epoch`). None of a call of which only that is known that it was under way when its server was
    killed."""
    inherits: Natural = 0
    """Number of the earlier run's call that it was answered from, or whose place it took; 0 for none."""
    parted: bool = False
    """It was made while its tool had earlier calls to come to, and was none of them: what the tool is called with once
    the script has waited for all it had under way is made anew."""

    @property
    def key(self) -> tuple[str, str]:
        """What was called."""
        return self.called, self.name

    def before(self, other: StoredCall) -> bool:
        """Whether it came before the other in every run that had both. What ran side by side in any has no order: it
        comes now in this order, now in that."""
        theirs = dict(other.epochs)
        both = [epoch < theirs[run] for run, epoch in self.epochs if run in theirs]
        return bool(both) and all(both)


class RunStore:
    """Kept runs in a store.

    Args:
        store: the store; it is neither opened nor closed here.
        ttl_s: seconds a run is kept after its end.
        max_value_chars: characters that one value may have.
    """

    def __init__(self, store: KeyValueStore, ttl_s: int, max_value_chars: int) -> None:
        self._store = store
        self._ttl_s = ttl_s
        self._max_value_chars = max_value_chars

    async def header(self, run_id: str) -> RunHeader | None:
        """Of that run; None if there is none.

        Raises:
            Exception: whatever the store raises; `TimeoutError` when it does not answer.
        """
        data = await self._get(run_id)
        try:
            header = None if data is None else msgspec.convert(data, RunHeader)
        except msgspec.ValidationError:
            return None
        return header if header is not None and header.place == run_id else None

    async def put_header(self, run_id: str, header: RunHeader) -> None:
        """Write it.

        Raises:
            Exception: whatever the store raises; `TimeoutError` when it does not answer.
        """
        await self._put(run_id, header, self._ttl_s + 60)

    async def put_call(self, run_id: str, header: RunHeader, number: int, call: StoredCall, *, lasts_s: float) -> None:
        """Write an entry; it outlives the header of a run that lasts so long.

        Raises:
            Exception: as for `put_header`.
        """
        await self._put(f"{run_id}.{header.attempt}.{number}", call, self._ttl_s + 120 + lasts_s)

    async def put_inherited(self, run_id: str, attempt: int, calls: list[StoredCall], *, lasts_s: float) -> None:
        """Write all that a run was given of earlier ones.

        Raises:
            Exception: as for `put_header`.
        """
        named = [(f"{run_id}.{attempt}.i{number}", call) for number, call in enumerate(calls, 1)]
        for first in range(0, len(named), AT_ONCE):
            some = named[first : first + AT_ONCE]
            await asyncio.gather(*(self._put(key, call, self._ttl_s + 120 + lasts_s) for key, call in some))

    async def calls(self, run_id: str, header: RunHeader) -> list[StoredCall]:
        """All calls that a later run may be answered from.

        Raises:
            Damaged: the record is not what was written.
            Exception: as for `header`.
        """
        prefix = f"{run_id}.{header.attempt}."
        given = await self._numbered(f"{prefix}i", header.inherited)
        if header.state == "running":
            made = await self._until_gap(prefix)
        else:
            made = await self._numbered(prefix, header.last)
        if len(given) < header.inherited or len(made) < header.kept or not header.whole:
            raise DamagedRecord
        last = header.last if header.state != "running" else max(made, default=0)
        if len(calls := merge_calls(given, made, last)) > MAX_CALLS:
            raise DamagedRecord
        return calls

    async def _until_gap(self, prefix: str) -> dict[int, StoredCall]:
        made: dict[int, StoredCall] = {}
        first = 1
        while first <= MAX_CALLS:
            numbers = range(first, first + AT_ONCE)
            found = await asyncio.gather(*(self._call(f"{prefix}{number}") for number in numbers))
            made.update((number, call) for number, call in zip(numbers, found, strict=True) if call is not None)
            # Behind as many gaps as there can be calls at once there is nothing.
            first += AT_ONCE
            if max(made, default=0) + AT_ONCE < first:
                break
        return made

    async def _numbered(self, prefix: str, last: int) -> dict[int, StoredCall]:
        made: dict[int, StoredCall] = {}
        for first in range(1, last + 1, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, last + 1))
            found = await asyncio.gather(*(self._call(f"{prefix}{number}") for number in numbers))
            made.update((number, call) for number, call in zip(numbers, found, strict=True) if call is not None)
        return made

    async def _call(self, key: str) -> StoredCall | None:
        data = await self._get(key)
        if data is None:
            return None
        try:
            call = msgspec.convert(data, StoredCall)
            if (call.state == "ok") != (call.value is not None) or call.place != key:
                raise DamagedRecord
            if call.value is not None:
                if len(call.value) > self._max_value_chars:
                    raise DamagedRecord
                read_json(call.value)
        except (ValueError, RecursionError):
            raise DamagedRecord from None
        return call

    async def _get(self, key: str) -> Any:
        return await with_timeout(SECONDS, self._store.get(key, collection=COLLECTION))

    async def _put(self, key: str, kept: RunHeader | StoredCall, ttl: float) -> None:
        data = msgspec.to_builtins(change(kept, place=key))
        await with_timeout(SECONDS, self._store.put(key, data, collection=COLLECTION, ttl=ttl))


def merge_calls(given: dict[int, StoredCall], made: dict[int, StoredCall], last: int) -> list[StoredCall]:
    """What a run was given of earlier ones, and what it made of that.

    What it was given and has not come to is still there; what took the place of another is there instead.

    Args:
        given: by number.
        made: by number; of those that are missing nothing is known.
        last: the highest number of a call that was made.

    Raises:
        Damaged: something refers to what is not there.
    """
    left, used = dict(given), dict[int, StoredCall]()
    fresh: list[StoredCall] = []
    parted: dict[tuple[str, str], int] = {}
    gone: set[tuple[str, str]] = set()
    for number in range(1, last + 1):
        call = made.get(number, _UNKNOWN)
        place = left.pop(call.inherits, None)
        epoch = call.epochs[-1][1] if call.epochs else 0
        if call.state == "reused":
            if place is None:
                raise DamagedRecord
            used[call.inherits] = call = change(place, epochs=(*place.epochs, *call.epochs)[-MAX_EPOCHS:])
        else:
            if epoch > parted.get(call.key, epoch):
                gone.add(call.key)
            fresh.append(change(call, inherits=0))
        if call.parted:
            parted.setdefault(call.key, epoch)
    calls = [*used.values(), *fresh, *(call for call in left.values() if call.key not in gone)]
    return [change(call, parted=False) if call.key in gone else call for call in calls]


_UNKNOWN: Final = StoredCall()
