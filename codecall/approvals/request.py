"""What a person is asked, and what they answer.

The question is written by CodeCall from data: nothing that a script or a tool says becomes a sentence of it. Arguments
are shown in full, as indented JSON, so that no line of theirs begins where a line of ours does, and with every
character that cannot be seen, or that looks like a blank, as an escape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Self, cast

from codecall.catalog.entries import CatalogEntry
from codecall.errors import CallKind
from codecall.globs import display_name
from codecall.jsonio.decode import canonical_digest, exceeds_chars, sha256
from codecall.redaction.clean import well_formed
from codecall.redaction.masking import QuestionMasker
from codecall.redaction.questions import MAX_SHOWN_CHARS, quoted, visible
from codecall.wording import join_names

MAX_SOURCES_SHOWN: Final = 10
"""Most names of sources in one question or error; of more it says how many."""

MAX_GRANTED_CALLS: Final = 1_000
"""Most calls that one answer may allow."""

DEFAULT_CALLS: Final = 10
"""What the form proposes for an answer that allows several calls, where the script does not say how many there are."""

MAX_FIXED_CHARS: Final = 2_048
"""Most characters of arguments that a grant compares, if it does not compare the whole input."""

Scope = Literal["once", "calls", "input", "fixed"]
Lifetime = Literal["run", "session"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person, or an `approver`, says to one question. Built by one of the methods below."""

    action: Literal["allow", "deny", "stop"]
    """`stop` denies the call and ends the run."""
    scope: Scope = "once"
    """What is allowed: this call, several calls of the tool, all calls of the tool with this input, or all with these
    values of the arguments in `fixed`."""
    calls: int = 1
    """How many calls, with the scope `calls`."""
    lifetime: Lifetime = "run"
    """How long calls with this input, or with these arguments, are allowed."""
    fixed: tuple[str, ...] = ()
    """Names of arguments, with the scope `fixed`."""

    def __post_init__(self) -> None:
        if not 1 <= self.calls <= MAX_GRANTED_CALLS:
            raise ValueError(f"calls: 1 to {MAX_GRANTED_CALLS:,} can be allowed, got {self.calls}")

    @classmethod
    def once(cls) -> Self:
        """Allow this call."""
        return cls("allow")

    @classmethod
    def several(cls, calls: int) -> Self:
        """Allow so many calls of this tool in this run, this one included, whatever their input is."""
        return cls("allow", "calls", calls)

    @classmethod
    def same_input(cls, lifetime: Lifetime = "run") -> Self:
        """Allow all calls of this tool with exactly this input, in this run or in this session."""
        return cls("allow", "input", lifetime=lifetime)

    @classmethod
    def fixed_arguments(cls, *names: str, lifetime: Lifetime = "run") -> Self:
        """Allow all calls of this tool in which the arguments of these names are as in this call, whatever the others
        are."""
        if not names:
            raise ValueError("names: at least one argument is needed; `several` allows calls with any input")
        return cls("allow", "fixed", lifetime=lifetime, fixed=names)

    @classmethod
    def deny(cls) -> Self:
        """Do not allow this call; the script goes on with an error."""
        return cls("deny")

    @classmethod
    def stop(cls) -> Self:
        """Do not allow this call, and end the run."""
        return cls("stop")


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that a rule asks a person for."""

    tool: str
    """Name of the tool."""
    server: str
    """The server or app that it is of."""
    arguments: Mapping[str, object]
    """Its input, with credentials masked. Change nothing in it."""
    rule: int
    """Number of the rule of `approvals` that asks, from 1; 0: only one of `flows` does, or `tool_files`."""
    caller: str
    """A hash of the caller."""
    run_id: str
    """The run that makes the call; one call of `codecall:invoke` counts as a run."""
    line: int | None = None
    """Line of the script, if it is known."""
    approved: int = 0
    """Calls of this tool that have been allowed in this run so far."""
    kind: CallKind = "tool"
    """What is called: a tool, or a resource or prompt, whose URI or name `tool` then is."""
    sources: tuple[str, ...] = ()
    """The tools whose values the input carries, where a rule of `flows` asks for that."""
    shown: str = field(default="", repr=False)
    """The input as a person is shown it: JSON without anything invisible."""
    digest: str = field(default="", repr=False)
    """SHA-256 of the input, keys in any order."""
    unshown_chars: int = 0
    """Characters of the input as JSON, if they are too many for a person to be shown them."""
    foreseen: int = 0
    """Calls of this tool that the script is certain to make, as its text says; 0: that is not known."""
    fixed: tuple[str, ...] = ()
    """Names of the arguments that the script spells out, if it does not spell out all of them."""

    alone: bool = False
    """Whether it is the only call of its run: no script makes it."""

    @property
    def label(self) -> str:
        """How a message names what is called: `Tool 'mail:send'`."""
        return f"{self.kind.capitalize()} '{self.tool}'"

    @property
    def question(self) -> str:
        """The text that a person is shown."""
        lines = [
            f"May this {self.kind} be {'called' if self.kind == 'tool' else 'asked for'}?",
            "",
            f"{self.kind.capitalize()}: {visible(display_name(self.tool))}",
            f"Server: {visible(display_name(self.server))}",
        ]
        if self.line is not None:
            lines.append(f"Line of the script: {self.line}")
        lines.append(f"Calls of this {self.kind} allowed in this run so far: {self.approved}")
        if self.sources:
            lines.append(f"It is given what these have returned: {source_names(self.sources)}")
        lines += ["", "Input:", "", self.shown]
        if self.fixed:
            fixed = {name: self.arguments[name] for name in self.fixed}
            lines += ["", "Fixed arguments, which the script spells out:", "", shown_json(fixed)]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The call as `details` of an error has it."""
        body: dict[str, object] = {"tool": self.tool, "server": self.server, "input": self.arguments}
        body |= {"input": {}, "inputChars": self.unshown_chars} if self.unshown_chars else {}
        body |= {"sources": list(self.sources)} if self.sources else {}
        return body if self.line is None else {**body, "line": self.line}


@dataclass(frozen=True, slots=True)
class Match:
    """What an input, or a part of it, has to be."""

    digest: str
    """SHA-256 of it, keys in any order."""
    shown: str
    """It as a person is shown it."""
    names: tuple[str, ...] | None = None
    """Names of the arguments that are compared; None: the whole input."""

    @classmethod
    def of_part(cls, arguments: Mapping[str, object], names: tuple[str, ...]) -> Self | None:
        """What matches these arguments of an input; None if it lacks one, or they are too long to be compared."""
        part = _part(arguments, names)
        if part is None:
            return None
        described = describe_input(part)
        return cls(described.digest, described.shown, names)


class CallInput:
    """An input that grants are compared with.

    Args:
        arguments: The input.
        digest: SHA-256 of it.
    """

    def __init__(self, arguments: Mapping[str, object], digest: str) -> None:
        self.arguments = arguments
        self._digests: dict[tuple[str, ...] | None, str | None] = {None: digest}

    def fits(self, match: Match) -> bool:
        """Whether it is what `match` says."""
        if match.names not in self._digests:
            part = _part(self.arguments, match.names or ())
            digest = None if part is None else canonical_digest(well_formed(json.dumps(part, ensure_ascii=False)))
            self._digests[match.names] = digest
        return self._digests[match.names] == match.digest


def _part(arguments: Mapping[str, object], names: tuple[str, ...]) -> dict[str, object] | None:
    if any(name not in arguments for name in names):
        return None
    part = {name: arguments[name] for name in names}
    return None if exceeds_chars(part, MAX_FIXED_CHARS) else part


class DescribedInput(NamedTuple):
    """What a question says of an input."""

    masked: dict[str, Any]
    """It without credentials."""
    shown: str
    """The text of it that a person is shown; if it is too long for that, how long it is."""
    digest: str
    """The digest of the real one."""
    unshown_chars: int = 0
    """Its characters as JSON, if they are too many to be shown."""


def describe_input(
    arguments: Mapping[str, object], *, is_code: bool = False, for_approver: bool = False
) -> DescribedInput:
    """What a question says of an input. Takes a while for a large one: a matter for a thread.

    Args:
        arguments: The input.
        is_code: Whether it is code, of which nothing is masked.
        for_approver: Whether a function of the operator looks at the input, however long it is.
    """
    text = well_formed(json.dumps(arguments, ensure_ascii=False))
    too_long = len(text) > MAX_SHOWN_CHARS
    digest = canonical_digest(text)
    note = quoted(f"{len(text):,} characters of JSON, too many to be shown; SHA-256 {digest}")
    if too_long and not for_approver:
        return DescribedInput({}, note, digest, len(text))
    data = cast("dict[str, Any]", json.loads(text))
    masked = data if is_code else QuestionMasker().mask_input(data)
    return DescribedInput(masked, note if too_long else shown_json(masked), digest, len(text) if too_long else 0)


def shown_json(masked: Mapping[str, object]) -> str:
    """Data without credentials as a person is shown it: indented, and without anything invisible."""
    text = json.dumps(masked, ensure_ascii=False, indent=2)
    return quoted(text)


def passed_question(tool: str, server: str, message: str) -> str:
    """The question of a tool as a person is shown it: a quotation, with who asks before it."""
    head = f"A tool asks a question.\n\nTool: {visible(display_name(tool))}\nServer: {visible(display_name(server))}"
    return f"{head}\n\nQuestion:\n\n{quoted(message)}"


def source_names(sources: Sequence[str]) -> str:
    """The names of sources as a question or an error lists them."""
    return join_names(sources, MAX_SOURCES_SHOWN, lambda name: visible(display_name(name)))


def entry_version(entry: CatalogEntry, sources: Sequence[str] = ()) -> str:
    """What a question and a grant are bound to besides a tool's name: whose it is, and what it says of itself. One that
    has changed, or that is given what other tools have returned, needs to be asked for again. Takes a while for a large
    schema."""
    definition = (entry.version, entry.input_schema, entry.description, entry.annotations)
    parts = [entry.kind, entry.name, entry.server, entry.app_id, *definition, sorted(sources)]
    return sha256(json.dumps(parts, sort_keys=True, default=str))
