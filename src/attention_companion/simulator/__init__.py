"""Universal simulators of attention: a transformer encoder U that computes any given attention layer T.

U reads ONE input, the sequence <T, X> that holds the layer's matrices and its data, and returns T(X). Here U is given
by explicit exact weights (:func:`build`), can be run on floats, rationals and balls, and is proved shape by shape.
"""

from .build import LAYOUTS, Encoder, GuardedRun, build
from .match2 import match2
from .parity import parity
from .programs import (
    PROGRAMS,
    ProgramProof,
    inverse,
    maxmin,
    newton_inverse,
    prove_all,
    prove_program,
    simulate,
)
from .prove import Counterexample, Proof, prove
from .rasp import Rasp
from .shape import Shape
from .target import attention

__all__ = [
    "LAYOUTS",
    "PROGRAMS",
    "Counterexample",
    "Encoder",
    "GuardedRun",
    "ProgramProof",
    "Proof",
    "Rasp",
    "Shape",
    "attention",
    "build",
    "inverse",
    "match2",
    "maxmin",
    "newton_inverse",
    "parity",
    "prove",
    "prove_all",
    "prove_program",
    "simulate",
]
