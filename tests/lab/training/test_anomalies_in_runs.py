"""The rules over whole simulated runs: healthy ones raise nothing, every fault is named, in time and by its onset."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_lab_mcp.lab.training import anomalies
from prime_lab_mcp.lab.training.anomalies import SILENT_WARN
from prime_lab_mcp.lab.training.metrics import WINDOW_STEPS
from prime_lab_mcp.rehearsal import curves

MODELS = ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-0.6B", "rehearsal/skill-20", "rehearsal/skill-30")
CODES = {
    "no-signal": "no-signal",
    "collapse": "reward-collapse",
    "jump": "suspicious-jump",
    "entropy": "entropy-collapse",
    "off-policy": "off-policy",
    "length": "length",
    "truncation": "truncation",
    "gradient-nan": "grad-norm",
    "grad-spike": "grad-norm",
    "errors": "errors",
    "proxy-gap": "proxy-gap",
    "format-plateau": "format-plateau",
    "solved": "solved",
}
DUE = {"proxy-gap": 3 * 5 + WINDOW_STEPS, "format-plateau": 3 * 30, "solved": 20 + WINDOW_STEPS}
"""Steps after the onset by which a fault is named where its rule or its slow onset needs more than the window."""
SLOW = (pytest.mark.slow, pytest.mark.rotate(share=4))
NEAR = {"proxy-gap": 20, "solved": 22}
"""Steps by which the onset may be off, where a fault grows slowly; elsewhere 6."""


def a_run(seed: int, **more: Any) -> dict[str, Any]:
    rng = random.Random(seed)
    steps = rng.choice([20, 40, 60, 100, 200])
    return {
        "id": f"run_{seed}",
        "base_model": rng.choice(MODELS),
        "group_size": rng.choice([8, 16, 32]),
        "batch_size": rng.choice([128, 256, 512]),
        "max_steps": steps,
        "learning_rate": 1e-5,
        "first_step": rng.choice([0, 0, 0, steps // 4]),
        "faults": {},
        "config": {"orchestrator": {"eval": {"interval": rng.choice([5, 10, 20]), "source": [{"name": "held-out"}]}}},
    } | more


def uploads(run: dict[str, Any], steps: int) -> list[dict[str, Any]]:
    """Rows with the noise of a finite batch: its tasks differ, and shares are counts of rollouts."""
    rng = random.Random(f"{run['id']} noise")
    first = int(run["first_step"])
    return [noisy(dict(row), run, rng) for s in range(first, first + steps) for row in curves.uploads(run, s)]


def noisy(row: dict[str, Any], run: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    batch = int(run["batch_size"])
    if "reward/mean" not in row:
        luck = rng.gauss(0, 0.025)
        return {k: v + luck if "reward/mean" in k or "avg@" in k else v for k, v in row.items()}
    spread = 4 * row["reward/mean"] * (1 - row["reward/mean"])
    luck = rng.gauss(0, math.sqrt(spread * (0.05 * run["group_size"] / batch + 0.15 / batch)))
    for name, value in row.items():
        if name.endswith(("/reward/mean", "correct_answer/mean")) or name == "reward/mean":
            row[name] = min(1.0, max(0.0, value + luck))
        elif name.startswith("mismatch_kl") or (name == "optim/grad_norm" and value):
            row[name] = value * math.exp(rng.gauss(0, 0.3))
        elif "output_tokens" in name:
            row[name] = value * math.exp(rng.gauss(0, 0.05))
    for name in ("is_truncated/mean", "has_error/mean"):
        share = row[name]
        row[name] = max(0.0, share + rng.gauss(0, math.sqrt(share * (1 - share) / batch)))
    return row


def codes(rows: list[dict[str, Any]]) -> set[str]:
    return {a.code for a in anomalies.find_anomalies(rows)}


@pytest.mark.parametrize("block", [0, *(pytest.param(n, marks=SLOW) for n in range(1, 8))])
def test_healthy_runs_raise_none_at_any_time(block: int) -> None:
    """A run that learned so well that most of its groups are silent is no healthy one, by 4.3: it is left there."""
    told, left = {}, 0
    for seed in range(block * 32, block * 32 + 32):
        run = a_run(seed)
        rows = uploads(run, run["max_steps"] - run["first_step"])
        for until in {4, 12, 30, 70, len(rows)}:
            if max(row.get("zero_advantage/share", 0.0) for row in rows[:until]) > SILENT_WARN:
                left += 1
            elif found := codes(rows[:until]):
                told[seed, until] = found
    assert told == {}
    assert left <= 10, "of about 140 looks"


@pytest.mark.parametrize("seeds", [3, pytest.param(50, marks=SLOW)])
@pytest.mark.parametrize("kind", CODES)
def test_a_fault_is_named_within_its_window_with_its_onset(kind: str, seeds: int) -> None:
    late, off = [], []
    due = DUE.get(kind, WINDOW_STEPS)
    for seed in range(seeds):
        at = 12 + seed % 15
        run = a_run(seed, faults={kind: {"step": at}}, first_step=0, max_steps=120, batch_size=512, group_size=16)
        run["base_model"] = MODELS[seed % 2 * 3]
        run["config"]["orchestrator"]["eval"]["interval"] = 5
        found = next(filter(None, (named(run, kind, at + step) for step in range(due % 10 or 10, due + 1, 10))), [])
        if not found:
            late.append(seed)
        elif kind != "no-signal" and abs(found[0].since_step - at) > NEAR.get(kind, 6):
            off.append((seed, at, found[0].since_step))
        assert all(a.evidence and a.evidence.metric and a.cause and a.advice for a in found)
    # A plateau is no plateau where the answers got better before it: noise of 512 rollouts decides about one in fifty.
    assert len(late) <= (seeds // 50 if kind == "format-plateau" else 0), late
    assert off == []


def named(run: dict[str, Any], kind: str, steps: int) -> list[anomalies.Anomaly]:
    return [a for a in anomalies.find_anomalies(uploads(run, steps)) if a.code == CODES[kind]]


_VALUE = st.one_of(
    st.none(), st.floats(), st.integers(-(10**400), 10**400), st.booleans(), st.text(max_size=3), st.lists(st.none())
)
_NAMES = st.sampled_from(
    [
        "step",
        "reward/mean",
        "reward/max",
        "zero_advantage/share",
        "num_output_tokens/mean",
        "is_truncated/mean",
        "has_error/mean",
        "entropy/all/mean",
        "mismatch_kl/all/mean",
        "optim/grad_norm",
        "optim/lr",
        "format_reward/mean",
        "correct_answer/mean",
        "eval/a/b/effective/agent/reward/mean",
        "train/agg/all/judge/is_trainable/mean",
        "train/agg/effective/solver/reward/mean",
        "time/step",
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(_NAMES, _VALUE, max_size=6), max_size=15))
def test_rows_of_any_kind_are_read_without_a_crash(rows: list[dict[str, Any]]) -> None:
    for found in anomalies.find_anomalies(rows):
        assert found.as_json()["code"] == found.code


@pytest.mark.parametrize("seed", range(25))
def test_order_gaps_nulls_and_repeated_steps_change_nothing_in_a_healthy_run(seed: int) -> None:
    rng = random.Random(seed)
    run = a_run(seed, max_steps=60, first_step=seed * 7)
    run["max_steps"] += run["first_step"]
    rows = [r for r in uploads(run, 60) if rng.random() > 0.1]
    rows += [dict(r) for r in rows if rng.random() < 0.2]
    for row in rng.sample(rows, 10):
        name = rng.choice([n for n in row if n not in ("step", "optim/grad_norm", "optim/lr")])
        row[name] = rng.choice([None, math.nan, math.inf])
    rng.shuffle(rows)
    assert codes(rows) == set()
