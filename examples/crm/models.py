"""What the CRM's tools answer with. The field texts end up in the tools' output schemas."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

Role = Literal["admin", "manager", "rep"]
Team = Literal["north", "south", "enterprise", "partners"]
Industry = Literal["software", "retail", "logistics", "health", "energy", "finance"]
Country = Literal["AT", "BE", "CH", "DE", "ES", "FR", "IT", "NL", "PL", "SE"]
Stage = Literal["lead", "qualified", "proposal", "won", "lost"]
ActivityKind = Literal["call", "email", "meeting", "note"]
OrderStatus = Literal["pending", "paid", "shipped", "cancelled", "refunded"]

Id = Annotated[int, Field(ge=1, description="Positive row id")]
Limit = Annotated[int, Field(ge=1, le=200, description="Rows on this page, 1 to 200")]
Offset = Annotated[int, Field(ge=0, description="Rows to skip; next_offset of the page before")]
Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="ISO date, YYYY-MM-DD")]

Row = TypeVar("Row", bound=BaseModel)


class Page(BaseModel, Generic[Row]):
    """One page of a list."""

    items: list[Row]
    total: int = Field(description="Rows that match, on all pages together")
    next_offset: int | None = Field(description="Offset of the next page; null on the last one")


class User(BaseModel):
    """Somebody who works with the CRM."""

    id: int
    name: str
    email: str
    role: Role
    team: Team
    active: bool
    created_at: Day


class Company(BaseModel):
    """A customer, or one to be."""

    id: int
    name: str
    industry: Industry
    country: Country
    employees: int
    owner_id: int = Field(description="User who looks after the company")
    created_at: Day


class Deal(BaseModel):
    """A sale in the making."""

    id: int
    company_id: int
    owner_id: int
    title: str
    stage: Stage
    amount: int = Field(description="Whole euros")
    created_at: Day
    closed_at: Day | None = Field(description="Day it was won or lost; null while it is open")


class Activity(BaseModel):
    """One contact with a company."""

    id: int
    company_id: int
    user_id: int
    kind: ActivityKind
    subject: str
    happened_at: Day


class Order(BaseModel):
    """Something a company bought."""

    id: int
    company_id: int
    status: OrderStatus
    total: int = Field(description="Whole euros")
    placed_at: Day


class Group(BaseModel):
    """One group of an aggregation."""

    key: str
    count: int
    amount: int = Field(description="Whole euros; 0 where the rows carry no money")


class Summary(BaseModel):
    """Rows counted and added up by one key, largest amount first, then largest count."""

    by: str
    groups: list[Group]


class Deleted(BaseModel):
    """What a deletion took with it."""

    company_id: int
    deals: int
    activities: int
    orders: int


class Month(BaseModel):
    """Sales of one month."""

    month: str = Field(description="YYYY-MM")
    total: int = Field(description="Whole euros")


class Forecast(BaseModel):
    """Sales of past months and the line through them, continued."""

    country: Country | None
    history: list[Month]
    forecast: list[Month]


class Synced(BaseModel):
    """How a synchronisation ended."""

    source: str
    imported: int
