"""The base of all option models: they are frozen, refuse unknown options, and name the field in every error.

Each option accepts its Python spelling (`tool_name_separator`) and its wire spelling (`toolNameSeparator`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel, to_snake

from codecall.errors import OptionsError
from codecall.similarity import nearest

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


def given_options(function: Callable[..., object], values: Mapping[str, object]) -> dict[str, object]:
    """Returns the keyword arguments in `values` that differ from their defaults in the signature of `function`.

    The model has the same defaults for the others, unless they are set in their wire spelling.
    """
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if value is not parameters[name].default}


def reject_double_spelling(model: type[Options], values: Mapping[str, object], where: str) -> None:
    """Refuses an option that is set in both spellings: which one counts would be a matter of chance."""
    for name in model.model_fields:
        if name in values and to_camel(name) in values and name != to_camel(name):
            raise OptionsError(f"{_dotted(where, name)}: given twice, as {name} and as {to_camel(name)}")


def _dotted(where: str, *parts: object) -> str:
    return ".".join([*([where] if where else []), *map(str, parts)])


def _explain(model: type[Options], failure: ValidationError, where: str, show_values: bool) -> str:
    lines: list[str] = []
    for item in failure.errors(include_url=False):
        path = _dotted(where, *item["loc"])
        if item["type"] == "extra_forbidden":
            names = _model_at(model, item["loc"]).names()
            near = nearest(to_snake(str(item["loc"][-1])), names)
            suggestion = f" (did you mean {near[0]}?)" if near else ""
            lines.append(f"{path}: unknown option; known here: {', '.join(names)}{suggestion}")
        elif item["type"] == "missing":
            lines.append(f"{path}: missing")
        elif item["type"] == "tuple_type":
            example = '["--local-timezone", "UTC"]' if item["loc"][-1] == "args" else '["one", "two"]'
            lines.append(
                f"{path}: a list is needed, such as {example}"
                + (f" (got {item['input']!r:.80})" if show_values else "")
            )
        else:
            lines.append(f"{path}: {item['msg']}" + (f" (got {item['input']!r:.80})" if show_values else ""))
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
