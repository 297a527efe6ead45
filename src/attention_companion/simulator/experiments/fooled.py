"""What a proof must look at beside the identity of quotients: divisors that vanish.

A prover that compares quotients by n1 d2 = n2 d1 alone is content when n1 and d1 are identically 0: both sides are then
0. Such a prover is written down here, to be seen to accept nonsense, and held beside the package's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..build import Encoder, build
from ..encoder import Machine
from ..execute import plan, run
from ..mutation import with_weight
from ..programs.statements import attention_of
from ..prove import prove
from ..symbolic import Quotient, Symbolic


class Pair(Quotient):
    """Polynomials n, d added as schoolbook fractions whatever d may be: n1/d1 + n2/d2 = (n1 d2 + n2 d1)/(d1 d2)."""

    def __add__(self, other: Quotient) -> Quotient:
        mine, theirs = (1 if q.below is None else q.below for q in (self, other))
        return Pair(self.above * theirs + other.above * mine, mine * theirs)

    # Python asks the more special class first: also 0 + n/d is added as a fraction.
    __radd__ = __add__

    def __mul__(self, other: Quotient) -> Quotient:
        mine, theirs = (1 if q.below is None else q.below for q in (self, other))
        return Pair(self.above * other.above, mine * theirs)

    __rmul__ = __mul__


class Credulous(Symbolic):
    """Divides by anything."""

    def quotient(self, above: Quotient, below: Quotient) -> Quotient:
        numerator = above.above if below.below is None else above.above * below.below
        divisor = below.above if above.below is None else below.above * above.below
        return Pair(numerator, divisor)


def credulous_proof(encoder: Encoder) -> bool:
    """Whether U = T "holds" by cross-multiplication alone, for an encoder without an output matrix."""
    shape = encoder.shape
    kind = Credulous(shape.inputs, shape.heads * shape.n**2 + 4)
    sizes = (shape.n, shape.d, shape.d_v, shape.heads)
    wanted = attention_of(kind, kind.inputs, sizes)
    got = run(plan(encoder.machine), kind.array(kind.inputs), kind)
    return all(ours.same(theirs) for ours, theirs in zip(got, wanted, strict=True))


def with_zero_over_zero(machine: Machine) -> Machine:
    """Every division becomes 0 / 0: the weights of both of its linear forms are set to 0."""
    for address, _ in list(machine.weights()):
        if address[1] == "stage":
            b, s, o = (int(str(address[at])) for at in (0, 2, 3))
            if machine.blocks[b].stages[s][o].kind == "division":
                machine = with_weight(machine, address, Fraction(0))
    return machine


def zero_over_zero_accepted(
    layouts: Sequence[str], shapes: Sequence[tuple[int, int, int, int]], credulous: bool = False
) -> int:
    """How many encoders with 0 / 0 for every division are accepted, by the prover or by the credulous one."""
    accepted = 0
    for layout in layouts:
        for sizes in shapes:
            encoder = build(*sizes, layout)
            broken = Encoder(with_zero_over_zero(encoder.machine), encoder.shape, "changed")
            accepted += credulous_proof(broken) if credulous else prove(broken).holds is True
    return accepted
