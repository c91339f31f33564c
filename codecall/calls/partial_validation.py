"""What a Python function's parameters are sure to refuse, found out without running anything of the tool's.

The tool's own validator, pydantic's, is taken as it is and loosened: whatever runs code of the tool's author, and
whatever is not known, lets everything pass, and a gap in the input fits everywhere. What is left refuses nothing that
the tool's validator takes. KEPT has what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, EnumType
from functools import partial
from time import thread_time
from typing import Any, Final, cast

from pydantic_core import SchemaError, SchemaValidator, ValidationError
from pydantic_core.core_schema import ValidationInfo

from codecall.schema.partial import PartialArray, PartialObject, Unknown, has_unknowns

# ----------------------------------------------------------------------------------------------------
# Validators of pydantic's that let pass what is not known of an input, and count what they do.

Node = dict[str, Any]
"""A node of pydantic's core schema."""

Handler = Callable[[object], object]

MAX_STEPS: Final = 1_500
"""Steps for one input: about 5 ms where each is a model that fails. Beyond, nothing is certain."""

MAX_SECONDS: Final = 0.004
"""Most time of one validation. Its steps rarely take as long: it is for schemas whose single steps do."""

_SEVERAL: Final = 64
"""Steps after which the time is looked at."""


class TooMuchError(Exception):
    """A validation has no steps left, or has taken too long."""


class Steps:
    """What one validation may do.

    Args:
        most: steps it may take.
    """

    def __init__(self, most: int) -> None:
        self.left = most
        self._until = thread_time() + MAX_SECONDS
        self._look = most - _SEVERAL

    def take(self, number: int = 1) -> None:
        """Take steps.

        Raises:
            TooMuchError: there are not as many left.
        """
        self.left -= number
        if self.left < 0:
            raise TooMuchError
        if self.left < self._look:
            self._look = self.left - _SEVERAL
            if thread_time() > self._until:
                self.left = 0
                raise TooMuchError


def refusal(
    validator: SchemaValidator, known: Mapping[str, object], steps: Steps | None = None
) -> ValidationError | None:
    """How the validator refuses an input; None where it does not, and where finding out takes more than `steps`.

    Args:
        validator: a loosened one.
        known: the input.
        steps: what it may take; `MAX_STEPS` unless told.
    """
    try:
        validator.validate_python(known, context=steps or Steps(MAX_STEPS))
    except ValidationError as error:
        return error
    except Exception:  # `TooMuchError`, or such as a choice that cannot be compared with
        return None
    return None


def wrapped(function: Callable[[Any, Handler, ValidationInfo], object], schema: Node) -> Node:
    """A node that asks `function` first."""
    return {"type": "function-wrap", "function": {"type": "with-info", "function": function}, "schema": schema}


def past_gaps(value: object, handler: Handler, info: ValidationInfo) -> object:
    """Anything: a gap fits."""
    _steps(info).take()
    return value if isinstance(value, Unknown) else handler(value)


def past_lists(value: object, handler: Handler, info: ValidationInfo) -> object:
    """A list or tuple, of which it must be known how many items there are."""
    _steps(info).take()
    return value if isinstance(value, PartialArray) else handler(value)


def past_sets(value: object, handler: Handler, info: ValidationInfo) -> object:
    """A set, of which all must be known: with gaps in it, nobody can say which items are the same."""
    _steps(info).take(_size(value))
    return value if has_unknowns(value) else handler(value)


def past_mappings(value: object, handler: Handler, info: ValidationInfo) -> object:
    """An object whose members decide, or are counted."""
    _steps(info).take(_members(value))
    return value if _is_uncertain(value) else handler(value)


def past_object(names: Mapping[str, bool], value: object, handler: Handler, info: ValidationInfo) -> object:
    """An object, without members that may not be there, and with those that may."""
    _steps(info).take(len(names) + _members(value))
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        sure = {key: item for key, item in members.items() if key in names or item is not Unknown.MAYBE_ABSENT}
        rest = dict.fromkeys((name for name, required in names.items() if required), Unknown.MAYBE_ABSENT)
        value = {**rest, **sure} if isinstance(value, PartialObject) else sure
    return handler(value)


def _is_uncertain(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    members = cast("dict[str, object]", value).values()
    return isinstance(value, PartialObject) or any(isinstance(member, Unknown) for member in members)


def _steps(info: ValidationInfo) -> Steps:
    return cast("Steps", info.context)


def _members(value: object) -> int:
    """One for the value and one for each of its members or items."""
    return 1 + len(cast("dict[str, object] | list[object]", value)) if isinstance(value, dict | list) else 1


def _size(value: object) -> int:
    """The values in `value`, itself included."""
    inside = cast("dict[str, object]", value).values() if isinstance(value, dict) else value
    return 1 + sum(map(_size, cast("list[object]", inside))) if isinstance(value, dict | list) else 1


# ----------------------------------------------------------------------------------------------------
# What a Python function's parameters are sure to refuse, found out without running anything of the tool's.

MAX_NODES: Final = 5_000
"""Nodes of the schema of one tool; a larger one is not looked at."""

_ANYTHING: Final[Node] = {"type": "any"}

_LEAVES: Final = frozenset(
    {"any", "none", "bool", "int", "float", "decimal", "complex", "str", "bytes", "date", "time", "datetime",
     "timedelta", "url", "multi-host-url", "uuid", "literal"}
)  # fmt: skip
"""Types of values that are checked as they are."""

_MISSING: Final = vars(Enum)["_missing_"].__func__

_PLAIN_CONFIG: Final = frozenset({"title"})

_DISCARDED: Final = frozenset({"metadata", "serialization", "schema", "ref"})


class _TooLargeError(Exception):
    """More than `MAX_NODES`."""


def loosened(schema: Mapping[str, Any], *, strict: bool) -> SchemaValidator | None:
    """The validator of a function's arguments that is sure of what it refuses; None where there can be none.

    Args:
        schema: the core schema of the function.
        strict: whether the server validates strictly, as JSON: what else would be refused for that is taken.
    """
    try:
        return SchemaValidator(cast("Any", _Loosening(strict=strict).function(dict(schema))))
    except (SchemaError, _TooLargeError, KeyError, TypeError, RecursionError):
        return None


class _Loosening:
    """Loosens one schema."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._left = MAX_NODES
        self._definitions: dict[str, Node] = {}

    def function(self, schema: Node) -> Node:
        """The arguments of a function, with the definitions they refer to."""
        definitions: list[Node] = []
        if schema["type"] == "definitions":
            definitions, schema = schema["definitions"], schema["schema"]
        self._definitions = {item["ref"]: item for item in definitions}
        if schema["type"] == "call":
            schema = schema["arguments_schema"]
        if schema["type"] != "arguments":
            return _ANYTHING
        arguments = self._arguments(schema)
        if not definitions:
            return arguments
        return {"type": "definitions", "schema": arguments, "definitions": [self.node(item) for item in definitions]}

    def node(self, schema: Node) -> Node:
        """One node, which a gap fits too."""
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        kind: str = schema["type"]
        if kind == "definition-ref":
            return {"type": kind, "schema_ref": schema["schema_ref"]}
        loosen = KEPT.get(kind)
        loose = _ANYTHING if loosen is None else loosen(self, schema)
        # Whether there is a default is looked up in the outermost node.
        whole = loose if loose["type"] == "default" else wrapped(past_gaps, loose)
        if "ref" in schema:
            whole["ref"] = schema["ref"]
        return whole

    def _arguments(self, schema: Node) -> Node:
        if schema.get("var_args_schema") or schema.get("var_kwargs_schema"):
            return _ANYTHING
        parameters = cast("list[Node]", schema["arguments_schema"])
        names: dict[str, bool] = {}
        for parameter in parameters:
            alias = parameter.get("alias")
            if not isinstance(alias, str | None):
                return _ANYTHING  # several names for one parameter
            names[alias or parameter["name"]] = self._is_required(parameter["schema"])
            if alias and (schema.get("validate_by_name") or schema.get("populate_by_name")):
                return _ANYTHING
        loose = [{**parameter, "schema": self.node(parameter["schema"])} for parameter in parameters]
        kept = {key: item for key, item in schema.items() if key not in _DISCARDED}
        return wrapped(partial(past_object, names), {**kept, "arguments_schema": loose})

    # ---- leaves and wrappers

    def leaf(self, schema: Node) -> Node:
        """A value that is checked as it is."""
        kept = {key: item for key, item in schema.items() if key not in _DISCARDED}
        if self._strict:
            kept.pop("strict", None)
        if not isinstance(kept.get("pattern"), str) or "regex_engine" in kept:
            kept.pop("pattern", None)  # Python's own expressions may take for ever
        return kept

    def enumeration(self, schema: Node) -> Node:
        """An enumeration, unless it makes members of what is none."""
        kind: type = schema["cls"]
        own = getattr(kind, "_missing_", None)
        plain = type(kind) is EnumType and getattr(own, "__func__", None) is _MISSING and "missing" not in schema
        return self.leaf(schema) if plain else _ANYTHING

    def inner(self, schema: Node) -> Node:
        """What a value is before code sees it, or besides its own words for what is wrong."""
        return self.node(schema["schema"])

    def nullable(self, schema: Node) -> Node:
        """A value or null."""
        return {"type": "nullable", "schema": self.node(schema["schema"])}

    def default(self, schema: Node) -> Node:
        """A value that may be left out. The default itself is not looked at."""
        loose: Node = {"type": "default", "schema": self.node(schema["schema"]), "default": Unknown.MAYBE_ABSENT}
        if "on_error" in schema:
            loose["on_error"] = schema["on_error"]
        return loose

    def chain(self, schema: Node) -> Node:
        """The first of several steps; what it hands on is not known."""
        return self.node(schema["steps"][0])

    def mode(self, schema: Node) -> Node:
        """What a value is in Python, or when it is lax; a strict server reads JSON instead."""
        if self._strict:
            return _ANYTHING
        if schema["type"] == "json-or-python":
            return self.node(schema["python_schema"])
        both = {key: self.node(schema[key]) for key in ("lax_schema", "strict_schema")}
        return {**self.leaf(schema), **both}

    def json(self, _schema: Node) -> Node:
        """JSON text, of whatever."""
        return {"type": "json"}

    # ---- containers

    def items(self, schema: Node) -> Node:
        """A list, a set or a tuple."""
        loose = self.leaf(schema)
        if isinstance(schema.get("items_schema"), list):
            loose["items_schema"] = [self.node(item) for item in schema["items_schema"]]
        elif "items_schema" in schema:
            loose["items_schema"] = self.node(schema["items_schema"])
        by_value = schema["type"] in {"set", "frozenset"}
        return wrapped(past_sets if by_value else past_lists, loose)

    def mapping(self, schema: Node) -> Node:
        """An object whose keys are data."""
        loose = self.leaf(schema)
        for part in ("keys_schema", "values_schema"):
            if part in schema:
                loose[part] = self.node(schema[part])
        return wrapped(past_mappings, loose)

    def union(self, schema: Node) -> Node:
        """One of several."""
        given = cast("list[Node | tuple[Node, str]]", schema["choices"])
        choices = [self.node(item[0] if isinstance(item, tuple) else item) for item in given]
        return {"type": "union", "choices": choices, "mode": schema.get("mode", "smart")}

    def tagged(self, schema: Node) -> Node:
        """One of several, told by a member."""
        if not isinstance(schema["discriminator"], str):
            return _ANYTHING
        choices = {tag: self.node(choice) for tag, choice in schema["choices"].items()}
        loose = {"type": "tagged-union", "discriminator": schema["discriminator"], "choices": choices}
        return wrapped(past_mappings, loose)

    def model(self, schema: Node) -> Node:
        """A pydantic model: its fields, none of its code."""
        inside: Node = schema["schema"]
        while inside["type"] == "function-after":
            inside = inside["schema"]
        config: Node = schema.get("config", {})
        if schema.get("custom_init"):
            return _ANYTHING
        if schema.get("root_model"):
            return self.node(inside) if config.keys() <= _PLAIN_CONFIG else _ANYTHING
        if inside["type"] != "model-fields":
            return _ANYTHING
        return self.fields(inside, config, dict(inside["fields"]))

    def dataclass(self, schema: Node) -> Node:
        """A dataclass: its fields."""
        inside: Node = schema["schema"]
        while inside["type"] == "function-after":
            inside = inside["schema"]
        if inside["type"] != "dataclass-args":
            return _ANYTHING
        named: dict[str, Node] = {field["name"]: field for field in inside["fields"]}
        if any(field.get("init") is False for field in named.values()):
            return _ANYTHING
        return self.fields(inside, schema.get("config", {}), named)

    def typed_dict(self, schema: Node) -> Node:
        """A TypedDict."""
        total = schema.get("total", True)
        fields = {name: {"required": total, **field} for name, field in schema["fields"].items()}
        return self.fields(schema, schema.get("config", {}), fields)

    def fields(self, schema: Node, config: Node, fields: Mapping[str, Node]) -> Node:
        """An object with these fields."""
        by_name = config.get("validate_by_name") or config.get("populate_by_name")
        names: dict[str, bool] = {}
        loose: dict[str, Node] = {}
        for name, field in fields.items():
            alias = field.get("validation_alias")
            if not isinstance(alias, str | None) or (alias and (by_name or config.get("validate_by_alias") is False)):
                return _ANYTHING  # several names for one field
            required = bool(field.get("required", True)) and self._is_required(field["schema"])
            names[alias or name] = required
            loose[name] = {"type": "typed-dict-field", "schema": self.node(field["schema"]), "required": required}
            if alias:
                loose[name]["validation_alias"] = alias
        kept: Node = {"type": "typed-dict", "fields": loose, "config": self._config(config)}
        if "extra_behavior" in schema:
            kept["extra_behavior"] = schema["extra_behavior"]
        if not self._strict and "strict" in schema:
            kept["strict"] = schema["strict"]
        return wrapped(partial(past_object, names), kept)

    def _config(self, config: Node) -> Node:
        # What is put in for a default is nothing to look at
        left_out = {"validate_default", "strict"} if self._strict else {"validate_default"}
        return {key: item for key, item in config.items() if key not in left_out}

    def _is_required(self, schema: Node) -> bool:
        """Whether a field of this schema has no default, wherever in it that would stand."""
        for _ in range(100):
            if schema["type"] == "default":
                return False
            if schema["type"] == "definition-ref":
                schema = self._definitions[schema["schema_ref"]]
            elif isinstance(schema.get("schema"), dict) and schema["type"] not in {"model", "dataclass", "json"}:
                schema = schema["schema"]
            else:
                return True
        return False


KEPT: Final[Mapping[str, Callable[[_Loosening, Node], Node]]] = {
    **dict.fromkeys(_LEAVES, _Loosening.leaf),
    **dict.fromkeys(("list", "set", "frozenset", "tuple"), _Loosening.items),
    **dict.fromkeys(("function-after", "custom-error"), _Loosening.inner),
    **dict.fromkeys(("json-or-python", "lax-or-strict"), _Loosening.mode),
    "chain": _Loosening.chain,
    "dataclass": _Loosening.dataclass,
    "default": _Loosening.default,
    "dict": _Loosening.mapping,
    "enum": _Loosening.enumeration,
    "json": _Loosening.json,
    "model": _Loosening.model,
    "nullable": _Loosening.nullable,
    "tagged-union": _Loosening.tagged,
    "typed-dict": _Loosening.typed_dict,
    "union": _Loosening.union,
}
"""By type of node: what is kept of it. Of any other nothing is certain."""
