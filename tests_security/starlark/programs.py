"""A Starlark program and how it ends."""

from __future__ import annotations

from typing import Any, NamedTuple

LIMITS = (
    "OUTPUT_LIMIT",
    "STACK_OVERFLOW",
    "STEP_LIMIT",
    "TIMEOUT",
    "TOOL_CALL_LIMIT",
    "WORKER_MEMORY_EXCEEDED",
    "WORKER_TIMEOUT",
)
"""Ends of what takes too much; which of them comes first, the machine may decide."""


class Program(NamedTuple):
    """One row of a table."""

    script: str
    value: object = None
    """What it returns, where it does not fail."""
    codes: tuple[str, ...] = ()
    """What it may fail with."""
    says: str = ""
    """A pattern in the message."""


def gives(script: str, value: Any) -> Program:
    return Program(script, value)


def fails(script: str, says: str = "", code: str = "EXECUTION_ERROR") -> Program:
    return Program(script, codes=(code,), says=says)


def refused(script: str, says: str = "", code: str = "VALIDATION_ERROR") -> Program:
    return Program(script, codes=(code,), says=says)


def malformed(script: str, says: str = "") -> Program:
    return Program(script, codes=("SYNTAX_ERROR",), says=says)


def stopped(script: str) -> Program:
    return Program(script, codes=LIMITS)
