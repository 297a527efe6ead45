"""The encoder as a plain ``torch.nn.Module``: dense, float64, average hard attention by argmax sets.

Nothing in ``forward`` depends on data: every head computes all length^2 scores, marks the entries equal to their row's
maximum and averages over them. It is the slow, literal reading of the weights, for a check of the planned execution and
for whoever wants the encoder as a network; ``torch.export`` takes it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .encoder import Block, Form, Machine, Operation

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
                "heads": len(block.heads),
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
        tensors |= _block_tensors(b, block, machine.width)
    return HardAttentionEncoder(layout, tensors)


def _sorted(stage: tuple[Operation, ...]) -> list[Operation]:
    return sorted(stage, key=lambda operation: _KINDS.index(operation.kind))


def _dense(forms: list[Form], width: int) -> torch.Tensor:
    matrix = torch.zeros((len(forms), width), dtype=torch.float64)
    for row, form in enumerate(forms):
        for channel, weight in form.items():
            matrix[row, channel] = float(weight)
    return matrix


def _block_tensors(b: int, block: Block, width: int) -> dict[str, torch.Tensor]:
    tensors = {}
    for h, head in enumerate(block.heads):
        for name in ("query", "key"):
            rows: list[dict[int, Any]] = [{} for _ in range(max(head.rows, 1))]
            for (row, channel), weight in getattr(head, name).items():
                rows[row][channel] = weight
            tensors[f"block{b}.head{h}.{name}"] = _dense(list(rows), width)
        value = sorted(head.value.items())
        tensors[f"block{b}.head{h}.target"] = torch.tensor([t for (t, _), _ in value], dtype=torch.int64)
        tensors[f"block{b}.head{h}.source"] = torch.tensor([s for (_, s), _ in value], dtype=torch.int64)
        tensors[f"block{b}.head{h}.weight"] = torch.tensor([float(w) for _, w in value], dtype=torch.float64)
    for s, stage in enumerate(block.stages):
        operations = _sorted(stage)
        tensors[f"block{b}.stage{s}.left"] = _dense([o.left for o in operations], width)
        tensors[f"block{b}.stage{s}.right"] = _dense([o.right for o in operations], width)
        tensors[f"block{b}.stage{s}.target"] = torch.tensor([o.target for o in operations], dtype=torch.int64)
    return tensors


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

    def _attend(self, x: torch.Tensor, block: str, heads: int) -> torch.Tensor:
        after = x
        for h in range(heads):
            head = f"head{h}"
            query, key = x @ self._tensor(block, head, "query").T, x @ self._tensor(block, head, "key").T
            scores = query @ key.transpose(-1, -2)
            chosen = (scores == scores.amax(dim=-1, keepdim=True)).to(torch.float64)
            source = x.index_select(-1, self._tensor(block, head, "source"))
            mean = _sum_of_chosen(chosen, source) / chosen.sum(dim=-1, keepdim=True)
            after = after.index_add(
                -1, self._tensor(block, head, "target"), mean * self._tensor(block, head, "weight")
            )
        return after

    def _map(self, x: torch.Tensor, block: str, stage: str, kinds: list[str]) -> torch.Tensor:
        left, right = x @ self._tensor(block, stage, "left").T, x @ self._tensor(block, stage, "right").T
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
    total, *counts = parts.split(source.shape[-1], dim=-1)
    for count, value in zip(counts, (torch.inf, -torch.inf, torch.nan), strict=True):
        total = total + torch.where(count > 0, value, 0.0)
    return total
