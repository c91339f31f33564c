"""Tools that ask many questions at once: they are counted and measured before any is made fit to be shown."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ListRootsRequest

from codecall.redaction import questions
from codecall.redaction.questions import MAX_SHOWN_CHARS
from tests.approvals.conftest import Office, Person

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
SCRIPT = "try { return await callTool('greet', {}) } catch (error) { return [error.code, error.message] }"


def question(message: str) -> ElicitRequest:
    """A form with this text."""
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=FORM))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Characters of the texts that are made visible."""
    sizes, visible = list[int](), questions.visible

    def counted(text: str) -> str:
        sizes.append(len(text))
        return visible(text)

    monkeypatch.setattr(questions, "visible", counted)
    return sizes


async def ask(mode: str, requests: list[Any], person: Person, **options: Any) -> Any:
    """What a script gets whose tool asks this."""
    office = Office({"rules": [], **options})

    @office.server.tool
    async def greet() -> Any:
        """Ask."""
        named = {str(number): request for number, request in enumerate(requests)}
        return InputRequiredResult(input_requests=named, request_state="asked")

    return (await office.execute(SCRIPT, person, mode=mode))["result"]


MODES = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@MODES
async def test_more_questions_than_a_run_may_ask_are_not_begun(mode: str, shown: list[int]) -> None:
    person = Person("cancel")
    code, message = await ask(mode, [question("\n" * 15_000)] * 900, person, max_questions=3)
    assert code == "INPUT_REQUIRED"
    assert message.endswith("the run has asked 0 questions already, and may ask 3 more, not 900")
    assert (person.questions, shown) == ([], [])


@MODES
async def test_questions_that_are_too_long_together_are_not_asked(
    mode: str, shown: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    person = Person("cancel")
    code, _ = await ask(mode, [question("\n" * (MAX_SHOWN_CHARS // 2))] * 2, person)
    assert (code, person.questions, shown) == ("INPUT_REQUIRED", [], [])
    (logged,) = [record.getMessage() for record in caplog.records if record.name == "codecall"]
    assert "the 2 questions have 16,5" in logged


@MODES
async def test_the_first_question_that_cannot_be_passed_on_is_the_last_looked_at(
    mode: str, shown: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    hidden = ElicitRequest(
        params=ElicitRequestFormParams(
            message="Who?", requested_schema={"type": "object", "properties": {"\u2800": {"type": "string"}}}
        )
    )
    for first in (ListRootsRequest(), hidden):  # this client has no folders
        person = Person("cancel")
        shown.clear()
        code, _ = await ask(mode, [first, *[question("x" * 100)] * 10], person)
        assert (code, person.questions) == ("INPUT_REQUIRED", [])
        assert 100 not in shown
    assert len([record for record in caplog.records if record.name == "codecall"]) == 1
