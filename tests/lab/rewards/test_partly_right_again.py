"""Which partly right replies are scored again, so that a reward that draws what it checks is seen."""

from __future__ import annotations

from dataclasses import replace

from prime_lab_mcp.lab.rewards.observations import RepeatedScore
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.side_effects import PARTLY_RIGHT_PROBES, partly_right_probes

from .rules.trials import scored_probe

LESS = [scored_probe(Family.ENTRY_LEFT_OUT, f"entry {n}", 0.0, row=n) for n in range(40)]
CASE = scored_probe(Family.SUPPLIED, "case", 1.0)


def test_replies_that_lack_an_entry_and_cases_take_turns_up_to_the_limit() -> None:
    wrong = scored_probe(Family.WRONG, "off by one", 0.0)
    chosen = partly_right_probes([wrong, *LESS, CASE], ())
    assert len(chosen) == PARTLY_RIGHT_PROBES
    assert CASE in chosen[:2]
    assert wrong not in chosen


def test_what_was_repeated_failed_or_took_long_is_left_out() -> None:
    repeated = RepeatedScore(LESS[0].probe, LESS[0].scored, LESS[0].scored, LESS[0].scored)
    failed = scored_probe(Family.ENTRY_LEFT_OUT, "raises", None, row=50)
    slow = replace(LESS[1], scored=replace(LESS[1].scored, ms=400.0))
    assert partly_right_probes([LESS[0], failed, slow, LESS[2]], (repeated,)) == [LESS[2]]
