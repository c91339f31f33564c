"""The tables of docs/agentscript.md are printed from the policy: what stands there is what runs.

python -m tests.test_agentscript_doc    writes them anew, after a change of the policy
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from codecall.options import PRESET_NAMES, load_preset
from codecall.sandbox.agentscript import policy
from codecall.sandbox.agentscript.diagnosis.hints import HINT_RULES, NOT_AN_ERROR_HINT
from codecall.sandbox.agentscript.policy import ERROR_KINDS, RUNTIME_NAMES, Row, Rules
from tests.printing import Printers, print_into, printed_in, table, words

PAGE = Path(__file__).parent.parent / "docs" / "agentscript.md"

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
SWITCHES = {"loops": "allow_loops", "regex": "allow_regex", "console": "allow_console", "clock": "allow_clock"}
"""Verdict to the preset's field."""


UNNAMED = {"operator", "unknown member", "unknown identifier"}
"""Rows that stand for whatever has no row."""


def built_ins() -> str:
    rows: list[tuple[str, str]] = []
    for name, row in policy.GLOBALS.items():
        if not EVERYTHING.permit(row.verdict) or name in RUNTIME_NAMES or name in ERROR_KINDS:
            continue
        if members := policy.allowed_members(name, EVERYTHING):
            rows.append((f"`{name}`", words(sorted(members))))
    bare = [
        name
        for name, row in policy.GLOBALS.items()
        if EVERYTHING.permit(row.verdict) and name not in RUNTIME_NAMES and not policy.allowed_members(name, EVERYTHING)
    ]
    return table(("global", "members"), [*rows, (words(bare), "as they are")])


def methods() -> str:
    rows: list[tuple[str, str]] = []
    for row in policy.PROTOTYPES.values():
        kind = row.name.removesuffix(".prototype")
        names = sorted(name for name in row.allowed | row.regex if _sayable(name))
        # The other errors have what `Error` has.
        if names and kind in policy.GLOBALS and (kind == "Error" or kind not in ERROR_KINDS | {"InternalError"}):
            rows.append((f"`{kind}`", words(names)))
    return table(("on", "methods and properties"), rows)


def _sayable(name: str) -> bool:
    """Whether a script may write it."""
    return not name.startswith("@@") and name not in policy.NEVER_NAMES


def switches() -> str:
    rows = [
        (
            verdict,
            words(row.name for row in policy.all_rows() if row.verdict == verdict),
            *map(_allows(field), PRESET_NAMES),
        )
        for verdict, field in SWITCHES.items()
    ]
    return table(("switch", "allows", *(f"`{name}`" for name in PRESET_NAMES)), rows)


def _allows(field: str) -> Callable[[str], str]:
    return lambda preset: "yes" if getattr(load_preset(preset), field) else "no"


def refused() -> str:
    groups: dict[str, list[str]] = {}
    tables: tuple[Iterable[Row], ...] = (
        policy.NODES.values(),
        policy.VARIANTS.values(),
        policy.NEVER_NAMES.values(),
        policy.PREFIXES.values(),
        policy.GLOBALS.values(),
        policy.MEMBERS.values(),
        policy.TYPESCRIPT.values(),
        policy.TYPE_PLACES.values(),
    )
    for row in (row for rows in tables for row in rows):
        if row.instead and row.verdict != "allowed" and row.name not in UNNAMED:
            names = groups.setdefault(row.instead, [])
            if row.name not in names:
                names.append(row.name)
    return table(("instead of", "write"), [(words(names), instead) for instead, names in groups.items()])


def texts() -> str:
    return table(("a script has no", "instead"), [(row.name, row.instead) for row in policy.SOURCE.values()])


def remedies() -> str:
    rows = [(row.name, row.hint.format_map(_Names())) for row in HINT_RULES]
    return table(("what went wrong", "hint"), [*rows, ("what was thrown is no error", NOT_AN_ERROR_HINT)])


class _Names(dict[str, str]):
    """Stands for the fields of a hint: each is its own name."""

    def __missing__(self, key: str) -> str:
        return "" if key in {"some", "use"} else f"‹{key}›"


PRINTERS: Printers = {
    "built-ins": built_ins,
    "methods": methods,
    "switches": switches,
    "refused": refused,
    "texts": texts,
    "remedies": remedies,
}


def test_every_printed_table_stands_in_the_page_once() -> None:
    assert sorted(name for name, _ in printed_in(PAGE)) == sorted(PRINTERS)


@pytest.mark.parametrize("name", PRINTERS)
def test_the_page_shows_what_the_code_says(name: str) -> None:
    assert dict(printed_in(PAGE))[name] == PRINTERS[name](), "print it anew: python -m tests.test_agentscript_doc"


if __name__ == "__main__":
    print_into(PAGE, PRINTERS)
