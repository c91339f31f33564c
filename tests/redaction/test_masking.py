"""The marks of credentials in what a person, or an approver, decides about."""

from __future__ import annotations

import threading
import time
from functools import partial
from itertools import count

import anyio
import pytest

from codecall.redaction.masking import Masker, MaskingTimeoutError, QuestionMasker
from codecall.redaction.threaded import ThreadedCleaner
from tests.work import python_steps


def masked(**arguments: object) -> dict[str, object]:
    return QuestionMasker(environment=False).mask_input(arguments)


def test_no_mark_is_one_that_the_input_has_or_begins_with() -> None:
    note = "masked-credential-1 masked-credential-30 masked-credential-99999999999999"
    assert masked(note=note, tokens=[], token="abc", password="defg", api_key="abc") == {
        "note": note,
        "tokens": [],
        "token": "masked-credential-2 (3 characters)",
        "password": "masked-credential-4 (4 characters)",
        "api_key": "masked-credential-2 (3 characters)",
    }


@pytest.mark.parametrize("decoys", [False, True])
def test_twice_as_many_credentials_take_twice_as_long(decoys: bool) -> None:
    def rows(count: int) -> list[object]:
        notes = [f"masked-credential-{number}" for number in range(count if decoys else 0)]
        return [*notes, *({"token": f"secret{number}"} for number in range(count))]

    few, many = (python_steps(partial(masked, rows=rows(count))) for count in (1_000, 2_000))
    assert many < 2.5 * few


@pytest.mark.parametrize("data", [["ok"] * 100, {f"key {number}": number for number in range(100)}, [['["ok"]']] * 100])
def test_masking_ends_amid_a_value_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch, data: object) -> None:
    clock = count()
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    masker = Masker(deadline=50)
    with pytest.raises(MaskingTimeoutError):
        masker.mask(data, "", [])
    assert next(clock) == 51


async def test_whoever_is_cancelled_does_not_wait_for_the_thread() -> None:
    go_on, cleaner = threading.Event(), ThreadedCleaner()
    try:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(cleaner.run, partial(go_on.wait, 30))
                await anyio.sleep(0.01)
                scope.cancel()
        assert not go_on.is_set()
    finally:
        go_on.set()


@pytest.mark.parametrize("depth", [10, 300, 900, 100_000])
def test_a_text_of_nested_json_is_masked_however_deep_it_is(depth: int) -> None:
    key = "ghp_" + "a1B2" * 9
    text = "[" * depth + f'"{key}"' + "]" * depth
    masked = Masker(environment=False).mask({"of": text}, "", [])
    assert masked == {"of": text.replace(key, "masked-credential-1")}


@pytest.mark.parametrize(
    "text",
    [
        "got {{'password': '{}'}}",
        "got {{b'password': b'{}'}}",
        'got {{"body": "{{\\"password\\": \\"{}\\"}}"}}',
        "got <password>{}</password>",
        "got mysql -u ann -p{}",
    ],
)
def test_what_is_around_a_credential_in_a_text_stays(text: str) -> None:
    masker = Masker(environment=False)
    assert masker.mask([text.format("let%me-in"), "token=let%me-in"], "", []) == [
        text.format("masked-credential-1"),
        "token=masked-credential-1",
    ]
