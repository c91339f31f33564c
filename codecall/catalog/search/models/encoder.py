"""What encodes texts as unit vectors, and what every way to do it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_SNAPSHOT = re.compile(r"[0-9a-f]{40}")
_READ_BYTES = 1 << 20


class Encoder(Protocol):
    """A loaded model. One thread at a time may use it."""

    identity: str
    """A text that changes whenever the vectors would: the model's files or revision, and how it is run."""
    width: int
    """The length of a vector."""

    def passages(self, texts: Sequence[str]) -> Floats:
        """Encodes texts that are searched: one row each, a unit vector, or zero where the model has none."""
        ...

    def queries(self, texts: Sequence[str]) -> Floats:
        """Encodes queries likewise; some models encode them differently."""
        ...


def normalize(vectors: Floats) -> Floats:
    """Divides each row by its length; rows without a finite length become zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0)
    scaled = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=usable)
    return scaled.astype(np.float32, copy=False)


def revision(directory: Path) -> str:
    """Returns the commit of a directory in the Hugging Face cache; else a digest of its files."""
    if directory.parent.name == "snapshots" and _SNAPSHOT.fullmatch(directory.name):
        return directory.name
    return digest(sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")))


def digest(files: Sequence[Path]) -> str:
    """Returns a digest of the names and the contents of files."""
    state = blake2b(digest_size=20)
    for path in files:
        state.update(f"\0{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                state.update(block)
    return state.hexdigest()
