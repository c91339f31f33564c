"""Resuming a failed run: its completed calls are answered from its record instead of being made again.

`matching.py` decides which calls match, `store.py` defines the record. Each call is checked against the rules of access
again before it is answered. A successful call is written before the script receives its value, so that a server that is
killed at any moment loses no call that its script knew of.

A store that fails or does not answer never ends a run: the run continues without being recorded, and the log and the
envelope say so. Only resuming a run needs an answer of the store, since otherwise all calls would be made again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, NamedTuple

import anyio
from msgspec.structs import replace as change

from codecall.envelopes import RUN_ID, CallRecord, ExecutionResult, Sources
from codecall.errors import CallKind, CodeCallError, RunDivergedError
from codecall.globs import display_name
from codecall.jsonio.decode import canonical_digest_async
from codecall.key_value import StoreError
from codecall.options import ResumeOptions
from codecall.quota import QuotaExceededError, Reservation
from codecall.resume.limits import RecordLimits
from codecall.resume.matching import PreviousCalls
from codecall.resume.processes import has_ended, process_identity
from codecall.resume.refusal import ResumeError
from codecall.resume.store import MAX_CALLS, DamagedRecordError, RunHeader, RunStore, State, StoredCall
from codecall.sandbox.interfaces import BLOCK_REFERENCE

logger = logging.getLogger("codecall")

LOAD_TIMEOUT_S: Final = 15.0
"""Seconds that reading the record of a run may take, and that it may wait for its turn and for memory before."""

SLACK_S: Final = 10.0
"""Seconds that a run may take to end after its time is up."""

ENTRY_OVERHEAD: Final = 512
"""Characters that each entry in a store counts besides its value, so that many small entries have a limit too."""

CheckAccess = Callable[[CallKind, str], Awaitable[str]]
"""Checks whether the caller may make a call now, and gives the name of what it reaches; raises the error of that call
if not."""


class RunMemory:
    """Records the calls of one run, and answers them from the record of the run that it resumes; a `CallMemory`.

    Args:
        options: where records are stored, and how much of them.
        run_id: the id of this run.
        owner: the caller of the run, as `client_key`.
        lasts_s: most seconds that the run may take.
        admit: checks whether a call may be made.
        resumable: whether clients may name the run in `resumeFrom`.
    """

    def __init__(
        self,
        options: ResumeOptions,
        *,
        run_id: str,
        owner: str,
        lasts_s: float,
        admit: CheckAccess,
        resumable: bool = True,
    ) -> None:
        self._options = options
        self._store = RunStore(options.store, options.ttl_s, options.max_value_chars)
        self._run_id = run_id
        self._lasts_s = lasts_s
        self._admit = admit
        self._resumable = resumable
        self._header = RunHeader(1, run_id, owner, "running", ends=0.0, process=process_identity())
        self._has_header = False  # whether that is in the store
        self._resumed_from = ""
        self._previous = PreviousCalls()
        self._expects: Callable[[str, str], bool] | None = None
        self._failed = Counter[tuple[str, str, str]]()
        self._open_calls: dict[int, _OpenCall] = {}
        self._stored_chars = 0
        """Characters of all values of this run in the store."""
        self._stored_bytes = 0
        """Bytes of memory that its record takes when it is loaded."""
        self._last_call = self._stored_calls = 0
        self._limits = RecordLimits.of_running_loop()
        self._reservation = self._limits.stored.reserve(owner, lasts_s + SLACK_S + options.ttl_s + 120)
        self._has_failed = self._has_lost = False
        self._store_failed = False
        self._not_stored_reason = ""
        """Why a part of the run is not stored although the store works."""

    def unmatched(self) -> list[str]:
        """See `CallMemory.unmatched`."""
        return self._previous.unmatched()

    def recorded_calls(self) -> int | None:
        """See `CallMemory.recorded_calls`."""
        is_missing = self._has_lost or self._store_failed or self._not_stored_reason
        return None if is_missing else self._stored_calls

    @property
    def is_stored(self) -> bool:
        """Whether calls of the run are stored, and none is missing from its record but for its value."""
        return self._stored_calls > 0 and not (self._store_failed or self._not_stored_reason)

    def is_whole(self) -> bool:
        """See `CallMemory.is_whole`."""
        return self.recorded_calls() is not None and not self._has_failed

    async def resume(
        self,
        run_id: str,
        *,
        already_ended: bool = False,
        expects: Callable[[str, str], bool] | None = None,
        at_least: int = 0,
    ) -> bool:
        """Answers calls from the record of that run.

        Args:
            run_id: the earlier run; this run, if it was started before and its server was killed.
            already_ended: whether the earlier run has certainly ended; it is then resumed however it ended.
            expects: whether a call with this name and digest of its input may be made anew; None: any may.
            at_least: calls that the record must have.

        Returns:
            Whether there is a record.

        Raises:
            ResumeError: the run does not exist, or cannot be resumed.
        """
        room: Reservation | None = None
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S) as timeout, self._limits.turn(self._header.owner):
                header = await self._store.header(run_id) if RUN_ID.fullmatch(run_id) else None
                if header is None and already_ended and not at_least:
                    self._expects = expects
                    return False
                header = self._check_header(run_id, header, already_ended=already_ended)
                # A run that is started again continues as it was: without its record its calls would be made twice.
                room = await self._limits.wait_for_room(
                    self._header.owner,
                    header.size,  # 0 of a run whose server was killed: what is being read comes on top
                    max_owned=None if already_ended else self._options.max_caller_chars,
                )
                timeout.reschedule(asyncio.get_running_loop().time() + LOAD_TIMEOUT_S)
                try:
                    async with self._limits.loads:
                        calls = await self._load(run_id, header, at_least, unlimited=already_ended)
                except BaseException:
                    self._limits.release(room)
                    raise
                self._previous = PreviousCalls(calls)
                self._stored_bytes = sum(call.memory_bytes for call in calls)
                self._limits.hold(room, self._stored_bytes, self._previous)
        except CodeCallError:
            raise
        except DamagedRecordError:
            raise ResumeError(
                f"the record of run '{run_id}' is incomplete",
                hint="Run the script from its beginning, without resumeFrom, if that does no harm.",
            ) from None
        except Exception as failure:
            if room is None and isinstance(failure, TimeoutError):
                raise ResumeError(
                    "too many resumed runs have not ended yet; nothing was run",
                    hint="Wait until some of them have ended, and send it again.",
                ) from None
            logger.warning("the store of runs failed (%s); a run could not be resumed", _reason(failure))
            raise ResumeError(
                "the store of runs does not answer; nothing was run",
                hint="Try again later, or run without resumeFrom: that makes every call again.",
            ) from None
        if expects is not None and any(call.state == "lost" for call in calls):
            raise ResumeError(
                f"run '{run_id}' has made calls whose values are not kept", hint="Run it from its beginning."
            )
        self._expects = expects
        self._has_failed = any(call.state == "failed" for call in calls)
        self._has_lost = any(call.state == "lost" for call in calls)
        self._failed = Counter((call.called, call.name, call.digest) for call in calls if call.state == "failed")
        self._resumed_from = run_id
        self._stored_chars = sum(len(call.value or "") for call in calls)
        return True

    async def _load(self, run_id: str, header: RunHeader, at_least: int, *, unlimited: bool) -> list[StoredCall]:
        """Reads the calls of a record, and writes them into that of this run."""
        calls = await self._store.calls(run_id, header, at_least)
        attempt = header.attempt + 1 if run_id == self._run_id else 0
        self._header = change(self._header, attempt=attempt, generation=header.generation + 1)
        size = sum(call.chars + ENTRY_OVERHEAD for call in calls)
        if self._reserve(size, unlimited=unlimited):
            await self._store.put_inherited(self._run_id, attempt, calls, lasts_s=self._lasts_s)
            self._header = change(self._header, inherited=len(calls))
            await self._put_header()
        return calls

    async def recall(self, record: CallRecord, input_json: str) -> str | None:
        """See `CallMemory.recall`."""
        self._last_call += 1
        number = self._last_call
        digest = await canonical_digest_async(input_json)
        match = self._previous.match(record.called, record.name, digest, record.epoch)
        if match.value is None and (expects := self._expects) is not None:
            self._check_path(record, digest, expects)
        self._open_calls[record.number] = _OpenCall(
            number,
            StoredCall(
                called=record.called,
                name=record.name,
                digest=digest,
                epochs=((self._header.generation, record.epoch),),
                inherits=match.number,
                diverged=match.diverged,
            ),
        )
        if match.value is not None:
            name = await self._admit(record.called, record.name)
            record.read_as = name if record.called == "resource" else None
            record.made_of = None if match.made_of is None else Sources(set(match.made_of))
        return match.value

    def _check_path(self, record: CallRecord, digest: str, expects: Callable[[str, str], bool]) -> None:
        """Refuse a call that the earlier run neither made nor waited for. One that failed there is made again."""
        if self._failed[call := (record.called, record.name, digest)]:
            self._failed[call] -= 1
        elif not expects(record.name, digest):
            error = RunDivergedError(
                f"{record.called.capitalize()} '{display_name(record.name)}' was not called: the script went on from "
                "its record, and took another path than before",
                tool_name=record.name,
                called=record.called,
                details={"made": {"name": record.name, "line": record.line}, "expected": self._previous.unmatched()},
            )
            error.location = record.location
            raise error

    async def keep(self, record: CallRecord, input_json: str, value: str | None) -> None:  # noqa: ARG002 - known since `recall`
        """See `CallMemory.keep`."""
        if (open_call := self._open_calls.pop(record.number, None)) is None:
            return
        if self._store_failed or (self._not_stored_reason and not self._has_header):
            record.kept = False
            return
        call = open_call.call
        if record.reused:
            call = StoredCall(state="reused", inherits=call.inherits, epochs=call.epochs)
        elif value is None:
            self._has_failed = True
            call = change(call, state="failed")
        elif reason := self._why_not_kept(value):
            record.kept, self._has_lost = False, True
            call = change(call, state="lost")
            logger.warning("the value of a call is not kept for resumeFrom: %s", reason)
        else:
            sources = record.made_of
            made_of = None if sources is None or not sources.is_complete else tuple(sorted(sources.names))
            call = change(call, state="ok", value=value, made_of=made_of)
        if open_call.number > MAX_CALLS - self._header.inherited:
            record.kept = False
            self._not_stored_reason = self._not_stored_reason or f"it made more than {MAX_CALLS:,} calls"
            return
        if not (fits := not self._not_stored_reason and self._reserve(call.chars + ENTRY_OVERHEAD)):
            record.kept = False
        with anyio.CancelScope(shield=True):
            await self._store_call(record, open_call.number, call if fits else None)

    async def record_outcome(self, run: Awaitable[ExecutionResult]) -> ExecutionResult:
        """Awaits the run and records its outcome; the result says what was resumed, and what could not be stored.

        Args:
            run: the run whose calls are recorded here.
        """
        try:
            result = await run
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._finish("cancelled")
            raise
        finally:
            self._previous = PreviousCalls()  # the loaded record takes memory
        await self._finish("ok" if result.success else "failed")
        warnings = result.warnings
        if not result.success and self._resumable and (self._store_failed or self._not_stored_reason):
            reason = "the store of runs failed" if self._store_failed else self._not_stored_reason
            warnings = (*warnings, f"This run cannot be resumed with resumeFrom: {reason}.")
        return replace(result, resumed_from=self._resumed_from, warnings=warnings)

    def release(self) -> None:
        """Give back what the run has reserved: its record has been deleted."""
        self._limits.stored.shrink(self._reservation, 0)

    def _check_header(self, run_id: str, header: RunHeader | None, *, already_ended: bool) -> RunHeader:
        """Returns the header if the run can be resumed; a run of another caller counts as missing."""
        if header is None and already_ended:
            raise DamagedRecordError
        if header is None or header.owner != self._header.owner:
            raise ResumeError(
                f"there is no run '{run_id[:80]}' of yours that failed within the last {self._options.ttl_s} s",
                hint="Run the script from its beginning, without resumeFrom, if that does no harm.",
            )
        if already_ended:
            return header
        if header.state == "ok":
            raise ResumeError(
                f"run '{run_id}' succeeded; there is nothing to resume",
                hint="Its calls have taken effect. Run a new script without resumeFrom.",
            )
        seconds = header.ends - time.time()
        if header.state == "running" and seconds > 0 and not has_ended(header.process):
            raise ResumeError(
                f"run '{run_id}' has not ended yet",
                hint=f"If it does not answer, resume it in {seconds:.0f} s: it has ended then.",
            )
        return header

    def _reserve(self, chars: int, *, unlimited: bool = False) -> bool:
        """Reserves more characters of the caller's quota; returns False if it is exhausted."""
        max_chars = self._options.max_caller_chars
        try:
            self._limits.stored.grow(self._reservation, chars, max_owned=None if unlimited else max_chars)
        except QuotaExceededError:
            if not self._not_stored_reason:
                ttl_s = self._options.ttl_s
                self._not_stored_reason = (
                    f"the stored calls of your runs have reached {max_chars:,} characters, and stay for {ttl_s:,} s"
                )
                logger.warning("run %s is not kept for resumeFrom: resume.max_caller_chars", self._run_id)
            return False
        return True

    def _why_not_kept(self, value: str) -> str | None:
        options = self._options
        if "block:" in value and BLOCK_REFERENCE.search(value) is not None:
            return "it has content blocks, which end with their run"
        if len(value) > options.max_value_chars:
            return f"it has {len(value):,} characters; at most {options.max_value_chars:,} are kept"
        if self._stored_chars + len(value) > options.max_run_chars:
            return f"the values of one run may have {options.max_run_chars:,} characters together"
        self._stored_chars += len(value)
        return None

    async def _store_call(self, record: CallRecord, number: int, call: StoredCall | None) -> None:
        """Writes one call. None stands for a call beyond the quota: the header is then marked incomplete, so that the
        record does not count as complete if the server is killed."""
        try:
            if call is not None:
                if not self._has_header:
                    await self._put_header()
                await self._put(number, call)
            elif self._has_header and self._header.complete:
                self._header = change(self._header, complete=False)
                await self._store.put_header(self._run_id, self._header)
        except Exception as failure:
            record.kept = False
            self._on_store_error(failure)

    async def _put(self, number: int, call: StoredCall) -> None:
        if number <= MAX_CALLS:
            await self._store.put_call(self._run_id, self._header, number, call, lasts_s=self._lasts_s)
            self._stored_calls += 1
            self._stored_bytes += call.memory_bytes

    async def _put_header(self) -> None:
        header = change(self._header, ends=time.time() + self._lasts_s + SLACK_S)
        await self._store.put_header(self._run_id, header)
        self._header, self._has_header = header, True

    async def _finish(self, state: State) -> None:
        """Writes how the run ended, unless it made no calls and did not fail."""
        if not self._has_header and state != "failed":
            return
        with anyio.CancelScope(shield=True):
            try:
                if state != "ok" and not self._store_failed:
                    # Abandoned calls: one of the same input takes their place.
                    await asyncio.gather(*(self._put(entry.number, entry.call) for entry in self._open_calls.values()))
                complete = not self._store_failed and not self._not_stored_reason
                last = min(self._last_call, MAX_CALLS)
                header = change(
                    self._header,
                    state=state,
                    last_call=last,
                    stored_calls=self._stored_calls,
                    complete=complete,
                    size=self._stored_bytes,
                )
                await self._store.put_header(self._run_id, header)
            except Exception as failure:
                self._on_store_error(failure)

    def _on_store_error(self, failure: Exception) -> None:
        if not self._store_failed:
            logger.warning("the store of runs failed (%s); run %s is not kept", _reason(failure), self._run_id)
        self._store_failed = True


class _OpenCall(NamedTuple):
    """A call under way: its number among the recorded calls, and what is stored of it, without its outcome."""

    number: int
    call: StoredCall


def _reason(failure: Exception) -> str:
    return failure.reason if isinstance(failure, StoreError) else type(failure).__name__
