"""The relations a reward must keep, each a pure function of what was observed; `CHECKS` is what test_reward applies.

A relation names the harm, never a value: right beats wrong, wrong beats nothing, the same gives the same. What pays for
something wrong blocks, because training finds it and follows it; what misses something right warns, until gold fails.
Catalogue, thresholds and severities: facts/validation 2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.checks.hacks import HACKS
from prime_lab_mcp.lab.checks.scoring import SCORING
from prime_lab_mcp.lab.checks.shown import case_row, paid
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import EPSILON, Shot, Supplied, Trial
from prime_lab_mcp.lab.rewards.probes import Kind
from prime_lab_mcp.lab.text import count

GOLD_PASS = 0.99
"""Share of tasks whose gold must earn the maximum (facts/validation 1.3)."""
_FULL = 0.99
_HALF = 0.5
MIN_CASES = 8
MIN_SIDE = 3
"""Supplied cases that an environment without golds rests on, and how many of them high and low (DESIGN section 3)."""

Check = Callable[[Trial], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Sanity:
    """One of the seed's four checks, under its name there. `code` is the finding that explains a failure."""

    name: str
    passed: bool | None
    """None where nothing was scored that could tell."""
    code: str

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "passed": self.passed}


def judge(trial: Trial) -> list[Finding]:
    """Every finding about one trial, blockers first.

    A constant reward is reported as that, and one that varies for the same text as that: comparing what single
    completions earned says nothing then.
    """
    found = [finding for check in CHECKS for finding in check(trial)]
    decisive = [f for f in found if f.code in _DECISIVE]
    if decisive:
        found = decisive + [f for f in found if f.code in _BESIDE]
    order = {"blocker": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda f: order[f.severity])


_DECISIVE = frozenset({"reward-constant", "reward-nondeterministic", "reward-order-dependent"})
_BESIDE = frozenset({"reward-raises", "reward-slow", "reward-sync", "reward-type", "reward-nonfinite", "tasks-change"})


def gold_pass_rate(trial: Trial) -> float | None:
    """Share of scored golds that earn 99% of the maximum or more; None where no gold was scored."""
    run = _run(trial.golds)
    if not run or trial.style is None:
        return None
    return sum(_full(s, trial.max_reward) for s in run) / len(run)


def _run(shots: Iterable[Shot]) -> list[Shot]:
    return [s for s in shots if "not-run" not in s.scored.problems]


def _full(shot: Shot, maximum: float) -> bool:
    return maximum > 0 and shot.reward is not None and shot.reward >= _FULL * maximum - EPSILON


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def sanity(trial: Trial) -> list[Sanity]:
    """The seed's four checks, on rewards as a share of the declared weights. Supplied cases count as gold and wrong."""
    golds = [s.reward for s in (*trial.golds, *trial.of("gold")) if s.reward is not None]
    kinds: list[Kind] = ["wrong", "malformed", "empty"]
    wrongs = [s.reward for s in trial.of(*kinds) if s.reward is not None and not s.probe.near]
    golds += [s.shot.reward for s in trial.supplied if s.high and s.shot.reward is not None]
    wrongs += [s.shot.reward for s in trial.supplied if not s.high and s.shot.reward is not None]
    half = _HALF * trial.declared
    high, low = _mean(golds), _mean(wrongs)
    beaten = None if high is None or low is None else high > low
    everything = {round(r, 9) for s in trial.everything if (r := s.reward) is not None}
    return [
        Sanity("Gold rewards > wrong rewards", beaten, "reward-wrong-passes"),
        Sanity("At least one gold > 0.5", any(g > half for g in golds) if golds else None, "reward-gold-fails"),
        Sanity("At least one wrong < 0.5", any(w < half for w in wrongs) if wrongs else None, "reward-wrong-passes"),
        Sanity("Not all rewards identical", len(everything) > 1 if everything else None, "reward-constant"),
    ]  # fmt: skip


# --- relations -------------------------------------------------------------------------------------------------------


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
    run = _run(trial.golds)
    failing = [s for s in run if not _full(s, trial.max_reward)]
    if all(s.scored.errors or s.scored.problems for s in failing):
        return  # reward-raises and its kin say why
    rescued = _cases_suffice(trial) and rate == 0
    said = f"{len(failing)} of {count(len(run), 'right answer')} did not earn the maximum of {trial.max_reward:g}"
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
        elif shot.reward > _HALF * trial.max_reward + EPSILON:
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
    high = sum(reward > _HALF * trial.max_reward for reward in lowest.values())
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
    elif trial.asked and shots and all(_full(s, trial.max_reward) for s in shots):
        yield Finding(
            "reward-ignores-format",
            "warning",
            "the prompt asks for a form, and every broken form of the right answer earned the maximum too",
            "Read the answer only from the asked form, or add a small format reward (0.1 to 0.2).",
            rows=tuple(case_row(s, "less than the maximum", trial) for s in shots[:2]),
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
    missed: dict[str, Shot] = {}
    for shot in trial.of("equivalent", "trailing"):
        if shot.reward is not None and shot.reward < 0.9 * trial.max_reward - EPSILON:
            missed.setdefault(shot.probe.name, shot)
    if missed:
        yield Finding(
            "reward-too-strict",
            "warning",
            f"the right answer written otherwise earned less: {', '.join(missed)}",
            "Normalise before comparing: white space, case, full stop, thousands commas, trailing zeros.",
            rows=tuple(case_row(s, "what the gold earned", trial) for s in list(missed.values())[:3]),
        )


def supplied_cases(trial: Trial) -> Iterator[Finding]:
    """What the caller knows to be right or wrong decides, whatever the probes say."""
    failing = [s for s in trial.supplied if "not-run" not in s.shot.scored.problems and not met(s, trial)]
    low = [s for s in failing if not s.high]
    high = [s for s in failing if s.high]
    for code, cases, how in (
        ("reward-wrong-passes", low, "earned more than they should"),
        ("reward-too-strict", high, "earned less than they should"),
    ):
        if cases:
            yield Finding(
                code,
                "blocker",
                f"{count(len(cases), 'supplied case')} {how}: {paid(cases[0].shot, trial)}",
                "Mend the reward, or the case's expectation if that is wrong, then call test_reward.",
                rows=tuple(case_row(s.shot, str(s.expected), trial) for s in cases[:5]),
            )
    if trial.unmatched:
        yield Finding(
            "case-without-task",
            "warning",
            f"{count(len(trial.unmatched), 'supplied case')} could not be run: no task has their answer",
            'Give each case the index of its task as "task", or an "answer" that a task has.',
        )


def met(case: Supplied, trial: Trial) -> bool:
    """Whether a case earned what was expected: by its total, its share of the maximum, or its weightiest component."""
    reward, expected = case.shot.reward, case.expected
    if reward is None:
        return False
    half = _HALF * (trial.max_reward or trial.declared)
    if isinstance(expected, str):
        return reward >= half - EPSILON if expected == "high" else reward < half
    scores = [reward, reward / (trial.max_reward or trial.declared), reward / trial.declared]
    parts = case.shot.scored.components
    if parts:
        heaviest = max(parts.values(), key=lambda c: c.weight)
        scores += [heaviest.score] if heaviest.score is not None else []
    return any(abs(score - expected) <= 0.011 for score in scores)


def _cases_suffice(trial: Trial) -> bool:
    """Enough supplied cases of both sides, all as expected."""
    run = [s for s in trial.supplied if "not-run" not in s.shot.scored.problems]
    high = sum(s.high for s in run)
    return (
        len(run) >= MIN_CASES and high >= MIN_SIDE and len(run) - high >= MIN_SIDE and all(met(s, trial) for s in run)
    )


def no_gold(trial: Trial) -> Iterator[Finding]:
    """Without a known right answer only supplied cases can tell a reward from a coin."""
    if trial.style is not None:
        return
    run = [s for s in trial.supplied if "not-run" not in s.shot.scored.problems]
    high = sum(s.high for s in run)
    if len(run) < MIN_CASES or high < MIN_SIDE or len(run) - high < MIN_SIDE:
        yield Finding(
            "reward-no-gold",
            "blocker",
            f"the tasks hold no gold answer, and {count(len(run), 'supplied case')} ({high} high) are too few",
            f"Call test_reward with cases: at least {MIN_CASES}, {MIN_SIDE} expected high and {MIN_SIDE} low.",
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


CHECKS: tuple[Check, ...] = (
    *SCORING, constant, no_gold, empty_golds, gold_fails, wrong_passes, malformed_beats_wrong, supplied_cases,
    *HACKS, ignores_format, too_strict,
)  # fmt: skip


def components(trial: Trial) -> list[dict[str, Any]]:
    """What each part of the reward pays right and wrong answers on average."""
    golds = [*trial.golds, *(s.shot for s in trial.supplied if s.high)]
    wrongs = [*trial.of("wrong"), *(s.shot for s in trial.supplied if not s.high)]
    names = dict.fromkeys([r.name for r in trial.rewards if r.kind != "metric"])
    weights = {r.name: r.weight for r in trial.rewards}
    for shot in golds:
        for name, part in shot.scored.components.items():
            names.setdefault(name)
            weights.setdefault(name, part.weight)
    return [
        {
            "name": name,
            "weight": weights.get(name, 1.0),
            "gold_mean": _rounded(_part(golds, name)),
            "wrong_mean": _rounded(_part(wrongs, name)),
        }
        for name in names
    ]


def _part(shots: Sequence[Shot], name: str) -> list[float]:
    found = [s.scored.components[name].score for s in shots if name in s.scored.components]
    return [f for f in found if f is not None]


def _rounded(values: Sequence[float]) -> float | None:
    mean = _mean(values)
    return None if mean is None else round(mean, 4)
