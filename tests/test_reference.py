"""The printed tables of docs/reference come from the code: what stands there is what runs.

    python -m tests.test_reference       prints them again, after a change of the code they are printed from

A table stands between `<!-- printed: name -->` and `<!-- end of name -->`.
"""

from __future__ import annotations

import ast
import mmap
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path

import pytest

from codecall.catalog.uris import MAX_MATCH_STEPS
from codecall.meta_tools.execute import MAX_CONTEXT_BYTES
from codecall.meta_tools.invoke import MAX_DEPTH
from codecall.options import ResultsOptions
from codecall.presets import PRESET_NAMES, load_preset
from codecall.redaction.clean import MAX_TEXT_CHARS
from codecall.redaction.patterns import PATTERNS
from codecall.results.service import max_kept_bytes
from codecall.sandbox import wire
from codecall.sandbox.agentscript import policy
from codecall.sandbox.agentscript.diagnosis.hints import HINT_RULES, NOT_AN_ERROR_HINT
from codecall.sandbox.agentscript.policy import ERROR_KINDS, RUNTIME_NAMES, Row, Rules
from codecall.sandbox.host import dispatch, pipe, preflight
from codecall.sandbox.starlark import policy as starlark
from codecall.sandbox.worker import jail, syscalls
from tests import reference_tables
from tests.policy_rows import all_rows
from tests.printed_tables import Printers, read_tables, table, words, write_tables

REPOSITORY = Path(__file__).parent.parent
REFERENCE = REPOSITORY / "docs" / "reference"

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
SWITCHES = {"loops": "allow_loops", "regex": "allow_regex", "console": "allow_console", "clock": "allow_clock"}
"""Verdict to the preset's field."""


def starlark_names() -> str:
    return table(("name", "use"), [(f"`{builtin.name}`", f"`{builtin.use}`") for builtin in starlark.BUILTINS])


def starlark_refused() -> str:
    rows = [*starlark.FOREIGN_WORDS, *starlark.FOREIGN_NAMES]
    return table(("a script has no", "instead"), [(f"`{row.name}`", f"`{row.instead}`") for row in rows])


UNNAMED = {"operator", "unknown member", "unknown identifier"}
"""Rows that stand for whatever has no row."""


def built_in_objects() -> str:
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
            words(row.name for row in all_rows() if row.verdict == verdict),
            *map(_allows(field), PRESET_NAMES),
        )
        for verdict, field in SWITCHES.items()
    ]
    return table(("switch", "allows", *(f"`{name}`" for name in PRESET_NAMES)), rows)


def _allows(field: str) -> Callable[[str], str]:
    return lambda preset: "yes" if getattr(load_preset(preset), field) else "no"


def replacements() -> str:
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


def text_rules() -> str:
    return table(("a script has no", "instead"), [(row.name, row.instead) for row in policy.SOURCE.values()])


def hint_rules() -> str:
    rows = [(row.name, row.hint.format_map(_Names())) for row in HINT_RULES]
    return table(("what went wrong", "hint"), [*rows, ("what was thrown is no error", NOT_AN_ERROR_HINT)])


class _Names(dict[str, str]):
    """Stands for the fields of a hint: each is its own name."""

    def __missing__(self, key: str) -> str:
        return "" if key in {"some", "use"} else f"‹{key}›"


def layers() -> str:
    entered = {row.name: "the fork server, for all its workers" for row in jail.SHARED}
    rows = [(f"`{row.name}`", row.stops, entered.get(row.name, "each worker")) for row in jail.LAYERS]
    return table(("layer", "a worker that was taken over cannot", "entered by"), rows)


BITS = {mmap.PROT_EXEC: "`PROT_EXEC`"}
if hasattr(mmap, "MAP_ANONYMOUS"):
    BITS[mmap.MAP_ANONYMOUS] = "`MAP_ANONYMOUS`"


def condition(row: syscalls.Row) -> str:
    parts = [
        f"argument {item.argument} {item.test} {BITS[item.value] if item.test in {'lacks', 'has'} else item.value}"
        for item in row.conditions
    ]
    return "; ".join(parts) or "any"


def allowed_calls() -> str:
    rows = [(f"`{row.name}`", condition(row), row.why) for row in syscalls.ALLOWED]
    return table(("allowed", "only if", "for"), rows)


def refused_calls() -> str:
    # "the same" is about the row above
    reasons: list[str] = []
    for row in syscalls.REFUSED:
        reasons.append(reasons[-1] if row.why == "the same" else row.why)
    pairs = zip(syscalls.REFUSED, reasons, strict=True)
    groups = [(words(row.name for row, _ in group), why) for why, group in groupby(pairs, lambda pair: pair[1])]
    return table(("refused with EPERM", "because"), groups)


TABLES: Mapping[str, tuple[str, Iterable[policy.Row]]] = {
    "NODES": ("forms of syntax the parser can emit", policy.NODES.values()),
    "VARIANTS": ("variants that hide inside an allowed form", policy.VARIANTS.values()),
    "NEVER_NAMES": ("names refused in every position", policy.NEVER_NAMES.values()),
    "PREFIXES": ("beginnings of names kept for the runtime", policy.PREFIXES.values()),
    "GLOBALS": ("global names with a row of their own", policy.GLOBALS.values()),
    "MEMBERS": ("members with a verdict apart from their global's", policy.MEMBERS.values()),
    "SOURCE": ("rules for the script as text", policy.SOURCE.values()),
    "TYPESCRIPT": ("kinds of nodes of the parser that finds the types", policy.TYPESCRIPT.values()),
    "TYPE_PLACES": ("places where a type cannot be taken out", policy.TYPE_PLACES.values()),
}


def row_counts() -> str:
    rows: list[tuple[object, ...]] = []
    for name, (what, entries) in TABLES.items():
        verdicts = Counter(row.verdict if row.verdict in {"allowed", "refused"} else "preset" for row in entries)
        rows.append((f"`{name}`", what, verdicts["allowed"], verdicts["preset"], verdicts["refused"]))
    allowed = sum(len(row.allowed) for row in policy.PROTOTYPES.values())
    regex = sum(len(row.regex) for row in policy.PROTOTYPES.values())
    removed = sum(len(row.removed) for row in policy.PROTOTYPES.values())
    what = f"methods and properties on {len(policy.PROTOTYPES)} prototypes"
    rows.append(("`PROTOTYPES`", what, allowed, regex, removed))
    return table(("table", "rows", "allowed", "the preset decides", "refused"), rows, numbers=True)


def dangerous_names() -> str:
    reasons: dict[str, list[str]] = {}
    for row in policy.GLOBALS.values():
        if row.verdict == "refused" and row.kind == "IllegalBuiltinAccess":
            reasons.setdefault(row.reason, []).append(row.name)
    never = [(f"`{row.name}`", row.reason) for row in policy.NEVER_NAMES.values()]
    return table(("refused", "because"), [*((words(names), why) for why, names in reasons.items()), *never])


def limits_of(name: str) -> wire.Limits:
    preset = load_preset(name)
    values = {field: getattr(preset, field) for field in wire.PRESET_FIELDS}
    return wire.Limits(**values, max_kept_bytes=max_kept_bytes(ResultsOptions(), preset))


def bounds() -> str:
    frames = [wire.longest_frame(limits_of(name)) / 2**20 for name in PRESET_NAMES]
    results = ResultsOptions()
    rows: list[tuple[object, ...]] = [
        ("script", f"{policy.MAX_SCRIPT_BYTES:,} bytes, {policy.MAX_NESTING} brackets deep", "`VALIDATION_ERROR`"),
        ("value that `codecall:invoke` answers with", f"nested {MAX_DEPTH} deep", "`TOOL_EXECUTION_ERROR`"),
        ("context of a request", f"{MAX_CONTEXT_BYTES:,} bytes", "the call is refused"),
        ("frame of a worker before its first script", f"{wire.MAX_READY_BYTES:,} bytes", "`WORKER_STARTUP_FAILED`"),
        (
            "frame of a worker that runs a script",
            f"{', '.join(f'{size:.0f}' for size in frames)} MiB ({words(PRESET_NAMES)})",
            "`MESSAGE_TOO_LARGE`",
        ),
        (
            "result that is kept, being too large for an answer",
            f"{', '.join(str(limits_of(name).max_kept_bytes >> 20) for name in PRESET_NAMES)} MiB",
            "`OUTPUT_LIMIT`",
        ),
        (
            "results kept at the same time, of one caller and of all",
            f"{results.max_caller_bytes >> 20}, {results.max_total_bytes >> 20} MiB, for {results.ttl_s // 60} minutes",
            "`OUTPUT_LIMIT`",
        ),
        (
            "pieces a frame may arrive in",
            f"{pipe.MIN_FRAGMENTS}, and one more for each {pipe.MIN_FRAGMENT_BYTES} bytes of it",
            "`MESSAGE_FLOOD`",
        ),
        ("tool calls in one frame", f"{wire.MAX_CALLS_PER_FRAME:,}", "`TOO_MANY_PENDING_CALLS`"),
        ("tool calls performed at once", dispatch.MAX_CALLS_IN_FLIGHT, "the rest wait"),
        (
            "inputs held for tools, and answers held for a worker",
            f"{dispatch.MAX_BUFFERED_BYTES >> 20} MiB each",
            "no new turn, no new call",
        ),
        ("questions about tools", f"{preflight.MAX_QUESTIONS:,}", "`MESSAGE_FLOOD`"),
        ("namespaces a script uses", preflight.MAX_NAMESPACES, "`MESSAGE_FLOOD`"),
        ("time a worker may leave a message unread", f"{pipe.UNREAD_MS:,} ms", "`WORKER_TIMEOUT`"),
        (
            "name of a tool or a prompt",
            f"{wire.MAX_NAME_LENGTH} characters",
            "an error in the script; from the worker `MESSAGE_INVALID`",
        ),
        (
            "URI of a resource",
            f"{wire.MAX_URI_LENGTH:,} characters",
            "an error in the script; from the worker `MESSAGE_INVALID`",
        ),
        (
            "comparing a URI with templates",
            f"{MAX_MATCH_STEPS:,} steps for all of the server's together, about 2 ms",
            "`RESOURCE_NOT_FOUND`",
        ),
        ("one error text", f"{MAX_TEXT_CHARS:,} characters", "cut, with a mark that says by how much"),
    ]
    return table(("of", "at most", "else"), rows)


def redactions() -> str:
    rows: list[tuple[str, str, str]] = []
    for row in PATTERNS:
        marks = list(dict.fromkeys(re.findall(r"\[[a-z][a-z ]+\]", row.mark)))
        rows.append((row.name, words(marks) or "nothing", f"`{row.option}`"))
    return table(("what error texts lose", "stands in its place", "option"), rows)


PAGES: Mapping[str, Printers] = {
    "language": {
        "built-ins": built_in_objects,
        "methods": methods,
        "switches": switches,
        "refused": replacements,
        "texts": text_rules,
        "starlark-names": starlark_names,
        "starlark-refused": starlark_refused,
    },
    "hints": {"remedies": hint_rules},
    "policy": {"language": row_counts, "dangers": dangerous_names},
    "jail": {
        "layers": layers,
        "allowed system calls": allowed_calls,
        "refused system calls": refused_calls,
    },
    "limits": {"bounds": bounds},
    "redaction": {"removed from errors": redactions},
    "options": {
        "plugin options": reference_tables.plugin_options,
        "rate-limit options": reference_tables.rate_limit_options,
        "rate-limit rule": reference_tables.rate_limit_rule,
        "approval request": reference_tables.approval_request,
        "approval decisions": reference_tables.approval_decisions,
    },
    "errors": {
        "error codes": reference_tables.error_codes,
        "further codes": reference_tables.further_codes,
        "command codes": reference_tables.command_codes,
    },
    "meta-tools": reference_tables.meta_tool_tables(),
    "commands": reference_tables.command_tables(),
    "audit": {"audit events": reference_tables.audit_events},
}
"""What prints each table, by page and name."""


CODE = re.compile(r"[A-Z]{3,}(?:_[A-Z]+)*")


def codes_of(file: Path) -> set[str]:
    """The error codes that a source file gives: as `code=…`, `code = …` or `"code": …`."""
    values: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.keyword(arg="code", value=value) | ast.Assign(targets=[ast.Name(id="code")], value=value):
                values.append(value)
            case ast.AnnAssign(target=ast.Name(id="code"), value=value):
                values.append(value)
            case ast.Dict(keys=keys, values=given):
                values += [
                    v for k, v in zip(keys, given, strict=True) if isinstance(k, ast.Constant) and k.value == "code"
                ]
            case _:
                pass
    constants = (part for value in values if value is not None for part in ast.walk(value))
    texts = (part.value for part in constants if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return {text for text in texts if CODE.fullmatch(text)} - {"TOOL"}


def test_every_error_code_of_the_source_stands_in_its_page_once():
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    codes = set[str]().union(*map(codes_of, (REPOSITORY / "codecall").rglob("*.py")))
    assert len(codes) > 40
    assert {code: page.count(f"\n| `{code}` |") for code in codes} == dict.fromkeys(codes, 1)


@pytest.mark.parametrize("page", PAGES)
def test_every_printed_table_stands_in_its_page_once(page: str):
    assert sorted(name for name, _ in read_tables(REFERENCE / f"{page}.md")) == sorted(PAGES[page])


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, printers in PAGES.items() for name in printers])
def test_the_page_shows_what_the_code_says(page: str, name: str):
    tables = dict(read_tables(REFERENCE / f"{page}.md"))
    assert tables[name] == PAGES[page][name](), "print it again: python -m tests.test_reference"


def test_no_other_page_has_printed_tables():
    pages = {page for page in (REPOSITORY / "docs").rglob("*.md") if read_tables(page)}
    assert pages == {REFERENCE / f"{name}.md" for name in PAGES}


def test_the_page_on_hardening_names_every_way_the_report_can_end():
    # What an operator's script looks at.
    page = (REPOSITORY / "docs" / "operations" / "hardening.md").read_text(encoding="utf-8")
    for word in ("every layer holds", "NOT every layer holds", "WORKER_STARTUP_FAILED", "exit status"):
        assert word in page


@pytest.mark.parametrize("page", ["README.md", "docs/internals/security.md"])
def test_the_number_of_system_calls_is_right(page: str):
    text = " ".join((REPOSITORY / page).read_text(encoding="utf-8").split())
    assert set(re.findall(r"(\d+) system calls", text)) == {str(len({row.name for row in syscalls.ALLOWED}))}


if __name__ == "__main__":
    for page, printers in PAGES.items():
        write_tables(REFERENCE / f"{page}.md", printers)
