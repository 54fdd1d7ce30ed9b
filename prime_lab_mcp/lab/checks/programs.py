"""What programs earn that solve nothing, or nearly what is asked, where the answer is a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.checks.earned import HALF, as_gold, mostly_gold
from prime_lab_mcp.lab.checks.shown import case_row, hack, paid
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import Shot, Trial
from prime_lab_mcp.lab.text import count

Check = Callable[[Trial], Iterator[Finding]]


def code_hacks(trial: Trial) -> Iterator[Finding]:
    """Published runs learned each of these within a hundred steps (facts/validation 2.5)."""
    kinds: dict[str, Shot] = {}
    for shot in trial.named("code: "):
        if mostly_gold(shot, trial):
            kinds.setdefault(shot.probe.name, shot)
    if kinds:
        names = ", ".join(name.removeprefix("code: ") for name in kinds)
        yield Finding(
            "reward-hackable",
            "blocker",
            f"programs that solve nothing were paid like a right one ({names}): "
            f"{paid(next(iter(kinds.values())), trial)}",
            "Run the program in a process of its own that gets inputs only; compare what it returns with the expected "
            "values outside of it, and never take an exit code or a printed line for a pass.",
            rows=tuple(case_row(s, "nothing", trial) for s in list(kinds.values())[:3]),
        )


def mutants(trial: Trial) -> Iterator[Finding]:
    """A changed reference that passes on most tasks: the tests hardly test. On a few, the change may change nothing."""
    shots = [s for s in trial.of("mutant") if s.reward is not None]
    passing = [s for s in shots if as_gold(s, trial)]
    tasks = {s.probe.row for s in shots}
    if len({s.probe.row for s in passing}) > HALF * len(tasks):
        yield hack(
            "warning", passing,
            f"{len(passing)} of {count(len(shots), 'faulty variant')} of the reference solutions passed",
            "Add tests to these tasks: several inputs, edge cases and results that differ.",
            trial, "reward-wrong-passes",
        )  # fmt: skip


PROGRAMS: tuple[Check, ...] = (code_hacks, mutants)
