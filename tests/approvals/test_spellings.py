"""Rules apply to every spelling of a value that a tool of FastMCP takes for the same."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pytest
from fastmcp import Client, FastMCP
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    Base64UrlBytes,
    BaseModel,
    EmailStr,
    HttpUrl,
    IPvAnyAddress,
    IPvAnyNetwork,
    Json,
    NameEmail,
    PostgresDsn,
    SecretStr,
    TypeAdapter,
    ValidationError,
)

from codecall import CodeCallPlugin
from codecall.approvals.options import ApprovalRule
from codecall.approvals.rules import RuleSet, _CompiledRule
from codecall.catalog.entries import CatalogEntry
from codecall.schema.validator import create_validator

pytestmark = pytest.mark.anyio


class Color(Enum):
    """An enumeration of texts."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    """One of numbers."""

    LOW = 1
    HIGH = 2


class Mixed(Enum):
    """One of both."""

    ONE = 1
    X = "x"


class Point(NamedTuple):
    """What may be given as an array or an object."""

    x: int
    y: int


class Dest(NamedTuple):
    """One whose last items may be left out."""

    name: str
    on: date | None = None
    force: bool = True


class Booking(BaseModel):
    """A value within another."""

    day: date
    note: str = ""


U = "0198f3c2-0a0b-7000-8000-0000000000ff"

SPELLINGS: dict[str, tuple[Any, list[Any], Any]] = {
    "date": (
        date,
        ["2027-01-01", 1798761600, "1798761600", 1798761600000.0, "2027-01-01T00:00:00Z", "2027-01-01 00:00"],
        "2027-01-02",
    ),
    "datetime": (
        datetime,
        ["2027-01-01T00:00:00Z", "2027-01-01t02:00:00+02:00", 1798761600, "1798761600", "2026-12-31 23:00-0100",
         "2027-01-01T00:00:00.0000001z"],
        "2027-01-02T00:00:01Z",
    ),
    "naive datetime": (datetime, ["2027-01-01T00:00:00", "2027-01-01", "2027-01-01_00:00:00.000"], "2027-01-01T02:00"),
    "aware datetime": (AwareDatetime, ["2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00"], "2027-01-01T00:00+01:00"),
    "optional date": (date | None, ["2027-01-01", 1798761600, "2027-01-01T00:00"], None),
    "date or text": (date | int, ["2027-01-01", "2027-01-01T00:00"], "2027-01-02"),
    "time": (time, ["10:00", "10:00:00", "10:00:00.000000", "10:00:00.0"], "10:01"),
    "aware time": (time, ["10:00Z", "10:00:00+00:00", 36000], "10:00:00+02:00"),
    "duration": (
        timedelta,
        ["P1D", "PT24H", 86400, 86400.0, "1 day, 00:00:00", "24:00:00", "PT23H60M", "+P1D", "1 days"],
        "P2D",
    ),
    "uuid": (UUID, [U, U.upper(), U.replace("-", ""), f"{{{U}}}", f"urn:uuid:{U}"], U.replace("ff", "fe")),
    "decimal": (Decimal, [1.5, "1.5", "1.50", " 1.5 ", "15e-1", "١.5"], 1.25),
    "large decimal": (Decimal, [9007199254740993, "9007199254740993", "9_007199254740993"], 9007199254740992),
    "bytes": (bytes, ["abc"], "abd"),
    "base64": (Base64Bytes, ["aGk=", "aGl=", "aG k=", "aGk=\n", "a-Gk="], "aGo="),
    "base64url": (Base64UrlBytes, ["-_-_", "+/+/", "-_ -_"], "-_-a"),
    "email": (
        EmailStr,
        ["bob@bücher.example", "bob@Bücher.EXAMPLE", "Bob <bob@bücher.example>", '"Bob B" <bob@xn--bcher-kva.example>',
         " bob@bücher.example "],
        "ann@bücher.example",
    ),
    "named email": (NameEmail, ["Bob <bob@example.com>", '"Bob" <bob@EXAMPLE.com>'], "ann@example.com"),
    "url": (
        AnyUrl,
        ["http://example.com", "HTTP://Example.com:80/", "http:\\\\example.com", " http://ex%61mple.com/a/.."],
        "http://example.com/a",
    ),
    "http url": (HttpUrl, ["https://10.0.0.1/", "https://10.1:443", "https://0x0a000001"], "https://10.0.0.2"),
    "dsn": (PostgresDsn, ["postgres://u@h/b", "\tpostgres://u@h/b", "postgres:\n//u@h/b"], "postgres://u@h/c"),
    "path": (Path, ["a/b", "a//b", "./a/b/", "a/./b"], "a/c"),
    "ipv4": (IPv4Address, ["1.2.3.4", 16909060], "1.2.3.5"),
    "ipv6": (IPv6Address, ["::1", "0:0:0:0:0:0:0:1", "::0001", 1], "::2"),
    "ip": (IPvAnyAddress, ["::ffff:1.2.3.4", "::FFFF:102:304"], "1.2.3.5"),
    "network": (IPv4Network, ["10.0.0.0/8", "10.0.0.0/255.0.0.0", "10.0.0.0/0.255.255.255"], "10.0.0.0/9"),
    "any network": (IPvAnyNetwork, ["10.0.0.0", "10.0.0.0/32", 167772160], "10.0.0.1"),
    "interface": (IPv4Interface, ["10.0.0.1/8", "10.0.0.1/255.0.0.0"], "10.0.0.1/9"),
    "enum": (Color, ["red"], "blue"),
    "enum of integers": (Level, [1, "1", 1.0, True, " 1.0 "], 2),
    "mixed enum": (Mixed, [1, 1.0, True], "x"),
    "literal": (Literal["a", "b"], ["a"], "b"),
    "literal of integers": (Literal[1, 2], [1, 1.0, True], 2),
    "secret": (SecretStr, ["a"], "b"),
    "boolean": (bool, [True, "YES", "on", "1", 1, 1.0, "t"], "off"),
    "integer": (int, [1, "1", "1.0", 1.0, True, " +1 ", "01"], 2),
    "large integer": (int, [9007199254740993, "9007199254740993", "9007199254740993.0"], 9007199254740992),
    "float": (float, [100, "1e2", "1_00.0", 100.0], 99),
    "json": (Json[Any], ['{"a": 1, "b": [2]}', '{"b":[2],"a":1}', ' {"a":0,"a":1,"b":[2]}\n'], '{"a": 2}'),
    "list": (list[UUID], [[U], [U.upper()], [f"{{{U}}}"]], [U, U]),
    "set": (set[int], [[1, 2], [2, 1], ["1", 2.0, 1]], [1, 2, 3]),
    "set of dates": (set[date], [["2027-01-01"], ["2027-01-01", "2027-01-01T00:00"], [1798761600]], ["2027-01-02"]),
    "tuple": (tuple[UUID, int], [[U, 1], [U.upper(), "1"]], [U, 2]),
    "named tuple": (Point, [[1, 2], {"x": 1, "y": 2}, ["1", 2.0]], [2, 1]),
    "named tuple with defaults": (
        Dest,
        [["prod"], ["prod", None], ["prod", None, True], ["prod", None, "yes"], {"name": "prod"}],
        ["prod", None, False],
    ),
    "list of named tuples": (
        list[Dest],
        [[["prod", "2027-01-01"]], [["prod", "2027-01-01T00:00", 1]]],
        [["prod", "2027-01-01", False]],
    ),
    "map": (dict[str, date], [{"a": "2027-01-01"}, {"a": "2027-01-01T00:00"}], {"a": "2027-01-02"}),
    "model": (Booking, [{"day": "2027-01-01", "note": ""}, {"day": "2027-01-01T00:00"}], {"day": "2027-01-02"}),
}  # fmt: skip
"""For a name: a type, spellings that its tools take for the same value, and another value."""


def written(value: Any) -> str:
    """Equal texts for values that are equal to a tool."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return repr(value.astimezone(UTC))
    if isinstance(value, Decimal):
        return repr(value.normalize())
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, default=repr)
    return repr(value.get_secret_value() if isinstance(value, SecretStr) else value)


def server_of(*names: str) -> FastMCP[Any]:
    server = FastMCP[Any]("spellings")
    for name in names:

        def tool(value: Any) -> str:
            return written(value)

        tool.__annotations__["value"] = SPELLINGS[name][0]
        server.tool(tool, name=name.replace(" ", "_"))
    return server


async def entry_of(name: str) -> CatalogEntry:
    [tool] = await server_of(name).list_tools()
    return CatalogEntry(tool.name, "app", "", tool.parameters)


async def action(entry: CatalogEntry, *rules: dict[str, Any], value: object) -> str:
    compiled = RuleSet([ApprovalRule.read(rule, where="") for rule in rules])
    return (await compiled.ruling(entry, {"value": value})).action


def condition(**about: object) -> dict[str, Any]:
    return {"properties": {"value": about}, "required": ["value"]}


@pytest.mark.parametrize("name", SPELLINGS)
async def test_a_tool_takes_these_spellings_for_the_same_value(name: str) -> None:
    _, spellings, other = SPELLINGS[name]
    async with Client(server_of(name)) as client:
        [tool] = await client.list_tools()
        said = [(await client.call_tool(tool.name, {"value": value})).data for value in spellings]
        assert len({*said}) == 1, said
        assert (await client.call_tool(tool.name, {"value": other})).data not in said


@pytest.mark.parametrize("name", SPELLINGS)
async def test_a_rule_of_any_spelling_applies_to_each(name: str) -> None:
    _, spellings, other = SPELLINGS[name]
    entry = await entry_of(name)
    fits = create_validator(entry.input_schema)
    for wanted in spellings:
        if not fits.is_valid({"value": wanted}):
            continue  # to the author of a rule, the schema says what a constant is
        for about in ({"const": wanted}, {"enum": ["other", wanted]}, {"anyOf": [{"const": 7}, {"const": wanted}]}):
            deny, allow = ({"action": does, "input": condition(**about)} for does in ("deny", "allow"))
            for value in spellings:
                assert await action(entry, deny, value=value) == "deny", (wanted, value)
            assert await action(entry, allow, {"action": "ask"}, value=other) == "ask", wanted
        no_other = {"action": "allow", "input": condition(**{"not": {"const": wanted}})}
        for value in spellings:
            assert await action(entry, no_other, {"action": "ask"}, value=value) == "ask", (wanted, value)
    assert await action(entry, {"action": "deny", "input": condition(const=spellings[0])}, value=other) == "allow"
    if isinstance(spellings[0], str) and name != "json":
        exactly = {"action": "allow", "input": condition(const=spellings[0])}
        assert await action(entry, exactly, {"action": "ask"}, value=spellings[0]) == "allow"


@pytest.mark.parametrize("name", SPELLINGS)
async def test_a_script_may_not_dodge_a_rule_by_another_spelling(name: str) -> None:
    _, spellings, other = SPELLINGS[name]
    server = server_of(name)
    rules = [{"action": "deny", "input": condition(const=spellings[0])}]
    async with Client(CodeCallPlugin.init(approvals=rules, pool={"min_workers": 0}).install(server)) as client:

        async def invoke(value: object) -> Any:
            call = {"tool": name.replace(" ", "_"), "input": {"value": value}}
            return (await client.call_tool("codecall:invoke", call)).structured_content

        assert [(await invoke(value))["error"]["code"] for value in spellings] == ["ACCESS_DENIED"] * len(spellings)
        assert (await invoke(other))["status"] == "ok"


def entry_for(**schema: object) -> CatalogEntry:
    return CatalogEntry("tool", "app", "", {"type": "object", "properties": {"value": schema}})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, 5),
        ({"type": "string"}, None),
        ({"type": "string"}, True),
        ({"type": "string"}, ["x"]),
        ({"type": "string"}, {"x": 1}),
        ({"type": "integer"}, "0x10"),
        ({"type": "integer"}, ""),
        ({"type": "integer"}, 1.5),
        ({"type": "integer"}, None),
        ({"type": "number"}, [5]),
        ({"type": "boolean"}, "enabled"),
        ({"type": "boolean"}, 2),
        ({"type": "array"}, "a,b"),
        ({"type": "array"}, {"0": "a"}),
        ({"type": "object"}, ["a"]),
        ({"type": "string", "format": "date"}, "tomorrow"),
        ({"type": "string", "format": "date"}, "20270101"),
        ({"type": "string", "format": "uri"}, "http://" + "a" * 1_000_000),
        ({"type": "string", "format": "email"}, "a" * 1_000 + "@example.com"),
        ({"type": "string", "format": "path"}, "safe/../secret"),
        ({"type": "string", "format": "base64"}, "\u0661"),
        ({"type": "string", "format": "date-time"}, "0001-01-01T00:00:00+05:00"),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "integer"}]}, 1798761600),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "uuid"}]}, "x"),
        ({"allOf": [{"type": "string"}, {"format": "date"}]}, "x"),
        ({"enum": [1, "x"]}, 1.5),
        ({}, "[" + "1," * 200_000 + "1]"),
    ],
)
async def test_a_value_that_cannot_be_read_as_the_schema_says_counts_against_the_call(
    schema: dict[str, Any], value: object
) -> None:
    about = condition(const="something else")
    assert await action(entry_for(**schema), {"action": "deny", "input": about}, value=value) == "deny"
    allow = {"action": "allow", "input": condition(**{"not": {"const": "something else"}})}
    assert await action(entry_for(**schema), allow, {"action": "ask"}, value=value) == "ask"
    elsewhere = {"action": "deny", "input": {"properties": {"other": {"const": 1}}, "required": ["other"]}}
    assert await action(entry_for(**schema), elsewhere, value=value) == "allow"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "default": None}, None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ({"type": "string", "format": "phone"}, "tomorrow"),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]}, "tomorrow"),
        ({"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string", "format": "uuid"}]}]}, U),
        ({"type": "string", "format": "email"}, "root@localhost"),
        ({"type": "string", "format": "hostname"}, "a.example"),
        ({"type": "file"}, "x"),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer", "default": None}]}, [1]),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer", "default": 2}]}, ["1"]),
    ],
)
async def test_others_do_not(schema: dict[str, Any], value: object) -> None:
    deny = {"action": "deny", "input": condition(const="something else")}
    assert await action(entry_for(**schema), deny, value=value) == "allow"


@pytest.mark.parametrize(
    ("form", "wanted", "value", "does"),
    [
        ("date-time", "2027-01-01T00:00:00Z", "2027-01-01T05:00:00", "deny"),  # in whichever zone the server is
        ("date-time", "2027-01-01T05:00:00", "2027-01-01T00:00:00Z", "deny"),
        ("date-time", "2027-01-01T00:00:00Z", "2027-01-03T05:00:00", "allow"),
        ("time", "10:00Z", "12:00", "deny"),
        ("time", "10:00Z", "12:00+02:00", "deny"),
        ("time", "10:00", "12:00", "allow"),
        ("hostname", "a.example", "A.Example.", "deny"),
        ("email", "root@localhost", "Root <root@LOCALHOST>", "deny"),
        ("duration", 86_400, "PT24H", "deny"),
        ("ipv4", 16_909_060, "1.2.3.4", "deny"),
    ],
)
async def test_what_may_be_the_same_value_is(form: str, wanted: object, value: str, does: str) -> None:
    entry = entry_for(type="string", format=form)
    assert await action(entry, {"action": "deny", "input": condition(const=wanted)}, value=value) == does


async def test_more_defaults_of_items_than_are_tried_count_against_the_call() -> None:
    schema: dict[str, Any] = {"type": "array", "prefixItems": [{"default": 0}] * 1_000}
    assert await action(entry_for(**schema), {"action": "deny", "input": condition(const=[1])}, value=[]) == "deny"


async def test_what_a_schema_says_too_deep_down_counts_against_the_call() -> None:
    schema, value, about = {"type": "string", "format": "uuid"}, U.upper(), {"const": U}
    for _ in range(30):
        schema, value, about = {"items": schema}, [value], {"items": about}
    assert await action(entry_for(**schema), {"action": "deny", "input": condition(**about)}, value=value) == "deny"


@pytest.mark.parametrize("value", ["2027-01-01T01:30:00+02:00", "2026-12-31T23:30:00Z"])
async def test_a_pattern_sees_the_text_and_its_plain_form(value: str) -> None:
    entry = entry_for(type="string", format="date-time")
    assert await action(entry, {"action": "deny", "input": condition(pattern="^2026-12-31")}, value=value) == "deny"


async def test_a_list_of_many_formatted_texts_has_one_reading() -> None:
    entry = entry_for(type="array", items={"type": "string", "format": "uuid"})
    deny = {"action": "deny", "input": condition(contains={"const": U.replace("f", "0")})}
    assert await action(entry, deny, value=[U.upper()] * 1_000) == "allow"


DATES = st.integers(-7_200, 7_200).map(lambda seconds: datetime.fromtimestamp(1798761600 + seconds - seconds % 60, UTC))
ZONES = st.sampled_from([timezone(timedelta(hours=hours)) for hours in (-1, 0, 1)])
FORMS: list[Any] = [
    lambda when: when.isoformat(),
    lambda when: when.isoformat().replace("T", " "),
    lambda when: when.isoformat(timespec="milliseconds").replace("+00:00", "z"),
    lambda when: when.strftime("%Y-%m-%dT%H:%M%z"),
    lambda when: when.strftime("%Y-%m-%d"),
    lambda when: str(when.timestamp()),
    lambda when: int(when.timestamp()),
    lambda when: when.timetz().isoformat(),
]
MOMENTS = st.builds(lambda when, zone, form: form(when.replace(tzinfo=zone)), DATES, ZONES, st.sampled_from(FORMS))
SECONDS = st.integers(0, 200_000).map(lambda seconds: seconds - seconds % 3_600)
DURATIONS = st.one_of(
    SECONDS,
    SECONDS.map(lambda seconds: f"PT{seconds}S"),
    SECONDS.map(lambda seconds: f"P{seconds // 86_400}DT{seconds % 86_400 // 3_600}H"),
    SECONDS.map(lambda seconds: f"{seconds // 86_400} days {seconds % 86_400 // 3_600:02}:00:00"),
)
UUIDS = st.builds(
    lambda form, byte: form(UUID(int=byte)),
    st.sampled_from([str, lambda uuid: uuid.hex, lambda uuid: uuid.urn, lambda uuid: f"{{{uuid}}}".upper()]),
    st.integers(0, 1),
)
PARTS = st.lists(
    st.sampled_from(["a", "A", ".", "..", "/", "\\", ":", "@", "http:", "//", "%61", " ", "\t"]), max_size=6
)
TEXTS: dict[Any, st.SearchStrategy[Any]] = {
    **dict.fromkeys((date, datetime, AwareDatetime, time), MOMENTS),
    timedelta: DURATIONS,
    UUID: UUIDS,
    AnyUrl: PARTS.map("".join).map("http://".__add__),
    Path: PARTS.map("".join),
    EmailStr: st.builds(
        "{}@{}{}".format,
        st.sampled_from(["a", "A <a", " a"]),
        PARTS.map("".join),
        st.sampled_from([".de", ".DE>"]),
    ),
    Decimal: st.sampled_from([1, 1.0, "1", "1.0", "10e-1", " 1", "1_0", 10, "1e1"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@given(data=st.data())
def test_a_rule_applies_exactly_where_pydantic_reads_the_same(kind: Any, data: st.DataObject) -> None:
    adapter = TypeAdapter[Any](kind)
    wanted, value = data.draw(TEXTS[kind]), data.draw(TEXTS[kind])
    try:
        same = adapter.validate_python(wanted) == adapter.validate_python(value)
    except ValidationError:
        return
    schema = {"properties": {"value": adapter.json_schema()}}
    rule = _CompiledRule(1, ApprovalRule.read({"action": "deny", "input": condition(const=wanted)}, where=""))
    applies = rule.applies({"value": value}, schema)
    assert applies or not same
    if kind in (UUID, Decimal):
        assert applies == same
