"""Writes JSON Schemas as Python types: `str`, `list[T]`, `Literal[…]`, a `TypedDict` for an object of known fields."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Final, NamedTuple, cast

from codecall.catalog.javascript import string_literal
from codecall.catalog.typescript.from_schema import DetailLevel, SchemaReader
from codecall.catalog.typescript.types import (
    NULL,
    ArrayType,
    AtomicType,
    IntersectionType,
    MappedType,
    ObjectType,
    PropertyType,
    TupleType,
    Type,
    TypeReference,
    UnionType,
    union,
)
from codecall.sandbox.starlark.policy import default_literal
from codecall.schema.model import SchemaNode

JsonObject = Mapping[str, object]

MAX_TYPED_DICTS: Final = 40
"""Most `TypedDict`s of one tool's parameters, or of its result; further objects are `dict`."""

MAX_TYPE_CHARS: Final = 8_000
"""Most characters of one type; a longer one is `Any`."""

MAX_TOOL_CHARS: Final = 64_000
"""Most characters of the types of one tool's parameters, or of its result; further ones are `Any`."""

MAX_FILE_CHARS: Final = 1_000_000
"""Most characters of such types in one file; each of its tools has the same part of it."""

_DETAIL: Final = DetailLevel(depth=10, description=0, choices=300, fields=MAX_TOOL_CHARS)
_INPUT_DETAIL: Final = DetailLevel(depth=10, description=1_000, choices=300, fields=MAX_TOOL_CHARS)
_ATOMS: Final = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "null": "None",
    "true": "Literal[True]",
    "false": "Literal[False]",
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES: Final = re.compile(r"\w+")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_WHOLE: Final = re.compile(r"-?[0-9]+")


class Parameter(NamedTuple):
    """A parameter of a tool, or a field of an object."""

    name: str
    type: str
    required: bool
    description: str = ""
    default: str | None = None
    """Its default as code writes it, where that is known and may be given."""


def is_name(text: str) -> bool:
    """Whether `text` can be a name in Python and in Starlark."""
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text) and text != "load"


def parameters(schema: JsonObject, types: FileTypes, function: str = "") -> list[Parameter] | None:
    """The parameters of an input, required ones first, each alphabetical; None where the schema lists none.

    Args:
        schema: the schema of the input.
        types: where the classes of their objects are declared.
        function: name of the function that takes it.
    """
    reader = SchemaReader({"type": "object", **schema}, _INPUT_DETAIL, is_input=True, integers=True)
    root, writer = reader.read(), _TypeWriter(reader.definitions, types)
    if isinstance(root, TypeReference):
        root = reader.definitions[root.key]
    if not isinstance(root, ObjectType) or (not root.properties and root.others is not None):
        return None
    fields = sorted(root.properties, key=lambda field: (field.optional, field.name))
    properties = SchemaNode(schema).body.get("properties")
    schemas = cast("JsonObject", properties if isinstance(properties, Mapping) else {})
    found: list[Parameter] = []
    for field in fields:
        default = default_literal(schemas.get(field.name)) if field.optional else None
        text = writer.parameter(field, function, takes_null=default != "None")
        found.append(Parameter(field.name, text, not field.optional, field.note, default))
    return found


class FileTypes:
    """The types of the functions of one file, each object whose fields are known a class with a name of its own.

    Args:
        tools: How many functions there are.
    """

    def __init__(self, tools: int = 1) -> None:
        self.max_chars = min(MAX_TOOL_CHARS, MAX_FILE_CHARS // max(1, tools))
        """Most characters of the types of one tool's parameters, or of its result."""
        self.classes: dict[str, list[str]] = {}
        """The lines of each class by its name; what it holds stands before it."""
        self.fields: dict[str, list[Parameter]] = {}
        """The fields of each class by its name."""
        self._same: dict[tuple[str, str], str] = {}
        """The name of a class by what is in it, and by the name that it was to have; empty: any."""
        self._numbers: Counter[str] = Counter()
        """How many classes were to have a name."""
        self.shortened = False
        """Whether a type is longer than `MAX_TYPED_DICTS` and the like allow."""

    def add(self, function: str, schema: JsonObject, remark: str = "") -> str:
        """The type of a result.

        Args:
            function: name of the function that gives it.
            schema: the schema of the result.
            remark: stands behind the names of its classes.
        """
        reader = SchemaReader(schema, _DETAIL, is_input=False, integers=True)
        root = reader.read()
        return _TypeWriter(reader.definitions, self, remark).text(root, f"{_pascal(function)}Result")

    def new_name(self, wanted: str) -> str:
        """A name for a class that no other has, and which is taken from now on."""
        name = wanted
        while name in self.classes:
            self._numbers[wanted] += 1
            name = f"{wanted}{self._numbers[wanted] + 1}"
        self.classes[name] = []
        return name

    def declare(self, name: str, wanted: str, lines: list[str], *, is_definition: bool) -> str:
        """Put in a class; the name of the one that is the same already, if there is one.

        Args:
            name: the name that is kept for it.
            wanted: the name that it would have if no other had it.
            lines: what it is.
            is_definition: whether its schema has a name of its own.
        """
        inside = takewhile(lambda other: other != name, reversed(self.classes))
        holds_itself = any(_renamed(line, name, "") != line for other in inside for line in self.classes[other])
        del self.classes[name]  # behind those that it holds
        body = "\n".join([_renamed(lines[0], name, ""), *(_renamed(line, name, wanted) for line in lines[1:])])
        known = self._same.get(("", body)) or self._same.get((wanted, body))
        if known is None or holds_itself:
            self.classes[name] = lines
            self._same.setdefault(("" if is_definition else wanted, body), name)
            return name
        return known


class _TypeWriter:
    """Writes the types of one schema.

    Args:
        definitions: what its types refer to.
        file: where classes are declared.
        remark: stands behind the names of classes.
    """

    def __init__(self, definitions: Mapping[str, Type], file: FileTypes, remark: str = "") -> None:
        self._definitions = definitions
        self._file = file
        self._remark = f" # {remark}" if remark else ""
        self._named: dict[str, str] = {}
        """The types of definitions, by key; while one is written, what stands for it inside itself."""
        self._count = 0
        self._chars = 0
        """Characters of the types of parameters and fields so far."""

    def parameter(self, field: PropertyType, function: str, *, takes_null: bool) -> str:
        """The type of a parameter, without null where its default says that it may be null."""
        name = f"{_pascal(function) if function else ''}{_pascal(field.name)}"
        members = field.type.members if isinstance(field.type, UnionType) and not takes_null else (field.type,)
        return self._member(union(member for member in members if member != NULL or len(members) == 1), name)

    def _member(self, item: Type, name: str) -> str:
        """The type of a parameter or of a field."""
        text = self.text(item, name) if self._chars < self._file.max_chars else self._shortened()
        self._chars += len(text)
        return text

    def _shortened(self) -> str:
        """What stands for a type that is too long."""
        self._file.shortened = True
        return "Any"

    def text(self, item: Type, name: str) -> str:
        """A type as Python writes it; `name` is that of the class, if it needs one."""
        match item:
            case AtomicType(word):
                text = _atom(word)
            case TypeReference(key):
                text = self._reference(key, name)
            case UnionType(members):
                text = _joined(self.text(member, name) for member in members)
            case IntersectionType(members):
                text = self._object(_merged(members, self._definitions), name)
            case ArrayType(of):
                text = f"list[{self.text(of, name)}]"
            case TupleType(items, _, rest):
                text = f"list[{_joined(self.text(each, name) for each in (*items, *((rest,) if rest else ())))}]"
            case MappedType(_, value):
                text = self._object(ObjectType((), value), name)
            case ObjectType():
                text = self._object(item, name)
        # A definition that names another twice doubles it; so each part is bounded, and with it the whole.
        return text if len(text) <= MAX_TYPE_CHARS else self._shortened()

    def _reference(self, key: str, name: str) -> str:
        if key in self._named:
            return self._named[key]
        item, wanted = self._definitions[key], _pascal(key.rpartition("/")[2] or name)
        if isinstance(item, ObjectType) and item.properties:
            # It may hold itself.
            self._named[key] = self._new_name(wanted) or "dict"
            self._named[key] = self._declare(item, wanted, self._named[key], is_definition=True)
            return self._named[key]
        self._named[key] = "Any"
        self._named[key] = self.text(item, wanted)
        return self._named[key]

    def _new_name(self, wanted: str) -> str:
        """A name for a class; empty: there are enough classes."""
        if self._count >= MAX_TYPED_DICTS:
            return ""
        self._count += 1
        return self._file.new_name(wanted)

    def _object(self, item: ObjectType, name: str) -> str:
        if item.properties:
            return self._declare(item, name, self._new_name(name) or "dict")
        if item.others is None:
            return "dict"
        value = self.text(item.others, f"{name}Value")
        return "dict" if value == "Any" else f"dict[str, {value}]"

    def _declare(self, item: ObjectType, wanted: str, name: str, *, is_definition: bool = False) -> str:
        if name == "dict":
            self._file.shortened = True
            return name
        fields = [self._field(field, wanted) for field in item.properties]
        name = self._file.declare(name, wanted, self._lines(name, fields), is_definition=is_definition)
        self._file.fields.setdefault(name, fields)
        return name

    def _field(self, field: PropertyType, owner: str) -> Parameter:
        text = self._member(field.type, f"{owner.removesuffix('Result')}{_pascal(field.name)}")
        return Parameter(field.name, text, not field.optional, field.note)

    def _lines(self, name: str, declared: list[Parameter]) -> list[str]:
        fields = [(each.name, each.type if each.required else f"NotRequired[{each.type}]") for each in declared]
        if all(is_name(field) for field, _ in fields):
            return [f"class {name}(TypedDict):{self._remark}", *(f"    {field}: {text}" for field, text in fields)]
        inner = ", ".join(f"{string_literal(field)}: {text}" for field, text in fields)
        return [f'{name} = TypedDict("{name}", {{{inner}}}){self._remark}']


def _pascal(text: str) -> str:
    """`text` as the name of a class: `SearchResult` for `search_result`."""
    name = "".join(word[0].upper() + word[1:] for word in _WORD.findall(text))
    return name if name and not name[0].isdigit() else f"T{name}"


def _renamed(line: str, name: str, to: str) -> str:
    """`line` with another name for a class."""
    return _NAMES.sub(lambda found: to if found[0] == name else found[0], line) if name in line else line


def _atom(word: str) -> str:
    """A keyword or a literal of TypeScript in Python."""
    if word.startswith('"') or _WHOLE.fullmatch(word):
        return f"Literal[{word}]"
    if word[:1].isdigit() or word[:1] == "-":
        return "float"
    return _ATOMS.get(word, "Any")


def _joined(texts: Iterable[str]) -> str:
    """A union: literals are one `Literal[…]`, None is last, and Any is all there is to say."""
    kinds = dict.fromkeys(texts)
    if "Any" in kinds or not kinds:
        return "Any"
    literals = [kind.removeprefix("Literal[").removesuffix("]") for kind in kinds if kind.startswith("Literal[")]
    others = [kind for kind in kinds if not kind.startswith("Literal[") and kind != "None"]
    parts = ([f"Literal[{', '.join(literals)}]"] if literals else []) + others
    return " | ".join([*parts, "None"] if "None" in kinds else parts)


def _merged(members: Iterable[Type], definitions: Mapping[str, Type]) -> ObjectType:
    """An intersection as one object: the properties of all that are objects."""
    fields: dict[str, PropertyType] = {}
    for member in members:
        item = definitions[member.key] if isinstance(member, TypeReference) else member
        for field in item.properties if isinstance(item, ObjectType) else ():
            known = fields.get(field.name)
            optional = field.optional and (known is None or known.optional)
            fields[field.name] = PropertyType(field.name, field.type, optional)
    return ObjectType(tuple(fields.values()))
