"""Loads a model with the library that runs it.

That imports large libraries or reads a model's weights, so it belongs in a worker thread, as encoding does.
"""

from __future__ import annotations

import logging
import os
import time

from codecall.catalog.search.models.encoder import Encoder
from codecall.catalog.search.models.locate import ModelLocation
from codecall.errors import CodeCallError

logger = logging.getLogger("codecall")


def load_encoder(model: ModelLocation, *, threads: int | None = None) -> Encoder:
    """Loads a model; takes seconds, and longer when it has to be fetched.

    Args:
        model: the location of the model.
        threads: processor threads it may use at most; None: half of the available ones, at least one.

    Raises:
        CodeCallError: the libraries or the files do not load; the message says why in one line.
    """
    began = time.perf_counter()
    logger.info("Loading the search model %s%s", model.name, "" if model.directory else ", which is fetched first")
    try:
        encoder = _load(model, threads or _half_of_processors())
    except Exception as failure:  # the libraries and the hub's client raise whatever they like
        raise CodeCallError(f"The search model {model.name!r} cannot be loaded: {_failure_line(failure)}") from failure
    logger.info("Loaded the search model %s in %.1f s", model.name, time.perf_counter() - began)
    return encoder


def _load(model: ModelLocation, threads: int) -> Encoder:
    # Each of them imports libraries that the others do without.
    if model.backend == "static":
        from codecall.catalog.search.models.static import load_static

        return load_static(model)
    if model.backend == "onnx":
        from codecall.catalog.search.models.onnx_model import load_onnx

        return load_onnx(model, threads)
    from codecall.catalog.search.models.torch_model import TorchModel

    return TorchModel(model, threads)


def _half_of_processors() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, count // 2)


def _failure_line(failure: BaseException) -> str:
    """The failure of a library in one line of bounded length."""
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:500]
