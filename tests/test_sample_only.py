"""The book on a machine where no data can be had: it builds, says so on its pages, and measures nothing it cannot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[1]


def test_the_book_builds_from_the_bundled_samples_and_says_what_it_could_not_check(tmp_path):
    copy = tmp_path / "no data"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    environment = {
        **{key: value for key, value in os.environ.items() if key != "CI"},
        "ATTENTION_COMPANION_ROUTES": "sample",
        "ATTENTION_COMPANION_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(copy / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "attention_companion.execution.engine", "book"],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "data cifar10: nothing is here" in done.stdout
    claims = {c["tag"]: c for c in json.loads((copy / "results/quick/ledger.json").read_text())["claims"]}
    assert claims["NTK-KAPPA-CIFAR"]["verdict"] == "not checked"
    assert claims["NTK-KAPPA-CIFAR"]["why"] == "data unavailable"
    assert "CIFAR-10 (data unavailable)" in claims["NTK-CUBE"]["why"]
    assert {r["regime"] for r in claims["NTK-CUBE"]["regimes"]} == {"MNIST", "Fashion-MNIST", "indeterminates"}
    page = (copy / "_build/html/notebooks/32_gram_cube.html").read_text(encoding="utf-8")
    assert "not measured (data unavailable)" in page
    assert "sample" in page

    environment["CI"] = "true"
    check = subprocess.run(
        [sys.executable, "-c", "from attention_companion.cli import app; app(['check'])"],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert check.returncode == 1
    assert "NTK-KAPPA-CIFAR: not compared" in check.stdout
