"""A model of sentence-transformers on PyTorch: of any architecture, at several times the time, memory and disk that
`onnx_model.py` takes for those it runs."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from codecall.catalog.search.models.encoder import Floats, normalize, revision
from codecall.catalog.search.models.locate import ModelLocation, cached_model


class TorchModel:
    """A loaded model."""

    def __init__(self, model: ModelLocation, threads: int) -> None:
        self._threads = threads
        library: Any = import_module("sentence_transformers")
        self._torch: Any = import_module("torch")
        with _without_progress_bars(), self._limited_threads():
            self._model: Any = library.SentenceTransformer(
                str(model.directory or model.name), local_files_only=model.directory is not None
            )
        if not hasattr(self._model, "encode_query"):
            raise RuntimeError(f"sentence-transformers 5 or newer is needed, not {library.__version__}")
        directory = model.directory or cached_model(model.name)
        # A model fetched to a place of its own has no revision to tell: its vectors are good until the server ends.
        self.identity = f"torch {revision(directory) if directory else time.time_ns()}"
        self.width = self.queries(["the first text is slower than all others"]).shape[1]

    def passages(self, texts: Sequence[str]) -> Floats:
        """Encodes texts that are searched."""
        return self._encode(self._model.encode_document, texts)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Encodes queries."""
        return self._encode(self._model.encode_query, texts)

    def _encode(self, encode: Any, texts: Sequence[str]) -> Floats:
        with self._limited_threads():
            # One batch: who calls has cut them to a fitting size.
            vectors = encode(list(texts), batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True)
        return normalize(np.asarray(vectors, dtype=np.float32))

    @contextmanager
    def _limited_threads(self) -> Generator[None]:
        """Limits the threads of PyTorch inside the context. The limit is global, so it is restored afterwards."""
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            self._torch.set_num_threads(before)


@contextmanager
def _without_progress_bars() -> Generator[None]:
    """Keeps the progress bars of transformers out of the server's output."""
    notes: Any = import_module("transformers.utils.logging")
    enabled = notes.is_progress_bar_enabled()
    notes.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            notes.enable_progress_bar()
