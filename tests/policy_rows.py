"""The rows of the policy, all tables together."""

from __future__ import annotations

from codecall.cli.commands.policy import TABLES
from codecall.sandbox.agentscript.policy import Row


def all_rows() -> tuple[Row, ...]:
    """Every row of every table."""
    return tuple(row for table in TABLES.values() for row in table.values())
