from __future__ import annotations

import pytest

from codecall.quota import NoFreeSlotError, Quota, QuotaExceededError, SlotPool


def test_there_is_room_again_when_a_reservation_has_expired():
    now = 0.0
    quota = Quota(lambda: now)
    reservation = quota.reserve("ann", 10)
    quota.grow(reservation, 90, max_owned=100)
    with pytest.raises(QuotaExceededError) as refused:
        quota.reserve("ann", 5, 20, max_owned=100)
    assert refused.value.owned == 90
    quota.reserve("bob", 5, 20, max_owned=100)
    now = 10.0
    quota.reserve("ann", 5, 100, max_owned=100)
    quota.grow(reservation, 90, max_owned=100)  # it has expired, and counts no more
    assert quota.owned_by("ann") == 100


def test_a_reservation_that_was_refused_changes_nothing():
    quota = Quota()
    with pytest.raises(QuotaExceededError):
        quota.reserve("ann", 10, 101, max_owned=100)
    assert quota.owned_by("ann") == 0
    quota.reserve("ann", 10, 100, max_owned=100)


def test_all_owners_together_leave_four_times_as_much_free_as_any_one_has():
    quota = Quota()
    quota.reserve("ann", 10, 20, max_total=100)
    with pytest.raises(QuotaExceededError) as refused:
        quota.reserve("bob", 10, 17, max_total=100)
    assert refused.value.owned is None
    quota.reserve("bob", 10, 16, max_total=100)


def test_a_reservation_without_a_time_lasts_until_it_is_shrunk():
    now = 0.0
    quota = Quota(lambda: now)
    reservation = quota.reserve("ann", None, 50)
    now = 1e12
    assert quota.owned_by("ann") == 50
    quota.shrink(reservation, 60)
    assert quota.owned_by("ann") == 50
    quota.shrink(reservation, 0)
    assert quota.owned_by("ann") == 0


def test_however_many_places_one_owner_takes_as_many_are_left_for_others():
    for most in range(1, 12):
        places = SlotPool(most)
        taken = max(1, (most + 1) // 2)
        for _ in range(taken):
            places.acquire("ann", alone=False)
        with pytest.raises(NoFreeSlotError):
            places.acquire("ann", alone=False)
        others = [places.acquire(f"other {number}", alone=False) for number in range(most - taken)]
        with pytest.raises(NoFreeSlotError, match=f"^{most} runs wait"):
            places.acquire("bob", alone=True)
        for place in others:
            places.release(place)
            places.release(place)
        assert (most > 1) == bool(others)


def test_an_owner_without_others_takes_all_places():
    places = SlotPool(3)
    for _ in range(3):
        places.acquire("ann", alone=True)
    with pytest.raises(NoFreeSlotError):
        places.acquire("ann", alone=True)
