"""Anomalies of learning: a collapse or jump of the reward, a gap to held-out tasks, and tasks that teach nothing.

Thresholds are those of docs/validation.md, Anomalies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from prime_lab_mcp.lab.training.anomalies.anomaly import EMPTY_BATCHES, Anomaly, AnomalyEvidence
from prime_lab_mcp.lab.training.metrics import (
    FEW_POINTS,
    WINDOW_STEPS,
    MetricPoint,
    MetricRow,
    attainable_level,
    correctness_series,
    form_series,
    held_out_series,
    holds_now,
    mean,
    noise,
    onset,
    ratio_at,
    reward_series,
    silent_group_series,
    slope,
    smooth,
    steady,
    streak,
    token_series,
)

COLLAPSE_WARN, COLLAPSE_STOP = 0.75, 0.5
"""Fractions of the best level below which the reward has collapsed; `stop` also needs ten steps below."""
JUMP_HEIGHT, JUMP_STEPS = 0.3, 5
"""A jump is a rise of more than 0.3 of the attainable reward in fewer than five steps."""
FORMAT_FULL, PLATEAU_STEPS = 0.95, 30
"""The format reward above which the format is learned, and the number of steps without a slope of correctness."""
_FLAT = 0.02
"""A change of correctness over `PLATEAU_STEPS` that is smaller than this counts as none."""
EVALS_WARN, EVALS_STOP = 2, 3
"""Consecutive held-out evaluations without a rise, while the training reward rises, for `warn` and `stop`."""
_MIN_STANDARD_ERRORS = 4.5
"""Number of standard errors that a change must exceed. The number is high because many pairs of steps are compared."""
_RISE = 0.1
"""The smallest rise of a reward that counts as a rise."""
_EVAL_NOISE = 0.03
"""Assumed standard deviation of a held-out mean if too few evaluations exist to estimate it: that of about 200
tasks."""


def reward_collapse(rows: Sequence[MetricRow]) -> Anomaly | None:
    """The mean reward falls well below its best level."""
    reward = reward_series(rows)
    points = smooth(reward.points, WINDOW_STEPS // 2)[FEW_POINTS:]
    if len(points) < 2 * FEW_POINTS:
        return None
    best_at, best = max(points, key=lambda p: p[1])
    now = points[-1][1]
    unsure = _MIN_STANDARD_ERRORS * noise(reward.points) * math.sqrt(2 / (WINDOW_STEPS // 2))
    if best < 0.05 or now >= COLLAPSE_WARN * best or best - now <= unsure:
        return None
    after = steady([p for p in reward.points if p[0] > best_at])
    low = streak(after, lambda v: v < COLLAPSE_WARN * best)
    if len(low) < FEW_POINTS:
        return None
    half = streak(after, lambda v: v < COLLAPSE_STOP * best)
    # The collapse began with the fall from 90 % of the best, before the reward had lost a quarter.
    since = next((s for s, v in after if v < 0.9 * best and s <= low[0][0]), low[0][0])
    cause = f"the mean reward fell from {best:.2f} (step {best_at}) to {now:.2f}"
    if len(half) >= WINDOW_STEPS:
        return Anomaly(
            "reward-collapse",
            "stop",
            since,
            cause,
            f"Stop it, keep the checkpoint before step {since}; lower the lr, and look at errors and length.",
            AnomalyEvidence(reward.name, now, COLLAPSE_STOP * best),
        )
    return Anomaly(
        "reward-collapse",
        "warn",
        since,
        cause,
        "Watch ten more steps; keep the best checkpoint. Compare entropy, length and errors from that step on.",
        AnomalyEvidence(reward.name, now, COLLAPSE_WARN * best),
    )


def suspicious_jump(rows: Sequence[MetricRow]) -> Anomaly | None:
    """The mean reward rises abruptly, which more often shows an exploit than learning."""
    reward = reward_series(rows)
    points = reward.points
    top = attainable_level(rows)
    # The last factor widens the limit where few steps estimate the noise badly.
    least = max(
        JUMP_HEIGHT * top,
        _MIN_STANDARD_ERRORS * noise(points) * math.sqrt(2 / FEW_POINTS) * (1 + 6 / max(1, len(points))),
    )
    leaps: list[tuple[int, int, float, float]] = []
    for low in range(FEW_POINTS - 1, len(points) - FEW_POINTS):
        if leaps and low > leaps[0][0] + JUMP_STEPS:
            break
        before = mean(points[low - FEW_POINTS + 1 : low + 1])
        for high in range(low + 1, len(points) - FEW_POINTS + 1):
            if points[high][0] - points[low][0] >= JUMP_STEPS:
                break
            after = mean(points[high : high + FEW_POINTS])
            # Noise does not change the level of the steps around the jump.
            stays = mean(points[high : high + WINDOW_STEPS]) - mean(points[max(0, low - WINDOW_STEPS + 1) : low + 1])
            if after - before > least and stays > 0.8 * JUMP_HEIGHT * top:
                leaps.append((low, high, before, after))
    if not leaps:
        return None
    low, high, before, after = max(leaps, key=lambda leap: (round(leap[3] - leap[2], 2), leap[0]))
    return _jump(rows, reward.name, (points[low + 1][0], before), (points[high][0], after), top)


def _jump(rows: Sequence[MetricRow], metric: str, low: MetricPoint, high: MetricPoint, top: float) -> Anomaly:
    short = ratio_at(token_series(rows).points, low[0] - 1, high[0]) <= 0.5
    form, right = dict(form_series(rows).points), dict(correctness_series(rows).points)
    only_form = form.get(high[0], 0.0) >= 0.99 and abs(right.get(high[0], 1.0) - right.get(low[0], 0.0)) < 0.02
    sign = ", and answers got half as long" if short else ", with full format and no more right answers"
    return Anomaly(
        "suspicious-jump",
        "stop" if short or only_form else "warn",
        low[0],
        f"the mean reward rose from {low[1]:.2f} to {high[1]:.2f} within {high[0] - low[0] + 1} steps"
        + (sign if short or only_form else ""),
        "Read the 20 best rollouts of those steps before going on; test what they exploit with test_reward.",
        AnomalyEvidence(metric, high[1] - low[1], JUMP_HEIGHT * top),
    )


def format_plateau(rows: Sequence[MetricRow]) -> Anomaly | None:
    """The format reward is nearly full while correctness does not change."""
    form, right = form_series(rows), correctness_series(rows)
    full = streak(steady(form.points), lambda v: v > FORMAT_FULL)
    recent = [p for p in right.points if full and p[0] >= full[0][0]]
    # A resumed run does not show what it had learned before its first row.
    if len(full) < PLATEAU_STEPS or len(recent) < PLATEAU_STEPS or right.points[0][0] > WINDOW_STEPS:
        return None
    moved, gained = slope(recent) * PLATEAU_STEPS, mean(recent[-PLATEAU_STEPS:]) - mean(right.points[:WINDOW_STEPS])
    unsure = 2 * noise(recent) * PLATEAU_STEPS * math.sqrt(12 / len(recent) ** 3)
    # Not a plateau: a run that learned the content before it settled (the gain shows), or one too noisy to judge.
    if moved >= _FLAT or moved + unsure > _RISE / 2 or mean(recent) > FORMAT_FULL or not -_RISE < gained < 1.5 * _FLAT:
        return None
    return Anomaly(
        "format-plateau",
        "warn",
        full[0][0],
        f"the format reward is at {mean(full[-WINDOW_STEPS:]):.2f} while correctness has not moved for "
        f"{PLATEAU_STEPS} steps",
        "Lower the weight of the format reward, or give partial credit for the answer, and test_reward again.",
        AnomalyEvidence(right.name, moved, _FLAT),
    )


def proxy_gap(rows: Sequence[MetricRow]) -> Anomaly | None:
    """The training reward rises and the held-out reward does not: the policy games the reward or memorises tasks."""
    train = reward_series(rows).points
    gaps = [gap for source, evals in held_out_series(rows).items() if (gap := _gap(source, evals, train))]
    return max(gaps, key=lambda a: (a.level == "stop", -a.since_step), default=None)


def _gap(source: str, evals: Sequence[MetricPoint], train: Sequence[MetricPoint]) -> Anomaly | None:
    """The most significant gap on one source, over all numbers of recent evaluations; None if no gap is significant."""
    half = WINDOW_STEPS // 2
    held_noise = noise(evals) if len(evals) > 2 * FEW_POINTS else _EVAL_NOISE
    best: tuple[float, Anomaly] | None = None
    for flat in range(EVALS_WARN, len(evals)):
        since = evals[-1 - flat][0]
        earlier, later = evals[:-flat][-EVALS_WARN:], evals[-flat:][-EVALS_STOP:]
        before = [p for p in train if p[0] <= since][-half:] or train[:1]
        risen, rose = mean(train[-half:]) - mean(before), mean(later) - mean(earlier)
        variance = held_noise**2 * (1 / len(earlier) + 1 / len(later)) + noise(train) ** 2 * (
            1 / len(before) + 1 / half
        )
        sure = (risen - rose) / math.sqrt(max(variance, 1e-12))
        if risen > _RISE and rose < risen / 4 and sure > _MIN_STANDARD_ERRORS and (best is None or sure > best[0]):
            gap = Anomaly(
                "proxy-gap",
                "stop" if flat >= EVALS_STOP else "warn",
                since,
                f"the training reward rose by {risen:.2f} to {mean(train[-half:]):.2f} while {flat} evals on held-out "
                f"tasks did not follow ({rose:+.2f})",
                "Read the best rollouts for an exploit; stop if there is one, and add it to the cases of test_reward.",
                AnomalyEvidence(f"eval/{source}", rose, risen / 4),
            )
            best = (sure, gap)
    return best[1] if best else None


SILENT_WARN, SILENT_STOP = 0.6, 0.9
"""Share of groups without a gradient for `warn` and `stop`."""
SOLVED_REWARD, SOLVED_USABLE = 0.95, 0.1
"""A run is solved if its reward exceeds this share of the attainable reward, or if fewer than this share of its groups
have a gradient."""


def no_signal(rows: Sequence[MetricRow]) -> Anomaly | None:
    """Most groups have equal rewards, so they carry no gradient."""
    silent = silent_group_series(rows)
    points = silent.points
    if len(points) < FEW_POINTS or not holds_now(points, lambda v: v > SILENT_WARN):
        return None
    share = mean(points[-WINDOW_STEPS:])
    silent_points = streak(steady(points), lambda v: v > SILENT_STOP)
    if len(silent_points) >= WINDOW_STEPS or len(streak(points, lambda v: v >= 0.999)) >= EMPTY_BATCHES:
        return Anomaly(
            "no-signal",
            "stop",
            onset(points, lambda v: v > SILENT_STOP),
            f"{mean(points[-FEW_POINTS:]):.0%} of the groups score all the same, so almost nothing is learned",
            "Stop it. Choose tasks of middling difficulty (as run_eval counts it), larger groups or a finer reward.",
            AnomalyEvidence(silent.name, mean(points[-FEW_POINTS:]), SILENT_STOP),
        )
    return Anomaly(
        "no-signal",
        "warn",
        onset(points, lambda v: v > SILENT_WARN),
        f"{share:.0%} of the groups score all the same",
        "Write the next config with curriculum=gate, or drop tasks that are always or never solved.",
        AnomalyEvidence(silent.name, share, SILENT_WARN),
    )


def all_solved(rows: Sequence[MetricRow]) -> Anomaly | None:
    """The tasks are solved, so the run costs money and learns nothing more."""
    reward, silent = reward_series(rows), silent_group_series(rows)
    top = attainable_level(rows)
    if not reward.points:
        return None
    high = holds_now(reward.points, lambda v: v > SOLVED_REWARD * top)
    silent_points = holds_now(silent.points, lambda v: v > 1 - SOLVED_USABLE) and holds_now(
        reward.points, lambda v: v > 0.9 * top
    )
    if not high and not silent_points:
        return None
    now = mean(reward.points[-FEW_POINTS:])
    cause = f"the mean reward is {now:.2f}: hardly anything is left to learn"
    since = (
        onset(reward.points, lambda v: v > SOLVED_REWARD * top)
        if high
        else onset(silent.points, lambda v: v > 1 - SOLVED_USABLE)
    )
    evidence = (
        AnomalyEvidence(reward.name, now, SOLVED_REWARD * top)
        if high
        else AnomalyEvidence(silent.name, mean(silent.points[-FEW_POINTS:]), 1 - SOLVED_USABLE)
    )
    advice = "Stop it and use the newest checkpoint, or go on with harder tasks."
    return Anomaly("solved", "warn", since, cause, advice, evidence)
