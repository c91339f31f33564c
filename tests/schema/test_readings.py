"""The readings of an input hold whatever pydantic makes of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model

from codecall.schema.formats import equal
from codecall.schema.readings import all_readings
from codecall.schema.shapes import TooManyReadingsError


class Circle(BaseModel):
    """One of two models that a text tells apart."""

    kind: Literal["circle"]
    size: int
    loud: bool = False


class Square(BaseModel):
    """The other."""

    kind: Literal["square"] = "square"
    size: str


NAMES = st.sampled_from(["a", "kind", "size", "loud"])
SCALARS = st.sampled_from(
    [int, float, bool, str, None, Any, Literal[1, 2], Literal["1", "no"], Literal[True], Literal[0, "on"],
     Annotated[int, Field(ge=0)], Annotated[str, Field(pattern="^[0-9a-z]*$")]]
)  # fmt: skip


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types made of others."""
    fields = st.dictionaries(NAMES, st.tuples(inner, st.sampled_from([..., 1, "no", None])), max_size=3)
    union = st.lists(inner, min_size=2, max_size=3).map(lambda kinds: Union[(*kinds, bytes, Circle)])
    return st.one_of(
        union,
        union.map(lambda kind: Annotated[kind, Field(union_mode="left_to_right")]),
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: tuple[kind, int]),
        inner.map(lambda kind: dict[str, kind]),
        fields.map(lambda members: cast("Any", create_model)("Some", **members)),
        st.sampled_from([Circle | Square, Annotated[Circle | Square, Field(discriminator="kind")]]),
    )


KINDS = st.recursive(SCALARS, _wider, max_leaves=5)
TEXTS = st.sampled_from(
    ["1", "0", "5", " 1 ", "01", "1.0", "1.5", "1e1", "NO", "on", "yes", "true", "x", "", "null", "[1]", '{"a": 1}',
     "circle", "square"]
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.sampled_from([0, 1, 2, 5, 0.0, 1.0, 1.5, True, False, None]), TEXTS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(kind=KINDS, data=st.data())
def test_what_pydantic_makes_of_a_value_is_among_its_readings(kind: Any, data: st.DataObject) -> None:
    adapter = TypeAdapter[Any](kind)
    schema = adapter.json_schema()
    tool = {"properties": {"value": schema}, "$defs": schema.pop("$defs", {})}
    for value in data.draw(st.lists(VALUES, min_size=5, max_size=5)):
        try:
            made = adapter.dump_python(adapter.validate_python(value), mode="json", warnings=False)
        except ValidationError:
            continue
        try:
            readings: list[Any] = list(all_readings({"value": value}, tool, None))
        except TooManyReadingsError:
            continue  # which counts against the call
        assert any(equal(reading["value"], made) for reading in readings), (schema, value, made, readings)
