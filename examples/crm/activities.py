"""Tools of the namespace `activities`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastmcp import FastMCP
from pydantic import Field

from examples.crm.data import TODAY
from examples.crm.database import Database, refusal
from examples.crm.hints import ADDS, REACHES_OUT, READS
from examples.crm.models import Activity, ActivityKind, Day, Id, Limit, Offset, Page, Summary, Synced


def create_activities(database: Database) -> FastMCP:
    """Calls, emails, meetings and notes."""
    activities = FastMCP("activities")

    @activities.tool(name="list", annotations=READS, tags={"history"})
    def list_activities(
        *,
        company_id: Id | None = None,
        user_id: Id | None = None,
        kind: ActivityKind | None = None,
        since: Day | None = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Page[Activity]:
        """List activities page by page, filtered by company, user, kind or day."""
        conditions = {
            "company_id = ?": company_id,
            "user_id = ?": user_id,
            "kind = ?": kind,
            "happened_at >= ?": since,
        }
        return database.page(Activity, "activities", conditions, limit=limit, offset=offset)

    @activities.tool(name="log", annotations=ADDS, tags={"history"})
    def log_activity(
        *,
        company_id: Id,
        user_id: Id,
        kind: ActivityKind,
        subject: Annotated[str, Field(min_length=1, max_length=500, description="What it was about")],
    ) -> Activity:
        """Log a call, email, meeting or note that happened today."""
        row = {"company_id": company_id, "user_id": user_id, "kind": kind, "subject": subject}
        created = database.insert("activities", {**row, "happened_at": TODAY.isoformat()})
        return database.get(Activity, "activities", created)

    @activities.tool(name="summary", annotations=READS, tags={"history", "report"})
    def activity_summary(by: Literal["kind", "user_id", "company_id"] = "kind", since: Day | None = None) -> Summary:
        """Count activities for each kind, user or company."""
        return database.summary(by, by, "activities", "0", {"happened_at >= ?": since})

    @activities.tool(name="sync", annotations=REACHES_OUT, tags={"history"})
    def sync_activities(source: Literal["calendar", "mailbox"] = "calendar") -> Synced:
        """Import the latest activities from the calendar or the mailbox service."""
        # There is no such service behind the example: this is the tool that fails, and says so in a form that
        # a script can act on.
        raise refusal("UPSTREAM_DOWN", f"The {source} service does not answer; stored activities are still available")

    return activities
