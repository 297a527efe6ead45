"""A trained layer's weights in the target's form, against PyTorch's own modules in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from attention_companion.simulator import attention, build
from attention_companion.simulator.real_layer import LayerError, Projections, merge, projections


def packed(seed: int, d: int, heads: int, bias: bool = True) -> nn.MultiheadAttention:
    torch.manual_seed(seed)
    module = nn.MultiheadAttention(d, heads, bias=bias, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for parameter in module.parameters():  # its biases start at 0, which would test nothing
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64))
    return module


def tensors(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}


@pytest.mark.parametrize(("heads", "bias"), [(1, True), (3, True), (2, False)])
def test_it_is_torchs_multihead_attention(heads: int, bias: bool) -> None:
    module = packed(heads, 6, heads, bias)
    x = np.random.default_rng(heads).standard_normal((5, 6))
    merged = merge(x, projections(tensors(module)), heads)
    given = torch.from_numpy(x)[None]
    expected = module(given, given, given, need_weights=False)[0][0].detach().numpy()
    np.testing.assert_allclose(attention(merged.x, merged.heads, merged.output), expected, rtol=0, atol=1e-12)
    assert merged.x.shape == (5, 7 if bias else 6)


def test_the_encoder_computes_torchs_layer() -> None:
    module = packed(8, 4, 2)
    x = np.random.default_rng(8).standard_normal((3, 4))
    merged = merge(x, projections(tensors(module)), 2)
    assert merged.output is not None
    encoder = build(3, 5, merged.heads[0][1].shape[1], heads=2, output_dim=merged.output.shape[1])
    given = torch.from_numpy(x)[None]
    expected = module(given, given, given, need_weights=False)[0][0].detach().numpy()
    np.testing.assert_allclose(encoder.run(merged.x, merged.heads, merged.output), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("change", ["no constant", "no scale"])
def test_without_bias_or_scale_it_is_another_layer(change: str) -> None:
    module = packed(4, 6, 3)
    x = np.random.default_rng(4).standard_normal((5, 6))
    merged = merge(x, projections(tensors(module)), 3, constant=change != "no constant",
                   scale=1.0 if change == "no scale" else None)  # fmt: skip
    given = torch.from_numpy(x)[None]
    expected = module(given, given, given, need_weights=False)[0][0].detach().numpy()
    assert np.abs(attention(merged.x, merged.heads, merged.output) - expected).max() > 1e-2


def test_both_spellings_and_a_prefix_mean_the_same_layer() -> None:
    rng = np.random.default_rng(2)
    w = {name: rng.standard_normal((6, 6)) for name in "QKVO"}
    b = {name: rng.standard_normal(6) for name in "QKVO"}
    plain = {f"W_{name}": w[name] for name in w} | {f"b_{name}": b[name] for name in b}
    names = {"Q": "attention.self.query", "K": "attention.self.key", "V": "attention.self.value",
             "O": "attention.output.dense"}  # fmt: skip
    stored = {f"encoder.layer.0.{names[k]}.weight": w[k].T for k in w}
    stored |= {f"encoder.layer.0.{names[k]}.bias": b[k] for k in b}
    x = rng.standard_normal((4, 6))
    one = merge(x, projections(plain), 2)
    two = merge(x, projections(stored, "encoder.layer.0."), 2)
    np.testing.assert_array_equal(attention(one.x, one.heads, one.output), attention(two.x, two.heads, two.output))
    with pytest.raises(LayerError, match=r"prefixes encoder\.layer\.0\."):
        projections(stored)
    llama = {f"{n}_proj.weight": w[k].T for n, k in zip("qkvo", "QKVO", strict=True)}
    assert projections(llama).output is not None


def test_some_heads_come_without_the_output_matrix() -> None:
    module = packed(5, 6, 3)
    x = np.random.default_rng(5).standard_normal((4, 6))
    layer = projections(tensors(module))
    whole = Projections(layer.query, layer.key, layer.value, None, layer.query_bias, layer.key_bias, layer.value_bias)
    joined = merge(x, whole, 3)
    chosen = merge(x, layer, 3, only=[2, 0])
    assert chosen.output is None
    expected = attention(joined.x, joined.heads)[:, [4, 5, 0, 1]]
    np.testing.assert_array_equal(attention(chosen.x, chosen.heads), expected)


def test_what_is_no_layer_is_named() -> None:
    good = {f"W_{name}": np.ones((4, 4)) for name in "QKV"}
    x = np.ones((2, 4))
    for bad, said in [
        ({"W_Q": good["W_Q"]}, "W_K, W_V missing"),
        ({}, "no arrays at all"),
        ({**good, "b_Q": np.ones(3)}, r"b_Q has shape \(3,\); its weight asks for \(4,\)"),
        ({**good, "b_O": np.ones(4)}, "give both or neither"),
        ({**good, "W_V": np.full((4, 4), np.nan)}, r"W_V holds nan at \(0, 0\)"),
        ({**good, "W_V": np.ones(4)}, r"W_V has shape \(4,\)"),
        ({**good, "W_V": np.array([["a"]])}, "expected real numbers"),
        ({"in_proj_weight": np.ones((4, 2))}, "three blocks"),
    ]:
        with pytest.raises(LayerError, match=said):
            projections(bad)
    layer = projections(good)
    for arguments, said in [
        ((np.ones((2, 3)), layer, 1), "X has rows of 3"),
        ((x, layer, 3), "no multiple of 3 heads"),
        ((x, layer, 0), "at least 1"),
        ((x, projections({**good, "W_K": np.ones((4, 2))}), 1), "both need 1 x d_k"),
        ((x, projections({**good, "W_O": np.ones((3, 2))}), 1), "W_O has 3 rows"),
        (([[1.0], [1.0, 2.0]], layer, 1), "X is no rectangular array"),
    ]:
        with pytest.raises(LayerError, match=said):
            merge(*arguments)
    with pytest.raises(LayerError, match="heads 0 to 1"):
        merge(x, layer, 2, only=[2])
