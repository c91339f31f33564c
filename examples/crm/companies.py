"""Tools of the namespace `companies`."""

from __future__ import annotations

from typing import Annotated, Literal

from fastmcp import FastMCP
from pydantic import Field

from examples.crm.data import TODAY
from examples.crm.database import Database
from examples.crm.hints import ADDS, CHANGES, DELETES, READS
from examples.crm.models import Company, Country, Deleted, Id, Industry, Limit, Offset, Page, Summary

CompanyName = Annotated[str, Field(min_length=1, max_length=200, description="Company name, unique")]
Employees = Annotated[int, Field(ge=1, le=5_000_000, description="Number of employees")]


def create_companies(database: Database) -> FastMCP:
    """Customers, and those who may become one."""
    companies = FastMCP("companies")

    @companies.tool(name="list", annotations=READS, tags={"customers"})
    def list_companies(
        *,
        industry: Industry | None = None,
        country: Country | None = None,
        owner_id: Id | None = None,
        name_contains: Annotated[str | None, Field(description="Part of the name, in any letter case")] = None,
        min_employees: Employees | None = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Page[Company]:
        """List customer companies page by page, filtered by industry, country, owner, name or size."""
        conditions = {
            "industry = ?": industry,
            "country = ?": country,
            "owner_id = ?": owner_id,
            "instr(lower(name), lower(?)) > 0": name_contains,
            "employees >= ?": min_employees,
        }
        return database.page(Company, "companies", conditions, limit=limit, offset=offset)

    @companies.tool(name="get", annotations=READS, tags={"customers"})
    def get_company(id: Id) -> Company:  # noqa: A002 - the parameter's name on the wire
        """Get one company by id."""
        return database.get(Company, "companies", id)

    @companies.tool(name="create", annotations=ADDS, tags={"customers"})
    def create_company(
        name: CompanyName, industry: Industry, country: Country, owner_id: Id, employees: Employees = 1
    ) -> Company:
        """Create a company that the given user looks after; the name must not be in use."""
        row = {"name": name, "industry": industry, "country": country, "employees": employees, "owner_id": owner_id}
        created = database.insert("companies", {**row, "created_at": TODAY.isoformat()})
        return database.get(Company, "companies", created)

    @companies.tool(name="update", annotations=CHANGES, tags={"customers"})
    def update_company(
        *,
        id: Id,  # noqa: A002 - the parameter's name on the wire
        name: CompanyName | None = None,
        industry: Industry | None = None,
        country: Country | None = None,
        owner_id: Id | None = None,
        employees: Employees | None = None,
    ) -> Company:
        """Change fields of a company, for example its owner; fields left out stay as they are."""
        database.get(Company, "companies", id)
        values = {"name": name, "industry": industry, "country": country, "employees": employees}
        database.update("companies", id, {**values, "owner_id": owner_id})
        return database.get(Company, "companies", id)

    @companies.tool(name="delete", annotations=DELETES, tags={"customers"})
    def delete_company(id: Id) -> Deleted:  # noqa: A002 - the parameter's name on the wire
        """Delete a company with all its deals, activities and orders. This cannot be undone."""
        database.get(Company, "companies", id)
        with database.transaction() as connection:
            count = {
                table: connection.execute(f"SELECT count(*) FROM {table} WHERE company_id = ?", (id,)).fetchone()[0]
                for table in ("deals", "activities", "orders")
            }
            connection.execute("DELETE FROM companies WHERE id = ?", (id,))
        return Deleted(company_id=id, **count)

    @companies.tool(name="stats", annotations=READS, tags={"customers", "report"})
    def company_stats(by: Literal["industry", "country"] = "industry") -> Summary:
        """Count companies, and add up what they paid, for each industry or country."""
        source = "companies LEFT JOIN (SELECT company_id, sum(total) AS paid FROM orders WHERE status IN"
        source += " ('paid', 'shipped') GROUP BY company_id) AS sales ON sales.company_id = companies.id"
        return database.summary(by, by, source, "paid", {})

    return companies
