"""What a reward refuses although it is right: other spellings, reasoning before it, another form (validation 2.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prime_lab_mcp.lab.checks.earned import GOLD_PASS, full, gold_pass_rate
from prime_lab_mcp.lab.checks.shown import case_row, paid
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import EPSILON, Shot, Trial
from prime_lab_mcp.lab.rewards.probes import Kind

_UNCLOSED = ("malformed gold: unclosed", "malformed gold: cut-off")


def ignores_format(trial: Trial) -> Iterator[Finding]:
    """Asking for a form that nothing rewards is allowed, but usually an oversight."""
    shots = [s for s in trial.of("malformed-gold") if s.reward is not None]
    above = [s for s in shots if s.reward is not None and s.reward > (trial.gold(s.probe.row) or 0) + EPSILON]
    if above:
        yield Finding(
            "reward-malformed-beats-wrong",
            "blocker",
            f"a right answer in a broken form earned more than in the form that is asked for: {paid(above[0], trial)}",
            "Pay the asked form at least as much as any other.",
            rows=tuple(case_row(s, "no more than the right form", trial) for s in above[:3]),
        )
        return
    if trial.asked and shots and all(full(s, trial.max_reward) for s in shots):
        yield Finding(
            "reward-ignores-format",
            "warning",
            "the prompt asks for a form, and every broken form of the right answer earned the maximum too",
            "Read the answer only from the asked form, or add a small format reward (0.1 to 0.2).",
            rows=tuple(case_row(s, "less than the maximum", trial) for s in shots[:2]),
        )
        return
    unclosed = [s for s in shots if s.probe.name.startswith(_UNCLOSED) and full(s, trial.max_reward)]
    if unclosed:
        yield Finding(
            "reward-ignores-format",
            "warning",
            "an answer whose form was never closed earned the maximum, so a reply that ran out of tokens does too",
            "Read the answer only from a closed form.",
            rows=tuple(case_row(s, "less than the maximum", trial) for s in unclosed[:2]),
        )


def too_strict(trial: Trial) -> Iterator[Finding]:
    """A model reasons first and writes numbers in several ways; a reward that misses them learns slowly."""
    if (gold_pass_rate(trial) or 0) < GOLD_PASS or trial.style is None:
        return
    verbose = [s for s in trial.of("verbose") if s.reward is not None and s.reward < 0.95 * trial.max_reward - EPSILON]
    if verbose:
        severity: Any = "warning" if trial.style.carrier.kind == "plain" else "blocker"
        yield Finding(
            "reward-too-strict",
            severity,
            f"a right answer after some reasoning earned less than alone: {paid(verbose[0], trial)}",
            "Find the answer anywhere in the completion, at best in its last tag or box.",
            rows=tuple(case_row(s, "95% of the maximum", trial) for s in verbose[:2]),
        )
    yield from _spellings(trial)


def _spellings(trial: Trial) -> Iterator[Finding]:
    """Each spelling that was refused, with how often it was taken. Rare ones never stand alone."""
    usual = _refused(trial, "equivalent", "trailing")
    if usual:
        said = ", ".join(f"{name} ({taken})" for name, (taken, _) in {**usual, **_refused(trial, "variant")}.items())
        yield Finding(
            "reward-too-strict",
            "warning",
            f"the right answer written otherwise earned less; how often it was taken: {said}",
            "Normalise before comparing: white space, case, full stop, thousands commas, trailing zeros, key order.",
            rows=tuple(case_row(shot, "what the gold earned", trial) for _, shot in list(usual.values())[:3]),
        )


def _refused(trial: Trial, *kinds: Kind) -> dict[str, tuple[str, Shot]]:
    """By spelling: `2 of 8` were taken, and one that was not."""
    tried: dict[str, list[Shot]] = {}
    for shot in trial.of(*kinds):
        if shot.reward is not None:
            tried.setdefault(shot.probe.name.removeprefix("gold with "), []).append(shot)
    found: dict[str, tuple[str, Shot]] = {}
    for name, shots in tried.items():
        missed = [s for s in shots if not _nearly(s, trial)]
        if missed:
            found[name] = (f"{len(shots) - len(missed)} of {len(shots)}", missed[0])
    return found


def _nearly(shot: Shot, trial: Trial) -> bool:
    return shot.reward is not None and shot.reward >= 0.9 * trial.max_reward - EPSILON
