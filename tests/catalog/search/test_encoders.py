"""Loading models, and texts to unit vectors; with the static model, whose weights are in a small package."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codecall.catalog.search.models.encoder import Encoder, normalize
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import ModelLocation, locate_model
from codecall.errors import CodeCallError
from codecall.options import SearchOptions

STATIC = SearchOptions(strategy="hybrid", model_name="wordllama")


@pytest.fixture(scope="module")
def static() -> Encoder:
    return load_encoder(locate_model(STATIC))


def test_the_static_model_knows_what_means_the_same(static: Encoder):
    passages = static.passages(["get the weather forecast of a city", "delete a user account", "send an e-mail"])
    queries = static.queries(["will it rain in Paris?", "remove this login", "write a message to Bob"])
    assert (queries @ passages.T).argmax(axis=1).tolist() == [0, 1, 2]
    assert passages.shape == (3, static.width) == (3, 256)
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)


def test_equal_texts_give_equal_vectors_in_any_company(static: Encoder):
    alone = static.passages(["list users"])[0]
    assert np.array_equal(alone, static.passages(["a much longer text than this one", "list users"])[1])


def test_texts_without_meaning_give_no_direction(static: Encoder):
    assert not static.passages(["", "x"])[0].any()


def test_loading_is_told_in_the_log(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="codecall")
    load_encoder(locate_model(STATIC))
    assert caplog.records[0].message == "Loading the search model wordllama"
    assert caplog.records[-1].message.startswith("Loaded the search model wordllama in ")


def test_the_identity_is_that_of_the_files(static: Encoder, tmp_path: Path):
    located = locate_model(STATIC)
    assert located.directory is not None
    copy = tmp_path / "wordllama"
    for part in ("weights", "tokenizers"):
        (copy / part).mkdir(parents=True)
        for file in (located.directory / part).iterdir():
            if file.suffix in (".safetensors", ".json"):
                (copy / part / file.name).write_bytes(file.read_bytes())
    assert load_encoder(replace(located, directory=copy)).identity == static.identity
    (tokenizer,) = (copy / "tokenizers").iterdir()
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    assert load_encoder(replace(located, directory=copy)).identity != static.identity


@pytest.mark.parametrize("content", [b"", b"no tensors"])
def test_files_that_do_not_load_are_told_in_one_line(tmp_path: Path, content: bytes):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "l2_supercat_256.safetensors").write_bytes(content)
    with pytest.raises(CodeCallError, match=r"^The search model 'wordllama' cannot be loaded: \w+: [^\n]+$"):
        load_encoder(ModelLocation("static", "wordllama", tmp_path))


def test_a_library_that_does_not_load_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sentence_transformers.py").write_text("raise ImportError('torch is broken\\nin two lines')")
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CodeCallError) as failed:
        load_encoder(ModelLocation("torch", "some/model", tmp_path))
    assert failed.value.message == (
        "The search model 'some/model' cannot be loaded: ImportError: torch is broken in two lines"
    )


def test_the_server_s_own_logging_stays_as_it_is():
    program = """
import logging
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import locate_model
from codecall.options import SearchOptions
load_encoder(locate_model(SearchOptions(strategy="hybrid", model_name="wordllama")))
assert logging.getLogger().handlers == [], logging.getLogger().handlers
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_rows_without_a_length_become_zero():
    rows = np.array([[3, 4], [0, 0], [np.nan, 1], [np.inf, 1]], dtype=np.float32)
    assert np.allclose(normalize(rows), [[0.6, 0.8], [0, 0], [0, 0], [0, 0]])
