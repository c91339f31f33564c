"""Running scripts in tests: the enclave of a test, and scripts in files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar, Unpack

import pytest
from anyio.from_thread import BlockingPortal

from codecall.errors import OptionsError
from codecall.presets import Preset
from codecall.sandbox.callbacks import ToolHandler
from codecall.sandbox.interfaces import RunHooks, ToolBroker
from codecall.sandbox.languages import Language, check_variables, language_of, starlark_terms
from codecall.sandbox.starlark.policy import EXTRACT, GET_RESULT
from codecall.sandbox.wire import StarlarkTerms
from codecall.testing import coverage_data
from codecall.testing.calls import Calls, abbreviate
from codecall.testing.enclaves import EnclaveJob, PresetChoice, SessionEnclaves
from codecall.testing.report import FailureReason, format_reasons, refuse_unknown
from codecall.testing.results import ScriptResult
from codecall.testing.stubs.broker import StubbedExtractor, StubbedResults, StubBroker
from codecall.testing.stubs.stubs import Stubs
from codecall.wording import nearest

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScriptOrigin:
    """Where a script comes from."""

    name: str = "<script>"
    """The name of the script in messages."""
    path: Path | None = None
    """The file of the script, if it has one."""
    first_line: int = 1
    """The line of the file at which the script begins, from 1."""


class RunOptions(TypedDict, total=False):
    """What one run of a script takes besides the script."""

    context: Mapping[str, Any] | None
    """`codecallContext`; JSON data."""
    allowed_tools: Sequence[str] | None
    """Names or globs the script may call; None allows all."""
    config: Mapping[str, object] | None
    """Preset values to replace for this run."""
    tool_handler: ToolHandler | None
    """`(name, input) -> value`, sync or async: answers calls of tools that have no stub."""
    broker: ToolBroker | None
    """Answers all calls instead of the stubs; its calls are not recorded."""
    language: Language | None
    """`javascript` or `starlark`; None: as the suffix of the file says (`.star` is Starlark), else JavaScript."""


_OPTIONS: Final = tuple(RunOptions.__annotations__)

_UNEXAMINED_ADVICE: Final = (
    "  Look at `result.code` if this is expected, or at `result.value` if it is not\n"
    "  Or allow it: tool_stub.allow_failure(), or @pytest.mark.codecall(allow_failure=True)"
)


def _replacements(options: RunOptions) -> dict[str, str]:
    """What to write instead of an unknown option: limits go into `config`, all else into `context`."""
    places = {name: "config" if name in Preset.model_fields else "context" for name in options}
    plain = dict[str, object](options)
    near = {name for name in plain if nearest(name, _OPTIONS)}
    return {name: f"{place}={abbreviate({name: plain[name]})}" for name, place in places.items() if name not in near}


class ScriptEnclave:
    """Runs scripts against the stubs of a test. The fixture `codecall_enclave` is one.

    Args:
        enclaves: The worker pools of the session.
        choice: The limits that the test asks for.
        stubs: The stubs that answer calls.

    Raises:
        OptionsError: unknown preset, unknown limit, or a value of the wrong type or out of range.
    """

    def __init__(self, enclaves: SessionEnclaves, choice: PresetChoice, stubs: Stubs) -> None:
        self._enclaves = enclaves
        self._choice = choice
        _, self._preset = enclaves.enclave(choice)
        self._stubs = stubs
        self.results: list[ScriptResult] = []
        """The results of the scripts of the test so far."""
        self._returned: list[ScriptResult] = []

    @property
    def preset(self) -> Preset:
        """The limits scripts run under."""
        return self._preset

    def run(self, script: str, *, origin: ScriptOrigin | None = None, **options: Unpack[RunOptions]) -> ScriptResult:
        """Run one script and wait for its end. For tests that are plain functions; works in coroutines, too.

        Args:
            script: AgentScript source.
            origin: Where it comes from.
            **options: `context`, `allowed_tools`, `config`, `tool_handler`, `broker`, `language`; see `RunOptions`.

        Raises:
            OptionsError: `config` is wrong.
            TypeError: `context` is not JSON data; an option is unknown.
        """
        return self._check_calls(self.attempt(script, origin=origin, **options))

    async def execute(
        self, script: str, *, origin: ScriptOrigin | None = None, **options: Unpack[RunOptions]
    ) -> ScriptResult:
        """Do what `run` does, for tests that are coroutines: their event loop goes on.

        Callables of the test that are coroutine functions run in the event loop of the test.
        """
        job, origin = self._job(script, origin, options)
        return self._check_calls(self._add_result(await self._enclaves.run_async(job), origin))

    def attempt(
        self, script: str, *, origin: ScriptOrigin | None = None, **options: Unpack[RunOptions]
    ) -> ScriptResult:
        """Do what `run` does, without failing the test for what the script called."""
        job, origin = self._job(script, origin, options)
        return self._add_result(self._enclaves.run(job), origin)

    def unexamined_failures(self) -> list[FailureReason]:
        """Reasons to fail the test: failed scripts whose results it got and did not look at."""
        if "failed" in self._stubs.history.allowed:
            return []
        return [
            FailureReason(
                "failed",
                f"{result.name} failed, and the test did not look at its result\n{result.report()}",
                _UNEXAMINED_ADVICE,
            )
            for result in self._returned
            if result.overlooked
        ]

    def run_in_loop(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Await `function(*args)` on the event loop of the workers, and wait for it."""
        return self._enclaves.portal.call(function, *args)

    def _job(
        self, script: str, origin: ScriptOrigin | None, options: RunOptions
    ) -> tuple[EnclaveJob[ScriptResult], ScriptOrigin]:
        """Create the job that runs the script on the event loop of the workers.

        Raises:
            OptionsError: `config` is wrong.
            TypeError: an option is unknown.
        """
        refuse_unknown("run", options, _OPTIONS, _replacements(options))
        config = options.get("config")
        try:
            preset = self._preset.replaced(config) if config else self._preset
        except OptionsError as error:
            raise OptionsError(error.message.replace("vm.", "config.")) from None
        origin = origin or ScriptOrigin()
        stubs = self._stubs
        language = options.get("language") or language_of(origin.path or "")
        starlark = None if language == "javascript" else self._starlark_terms(script, options)
        enclave, _ = self._enclaves.enclave(self._choice, starlark=starlark is not None)
        covered = origin.path is not None and starlark is None and coverage_data.is_measured(origin.path)

        async def job(test_loop: BlockingPortal | None) -> ScriptResult:
            stub_broker = StubBroker(
                stubs,
                origin.name,
                options.get("allowed_tools"),
                preset.tool_call_timeout_ms,
                test_loop=test_loop,
                handler=options.get("tool_handler"),
            )
            broker = options.get("broker") or stub_broker
            result = await enclave.run(
                script,
                broker,
                context=options.get("context"),
                preset=preset,
                coverage=covered,
                hooks=RunHooks(results=StubbedResults(stub_broker), extractor=StubbedExtractor(stub_broker)),
                starlark=starlark,
            )
            return ScriptResult(result, name=origin.name, source=script, calls=Calls(tuple(stub_broker.calls)))

        return job, origin

    def _starlark_terms(self, script: str, options: RunOptions) -> StarlarkTerms:
        """What a script in Starlark runs with: the stubs as functions, and what else it calls, which fails the test.

        Raises:
            OptionsError: a key of `context` cannot be a variable.
        """
        stubs: dict[str, dict[str, object]] = {name: {} for name in self._stubs.recorded}
        stubs |= {str(tool["name"]): tool for tool in self._stubs.tool_descriptions()}
        check_variables(options.get("context") or {}, stubs)
        known = starlark_terms(script, stubs)
        names = {function.name for function in known.functions}
        unknown = starlark_terms(script, None, extracts=True)
        others = [function for function in unknown.functions if function.name not in names]
        extracts, results = EXTRACT not in names, GET_RESULT not in names
        return StarlarkTerms([*known.functions, *others], known.parallel, extracts=extracts, results=results)

    def _add_result(self, result: ScriptResult, origin: ScriptOrigin) -> ScriptResult:
        self.results.append(result)
        if origin.path is not None and result.lines:
            coverage_data.add_lines(origin.path, result.lines, origin.first_line)
        return result

    def _check_calls(self, result: ScriptResult) -> ScriptResult:
        """Return the result; fail the test if the script called what it should not."""
        reasons = self._stubs.history.new_failures()
        cause = next((reason.cause for reason in reasons if reason.cause is not None), None)
        if cause is not None:
            raise cause
        if reasons:
            pytest.fail(f"{format_reasons(reasons)}\n\n{result.report()}")
        self._returned.append(result)
        return result


class Script:
    """A script in a file, to be run against the stubs of a test. The fixture `script` makes them.

    Args:
        path: The file.
        name: The name of the script in messages.
        enclave: The enclave that runs it.
    """

    def __init__(self, path: Path, name: str, enclave: ScriptEnclave) -> None:
        self.path = path
        """The file."""
        self.name = name
        """The name in messages: the path below the root of the tests."""
        self.source = path.read_bytes().decode("utf-8")
        """Its text."""
        self._enclave = enclave
        self._origin = ScriptOrigin(name, path)

    def run(self, **options: Unpack[RunOptions]) -> ScriptResult:
        """Run it and wait for its end: `run(context={"limit": 5})`; see `ScriptEnclave.run`."""
        return self._enclave.run(self.source, origin=self._origin, **options)

    async def execute(self, **options: Unpack[RunOptions]) -> ScriptResult:
        """Run it in a test that is a coroutine; see `ScriptEnclave.execute`."""
        return await self._enclave.execute(self.source, origin=self._origin, **options)

    def __repr__(self) -> str:
        return f"<script {self.name}>"
