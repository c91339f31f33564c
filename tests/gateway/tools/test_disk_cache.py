"""Listings on disk: what is written and believed, and what is not."""

from __future__ import annotations

import logging
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codecall.gateway.config.options import AnyServer, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.tools import disk_cache as keeping
from codecall.gateway.tools.disk_cache import ListingCacheFile, cache_folder, config_fingerprint, remove_old_files
from codecall.gateway.upstream.listing import Listing

HERE = Listing(instructions="hello")
posix = pytest.mark.skipif(sys.platform == "win32", reason="rights are lists there")


@pytest.fixture
def kept(tmp_path: Path) -> ListingCacheFile:
    """The file of some server, which is not there yet."""
    return ListingCacheFile.from_server(tmp_path / "cache", "git", StdioServer(command="git-server"))


def test_what_was_saved_is_loaded_and_its_age_is_known(kept: ListingCacheFile):
    assert (kept.load(), kept.age_s()) == (None, None)
    kept.save(HERE)
    assert kept.load() == HERE
    assert (kept.age_s() or 0) < 60
    os.utime(kept.path, (0, 0))
    assert (kept.age_s() or 0) > 1e6
    kept.confirm()
    assert (kept.age_s() or 0) < 60


@posix
def test_files_and_folders_are_for_their_owner_alone(kept: ListingCacheFile):
    kept.save(HERE)
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in kept.path.parent.iterdir()] == [kept.path.name]


@posix
def test_what_others_may_write_to_is_neither_read_nor_written(kept: ListingCacheFile, caplog: pytest.LogCaptureFixture):
    kept.save(HERE)
    kept.path.parent.chmod(0o777)
    assert kept.load() is None
    kept.save(Listing())
    assert "others may write to" in caplog.text
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    kept.path.parent.chmod(0o700)
    kept.path.chmod(0o666)
    assert kept.load() is None


@posix
def test_links_and_pipes_are_not_followed(kept: ListingCacheFile, tmp_path: Path):
    kept.save(HERE)
    elsewhere = tmp_path / "elsewhere"
    kept.path.rename(elsewhere)
    kept.path.symlink_to(elsewhere)
    assert kept.load() is None
    kept.save(Listing(instructions="mine"))  # takes the link's place
    assert kept.load() == Listing(instructions="mine")
    assert b"hello" in elsewhere.read_bytes()
    kept.path.unlink()
    os.mkfifo(kept.path)
    assert kept.load() is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda text: text[:-1],
    "changed": lambda text: text.replace(b"hello", b"hallo"),
    "of another version": lambda text: text.replace(b"listing 1", b"listing 0"),
    "empty": lambda _: b"",
    "foreign": lambda _: b"\n" * 100,
    "headless": lambda text: text.partition(b"\n")[2],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_not_believed_is_said_and_written_anew(
    kept: ListingCacheFile, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
):
    kept.save(HERE)
    kept.path.write_bytes(damage(kept.path.read_bytes()))
    assert kept.load() is None
    assert "is not used" in caplog.text
    kept.save(HERE)
    assert kept.load() == HERE


def test_neither_a_large_file_is_read_nor_a_large_listing_written(
    kept: ListingCacheFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    kept.save(HERE)
    monkeypatch.setattr(keeping, "MAX_BYTES", 10)
    assert kept.load() is None
    assert "larger than 10 bytes" in caplog.text
    ListingCacheFile(kept.path).save(Listing(instructions="other"))
    monkeypatch.undo()
    assert kept.load() == HERE


def test_a_server_configured_in_another_way_has_another_file():
    base = StdioServer(command="a", args=("b",), env={"TOKEN": "one"})
    assert config_fingerprint("x", base) == config_fingerprint("x", base.model_copy(update={"env": {"TOKEN": "two"}}))
    same = {"idle_s": 5.0, "call_timeout_s": 3.0, "description": "d"}
    assert config_fingerprint("x", base) == config_fingerprint("x", base.model_copy(update=same))
    others: list[tuple[str, AnyServer]] = [
        ("y", base),
        ("x", base.model_copy(update={"args": ("c",)})),
        ("x", base.model_copy(update={"cwd": "/tmp"})),
        ("x", base.model_copy(update={"env": {}})),
        ("x", base.model_copy(update={"command": "b"})),
        ("x", base.model_copy(update={"per_client": True})),
        ("x", HttpServer(url="https://a")),
        ("x", HttpServer(url="https://a", headers={"Authorization": "t"})),
        ("x", HttpServer(url="https://b")),
        ("x", OpenApiServer(openapi="https://a")),
        ("x", OpenApiServer(openapi="https://a", base_url="https://b")),
        ("x", base),
    ]
    assert len({config_fingerprint(*other) for other in others}) == len(others)


def test_the_same_words_in_another_folder_have_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = StdioServer(command="a", args=("b",))
    web = HttpServer(url="https://a")
    servers = {
        "without a folder": (program, True),
        "in one below": (program.model_copy(update={"cwd": "sub"}), True),
        "of the workspace": (program.model_copy(update={"cwd": "/", "args": ("${workspaceFolder}/x",)}), True),
        "with an absolute one": (program.model_copy(update={"cwd": str(tmp_path)}), False),
        "on the web": (web, False),
        "on the web, for the workspace": (HttpServer(url="https://a/${workspaceFolderBasename}"), True),
        "a document": (OpenApiServer(openapi="api.json"), True),
    }
    found: list[dict[str, str]] = []
    for name in "ab":
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.append({what: config_fingerprint("x", server) for what, (server, _) in servers.items()})
    assert {what: found[0][what] != found[1][what] for what in servers} == {
        what: differs for what, (_, differs) in servers.items()
    }


def test_what_references_stand_for_counts_where_it_says_what_is_started(monkeypatch: pytest.MonkeyPatch):
    program = StdioServer(command="a", args=("--db", "${DB}"), env={"TOKEN": "${TOKEN}"})
    seen: set[str] = set()
    for value in (None, "one", "two"):
        if value is not None:
            monkeypatch.setenv("DB", value)
        seen.add(config_fingerprint("x", program))
    seen.add(config_fingerprint("x", program.model_copy(update={"env": {"TOKEN": "${TOKEN}", "DB": "own"}})))
    assert len(seen) == 4
    before = config_fingerprint("x", program)
    monkeypatch.setenv("TOKEN", "new")
    assert config_fingerprint("x", program) == before
    home = config_fingerprint("x", StdioServer(command="~/server", cwd="/"))
    monkeypatch.setenv("HOME", "/elsewhere")
    assert config_fingerprint("x", StdioServer(command="~/server", cwd="/")) != home


def test_secrets_of_a_configuration_are_not_in_its_file(tmp_path: Path):
    server = StdioServer(command="a", args=("--token", "s3cr3t"), env={"KEY": "s3cr3t"})
    kept = ListingCacheFile.from_server(tmp_path, "n", server)
    kept.save(HERE)
    assert "s3cr3t" not in str(kept.path)
    assert b"s3cr3t" not in kept.path.read_bytes()


def test_old_files_go(tmp_path: Path):
    old, new, foreign = tmp_path / "old.listing", tmp_path / "new.listing", tmp_path / "other.txt"
    left_over = tmp_path / ".codecall-1.part"
    for path in (old, new, foreign, left_over):
        path.touch()
    long_ago = time.time() - (keeping.MAX_AGE_DAYS + 1) * 86_400
    os.utime(old, (long_ago, long_ago))
    os.utime(foreign, (long_ago, long_ago))
    os.utime(left_over, (long_ago, long_ago))
    remove_old_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.listing", "other.txt"]


def test_where_they_are(tmp_path: Path):
    assert cache_folder(False) is None
    assert cache_folder(str(tmp_path)) == tmp_path / "listings"
    usual = cache_folder(None)
    assert usual is not None
    assert usual.parts[-2:] == ("codecall", "listings")
