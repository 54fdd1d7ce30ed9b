"""The decision table: thresholds of validation facts 3.4, the seed's five checks, three-valued.

Wholly on the failing side of a threshold fails; across it is inconclusive, with the number of tasks that would decide;
else it passes. Fewer than 30 tasks or 4 rollouts each never pass. A failure outweighs what is inconclusive.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from prime_lab_mcp.lab.distribution.collect import Sample
from prime_lab_mcp.lab.distribution.intervals import Interval, clustered, wilson
from prime_lab_mcp.lab.distribution.summary import Check, Component, Distribution, Status
from prime_lab_mcp.lab.report import Finding, Next, Severity
from prime_lab_mcp.lab.text import count, quote

MIN_TASKS, MIN_ROLLOUTS = 30, 4
ADVISED_TASKS, ADVISED_ROLLOUTS = 50, 8
MIN_SAMPLE, MEAN_LOW, MEAN_HIGH, MIN_STD, MIN_FORMAT = 20, 0.05, 0.95, 0.05, 0.3
"""The seed's five thresholds."""
USABLE_FAIL, USABLE_WARN = 0.10, 0.40
POOL_FAIL, POOL_WARN = 0.90, 0.50
ERRORS_FAIL, ERRORS_WARN = 0.10, 0.05
TRUNCATED_FAIL, TRUNCATED_WARN = 0.20, 0.05
SIGNAL_WARN = 0.10
LENGTH_WARN = 0.3
FORMAT_SHARE_FAIL, CORRECT_SHARE_FAIL = 0.60, 0.20

UNCLEAR = frozenset({
    "distribution-too-small", "distribution-unclear", "eval-all-errors",
})  # fmt: skip
"""Blockers that say nothing was decided; every other blocker is a failure."""

_HARDER = (
    "Give the model easier tasks, partial credit that cannot be gamed, or a stronger model; then run run_eval again."
)
_FORMAT = "State the format in the system prompt with an example, or fine-tune on it first; then run run_eval again."
_EASIER = "Use harder tasks or a weaker model, and leave out what is always solved; then run run_eval again."


def decide(
    facts: Distribution, sample: Sample, mean: Interval, signal: Interval | None, floor: float | None
) -> Distribution:
    """`facts` with its checks, findings and status."""
    findings = [*_failures(facts, sample)]
    if sample.scored:
        findings += _on_means(facts, sample, mean, floor)
        findings += _on_signal(facts, sample, signal)
        findings += _on_components(facts, sample)
        findings += _on_size(facts, sample)
        findings += _on_lengths(facts)
    if any(f.severity == "blocker" and f.code not in UNCLEAR for f in findings):
        # What has failed needs no larger sample to say so.
        findings = [f for f in findings if f.code != "distribution-unclear"]
    order: dict[Severity, int] = {"blocker": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda f: (order[f.severity], f.code in UNCLEAR))
    return dataclasses.replace(
        facts, status=_status(findings), findings=tuple(findings), checks=tuple(_checks(facts, sample))
    )


def _status(findings: list[Finding]) -> Status:
    blockers = [f.code for f in findings if f.severity == "blocker"]
    if any(code not in UNCLEAR for code in blockers):
        return "failed"
    return "inconclusive" if blockers else "passed"


def _checks(facts: Distribution, sample: Sample) -> Iterator[Check]:
    mean, std, form = facts.mean, facts.std, _format(facts)
    yield Check("sample-count", sample.scored, f">= {MIN_SAMPLE}", sample.scored >= MIN_SAMPLE)
    yield Check("not-all-zero", mean, f"> {MEAN_LOW}", mean is not None and mean > MEAN_LOW)
    yield Check("not-all-one", mean, f"< {MEAN_HIGH}", mean is not None and mean < MEAN_HIGH)
    yield Check("variance", std, f"> {MIN_STD}", std is not None and std > MIN_STD)
    yield Check("format", form.mean if form else None, f"> {MIN_FORMAT}", form.mean > MIN_FORMAT if form else None)


def _failures(facts: Distribution, sample: Sample) -> Iterator[Finding]:
    if sample.rollouts == 0 or sample.completed == 0:
        what = f"all {count(sample.rollouts, 'rollout')} failed" if sample.rollouts else "there is no rollout"
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
            f"{sample.errors} of {count(sample.rollouts, 'rollout')} failed ({facts.error_rate:.0%}); they are left "
            f"out of every number here, and more than {ERRORS_FAIL:.0%} is too many",
            'Look at the errors with read_eval(view="rollouts"): rate limits need a lower concurrency, others a '
            "repair; then run run_eval again.",
        )  # fmt: skip
    if sample.nonfinite:
        yield Finding(
            "distribution-nonfinite", "blocker",
            f"{count(sample.nonfinite, 'rollout')} got a reward that is no finite number; one of them spoils its group",
            "Make the reward return a finite number for every completion, then call test_reward.",
        )  # fmt: skip
    if facts.truncation_rate > TRUNCATED_WARN:
        severity = "blocker" if facts.truncation_rate > TRUNCATED_FAIL else "warning"
        yield Finding(
            "distribution-truncated", severity,
            f"{facts.truncation_rate:.0%} of the completions were cut off by the token limit, which looks like failure",
            "Run run_eval with a higher max_tokens, and train with the same.",
        )  # fmt: skip


def _on_size(facts: Distribution, sample: Sample) -> Iterator[Finding]:
    full = sum(len(t.rewards) >= MIN_ROLLOUTS for t in sample.tasks.values())
    if full < MIN_TASKS:
        yield Finding(
            "distribution-too-small", "blocker",
            f"{count(full, 'task')} with at least {MIN_ROLLOUTS} scored rollouts are too few to pass; "
            f"{MIN_TASKS} are needed",
            f"Run run_eval with num_examples={ADVISED_TASKS} and rollouts={ADVISED_ROLLOUTS}.",
        )  # fmt: skip
    if sample.scored < MIN_SAMPLE:
        yield Finding(
            "distribution-sample-count", "warning",
            f"{count(sample.scored, 'scored rollout')}; the least that says anything is {MIN_SAMPLE}",
            f"Run run_eval with num_examples={ADVISED_TASKS} and rollouts={ADVISED_ROLLOUTS}.",
        )  # fmt: skip


def _on_means(facts: Distribution, sample: Sample, mean: Interval, floor: float | None) -> Iterator[Finding]:
    tasks = facts.tasks
    if mean.side(MEAN_LOW) == "below":
        yield Finding(
            "distribution-all-zero", "blocker",
            f"mean reward is {mean.value:.3f} of what is attainable, wholly below {MEAN_LOW} ({_range(mean)})",
            f"If correct answers score 0, mend the reward (test_reward). {_HARDER}",
        )  # fmt: skip
    elif mean.side(MEAN_LOW) == "across":
        yield _unclear("mean reward", mean, MEAN_LOW, tasks, _HARDER)
    if mean.side(MEAN_HIGH) == "above":
        yield Finding(
            "distribution-all-one", "blocker",
            f"mean reward is {mean.value:.3f} of what is attainable, wholly above {MEAN_HIGH} ({_range(mean)})",
            _EASIER,
        )  # fmt: skip
    elif mean.side(MEAN_HIGH) == "across":
        yield _unclear("mean reward", mean, MEAN_HIGH, tasks, _EASIER)
    if floor is not None and mean.low <= floor:
        yield Finding(
            "distribution-at-floor", "blocker",
            f"mean reward {mean.value:.3f} ({_range(mean)}) is no better than a trivial policy's {floor:.3f}",
            f"Balance the answers or choose tasks the model can do better than by guessing. {_HARDER}",
        )  # fmt: skip
    elif floor is not None and mean.value < floor + 0.05:
        yield Finding(
            "distribution-near-floor", "warning",
            f"mean reward {mean.value:.3f} is hardly better than a trivial policy's {floor:.3f}", _HARDER,
        )  # fmt: skip
    deviation = _deviation(sample, facts.attainable)
    if deviation.side(MIN_STD) == "across":
        yield _unclear("the standard deviation of rewards", deviation, MIN_STD, tasks, _HARDER)
    elif deviation.side(MIN_STD) == "below":
        yield Finding(
            "distribution-constant", "blocker",
            f"rewards hardly vary: standard deviation {deviation.value:.3f} of what is attainable, below {MIN_STD}",
            "Give partial credit or a wider reward scale: prime-rl does not divide by the deviation; then run_eval.",
        )  # fmt: skip


def _on_signal(facts: Distribution, sample: Sample, signal: Interval | None) -> Iterator[Finding]:
    group = facts.usable_groups.group_size
    if signal is not None:
        wasted = "a group without two different rewards teaches nothing"
        if signal.side(USABLE_FAIL) == "below":
            yield Finding(
                "distribution-no-signal", "blocker",
                f"about {signal.value:.0%} of groups of {group} would have a gradient ({_range(signal)}), wholly below "
                f"{USABLE_FAIL:.0%}; {wasted}",
                "Choose tasks that the model solves sometimes, or a larger group; then run run_eval again.",
            )  # fmt: skip
        elif signal.side(USABLE_FAIL) == "across":
            yield _unclear(f"the share of usable groups of {group}", signal, USABLE_FAIL, facts.tasks, _HARDER)
        elif signal.value < USABLE_WARN:
            yield Finding(
                "distribution-weak-signal", "warning",
                f"about {signal.value:.0%} of groups of {group} would have a gradient ({_range(signal)}): the rest of "
                "what a run costs is discarded",
                "Leave out tasks that are always or never solved, or raise the group size.",
            )  # fmt: skip
    yield from _on_pools(facts, sample)
    if facts.signal_fraction is not None and facts.signal_fraction < SIGNAL_WARN:
        yield Finding(
            "distribution-between-tasks", "warning",
            f"{facts.signal_fraction:.0%} of the variance lies inside tasks; only that part trains",
            "Choose tasks that the model solves sometimes rather than always or never.",
        )  # fmt: skip


def _on_pools(facts: Distribution, sample: Sample) -> Iterator[Finding]:
    n = len(sample.tasks)
    for pool, code, said, fix in (
        ("never", "distribution-too-hard", "never got any reward", _HARDER),
        ("always", "distribution-too-easy", "were always solved", _EASIER),
    ):
        share = wilson(facts.difficulty[pool], n)
        if share.side(POOL_FAIL) == "above":
            yield Finding(
                code, "blocker",
                f"{share.value:.0%} of the tasks {said} ({_range(share)}), wholly above {POOL_FAIL:.0%}", fix,
            )  # fmt: skip
        elif share.side(POOL_FAIL) == "across":
            yield _unclear(f"the share of tasks that {said}", share, POOL_FAIL, n, fix)
        elif share.value > POOL_WARN:
            yield Finding(f"{code}-mostly", "warning", f"{share.value:.0%} of the tasks {said}", fix)


def _on_components(facts: Distribution, sample: Sample) -> Iterator[Finding]:
    form = _format(facts)
    if form is None:
        return
    parts = [t.parts[form.name] for t in sample.tasks.values() if form.name in t.parts]
    kept, _ = clustered([p.scores / p.n for p in parts], sum(p.n for p in parts))
    if kept.side(MIN_FORMAT) == "across":
        yield _unclear(f"the mean of {quote(form.name, 60)}", kept, MIN_FORMAT, facts.tasks, _FORMAT)
    elif kept.side(MIN_FORMAT) == "below":
        yield Finding(
            "distribution-format-low", "blocker",
            f"{quote(form.name, 60)} is {form.mean:.2f} on average, below {MIN_FORMAT}: the model does not keep to "
            "the format, so correctness is hardly measured",
            _FORMAT,
        )  # fmt: skip
    shares = [c for c in facts.components if c.within_task_share is not None and c.name != form.name]
    correct = math.fsum(c.within_task_share or 0.0 for c in shares)
    if form.within_task_share is not None and shares:
        if form.within_task_share > FORMAT_SHARE_FAIL and correct < CORRECT_SHARE_FAIL:
            yield Finding(
                "distribution-format-dominates", "blocker",
                f"{form.within_task_share:.0%} of what a run could learn from is {quote(form.name, 60)}, {correct:.0%} "
                "everything else: it will learn the format and stop",
                "Lower the weight of the format reward, or choose tasks that the model sometimes solves.",
            )  # fmt: skip
        elif form.mean >= 0.98:
            yield Finding(
                "distribution-format-saturated", "info",
                f"{quote(form.name, 60)} is at {form.mean:.2f} already and gives no signal",
                "Drop it, or keep it only as a guard.",
            )  # fmt: skip


def _on_lengths(facts: Distribution) -> Iterator[Finding]:
    rho, n = facts.length_correlation, facts.scored - facts.tasks
    # |z| > 2.58 is p < .01 for Fisher's transform.
    if (
        rho is not None
        and n > 10
        and abs(rho) > LENGTH_WARN
        and abs(math.atanh(_inside(rho))) * math.sqrt(n - 3) > 2.58
    ):
        way = "longer" if rho > 0 else "shorter"
        yield Finding(
            "distribution-length-correlation", "warning",
            f"inside a task, {way} completions get more reward (correlation {rho:.2f})",
            "Read the highest rollouts with read_eval(view=\"rollouts\"): training will push the length that way.",
        )  # fmt: skip


def _deviation(sample: Sample, best: float) -> Interval:
    """The standard deviation of reward / attainable, its interval from the spread of squared deviations over tasks."""
    tasks, n = sample.tasks.values(), sample.scored
    grand = math.fsum(math.fsum(t.rewards) for t in tasks) / n
    squares = [math.fsum((r - grand) ** 2 for r in t.rewards) / len(t.rewards) / best**2 for t in tasks]
    variance, _ = clustered(squares, n)
    return Interval(*(math.sqrt(max(0.0, v)) for v in (variance.value, variance.low, variance.high)))


def _unclear(what: str, interval: Interval, threshold: float, tasks: int, fix: str) -> Finding:
    needed = interval.tasks_to_decide(threshold, tasks)
    if needed is None:
        advice = f"It lies on the threshold, and no sample would decide it. {fix}"
    else:
        advice = f"Run run_eval with num_examples={needed} (or {fix[0].lower()}{fix[1:].rstrip('.')})."
    return Finding(
        "distribution-unclear", "blocker",
        f"{what} is {interval.value:.3f}, but its interval {_range(interval)} lies across {threshold}",
        advice, where=what,
    )  # fmt: skip


def _format(facts: Distribution) -> Component | None:
    """The component that rewards form: by name, and never the only one."""
    named = [c for c in facts.components if "format" in c.name.lower() and c.weight != 0]
    return named[0] if named and len(facts.components) > 1 else None


def _range(interval: Interval) -> str:
    return f"95% {max(interval.low, 0):.3f} to {interval.high:.3f}"


def _inside(rho: float) -> float:
    return max(-0.999999, min(0.999999, rho))


def next_calls(facts: Distribution, environment: str, evaluation: str | None) -> tuple[Next, ...]:
    """Where a verdict leads."""
    if facts.status == "passed":
        why = "the reward distribution can be trained on"
        return (Next("push_environment", why, {"environment": environment}),)
    given = {"eval": evaluation} if evaluation else {}
    return (Next("read_eval", "see which rollouts got no reward and why", {**given, "view": "zeros"}),)
