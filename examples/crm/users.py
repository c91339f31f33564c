"""Tools of the namespace `users`."""

from __future__ import annotations

from typing import Annotated

from fastmcp import FastMCP
from pydantic import Field

from examples.crm.data import TODAY
from examples.crm.database import Database
from examples.crm.hints import ADDS, CHANGES, READS
from examples.crm.models import Id, Limit, Offset, Page, Role, Team, User

Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=200, description="Email address, unique")]
Name = Annotated[str, Field(min_length=1, max_length=200, description="Full name")]


def create_users(database: Database) -> FastMCP:
    """The people who work with the CRM."""
    users = FastMCP("users")

    @users.tool(name="list", annotations=READS, tags={"people"})
    def list_users(
        *,
        role: Role | None = None,
        team: Team | None = None,
        active: bool | None = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> Page[User]:
        """List users page by page, filtered by role, team or whether they are active."""
        conditions = {"role = ?": role, "team = ?": team, "active = ?": active}
        return database.page(User, "users", conditions, limit=limit, offset=offset)

    @users.tool(name="get", annotations=READS, tags={"people"})
    def get_user(id: Id) -> User:  # noqa: A002 - the parameter's name on the wire
        """Get one user by id."""
        return database.get(User, "users", id)

    @users.tool(name="create", annotations=ADDS, tags={"people"})
    def create_user(name: Name, email: Email, role: Role = "rep", team: Team = "north") -> User:
        """Create a user; the email address must not be in use."""
        row = {"name": name, "email": email, "role": role, "team": team, "active": 1, "created_at": TODAY.isoformat()}
        return database.get(User, "users", database.insert("users", row))

    @users.tool(name="update", annotations=CHANGES, tags={"people"})
    def update_user(
        *,
        id: Id,  # noqa: A002 - the parameter's name on the wire
        name: Name | None = None,
        email: Email | None = None,
        role: Role | None = None,
        team: Team | None = None,
        active: bool | None = None,
    ) -> User:
        """Change fields of a user, or deactivate one with active=false; fields left out stay as they are."""
        database.get(User, "users", id)
        database.update("users", id, {"name": name, "email": email, "role": role, "team": team, "active": active})
        return database.get(User, "users", id)

    return users
