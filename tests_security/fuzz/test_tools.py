"""The tools of the fuzz targets: what they would find is found, and a finding becomes short."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any, cast

import pytest
import quickjs  # pyright: ignore[reportMissingTypeStubs]

from codecall.sandbox import wire
from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.validate import validate_javascript
from tests_security.fuzz.campaigns import Campaign, Finding, shortest
from tests_security.fuzz.choices import Choices
from tests_security.fuzz.engines import ALL
from tests_security.fuzz.frames import fine, plan
from tests_security.fuzz.programs import program
from tests_security.fuzz.seams import FOUND, HEAD, hostile_script

STUBS = """
var said = '', log;
var callTool = async (n, v) => v, getTool = (n) => ({}), __safe_parallel = async (f) => f, codecallContext = {};
var console = { log: (...a) => { said += a.join(' ') }, error: () => 0 };
"""


def said_in_a_bare_engine(body: str) -> str:
    """What a hostile program logs in an engine from which nothing was taken away."""
    engine = cast("Any", quickjs).Context()
    engine.eval(STUBS)
    engine.set_time_limit(5)
    engine.eval(f'(function(){{"use strict";return async()=>{{{HEAD}{body}\n}}}})()().catch(() => 0)')
    while engine.execute_pending_job():
        pass
    return engine.get("said")


@pytest.mark.parametrize(
    ("body", "way"),
    [
        ("probe(() => 1)", "text runs"),
        ("probe([])", "text runs"),
        ("probe(eval)", "an eval"),
        ("probe(globalThis)", "the global object"),
        ("Object.groupBy([1], function () { probe(this) })", "the global object"),
        ("[][P].polluted = 1; check()", "a prototype is changed"),
        ("Object.keys = 1; check()", "a built-in is changed"),
        ("deep()", "a limit was swallowed"),
    ],
)
def test_a_way_out_is_found_where_there_is_one(body: str, way: str):
    assert f"{FOUND} {way}" in said_in_a_bare_engine(body)


def test_nothing_is_found_where_there_is_nothing():
    assert said_in_a_bare_engine("check(); probe(null); probe(Object.create(null)); return [log]") == ""
    assert FOUND not in HEAD


def test_hostile_scripts_are_accepted_and_many():
    rng, accepted, seen = random.Random(1), 0, set[str]()
    for _ in range(200):
        body = hostile_script(Choices(rng.randbytes(150)))
        seen.add(body)
        try:
            validate_javascript(HEAD + body, ALL)
        except InvalidScriptError:
            continue
        accepted += 1
    assert accepted > 150
    assert len(seen) > 195


def test_plans_reach_every_answer_of_the_decoder():
    rng, counts = random.Random(1), Counter[str]()
    for _ in range(300):
        for chunk in plan(Choices(rng.randbytes(100))):
            try:
                counts[type(wire.decode_worker_message(chunk[wire.HEADER.size :])).__name__] += 1
            except wire.InvalidMessage:
                counts["refused"] += 1
    assert {"Done", "Calls", "Ask", "Ready", "refused"} <= set(counts), counts
    assert isinstance(wire.decode_worker_message(fine()[0][wire.HEADER.size :]), wire.Done)


async def test_a_finding_becomes_short():
    rng = random.Random(3)
    text = "\n".join(program(Choices(rng.randbytes(100))) for _ in range(3)) + "\nlet a = 'needle' + 1;\n"

    async def shows(candidate: str) -> bool:
        return "needle" in candidate

    assert await shortest(text, shows) == "needle"


async def test_a_campaign_keeps_each_finding_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.setenv("FUZZ_CORPUS", str(tmp_path))
    monkeypatch.setenv("FUZZ_MINUTES", "1")
    monkeypatch.setenv("FUZZ_SEED", "7")
    run = Campaign("wire")

    async def again(candidate: str) -> str | None:
        return "value 12 is wrong" if "bad" in candidate else None

    for what, text in (("value 1 is wrong", "a; bad; b"), ("value 22 is wrong", "bad"), ("other", "bad")):
        await run.found(Finding(what, text, 7), again)
    assert [finding.program for finding in run.findings.values()] == ["bad", "bad"]
    assert run.counts["findings seen again"] == 1
    saved = sorted(tmp_path.iterdir())
    assert len(saved) == 2
    assert saved[0].read_text().endswith("bad")
    assert 0 < run.left <= run.seconds == 60 * 0.15
    assert run.random(1).random() == Campaign("wire").random(1).random()
    assert json.dumps(run.report()).count("FOUND") == 2
    with pytest.raises(AssertionError, match="2 findings"):
        run.check()
