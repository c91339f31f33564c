"""Models on ONNX Runtime: a small one of BERT's architecture with random weights, beside the same in plain NumPy."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from math import erf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codecall.catalog.search.models.encoder import Floats
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import ModelLocation
from codecall.errors import CodeCallError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
tokenizers = pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "list", "users", "delete", "a", "file", "query", ":", "send", "mail"]
CONFIG: dict[str, Any] = {
    "model_type": "bert", "hidden_act": "gelu", "hidden_size": 32, "intermediate_size": 64, "layer_norm_eps": 1e-12,
    "max_position_embeddings": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": len(WORDS),
}  # fmt: skip
TEXTS = ["list users", "delete a file", "send mail", "", "a file a file a file list users"]


def _tensors() -> dict[str, Floats]:
    chance = np.random.default_rng(1)
    size, wide = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), size),
        "embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], size),
        "embeddings.token_type_embeddings.weight": (2, size),
    }
    linear = {"attention.output.dense": (size, size), "intermediate.dense": (wide, size), "output.dense": (size, wide)}
    linear |= {f"attention.self.{part}": (size, size) for part in ("query", "key", "value")}
    norms = ["embeddings"]
    for number in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for name, shape in linear.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        norms += [f"{layer}.attention.output", f"{layer}.output"]
    for norm in norms:
        shapes |= {f"{norm}.LayerNorm.weight": (size,), f"{norm}.LayerNorm.bias": (size,)}
    return {name: chance.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "pool").mkdir(parents=True)
    safetensors.save_file(_tensors(), str(folder / "model.safetensors"))
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    kinds = {"": "Transformer", "pool": "Pooling", "norm": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    _write(folder / "modules.json", modules)
    _write(folder / "config.json", CONFIG)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": 16, "do_lower_case": False})
    _write(folder / "pool" / "config.json", {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    return folder


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value))


def located(directory: Path) -> ModelLocation:
    return ModelLocation("onnx", "some/model", directory)


def reference(text: str, pool: Callable[[Floats], Floats]) -> Floats:
    """The model in plain NumPy, with all digits."""
    tensors, heads = _tensors(), CONFIG["num_attention_heads"]
    ids = [2, *(WORDS.index(word) for word in text.split()), 3]

    def linear(state: Floats, name: str) -> Floats:
        return state @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(state: Floats, name: str) -> Floats:
        centred = state - state.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + CONFIG["layer_norm_eps"])
        return scaled * tensors[f"{name}.LayerNorm.weight"] + tensors[f"{name}.LayerNorm.bias"]

    embedded = tensors["embeddings.word_embeddings.weight"][ids]
    embedded = embedded + tensors["embeddings.position_embeddings.weight"][: len(ids)]
    state = norm(embedded + tensors["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for number in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            linear(state, f"{layer}.attention.self.{part}").reshape(len(ids), heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        weights = np.exp(query @ key.swapaxes(1, 2) / sqrt(query.shape[-1]))
        seen = (weights / weights.sum(axis=2, keepdims=True) @ value).swapaxes(0, 1).reshape(len(ids), -1)
        attended = linear(seen, f"{layer}.attention.output.dense")
        state = norm(attended + state, f"{layer}.attention.output")
        wide = linear(state, f"{layer}.intermediate.dense")
        wide = wide * (1 + np.vectorize(erf)(wide / sqrt(2))) / 2
        state = norm(linear(wide, f"{layer}.output.dense") + state, f"{layer}.output")
    vector = pool(state)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_vectors_are_those_of_the_model(directory: Path, pooling: str) -> None:
    modes = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    _write(directory / "pool" / "config.json", modes)
    vectors = load_encoder(located(directory)).passages(TEXTS)
    pool: Callable[[Floats], Floats] = (
        (lambda state: state.mean(axis=0)) if pooling == "mean" else lambda state: state[0]
    )
    expected = np.stack([reference(text, pool) for text in TEXTS])
    assert vectors.shape == expected.shape
    assert (vectors * expected).sum(axis=1).min() > 0.995


@pytest.mark.parametrize("threads", [1, 3])
def test_a_vector_does_not_depend_on_its_company_nor_on_threads(directory: Path, threads: int) -> None:
    encoder = load_encoder(located(directory), threads=threads)
    before = set(threading.enumerate())
    alone = np.concatenate([encoder.passages([text]) for text in TEXTS])
    assert np.array_equal(alone, encoder.passages(TEXTS))
    assert set(threading.enumerate()) <= before


def test_long_texts_are_cut_where_the_model_says(directory: Path) -> None:
    encoder = load_encoder(located(directory))
    assert np.array_equal(*encoder.passages(["a file " * 7, "a file " * 500]))


def test_queries_and_passages_get_the_prompts_of_the_model(directory: Path) -> None:
    plain = load_encoder(located(directory))
    _write(directory / "config_sentence_transformers.json", {"prompts": {"query": "query: ", "passage": "list "}})
    prompted = load_encoder(located(directory))
    assert np.array_equal(prompted.queries(["users"]), plain.queries(["query: users"]))
    assert np.array_equal(prompted.passages(["users"]), plain.passages(["list users"]))
    assert prompted.identity != plain.identity


def test_a_published_onnx_file_is_run_where_the_architecture_is_another(directory: Path) -> None:
    helper, kind = onnx.helper, onnx.TensorProto
    table = np.random.default_rng(2).normal(size=(len(WORDS), 8)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "lookup",
        [helper.make_tensor_value_info("input_ids", kind.INT64, [1, "n"])],
        [helper.make_tensor_value_info("last_hidden_state", kind.FLOAT, [1, "n", 8])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    (directory / "onnx").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (directory / "onnx" / "model.onnx").write_bytes(model.SerializeToString())
    _write(directory / "config.json", CONFIG | {"model_type": "mpnet"})
    vector = table[[2, 4, 5, 3]].mean(axis=0)
    assert np.allclose(load_encoder(located(directory)).queries(["list users"])[0], vector / np.linalg.norm(vector))


@pytest.mark.parametrize(
    ("file", "value", "reason"),
    [
        ("modules.json", [{"path": "", "type": "sentence_transformers.models.Dense"}], "does not run a model of Dense"),
        ("pool/config.json", {"pooling_mode_max_tokens": True}, "does not pool by max_tokens"),
        ("config.json", CONFIG | {"num_hidden_layers": 3}, "KeyError: 'encoder.layer.2.attention.self.query.weight'"),
    ],
)
def test_what_it_does_not_run_is_told_in_one_line(directory: Path, file: str, value: object, reason: str) -> None:
    _write(directory / file, value)
    with pytest.raises(CodeCallError, match=r"^The search model 'some/model' cannot be loaded: [^\n]+$") as failed:
        load_encoder(located(directory))
    assert reason in failed.value.message


def test_the_identity_is_that_of_the_files(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(directory, tmp_path / "copy")
    identity = load_encoder(located(directory)).identity
    assert load_encoder(located(copy)).identity == identity
    _write(copy / "sentence_bert_config.json", {"max_seq_length": 8})
    assert load_encoder(located(copy)).identity != identity
