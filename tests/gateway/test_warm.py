"""The record on disk: when it is used, and that any doubt leaves it unused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codecall.gateway.config.mcp_clients import CLIENTS, Machine, client_files
from codecall.gateway.warm_start.record import IRREGULAR, MAX_ANSWERS, PLACES, Seen, folder, keep, place, recall

WORDS = ["--config", "mcp.json"]
ANSWERS = {"question": '{"tools":[]}'}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record of one configuration, one catalog, one package and one variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODECALL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TEAM", "blue")
    for name in ("mcp.json", "alpha.listing", "METADATA"):
        (tmp_path / name).write_text("as it was")
    path = place(WORDS)
    assert path is not None
    files = [str(tmp_path / name) for name in ("mcp.json", "alpha.listing", "not-there.toml")]
    keep(path, ANSWERS, files=files, packages=[str(tmp_path / "METADATA")], named=["TEAM"])
    return Path(path)


def test_a_record_is_found_again(kept: Path):
    assert recall(place(WORDS)) == ANSWERS
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert "blue" not in kept.read_text()


def test_a_file_written_again_as_it_was_changes_nothing(kept: Path, tmp_path: Path):
    (tmp_path / "alpha.listing").write_text("as it was")
    assert recall(str(kept)) == ANSWERS


def _other_text(name: str) -> Callable[[Path, Path], object]:
    return lambda folder, _: (folder / name).write_text("as it is")


@pytest.mark.parametrize(
    "change",
    [
        _other_text("mcp.json"),
        _other_text("alpha.listing"),
        _other_text("not-there.toml"),
        _other_text("METADATA"),
        lambda folder, _: (folder / "mcp.json").unlink(),
        lambda _, record: record.write_text(record.read_text()[:-20]),
        lambda _, record: record.write_text("[]"),
        lambda _, record: record.write_text(record.read_text().replace('"format": 1', '"format": 0')),
        lambda _, record: record.chmod(0o620),
        lambda _, record: record.parent.chmod(0o777),
        lambda folder, record: (record.rename(folder / "elsewhere"), record.symlink_to(folder / "elsewhere")),
    ],
    ids=[
        *("configuration", "catalog", "one appeared", "package", "gone", "cut off", "other JSON", "format"),
        *("writable by others", "folder writable by others", "link"),
    ],
)
def test_any_doubt_leaves_it_unused(kept: Path, tmp_path: Path, change: Callable[[Path, Path], object]):
    change(tmp_path, kept)
    assert recall(str(kept)) == {}


@pytest.mark.parametrize("name", ["TEAM", "CODECALL_ANYTHING", "FASTMCP_LOG_LEVEL", "XDG_CONFIG_HOME"])
def test_another_environment_is_another_start(kept: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(name, "green")
    assert recall(place(WORDS)) == {}


def test_other_words_or_another_folder_are_another_start(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert recall(place([*WORDS, "--read-only"])) == {}
    monkeypatch.chdir(tmp_path.parent)
    assert recall(place(WORDS)) == {}


def test_words_say_where_it_is(tmp_path: Path):
    assert place(["--no-cache"]) is None
    for words in (["--cache-dir", str(tmp_path)], [f"--cache-dir={tmp_path}"]):
        path = place(words)
        assert path is not None
        assert Path(path).parent == tmp_path / "starts"


def test_a_record_that_cannot_be_written_is_done_without(tmp_path: Path):
    (tmp_path / "starts").write_text("a file")
    keep(str(tmp_path / "starts" / "x.json"), ANSWERS, files=[])
    assert recall(str(tmp_path / "starts" / "x.json")) == {}


def test_where_records_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CODECALL_CACHE_DIR", "/c")
    assert folder([]) == "/c/starts"
    assert folder(["--cache-dir", "/d"]) == folder(["--cache-dir=/d"]) == "/d/starts"
    assert folder(["--cache-dir"]) == "/c/starts"
    assert folder(["--no-cache"]) is None


def test_the_newest_answers_stay(tmp_path: Path):
    path = str(tmp_path / "starts" / "x.json")
    keep(path, {f"question {number}": "{}" for number in range(MAX_ANSWERS + 5)}, files=[])
    assert list(recall(path)) == [f"question {number}" for number in range(5, MAX_ANSWERS + 5)]


@pytest.mark.parametrize("made", ["a pipe", "a name of the shell's"])
def test_what_can_be_read_once_is_neither_read_nor_recorded(tmp_path: Path, made: str):
    ends = os.pipe()
    os.write(ends[1], b"{}")
    file = f"/dev/fd/{ends[0]}"
    if made == "a pipe":
        file = str(tmp_path / "mcp.json")
        os.mkfifo(file)  # nobody writes to it: opening it would wait
    path = str(tmp_path / "starts" / "x.json")
    keep(path, ANSWERS, files=[file])
    assert recall(path) == {}
    assert not Path(path).exists()
    # One that was a file when the record was written:
    assert Seen.of(file, contents=True).size == IRREGULAR
    assert os.read(ends[0], 9) == b"{}"
    for end in ends:
        os.close(end)


def test_a_file_in_whose_place_a_pipe_is_leaves_it_unused(kept: Path, tmp_path: Path):
    (tmp_path / "mcp.json").unlink()
    os.mkfifo(tmp_path / "mcp.json")
    assert recall(str(kept)) == {}


class Asked(dict[str, str]):
    """An environment that notes what is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """None of them is set."""
        self.names.add(name)
        return default


def test_all_variables_that_say_where_clients_keep_files_are_part_of_a_start(tmp_path: Path):
    asked = Asked()
    for platform in ("linux", "darwin", "win32"):
        for client in CLIENTS:
            client_files(client, folder=tmp_path, machine=Machine(platform, tmp_path, asked))
    assert "CLAUDE_CONFIG_DIR" in asked.names
    assert asked.names <= {*PLACES}
