"""Fuzzing tells at the end what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests_security.fuzz.campaigns import Campaign

_REPORTS = pytest.StashKey[list[str]]()


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Campaign]]:
    """Makes the campaign of a target; what it did is shown when all is over, whatever the outcome."""
    made: list[Campaign] = []

    def make(target: str) -> Campaign:
        made.append(Campaign(target))
        return made[-1]

    yield make
    request.config.stash.setdefault(_REPORTS, []).extend(item.report() for item in made)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what the targets did and found."""
    reports = config.stash.get(_REPORTS, [])
    if reports:
        terminalreporter.section("fuzzing")
        for report in reports:
            terminalreporter.write_line(report)
