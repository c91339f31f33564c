"""The schemas of tools that a test declares, by hand or from a server, and the check of values with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from codecall.schema.validator import FORMATS

JsonObject = dict[str, object]

SchemaProblem = dict[str, str]
"""What is wrong with one field: `field` and `message`."""

Side = Literal["input", "output"]

_SIDES: Final[tuple[Side, Side]] = ("input", "output")

MAX_PROBLEMS: Final = 10
"""Most problems of one value that are reported."""

_MAX_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """What a test declares of a tool; None for what it does not declare."""

    name: str
    description: str | None = None
    input_schema: Mapping[str, object] | None = None
    output_schema: Mapping[str, object] | None = None

    @classmethod
    def from_mapping(cls, tool: Mapping[str, object]) -> DeclaredTool:
        """Read a mapping with `name`, `description`, `inputSchema` and `outputSchema`.

        Raises:
            TypeError: it has no name, or one of the others is of the wrong type.
        """
        name, description = tool.get("name"), tool.get("description")
        schemas = [tool.get("inputSchema"), tool.get("outputSchema")]
        if not isinstance(name, str) or not isinstance(description, str | None):
            raise TypeError(f"a tool has a `name` and perhaps a `description`, both text: {tool!r}")
        if not all(isinstance(schema, Mapping | None) for schema in schemas):
            raise TypeError(f"the inputSchema and outputSchema of {name!r} are JSON Schemas, or missing")
        input_schema, output_schema = cast("list[Mapping[str, object] | None]", schemas)
        return cls(name, description, input_schema, output_schema)


class DeclaredTools:
    """The declared tools of one test by name."""

    def __init__(self) -> None:
        self._tools: dict[str, DeclaredTool] = {}
        self._server: str | None = None
        self._schemas: dict[tuple[str, Side], SchemaChecker | None] = {}

    @property
    def names(self) -> list[str]:
        """The names of the declared tools."""
        return list(self._tools)

    def add(self, tool: DeclaredTool) -> None:
        """Declare a tool; what is None stays as it was declared before.

        Raises:
            ValueError: one of its schemas is no JSON Schema.
        """
        before = self._tools.get(tool.name, tool)
        self._tools[tool.name] = DeclaredTool(
            tool.name,
            before.description if tool.description is None else tool.description,
            before.input_schema if tool.input_schema is None else tool.input_schema,
            before.output_schema if tool.output_schema is None else tool.output_schema,
        )
        for side in _SIDES:
            self._schemas.pop((tool.name, side), None)
            self._schema(tool.name, side)

    def add_server(self, server: str, tools: Sequence[DeclaredTool]) -> None:
        """Declare the tools of a server; from then on no others exist but those declared by hand.

        Their schemas are read when they are needed: of thousands of tools a test uses a few.
        """
        for tool in tools:
            self._tools[tool.name] = tool
            for side in _SIDES:
                self._schemas.pop((tool.name, side), None)
        self._server = server

    def require(self, name: str) -> None:
        """Refuse a tool that the server does not have, if a server was declared.

        Raises:
            ValueError: the server has no such tool; the message suggests others.
        """
        if self._server is None or name in self._tools:
            return
        from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

        near = similar_names(name, self._tools)
        suggestion = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"the server {self._server!r} has no tool {name!r} that scripts can call{suggestion}")

    def describe(self, name: str) -> dict[str, object]:
        """The result of `getTool(name)`: name, description, inputSchema, outputSchema."""
        tool = self._tools.get(name, DeclaredTool(name))
        return {
            "name": name,
            "description": tool.description or "",
            "inputSchema": dict(tool.input_schema or {"type": "object"}),
            "outputSchema": None if tool.output_schema is None else dict(tool.output_schema),
        }

    def input_problems(self, name: str, arguments: Mapping[str, object]) -> list[SchemaProblem]:
        """List what is wrong with the input of a call; empty if it fits, or no schema was declared.

        Raises:
            ValueError: the schema refers to what it does not hold.
        """
        return self._problems(name, "input", arguments)

    def output_problems(self, name: str, value: object) -> list[SchemaProblem]:
        """List what is wrong with an answer; empty if it fits, or no schema was declared.

        Raises:
            ValueError: the schema refers to what it does not hold.
        """
        return self._problems(name, "output", value)

    def input_schema(self, name: str) -> JsonObject:
        """The declared schema of the input; empty if there is none."""
        tool = self._tools.get(name)
        return dict(tool.input_schema or {}) if tool else {}

    def _problems(self, name: str, side: Side, value: object) -> list[SchemaProblem]:
        schema = self._schema(name, side)
        return schema.problems(value) if schema else []

    def _schema(self, name: str, side: Side) -> SchemaChecker | None:
        if (name, side) not in self._schemas:
            tool = self._tools.get(name, DeclaredTool(name))
            document = tool.input_schema if side == "input" else tool.output_schema
            title = f"the {side} schema of {name!r}"
            is_input = side == "input"
            root = "input" if is_input else "value"
            schema = None if document is None else SchemaChecker(document, title, root, formats=is_input)
            self._schemas[name, side] = schema
        return self._schemas[name, side]


class SchemaChecker:
    """Checks values with one JSON Schema. References to other documents are never followed.

    Args:
        schema: The schema, of the draft that its `$schema` names, else 2020-12 as in MCP.
        title: The name of the schema in messages.
        root: The name of the value itself in messages.
        formats: Whether texts have to be of the `format` that their schema names, as tools in Python want them.

    Raises:
        ValueError: it is no JSON Schema.
    """

    def __init__(self, schema: Mapping[str, object], title: str, root: str, *, formats: bool = False) -> None:
        self._title = title
        self._root = root
        kind = cast("Any", validator_for(schema, default=Draft202012Validator))
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ValueError(f"{title} is no JSON Schema: {error.message}") from None
        empty_registry = cast("Any", Registry)()
        self._validator: Validator = kind(schema, registry=empty_registry, format_checker=FORMATS if formats else None)

    def problems(self, value: object) -> list[dict[str, str]]:
        """List what is wrong with a value, each with `field` and `message`; empty if the value fits.

        Raises:
            ValueError: the schema refers to what it does not hold.
        """
        problems: list[dict[str, str]] = []
        try:
            for error in self._validator.iter_errors(cast("Any", value)):
                if len(problems) == MAX_PROBLEMS:
                    problems.append({"field": "…", "message": "and more"})
                    break
                field = ".".join(str(part) for part in error.absolute_path) or self._root
                message = error.message
                problems.append(
                    {"field": field, "message": f"{message[:_MAX_CHARS]}{'…' * (len(message) > _MAX_CHARS)}"}
                )
        except Unresolvable as failure:
            raise ValueError(f"{self._title} refers to what it does not hold: {failure}") from None
        return problems


def join_problems(problems: Sequence[SchemaProblem]) -> str:
    """Problems in one line."""
    return "; ".join(f"{problem['field']}: {problem['message']}" for problem in problems)
