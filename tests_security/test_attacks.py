"""Every `*.script.js` below this folder, one test a program: it ends as it says, and no secret comes out.

Programs run under `secure`, or the preset they ask for. With `CODECALL_VM_PRESET` all run under that one, as in an
operator's pipeline: under a stricter preset a program may also end in a refusal or a limit; under a more permissive
one, what only the preset refused or stopped may end in any way.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from codecall.envelopes import ExecutionResult
from codecall.errors import LimitExceeded, ScriptRefused, ScriptTimeoutError, WorkerMemoryError, WorkerTimeoutError
from codecall.presets import PRESET_ENVIRONMENT_VARIABLE, PRESET_NAMES, load_preset
from codecall.sandbox.agentscript.checked import Finding, InvalidScriptError
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.enclave import Enclave
from codecall.testing import Failure, Program, Refusal, ScriptFileError, findings_mismatch, mismatch, read_programs
from tests.fork_servers import CANARY
from tests_security.attacking import Canaries, attacked, find_spaces

FOLDER = Path(__file__).parent
FORCED = os.environ.get(PRESET_ENVIRONMENT_VARIABLE)
"""The preset that all programs run under, whatever they ask for."""

LIMITS: Mapping[str, Mapping[str, object]] = {
    "TIMEOUT": {"timeout_ms": 250},
    "WORKER_TIMEOUT": {"timeout_ms": 250},
    "WORKER_MEMORY_EXCEEDED": {"timeout_ms": 15_000, "memory_mb": 8},
    "MESSAGE_FLOOD": {"timeout_ms": 15_000},
    "STEP_LIMIT": {"max_steps": 200_000},
}
"""Of programs that end so, where their preset may be any. Waiting for the end of all they have shows no more, and a
slow machine must not end one before it has filled the memory, or asked for too many names."""

STOPPED = (LimitExceeded, ScriptTimeoutError, WorkerTimeoutError, WorkerMemoryError)
"""Ends that a preset's limits make."""


def collected() -> tuple[list[Program], list[ScriptFileError]]:
    """The programs of all files, and what is wrong with files that cannot be read."""
    programs: list[Program] = []
    broken: list[ScriptFileError] = []
    for file in sorted(FOLDER.rglob("*.script.js")):
        try:
            programs += read_programs(file)
        except ScriptFileError as error:
            broken.append(error)
    return programs, broken


PROGRAMS, BROKEN = collected()


def name_of(program: Program) -> str:
    file = Path(program.path).relative_to(FOLDER)
    return f"{str(file).removesuffix('.script.js')}::{program.title}"


def is_honest(program: Program) -> bool:
    return Path(program.path).relative_to(FOLDER).parts[0] == "honest"


def findings(program: Program, preset: str) -> list[Finding]:
    try:
        validate_script(program.source, Rules.from_limits(load_preset(preset)), find_namespaces=find_spaces)
    except InvalidScriptError as refused:
        return refused.findings
    return []


def objection(program: Program, result: ExecutionResult, stated: str, forced: str) -> str | None:
    """What is wrong with how `program`, written for the preset `stated`, ended under `forced`."""
    wrong = mismatch(program, result)
    distance = PRESET_NAMES.index(forced) - PRESET_NAMES.index(stated)
    if distance < 0:
        return None if isinstance(result.error, (ScriptRefused, *STOPPED)) else wrong
    if distance > 0 and program.preset is not None:
        return None  # it is about the preset it asks for
    if distance > 0 and isinstance(program.outcome, Refusal):
        return wrong if findings(program, stated) == findings(program, forced) else None
    if distance > 0 and isinstance(program.outcome, Failure):
        by_limit = program.outcome.code in {"TIMEOUT", "WORKER_TIMEOUT", "WORKER_MEMORY_EXCEEDED"}
        return None if by_limit or program.outcome.code.endswith("_LIMIT") else wrong
    return wrong


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
async def test_program(program: Program, enclaves: Mapping[str, Enclave], canaries: Canaries):
    stated = program.preset or "secure"
    preset = FORCED or stated
    code = program.outcome.code if isinstance(program.outcome, Failure) else None
    limits = LIMITS.get(code or "") if program.preset is None else None
    # What the guard refuses is not run, behind no other script either; and honest programs look for no secrets.
    refused = isinstance(program.outcome, Refusal) if preset == stated else bool(findings(program, preset))
    follows = not (refused or is_honest(program))
    result = await attacked(enclaves[preset], program.source, canaries, limits=limits, follows=follows)
    assert canaries.leaked(result) == []
    wrong = objection(program, result, stated, preset)
    assert wrong is None, wrong
    if preset != stated or isinstance(result.error, ScriptRefused):
        # The worker tells only the first of the findings; what it ran under the program's own preset has none
        wrong = findings_mismatch(program, findings(program, stated))
        assert wrong is None, wrong


def test_every_file_can_be_read():
    assert [str(error) for error in BROKEN] == []


def test_there_are_enough_programs():
    assert sum(not is_honest(program) for program in PROGRAMS) >= 400
    assert sum(is_honest(program) for program in PROGRAMS) >= 200


def test_every_program_says_how_it_ends():
    assert [name_of(program) for program in PROGRAMS if program.outcome is None] == []


def test_every_program_of_a_folder_is_another():
    again = Counter((Path(program.path).parent, program.source) for program in PROGRAMS)
    assert [(folder.name, source) for (folder, source), times in again.items() if times > 1] == []


def test_honest_programs_are_not_refused():
    refused = [name_of(program) for program in PROGRAMS if is_honest(program) and isinstance(program.outcome, Refusal)]
    assert refused == []


async def test_a_leak_would_be_seen(enclaves: Mapping[str, Enclave], canaries: Canaries):
    enclave = enclaves[FORCED or "secure"]
    for secret in vars(canaries).values():
        value = await attacked(enclave, f"return {{ deep: ['{secret}'.toUpperCase()] }}", canaries)
        thrown = await attacked(enclave, f"throw new Error('a' + '{secret}')", canaries)
        refused = await attacked(enclave, f"a{secret}", canaries)
        assert [len(canaries.leaked(result)) for result in (value, thrown, refused)] == [1, 1, 1]
    assert canaries.leaked(await attacked(enclave, "return 1", canaries)) == []


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there are fork servers on Linux")
async def test_workers_come_from_where_the_canaries_are(monkeypatch: pytest.MonkeyPatch, canaries: Canaries):
    servers: list[int] = []
    for value in ("", canaries.environment):
        monkeypatch.setenv(CANARY, value)
        async with Enclave("secure", pool={"max_workers": 1}) as enclave:
            assert (await enclave.execute("return 1")).value == 1
            servers += map(parent, enclave.pool.pids())
    assert servers[0] != servers[1]
