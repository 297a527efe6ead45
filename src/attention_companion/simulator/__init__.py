"""Universal simulators of attention: a transformer encoder U that computes any given attention layer T.

U reads ONE input, the sequence <T, X> that holds the layer's matrices and its data, and returns T(X). Here U is given
by explicit exact weights (:func:`build`), can be run on floats, rationals and balls, and is proved shape by shape.
"""

from .build import LAYOUTS, Encoder, GuardedRun, build
from .prove import Counterexample, Proof, prove
from .shape import Shape
from .target import attention

__all__ = [
    "LAYOUTS",
    "Counterexample",
    "Encoder",
    "GuardedRun",
    "Proof",
    "Shape",
    "attention",
    "build",
    "prove",
]
