"""Sinks for records of runs: Python's logging, a file of JSON lines, OpenTelemetry's logs. Any callable is one too."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from codecall.audit.events import AuditEvent
from codecall.errors import OptionsError
from codecall.redaction.clean import well_formed

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

_INT64: Final = 2**63
"""Integers of attributes are smaller, and negative ones no smaller than its negative."""

AUDIT_LOGGER: Final = "codecall.audit"
"""The logger that receives records by default."""


class LoggingSink:
    """Writes records to Python's logging: the message is one line of JSON, `record.codecall` the same as a mapping.

    Args:
        logger: Name of the logger.
        level: Level of all records.
    """

    def __init__(self, logger: str = AUDIT_LOGGER, *, level: int = logging.INFO) -> None:
        self._logger = logging.getLogger(logger)
        self._level = level

    @property
    def enabled(self) -> bool:
        """Whether the logger takes records of this level; otherwise none are created."""
        return self._logger.isEnabledFor(self._level)

    def __call__(self, event: AuditEvent) -> None:
        """Logs the event."""
        self._logger.log(self._level, "%s", event.as_json(), extra={"codecall": event.as_dict()})


class JsonLinesSink:
    """Writes records as lines of JSON to a file, and rotates it when it has grown too large.

    `audit.jsonl` is the newest file, `audit.jsonl.1` the one before it. Only their owner can read the files. If another
    program moves the file (logrotate), a new one is created. Each process needs a file of its own.

    Args:
        path: The file, which is no link; its folder must exist.
        max_bytes: Size beyond which the file is rotated.
        backups: Number of rotated files that are kept; the oldest is replaced.

    Raises:
        OptionsError: a number is out of range, the folder does not exist, or the file is a link.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = 64 * 1024 * 1024, backups: int = 5) -> None:
        if max_bytes < 1 or backups < 1:
            raise OptionsError("audit: JsonLinesSink: max_bytes and backups must be 1 or more")
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise OptionsError(f"audit: JsonLinesSink: there is no folder {str(self._path.parent)!r}")
        if self._path.is_symlink():
            raise OptionsError(f"audit: JsonLinesSink: {str(path)!r} is a link", hint="Name the file it leads to.")
        self._max_bytes = max_bytes
        self._backups = backups
        self._lock = threading.Lock()

    def __call__(self, event: AuditEvent) -> None:
        """Appends the event to the file.

        Raises:
            OSError: the line cannot be written.
        """
        line = f"{event.as_json()}\n".encode("ascii")
        with self._lock:
            try:
                size = self._path.stat().st_size
            except FileNotFoundError:
                size = 0
            if size and size + len(line) > self._max_bytes:
                self._rotate()
            # Opened for every line: if the file was moved or removed, the line goes to a new one of that name.
            with open(self._path, "a+b", buffering=0, opener=_private) as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":
                        line = b"\n" + line  # the one before it was torn: a full disk, a killed process
                if (written := file.write(line)) != len(line):
                    raise OSError(f"{written} of {len(line)} bytes were written")

    def _rotate(self) -> None:
        for number in range(self._backups - 1, 0, -1):
            older = self._backup(number)
            if older.exists():
                older.replace(self._backup(number + 1))
        self._path.replace(self._backup(1))

    def _backup(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


class OpenTelemetrySink:
    """Emits records as OpenTelemetry log records: the event's name, its fields as attributes, in the event's span.

    Args:
        provider: The provider of the logger; None for OpenTelemetry's global provider.

    Raises:
        OptionsError: the installed OpenTelemetry is too old to have such logs.
    """

    def __init__(self, provider: LoggerProvider | None = None) -> None:
        try:
            from opentelemetry._logs import LogRecord, SeverityNumber, get_logger
        except ImportError as missing:
            raise OptionsError(f"audit: OpenTelemetrySink needs a newer opentelemetry-api: {missing}") from None
        self._record = LogRecord
        self._logger = get_logger("codecall", logger_provider=provider)
        self._info, self._warn = SeverityNumber.INFO, SeverityNumber.WARN

    def __call__(self, event: AuditEvent) -> None:
        """Emits the event."""
        blocked = event.name.endswith((".blocked", ".lost"))
        context = None
        if (trace := event.trace) is not None:
            span = SpanContext(trace.trace_id, trace.span_id, is_remote=False, trace_flags=TraceFlags(trace.flags))
            context = set_span_in_context(NonRecordingSpan(span))
        values = {"run_id": event.run_id, "caller": event.caller, **event.fields}
        self._logger.emit(
            self._record(
                timestamp=int(event.time * 1e9),
                context=context,
                severity_number=self._warn if blocked else self._info,
                severity_text="WARN" if blocked else "INFO",
                body=event.name,
                attributes={f"codecall.{key}": _attribute(value) for key, value in values.items() if value is not None},
                event_name=event.name,
            )
        )


def _attribute(value: object) -> Any:
    """Returns a value in a form that exporters can encode: one that they cannot is left out of the record."""
    if isinstance(value, float) or (isinstance(value, int) and -_INT64 <= value < _INT64):
        return value
    return well_formed(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
