"""The module behind ``transformer``. It imports torch, so nothing imports it until a module is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ._validation import FloatArray

HEADS = 2


class SparseXorTransformer(nn.Module):
    """One ``nn.MultiheadAttention`` layer, asked at a masked CLS token; the derivation stands in ``transformer``.

    Parameters: ``embeddings`` (d, m), ``theta`` and ``theta_tilde`` (m,), arrays of one float dtype that were
    read already. Buffers: ``positions`` (d + 1, m), the CLS token's row being 0; ``cls`` (2m,); ``hidden`` (d +
    1,), True where a key is masked. All of them and the weights are in ``state_dict``.

    Source: our derivation.
    """

    positions: Tensor
    cls: Tensor
    hidden: Tensor

    def __init__(self, embeddings: FloatArray, theta: FloatArray, theta_tilde: FloatArray) -> None:
        super().__init__()
        d, m = embeddings.shape
        with np.errstate(over="ignore", invalid="ignore"):
            scores = m**0.5 * (embeddings @ np.stack([theta, theta_tilde], axis=1))
        # torch reads no negative strides.
        rows = torch.tensor(np.ascontiguousarray(embeddings))
        # The layer fills its weights at random first; the caller's random numbers are not to move by that.
        with torch.random.fork_rng(devices=[]):
            self.attention = nn.MultiheadAttention(
                HEADS * m, HEADS, bias=False, kdim=m, vdim=1, batch_first=True, dtype=rows.dtype
            )
        with torch.no_grad():
            weights = self.attention
            weights.q_proj_weight.zero_()
            weights.k_proj_weight.copy_(torch.eye(m, dtype=rows.dtype).repeat(HEADS, 1))
            weights.v_proj_weight.zero_()
            weights.out_proj.weight.copy_(torch.eye(HEADS * m, dtype=rows.dtype))
            for head, query in enumerate((theta, theta_tilde)):
                weights.q_proj_weight[head * m : (head + 1) * m, 0] = m**0.5 * torch.tensor(query.copy())
                weights.v_proj_weight[head * m, 0] = 1
            if not weights.q_proj_weight.isfinite().all():
                largest = max(abs(theta).max(), abs(theta_tilde).max())
                raise OverflowError(
                    f"sqrt(m) = {m**0.5:g} times a query as large as {largest} exceeds {embeddings.dtype}; "
                    "use smaller queries"
                )
        if not np.isfinite(scores).all():
            raise OverflowError(
                f"scores of embeddings as large as {abs(embeddings).max()} and queries as large as "
                f"{max(abs(theta).max(), abs(theta_tilde).max())} exceed {embeddings.dtype}; scale one of them down"
            )
        self.register_buffer("positions", torch.cat([rows.new_zeros(1, m), rows]))
        self.register_buffer("cls", torch.eye(HEADS * m, dtype=rows.dtype)[0].clone())
        self.register_buffer("hidden", torch.arange(d + 1) == 0)

    def forward(self, x: Any) -> Tensor:
        """f(x) of shape (n,) for x of shape (n, d) with entries -1 and +1, in the module's dtype. O(n d m^2).

        Raises TypeError for entries that are no real numbers, ValueError for another shape or other entries.
        """
        bits = self._read(x)
        n, m = len(bits), self.positions.shape[1]
        if n == 0:
            # The standard layer cannot shape a mask for no inputs.
            return bits.new_zeros(0)
        output, _ = self._attend(torch.cat([bits.new_zeros(n, 1), bits], dim=1), need_weights=False)
        return -output[:, 0] * output[:, m]

    def attention_weights(self) -> Tensor:
        """The weights of the two heads over the d positions, shape (2, d); they do not depend on the input."""
        _, weights = self._attend(self.positions.new_zeros(1, len(self.positions)), need_weights=True)
        assert weights is not None
        return weights[0, :, 1:]

    def queries(self) -> tuple[Tensor, Tensor]:
        """(theta, theta~), each of shape (m,), read off column 0 of W_Q."""
        m = self.positions.shape[1]
        column = self.attention.q_proj_weight[:, 0] / m**0.5
        return column[:m], column[m:]

    def _attend(self, values: Tensor, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """The layer's output (n, 2m) at the CLS token, and its weights (n, 2, d + 1) if asked for."""
        n = len(values)
        output, weights = self.attention(
            self.cls.expand(n, 1, -1),
            self.positions.expand(n, -1, -1),
            values.unsqueeze(-1),
            key_padding_mask=self.hidden.expand(n, -1),
            need_weights=need_weights,
            average_attn_weights=False,
        )
        return output[:, 0], None if weights is None else weights[:, :, 0]

    def _read(self, x: Any) -> Tensor:
        d = len(self.positions) - 1
        if not isinstance(x, Tensor):
            try:
                array = np.asarray(x)
            except ValueError:
                raise ValueError("x has rows of unequal lengths; give a batch of shape (n, d)") from None
            if array.dtype.kind not in "iuf":
                raise TypeError(f"x has dtype {array.dtype}; give the numbers -1 and +1")
            x = torch.tensor(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
        if x.dtype == torch.bool or x.is_complex():
            raise TypeError(f"x has dtype {x.dtype}; give the numbers -1 and +1")
        if x.ndim != 2 or x.shape[1] != d:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (n, {d}), one row an input of {d} bits")
        # Beside unsigned integers torch would read -1 as their largest number.
        bits = x if x.is_floating_point() else x.to(torch.float64)
        wrong = (bits != 1) & (bits != -1)  # also where x is NaN
        if wrong.any():
            row, column = (int(i) for i in wrong.nonzero()[0])
            raise ValueError(f"x[{row}, {column}] is {x[row, column].item()}; every bit is -1 or +1")
        return bits.to(self.positions)
