"""A small realistic catalog: a CRM, a shop, a calendar, a version control system."""

from __future__ import annotations

from codecall.catalog.entries import CatalogEntry

_ID = {"type": "string", "description": "The unique identifier"}


def tool(name: str, description: str, app: str = "crm", **parameters: dict[str, object]) -> CatalogEntry:
    """An entry whose parameters are all required."""
    schema: dict[str, object] = {"type": "object", "properties": parameters, "required": list(parameters)}
    return CatalogEntry(name=name, app_id=app, description=description, input_schema=schema)


CATALOG = (
    tool("users:list", "List all users with pagination and filtering", limit={"type": "integer"}),
    tool("users:getProfile", "Get user profile by ID with full details", user_id=_ID),
    tool("users:invite", "Send an invitation e-mail to a new colleague", email={"type": "string", "format": "email"}),
    tool("auth:whoami", "Get current authenticated user info", "auth"),
    tool("companies:search", "Find companies by name, industry or country", query={"type": "string"}),
    tool("deals:moveStage", "Move a deal to another stage of the pipeline", deal_id=_ID, stage={"type": "string"}),
    tool("orders:list", "List orders, newest first", "shop", status={"type": "string"}),
    tool("orders:delete", "Delete an order for good", "shop", order_id=_ID),
    tool("orders:create", "Place a new order for a customer", "shop", customer_id=_ID),
    tool("orders:refund", "Pay the money of an order back to the customer", "shop", order_id=_ID),
    tool("calendar:createEvent", "Schedule a meeting with attendees", "calendar", title={"type": "string"}),
    tool("git_log", "Show the commit history of a branch", "git", branch={"type": "string"}),
    tool("git_diff", "Show changes between two commits", "git", base={"type": "string"}, head={"type": "string"}),
    tool("weather_forecast", "Weather for a place over the next days", "weather", city={"type": "string"}),
    tool("who_am_i", "", "misc"),
)
