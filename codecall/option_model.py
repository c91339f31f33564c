"""The base of all option models: frozen, nothing unknown, and every error names its field.

Each option accepts its Python spelling (`tool_name_separator`) and its wire spelling (`toolNameSeparator`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel, to_snake

from codecall.errors import OptionsError
from codecall.suggestions import nearest

Millis = Annotated[int, Field(ge=1, le=86_400_000)]
"""Milliseconds, up to a day."""


class Options(BaseModel):
    """Base of every option model: frozen, both spellings, nothing unknown."""

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
        """The options a caller may set here, in their Python spelling."""
        return tuple(cls.model_fields)

    @classmethod
    def read(cls, values: Mapping[str, object], *, where: str, show_values: bool = True) -> Self:
        """Validate `values`; raises `OptionsError` naming each bad field under `where`. `show_values=False` keeps
        what was given out of the message: it may be a secret."""
        reject_double_spelling(cls, values, where)
        try:
            return cls.model_validate(dict(values))
        except ValidationError as failure:
            raise OptionsError(_explain(cls, failure, where, show_values)) from None


def given_options(function: Callable[..., object], values: Mapping[str, object]) -> dict[str, object]:
    """The keyword arguments in `values` that differ from their defaults in the signature of `function`. The others may
    be left to the model, which has the same defaults; or they are given in their wire spelling."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if value is not parameters[name].default}


def reject_double_spelling(model: type[Options], values: Mapping[str, object], where: str) -> None:
    """Refuse an option given in both its spellings; which one counts would be a matter of chance."""
    for name in model.model_fields:
        if name in values and to_camel(name) in values and name != to_camel(name):
            raise OptionsError(f"{_dotted(where, name)}: given twice, as {name} and as {to_camel(name)}")


def _dotted(where: str, *parts: object) -> str:
    return ".".join([*([where] if where else []), *map(str, parts)])


def _explain(model: type[Options], failure: ValidationError, where: str, shown: bool) -> str:
    lines: list[str] = []
    for item in failure.errors(include_url=False):
        path = _dotted(where, *item["loc"])
        if item["type"] == "extra_forbidden":
            known = _model_at(model, item["loc"]).names()
            near = nearest(to_snake(str(item["loc"][-1])), known)
            meant = f" (did you mean {near[0]}?)" if near else ""
            lines.append(f"{path}: unknown option; known here: {', '.join(known)}{meant}")
        elif item["type"] == "missing":
            lines.append(f"{path}: missing")
        elif item["type"] == "tuple_type":
            such = '["--local-timezone", "UTC"]' if item["loc"][-1] == "args" else '["one", "two"]'
            lines.append(
                f"{path}: a list is needed, such as {such}" + (f" (got {item['input']!r:.80})" if shown else "")
            )
        else:
            lines.append(f"{path}: {item['msg']}" + (f" (got {item['input']!r:.80})" if shown else ""))
    return "; ".join(lines)


def _model_at(model: type[Options], path: Sequence[int | str]) -> type[Options]:
    """The option model that the last part of `path` was looked for in."""
    for part in path[:-1]:
        for name, field in model.model_fields.items():
            if part not in (name, field.alias):
                continue
            for annotation in (field.annotation, *get_args(field.annotation)):
                if isinstance(annotation, type) and issubclass(annotation, Options):
                    model = annotation
    return model
