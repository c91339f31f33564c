"""Keeps results that are too large for an answer when a script ends; their owner reads them later.

A result has one owner, the caller whose script returned it (`identity.py`). For anybody else it does not exist, as
an expired one does not. It is read in three ways: as the MCP resource that `results/resources.py` serves, page by
page in the same place, and by `getResult(handle)` in the owner's later scripts.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from codecall.catalog.inference.output_schemas import OBSERVED_KEYWORD, schema_from_shape
from codecall.catalog.inference.shapes import infer_shape
from codecall.envelopes import JsonObject, LargeResult
from codecall.errors import LimitExceeded, ResultNotFoundError, ToolCallError
from codecall.jsonio.check import is_json
from codecall.jsonio.incremental import JsonIndex, index_json
from codecall.key_value import StoreError
from codecall.options import ResultsOptions
from codecall.presets import Preset
from codecall.quota import Quota, QuotaExceededError, Reservation
from codecall.results.examples import usage_example
from codecall.results.languages import JAVASCRIPT, ReadingSyntax
from codecall.results.query import parse_part, read_part_json
from codecall.results.store import PIECE_GRACE_S, ResultMeta, ResultStore, entry_count

logger = logging.getLogger("codecall")

T = TypeVar("T")

URI_PREFIX: Final = "codecall://results/"
"""The prefix of the URIs of kept results; the handle follows."""

PREVIEW_CHARS: Final = 1_024
"""Characters of a result that its answer shows."""

MAX_MEMBERS_SHOWN: Final = 20
"""Members of a result that its answer names."""

ENTRY_OVERHEAD: Final = 1_024
"""Bytes that each entry in a store counts besides its text, so that many small entries are limited, too."""

_HANDLE: Final = re.compile(r"res_[0-9a-f]{40}")

_MAX_HANDLE_CHARS: Final = 1_024


def max_kept_bytes(options: ResultsOptions, preset: Preset) -> int:
    """Bytes a kept result may have: at most a quarter of the script's heap, in which it is made."""
    return min(options.max_bytes, preset.memory_mb * 1024 * 1024 // 4) if options.enabled else 0


def parse_handle(text: str) -> str | None:
    """The handle in `text`, a handle or a URI (also one of a server that mounts this one); None if it is neither."""
    if len(text) > _MAX_HANDLE_CHARS:
        return None
    last = text.rpartition("/")[2] if text.startswith("codecall://") else text
    return last if _HANDLE.fullmatch(last) else None


class ResultService:
    """Keeps and reads the results of all callers."""

    def __init__(self, options: ResultsOptions) -> None:
        self._options = options
        self._ttl_s = options.ttl_s
        self._store = ResultStore(options.store, options.ttl_s)
        self._quota = Quota()

    async def keep(
        self, owner: str, text: str, size: int, inline_bytes: int, syntax: ReadingSyntax = JAVASCRIPT
    ) -> LargeResult:
        """Keep a JSON text of `size` bytes, where an answer holds `inline_bytes`; its hint is in the language of
        `syntax`.

        Raises:
            LimitExceeded: no room is left, or the store fails.
        """
        if size > self._options.max_bytes:
            raise _not_kept(
                f"it has {size} bytes, and at most {self._options.max_bytes} are kept of one (results.max_bytes)"
            )
        entries = entry_count(len(text)) + 1
        reservation = self.reserve(owner, size + entries * ENTRY_OVERHEAD)
        handle = f"res_{secrets.token_hex(20)}"
        written = 0

        def on_write(count: int) -> None:
            nonlocal written
            written = count

        try:
            meta = ResultMeta(size, len(text), await _index(text))
            expires = datetime.now(UTC) + timedelta(seconds=self._ttl_s)
            await self._store.put(owner, handle, text, meta, on_write)
        except BaseException as failure:
            self._quota.shrink(reservation, reservation.size * written // entries)
            if not isinstance(failure, StoreError):
                raise
            log_store_failure("take a result", failure)
            raise LimitExceeded(
                f"The result of {size} bytes is too large for an answer, and the store for such results failed",
                code="OUTPUT_LIMIT",
                hint="Return less: filter, aggregate, or select the fields that are needed; or try again later.",
            ) from None
        return _large_result(handle, text, meta, expires, usage_example(handle, meta, text, inline_bytes, syntax))

    def reserve(self, owner: str, size: int) -> Reservation:
        """Reserve room for a result of `size` bytes, until it expires.

        Raises:
            LimitExceeded: no room is left; the message says why.
        """
        options = self._options
        try:
            return self._quota.reserve(
                owner,
                self._ttl_s + PIECE_GRACE_S,
                size,
                max_owned=options.max_caller_bytes,
                max_total=options.max_total_bytes,
            )
        except QuotaExceededError as failure:
            reason, option = "there is too little room left among all that are kept", "results.max_total_bytes"
            if failure.owned is not None:
                reason = f"your kept results take {failure.owned} of {options.max_caller_bytes} bytes"
                option = "results.max_caller_bytes"
            raise _not_kept(reason, f"; or wait until others have expired ({option})") from None

    async def meta(self, owner: str, text: str) -> tuple[str, ResultMeta] | None:
        """The handle that `text` is or ends with, and that result's metadata; None if this owner has no such result.

        Raises:
            StoreError: the store does not answer.
        """
        handle = parse_handle(text)
        meta = await self._store.meta(owner, handle) if handle is not None else None
        return (handle, meta) if handle is not None and meta is not None else None

    async def text(
        self, owner: str, handle: str, meta: ResultMeta, start: int = 0, end: int | None = None
    ) -> str | None:
        """The characters of a result from `start` to `end`; None if it has expired since.

        Raises:
            StoreError: the store does not answer.
        """
        return await self._store.text(owner, handle, meta, start, meta.chars if end is None else end)


@dataclass(frozen=True, slots=True)
class CallerResults:
    """The kept results of one caller, as their scripts see them; a `ResultStorage` of `sandbox/interfaces.py`."""

    results: ResultService
    """The results of all callers."""
    owner: str
    """The key of the caller."""
    max_value_bytes: int
    """Bytes of JSON that a script may read at once."""
    inline_bytes: int
    """See `ResultStorage.inline_bytes`."""
    syntax: ReadingSyntax = JAVASCRIPT
    """The language of the caller's scripts, for hints."""

    async def keep(self, text: str, size: int) -> LargeResult:
        """See `ResultStorage.keep`."""
        return await self.results.keep(self.owner, text, size, self.inline_bytes, self.syntax)

    async def fetch(self, handle: str, part: Mapping[str, object], *, max_bytes: int | None = None) -> str:
        """See `ResultStorage.fetch`."""
        request = parse_part(handle, part, self.syntax)
        stored = await _ask_store(handle, self.results.meta(self.owner, handle))
        if stored is None:
            raise _not_found(handle)
        stored_handle, meta = stored

        async def text(start: int, end: int) -> str:
            characters = await _ask_store(handle, self.results.text(self.owner, stored_handle, meta, start, end))
            if characters is None:
                raise _not_found(handle)
            return characters

        json = await read_part_json(request, meta, text, max_bytes or self.max_value_bytes)
        if not await is_json(json):
            # Somebody else has written into the store.
            raise _not_found(handle)
        return json


def log_store_failure(operation: str, failure: StoreError) -> None:
    """Log that the store did not perform `operation`, a verb phrase."""
    logger.warning("The store of large results did not %s: %s", operation, failure.reason)


async def _ask_store(handle: str, request: Awaitable[T]) -> T:
    try:
        return await request
    except StoreError as failure:
        log_store_failure("give a result", failure)
        message = "The store of kept results does not answer"
        raise ToolCallError(message, tool_name=handle, called="result", hint="Try again later.") from None


async def _index(text: str) -> JsonIndex:
    steps = index_json(text)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)


def _large_result(handle: str, text: str, meta: ResultMeta, expires: datetime, example: str) -> LargeResult:
    inferred = infer_shape(text, "")
    shape = None if inferred is None else schema_from_shape(inferred.shape, "", results=1, partial=inferred.partial)
    if shape is not None:
        del shape[OBSERVED_KEYWORD]
    omitted = meta.chars - PREVIEW_CHARS
    cut = f"…[the first {PREVIEW_CHARS} of {meta.chars} characters]" if omitted > 0 else ""
    return LargeResult(
        handle=handle,
        uri=URI_PREFIX + handle,
        size=meta.size,
        pages=meta.pages,
        expires=expires.isoformat(timespec="seconds").replace("+00:00", "Z"),
        preview=text[:PREVIEW_CHARS] + cut,
        shape=shape,
        items=meta.parts.items.count if meta.parts.items else None,
        members=_members(meta.parts),
        hint=f"Too large to show, so it is kept; preview and shape are of its beginning. {example}",
    )


def _members(parts: JsonIndex) -> JsonObject | None:
    if parts.members is None:
        return None
    summary: JsonObject = {}
    for name, member in list(parts.members.items())[:MAX_MEMBERS_SHOWN]:
        summary[name] = {"chars": member.end - member.start, **({"items": member.items.count} if member.items else {})}
    return summary


def _not_kept(reason: str, more: str = "") -> LimitExceeded:
    return LimitExceeded(
        f"The result is too large for an answer, and is not kept: {reason}",
        code="OUTPUT_LIMIT",
        hint=f"Return less: filter, aggregate, or select fields{more}.",
    )


def _not_found(handle: str) -> ResultNotFoundError:
    return ResultNotFoundError(f"Result '{handle:.100}' was not found", tool_name=handle, called="result")
