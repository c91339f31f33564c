"""THE PIPE between the server process and a worker: frames, messages, and the rules both sides keep.

A frame is a 4-byte big-endian length followed by that many bytes of MessagePack: one message below. Both sides
refuse a frame longer than `MAX_FRAME_BYTES` before reading its body, and a body that is not exactly one of the
messages it may receive now. There is no pickle and no second encoding: payloads that belong to the script (tool
inputs, tool values, the result) travel as JSON text inside a message and are never interpreted by the worker.

Strict turns. The server writes only while the worker waits, the worker writes only while it has the turn:

    server  Prepare                           once, before anything else: what to make ready for, and how to be jailed
    worker  Ready                             once, when everything is loaded and the jail is shut; its layers
    server  Start                             gives the turn and one script
    worker  Ask      -> server Described      any number of times within a turn (getTool is synchronous)
    worker  Calls                             ends the turn: new tool calls (possibly none) while others are pending
    server  Answers                           gives the turn back: at least one answer, in the order they came in
    server  Abandon                           in place of Answers to the first Calls: the script is to end at once
    worker  Done                              ends the turn and the script; the worker waits for the next Start

The first Calls of a script, or its Done if it makes none, carries its Plan: the calls that it is certain to make. The
server checks them before it performs any call.

Anything else is a protocol violation: the server kills the worker and reports MESSAGE_INVALID. Console lines and
counters ride on `Calls` and `Done`, so a killed script still reports what it had said before its last turn.

The server believes nothing it is told: `script_ms`, `steps` and `logs` are bounded and used for reports only, a
failed tool call is described by the server's own record of it, and statuses and codes are closed sets.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Longest frame either side accepts. Covers four times the largest result a shipped preset allows."""

MAX_CALLS_PER_FRAME = 1_000
"""Most tool calls one `Calls` may carry; the largest `max_tool_calls` of a shipped preset."""

MAX_NAME_LENGTH = 256
"""Longest name of a tool or a prompt that a script may use, in characters. MCP clients accept 64 to 128."""

MAX_URI_LENGTH = 1_024
"""Longest URI of a resource that a script may read, in characters. FastMCP compares it with the pattern of every
template, which takes time that grows faster than the URI."""

MAX_SITES = 500
"""Most calls of one script that are looked at before any call is made."""

MAX_PLAN_CHARS = 256 * 1024
"""Characters of what is known of their input: four times the longest script, which the marks in it can take."""

MAX_LISTED = 1_000
"""Most calls, and most loops, of one script that a dry run lists."""

CALLS_BUDGET = 8 * 1024 * 1024
"""Bytes of names and input of calls a worker sends in one frame; what is beyond waits for the next, in which answers
have come."""

MAX_READY_BYTES = 64 * 1024
"""Longest frame of a worker that has not been given a script yet."""

FRAME_OVERHEAD = 2 * 1024 * 1024
"""Room in a frame for what is bounded elsewhere: names of calls, messages, warnings, heads of values; in bytes."""

# What the decoder lets through of lists and texts, so that no frame turns into more objects than a few milliseconds
# can make. What a preset allows is below, and is checked where the preset is known.

_Lines = Annotated[list[str], msgspec.Meta(max_length=100_000)]
_Notes = Annotated[list[str], msgspec.Meta(max_length=2_000)]
_Text = Annotated[str, msgspec.Meta(max_length=200_000)]
"""A message about a script. It may quote the script, of which 64 KiB are read."""
_Place = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""Characters from the start of the script."""
_Ran = Annotated[list[_Place], msgspec.Meta(max_length=65_536)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

HEADER = struct.Struct(">I")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers and switches of a preset that the worker needs; fields as in `presets/*.toml`."""

    timeout_ms: int
    max_iterations: int
    max_steps: int
    max_tool_calls: int
    max_tool_input_bytes: int
    memory_mb: int
    max_result_bytes: int
    allow_console: bool
    max_console_calls: int
    max_console_bytes: int
    allow_loops: bool
    allow_regex: bool
    allow_clock: bool
    sanitize_max_depth: int
    sanitize_max_properties: int
    sanitize_max_string: int
    sanitize_max_array: int
    max_kept_bytes: int = 0
    """Bytes of a result that is kept for later where it is larger than `max_result_bytes`; 0: none is. No field of a
    preset: whoever runs the script keeps it."""

    @property
    def longest_result(self) -> int:
        """Bytes of JSON a script may end with."""
        return max(self.max_result_bytes, self.max_kept_bytes)


PRESET_FIELDS = tuple(name for name in Limits.__struct_fields__ if name != "max_kept_bytes")
"""Those that a preset states."""


class Prepare(msgspec.Struct, tag="prepare", frozen=True):
    """Server: load, shut the jail, and expect scripts with these limits."""

    limits: Limits
    runs: int
    """Scripts the worker will be given before it is replaced."""
    cpu_seconds: int
    """Processor time the worker may use in its whole life."""
    require_jail: bool
    """End, saying which layer is missing, rather than run with fewer than all layers."""
    starlark: bool = False
    """Whether scripts may be Starlark; the process was told before it loaded anything."""


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One layer of the jail, as the worker found it."""

    name: str
    active: bool
    stops: str
    """What a worker that has been taken over cannot do because of it."""
    detail: str
    """How it is set here, or why it is missing."""


class ToolFunction(msgspec.Struct, frozen=True, array_like=True):
    """A function of a Starlark script that stands for a tool."""

    name: str
    tool: str
    signature: str
    """How it is called."""


class ServerTools(msgspec.Struct, frozen=True, array_like=True):
    """A variable of a Starlark script that stands for a server, with tools as its members."""

    name: str
    tools: list[ToolFunction]


class StarlarkTerms(msgspec.Struct, frozen=True):
    """What a Starlark script runs with."""

    functions: list[ToolFunction] = []
    """The tools whose function names occur in it."""
    parallel: int = 10
    """Most functions of one `parallel` that run at the same time."""
    servers: list[ServerTools] = []
    """The servers whose names occur in it."""
    value: str = ""
    """The variable whose value at the end is the script's, if it returns none; empty: it has to return it."""
    extracts: bool = False
    """It has `extract`."""
    results: bool = False
    """It has `get_result`."""


class Start(msgspec.Struct, tag="start", frozen=True):
    """Server: run this script."""

    script: str
    limits: Limits
    context: str | None = None
    """`codecallContext` as JSON text; of a Starlark script its `data`."""
    dry_run: bool = False
    """Only look at it: the result is a `Report`."""
    coverage: bool = False
    """Say which lines ran."""
    starlark: StarlarkTerms | None = None
    """It is Starlark, and these are its terms; None: it is JavaScript."""
    foresee: bool = False
    """Plan the calls that are not certain, too."""
    reader: str = ""
    """Whose it is, where a worker serves several: what was read for one is not remembered for another, who could tell
    from the time it takes."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """How one tool call ended."""

    call: int
    ok: bool
    payload: str
    """JSON text: the value, or `{code, message, toolName, resource?, prompt?, details?}`."""
    reference: bool = False
    """The value stays with the server: `payload` is a reference to it, `{"$reference": token, type, bytes, …}`."""


class Answers(msgspec.Struct, tag="answers", frozen=True):
    """Server: these calls have ended."""

    answers: list[Answer]


class Described(msgspec.Struct, tag="described", frozen=True):
    """Server: what a question was about, as JSON text; None where there is no such thing."""

    tool: str | None


class Abandon(msgspec.Struct, tag="abandon", frozen=True):
    """Server: the script has made a call that cannot succeed, and ends without another turn."""


class Ready(msgspec.Struct, tag="ready", frozen=True, forbid_unknown_fields=True):
    """Worker: loaded, jailed, waiting for a script; or, with `failure`, about to end."""

    layers: Annotated[list[Layer], msgspec.Meta(max_length=32)]
    failure: _Text | None = None
    """Which required layer is missing."""


class Ask(msgspec.Struct, tag="ask", frozen=True, forbid_unknown_fields=True):
    """Worker: the script needs an answer now."""

    name: str
    about: Literal["tool", "answers", "space", "member", "emit"] = "tool"
    """`getTool(name)`; the same with what was seen of the tool's answers, for warnings; whether `name` is a namespace
    or a tool; which tool `name.member` is; whether `name` is the reference of a content block, which the answer then
    shows."""
    member: str = ""


class Site(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A call of a tool in the script, with a literal for its name."""

    name: Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH)]
    input: Annotated[str, msgspec.Meta(max_length=MAX_PLAN_CHARS)]
    """JSON text: what is known of its input, as `schema/partial.py` has it; empty where that is nothing."""
    start: _Offset
    space: Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH)] | None = None
    """The namespace, as in `NamedCall`."""
    certain: bool = True
    """Whether every run of the script comes to it, and fails with it if its name or input is wrong."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The calls that are certain to be made. A dry run names calls too that the script may recover from, and a script
    whose calls are to be foreseen all of them."""

    sites: Annotated[list[Site], msgspec.Meta(max_length=MAX_SITES)]


FindingCode = Literal["SYNTAX_ERROR", "VALIDATION_ERROR", "SELF_REFERENCE_BLOCKED"]
"""Codes of what keeps a script from running."""

FindingKind = Literal[
    "IllegalBuiltinAccess",
    "DisallowedGlobal",
    "DisallowedSyntax",
    "DisallowedMember",
    "DisallowedLoop",
    "ReservedPrefix",
    "UnsafeSource",
    "SelfReference",
]
"""Why it is not AgentScript."""


class WireFinding(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Something in a script that keeps it from running."""

    code: FindingCode
    kind: FindingKind | None
    message: _Text
    line: _Place
    column: _Place
    hint: _Text | None


class NamedCall(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A call with a literal for its name."""

    kind: Literal["tool", "resource", "prompt", "result"]
    name: Annotated[str, msgspec.Meta(max_length=MAX_URI_LENGTH)]
    start: _Offset
    space: Annotated[str, msgspec.Meta(max_length=MAX_URI_LENGTH)] | None = None
    """The namespace that has a tool of that name; empty for `tools`. None: the name is the tool's own."""


class Loop(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A loop."""

    kind: Literal["for", "for…of", "for…in", "for await…of", "while", "do…while"]
    start: _Offset


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a script is made of: what a dry run gives, as JSON text, in place of a result."""

    findings: Annotated[list[WireFinding], msgspec.Meta(max_length=200)]
    calls: Annotated[list[NamedCall], msgspec.Meta(max_length=MAX_LISTED)]
    loops: Annotated[list[Loop], msgspec.Meta(max_length=MAX_LISTED)]
    computed: bool
    """Whether there are calls whose names are no literals."""
    parsed: bool
    """Whether the rest could be found out."""
    more_calls: _Count = 0
    more_loops: _Count = 0


class Call(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One call of the script: of a tool, or for a resource, a prompt or an earlier result."""

    call: int
    """Counts from 1 within the script, whatever is called."""
    name: str
    """Of the tool or the prompt; the URI of a resource; the handle of a result; the type that `extract` is given."""
    input: str
    """JSON text of an object; an empty one for a resource."""
    kind: Literal["tool", "resource", "prompt", "result", "extract"] = "tool"
    reference: bool = False
    """Its value may stay with the server."""
    line: _Place | None = None
    """Where in the script it was made, as far as the engine says; for whoever looks at the run, and nothing else."""
    column: _Place | None = None
    oversize: _Count = 0
    """Bytes of an input that is larger than may be sent, in whose place an empty object stands; 0 for any other."""


class Calls(msgspec.Struct, tag="calls", frozen=True, forbid_unknown_fields=True):
    """Worker: make these calls; the script waits for at least one pending call."""

    calls: Annotated[list[Call], msgspec.Meta(max_length=4 * MAX_CALLS_PER_FRAME)]
    logs: _Lines
    """Console lines since the last frame."""
    steps: _Count
    script_ms: float
    lines: _Ran = []
    """Lines of the script that ran since the last frame, where the server wants to know."""
    checked_ms: float = 0.0
    """Of `script_ms`: what validation took."""
    plan: Plan | None = None
    """With the first frame of a script that makes calls."""
    dropped_lines: _Count = 0
    """Console lines of the whole run that are over the bounds, and therefore in no frame."""


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a script did not end well. Which fields are set depends on `status`."""

    status: Literal["syntax_error", "illegal_access", "runtime_error", "tool_error", "timeout"]
    code: Literal[
        "SYNTAX_ERROR",
        "VALIDATION_ERROR",
        "SELF_REFERENCE_BLOCKED",
        "EXECUTION_ERROR",
        "ITERATION_LIMIT",
        "STEP_LIMIT",
        "TOOL_CALL_LIMIT",
        "OUTPUT_LIMIT",
        "STACK_OVERFLOW",
        "DEADLOCK",
        "TIMEOUT",
        "WORKER_MEMORY_EXCEEDED",
        "TOOL",
    ]
    message: _Text = ""
    kind: FindingKind | None = None
    name: _Text | None = None
    """Name of the thrown error, for EXECUTION_ERROR."""
    line: _Place | None = None
    column: _Place | None = None
    hint: _Text | None = None
    call: int | None = None
    """For status `tool_error`: which call; the server fills in the rest from its own record."""


class Done(msgspec.Struct, tag="done", frozen=True, forbid_unknown_fields=True):
    """Worker: the script has ended."""

    logs: _Lines
    """Console lines since the last frame."""
    steps: _Count
    script_ms: float
    value: str | None = None
    """JSON text of the result, when the script ended well."""
    failure: Failure | None = None
    warnings: _Notes = []
    """What was replaced by a mark on the way out, and what was forgotten."""
    lines: _Ran = []
    """Lines of the script that ran since the last frame, where the server wants to know."""
    checked_ms: float = 0.0
    """Of `script_ms`: what validation took."""
    plan: Plan | None = None
    """With the first frame of a script that makes calls."""
    dropped_lines: _Count = 0
    """Console lines of the whole run that are over the bounds, and therefore in no frame."""
    reusable: bool = True
    """False when the worker wants to be replaced, as after an exhausted heap."""


def utf8_length(text: str) -> int:
    """The bytes of `text` as UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


_MAYBE_LONG = re.compile(r"\d{3}")
_LONG_INTEGER = re.compile(r"[\s:,\[](-?\d{16,1000})(?=[\s,\]}])")
MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that a number of JavaScript holds as it is, as do all below it."""


def has_large_integer(text: str) -> bool:
    """Whether there is an integer beyond 2^53 in a JSON text, which JavaScript would read as another number. It may
    also say so of a text with such digits inside of a string."""
    # Sixteen digits in a row cover three of every fifth character: one look at a fifth of the text tells mostly.
    if _MAYBE_LONG.search(text[::5]) is None:
        return False
    return any(abs(int(number[1])) > MAX_SAFE_INTEGER for number in _LONG_INTEGER.finditer(f"[{text}]"))


def calls_that_fit(calls: Sequence[Call], budget: int) -> int:
    """How many of these calls, from the first on, fit into `budget` bytes and one frame; at least one of any."""
    size = count = 0
    for call in calls[:MAX_CALLS_PER_FRAME]:
        size += utf8_length(call.name) + utf8_length(call.input)
        if count and size > budget:
            break
        count += 1
    return count


def report_json(report: Report) -> str:
    """The JSON text of `report`."""
    return msgspec.json.encode(report).decode()


read_report = msgspec.json.Decoder(Report).decode
"""The `Report` in a JSON text; raises `InvalidMessage` where it is none."""

ServerMessage = Prepare | Start | Answers | Abandon | Described
WorkerMessage = Ready | Ask | Calls | Done

InvalidMessage = msgspec.MsgspecError
"""What the decoders raise for a body that is not a message."""

_encode = msgspec.msgpack.Encoder().encode
decode_server_message = msgspec.msgpack.Decoder(ServerMessage).decode
_decode_worker_message = msgspec.msgpack.Decoder(WorkerMessage).decode

_TAG_FIRST = b"\xa4type"
"""Every message begins with its tag. Left to look for it, the decoder would read through whatever comes before."""

_decode_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_FEW_BYTES = 16 * 1024
"""A body in which repeated fields cost nothing to speak of."""


def decode_worker_message(body: bytes) -> WorkerMessage:
    """The message in `body`, which may be anything at all.

    Raises:
        InvalidMessage: it is not exactly one message of a worker.
    """
    if body[1:6] != _TAG_FIRST:
        raise msgspec.ValidationError("The message does not begin with its tag")
    try:
        # First, as it stops at the first list that is too long.
        message = _decode_worker_message(body)
        if len(body) > _FEW_BYTES:
            _refuse_repeated_fields(body)
    except (UnicodeDecodeError, RecursionError) as failure:
        raise msgspec.ValidationError("The message is nested, or holds text that is no text") from failure
    return message


def _refuse_repeated_fields(body: bytes) -> None:
    """Refuse a message with a field that stands twice. Each time is decoded and the last kept, so that the bounds of
    lists bound nothing: a worker does that once, and is killed. What is in the fields is skipped, which is quick."""
    fields = _read_fields(body)
    for name in ("failure", "plan"):
        if (field := fields.get(name)) is not None and (nested := bytes(field)) != b"\xc0":
            _read_fields(nested)


def _read_fields(body: bytes) -> dict[str, msgspec.Raw]:
    fields = _decode_fields(body)
    # Maps of messages are of the shortest kind, which has room for fifteen pairs and their number in its first byte.
    if body[0] != 0x80 + len(fields):
        raise msgspec.ValidationError("A field stands twice")
    return fields


def longest_frame(limits: Limits) -> int:
    """Longest frame a worker may send while it runs a script with these limits, in bytes."""
    values = max(CALLS_BUDGET, limits.max_tool_input_bytes, limits.longest_result)
    lines = limits.max_console_bytes + 5 * limits.max_console_calls
    return min(MAX_FRAME_BYTES, values + lines + FRAME_OVERHEAD)


class FrameTooLargeError(Exception):
    """A message does not fit into `MAX_FRAME_BYTES`."""


def pack(message: ServerMessage | WorkerMessage) -> bytes:
    """The frame that carries `message`.

    Raises:
        FrameTooLargeError: the frame would exceed `MAX_FRAME_BYTES`.
    """
    body = _encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLargeError(len(body))
    return HEADER.pack(len(body)) + body


# Records of the fork server about one worker each: `SPAWNED` or `SPAWN_FAILED`, then `EXITED`. They carry no word of a
# script.

EXIT_RECORD = struct.Struct(">ci")
"""One of the marks below and a number."""

SPAWNED = b"B"
"""The number is the process id."""
SPAWN_FAILED = b"S"
"""There is no process; the number is the reason, as in errno.h."""
EXITED = b"D"
"""The number is the exit status; negative for a signal."""
