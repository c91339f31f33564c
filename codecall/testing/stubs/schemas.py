"""The schemas of tools that a test declares, by hand or from a server: what `getTool` shows, and what is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

# ----------------------------------------------------------------------------------------------------
# Values against JSON Schemas, all of the schema: what stubs are checked with.

JsonObject = dict[str, object]

MAX_PROBLEMS: Final = 10
"""Problems of one value that are told."""

_MAX_CHARS: Final = 300


class SchemaChecker:
    """One JSON Schema to check values with. References to other documents are never followed.

    Args:
        schema: The schema; of the draft its `$schema` names, else 2020-12, as MCP has it.
        what: What has it, for messages.
        root: What messages call the value itself.

    Raises:
        ValueError: it is no JSON Schema.
    """

    def __init__(self, schema: Mapping[str, object], what: str, root: str) -> None:
        self._what = what
        self._root = root
        kind = cast("Any", validator_for(schema, default=Draft202012Validator))
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ValueError(f"{what} is no JSON Schema: {error.message}") from None
        nothing_else = cast("Any", Registry)()
        self._validator: Validator = kind(schema, registry=nothing_else)

    def problems(self, value: object) -> list[dict[str, str]]:
        """What is wrong with `value`: `field` and `message` of each problem; empty when it fits.

        Raises:
            ValueError: the schema refers to what it does not hold.
        """
        found: list[dict[str, str]] = []
        try:
            for error in self._validator.iter_errors(cast("Any", value)):
                if len(found) == MAX_PROBLEMS:
                    found.append({"field": "…", "message": "and more"})
                    break
                field = ".".join(str(part) for part in error.absolute_path) or self._root
                message = error.message
                found.append({"field": field, "message": f"{message[:_MAX_CHARS]}{'…' * (len(message) > _MAX_CHARS)}"})
        except Unresolvable as failure:
            raise ValueError(f"{self._what} refers to what it does not hold: {failure}") from None
        return found


# ----------------------------------------------------------------------------------------------------
# The schemas of tools that a test declares, by hand or from a server: what `getTool` shows, and what is checked.

Side = Literal["input", "output"]
_SIDES: Final[tuple[Side, Side]] = ("input", "output")

SchemaProblem = dict[str, str]
"""One bad field: `field` and `message`."""


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """What a test says of a tool; None where it says nothing."""

    name: str
    description: str | None = None
    input_schema: Mapping[str, object] | None = None
    output_schema: Mapping[str, object] | None = None

    @classmethod
    def from_mapping(cls, tool: Mapping[str, object]) -> DeclaredTool:
        """From a mapping with `name`, `description`, `inputSchema` and `outputSchema`.

        Raises:
            TypeError: it has no name, or one of the others is of the wrong type.
        """
        name, description = tool.get("name"), tool.get("description")
        schemas = [tool.get("inputSchema"), tool.get("outputSchema")]
        if not isinstance(name, str) or not isinstance(description, str | None):
            raise TypeError(f"a tool has a `name` and perhaps a `description`, both text: {tool!r}")
        if not all(isinstance(schema, Mapping | None) for schema in schemas):
            raise TypeError(f"the inputSchema and outputSchema of {name!r} are JSON Schemas, or missing")
        given, gives = cast("list[Mapping[str, object] | None]", schemas)
        return cls(name, description, given, gives)


class DeclaredTools:
    """The tools of one test by name."""

    def __init__(self) -> None:
        self._tools: dict[str, DeclaredTool] = {}
        self._server: str | None = None
        self._schemas: dict[tuple[str, Side], SchemaChecker | None] = {}

    @property
    def names(self) -> list[str]:
        """The tools of which something is known."""
        return list(self._tools)

    def add(self, tool: DeclaredTool) -> None:
        """Declare `tool`; what it does not say stays as it was declared before.

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
        """Declare the tools of a server; from then on there are no others but those declared by hand. Their schemas are
        read when they are needed: of thousands of tools a test uses a few."""
        for tool in tools:
            self._tools[tool.name] = tool
            for side in _SIDES:
                self._schemas.pop((tool.name, side), None)
        self._server = server

    def require(self, name: str) -> None:
        """Refuse a tool that the server does not have, if a server was given.

        Raises:
            ValueError: it has none of that name; the message has near names.
        """
        if self._server is None or name in self._tools:
            return
        near = near_to(name, self._tools)
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"the server {self._server!r} has no tool {name!r} that scripts can call{meant}")

    def describe(self, name: str) -> dict[str, object]:
        """What `getTool(name)` gives: name, description, inputSchema, outputSchema."""
        tool = self._tools.get(name, DeclaredTool(name))
        return {
            "name": name,
            "description": tool.description or "",
            "inputSchema": dict(tool.input_schema or {"type": "object"}),
            "outputSchema": None if tool.output_schema is None else dict(tool.output_schema),
        }

    def input_problems(self, name: str, given: Mapping[str, object]) -> list[SchemaProblem]:
        """What is wrong with the input of a call; empty when it fits, or nothing was declared.

        Raises:
            ValueError: the schema refers to what it does not hold.
        """
        return self._problems(name, "input", given)

    def output_problems(self, name: str, value: object) -> list[SchemaProblem]:
        """What is wrong with an answer; empty when it fits, or nothing was declared.

        Raises:
            ValueError: the schema refers to what it does not hold.
        """
        return self._problems(name, "output", value)

    def input_schema(self, name: str) -> JsonObject:
        """The declared schema of the input; empty when there is none."""
        tool = self._tools.get(name)
        return dict(tool.input_schema or {}) if tool else {}

    def _problems(self, name: str, side: Side, value: object) -> list[SchemaProblem]:
        schema = self._schema(name, side)
        return schema.problems(value) if schema else []

    def _schema(self, name: str, side: Side) -> SchemaChecker | None:
        if (name, side) not in self._schemas:
            tool = self._tools.get(name, DeclaredTool(name))
            plain = tool.input_schema if side == "input" else tool.output_schema
            what = f"the {side} schema of {name!r}"
            schema = None if plain is None else SchemaChecker(plain, what, "input" if side == "input" else "value")
            self._schemas[name, side] = schema
        return self._schemas[name, side]


def join_problems(problems: Sequence[SchemaProblem]) -> str:
    """Problems in one line."""
    return "; ".join(f"{problem['field']}: {problem['message']}" for problem in problems)


def near_to(name: str, names: Mapping[str, object]) -> list[str]:
    """Names that `name` may stand for."""
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    return similar_names(name, names)
