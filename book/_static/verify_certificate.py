"""Check a certificate that an average-hard-attention encoder U computes attention T at one rational layer.

    python verify_certificate.py certificate.json [...]

Standard library only; it shares nothing with the code that wrote the certificate. It runs the encoder's weights and,
apart from them, T(X) = softmax(X A X^T) X V from its definition, both on intervals with rational ends, and accepts if
both lie within the stated bounds, at each entry, and no bounds are further apart than 10^-30.
"""

import json
import sys
from fractions import Fraction as F

STEP = 2**300  # interval ends that are not exact are rounded outwards to multiples of 1 / STEP
TOLERANCE = F(1, 10**30)


class Rejected(Exception):
    """Why a certificate is not accepted."""


def require(truth, text):
    if not truth:
        raise Rejected(text)


def outward(low, high):
    """An interval (low, high) that holds the given one and has short ends; a single number stays exact."""
    return (low, high) if low == high else (F(low * STEP // 1, STEP), F(-(-high * STEP // 1), STEP))


def add(a, b):
    return outward(a[0] + b[0], a[1] + b[1])


def times(a, b):
    ends = [x * y for x in a for y in b]
    return outward(min(ends), max(ends))


def over(a, b):
    require(b[0] > 0 or b[1] < 0, "a divisor may be 0")
    return times(a, (1 / b[1], 1 / b[0]))


def total(values):
    result = (F(0), F(0))
    for value in values:
        result = add(result, value)
    return result


def exp_of(x):
    """Bounds on e^x: Taylor's sum at y = x / 2^k, |y| <= 1/2, whose rest is below 2 |term|, then k squarings."""
    k = 0
    while 2 * abs(x) > 2**k:
        k += 1
    y, term, result, n = (x / 2**k, x / 2**k), (F(1), F(1)), (F(0), F(0)), 0
    while n == 0 or max(map(abs, term)) * STEP > 4:
        n += 1
        result, term = add(result, term), times(times(term, y), (F(1, n), F(1, n)))
    rest = 2 * max(map(abs, term))
    result = add(result, (-rest, rest)) if x else (F(1), F(1))
    for _ in range(k):
        result = times(result, result)
    return result


def exp(a):
    return (exp_of(a[0])[0], exp_of(a[1])[1])


def form(entries, state, token):
    return total(times((F(weight), F(weight)), state[token][channel]) for channel, weight in entries)


def project(matrix, state, token):
    rows = {}
    for row, channel, weight in matrix:
        value = times((F(weight), F(weight)), state[token][channel])
        require(value[0] == value[1], "a score reads a number that is not exact")
        rows[row] = rows.get(row, 0) + value[0]
    return rows


def attend(head, state):
    """For each token what the head adds: [(target, value)]."""
    keys = [project(head["key"], state, t) for t in range(len(state))]
    brought = []
    for token in range(len(state)):
        query = project(head["query"], state, token)
        scores = [sum(q * key.get(row, 0) for row, q in query.items()) for key in keys]
        chosen = [t for t, score in enumerate(scores) if score == max(scores)]
        means = []
        for target, source, weight in head["value"]:
            factor = F(weight) / len(chosen)
            means.append((target, times((factor, factor), total(state[t][source] for t in chosen))))
        brought.append(means)
    return brought


def run(c, sequence):
    """The encoder on its input sequence: enclosures of the output tokens' values."""
    state = [[(F(0), F(0))] + [(F(p), F(p)) for p in row] for row in c["positions"]]
    for row in state:
        row.extend([(F(0), F(0))] * (c["width"] - len(row)))
    require(len(set(c["input_tokens"])) == len(sequence) == len(c["input_tokens"]), "wrong number of inputs")
    for token, number in zip(c["input_tokens"], sequence, strict=True):
        state[token][0] = (number, number)
    basis = {"product": times, "division": over, "exp": lambda a, b: exp(a)}
    for block in c["blocks"]:
        brought = [attend(head, state) for head in block["heads"]]
        for token, row in enumerate(state):
            for head in brought:
                for target, value in head[token]:
                    row[target] = add(row[target], value)
        for stage in block["stages"]:
            for token, row in enumerate(state):
                results = []
                for o in stage:
                    require(o["kind"] in basis, f"the operation {o['kind']} is not in the basis")
                    left, right = form(o["left"], state, token), form(o["right"], state, token)
                    results.append((o["target"], basis[o["kind"]](left, right)))
                for target, value in results:
                    row[target] = add(row[target], value)
    return [state[token][c["output_channel"]] for token in c["output_tokens"]]


def matrix_product(left, right):
    return [
        [total(times(a, b) for a, b in zip(row, column, strict=True)) for column in zip(*right, strict=True)]
        for row in left
    ]


def target(x, heads, output):
    """T(X) from its definition."""
    joined = [[] for _ in x]
    for a, v in heads:
        scores = matrix_product(matrix_product(x, a), [list(column) for column in zip(*x, strict=True)])
        values = matrix_product(x, v)
        for i, row in enumerate(scores):
            powers = [exp(s) for s in row]
            joined[i] += [over(w, total(powers)) for w in matrix_product([powers], values)[0]]
    result = matrix_product(joined, output) if output else joined
    return [value for row in result for value in row]


def verify(c):
    """Accept a certificate by returning how far its bounds are apart at most; raise Rejected otherwise."""
    require(c["format"] == "hard-attention-encoder-certificate-1", "another format")
    matrices = [
        c["X"],
        *(h[name] for h in c["heads"] for name in ("A", "V")),
        *([c["W_O"]] if c["W_O"] else []),
    ]
    sequence = [F(value) for matrix in matrices for row in matrix for value in row]
    n, d, d_v = len(c["X"]), len(c["X"][0]), len(c["heads"][0]["V"][0])
    require(
        {"n": n, "d": d, "d_v": d_v, "heads": len(c["heads"])} == c["shape"], "the shape is not the layer's"
    )
    require(
        [len(b["heads"]) for b in c["blocks"]] == c["heads_per_layer"], "the heads are not as many as stated"
    )
    forms = [o[side] for b in c["blocks"] for s in b["stages"] for o in s for side in ("left", "right")]
    parts = [h[name] for b in c["blocks"] for h in b["heads"] for name in ("query", "key", "value")]
    require(sum(map(len, forms + parts)) == c["nonzero_weights"], "the weights are not as many as stated")
    read = [[[(F(v), F(v)) for v in row] for row in matrix] for matrix in matrices]
    pairs = list(zip(read[1 : 2 * len(c["heads"]) : 2], read[2 : 2 * len(c["heads"]) + 1 : 2], strict=True))
    ours, theirs = run(c, sequence), target(read[0], pairs, read[-1] if c["W_O"] else None)
    bounds = [(F(low), F(high)) for row in c["bounds"] for low, high in row]
    require(len(ours) == len(theirs) == len(bounds), "outputs, entries of T and bounds are not equally many")
    for name, found in (("U", ours), ("T", theirs)):
        for k, ((low, high), (at_least, at_most)) in enumerate(zip(found, bounds, strict=True)):
            require(
                at_least <= low and high <= at_most,
                f"entry {k} of {name} is not shown to be within its bounds",
            )
    require(all(high - low <= TOLERANCE for low, high in bounds), "bounds are further apart than 10^-30")
    return float(max(high - low for low, high in bounds))


def main(paths):
    if not paths:
        print(__doc__)
        return 2
    for path in paths:
        with open(path, encoding="utf-8") as file:
            c = json.load(file)
        try:
            apart = verify(c)
        except (Rejected, KeyError, IndexError, TypeError, ValueError) as problem:
            print(f"{path}: REJECTED: {problem}")
            return 1
        sizes = (
            f"{len(c['blocks'])} layers, heads {c['heads_per_layer']}, {c['nonzero_weights']} nonzero weights"
        )
        print(
            f"{path}: accepted: {c['layout']} {c['shape']}, {sizes}; U and T within {apart:.1e} of each other"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
