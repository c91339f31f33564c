"""The vectors of texts, kept on disk from one start to the next.

SQLite, because it is in the standard library and does what a cache that several processes share needs: a write is
there as a whole or not at all, writers wait for each other, and thousands of keys are looked up in milliseconds.
Nothing that is read from the file is ever executed.

A cache may fail, and search must not notice but for time. What goes wrong is logged once, and the cache is then empty.
A file that is torn is deleted and begun anew; each vector has a checksum, so that damage inside is seen too.
"""

from __future__ import annotations

import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger("codecall")

Floats = NDArray[np.float32]

FILE_NAME = "vectors-1.sqlite3"
"""The cache in its folder; the number is that of the layout."""

KEPT_DAYS = 90
"""Days after its last use that a vector is kept."""

NOTED_DAYS = 7
"""A use is noted only when the last one noted is so many days old, so that most starts write nothing."""

BUSY_SECONDS = 10.0
"""How long a process waits for another one that writes."""

_LAYOUT = """
CREATE TABLE IF NOT EXISTS vectors (
    key BLOB PRIMARY KEY, -- of the model and the text
    used INTEGER NOT NULL, -- the day, counted from 1970
    checksum INTEGER NOT NULL,
    vector BLOB NOT NULL -- 16-bit floats
) WITHOUT ROWID
"""
_KEYS_A_QUERY = 500

T = TypeVar("T")


class VectorCache:
    """Vectors of one model by text, in a file that many models and processes may share. Any thread may use it.

    They are kept as 16-bit floats, half the size; a cosine changes by less than 0.001.
    """

    def __init__(self, folder: Path, model: str, width: int) -> None:
        """
        Args:
            folder: where the file is; made when something is first kept, readable for its owner alone.
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
        if not texts or not self.path.exists():
            return {}
        return self._tried(lambda: self._read({self._key(text): text for text in texts})) or {}

    def put(self, vectors: Mapping[str, Floats]) -> None:
        """Keep these vectors, as a whole or not at all."""
        if vectors:
            self._tried(lambda: self._write(vectors))

    def _read(self, wanted: Mapping[bytes, str]) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        stale: list[bytes] = []
        today = _today()
        with closing(self._open()) as database:
            for key, used, checksum, blob in _rows(database, list(wanted)):
                if len(blob) == 2 * self._width and zlib.crc32(blob) == checksum:
                    found[wanted[key]] = np.frombuffer(blob, dtype=np.float16).astype(np.float32)
                    if used < today - NOTED_DAYS:
                        stale.append(key)
            if stale:
                with database:
                    database.executemany("UPDATE vectors SET used = ? WHERE key = ?", ((today, key) for key in stale))
        return found

    def _write(self, vectors: Mapping[str, Floats]) -> None:
        today = _today()
        blobs = ((self._key(text), vector.astype(np.float16).tobytes()) for text, vector in vectors.items())
        rows = [(key, today, zlib.crc32(blob), blob) for key, blob in blobs]
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(self._open()) as database, database:
            if not self._tidied:
                database.execute("DELETE FROM vectors WHERE used < ?", (today - KEPT_DAYS,))
                self._tidied = True
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            database.execute(_LAYOUT)
        except BaseException:
            database.close()
            raise
        return database

    def _key(self, text: str) -> bytes:
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


def _rows(database: sqlite3.Connection, keys: list[bytes]) -> Iterator[tuple[bytes, int, int, bytes]]:
    for start in range(0, len(keys), _KEYS_A_QUERY):
        part = keys[start : start + _KEYS_A_QUERY]
        marks = ",".join("?" * len(part))
        rows = database.execute(f"SELECT key, used, checksum, vector FROM vectors WHERE key IN ({marks})", part)  # noqa: S608 - only question marks
        yield from cast("Iterator[tuple[bytes, int, int, bytes]]", rows)


def _today() -> int:
    return int(time.time() // 86_400)
