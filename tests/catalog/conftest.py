"""Tests that need the weights of a real model run only when they are asked for (`-m embedding`)."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests marked `embedding` out of runs that do not name their marker."""
    if "embedding" in str(config.option.markexpr):
        return
    heavy = [item for item in items if item.get_closest_marker("embedding") is not None]
    if heavy:
        config.hook.pytest_deselected(items=heavy)
        items[:] = [item for item in items if item not in heavy]
