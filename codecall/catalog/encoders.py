"""Embedding models: loading them, and texts to unit vectors.

Loading imports PyTorch or reads the static model's table, so it belongs in a worker thread, as encoding does.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.models import Located, cached
from codecall.errors import CodeCallError

logger = logging.getLogger("codecall")

Floats = NDArray[np.float32]


class Encoder(Protocol):
    """A loaded model. One thread at a time may use it."""

    identity: str
    """Changes whenever the vectors would: the model's files or revision, and how it is run."""
    width: int
    """Numbers of a vector."""

    def passages(self, texts: Sequence[str]) -> Floats:
        """One row for each text that is searched; unit vectors, zero where the model has none."""
        ...

    def queries(self, texts: Sequence[str]) -> Floats:
        """The same for texts that search; some models read them differently."""
        ...


def load(model: Located, *, threads: int | None = None) -> Encoder:
    """Load a model; takes seconds, and longer when it has to be fetched.

    Args:
        model: where it is.
        threads: processor threads it may use at most; None: half of those there are, at least one.

    Raises:
        CodeCallError: the libraries or the files do not load; the message says why in one line.
    """
    began = time.perf_counter()
    logger.info("Loading the search model %s%s", model.name, "" if model.directory else ", which is fetched first")
    try:
        encoder: Encoder = _static(model) if model.kind == "static" else _Transformer(model, threads or _half())
    except Exception as failure:  # the libraries and the hub's client raise whatever they like
        raise CodeCallError(f"The search model {model.name!r} cannot be loaded: {_line(failure)}") from failure
    logger.info("Loaded the search model %s in %.1f s", model.name, time.perf_counter() - began)
    return encoder


class _Transformer:
    """A model of sentence-transformers, on PyTorch or ONNX Runtime."""

    def __init__(self, model: Located, threads: int) -> None:
        self._threads = threads
        library: Any = import_module("sentence_transformers")
        self._torch: Any = import_module("torch")
        with _no_bars(), self._bounded():
            self._model: Any = library.SentenceTransformer(
                str(model.directory or model.name),
                backend=model.backend,
                local_files_only=model.directory is not None,
                **({"model_kwargs": _onnx_options(threads)} if model.backend == "onnx" else {}),
            )
        if not hasattr(self._model, "encode_query"):
            raise RuntimeError(f"sentence-transformers 5 or newer is needed, not {library.__version__}")
        directory = model.directory or cached(model.name)
        # A model fetched to a place of its own has no revision to tell: its vectors are good until the server ends.
        revision = _revision(directory) if directory else str(time.time_ns())
        self.identity = f"{model.backend} {revision}"
        self.width = self.queries(["the first text is slower than all others"]).shape[1]

    def passages(self, texts: Sequence[str]) -> Floats:
        return self._encoded(self._model.encode_document, texts)

    def queries(self, texts: Sequence[str]) -> Floats:
        return self._encoded(self._model.encode_query, texts)

    def _encoded(self, encode: Any, texts: Sequence[str]) -> Floats:
        with self._bounded():
            # One batch: who calls has cut them to a fitting size.
            vectors = encode(list(texts), batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True)
        return unit(np.asarray(vectors, dtype=np.float32))

    @contextmanager
    def _bounded(self) -> Generator[None]:
        """Let PyTorch use only so many threads inside. The bound holds for the process, so it is taken back after."""
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            self._torch.set_num_threads(before)


class _Static:
    """A table with one vector for each word piece; a text's vector is the mean of its pieces'."""

    def __init__(self, identity: str, table: Floats, tokenizer: Any) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.identity = identity
        self.width = table.shape[1]
        self._table = table
        self._tokenizer = tokenizer

    def passages(self, texts: Sequence[str]) -> Floats:
        vectors = np.zeros((len(texts), self.width), dtype=np.float32)
        # Lower case found a little more: 0.2 points of recall@5 over the development sets.
        encoded = self._tokenizer.encode_batch_fast([text.lower() for text in texts], add_special_tokens=False)
        for row, pieces in enumerate(encoded):
            numbers = np.asarray(pieces.ids, dtype=np.int64)
            vectors[row] = self._table[numbers[numbers < len(self._table)]].sum(axis=0)
        return unit(vectors)

    queries = passages


_STATIC_TABLE, _STATIC_TENSOR = "weights/l2_supercat_256.safetensors", "embedding.weight"
_STATIC_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


def _static(model: Located) -> Encoder:
    # The package's files are read without importing it: its import sets up the root logger of the process, and 0.4.0
    # does not find its own tokenizer and asks the hub for it.
    directory = cast("Path", model.directory)
    tensors: Any = import_module("safetensors.numpy")
    tokenizers: Any = import_module("tokenizers")
    file = directory / _STATIC_TABLE
    table = np.asarray(tensors.load_file(str(file))[_STATIC_TENSOR], dtype=np.float32)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / _STATIC_TOKENIZER))
    return _Static(f"static {_digest([file, directory / _STATIC_TOKENIZER])}", table, tokenizer)


def unit(vectors: Floats) -> Floats:
    """Each row divided by its length; zero where it has none or is no number."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0)
    scaled = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=usable)
    return scaled.astype(np.float32, copy=False)


_SNAPSHOT = re.compile(r"[0-9a-f]{40}")
_READ = 1 << 20


def _revision(directory: Path) -> str:
    """The commit of a directory in the Hugging Face cache; else a hash of its files."""
    if directory.parent.name == "snapshots" and _SNAPSHOT.fullmatch(directory.name):
        return directory.name
    return _digest(sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")))


def _digest(files: Sequence[Path]) -> str:
    digest = blake2b(digest_size=20)
    for path in files:
        digest.update(f"\0{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_READ):
                digest.update(block)
    return digest.hexdigest()


def _onnx_options(threads: int) -> dict[str, object]:
    runtime: Any = import_module("onnxruntime")
    session = runtime.SessionOptions()
    session.intra_op_num_threads = threads
    return {"provider": "CPUExecutionProvider", "session_options": session}


def _half() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, count // 2)


@contextmanager
def _no_bars() -> Generator[None]:
    """Keep the progress bars of transformers out of the server's output."""
    notes: Any = import_module("transformers.utils.logging")
    shown = notes.is_progress_bar_enabled()
    notes.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            notes.enable_progress_bar()


def _line(failure: BaseException) -> str:
    """A failure of somebody else's in one line of bounded length."""
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:500]
