"""The thresholds and the rules that judge a reward distribution. `verdict` combines them.

A rule fails if the interval of its estimate lies wholly on the failing side of the threshold. If the interval contains
the threshold, the rule is inconclusive, and its finding states the number of tasks that would decide. Otherwise the
rule passes. Samples of fewer than 30 tasks or 4 rollouts for each task never pass, unless the environment has fewer
tasks and each has correspondingly more rollouts. docs/validation.md, Reward distributions, explains the thresholds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.statistics import Interval, wilson_interval
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.distribution.sample_size import (
    ADVISED_ROLLOUTS,
    ADVISED_TASKS,
    advised_size,
    is_too_small,
    larger_sample,
    larger_size,
    needed_size,
)
from prime_lab_mcp.lab.distribution.summary import (
    MIN_ROLLOUTS,
    MIN_TASKS,
    AnswerSummary,
    ComponentSummary,
    Distribution,
    Estimates,
)

MIN_SAMPLE, MEAN_LOW, MEAN_HIGH, MIN_STD, MIN_FORMAT = 20, 0.05, 0.95, 0.05, 0.3
"""Thresholds of the five reward checks: scored rollouts, lowest and highest mean reward, standard deviation of the
rewards, and mean format score."""
USABLE_FAIL, USABLE_WARN = 0.10, 0.40
POOL_FAIL, POOL_WARN = 0.90, 0.50
ERRORS_FAIL, ERRORS_WARN = 0.10, 0.05
TRUNCATED_FAIL, TRUNCATED_WARN = 0.20, 0.05
SIGNAL_FAIL, SIGNAL_WARN = 0.02, 0.10
RANGE_FAIL, RANGE_WARN = 0.05, 0.20
UNPARSED_FAIL, UNPARSED_WARN = 0.50, 0.20
LENGTH_WARN = 0.3
FORMAT_SHARE_FAIL, CORRECT_SHARE_FAIL = 0.60, 0.20
HEAVY_SHARE = 0.5
"""Share of all weights above which a component is most of the reward."""
SATURATED_SHARE = 0.98
NEAR_FLOOR = 0.05

HARDER_TASKS_FIX = Fix(
    "Give the model easier tasks (an easy level by env_args), partial credit that cannot "
    "be gamed, or a stronger model; then run ",
    NamedCall("run_eval"),
    " again.",
)
NOTHING_SOLVED_FIX = Fix(
    "If correct answers score 0, mend the reward (",
    NamedCall("test_reward"),
    "). ",
    HARDER_TASKS_FIX,
    " The prompt solve_something has the order in which to try.",
)
FORMAT_FIX = Fix(
    "Compare the format that the prompt asks for with the one that the reward reads; state the format in the system "
    "prompt with an example, or fine-tune on it first; then run ",
    NamedCall("run_eval"),
    " again.",
)
EASIER_TASKS_FIX = Fix(
    "Use harder tasks or a weaker model, and leave out what is always solved; then run ",
    NamedCall("run_eval"),
    " again.",
)


def unclear_finding(
    what: str, interval: Interval, threshold: float, facts: Distribution, fix: str, bounds: str = ""
) -> Finding:
    """Return the finding for an interval that contains a threshold, with the sample size that would decide.

    `bounds` are those of the interval as text, if more is to be said of them than their numbers.
    """
    needed = interval.tasks_to_decide(threshold, facts.tasks)
    size = larger_size(facts, needed) if needed is not None else None
    if needed is None:
        advice = Fix("It lies on the threshold, and no sample would decide it. ", fix)
    else:
        advice = Fix(larger_sample(facts, needed), f" (or {fix[0].lower()}{fix[1:].rstrip('.')}).")
    return Finding(
        "distribution-unclear",
        "blocker",
        f"{what} is {interval.value:.3f}, but its interval {bounds or bounds_text(interval)} lies across {threshold:g}",
        advice,
        where=what,
        rows=({"num_examples": size[0], "rollouts": size[1]},) if size is not None else (),
    )


def bounds_text(interval: Interval) -> str:
    """Return the bounds of a 95 % interval as text."""
    return f"95% {max(interval.low, 0):.3f} to {interval.high:.3f}"


def _mean_bounds(mean: Interval, facts: Distribution) -> str:
    """Return the bounds of a mean that decides the verdict, which are narrower than the reported ones if every task of
    the environment was evaluated."""
    whole = facts.available is not None and facts.tasks > 1 and facts.available <= facts.tasks
    return bounds_text(mean) + (f" for exactly these {facts.tasks} tasks" if whole else "")


def on_failures(facts: Distribution, estimates: Estimates) -> Iterator[Finding]:
    """Judge the numbers of failed rollouts, of rollouts with a non-finite reward and of truncated rollouts."""
    if estimates.completed == 0:
        what = f"all {count(facts.rollouts, 'rollout')} failed" if facts.rollouts else "there is no rollout"
        yield Finding(
            "eval-all-errors",
            "blocker",
            f"{what}, so nothing is known about the reward",
            Fix(
                "Look at the errors with ",
                NamedCall("read_eval", view="rollouts"),
                ", mend the endpoint or the environment, and run ",
                NamedCall("run_eval"),
                " again.",
            ),
        )
        return
    if facts.error_rate > ERRORS_WARN:
        severity: Severity = "blocker" if facts.error_rate > ERRORS_FAIL else "warning"
        yield Finding(
            "eval-errors",
            severity,
            f"{facts.errors} of {count(facts.rollouts, 'rollout')} failed ({facts.error_rate:.0%}); they are left "
            f"out of every number here, and more than {ERRORS_FAIL:.0%} is too many",
            Fix(
                "Look at the errors with ",
                NamedCall("read_eval", view="rollouts"),
                ": rate limits need a lower concurrency, others a repair; then run ",
                NamedCall("run_eval"),
                " again.",
            ),
        )
    if estimates.nonfinite:
        yield Finding(
            "distribution-nonfinite",
            "blocker",
            f"{count(estimates.nonfinite, 'rollout')} got a reward that is no finite number; one of them spoils "
            "its group",
            Fix(
                "Make the reward return a finite number for every completion, then call ", NamedCall("test_reward"), "."
            ),
        )
    if facts.truncation_rate > TRUNCATED_WARN:
        severity = "blocker" if facts.truncation_rate > TRUNCATED_FAIL else "warning"
        rest = (
            ""
            if facts.mean_complete is None
            else f"; the others earn {facts.mean_complete:.2f} of attainable on average"
        )
        limit = "the token limit, which looks like failure"
        fix = Fix("Run ", NamedCall("run_eval"), " with a higher max_tokens, and train with the same.")
        if facts.cut_early:
            limit = "another limit than max_tokens, which none of them came near: that looks like failure"
            fix = Fix(
                "A higher max_tokens changes nothing. Read some with ",
                NamedCall("read_eval", view="rollouts", where="truncated"),
                ": the server, or the model's context, has a limit of its own.",
            )
        yield Finding(
            "distribution-truncated",
            severity,
            f"{facts.truncation_rate:.0%} of the completions were cut off by {limit}{rest}",
            fix,
        )


def on_size(facts: Distribution, estimates: Estimates) -> Iterator[Finding]:
    """Judge the size of the sample: the number of tasks and of rollouts for each task."""
    tasks, rollouts = (needed_size if facts.slow else advised_size)(facts.available)
    fix = Fix("Run ", NamedCall("run_eval").changed(num_examples=tasks, rollouts=rollouts), ".")
    least_tasks, least_rollouts = needed_size(facts.available)
    if is_too_small(estimates.full_tasks, facts.scored, facts.available):
        # In an environment with few tasks, more rollouts of each task make the sample large enough.
        needed = f"{least_tasks} are needed"
        if least_tasks < MIN_TASKS:
            needed = f"the environment has {count(least_tasks, 'task')}, and each needs {least_rollouts} rollouts"
        yield Finding(
            "distribution-too-small",
            "blocker",
            f"{count(estimates.full_tasks, 'task')} with at least {MIN_ROLLOUTS} scored rollouts are too few to pass; "
            f"{needed}",
            fix,
            rows=({"num_examples": tasks, "rollouts": rollouts},),
        )
    if facts.scored < MIN_SAMPLE:
        yield Finding(
            "distribution-sample-count",
            "warning",
            f"{count(facts.scored, 'scored rollout')}; the least that says anything is {MIN_SAMPLE}",
            fix,
        )


def on_means(facts: Distribution, estimates: Estimates) -> Iterator[Finding]:
    """Judge the mean reward and its variation.

    The mean is that of the rewards for answers if the components separate the answer from form and style.
    """
    mean, what = estimates.mean, "mean of attainable"
    if estimates.answer is not None:
        mean, what = estimates.answer, "mean of attainable for the answer"
    if facts.answer is not None and not facts.answer.paid and mean.side(MEAN_LOW) == "below":
        yield _dead_finding(facts, facts.answer)
    elif mean.side(MEAN_LOW) == "below":
        yield Finding(
            "distribution-all-zero",
            "blocker",
            f"{what} is {mean.value:.3f}, wholly below {MEAN_LOW} ({_mean_bounds(mean, facts)})",
            NOTHING_SOLVED_FIX,
        )
    elif mean.side(MEAN_LOW) == "across":
        unclear = unclear_finding(what, mean, MEAN_LOW, facts, HARDER_TASKS_FIX, _mean_bounds(mean, facts))
        yield _nothing_paid_yet(unclear, mean, facts) if facts.paid_nothing else unclear
    if mean.side(MEAN_HIGH) == "above":
        yield Finding(
            "distribution-all-one",
            "blocker",
            f"{what} is {mean.value:.3f}, wholly above {MEAN_HIGH} ({_mean_bounds(mean, facts)})",
            EASIER_TASKS_FIX,
        )
    elif mean.side(MEAN_HIGH) == "across":
        yield unclear_finding(what, mean, MEAN_HIGH, facts, EASIER_TASKS_FIX, _mean_bounds(mean, facts))
    if facts.mean:  # rewards of nothing at all lie below every floor, which says nothing of guessing
        yield from _on_floor(facts, estimates.mean)
    yield from _on_variation(facts, estimates)


def _nothing_paid_yet(unclear: Finding, mean: Interval, facts: Distribution) -> Finding:
    """The finding for rollouts of which none was paid, and which are too few to say that none ever would be."""
    return dataclasses.replace(
        unclear,
        message=f"none of {count(facts.scored, 'rollout')} earned anything for its answer; "
        f"{count(facts.tasks, 'task')} leave a mean of up to {max(mean.high, 0):.3f} of attainable possible, and a run "
        f"learns nothing below {MEAN_LOW}",
        fix=Fix(
            "Find out why before more is evaluated: ", NamedCall("read_eval", view="zeros"), ". ", NOTHING_SOLVED_FIX
        ),
    )


def _dead_finding(facts: Distribution, answer: AnswerSummary) -> Finding:
    """Return the finding for rollouts of which none has a reward for its answer."""
    listed = ", ".join(quote(name, 60) for name in answer.others[:3])
    earned = ""
    if listed and facts.mean:
        earned = f"; what they earned ({facts.mean:.3f} of attainable on average) is for {listed}"
    alone = ". A run would learn that alone" if earned else f", and nothing for {listed} either" if listed else ""
    return Finding(
        "distribution-dead",
        "blocker",
        f"dead: none of {count(answer.scored, 'rollout')} earned anything for its answer{earned}{alone}",
        NOTHING_SOLVED_FIX,
    )


def _on_floor(facts: Distribution, mean: Interval) -> Iterator[Finding]:
    """Compare the mean reward with the reward of the best trivial policy, the floor.

    The mean is at the floor if its interval reaches down to the floor and not up to `NEAR_FLOOR` above it, or if the
    estimate is not above the floor. If the interval reaches both and the estimate is above the floor, more tasks would
    decide. So would they if the mean is above what such a policy earns if answers are balanced, and not above the
    largest share in the sample.
    """
    if facts.floor is None:
        return
    floor, highest = facts.floor.reward, facts.floor.highest
    floor_text = f"what {facts.floor.description} earns"
    standing, upper = _floor_standing(mean, floor), _floor_standing(mean, highest)
    if standing == "at":
        balance = ""
        if facts.floor.policy == "always-the-most-frequent-answer" and not facts.floor.balanced:
            balance = ", or balance the answers"
        yield Finding(
            "distribution-at-floor",
            "blocker",
            f"mean of attainable {mean.value:.3f} ({_mean_bounds(mean, facts)}) is no better than {floor_text}: "
            f"{floor:.3f}",
            Fix(f"Choose tasks the model can do better than by guessing{balance}. ", HARDER_TASKS_FIX),
        )
    elif standing == "unclear":
        what = f"mean of attainable beside {floor_text}"
        yield unclear_finding(what, mean, round(floor, 3), facts, HARDER_TASKS_FIX, _mean_bounds(mean, facts))
    elif upper in ("at", "unclear"):
        unclear = unclear_finding(f"mean of attainable beside {floor_text}", mean, floor, facts, HARDER_TASKS_FIX)
        message = (
            f"mean of attainable {mean.value:.3f} ({_mean_bounds(mean, facts)}) is above what "
            f"{facts.floor.description} earns if answers are balanced, {floor:.3f}, and not clearly above what the "
            f"most frequent answer of these tasks earns, {highest:.3f}"
        )
        yield dataclasses.replace(unclear, message=message)
    elif "near" in (standing, upper):
        yield Finding(
            "distribution-near-floor",
            "warning",
            f"mean of attainable {mean.value:.3f} is hardly better than {floor_text}: {highest:.3f}",
            HARDER_TASKS_FIX,
        )


def _floor_standing(mean: Interval, floor: float) -> Literal["at", "unclear", "near", "above"]:
    if mean.value >= floor + NEAR_FLOOR:
        return "above" if mean.low > floor else "unclear"
    if mean.low <= floor < mean.value and mean.high >= floor + NEAR_FLOOR:
        return "unclear"
    return "at" if mean.low <= floor else "near"


def _on_variation(facts: Distribution, estimates: Estimates) -> Iterator[Finding]:
    """Judge the standard deviation and the range of the rewards."""
    deviation = estimates.deviation
    wider = Fix(
        "Give partial credit or a wider reward scale: prime-rl does not divide by the deviation; then ",
        NamedCall("run_eval"),
        ".",
    )
    if deviation.side(MIN_STD) == "across":
        yield unclear_finding("the standard deviation of rewards", deviation, MIN_STD, facts, HARDER_TASKS_FIX)
    elif deviation.side(MIN_STD) == "below":
        yield Finding(
            "distribution-constant",
            "blocker",
            f"rewards hardly vary: standard deviation {deviation.value:.3f} of what is attainable, below {MIN_STD}",
            wider,
        )
    elif facts.reward_range is not None:
        used = facts.reward_range[1] - facts.reward_range[0]
        if used < RANGE_WARN:
            yield Finding(
                "distribution-narrow-range",
                "blocker" if used < RANGE_FAIL else "warning",
                f"98% of the rewards lie within {used:.3f} of what is attainable, less than {RANGE_WARN}",
                wider,
            )


def on_signal(facts: Distribution, estimates: Estimates) -> Iterator[Finding]:
    """Judge the share of usable groups, the difficulty pools and the variance inside tasks."""
    group, signal = facts.usable_groups.group_size, estimates.signal
    if signal is not None:
        form_only = facts.usable_groups.form_only or 0.0
        wasted, rest = (
            "a group without two different rewards teaches nothing",
            "the rest of what a run costs is discarded",
        )
        if form_only >= 0.05:
            wasted = rest = (
                f"another {form_only:.0%} differ by form, length or style only, which does not teach the task"
            )
        fix = Fix(
            "Choose tasks that the model solves sometimes, or a larger group; then run ",
            NamedCall("run_eval"),
            " again.",
        )
        if signal.side(USABLE_FAIL) == "below":
            yield Finding(
                "distribution-no-signal",
                "blocker",
                f"about {signal.value:.0%} of groups of {group} would have a gradient ({bounds_text(signal)}), wholly "
                f"below {USABLE_FAIL:.0%}; {wasted}",
                fix,
            )
        elif _divided(facts, estimates):
            yield Finding(
                "distribution-no-signal",
                "blocker",
                f"in none of {count(estimates.full_tasks, 'task')} did two rollouts earn different rewards, while "
                f"tasks differ: the model always solves a task or never does; {wasted}",
                fix,
            )
        elif signal.side(USABLE_FAIL) == "across":
            yield unclear_finding(
                f"the share of usable groups of {group}", signal, USABLE_FAIL, facts, HARDER_TASKS_FIX
            )
        elif signal.value < USABLE_WARN:
            yield Finding(
                "distribution-weak-signal",
                "warning",
                f"about {signal.value:.0%} of groups of {group} would have a gradient ({bounds_text(signal)}): {rest}",
                "Leave out tasks that are always or never solved, or raise the group size.",
            )
    yield from _on_pools(facts, estimates)
    if facts.signal_fraction is not None and facts.signal_fraction < SIGNAL_WARN:
        yield Finding(
            "distribution-between-tasks",
            "warning",
            f"{facts.signal_fraction:.0%} of the variance lies inside tasks; only that part trains",
            "Choose tasks that the model solves sometimes rather than always or never.",
        )


def _divided(facts: Distribution, estimates: Estimates) -> bool:
    """True if the model either always or never solves each task, and this is not due to chance.

    Then almost no variance lies inside tasks. With 4 rollouts for each task the interval of the usable share may still
    reach above its threshold. The function therefore requires equal rewards for all rollouts of each task, in at least
    `ADVISED_TASKS` tasks: so many tasks bound the share of tasks with different rewards to 6 % (docs/validation.md,
    Reward distributions).
    """
    apart = facts.answer is not None and facts.learnability == 0
    agree = (apart or facts.zero_variance_share == 1.0) and estimates.full_tasks >= ADVISED_TASKS
    return agree and facts.signal_fraction is not None and facts.signal_fraction < SIGNAL_FAIL


def _on_pools(facts: Distribution, estimates: Estimates) -> Iterator[Finding]:
    """Judge the shares of tasks without any reward and of tasks that are always solved."""
    n = estimates.scored_tasks
    never = "never got any reward" if facts.answer is None else "never got any reward for the answer"
    pools: tuple[tuple[str, Code, Code, str, str], ...] = (
        ("never", "distribution-too-hard", "distribution-too-hard-mostly", never, HARDER_TASKS_FIX),
        ("always", "distribution-too-easy", "distribution-too-easy-mostly", "were always solved", EASIER_TASKS_FIX),
    )
    for pool, code, mostly, description, fix in pools:
        share = wilson_interval(facts.difficulty[pool], n)
        if facts.available is not None and n >= facts.available and facts.scored >= n * ADVISED_ROLLOUTS:
            share = Interval(share.value, share.value, share.value)  # the sample has all tasks of the environment
        if share.side(POOL_FAIL) == "above":
            yield Finding(
                code,
                "blocker",
                f"{share.value:.0%} of the tasks {description} ({bounds_text(share)}), wholly above {POOL_FAIL:.0%}",
                fix,
            )
        elif share.side(POOL_FAIL) == "across":
            yield unclear_finding(f"the share of tasks that {description}", share, POOL_FAIL, facts, fix)
        elif share.value > POOL_WARN:
            yield Finding(mostly, "warning", f"{share.value:.0%} of the tasks {description}", fix)


def on_form(facts: Distribution, estimates: Estimates) -> Iterator[Finding]:
    """Judge how often completions follow the format."""
    form, interval = facts.form, estimates.form
    if form is None or interval is None:
        return
    name = quote(form.name, 60)
    if interval.side(MIN_FORMAT) == "across":
        yield unclear_finding(f"the mean of {name}", interval, MIN_FORMAT, facts, FORMAT_FIX)
    elif interval.side(MIN_FORMAT) == "below":
        yield Finding(
            "distribution-format-low",
            "blocker",
            f"{name} is {form.mean:.2f} on average, below {MIN_FORMAT}: what the model writes is not "
            "what the reward reads as the format, so correctness is hardly measured",
            FORMAT_FIX,
        )
        return
    if form.unparsed_rate is not None and form.unparsed_rate > UNPARSED_WARN:
        able = "" if form.solved_if_correct is None else f"; where it is kept, {form.solved_if_correct:.0%} are solved"
        yield Finding(
            "distribution-unparsed",
            "blocker" if form.unparsed_rate > UNPARSED_FAIL else "warning",
            f"{form.unparsed_rate:.0%} of the completions that were not cut off do not keep to the format "
            f"({name} below 0.5){able}",
            FORMAT_FIX,
        )


def on_components(facts: Distribution) -> Iterator[Finding]:
    """Judge the components: their shares of the reward's variance, constant scores and scores outside 0 to 1."""
    form = next((c for c in facts.components if facts.form and c.name == facts.form.name), None)
    others = [c for c in facts.components if c.within_task_share is not None and c is not form]
    if form is not None and form.within_task_share is not None and others:
        correct = math.fsum(c.within_task_share or 0.0 for c in others)
        if form.within_task_share > FORMAT_SHARE_FAIL and correct < CORRECT_SHARE_FAIL:
            yield Finding(
                "distribution-format-dominates",
                "blocker",
                f"{form.within_task_share:.0%} of what a run could learn from is {quote(form.name, 60)}, {correct:.0%} "
                "everything else: it will learn the format and stop",
                "Lower the weight of the format reward, or choose tasks that the model sometimes solves.",
            )
        elif form.mean >= SATURATED_SHARE:
            yield Finding(
                "distribution-format-saturated",
                "info",
                f"{quote(form.name, 60)} is at {form.mean:.2f} already and gives no signal",
                "Drop it, or keep it only as a guard.",
            )
    yield from _on_saturation(facts, form)
    yield from _on_unearned_part(facts, form)
    yield from _on_range(facts)


def _on_saturation(facts: Distribution, form: ComponentSummary | None) -> Iterator[Finding]:
    """Report components with the same score in every rollout, which give no gradient."""
    flat = [c for c in facts.components if c is not form and c.weight != 0 and c.std < 1e-6]
    unearned = [c for c in flat if abs(c.mean) < 1e-6 and (c.weight is None or c.weight > 0)]
    flat = [c for c in flat if c not in unearned]
    if unearned and len(facts.components) > 1:
        listed = ", ".join(quote(c.name, 60) for c in unearned[:4])
        yield Finding(
            "component-never-exercised",
            "info",
            f"never exercised: no rollout earned anything from {listed}, so these results say nothing about it",
            "Do not drop it for that. test_reward shows whether a solution earns it; a stronger model or easier tasks "
            "show whether it can be learned.",
        )
    if flat and len(flat) < len(facts.components):
        listed = ", ".join(f"{quote(c.name, 60)} ({c.mean:.2f})" for c in flat[:4])
        yield Finding(
            "distribution-constant-component",
            "info",
            f"the same for every rollout, and so without signal: {listed}",
            "Drop it, or look why it never differs: test_reward shows what right and wrong answers earn from it.",
        )


def _on_unearned_part(facts: Distribution, form: ComponentSummary | None) -> Iterator[Finding]:
    """Name the component with most of the weight if rollouts earned parts of it and none earned all of it.

    Where the reward adds up parts, such as one for each field of a reply, one of them may never be earned.
    """
    weights = math.fsum(c.weight for c in facts.components if c.weight is not None and c.weight > 0)
    for c in facts.components:
        heavy = c is not form and c.weight is not None and c.weight > HEAVY_SHARE * weights
        if heavy and c.at_best == 0 and 0 < c.mean < 1:
            yield Finding(
                "component-never-exercised",
                "info",
                f"no rollout earned all of {quote(c.name, 60)}, which has most of the weight (mean {c.mean:.2f}): a "
                "part of it that nothing earns is not learned",
                'Read the best rollouts with read_eval(view="rollouts"), and see what they lack. A similarity that '
                "hardly ever is 1 may stay so.",
            )


def on_tool_use(facts: Distribution) -> Iterator[Finding]:
    """Warn if the model never called a tool, and if rollouts were solved without a tool call."""
    use = facts.tool_use
    if use is None:
        return
    if use.without_call == use.offered:
        yield Finding(
            "tools-never-called",
            "warning",
            f"the model called no tool in any of {count(use.offered, 'rollout')}: this is evidence about a model that "
            "answers without tools, and says nothing about one that uses them",
            'Look at the rollouts with read_eval(view="rollouts"). If answers can be guessed, pay only after a call '
            "that worked; if the model cannot call tools, choose one that can or say how in the system prompt.",
        )
    if use.solved_without_call:
        share = use.solved_without_call / use.solved
        yield Finding(
            "paid-without-tool",
            "warning",
            f"{use.solved_without_call} of {count(use.solved, 'solved rollout')} ({share:.0%}) called no tool: "
            "guesses, or tasks that need none",
            'Read some with read_eval(view="rollouts"). If the task is to look something up, pay only after a call '
            "that worked.",
        )


def _on_range(facts: Distribution) -> Iterator[Finding]:
    """Warn about negative rewards and about scores outside 0 to 1."""
    listed = [f"{quote(c.name, 60)} in {count(c.outside, 'rollout')}" for c in facts.components if c.outside]
    below = f"the reward is negative in {count(facts.outside, 'rollout')}" if facts.outside else ""
    if listed or below:
        outside = f"scores outside 0 to 1: {', '.join(listed[:4])}" if listed else ""
        yield Finding(
            "distribution-out-of-range",
            "warning",
            "; ".join(filter(None, (below, outside))),
            "Keep every score within 0 and 1 and let weights say what it is worth; penalties as such are fine when "
            "meant.",
        )


def on_lengths(facts: Distribution) -> Iterator[Finding]:
    """Judge the correlation of reward with completion length."""
    correlation = facts.length_correlation
    if correlation is None or not correlation.certain or abs(correlation.rho) <= LENGTH_WARN:
        return
    direction = "longer" if correlation.rho > 0 else "shorter"
    tokens = facts.length_by_outcome
    # Over all tasks the lengths may differ the other way, because harder tasks have other lengths: that says nothing.
    agrees = len(tokens) == 2 and (tokens["solved"] - tokens["unsolved"]) * correlation.rho > 0
    means = f"; solved ones have {tokens['solved']} tokens a reply, others {tokens['unsolved']}" if agrees else ""
    yield Finding(
        "distribution-length-correlation",
        "warning",
        f"inside a task, {direction} completions get more reward (rank correlation {correlation.rho:.2f}{means})",
        'Read the highest rollouts with read_eval(view="rollouts"): training will push the length that way.',
    )
