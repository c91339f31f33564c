"""A script that is too long is refused as its worker would refuse it, before anything reads all of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from codecall import Enclave
from codecall.sandbox.agentscript.parser.parse import prescan
from codecall.sandbox.agentscript.policy import MAX_SCRIPT_BYTES
from codecall.sandbox.enclave import excess_error
from codecall.sandbox.host.outcomes import LineIndex
from tests.work import python_steps

TOO_LONG = {
    "one line": "return 1 // " + "a" * MAX_SCRIPT_BYTES,
    "blank lines": "return 1\n" + "\n" * MAX_SCRIPT_BYTES,
    "the last character": "\n" * MAX_SCRIPT_BYTES + "a",
    "wide characters": "//é\n" * (MAX_SCRIPT_BYTES // 4),
    "carriage returns": "ab\r\n" * MAX_SCRIPT_BYTES,
    "between the halves of a line end": "\r\n" * MAX_SCRIPT_BYTES,
    "after a carriage return": " " * (MAX_SCRIPT_BYTES - 1) + "\r\n\n" * 9,
}


@pytest.mark.parametrize("script", TOO_LONG.values(), ids=TOO_LONG)
def test_the_server_says_what_the_worker_would(script: str) -> None:
    error, (finding,) = excess_error(script), prescan(script)
    assert error is not None
    lines = LineIndex(script)
    assert (error.message, error.kind, error.hint) == (finding.message, finding.kind, finding.hint)
    assert error.location == lines.location(finding.offset)
    assert error.location is not None
    assert error.excerpt == lines.excerpt(error.location)


def test_a_script_of_the_full_length_is_none() -> None:
    assert excess_error(" " * MAX_SCRIPT_BYTES) is None
    assert excess_error("é" * (MAX_SCRIPT_BYTES // 2)) is None


def test_how_long_it_is_makes_no_difference() -> None:
    steps = [python_steps(lambda size=size: excess_error("\n" * size)) for size in (70_000, 700_000)]
    assert all(few == many for few, many in pairwise(steps))


@pytest.mark.parametrize("language", ["javascript", "starlark"])
async def test_no_worker_gets_it(language: str) -> None:
    if language == "starlark":
        pytest.importorskip("starlark")
    script = "x = 1\n" * 20_000
    async with Enclave(starlark=language == "starlark") as enclave:
        result = await enclave.execute(script, language=language)  # type: ignore[arg-type]
        checked = await enclave.execute(script, language=language, dry_run=True)  # type: ignore[arg-type]
        assert enclave.pool.pids() == [] or not any(worker.runs for worker in enclave.pool.workers)
    assert (result.status, result.error and result.error.code) == ("illegal_access", "VALIDATION_ERROR")
    report: Any = checked.value
    assert report["valid"] is False
    assert result.error is not None
    assert report["findings"] == [result.error.as_dict()]
    assert report["manifest"]["size"] == {"bytes": len(script), "maxBytes": MAX_SCRIPT_BYTES}
