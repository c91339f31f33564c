"""The option `approvals` of `CodeCallPlugin.init`: which calls a person has to allow, and how they are asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Required, TypeAlias, TypedDict, cast

from pydantic import BeforeValidator, Field

from codecall.errors import OptionsError
from codecall.option_base import Options

Globs = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=256)], ...] | None,
    Field(strict=False, min_length=1, max_length=1_000),
]
"""A list or tuple of names and globs; None: the rule does not name them."""

OneOrMoreGlobs = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=256)], ...],
    Field(strict=False, min_length=1, max_length=1_000),
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
]
"""A name or glob, or a list or tuple of them."""

ApprovalAction = Literal["allow", "ask", "deny"]
"""What a rule says of a call."""


CLIENT_ROUNDS: Final = 10
"""Rounds of questions after which clients give a request up: `DEFAULT_INPUT_REQUIRED_MAX_ROUNDS` of the MCP SDKs for
Python and TypeScript, and fixed in those for C# and Go."""


class ApprovalRule(Options):
    """Which calls of tools are allowed, asked for or denied. A rule applies where all that it names fits; one that
    names nothing applies to every call. Of several rules the first that applies decides; a call that none applies to is
    allowed."""

    action: ApprovalAction
    """`allow`: make the call; `ask`: ask a person first; `deny`: fail it with ACCESS_DENIED."""
    tools: Globs = None
    """Names or globs of tools (`mail:*`)."""
    apps: Globs = None
    """Names or globs of apps. A tool's own metadata may name its app."""
    servers: Globs = None
    """Names or globs of the servers that tools are of, whatever their metadata says."""
    read_only: bool | None = None
    """True: tools that say they only read (`readOnlyHint`); False: all others, those that say nothing included."""
    destructive: bool | None = None
    """True: tools that say they may destroy something (`destructiveHint`); False: all others."""
    open_world: bool | None = None
    """True: tools that say they deal with the outside world (`openWorldHint`); False: all others."""
    input: dict[str, Any] | None = None
    """A condition on the input, as JSON Schema. The input is also read as a tool may read it: `"5"` as 5, `"yes"` as
    true, dates and other texts of a `format` by what they stand for, with the defaults of the tool's schema. A rule
    that asks or denies applies if one reading fits, or a value is not what that schema says, one that allows only if
    all fit; give it `required` and the `type` of each property."""


class FlowRule(Options):
    """Whether values that some tools have returned may go to others in the same run. For each tool whose values a call
    carries the first rule that applies decides, and of those the strictest; a flow that none applies to is allowed."""

    source: OneOrMoreGlobs = Field(alias="from")
    """Written `from`: names or globs of the tools, resources and prompts that have returned the value (`mail:*`)."""
    to: OneOrMoreGlobs
    """Names or globs of the tools, resources and prompts that it is given to (`http:*`)."""
    action: ApprovalAction
    """`allow`: make the call; `ask`: ask a person first; `deny`: fail it with FLOW_DENIED."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """See `Options.names`."""
        return ("from", "to", "action")


FlowRules = Annotated[tuple[FlowRule, ...], Field(strict=False, max_length=1_000)]
"""The option `flows`."""


class ApprovalOptions(Options):
    """Which calls a person has to allow, and how they are asked."""

    rules: Annotated[tuple[ApprovalRule, ...], Field(strict=False, max_length=1_000)]
    """The rules, in order; or `"writes"`: ask for every tool that does not say it only reads; or `"destructive"`: ask
    for every tool that says it may destroy something."""
    approver: Callable[[Any], Any] | None = None
    """An async function that is asked first. It takes an `ApprovalRequest` and returns a `Decision`, or None to ask the
    client. One that fails denies the call."""
    ask_client: bool = True
    """Whether the person at the client is asked (MCP elicitation)."""
    ask_first: bool = False
    """Whether the person at the client is asked before a script's first call, in one question for all calls that its
    text names and that a rule may ask for. Calls beyond what was allowed then are asked for when they are made."""
    folder: Annotated[Path, Field(strict=False)] | Literal[False] | None = None
    """A folder in which calls that nobody could be asked for wait for a decision of the operator, and what was allowed
    in advance can be withdrawn: `codecall approvals --folder …`. None: there is none, but `codecall serve` has one in
    the user's state folder, for as long as it runs; False: there is none."""
    wait_s: float = Field(default=600.0, gt=0, le=86_400)
    """Seconds that a question may wait for its answer. The time limits of the script stand still meanwhile."""
    release_s: float | None = Field(default=30.0, gt=0, le=86_400)
    """Seconds of waiting on a connection of 2026-07-28 after which a script gives up its worker, and goes on from its
    record when it is answered; where that might repeat a call, it keeps it. Needs `resume`. None: it always keeps
    it."""
    max_waiting: int = Field(default=20, ge=1, le=10_000)
    """Most runs of this process that wait for an answer of a person or of the client's model (`extract`, searches) at
    the same time; the calls of others fail with APPROVAL_REQUIRED or EXTRACTION_FAILED. Over HTTP one caller may have
    as many as stay free for others; 1: the first caller. Beyond it, the time limits of a tool that asks by itself
    (`Context.elicit`) go on."""
    max_questions: int = Field(default=20, ge=1, le=10_000)
    """Most questions that one run may ask; the next ends it with APPROVAL_REQUIRED. On a connection of 2026-07-28
    those that are open together count as one of `max_rounds`, too."""
    max_rounds: int = Field(default=CLIENT_ROUNDS, ge=1, le=10_000)
    """Most times that one request is answered with questions on a connection of 2026-07-28; what would be asked then
    ends the run with APPROVAL_REQUIRED, before the client gives up. Raise it where every client allows more than the 10
    rounds of the MCP SDKs."""
    run_grant_s: float = Field(default=600.0, gt=0, le=86_400)
    """Seconds after which what was allowed for a run has to be asked for again."""
    session_grant_s: float = Field(default=3_600.0, gt=0, le=30 * 86_400)
    """Seconds after which what was allowed for a session has to be asked for again."""


_APPROVAL_FORMS: Final[Mapping[str, Mapping[str, object]]] = {
    "writes": {"action": "ask", "read_only": False},
    "destructive": {"action": "ask", "destructive": True},
}
"""The rule that each short form of `approvals` stands for."""


def read_approvals(value: object) -> object:
    """Expands the short forms of `approvals`: a word, or a list of rules; alone, or as its `rules`."""
    if isinstance(value, ApprovalOptions) or value is None:
        return value
    group = dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {"rules": value}
    rules = group.get("rules")
    if isinstance(rules, str):
        if rules not in _APPROVAL_FORMS:
            raise OptionsError(
                f"approvals: {rules!r:.80} is no short form; known here: {', '.join(_APPROVAL_FORMS)}",
                hint="Or give rules: approvals=[{'tools': ['mail:*'], 'action': 'ask'}].",
            )
        group["rules"] = (_APPROVAL_FORMS[rules],)
    elif isinstance(rules, (list, tuple)):
        names = [rule for rule in cast("Sequence[object]", rules) if isinstance(rule, str)]
        if names:
            example = {"tools": [name[:80] for name in names[:3]], "action": "ask"}
            raise OptionsError(
                f"approvals: a rule is a mapping, got {names[0]!r:.80}", hint=f"Write approvals=[{example!r}]."
            )
    elif "rules" in group and not isinstance(rules, (list, tuple)):
        raise OptionsError(f"approvals.rules: a list of rules or a short form is needed, got {type(rules).__name__}")
    return group


class ApprovalRuleDict(TypedDict, total=False):
    """A rule of `approvals`. See `codecall.approvals.options.ApprovalRule`."""

    action: Required[ApprovalAction]
    tools: Sequence[str] | None
    apps: Sequence[str] | None
    servers: Sequence[str] | None
    read_only: bool | None
    destructive: bool | None
    open_world: bool | None
    input: Mapping[str, Any] | None


FlowRuleDict = TypedDict(
    "FlowRuleDict", {"from": str | Sequence[str], "to": str | Sequence[str], "action": ApprovalAction}
)
"""A rule of `flows`. See `codecall.approvals.options.FlowRule`."""


class ApprovalDict(TypedDict, total=False):
    """`approvals`: which calls a person has to allow. See `codecall.approvals.options.ApprovalOptions`."""

    rules: Required[Literal["writes", "destructive"] | Sequence[ApprovalRuleDict]]
    approver: Callable[[Any], Any] | None
    ask_client: bool
    ask_first: bool
    folder: str | os.PathLike[str] | Literal[False] | None
    wait_s: float
    release_s: float | None
    max_waiting: int
    max_questions: int
    max_rounds: int
    run_grant_s: float
    session_grant_s: float


Approvals: TypeAlias = (
    Literal["writes", "destructive"]
    | Sequence[ApprovalRuleDict]
    | ApprovalDict
    | Mapping[str, object]
    | ApprovalOptions
    | None
)
"""The forms of the option `approvals`."""
