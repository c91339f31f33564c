"""A FastMCP server as a program, started by a Python that has FastMCP loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codecall.gateway.config.options import StdioServer
from tests.loaded_python import LoadedPython

ASKING = Path(__file__).parent / "servers" / "asking.py"


@pytest.fixture
def asking_server(loaded_python: LoadedPython) -> Callable[..., StdioServer]:
    """Makes options of the server that asks, with others that are given."""

    def make(**options: Any) -> StdioServer:
        return StdioServer(command=loaded_python.executable, args=(str(ASKING),), **options)

    return make
