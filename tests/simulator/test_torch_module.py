"""The encoder as a torch module: the same as the dense run for right and changed weights, and exportable."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap

import numpy as np
import pytest

from attention_companion.simulator import Shape, attention, build
from attention_companion.simulator.arithmetic import Float
from attention_companion.simulator.dense import run_densely
from attention_companion.simulator.encoder import scores_read_positions_only
from attention_companion.simulator.execute import plan, run
from attention_companion.simulator.mutation import KINDS, mutate
from attention_companion.simulator.reading import read_layer

from .layers import LAYOUTS, float_layer

torch = pytest.importorskip("torch")
torch_module = importlib.import_module("attention_companion.simulator.torch_module")


def sequence_of(layer):
    return read_layer(*layer, Float()).sequence(Float())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("sizes", [(2, 2, 1, 2, None), (3, 1, 2, 1, 2)])
def test_agrees_with_the_target(layout, guarded, sizes):
    layer = float_layer(Shape.read(*sizes), np.random.default_rng(0))
    module = build(*sizes[:4], layout, sizes[4], guarded).to_torch()
    got = module(torch.from_numpy(sequence_of(layer)))
    assert got.dtype == torch.float64
    assert got.numpy() == pytest.approx(attention(*layer), rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changed_weight_changes_planned_dense_and_torch_runs_alike(layout):
    encoder = build(2, 1, 2, 1, layout)
    layer = float_layer(encoder.shape, np.random.default_rng(1))
    sequence = sequence_of(layer)
    compared, changed = dict.fromkeys(KINDS, 0), 0
    for seed in range(60):
        kind = KINDS[seed % len(KINDS)]
        machine = mutate(encoder.machine, np.random.default_rng(seed), kind).machine
        if not scores_read_positions_only(machine):
            continue
        try:
            with np.errstate(all="ignore"):
                dense = run_densely(machine, sequence, Float())
        except ZeroDivisionError:
            continue
        got = torch_module.to_torch(machine, 2)(torch.from_numpy(sequence)).numpy().reshape(-1)
        assert got == pytest.approx(dense, rel=1e-11, abs=1e-12)
        assert run(plan(machine), sequence, Float()) == pytest.approx(dense, rel=1e-11, abs=1e-12)
        compared[kind] += 1
        changed += not np.allclose(dense.reshape(2, -1), attention(*layer))
    assert min(compared.values()) >= 2
    assert changed >= 15, "hardly a change was visible: the comparison shows little"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_are_independent(layout):
    shape = Shape.read(2, 1, 1)
    rows = [sequence_of(float_layer(shape, np.random.default_rng(seed))) for seed in range(4)]
    module = build(2, 1, 1, layout=layout).to_torch()
    batch = module(torch.from_numpy(np.stack(rows).reshape(2, 2, -1)))
    assert batch.shape == (2, 2, 2, 1)
    for k, row in enumerate(rows):
        assert batch[k // 2, k % 2].numpy() == pytest.approx(module(torch.from_numpy(row)).numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_exports_and_the_exported_program_agrees(layout):
    module = build(2, 1, 1, layout=layout).to_torch()
    sequence = torch.from_numpy(sequence_of(float_layer(Shape.read(2, 1, 1), np.random.default_rng(5))))
    program = torch.export.export(module, (sequence,))
    other = torch.from_numpy(sequence_of(float_layer(Shape.read(2, 1, 1), np.random.default_rng(6))))
    assert torch.equal(program.module()(other), module(other))


def test_forward_holds_no_branch_on_data():
    # Loops and branches over the layout (plain Python values) are unrolled; none may ask a tensor for its value.
    source = textwrap.dedent(inspect.getsource(torch_module.HardAttentionEncoder))
    calls = {
        n.func.attr
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.Call) and hasattr(n.func, "attr")
    }
    assert not calls & {"item", "tolist", "numpy", "nonzero", "any", "all"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_infinities_at_tokens_that_are_not_chosen_do_no_harm(layout):
    rng = np.random.default_rng(4)
    x, heads, _ = float_layer(Shape.read(2, 1, 1), rng)
    layer = (x * 30, [(a * 30, v) for a, v in heads], None)
    encoder = build(2, 1, 1, layout=layout, guarded=True)
    assert np.abs(layer[0] @ layer[1][0][0] @ layer[0].T).max() > 2000
    got = encoder.to_torch()(torch.from_numpy(sequence_of(layer))).numpy()
    assert got == pytest.approx(attention(*layer), rel=1e-11)


def test_a_module_that_would_need_too_much_memory_is_refused():
    with pytest.raises(MemoryError, match=r"length 16385 needs about 6\.4 GB.*use Encoder\.run"):
        build(128, 4, 4).to_torch()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_saved_and_loaded_it_is_the_same_module(layout, tmp_path):
    module = build(2, 2, 1, 2, layout, 2).to_torch()
    torch_module.save(module, tmp_path / "u.safetensors")
    again = torch_module.load(tmp_path / "u.safetensors")
    sequence = torch.from_numpy(sequence_of(float_layer(Shape.read(2, 2, 1, 2, 2), np.random.default_rng(5))))
    assert torch.equal(again(sequence), module(sequence))
    assert again.layout == module.layout


def test_another_safetensors_file_is_refused(tmp_path):
    safetensors_torch = pytest.importorskip("safetensors.torch")
    safetensors_torch.save_file({"x": torch.zeros(1)}, str(tmp_path / "other.safetensors"))
    with pytest.raises(ValueError, match="a file that save"):
        torch_module.load(tmp_path / "other.safetensors")
