"""Every performance claim of the README, printed as ratios measured in one run: `make bench`."""

from __future__ import annotations

import sys

from benchmarks import (
    confinement,
    dataset_scan,
    eval_harness,
    judging,
    long_ledger,
    reward_scoring,
    reward_search,
    startup,
)

BENCHMARKS = {
    "startup": startup.main,
    "dataset_scan": dataset_scan.main,
    "reward_scoring": reward_scoring.main,
    "reward_search": reward_search.main,
    "confinement": confinement.main,
    "judging": judging.main,
    "long_ledger": long_ledger.main,
    "eval_harness": eval_harness.main,
}


def main() -> int:
    wanted = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    return max(BENCHMARKS[name]() for name in wanted)


if __name__ == "__main__":
    raise SystemExit(main())
