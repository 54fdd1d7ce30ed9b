"""The data that a training run reports for each step: metrics, distributions, rollouts and log lines.

All functions are pure, like those of `runs`.

Names are prime-rl's own (`train/agg/effective/agent/reward/mean`, `optim/grad_norm`, ...), with the short forms
that dashboards show (`reward/mean`, `is_truncated/mean`, ...) beside them.
"""

from __future__ import annotations

import math
import random

from prime_lab_mcp.rehearsal import runs
from prime_lab_mcp.rehearsal.skill import chance, quantile, skill_of, zero_variance_share
from prime_lab_mcp.rehearsal.store import Body

SAMPLE_EVERY = 5
"""Interval between steps with stored rollouts. The real platform stores every tenth step."""
_GAP = 5
_PROMPT_TOKENS = 96


def _rng(run: Body, *parts: object) -> random.Random:
    return random.Random("\0".join([run["id"], *map(str, parts)]))


def _since(run: Body, kind: runs.RunFault, step: int) -> int | None:
    """Number of steps since the start of a fault; None before its start, or if the run has no such fault."""
    options = runs.fault(run, kind)
    if options is None or step < runs.onset(options):
        return None
    return step - runs.onset(options)


def ability(run: Body, step: int) -> float:
    """Mean reward without noise.

    It rises from the model's skill, unless a fault or a group size of one prevents that.
    """
    start = skill_of(run["base_model"])
    if runs.fault(run, "no-signal") is not None:
        return 0.01
    if run["group_size"] < 2 or runs.fault(run, "format-plateau") is not None:
        return start
    mean = learned(run, step)
    if (since := _since(run, "collapse", step)) is not None:
        mean *= max(0.1, math.exp(-0.25 * (since + 1)))
    if (since := _since(run, "jump", step)) is not None:
        mean = min(0.98, mean + 0.16 * min(3, since + 1))
    if (since := _since(run, "proxy-gap", step)) is not None:
        mean = min(0.97, mean + 0.3 * (1 - math.exp(-(since + 1) / 10)))
    if (since := _since(run, "solved", step)) is not None:
        mean += (0.985 - mean) * min(1.0, (since + 1) / 20)
    return mean


def learned(run: Body, step: int) -> float:
    """Mean reward of a run without faults at a step."""
    start = skill_of(run["base_model"])
    ceiling = max(start, min(0.93, start + 0.45))
    pace = 0.5 * max(20, int(run["max_steps"] or 100))
    return start + (ceiling - start) * (1 - math.exp(-step / pace))


def uploads(run: Body, step: int) -> list[Body]:
    """The rows of one step as prime-rl uploads them: one for orchestrator and trainer, and one per evaluation."""
    record = metrics(run, step)
    return [*([record] if record is not None else []), *_evaluations(run, step)]


def _evaluations(run: Body, step: int) -> list[Body]:
    wanted = (run["config"].get("orchestrator") or {}).get("eval") if isinstance(run.get("config"), dict) else None
    if not isinstance(wanted, dict):
        return []
    interval, last = max(1, int(wanted.get("interval") or 100)), run["max_steps"] or 0
    # prime-rl counts steps from 1 and evaluates after the last one too, which is last - 1 here.
    if step % interval and not (step == last - 1 and last % interval == 0):
        return []
    points = []
    for index, source in enumerate(wanted.get("source") or ()):
        name = str(source.get("name") or source.get("env", {}).get("taskset", {}).get("id") or index)
        group = int(source.get("group_size") or wanted.get("group_size") or 1)
        rng = _rng(run, "eval", name, step)
        known = learned(run, min(step, runs.first_with(run, "proxy-gap") or step))
        known = known if runs.fault(run, "proxy-gap") is not None else ability(run, step)
        reward = min(1.0, max(0.0, known - 0.02 + rng.gauss(0, 0.012)))
        agent = f"eval/{name}/effective/agent"
        points.append(
            {
                "step": step,
                f"{agent}/reward/mean": reward,
                f"{agent}/avg@{group}": reward,
                f"{agent}/is_truncated/mean": 0.01,
                f"eval/{name}/all/agent/reward/mean": reward * 0.996,
                f"eval/{name}/all/has_error/mean": 0.004,
                f"eval/{name}/policy_version": float(step),
            }
        )
    return points


def metrics(run: Body, step: int) -> Body | None:
    """The metrics of one step; None if a fault causes a gap."""
    gap = _since(run, "gaps", step)
    if gap is not None and gap < _GAP:
        return None
    rng = _rng(run, "metrics", step)
    reward = min(1.0, max(0.0, ability(run, step) + rng.gauss(0, 0.012)))
    group = int(run["group_size"])
    silent = 0.99 if runs.fault(run, "no-signal") is not None else zero_variance_share(round(reward, 2), group)
    tokens, truncated = _length(run, step, rng)
    errors = 0.004 + 0.004 * rng.random()
    if _since(run, "errors", step) is not None:
        errors = 0.42 + 0.05 * rng.random()
    solved_all = silent * reward
    written = 0.8 + 0.19 * (1 - math.exp(-step / 15)) - 0.01 * rng.random()
    if (full := runs.first_with(run, "format-plateau")) is not None:
        written = 0.99 - 0.6 * max(0.0, 1 - step / max(1, full)) - 0.01 * rng.random()
    record: Body = {
        "step": step,
        "reward/mean": reward,
        "reward/std": math.sqrt(max(0.0, reward * (1 - reward))),
        "num_output_tokens/mean": tokens,
        "is_truncated/mean": truncated,
        "has_error/mean": errors,
        "zero_advantage/share": silent,
        "train/agg/effective/agent/reward/mean": reward,
        "train/agg/effective/agent/rewards/correct_answer/mean": reward,
        "train/agg/effective/agent/metrics/format_reward/mean": written,
        "train/agg/all/agent/is_trainable/mean": 1 - silent,
        "train/agg/effective/num_input_tokens/mean": float(_PROMPT_TOKENS),
        "train/agg/effective/num_output_tokens/mean": tokens,
        "train/agg/effective/agent/is_truncated/mean": truncated,
        "train/agg/all/agent/has_error/mean": errors,
        "train/agg/all/agent/solved_none": silent - solved_all,
        "train/agg/all/agent/solved_all": solved_all,
        "train/agg/all/agent/solved_some": 1 - silent,
        "optim/lr": float(run["learning_rate"]),
        "off_policy/mean": 1.0 + rng.random(),
        "time/step": runs.BILLED_SECONDS_PER_STEP * (0.95 + 0.1 * rng.random()),
        "progress/tokens": run["batch_size"] * (tokens + _PROMPT_TOKENS),
        "progress/total_rollouts": run["batch_size"] * (step + 1),
    }
    record |= _stability(run, step, rng)
    return record


def _length(run: Body, step: int, rng: random.Random) -> tuple[float, float]:
    tokens = 180 * (1 + 0.3 * (1 - math.exp(-step / 80))) * (1 + rng.gauss(0, 0.02))
    truncated = 0.01 + 0.01 * rng.random()
    if (since := _since(run, "length", step)) is not None:
        tokens *= min(4.0, 1.15 ** (since + 1))
        truncated = min(0.5, truncated + 0.03 * (since + 1))
    if _since(run, "truncation", step) is not None:
        truncated = 0.4 + 0.05 * rng.random()
    if _since(run, "jump", step) is not None:
        tokens *= 0.45
    return tokens, truncated


def _stability(run: Body, step: int, rng: random.Random) -> Body:
    entropy = 0.62 * math.exp(-step / 220) * (1 + rng.gauss(0, 0.015))
    if (since := _since(run, "entropy", step)) is not None:
        entropy *= max(0.015, 0.45 ** (since + 1))
    mismatch = 6e-4 * (1 + rng.gauss(0, 0.1))
    if (since := _since(run, "off-policy", step)) is not None:
        mismatch *= min(60.0, 1.6 ** (since + 1))
    record: Body = {
        "entropy/all/mean": entropy,
        "mismatch_kl/all/mean": mismatch,
        "mismatch_kl/all/max": mismatch * 40,
    }
    norm: float | None = 0.11 * (1 + abs(rng.gauss(0, 0.2)))
    if (since := _since(run, "gradient-nan", step)) is not None:
        norm = 6.0 if since < 3 else None
    if (since := _since(run, "grad-spike", step)) is not None and since % 2 == 0 and since < 10:
        norm = 4.0
    if norm is not None:
        record["optim/grad_norm"] = norm
    elif (form := (runs.fault(run, "gradient-nan") or {}).get("as")) in ("null", "nan"):
        # prime-rl does not send values that are not finite; the other forms test readers.
        record["optim/grad_norm"] = None if form == "null" else math.nan
    return record


def sampled_steps(run: Body, at: runs.RunState) -> list[int]:
    first = int(run["first_step"])
    return [s for s in range(first, at.steps_done) if s % SAMPLE_EVERY == 0]


def rollout(run: Body, step: int, index: int) -> Body:
    """One rollout of a step's batch, in the platform's sample form."""
    group = max(1, int(run["group_size"]))
    problem = index // group
    a, b = _terms(run, step, problem)
    question = f"(rehearsal) What is {a} + {b}? Put the number in <answer></answer> tags."
    easiness = quantile(run["base_model"], question)
    rng = _rng(run, "rollout", step, index)
    solved = rng.random() < chance(ability(run, step), easiness)
    reply = f"{a} plus {b} makes the sum.\n<answer>{a + b + (0 if solved else 1)}</answer>"
    mean = chance(ability(run, step), easiness)
    source = run["environments"][problem % len(run["environments"])]
    return {
        "run_id": run["id"],
        "step": step,
        "tag": "",
        "problem_id": problem,
        "sample_id": index,
        "prompt": [{"role": "user", "content": question}],
        "completion": [{"role": "assistant", "content": reply}],
        "answer": str(a + b),
        "env_name": source["name"],
        "task": source["id"],
        "info": {"rehearsal": True},
        "reward": float(solved),
        "advantage": 0.0 if group == 1 else round(float(solved) - mean, 4),
        "metrics": {"correct_answer": float(solved), "format_reward": 1.0},
        "timing": {"total": round(1.5 + rng.random(), 3)},
        "num_input_tokens": len(question) // 4,
        "num_output_tokens": len(reply) // 4,
    }


def _terms(run: Body, step: int, problem: int) -> tuple[int, int]:
    rng = _rng(run, "problem", step, problem)
    return rng.randint(10, 99), rng.randint(10, 99)


def histogram(run: Body, step: int, kind: str) -> list[Body]:
    """Twenty bins over a step's rewards, or ten over its advantages."""
    low, width, number = (-1.0, 0.2, 10) if kind.startswith("adv") else (0.0, 0.05, 20)
    field = "advantage" if kind.startswith("adv") else "reward"
    counts = [0] * number
    for index in range(min(int(run["batch_size"]), 1024)):
        value = rollout(run, step, index)[field]
        counts[min(number - 1, max(0, math.floor((value - low) / width + 1e-9)))] += 1
    return [
        {"min": round(low + i * width, 4), "max": round(low + (i + 1) * width, 4), "count": n}
        for i, n in enumerate(counts)
    ]


def log_lines(run: Body, at: runs.RunState, component: str, now: float) -> list[tuple[int, str, str]]:
    """The log lines of a component as (step, level, message)."""
    lines = [(0, "INFO", f"(rehearsal) {component} started for run {run['id']}")]
    for step in range(int(run["first_step"]), at.steps_done):
        record = metrics(run, step)
        if record is None:
            continue
        if component == "trainer":
            norm = record.get("optim/grad_norm")
            norm_text = "nan" if norm is None else f"{norm:.4f}"
            text = f"Step {step} | entropy {record['entropy/all/mean']:.4f} | grad norm {norm_text}"
            level = "SUCCESS" if norm is not None else "WARNING"
            lines.append((step, level, text))
            continue
        lines.append((step, "SUCCESS", f"Step {step} | reward {record['reward/mean']:.4f}"))
        if record["zero_advantage/share"] > 0.9:
            text = f"Step {step}: no trainable samples, every advantage is zero"
            lines.append((step, "WARNING", text))
        if record["has_error/mean"] > 0.1:
            raised = "TimeoutError: the tool did not answer within 30 s"
            text = f"Step {step}: {record['has_error/mean']:.0%} of rollouts raised an error: {raised}"
            lines.append((step, "ERROR", text))
    if component == "orchestrator":
        for number in range(1, runs.empty_batches(run, at, now) + 1):
            text = (
                f"Step {at.steps_done}: empty train batch after {run['batch_size']} finalized episodes "
                f"(consecutive empty batches: {number}/{runs.EMPTY_BATCHES})"
            )
            lines.append((at.steps_done + number, "WARNING", text))
    if at.error is not None:
        lines.append((max(0, at.step), "ERROR", at.error))
    return lines
