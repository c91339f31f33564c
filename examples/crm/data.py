"""The CRM's rows, made from a fixed seed: the same ones on every machine, and no need to ship a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from random import Random
from typing import TypeVar, get_args

from examples.crm.models import ActivityKind, Country, Industry, OrderStatus, Stage, Team

TODAY = date(2026, 6, 30)
"""The day on which the made history ends. Fixed, so that answers do not depend on the calendar."""

COUNTS = {"users": 60, "companies": 400, "deals": 1_200, "activities": 2_500, "orders": 2_400}
"""Rows made for each table."""

HISTORY_DAYS = 720
"""How far back the history goes."""

# fmt: off
_FIRST = (
    "Ada", "Amir", "Bea", "Chen", "Dora", "Emil", "Fay", "Goran", "Hana", "Igor", "Jana", "Kofi", "Lea", "Milo",
    "Nora", "Omar", "Pia", "Ravi", "Sara", "Tariq",
)
_LAST = (
    "Adler", "Bianchi", "Costa", "Dubois", "Eriksen", "Ferrari", "Garcia", "Huber", "Ivanov", "Jansen", "Keller",
    "Lind",
)
_COMPANY_FIRST = (
    "Alpine", "Baltic", "Cobalt", "Delta", "Ember", "Fjord", "Granite", "Harbor", "Indigo", "Juniper", "Keystone",
    "Lumen", "Meridian", "Nimbus", "Orchard", "Pioneer", "Quarry", "Ridge", "Summit", "Tidal",
)
_COMPANY_LAST = (
    "Analytics", "Bakeries", "Care", "Devices", "Energy", "Foods", "Grid", "Health", "Imports", "Joinery",
    "Kitchens", "Logistics", "Mobility", "Networks", "Optics", "Pharma", "Retail", "Systems", "Textiles", "Works",
)
# fmt: on
_PRODUCTS = ("Starter plan", "Team plan", "Enterprise plan", "Onboarding", "Support contract", "Data migration")
_SUBJECTS = {
    "call": ("Discovery call", "Follow-up call", "Renewal call"),
    "email": ("Sent proposal", "Answered questions", "Shared case study"),
    "meeting": ("Product demo", "Contract review", "Quarterly review"),
    "note": ("Budget confirmed", "Waiting for legal", "New contact person"),
}

Choice = TypeVar("Choice")


def _skewed(random: Random, items: Sequence[Choice]) -> Choice:
    """An item, the early ones far more often: a few customers make most of the business."""
    return items[int(random.random() ** 1.5 * len(items))]


def _day(random: Random) -> str:
    return (TODAY - timedelta(days=random.randrange(HISTORY_DAYS))).isoformat()


def _later(random: Random, day: str, most: int) -> str:
    return min(TODAY, date.fromisoformat(day) + timedelta(days=1 + random.randrange(most))).isoformat()


def _euros(random: Random, least: int, most: int) -> int:
    """Mostly small amounts, in steps of ten."""
    return least + int(random.random() ** 3 * (most - least)) // 10 * 10


def _users(random: Random) -> Iterator[tuple[object, ...]]:
    for number in range(COUNTS["users"]):
        first, last = _FIRST[number % len(_FIRST)], _LAST[(number * 7 + number // len(_FIRST)) % len(_LAST)]
        role = "admin" if number < 3 else "manager" if number < 12 else "rep"
        email = f"{first}.{last}.{number + 1}@crm.example".lower()
        yield f"{first} {last}", email, role, random.choice(get_args(Team)), int(random.random() < 0.9), _day(random)


def _companies(random: Random) -> Iterator[tuple[object, ...]]:
    names = [f"{first} {last}" for first in _COMPANY_FIRST for last in _COMPANY_LAST]
    random.shuffle(names)
    for name in names[: COUNTS["companies"]]:
        industry, country = random.choice(get_args(Industry)), _skewed(random, get_args(Country))
        owner = 4 + random.randrange(COUNTS["users"] - 3)
        yield name, industry, country, 5 + _euros(random, 0, 9_000), owner, _day(random)


def _deals(random: Random) -> Iterator[tuple[object, ...]]:
    companies = range(1, COUNTS["companies"] + 1)
    for _ in range(COUNTS["deals"]):
        stage, created = random.choice(get_args(Stage)), _day(random)
        closed = _later(random, created, 120) if stage in {"won", "lost"} else None
        owner = 4 + random.randrange(COUNTS["users"] - 3)
        company, title = _skewed(random, companies), random.choice(_PRODUCTS)
        yield company, owner, title, stage, _euros(random, 500, 120_000), created, closed


def _activities(random: Random) -> Iterator[tuple[object, ...]]:
    companies = range(1, COUNTS["companies"] + 1)
    for _ in range(COUNTS["activities"]):
        kind = random.choice(get_args(ActivityKind))
        user = 1 + random.randrange(COUNTS["users"])
        yield _skewed(random, companies), user, kind, random.choice(_SUBJECTS[kind]), _day(random)


def _orders(random: Random) -> Iterator[tuple[object, ...]]:
    companies = range(1, COUNTS["companies"] + 1)
    statuses = get_args(OrderStatus)
    for _ in range(COUNTS["orders"]):
        status = random.choices(statuses, weights=(1, 5, 3, 1, 1))[0]
        yield _skewed(random, companies), status, _euros(random, 40, 20_000), _day(random)


def rows(seed: int = 7) -> Iterator[tuple[str, tuple[str, ...], Iterator[tuple[object, ...]]]]:
    """Every table in the order in which it must be filled: its name, its columns, its rows.

    Ids are not among the columns: SQLite counts them from 1 in the order given.
    """
    random = Random(seed)
    yield "users", ("name", "email", "role", "team", "active", "created_at"), _users(random)
    yield "companies", ("name", "industry", "country", "employees", "owner_id", "created_at"), _companies(random)
    deal = ("company_id", "owner_id", "title", "stage", "amount", "created_at", "closed_at")
    yield "deals", deal, _deals(random)
    yield "activities", ("company_id", "user_id", "kind", "subject", "happened_at"), _activities(random)
    yield "orders", ("company_id", "status", "total", "placed_at"), _orders(random)
