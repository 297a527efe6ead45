"""Part 3: tangent kernels, Gram matrices and linearized attention.

Nothing here imports torch; exact arithmetic is FLINT's. See each module for definitions, sources and conventions.
"""

from attention_companion.ntk.attention import gram, linearized_attention, normalise_rows
from attention_companion.ntk.condition import (
    ConditionEnclosure,
    condition_number,
    condition_number_ball,
    rank_exact,
)
from attention_companion.ntk.cube_identity import CubeIdentity, cube_identity
from attention_companion.ntk.relu_kernel import relu_ntk

__all__ = [
    "ConditionEnclosure",
    "CubeIdentity",
    "condition_number",
    "condition_number_ball",
    "cube_identity",
    "gram",
    "linearized_attention",
    "normalise_rows",
    "rank_exact",
    "relu_ntk",
]
