"""The pytest plugin: options, fixtures and hooks. pytest loads it by itself wherever CodeCall is installed.

Loading it imports nothing of CodeCall but this module; what runs scripts is imported by the first test that runs one.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

import pytest

if TYPE_CHECKING:
    from codecall.testing.report import FailureReason
    from codecall.testing.runner import Script, ScriptEnclave
    from codecall.testing.scripts.items import ScriptFile
    from codecall.testing.stubs.stubs import Stub, Stubs

__tracebackhide__ = True  # pytest: what is wrong is in the test

pytest_plugins = ["codecall.testing.recording.fixtures"]

MARKER: Final = "codecall"
"""The marker with which a test chooses its preset, limits, and what it allows."""

ALLOWANCES: Final = ("allow_unused", "allow_undeclared", "allow_invalid_input", "allow_failure")
"""Keys of the marker that allow what would fail a test."""

OTHER_KEYS: Final = ("preset", "recording")
"""Keys of the marker that are neither allowances nor limits."""

_MARKER_HELP: Final = (
    "codecall(preset=None, *, allow_unused=False, allow_undeclared=False, allow_invalid_input=False, "
    "allow_failure=False, recording=None, **limits): preset and limits of the scripts this test runs, what does not "
    "fail it, and the recording that answers them"
)

_MAX_REPORTS: Final = 5
"""Most scripts that a failing test reports on."""


_stubs_key = pytest.StashKey["Stubs"]()

_enclave_key = pytest.StashKey["ScriptEnclave"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line and of the configuration file."""
    group = parser.getgroup("codecall", "CodeCall: tests of AgentScript")
    group.addoption(
        "--codecall-preset",
        metavar="PRESET",
        help="preset that scripts run under where a test does not choose one: locked_down, secure, balanced, "
        "experimental, or the path of a preset file",
    )
    parser.addini("codecall_preset", "preset that scripts run under, as --codecall-preset", default="")
    parser.addini(
        "codecall_scripts",
        "folders in which the fixture `script` looks for files, below the root; besides the folder of the test file",
        type="args",
        default=[],
    )
    parser.addini(
        "codecall_files",
        "patterns of the files whose programs are collected as tests; empty: none are",
        type="args",
        default=["*.script.js"],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse an unknown preset."""
    config.addinivalue_line("markers", _MARKER_HELP)
    if (preset := cast("str | None", config.getoption("codecall_preset", None))) is not None:
        from codecall.errors import OptionsError
        from codecall.presets import load_preset

        try:
            load_preset(preset)
        except OptionsError as error:
            raise pytest.UsageError(f"--codecall-preset: {str(error).removeprefix('vm.preset: ')}") from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the workers, if a test has needed any."""
    enclaves = sys.modules.get("codecall.testing.enclaves")
    if enclaves is not None and (pools := config.stash.get(enclaves.ENCLAVES, None)) is not None:
        pools.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScriptFile | None:
    """Collect the programs of script files as tests."""
    patterns: list[str] = parent.config.getini("codecall_files")
    if not any(file_path.match(pattern) for pattern in patterns):
        return None
    if not parent.session.isinitpath(file_path) and not _has_programs(file_path):
        return None
    from codecall.testing.scripts.items import ScriptFile

    script_file: Any = ScriptFile
    return cast("ScriptFile", script_file.from_parent(parent, path=file_path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that passed for what is wrong with its stubs, and for a script that failed unnoticed; to a test that
    failed, add the reports of its scripts."""
    try:
        outcome = yield
    except pytest.skip.Exception:
        raise
    except BaseException:
        _add_reports(item)
        raise
    if reasons := _failure_reasons(item):
        from codecall.testing.report import format_reasons

        _add_reports(item)
        pytest.fail(format_reasons(reasons), pytrace=False)
    return outcome


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Compare calls line by line."""
    if op != "==" or "codecall.testing.calls" not in sys.modules:
        return None
    from codecall.testing.calls import Calls, compare_calls

    if isinstance(left, Calls):
        return compare_calls(left, right)
    return compare_calls(right, left) if isinstance(right, Calls) else None


@pytest.fixture
def codecall_preset(request: pytest.FixtureRequest) -> str | None:
    """Name of the preset that scripts of this test run under; None for the default.

    From the marker, the command line, the configuration file, or `CODECALL_VM_PRESET`, in this order. May be
    parametrized: `@pytest.mark.parametrize("codecall_preset", ["secure", "balanced"])`.
    """
    from codecall.testing.enclaves import configured_preset

    return marker_options(request.node).preset or configured_preset(request.config)


@pytest.fixture
def tool_stub(request: pytest.FixtureRequest) -> Stubs:
    """Declare what scripts of this test may call: `tool_stub("users:list", returns=[…])`; `tool_stub.calls` has the
    calls they made."""
    from codecall.testing.enclaves import session_enclaves
    from codecall.testing.stubs.stubs import Stubs

    stubs = Stubs(lambda: session_enclaves(request.config).portal)
    for name in marker_options(request.node).allowances:
        getattr(stubs, name)()
    request.node.stash[_stubs_key] = stubs
    return stubs


@pytest.fixture
def resource_stub(tool_stub: Stubs) -> Callable[..., Stub]:
    """Declare what scripts of this test may read: `resource_stub("shop://menu", returns={…})`."""
    return tool_stub.resource


@pytest.fixture
def prompt_stub(tool_stub: Stubs) -> Callable[..., Stub]:
    """Declare prompts that scripts of this test may render: `prompt_stub("greeting", returns="Say hello")`."""
    return tool_stub.prompt


@pytest.fixture
def result_stub(tool_stub: Stubs) -> Callable[..., Stub]:
    """Declare results of earlier scripts that those of this test may read: `result_stub("res_1", returns=[1, 2])`."""
    return tool_stub.result


@pytest.fixture
def extract_stub(tool_stub: Stubs) -> Callable[..., Stub]:
    """Declare what `extract(value, type)` of scripts gives: `extract_stub(returns={"total": 12})`."""
    return tool_stub.extract


@pytest.fixture
def codecall_enclave(request: pytest.FixtureRequest, tool_stub: Stubs, codecall_preset: str | None) -> ScriptEnclave:
    """Run scripts: `codecall_enclave.run("return 1 + 1")`, or `await codecall_enclave.execute(…)`."""
    from codecall.errors import OptionsError
    from codecall.testing.enclaves import PresetChoice, session_enclaves
    from codecall.testing.runner import ScriptEnclave

    choice = PresetChoice(codecall_preset, marker_options(request.node).limits)
    try:
        enclave = request.node.stash[_enclave_key] = ScriptEnclave(session_enclaves(request.config), choice, tool_stub)
    except OptionsError as error:
        message = str(error).replace("vm.", "")
    else:
        return enclave
    return pytest.fail(f"what this test runs under is wrong: {message}", pytrace=False)


@pytest.fixture
def script(
    request: pytest.FixtureRequest, codecall_enclave: ScriptEnclave
) -> Callable[[str | os.PathLike[str]], Script]:
    """Read a script from a file: `script("top_customers.js").run(context={…})`.

    A relative path is looked for beside the test file, in the folders of `codecall_scripts`, and at the root.
    """
    from codecall.testing.runner import Script

    config = request.config
    folders = [request.path.parent, *(config.rootpath / folder for folder in config.getini("codecall_scripts"))]

    def read(path: str | os.PathLike[str]) -> Script:
        __tracebackhide__ = True
        from codecall.testing.enclaves import display_path

        file = _find_script(Path(path), list(dict.fromkeys([*folders, config.rootpath])))
        return Script(file, display_path(file, config.rootpath), codecall_enclave)

    return read


def _find_script(path: Path, folders: list[Path]) -> Path:
    """Find the file of a script in the folders; fail the test if there is none."""
    from codecall.sandbox.languages import SCRIPT_LANGUAGES
    from codecall.wording import nearest

    __tracebackhide__ = True
    for folder in folders:
        with contextlib.suppress(OSError):  # a text may be longer than any name of a file
            if (folder / path).is_file():
                return folder / path
    if re.search(r"[\s;(){}]", str(path)) and path.suffix.lower() not in SCRIPT_LANGUAGES:
        return pytest.fail(
            f"there is no script {str(path)[:80]!r}: `script` reads a file. To run a text, use the fixture "
            "`codecall_enclave`: codecall_enclave.run(…)"
        )
    scripts = sorted({file.name for folder in folders if folder.is_dir() for file in folder.glob(f"*{path.suffix}")})
    near = nearest(path.name, scripts, limit=3)
    searched = "".join(f"\n  {folder}" for folder in folders)
    suggestion = f"\nDid you mean {', '.join(near)}?" if near else ""
    return pytest.fail(
        f"there is no script {str(path)!r} in{searched}{suggestion}\n"
        "Other folders: `codecall_scripts` in the configuration of pytest"
    )


def _failure_reasons(item: pytest.Item) -> list[FailureReason]:
    """The reasons for which a test fails that has passed."""
    stubs, enclave = item.stash.get(_stubs_key, None), item.stash.get(_enclave_key, None)
    failed = enclave.unexamined_failures() if enclave else []
    stub_failures = stubs.failures() if stubs else []
    # A script that failed may not have come to all of its calls: unused stubs say nothing then.
    return [*failed, *(reason for reason in stub_failures if not failed or reason.kind != "unused")]


def _has_programs(path: Path) -> bool:
    """Whether a file has programs at all, and not merely such a name."""
    try:
        with path.open("rb") as file:
            return any(line.startswith(b"---") for line in file)
    except OSError:
        return False


def _add_reports(item: pytest.Item) -> None:
    """Add the reports of the last failed scripts to a failing test."""
    enclave = item.stash.get(_enclave_key, None)
    failed = [result for result in (enclave.results if enclave else ()) if not (result.success or result.reported)]
    for result in failed[-_MAX_REPORTS:]:
        item.add_report_section("call", "AgentScript", result.report())


class MarkerOptions(NamedTuple):
    """What the markers of a test set; the nearest marker goes first."""

    preset: str | None
    allowances: tuple[str, ...]
    limits: dict[str, object]


def marker_options(node: pytest.Item) -> MarkerOptions:
    """Read `@pytest.mark.codecall(...)` for a test; for each key the nearest marker decides. A wrong marker fails the
    test."""
    options: dict[str, object] = {}
    for mark in reversed([*node.iter_markers(MARKER)]):
        if len(mark.args) > 1:
            _refuse(f" takes one preset and keywords, got {mark.args!r}")
        options |= {**({"preset": mark.args[0]} if mark.args else {}), **mark.kwargs}
    limits = {name: value for name, value in options.items() if name not in (*OTHER_KEYS, *ALLOWANCES)}
    preset = options.get("preset")
    if not isinstance(preset, str | None):
        _refuse(f": preset is a name or a path, got {preset!r}")
    if limits:
        _check_limits(limits)
    return MarkerOptions(preset, tuple(name for name in ALLOWANCES if options.get(name, False)), limits)


def _check_limits(limits: dict[str, object]) -> None:
    """Refuse names that are no limits of a preset."""
    from codecall.presets import Preset
    from codecall.wording import nearest

    known = (*OTHER_KEYS, *ALLOWANCES, *Preset.model_fields)
    spellings = {spelling for name, field in Preset.model_fields.items() for spelling in (name, field.alias)}
    for name in limits.keys() - spellings:
        near = nearest(name, known)
        suggestion = f"did you mean {near[0]}? " if near else ""
        _refuse(f" takes no {name!r}; {suggestion}Known: {', '.join(known)}")


def _refuse(problem: str) -> NoReturn:
    pytest.fail(f"@pytest.mark.{MARKER}{problem}", pytrace=False)
