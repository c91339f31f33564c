"""Made usage examples: valid under every preset, true to the schemas, and they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.examples.generate import MAX_GENERATED, usage_examples
from codecall.catalog.examples.hints import Intent, intent_of
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.sandbox.enclave import Enclave

STRICTEST = Rules(allow_loops=False, allow_regex=False, allow_console=False, allow_clock=False)

TEXT = {"type": "string"}
ROWS = {"type": "array", "items": {"type": "object", "properties": {"id": TEXT, "open": {"type": "boolean"}}}}
SIZES = ({"type": "integer"}, {"type": "integer", "default": 25})
COUNT = {"type": "integer", "minimum": 1, "maximum": 50, "default": 20}
USER = {
    "type": "object",
    "properties": {"id": TEXT, "name": TEXT, "bio": TEXT, "role": {"enum": ["admin", "member"]}, "notes": {}},
}


def entry(
    name: str, inputs: dict[str, Any] | None = None, output: dict[str, Any] | None = None, **more: Any
) -> CatalogEntry:
    properties = inputs or {}
    required = [key for key, schema in properties.items() if "default" not in schema and not schema.get("optional")]
    return CatalogEntry(
        name=name,
        app_id="crm",
        description=more.pop("description", ""),
        input_schema={"type": "object", "properties": properties, "required": required},
        output_schema=output,
        **more,
    )


def users_output(**more: Any) -> dict[str, Any]:
    users = {"type": "array", "items": {"$ref": "#/$defs/User"}}
    return {
        "type": "object",
        "properties": {"users": users, **more},
        "required": ["users"],
        "$defs": {"User": USER},
    }


def codes(tool: CatalogEntry) -> list[str]:
    return [example.code for example in usage_examples(tool)]


PATTERNS: list[tuple[dict[str, Any], str]] = [
    ({"pattern": r"^C-\d{3}$"}, '"C-111"'),
    ({"pattern": r"^(ORD|INV)-[0-9]{4}-\w+$"}, '"ORD-1111-1"'),
    ({"pattern": r"^[a-z][a-z0-9_-]{2,}$", "minLength": 6, "maxLength": 8}, '"client-1"'),
    ({"pattern": r"^[A-Z]+$", "minLength": 6}, '"AAAAAA"'),
    ({"pattern": r"^\d{4}-\d{2}-\d{2}T?\.(x|(y|z){2})*$", "maxLength": 12}, '"1111-11-11.x"'),
    ({"pattern": r"^C-\d{3}$", "examples": ["new", "C-042"]}, '"C-042"'),
    ({"pattern": r"^C-\d{3}$", "default": "C-007"}, '"C-007"'),
    ({"pattern": r"^C-", "enum": ["all", "C-1"]}, '"C-1"'),
    ({"pattern": r"^(?=C)client-.*$", "examples": ["client-7"]}, '"client-7"'),
    ({"pattern": "-1$"}, '"client-1"'),
]


@pytest.mark.parametrize(("schema", "text"), PATTERNS, ids=[schema["pattern"] for schema, _ in PATTERNS])
def test_a_text_fits_the_pattern_of_its_schema(schema: dict[str, Any], text: str):
    tool = CatalogEntry(
        name="get_client",
        app_id="crm",
        description="",
        input_schema={"type": "object", "properties": {"client_id": TEXT | schema}, "required": ["client_id"]},
    )
    assert f"client_id: {text}" in codes(tool)[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": r"^(?=C)C-\d$"},
        {"pattern": r"^\p{Lu}$"},
        {"pattern": "a(b"},
        {"pattern": "^[^ -~]$"},
        {"pattern": "^(((((a+)+)+)+)+)+b$", "minLength": 90, "maxLength": 91},
        {"pattern": "^" + "(a{20}){20}" * 20},
        {"minLength": 5_000},
        {"format": "uuid", "pattern": "^C"},
        {"pattern": "^a$", "maxLength": 0},
    ],
)
def test_where_no_text_is_known_to_fit_there_is_no_example(schema: dict[str, Any]):
    given, client_id = Example("By its author", "return 1;"), TEXT | schema
    nested = {"type": "object", "properties": {"id": client_id}, "required": ["id"]}
    assert usage_examples(entry("get_client", {"client_id": client_id}, examples=(given,))) == [given]
    assert codes(entry("get_client", {"client_id": client_id})) == codes(entry("get_client", {"of": nested})) == []
    assert codes(entry("get_client", {"id": TEXT, "query": client_id | {"optional": True}}))


def test_several_values_fit_the_pattern_too():
    tool = entry("get_client", {"client_id": TEXT | {"pattern": r"^C-\d{3}$"}})
    assert 'const wanted = ["C-111", "C-112", "C-113"];' in codes(tool)[-1]
    tool = entry("get_client", {"client_id": TEXT | {"pattern": r"^C-[012]$"}})
    assert 'const wanted = ["C-1", "C-2"];' in codes(tool)[-1]
    searches = entry("search_clients", {"query": TEXT | {"pattern": r"^\w+$"}}, users_output())
    assert not any("first example" in code for code in codes(searches))


@pytest.mark.parametrize(
    ("name", "intent"),
    [
        ("users:list", "list"),
        ("list_users", "list"),
        ("getUsers", "list"),
        ("users:get", "get"),
        ("users:getProfile", "get"),
        ("auth:whoami", "get"),
        ("orders:create", "create"),
        ("add-note", "create"),
        ("updateUser", "update"),
        ("orders:delete", "delete"),
        ("remove_label", "delete"),
        ("search_companies", "search"),
        ("findByName", "search"),
        ("list:delete", "delete"),
        ("compute", "other"),
    ],
)
def test_the_intent_is_told_from_the_name(name: str, intent: Intent) -> None:
    assert intent_of(entry(name)) == intent


def test_the_description_and_the_annotations_help() -> None:
    assert intent_of(entry("compute", description="Deletes a cached value")) == "delete"
    assert intent_of(entry("orders:cancel", annotations={"readOnlyHint": True})) == "other"
    assert intent_of(entry("get_users", {"id": TEXT})) == "get"


def test_the_authors_examples_come_first_and_as_they_are() -> None:
    own = tuple(Example(f"own {number}", f"while (true) {{ /* {number} */ }}") for number in range(3))
    tool = entry("users:get", {"user_id": TEXT}, examples=own)

    found = usage_examples(tool)

    assert tuple(found[:3]) == own
    assert len(found) == 5
    assert usage_examples(tool, limit=2) == list(own[:2])
    assert usage_examples(tool, limit=0) == []


def test_an_example_the_author_already_gives_is_not_made_again() -> None:
    tool = entry("users:get", {"user_id": TEXT})
    first = usage_examples(tool)[0]

    again = usage_examples(entry("users:get", {"user_id": TEXT}, examples=(Example("mine", first.code),)))

    assert [example.code for example in again].count(first.code) == 1


def test_list_is_called_paged_and_cut_down_with_the_fields_of_its_output() -> None:
    tool = entry("users:list", {"limit": COUNT, "offset": {"type": "integer", "default": 0}}, users_output())

    plain, pages, digest = codes(tool)

    assert plain == 'const result = await callTool("users:list", { limit: 20 });\nreturn result;'
    assert "limit: 50, offset: found.length" in pages
    assert "if (items.length === 0) return found;" in pages
    assert 'result.users\n  .filter((item) => item.role === "admin")' in digest
    assert "({ id: item.id, name: item.name, bio: item.bio })" in digest


def test_pages_without_a_stated_maximum_have_the_default_size_and_end_with_an_empty_one() -> None:
    offset = {"type": "integer", "default": 0}
    tools = [entry("users:list", {"limit": size, "offset": offset}, users_output()) for size in SIZES]
    plain, pages = (codes(tool)[1] for tool in tools)

    assert "limit: 100, offset: found.length" in plain
    assert "limit: 25, offset: found.length" in pages
    assert all("if (items.length === 0) return found;" in code for code in (plain, pages))


@pytest.mark.parametrize("declared", [None, {"type": "object", "additionalProperties": True}])
def test_a_shape_learned_from_results_stands_in_for_a_schema(declared: dict[str, Any] | None) -> None:
    tool = entry("users:list", {"cursor": {**TEXT, "optional": True}}, declared)
    observed = {"type": "object", "properties": {"rows": ROWS, "next_cursor": TEXT}, "required": ["rows"]}
    made = [example.code for example in usage_examples(tool, {**observed, "x-observed": {"results": 5}})]

    assert "const items = result.rows;" in made[1]
    assert "cursor = result.next_cursor;" in made[1]
    assert ".filter((item) => item.open)" in made[2]


@pytest.mark.parametrize("kind", ["null", ["object", "null"], ["object", "array"]])
def test_a_learned_shape_of_several_types_is_as_good_as_none(kind: str | list[str]) -> None:
    tool = entry("users:list", {"offset": {"type": "integer", "default": 0}})
    assert usage_examples(tool, {"type": kind, "properties": {"rows": ROWS}}) == usage_examples(tool)


def test_a_learned_shape_never_outdoes_a_declared_one() -> None:
    tool = entry("users:list", {"offset": {"type": "integer", "default": 0}}, users_output())
    assert usage_examples(tool, {"type": "object", "properties": {"rows": ROWS}}) == usage_examples(tool)


@pytest.mark.parametrize("name", ["limit", "per_page", "perPage", "first", "page_size", "maxResults"])
@pytest.mark.parametrize(
    ("limits", "size"), [({}, 10), ({"maximum": 5}, 5), ({"minimum": 20}, 20), ({"default": 7}, 7)]
)
def test_a_page_of_an_example_has_more_than_one_item(name: str, limits: dict[str, Any], size: int) -> None:
    plain = codes(entry("users:list", {name: {"type": "integer", "optional": True, **limits}}, users_output()))[0]
    assert f"{name}: {size} }}" in plain


def test_get_is_made_safe_and_parallel() -> None:
    plain, safe, several = codes(entry("users:get", {"user_id": TEXT}))

    assert plain == 'const result = await callTool("users:get", { user_id: "user-1" });\nreturn result;'
    assert "throwOnError: false" in safe
    assert '["user-1", "user-2", "user-3"]' in several
    assert "__safe_parallel" in several


def test_delete_always_looks_whether_it_worked() -> None:
    made = codes(entry("orders:delete", {"order_id": TEXT}))

    assert len(made) >= 2
    assert all("throwOnError: false" in code for code in made)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": "fixed"}, '"fixed"'),
        ({"enum": [None, "red", "blue"]}, '"red"'),
        ({"type": "string", "examples": ["S-7"]}, '"S-7"'),
        ({"type": "string", "format": "date-time"}, '"2025-01-31T09:00:00Z"'),
        ({"type": "string", "maxLength": 3}, '"exa"'),
        ({"type": "string", "minLength": 10}, '"example-ex"'),
        ({"type": "integer", "minimum": 7}, "7"),
        ({"type": "integer", "exclusiveMaximum": 0}, "-1"),
        ({"type": "number", "minimum": 2.5, "multipleOf": 2}, "4"),
        ({"type": "boolean"}, "true"),
        ({"type": "null"}, "null"),
        ({"type": ["null", "integer"]}, "1"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "1"),
        ({"oneOf": [{"$ref": "#/$defs/Color"}]}, '"red"'),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "object"}]}, "{ a: 1 }"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, "[1, 1]"),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]}, "[1, true]"),
        ({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}, "{ b: 1 }"),
        ({"$ref": "https://elsewhere.example/schema"}, '"example"'),
        (True, '"example"'),
    ],
)
def test_sample_values_follow_the_schema(schema: Any, value: str) -> None:
    tool = CatalogEntry(
        name="compute",
        app_id="a",
        description="",
        input_schema={"properties": {"x": schema}, "required": ["x"], "$defs": {"Color": {"enum": ["red"]}}},
    )

    assert f'callTool("compute", {{ x: {value} }})' in codes(tool)[0]


def test_a_recursive_schema_ends() -> None:
    node = {"type": "object", "properties": {f"n{i}": {"$ref": "#/$defs/N"} for i in range(30)}}
    node["required"] = [f"n{i}" for i in range(30)]
    loop = {"$ref": "#/$defs/L"}
    tool = CatalogEntry(
        "compute",
        "a",
        "",
        {"$defs": {"N": node, "L": loop}, "properties": {"x": node, "y": loop}, "required": ["x", "y"]},
    )

    for example in usage_examples(tool):
        validate_javascript(example.code, STRICTEST)


def test_names_a_script_may_not_use_are_left_out() -> None:
    nasty = dict.fromkeys(("__proto__", "constructor", "prototype", "__safe_x", "fine"), TEXT)
    default = {"type": "object", "default": {"__proto__": 1, "ok": {"constructor": 2, "deep": 3}}}
    output = {"type": "array", "items": {"type": "object", "properties": nasty}}

    for name in ("users:list", "users:get", "users:create"):
        for example in usage_examples(entry(name, {**nasty, "options": {"optional": 1} | default}, output)):
            validate_javascript(example.code, STRICTEST)
            assert "__proto__" not in example.code
            assert "constructor" not in example.code


@pytest.mark.parametrize(
    "name",
    [
        'a"b',
        "a\\",
        "a\nb",
        "a\u2028b",
        "a\x00b",
        "<!-- x -->",
        "${x}",
        "`",
        "\u202eabc",
        "\ud800",
        "必应搜索",
        "😀",
        "(" * 70,
        "eval",
    ],
)
@pytest.mark.parametrize("verb", ["list", "get", "create", "update", "delete", "search", "x"])
def test_no_tool_name_breaks_an_example(name: str, verb: str) -> None:
    tool = entry(f"{name}:{verb}", {"id": {"enum": [name, name + "2"]}, name: TEXT, "limit": COUNT}, users_output())

    made = usage_examples(tool)

    assert 2 <= len(made) <= MAX_GENERATED
    for example in made:
        validate_javascript(example.code, STRICTEST)


NAMES = st.one_of(
    st.sampled_from(
        ["id", "limit", "offset", "page", "cursor", "query", "items", "next_cursor", "true", "null", "10", "a-b"]
    ),
    st.sampled_from(["__proto__", "constructor", "__ag_x", "callTool", "result", "item", "await", "return"]),
    st.text(max_size=12),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, max_size=2), SCALARS),
            "properties": st.one_of(st.dictionaries(NAMES, inner, max_size=4), SCALARS),
            "required": st.one_of(st.lists(NAMES, max_size=4), SCALARS),
            "items": inner,
            "anyOf": st.one_of(st.lists(inner, max_size=2), SCALARS),
            "allOf": st.one_of(st.lists(inner, max_size=2), SCALARS),
            "enum": st.one_of(st.lists(VALUES, max_size=3), SCALARS),
            "default": VALUES,
            "const": VALUES,
            "minimum": SCALARS,
            "maximum": SCALARS,
            "multipleOf": SCALARS,
            "minLength": SCALARS,
            "maxLength": SCALARS,
            "minItems": SCALARS,
            "format": st.one_of(st.sampled_from(["date", "uuid"]), SCALARS),
            "pattern": st.just("(a+)+$"),
            "$ref": st.sampled_from(["#", "#/properties/id", "#/nowhere", "x"]),
            "x-fastmcp-wrap-result": st.booleans(),
        },
    )


SCHEMAS = st.recursive(st.one_of(keywords(SCALARS), SCALARS), keywords, max_leaves=8)
OBJECTS = keywords(SCHEMAS)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    verb=st.sampled_from(["list", "get", "create", "update", "delete", "search", "x"]),
    name=st.text(max_size=10),
    inputs=OBJECTS,
    output=st.one_of(st.none(), OBJECTS),
)
def test_every_made_example_is_valid_under_every_preset(
    verb: str, name: str, inputs: dict[str, Any], output: dict[str, Any] | None
) -> None:
    tool = CatalogEntry(f"{name}:{verb}", "a", name, inputs, output)

    made = usage_examples(tool)

    assert len({example.code for example in made}) == len(made) <= MAX_GENERATED
    for example in made:
        validate_javascript(example.code, STRICTEST)
        assert "\n" not in example.description


PEOPLE = [{"id": f"u{n}", "name": f"N{n}", "bio": "", "role": ["admin", "member"][n % 2]} for n in range(120)]


async def run(code: str, handler: Callable[[str, dict[str, Any]], object]) -> object:
    async with Enclave(preset="locked_down") as enclave:
        result = await enclave.execute(code, tool_handler=handler)
    assert result.error is None, result.error
    return result.value


def by_offset(_name: str, given: dict[str, Any]) -> object:
    return {"users": PEOPLE[given["offset"] : given["offset"] + given["limit"]]}


def by_page(_name: str, given: dict[str, Any]) -> object:
    return PEOPLE[(given["page"] - 1) * 50 : given["page"] * 50]


def by_capped_offset(_name: str, given: dict[str, Any]) -> object:
    return {"users": PEOPLE[given["offset"] :][: min(given["limit"], 30)]}


def by_capped_page(_name: str, given: dict[str, Any]) -> object:
    size = min(given["per_page"], 30)
    return PEOPLE[(given["page"] - 1) * size : given["page"] * size]


def by_cursor(_name: str, given: dict[str, Any]) -> object:
    start = int(given.get("cursor") or 0)
    return {"users": PEOPLE[start : start + 40], "nextCursor": str(start + 40) if start + 40 < len(PEOPLE) else None}


@pytest.mark.parametrize(
    ("inputs", "output", "handler"),
    [
        pytest.param(
            {"limit": COUNT, "offset": {"type": "integer", "default": 0}}, users_output(), by_offset, id="offset"
        ),
        pytest.param(
            {"page": {"type": "integer", "default": 1}, "per_page": COUNT}, None, by_page, id="page, unknown output"
        ),
        pytest.param(
            {"limit": {"type": "integer"}, "offset": {"type": "integer", "default": 0}},
            users_output(),
            by_capped_offset,
            id="offset, with a cap that is not stated",
        ),
        pytest.param(
            {"page": {"type": "integer", "default": 1}, "per_page": {"type": "integer", "default": 50}},
            None,
            by_capped_page,
            id="page, with a cap that is not stated",
        ),
        pytest.param(
            {"cursor": {"anyOf": [TEXT, {"type": "null"}], "default": None}},
            users_output(nextCursor={"anyOf": [TEXT, {"type": "null"}]}),
            by_cursor,
            id="cursor",
        ),
    ],
)
async def test_a_paging_example_reads_everything(
    inputs: dict[str, Any], output: dict[str, Any] | None, handler: Callable[[str, dict[str, Any]], object]
) -> None:
    tool = entry("users:list", inputs, output)
    pages = next(example for example in usage_examples(tool) if "pages" in example.description)

    assert await run(pages.code, handler) == PEOPLE


@pytest.mark.parametrize("verb", ["get", "create", "update", "delete", "search", "list", "compute"])
async def test_made_examples_run(verb: str) -> None:
    tool = entry(f"users:{verb}", {"user_id": TEXT, "query": TEXT, "limit": COUNT}, users_output(id=TEXT))
    calls: list[str] = []

    def handler(name: str, given: dict[str, Any]) -> object:
        calls.append(name)
        assert set(given) == {"user_id", "query", "limit"}
        return {"users": PEOPLE[:2], "id": "u1"}

    for example in usage_examples(tool):
        assert await run(example.code, handler) is not None
    assert set(calls) == {tool.name}


async def test_checked_examples_report_what_failed() -> None:
    def handler(_name: str, _given: dict[str, Any]) -> object:
        raise ValueError("gone")

    first, several = codes(entry("users:delete", {"user_id": TEXT}))[:2]

    assert await run(first, handler) == {"deleted": False, "reason": "gone"}
    assert await run(several, handler) == {"failed": [{"value": f"user-{n}", "reason": "gone"} for n in (1, 2, 3)]}
