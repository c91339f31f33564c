"""Files of programs that state how they end: `*.script.js`.

A file starts with a `//` comment that says what its programs have in common. A line `--- title` starts a program; its
title is unique in the file, and a bare `---` is titled after its line. In a program stand, as comments, what it needs
and how it ends:

    --- sums what the tool lists
    //@ preset: balanced
    const { users } = await callTool('users:list', {});
    return users.length;
    //= 3

    //@ preset: name       on a line of its own, first: run under this preset
    //@ hint: text         on a line of its own, first: a note for readers
    //@ context: JSON      on a line of its own, first: the object that is its `codecallContext`
    //@ allowed: a, b:*    on a line of its own, first: the names and globs that it may call
    //@ tool: name JSON    on a line of its own, first: answers calls of that tool; see `parse_stub` for all forms
    //! KIND message       at the end of a line: the finding expected on that line. KIND is a kind of the policy
                           (`DisallowedLoop` …) or a code (`SYNTAX_ERROR` …); its message begins with `message`
    //! ^ KIND message     on a line of its own: one more finding on the line above
    //= JSON               on a line of its own, last: the program ends `ok` with this value
    //~ CODE text          on a line of its own, last: the program fails with this code; the message contains `text`

A program states one of the three; one that states none ends `ok` with any value. All comments stay in the program, so
its positions are those of the file. What would be a separator or one of these comments inside a template literal is
read as such all the same.

A `//@` above the first program holds for each program of the file that does not say otherwise; a tool that is declared
there need not be called by all of them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn, cast, get_args

from codecall.errors import CallKind
from codecall.jsonio.decode import refuse_constant
from codecall.presets import PRESET_NAMES
from codecall.sandbox.agentscript.checked import FindingCode
from codecall.sandbox.agentscript.policy import FindingKind
from codecall.sandbox.lines import LineTable
from codecall.testing.scripts.programs import ExpectedFinding, Failure, Program, ProgramStub, Refusal, Value
from codecall.testing.stubs.answers import CODES

_NAME_AND_ANSWER = re.compile(r"(\S+)\s+(\S.*)", re.DOTALL)

_FAILURE = re.compile(r"!(\S*)\s*(.*)", re.DOTALL)

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")

_ARROW: Final = "->"

_LABELS: Final = frozenset((*get_args(FindingKind), *get_args(FindingCode)))

_SETTINGS: Final = ("preset", "hint", "context", "allowed")

_STUBS: Final = ("tool", "resource", "prompt", "result", "extract")

_KNOWN: Final = ", ".join([*(f"`{name}:`" for name in _SETTINGS), *(f"`{name}:` or `{name}?:`" for name in _STUBS)])

_SEPARATOR = re.compile(r"---(?:\s+(.*?))?\s*")

_DIRECTIVE = re.compile(r"//([=~@!])(.*)", re.DOTALL)

_SETTING = re.compile(r"([a-z]+)(\??):\s*(\S.*)", re.DOTALL)


class ScriptFileError(ValueError):
    """A script file is malformed. The message begins with the file and the line."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.path = path
        """The path of the file as it was given."""
        self.line = line
        """The line of the problem, from 1."""
        self.problem = problem
        """What is wrong there."""


def read_programs(path: str | os.PathLike[str]) -> list[Program]:
    """Read the programs of a file in UTF-8.

    Raises:
        ScriptFileError: the file is malformed.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    try:
        text = Path(name).read_bytes().decode("utf-8")
    except UnicodeDecodeError as failure:
        line = len(LineTable(failure.object[: failure.start].decode("utf-8")))
        raise ScriptFileError(name, line, "not UTF-8") from None
    return parse_programs(text, name)


def parse_programs(text: str, path: str = "<programs>") -> list[Program]:
    """Parse the programs in the text of a script file; `path` is its name in messages.

    Raises:
        ScriptFileError: `text` is malformed: it has no program, two of the same title, text before the first program,
            or a program whose comments contradict each other, are misplaced or not readable.
    """
    programs: list[Program] = []
    lines_by_title: dict[str, int] = {}
    head = _ProgramParser(path, 0)
    for number, title, source in _sections(text, path):
        if title is None:
            head.head(source)
            continue
        if title in lines_by_title:
            raise ScriptFileError(path, number, f"the title {title!r} is taken by line {lines_by_title[title]}")
        lines_by_title[title] = number
        programs.append(_ProgramParser(path, number).program(title, source, head))
    if not programs:
        raise ScriptFileError(path, 1, "no program: a line `--- title` starts one")
    return programs


def _sections(text: str, path: str) -> Iterator[tuple[int, str | None, str]]:
    """Yield line, title and text of each program; before them what stands above the first, without a title."""
    lines = LineTable(text)
    current: tuple[int, str, int] | None = None
    for number, line in enumerate(lines.texts(), 1):
        separator = _SEPARATOR.fullmatch(line)
        if separator is not None:
            start = lines.offset(number, 1)
            yield (0, None, text[:start]) if current is None else (current[0], current[1], text[current[2] : start])
            following = lines.offset(number + 1, 1) if number < len(lines) else len(text)
            current = (number, separator[1] or f"line {number}", following)
        elif current is None and line.strip() and not line.startswith("//"):
            raise ScriptFileError(path, number, "before the first `--- title` there are only `//` comments")
    if current is not None:
        yield current[0], current[1], text[current[2] :]


class _ProgramParser:
    """Parses the comments of one program, or those above the first program."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        """The line of the separator in the file, from 1; 0 above the first program."""
        self.settings: dict[str, str] = {}
        self.stubs: list[ProgramStub] = []
        self.context: dict[str, object] | None = None
        self.findings: list[ExpectedFinding] = []
        self.end: Value | Failure | None = None
        self.body_started = False
        """Whether a line that is no setting has been parsed."""
        self.line_above = 0
        """The last line that is not a `//! ^`."""

    def head(self, source: str) -> None:
        """Parse what stands above the first program."""
        for number, line in enumerate(LineTable(source).texts(), 1):
            directive = _DIRECTIVE.match(line)
            if directive is not None and directive[1] == "@":
                self.setting(number, self.text_of(number, "@", directive[2]))

    def program(self, title: str, source: str, head: _ProgramParser) -> Program:
        """Parse one program; `head` has what holds for all programs of the file."""
        source = source.rstrip(" \t\r\n")
        if not source:
            self.fail(0, "the program is empty")
        for number, line in enumerate(LineTable(source).texts(), 1):
            self.line(number, line)
        if self.findings and self.end is not None:
            self.fail(0, "a program is refused (`//!`) or it runs (`//=`, `//~`), not both")
        outcome = Refusal(tuple(self.findings)) if self.findings else self.end
        settings = {**head.settings, **self.settings}
        allowed = settings.get("allowed")
        return Program(
            self.path,
            self.number,
            title,
            source,
            outcome,
            settings.get("preset"),
            self.settings.get("hint"),
            context=head.context if self.context is None else self.context,
            allowed=None if allowed is None else tuple(name.strip() for name in allowed.split(",")),
            stubs=(*self.stubs, *(replace(stub, optional=True) for stub in head.stubs)),
        )

    def fail(self, number: int, problem: str) -> NoReturn:
        raise ScriptFileError(self.path, self.number + number, problem)

    def line(self, number: int, line: str) -> None:
        stripped = line.strip()
        if not stripped:
            return
        if self.end is not None:
            self.fail(number, "`//=` and `//~` come last")
        directive = _DIRECTIVE.match(stripped)
        sign = directive[1] if directive else ""
        text = self.text_of(number, sign, directive[2]) if directive else ""
        match sign:
            case "@":
                self.setting(number, text)
                return
            case "=":
                self.end = Value(self.json(number, "=", text))
            case "~":
                code, _, words = text.partition(" ")
                self.end = Failure(code, words.strip())
            case "!" if text.startswith("^ "):
                if not self.line_above:
                    self.fail(number, "`//! ^` has no line above")
                self.finding(number, self.line_above, text.removeprefix("^ ").strip())
                return
            case "!":
                self.finding(number, number, text)
            case _:
                _, mark, rest = line.rpartition("//! ")
                if mark:
                    self.finding(number, number, rest.strip())
        self.body_started = True
        self.line_above = number

    def text_of(self, number: int, sign: str, rest: str) -> str:
        """What follows a sign: set off by a blank, so that what is meant as an ordinary comment is noticed."""
        if not rest[:1].isspace() or not rest.strip():
            self.fail(number, f"`//{sign}` is followed by a blank and a text; an ordinary comment begins `// `")
        return rest.strip()

    def setting(self, number: int, text: str) -> None:
        setting = _SETTING.fullmatch(text)
        known = (*_SETTINGS, *_STUBS)
        if setting is None or setting[1] not in known or (setting[2] and setting[1] not in _STUBS):
            self.fail(number, f"`//@` takes {_KNOWN} and a text, not {text!r}")
        name, optional, value = setting.groups()
        if self.body_started:
            self.fail(number, "`//@` comes first")
        if name in _STUBS:
            try:
                stub = parse_stub(name, value, self.number + number, optional=bool(optional))
            except ValueError as failure:
                self.fail(number, str(failure))
            self.stubs.append(stub)
            return
        if name in self.settings:
            self.fail(number, f"`//@ {name}` is given twice")
        if name == "preset" and value not in PRESET_NAMES:
            self.fail(number, f"unknown preset {value!r}; known: {', '.join(PRESET_NAMES)}")
        if name == "context":
            context = self.json(number, "@ context:", value)
            if not isinstance(context, dict):
                self.fail(number, "`//@ context:` is followed by a JSON object")
            self.context = cast("dict[str, object]", context)
        self.settings[name] = value

    def finding(self, number: int, place: int, text: str) -> None:
        label, _, message = text.partition(" ")
        if label not in _LABELS:
            self.fail(number, f"`//!` names no kind of finding: {label!r}; known: {', '.join(sorted(_LABELS))}")
        self.findings.append(ExpectedFinding(place, label, message.strip()))

    def json(self, number: int, sign: str, text: str) -> object:
        try:
            return parse_json(text)
        except ValueError as failure:
            self.fail(number, f"`//{sign}` is followed by JSON: {failure}")


def parse_stub(kind: CallKind, text: str, line: int, *, optional: bool) -> ProgramStub:
    """Parse what follows `//@ tool:`, one of `NAME VALUE`, `NAME INPUT -> VALUE`, `NAME !CODE`, `NAME !CODE message`
    and `NAME ! message`.

    Raises:
        ValueError: the text is malformed.
    """
    parts = _NAME_AND_ANSWER.fullmatch(text)
    if parts is None:
        raise ValueError(f"`//@ {kind}:` is followed by a name and what it answers, such as `users:list []`")
    name, answer = parts.groups()
    when: dict[str, object] | None = None
    if not answer.startswith("!"):
        value, rest = _first_value(kind, answer)
        if rest.startswith(_ARROW):
            if not isinstance(value, dict) or kind == "resource":
                raise ValueError(f"`//@ {kind}:` before `->` stands the input, a JSON object; resources have none")
            when = cast("dict[str, object]", value)
            answer = rest.removeprefix(_ARROW).strip()
        elif rest:
            raise ValueError(f"`//@ {kind}:` after the JSON stands nothing more: {rest!r}")
    if answer.startswith("!"):
        return ProgramStub(kind, name, line, when, None, _failure(kind, answer), optional)
    return ProgramStub(kind, name, line, when, _only_value(kind, answer), None, optional)


def parse_json(text: str) -> object:
    """Parse JSON text.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return cast("object", json.loads(text, parse_constant=refuse_constant))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _failure(kind: CallKind, text: str) -> str | dict[str, object]:
    parts = _FAILURE.fullmatch(text)
    code, message = parts.groups() if parts else ("", "")
    if not code and message:
        return message
    if code in CODES and not message:
        return code
    if _CODE.fullmatch(code) and message:
        return {"code": code, "message": message}
    raise ValueError(
        f"`//@ {kind}:` after `!` stands one of {', '.join(CODES)}, or a code of the tool's own and a text, or a "
        f"blank and a text; not {text!r}"
    )


def _first_value(kind: CallKind, text: str) -> tuple[object, str]:
    """Parse the JSON that `text` begins with; returns the value and the rest."""
    try:
        value, end = json.JSONDecoder(parse_constant=refuse_constant).raw_decode(text)
    except (ValueError, RecursionError) as failure:
        raise ValueError(f"`//@ {kind}:` has no JSON after the name: {failure}") from None
    return cast("object", value), text[end:].strip()


def _only_value(kind: CallKind, text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as failure:
        raise ValueError(f"`//@ {kind}:` has no JSON after `->`: {failure}") from None
