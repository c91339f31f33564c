"""The tables of docs/security.md are printed from the code: what stands there is what runs.

    python tests/test_security_doc.py       writes them anew, after a change of the code they are printed from

A table stands between `<!-- printed: name -->` and `<!-- end of name -->`.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from codecall.catalog.uris import MAX_MATCH_STEPS
from codecall.meta_tools.execute import MAX_CONTEXT_BYTES
from codecall.options import PRESET_NAMES, ResultsOptions, load_preset
from codecall.redaction.patterns import MAX_TEXT_CHARS, PATTERNS
from codecall.results.service import max_kept_bytes
from codecall.sandbox import wire
from codecall.sandbox.agentscript import policy
from codecall.sandbox.host import dispatch as lanes
from codecall.sandbox.host import pipe
from codecall.sandbox.host import preflight as questions
from codecall.sandbox.worker import jail, syscalls

PAGE = Path(__file__).parent.parent / "docs" / "security.md"
PRINTED = re.compile(r"<!-- printed: ([\w -]+) -->\n\n(.*?)\n<!-- end of \1 -->\n", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: bool = False) -> str:
    """A table as the page has it; with `numbers`, all columns but the first two hold some."""
    rule = ["---:" if numbers and column > 1 else "---" for column in range(len(head))]
    body = "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)
    return f"| {' | '.join(head)} |\n|{'|'.join(rule)}|\n{body}"


def words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# ---------------------------------------------------------------------------------------------------------- the tables


def layers() -> str:
    entered = {row.name: "the fork server, for all its workers" for row in jail.SHARED}
    rows = [(f"`{row.name}`", row.stops, entered.get(row.name, "each worker")) for row in jail.LAYERS]
    return table(("layer", "a worker that was taken over cannot", "entered by"), rows)


BITS = {mmap.PROT_EXEC: "`PROT_EXEC`"}
if hasattr(mmap, "MAP_ANONYMOUS"):
    BITS[mmap.MAP_ANONYMOUS] = "`MAP_ANONYMOUS`"


def condition(row: syscalls.Row) -> str:
    said = [
        f"argument {item.argument} {item.test} {BITS[item.value] if item.test in {'lacks', 'has'} else item.value}"
        for item in row.conditions
    ]
    return "; ".join(said) or "any"


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


def language() -> str:
    rows: list[tuple[object, ...]] = []
    for name, (what, entries) in TABLES.items():
        verdicts = Counter(row.verdict if row.verdict in {"allowed", "refused"} else "preset" for row in entries)
        rows.append((f"`{name}`", what, verdicts["allowed"], verdicts["preset"], verdicts["refused"]))
    kept = sum(len(row.allowed) for row in policy.PROTOTYPES.values())
    regex = sum(len(row.regex) for row in policy.PROTOTYPES.values())
    removed = sum(len(row.removed) for row in policy.PROTOTYPES.values())
    what = f"methods and properties on {len(policy.PROTOTYPES)} prototypes"
    rows.append(("`PROTOTYPES`", what, kept, regex, removed))
    return table(("table", "rows", "allowed", "the preset decides", "refused"), rows, numbers=True)


def dangers() -> str:
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
        ("tool calls performed at once", lanes.MAX_CALLS_IN_FLIGHT, "the rest wait"),
        (
            "inputs held for tools, and answers held for a worker",
            f"{lanes.MAX_HELD_BYTES >> 20} MiB each",
            "no new turn, no new call",
        ),
        ("questions about tools", f"{questions.MAX_QUESTIONS:,}", "`MESSAGE_FLOOD`"),
        ("namespaces a script uses", questions.MAX_NAMESPACES, "`MESSAGE_FLOOD`"),
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


def removed() -> str:
    rows: list[tuple[str, str, str]] = []
    for row in PATTERNS:
        marks = list(dict.fromkeys(re.findall(r"\[[a-z][a-z ]+\]", row.mark)))
        rows.append((row.name, words(marks) or "nothing", f"`{row.option}`"))
    return table(("what error texts lose", "stands in its place", "option"), rows)


PRINTERS: Mapping[str, Callable[[], str]] = {
    "layers": layers,
    "allowed system calls": allowed_calls,
    "refused system calls": refused_calls,
    "language": language,
    "dangers": dangers,
    "bounds": bounds,
    "removed from errors": removed,
}


# ----------------------------------------------------------------------------------------------------------- the tests


def test_every_printed_table_stands_in_the_page_once():
    found = [name for name, _ in PRINTED.findall(PAGE.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(PRINTERS)


@pytest.mark.parametrize("name", PRINTERS)
def test_the_page_shows_what_the_code_says(name: str):
    shown = dict(PRINTED.findall(PAGE.read_text(encoding="utf-8")))
    assert shown[name] == PRINTERS[name](), "print it anew: python tests/test_security_doc.py"


def test_the_page_names_every_way_the_report_can_end():
    # What an operator's script looks at.
    page = PAGE.read_text(encoding="utf-8")
    for word in ("every layer holds", "NOT every layer holds", "WORKER_STARTUP_FAILED", "exit status"):
        assert word in page


@pytest.mark.parametrize("page", [PAGE, PAGE.parent.parent / "README.md"], ids=lambda page: page.name)
def test_the_number_of_system_calls_is_right(page: Path):
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert set(re.findall(r"(\d+) system calls", text)) == {str(len({row.name for row in syscalls.ALLOWED}))}


def write() -> None:
    """Print the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")

    def printed(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- printed: {name} -->\n\n{PRINTERS[name]()}\n<!-- end of {name} -->\n"

    PAGE.write_text(PRINTED.sub(printed, page), encoding="utf-8")


if __name__ == "__main__":
    write()
