"""The fields of presets as commands print them: values, and what each limits."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import cast

from codecall.options import Preset


def meanings() -> dict[str, str]:
    """What each field of a preset limits: the first sentence of its definition, so that this is written once."""
    try:
        source = inspect.getsource(Preset)
    except OSError:  # an installation without sources
        return dict.fromkeys(Preset.model_fields, "")
    body = cast("ast.ClassDef", ast.parse(source).body[0]).body
    told: dict[str, str] = {}
    for field, said in pairwise(body):
        match field, said:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                told[name] = " ".join(text.split()).partition(". ")[0].rstrip(".")
            case _:
                pass
    return told


def shown(value: object) -> str:
    """A value of a preset as a person reads it."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def plainly(value: object) -> str:
    """The same for a program."""
    return str(value).lower() if isinstance(value, bool) else str(value)
