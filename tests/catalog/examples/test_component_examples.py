"""Made examples of what is no tool must be scripts that may run, whatever a server calls its things."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry, Example, JsonObject, Kind
from codecall.catalog.examples.generate import component_examples
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript


def entry(kind: Kind, name: str, schema: JsonObject | None = None, *examples: Example) -> CatalogEntry:
    return CatalogEntry(name, "app", "", schema or {"type": "object"}, kind=kind, examples=examples)


def made(kind: Kind, name: str, schema: JsonObject | None = None) -> str:
    (example,) = component_examples(entry(kind, name, schema))
    return example.code


def test_a_resource() -> None:
    assert made("resource", "data://hours") == 'return await readResource("data://hours");'


def test_a_template() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"user_id": {"type": "integer"}, "path": {"type": "string"}, "page": {"type": "integer"}},
        "required": ["user_id", "path"],
    }
    code = made("template", "users://{user-id}/all/{path*}{?page}", schema)
    first, second = code.split("\n")
    assert first.startswith("const values = { user_id: 1, path: ")
    assert second == (
        'return await readResource("users://" + encodeURIComponent(values.user_id) + "/all/" + encodeURI(values.path));'
    )


def test_a_template_of_which_only_the_text_is_known() -> None:
    assert "values.id" in made("template", "users://{id}")


def test_a_prompt() -> None:
    schema: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert made("prompt", "plan", schema).startswith('const { messages } = await getPrompt("plan", { city: "Paris" });')


def test_the_authors_own_come_first() -> None:
    own = [Example(f"own {number}", f"return {number}") for number in range(7)]
    assert component_examples(entry("prompt", "x", None, *own)) == own[:5]
    assert component_examples(entry("prompt", "x", None, own[0]))[0] == own[0]
    assert len(component_examples(entry("prompt", "x", None, own[0]))) == 2


@pytest.mark.parametrize("kind", ["resource", "template", "prompt"])
@settings(max_examples=60, deadline=None)
@given(
    name=st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["{a}", "{b*}", "{?c,d}", "{e-f}", "`${x}`", "<!--"])))
    .map("".join)
    .filter(lambda name: not name.strip().casefold().startswith("codecall")),
    required=st.lists(st.text(min_size=1, max_size=6), max_size=3),
)
def test_every_made_example_may_run(kind: Kind, name: str, required: list[str]) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in required},
        "required": required,
    }
    validate_javascript(made(kind, name, schema), Rules())
