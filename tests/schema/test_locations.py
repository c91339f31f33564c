"""The fields of pydantic's errors about unions: paths of the input, and the alternatives in words."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from fastmcp import Client, FastMCP
from fastmcp.tools import FunctionTool
from fastmcp.utilities.json_schema import dereference_refs
from fastmcp.utilities.types import get_cached_typeadapter
from pydantic import BaseModel, Field, ValidationError

from codecall import CodeCallPlugin
from codecall.calls.input_texts import problems_from_text
from codecall.calls.pydantic_errors import MAX_READ_ERRORS, problems_from_pydantic
from codecall.schema.validation import MAX_FIELDS, MAX_FORMS_CHARS, describe_parameters
from tests.work import python_steps


class Email(BaseModel):
    kind: Literal["email"]
    address: str
    email: str = ""


class Sms(BaseModel):
    kind: Literal["sms"]
    number: str


class Push(BaseModel):
    kind: Literal["push", "alert"]
    level: Literal[1, 2] = 1


class Folder(BaseModel):
    items: list[Folder | int] = []


def notify(
    to: Annotated[Email | Sms | Push, Field(discriminator="kind")],
    patch: dict[str, str | int | None] | None = None,
    copy: Email | Sms | int | None = None,
    also: list[Annotated[Email | Sms, Field(discriminator="kind")] | None] | None = None,
    folder: Folder | None = None,
    pair: tuple[int, Sms | str] | None = None,
) -> str:
    """Send a notification."""
    return "sent"


TO = {"kind": "sms", "number": "1"}
EMAIL = "{kind: 'email', address, email?}"
SMS = "{kind: 'sms', number}"
TAGS = "one of 'email', 'sms', 'push', 'alert'"

WRONG: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
    ({"to": {"kind": "email", "number": "1"}}, [("to.address", "Field required where kind is 'email'", "string")]),
    (
        {"to": {"kind": "email", "email": 1, "address": "a"}},
        [("to.email", "Input should be a valid string where kind is 'email'", "string")],
    ),
    (
        {"to": {"kind": "alert", "level": 3}},
        [("to.level", "Input should be 1 or 2 where kind is 'alert'", "one of 1, 2")],
    ),
    ({"to": {"kind": "fax"}}, [("to.kind", "Not one of the allowed values", TAGS)]),
    ({"to": {}}, [("to.kind", "Field required", TAGS)]),
    (
        {"to": TO, "patch": {"age": 1.5, "str": []}},
        [
            (
                "patch.age",
                "Input should be a valid string, or a valid integer, got a number with a fractional part",
                "string or integer or null",
            ),
            ("patch.str", "Input should be a valid string, or a valid integer", "string or integer or null"),
        ],
    ),
    (
        {"to": TO, "copy": {"kind": "email"}},
        [
            ("copy.address", f"Field required in the form {EMAIL}", "string"),
            ("copy.kind", f"Input should be 'sms' in the form {SMS}", "one of 'sms'"),
            ("copy.number", f"Field required in the form {SMS}", "string"),
            ("copy", "Input should be a valid integer", f"{EMAIL} or {SMS} or integer or null"),
        ],
    ),
    ({"to": TO, "also": [None, {"kind": "sms"}]}, [("also.1.number", "Field required where kind is 'sms'", "string")]),
    (
        {"to": TO, "folder": {"items": [1, {"items": ["x"]}]}},
        [
            (
                "folder.items.1.items.0",
                "Input should be an object, or a valid integer, unable to parse string as an integer",
                "{items?} or integer",
            ),
            ("folder.items.1", "Input should be a valid integer", "{items?} or integer"),
        ],
    ),
    (
        {"to": TO, "pair": [1, {"kind": "sms"}]},
        [
            ("pair.1.number", f"Field required in the form {SMS}", "string"),
            ("pair.1", "Input should be a valid string", f"{SMS} or string"),
        ],
    ),
]

SCHEMA: dict[str, Any] = dereference_refs(FunctionTool.from_function(notify).parameters)


def without_discriminators(schema: Any) -> Any:
    """A schema as FastMCP publishes it where it has no references left."""
    if isinstance(schema, list):
        return [without_discriminators(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_discriminators(each) for key, each in schema.items() if key != "discriminator"}


def failing(arguments: dict[str, Any]) -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        get_cached_typeadapter(notify).validate_python(arguments)
    return raised.value


@pytest.mark.parametrize("schema", [SCHEMA, without_discriminators(SCHEMA)], ids=["stated", "published"])
@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[json.dumps(given) for given, _ in WRONG])
def test_fields_are_paths_of_the_input(
    arguments: dict[str, Any], said: list[tuple[str, str, str]], schema: dict[str, Any]
) -> None:
    problems = problems_from_pydantic(failing(arguments), arguments, schema)
    assert [(each["field"], each["message"], each["expected"]) for each in problems] == said


def test_a_name_that_is_a_label_and_a_member_is_told_apart_by_the_schema() -> None:
    arguments = {"to": {"kind": "email", "email": "x"}}
    assert [each["field"] for each in problems_from_pydantic(failing(arguments), arguments, SCHEMA)] == ["to.address"]


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (WRONG[0][0], ["to.address"]),
        ({"to": TO, "patch": {"age": 1.5}}, ["patch.age", "patch.age"]),
        ({"to": TO, "patch": '{"age": 1.5}'}, ["patch"]),
    ],
)
def test_without_a_schema_the_input_tells_the_path(arguments: dict[str, Any], fields: list[str]) -> None:
    assert [each["field"] for each in problems_from_pydantic(failing(arguments), arguments, {})] == fields


@pytest.mark.parametrize("known", [True, False])
def test_the_text_of_another_server_is_read_so_too(known: bool) -> None:
    for arguments, said in WRONG:
        problems = problems_from_text(str(failing(arguments)), arguments if known else {}, SCHEMA)
        assert [(each["field"], each["message"], each["expected"]) for each in problems or ()] == said


def test_valid_parameters_name_the_alternatives() -> None:
    assert describe_parameters(SCHEMA) == (
        f"Valid parameters (* = required): to* ({EMAIL} | {SMS} | {{kind: 'push' | 'alert', level?: 1 | 2}}), "
        f"patch (object | null), copy ({EMAIL} | {SMS} | integer | null), also (array | null), folder (object | null), "
        "pair (array | null)."
    )


def test_alternatives_are_bounded() -> None:
    large = {"type": "object", "properties": {f"m{n}": {} for n in range(9)}}
    either: dict[str, Any] = {"anyOf": [large, {"type": "string"}]}
    assert "{m0?, m1?, m2?, m3?, m4?, m5?, … 3 more} | string" in describe_parameters({"properties": {"a": either}})
    long = {"type": "object", "properties": {"m" * MAX_FORMS_CHARS: {}}}
    assert "a (object | string)" in describe_parameters({"properties": {"a": {"anyOf": [long, {"type": "string"}]}}})


@pytest.mark.parametrize("schema", [SCHEMA, without_discriminators(SCHEMA)], ids=["stated", "published"])
def test_many_errors_of_alternatives_take_few_steps(schema: dict[str, Any]) -> None:
    arguments = {"to": TO, "also": [{"kind": "sms"}] * MAX_READ_ERRORS}
    failure = failing(arguments)
    problems = problems_from_pydantic(failure, arguments, schema)
    assert problems[-1]["message"] == f"and {MAX_READ_ERRORS - MAX_FIELDS} more bad fields"
    assert python_steps(lambda: problems_from_pydantic(failure, arguments, schema)) < 250_000


@pytest.mark.anyio
async def test_a_script_is_told_the_path_that_it_has_to_write() -> None:
    server = FastMCP[Any]("crm")
    server.tool(notify)
    CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}).install(server)
    async with Client(server) as client:
        script = "return await notify({to: {kind: codecallContext.kind, number: '1'}})"
        answer = await client.call_tool("codecall:execute", {"script": script, "context": {"kind": "email"}})
    error = (answer.structured_content or {})["error"]
    assert error["message"].startswith(
        "Invalid input for 'notify': to.address: Field required where kind is 'email' (expected string). "
    )
    assert error["details"] == [
        {"field": "to.address", "message": "Field required where kind is 'email'", "expected": "string"}
    ]
