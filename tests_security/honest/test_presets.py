"""Honest programs under the other presets: a stricter one refuses only what needs a switch that it has off.

`tests_security/test_attacks.py` runs every program here under its own preset. What a program needs is not written down:
it needs a switch when the guard refuses it with all the others on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from codecall.errors import LimitExceeded
from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox.agentscript import validate as guard
from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.parser.parse import parse
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.sandbox.enclave import Enclave
from codecall.testing import Program, mismatch, read_programs
from tests_security.attacking import Canaries, as_far_as_there_is_a_jail, attacked

PROGRAMS: Final = [
    program for file in sorted(Path(__file__).parent.glob("*.script.js")) for program in read_programs(file)
]
ALL: Final = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
SWITCHES: Final = ("allow_loops", "allow_regex", "allow_console", "allow_clock")
SAMPLE: Final = 8
"""Of the programs that a preset accepts, each eighth is run under it: they all run under their own elsewhere."""


@pytest.fixture(scope="module", autouse=True)
def read_once() -> Iterator[None]:
    """Each program is judged by many rules: the same tree each time, which the guard only looks at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "parse", cache(parse))
        yield


@cache
def is_refused(source: str, rules: Rules) -> bool:
    try:
        validate_javascript(source, rules)
    except InvalidScriptError:
        return True
    return False


def needs_of(program: Program) -> frozenset[str]:
    return frozenset(switch for switch in SWITCHES if is_refused(program.source, replace(ALL, **{switch: False})))


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_only_a_missing_switch_is_a_reason_to_refuse(preset: str) -> None:
    rules = Rules.from_limits(load_preset(preset))
    missing = {switch for switch in SWITCHES if not getattr(rules, switch)}
    wrong = [
        program.title for program in PROGRAMS if is_refused(program.source, rules) != bool(missing & needs_of(program))
    ]
    assert wrong == []


def test_most_honest_programs_need_no_switch_and_each_switch_is_needed() -> None:
    counts = Counter(switch for program in PROGRAMS for switch in needs_of(program))
    assert set(counts) == set(SWITCHES), counts
    assert sum(not needs_of(program) for program in PROGRAMS) > 250


@pytest.mark.parametrize("preset", ["locked_down", "experimental"])
async def test_they_end_the_same_under_another_preset(preset: str, canaries: Canaries) -> None:
    rules = Rules.from_limits(load_preset(preset))
    accepted = [program for program in PROGRAMS if not is_refused(program.source, rules)]
    async with Enclave(preset=preset, pool={"max_workers": 2}, **as_far_as_there_is_a_jail()) as enclave:
        for program in accepted[::SAMPLE]:
            result = await attacked(enclave, program.source, canaries)
            assert canaries.leaked(result) == []
            assert isinstance(result.error, LimitExceeded) or mismatch(program, result) is None, program.title
