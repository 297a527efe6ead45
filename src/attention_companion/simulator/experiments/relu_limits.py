"""What ReLU cannot do and how close it comes: affine functions that cover a grid, error curves, the escapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..build import build
from ..relu_basis import exp_pieces, relu_division, relu_product, square_pieces
from ..relu_machine import ReluEncoder, relu_encoder
from ..target import attention
from .two_tasks import hard_attention

Point = tuple[int, ...]


def affine_cover(points: Sequence[Point]) -> int:
    """The smallest number of affine functions of all but the last coordinate whose graphs contain all the points.

    Exact: the largest sets of points that one affine function meets are listed (for two inputs through every three
    points not on a line of the plane, for one input through every two), and the smallest cover is found by branching on
    an uncovered point. Points are integers with distinct inputs; a function meets at most one value over an input.

    Raises ValueError for points with other than one or two inputs.
    """
    inputs = len(points[0]) - 1
    if inputs not in (1, 2):
        raise ValueError(f"points have {inputs} inputs; expected one or two")
    met = {frozenset([p]) for p in points}
    met |= {frozenset(pair) for pair in itertools.combinations(points, 2)}
    if inputs == 1:
        met |= {
            frozenset(r for r in points if _turn(p, q, r) == 0) for p, q in itertools.combinations(points, 2)
        }
    else:
        for p, q, r in itertools.combinations(points, 3):
            if _turn(p, q, r):
                met.add(frozenset(s for s in points if _volume(p, q, r, s) == 0))
            elif _affine_on_line(p, q, r):
                met.add(frozenset((p, q, r)))
    largest = [s for s in met if not any(s < t for t in met)]
    by_point = {p: sorted((s for s in largest if p in s), key=len, reverse=True) for p in points}
    most = max(len(s) for s in largest)
    best = len(points)

    def search(left: frozenset[Point], used: int) -> None:
        nonlocal best
        if not left:
            best = min(best, used)
            return
        if used + -(-len(left) // most) >= best:
            return
        # The point that fewest sets contain leaves the fewest branches.
        point = min(left, key=lambda p: (len(by_point[p]), p))
        for chosen in by_point[point]:
            search(left - chosen, used + 1)

    search(frozenset(points), 0)
    return best


def _turn(p: Point, q: Point, r: Point) -> int:
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def _affine_on_line(p: Point, q: Point, r: Point) -> bool:
    """Whether three points over a line of the plane lie on a line in space."""
    u, v = [b - a for a, b in zip(p, q, strict=True)], [b - a for a, b in zip(p, r, strict=True)]
    return u[0] * v[2] == v[0] * u[2] and u[1] * v[2] == v[1] * u[2]


def _volume(p: Point, q: Point, r: Point, s: Point) -> int:
    a, b, c = ([y - x for x, y in zip(p, other, strict=True)] for other in (q, r, s))
    return (
        a[0] * (b[1] * c[2] - b[2] * c[1])
        - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
    )


def grid(xs: Sequence[int], ys: Sequence[int], function: Callable[[int, int], int]) -> list[Point]:
    """The points (x, y, f(x, y)) over a grid."""
    return [(x, y, function(x, y)) for x in xs for y in ys]


def grid_excess(sizes: Sequence[int], draws: int, seed: int, function: Callable[[int, int], int]) -> int:
    """Sum over grids of |affine functions needed - n|: n x n grids of 0..n-1 and of ``draws`` random integers each."""
    total = 0
    for n in sizes:
        rng = np.random.default_rng([seed, n])
        grids = [(list(range(n)), list(range(n)))]
        for _ in range(draws):
            x, y = (sorted(rng.choice(np.arange(-20, 21), n, replace=False).tolist()) for _ in range(2))
            grids.append((x, y))
        total += sum(abs(affine_cover(grid(xs, ys, function)) - n) for xs, ys in grids)
    return total


def bits_missed(bits: int, pieces: int) -> int:
    """At how many pairs of ``bits``-bit integers the product of ReLU squares with that many pieces is not exact.

    Integers 0..2^b - 1 are scaled by 2^-b into the box; exact rationals. 2^(b+1) pieces suffice: u and v then are both
    nodes or both middles of pieces, and what the squares are off by cancels.
    """
    square = square_pieces(pieces)
    size = 2**bits
    at = {Fraction(k, 2 * size): square.exactly(Fraction(k, 2 * size)) for k in range(-size, 2 * size)}
    missed = 0
    for x, y in itertools.product(range(size), repeat=2):
        product = at[Fraction(x + y, 2 * size)] - at[Fraction(x - y, 2 * size)]
        missed += product != Fraction(x * y, size * size)
    return missed


def product_errors(pieces: Sequence[int], places: int) -> list[float]:
    """The largest error of the product on [-1, 1]^2 at each number K of pieces: on a grid, and at x = y = 1/K."""
    side = np.linspace(-1, 1, places)
    found = []
    for count in pieces:
        x, y = (np.append(m.ravel(), 1 / count) for m in np.meshgrid(side, side))
        found.append(float(np.abs(relu_product(x, y, count) - x * y).max()))
    return found


def worst_share(pieces: Sequence[int], *, without: bool = False) -> Fraction:
    """The largest K^2 (error of the square) over the middles of all pieces and over K, exactly; 1 says 1/K^2.

    ``without`` leaves out one inner node, the first: the control.
    """
    worst = Fraction(0)
    for count in pieces:
        square = square_pieces(count, without=1 if without else None)
        for (a, b), (fa, fb) in zip(
            itertools.pairwise(square.nodes), itertools.pairwise(square.values), strict=True
        ):
            worst = max(worst, abs((fa + fb) / 2 - ((a + b) / 2) ** 2) * count**2)
    return worst


def exp_errors(low: float, high: float, pieces: Sequence[int], places: int) -> list[tuple[float, float]]:
    """(largest error seen, bound) of e^x at each K."""
    x = np.linspace(low, high, places)
    found = []
    for count in pieces:
        function = exp_pieces(low, high, count)
        found.append((float(np.abs(function(x) - np.exp(x)).max()), function.error))
    return found


def division_errors(pieces: Sequence[int], places: int, bound: float, low: float, high: float) -> list[float]:
    """The largest error seen of x/y for |x| <= bound, low <= y <= high, at each K."""
    x, y = np.meshgrid(np.linspace(-bound, bound, places), np.linspace(low, high, places))
    return [float(np.abs(relu_division(x, y, count, bound, low, high) - x / y).max()) for count in pieces]


@dataclass(frozen=True)
class Simulated:
    """U with ReLU alone at one K: largest error on the layers tried, bound, ReLUs, layers of U."""

    pieces: int
    error: float
    bound: float
    relus: int
    layers: int


def simulate_with_relu(
    shape: tuple[int, int, int],
    box: float,
    pieces: Sequence[int],
    layers: int,
    seed: int,
    *,
    layout: str = "constant",
    spread: float = 1.0,
    exp_pieces: int | None = None,
) -> list[Simulated]:
    """Run U with ReLU alone at each K on random layers with entries in [-box, box], every second one at the corners.

    ``spread`` multiplies the inputs, so that above 1 they leave the box; ``exp_pieces`` fixes the pieces of exp. Both
    are controls.
    """
    n, d, d_v = shape
    plain = build(n, d, d_v, layout=layout)
    results = []
    for count in pieces:
        made: ReluEncoder = relu_encoder(plain, box, count, exp_pieces=exp_pieces)
        rng = np.random.default_rng([seed, n, d, d_v])
        worst = 0.0
        for i in range(layers):
            x, a, v = (rng.uniform(-box, box, size) for size in ((n, d), (d, d), (d, d_v)))
            if i % 2:
                x, a, v = (box * np.sign(m) for m in (x, a, v))
            x, a, v = spread * x, spread * a, spread * v
            difference = made.encoder.run(x, [(a, v)]) - attention(x, [(a, v)])
            worst = max(worst, float(np.abs(difference).max()))
        results.append(Simulated(count, worst, made.error, made.relus, made.encoder.layers))
    return results


def shapes_missed(shapes: Sequence[tuple[int, int, int]], pieces: int, seed: int) -> int:
    """How many shapes have a layer, among a few with entries in [-1/2, 1/2], at which U with ReLU alone is not T.

    Counted only where the difference exceeds 1e-9, a million times the rounding of float64.
    """
    return sum(simulate_with_relu(shape, 0.5, [pieces], 4, seed)[0].error > 1e-9 for shape in shapes)


# -- the escapes: each returns how many pairs of 0..m-1 x 0..m-1 are multiplied wrongly, exactly ----------------------


def escape_bilinear(m: int, *, linear: bool = False) -> int:
    """A gated linear unit, the product of two linear forms of a token. ``linear`` adds them instead: a control."""
    return sum((x + y if linear else x * y) != x * y for x in range(m) for y in range(m))


def escape_alphabet(m: int, *, letters: int | None = None) -> int:
    """One factor from the alphabet 0..m-1, the other any number with |y| <= B: hats select the letter, ReLU gates y.

    With h_a(x) = relu(x-a+1) - 2 relu(x-a) + relu(x-a-1), which is 1 at x = a and 0 at other integers, and h in {0, 1},
    h y = relu(y - B + 2Bh) - Bh. ``letters`` (m) is how many letters the map knows: m - 1 is a control.
    """
    bound = Fraction(m)
    known = range(m if letters is None else letters)

    def relu(value: Fraction) -> Fraction:
        return max(value, Fraction(0))

    wrong = 0
    for x in range(m):
        # Other numbers than integers for y: thirds.
        for y in (Fraction(j, 3) for j in range(3 * m)):
            total = Fraction(0)
            for a in known:
                hat = relu(Fraction(x - a + 1)) - 2 * relu(Fraction(x - a)) + relu(Fraction(x - a - 1))
                total += a * (relu(y - bound + 2 * bound * hat) - bound * hat)
            wrong += total != x * y
    return wrong


def escape_length(m: int, *, tokens: int | None = None) -> int:
    """A sequence that grows with the integers: token m x + y holds the product, and one head fetches it by its address.

    Score 2 q k - k^2 with q = m x + y. ``tokens`` (m^2) is the length: m^2 - 1 is a control, in which one is missing.
    """
    length = m * m if tokens is None else tokens
    keys, queries = np.arange(length), np.arange(m * m)
    fetched = hard_attention(
        2 * queries[:, np.newaxis] * keys - keys**2, [(k // m) * (k % m) for k in range(length)]
    )
    pairs = itertools.product(range(m), repeat=2)
    return sum(mean != x * y for (x, y), (mean, _) in zip(pairs, fetched, strict=True))


def listed(values: Any) -> list[Any]:
    """Plain Python numbers, as a figure's data columns need them."""
    return np.asarray(values).tolist()
