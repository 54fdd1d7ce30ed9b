"""What goes wrong in a training run, told from its metrics: pure functions over the rows of `prime train metrics`.

Windows and thresholds are those of facts/validation.md 4.3 (window 10 steps, baseline steps 1 to 10). Rows may have
gaps, and values may be missing, null or not finite.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.series import (
    ENTROPY,
    ERRORS,
    FEW,
    MISMATCH,
    REWARD,
    TOKENS,
    TRUNCATED,
    WINDOW,
    Row,
    component,
    format_only,
    matching,
    mean,
    median,
    ratio_at,
    series,
    silent_share,
    slope,
    smooth,
    step_of,
    streak,
    value_of,
)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`stop`: stopping the run and looking is advised. `since_step` is where it began."""

    code: str
    level: Literal["warn", "stop"]
    since_step: int
    cause: str
    advice: str

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code, "level": self.level, "since_step": self.since_step,
            "cause": self.cause, "advice": self.advice,
        }  # fmt: skip


GRADIENT = "optim/grad_norm"


def find(rows: Sequence[Row]) -> list[Anomaly]:
    """Everything that stands out, the worst first."""
    ordered = sorted((r for r in rows if step_of(r) is not None), key=lambda r: step_of(r) or 0)
    if len(ordered) < FEW:
        return []
    solved_now = solved(ordered)
    found = [solved_now] if solved_now else [rule(ordered) for rule in (no_signal,)]
    found += [rule(ordered) for rule in _RULES]
    return sorted((a for a in found if a is not None), key=lambda a: (a.level != "stop", a.since_step))


def no_signal(rows: Sequence[Row]) -> Anomaly | None:
    """Groups whose rollouts all score the same teach nothing."""
    points = silent_share(rows)
    if len(points) < FEW:
        return None
    mute, dull = streak(points, lambda v: v > 0.9), streak(points, lambda v: v > 0.6)
    empty = streak(points, lambda v: v >= 0.999)
    if len(mute) >= WINDOW or len(empty) >= 3:
        start = mute[0][0] if len(mute) >= len(empty) else empty[0][0]
        return Anomaly(
            "no-signal", "stop", start,
            f"{mean(points[-FEW:]):.0%} of the groups score all the same, so almost nothing is learned",
            "Stop it. Choose tasks of middling difficulty (as run_eval counts it), larger groups or a finer reward.",
        )  # fmt: skip
    if len(dull) >= min(WINDOW, len(points)) or mean(points[-WINDOW:]) > 0.6:
        return Anomaly(
            "no-signal", "warn", (dull or points[-1:])[0][0],
            f"{mean(points[-WINDOW:]):.0%} of the groups score all the same",
            "Write the next config with curriculum=gate, or drop tasks that are always or never solved.",
        )  # fmt: skip
    return None


def reward_collapse(rows: Sequence[Row]) -> Anomaly | None:
    """The mean reward falls well below its best."""
    points = smooth(series(rows, REWARD), 5)
    if len(points) < 2 * FEW:
        return None
    best_at, best = max(points, key=lambda p: p[1])
    if best < 0.05:
        return None
    after = [p for p in points if p[0] >= best_at]
    low = streak(after, lambda v: v < 0.75 * best)
    half = streak(after, lambda v: v < 0.5 * best)
    if not low:
        return None
    now = points[-1][1]
    cause = f"the mean reward fell from {best:.2f} (step {best_at}) to {now:.2f}"
    if len(half) >= WINDOW:
        return Anomaly(
            "reward-collapse", "stop", low[0][0], cause,
            f"Stop it, keep the checkpoint before step {low[0][0]}; lower the lr, and look at errors and length.",
        )  # fmt: skip
    return Anomaly(
        "reward-collapse", "warn", low[0][0], cause,
        "Watch ten more steps; keep the best checkpoint. Compare entropy, length and errors from that step on.",
    )  # fmt: skip


def suspicious_jump(rows: Sequence[Row]) -> Anomaly | None:
    """A reward that leaps is more often exploited than learned."""
    points = smooth(series(rows, REWARD), 3)
    for index, (step, value) in enumerate(points):
        before = [(s, v) for s, v in points[:index] if 0 < step - s < 5 + 2]
        low = min(before, key=lambda p: p[1], default=None)
        if low is None or value - low[1] <= 0.3:
            continue
        short = ratio_at(series(rows, TOKENS), low[0], step) <= 0.55
        hacked = short or format_only(rows, low[0], step)
        return Anomaly(
            "suspicious-jump", "stop" if hacked else "warn", low[0],
            f"the mean reward rose from {low[1]:.2f} to {value:.2f} within {step - low[0]} steps"
            + (", and answers got half as long" if short else ""),
            "Read the 20 best rollouts of those steps before going on; test what they exploit with test_reward.",
        )  # fmt: skip
    return None


def entropy_collapse(rows: Sequence[Row]) -> Anomaly | None:
    """Without entropy there is nothing left to explore."""
    points = series(rows, ENTROPY)
    if len(points) < 2 * FEW:
        return None
    start = median(points[:FEW])
    now = median(points[-FEW:])
    if start <= 0 or (now >= 0.3 * start and now >= 0.02):
        return None
    gone = now < 0.05 * start or now < 0.02
    since = streak(points, lambda v: v < max(0.3 * start, 0.02))
    return Anomaly(
        "entropy-collapse", "stop" if gone else "warn", (since or points[-1:])[0][0],
        f"entropy fell from {start:.3f} to {now:.3f} nats",
        "Stop it and go back to a checkpoint before that; a lower lr or a larger group keeps more of it." if gone
        else "Some loss is normal (about three quarters by step 200); watch whether the reward still rises.",
    )  # fmt: skip


def off_policy(rows: Sequence[Row]) -> Anomaly | None:
    """Trainer and inference disagree on the policy: an early warning of instability."""
    points = series(rows, MISMATCH)
    if len(points) < 2 * FEW:
        return None
    base = median(points[: min(WINDOW, max(FEW, len(points) // 2))])
    now = median(points[-FEW:])
    rising = len(points) > 20 and all(b > a for (_, a), (_, b) in zip(points[-21:], points[-20:], strict=False))
    if base <= 0 or (now < 3 * base and not rising):
        return None
    since = streak(points, lambda v: v >= 3 * base)
    return Anomaly(
        "off-policy", "stop" if now >= 10 * base or rising else "warn", (since or points[-21:])[0][0],
        f"the mismatch between trainer and inference grew to {now / base:.1f} times its baseline",
        "Lower max_off_policy_steps or the lr; if it keeps growing, stop and resume from an earlier checkpoint.",
    )  # fmt: skip


def length(rows: Sequence[Row]) -> Anomaly | None:
    """Answers that grow cost more and end up cut off."""
    points = series(rows, TOKENS)
    if len(points) < 2 * FEW:
        return None
    base, now = median(points[: min(WINDOW, max(FEW, len(points) // 2))]), median(points[-FEW:])
    if base <= 0 or now <= 1.5 * base:
        return None
    cut = series(rows, TRUNCATED)
    rising = len(cut) >= 2 * FEW and median(cut[-FEW:]) > median(cut[:FEW]) + 0.02
    since = streak(points, lambda v: v > 1.5 * base)
    return Anomaly(
        "length", "stop" if now > 2.5 * base and rising else "warn", (since or points[-1:])[0][0],
        f"answers grew from {base:.0f} to {now:.0f} tokens" + (", and more of them are cut off" if rising else ""),
        "See whether length itself is rewarded (test_reward finds reward-length-bonus), or raise the token limit.",
    )  # fmt: skip


def truncation(rows: Sequence[Row]) -> Anomaly | None:
    """Answers cut off before they end are scored as wrong."""
    points = series(rows, TRUNCATED)
    if len(points) < FEW:
        return None
    base, now = median(points[:WINDOW]) if len(points) >= 2 * WINDOW else median(points[:FEW]), median(points[-FEW:])
    if now <= 0.1 and now <= base + 0.05:
        return None
    since = streak(points, lambda v: v > 0.1 or v > base + 0.05)
    return Anomaly(
        "truncation", "stop" if now > 0.3 else "warn", (since or points[-1:])[0][0],
        f"{now:.0%} of the rollouts are cut off at the token limit",
        "Raise max_completion_tokens (and seq_len); waiting does not help.",
    )  # fmt: skip


def grad_norm(rows: Sequence[Row]) -> Anomaly | None:
    """Spikes precede divergence; a value that is not finite is divergence."""
    seen: list[float] = []
    spikes: list[tuple[int, float]] = []
    for row in rows:
        value = value_of(row, GRADIENT)
        # prime-rl leaves out what is not finite: a row of the optimizer without it, after rows that had it.
        broken = (value is not None and not math.isfinite(value)) or (
            value is None and (GRADIENT in row or (bool(seen) and "optim/lr" in row))
        )
        if broken:
            return Anomaly(
                "grad-norm", "stop", step_of(row) or 0, "the gradient is not finite (NaN or infinite)",
                "Stop it: what follows is ruined. Resume from an earlier checkpoint with a lower lr.",
            )  # fmt: skip
        if value is None:
            continue
        base = statistics.median(seen[-WINDOW:]) if len(seen) >= FEW else 0.0
        if base > 0 and value > 5 * base:
            spikes.append((step_of(row) or 0, value / base))
        seen.append(value)
    huge = [s for s in spikes if s[1] > 20]
    if not spikes:
        return None
    return Anomaly(
        "grad-norm", "stop" if len(huge) >= 3 else "warn", (huge if len(huge) >= 3 else spikes)[0][0],
        f"the gradient norm reached {max(s[1] for s in spikes):.0f} times its running median",
        "Lower the lr if it repeats (the norm is clipped at 1.0 by default).",
    )  # fmt: skip


def errors(rows: Sequence[Row]) -> Anomaly | None:
    """A broken environment or sandbox looks like difficulty."""
    points = series(rows, ERRORS)
    if len(points) < FEW:
        return None
    now = median(points[-FEW:])
    if now <= 0.05:
        return None
    since = streak(points, lambda v: v > 0.05)
    return Anomaly(
        "errors", "stop" if now > 0.25 else "warn", (since or points[-1:])[0][0],
        f"{now:.0%} of the rollouts end in an error, not in an answer",
        "Look at the env-server's log and mend the environment; error rollouts only cost.",
    )  # fmt: skip


def format_plateau(rows: Sequence[Row]) -> Anomaly | None:
    """The form is learned, the content is not."""
    form, right = component(rows, "format"), component(rows, "correct")
    if len(form) < 30 or len(right) < 30 or min(v for _, v in form[-30:]) <= 0.95:
        return None
    if abs(slope(right[-30:])) * 30 >= 0.02 or mean(right[-WINDOW:]) > 0.95:
        return None
    return Anomaly(
        "format-plateau", "warn", form[-30][0],
        f"the format reward is at {mean(form[-WINDOW:]):.2f} while correctness has not moved for 30 steps",
        "Lower the weight of the format reward, or give partial credit for the answer, and test_reward again.",
    )  # fmt: skip


def proxy_gap(rows: Sequence[Row]) -> Anomaly | None:
    """Training reward rises and held-out reward does not: the reward is being gamed."""
    held_out = matching(rows, lambda name: name.startswith("eval/") and name.endswith("reward/mean"))
    train = smooth(series(rows, REWARD), 5)
    if len(held_out) < 3 or len(train) < WINDOW:
        return None
    flat = 0
    for (_, before), (_, after) in zip(held_out[::-1][1:], held_out[::-1], strict=False):
        if after > before + 0.01:
            break
        flat += 1
    if flat < 2:
        return None
    since = held_out[-1 - flat][0]
    then = [v for s, v in train if s <= since] or [train[0][1]]
    if train[-1][1] <= then[-1] + 0.05:
        return None
    return Anomaly(
        "proxy-gap", "stop" if flat >= 3 else "warn", since,
        f"the training reward rose to {train[-1][1]:.2f} while {flat} evals on held-out tasks did not",
        "Read the best rollouts for an exploit; stop if there is one, and add it to the cases of test_reward.",
    )  # fmt: skip


def solved(rows: Sequence[Row]) -> Anomaly | None:
    """Nothing is left to learn, and it still costs."""
    points = series(rows, REWARD)
    silent = silent_share(rows)
    high = streak(points, lambda v: v > 0.95)
    mute = bool(silent) and mean(silent[-FEW:]) > 0.9 and bool(points) and mean(points[-FEW:]) > 0.9
    if len(high) < 5 and not mute:
        return None
    start = high[0][0] if high else silent[-FEW:][0][0]
    return Anomaly(
        "solved", "warn", start, f"the mean reward is {mean(points[-FEW:]):.2f}: hardly anything is left to learn",
        "Stop it and use the newest checkpoint, or go on with harder tasks.",
    )  # fmt: skip


def stall(last_step: int, idle_seconds: float, step_seconds: float | None) -> Anomaly | None:
    """A running run that finishes no step. `idle_seconds`: since the last one."""
    usual = step_seconds or 360.0
    limit = max(600.0, 5 * usual)
    if idle_seconds <= limit:
        return None
    return Anomaly(
        "stall", "stop" if idle_seconds > 3 * limit else "warn", max(0, last_step),
        f"no step ended for {idle_seconds / 60:.0f} minutes; one usually takes {usual / 60:.1f}",
        "Look at the logs of the env-server and inference; control_run restart goes on from the last checkpoint.",
    )  # fmt: skip


def overrun(spend: float | None, limit: float | None, step: int) -> Anomaly | None:
    """Hourly billing went past the upper bound that was agreed on."""
    if spend is None or limit is None or spend <= limit:
        return None
    return Anomaly(
        "overrun", "stop", max(0, step), f"it has cost ${spend:.2f}, more than the ${limit:.2f} that was agreed on",
        "Ask the user whether to go on; control_run stop ends the billing.",
    )  # fmt: skip


_RULES: tuple[Callable[[Sequence[Row]], Anomaly | None], ...] = (
    reward_collapse, suspicious_jump, entropy_collapse, off_policy, length, truncation, grad_norm, errors,
    format_plateau, proxy_gap,
)  # fmt: skip
