"""The part of the pytest plugin that records and replays: fixture `recording`, `--codecall-record`, `codecall_server`.

Nothing is written without `--codecall-record`, nothing where `CI` is set, and nothing by a test that fails. What
records or replays is imported by the first test that does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from codecall.testing.recording.cassette import RecordedCall, Replay
    from codecall.testing.runner import ScriptEnclave
    from codecall.testing.stubs.stubs import Stubs

_MARKER: Final = "codecall"

_tape_key = pytest.StashKey["Tape"]()
_recordings_key = pytest.StashKey[dict[Path, "WrittenRecording"]]()


@dataclass(slots=True)
class Tape:
    """A recording in use by one test. The fixture `recording` gives it."""

    path: Path
    """The file."""
    name: str
    """The name in messages: the path below the root."""
    recording: bool
    """Whether the test records; else it replays."""
    entries: list[RecordedCall] = field(default_factory=list["RecordedCall"])
    """The calls recorded so far."""
    replay: Replay | None = None
    """The recording that is replayed; None while recording."""
    names: Sequence[str] = ()
    """Names of further values to mask."""
    ordered: bool = False
    """Whether calls must be made in the order of the recording."""


class WrittenRecording(NamedTuple):
    """A recording that this session has written."""

    summary: str
    """The line about it at the end of the session."""
    test: str
    """The test that made it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line and of the configuration file."""
    group = parser.getgroup("codecall", "CodeCall: tests of AgentScript")
    group.addoption(
        "--codecall-record",
        action="store_true",
        help="run scripts against the server `codecall_server` and write what their tests record",
    )
    parser.addini(
        "codecall_server",
        "the server that recordings are made with: `package.module:name` of a FastMCP server or of a function that "
        "makes one, a URL, or the path of a server script or of a JSON file that configures MCP servers",
        default="",
    )
    parser.addini(
        "codecall_mask",
        "names, or globs, of values that recordings mask besides passwords, tokens and their like",
        type="args",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to record where nobody would review it."""
    if config.getoption("codecall_record") and os.environ.get("CI", "").lower() not in ("", "0", "false"):
        raise pytest.UsageError(
            "--codecall-record: the environment says CI, and recordings are made by people who review them. "
            "Unset CI to record all the same"
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`@pytest.mark.codecall(recording="…")` uses the fixture."""
    for item in items:
        if isinstance(item, pytest.Function) and _marked_path(item) is not None:
            item.fixturenames.append("codecall_marked_recording")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Write the recording of a test that passed; fail it for recorded calls that it no longer makes."""
    outcome = yield
    tape = item.stash.get(_tape_key, None)
    if tape is None:
        return outcome
    if tape.recording:
        _write_recording(tape, item)
    elif tape.replay is not None and tape.replay.unused:
        from codecall.testing.recording.brokers import describe_unused

        pytest.fail(
            f"{tape.name} is stale\n{describe_unused(tape.replay.unused)}\n{_record_command(item)}", pytrace=False
        )
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print which recordings were written."""
    if (recordings := config.stash.get(_recordings_key, None)) is not None:
        terminalreporter.section("recordings")
        for recording in recordings.values():
            terminalreporter.line(recording.summary)


@pytest.fixture
def codecall_server(request: pytest.FixtureRequest) -> object:
    """The server that recordings are made with: whatever `fastmcp.Client` takes. From the configuration; override this
    fixture to make one. Asked for only while recording."""
    name: str = request.config.getini("codecall_server")
    if not name:
        pytest.fail(
            "--codecall-record: which server? Name it in the configuration of pytest, `codecall_server`, as "
            "package.module:name or a URL; or define a fixture `codecall_server`",
            pytrace=False,
        )
    return _load_server(name, request.config.rootpath, "codecall_server")


@pytest.fixture
def recording(
    request: pytest.FixtureRequest, codecall_enclave: ScriptEnclave, tool_stub: Stubs
) -> Generator[Callable[..., Tape]]:
    """Answer the calls of scripts of this test from a recording: `recording("fixtures/report.json")`.

    The path is relative to the test file. `pytest --codecall-record` makes the recording, or makes it anew. Stubs come
    first: what has one is neither recorded nor replayed.

    Args:
        path: The file.
        server: Records with this server instead of `codecall_server`; a text as there, or the server itself.
        ordered: Let calls be made only in the order of the recording. By default each is answered whenever it is made.
        mask: Names, or globs, of further values to mask.
    """
    close_callbacks: list[Callable[[], object]] = []

    def use(
        path: str | os.PathLike[str], *, server: object = None, ordered: bool = False, mask: Sequence[str] = ()
    ) -> Tape:
        __tracebackhide__ = True
        if tool_stub.upstream is not None:
            pytest.fail("a test has one recording, or one `tool_stub.behind`")
        file = request.path.parent / path
        name = file.relative_to(request.config.rootpath).as_posix() if _below(file, request.config.rootpath) else file
        names = (*mask, *request.config.getini("codecall_mask"))
        records = bool(request.config.getoption("codecall_record"))
        tape = Tape(file, str(name), records, names=names, ordered=ordered)
        request.node.stash[_tape_key] = tape
        if records:
            from codecall.testing.recording.brokers import RecordingBroker
            from codecall.testing.recording.live import LiveBroker

            target = request.getfixturevalue("codecall_server") if server is None else server
            if isinstance(server, str):
                target = _load_server(server, request.config.rootpath, "recording(server=…)")
            live = LiveBroker(target, codecall_enclave.preset, partial(tool_stub.history.note, "recording"))
            close_callbacks.append(lambda: codecall_enclave.run_in_loop(live.close))
            tool_stub.upstream = RecordingBroker(live, tape.entries)
        else:
            tool_stub.upstream = _replay_broker(tape, tool_stub, request.node)
        return tape

    yield use
    for close in close_callbacks:
        close()


@pytest.fixture
def codecall_marked_recording(request: pytest.FixtureRequest, recording: Callable[..., Tape]) -> Tape:
    """The recording that the marker of this test names."""
    path = _marked_path(request.node)
    if not isinstance(path, (str, os.PathLike)):
        pytest.fail(f"@pytest.mark.{_MARKER}: recording is a path, got {path!r}", pytrace=False)
    return recording(path)


def _replay_broker(tape: Tape, tool_stub: Stubs, item: pytest.Item) -> Any:
    """Create a broker that answers from the recording; fail the test if the recording cannot be read."""
    __tracebackhide__ = True
    from codecall.testing.recording.brokers import ReplayBroker, describe_unrecorded
    from codecall.testing.recording.cassette import RecordingFileError, Replay, read_recording

    entries: list[RecordedCall] = []
    problem = ""
    try:
        entries = read_recording(tape.path)
    except FileNotFoundError:
        problem = f"there is no recording {tape.name}\n{_record_command(item, 'Make it')}"
    except RecordingFileError as failure:
        problem = f"{failure}\n{_record_command(item)}"
    if problem:  # here, outside of the handler: pytest would report the handled exception as well
        pytest.fail(problem, pytrace=False)
    replay = tape.replay = Replay(entries, names=tape.names, ordered=tape.ordered)
    tool_stub.recorded = tuple(dict.fromkeys(entry.name for entry in entries if entry.kind == "tool"))

    def on_unrecorded(request: RecordedCall) -> None:
        text = describe_unrecorded(request, replay, ordered=tape.ordered)
        tool_stub.history.note("recording", f"{tape.name} does not have this call\n{text}", _record_command(item))

    return ReplayBroker(replay, on_unrecorded)


def _write_recording(tape: Tape, item: pytest.Item) -> None:
    """Write the recording of a test.

    Two tests may share a file if they make the same calls.
    """
    from codecall.files import write_project_file
    from codecall.testing.recording.cassette import RecordingFileError, format_recording, read_recording

    try:
        earlier = read_recording(tape.path)
        before = tape.path.read_text(encoding="utf-8")
    except (OSError, RecordingFileError):
        earlier, before = [], None
    text = format_recording(tape.entries, () if tape.ordered else earlier, tape.names)
    recordings = item.config.stash.setdefault(_recordings_key, {})
    if (other := recordings.get(tape.path)) is not None:
        if before != text:
            pytest.fail(
                f"{tape.name} was recorded by {other.test} with other calls: give each test a file of its own",
                pytrace=False,
            )
        return
    tape.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_project_file(tape.path, text)
        problem = ""
    except OSError as failure:
        problem = f"{tape.name} cannot be written: {failure.strerror}"
    if problem:
        pytest.fail(problem, pytrace=False)
    calls = sum(entry.is_call for entry in tape.entries if entry.completed)
    masked = text.count('"masked": [')
    change = "as it was" if text == before else "changed: review it" if before is not None else "new: review it"
    hidden = f", credentials masked in {masked}" if masked else ""
    recordings[tape.path] = WrittenRecording(
        f"{tape.name}: {calls} call{'s' * (calls != 1)}{hidden}; {change}", item.nodeid
    )


def _record_command(item: pytest.Item, action: str = "Make it anew") -> str:
    return f"  {action}: pytest --codecall-record {item.nodeid}"


def _marked_path(item: pytest.Item) -> object:
    """The `recording` of the nearest marker that has one."""
    return next((mark.kwargs["recording"] for mark in item.iter_markers(_MARKER) if "recording" in mark.kwargs), None)


def _below(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _load_server(name: str, root: Path, place: str) -> object:
    """Load the server that a text names; `place` says where the text stands, for messages."""
    __tracebackhide__ = True
    from codecall.testing.servers import ServerNameError, load_server

    try:
        return load_server(name, root)
    except ServerNameError as failure:
        problem = str(failure)
    return pytest.fail(f"{place}: {problem}", pytrace=False)
