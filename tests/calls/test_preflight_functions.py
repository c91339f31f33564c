"""What preflight finds in calls of Python functions: never what the tool itself takes, and nothing of its code runs."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import inspect
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union

import annotated_types
import pytest
from fastmcp.exceptions import ValidationError
from fastmcp.tools import FunctionTool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    PlainValidator,
    RootModel,
    SecretStr,
    StrictInt,
    StringConstraints,
    Tag,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from codecall.calls.preflight import MAX_NODES, MAX_STEPS_PER_CALL, function_check
from codecall.schema.comparison import StepBudget
from codecall.schema.partial import PartialArray, PartialObject, Unknown
from tests.work import python_steps

ran: list[str] = []
"""Code of a tool's author that has run."""


def noted(value: Any) -> Any:
    """What an author's validator does first."""
    ran.append("validator")
    return value


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Lenient(enum.Enum):
    ONE = "one"

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return noted(cls.ONE)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Plain(BaseModel):
    name: str
    count: int = 1
    inner: Plain | None = None


class Firm(BaseModel):
    model_config = ConfigDict(validate_default=True)
    a: int
    limit: int = 10


class FirmTyped(TypedDict):
    __pydantic_config__ = ConfigDict(validate_default=True)  # type: ignore[misc]
    a: Firm


@pydantic_dataclass(config=ConfigDict(validate_default=True))
class FirmData:
    a: int
    limit: int = 10


class And(BaseModel):
    inner: And | Or | None = None
    a: int


class Or(BaseModel):
    inner: And | Or | None = None
    b: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int
    b: list[Closed] = []


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")
    first_name: str
    last_name: str = ""


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True, extra="forbid")
    a: int = Field(alias="A")


class Choices(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = Field(validation_alias=AliasChoices("x", "y"))


class Mended(BaseModel):
    a: int

    @model_validator(mode="before")
    @classmethod
    def mend(cls, value: Any) -> Any:
        return noted({"a": 1})


class Checked(BaseModel):
    a: int = Field(default_factory=lambda: noted(1))
    b: str = "b"

    @field_validator("b", mode="before")
    @classmethod
    def read(cls, value: Any) -> str:
        return noted(str(value))

    @model_validator(mode="after")
    def check(self) -> Checked:
        return noted(self)

    def model_post_init(self, context: Any) -> None:
        noted(context)


class Made(BaseModel):
    a: int

    def __init__(self, **given: Any) -> None:
        super().__init__(**noted({"a": 1, **given, "b": None}))


class Lax(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True, str_strip_whitespace=True)
    text: Annotated[str, Field(max_length=3)]


class Root(RootModel[list[int]]):
    pass


@dataclasses.dataclass
class Data:
    a: int
    b: str = "b"

    def __post_init__(self) -> None:
        noted(self)


class Pair(NamedTuple):
    a: int
    b: int = 2


class Typed(TypedDict, total=False):
    a: int
    b: str


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: bool


EXAMPLES = int(os.environ.get("CODECALL_EXAMPLES", "8"))
"""For each signature."""

SIGNATURES: dict[str, Any] = {
    "int": int,
    "str": str,
    "bool": bool,
    "float": float,
    "decimal": Decimal,
    "bytes": bytes,
    "bounded": Annotated[int, Field(ge=1, le=5)],
    "pattern": Annotated[str, Field(pattern="^a+$", min_length=2)],
    "compiled pattern": Annotated[str, Field(pattern=re.compile("^(a|a)+$"))],
    "pattern with flags": Annotated[str, Field(pattern=re.compile("^a+$", re.IGNORECASE))],
    "multiple": Annotated[int, Field(multiple_of=3)],
    "multiple float": Annotated[float, Field(multiple_of=0.5)],
    "numbers as text": Annotated[str, Field(coerce_numbers_to_str=True)],
    "stripped": Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True, max_length=3, pattern="^[Aa]")],
    "mended length": Annotated[str, AfterValidator(lambda value: value[:3]), Field(max_length=3)],
    "strict": StrictInt,
    "list": list[int],
    "bounded list": Annotated[list[int], Field(min_length=1, max_length=2)],
    "any list": list,
    "sequence": Sequence[str],
    "iterable": Iterable[int],
    "set": Annotated[set[int], annotated_types.MinLen(2)],
    "frozenset": frozenset[str],
    "tuple": tuple[int, str],
    "tuples": tuple[int, ...],
    "dict": dict[str, int],
    "dict of int": Annotated[dict[int, list[str]], Field(max_length=1)],
    "mapping": Mapping[str, Any],
    "any": Any,
    "literal": Literal["a", "b", 3],
    "enum": Color,
    "lenient enum": Lenient,
    "int enum": Level,
    "optional": int | None,
    "union": int | list[str] | None,
    "wide union": Union[Closed, dict[str, int], str],  # noqa: UP007
    "left to right": Annotated[int | str, Field(union_mode="left_to_right")],
    "date": datetime.date,
    "datetime": datetime.datetime,
    "time": datetime.time,
    "timedelta": datetime.timedelta,
    "uuid": uuid.UUID,
    "url": AnyUrl,
    "path": Path,
    "secret": SecretStr,
    "json": Json[list[int]],
    "complex": complex,
    "model": Plain,
    "closed model": Closed,
    "camel": Camel,
    "validated defaults": Firm,
    "validated defaults of a dictionary": FirmTyped,
    "validated defaults of a dataclass": FirmData,
    "validated default": Annotated[int, Field(validate_default=True)],
    "recursive union": And | Or,
    "by name": ByName,
    "alias choices": Choices,
    "before model": Mended,
    "model with code": Checked,
    "model with init": Made,
    "configured model": Lax,
    "root model": Root,
    "models": list[Plain | None],
    "dataclass": Data,
    "named tuple": Pair,
    "typed dict": Typed,
    "tagged": Annotated[Cat | Dog, Field(discriminator="kind")],
    "called discriminator": Annotated[
        Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(lambda value: noted("cat"))
    ],
    "before": Annotated[Literal["a"], BeforeValidator(lambda value: noted("a"))],
    "after": Annotated[int, AfterValidator(noted)],
    "wrap": Annotated[int, WrapValidator(lambda value, handler: noted(1))],
    "plain": Annotated[int, PlainValidator(lambda value: noted(1))],
    "before in a list": list[Annotated[int, BeforeValidator(lambda value: noted(1))]],
    "another schema": Annotated[str, WithJsonSchema({"type": "integer", "enum": [1]})],
    "advice in the schema": Annotated[str, Field(json_schema_extra={"enum": ["x"]})],
}  # fmt: skip


def function(hint: Any, *, required: bool = True) -> Callable[..., Any]:
    """A tool with a parameter of that type, and two more."""

    async def tool(value: Any, other: int = 0, *, named: Annotated[str, Field(alias="given")] = "") -> str:
        return "ok"

    tool.__annotations__["value"] = hint
    if not required:
        tool.__defaults__ = (None, 0)
    return tool


TOOLS = {
    f"{name}{suffix}": function(hint, required=not suffix)
    for name, hint in SIGNATURES.items()
    for suffix in ("", " with a default")
}

KEYS = st.sampled_from(
    [
        "a",
        "b",
        "A",
        "x",
        "y",
        "kind",
        "name",
        "count",
        "inner",
        "firstName",
        "first_name",
        "lives",
        "barks",
        "text",
        "1",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 7),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(
        ["", "a", "b", "aa", " a ", "red", "RED", "cat", "dog", "1", "5", "1.5", "true", "[1]", "2020-01-01", "P1D",
         "12:00", "https://a.example", "00000000-0000-0000-0000-000000000000", "2020-01-01T00:00:00Z", "none", "1+2j"]
    ),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
INPUTS = st.fixed_dictionaries(
    {}, optional={"value": VALUES, "other": SCALARS, "given": SCALARS, "named": SCALARS, "extra": SCALARS}
)


@st.composite
def known(draw: st.DrawFn, value: Any, share: int) -> Any:
    """What may be known of `value` beforehand: one in `share` parts of it is a gap."""

    def cut(what: Any) -> bool:
        return share > 0 and draw(st.integers(0, share)) == 0 and what is not None

    if isinstance(value, dict):
        if cut("object"):
            return PartialObject({key: draw(known(item, share)) for key, item in value.items() if not cut("member")})
        told = {key: Unknown.PRESENT if cut("value") else draw(known(item, share)) for key, item in value.items()}
        return {
            **told,
            **{key: Unknown.MAYBE_ABSENT for key in ("extra", "z", "a") if key not in value and cut("absent")},
        }
    if isinstance(value, list):
        items = [Unknown.PRESENT if cut("item") else draw(known(item, share)) for item in value]
        return PartialArray(item for item in items if not cut("one")) if cut("array") else items
    return value


@cache
def tool_of(function: Callable[..., Any]) -> FunctionTool:
    """FastMCP's tool."""
    return FunctionTool.from_function(function, name="tool")


def refuses(function: Callable[..., Any], arguments: dict[str, Any]) -> bool:
    """Whether the real tool refuses its arguments."""
    try:
        asyncio.run(tool_of(function).run(arguments))
    except ValidationError:
        return True
    return False


def certain(tool: Callable[..., Any], arguments: Mapping[str, object], steps: int = MAX_STEPS_PER_CALL) -> list[str]:
    """The places that are sure to be refused."""
    check = function_check(tool)
    assert check is not None
    before = len(ran)
    violations = check(arguments, tool_of(tool).parameters, StepBudget(steps))
    assert len(ran) == before, "code of the tool's author has run"
    return [".".join(map(str, item.path)) for item in violations]


@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_what_is_certain_is_refused(name: str, data: st.DataObject) -> None:
    tool = TOOLS[name]
    arguments = data.draw(INPUTS)
    known_part = data.draw(known(arguments, data.draw(st.sampled_from([0, 0, 3, 8]))))
    if certain(tool, known_part):
        assert refuses(tool, arguments)


WRONG: list[tuple[str, dict[str, object], list[str]]] = [
    ("int", {}, ["value"]),
    ("int", {"value": 1, "more": 2}, ["more"]),
    ("int", {"value": []}, ["value"]),
    ("int", {"value": "five"}, ["value"]),
    ("bounded", {"value": 9}, ["value"]),
    ("literal", {"value": "c"}, ["value"]),
    ("enum", {"value": "green"}, ["value"]),
    ("list", {"value": [1, "x", Unknown.PRESENT, {}]}, ["value.1", "value.3"]),
    ("model", {"value": {"count": {}}}, ["value.name", "value.count"]),
    ("model", {"value": PartialObject(count=[])}, ["value.count"]),
    ("closed model", {"value": {"a": 1, "b": [{"a": 2, "c": 3}]}}, ["value.b.0.c"]),
    ("camel", {"value": {"firstName": "A", "last_name": "B"}}, ["value.last_name"]),
    ("before", {}, ["value"]),
    ("model with code", {}, ["value"]),
    ("dataclass", {"value": {}}, ["value.a"]),
    ("after", {"value": "x"}, ["value"]),
    ("int", PartialObject(other=[]), ["other"]),
    ("int", {"value": 1.5}, ["value"]),
    ("str", {"value": 1}, ["value"]),
    ("pattern", {"value": "bb"}, ["value"]),
    ("pattern", {"value": "a"}, ["value"]),
    ("compiled pattern", {"value": "b"}, ["value"]),
    ("bounded list", {"value": []}, ["value"]),
    ("bounded list", {"value": [1, 2, 3]}, ["value"]),
]
"""The tool, what is known of its input, what is certain."""


@pytest.mark.parametrize(("name", "what", "places"), WRONG, ids=[f"{name} {what}" for name, what, _ in WRONG])
def test_mistakes_that_are_certain(name: str, what: dict[str, object], places: list[str]) -> None:
    assert certain(TOOLS[name], what) == places


OPEN: list[tuple[str, dict[str, object]]] = [
    ("int", {"value": "5"}),
    ("int", {"value": Unknown.MAYBE_ABSENT}),
    ("int", {"value": 1, "more": Unknown.MAYBE_ABSENT}),
    ("int", PartialObject()),
    ("model", {"value": PartialObject()}),
    ("closed model", {"value": {"a": 1, "c": Unknown.MAYBE_ABSENT}}),
    ("set", {"value": [Unknown.PRESENT, Unknown.PRESENT]}),
    ("bounded list", {"value": PartialArray([1, 2, 3])}),
    ("dict of int", {"value": {"1": [], "2": Unknown.MAYBE_ABSENT}}),
    ("tagged", {"value": {"kind": Unknown.PRESENT}}),
    ("alias choices", {"value": {"y": 1}}),
    ("by name", {"value": {"a": 1}}),
    ("before model", {"value": "anything"}),
    ("lenient enum", {"value": "anything"}),
    ("iterable", {"value": {"a": 1}}),
    ("validated defaults", {"value": {"a": 1}}),
    ("validated defaults of a dictionary", {"value": {"a": {"a": 1}}}),
    ("validated defaults of a dataclass", {"value": {"a": 1}}),
    ("another schema", {"value": "text"}),
    ("pattern with flags", {"value": "B"}),
    ("complex", {"value": 5}),
    ("numbers as text", {"value": 5}),
    ("stripped", {"value": " abc "}),
    ("mended length", {"value": "abcdef"}),
]
"""Inputs that may be right, once all of them is known."""


@pytest.mark.parametrize(("name", "what"), OPEN, ids=[f"{name} {what}" for name, what in OPEN])
def test_what_is_not_certain_is_left(name: str, what: dict[str, object]) -> None:
    assert certain(TOOLS[name], what) == []


def test_a_function_whose_parameters_have_no_end_is_looked_through_no_further() -> None:
    def tool(p1: int = 1) -> None:
        raise AssertionError("nothing runs")

    assert certain(tool, {"p1": []}) == ["p1"]

    def many() -> None:
        raise AssertionError("nothing runs")

    parameters = [
        inspect.Parameter(f"p{number}", inspect.Parameter.KEYWORD_ONLY, default=1, annotation=int)
        for number in range(MAX_NODES // 2)
    ]
    many.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    many.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    assert certain(many, {"p1": []}) == []


def _nested(levels: int) -> dict[str, object]:
    inside: dict[str, object] = {}
    for _ in range(levels):
        inside = {"inner": inside}
    return inside


class Wide(BaseModel):
    """Many fields that are required."""

    __annotations__ = {f"field_{number}": int for number in range(1_000)}


EXPENSIVE: list[tuple[Any, object]] = [
    (And | Or, _nested(60)),
    (list[And | Or], [_nested(5)] * 300),
    (list[Wide], [{}] * 1_900),
    (list[Wide | Plain], [{}] * 1_900),
    (list[int], ["x"] * 1_900),
    (set[frozenset[int]] | list[list[int]] | list[str], [[1] * 40] * 40),
    (list[Literal[tuple(f"choice {number}" for number in range(2_000))]], ["x"] * 1_900),
]
"""A type, and a value of which it would take long to say all that is wrong."""


@pytest.mark.parametrize(("hint", "value"), EXPENSIVE, ids=[str(hint)[:40] for hint, _ in EXPENSIVE])
def test_what_takes_long_to_find_out_is_left(hint: Any, value: object) -> None:
    tool = function(hint)
    certain(tool, {})  # reads the function, once
    assert python_steps(lambda: certain(tool, {"value": value})) < 150_000


def test_steps_are_counted() -> None:
    tool = TOOLS["recursive union"]
    assert certain(tool, {"value": _nested(2)})
    assert certain(tool, {"value": _nested(20)}) == []
    check = function_check(tool)
    assert check is not None
    budget = StepBudget(MAX_STEPS_PER_CALL)
    assert check({"value": {}}, tool_of(tool).parameters, budget)
    assert 0 < MAX_STEPS_PER_CALL - budget.left < 50
    assert certain(tool, {"value": {}}, steps=1) == []
