"""The vectors of texts, kept on disk from one start to the next.

SQLite, because it is in the standard library and does what a cache that several processes share needs: a write is there
as a whole or not at all, writers wait for each other, and thousands of keys are looked up in milliseconds. Nothing that
is read from the file is ever executed: a file is used only if it is a plain one, belongs to this user, is writable by
nobody else, and holds our one table and no trigger or view.

A cache may fail, and search must not notice but for time. What goes wrong is logged once, and the cache is then empty.
A file that is torn is deleted and begun anew; each vector has a checksum, so that damage inside is seen too.
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
"""A use is noted only when the last one noted is so many days old, so that most starts write nothing."""

BUSY_SECONDS = 10.0
"""How long a process waits for another one that writes."""

_TABLE = """vectors (
    key INTEGER PRIMARY KEY, -- of the model and the text: the first half of their digest
    used INTEGER NOT NULL, -- the day, counted from 1970
    checksum INTEGER NOT NULL, -- of the whole digest and the vector
    vector BLOB NOT NULL -- 16-bit floats
)"""
# The key is the row's number because SQLite reads rows whole, whatever their size, to compare a key of another kind.

_KEYS_A_QUERY = 500

_LONGEST = 65_536
"""Bytes of a row or of the table's definition that SQLite may read: four times the longest vector of a known model. A
row that is longer is damage."""

T = TypeVar("T")

_creating = threading.Lock()
"""Held while a file is made: closing it would take the locks of another thread that has just opened it."""

Ints = NDArray[np.int32]

_FIRST_ROWS = 256


class VectorCache:
    """Vectors of one model by text, in a file that many models and processes may share. Any thread may use it.

    They are kept as 16-bit floats, half the size; a cosine changes by less than 0.001.
    """

    def __init__(self, folder: Path, model: str, width: int) -> None:
        """
        Args:
            folder: where the file is. Both are made when something is first kept, for their owner alone; a folder that
                is there already must be this user's, and writable by nobody else.
            model: identity of the model: two models, or two revisions of one, must not share it.
            width: numbers of a vector; what has another length is not taken from the file.
        """
        self.path = folder / FILE_NAME
        self._salt = blake2b(f"{model}\0{width}".encode(), digest_size=16).digest()
        self._width = width
        self._tidied = False
        self._complained = False

    def get(self, texts: Collection[str]) -> dict[str, Floats]:
        """The vectors that are kept of these texts."""
        return self._tried(lambda: self._read(texts)) or {} if texts else {}

    def put(self, vectors: Mapping[str, Floats]) -> None:
        """Keep these vectors, as a whole or not at all."""
        if vectors:
            self._tried(lambda: self._write(vectors))

    def _read(self, texts: Collection[str]) -> dict[str, Floats]:
        if not os.path.lexists(self.path):
            return {}
        wanted = {_number(digest): (digest, text) for text in texts for digest in (self._digest(text),)}
        found: dict[str, Floats] = {}
        stale: list[int] = []
        today = _today()
        with closing(self._open()) as database:
            for key, used, checksum, blob in _rows(database, list(wanted), 2 * self._width):
                digest, text = wanted[key]
                if _checksum(digest, blob) == checksum:
                    found[text] = np.frombuffer(blob, dtype=np.float16).astype(np.float32)
                    if used < today - TOUCH_DAYS:
                        stale.append(key)
            if stale:
                with database:
                    database.executemany("UPDATE vectors SET used = ? WHERE key = ?", ((today, key) for key in stale))
        return found

    def _write(self, vectors: Mapping[str, Floats]) -> None:
        today = _today()
        blobs = ((self._digest(text), vector.astype(np.float16).tobytes()) for text, vector in vectors.items())
        rows = [(_number(digest), today, _checksum(digest, blob), blob) for digest, blob in blobs]
        with closing(self._open()) as database, database:
            if not self._tidied:
                # What is no day is damage, and would stay for ever.
                database.execute("DELETE FROM vectors WHERE used < ? OR typeof(used) != 'integer'", (today - TTL_DAYS,))
                self._tidied = True
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    def _open(self) -> sqlite3.Connection:
        with _creating:
            _make(self.path)
        check_private_file(self.path.parent, self.path.parent.stat())
        status = self.path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError("it is a link, or no file at all; remove it")
        check_private_file(self.path, status)
        database = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            database.execute("PRAGMA trusted_schema = OFF")
            _expect_our_table(database)
        except BaseException:
            database.close()
            raise
        return database

    def _digest(self, text: str) -> bytes:
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=self._salt).digest()

    def _tried(self, work: Callable[[], T]) -> T | None:
        """What `work` gives; None where the file cannot be used."""
        for last in (False, True):
            try:
                return work()
            except (sqlite3.Error, OSError) as failure:
                # Only damage has exactly this class; locks, full disks and missing rights have one of their own.
                if last or type(failure) is not sqlite3.DatabaseError:
                    self._complain(failure)
                    return None
                logger.warning("The cache of search vectors %s is damaged and begun anew", self.path)
                if not self._removed():
                    return None
        return None

    def _removed(self) -> bool:
        """Whether the damaged file is out of the way. Processes that have it open go on with what they have."""
        try:
            for suffix in ("", "-journal"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError as failure:
            self._complain(failure)
            return False
        return True

    def _complain(self, failure: Exception) -> None:
        level = logging.DEBUG if self._complained else logging.WARNING
        self._complained = True
        logger.log(level, "Search vectors are not kept on disk (%s): %s", self.path, failure)


class VectorMatrix:
    """One vector for each document that has one. Any thread may use it.

    10,000 vectors of 384 numbers take 15 to 25 MB: the matrix doubles when it is full, and rows are used again.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._matrix: Floats | None = None
        self._row_of: Ints = np.zeros(0, dtype=np.int32)
        self._free: list[int] = []
        self._used = 0
        self._expected: set[int] = set()

    def expect(self, numbers: Collection[int]) -> None:
        """Vectors of these documents will come; only of such are any taken."""
        with self._guard:
            self._expected.update(numbers)

    def put(self, vectors: Mapping[int, Floats]) -> None:
        """Take in vectors of documents that are expected; those forgotten meanwhile are left out, and zero ones."""
        with self._guard:
            for number, vector in vectors.items():
                if number in self._expected and vector.any():
                    self._place(number, vector)

    def remove(self, numbers: Collection[int]) -> None:
        """Drop the vectors of these documents, and expect none."""
        with self._guard:
            self._expected.difference_update(numbers)
            for number in numbers:
                if number < len(self._row_of) and self._row_of[number] >= 0:
                    self._free.append(int(self._row_of[number]))
                    self._row_of[number] = -1

    def cosines(self, view: Ints, vector: Floats) -> Floats:
        """The product of `vector` with that of each document of `view`, to 5 decimals; NaN where there is none.

        Equal to the last digit whatever documents there are besides.
        """
        found = np.full(len(view), np.nan, dtype=np.float32)
        with self._guard:
            rows = self._rows_of(view)
            known = rows >= 0
            if self._matrix is None or not known.any():
                return found
            if 2 * len(view) >= self._used:
                # To copy the rows of a large view takes longer than to multiply all.
                products = _products(self._matrix[: self._used], vector)[rows[known]]
            else:
                products = _products(self._matrix[rows[known]], vector)
        found[known] = np.round(products, 5)
        return found

    def count(self, view: Ints) -> int:
        """How many documents of `view` have a vector."""
        with self._guard:
            return int(np.count_nonzero(self._rows_of(view) >= 0))

    def _place(self, number: int, vector: Floats) -> None:
        """Make `vector` the row of document `number`."""
        if number >= len(self._row_of):
            grown = np.full(max(number + 1, 2 * len(self._row_of)), -1, dtype=np.int32)
            grown[: len(self._row_of)] = self._row_of
            self._row_of = grown
        if self._matrix is None:
            self._matrix = np.zeros((_FIRST_ROWS, len(vector)), dtype=np.float32)
        row = int(self._row_of[number])
        if row < 0:
            row = self._free.pop() if self._free else self._used
            if row == self._used:
                self._used += 1
                if row >= len(self._matrix):
                    self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self._row_of[number] = row
        self._matrix[row] = vector

    def _rows_of(self, view: Ints) -> Ints:
        if len(self._row_of) == 0:
            return np.full(len(view), -1, dtype=np.int32)
        inside = np.minimum(view, len(self._row_of) - 1)
        return np.where(view < len(self._row_of), self._row_of[inside], np.int32(-1))


def _make(path: Path) -> None:
    """Make the file and its folders where they are missing, for their owner alone."""
    make_private_folders(path.parent)
    if not os.path.lexists(path):
        # An existing link is no missing file to O_EXCL, so none is followed. Another process may be faster.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _expect_our_table(database: sqlite3.Connection) -> None:
    """Make the table in an empty file; refuse one that holds anything else, beside it or in its place."""
    for empty in (True, False):
        found = database.execute("SELECT sql FROM sqlite_master LIMIT 2").fetchall()
        if found == [(f"CREATE TABLE {_TABLE}",)]:
            return
        if empty and not found:
            database.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
    raise PermissionError("it holds more than a cache of vectors, or something else; remove it")


def _rows(database: sqlite3.Connection, keys: list[int], length: int) -> Iterator[tuple[int, int, int, bytes]]:
    """The rows that are as they should be; what is of another type or length is not even read."""
    for start in range(0, len(keys), _KEYS_A_QUERY):
        part = keys[start : start + _KEYS_A_QUERY]
        marks = ",".join("?" * len(part))
        rows = database.execute(
            f"SELECT key, used, checksum, vector FROM vectors WHERE key IN ({marks}) "  # noqa: S608 - only question marks
            "AND typeof(used) = 'integer' AND typeof(checksum) = 'integer' "
            "AND typeof(vector) = 'blob' AND length(vector) = ?",
            (*part, length),
        )
        yield from cast("Iterator[tuple[int, int, int, bytes]]", rows)


def _number(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big", signed=True)


def _checksum(digest: bytes, blob: bytes) -> int:
    return zlib.crc32(blob, zlib.crc32(digest))


def _today() -> int:
    return int(time.time() // 86_400)


def _products(matrix: Floats, vector: Floats) -> Floats:
    """`matrix @ vector`, in this thread alone: BLAS uses several, and on a busy machine waits for the last of them (8
    ms instead of 0.1)."""
    return cast("Floats", np.einsum("ij,j->i", matrix, vector))
