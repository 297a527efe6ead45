"""Run the authors' released RASP programs through the reference interpreter, and write down what came out.

Nothing of either repository is kept: this file asks, the two clones answer, and the answers become
``src/attention_companion/simulator/experiments/released_run.py``, which chapter 29 reads. To do it again, clone
github.com/tech-srl/RASP at 61dde62 and github.com/DDuttaGit/TMA at d5c6c96 anywhere, and in an environment with numpy,
antlr4-python3-runtime 4.9.1, graphviz and termcolor:

    python tools/released_rasp.py PATH_OF_RASP PATH_OF_TMA
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import pprint
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "src/attention_companion/simulator/experiments/released_run.py"
#: Every function of the repository that computes on a sequence: its file, without the ending, and its call.
PROGRAMS = {
    "transpose, square": ("mattranspose", "Transpose()"),
    "transpose, 3 x k": ("Demo/U/Ulib", "Transpose_3dot()"),
    "product, 3 x k x 3": ("Demo/U/Ulib", "matmul_3dot3()"),
    "product, 3 x k x 4": ("matmultiplication", "Matmul_3dot4()"),
    "product, 4 x 4 x 4": ("matmultiplication", "Matmul4x4()"),
    "softmax, 3 x k": ("Demo/U/Ulib", "softmax_3dot()"),
    "softmax, 3 x 3": ("activations", "softmax()"),
    "softmax, 3 x k, other e": ("activations", "softmaxrect_3dot()"),
    "ReLU": ("activations", "ReLU()"),
    "MaxMin": ("Demo/U/Ulib", "MaxMinSort()"),
    "Match2": ("match2", "Match2(19)"),
    "cofactors": ("matinverse", "Cofactor()"),
    "inverse": ("matinverse", "Invert3x3()"),
    "transpose, two heads": ("MultiHead/MatTrans", "Transpose_3dot_2h()"),
    "product, two heads": ("MultiHead/MatMul", "matmul3dot2_2h()"),
    "softmax, two heads": ("MultiHead/Softmax", "softmaxrect_3dot_2h()"),
}
#: X, A and V of 3 x 3 integers in one sequence, small enough for every exponential.
ONE_SEQUENCE = [1, 0, -1, 0, 2, 1, -1, 1, 0, 1, 0, 0, 0, 1, -1, 1, 0, 1, 2, 1, 0, -1, 3, 1, 0, 1, 1]


class Library:
    """One file of programs, loaded into an interpreter of its own."""

    def __init__(self, rasp: Any, path: Path):
        self.repl = rasp.REPL()
        self.repl.silent = True
        self.repl.run_given_line(f'load "{path}";')

    def program(self, call: str) -> Any:
        self.repl.run_given_line(f"asked_ = {call};")
        return self.repl.env.get_variable("asked_")

    def run(self, call: str, tokens: list[Any]) -> Any:
        """What the program returns for the tokens, as a list; the name of the error where it ends in one."""
        self.repl.env.set_variable("given_", list(tokens))
        try:
            self.repl.run_given_line(f"answer_ = {call}(given_);")
        except ZeroDivisionError:
            return "division by zero"
        return list(self.repl.env.get_variable("answer_").val._vals)


def entries(count: int) -> list[int]:
    """Positive integers without a pattern that a wrong address could meet by accident."""
    return [(37 * i * i + 11 * i + 5) % 89 + 1 for i in range(count)]


def in_hex(bits: Iterable[int]) -> str:
    return f"{int(''.join(str(bit) for bit in bits), 2):x}"


def demonstration() -> list[list[Any]]:
    """The runs that the demonstration makes on a 3 x 3 example: (program, tokens in its sequence) each."""
    support = importlib.import_module("U_support")
    made: list[list[Any]] = []

    class Watched(support.REPLwithU):
        def run_given_line(self, line: str) -> Any:
            if "()(" in line:
                name, sequence = line.split("=", 1)[1].strip().rstrip(";)").split("()(")
                given = self.env.get_variable(sequence)
                made.append([name, len(getattr(given, "val", given))])
            return super().run_given_line(line)

    support.REPLwithU = Watched
    tester = importlib.import_module("U").AttentionTester(3)
    x, a, v = (ONE_SEQUENCE[i : i + 9] for i in (0, 9, 18))
    tester.run_rasp_implementation([float(w) for w in a], [float(w) for w in x], [float(w) for w in v])
    return made


def collect(rasp: Any, released: Path) -> dict[str, Any]:
    libraries = {file: Library(rasp, released / file) for file in {file for file, _ in PROGRAMS.values()}}

    def run(name: str, tokens: list[Any], call: str | None = None) -> Any:
        file, usual = PROGRAMS[name]
        return libraries[file].run(call or usual, tokens)

    def runs(name: str, inputs: list[list[Any]]) -> list[tuple[list[Any], Any]]:
        return [(tokens, run(name, tokens)) for tokens in inputs]

    heads = {}
    for name, (file, call) in PROGRAMS.items():
        layers, _, widths = libraries[file].program(call).width_and_depth(loud=False)
        heads[name] = [widths[i] for i in range(1, layers + 1)]
    scores = [0.5, 1.0, 1.5, 1.5434, 2.0, 4.0]
    thirds = [[t for s in scores[i : i + 3] for t in (s, 0.0)] for i in (0, 3)]
    return {
        "HEADS": heads,
        "RUNS": {
            "transpose, square": runs("transpose, square", [entries(n * n) for n in (2, 3, 4)]),
            "transpose, 3 x k": runs("transpose, 3 x k", [entries(3 * k) for k in (1, 2, 3, 4)]),
            "product, 3 x k x 3": runs("product, 3 x k x 3", [entries(6 * k) for k in range(1, 7)]),
            "product, 3 x k x 4": runs("product, 3 x k x 4", [entries(7 * k) for k in range(1, 6)]),
            "product, 4 x 4 x 4": runs("product, 4 x 4 x 4", [entries(32)]),
            "product, two heads": runs("product, two heads", [entries(10 * k) for k in (1, 2, 3)]),
            "transpose, two heads": runs("transpose, two heads", [entries(6 * k) for k in (1, 2, 3)]),
            "softmax, 3 x k": runs("softmax, 3 x k", thirds),
            "softmax, 3 x k, other e": runs("softmax, 3 x k, other e", thirds),
            "softmax, 3 x 3": runs("softmax, 3 x 3", [[1, 0, 2, -1, 1, 0, 3, 0, 0]]),
            "softmax, two heads": runs("softmax, two heads", [[1, 0, 2, -1, 1, 0, 3, 0, 1, 1, -2, 0]]),
            "MaxMin": runs("MaxMin", [[3, -5], [14, 18, 3, 12, 6, 20, 7, 17, 13, 9]]),
            "ReLU": runs("ReLU", [[3, -2, 0, -5, 4]]),
            "inverse": runs(
                "inverse",
                [
                    [7, 8, 12, 10, 11, 9, 2, 4, 21],
                    [2, 1, 0, -1, 3, 1, 0, 1, 1],
                    [1, 2, 3, 1, 2, 3, 0, 0, 1],
                    [2],
                    [1, 2, 3, 4],
                    [int(i % 5 == 0) for i in range(16)],
                    [3, 1, 0, 1, 0, 2, 1, 1, 1, 0, 3, 2, 0, 1, 1, 4],
                ],
            ),
        },
        "MAXMIN": {
            (size, low): [
                [int(v) for v in run("MaxMin", list(s))]
                for s in itertools.product(range(low, 1 - low), repeat=size)
            ]
            for size, low in ((2, -3), (4, -1))
        },
        "MATCH2": {
            modulus: in_hex(
                bit
                for tokens in itertools.product(range(-2, 3), repeat=3)
                for bit in run("Match2", list(tokens), f"Match2({modulus})")
            )
            for modulus in (2, 3, 4, 5)
        }
        | {19: in_hex(run("Match2", [63, 70, 77, 94, 67, 39]))},
        "ONE_SEQUENCE": ONE_SEQUENCE,
        "ON_ONE_SEQUENCE": {name: run(name, ONE_SEQUENCE) for name in PROGRAMS},
        "DEMONSTRATION": demonstration(),
    }


def main(interpreter: Path, released: Path) -> None:
    sys.path[:0] = [str(interpreter), str(released / "Demo")]
    rasp = importlib.import_module("RASP_support.REPL")
    # The interpreter and the demonstration look for their libraries in the folder they are started in.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        (Path(folder) / "RASP_support").symlink_to(interpreter / "RASP_support")
        (Path(folder) / "U").symlink_to(released / "Demo/U")
        os.chdir(folder)
        results = collect(rasp, released)
        os.chdir(interpreter)
    types = {
        "HEADS": "dict[str, list[int]]",
        "RUNS": "dict[str, list[tuple[list[float], list[float] | str]]]",
        "MAXMIN": "dict[tuple[int, int], list[list[int]]]",
        "MATCH2": "dict[int, str]",
        "ONE_SEQUENCE": "list[int]",
        "ON_ONE_SEQUENCE": "dict[str, list[float] | str]",
        "DEMONSTRATION": "list[tuple[str, int]]",
    }
    results["DEMONSTRATION"] = [tuple(run) for run in results["DEMONSTRATION"]]
    lines = [
        '"""What the released RASP programs returned, run through the reference interpreter: written by',
        "tools/released_rasp.py (which says how to do it again), never by hand.",
        "",
        "HEADS: selectors in each layer. RUNS: (tokens, answer) pairs. MAXMIN[length, low]: answers for all sequences",
        "of that length with entries low .. -low, in the order of itertools.product. MATCH2[modulus]: the answers for",
        "all sequences of three entries -2 .. 2 as the bits of one hexadecimal number, at 19 for [63, 70, 77, 94, 67,",
        "39]. ON_ONE_SEQUENCE: every program's answer for ONE_SEQUENCE. DEMONSTRATION: the runs of the demonstration,",
        "with the tokens in each.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "# fmt: off",
    ]
    for name, value in results.items():
        text = pprint.pformat(value, width=108, compact=True, sort_dicts=False)
        lines.append(f"{name}: {types[name]} = (\n{text}\n)")
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/released_rasp.py PATH_OF_RASP PATH_OF_TMA")
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
