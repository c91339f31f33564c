"""A model of sentence-transformers on ONNX Runtime, without PyTorch: those of BERT's architecture from their weights,
others from the ONNX file that their authors publish beside them.

Each text is encoded by itself: nothing is spent on padding, and its vector does not depend on its company. Several
threads share the texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.search.models.bert import EMBEDDED, build_bert
from codecall.catalog.search.models.encoder import Encoder, Floats, normalize, revision
from codecall.catalog.search.models.locate import ONNX_FILE, WEIGHTS_FILE, ModelLocation, full_name, has_bert_weights

_FORMAT: Final = "onnx-1"
"""Part of the identity; the number changes with the vectors that the same files give."""
_FETCHED: Final = ("*.json", WEIGHTS_FILE, ONNX_FILE)
_MODULES: Final = frozenset({"Transformer", "Pooling", "Normalize"})
_PASSAGE_PROMPTS: Final = ("document", "passage", "corpus")
"""Names of the prompt for texts that are searched, as sentence-transformers looks for them."""

Ids = NDArray[np.int64]


def load_onnx(model: ModelLocation, threads: int) -> Encoder:
    """Loads a model, which is fetched first where it has no directory.

    Raises:
        ValueError: it is of a kind that only PyTorch runs.
    """
    directory = model.directory
    if directory is None:
        hub: Any = import_module("huggingface_hub")
        directory = Path(hub.snapshot_download(full_name(model.name), allow_patterns=list(_FETCHED)))
    return _OnnxModel(directory, threads)


class _OnnxModel:
    """A loaded model."""

    def __init__(self, directory: Path, threads: int) -> None:
        modules: Any = _read(directory / "modules.json") or ()
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        if not _MODULES.issuperset(kinds):
            raise ValueError(f"ONNX Runtime does not run a model of {', '.join(kinds)}; backend='torch' does")
        paths = dict(zip(kinds, (directory / module["path"] for module in modules), strict=True))
        self._pool = _pooling(_read(paths["Pooling"] / "config.json") if "Pooling" in paths else {})
        prompts = _read(directory / "config_sentence_transformers.json")
        self._query_prompt = _prompt(prompts, ("query",))
        self._passage_prompt = _prompt(prompts, _PASSAGE_PROMPTS)
        settings = _read(directory / "sentence_bert_config.json")
        self._lower = bool(settings.get("do_lower_case"))
        config = _read(directory / "config.json")
        tokenizers: Any = import_module("tokenizers")
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(int(settings.get("max_seq_length") or config["max_position_embeddings"]))
        self._hidden = _open(directory, config)
        self._threads = threads
        self.identity = f"{_FORMAT} {revision(directory)}"
        self.width = self.queries(["the first text is slower than all others"]).shape[1]

    def passages(self, texts: Sequence[str]) -> Floats:
        """Encodes texts that are searched."""
        return self._encode(texts, self._passage_prompt)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Encodes queries."""
        return self._encode(texts, self._query_prompt)

    def _encode(self, texts: Sequence[str], prompt: str) -> Floats:
        prompted = [prompt + (text.lower() if self._lower else text) for text in texts]
        pieces = [np.asarray(encoded.ids, np.int64) for encoded in self._tokenizer.encode_batch_fast(prompted)]
        return normalize(np.stack(_map(lambda ids: self._pool(self._hidden(ids)), pieces, self._threads)))


def _open(directory: Path, config: Mapping[str, Any]) -> Callable[[Ids], Floats]:
    """Opens a model: a function from the word pieces of a text to a vector for each."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # threads work on different texts
    options.log_severity_level = 3  # errors; they are raised as well
    if not has_bert_weights(directory):
        session = runtime.InferenceSession(str(directory / ONNX_FILE), options, providers=["CPUExecutionProvider"])
        names = {tensor.name for tensor in session.get_inputs()}

        def run(ids: Ids) -> Floats:
            ones = np.ones_like(ids)
            inputs = {"input_ids": ids, "attention_mask": ones, "token_type_ids": ones - 1}
            return session.run(None, {name: inputs[name][None] for name in names})[0][0]

        return run
    tensors: Any = import_module("safetensors.numpy")
    model = build_bert(config, tensors.load_file(str(directory / WEIGHTS_FILE)))
    session = runtime.InferenceSession(model.graph, options, providers=["CPUExecutionProvider"])

    def run_bert(ids: Ids) -> Floats:
        embedded = model.words[ids].astype(np.float32) + model.positions[: len(ids)]
        return session.run(None, {EMBEDDED: embedded[None]})[0][0]

    return run_bert


def _map(encode: Callable[[Ids], Floats], texts: Sequence[Ids], threads: int) -> list[Floats]:
    """Encodes texts, each share of them in a thread; this thread has one too."""
    results: list[Floats | None] = [None] * len(texts)
    failures: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, len(texts), threads):
                results[number] = encode(texts[number])
        except BaseException as failure:  # raised again below
            failures.append(failure)

    others = [threading.Thread(target=work, args=(first,)) for first in range(1, min(threads, len(texts)))]
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]
    return cast("list[Floats]", results)


def _pooling(settings: Mapping[str, Any]) -> Callable[[Floats], Floats]:
    """How the vectors of a text's pieces become one."""
    modes = {name.removeprefix("pooling_mode_") for name, used in settings.items() if used is True}
    modes = {mode for mode in modes if mode != "include_prompt"} or {str(settings.get("pooling_mode", "mean"))}
    if modes <= {"mean", "mean_tokens"}:
        return lambda hidden: hidden.mean(axis=0)
    if modes <= {"cls", "cls_token"}:
        return lambda hidden: hidden[0]
    raise ValueError(f"ONNX Runtime does not pool by {', '.join(sorted(modes))}; backend='torch' does")


def _prompt(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    prompts: Mapping[str, str] = settings.get("prompts") or {}
    wanted = (*names, settings.get("default_prompt_name") or "")
    return next((prompts[name] for name in wanted if name in prompts), "")


def _read(file: Path) -> dict[str, Any]:
    """The JSON of a file; empty where there is none."""
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
