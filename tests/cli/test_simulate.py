"""``companion simulate``: a layer of one's own; what it prints, and what it says to files that are no layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from attention_companion.cli import app
from attention_companion.simulator import attention, build
from attention_companion.simulator.estimate import estimate

pytestmark = pytest.mark.torch_free

RNG = np.random.default_rng(11)
X, A, V = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 3)), RNG.standard_normal((3, 2))


def invoke(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "weights.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("layout", ["positional", "paper", "constant", "universal"])
def test_a_layer_of_ones_own_in_every_layout(tmp_path: Path, layout: str) -> None:
    done = invoke(saved(tmp_path, X=X, A=A, V=V), "--layout", layout, "--out", tmp_path / "out.npz")
    assert done.exit_code == 0, done.output
    encoder = build(4, 3, 2, layout=layout)
    assert f"layout {layout}, {encoder.layers} layers" in done.stdout
    assert f"{encoder.length:,} tokens, {encoder.nonzero_weights:,} nonzero weights" in done.stdout
    with np.load(tmp_path / "out.npz") as written:
        np.testing.assert_allclose(written["U"], attention(X, [(A, V)]), rtol=0, atol=1e-13)
        difference = np.abs(written["U"] - written["T"]).max()
    assert f"largest difference: {difference:.2e}" in done.stdout
    assert f"{attention(X, [(A, V)])[0, 0]: .10g}".strip() in done.stdout


def test_several_heads_an_output_matrix_and_one_head_alone(tmp_path: Path) -> None:
    a, v, w = RNG.standard_normal((2, 3, 3)), RNG.standard_normal((2, 3, 2)), RNG.standard_normal((4, 5))
    path, out = saved(tmp_path, X=X, A=a, V=v, W_O=w), tmp_path / "out.npz"
    heads = list(zip(a, v, strict=True))
    assert invoke(path, "--out", out).exit_code == 0
    np.testing.assert_allclose(np.load(out)["U"], attention(X, heads, w), rtol=0, atol=1e-12)
    assert invoke(path, "--head", 1, "--out", out).exit_code == 0
    np.testing.assert_allclose(np.load(out)["U"], attention(X, heads[1:]), rtol=0, atol=1e-12)
    assert "heads 0 to 1" in invoke(path, "--head", 2).stderr
    assert "leave the option out" in invoke(path, "--heads", 3).stderr


def test_enclosures_by_balls(tmp_path: Path) -> None:
    done = invoke(saved(tmp_path, X=X, A=A, V=V), "--arithmetic", "ball", "--bits", 120)
    assert done.exit_code == 0, done.output
    assert "enclosures of U and T overlap in every entry" in done.stdout


def test_a_trained_layers_tensors_with_biases_from_safetensors(tmp_path: Path) -> None:
    names = ("query", "key", "value")
    stored = {f"layer.attention.self.{n}.weight": RNG.standard_normal((4, 3)).astype(np.float32) for n in names}
    stored |= {f"layer.attention.self.{n}.bias": RNG.standard_normal(4).astype(np.float32) for n in names}
    weights, given, out = tmp_path / "model.safetensors", tmp_path / "x.npz", tmp_path / "out.npz"
    save_file(stored, str(weights))
    np.savez(given, X=X)
    done = invoke(weights, "--input", given, "--prefix", "layer.", "--heads", 2, "--head", 1, "--out", out)
    assert done.exit_code == 0, done.output
    assert "d = 4," in done.stdout  # the constant coordinate
    parts = [[stored[f"layer.attention.self.{n}.{part}"][2:] for part in ("weight", "bias")] for n in names]
    q, k, v = (X @ weight.T.astype(float) + bias for weight, bias in parts)
    powers = np.exp(q @ k.T / np.sqrt(2))
    np.testing.assert_allclose(np.load(out)["U"], powers @ v / powers.sum(axis=1, keepdims=True), rtol=0, atol=1e-12)
    missing = invoke(weights, "--heads", 2)
    assert missing.exit_code == 2
    assert "holds no array X" in missing.stderr


def test_large_scores_run_the_guarded_encoder_and_say_so(tmp_path: Path) -> None:
    done = invoke(saved(tmp_path, X=X * 100, A=A, V=V))
    assert done.exit_code == 0, done.output
    assert "ran the guarded encoder" in done.stdout


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({"A": A, "V": V}, (), "holds no array X"),
        ({"X": X, "A": A}, (), "holds no array V"),
        ({"X": X}, (), "no attention layer among no arrays at all"),
        ({"X": X, "W_Q": A, "W_K": A}, (), "W_V missing"),
        ({"X": X, "A": A[:2], "V": V}, (), "expected (3, 3)"),
        ({"X": X, "A": A, "V": V[:2]}, (), "V of head 0 has 2 rows"),
        ({"X": X, "A": A[0], "V": V}, (), "A has shape (3,)"),
        ({"X": X, "A": np.stack([A, A]), "V": V}, (), "A holds 2 head(s) and V holds 1"),
        ({"X": X[0], "A": A, "V": V}, (), "X has shape (3,)"),
        ({"X": X, "A": np.full((3, 3), np.nan), "V": V}, (), "A of head 0 holds nan at (0, 0)"),
        ({"X": X, "A": A, "V": V.astype(complex)}, (), "expected real numbers"),
        ({"X": X, "A": np.array([[1], [1, 2]], dtype=object), "V": V}, (), "rectangular"),
        ({"X": X, "A": A, "V": V}, ("--layout", "sideways"), "choose one of positional"),
        ({"X": X, "A": A, "V": V}, ("--arithmetic", "rational"), "choose float64 or ball"),
        ({"X": X, "A": A, "V": V}, ("--arithmetic", "ball", "--bits", "3"), "bits is 3"),
        ({"X": X, "A": A, "V": V}, ("--out", "result.txt"), "written as .npz"),
        ({"X": X, "A": A, "V": V, "W_O": V}, (), "output has 3 rows"),
    ],
)
def test_what_will_not_do_is_one_line_and_status_2(
    tmp_path: Path, arrays: dict[str, Any], options: tuple[str, ...], said: str
) -> None:
    done = invoke(saved(tmp_path, **arrays), *options)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "there is no file" in invoke(tmp_path / "absent.npz").stderr
    for name, said in (("a.txt", "neither .npz nor .safetensors"), ("a.npz", "cannot be read"),
                       ("a.safetensors", "cannot be read")):  # fmt: skip
        (tmp_path / name).write_text("nothing of the kind")
        done = invoke(tmp_path / name)
        assert done.exit_code == 2, done.output
        assert said in done.stderr


def test_what_is_too_large_is_refused_with_its_size_before_anything_is_built(tmp_path: Path) -> None:
    big = np.zeros((300, 300))
    done = invoke(saved(tmp_path, X=big, A=big, V=big), "--layout", "constant", "--memory", "2")
    assert done.exit_code == 2
    assert "27,000,001 tokens and needs about" in done.stderr
    assert "--memory 2 (GB)" in done.stderr


@pytest.mark.parametrize("layout", ["positional", "paper", "constant", "universal"])
@pytest.mark.parametrize("shape", [(3, 2, 4, 1, None), (2, 5, 1, 3, None), (4, 2, 2, 2, 3)])
def test_the_estimate_knows_the_length(layout: str, shape: tuple[Any, ...]) -> None:
    encoder = build(*shape[:4], layout=layout, output_dim=shape[4])
    assert estimate(encoder.shape, layout).length == encoder.length
    assert estimate(encoder.shape, layout, objects=True).bytes > estimate(encoder.shape, layout).bytes > 0
