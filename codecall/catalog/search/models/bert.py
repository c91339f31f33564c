"""Models of BERT's architecture for ONNX Runtime, from the weights as they are published, with 8-bit matrices.

PyTorch could export a model to ONNX, but would have to be installed for it. The architecture is a dozen operators, so
the graph is written down here; it takes half a second and is not kept. The weights are rounded, each column of a matrix
by its own measure, and what flows through the matrices as it comes, text by text: vectors stay at a cosine of 0.99 to
those of PyTorch (the ranking of tools is as good), for a third of the processor time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.search.models.encoder import Floats

Tensors = Mapping[str, NDArray[Any]]

EMBEDDED: Final = "embedded"
"""The input of the graph: the sum of the embeddings of each word piece of one text."""
HIDDEN: Final = "hidden"
"""Its output: a vector for each word piece."""

_MICROSOFT: Final = "com.microsoft"
"""The domain of the operators that ONNX Runtime has beside the standard."""
_OPSET, _IR_VERSION = 17, 9
_LEVELS: Final = 63
"""Steps on either side of zero. With 127 the sums overflow on processors without VNNI, and are cut; 0.001 finer."""
_ACTIVATIONS: Final = {"gelu": "Gelu", "gelu_new": "FastGelu", "gelu_pytorch_tanh": "FastGelu"}


class BertModel(NamedTuple):
    """A model, taken apart into what NumPy looks up and what ONNX Runtime computes."""

    words: NDArray[np.float16]
    """The embedding of each word piece; half of the memory, and far finer than 8 bits."""
    positions: Floats
    """The embedding of each place in a text, and of being a text's first part."""
    graph: bytes
    """The layers above, as an ONNX model."""


def build_bert(config: Mapping[str, Any], tensors: Tensors) -> BertModel:
    """Builds a model.

    Args:
        config: its `config.json`.
        tensors: its weights under the names of `transformers`.

    Raises:
        KeyError: a weight or a setting is missing.
    """
    prefix = "bert." if "bert.embeddings.LayerNorm.weight" in tensors else ""
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    positions = own["embeddings.position_embeddings.weight"].astype(np.float32)
    return BertModel(
        words=own["embeddings.word_embeddings.weight"].astype(np.float16),
        positions=positions + own["embeddings.token_type_embeddings.weight"][0].astype(np.float32),
        graph=_Graph(own, float(config["layer_norm_eps"])).build(config),
    )


class _Graph:
    """The nodes and constants of a graph while it is made. Each method adds one step and returns its output's name."""

    def __init__(self, tensors: Tensors, epsilon: float) -> None:
        self._onnx: Any = import_module("onnx")
        self._tensors = tensors
        self._epsilon = epsilon
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def build(self, config: Mapping[str, Any]) -> bytes:
        """Builds the graph of all layers."""
        heads, activation = config["num_attention_heads"], _ACTIVATIONS[config["hidden_act"]]
        state = self._node("LayerNormalization", [EMBEDDED, *self._norm("embeddings")], epsilon=self._epsilon)
        for number in range(config["num_hidden_layers"]):
            layer = f"encoder.layer.{number}"
            attention = f"{layer}.attention"
            parts = self._linear(state, *(f"{attention}.self.{part}" for part in ("query", "key", "value")))
            split = self._nodes_of(3, "Split", [parts], axis=2)
            seen = self._node("MultiHeadAttention", split, _MICROSOFT, num_heads=heads)
            state = self._add(self._linear(seen, f"{attention}.output.dense"), state, f"{attention}.output")
            wide = self._node(activation, [self._linear(state, f"{layer}.intermediate.dense")], _MICROSOFT)
            state = self._add(self._linear(wide, f"{layer}.output.dense"), state, f"{layer}.output")
        self._nodes[-1].output[0] = HIDDEN
        helper, shape = self._onnx.helper, [1, "pieces", config["hidden_size"]]
        ends = [
            [helper.make_tensor_value_info(name, self._onnx.TensorProto.FLOAT, shape)] for name in (EMBEDDED, HIDDEN)
        ]
        graph = helper.make_graph(self._nodes, "bert", *ends, self._constants)
        domains = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model: Any = helper.make_model(graph, opset_imports=domains, ir_version=_IR_VERSION)
        return model.SerializeToString()

    def _linear(self, state: str, *layers: str) -> str:
        """Linear layers of one input, side by side."""
        rows = [np.asarray(self._tensors[f"{layer}.weight"], np.float32) for layer in layers]
        weights: Floats = np.concatenate(rows).T
        bias = np.concatenate([np.asarray(self._tensors[f"{layer}.bias"], np.float32) for layer in layers])
        scale: Floats = np.abs(weights).max(axis=0) / np.float32(_LEVELS)
        scale[scale == 0] = 1
        constants = (np.round(weights / scale).astype(np.int8), scale, np.zeros(len(scale), np.int8), bias)
        return self._node("DynamicQuantizeMatMul", [state, *map(self._constant, constants)], _MICROSOFT)

    def _add(self, change: str, state: str, layer: str) -> str:
        """The sum of a layer's output and its input, normalized."""
        inputs = [change, state, *self._norm(layer)]
        return self._node("SkipLayerNormalization", inputs, _MICROSOFT, epsilon=self._epsilon)

    def _norm(self, layer: str) -> list[str]:
        parts = (self._tensors[f"{layer}.LayerNorm.{part}"].astype(np.float32) for part in ("weight", "bias"))
        return [self._constant(part) for part in parts]

    def _constant(self, value: NDArray[Any]) -> str:
        name = f"constant {len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _node(self, kind: str, inputs: Sequence[str], domain: str = "", **attributes: float) -> str:
        return self._nodes_of(1, kind, inputs, domain, **attributes)[0]

    def _nodes_of(
        self, outputs: int, kind: str, inputs: Sequence[str], domain: str = "", **attributes: float
    ) -> list[str]:
        names = [f"step {len(self._nodes)} {number}" for number in range(outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names
