"""The cache of vectors on disk: what is kept, for whom, and what happens when the file is not as it should be."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from codecall.catalog.search import vectors
from codecall.catalog.search.vectors import TOUCH_DAYS, TTL_DAYS, Floats, VectorCache

WIDTH = 8


def vector(seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float16).astype(np.float32)


def same(found: dict[str, Floats], expected: dict[str, Floats]) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[text], expected[text]) for text in found)


def test_vectors_come_back(tmp_path: Path):
    kept = {f"text {number}": vector(number) for number in range(1_200)}
    VectorCache(tmp_path / "new", "model", WIDTH).put(kept)
    assert same(VectorCache(tmp_path / "new", "model", WIDTH).get([*kept, "another"]), kept)


def test_what_is_made_is_for_its_owner_alone(tmp_path: Path):
    before = os.umask(0)
    try:
        cache = VectorCache(tmp_path / "new" / "deep", "model", WIDTH)
        cache.put({"text": vector(1)})
    finally:
        os.umask(before)
    made = (tmp_path / "new", tmp_path / "new" / "deep", cache.path)
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o700, 0o600]


def test_nothing_is_made_by_asking(tmp_path: Path):
    cache = VectorCache(tmp_path / "new", "model", WIDTH)
    assert cache.get(["text"]) == {}
    cache.put({})
    assert not (tmp_path / "new").exists()


def test_models_and_widths_are_kept_apart(tmp_path: Path):
    VectorCache(tmp_path, "model at revision 1", WIDTH).put({"text": vector(1)})
    assert VectorCache(tmp_path, "model at revision 2", WIDTH).get(["text"]) == {}
    assert VectorCache(tmp_path, "model at revision 1", WIDTH + 1).get(["text"]) == {}


def test_texts_that_are_no_unicode_have_vectors_too(tmp_path: Path):
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.put({"\ud800": vector(1)})
    assert same(cache.get(["\ud800"]), {"\ud800": vector(1)})


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"\xff" * 500], ids=["text", "torn"])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture):
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.path.write_bytes(content)
    assert cache.get(["text"]) == {}
    cache.put({"text": vector(1)})
    assert same(cache.get(["text"]), {"text": vector(1)})
    assert [record.message for record in caplog.records] == [
        f"The cache of search vectors {cache.path} is damaged and begun anew"
    ]


def test_a_file_cut_short_is_begun_anew(tmp_path: Path):
    cache = VectorCache(tmp_path, "model", WIDTH)
    kept = {f"text {number}": vector(number) for number in range(500)}
    cache.put(kept)
    cache.path.write_bytes(cache.path.read_bytes()[: cache.path.stat().st_size // 2])
    cache.get(list(kept))
    cache.put(kept)
    assert same(cache.get(list(kept)), kept)


def test_a_vector_that_was_damaged_inside_is_not_taken(tmp_path: Path):
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.put({"good": vector(1), "bad": vector(2)})
    blob = vector(2).astype(np.float16).tobytes()
    cache.path.write_bytes(cache.path.read_bytes().replace(blob, blob[::-1]))
    assert same(cache.get(["good", "bad"]), {"good": vector(1)})


def test_a_folder_that_cannot_be_used_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "file").write_text("in the way")
    cache = VectorCache(tmp_path / "file" / "folder", "model", WIDTH)
    for _ in range(3):
        cache.put({"text": vector(1)})
        assert cache.get(["text"]) == {}
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.message.split(" (")[0] for record in told] == ["Search vectors are not kept on disk"]


def refused(cache: VectorCache, caplog: pytest.LogCaptureFixture) -> str:
    """What the one warning says of a cache that is not used."""
    for _ in range(3):
        cache.put({"text": vector(1)})
        assert cache.get(["text"]) == {}
    (told,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    return told


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(tmp_path: Path, there: bool, caplog: pytest.LogCaptureFixture):
    cache = VectorCache(tmp_path / "cache", "model", WIDTH)
    cache.path.parent.mkdir(mode=0o700)
    target = tmp_path / "other"
    if there:
        target.touch(0o600)
    cache.path.symlink_to(target)
    assert "it is a link" in refused(cache, caplog)
    assert (target.stat().st_size == 0) if there else not target.exists()


@pytest.mark.parametrize("mode", [0o770, 0o702])
@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_others_may_write_is_not_used(tmp_path: Path, mode: int, which: str, caplog: pytest.LogCaptureFixture):
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.put({"text": vector(1)})
    path = tmp_path if which == "folder" else cache.path
    path.chmod(mode)
    assert f"others may write to {path}" in refused(cache, caplog)


def test_what_belongs_to_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert f"{tmp_path} belongs to another user" in refused(VectorCache(tmp_path, "model", WIDTH), caplog)


@pytest.mark.parametrize(
    "more",
    [
        "CREATE TABLE log (x); "
        "CREATE TRIGGER t AFTER INSERT ON vectors BEGIN INSERT INTO log VALUES (hex(new.vector)); END",
        "CREATE VIEW v AS SELECT * FROM vectors",
        "DROP TABLE vectors; CREATE VIEW vectors AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT x AS key, x AS used, 0 AS checksum, zeroblob(16) AS vector FROM c",
        "DROP TABLE vectors; CREATE TABLE vectors (key, used, checksum, vector)",
        "DROP TABLE vectors; CREATE TABLE letters (text)",
    ],
    ids=["trigger", "view", "view in place of the table", "another layout", "another database"],
)
def test_a_file_that_holds_anything_else_is_left_alone(tmp_path: Path, more: str, caplog: pytest.LogCaptureFixture):
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.put({"text": vector(1)})
    with closing(sqlite3.connect(cache.path)) as other:
        other.executescript(more)
    before = cache.path.read_bytes()
    assert "holds more than a cache of vectors" in refused(cache, caplog)
    assert cache.path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "used = 'x'",
        "used = 9e99",
        "checksum = 'x'",
        "vector = 5",
        "vector = 'text'",
        "vector = zeroblob(20)",
        "vector = zeroblob(1000000)",
        "vector = zeroblob(200000000)",
    ],
)
def test_a_row_that_is_not_as_it_should_be_counts_as_absent(
    tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
):
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.put({"good": vector(1)})
    cache.put({"bad": vector(2)})
    with closing(sqlite3.connect(cache.path)) as other, other:
        bad = "key = (SELECT key FROM vectors WHERE vector = ?)"
        other.execute(f"UPDATE vectors SET {change} WHERE {bad}", (vector(2).astype(np.float16).tobytes(),))
    tracemalloc.start()
    try:
        assert same(cache.get(["good", "bad"]), {"good": vector(1)})
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    cache.put({"bad": vector(2)})
    assert same(cache.get(["good", "bad"]), {"good": vector(1), "bad": vector(2)})
    assert not caplog.records


def test_another_writer_is_waited_for(tmp_path: Path):
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.put({"first": vector(1)})
    with closing(sqlite3.connect(cache.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=cache.put, args=({"second": vector(2)},))
        writer.start()
        assert same(cache.get(["first", "second"]), {"first": vector(1)})
        other.rollback()
        writer.join()
    assert same(cache.get(["second"]), {"second": vector(2)})


def test_a_writer_that_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(vectors, "BUSY_SECONDS", 0.05)
    cache = VectorCache(tmp_path, "model", WIDTH)
    cache.put({"first": vector(1)})
    with closing(sqlite3.connect(cache.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        cache.put({"second": vector(2)})
        other.rollback()
    assert "locked" in caplog.text
    assert same(cache.get(["first", "second"]), {"first": vector(1)})


def test_several_processes_write_at_once(tmp_path: Path):
    program = """
import sys
from pathlib import Path
import numpy as np
from codecall.catalog.search.vectors import VectorCache
cache = VectorCache(Path(sys.argv[1]), "model", 8)
for number in range(20):
    cache.put({f"{sys.argv[2]} {number}": np.full(8, number, dtype=np.float32), f"shared {number}": np.full(8, 1.0)})
"""
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in ("one", "two", "three")
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    texts = [f"{name} {number}" for name in ("one", "two", "three", "shared") for number in range(20)]
    assert len(VectorCache(tmp_path, "model", WIDTH).get(texts)) == 80


def test_what_is_not_used_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    day = 20_000
    monkeypatch.setattr(vectors, "_today", lambda: day)
    VectorCache(tmp_path, "model", WIDTH).put({"used": vector(1), "unused": vector(2)})
    day += TOUCH_DAYS + 1
    assert len(VectorCache(tmp_path, "model", WIDTH).get(["used"])) == 1
    day += TTL_DAYS
    VectorCache(tmp_path, "model", WIDTH).put({"new": vector(3)})
    assert VectorCache(tmp_path, "model", WIDTH).get(["used", "unused", "new"]).keys() == {"used", "new"}
