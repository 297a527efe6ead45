"""Programs of the RASP-style language: matrices as sequences, softmax, MaxMin, the simulator U, the inverse.

Each is a function of sequences; :mod:`.proofs` proves them size by size, for all real inputs.
"""

from .inverse import NewtonRun, inverse, newton_inverse
from .matrices import Matrix
from .maxmin import maxmin
from .proofs import PROGRAMS, ProgramProof, prove_all, prove_program
from .simulate import Simulation, simulate

__all__ = [
    "PROGRAMS",
    "Matrix",
    "NewtonRun",
    "ProgramProof",
    "Simulation",
    "inverse",
    "maxmin",
    "newton_inverse",
    "prove_all",
    "prove_program",
    "simulate",
]
