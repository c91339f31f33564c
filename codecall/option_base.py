"""The base of all option models: they are frozen, refuse unknown options, and name the field in every error.

Each option accepts its Python spelling (`tool_name_separator`) and its wire spelling (`toolNameSeparator`).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, ParamSpec, Self, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel, to_snake

from codecall.errors import OptionsError
from codecall.wording import nearest

P = ParamSpec("P")
T = TypeVar("T")

_WORDS: Final = {
    "model_type": "a mapping is needed",
    "model_attributes_type": "a mapping is needed",
    "dict_type": "a mapping is needed",
    "mapping_type": "a mapping is needed",
    "too_short": "at least {min_length} is needed",
}
"""Errors of pydantic in the words of options, by their type."""

_LISTS: Final = {"args": '["--local-timezone", "UTC"]', "composite_tools": '["tools"]'}
"""Examples of options that are lists, by their name."""

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
            raise OptionsError(_explain(cls, failure, where, show_values)) from None


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


def _explain(model: type[Options], failure: ValidationError, where: str, show_values: bool) -> str:
    lines: list[str] = []
    listed: set[tuple[str, ...]] = set()
    items = failure.errors(include_url=False)
    for item in items:
        # A list is short of the items that are wrong themselves, which says nothing new.
        place = item["loc"]
        if item["type"] == "too_short" and any(
            len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in items
        ):
            continue
        path = _dotted(where, *item["loc"])
        if item["type"] == "extra_forbidden":
            names = _model_at(model, item["loc"]).names()
            near = nearest(to_snake(str(item["loc"][-1])), names)
            suggestion = f" (did you mean {near[0]}?)" if near else ""
            known = "" if names in listed else f"; known here: {', '.join(names)}"
            listed.add(names)
            lines.append(f"{path}: unknown option{known}{suggestion}")
        elif item["type"] == "missing":
            lines.append(f"{path}: missing")
        elif item["type"] == "tuple_type":
            example = _LISTS.get(to_snake(str(item["loc"][-1])), '["one", "two"]')
            lines.append(
                f"{path}: a list is needed, such as {example}"
                + (f" (got {item['input']!r:.80})" if show_values else "")
            )
        else:
            text = _WORDS.get(item["type"], item["msg"]).format_map(item.get("ctx", {})).removeprefix("Value error, ")
            lines.append(f"{path}: {text}" + (f" (got {item['input']!r:.80})" if show_values else ""))
    return "; ".join(lines)


def _model_at(model: type[Options], path: Sequence[int | str]) -> type[Options]:
    """Returns the option model that contains the last part of `path`."""
    for part in path[:-1]:
        for name, field in model.model_fields.items():
            if part not in (name, field.alias):
                continue
            for annotation in (field.annotation, *get_args(field.annotation)):
                if isinstance(annotation, type) and issubclass(annotation, Options):
                    model = annotation
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
