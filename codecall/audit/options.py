"""The form of a file for the records of runs, in options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field

from codecall.errors import OptionsError
from codecall.option_base import Options


class AuditFile(Options):
    """A file for the records of runs, as configuration files name it; see `JsonLinesSink`."""

    file: Annotated[str, Field(min_length=1)]
    """The file; its folder must exist."""
    max_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    """Size beyond which the file is moved to `FILE.1`, and that to `FILE.2`."""
    backups: int = Field(default=5, ge=1, le=1_000)
    """Number of such older files that are kept."""


def _audit_receiver(value: object) -> object:
    """A path stands for a file with the defaults, a mapping for one with others."""
    if callable(value) or isinstance(value, AuditFile):
        return value
    if not value or not isinstance(value, str | Mapping):
        raise ValueError("a path, a table with file, max_bytes and backups, or (in Python) a callable is needed")
    try:
        return AuditFile.read({"file": value} if isinstance(value, str) else cast("Any", value), where="")
    except OptionsError as failure:
        raise ValueError(failure.message) from None


AuditReceiver = Annotated[Callable[[Any], Any] | AuditFile, BeforeValidator(_audit_receiver)]
"""What may stand in `audit.sinks`."""
