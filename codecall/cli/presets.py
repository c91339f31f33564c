"""`codecall presets`: limits and language of presets, side by side."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from codecall.cli.choosing import AsJson


def presets(
    names: Annotated[tuple[str, ...], Parameter(help="Presets to compare: names, or paths of preset files.")] = (),
    /,
    *,
    differing: Annotated[bool, Parameter(negative="", help="Leave out what is the same in all.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare presets: every limit, and which parts of the language they allow; those that ship, or those named."""
    from codecall.cli.limits import meanings, plainly, shown
    from codecall.cli.printing import Column, Output
    from codecall.options import PRESET_NAMES, Preset, load_preset

    output = Output(as_json=as_json)
    chosen = {name: load_preset(name) for name in names or PRESET_NAMES}
    values = {field: [getattr(preset, field) for preset in chosen.values()] for field in Preset.model_fields}
    differ = [field for field, row in values.items() if any(value != row[0] for value in row)]
    if as_json:
        output.document({"presets": {name: preset.model_dump() for name, preset in chosen.items()}, "differ": differ})
        return
    said = meanings()
    if not output.rich:
        for field in values if not differing else differ:
            output.line_of([field, *map(plainly, values[field])])
        return
    columns = [Column("field", "bold"), *(Column(name, right=True) for name in chosen), Column("limits", "dim")]
    rows = ([field, *map(shown, values[field]), said[field]] for field in differ)
    output.table(columns, rows, "What differs")
    same = [field for field in values if field not in differ]
    if same and not differing:
        columns = [Column("field", "bold"), Column("in all", right=True), Column("limits", "dim")]
        output.table(columns, ([field, shown(values[field][0]), said[field]] for field in same), "What is the same")
