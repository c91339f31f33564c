"""Runs one Starlark script: its tasks are greenlets of this one thread, each of which waits for its own tools.

The hub is the greenlet of the worker's loop. It lets every task run that can, until all wait for tools or the script
has ended; then the turn is over.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, cast

from greenlet import getcurrent, greenlet
from starlark.eval import builtins, evaluator
from starlark.eval.errors import EvalError
from starlark.eval.evaluator import eval_file
from starlark.eval.function import StarlarkFunction
from starlark.eval.module import Module
from starlark.eval.values import BuiltinFunction, Dict, StarlarkList, starlark_type

from codecall.sandbox import wire
from codecall.sandbox.agentscript.diagnosis.report import ScriptProgress, limit_failure
from codecall.sandbox.agentscript.engine.console import Console
from codecall.sandbox.agentscript.engine.realm import ScriptOutcome
from codecall.sandbox.agentscript.parser.unicode import well_formed
from codecall.sandbox.agentscript.validator.names import AskHost
from codecall.sandbox.starlark.evaluator_internals import calling_offset
from codecall.sandbox.starlark.failures import TaskFailedError, ToolFailedError, failure_of
from codecall.sandbox.starlark.missed import MissedKeys
from codecall.sandbox.starlark.policy import (
    BUILTIN_NAMES,
    EXTRACT,
    GET_RESULT,
    GET_RESULT_FORM,
    MAX_TASKS,
    RESULT_PARTS,
    lower_case_names,
)
from codecall.sandbox.starlark.read import SCRIPT, StarlarkProgram
from codecall.sandbox.starlark.thread import Meter, Stopped, TaskThread
from codecall.sandbox.starlark.values import Encoder, Server, TooLargeError, console_text, from_json

call = cast("Callable[[Any, list[Any], dict[str, Any], TaskThread], Any]", evaluator.call)  # pyright: ignore[reportUnknownMemberType]

_UNIVERSAL: Final = {name: value for name, value in builtins.make_universal().items() if name in BUILTIN_NAMES}

_NO_TOOL: Final = "TOOL_NOT_FOUND"

MAX_SHOWN_TYPE: Final = 60
"""Most characters of a type in the name of its call."""


class StarlarkEngine:
    """The engine of exactly one script; a `worker.dialect.Engine`.

    Args:
        limits: The preset's numbers.
        ask: Asks the host about tools.
        clock: Milliseconds of the script's own time so far.
    """

    def __init__(self, limits: wire.Limits, ask: AskHost, clock: Callable[[], float]) -> None:
        self.limits = limits
        """The limits it was built for."""
        self.ask = ask
        """Asks the host, which knows the tools."""
        self.calls: list[wire.Call] = []
        """Tool calls since they were last taken."""
        self.console = Console(limits)
        """What the script prints."""
        self.covered_lines: list[int] = []
        """Stays empty: no lines are recorded."""
        self.outcome: ScriptOutcome | None = None
        """Set once the script has ended."""
        self.pending_calls = 0
        """Tool calls without an answer."""
        self._meter = Meter(limits, clock)
        self._missed = MissedKeys()
        self._module = Module("")
        self._lines: Callable[[int], tuple[int, int]] | None = None
        self._hub = getcurrent()
        self._ready: deque[Callable[[], object]] = deque()
        """What is to run next: each switches to a task."""
        self._waiting: dict[int, greenlet] = {}
        """The tasks that wait for tools, by the number of the call."""
        self._joining: dict[_Tasks, greenlet] = {}
        """The tasks that wait for those of a `parallel`. Not in variables of theirs: a collector does not see that a
        task holds itself."""
        self._tasks = 0
        self._parallel = 1
        self._made = 0
        self._program: StarlarkProgram | None = None

    @property
    def steps(self) -> int:
        """Steps of the evaluator so far."""
        return self._meter.steps

    def count_steps(self) -> int:
        """Steps of the evaluator so far."""
        return self._meter.steps

    def start(self, program: StarlarkProgram, terms: wire.StarlarkTerms, data: dict[str, Any]) -> None:
        """Run a script until it waits, settles or is stopped."""
        self._program, self._parallel = program, max(1, terms.parallel)
        universal = dict(_UNIVERSAL)
        for name in ("print", "call_tool", "try_call", "parallel"):
            universal[name] = BuiltinFunction(name, getattr(self, f"_builtin_{name}"))
        for name, there, ask in (
            (EXTRACT, terms.extracts, self._extract),
            (GET_RESULT, terms.results, self._get_result),
        ):
            if there:
                universal[name] = BuiltinFunction(name, partial(self._asked, ask))
        for function in terms.functions:
            # A global of the module: every name that the script does not define is looked up there.
            self._module.globals[function.name] = BuiltinFunction(function.name, partial(self._tool, function))
        for server in terms.servers:
            self._module.globals[server.name] = self._server(server)
        self._ready.append(greenlet(partial(self._main, universal, data)).switch)
        self._run()

    def resume(self, answers: list[wire.Answer]) -> None:
        """Give the script the answers to its calls and run it until it waits again."""
        for answer in answers:
            self.pending_calls -= 1
            task = self._waiting.pop(answer.call, None)
            if task is not None:
                self._ready.append(partial(task.switch, answer))
        self._run()

    def close(self) -> None:
        """Let go of the tasks that still wait: a collector does not see what their frames hold."""
        self._ready.clear()
        self._waiting.clear()
        self._joining.clear()
        self._module.globals.clear()

    def drain_calls(self, budget: int) -> list[wire.Call]:
        """The tool calls not yet taken, as many as fit into `budget` bytes and one frame; at least one."""
        count = wire.calls_that_fit(self.calls, budget)
        batch, self.calls = self.calls[:count], self.calls[count:]
        return batch

    def _run(self) -> None:
        """Let every task run that can."""
        while self._ready and self.outcome is None:
            self._ready.popleft()()
        if self.outcome is None and not self.pending_calls:
            self._stop("DEADLOCK")

    def _main(self, universal: dict[str, Any], data: dict[str, Any]) -> None:
        """The first task: the script itself."""
        program = cast("StarlarkProgram", self._program)
        thread = TaskThread(self._meter, self._missed.add_read, self._module, universal)
        try:
            with builtins.with_mutability(self._module.mutability), builtins.with_thread(thread):
                eval_file(program.file, thread)
                script = self._module.globals.pop(SCRIPT)
                values = [from_json(json.dumps(value), self._module.mutability) for value in data.values()]
                self._finish(call(script, values, {}, thread))
        except Stopped as stopped:
            self._stop(stopped.code, stopped.detail)
        except TooLargeError as failure:
            self._stop("OUTPUT_LIMIT", failure.size)
        except MemoryError:
            self._stop("WORKER_MEMORY_EXCEEDED")
        except RecursionError:
            self._stop("STACK_OVERFLOW")
        except Exception as failure:
            self.outcome = ScriptOutcome(failure=failure_of(failure, program.lines, self._missed.is_answer))

    def _finish(self, value: Any) -> None:
        encoder = Encoder(self.limits, self.limits.longest_result, self._meter.look, strict=False)
        text = encoder.encode(value)
        warnings = list(encoder.notes)
        warnings += self._missed.warnings(cast("StarlarkProgram", self._program), self.ask)
        if value is None and self._program is not None and self._program.lost_value is not None:
            warnings.append(f"The script gave no value: write {self._program.lost_value}.")
        self.outcome = ScriptOutcome(value=text, warnings=warnings)

    def _stop(self, code: str, detail: object = "") -> None:
        if self.outcome is None or self.outcome.failure is None:
            progress = ScriptProgress(self.steps)
            failure = limit_failure(code, self.limits, detail, progress)
            self.outcome = ScriptOutcome(failure=failure, reusable=code != "WORKER_MEMORY_EXCEEDED")

    # ------------------------------------------------------------------------------------------------ built-in names

    def _builtin_print(self, *values: Any, sep: str = " ") -> None:
        if not isinstance(sep, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a script may give anything
            raise EvalError(f"print: sep is a string (got {starlark_type(sep)})")
        line = well_formed(sep.join(console_text(value, self.limits) for value in values))
        self._meter.allocate(len(line))
        self.console.add(line)

    def _server(self, server: wire.ServerTools) -> Server:
        tools: dict[str, BuiltinFunction] = {}
        for tool in server.tools:
            # A call names server and tool, whatever it was read from.
            function = wire.ToolFunction(f"{server.name}.{tool.name}", tool.tool, tool.signature)
            tools[tool.name] = BuiltinFunction(tool.name, partial(self._server_tool, function))
        return Server(server.name, tools | {name: tools[of] for name, of in lower_case_names(tools).items()})

    def _builtin_call_tool(self, name: Any, /, *positional: Any, **arguments: Any) -> Any:
        tool = self._tool_name(name)
        answer = self._call("call_tool", tool, positional, arguments)
        if not answer.ok:
            raise ToolFailedError(_message(answer), answer.call)
        value = self._answered(answer)
        self._missed.add_answer(str(tool), value)
        return value

    def _builtin_try_call(self, name: Any, /, *positional: Any, **arguments: Any) -> Any:
        function = name.impl if isinstance(name, BuiltinFunction) else None
        if isinstance(function, partial) and function.func == self._asked:
            answer = function.args[0](*positional, **arguments)
        else:
            answer = self._with_guess(self._call("try_call", self._tool_name(name), positional, arguments), name)
        value = self._answered(answer)
        result = Dict({"ok": answer.ok, ("value" if answer.ok else "error"): value}, self._module.mutability)
        if isinstance(tool := self._tool_name(name), str):
            self._missed.add_answer(tool, value, result)
        return result

    def _with_guess(self, answer: wire.Answer, name: Any) -> wire.Answer:
        """The answer to a call; where no tool has that name, its message says which may have been meant."""
        if answer.ok or _NO_TOOL not in answer.payload or not isinstance(name, str):
            return answer
        error, found = json.loads(answer.payload), self.ask(well_formed(name), "space")
        tools = cast("dict[str, list[str]]", json.loads(found) if found is not None else {}).get("tools")
        if error.get("code") != _NO_TOOL or not tools:
            return answer
        error["message"] = f"{error['message']}. Did you mean {' or '.join(f'`{tool}`' for tool in tools)}?"
        return wire.Answer(answer.call, ok=False, payload=json.dumps(error))

    def _asked(self, ask: Callable[..., wire.Answer], /, *positional: Any, **arguments: Any) -> Any:
        """What a built-in function that asks the host gives; `try_call` takes the function, too."""
        answer = ask(*positional, **arguments)
        if not answer.ok:
            raise ToolFailedError(_message(answer), answer.call)
        return self._answered(answer)

    def _extract(self, *positional: Any, **arguments: Any) -> wire.Answer:
        merged = {**dict(zip(("value", "type"), positional, strict=False)), **arguments}
        if len(positional) + len(arguments) != len(merged) or merged.keys() != {"value", "type"}:
            raise EvalError('extract: a value and a type are needed: extract(text, "{ total: number }")')
        wanted = merged["type"]
        name = wanted.strip()[:MAX_SHOWN_TYPE] if isinstance(wanted, str) else "JSON Schema"
        return self._request(EXTRACT, name, merged, "extract")

    def _get_result(self, handle: Any = None, /, *positional: Any, **part: Any) -> wire.Answer:
        if not isinstance(handle, str) or not 0 < len(handle) <= wire.MAX_URI_LENGTH:
            raise EvalError(f"get_result: the handle of an earlier answer is needed, as text: {GET_RESULT_FORM}")
        unknown = next((name for name in part if name not in RESULT_PARTS), None)
        if positional or unknown is not None:
            what = f"there is no parameter {unknown}" if unknown else "a part is given by names"
            raise EvalError(f"get_result: {what}: {GET_RESULT_FORM}, or page=1")
        request = {"from" if name == "start" else name: value for name, value in part.items() if value is not None}
        return self._request(GET_RESULT, handle, request, "result")

    def _tool_name(self, tool: Any) -> Any:
        """The name of a tool that is given as its function; anything else as it is."""
        function = tool.impl if isinstance(tool, BuiltinFunction) else None
        if isinstance(function, partial) and function.func in (self._tool, self._server_tool):
            return cast("wire.ToolFunction", function.args[0]).tool
        return tool

    def _tool(self, function: wire.ToolFunction, /, *positional: Any, **arguments: Any) -> Any:
        if positional:
            raise EvalError(f"{function.name}: tools take their input by name: {function.signature}")
        return self._builtin_call_tool(function.tool, **arguments)

    def _server_tool(self, function: wire.ToolFunction, /, *positional: Any, **arguments: Any) -> Any:
        if len(positional) == 1 and not arguments and isinstance(positional[0], Dict):
            items = cast("list[tuple[Any, Any]]", positional[0].items())  # pyright: ignore[reportUnknownMemberType]
            if all(isinstance(key, str) for key, _ in items):
                return self._builtin_call_tool(function.tool, **dict(items))
        return self._tool(function, *positional, **arguments)

    def _call(self, what: str, name: Any, positional: tuple[Any, ...], arguments: dict[str, Any]) -> wire.Answer:
        """Call a tool."""
        if positional:
            raise EvalError(f'{what}: tools take their input by name: {what}("name", key=value)')
        if not isinstance(name, str):
            raise EvalError(f"{what}: the name of a tool is a string (got {starlark_type(name)})")
        if len(name) > wire.MAX_NAME_LENGTH:
            raise EvalError(f"{what}: no tool has a name of {len(name)} characters")
        return self._request(what, name, arguments, "tool")

    def _request(
        self, what: str, name: str, arguments: dict[str, Any], kind: Literal["tool", "extract", "result"]
    ) -> wire.Answer:
        """Ask the host, and let other tasks run until its answer is there."""
        if self._made >= self.limits.max_tool_calls:
            raise Stopped("TOOL_CALL_LIMIT")
        try:
            encoder = Encoder(self.limits, self.limits.max_tool_input_bytes, self._meter.look, strict=True)
            text = encoder.encode(Dict(arguments, self._module.mutability))
        except TooLargeError:
            raise EvalError(
                f"{what}: the input of '{name}' is larger than {self.limits.max_tool_input_bytes} bytes"
            ) from None
        self._made += 1
        number = self._made
        offset = calling_offset()
        place = (None, None) if offset is None or self._program is None else self._program.lines.position(offset)
        self.calls.append(wire.Call(number, well_formed(name), text, kind, False, *place))
        self.pending_calls += 1
        self._waiting[number] = getcurrent()
        return cast("wire.Answer", self._hub.switch())

    def _answered(self, answer: wire.Answer) -> Any:
        """The value of a call, or the error of one that failed, as a value of the script."""
        self._meter.allocate(len(answer.payload))
        return from_json(answer.payload, self._module.mutability)

    def _builtin_parallel(self, functions: Any, /, *more: Any) -> StarlarkList:
        if more:
            raise EvalError(f"parallel: it takes one list of functions (got {1 + len(more)} values)")
        if not isinstance(functions, (StarlarkList, tuple)):
            raise EvalError(f"parallel: a list of functions is needed (got {starlark_type(functions)})")
        tasks = list(cast("tuple[Any, ...]", functions))
        for index, task in enumerate(tasks):
            if not isinstance(task, (StarlarkFunction, BuiltinFunction)):
                raise EvalError(f"parallel: element {index} is not callable (got {starlark_type(task)})")
        results = _Tasks(tasks)
        at_once = min(self._parallel, len(tasks), MAX_TASKS - self._tasks)
        thread = cast("TaskThread", builtins.current_thread())
        if at_once < 2:
            results.run(thread)
        else:
            results.left = at_once
            self._tasks += at_once
            self._joining[results] = getcurrent()
            for _ in range(at_once):
                self._ready.append(greenlet(partial(self._task, results, thread), self._hub).switch)
            self._hub.switch()
            self._tasks -= at_once
        if results.failures:
            index = min(results.failures)
            raise TaskFailedError(index, results.failures[index], self._missed.is_answer)
        return StarlarkList(results.values, self._module.mutability)

    def _task(self, results: _Tasks, parent: TaskThread) -> None:
        """Run functions of a `parallel` one after the other, beside other greenlets that do the same."""
        thread = TaskThread(
            self._meter, self._missed.add_read, self._module, cast("dict[str, Any]", parent.universal), parent
        )
        try:
            with builtins.with_mutability(self._module.mutability), builtins.with_thread(thread):
                results.run(thread)
        except Stopped as stopped:
            self._stop(stopped.code, stopped.detail)
        except MemoryError:
            self._stop("WORKER_MEMORY_EXCEEDED")
        results.left -= 1
        if not results.left:
            self._ready.append(self._joining.pop(results).switch)


class _Tasks:
    """The functions of one `parallel`, and what became of them."""

    def __init__(self, functions: list[Any]) -> None:
        self._functions = functions
        self._next = 0
        self.values: list[Any] = [None] * len(functions)
        self.failures: dict[int, Exception] = {}
        self.left = 0
        """Greenlets that have not ended."""

    def run(self, thread: TaskThread) -> None:
        """Run functions that nobody has begun, until there are none."""
        while self._next < len(self._functions):
            index = self._next
            self._next += 1
            try:
                self.values[index] = call(self._functions[index], [], {}, thread)
            except MemoryError:
                raise
            except Exception as failure:
                self.failures[index] = failure


def _message(answer: wire.Answer) -> str:
    """What a failed call says."""
    error = json.loads(answer.payload)
    return str(cast("dict[str, object]", error).get("message", "")) if isinstance(error, dict) else ""
