"""Makes a composite tool of a recorded run: its script with a header, and a test that replays the calls it made.

The script is run once more before anything is written, against the answers in the record and without time or chance:
what is written gives the result that the run gave, on any day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from codecall.cli.literals import Reading, ReplacedLiteral, with_parameters
from codecall.errors import CodeCallError, ToolCallError
from codecall.globs import escape_glob
from codecall.presets import PRESET_NAMES
from codecall.redaction.masking import unnumbered
from codecall.testing.recording.brokers import NOT_RECORDED, RecordingBroker
from codecall.testing.recording.cassette import RecordedCall, Replay, format_recording
from codecall.traces.model import INVOKE

if TYPE_CHECKING:
    from codecall.envelopes import ExecutionResult
    from codecall.options import PoolDict
    from codecall.testing.recording.cassette import RequestKind
    from codecall.traces.model import Trace, TraceCall, TraceValue

JsonObject = dict[str, Any]

_CUT: Final = ("__truncated", "__unreadable")
"""Under which a record says what is not in it."""
_CUT_TEXT: Final = re.compile(r"…\[truncated \d+ characters\]\Z")
_CLOCK_REFUSED: Final = re.compile(r"'((?:new )?Date\b[^']*|Math\.random)'.* is not allowed in AgentScript")
"""The error of what gives another value each time, where the limits do not allow it."""
_CALLED: Final = frozenset({"tool", "resource", "prompt"})
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_DEPTH: Final = 2
"""Objects within each other that schemas tell the fields of."""
_TYPES: Final[Mapping[type, str]] = {bool: "boolean", float: "number", str: "string"}
"""Types of values other than whole numbers."""


class PromotedScript(NamedTuple):
    """The files of a composite tool made of a run, by their names, in the order in which they are shown."""

    files: Mapping[str, str]
    parameters: tuple[str, ...]
    tools: tuple[str, ...]
    """What it may use."""
    literals: Mapping[str, ReplacedLiteral]
    """The literals that became parameters, by the names of these."""


async def promote_run(
    trace: Trace, name: str, description: str, literals: Mapping[str, Sequence[Reading]]
) -> PromotedScript:
    """Make a composite tool of a run.

    Args:
        trace: The run, from its record.
        name: The name of the tool.
        description: What it does.
        literals: What may be meant by the literals that become parameters, by the names of these.

    Raises:
        CodeCallError: the record has not all of the run; the script has no such literal, or several; or it does
            something else when it is run again.
    """
    script, context = _script_of(trace), _context_of(trace)
    for key in literals:
        if key in context:
            raise CodeCallError(f"--parameter {key}: the run has an argument of that name", code="USAGE")
        if _VARIABLE.fullmatch(key) is None:
            raise CodeCallError(f"--parameter {key!r:.80}: is no name of a variable", code="USAGE")
    starlark = trace.language == "starlark"
    before, found, _ = (trace.script or "").partition(script)
    first_line = before.count("\n") + 1 if found else 1
    script, replacements = with_parameters(script, literals, starlark=starlark, first_line=first_line)
    params = {**context, **{key: each.value for key, each in replacements.items()}}
    tools = tuple(dict.fromkeys(call.name for call in trace.calls))
    header = _header(name, description, params, trace.result.data, tools)
    text = f"{_commented(header, starlark=starlark)}{script.strip()}\n"
    result, recording = await _replayed(text, trace, params, tools)
    if unnumbered(_canonical(result.value)) != unnumbered(_canonical(trace.result.data)):
        raise _other_path(trace, "the script gives another result")
    suffix = ".star" if starlark else ".js"
    test = _test(trace, name, suffix, params, result.value)
    files = {f"{name}{suffix}": text, f"{name}.recording.json": recording, f"test_{_identifier(name)}.py": test}
    return PromotedScript(files, tuple(params), tools, replacements)


def _script_of(trace: Trace) -> str:
    if trace.tool == INVOKE:
        hint = "Make the call in a script, with codecall:execute, and promote that run: its answer has the runId."
        raise _not_replayable(trace, "it is a call of codecall:invoke, which has no script", hint)
    if trace.language == "workflow":
        hint = "Its definition is the tool: copy that, and change it."
        raise _not_replayable(trace, "it is a run of a composite tool already", hint)
    if trace.status != "ok":
        hint = "Mend the script, run it, and promote the run that ends well."
        raise _not_replayable(trace, f"it ended with the status {trace.status}", hint)
    if trace.dry_run:
        raise _not_replayable(trace, "it was a dry run", "Run the script without dryRun, and promote that run.")
    if trace.script is None:
        raise _not_replayable(trace, "the record has no script", _RECORD_INPUTS)
    _check_whole(trace, trace.result, "its result", _RECORD_RESULTS)
    for call in trace.calls:
        if call.called not in _CALLED:
            hint = "Run a script that makes the calls itself, instead of reading what another run has kept."
            raise _not_replayable(trace, f"call {call.number} reads a kept result", hint)
        _check_whole(trace, call.input, f"the input of call {call.number}, {call.name}", _RECORD_INPUTS)
        if call.outcome == "ok":
            _check_whole(trace, call.result, f"what call {call.number}, {call.name}, returned", _RECORD_RESULTS)
    return _without_header(_without_fence(trace.script), starlark=trace.language == "starlark")


def _context_of(trace: Trace) -> JsonObject:
    context: TraceValue = trace.context
    if not context.available and not context.chars:
        return {}
    _check_whole(trace, context, "its context", _RECORD_INPUTS)
    if not isinstance(context.data, Mapping):
        raise _not_replayable(trace, "its context is no object", _RECORD_INPUTS)
    return dict(cast("Mapping[str, Any]", context.data))


_RECORD_INPUTS: Final = "Record with include_arguments (`codecall serve --records` does), and promote a run made then."
_RECORD_RESULTS: Final = "Record with include_results (`codecall serve --records` does), and promote a run made then."


def _check_whole(trace: Trace, value: TraceValue, what: str, missing: str) -> None:
    """Raises CodeCallError if a record has not all of a value; `missing` is what to do if it has nothing of it."""
    from codecall.audit.values import RECORD

    if value.available and not _is_cut(value.data):
        return
    if not value.available and (value.chars or 0) <= RECORD.read:
        raise _not_replayable(trace, f"the record has not {what}", missing)
    size = f", which has {value.chars:,} characters" if value.chars else ""
    raise _not_replayable(
        trace,
        f"the record has not all of {what}{size}",
        f"A record keeps {RECORD.chars:,} characters of a value, {RECORD.text:,} of one text and {RECORD.nodes:,} "
        "values: let the script return, or ask tools for, less, and promote that run.",
    )


def _not_replayable(trace: Trace, why: str, hint: str) -> CodeCallError:
    return CodeCallError(f"The run {trace.run_id} cannot be promoted: {why}", code="NOT_REPLAYABLE", hint=hint)


def _other_path(trace: Trace, why: str) -> CodeCallError:
    """The error of a script that does something else when it is run again, with the same answers."""
    refused = [call for call in trace.calls if call.code in ("APPROVAL_DENIED", "APPROVAL_REQUIRED")]
    if refused:
        hint = f"Call {refused[0].number}, {refused[0].name}, was not allowed in it: promote a run in which all were."
        return _not_replayable(trace, f"run again with the recorded answers, {why}", hint)
    hint = (
        "It depends on more than its arguments and what its calls returned, such as the schemas of tools, the time, "
        "chance, or credentials, which records mask: let it take that as `context`, and promote that run."
    )
    return _not_replayable(trace, f"run again with the recorded answers, {why}", hint)


def _is_cut(value: object) -> bool:
    if isinstance(value, str):
        return _CUT_TEXT.search(value) is not None
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return any(key in mapping for key in _CUT) or any(map(_is_cut, mapping.values()))
    return isinstance(value, (list, tuple)) and any(map(_is_cut, cast("list[object]", value)))


def _without_fence(script: str) -> str:
    from codecall.sandbox.agentscript.validate import without_fence

    return without_fence(script)


def _without_header(script: str, *, starlark: bool) -> str:
    """The script without the header of the composite tool that it was."""
    from codecall.composite.scripts.header import end_of_header

    return script[end_of_header(script, ".star" if starlark else ".js") :]


async def _replayed(
    script: str, trace: Trace, params: JsonObject, tools: tuple[str, ...]
) -> tuple[ExecutionResult, str]:
    """The result of the script with the recorded answers, and the recording of what it called and looked up."""
    from codecall.options import SanitizationOptions
    from codecall.sandbox.callbacks import CallbackBroker
    from codecall.sandbox.enclave import Enclave
    from codecall.sandbox.languages import starlark_terms

    replay = Replay([_recorded(call) for call in trace.calls])
    entries: list[RecordedCall] = []

    def answer(request: RecordedCall) -> object:
        found = replay.use(request)
        if found is None:
            raise ToolCallError(f"{request.name} was not called like this", tool_name=request.name, code=NOT_RECORDED)
        if found.error is not None:
            raise ToolCallError(str(found.error["message"]), tool_name=request.name, code=str(found.error["code"]))
        return found.value

    async def call(name: str, arguments: JsonObject) -> object:
        return answer(RecordedCall("tool", name, arguments))

    async def read(uri: str) -> object:
        return answer(RecordedCall("resource", uri))

    async def prompt(name: str, arguments: JsonObject) -> object:
        return answer(RecordedCall("prompt", name, arguments))

    known = [{"name": name, "appId": _app_of(name, script)} for name in tools]
    starlark = trace.language == "starlark"
    broker = CallbackBroker(call, known, None, SanitizationOptions(), resource_handler=read, prompt_handler=prompt)
    preset = trace.preset if trace.preset in PRESET_NAMES else None
    pool: PoolDict = {"min_workers": 0, "max_workers": 1}
    async with Enclave(preset, pool=pool, starlark=starlark, allow_clock=False) as enclave:
        result = await enclave.run(
            script,
            RecordingBroker(broker, entries),
            context=params,
            starlark=starlark_terms(script, {name: {} for name in tools}, extracts=True, results=True)
            if starlark
            else None,
        )
    if result.error is not None:
        if (clock := _CLOCK_REFUSED.search(result.error.message)) is not None:
            hint = (
                "Give the script such values as `context`, which become parameters: "
                '`{"now": "2026-10-25T09:00:00Z"}`, in the script `codecallContext.now`. Promote that run.'
            )
            raise _not_replayable(trace, f"it uses the time or chance: {clock[1]}", hint)
        raise _other_path(trace, f"the script fails: {result.error.message}")
    if replay.unused:
        left = ", ".join(entry.name for entry in replay.unused[:3])
        raise _other_path(trace, f"the script does not call {left}")
    return result, format_recording(entries)


def _app_of(tool: str, script: str) -> str:
    """The namespace that a script calls a tool by, which the record does not say: what stands before its name in the
    script, else in the name itself."""
    before = re.search(rf"\b([A-Za-z_]\w*)\.{re.escape(tool)}\b", script)
    return before[1] if before is not None else re.split(r"[\W_]", tool, maxsplit=1)[0]


def _recorded(call: TraceCall) -> RecordedCall:
    failed: dict[str, object] = {"code": call.code or ToolCallError.code, "message": "It failed"}
    error = None if call.outcome == "ok" else failed
    arguments = cast("Mapping[str, object]", call.input.data or {})
    return RecordedCall(cast("RequestKind", call.called), call.name, dict(arguments), call.result.data, error)


def _header(name: str, description: str, params: JsonObject, result: object, tools: tuple[str, ...]) -> JsonObject:
    parameters: JsonObject = {
        "type": "object",
        "properties": {key: _schema(value, "integer") for key, value in params.items()},
    }
    if params:
        parameters["required"] = list(params)
    header: JsonObject = {"name": name, "description": description, "parameters": parameters}
    if output := _schema(result, "number"):  # a whole number may be a fraction in another run
        header["output"] = output
    return {**header, "allowedTools": list(map(escape_glob, tools))}


def _schema(value: object, whole: str, depth: int = 0) -> JsonObject:
    """A JSON Schema that a value has, and others like it; whole numbers have the type `whole`."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        properties = {key: _schema(item, whole, depth + 1) for key, item in fields.items()} if depth < _DEPTH else None
        return {"type": "object", **({"properties": properties} if properties else {})}
    if isinstance(value, (list, tuple)):
        for number in dict.fromkeys((whole, "number")):  # [1, 2.5] holds numbers
            kinds = [_schema(item, number, depth + 1) for item in cast("list[object]", value)]
            if kinds and kinds[0] and all(kind == kinds[0] for kind in kinds):
                return {"type": "array", "items": kinds[0]}
        return {"type": "array"}
    kind = whole if type(value) is int else _TYPES.get(cast("type", type(value)))
    return {} if kind is None else {"type": kind}


def _commented(header: JsonObject, *, starlark: bool) -> str:
    """A header as the comment at the top of a script."""
    import yaml

    from codecall.jsonio.core_yaml import CoreDumper

    text = yaml.dump(header, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=100)
    mark = "#" if starlark else "//"
    lines = ["---", *text.splitlines(), "---"]
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in lines)


def _test(trace: Trace, name: str, suffix: str, params: JsonObject, value: object) -> str:
    """The test that replays a run."""
    preset = trace.preset if trace.preset in PRESET_NAMES and trace.preset != "secure" else None
    marker = f'import pytest\n\n\n@pytest.mark.codecall(preset="{preset}")\n' if preset is not None else ""
    context = f"context=json.loads({_literal(params)})" if params else ""
    return (
        f'"""The run {json.dumps(trace.run_id)} of `{name}{suffix}`: the calls that it made, and its result."""\n\n'
        f"import json\n\n{marker or chr(10)}"
        f"def test_{_identifier(name)}(script, recording):\n"
        f'    recording("{name}.recording.json")\n'
        f'    result = script("{name}{suffix}").run({context})\n'
        f"    assert result.value == json.loads({_literal(value)})\n"
    )


def _literal(value: object) -> str:
    return repr(json.dumps(value, ensure_ascii=False))


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
