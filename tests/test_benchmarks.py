"""Every benchmark runs to its verdict at a small size. Whether its claim holds is not asserted: load decides that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[1]
SMALL = {"BENCH_ROWS": "2000", "BENCH_ROLLOUTS": "160", "BENCH_CASES": "20", "BENCH_PAIRS": "1", "BENCH_STARTS": "2"}


@pytest.mark.stress
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_to_its_verdict(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", name],
        cwd=ROOT,
        env=os.environ | SMALL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode in (0, 1), ended.stderr[-2000:]
    assert "holds:" in ended.stdout or "DOES NOT HOLD:" in ended.stdout or "(claim" in ended.stdout, ended.stdout
