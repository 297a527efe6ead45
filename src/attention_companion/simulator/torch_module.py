"""The encoder as a plain ``torch.nn.Module``: dense, float64, average hard attention by argmax sets.

Nothing in ``forward`` depends on data: every head computes all length^2 scores, marks the entries equal to their row's
maximum and averages over them. It is the slow, literal reading of the weights, for a check of the planned execution and
for whoever wants the encoder as a network; ``torch.export`` takes it.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .encoder import Block, Machine, Operation

#: A forward pass holds three length x length float64 arrays; above this many bytes the module is refused.
LARGEST_BYTES = 2_000_000_000
_KINDS = ("product", "division", "exp", "relu")


def to_torch(machine: Machine, rows: int) -> HardAttentionEncoder:
    """The module of a machine, with results in ``rows`` rows.

    Raises MemoryError when three score matrices of its length would exceed 2 GB.
    """
    needed = 3 * 8 * machine.length**2
    if needed > LARGEST_BYTES:
        raise MemoryError(
            f"a dense module of length {machine.length} needs about {needed / 1e9:.1f} GB for its scores, more than "
            f"the bound of {LARGEST_BYTES / 1e9:.0f} GB; use Encoder.run, or a smaller shape"
        )
    layout = {
        "width": machine.width,
        "rows": rows,
        "output_channel": machine.output_channel,
        "blocks": [
            {
                "heads": [max(head.rows, 1) for head in block.heads],
                "stages": [[o.kind for o in _sorted(stage)] for stage in block.stages],
            }
            for block in machine.blocks
        ],
    }
    tensors: dict[str, torch.Tensor] = {
        "positions": torch.from_numpy(machine.positions.copy()),
        "input_tokens": torch.from_numpy(machine.input_tokens.copy()),
        "output_tokens": torch.from_numpy(machine.output_tokens.copy()),
    }
    for b, block in enumerate(machine.blocks):
        tensors |= _block_tensors(b, block)
    return HardAttentionEncoder(layout, tensors)


def _sorted(stage: tuple[Operation, ...]) -> list[Operation]:
    return sorted(stage, key=lambda operation: _KINDS.index(operation.kind))


def _sparse(name: str, entries: list[tuple[int, int, Fraction]]) -> dict[str, torch.Tensor]:
    """Rows, channels and weights of a matrix. Only named channels are read: a product with a dense matrix would make
    0 * inf = nan of an infinity in any other channel."""
    return {
        f"{name}.row": torch.tensor([row for row, _, _ in entries], dtype=torch.int64),
        f"{name}.channel": torch.tensor([channel for _, channel, _ in entries], dtype=torch.int64),
        f"{name}.weight": torch.tensor([float(weight) for *_, weight in entries], dtype=torch.float64),
    }


def _block_tensors(b: int, block: Block) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for h, head in enumerate(block.heads):
        for name in ("query", "key", "value"):
            matrix = getattr(head, name)
            entries = [(row, channel, weight) for (row, channel), weight in matrix.items() if weight]
            tensors |= _sparse(f"block{b}.head{h}.{name}", entries)
    for s, stage in enumerate(block.stages):
        operations = _sorted(stage)
        for side in ("left", "right"):
            forms = [getattr(operation, side) for operation in operations]
            entries = [(o, channel, w) for o, form in enumerate(forms) for channel, w in form.items() if w]
            tensors |= _sparse(f"block{b}.stage{s}.{side}", entries)
        tensors[f"block{b}.stage{s}.target"] = torch.tensor([o.target for o in operations], dtype=torch.int64)
    return tensors


def save(module: HardAttentionEncoder, path: str | Path) -> None:
    """Write all tensors, and the layout as metadata, to one safetensors file."""
    from safetensors.torch import save_file

    tensors = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    save_file(tensors, str(path), metadata={"layout": json.dumps(module.layout)})


def load(path: str | Path) -> HardAttentionEncoder:
    """The module that :func:`save` wrote. ValueError for a safetensors file of something else."""
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        metadata = file.metadata() or {}
        if "layout" not in metadata:
            raise ValueError(
                f"{path} holds no encoder's layout in its metadata; give a file that save() wrote"
            )
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no mapping
    return HardAttentionEncoder(json.loads(metadata["layout"]), tensors)


class HardAttentionEncoder(nn.Module):
    """Maps input sequences <T, X> of shape (..., inputs), float64, to results of shape (..., rows, columns)."""

    def __init__(self, layout: dict[str, Any], tensors: dict[str, torch.Tensor]):
        super().__init__()
        self.layout = layout
        for name, tensor in tensors.items():
            self.register_buffer(name.replace(".", "_"), tensor)

    def _tensor(self, *parts: str) -> torch.Tensor:
        tensor = getattr(self, "_".join(parts))
        assert isinstance(tensor, torch.Tensor)
        return tensor

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        positions = self._tensor("positions")
        batch, length = sequence.shape[:-1], positions.shape[0]
        x = torch.zeros((*batch, length, self.layout["width"]), dtype=torch.float64, device=sequence.device)
        placed = torch.zeros((*batch, length), dtype=torch.float64, device=x.device)
        placed = placed.index_copy(-1, self._tensor("input", "tokens"), sequence)
        count = positions.shape[1]
        table = positions.to(torch.float64).expand(*batch, length, count)
        rest = x[..., 1 + count :]
        x = torch.cat([placed.unsqueeze(-1), table, rest], dim=-1)
        for b, block in enumerate(self.layout["blocks"]):
            x = self._attend(x, f"block{b}", block["heads"])
            for s, kinds in enumerate(block["stages"]):
                x = self._map(x, f"block{b}", f"stage{s}", kinds)
        result = x[..., self.layout["output_channel"]].index_select(-1, self._tensor("output", "tokens"))
        return result.reshape(*batch, self.layout["rows"], -1)

    def _forms(self, x: torch.Tensor, name: tuple[str, ...], rows: int) -> torch.Tensor:
        """Matrix times channels, for a matrix of that many rows."""
        terms = x.index_select(-1, self._tensor(*name, "channel")) * self._tensor(*name, "weight")
        zeros = torch.zeros((*x.shape[:-1], rows), dtype=torch.float64, device=x.device)
        return zeros.index_add(-1, self._tensor(*name, "row"), terms)

    def _attend(self, x: torch.Tensor, block: str, heads: list[int]) -> torch.Tensor:
        after = x
        for h, rows in enumerate(heads):
            head = (block, f"head{h}")
            query, key = self._forms(x, (*head, "query"), rows), self._forms(x, (*head, "key"), rows)
            scores = query @ key.transpose(-1, -2)
            chosen = (scores == scores.amax(dim=-1, keepdim=True)).to(torch.float64)
            source = x.index_select(-1, self._tensor(*head, "value", "channel"))
            mean = _sum_of_chosen(chosen, source) / chosen.sum(dim=-1, keepdim=True)
            after = after.index_add(
                -1, self._tensor(*head, "value", "row"), mean * self._tensor(*head, "value", "weight")
            )
        return after

    def _map(self, x: torch.Tensor, block: str, stage: str, kinds: list[str]) -> torch.Tensor:
        left = self._forms(x, (block, stage, "left"), len(kinds))
        right = self._forms(x, (block, stage, "right"), len(kinds))
        values, at = [], 0
        for kind in _KINDS:
            size = kinds.count(kind)
            one, two = left[..., at : at + size], right[..., at : at + size]
            if size and kind == "product":
                values.append(one * two)
            elif size and kind == "division":
                values.append(one / two)
            elif size:
                values.append(torch.exp(one) if kind == "exp" else torch.relu(one))
            at += size
        return x.index_add(-1, self._tensor(block, stage, "target"), torch.cat(values, dim=-1))


def _sum_of_chosen(chosen: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The sum over chosen tokens alone: an infinity at a token that is not chosen must not turn into 0 * inf = nan."""
    finite = torch.where(torch.isfinite(source), source, 0.0)
    marks = [(source == torch.inf), (source == -torch.inf), torch.isnan(source)]
    parts = chosen @ torch.cat([finite, *(mark.to(torch.float64) for mark in marks)], dim=-1)
    columns = source.shape[-1]
    total = parts[..., :columns]
    for m, value in enumerate((torch.inf, -torch.inf, torch.nan), start=1):
        count = parts[..., m * columns : (m + 1) * columns]
        total = total + torch.where(count > 0, value, 0.0)
    return total
