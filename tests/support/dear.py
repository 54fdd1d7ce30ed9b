"""Adds to `dear.txt`, the list of the tests that take most of the processor time, what a run has measured.

`python -m tests.support.dear COSTS`, where COSTS is `.venv/costs.jsonl`, which each run of `make ci` writes, or the
file of another run with `--costs=COSTS`. A run measures a share of the listed tests only, so that those stay listed;
with `--whole` the list is written anew from a run of all tests. The option of pytest does not belong into
`PYTEST_ADDOPTS`: runs of pytest that tests start would empty the file. `make test` and CI run a share of these tests
(`rotation.py`), and `make test-all` all of them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from tests.support.costs import KINDS
from tests.support.rotation import DEAR

SECONDS = 0.7
"""Processor seconds of a function's cases in one run from which the function is dear (our choice). On 2026-11-26 such
functions took 1,853 of 2,066 measured seconds."""


_ALWAYS = (
    "tests/property/",
    "tests/resources/test_finding_pages.py",
    "tests/server/test_fix_calls.py",
    "tests/server/test_imports_of_calls.py",
)
"""Tests that are not added whatever they take, because a change anywhere may break them."""


def dear(costs: Path) -> dict[str, float]:
    """Return the seconds of each dear function, by its name without parameters."""
    seconds: Counter[str] = Counter()
    for line in costs.read_text(encoding="utf-8").splitlines():
        measured = json.loads(line)
        # What warm programs of a worker do for other tests is counted too, so no test took more than two cores can.
        spent = min(sum(measured[kind] for kind in KINDS), 2 * measured["wall"])
        seconds[measured["test"].partition("[")[0]] += spent
    return {name: spent for name, spent in seconds.items() if spent >= SECONDS and not name.startswith(_ALWAYS)}


def main(costs: str, *options: str) -> None:
    found = dear(Path(costs))
    listed = () if "--whole" in options else DEAR.read_text(encoding="utf-8").split()
    DEAR.write_text("".join(f"{name}\n" for name in sorted({*listed, *found})), encoding="utf-8")
    new = found.keys() - set(listed)
    print(
        f"{len(found)} dear tests with {sum(found.values()):.0f} s of processor time, {len(new)} of them new in {DEAR}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
