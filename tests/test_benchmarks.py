"""Every benchmark runs to its verdict at a small size. Whether its claim holds is not asserted: load decides that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.claims import BEGIN, END, PAGE, README, Claim, page_figures, readme_figures

ROOT = Path(__file__).parents[1]
SMALL = {
    "BENCH_ROWS": "2000",
    "BENCH_ROLLOUTS": "160",
    "BENCH_CASES": "20",
    "BENCH_PAIRS": "1",
    "BENCH_STARTS": "2",
    "BENCH_FILES": "50",
}


@pytest.mark.parametrize(
    ("page", "figures"), [(PAGE, page_figures()), (README, readme_figures())], ids=["page", "readme"]
)
def test_what_is_read_quotes_the_kept_figures(page: Path, figures: str) -> None:
    quoted = page.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()
    assert quoted == figures


def test_a_claim_holds_at_its_limit_and_not_above_it() -> None:
    at, above = (Claim("one", "a figure", value, 1.0) for value in (1.0, 1.01))
    assert (at.holds, above.holds) == (True, False)
    assert (at.row, above.row) == (
        "| a figure | 1 | 1 | times | holds |",
        "| a figure | 1.01 | 1 | times | DOES NOT HOLD |",
    )


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
    assert "| holds |" in ended.stdout or "| DOES NOT HOLD |" in ended.stdout, ended.stdout
