"""TypeScript declarations: what each kind of schema becomes, and what is done about schemas that are odd."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.typescript.declarations import MAX_CHARACTERS, declaration, declarations
from tests.catalog.typescript.odd_schemas import CHAIN, COUNT, ODDITIES, ROUND, TEXT, USER, WIDE, nested, obj
from tests.work import python_steps

Schema = Any


def entry(given: Schema = None, gives: Schema = None, **more: Any) -> CatalogEntry:
    fields = {
        "name": "t",
        "app_id": "app",
        "description": "",
        "input_schema": obj() if given is None else given,
        "output_schema": gives,
    }
    return CatalogEntry(**{**fields, **more})


def output(schema: Schema) -> str:
    """What a declaration says of what a tool gives."""
    text = declaration(entry(gives=schema))
    return text[text.rindex("Promise<") + len("Promise<") : -2]


def given(schema: Schema) -> str:
    """What a declaration says of a tool's parameters."""
    text = declaration(entry(schema))
    return text[text.index('name: "t", ') + len('name: "t", ') : text.rindex("): Promise<")]


@pytest.mark.parametrize(("schema", "expected"), [row for row in ODDITIES if row[1] is not None])
def test_what_a_schema_becomes(schema: Schema, expected: str):
    assert output(schema) == expected


def test_a_declaration():
    users = obj(users={"type": "array", "items": USER})
    limits = obj([], limit={**COUNT, "description": "How many"}, state={"enum": ["open", "closed"]})
    tool = entry(limits, users, name="users:list", description="List users.")
    assert declaration(tool) == (
        "/** List users. */\n"
        'declare function callTool(name: "users:list", input?: { /** How many (integer) */ limit?: number; '
        'state?: "open" | "closed" }): Promise<{ users: { id: string; email?: string | null }[] }>;'
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (obj(), "input?: {}"),
        ({}, "input?: Record<string, unknown>"),
        ({"properties": {"a": TEXT}}, "input?: { a?: string }"),
        (obj(a=TEXT), "input: { a: string }"),
        ({"anyOf": [obj(a=TEXT), obj(b=TEXT)]}, "input: { a: string } | { b: string }"),
    ],
)
def test_whether_an_input_has_to_be_given(schema: Schema, expected: str):
    assert given(schema) == expected


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({**TEXT, "description": "Its name"}, "Its name"),
        ({**TEXT, "description": "Its\n  name */ and\u2028more\u202e"}, "Its name *\\/ and more"),
        ({**TEXT, "description": "@ts-ignore this"}, "ts-ignore this"),
        ({**TEXT, "description": "word " * 100}, ("word " * 39).strip() + "…"),
        ({**TEXT, "description": 7, "format": "email"}, "email"),
        (
            {**TEXT, "description": "An e-mail", "format": "email", "default": "a@b.c"},
            'An e-mail (email, default "a@b.c")',
        ),
        ({**COUNT, "minimum": 1, "maximum": 50, "default": 20}, "integer, 1 to 50, default 20"),
        ({**COUNT, "default": 20, "description": "How many (default: 20)"}, "How many (default: 20) (integer)"),
        ({"type": "number", "exclusiveMinimum": 0}, "above 0"),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 2.5}, "above 0, at most 2.5"),
        ({"type": "number", "minimum": -(2**53), "maximum": float("inf"), "multipleOf": 0.5}, "multiple of 0.5"),
        ({**TEXT, "minLength": 1, "maxLength": 8, "pattern": "^a"}, "1 to 8 characters, pattern ^a"),
        ({"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2, "uniqueItems": True}, "2 items, each once"),
        ({"anyOf": [{**COUNT, "minimum": 1, "description": "Age"}, {"type": "null"}]}, "Age (integer, at least 1)"),
        ({"type": "object", "not": {"required": ["a", "b"]}, "deprecated": True}, "deprecated, further conditions"),
        ({**TEXT, "required": True}, "required"),
        ({**TEXT, "default": None}, None),
        ({**TEXT, "default": ""}, None),
        ({"type": "array", "default": [ROUND]}, None),
        ({**TEXT, "default": "x" * 100}, None),
    ],
)
def test_what_a_comment_says(schema: Schema, note: str | None):
    text = given(obj(a=schema))
    assert text.startswith(f"input: {{ /** {note} */ a: " if note else "input: { a: ")


def test_bounds_and_defaults_of_what_a_tool_gives_are_left_out():
    assert output(obj(a={**COUNT, "minimum": 1, "default": 3, "description": "Age"})) == "{ /** Age */ a: number }"
    assert output(obj(a={**TEXT, "format": "date-time"})) == "{ /** date-time */ a: string }"


def test_what_is_recursive_or_used_often_gets_a_name_of_the_tool():
    node = {"type": "object", "description": "A folder", "properties": {"sub": {"$ref": "#/$defs/tree-node"}}}
    schema = {**obj(root={"$ref": "#/$defs/tree-node"}), "$defs": {"tree-node": node}}
    lines = declaration(entry(schema, {"$ref": "#/$defs/tree-node", "$defs": schema["$defs"]}, name="a:b")).split("\n")
    assert lines == [
        "/** A folder */ type TreeNode_a$0b = { sub?: TreeNode_a$0b };",
        'declare function callTool(name: "a:b", input: { root: TreeNode_a$0b }): Promise<TreeNode_a$0b>;',
    ]
    user = {**obj([], id=TEXT, name=TEXT, admin={"type": "boolean"}), "description": "A user"}
    once = declaration(entry(gives={**obj(a={"$ref": "#/$defs/U"}), "$defs": {"U": user}}))
    assert once.endswith("Promise<{ /** A user */ a: { id?: string; name?: string; admin?: boolean } }>;")
    twice = declaration(entry(gives={**obj(a={"$ref": "#/$defs/U"}, b={"$ref": "#/$defs/U"}), "$defs": {"U": user}}))
    assert twice.startswith("/** A user */ type U_t = { id?: string; name?: string; admin?: boolean };\n")
    assert twice.endswith("Promise<{ a: U_t; b: U_t }>;")


def test_recursive_types_are_written_once_where_all_that_they_refer_to_is_equal():
    def of(**leaf: Schema) -> Schema:
        return {
            **obj(root={"$ref": "#/$defs/A"}),
            "$defs": {"A": obj([], b={"$ref": "#/$defs/B"}), "B": obj([], a={"$ref": "#/$defs/A"}, **leaf)},
        }

    types, (one, two, three) = declarations(
        [(entry(of(n=COUNT), name=name), None) for name in ("one", "two")] + [(entry(of(n=TEXT), name="three"), None)]
    )
    assert len(types.split("\n")) == 4  # A and B with a number, and with a text
    assert two == one.replace("one", "two")
    assert three != one.replace("one", "three")


def test_what_was_observed_is_marked_and_never_stands_for_what_is_declared():
    seen = {"type": "object", "properties": {"id": TEXT}, "required": ["id"], "additionalProperties": True}
    assert declaration(entry(), observed=seen).endswith(
        "Promise</* observed, not declared */ { id: string; [key: string]: unknown }>;"
    )
    assert declaration(entry(gives=TEXT), observed=seen).endswith("Promise<string>;")
    assert "observed, not declared" in declaration(entry(gives={}), observed=seen)
    assert declaration(entry(gives={})).endswith("Promise<unknown>;")
    assert declaration(entry()).endswith("Promise<unknown>;")


def test_resources_templates_and_prompts():
    resource = entry(kind="resource", name="shop://menu", description="What there is to eat")
    assert declaration(resource) == (
        '/** What there is to eat */\ndeclare function readResource(uri: "shop://menu"): Promise<unknown>;'
    )
    template = entry(kind="template", name="shop://{user}/pages{?page,size}", title="Pages")
    assert declaration(template) == (
        "/** Pages shop://{user}/pages{?page,size} */\n"
        "declare function readResource(uri: `shop://${string}/pages${string}`): Promise<unknown>;"
    )
    prompt = declaration(entry(obj(["topic"], topic=TEXT, tone=TEXT), kind="prompt", name="letter"))
    assert prompt.startswith(
        'declare function getPrompt(name: "letter", args: { topic: string; tone?: string }): '
        "Promise<{ description: string | null; messages: "
    )


def test_a_brief_declaration_says_less_of_its_parameters_and_the_same_of_their_types():
    tool = entry(obj(a={**TEXT, "description": "word " * 100}), USER, description="word " * 1_000)
    full, brief = declaration(tool), declaration(tool, brief=True)
    assert len(full) > 2_000
    assert len(brief) < 450
    assert full[full.rindex("a: string") :] == brief[brief.rindex("a: string") :]


@pytest.mark.parametrize("schema", [nested(3_000), WIDE, ROUND, CHAIN, obj(**{"x" * 30_000: TEXT})])
def test_what_is_too_much_is_shown_in_part_and_says_so(schema: Schema):
    text = declaration(entry(schema, schema))
    assert len(text) <= MAX_CHARACTERS
    assert "[shortened: the JSON schema says more]" in text


@pytest.mark.parametrize(
    "schema",
    [
        {"required": [f"p{index}" for index in range(9_500)]},
        obj(**{f"p{index}": {} for index in range(9_500)}),
        obj(**{f"p{index}": {"enum": [f"e{value}" for value in range(300)]} for index in range(300)}),
    ],
    ids=["required", "properties", "values"],
)
def test_the_work_for_a_large_schema_is_bounded(schema: Schema):
    tool = entry(schema)
    assert python_steps(lambda: declaration(tool)) < 2_500_000
    assert "[shortened: the JSON schema says more]" in declaration(tool)


def test_one_object_with_too_many_fields_hides_no_other():
    text = declaration(entry(obj(["id"], id=TEXT, data=obj(**{f"p{index}": {} for index in range(9_500)}))))
    assert "input: { id: string; data?: Record<string, unknown> }" in text


def test_equal_entries_have_equal_declarations():
    tool = entry(WIDE, {**obj(a={"$ref": "#/$defs/D"}, b={"$ref": "#/$defs/D"}), "$defs": {"D": USER}})
    assert len({declaration(tool) for _ in range(3)}) == 1
