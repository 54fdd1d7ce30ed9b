"""The decision table on what a set of rollouts is as a whole: its failures, size, means and signal."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.distribution.advice import (
    ADVISED_ROLLOUTS,
    ADVISED_TASKS,
    EASIER,
    ERRORS_FAIL,
    ERRORS_WARN,
    HARDER,
    MEAN_HIGH,
    MEAN_LOW,
    MIN_SAMPLE,
    MIN_STD,
    NEAR_FLOOR,
    POOL_FAIL,
    POOL_WARN,
    RANGE_FAIL,
    RANGE_WARN,
    SIGNAL_FAIL,
    SIGNAL_WARN,
    TRUNCATED_FAIL,
    TRUNCATED_WARN,
    USABLE_FAIL,
    USABLE_WARN,
    bounds,
    unclear,
)
from prime_lab_mcp.lab.distribution.intervals import Interval, wilson
from prime_lab_mcp.lab.distribution.measured import MIN_ROLLOUTS, MIN_TASKS, Measured
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.text import count


def on_failures(facts: Distribution, seen: Measured) -> Iterator[Finding]:
    if seen.completed == 0:
        what = f"all {count(facts.rollouts, 'rollout')} failed" if facts.rollouts else "there is no rollout"
        yield Finding(
            "eval-all-errors", "blocker", f"{what}, so nothing is known about the reward",
            'Look at the errors with read_eval(view="rollouts"), mend the endpoint or the environment, '
            "and run run_eval again.",
        )  # fmt: skip
        return
    if facts.error_rate > ERRORS_WARN:
        severity: Severity = "blocker" if facts.error_rate > ERRORS_FAIL else "warning"
        yield Finding(
            "eval-errors", severity,
            f"{facts.errors} of {count(facts.rollouts, 'rollout')} failed ({facts.error_rate:.0%}); they are left "
            f"out of every number here, and more than {ERRORS_FAIL:.0%} is too many",
            'Look at the errors with read_eval(view="rollouts"): rate limits need a lower concurrency, others a '
            "repair; then run run_eval again.",
        )  # fmt: skip
    if seen.nonfinite:
        yield Finding(
            "distribution-nonfinite", "blocker",
            f"{count(seen.nonfinite, 'rollout')} got a reward that is no finite number; one of them spoils its group",
            "Make the reward return a finite number for every completion, then call test_reward.",
        )  # fmt: skip
    if facts.truncation_rate > TRUNCATED_WARN:
        severity = "blocker" if facts.truncation_rate > TRUNCATED_FAIL else "warning"
        rest = "" if facts.mean_complete is None else f"; the others earn {facts.mean_complete:.2f} on average"
        yield Finding(
            "distribution-truncated", severity,
            f"{facts.truncation_rate:.0%} of the completions were cut off by the token limit, which looks like "
            f"failure{rest}",
            "Run run_eval with a higher max_tokens, and train with the same.",
        )  # fmt: skip


def on_size(facts: Distribution, seen: Measured) -> Iterator[Finding]:
    fix = f"Run run_eval with num_examples={ADVISED_TASKS} and rollouts={ADVISED_ROLLOUTS}."
    if seen.full_tasks < MIN_TASKS:
        yield Finding(
            "distribution-too-small", "blocker",
            f"{count(seen.full_tasks, 'task')} with at least {MIN_ROLLOUTS} scored rollouts are too few to pass; "
            f"{MIN_TASKS} are needed",
            fix,
        )  # fmt: skip
    if facts.scored < MIN_SAMPLE:
        yield Finding(
            "distribution-sample-count", "warning",
            f"{count(facts.scored, 'scored rollout')}; the least that says anything is {MIN_SAMPLE}", fix,
        )  # fmt: skip


def on_means(facts: Distribution, seen: Measured) -> Iterator[Finding]:
    mean, tasks = seen.mean, facts.tasks
    if mean.side(MEAN_LOW) == "below":
        yield Finding(
            "distribution-all-zero", "blocker",
            f"mean reward is {mean.value:.3f} of what is attainable, wholly below {MEAN_LOW} ({bounds(mean)})",
            f"If correct answers score 0, mend the reward (test_reward). {HARDER}",
        )  # fmt: skip
    elif mean.side(MEAN_LOW) == "across":
        yield unclear("mean reward", mean, MEAN_LOW, tasks, HARDER)
    if mean.side(MEAN_HIGH) == "above":
        yield Finding(
            "distribution-all-one", "blocker",
            f"mean reward is {mean.value:.3f} of what is attainable, wholly above {MEAN_HIGH} ({bounds(mean)})",
            EASIER,
        )  # fmt: skip
    elif mean.side(MEAN_HIGH) == "across":
        yield unclear("mean reward", mean, MEAN_HIGH, tasks, EASIER)
    yield from _on_floor(facts, mean)
    yield from _on_variation(facts, seen)


def _on_floor(facts: Distribution, mean: Interval) -> Iterator[Finding]:
    """At the floor where the interval holds it and the estimate is hardly above; farther off more tasks would tell."""
    if facts.floor is None or (mean.value >= facts.floor.reward + NEAR_FLOOR and mean.low > facts.floor.reward):
        return
    floor, said = facts.floor.reward, f"what {facts.floor.said} earns"
    if mean.value >= floor + NEAR_FLOOR:
        yield unclear(f"mean reward beside {said}", mean, round(floor, 3), facts.tasks, HARDER)
    elif mean.low <= floor:
        yield Finding(
            "distribution-at-floor", "blocker",
            f"mean reward {mean.value:.3f} ({bounds(mean)}) is no better than {said}: {floor:.3f}",
            f"Balance the answers or choose tasks the model can do better than by guessing. {HARDER}",
        )  # fmt: skip
    else:
        yield Finding(
            "distribution-near-floor", "warning",
            f"mean reward {mean.value:.3f} is hardly better than {said}: {floor:.3f}", HARDER,
        )  # fmt: skip


def _on_variation(facts: Distribution, seen: Measured) -> Iterator[Finding]:
    deviation = seen.deviation
    wider = "Give partial credit or a wider reward scale: prime-rl does not divide by the deviation; then run_eval."
    if deviation.side(MIN_STD) == "across":
        yield unclear("the standard deviation of rewards", deviation, MIN_STD, facts.tasks, HARDER)
    elif deviation.side(MIN_STD) == "below":
        yield Finding(
            "distribution-constant", "blocker",
            f"rewards hardly vary: standard deviation {deviation.value:.3f} of what is attainable, below {MIN_STD}",
            wider,
        )  # fmt: skip
    elif facts.reward_range is not None:
        used = facts.reward_range[1] - facts.reward_range[0]
        if used < RANGE_WARN:
            yield Finding(
                "distribution-narrow-range", "blocker" if used < RANGE_FAIL else "warning",
                f"98% of the rewards lie within {used:.3f} of what is attainable, less than {RANGE_WARN}", wider,
            )  # fmt: skip


def on_signal(facts: Distribution, seen: Measured) -> Iterator[Finding]:
    group, signal = facts.usable_groups.group_size, seen.signal
    if signal is not None:
        wasted = "a group without two different rewards teaches nothing"
        fix = "Choose tasks that the model solves sometimes, or a larger group; then run run_eval again."
        if signal.side(USABLE_FAIL) == "below":
            yield Finding(
                "distribution-no-signal", "blocker",
                f"about {signal.value:.0%} of groups of {group} would have a gradient ({bounds(signal)}), wholly below "
                f"{USABLE_FAIL:.0%}; {wasted}",
                fix,
            )  # fmt: skip
        elif _divided(facts, seen):
            yield Finding(
                "distribution-no-signal", "blocker",
                f"in none of {count(seen.full_tasks, 'task')} did two rollouts earn different rewards, while tasks "
                f"differ: the model always solves a task or never does; {wasted}",
                fix,
            )  # fmt: skip
        elif signal.side(USABLE_FAIL) == "across":
            yield unclear(f"the share of usable groups of {group}", signal, USABLE_FAIL, facts.tasks, HARDER)
        elif signal.value < USABLE_WARN:
            yield Finding(
                "distribution-weak-signal", "warning",
                f"about {signal.value:.0%} of groups of {group} would have a gradient ({bounds(signal)}): the rest of "
                "what a run costs is discarded",
                "Leave out tasks that are always or never solved, or raise the group size.",
            )  # fmt: skip
    yield from _on_pools(facts, seen)
    if facts.signal_fraction is not None and facts.signal_fraction < SIGNAL_WARN:
        yield Finding(
            "distribution-between-tasks", "warning",
            f"{facts.signal_fraction:.0%} of the variance lies inside tasks; only that part trains",
            "Choose tasks that the model solves sometimes rather than always or never.",
        )  # fmt: skip


def _divided(facts: Distribution, seen: Measured) -> bool:
    """Signal fraction and usable share below their thresholds together (facts 3.4), and not by chance.

    The share's interval alone may reach above its threshold at 4 rollouts a task. So every rollout of a task has to
    agree, in as many tasks as bound the share of mixed ones to 6 %.
    """
    agree = facts.zero_variance_share == 1.0 and seen.full_tasks >= ADVISED_TASKS
    return agree and facts.signal_fraction is not None and facts.signal_fraction < SIGNAL_FAIL


def _on_pools(facts: Distribution, seen: Measured) -> Iterator[Finding]:
    n = seen.scored_tasks
    for pool, code, said, fix in (
        ("never", "distribution-too-hard", "never got any reward", HARDER),
        ("always", "distribution-too-easy", "were always solved", EASIER),
    ):
        share = wilson(facts.difficulty[pool], n)
        if share.side(POOL_FAIL) == "above":
            yield Finding(
                code, "blocker",
                f"{share.value:.0%} of the tasks {said} ({bounds(share)}), wholly above {POOL_FAIL:.0%}", fix,
            )  # fmt: skip
        elif share.side(POOL_FAIL) == "across":
            yield unclear(f"the share of tasks that {said}", share, POOL_FAIL, n, fix)
        elif share.value > POOL_WARN:
            yield Finding(f"{code}-mostly", "warning", f"{share.value:.0%} of the tasks {said}", fix)
