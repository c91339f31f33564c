"""`codecall policy`: the language of scripts and its limits, printed from the data that decides."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from codecall.cli import exit_codes as exits
from codecall.cli.arguments import AsJson, PresetName
from codecall.sandbox.agentscript.policy import (
    GLOBALS,
    MEMBERS,
    NEVER_NAMES,
    NODES,
    PREFIXES,
    SOURCE,
    TYPE_PLACES,
    TYPESCRIPT,
    VARIANTS,
    Row,
    Rules,
    Verdict,
    allowed_members,
)

if TYPE_CHECKING:
    from codecall.cli.output import Output
    from codecall.presets import Preset

JsonObject = dict[str, Any]

TABLES: Mapping[str, Mapping[str, Row]] = {
    "syntax": NODES,
    "forms": VARIANTS,
    "globals": GLOBALS,
    "members": MEMBERS,
    "names": NEVER_NAMES,
    "prefixes": PREFIXES,
    "text": SOURCE,
    "typescript": TYPESCRIPT,
    "types": TYPE_PLACES,
}
"""The tables of the policy, by the names under which they are printed."""

SWITCHES: Mapping[Verdict, str] = {
    "loops": "allow_loops",
    "regex": "allow_regex",
    "console": "allow_console",
    "clock": "allow_clock",
}
"""The field of the preset that decides each verdict."""


class Rule(NamedTuple):
    """One row of the policy under one preset."""

    table: str
    row: Row
    allowed: bool


def policy(
    words: Annotated[tuple[str, ...], Parameter(help="Print only rules whose name contains one of these.")] = (),
    /,
    *,
    preset: PresetName = None,
    as_json: AsJson = False,
) -> int:
    """Print the language: what scripts may use, what not, why, and what to write instead; and the limits.

    It is printed from the data that decides when a script is run.
    """
    from codecall.cli.commands.presets import plain_value
    from codecall.cli.output import Output
    from codecall.presets import PRESET_ENVIRONMENT_VARIABLE, resolve_preset

    output = Output(as_json=as_json)
    limits = resolve_preset(preset)
    language = Rules.from_limits(limits)
    matches = [rule for rule in rules(language) if not words or _matches(rule, words)]
    if as_json:
        output.document(
            {
                "preset": preset or os.environ.get(PRESET_ENVIRONMENT_VARIABLE) or "secure",
                "rules": [_document(rule, language) for rule in matches],
                **({} if words else {"limits": limits.model_dump()}),
            }
        )
    elif output.rich:
        _print_tables(output, matches, language, None if words else limits)
    else:
        for rule in matches:
            verdict = "allowed" if rule.allowed else "refused"
            output.row([verdict, rule.table, rule.row.name, rule.row.reason, rule.row.instead])
        if not words:
            for field, value in limits.model_dump().items():
                output.row(["limit", field, plain_value(value)])
    if not matches:
        output.note(f"No rule is about {' or '.join(words)}; what has no rule is refused", "yellow")
    return exits.OK if matches else exits.FAILED


def rules(language: Rules) -> Iterator[Rule]:
    """Every row of the policy, and whether it is allowed under the rules of a preset."""
    for table, rows in TABLES.items():
        for row in rows.values():
            yield Rule(table, row, language.permit(row.verdict))


def _matches(rule: Rule, words: tuple[str, ...]) -> bool:
    return any(word.casefold() in rule.row.name.casefold() for word in words)


def _document(rule: Rule, language: Rules) -> JsonObject:
    row = rule.row
    document: JsonObject = {"table": rule.table, "name": row.name, "allowed": rule.allowed}
    if row.verdict in SWITCHES:
        document["decidedBy"] = SWITCHES[row.verdict]
    if not rule.allowed:
        document |= {"kind": row.kind, "reason": row.reason, "instead": row.instead}
    elif rule.table == "globals" and (members := allowed_members(row.name, language)):
        document["members"] = sorted(members)
    return document


def _print_tables(output: Output, matches: list[Rule], language: Rules, limits: Preset | None) -> None:
    from rich.text import Text

    from codecall.cli.commands.presets import display_value, field_descriptions
    from codecall.cli.output import Column

    for table in TABLES:
        table_rules = [rule for rule in matches if rule.table == table]
        if not table_rules:
            continue
        output.show(Text(f"\n{table}", style="bold underline"))
        allowed = list(dict.fromkeys(rule.row.name for rule in table_rules if rule.allowed))
        if allowed:
            names = ", ".join(_name_with_members(name, language, table) for name in allowed)
            output.show(Text.assemble(("allowed ", "bold green"), names))
        refused = [rule.row for rule in table_rules if not rule.allowed]
        columns = [Column("refused", "bold red"), Column("why", "dim"), Column("instead")]
        if refused:
            output.table(columns, dict.fromkeys((_label(row), row.reason, row.instead) for row in refused))
    if limits is not None:
        descriptions = field_descriptions()
        rows = ([field, display_value(value), descriptions[field]] for field, value in limits.model_dump().items())
        output.table([Column("limit", "bold"), Column("value", right=True), Column("of", "dim")], rows, "Limits")


def _label(row: Row) -> str:
    return f"{row.name} ({SWITCHES[row.verdict]})" if row.verdict in SWITCHES else row.name


def _name_with_members(name: str, language: Rules, table: str) -> str:
    members = allowed_members(name, language) if table == "globals" else None
    return f"{name} ({', '.join(sorted(members))})" if members else name
