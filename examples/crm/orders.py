"""Tools of the namespace `orders`."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
from anyio.to_thread import run_sync
from fastmcp import FastMCP
from pydantic import Field

from examples.crm.data import TODAY
from examples.crm.database import Database, refusal
from examples.crm.hints import ADDS, CHANGES, READS
from examples.crm.models import Country, Day, Forecast, Id, Limit, Month, Offset, Order, OrderStatus, Page, Summary

HISTORY_MONTHS = 12
"""Months the forecast looks back, the current one included."""


def create_orders(database: Database, *, forecast_seconds: float) -> FastMCP:
    """What companies bought. `forecast_seconds` is how long the forecast takes."""
    orders = FastMCP("orders")

    @orders.tool(name="list", annotations=READS, tags={"revenue"})
    def list_orders(
        *,
        status: OrderStatus | None = None,
        company_id: Id | None = None,
        placed_since: Day | None = None,
        placed_before: Day | None = None,
        min_total: Annotated[int | None, Field(ge=0, description="Whole euros")] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Page[Order]:
        """List orders page by page, filtered by status (paid, shipped, ...), company, day or total."""
        conditions = {
            "status = ?": status,
            "company_id = ?": company_id,
            "placed_at >= ?": placed_since,
            "placed_at < ?": placed_before,
            "total >= ?": min_total,
        }
        return database.page(Order, "orders", conditions, limit=limit, offset=offset)

    @orders.tool(name="get", annotations=READS, tags={"revenue"})
    def get_order(id: Id) -> Order:  # noqa: A002 - the parameter's name on the wire
        """Get one order by id."""
        return database.get(Order, "orders", id)

    @orders.tool(name="create", annotations=ADDS, tags={"revenue"})
    def create_order(
        company_id: Id, total: Annotated[int, Field(ge=1, le=1_000_000_000, description="Whole euros")]
    ) -> Order:
        """Create a pending order of a company."""
        row = {"company_id": company_id, "status": "pending", "total": total, "placed_at": TODAY.isoformat()}
        return database.get(Order, "orders", database.insert("orders", row))

    @orders.tool(name="cancel", annotations=CHANGES, tags={"revenue"})
    def cancel_order(id: Id) -> Order:  # noqa: A002 - the parameter's name on the wire
        """Cancel an order that is still pending."""
        order = database.get(Order, "orders", id)
        if order.status not in {"pending", "cancelled"}:
            raise refusal("NOT_PENDING", f"Order {id} is {order.status}; only pending orders can be cancelled")
        database.update("orders", id, {"status": "cancelled"})
        return database.get(Order, "orders", id)

    @orders.tool(name="totals", annotations=READS, tags={"revenue", "report"})
    def order_totals(
        by: Literal["status", "month", "company_id", "country"] = "month",
        status: OrderStatus | None = None,
        placed_since: Day | None = None,
    ) -> Summary:
        """Count orders, and add up their totals, for each status, month, company or country."""
        key = {"month": "substr(placed_at, 1, 7)"}.get(by, by)
        source = "orders JOIN companies ON companies.id = company_id"
        return database.summary(by, key, source, "total", {"status = ?": status, "placed_at >= ?": placed_since})

    @orders.tool(name="forecast", annotations=READS, tags={"revenue", "report"})
    async def forecast_orders(
        *,
        country: Country | None = None,
        months: Annotated[int, Field(ge=1, le=12, description="Months to look ahead, 1 to 12")] = 3,
    ) -> Forecast:
        """Forecast the revenue of the coming months, for all countries or one. Takes a second or two."""
        source = "orders JOIN companies ON companies.id = company_id"
        conditions = {"(status IN ('paid', 'shipped')) = ?": 1, "country = ?": country}

        def monthly() -> Summary:
            return database.summary("month", "substr(placed_at, 1, 7)", source, "total", conditions)

        summary = await run_sync(monthly)
        await anyio.sleep(forecast_seconds)  # stands for the computing that a real model would do
        sums = {group.key: group.amount for group in summary.groups}
        months_back = [_month(-ago) for ago in reversed(range(HISTORY_MONTHS))]
        history = [Month(month=month, total=sums.get(month, 0)) for month in months_back]
        line = _line([month.total for month in history], ahead=months)
        ahead = [Month(month=_month(number + 1), total=total) for number, total in enumerate(line)]
        return Forecast(country=country, history=history, forecast=ahead)

    return orders


def _month(distance: int) -> str:
    """The month that many months from today's, as YYYY-MM."""
    count = TODAY.year * 12 + TODAY.month - 1 + distance
    return f"{count // 12:04d}-{count % 12 + 1:02d}"


def _line(values: list[int], *, ahead: int) -> list[int]:
    """The least-squares line through `values`, continued for `ahead` steps; never below zero."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(values))
    slope /= sum((x - middle) ** 2 for x in range(len(values)))
    return [max(0, round(mean + slope * (len(values) + step - middle))) for step in range(ahead)]
