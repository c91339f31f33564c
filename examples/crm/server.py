"""The CRM server: five namespaces on one FastMCP server. Plain FastMCP; `__main__.py` puts CodeCall in front."""

from __future__ import annotations

from pathlib import Path

from fastmcp import FastMCP

from examples.crm.activities import create_activities
from examples.crm.companies import create_companies
from examples.crm.database import Database
from examples.crm.deals import create_deals
from examples.crm.orders import create_orders
from examples.crm.users import create_users

INSTRUCTIONS = "Users, companies, deals, activities and orders of a sales team. Amounts are whole euros."


def create_crm(path: Path, *, forecast_seconds: float = 1.5) -> FastMCP:
    """The CRM on the SQLite file at `path`, which is made and filled when it does not exist.

    Args:
        path: The database file.
        forecast_seconds: How long `orders_forecast`, the slow tool, takes.

    Raises:
        ValueError: the file exists but is not a CRM database.
    """
    database = Database(path)
    crm = FastMCP("crm", instructions=INSTRUCTIONS)
    crm.mount(create_users(database), namespace="users")
    crm.mount(create_companies(database), namespace="companies")
    crm.mount(create_deals(database), namespace="deals")
    crm.mount(create_activities(database), namespace="activities")
    crm.mount(create_orders(database, forecast_seconds=forecast_seconds), namespace="orders")
    return crm
