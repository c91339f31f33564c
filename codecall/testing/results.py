"""The result of a script under test: an `ExecutionResult` that is easy to compare, and reports why a script failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import pytest

from codecall.envelopes import ExecutionResult, JsonObject, Stats
from codecall.errors import NOT_FOUND, CodeCallError, IllegalAccess, Location, Status, ToolCallError
from codecall.errors.hints import DEFAULT_HINTS
from codecall.sandbox.lines import LineTable
from codecall.testing.calls import Calls, abbreviate
from codecall.wording import nearest

_MAX_LINE: Final = 160
"""Most characters of a script's line that a report shows."""

_MEMBER = re.compile(r"([A-Za-z_$][\w$]*)\.([A-Za-z_$][\w$]*)")

_NOT_FOUND_CODES: Final = frozenset(error.code for error in NOT_FOUND.values())

_MAX_LOGS: Final = 20
"""Most console lines that a report shows."""


_OTHER_NAMES: Final = {"result": "value", "return_value": "value", "data": "value", "output": "value", "ok": "success"}
"""What people call the properties of a `ScriptResult`, as other tools do."""


class ScriptResult:
    """How a script ended.

    `value` is for scripts that ended well: read from one that failed, it fails the test with a report of the script.
    If a script fails, a test also fails that reads none of `value`, `status`, `success`, `error`, `code`, `execution`,
    `envelope()` and `raise_for_status()`.

    Args:
        execution: The result of the enclave.
        name: The name of the script in messages.
        source: The text of the script.
        calls: The calls it made.
    """

    def __init__(self, execution: ExecutionResult, *, name: str, source: str, calls: Calls) -> None:
        self._execution = execution
        self._examined = False
        self.name = name
        """The name of the script."""
        self.source = source
        """The text of the script."""
        self.calls = calls
        """The calls it made to stubs."""
        self.reported = False
        """Whether `report` was called: a failing test reports every script once."""

    @property
    def execution(self) -> ExecutionResult:
        """The result as the enclave gave it."""
        self._examined = True
        return self._execution

    @property
    def overlooked(self) -> bool:
        """Whether the script failed and the test has not looked at how it ended."""
        return self._execution.error is not None and not self._examined

    @property
    def blocks(self) -> Sequence[str]:
        """References of the pictures, sounds and files that the script passed to `emit`."""
        return self._execution.blocks

    @property
    def lines(self) -> Sequence[int]:
        """The lines that ran, if coverage is measured."""
        return self._execution.lines

    @property
    def status(self) -> Status:
        """`ok`, or the family of the error."""
        return self.execution.status

    @property
    def success(self) -> bool:
        """True exactly when `status` is `ok`."""
        return self.execution.success

    @property
    def value(self) -> object:
        """What the script returned, as JSON data. Fails the test when the script failed."""
        __tracebackhide__ = True
        if not self.success:
            pytest.fail(f"the script has no value, because it failed\n\n{self.report()}")
        return self.execution.value

    if not TYPE_CHECKING:  # a type checker refuses these by itself

        def __getattr__(self, name: str) -> object:
            """Raise an error that names the property that is meant; `AttributeError`, as Python does."""
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            near = _OTHER_NAMES.get(name) or next(iter(nearest(name, known)), None)
            suggestion = f"; it is `.{near}`" if near else ""
            raise AttributeError(f"a ScriptResult has no `.{name}`{suggestion}", name=name, obj=None)

    @property
    def error(self) -> CodeCallError | None:
        """Why it failed; None when it did not."""
        return self.execution.error

    @property
    def code(self) -> str | None:
        """The error's code; None when there is no error."""
        return None if self.error is None else self.error.code

    @property
    def logs(self) -> list[str]:
        """Console lines in order; also those of a script that failed."""
        return list(self._execution.logs)

    @property
    def warnings(self) -> list[str]:
        """What was replaced by a mark on the way out, and what was forgotten."""
        return list(self._execution.warnings)

    @property
    def stats(self) -> Stats:
        """What it used: `tool_calls`, `steps`, `script_ms`, `duration_ms`."""
        return self._execution.stats

    def raise_for_status(self) -> ScriptResult:
        """Raise `error` if there is one, else return self."""
        self.execution.raise_for_status()
        return self

    def envelope(self) -> JsonObject:
        """The JSON object that a client of `codecall:execute` would get."""
        return self.execution.envelope()

    def report(self) -> str:
        """How it ended, for a person: status, error, the line it is about, hint, console and calls."""
        self.reported = True
        return "\n".join(report_lines(self._execution, self.name, self.source, self.calls))

    def __repr__(self) -> str:
        error = self._execution.error
        if error is None:
            return f"<{self.name}: ok, {abbreviate(self._execution.value)}>"
        location = error_location(error)
        place = f":{location.line}" if location else ""
        return f"<{self.name}{place}: {self._execution.status}, {error.code} {error.message}>"


def error_location(error: CodeCallError) -> Location | None:
    """Where in the script an error happened; None if that is not known."""
    location: object = getattr(error, "location", None)
    return cast("Location", location) if isinstance(location, tuple) else None


def report_lines(result: ExecutionResult, name: str, source: str, calls: Calls) -> list[str]:
    """Report how a script ended, line by line."""
    error = result.error
    if error is None:
        return [f"{name} ended ok with {abbreviate(result.value)}", *outcome_lines(result, calls)]
    kind = f" {error.kind}" if isinstance(error, IllegalAccess) else ""
    return [
        f"{name} ended with {result.status}: {error.code}{kind}",
        f"  {error.message}",
        *place_lines(error_location(error), name, source),
        *namespace_lines(error, source),
        *outcome_lines(result, calls),
    ]


def outcome_lines(result: ExecutionResult, calls: Calls) -> list[str]:
    """Report the rest of a run: details and hint of its error, warnings, console, calls."""
    lines: list[str] = []
    if isinstance(result.error, ToolCallError) and result.error.details is not None:
        lines.append(f"  details: {abbreviate(result.error.details)}")
    if result.error is not None and (hint := _hint(result.error)):
        lines.append(f"  hint: {hint}")
    lines += [f"  warning: {warning}" for warning in result.warnings]
    if result.logs:
        lines += ["  console:", *(f"    {line}" for line in result.logs[:_MAX_LOGS])]
        if len(result.logs) > _MAX_LOGS:
            lines.append(f"    … {len(result.logs) - _MAX_LOGS} more")
    if calls:
        lines += ["  calls:", *(f"  {line}" for line in calls.lines())]
    return lines


def _hint(error: CodeCallError) -> str:
    """The hint of an error, without advice that helps on a server only, where a script can search for tools."""
    hint = error.hint or ""
    return hint.removeprefix(DEFAULT_HINTS[error.code]).strip() if error.code in _NOT_FOUND_CODES else hint


def namespace_lines(error: CodeCallError, source: str) -> list[str]:
    """Suggest that an unknown name with a member is a namespace: a test has only the namespaces of its stubs."""
    location = error_location(error)
    if location is None or not isinstance(error, IllegalAccess) or error.kind != "DisallowedGlobal":
        return []
    line = LineTable(source).text(location.line)
    member = _MEMBER.match(line, location.column - 1)
    if member is None:
        return []
    name, tool = member.groups()
    return [f"  if {name} is a namespace of tools, declare one of them, such as {name}:{tool}"]


def place_lines(location: Location | None, name: str, source: str) -> list[str]:
    """The line of the script that an error is about, with a mark below the column."""
    if location is None:
        return []
    place = f"  at {name}:{location.line}:{location.column}"
    lines = LineTable(source)
    if not 1 <= location.line <= len(lines):
        return [place]
    text = lines.text(location.line)
    start = max(0, location.column - 1 - _MAX_LINE // 2)
    excerpt = ("…" if start else "") + text[start : start + _MAX_LINE] + ("…" if text[start + _MAX_LINE :] else "")
    start -= bool(start)
    # Tabs stay tabs, so that the mark stands below what it is about
    before = "".join("\t" if character == "\t" else " " for character in excerpt[: location.column - 1 - start])
    number = f"  {location.line} | "
    return [place, f"{number}{excerpt}", f"{' ' * (len(number) - 2)}| {before}^"]
