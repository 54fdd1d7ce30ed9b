"""The rule about right answers in the spelling that the prompt demands (probes/asked_spellings.py)."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.asked_spellings import JSON_TYPES
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import case_row, earned_in_full, exclude_not_run, paid_text
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE

_FEWEST_REFUSED, _REFUSED_SHARE = 2, 0.25
"""Smallest number of tasks on which the demanded spelling must be refused, and smallest share of the tasks that have
one. A tolerance may pay a rounded number where numbers are large only."""


def _refused_share(scored_probe: ScoredProbe) -> float:
    """Return the share of the maximum up to which a reply counts as refused.

    A JSON object may be paid key by key. No reply with the types of the prompt then earns the maximum.
    """
    return FULL_SHARE - 2 * EPSILON if scored_probe.probe.variant == JSON_TYPES else HALF_SHARE


def asked_spelling(trial: Trial) -> Iterator[Finding]:
    """The right answer must be paid in the spelling that the prompt demands, such as a number of decimals.

    A blocker if a quarter of the answers in this spelling are not paid: a model that follows the prompt then earns
    nothing on these tasks, and training teaches the model to ignore the prompt. Each demand counts for itself.
    """
    paid = {s.probe.row for s in trial.golds if earned_in_full(s, trial)}
    by_demand: dict[str, list[ScoredProbe]] = {}
    for scored_probe in exclude_not_run(trial.of(Family.ASKED_SPELLING)):
        if scored_probe.probe.row in paid and (scored_probe.reward is not None or scored_probe.scored.errors):
            by_demand.setdefault(scored_probe.probe.variant, []).append(scored_probe)
    for asked in by_demand.values():
        refused = [s for s in asked if (s.reward or 0.0) <= _refused_share(s) * trial.maximum(s.probe.row) + EPSILON]
        if len(refused) < max(_FEWEST_REFUSED, _REFUSED_SHARE * len(asked)):
            continue
        some = "" if len(refused) == len(asked) else f" on {len(refused)} of {len(asked)} tasks"
        yield Finding(
            "reward-contradicts-prompt",
            "blocker",
            f"right answers with {refused[0].probe.variant} are not paid{some}, only as they are stored: "
            f"{paid_text(refused[0], trial)}",
            "Store and compare answers in the spelling that the prompt demands, or demand the spelling that is paid.",
            rows=tuple(case_row(s, "the maximum", trial) for s in refused[:3]),
        )
        return
