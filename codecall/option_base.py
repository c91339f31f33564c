"""The base of all option models: they are frozen, refuse unknown options, and name the field in every error.

Each option accepts its Python spelling (`tool_name_separator`) and its wire spelling (`toolNameSeparator`).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, time
from typing import Annotated, Any, Final, ParamSpec, Self, TypeAlias, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel, to_snake

from codecall.errors import OptionsError
from codecall.wording import nearest

P = ParamSpec("P")
T = TypeVar("T")
_Error: TypeAlias = Mapping[str, Any]
"""What pydantic says of one value."""

_WANTED: Final = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "tuple_type": "a list",
}
"""What is needed in place of a value of another type, by the error of pydantic."""

_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (int, "a whole number"),
    (float, "a decimal number"),
    (str, "a text"),
    (list, "a list"),
    (tuple, "a list"),
    (Mapping, "a mapping"),
    (date, "a date"),
    (time, "a time"),
)
"""What a value is in a message that does not show it."""

_BRANCH: Final = re.compile(
    r"(?:bool|int|float|str|dict|[A-Z]\w*)\Z|(?:literal|tuple|list|dict|is-instance|lax-or-strict|function-\w+)\["
)
"""What pydantic puts behind the name of an option that takes values of several types: one of these."""

_LISTS: Final = {
    "args": '["--local-timezone", "UTC"]',
    "composite_tools": '["tools"]',
    "paths": '["tools"]',
    "allow": '["get_*", "search"]',
    "deny": '["delete_*"]',
    "destructive": '["delete_draft"]',
}
"""Examples of options that are lists, by their name."""

_SWITCHES: Final = frozenset({"starlark", "tool_files", "results", "extract", "observed_output"})
"""Groups of options that are switched on and off as a whole, too."""

_LIST: Final = '["one", "two"]'
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?")

Millis = Annotated[int, Field(ge=1, le=86_400_000)]
"""Milliseconds, up to a day."""


class Options(BaseModel):
    """Base of every option model: frozen, accepts both spellings, refuses unknown options."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        defer_build=True,  # a validator is made with its first use: most groups are never given
    )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Returns the options that a caller may set, in their Python spelling."""
        return tuple(cls.model_fields)

    @classmethod
    def read(cls, values: Mapping[str, object], *, where: str, show_values: bool = True) -> Self:
        """Validates `values`. `show_values=False` keeps the values out of the message, since they may be secrets.

        Raises:
            OptionsError: a field is wrong; the message names each wrong field under `where`.
        """
        reject_double_spelling(cls, values, where)
        try:
            return cls.model_validate(dict(values))
        except ValidationError as failure:
            raise OptionsError(_explain(cls, failure, values, where, show_values)) from None


class OptionProblems:
    """Collects what is wrong with several options, so that all of it is said at once."""

    def __init__(self) -> None:
        self.found: list[OptionsError] = []
        """What is wrong."""

    @contextmanager
    def collecting(self) -> Generator[None]:
        """Within this context, an error of options ends the context and is kept."""
        try:
            yield
        except OptionsError as failure:
            self.found.append(failure)

    def raise_all(self) -> None:
        """Raise what was kept, if anything, as one error.

        Raises:
            OptionsError: something is wrong.
        """
        if self.found:
            raise self.as_error()

    def as_error(self) -> OptionsError:
        """What was kept as one error."""
        if len(self.found) == 1:
            return self.found[0]
        hints = dict.fromkeys(error.hint for error in self.found if error.hint)
        return OptionsError("; ".join(error.message for error in self.found), hint="\n".join(hints) or None)


def passed_options(function: Callable[..., object], values: Mapping[str, object]) -> dict[str, object]:
    """Returns the keyword arguments in `values` that differ from their defaults in the signature of `function`.

    The model has the same defaults for the others, unless they are set in their wire spelling.
    """
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if value is not parameters[name].default}


def reject_double_spelling(model: type[Options], values: Mapping[str, object], where: str) -> None:
    """Refuses an option that is set in both spellings: which one counts would be a matter of chance."""
    for name, field in model.model_fields.items():
        wire = field.alias or to_camel(name)
        if name in values and wire in values and name != wire:
            raise OptionsError(f"{_dotted(where, name)}: given twice, as {name} and as {wire}")


def merge_options(options: object, keywords: Mapping[str, object], *, call: str) -> dict[str, object]:
    """Returns the options of a call that takes them as one mapping, as keywords, or both.

    Args:
        options: the mapping; None if there is none.
        keywords: the keywords.
        call: what was called, for the message.

    Raises:
        OptionsError: `options` is no mapping of names, or holds one that is a keyword too.
    """
    if options is None:
        return dict(keywords)
    named = cast("Mapping[str, object]", options)
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in named):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(cast("object", options)).__name__
        raise OptionsError(
            f"{call}: the options are keywords or one mapping of names, got {kind}",
            hint=f"Write {call}(name=value) or {call}({{'name': value}}).",
        )
    if twice := sorted({to_snake(name) for name in named} & {to_snake(name) for name in keywords}):
        raise OptionsError(f"{twice[0]}: given twice, in the mapping and as a keyword")
    return {**named, **keywords}


def accept_wire_spelling(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function whose keywords may also be given in their wire spelling (`toolHandler`), or all together as
    one mapping behind the other arguments. A name that the function does not have is an OptionsError."""
    parameters = inspect.signature(function).parameters.values()
    names = [each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    takes_others = any(each.kind is each.VAR_KEYWORD for each in parameters)
    call_name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        positional, merged = list(arguments), keywords
        if positional and isinstance(positional[-1], Mapping):
            merged = merge_options(positional.pop(), keywords, call=call_name)
        named: dict[str, object] = {}
        for spelling, value in merged.items():
            name = spelling if to_snake(spelling) not in names else to_snake(spelling)
            if name in named:
                raise OptionsError(f"{name}: given twice, as {name} and as {to_camel(name)}")
            if name not in names and not takes_others:
                near = nearest(to_snake(name), names)
                suggestion = f" (did you mean {near[0]}?)" if near else ""
                raise OptionsError(f"{call_name}: unknown option {spelling!r:.80}{suggestion}")
            named[name] = value
        return function(*positional, **named)  # pyright: ignore[reportCallIssue] - the function checks its own

    return call


def _dotted(where: str, *parts: object) -> str:
    return ".".join([*([where] if where else []), *map(str, parts)])


def _explain(
    model: type[Options], failure: ValidationError, values: Mapping[str, object], where: str, show_values: bool
) -> str:
    lines: list[str] = []
    listed: set[tuple[str, ...]] = set()
    places: dict[tuple[int | str, ...], list[_Error]] = {}
    for item in failure.errors(include_url=False):
        places.setdefault(_place(item["loc"], values), []).append(item)
    for place, items in places.items():
        # Where something deeper is wrong, a list that is short of it says nothing new, nor do types that it might have.
        if any(len(other) > len(place) and other[: len(place)] == place for other in places):
            continue
        path, kind = _dotted(where, *place), items[0]["type"]
        if kind == "extra_forbidden":
            names = _model_at(model, place).names()
            near = _holders(_model_at(model, place), to_snake(str(place[-1]))) or nearest(
                to_snake(str(place[-1])), names
            )
            suggestion = f" (did you mean {' or '.join(near)}?)" if near else ""
            known = "" if names in listed else f"; known here: {', '.join(names)}"
            listed.add(names)
            lines.append(f"{path}: unknown option{known}{suggestion}")
        elif kind == "missing":
            lines.append(f"{path}: missing")
        else:
            lines.append(f"{path}: {_explain_value(place, items, show_values=show_values)}")
    return "; ".join(lines)


def _explain_value(place: Sequence[int | str], items: Sequence[_Error], *, show_values: bool) -> str:
    """What is wrong with the value of one option: `items`, one for each type that it might have."""
    value = cast("object", items[0]["input"])
    got = f" (got {value!r:.80})" if show_values else ""
    wanted = list(dict.fromkeys(filter(None, (_wanted(item) for item in items))))
    if not wanted or (len(items) == 1 and items[0]["type"] == "literal_error"):
        ctx = {"min_length": "", **items[0].get("ctx", {})}
        short = items[0]["type"] == "too_short"
        text = f"at least {ctx['min_length']} is needed" if short else items[0]["msg"].removeprefix("Value error, ")
        return f"{text}{got}"
    if wanted == ["a mapping"] and to_snake(str(place[-1])) in _SWITCHES:
        wanted = ["true or false", "a mapping"]
    # Of a text that is none of those which it may be, its type says nothing.
    is_other = isinstance(value, str) and any(item["type"] == "literal_error" for item in items)
    told = got or ("" if is_other else f", not {_kind(value)}")
    example = f"such as {_LISTS.get(to_snake(str(place[-1])), _LIST)}"
    if len(wanted) == 1:
        needed = f"{wanted[0]} is needed{f', {example}' if wanted == ['a list'] else ''}"
    else:
        words = {"a list": f"a list {example}", "true or false": "true, false"}
        several = [words.get(each, each) for each in wanted]
        needed = f"{', '.join(several[:-1])} or {several[-1]} is needed"
    return f"{needed}{told}{_spelling(value, wanted)}"


def _kind(value: object) -> str:
    """What a value is, for a message that does not show it."""
    if value is None or isinstance(value, bool):
        return {True: "true", False: "false", None: "null"}[value]
    return next((name for types, name in _KINDS if isinstance(value, types)), "a value of another type")


def _wanted(item: _Error) -> str | None:
    """What an option needs in place of its value; None where the message of pydantic says it."""
    if item["type"] == "literal_error":
        return str(item.get("ctx", {}).get("expected", "")).replace("True", "true").replace("False", "false")
    return _WANTED.get(item["type"])


def _spelling(value: object, wanted: Sequence[str]) -> str:
    """How a value is written as what is wanted."""
    if isinstance(value, (int, float, date, time)):
        return ": write it in quotes" if wanted == ["a text"] else ""
    if not isinstance(value, str):
        return ""
    is_number = _NUMBER.fullmatch(value) is not None and any(each.endswith("number") for each in wanted)
    is_plain = is_number or (value in {"true", "false"} and "true or false" in wanted)
    return ": write it without quotes" if is_plain else ""


def _place(location: Sequence[int | str], values: Mapping[str, object]) -> tuple[int | str, ...]:
    """The names and numbers in the location of an error, without the types of a value that may have several."""
    place: list[int | str] = []
    value: Any = values
    for part in location:
        if isinstance(part, str) and _BRANCH.match(part) and part not in _mapping(value):
            continue
        place.append(part)
        try:
            value = value[part]
        except (LookupError, TypeError):
            value = None
    return tuple(place)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _holders(model: type[Options], name: str) -> list[str]:
    """The options of groups within a model that have a name: `code_mode.step_limit`."""
    single = [field for field, info in model.model_fields.items() if get_origin(info.annotation) is not tuple]
    return [f"{field}.{name}" for field in single for group in _groups(model, field) if name in group.names()]


def _groups(model: type[Options], field: str) -> list[type[Options]]:
    """The group that an option is, or a list of, if it is one."""
    annotation = model.model_fields[field].annotation
    kinds = (annotation, *get_args(annotation))
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Options)]


def _model_at(model: type[Options], path: Sequence[int | str]) -> type[Options]:
    """Returns the option model that contains the last part of `path`."""
    for part in path[:-1]:
        for name, field in model.model_fields.items():
            if part not in (name, field.alias):
                continue
            model = (_groups(model, name) or [model])[-1]
    return model


_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]{1,64}(?:\.[0-9]{0,64})?|\.[0-9]{1,64})(ns|us|µs|ms|s|m|h)")

DURATION: Final = r"([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+"
"""How options that are durations are written: `30s`, `1m30s`, `500ms`."""


def parse_duration(text: str) -> float | None:
    """The seconds of a duration as Go writes them (`90s`, `1h30m`); None where the text is none, or none above zero."""
    total, end = 0.0, 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None:
            return None
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    return total or None


def go_duration(seconds: float) -> str:
    """Seconds as Go would write them, for messages."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = (f"{hours}h" * bool(hours), f"{minutes}m" * bool(minutes), f"{rest:g}s" * bool(rest))
    return "".join(parts)
