"""The rows of the policy, all tables together."""

from __future__ import annotations

from collections.abc import Mapping

from codecall.sandbox.agentscript.policy import (
    GLOBALS,
    MEMBERS,
    NEVER_NAMES,
    NODES,
    PREFIXES,
    SOURCE,
    TYPE_PLACES,
    TYPESCRIPT,
    VARIANTS,
    Row,
)


def all_rows() -> tuple[Row, ...]:
    """Every row of every table."""
    tables: tuple[Mapping[str, Row], ...] = (
        NODES,
        VARIANTS,
        NEVER_NAMES,
        PREFIXES,
        GLOBALS,
        MEMBERS,
        SOURCE,
        TYPESCRIPT,
        TYPE_PLACES,
    )
    return tuple(row for table in tables for row in table.values())
