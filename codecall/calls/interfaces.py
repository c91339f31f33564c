"""What a broker asks of those that decide about its calls, and that answer the questions of tools; and the failures of
tools that are runs themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, cast

from fastmcp.exceptions import ValidationError
from fastmcp.tools.base import ToolResult
from mcp_types import InputRequiredResult, InputResponses, TextContent
from pydantic import PrivateAttr

from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.errors import CodeCallError
from codecall.schema.validation import Problem, advise_on_nulls, invalid_input_message

AnswerQuestions = Callable[[CatalogEntry, InputRequiredResult], Awaitable[InputResponses | None]]
"""Gives a person's answers to the questions of a tool; None if there are none."""

CurrentEntry = Callable[[], Awaitable[CatalogEntry | None]]
"""Gives what is called as it is now; None if it may be called no longer."""


class ResolvedInput(NamedTuple):
    """The input of a call with the content of blocks in place of their references."""

    arguments: dict[str, object]
    """What the tool gets."""
    displayed: dict[str, object]
    """The same for a person: of data its type, size and digest, as it is not readable."""
    data: tuple[tuple[str, str], ...] = ()
    """Where data stands, and the reference of each."""

    @property
    def references(self) -> list[str]:
        """The references of the data."""
        return list(dict.fromkeys(reference for _, reference in self.data))


class Gate(Protocol):
    """Decides whether a call may be made."""

    async def __call__(
        self,
        entry: CatalogEntry,
        arguments: Mapping[str, object],
        resolved: ResolvedInput | None,
        current_entry: CurrentEntry,
        check_input: Callable[[], Awaitable[None]] | None,
        /,
    ) -> None:
        """Return if the call may be made now; it counts as made.

        Args:
            entry: What is called.
            arguments: The input as the script wrote it.
            resolved: It with the content of blocks; None if it has none.
            current_entry: Gives what is called as it is once somebody has decided.
            check_input: Raises the error that the input is certain to get; None: nothing is known of it.

        Raises:
            ToolCallError: the reason why it may not be made.
        """
        ...


class InvalidArgumentsError(ValidationError):
    """A composite tool refuses its arguments. FastMCP sends the message to clients.

    Args:
        name: The tool.
        problems: What is wrong.
        arguments: The arguments.
        schema: The schema of its input.
    """

    def __init__(
        self, name: str, problems: Sequence[Problem], arguments: Mapping[str, object], schema: JsonObject
    ) -> None:
        super().__init__(invalid_input_message(name, advise_on_nulls(problems, arguments, schema), schema))
        self.problems = problems


MAX_EFFECTS: Final = 10
"""Steps of a composite tool that a sentence names."""


class FailedRunResult(ToolResult):
    """The answer of a tool that is itself a run of CodeCall's, and failed. No server can send one.

    Args:
        text: The answer as text.
        body: The answer.
        error: Why the run failed, cleaned.
    """

    _error: CodeCallError = PrivateAttr()

    def __init__(self, text: str, body: JsonObject, error: CodeCallError) -> None:
        super().__init__(content=[TextContent(type="text", text=text)], structured_content=body, is_error=True)
        self._error = error

    @property
    def error(self) -> CodeCallError:
        """Why the run failed."""
        return self._error

    @property
    def hint(self) -> str | None:
        """What its caller may do about it."""
        hint = (self.structured_content or {}).get("hint")
        return hint if isinstance(hint, str) else None

    @property
    def effects(self) -> str:
        """What the run had done before, by the steps and iterations of a composite tool, as a sentence; or empty."""
        body: JsonObject = self.structured_content or {}
        steps = cast("dict[str, str]", body.get("steps", {}))
        iterations = cast("dict[str, dict[str, int]]", body.get("iterations", {}))
        done = [name for name, status in steps.items() if status == "completed"]
        for name, counts in iterations.items():
            if name not in done and counts["completed"]:
                done.append(f"{counts['completed']} of {counts['count']} iterations of {name}")
        more = f" and {len(done) - MAX_EFFECTS} more" if len(done) > MAX_EFFECTS else ""
        return f"Steps of it that had completed are not undone: {', '.join(done[:MAX_EFFECTS])}{more}." if done else ""
