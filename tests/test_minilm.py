"""The optional model's reader, on a small stand-in with the same names: no test needs the package itself."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from attention_companion import minilm
from attention_companion.simulator import attention
from attention_companion.simulator.real_layer import merge, projections

D = 2 * minilm.HEADS


def stand_in(site: Path) -> Path:
    """A package of the model's name with random weights of 24 dimensions; its site folder is to be put on sys.path."""
    rng = np.random.default_rng(5)
    model = site / minilm.MODULE / "model"
    model.mkdir(parents=True)
    (site / minilm.MODULE / "__init__.py").write_text("raise RuntimeError('the package itself is never run')\n")

    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    stored = {
        "embeddings.word_embeddings.weight": draw(max(minilm.TOKEN_IDS) + 1, D),
        "embeddings.position_embeddings.weight": draw(32, D),
        "embeddings.token_type_embeddings.weight": draw(2, D),
        "embeddings.LayerNorm.weight": draw(D),
        "embeddings.LayerNorm.bias": draw(D),
        "embeddings.position_ids": np.arange(32)[None],
    }
    for name in ("self.query", "self.key", "self.value", "output.dense"):
        stored[f"encoder.layer.0.attention.{name}.weight"] = draw(D, D) / 4
        stored[f"encoder.layer.0.attention.{name}.bias"] = draw(D)
    save_file(stored, str(model / "model.safetensors"))
    words = [f"[{i}]" for i in range(max(minilm.TOKEN_IDS) + 1)]
    (model / "vocab.txt").write_text("\n".join(words) + "\n")
    return model


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = stand_in(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    digest = hashlib.sha256((made / "model.safetensors").read_bytes()).hexdigest()
    monkeypatch.setattr(minilm, "DIGEST", digest)
    return made


def test_the_folder_is_found_without_running_the_package(model: Path) -> None:
    assert minilm.folder() == model
    assert minilm.tokens(model)[:2] == ["[101]", "[2009]"]
    assert minilm.MODULE not in sys.modules


def test_other_weights_or_none_are_unavailable(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "DIGEST", "0" * 64)
    with pytest.raises(minilm.ModelUnavailable, match="expected 0000"):
        minilm.folder()
    (model / "model.safetensors").unlink()
    with pytest.raises(minilm.ModelUnavailable, match="is missing"):
        minilm.folder()
    monkeypatch.setattr(minilm, "MODULE", "no_such_package_anywhere")
    with pytest.raises(minilm.ModelUnavailable, match="not installed"):
        minilm.folder()


def test_without_the_library_its_answer_is_unavailable(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = minilm.importlib.util.find_spec
    monkeypatch.setattr(minilm.importlib.util, "find_spec", lambda name: None if name == "transformers" else find(name))
    with pytest.raises(minilm.ModelUnavailable, match="transformers is not installed"):
        minilm.by_library(model)


def test_embeddings_are_torchs_layer_norm_of_the_three_sums(model: Path) -> None:
    read = minilm._read(model, "embeddings.")
    ids = list(minilm.TOKEN_IDS)
    total = read["word_embeddings.weight"][ids] + read["position_embeddings.weight"][: len(ids)]
    total = torch.from_numpy(total + read["token_type_embeddings.weight"][0]).double()
    weight, bias = (torch.from_numpy(read[f"LayerNorm.{name}"]).double() for name in ("weight", "bias"))
    expected = torch.nn.functional.layer_norm(total, (D,), weight, bias, eps=minilm.EPSILON)
    np.testing.assert_allclose(minilm.embeddings(model, np.float64), expected.numpy(), rtol=0, atol=1e-6)


def test_the_layer_written_out_is_torchs_and_is_what_the_merged_weights_give(model: Path) -> None:
    answers = minilm.written_out(model)
    stored = minilm.layer_tensors(model)
    x = torch.from_numpy(answers.x)

    def image(name: str) -> torch.Tensor:
        named = (stored[f"attention.self.{name}.{part}"] for part in ("weight", "bias"))
        weight, bias = (torch.from_numpy(array).double() for array in named)
        return torch.nn.functional.linear(x, weight, bias).reshape(len(x), minilm.HEADS, -1).transpose(0, 1)

    heads = torch.nn.functional.scaled_dot_product_attention(image("query"), image("key"), image("value"))
    joined = heads.transpose(0, 1).reshape(len(x), -1).numpy()
    np.testing.assert_allclose(answers.joined, joined, rtol=0, atol=1e-12)
    merged = merge(answers.x, projections(stored), minilm.HEADS)
    np.testing.assert_allclose(
        attention(merged.x, merged.heads, merged.output), answers.output, rtol=0, atol=1e-11
    )
    single = minilm.written_out(model, np.float32)
    assert single.output.dtype == np.float32
    assert 0 < np.abs(single.output - answers.output).max() < 1e-4
