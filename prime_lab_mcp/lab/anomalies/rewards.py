"""The mean reward itself: fallen, leapt, risen alone, or only its form learned."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prime_lab_mcp.lab.anomalies.anomaly import Anomaly, Evidence
from prime_lab_mcp.lab.run_metrics import attainable, correctness, form, held_out, ratio_at, reward, tokens
from prime_lab_mcp.lab.series import FEW, WINDOW, Point, Row, mean, noise, slope, smooth, steady, streak

FALLEN, HALVED = 0.75, 0.5
"""Parts of the best level: warn, and stop when it lasts ten steps (facts/validation.md 4.3)."""
LEAP, WITHIN = 0.3, 5
"""A rise of more than 0.3 of the attainable reward in fewer than five steps (4.3)."""
FULL, PLATEAU = 0.95, 30
"""Format reward, and steps without a slope of correctness (4.3)."""
_FLAT = 0.02
"""Change of correctness over those steps that counts as none."""
EVALS_WARN, EVALS_STOP = 2, 3
"""Held-out evals in a row without a rise while the training reward rises (4.3)."""
_SURE = 4.5
"""Standard errors that a change must exceed: many steps are compared with many."""
_RISE = 0.1
_EVAL_NOISE = 0.03
"""Deviation of a held-out mean where there are too few evals to estimate it: that of about 200 tasks."""


def reward_collapse(rows: Sequence[Row]) -> Anomaly | None:
    """The mean reward falls well below its best."""
    found = reward(rows)
    points = smooth(found.points, WINDOW // 2)[FEW:]
    if len(points) < 2 * FEW:
        return None
    best_at, best = max(points, key=lambda p: p[1])
    now = points[-1][1]
    unsure = _SURE * noise(found.points) * math.sqrt(2 / (WINDOW // 2))
    if best < 0.05 or now >= FALLEN * best or best - now <= unsure:
        return None
    after = steady([p for p in found.points if p[0] > best_at])
    low = streak(after, lambda v: v < FALLEN * best)
    if len(low) < FEW:
        return None
    half = streak(after, lambda v: v < HALVED * best)
    # It began where the way down began, which is before it was a quarter down.
    since = next((s for s, v in after if v < 0.9 * best and s <= low[0][0]), low[0][0])
    cause = f"the mean reward fell from {best:.2f} (step {best_at}) to {now:.2f}"
    if len(half) >= WINDOW:
        return Anomaly(
            "reward-collapse", "stop", since, cause,
            f"Stop it, keep the checkpoint before step {since}; lower the lr, and look at errors and length.",
            Evidence(found.name, now, HALVED * best),
        )  # fmt: skip
    return Anomaly(
        "reward-collapse", "warn", since, cause,
        "Watch ten more steps; keep the best checkpoint. Compare entropy, length and errors from that step on.",
        Evidence(found.name, now, FALLEN * best),
    )  # fmt: skip


def suspicious_jump(rows: Sequence[Row]) -> Anomaly | None:
    """A reward that leaps is more often exploited than learned."""
    found = reward(rows)
    points = found.points
    top = attainable(rows)
    # Of few steps the noise is not known well.
    least = max(LEAP * top, _SURE * noise(points) * math.sqrt(2 / FEW) * (1 + 6 / max(1, len(points))))
    leaps: list[tuple[int, int, float, float]] = []
    for low in range(FEW - 1, len(points) - FEW):
        if leaps and low > leaps[0][0] + WITHIN:
            break
        before = mean(points[low - FEW + 1 : low + 1])
        for high in range(low + 1, len(points) - FEW + 1):
            if points[high][0] - points[low][0] >= WITHIN:
                break
            after = mean(points[high : high + FEW])
            # Noise that comes back leaves the steps around it as they were.
            stays = mean(points[high : high + WINDOW]) - mean(points[max(0, low - WINDOW + 1) : low + 1])
            if after - before > least and stays > 0.8 * LEAP * top:
                leaps.append((low, high, before, after))
    if not leaps:
        return None
    low, high, before, after = max(leaps, key=lambda leap: (round(leap[3] - leap[2], 2), leap[0]))
    return _jump(rows, found.name, (points[low + 1][0], before), (points[high][0], after), top)


def _jump(rows: Sequence[Row], metric: str, low: Point, high: Point, top: float) -> Anomaly:
    short = ratio_at(tokens(rows).points, low[0] - 1, high[0]) <= 0.5
    written, right = dict(form(rows).points), dict(correctness(rows).points)
    only_form = written.get(high[0], 0.0) >= 0.99 and abs(right.get(high[0], 1.0) - right.get(low[0], 0.0)) < 0.02
    told = ", and answers got half as long" if short else ", with full format and no more right answers"
    return Anomaly(
        "suspicious-jump", "stop" if short or only_form else "warn", low[0],
        f"the mean reward rose from {low[1]:.2f} to {high[1]:.2f} within {high[0] - low[0] + 1} steps"
        + (told if short or only_form else ""),
        "Read the 20 best rollouts of those steps before going on; test what they exploit with test_reward.",
        Evidence(metric, high[1] - low[1], LEAP * top),
    )  # fmt: skip


def format_plateau(rows: Sequence[Row]) -> Anomaly | None:
    """The form is learned, the content is not."""
    written, right = form(rows), correctness(rows)
    full = streak(steady(written.points), lambda v: v > FULL)
    recent = [p for p in right.points if full and p[0] >= full[0][0]]
    # Of a resumed run the start is not known, so nor is what it had learned by then.
    if len(full) < PLATEAU or len(recent) < PLATEAU or right.points[0][0] > WINDOW:
        return None
    moved, gained = slope(recent) * PLATEAU, mean(recent[-PLATEAU:]) - mean(right.points[:WINDOW])
    unsure = 2 * noise(recent) * PLATEAU * math.sqrt(12 / len(recent) ** 3)
    # Not this: a run that learned the content before it settled (the gain stands), nor one too noisy to tell.
    if moved >= _FLAT or moved + unsure > _RISE / 2 or mean(recent) > FULL or not -_RISE < gained < 1.5 * _FLAT:
        return None
    return Anomaly(
        "format-plateau", "warn", full[0][0],
        f"the format reward is at {mean(full[-WINDOW:]):.2f} while correctness has not moved for {PLATEAU} steps",
        "Lower the weight of the format reward, or give partial credit for the answer, and test_reward again.",
        Evidence(right.name, moved, _FLAT),
    )  # fmt: skip


def proxy_gap(rows: Sequence[Row]) -> Anomaly | None:
    """Training reward rises and held-out reward does not: the reward is being gamed, or tasks are learned by heart."""
    train = reward(rows).points
    found = [gap for source, evals in held_out(rows).items() if (gap := _gap(source, evals, train))]
    return max(found, key=lambda a: (a.level == "stop", -a.since_step), default=None)


def _gap(source: str, evals: Sequence[Point], train: Sequence[Point]) -> Anomaly | None:
    """The stretch of evals at the end that shows most clearly that they did not rise while the training reward did."""
    half = WINDOW // 2
    held_noise = noise(evals) if len(evals) > 2 * FEW else _EVAL_NOISE
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
        if risen > _RISE and rose < risen / 4 and sure > _SURE and (best is None or sure > best[0]):
            found = Anomaly(
                "proxy-gap", "stop" if flat >= EVALS_STOP else "warn", since,
                f"the training reward rose by {risen:.2f} to {mean(train[-half:]):.2f} while {flat} evals on held-out "
                f"tasks did not follow ({rose:+.2f})",
                "Read the best rollouts for an exploit; stop if there is one, and add it to the cases of test_reward.",
                Evidence(f"eval/{source}", rose, risen / 4),
            )  # fmt: skip
            best = (sure, found)
    return best[1] if best else None
