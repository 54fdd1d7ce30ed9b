"""Right beats wrong, wrong beats nothing, and every gold is paid in full (facts/validation 2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prime_lab_mcp.lab.checks.earned import GOLD_PASS, HALF, full, gold_pass_rate, run
from prime_lab_mcp.lab.checks.shown import case_row, paid
from prime_lab_mcp.lab.checks.supplied_cases import cases_suffice
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import EPSILON, Shot, Trial
from prime_lab_mcp.lab.text import count


def constant(trial: Trial) -> Iterator[Finding]:
    """Equal rewards give every rollout of a group zero advantage, so nothing is learned."""
    rewards = [s.reward for s in trial.everything if s.reward is not None]
    kinds = {s.probe.kind for s in trial.everything if s.reward is not None}
    if len(rewards) >= 4 and max(rewards) - min(rewards) < EPSILON and (len(kinds) > 1 or len(trial.supplied) > 3):
        yield Finding(
            "reward-constant",
            "blocker",
            f"right, wrong and empty completions all earned {rewards[0]:g}",
            "Make the reward compare the completion with the task's answer, then call test_reward.",
            rows=tuple(case_row(s, "another reward than other completions", trial) for s in _kinds(trial)),
        )


def _kinds(trial: Trial) -> list[Shot]:
    """One completion of each of two kinds."""
    found: dict[str, Shot] = {}
    for shot in trial.everything:
        found.setdefault(shot.probe.kind, shot)
    return list(found.values())[:3]


def gold_fails(trial: Trial) -> Iterator[Finding]:
    """A task whose right answer is not paid can only teach the model to be wrong."""
    rate = gold_pass_rate(trial)
    if rate is None or rate >= GOLD_PASS:
        return
    scored = run(trial.golds)
    failing = [s for s in scored if not full(s, trial.max_reward)]
    if all(s.scored.broken for s in failing):
        return  # reward-raises and its kin say why
    if all(s.scored.judges for s in failing) and trial.max_reward > 0:
        return  # a judge errs at times; how often it may, reward-judge-inaccurate says
    rescued = cases_suffice(trial) and rate == 0
    said = f"{len(failing)} of {count(len(scored), 'right answer')} did not earn the maximum of {trial.max_reward:g}"
    if trial.max_reward <= 0:
        said = f"no right answer earned anything, in none of {trial.renderings} ways to write it"
    yield Finding(
        "reward-gold-fails",
        "warning" if rescued else "blocker",
        said,
        "Compare how the reward reads the answer with how the tasks state it (the rows show both); mend the parsing or "
        "these rows, then call test_reward.",
        rows=tuple(case_row(s, "the maximum", trial) for s in failing[:5]),
    )


def wrong_passes(trial: Trial) -> Iterator[Finding]:
    """What pays for a wrong answer is learned instead of the right one."""
    as_right: list[Shot] = []
    over_half: list[Shot] = []
    tolerated: list[Shot] = []
    for shot in trial.of("wrong"):
        gold = trial.gold(shot.probe.row)
        if shot.reward is None or gold is None or not trial.max_reward:
            continue
        if shot.reward >= gold - EPSILON and shot.reward > EPSILON:
            (tolerated if shot.probe.near else as_right).append(shot)
        elif shot.reward > HALF * trial.max_reward + EPSILON:
            over_half.append(shot)
    if as_right:
        yield _paid_wrong("blocker", as_right, "earned as much as the right answer", trial)
    elif over_half and not _format_explains(trial):
        severity: Any = "blocker" if _high_floor(trial) else "warning"
        yield _paid_wrong(severity, over_half, "earned more than half of the maximum", trial)
    elif tolerated:
        yield _paid_wrong("warning", tolerated, "within 2% of the right number earned as much as it", trial)


def _paid_wrong(severity: Any, shots: Sequence[Shot], how: str, trial: Trial) -> Finding:
    shots = sorted(shots, key=lambda s: -(s.reward or 0))
    return Finding(
        "reward-wrong-passes",
        severity,
        f"{count(len(shots), 'wrong answer')} {how}: {paid(shots[0], trial)}",
        "Take one final answer from the completion and compare it whole, as a number or a normalised text; never test "
        "whether it contains the answer.",
        rows=tuple(case_row(s, "less than half of the maximum", trial) for s in shots[:3]),
    )


def _high_floor(trial: Trial) -> bool:
    """On most tasks every wrong answer earns more than half; where only some do, they may be partly right."""
    lowest: dict[int, float] = {}
    for shot in trial.of("wrong", "empty", "malformed"):
        if shot.reward is not None:
            lowest[shot.probe.row] = min(shot.reward, lowest.get(shot.probe.row, shot.reward))
    high = sum(reward > HALF * trial.max_reward for reward in lowest.values())
    return high >= len(lowest) / 2


def _format_explains(trial: Trial) -> bool:
    """Wrong answers earn no more than an empty answer in the right form: that is format-dominates."""
    form = [s.reward for s in trial.named("format only") if s.reward is not None]
    wrong = [s.reward for s in trial.of("wrong") if s.reward is not None]
    return bool(form and wrong) and max(wrong) <= max(form) + EPSILON


def malformed_beats_wrong(trial: Trial) -> Iterator[Finding]:
    """Nothing, or a broken form, must not be worth more than an honest wrong answer."""
    better = []
    for shot in trial.of("empty", "malformed"):
        wrong = trial.wrong(shot.probe.row)
        if wrong is not None and shot.reward is not None and not shot.probe.near and shot.reward > wrong + EPSILON:
            better.append(shot)
    if better:
        yield Finding(
            "reward-malformed-beats-wrong",
            "blocker",
            f"{count(len(better), 'empty or malformed completion')} earned more than a wrong answer in the right form: "
            f"{paid(better[0], trial)}",
            "Return 0 when no answer is found; never count the absence of something as right.",
            rows=tuple(case_row(s, "no more than a wrong answer", trial) for s in better[:3]),
        )


def empty_golds(trial: Trial) -> Iterator[Finding]:
    """A task without a gold beside tasks with one is a guaranteed zero."""
    if trial.style is not None and trial.style.golds.empty:
        rows = trial.style.golds.empty
        severe = len(rows) > 0.01 * (len(rows) + len(trial.style.golds.golds))
        yield Finding(
            "reward-no-gold",
            "blocker" if severe else "warning",
            f"{count(len(rows), 'task')} have no gold answer while others have one (first: task {rows[0]})",
            "Drop these tasks when the taskset is loaded, or give them an answer.",
        )
