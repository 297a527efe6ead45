"""What the large-d, large-m expansions say about where one step stops; no random numbers here.

Notation. w = v_p - v_q, s_i = v_i . theta, K = V V^T, kappa = eta / d^2. A head's preference is the growth of its score
at p minus that at q. For the mirrored start it is S + C for head 1 and -S + C for head 2, an exact split into the
parts that are odd and even in theta, so both heads prefer one target exactly when abs(C) > abs(S). To leading order

    S = (4/d^2)(1 - 1/(2d) - 1/d^2) w.theta,    C = -(4/d^3) w . sum_i v_i,

and the ratio of the standard deviations, ``plain_ratio``, gives the probability (2/pi) arctan(ratio).

Next order, d large. P(abs(S) < abs(C)) = 2 f(0) E abs(C/S'), with f the density of u.theta at 0, u = w/abs(w),
and S' the slope of S in u.theta. Four factors depart from the leading order, each by a multiple of 1/m:
  f(0) of a coordinate on the sphere instead of a normal one                                      1 - 3/(4m)
  abs(w)^2 / 2 = 1 - K_pq multiplies S; the mean of 1 / (1 - K_pq)                                1 + 1/m
  positions off the pair add -(2/d^3) sum_j (w.v_j)(v_j.theta), mean -(2/(d^2 m)) w.theta, to S   1 + 1/(2m)
  with tau = mean s_i^2 = 1/m both S (through 1/(Z Z~) = d^-2 (1 - tau)) and C (through
  h_j = -(4/d^3)(1 + (3 s_j^2 - 7 tau)/4)) shrink by 1 - 1/m                                      1
Their product is 1 + 3/(4m): ``NEXT_ORDER``.

Balanced embeddings v'_i = (v_i - vbar) / length. C is again w . sum_i v'_i, and the sum is about
sum_i (v_i - vbar)(v_i . vbar): along w a mean part (d/m + 1) vbar (the 1 from i = p, q, which stand out along w) of
variance (d/m + 1)^2 / (d m), and a fluctuation of variance 1/m^2. What is left of the even second order,
-(3/d^3) sum_j (w.v_j)(s_j^2 - tau), has the variance 18 abs(w)^2 / (d^5 m^3). Against S, whose variance is
(16/d^4) abs(w)^2 / m,

    ratio^2 = ((1 + m/d)^2 + m/d + 9/8) / (m^2 d).

Independent starts. With s = V theta and t = V theta~ the preferences are A ds - B dt + C and A dt - B ds + C, where
ds = s_p - s_q, A = (2/d^2)(1 - 3/d + 2/d^2), B = (2/d^2)(1 + 2/d - 4/d^2). Half their difference has variance
((A + B)/2)^2 4/m. Half their sum also takes -(5/d^3) sum_j (w.v_j)(s_j + t_j) from the positions off the pair, which
the mirrored start cancels: a mean part -(5/(d^2 m))(ds + dt), of the sign of A - B, and a fluctuation of variance
25/(8m) times that of C. Both are of higher order in 1/m, but their coefficients are large and they are kept.

One moderate step, then a very large one. The first step raises both targets in both heads by 2 kappa: weights A on each
target and B elsewhere, A/B = e^(2 kappa), and widens the odd gap by 1 + 4 kappa (1 - 1/(2d) - 1/d^2). At such weights,
with N = 2A^2 + (d-2)B^2 and Q = 2A + 4A^3 - 6N(A - B) - 4B^3, an odd gap grows by X = (1 - 2A)Q + 2A(1 + N - 2A^2), a
common one by Y = (1 - 2A)Q - 2A(1 + 3N - 6A^2) (negative soon: it heals), and the sum of embeddings enters with 2BQ. As
the first step also raised position j by 2 kappa (K_jp + K_jq), the sum is no longer even: variance 8 kappa^2 / m times
that of the sum is added.

A finite rate. The gaps of the two heads are (1 + 4 kappa)z + 4 kappa rho z' and its mirror image, in units of
sqrt(2/m): a head has 0.99 of its weight on its target when the gap exceeds ln 99 (all other positions are far below).
Next order, d large: the kappa that leaves a small share undecided goes like f(0) E[1 / (growth of the gap in u.theta)],
with f(0) as above, E (1 - K_pq)^(-3/2) = 1 + 15/(8m), and the factors 1 - 1/(2m) and 1 - 1/m of S, which do not cancel
here: 1 + 21/(8m), ``RATE_NEXT_ORDER``.

Source: our derivation; each law is measured in the chapter "Where does one step stop?".
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

#: (observed / leading order - 1) * m for large d.
NEXT_ORDER = 0.75
#: (rate needed / ``rate_needed`` - 1) * m for large d.
RATE_NEXT_ORDER = 21 / 8
#: Score gap between the two targets at which a head has 0.99 of its weight on one.
LOG_ODDS = math.log(99)


def probability_of_ratio(ratio: float) -> float:
    """P(abs(C) > abs(S)) for independent centred normals with sd(C) = ratio * sd(S); ratio >= 0."""
    if not ratio >= 0:
        raise ValueError(f"ratio is {ratio!r}; a ratio of standard deviations is not negative")
    return 2 / math.pi * math.atan(ratio)


def plain_ratio(d: int) -> float:
    """sd(C) / sd(S) for embeddings on the sphere and the mirrored start; d >= 3."""
    _at_least_three(d)
    return 2 * d * math.sqrt(d - 2) / (2 * d * d - d - 2)


def balanced_ratio(d: int, m: int) -> float:
    """The same for centred and re-normalised embeddings, leading order in large d and m."""
    _at_least_three(d)
    return math.sqrt(((1 + m / d) ** 2 + m / d + 9 / 8) / d) / m


def independent_ratio(d: int, m: int) -> float:
    """The same for two independent queries on the sphere; about sqrt(2) ``plain_ratio`` when m is large."""
    _at_least_three(d)
    common = ((5 - 6 / d) / d + 5 / m) ** 2 + 8 * (d - 2) / d**2 * (1 + 25 / (8 * m))
    return math.sqrt(common) / (2 - 1 / d - 2 / d**2)


def two_step_ratio(d: int, m: int, kappa: float) -> float:
    """The same for the second, very large step after a first one with eta = kappa d^2; kappa = 0 is ``plain_ratio``."""
    _at_least_three(d)
    raised = math.exp(2 * kappa)
    a = raised / (2 * raised + d - 2)
    b = a / raised
    n = 2 * a * a + (d - 2) * b * b
    q = 2 * a + 4 * a**3 - 6 * n * (a - b) - 4 * b**3
    odd = (1 - 2 * a) * q + 2 * a * (1 + n - 2 * a * a)
    common = (1 - 2 * a) * q - 2 * a * (1 + 3 * n - 6 * a * a)
    even = math.hypot(2 * b * q + 4 * kappa / d * common, 2 * b * q * kappa * math.sqrt(8 / m))
    return math.sqrt(d - 2) * even / (odd * (1 + 4 * kappa * (1 - 1 / (2 * d) - 1 / d**2)))


def length_needed(success: float) -> int:
    """The smallest d >= 3 at which the leading-order law gives at least this success share, 0.75 <= success < 1.

    The ratio falls with d from d = 4 on, so bisection finds it.
    """
    if not 0.75 <= success < 1:
        raise ValueError(f"success is {success!r}; give a share of at least 0.75 and below 1")

    def reached(d: int) -> bool:
        return 1 - probability_of_ratio(plain_ratio(d)) >= success

    low, high = 3, 4
    while not reached(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def success_at_rate(d: int, m: int, kappa: float, gap: float = LOG_ODDS) -> float:
    """Success share of one step with eta = kappa d^2 in the model of the module's head; d >= 3, kappa >= 0.

    P((1 + 4 kappa s) abs(z) - 4 kappa s rho abs(z') >= gap sqrt(m/2)), s = 1 - 1/(2d) - 1/d^2, for independent normals
    z and z': an integral over z' with 200 Gauss-Legendre nodes on [0, 9]. ``gap`` is the difference
    of scores at which a head counts as decided; the control of the chapter takes another one.
    """
    if not 0 <= kappa < math.inf:
        raise ValueError(f"kappa is {kappa!r}; give a finite number that is not negative")
    moved = 4 * kappa * (1 - 1 / (2 * d) - 1 / d**2)
    nodes, weights = _nodes()
    z = 4.5 * (nodes + 1)
    needed = (gap * math.sqrt(m / 2) + moved * plain_ratio(d) * z) / (1 + moved)
    tails = np.array([math.erfc(x / math.sqrt(2)) for x in needed])
    return float(4.5 * weights @ (2 / math.sqrt(2 * math.pi) * np.exp(-z * z / 2) * tails))


def rate_needed(d: int, m: int, share_of_ceiling: float = 0.95, gap: float = LOG_ODDS) -> float:
    """The kappa at which ``success_at_rate`` reaches this share of its own limit for large rates, by bisection."""
    if not 0 < share_of_ceiling < 1:
        raise ValueError(f"share_of_ceiling is {share_of_ceiling!r}; give a number between 0 and 1")
    wanted = share_of_ceiling * (1 - probability_of_ratio(plain_ratio(d)))
    low, high = 0.0, 1.0
    while success_at_rate(d, m, high, gap) < wanted:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if success_at_rate(d, m, middle, gap) >= wanted else (middle, high)
    return high


@functools.cache
def _nodes() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights


def _at_least_three(d: int) -> None:
    if d < 3:
        raise ValueError(f"d is {d}; the laws need a position besides the pair, d >= 3")
