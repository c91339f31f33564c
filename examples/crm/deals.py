"""Tools of the namespace `deals`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastmcp import FastMCP
from pydantic import Field

from codecall import tool_metadata
from examples.crm.data import TODAY
from examples.crm.database import Database
from examples.crm.hints import ADDS, CHANGES, READS
from examples.crm.models import Day, Deal, Id, Limit, Offset, Page, Stage, Summary

Euros = Annotated[int, Field(ge=0, le=1_000_000_000, description="Whole euros")]

_PIPELINE_EXAMPLE = {
    "description": "How much open business each owner has in the pipeline",
    "code": "const { groups } = await callTool('deals_pipeline', { by: 'owner_id', open_only: true });\n"
    "return groups.slice(0, 5).map(group => ({ owner: Number(group.key), euros: group.amount }));",
}


def create_deals(database: Database) -> FastMCP:
    """Sales in the making."""
    deals = FastMCP("deals")

    @deals.tool(name="list", annotations=READS, tags={"sales"})
    def list_deals(
        *,
        stage: Stage | None = None,
        company_id: Id | None = None,
        owner_id: Id | None = None,
        min_amount: Euros | None = None,
        created_since: Day | None = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Page[Deal]:
        """List deals page by page, filtered by stage, company, owner, amount or day of creation."""
        conditions = {
            "stage = ?": stage,
            "company_id = ?": company_id,
            "owner_id = ?": owner_id,
            "amount >= ?": min_amount,
            "created_at >= ?": created_since,
        }
        return database.page(Deal, "deals", conditions, limit=limit, offset=offset)

    @deals.tool(name="get", annotations=READS, tags={"sales"})
    def get_deal(id: Id) -> Deal:  # noqa: A002 - the parameter's name on the wire
        """Get one deal by id."""
        return database.get(Deal, "deals", id)

    @deals.tool(name="create", annotations=ADDS, tags={"sales"})
    def create_deal(
        *,
        company_id: Id,
        owner_id: Id,
        title: Annotated[str, Field(min_length=1, max_length=200, description="What is being sold")],
        amount: Euros,
        stage: Literal["lead", "qualified", "proposal"] = "lead",
    ) -> Deal:
        """Create an open deal with a company."""
        row = {"company_id": company_id, "owner_id": owner_id, "title": title, "amount": amount, "stage": stage}
        created = database.insert("deals", {**row, "created_at": TODAY.isoformat(), "closed_at": None})
        return database.get(Deal, "deals", created)

    @deals.tool(name="move", annotations=CHANGES, tags={"sales"})
    def move_deal(id: Id, stage: Stage) -> Deal:  # noqa: A002 - the parameter's name on the wire
        """Move a deal to another stage of the pipeline; `won` and `lost` close it."""
        database.get(Deal, "deals", id)
        closed = TODAY.isoformat() if stage in {"won", "lost"} else None
        with database.transaction() as connection:
            connection.execute("UPDATE deals SET stage = ?, closed_at = ? WHERE id = ?", (stage, closed, id))
        return database.get(Deal, "deals", id)

    @deals.tool(
        name="pipeline",
        annotations=READS,
        tags={"sales", "report"},
        meta=tool_metadata(examples=[_PIPELINE_EXAMPLE]),
    )
    def pipeline(
        by: Literal["stage", "owner_id", "company_id"] = "stage",
        open_only: Annotated[bool, Field(description="Leave out deals that are won or lost")] = False,
        created_since: Day | None = None,
    ) -> Summary:
        """Count deals, and add up their amounts, for each stage, owner or company."""
        conditions = {"(stage NOT IN ('won', 'lost')) = ?": 1 if open_only else None, "created_at >= ?": created_since}
        return database.summary(by, by, "deals", "amount", conditions)

    return deals
