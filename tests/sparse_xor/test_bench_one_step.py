"""The benchmark of one step runs and prints its ratios; how large they are is not asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_one_step.py"


def test_prints_positive_ratios_at_small_sizes():
    sizes = ["--rows", "20000", "--width", "130", "--small", "50", "--middle", "300", "--repeats", "2"]
    result = subprocess.run([sys.executable, str(SCRIPT), *sizes], capture_output=True, text=True, check=True)
    lines = [line.split() for line in result.stdout.splitlines()]
    large = [line for line in lines if line and line[0] in ("1", "2")]
    assert [line[0] for line in large] == ["1", "2"]
    for line in large:
        *relative, over_two = map(float, line[1:6])
        assert min(relative[:3]) == 1.0
        assert over_two == pytest.approx(relative[3] / 2, abs=0.011)
        assert float(line[6]) >= 0
    beside_autograd = [line for line in lines if line and line[0] in ("50", "300")]
    assert len(beside_autograd) == 2
    assert all(float(line[2]) > 0 for line in beside_autograd)
