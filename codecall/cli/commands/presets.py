"""`codecall presets`: limits and language of presets, side by side."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Annotated, cast

from cyclopts import Parameter

from codecall.cli.arguments import AsJson


def presets(
    names: Annotated[tuple[str, ...], Parameter(help="Presets to compare: names, or paths of preset files.")] = (),
    /,
    *,
    differing: Annotated[bool, Parameter(negative="", help="Leave out what is the same in all.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare presets: every limit, and which parts of the language they allow; those that ship, or those named."""
    from codecall.cli.output import Column, Output
    from codecall.presets import PRESET_NAMES, Preset, load_preset

    output = Output(as_json=as_json)
    selected = {name: load_preset(name) for name in names or PRESET_NAMES}
    values = {field: [getattr(preset, field) for preset in selected.values()] for field in Preset.model_fields}
    differ = [field for field, row in values.items() if any(value != row[0] for value in row)]
    if as_json:
        output.document({"presets": {name: preset.model_dump() for name, preset in selected.items()}, "differ": differ})
        return
    descriptions = field_descriptions()
    if not output.rich:
        for field in values if not differing else differ:
            output.row([field, *map(plain_value, values[field])])
        return
    columns = [Column("field", "bold"), *(Column(name, right=True) for name in selected), Column("limits", "dim")]
    rows = ([field, *map(display_value, values[field]), descriptions[field]] for field in differ)
    output.table(columns, rows, "What differs")
    same = [field for field in values if field not in differ]
    if same and not differing:
        columns = [Column("field", "bold"), Column("in all", right=True), Column("limits", "dim")]
        output.table(
            columns,
            ([field, display_value(values[field][0]), descriptions[field]] for field in same),
            "What is the same",
        )


def field_descriptions() -> dict[str, str]:
    """What each field of a preset limits: the first sentence of its docstring, so that this is written once."""
    from codecall.presets import Preset

    try:
        source = inspect.getsource(Preset)
    except OSError:  # an installation without sources
        return dict.fromkeys(Preset.model_fields, "")
    body = cast("ast.ClassDef", ast.parse(source).body[0]).body
    descriptions: dict[str, str] = {}
    for statement, following in pairwise(body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                descriptions[name] = " ".join(text.split()).partition(". ")[0].rstrip(".")
            case _:
                pass
    return descriptions


def display_value(value: object) -> str:
    """Format a value of a preset for a person to read."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def plain_value(value: object) -> str:
    """Format a value of a preset for a program to read."""
    return str(value).lower() if isinstance(value, bool) else str(value)
