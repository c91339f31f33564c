"""Declarations compile, and every value that a schema allows is of the declared type: the real compiler says so."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy, dictionaries, sampled_from

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.typescript.declarations import declaration, declarations
from tests.catalog.catalog import CATALOG
from tests.catalog.typescript.odd_schemas import ODDITIES
from tests.catalog.typescript.random_schemas import KEYWORDS, RUBBISH, documents, values_of
from tests.typescript.compiler import complaints

EXAMPLES = 60
"""Schemas for one run of the compiler: some two seconds, most of them hypothesis and the judge of values."""

EXCESS = "TS2353"
"""The literal has a property that its alternative does not have, but another one: the value is of the type."""


def entry(name: str, given: Any, gives: Any = None, **more: Any) -> CatalogEntry:
    return CatalogEntry(name=name, app_id="app", description="", input_schema=given, output_schema=gives, **more)


def everything() -> list[CatalogEntry]:
    """The catalog of the tests, and the oddities both as inputs and as outputs."""
    odd = [
        entry(f"odd:{number}", {"properties": {"it": schema}} if schema is True else schema, schema)
        for number, (schema, _) in enumerate(ODDITIES)
    ]
    names = ("a:b", "a_b", "a-b", "a.b", "a$0b", "A b", "ä", "x" * 99)
    alike = [entry(name, {"type": "object"}, BOOKS) for name in names]
    others = [
        entry("notes://{folder}/`${x}`{?page,size}", {}, kind="template"),
        entry("notes://all\\n", {}, kind="resource"),
        entry("a:b", {"type": "object", "properties": {"topic": {"type": "string"}}}, kind="prompt"),
    ]
    return [*CATALOG, *odd, *alike, *others]


BOOKS = {
    "type": "array",
    "items": {"$ref": "#/$defs/book"},
    "$defs": {
        "book": {"type": "object", "properties": {"title": {"type": "string"}, "next": {"$ref": "#/$defs/book"}}}
    },
}


def test_the_declarations_of_a_whole_catalog_make_one_file_that_compiles():
    declared = [declaration(each, brief=brief) for brief in (False, True) for each in everything()]
    half = len(declared) // 2
    for part in (declared[:half], declared[half:]):
        assert complaints("\n".join(part)) == []


def test_declarations_that_share_their_types_compile_together():
    types, texts = declarations([(each, None) for each in everything()])
    assert types
    assert len(texts) == len(everything())
    assert complaints("\n".join((types, *texts))) == []


def test_the_compiler_does_complain():
    wrong = "\n".join(
        (declaration(entry("t", {"properties": {"n": {"type": "integer"}}})), 'callTool("t", { n: "1" });')
    )
    assert [complaint.code for complaint in complaints(wrong)] == ["TS2322"]


def made(schemas: SearchStrategy[Any], count: int) -> list[Any]:
    """As many examples of a strategy, the same in every run: the compiler is too slow to be asked about each alone."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(schemas)
    def make(schema: Any) -> None:
        found.append(schema)

    make()
    return found


def test_what_only_looks_like_a_schema_is_declared_as_something():
    rubbish = made(dictionaries(sampled_from(KEYWORDS), RUBBISH, max_size=6), 2 * EXAMPLES)
    entries = [entry(f"t{number}", schema, schema) for number, schema in enumerate(rubbish)]
    assert complaints("\n".join(map(declaration, entries))) == []
    types, texts = declarations([(each, None) for each in entries])
    assert complaints("\n".join((types, *texts))) == []


def test_every_valid_value_is_of_the_declared_type():
    lines: list[str] = []
    about: dict[int, Any] = {}
    valid = 0
    for number, document in enumerate(made(documents(), EXAMPLES)):
        given_, definitions = {"type": "object", "properties": {"v": document}, "required": ["v"]}, document["$defs"]
        tool = entry("t", {**given_, "$defs": definitions}, document)
        # As it is declared beside another, of the same types, which end up in `types`.
        twin = entry("u", tool.input_schema, document)
        types, texts = declarations([(tool, None), (twin, None)])
        text = "\n".join((types, *texts)) if number % 2 else declaration(tool)
        values = [json.dumps(value) for value in values_of(document, number)]
        valid += len(values)
        written = [f"namespace N{number} {{", *text.split("\n")]
        for value in values:
            written.append(f'callTool("t", {{ v: {value} }});')
            written.append(f"((value: Awaited<ReturnType<typeof callTool>>) => value)({value});")
        for line in [*written, "}"]:
            lines.append(line)
            about[len(lines)] = document, line, text
    wrong = [complaint for complaint in complaints("\n".join(lines)) if complaint.code != EXCESS]
    assert [(complaint, about[complaint.line]) for complaint in wrong[:3]] == []
    assert valid > 2 * EXAMPLES
