"""Sparse XOR with two attention heads: loss, worst case, gradient and one population step.

The task: x is uniform on {-1, +1}^d and the label is y = -x_p x_q for an unknown pair p != q. Position i has a
fixed embedding v_i (a row of ``embeddings``); a head with query theta attends with the weights
gamma = softmax(embeddings @ theta), and two heads together answer f(x) = -(sum_i gamma_i x_i)(sum_i gamma~_i x_i).
The loss is E[(f(x) - y)^2], without a factor 1/2. Pairs are 0-based throughout.

The functions are pure, need numpy (and python-flint where rounding must not decide), and compute in the dtype they are
given. Formulas are derived in the module that implements them.
"""

from .all_pairs import outcome_all_pairs
from .attention import attention_weights
from .batch import Heads, Outcomes, Training, batch_loss, classify, step_batch, train
from .gradient import population_gradient, score_gradient
from .kinds import ATTENTION_KINDS
from .loss import population_loss
from .partition import PARTITION_PAIR, partition_heads, partition_worst_case
from .samples import SampleStep, one_step_from_samples
from .starts import Starts, StepOutcomes, chunks_of_starts, count_outcomes, draw_starts
from .step import SPECIALISED_AT, OneStep, one_step
from .transformer import transformer
from .worst_case import ENUMERATION_LIMIT, WorstCase, worst_case_error

__all__ = [
    "ATTENTION_KINDS",
    "ENUMERATION_LIMIT",
    "PARTITION_PAIR",
    "SPECIALISED_AT",
    "Heads",
    "OneStep",
    "Outcomes",
    "SampleStep",
    "Starts",
    "StepOutcomes",
    "Training",
    "WorstCase",
    "attention_weights",
    "batch_loss",
    "chunks_of_starts",
    "classify",
    "count_outcomes",
    "draw_starts",
    "one_step",
    "one_step_from_samples",
    "outcome_all_pairs",
    "partition_heads",
    "partition_worst_case",
    "population_gradient",
    "population_loss",
    "score_gradient",
    "step_batch",
    "train",
    "transformer",
    "worst_case_error",
]
