"""What belongs to one session of pytest: its preset, and the worker pools that its tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from codecall.testing.enclaves import SessionEnclaves

ENCLAVES = pytest.StashKey["SessionEnclaves"]()
"""Where the configuration of pytest holds the worker pools, once a test has needed one."""


def configured_preset(config: pytest.Config) -> str | None:
    """The preset of the command line or the configuration file; paths in the configuration are relative to the root."""
    command_line: str | None = config.getoption("codecall_preset", None)
    preset: str = command_line or config.getini("codecall_preset")
    if not preset:
        return None
    path = config.rootpath / preset
    return str(path) if command_line is None and path.suffix == ".toml" else preset


def session_enclaves(config: pytest.Config) -> SessionEnclaves:
    """The worker pools of this session."""
    if (enclaves := config.stash.get(ENCLAVES, None)) is None:
        from codecall.testing.enclaves import SessionEnclaves

        enclaves = config.stash[ENCLAVES] = SessionEnclaves()
    return enclaves


def display_path(path: Path, root: Path) -> str:
    """A path as messages show it: relative to the root if it is below."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
