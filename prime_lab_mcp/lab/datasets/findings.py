"""What is wrong with rows of prompt and gold, whatever they come from: a dataset, or an environment's own tasks.

One pass (observing.py) fills `Observed`; each check is a pure function of it. Thresholds and severities:
facts/validation 1.4.
"""

from __future__ import annotations

from collections.abc import Iterable

from prime_lab_mcp.lab.datasets.checks_gold import GOLD_CHECKS, Check
from prime_lab_mcp.lab.datasets.checks_spread import SPREAD_CHECKS
from prime_lab_mcp.lab.datasets.checks_text import TEXT_CHECKS
from prime_lab_mcp.lab.datasets.formats import recognise
from prime_lab_mcp.lab.datasets.observing import observe
from prime_lab_mcp.lab.datasets.plain import ASSUMED, SHOWN, Budget, PlainRow, Repeats, Tally
from prime_lab_mcp.lab.report import Finding

__all__ = ["CHECKS", "SHOWN", "Budget", "PlainRow", "Repeats", "Tally", "examine"]

CHECKS: tuple[Check, ...] = (*GOLD_CHECKS, *SPREAD_CHECKS, *TEXT_CHECKS)


def examine(
    rows: Iterable[PlainRow],
    *,
    format: str | None,
    eval_rows: Iterable[PlainRow] = (),
    answered: bool = True,
    repeats: Repeats | None = None,
    benchmark: str | None = None,
    budget: Budget = ASSUMED,
) -> list[Finding]:
    """Every finding about the rows. `format` None: recognised. `answered` False: there are no golds by design.

    `repeats`: counts over all rows, where `rows` is a sample. `benchmark`: the id of the dataset they come from.
    """
    if format is None:
        rows = list(rows)
        found = recognise([(r.index, r.gold) for r in rows])
        format = found.format if found else "free_text"
    seen = observe(rows, format, eval_rows, answered=answered, repeats=repeats, benchmark=benchmark, budget=budget)
    return [finding for check in CHECKS for finding in check(seen)]
