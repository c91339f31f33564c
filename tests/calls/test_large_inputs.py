"""A large input of a Python function is refused at its first wrong value, as FastMCP would refuse it."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import pytest
from fastmcp import Client, FastMCP
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Json, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from codecall import CodeCallPlugin
from codecall.calls.preflight import MAX_QUICK_VALUES, has_many_values
from codecall.calls.pydantic_errors import MAX_UNKNOWN, find_first_error

MANY = 20_000


class Row(BaseModel):
    number: int
    tags: list[str] = []


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rows: list[Row] = []
    below: list[Closed] = []


class ClosedDict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    number: int


@dataclass(config=ConfigDict(extra="forbid"))
class ClosedData:
    number: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: list[int]


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


Even = Annotated[int, AfterValidator(lambda number: number if number % 2 == 0 else 1 // 0)]


def numbers(d: list[int]) -> None: ...
def unions(d: list[int | float | None]) -> None: ...
def named(d: dict[str, int]) -> None: ...
def tupled(d: tuple[int, ...]) -> None: ...
def unique(d: set[int]) -> None: ...
def rows(d: list[Row]) -> None: ...
def closed(d: Closed) -> None: ...
def closed_dict(d: ClosedDict) -> None: ...
def closed_data(d: ClosedData) -> None: ...
def pets(d: list[Annotated[Cat | Dog, Field(discriminator="kind")]]) -> None: ...
def optional(d: list[list[Row] | None] | None = None) -> None: ...
def anything(d: Any) -> None: ...
def jsoned(d: Json[list[str]]) -> None: ...
def dequed(d: deque[int]) -> None: ...
def counted(d: Counter[str]) -> None: ...
def ordered(d: OrderedDict[str, int]) -> None: ...
def even(d: list[Even]) -> None: ...


FUNCTIONS: Sequence[Callable[..., Any]] = (
    *(numbers, unions, named, tupled, unique, rows, closed, closed_dict, closed_data, pets, optional, anything),
    *(jsoned, dequed, counted, ordered),
)

FIELDS = st.sampled_from(["number", "tags", "rows", "below", "kind", "lives", "tricks", "x"])
VALUES = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "1", "x", "cat", "dog"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(st.sampled_from(FUNCTIONS), VALUES, st.booleans())
def test_the_verdict_is_that_of_pydantic(function: Callable[..., Any], value: object, strict: bool) -> None:
    arguments: dict[str, object] = {"d": value}
    whole = TypeAdapter(function)
    try:
        if strict:
            whole.validate_json(TypeAdapter(Any).dump_json(arguments), strict=True)
        else:
            whole.validate_python(arguments)
    except ValidationError as failure:
        expected: list[Any] = [(error["type"], error["loc"]) for error in failure.errors()]
    else:
        expected = []
    found = find_first_error(function, arguments, strict=strict)
    errors = [] if found is None else [(error["type"], error["loc"]) for error in found.errors()]
    assert bool(errors) == bool(expected)
    if not strict and function is not unique:  # pydantic says what is wrong of a set in its own order
        assert errors[:1] == expected[:1]


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (numbers, ["x"] * MANY),
        (numbers, [1] * MANY + ["x"] * MANY),
        (unions, ["x"] * MANY),
        (named, {str(number): "x" for number in range(MANY)}),
        (tupled, ["x"] * MANY),
        (unique, ["x"] * MANY),
        (rows, [{}] * MANY),
        (rows, [{"number": 1, "tags": [1] * MANY}]),
        (closed, {"rows": [{"number": "x"}] * MANY}),
        (closed, {"below": [{"x": 1}] * MANY}),
        (closed, {"below": [{str(number): 1 for number in range(MANY)}]}),
        (closed, {str(number): 1 for number in range(MANY)}),
        (closed_dict, {str(number): 1 for number in range(MANY)}),
        (closed_data, {str(number): 1 for number in range(MANY)}),
        (pets, [{"kind": "cow"}] * MANY),
        (optional, [[{}] * MANY] * 2),
        (jsoned, "[" + "1," * MANY + "1]"),
        (dequed, ["x"] * MANY),
        (counted, {str(number): "x" for number in range(MANY)}),
        (ordered, {str(number): "x" for number in range(MANY)}),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_few_errors_are_made(function: Callable[..., Any], value: object, strict: bool) -> None:
    assert has_many_values({"d": value})
    found = find_first_error(function, {"d": value}, strict=strict)
    assert found is not None
    assert 0 < found.error_count() <= 10


def test_few_errors_are_made_of_names_that_a_function_does_not_have() -> None:
    found = find_first_error(numbers, {"d": [], **{str(number): 1 for number in range(MANY)}}, strict=False)
    assert found is not None
    assert found.error_count() == 1
    assert f"{MANY:d} members are not known" in str(found)
    few = find_first_error(numbers, {"d": [], **{str(number): 1 for number in range(MAX_UNKNOWN)}}, strict=False)
    assert few is not None
    assert few.error_count() == MAX_UNKNOWN


def test_what_else_a_validator_raises_is_left_to_the_call() -> None:
    assert find_first_error(even, {"d": [2] * MANY}, strict=False) is None
    assert find_first_error(even, {"d": [1] * MANY}, strict=False) is None


@pytest.mark.parametrize(
    ("value", "many"),
    [
        ([1] * (MAX_QUICK_VALUES - 1), False),
        ([1] * MAX_QUICK_VALUES, True),
        ([[1] * 50] * 50, True),
        ({str(number): {} for number in range(MAX_QUICK_VALUES)}, True),
        ("x" * 1_000_000, False),
        (" [" + "1," * MAX_QUICK_VALUES + "1]", True),
    ],
)
def test_what_has_many_values(value: object, many: bool) -> None:
    assert has_many_values({"d": value}) is many


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("mounted", [False, True])
async def test_the_answer_names_the_first_wrong_value(strict: bool, mounted: bool, caplog: Any) -> None:
    inner = FastMCP[Any]("inner", strict_input_validation=strict)
    calls: list[int] = []

    @inner.tool
    def total(d: list[int]) -> int:
        """Add numbers up."""
        calls.append(len(d))
        return sum(d)

    server = inner
    if mounted:
        server = FastMCP[Any]("outer")
        server.mount(inner)
    CodeCallPlugin.init(vm={"preset": "secure"}).install(server)
    async with Client(server) as client:

        async def invoke(values: list[object]) -> Any:
            call = {"tool": "total", "input": {"d": values}}
            return (await client.call_tool("codecall:invoke", call, raise_on_error=False)).structured_content

        answer = await invoke([*[1] * 3_000, "x", *["y"] * 3_000])
        assert answer["error"]["code"] == "INVALID_INPUT"
        assert "d.3000: Input should be a valid integer" in answer["error"]["message"]
        assert answer["error"]["details"][-1] == {
            "field": "input",
            "message": "Large inputs are checked up to their first wrong value",
        }
        assert calls == []
        assert "Invalid arguments" not in caplog.text
        assert (await invoke([1] * 3_000))["result"] == 3_000
        assert ("error" in await invoke([*[1] * 3_000, "2"])) is strict
    assert calls[0] == 3_000
