"""What is stored of a run's calls is checked when it is read, and others have their turn meanwhile."""

from __future__ import annotations

import pytest
from key_value.aio.stores.memory import MemoryStore

from codecall.resume.store import DamagedRecordError, RunHeader, RunStore, StoredCall
from tests.loop_turns import assert_turns_below

LISTS = "[" + "[]," * 600_000 + "[]]"


async def stored(*values: str) -> tuple[RunStore, RunHeader]:
    """The store, and the header, of a run whose calls have given these values."""
    store = RunStore(MemoryStore(), ttl_s=60, max_value_chars=len(LISTS))
    header = RunHeader(1, "run", "ann", "failed", ends=0.0, last_call=len(values), stored_calls=len(values))
    for number, value in enumerate(values, 1):
        await store.put_call("run", header, number, StoredCall(state="ok", value=value), lasts_s=60)
    return store, header


async def test_large_values_are_checked_beside_the_event_loop():
    store, header = await stored(*[LISTS] * 5)
    assert [call.value for call in await store.calls("run", header)] == [LISTS] * 5
    await assert_turns_below(4, lambda: store.calls("run", header))


async def test_half_a_surrogate_pair_does_no_harm():
    store, header = await stored(r'["\ud83d"]')
    assert [call.value for call in await store.calls("run", header)] == [r'["\ud83d"]']


@pytest.mark.parametrize("value", ["", "[NaN]", r'"\ud83"', '"', "[" * 100_000])
async def test_what_is_no_json_is_damaged(value: str):
    store, header = await stored(value)
    with pytest.raises(DamagedRecordError):
        await store.calls("run", header)
