"""Every performance claim, measured in one run: `make bench`.

`python -m benchmarks NAME ...` runs only some; `--full` adds those that show how cost grows, and larger data. A run of
all of them keeps its figures (benchmarks/claims.py).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from benchmarks import (
    confinement,
    dataset_scan,
    eval_harness,
    judging,
    long_ledger,
    many_files,
    platform_starts,
    reward_scoring,
    reward_search,
    startup,
)
from benchmarks.claims import keep, measured_claims, processor_seconds, table

BENCHMARKS = {
    "startup": startup.main,
    "long_ledger": long_ledger.main,
    "platform_starts": platform_starts.main,
    "many_files": many_files.main,
    "dataset_scan": dataset_scan.main,
    "judging": judging.main,
    "reward_scoring": reward_scoring.main,
    "confinement": confinement.main,
}
SIZES = ("BENCH_STARTS", "BENCH_ROWS", "BENCH_FILES", "BENCH_ROLLOUTS", "BENCH_CASES", "BENCH_PAIRS")
"""Variables that make the work smaller. The figures of such a run are not kept."""
FULL = {"reward_search": reward_search.main, "eval_harness": eval_harness.main}
"""Benchmarks of `--full` besides: they take minutes."""


GROWTH = {"long_ledger": long_ledger.grown, "dataset_scan": dataset_scan.grown, "judging": judging.grown}
"""How cost grows with the work, for `--full`."""


def _measured(name: str, benchmark: Callable[[], int]) -> int:
    """Run one benchmark. One that a busy machine keeps from its measurement leaves the others theirs."""
    started, before = time.monotonic(), processor_seconds()
    try:
        return benchmark()
    except Exception as error:
        print(f"{name}: NOT MEASURED: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return 1
    finally:
        used = processor_seconds() - before
        print(f"{name} took {time.monotonic() - started:.0f} s, {used:.0f} of the processor", flush=True)


def main() -> int:
    full = "--full" in sys.argv[1:]
    wanted = [name for name in sys.argv[1:] if name != "--full"]
    unknown = [name for name in wanted if name not in {**BENCHMARKS, **FULL}]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are: {', '.join((*BENCHMARKS, *FULL))}", file=sys.stderr)
        return 2
    load, started = os.getloadavg()[0], time.monotonic()
    chosen = wanted or [*BENCHMARKS, *(FULL if full else ())]
    every = {**BENCHMARKS, **FULL}
    results = [_measured(name, every[name]) for name in chosen]
    if full:
        results += [_measured(name, growth) for name, growth in GROWTH.items()]
    seconds = time.monotonic() - started
    used = processor_seconds()
    print(f"\n{table(measured_claims())}\n")
    print(f"{seconds:.0f} seconds, {used:.0f} of the processor; load at the start {load:.1f}")
    if not wanted and not full and not any(name in os.environ for name in SIZES):
        keep(measured_claims(), seconds, load)
    return max(results)


if __name__ == "__main__":
    raise SystemExit(main())
