"""Input schemas and what refuses wrong arguments: the two must agree, and every refusal names the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jsonschema
import msgspec
import pytest
from fastmcp.exceptions import ValidationError
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall import CodeCallPlugin
from codecall.jsonio.decode import exceeds_chars
from codecall.meta_tools.argument_conversions import convert_arguments
from codecall.meta_tools.base import Arguments, ArgumentsError, parse_arguments
from codecall.meta_tools.describe import DescribeArguments
from codecall.meta_tools.execute import MAX_ALL_GLOBS_CHARS, ExecuteArguments
from codecall.meta_tools.invoke import InvokeArguments
from codecall.meta_tools.search.tool import SearchArguments
from tests.work import python_steps

MODELS: dict[str, type[Arguments]] = {
    "search": SearchArguments,
    "describe": DescribeArguments,
    "invoke": InvokeArguments,
    "execute": ExecuteArguments,
}
SCHEMAS = {tool.name.removeprefix("codecall:"): tool.parameters for tool in CodeCallPlugin.init().meta_tools}

word = st.sampled_from(
    ["", "a", "b", "codecall:x", "x" * 1_000, "x" * 1_001, '{"a": 1}', '["a", "a"]', "[1]", "{", "5", "0.5", " TRUE"]
)
scalar = st.one_of(st.booleans(), st.integers(-1, 60), st.floats(allow_nan=False, allow_infinity=False), word)
words = st.one_of(st.lists(word, max_size=12), st.lists(scalar, max_size=3), scalar)
many = st.integers(49, 52).map(lambda n: [f"t{i}" for i in range(n)])
thing = st.one_of(scalar, words, st.dictionaries(st.sampled_from(["appIds", "tags", "x"]), words, max_size=2), many)
keys = sorted({key for schema in SCHEMAS.values() for key in schema["properties"]} | {"unknown"})


def holds_integral_float(value: object) -> bool:
    """JSON Schema takes 5.0 for an integer; we want 5."""
    return isinstance(value, float) and value.is_integer()


def read(text: str, kind: type) -> Any:
    """What JSON text holds, if it is of that kind; else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if type(value) is kind else text


def texts(value: Any) -> Any:
    """An array of texts for one text, or for the JSON of such an array; else the value."""
    if not isinstance(value, str) or not value:
        return value
    held = read(value, list)
    return held if isinstance(held, list) and all(isinstance(item, str) for item in held) else [value]


def once(value: Any) -> Any:
    """An array of texts with each once; else the value."""
    is_texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return list(dict.fromkeys(value)) if is_texts else value


MEANT: dict[str, Callable[[Any], Any]] = {
    "input": lambda value: read(value, dict) if isinstance(value, str) else value,
    "context": lambda value: read(value, dict) if isinstance(value, str) else value,
    "filter": lambda value: (
        {key: texts(item) if key in {"appIds", "tags", "kinds"} else item for key, item in value.items()}
        if isinstance(value, dict)
        else read(value, dict)
        if isinstance(value, str)
        else value
    ),
    "toolNames": lambda value: once(texts(value)),
    "excludeToolNames": texts,
    "allowedTools": texts,
    "topK": lambda value: read(value, int) if isinstance(value, str) else value,
    "minScore": lambda value: float(value) if value in ("5", "0.5") else value,
    "dryRun": lambda value: True if value == " TRUE" else value,
}
"""What the arguments mean: the one list of conversions, a second time."""


@pytest.mark.parametrize("verb", MODELS)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_what_is_taken_is_what_the_schema_takes_and_exactly_these_conversions(verb: str, data: st.DataObject) -> None:
    schema = SCHEMAS[verb]
    required = {name: data.draw(thing) for name in schema["required"] if data.draw(st.integers(0, 9))}
    arguments = required | data.draw(st.dictionaries(st.sampled_from(keys), thing, max_size=2))
    if holds_integral_float(arguments.get("topK")):
        return
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    meant = {name: MEANT.get(name, lambda value: value)(value) for name, value in arguments.items()}
    converted, notes = convert_arguments(arguments)

    def is_taken(arguments: dict[str, Any]) -> bool:
        try:
            parse_arguments(MODELS[verb], verb, arguments)
        except ArgumentsError:
            return False
        return True

    assert is_taken(arguments) == is_valid(arguments), arguments
    assert is_taken(converted) == is_valid(meant), arguments
    if is_valid(meant):
        # What the schema takes as it is, is left as it is; and nothing is converted in silence.
        assert bool(notes) != is_valid(arguments), (arguments, notes)
        assert converted == meant


@pytest.mark.parametrize(
    ("verb", "arguments", "same", "notes"),
    [
        ("search", {"query": "users", "topK": "1"}, {"topK": 1}, ["topK: the number in the text was taken"]),
        ("search", {"query": "users", "topK": 1.0}, {"topK": 1}, ["topK: a whole number was taken"]),
        ("search", {"query": "users", "minScore": "0.1"}, {"minScore": 0.1}, ["minScore: the number in the text"]),
        (
            "search",
            {"query": "users", "filter": '{"appIds": "users"}', "excludeToolNames": "users_get"},
            {"filter": {"appIds": ["users"]}, "excludeToolNames": ["users_get"]},
            ["filter: the JSON object in", "filter.appIds: one text was taken", "excludeToolNames: one text was"],
        ),
        (
            "describe",
            {"toolNames": '["users_list", "users_list"]'},
            {"toolNames": ["users_list"]},
            ["toolNames: the JSON array in the text was taken", "toolNames: what is given twice was taken once"],
        ),
        ("invoke", {"tool": "users_get", "input": '{"id": 7}'}, {"input": {"id": 7}}, ["input: the JSON object in"]),
        ("invoke", {"tool": "users_get", "input": "{}"}, {"input": {}}, ["input: the JSON object in the text"]),
        (
            "execute",
            {"script": "return codecallContext", "context": '{"a": [1]}', "allowedTools": "users_*", "dryRun": "false"},
            {"context": {"a": [1]}, "allowedTools": ["users_*"], "dryRun": False},
            ["context: the JSON object in", "allowedTools: one text was", "dryRun: the text was taken for true or"],
        ),
        ("execute", {"script": "return x", "allowedTools": "a"}, {"allowedTools": ["a"]}, ["allowedTools: one text"]),
    ],
)
async def test_what_certainly_means_the_same_is_taken_with_a_note(
    shop: Any, verb: str, arguments: dict[str, Any], same: dict[str, Any], notes: list[str]
) -> None:
    def stable(answer: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in answer.items() if key not in {"stats", "runId", "warnings"}}

    answer = await shop.ask(f"codecall:{verb}", **arguments)
    strict = await shop.ask(f"codecall:{verb}", **arguments | same)
    described = next(tool for tool in shop.plugin.meta_tools if tool.name == f"codecall:{verb}")
    jsonschema.validate(answer, described.output_schema)
    assert stable(answer) == stable(strict)
    added = [warning for warning in answer["warnings"] if warning not in strict.get("warnings", ())]
    assert len(added) == len(notes)
    assert all(warning.startswith(note) for warning, note in zip(added, notes, strict=True))


@pytest.mark.parametrize("verb", MODELS)
def test_null_stands_for_left_out(verb: str) -> None:
    required: dict[str, Any] = {"query": "x", "toolNames": ["x"], "tool": "x", "input": {}, "script": "x"}
    schema = SCHEMAS[verb]
    arguments = {name: required.get(name) for name in schema["properties"]}
    parse_arguments(MODELS[verb], verb, arguments)


@pytest.mark.parametrize("verb", MODELS)
def test_every_schema_is_closed_and_simple(verb: str) -> None:
    schema = SCHEMAS[verb]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert "$ref" not in str(schema)
    assert "$defs" not in schema


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("search", {}, "query: Field required"),
        ("search", {"query": 7}, "query: Input should be a string or an array of strings"),
        ("search", {"query": "x" * 1_001}, "query: String should have at most 1000 characters"),
        ("search", {"query": ["ok", "x" * 1_001]}, "query.1: String should have at most 1000 characters"),
        ("search", {"query": ["x"] * 11}, "query: Array should have at most 10 items"),
        ("search", {"query": []}, "query: Array should have at least 1 item"),
        ("search", {"query": "x", "topK": 0}, "topK: Input should be greater than or equal to 1"),
        ("search", {"query": "x", "topK": 51}, "topK: Input should be less than or equal to 50"),
        ("search", {"query": "x", "topK": "51"}, "topK: Input should be less than or equal to 50"),
        ("search", {"query": "x", "topK": "five"}, "topK: Input should be a whole number"),
        ("search", {"query": "x", "topK": 1.5}, "topK: Input should be a whole number"),
        ("search", {"query": "x", "topK": True}, "topK: Input should be a whole number"),
        ("search", {"query": "x", "minScore": 1.5}, "minScore: Input should be less than or equal to 1"),
        ("search", {"query": "x", "detail": "all"}, "detail: Input should be 'name', 'brief', 'full' or 'typescript'"),
        ("search", {"query": "x", "filter": {"app": []}}, "filter.app: unknown argument"),
        ("search", {"query": "x", "filter": {"appIds": 7}}, "filter.appIds: Input should be an array"),
        ("search", {"query": "x", "limit": 3}, "limit: unknown argument; known: query, topK, filter"),
        ("search", {"query": "x", "format": "typescript"}, "search: format: unknown argument; did you mean detail?"),
        (
            "describe",
            {"toolNames": ["a"], "detail": "full"},
            "describe: detail: unknown argument; did you mean format?",
        ),
        (
            "describe",
            {"tools": ["a"], "detail": "full"},
            "detail: unknown argument; did you mean format?; known: toolNames, format",
        ),
        ("describe", {"detail": "full"}, "toolNames: Field required; detail: unknown argument; did you mean format?"),
        ("describe", {"toolNames": ["a"], "format": 1, "detail": "full"}, "format: Input should be 'json'"),
        ("search", {"q": "x"}, "search: q: unknown argument; did you mean query?"),
        ("search", {"text": "x", "filter": {"app": []}}, "text: unknown argument; did you mean query?"),
        ("execute", {"code": "return 1"}, "execute: code: unknown argument; did you mean script?"),
        (
            "invoke",
            {"toolName": "x", "args": {}},
            "toolName: unknown argument; args: unknown argument; known: tool, input",
        ),
        ("describe", {"toolNames": []}, "toolNames: Array should have at least 1 item, not 0"),
        ("describe", {"toolNames": ""}, "toolNames: Input should be an array"),
        ("describe", {"toolNames": [f"t{i}" for i in range(51)]}, "toolNames: Array should have at most 50 items"),
        ("describe", {"toolNames": ["a", 1]}, "toolNames.1: Input should be a string"),
        ("describe", {"toolNames": ["a"], "format": "xml"}, "format: Input should be 'json' or 'typescript'"),
        ("invoke", {"tool": "x"}, "input: Field required"),
        ("invoke", {"tool": 1, "input": {}}, "tool: Input should be a string"),
        ("invoke", {"tool": "x", "input": "{id: 7}"}, "input: Input should be an object"),
        ("invoke", {"tool": "x", "input": '{"a": ' + "[" * 5_000}, "input: Input should be an object"),
        ("execute", {}, "script: Field required"),
        ("execute", {"script": 5}, "script: Input should be a string"),
        ("execute", {"script": None}, "script: Input should be a string"),
        ("execute", {"script": "x", "context": []}, "context: Input should be an object"),
        ("execute", {"script": "x", "context": "[1]"}, "context: Input should be an object"),
        ("execute", {"script": "x", "allowedTools": {}}, "allowedTools: Input should be an array"),
        ("execute", {"script": "x", "allowedTools": [None]}, "allowedTools.0: Input should be a string"),
        ("execute", {"script": "x", "allowedTools": ["a"] * 1_001}, "allowedTools: Array should have at most 1000"),
        (
            "execute",
            {"script": "x", "allowedTools": ["a" * 257]},
            "allowedTools.0: String should have at most 256",
        ),
        ("describe", {"toolNames": ["a" * 1_025]}, "toolNames.0: String should have at most 1024 characters"),
    ],
)
async def test_a_refusal_names_tool_and_field(shop: Any, verb: str, arguments: dict[str, Any], message: str) -> None:
    refusal = await shop.refusal(f"codecall:{verb}", **arguments)
    assert refusal.startswith(f"codecall:{verb}: ")
    assert message in refusal


async def test_all_bad_fields_are_named_at_once(shop: Any) -> None:
    refusal = await shop.refusal("codecall:search", query=3, topK="a", zzz=1)
    assert all(field in refusal for field in ("query:", "topK:", "zzz:"))


async def test_very_many_bad_fields_are_counted(shop: Any) -> None:
    refusal = await shop.refusal("codecall:execute", script="x", allowedTools=[0] * 1_000)
    assert refusal.endswith("and 990 more")
    assert len(refusal) < 1_000


async def test_the_message_uses_the_advertised_name(make_shop: Any) -> None:
    refusal = await make_shop(tool_name_separator="_").refusal("codecall:execute", script=1)
    assert refusal.startswith("codecall_execute: script:")


async def test_a_context_is_json_of_limited_size(shop: Any) -> None:
    refusal = await shop.refusal("codecall:execute", script="return 1", context={"x": "y" * 300_000})
    assert refusal == "codecall:execute: context: 300,008 bytes of JSON; at most 262,144 are allowed"


async def test_a_context_that_is_far_too_large_is_not_written_to_be_counted(shop: Any) -> None:
    refusal = await shop.refusal("codecall:execute", script="return 1", context={"x": [0] * 1_000_000})
    assert refusal == "codecall:execute: context: more than 262,144 bytes of JSON are not allowed"


async def test_globs_are_limited_together_and_exact_names_are_not(shop: Any) -> None:
    globs = [f"{'x' * 60}{n:03}*" for n in range(256)]
    assert sum(map(len, globs)) == MAX_ALL_GLOBS_CHARS
    names = ["y" * 256] * 700
    assert (await shop.ask("codecall:execute", script="return 1", allowedTools=[*globs, *names]))["result"] == 1
    refusal = await shop.refusal("codecall:execute", script="return 1", allowedTools=[*globs, "*"])
    assert refusal.startswith("codecall:execute: allowedTools: the globs have 16,385 characters; at most 16,384 are")


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4)),
        max_leaves=30,
    )
)
def test_no_json_is_less_than_a_fifth_of_its_estimate(value: object) -> None:
    """What `_check_context` refuses by the estimate alone is too long indeed."""
    assert not exceeds_chars(value, 5 * len(msgspec.json.encode(value)) + 8)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_arguments_without_end_are_refused_unseen(model: type[Arguments]) -> None:
    def refuse(count: int) -> None:
        with pytest.raises(ValidationError, match=f"{count:,} arguments were given; there are") as refused:
            parse_arguments(model, "tool", {f"k{number}": 1 for number in range(count)})
        assert not isinstance(refused.value, ArgumentsError)

    assert python_steps(partial(refuse, 2_000)) < 2 * 2_000 + 100
