"""What of a tool an embedding model reads."""

from __future__ import annotations

from dataclasses import replace

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.search.embedding import (
    MAX_PARAMETER_CHARS,
    MAX_PARAMETERS,
    MAX_PASSAGE_CHARS,
    passages,
)

INVOICE = CatalogEntry(
    name="billing:createInvoice",
    app_id="billing_app",
    title="New invoice",
    description="Write  an invoice\nfor a customer.",
    input_schema={
        "properties": {"customerId": {"type": "string", "description": "Who pays"}, "due_date": {"type": "string"}}
    },
    tags=frozenset({"money", "documents"}),
    examples=(Example("Invoice of this month", "return 1"), Example("Second invoice", "return 2")),
)


def texts(entry: CatalogEntry) -> list[str]:
    return [passage.text for passage in passages(entry)]


def test_each_part_is_a_text_of_its_own():
    assert texts(INVOICE) == [
        "billing create invoice. New invoice",
        "Write an invoice for a customer.",
        "customer id, due date",
        "Who pays",
        "billing app, documents, money",
        "Invoice of this month. Second invoice",
    ]
    assert all(passage.weight > 0 for passage in passages(INVOICE))


def test_empty_parts_are_left_out():
    bare = CatalogEntry(name="ping", app_id="", description="  ", input_schema={})
    assert texts(bare) == ["ping"]
    assert texts(replace(bare, name="***")) == ["***"]


def test_odd_schemas_are_read_as_far_as_they_go():
    odd = replace(INVOICE, input_schema={"properties": {"a": True, "b": {"description": ["no"]}, "c": None}})
    assert texts(odd)[2] == "a, b, c"
    assert texts(replace(odd, input_schema={"properties": "none"}))[2] == "billing app, documents, money"


def test_long_texts_are_cut():
    many = {chr(0x4E00 + number): {"description": "word " * 200} for number in range(MAX_PARAMETERS + 9)}
    long = replace(INVOICE, description="word " * 2_000, input_schema={"properties": many})
    assert max(map(len, texts(long))) == MAX_PASSAGE_CHARS
    assert MAX_PASSAGE_CHARS - 5 <= len(texts(long)[3]) <= MAX_PASSAGE_CHARS
    assert len(texts(long)[2].split(", ")) == MAX_PARAMETERS
    one = replace(long, input_schema={"properties": {"a": many["\u4e00"]}})
    assert len(texts(one)[3]) <= MAX_PARAMETER_CHARS


def test_half_a_surrogate_pair_is_replaced():
    broken = replace(INVOICE, name="\ud800", title=None, description="an \udfff invoice")
    assert "".join(texts(broken)).encode()
    assert texts(replace(broken, description="", input_schema={}, app_id="", tags=frozenset(), examples=()))
