"""The CRM example: every tool, called by a real client on a real file."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import FastMCPTransport
from fastmcp.exceptions import ToolError

from examples.crm.data import COUNTS, TODAY
from examples.crm.database import Database
from examples.crm.server import create_crm

Crm = Client[FastMCPTransport]
Json = dict[str, Any]

NAMESPACES = {"users": 4, "companies": 6, "deals": 5, "activities": 4, "orders": 6}
"""Tools of each namespace."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as it is after its first start; tests work on copies."""
    return Database(tmp_path_factory.mktemp("crm") / "filled.sqlite3").path


@pytest.fixture
def file(filled: Path, tmp_path: Path) -> Path:
    """This test's own database."""
    return Path(shutil.copy(filled, tmp_path / "crm.sqlite3"))


@pytest.fixture
async def crm(file: Path) -> AsyncGenerator[Crm]:
    """A client of a CRM of its own, whose forecast does not keep tests waiting."""
    async with Client(create_crm(file, forecast_seconds=0.0)) as client:
        yield client


async def call(crm: Crm, tool: str, **arguments: object) -> Json:
    """The structured answer of a call that works."""
    answer = (await crm.call_tool(tool, arguments)).structured_content
    assert answer is not None
    return answer


async def refused(crm: Crm, tool: str, **arguments: object) -> str:
    """The code of a call that the tool refuses."""
    with pytest.raises(ToolError) as caught:
        await crm.call_tool(tool, arguments)
    return json.loads(str(caught.value))["code"]


async def test_lists_25_tools_each_with_an_output_schema(crm: Crm) -> None:
    tools = await crm.list_tools()
    assert len(tools) == sum(NAMESPACES.values()) == 25
    for namespace, count in NAMESPACES.items():
        assert sum(tool.name.startswith(f"{namespace}_") for tool in tools) == count
    for tool in tools:
        assert tool.description
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is not None


async def test_says_which_tools_change_something(crm: Crm) -> None:
    tools = {tool.name: tool.annotations for tool in await crm.list_tools() if tool.annotations}
    writing = {"create", "update", "delete", "move", "log", "cancel", "sync"}
    assert {name.partition("_")[2] for name, hints in tools.items() if not hints.read_only_hint} == writing
    assert [name for name, hints in tools.items() if hints.destructive_hint] == ["companies_delete"]
    assert [name for name, hints in tools.items() if hints.open_world_hint] == ["activities_sync"]


@pytest.mark.parametrize("table", COUNTS)
async def test_pages_through_every_row_once(crm: Crm, table: str) -> None:
    shown_text: list[object] = []
    offset: object = 0
    while offset is not None:
        page = await call(crm, f"{table}_list", limit=200, offset=offset)
        assert page["total"] == COUNTS[table]
        shown_text += [item["id"] for item in page["items"]]
        offset = page["next_offset"]
    assert shown_text == list(range(1, COUNTS[table] + 1))


async def test_a_page_beyond_the_end_is_empty_and_the_last(crm: Crm) -> None:
    assert await call(crm, "users_list", offset=1_000) == {"items": [], "total": COUNTS["users"], "next_offset": None}


@pytest.mark.parametrize("limit", [0, 201, "many"])
async def test_refuses_a_limit_out_of_range(crm: Crm, limit: object) -> None:
    with pytest.raises(ToolError, match="limit"):
        await crm.call_tool("orders_list", {"limit": limit})


@pytest.mark.parametrize(
    ("tool", "filters", "column"),
    [
        ("users_list", {"role": "manager"}, ("role", "manager")),
        ("users_list", {"active": False}, ("active", False)),
        ("companies_list", {"country": "DE", "industry": "health"}, ("country", "DE")),
        ("companies_list", {"owner_id": 12}, ("owner_id", 12)),
        ("deals_list", {"stage": "proposal", "min_amount": 20_000}, ("stage", "proposal")),
        ("activities_list", {"company_id": 3, "kind": "call"}, ("kind", "call")),
        ("orders_list", {"status": "paid", "placed_since": "2026-01-01"}, ("status", "paid")),
    ],
)
async def test_filters(crm: Crm, tool: str, filters: Json, column: tuple[str, object]) -> None:
    page = await call(crm, tool, **filters)
    assert page["items"]
    assert page["total"] < COUNTS[tool.partition("_")[0]]
    key, value = column
    assert {item[key] for item in page["items"]} == {value}


async def test_finds_names_in_any_letter_case(crm: Crm) -> None:
    page = await call(crm, "companies_list", name_contains="aLpIn")
    assert page["total"] == 20


async def test_gets_each_kind_of_row_by_id_and_says_when_there_is_none(crm: Crm) -> None:
    for table in ("users", "companies", "deals", "orders"):
        assert (await call(crm, f"{table}_get", id=2))["id"] == 2
        assert await refused(crm, f"{table}_get", id=99_999) == "NOT_FOUND"


async def test_creates_and_updates_users(crm: Crm) -> None:
    made = await call(crm, "users_create", name="Uma Vale", email="uma@crm.example", team="south")
    assert made["id"] == COUNTS["users"] + 1
    changed = await call(crm, "users_update", id=made["id"], role="manager", active=False)
    assert changed == {**made, "role": "manager", "active": False}
    assert await refused(crm, "users_create", name="Another", email="uma@crm.example") == "CONFLICT"
    assert await refused(crm, "users_update", id=made["id"]) == "NOTHING_TO_CHANGE"
    assert await refused(crm, "users_update", id=99_999, name="Nobody") == "NOT_FOUND"


async def test_creates_and_updates_companies(crm: Crm) -> None:
    made = await call(crm, "companies_create", name="Vale Works", industry="energy", country="SE", owner_id=5)
    changed = await call(crm, "companies_update", id=made["id"], owner_id=6, employees=40)
    assert changed == {**made, "owner_id": 6, "employees": 40}
    assert await refused(crm, "companies_update", id=made["id"], owner_id=99_999) == "CONFLICT"


async def test_deleting_a_company_takes_everything_of_it_along(crm: Crm) -> None:
    lists = {table: f"{table}_list" for table in ("deals", "activities", "orders")}
    before = {table: (await call(crm, tool, company_id=7))["total"] for table, tool in lists.items()}
    assert all(before.values())
    assert await call(crm, "companies_delete", id=7) == {"company_id": 7, **before}
    for tool in lists.values():
        assert (await call(crm, tool, company_id=7))["total"] == 0
    assert await refused(crm, "companies_delete", id=7) == "NOT_FOUND"


async def test_moves_a_deal_through_the_pipeline(crm: Crm) -> None:
    made = await call(crm, "deals_create", company_id=9, owner_id=8, title="Team plan", amount=1_200)
    assert (made["stage"], made["closed_at"]) == ("lead", None)
    won = await call(crm, "deals_move", id=made["id"], stage="won")
    assert (won["stage"], won["closed_at"]) == ("won", TODAY.isoformat())
    reopened = await call(crm, "deals_move", id=made["id"], stage="proposal")
    assert reopened["closed_at"] is None


async def test_logs_an_activity(crm: Crm) -> None:
    made = await call(crm, "activities_log", company_id=9, user_id=8, kind="note", subject="Asked for a discount")
    assert made["happened_at"] == TODAY.isoformat()
    assert (await call(crm, "activities_list", company_id=9, since=TODAY.isoformat()))["items"] == [made]


async def test_cancels_pending_orders_only(crm: Crm) -> None:
    made = await call(crm, "orders_create", company_id=9, total=80)
    assert made["status"] == "pending"
    assert (await call(crm, "orders_cancel", id=made["id"]))["status"] == "cancelled"
    assert (await call(crm, "orders_cancel", id=made["id"]))["status"] == "cancelled"
    paid = await call(crm, "orders_list", status="paid", limit=1)
    assert await refused(crm, "orders_cancel", id=paid["items"][0]["id"]) == "NOT_PENDING"


@pytest.mark.parametrize(
    ("tool", "by", "query"),
    [
        ("companies_stats", "industry", "SELECT industry AS k, count(*) FROM companies GROUP BY 1"),
        ("deals_pipeline", "stage", "SELECT stage AS k, count(*), sum(amount) FROM deals GROUP BY 1"),
        ("activities_summary", "kind", "SELECT kind AS k, count(*), 0 FROM activities GROUP BY 1"),
        ("orders_totals", "month", "SELECT substr(placed_at, 1, 7) AS k, count(*), sum(total) FROM orders GROUP BY 1"),
        ("orders_totals", "company_id", "SELECT company_id AS k, count(*), sum(total) FROM orders GROUP BY 1"),
    ],
)
async def test_adds_up_as_the_rows_do(crm: Crm, file: Path, tool: str, by: str, query: str) -> None:
    summary = await call(crm, tool, by=by)
    assert summary["by"] == by
    groups = {(group["key"], group["count"], group["amount"]) for group in summary["groups"]}
    expected = {(str(row["k"]), *list(row.values())[1:]) for row in Database(file).select(query)}
    if tool == "companies_stats":
        groups = {group[:2] for group in groups}
    assert groups == expected
    amounts = [group["amount"] for group in summary["groups"]]
    assert amounts == sorted(amounts, reverse=True)


async def test_leaves_closed_deals_out_of_the_open_pipeline(crm: Crm) -> None:
    summary = await call(crm, "deals_pipeline", open_only=True)
    assert {group["key"] for group in summary["groups"]} == {"lead", "qualified", "proposal"}


async def test_forecasts_from_a_year_of_paid_orders(crm: Crm) -> None:
    whole = await call(crm, "orders_forecast", months=2)
    assert [month["month"] for month in whole["history"]][:: len(whole["history"]) - 1] == ["2025-07", "2026-06"]
    assert [month["month"] for month in whole["forecast"]] == ["2026-07", "2026-08"]
    one = await call(crm, "orders_forecast", country="NL")
    assert 0 < sum(month["total"] for month in one["history"]) < sum(month["total"] for month in whole["history"])


async def test_the_failing_tool_fails_with_a_code_of_its_own(crm: Crm) -> None:
    assert await refused(crm, "activities_sync") == "UPSTREAM_DOWN"
    assert await refused(crm, "activities_sync", source="mailbox") == "UPSTREAM_DOWN"


def test_a_file_is_filled_once_and_kept(file: Path) -> None:
    Database(file).insert("orders", {"company_id": 1, "status": "paid", "total": 1, "placed_at": "2026-06-30"})
    (row,) = Database(file).select("SELECT count(*) AS orders FROM orders")
    assert row["orders"] == COUNTS["orders"] + 1


def test_two_files_hold_the_same_rows(tmp_path: Path) -> None:
    dumps: list[list[str]] = []
    for name in ("one", "two"):
        path = Database(tmp_path / name).path
        connection = sqlite3.connect(path)
        dumps.append(list(connection.iterdump()))
        connection.close()
    assert dumps[0] == dumps[1]


def test_many_threads_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    counts: list[object] = []

    def opened() -> None:
        counts.append(Database(tmp_path / "new").select("SELECT count(*) AS users FROM users")[0]["users"])

    threads = [threading.Thread(target=opened) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [COUNTS["users"]] * 6


def test_refuses_a_file_that_is_something_else(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to look like one to SQLite, which reads a header first" * 20)
    with pytest.raises(ValueError, match="cannot be used as a CRM database"):
        Database(text)
    other = tmp_path / "other.sqlite3"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE unrelated (id INTEGER)")
    connection.close()
    with pytest.raises(ValueError, match="not a CRM database of version"):
        Database(other)
