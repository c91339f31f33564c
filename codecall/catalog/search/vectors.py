"""Stores of vectors: a cache on disk, by text, and the matrix in memory, by document.

The cache is in SQLite, because it is in the standard library and does what a cache that several processes share needs:
a write is there as a whole or not at all, writers wait for each other, and thousands of keys are looked up in
milliseconds. Nothing that is read from the file is ever executed: a file is used only if it is a plain one, belongs to
this user, is writable by nobody else, and holds our one table and no trigger or view.

A cache may fail, and search must only become slower. A failure is logged once, and the cache then counts as empty. A
damaged file is deleted and started anew; each vector has a checksum, so that damage inside is noticed too.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from codecall.files import check_private_file, make_private_folders

logger = logging.getLogger("codecall")

Floats = NDArray[np.float32]

FILE_NAME = "vectors-2.sqlite3"
"""The cache in its folder; the number is that of the layout."""

TTL_DAYS = 90
"""Days after its last use that a vector is kept."""

TOUCH_DAYS = 7
"""A use is recorded only when the last recorded one is so many days old, so that most starts write nothing."""

BUSY_SECONDS = 10.0
"""Seconds that a process waits for another one that writes."""

_TABLE = """vectors (
    key INTEGER PRIMARY KEY, -- of the model and the text: the first half of their digest
    used INTEGER NOT NULL, -- the day, counted from 1970
    checksum INTEGER NOT NULL, -- of the whole digest and the vector
    vector BLOB NOT NULL -- 16-bit floats
)"""
# The key is the row's number because SQLite reads rows whole, whatever their size, to compare a key of another kind.

_KEYS_PER_QUERY = 500

_MAX_ROW_BYTES = 65_536
"""Bytes of a row or of the table's definition that SQLite may read: four times the longest vector of a known model. A
row that is longer is damage."""

T = TypeVar("T")

_creating = threading.Lock()
"""Held while the file is created: closing it would drop the locks of another thread that has just opened it."""

Ints = NDArray[np.int32]

_FIRST_ROWS = 256


class VectorCache:
    """The vectors of one model by text, in a file that many models and processes may share. Any thread may use it.

    They are kept as 16-bit floats, half the size; a cosine changes by less than 0.001.
    """

    def __init__(self, folder: Path, model: str, width: int) -> None:
        """
        Args:
            folder: the folder of the file. Both are created when a vector is first stored, for their owner alone; an
                existing folder must be this user's, and writable by nobody else.
            model: identity of the model: two models, or two revisions of one, must not share it.
            width: length of a vector; vectors of another length are not read.
        """
        self.path = folder / FILE_NAME
        self._salt = blake2b(f"{model}\0{width}".encode(), digest_size=16).digest()
        self._width = width
        self._expired_removed = False
        self._failure_logged = False

    def get(self, texts: Collection[str]) -> dict[str, Floats]:
        """Returns the stored vectors of these texts."""
        return self._recovering(lambda: self._read(texts)) or {} if texts else {}

    def put(self, vectors: Mapping[str, Floats]) -> None:
        """Stores vectors, all or none of them."""
        if vectors:
            self._recovering(lambda: self._write(vectors))

    def _read(self, texts: Collection[str]) -> dict[str, Floats]:
        if not os.path.lexists(self.path):
            return {}
        wanted = {_key(digest): (digest, text) for text in texts for digest in (self._digest(text),)}
        vectors: dict[str, Floats] = {}
        stale: list[int] = []
        today = _today()
        with closing(self._open()) as database:
            for key, used, checksum, blob in _rows(database, list(wanted), 2 * self._width):
                digest, text = wanted[key]
                if _checksum(digest, blob) == checksum:
                    vectors[text] = np.frombuffer(blob, dtype=np.float16).astype(np.float32)
                    if used < today - TOUCH_DAYS:
                        stale.append(key)
            if stale:
                with database:
                    database.executemany("UPDATE vectors SET used = ? WHERE key = ?", ((today, key) for key in stale))
        return vectors

    def _write(self, vectors: Mapping[str, Floats]) -> None:
        today = _today()
        blobs = ((self._digest(text), vector.astype(np.float16).tobytes()) for text, vector in vectors.items())
        rows = [(_key(digest), today, _checksum(digest, blob), blob) for digest, blob in blobs]
        with closing(self._open()) as database, database:
            if not self._expired_removed:
                # What is no day is damage, and would stay for ever.
                database.execute("DELETE FROM vectors WHERE used < ? OR typeof(used) != 'integer'", (today - TTL_DAYS,))
                self._expired_removed = True
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    def _open(self) -> sqlite3.Connection:
        with _creating:
            _create_file(self.path)
        check_private_file(self.path.parent, self.path.parent.stat())
        status = self.path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError("it is a link, or no file at all; remove it")
        check_private_file(self.path, status)
        database = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
            database.execute("PRAGMA trusted_schema = OFF")
            _require_only_our_table(database)
        except BaseException:
            database.close()
            raise
        return database

    def _digest(self, text: str) -> bytes:
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=self._salt).digest()

    def _recovering(self, operation: Callable[[], T]) -> T | None:
        """Returns the result of `operation`; None where the file cannot be used."""
        for last in (False, True):
            try:
                return operation()
            except (sqlite3.Error, OSError) as failure:
                # Only damage has exactly this class; locks, full disks and missing rights have one of their own.
                if last or type(failure) is not sqlite3.DatabaseError:
                    self._log_failure(failure)
                    return None
                logger.warning("The cache of search vectors %s is damaged and begun anew", self.path)
                if not self._remove_damaged():
                    return None
        return None

    def _remove_damaged(self) -> bool:
        """Deletes the damaged file; returns whether that worked. Processes that have it open go on with their data."""
        try:
            for suffix in ("", "-journal"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError as failure:
            self._log_failure(failure)
            return False
        return True

    def _log_failure(self, failure: Exception) -> None:
        level = logging.DEBUG if self._failure_logged else logging.WARNING
        self._failure_logged = True
        logger.log(level, "Search vectors are not kept on disk (%s): %s", self.path, failure)


class VectorMatrix:
    """The vectors of documents by id, in one matrix that grows. Any thread may use it.

    10,000 vectors of 384 numbers take 15 to 25 MB: the matrix doubles when it is full, and rows are reused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._matrix: Floats | None = None
        self._row_of: Ints = np.zeros(0, dtype=np.int32)
        self._free_rows: list[int] = []
        self._used_rows = 0
        self._expected: set[int] = set()

    def expect(self, numbers: Collection[int]) -> None:
        """Announces documents; vectors are stored of announced documents only."""
        with self._lock:
            self._expected.update(numbers)

    def put(self, vectors: Mapping[int, Floats]) -> None:
        """Stores vectors of expected documents; those removed meanwhile are left out, and zero vectors."""
        with self._lock:
            for document, vector in vectors.items():
                if document in self._expected and vector.any():
                    self._place(document, vector)

    def remove(self, numbers: Collection[int]) -> None:
        """Removes the vectors of these documents, which are no longer expected."""
        with self._lock:
            self._expected.difference_update(numbers)
            for document in numbers:
                if document < len(self._row_of) and self._row_of[document] >= 0:
                    self._free_rows.append(int(self._row_of[document]))
                    self._row_of[document] = -1

    def cosines(self, view: Ints, vector: Floats) -> Floats:
        """Returns the product of `vector` with that of each document of `view`, to 5 decimals; NaN where there is none.

        The result is equal to the last digit whatever other documents there are.
        """
        cosines = np.full(len(view), np.nan, dtype=np.float32)
        with self._lock:
            rows = self._rows_of(view)
            has_vector = rows >= 0
            if self._matrix is None or not has_vector.any():
                return cosines
            if 2 * len(view) >= self._used_rows:
                # To copy the rows of a large view takes longer than to multiply all.
                products = _products(self._matrix[: self._used_rows], vector)[rows[has_vector]]
            else:
                products = _products(self._matrix[rows[has_vector]], vector)
        cosines[has_vector] = np.round(products, 5)
        return cosines

    def count(self, view: Ints) -> int:
        """Returns how many documents of `view` have a vector."""
        with self._lock:
            return int(np.count_nonzero(self._rows_of(view) >= 0))

    def _place(self, document: int, vector: Floats) -> None:
        """Stores `vector` as the row of a document."""
        if document >= len(self._row_of):
            grown = np.full(max(document + 1, 2 * len(self._row_of)), -1, dtype=np.int32)
            grown[: len(self._row_of)] = self._row_of
            self._row_of = grown
        if self._matrix is None:
            self._matrix = np.zeros((_FIRST_ROWS, len(vector)), dtype=np.float32)
        row = int(self._row_of[document])
        if row < 0:
            row = self._free_rows.pop() if self._free_rows else self._used_rows
            if row == self._used_rows:
                self._used_rows += 1
                if row >= len(self._matrix):
                    self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self._row_of[document] = row
        self._matrix[row] = vector

    def _rows_of(self, view: Ints) -> Ints:
        if len(self._row_of) == 0:
            return np.full(len(view), -1, dtype=np.int32)
        inside = np.minimum(view, len(self._row_of) - 1)
        return np.where(view < len(self._row_of), self._row_of[inside], np.int32(-1))


def _create_file(path: Path) -> None:
    """Creates the file and its folders where they are missing, for their owner alone."""
    make_private_folders(path.parent)
    if not os.path.lexists(path):
        # An existing link is no missing file to O_EXCL, so none is followed. Another process may be faster.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _require_only_our_table(database: sqlite3.Connection) -> None:
    """Creates the table in an empty file; refuses a file that holds anything else, beside it or in its place."""
    for may_be_empty in (True, False):
        tables = database.execute("SELECT sql FROM sqlite_master LIMIT 2").fetchall()
        if tables == [(f"CREATE TABLE {_TABLE}",)]:
            return
        if may_be_empty and not tables:
            database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
    raise PermissionError("it holds more than a cache of vectors, or something else; remove it")


def _rows(database: sqlite3.Connection, keys: list[int], length: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Selects the valid rows; a value of another type or length is not even read."""
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        part = keys[start : start + _KEYS_PER_QUERY]
        marks = ",".join("?" * len(part))
        rows = database.execute(
            f"SELECT key, used, checksum, vector FROM vectors WHERE key IN ({marks}) "  # noqa: S608 - only question marks
            "AND typeof(used) = 'integer' AND typeof(checksum) = 'integer' "
            "AND typeof(vector) = 'blob' AND length(vector) = ?",
            (*part, length),
        )
        yield from cast("Iterator[tuple[int, int, int, bytes]]", rows)


def _key(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big", signed=True)


def _checksum(digest: bytes, blob: bytes) -> int:
    return zlib.crc32(blob, zlib.crc32(digest))


def _today() -> int:
    return int(time.time() // 86_400)


def _products(matrix: Floats, vector: Floats) -> Floats:
    """`matrix @ vector`, in this thread alone: BLAS uses several, and on a busy machine waits for the last of them (8
    ms instead of 0.1)."""
    return cast("Floats", np.einsum("ij,j->i", matrix, vector))
