"""Taking up a run that failed: its completed calls are answered from what is kept of them instead of being made again.

`calls/matching.py` says which calls, `calls/kept_runs.py` what is kept. Each call is looked at by the rules of access
once more before it is answered. What ends well is written before the script hears of it, so that a server that is
killed at any moment loses no call that its script knew of.

A store that fails or does not answer never ends a run: it goes on and is not kept, and the log and the envelope say so.
Only to take a run up the store must answer, since otherwise everything would be made again.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, NamedTuple

import anyio
from msgspec.structs import replace as change

from codecall.envelopes import CallRecord, ExecutionResult
from codecall.errors import CallKind, CodeCallError
from codecall.jsonio.decode import canonical_digest_async
from codecall.options import ResumeOptions
from codecall.quota import OVERHEAD, keeping
from codecall.resume.matching import PreviousCalls
from codecall.resume.store import MAX_CALLS, DamagedRecord, RunHeader, RunStore, State, StoredCall

logger = logging.getLogger("codecall")

RUN_ID: Final = re.compile(r"run_[A-Za-z0-9_-]{16,64}")
"""What names of runs look like."""

TAKE_UP_SECONDS: Final = 15.0
"""How long reading what is kept of a run may take."""

SLACK_S: Final = 10.0
"""Seconds after its time is up for which a run may still be ending."""

Admit = Callable[[CallKind, str], Awaitable[None]]
"""Whether the caller may make such a call now; raises what the call would."""


class ResumeError(CodeCallError):
    """A run cannot be taken up; nothing has run."""

    code = "CANNOT_RESUME"


class _Begun(NamedTuple):
    """A call that is being made."""

    number: int
    """Among those that are remembered."""
    call: StoredCall
    """As far as it is known."""


class RunMemory:
    """The memory of one run; a `CallMemory`.

    Args:
        options: where it is kept, and how much.
        run_id: of the run.
        owner: whose it is.
        lasts_s: seconds it may take at most.
        admit: whether a call may be made.
    """

    def __init__(self, options: ResumeOptions, *, run_id: str, owner: str, lasts_s: float, admit: Admit) -> None:
        self._options = options
        self._store = RunStore(options.store, options.ttl_s, options.max_value_chars)
        self._run_id = run_id
        self._lasts_s = lasts_s
        self._admit = admit
        self._header = RunHeader(1, run_id, owner, "running", ends=0.0)
        self._written = False
        """Whether there is a header in the store."""
        self._from = ""
        self._earlier = PreviousCalls()
        self._begun: dict[int, _Begun] = {}
        self._chars = 0
        """Of all values kept."""
        self._last = self._kept = 0
        self._keeping = keeping()
        self._share = self._keeping.share(owner, lasts_s + SLACK_S + options.ttl_s + 120)
        self._broken = False
        self._full = ""
        """Why not all of it is kept, though the store would have taken it."""

    async def resume(self, run_id: str, *, already_ended: bool = False) -> bool:
        """Answer calls from what is kept of that run.

        Args:
            run_id: of the earlier run; of this one, if it was begun before and its server was killed.
            known: whoever asks knows that the earlier run has ended: it is taken up however it did, if there is one.

        Returns:
            Whether there is one.

        Raises:
            CannotResume: there is no such run, or it cannot be taken up.
        """
        try:
            async with asyncio.timeout(TAKE_UP_SECONDS), self._keeping.turn(self._header.owner):
                if not already_ended:
                    self._not_too_many()
                header = await self._store.header(run_id) if RUN_ID.fullmatch(run_id) else None
                if header is None and already_ended:
                    return False
                header = self._checked(run_id, header, known=already_ended)
                calls = await self._store.calls(run_id, header)
                attempt = header.attempt + 1 if run_id == self._run_id else 0
                generation = header.generation + 1
                # A run that is begun again goes on as it was: to forget that it was would make its calls twice.
                if self._has_room(sum(len(call.value or "") + OVERHEAD for call in calls), always=already_ended):
                    await self._store.put_inherited(self._run_id, attempt, calls, lasts_s=self._lasts_s)
                    self._header = change(self._header, attempt=attempt, generation=generation, inherited=len(calls))
                    await self._begin()
                else:
                    self._header = change(self._header, attempt=attempt, generation=generation)
        except CodeCallError:
            raise
        except DamagedRecord:
            raise ResumeError(
                f"not all of what run '{run_id}' did is known any more",
                hint="Run the script from its beginning, without resumeFrom, if that does no harm.",
            ) from None
        except Exception as failure:
            logger.warning("the store of runs failed (%s); a run could not be taken up", type(failure).__name__)
            raise ResumeError(
                "the store of runs does not answer; nothing was run",
                hint="Try again later, or run without resumeFrom: that makes every call again.",
            ) from None
        self._from = run_id
        self._earlier = PreviousCalls(calls)
        self._chars = sum(len(call.value or "") for call in calls)
        self._keeping.reads(self._header.owner, self._earlier, self._chars)
        return True

    async def recall(self, record: CallRecord, input_json: str) -> str | None:
        """See `CallMemory.recall`."""
        self._last += 1
        number = self._last
        digest = await canonical_digest_async(input_json)
        found = self._earlier.match(record.called, record.name, digest, record.epoch)
        self._begun[record.number] = _Begun(
            number,
            StoredCall(
                called=record.called,
                name=record.name,
                digest=digest,
                epochs=((self._header.generation, record.epoch),),
                inherits=found.number,
                parted=found.parted,
            ),
        )
        if found.value is not None:
            await self._admit(record.called, record.name)
        return found.value

    async def keep(self, record: CallRecord, input_json: str, value: str | None) -> None:  # noqa: ARG002 - known since `recall`
        """See `CallMemory.keep`."""
        begun = self._begun.pop(record.number, None)
        if begun is None:
            return
        if self._broken or (self._full and not self._written):
            record.kept = False
            return
        call = begun.call
        if record.reused:
            call = StoredCall(state="reused", inherits=call.inherits, epochs=call.epochs)
        elif value is None:
            call = change(call, state="failed")
        elif why := self._too_much(value):
            record.kept = False
            call = change(call, state="lost")
            logger.warning("the value of a call is not kept for resumeFrom: %s", why)
        else:
            call = change(call, state="ok", value=value)
        if begun.number > MAX_CALLS - self._header.inherited:
            record.kept = False
            self._full = self._full or f"it made more than {MAX_CALLS:,} calls"
            return
        if not (fits := not self._full and self._has_room(len(call.value or "") + OVERHEAD)):
            record.kept = False
        with anyio.CancelScope(shield=True):
            await self._write(record, begun.number, call if fits else None)

    async def record_outcome(self, run: Awaitable[ExecutionResult]) -> ExecutionResult:
        """The result of `run`, which this is the memory of; says what was taken up, and what could not be kept."""
        try:
            result = await run
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._end("cancelled")
            raise
        finally:
            self._earlier = PreviousCalls()  # what was read takes room
        await self._end("ok" if result.success else "failed")
        warnings = result.warnings
        if not result.success and (self._broken or self._full):
            why = "the store of runs failed" if self._broken else self._full
            warnings = (*warnings, f"This run cannot be taken up with resumeFrom: {why}.")
        return replace(result, resumed_from=self._from, warnings=warnings)

    def _not_too_many(self) -> None:
        if self._keeping.reading(self._header.owner) >= self._options.max_caller_chars:
            why = "too many runs of yours that were taken up have not ended yet; nothing was run"
            raise ResumeError(why, hint="Wait until one of them has ended.")

    def _checked(self, run_id: str, header: RunHeader | None, *, known: bool) -> RunHeader:
        """The header, if the run can be taken up; a run of somebody else is none."""
        if header is None or header.owner != self._header.owner:
            raise ResumeError(
                f"there is no run '{run_id[:80]}' of yours that failed within the last {self._options.ttl_s} s",
                hint="Run the script from its beginning, without resumeFrom, if that does no harm.",
            )
        if known:
            return header
        if header.state == "ok":
            raise ResumeError(
                f"run '{run_id}' ended well; there is nothing to take up",
                hint="What it did is done. Run a new script without resumeFrom.",
            )
        seconds = header.ends - time.time()
        if header.state == "running" and seconds > 0:
            raise ResumeError(
                f"run '{run_id}' has not ended yet",
                hint=f"If nothing is heard of it, take it up in {seconds:.0f} s: then it has.",
            )
        return header

    def _has_room(self, chars: int, *, always: bool = False) -> bool:
        """Whether the caller has room for so much more; takes it."""
        most = self._options.max_caller_chars
        if self._keeping.take(self._share, chars, None if always else most):
            return True
        if not self._full:
            self._full = f"what is kept of your runs has {most:,} characters, and is kept for {self._options.ttl_s:,} s"
            logger.warning("run %s is not kept for resumeFrom: resume.max_caller_chars", self._run_id)
        return False

    def _too_much(self, value: str) -> str | None:
        options = self._options
        if len(value) > options.max_value_chars:
            return f"it has {len(value):,} characters; at most {options.max_value_chars:,} are"
        if self._chars + len(value) > options.max_run_chars:
            return f"those of one run may have {options.max_run_chars:,} characters together"
        self._chars += len(value)
        return None

    async def _write(self, made: CallRecord, number: int, call: StoredCall | None) -> None:
        """None: there is no room, which the record says, so that it is not taken for all if the server is killed."""
        try:
            if call is not None:
                if not self._written:
                    await self._begin()
                await self._put(number, call)
            elif self._written and self._header.whole:
                self._header = change(self._header, whole=False)
                await self._store.put_header(self._run_id, self._header)
        except Exception as failure:
            made.kept = False
            self._failed(failure)

    async def _put(self, number: int, call: StoredCall) -> None:
        if number <= MAX_CALLS:
            await self._store.put_call(self._run_id, self._header, number, call, lasts_s=self._lasts_s)
            self._kept += 1

    async def _begin(self) -> None:
        header = change(self._header, ends=time.time() + self._lasts_s + SLACK_S)
        await self._store.put_header(self._run_id, header)
        self._header, self._written = header, True

    async def _end(self, state: State) -> None:
        """Write how the run ended. Of one that made no calls and did not fail there is nothing to write."""
        if not self._written and state != "failed":
            return
        with anyio.CancelScope(shield=True):
            try:
                if state != "ok" and not self._broken:
                    # Calls that were given up: one of the same input is made in their place.
                    await asyncio.gather(*(self._put(begun.number, begun.call) for begun in self._begun.values()))
                whole = not self._broken and not self._full
                last = min(self._last, MAX_CALLS)
                header = change(self._header, state=state, last=last, kept=self._kept, whole=whole)
                await self._store.put_header(self._run_id, header)
            except Exception as failure:
                self._failed(failure)

    def _failed(self, failure: Exception) -> None:
        if not self._broken:
            logger.warning("the store of runs failed (%s); run %s is not kept", type(failure).__name__, self._run_id)
        self._broken = True
