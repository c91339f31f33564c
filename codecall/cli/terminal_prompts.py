"""Asking whoever sits at the terminal of a command: for calls that rules want a person to allow, and what tools and
composite tools ask."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import anyio
import anyio.to_thread
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from rich.text import Text

from codecall.approvals.elicitation import NO_ELICITATION
from codecall.approvals.request import MAX_GRANTED_CALLS, ApprovalRequest, Decision
from codecall.cli.output import Output, ProgressLine, escape_unprintable, json_text
from codecall.cli.prompts import Prompt, somebody_is_there
from codecall.errors.hints import DEFAULT_HINTS
from codecall.globs import Patterns, escape_glob
from codecall.wording import nearest

JsonObject = dict[str, Any]

NOBODY_HERE: Final = "this command asks nobody in a pipe or with --json"

DENIED_HERE: Final = "Nothing was done for this call. Run the command again to be asked once more."
"""The hint after a call that the person at the terminal has denied."""

_SHORT: Final = {"y": "yes", "n": "no", "a": "all", "s": "stop", "c": "cancel"}

_LEFT_OUT: Final = ""
"""What stands for no value of a field."""


class _Choice(Prompt):
    """A question with choices, for which a letter and capitals do, as `y` and `Yes` for `yes`."""

    def process_response(self, value: str) -> str:
        """See `Prompt`."""
        typed = value.strip().lower()
        choice = _SHORT.get(typed, typed)
        is_meant = value.strip() not in (self.choices or ()) and choice in (self.choices or ())
        return super().process_response(choice if is_meant else value)


class TerminalPerson:
    """Who is asked while a command runs: the person at the terminal, unless `--allow` names a call.

    Args:
        allow: Names or globs of tools whose calls are allowed unasked.
        output: Where the questions go.
        progress: The progress line, which waits meanwhile.
    """

    def __init__(self, allow: Sequence[str], output: Output, progress: ProgressLine) -> None:
        self._words = tuple(allow)
        self._allow = Patterns(allow)
        self._output = output
        self._progress = progress
        self._turn = anyio.Lock()
        self.undecided: Final[list[str]] = []
        """The tools of the calls that wait for a decision, or waited when the command was interrupted."""

    @property
    def is_there(self) -> bool:
        """Whether there is somebody to ask."""
        return somebody_is_there(self._output)

    def warn_of_unmatched(self, tools: Iterable[str]) -> None:
        """Say which words of `--allow` match none of these tools."""
        known = list(tools)
        for word in self._words:
            pattern = Patterns((word,))
            if not any(map(pattern.matches, known)):
                near = nearest(word, known)
                meant = f"; did you mean {near[0]}?" if near else ""
                self._output.warn(f"--allow {shlex.quote(word)} matches no tool that is known{meant}")

    async def approve(self, request: ApprovalRequest) -> Decision | None:
        """The decision about one call, as `ApprovalOptions.approver` gives it; None without a terminal to ask."""
        if self._allow.matches(request.tool):
            return Decision.once()
        if not self.is_there:
            return None
        self.undecided.append(request.tool)
        async with self._turn:
            decision = await anyio.to_thread.run_sync(self._decide, request, abandon_on_cancel=True)
        self.undecided.remove(request.tool)
        return decision

    async def answer(self, message: str, _type: object, params: ElicitRequestParams, _context: object) -> ElicitResult:
        """The answer to a question, as FastMCP's `elicitation_handler` gives it."""
        if not isinstance(params, ElicitRequestFormParams):
            self._show(f"{message}\nIt asks to open {params.url}, which this command does not do.")
            return ElicitResult(action="cancel")
        async with self._turn:
            return await anyio.to_thread.run_sync(self._fill_in, message, params, abandon_on_cancel=True)

    def _show(self, question: str) -> None:
        # What others wrote is indented in it, and so told from its own lines.
        for line in ("", *question.split("\n"), ""):
            self._output.note(line, "")

    def _decide(self, request: ApprovalRequest) -> Decision:
        with self._progress.paused():
            self._show(request.question)
            try:
                answer = self._choose(
                    "Allow it? all: every call of it in this run; stop: end the run; a letter will do",
                    ["yes", "no", "all", "stop"],
                    default="no",
                )
            except EOFError:
                return Decision.stop()
        match answer:
            case "yes":
                return Decision.once()
            case "all":
                return Decision.several(MAX_GRANTED_CALLS)
            case "stop":
                return Decision.stop()
            case _:
                return Decision.deny()

    def _fill_in(self, message: str, params: ElicitRequestFormParams) -> ElicitResult:
        from codecall.composite.arguments import argument_problems  # loads the engine of templates

        schema: JsonObject = dict(params.requested_schema)
        with self._progress.paused():
            self._show(message)
            try:
                answer = self._choose("Answer it?", ["yes", "no", "cancel"], default="yes")
                if answer != "yes":
                    return ElicitResult(action="decline" if answer == "no" else "cancel")
                while True:
                    content = self._fields(schema)
                    problems = argument_problems(content, schema)
                    if not problems:
                        return ElicitResult(action="accept", content=content)
                    for problem in problems:
                        self._output.note(f"{problem['field']}: {problem['message']}", "red")
            except EOFError:
                return ElicitResult(action="cancel")

    def _fields(self, schema: JsonObject) -> JsonObject:
        """What is typed into the fields of a form."""
        from codecall.composite.arguments import coerce

        content: JsonObject = {}
        for name, field in cast("dict[str, JsonObject]", schema.get("properties") or {}).items():
            label = ": ".join(str(part) for part in (field.get("title") or name, field.get("description")) if part)
            required = name in schema.get("required", ())
            default = json_text(field["default"]) if "default" in field else _LEFT_OUT
            if isinstance(field.get("default"), str):
                default = field["default"]
            if field.get("type") == "boolean":
                typed = self._choose(label, ["true", "false"], default or None)
            elif isinstance(names := field.get("enum"), list):
                typed = self._choose(label, [str(item) for item in cast("list[object]", names)], default or None)
            else:
                text = Text(escape_unprintable(label if required else f"{label} (may be left out)"))
                console, show = self._output.err, default != _LEFT_OUT
                typed = Prompt.ask(text, default=default, show_default=show, console=console)
            if typed != _LEFT_OUT or required:
                content[name] = coerce(typed, field, schema)
        return content

    def _choose(self, question: str, choices: list[str], default: str | None) -> str:
        text = Text(escape_unprintable(question))
        labels = [escape_unprintable(choice) for choice in choices]
        if default is None:
            return _Choice.ask(text, choices=labels, console=self._output.err)
        return _Choice.ask(text, choices=labels, default=default, console=self._output.err)


def explain_unasked(error: JsonObject, output: Output, person: TerminalPerson) -> JsonObject:
    """An error of an envelope with what to do at a command line, if nobody has allowed a call or answered a question.
    Says which calls these are."""
    code, hint = error.get("code"), str(error.get("hint") or "")
    if code == "APPROVAL_DENIED":
        # The hint is for a model; here the person who denied the call reads it.
        return {**error, "hint": hint.replace(DEFAULT_HINTS[code], DENIED_HERE)}
    if code not in ("APPROVAL_REQUIRED", "INPUT_REQUIRED"):
        return error
    if not person.is_there:
        error = {**error, "message": str(error["message"]).replace(NO_ELICITATION, NOBODY_HERE)}
    if code == "INPUT_REQUIRED":
        at_terminal = "Run the command at a terminal, without --json: there you are asked."
        return error if person.is_there else {**error, "hint": at_terminal}
    details = cast("JsonObject", error.get("details") or {})
    calls = cast("list[JsonObject]", details.get("calls", ()))
    for call in calls:
        line = f" in line {call['line']}" if "line" in call else ""
        output.note(f"to be allowed: {call['tool']} of {call['server']}{line}: {json_text(call['input'])}", "yellow")
    allow = " ".join(
        f"--allow {shlex.quote(escape_glob(str(name)))}" for name in dict.fromkeys(call["tool"] for call in calls)
    )
    advice = (
        f"Run it at a terminal, where you are asked, or say {allow or '--allow NAME'}; which calls are asked for, "
        "`approvals` under [codecall] of the configuration says, and `access.destructive`."
    )
    default = DEFAULT_HINTS["APPROVAL_REQUIRED"]
    return {**error, "hint": (hint or default).replace(default, advice)}
