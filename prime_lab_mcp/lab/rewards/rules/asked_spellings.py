"""The rule about right answers in the spelling that the prompt demands (probes/asked_spellings.py)."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import case_row, earned_in_full, paid_text
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE

_FEWEST_REFUSED = 2
"""Smallest number of tasks on which the demanded spelling must be refused."""


def asked_spelling(trial: Trial) -> Iterator[Finding]:
    """The right answer must be paid in the spelling that the prompt demands, such as a number of decimals.

    A blocker if no answer in this spelling is paid: a model that follows the prompt then earns nothing on these tasks,
    and training teaches the model to ignore the prompt.
    """
    paid = {s.probe.row for s in trial.golds if earned_in_full(s, trial)}
    asked = [s for s in trial.of(Family.ASKED_SPELLING) if s.reward is not None and s.probe.row in paid]
    refused = [s for s in asked if (s.reward or 0.0) <= HALF_SHARE * trial.maximum(s.probe.row) + EPSILON]
    if len(refused) == len(asked) >= _FEWEST_REFUSED:
        yield Finding(
            "reward-contradicts-prompt",
            "blocker",
            f"right answers with {refused[0].probe.variant} are not paid, only as they are stored: "
            f"{paid_text(refused[0], trial)}",
            "Store and compare answers in the spelling that the prompt demands, or demand the spelling that is paid.",
            rows=tuple(case_row(s, "the maximum", trial) for s in refused[:3]),
        )
