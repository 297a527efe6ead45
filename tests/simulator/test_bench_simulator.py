"""The simulator's benchmark runs at toy sizes and prints each of its lines; how fast it is is not asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_simulator.py"


def test_prints_each_section_with_positive_numbers():
    command = [sys.executable, str(SCRIPT), "--small", "--repeats", "2"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kinds = [line.split()[0] for line in output.splitlines()]
    assert kinds == ["run", "dense", "run", "exact", "proofs", "proofs", "proofs"]
    assert output.count("8 of 8 shapes") == 3
    ratios = [float(r) for r in re.findall(r"ratio ([\d.]+)", output)]
    assert len(ratios) == 2
    assert all(ratio > 0 for ratio in ratios)
