"""Tables of docs/reference that come from option models, error classes, schemas of tools and help texts."""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from fastmcp import Client, FastMCP
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from rich.console import Console

from codecall import ApprovalRequest, CodeCallPlugin, Decision, errors
from codecall.audit import events
from codecall.cli import exit_codes
from codecall.cli.app import COMMANDS, app
from codecall.envelopes import EXECUTE_SCHEMA
from codecall.errors import hints
from codecall.options import PluginOptions
from codecall.ratelimit.rules import RateLimitOptions, RateLimitRule
from tests.printed_tables import Printers, table, words

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema."""

MAX_DEPTH = 3
"""Levels of nested objects that the tables of schemas show."""

CLI_WIDTH = 100
"""Columns of the help texts."""

BOUNDS = (
    ("ge", "minimum", "≥ {:,}"),
    ("gt", "exclusiveMinimum", "> {:,}"),
    ("le", "maximum", "≤ {:,}"),
    ("lt", "exclusiveMaximum", "< {:,}"),
    ("min_length", "minLength", "at least {:,} long"),
    ("max_length", "maxLength", "at most {:,} long"),
    (None, "minItems", "at least {:,} items"),
    (None, "maxItems", "at most {:,} items"),
)
"""Constraints of numbers and lengths: their name in option models, their keyword in JSON Schema, their text."""

JSON_TYPES = {
    "array": "list",
    "boolean": "bool",
    "integer": "int",
    "null": "None",
    "number": "float",
    "object": "mapping",
    "string": "str",
}


OPTION_COLUMNS = ("option", "type", "default", "range", "effect")


def plugin_options() -> str:
    """Every option of the plugin."""
    effect = '`{"preset": name or path, limit: value}`: a [preset](presets.md), and what replaces its limits'
    return table(OPTION_COLUMNS, [("`vm`", "mapping", "`None`", "", effect), *option_rows(PluginOptions)])


def rate_limit_options() -> str:
    """Every option of the rate limits."""
    return table(OPTION_COLUMNS, option_rows(RateLimitOptions))


def rate_limit_rule() -> str:
    """Every key of a rate-limit rule."""
    return table(OPTION_COLUMNS, option_rows(RateLimitRule))


def approval_request() -> str:
    """Every field of what an approver is asked."""
    kinds = get_type_hints(ApprovalRequest)
    rows = [(f"`{name}`", python_type(kinds[name]), text) for name, text in field_texts(ApprovalRequest).items()]
    return table(("field", "type", "meaning"), rows)


def approval_decisions() -> str:
    """Every way to make the answer of an approver."""
    methods = [(name, getattr(Decision, name)) for name in vars(Decision) if not name.startswith("_")]
    made = [(name, method) for name, method in methods if inspect.ismethod(method)]
    return table(
        ("decision", "meaning"),
        [(f"`Decision.{name}{_parameters(method)}`", first_paragraph(method)) for name, method in made],
    )


def _parameters(method: Callable[..., object]) -> str:
    """The parameters of a method in brackets, without their types."""
    parameters = [each.replace(annotation=each.empty) for each in inspect.signature(method).parameters.values()]
    return str(inspect.Signature(parameters))


def error_codes() -> str:
    """Every error code: its status, its exception, when it comes and what to do."""
    rows = [
        (
            f"`{kind.code}`",
            "" if kind is errors.OptionsError else f"`{kind.status}`",
            f"`{kind.__name__}`",
            first_paragraph(kind),
            hints.DEFAULT_HINTS.get(kind.code, ""),
        )
        for kind in error_classes(errors.CodeCallError)
    ]
    rows += [
        (f"`{code}`", f"`{errors.LimitExceeded.status}`", "`LimitExceeded`", text, hints.DEFAULT_HINTS.get(code, ""))
        for code, text in errors.LIMITS.items()
    ]
    return table(("code", "status", "exception", "when", "hint"), rows)


def further_codes() -> str:
    """The codes of single parts, which have no public exception."""
    return table(("code", "when"), ((f"`{code}`", text) for code, text in errors.FURTHER_CODES.items()))


def command_codes() -> str:
    """The codes of commands, with the exit code of each."""
    rows = ((f"`{code}`", exit_codes.exit_for(code), text) for code, text in exit_codes.COMMAND_CODES.items())
    return table(("code", "exit code", "when"), rows)


def audit_events() -> str:
    """Every event of the audit record, with its fields."""
    rows = ((f"`{event.name}`", event.description, words(event.fields)) for event in events.EVENTS)
    return table(("event", "when", "further fields"), rows)


def meta_tool_tables() -> Printers:
    """The request and the answer of each meta-tool."""
    return {
        f"{name} {part}": partial(meta_tool_table, name, part)
        for name in ("search", "describe", "invoke", "execute")
        for part in ("request", "answer")
    }


def meta_tool_table(name: str, part: str) -> str:
    """The properties of a request or an answer, those of nested objects below them."""
    tool = definitions()[f"codecall:{name}"]
    answer = EXECUTE_SCHEMA if name == "execute" else tool.output_schema
    schema = tool.input_schema if part == "request" else answer
    return table(("field", "type", "range", "meaning"), schema_rows(schema, schema, "", MAX_DEPTH))


@cache
def definitions() -> dict[str, Any]:
    """The meta-tools that a client is given under the default options."""

    async def listed() -> dict[str, Any]:
        server = FastMCP("reference")
        CodeCallPlugin.init().install(server)
        async with Client(server) as client:
            return {tool.name: tool for tool in await client.list_tools()}

    return asyncio.run(listed())


def command_tables() -> Printers:
    """The help text of each command."""
    return {name: partial(command_help, name) for name, _, _ in COMMANDS}


def command_help(name: str) -> str:
    """What `codecall <name> --help` prints, without the exit codes."""
    text = io.StringIO()
    app.help_print([name], console=Console(file=text, width=CLI_WIDTH, color_system=None, legacy_windows=False))
    lines = text.getvalue().partition("Exit codes:")[0].strip().splitlines()
    return "\n".join(["```text", *map(str.rstrip, lines), "```\n"])


def option_rows(model: type[BaseModel], prefix: str = "") -> Iterator[Sequence[str]]:
    """A row for each option of a model, and below it rows for those of the model it holds."""
    texts = field_texts(model)
    for name, field in model.model_fields.items():
        if name in ("preset", "preset_name"):  # what `vm` becomes
            continue
        nested = nested_model(field.annotation)
        if field.default is PydanticUndefined:
            default = "required"
        else:
            default = "see below" if nested and field.default is not None else f"`{field.default!r}`"
        kind = "mapping" if nested else python_type(field.annotation)
        yield f"`{prefix}{name}`", kind, default, constraints(field.metadata), texts.get(name, "")
        if nested:
            yield from option_rows(nested, f"{prefix}{name}.")


def field_texts(model: type) -> dict[str, str]:
    """The text below each field in the source of a class and of its bases."""
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if owner.__module__.startswith("codecall."):
            source = textwrap.dedent(inspect.getsource(owner))
            for statement, text in pairwise(cast("ast.ClassDef", ast.parse(source).body[0]).body):
                match statement, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(sentence))):
                        texts[name] = " ".join(sentence.split())
                    case _:
                        pass
    return texts


def nested_model(annotation: object) -> type[BaseModel] | None:
    """The option model in an annotation, if there is one."""
    kinds = (annotation, *get_args(annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def python_type(annotation: Any) -> str:
    """An annotation in a few words."""
    origin, kinds = get_origin(annotation), get_args(annotation)
    if annotation is None or annotation is NoneType:
        text = "None"
    elif origin is Annotated:
        text = python_type(kinds[0])
    elif origin is Literal:
        text = " or ".join(f"`{value!r}`" for value in kinds)
    elif origin is tuple:
        text = f"list of {python_type(kinds[0])}"
    elif origin in (Union, UnionType):
        text = " or ".join(dict.fromkeys(map(python_type, kinds)))
    elif origin is not None:
        text = {dict: "mapping", Mapping: "mapping", Callable: "callable"}[origin]
    else:
        text = annotation.__name__
    return text


def constraints(metadata: Iterable[object]) -> str:
    """The range that the constraints of a field leave."""
    return ", ".join(
        text.format(value)
        for constraint in metadata
        for name, _, text in BOUNDS
        if name is not None and (value := getattr(constraint, name, None)) is not None
    )


def error_classes(root: type[errors.CodeCallError]) -> Iterator[type[errors.CodeCallError]]:
    """The classes below `root` that have a code of their own."""
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            if "code" in vars(kind):
                yield kind
            yield from error_classes(kind)


def first_paragraph(item: object) -> str:
    """The first paragraph of a docstring, as one line."""
    return " ".join((inspect.getdoc(item) or "").partition("\n\n")[0].split())


def schema_rows(schema: Schema, root: Schema, path: str, depth: int) -> Iterator[Sequence[str]]:
    """Rows for the properties of `schema` and `depth` levels below them; `root` holds what `$ref` names."""
    listed: set[str] = set()
    for option in (schema, *schema.get("oneOf", []), *schema.get("anyOf", [])):
        alternative = resolve(option, root)
        required = alternative.get("required", [])
        for name, property_schema in alternative.get("properties", {}).items():
            if name in listed:
                continue
            listed.add(name)
            field = resolve(property_schema, root)
            label = f"`{path}{name}`" if name in required else f"`{path}{name}` (optional)"
            yield label, schema_type(field, root), schema_constraints(field), field.get("description", "")
            if depth:
                below = f"{path}{name}[]." if "items" in field else f"{path}{name}."
                yield from schema_rows(field.get("items", field), root, below, depth - 1)


def resolve(schema: Schema, root: Schema) -> Schema:
    """A schema with what its `$ref` names in place of it."""
    if "$ref" not in schema:
        return schema
    definition = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}


def schema_type(schema: Schema, root: Schema) -> str:
    """The type that a JSON Schema states, in a few words."""
    schema = resolve(schema, root)
    kind = JSON_TYPES.get(str(schema.get("type")), "any")
    if options := schema.get("anyOf"):
        kind = " or ".join(dict.fromkeys(schema_type(option, root) for option in options))
    elif values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        kind = " or ".join(f"`{json.dumps(value)}`" for value in values)
    elif kind == "list" and "items" in schema:
        kind = f"list of {schema_type(schema['items'], root)}"
    return kind


def schema_constraints(schema: Schema) -> str:
    """What the keywords of a schema leave of its type, and its default."""
    texts = [text.format(schema[keyword]) for _, keyword, text in BOUNDS if keyword in schema]
    return ", ".join([*texts, *([f"default `{json.dumps(schema['default'])}`"] if "default" in schema else [])])
