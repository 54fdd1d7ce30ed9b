"""Each anomaly on a curve that has it, and none on curves that do not."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from prime_lab_mcp.lab.training import anomalies, metrics
from prime_lab_mcp.rehearsal import curves, runs


def row(step: int, **values: Any) -> dict[str, Any]:
    rng = random.Random(step)
    healthy: dict[str, Any] = {
        "step": step,
        "reward/mean": min(0.85, 0.3 + 0.006 * step) + rng.gauss(0, 0.012),
        "num_output_tokens/mean": 200 + step * 0.3,
        "is_truncated/mean": 0.02,
        "has_error/mean": 0.004,
        "zero_advantage/share": 0.25,
        "entropy/all/mean": 0.6 * math.exp(-step / 220),
        "mismatch_kl/all/mean": 6e-4 * (1 + rng.gauss(0, 0.1)),
        "optim/grad_norm": 0.1 + 0.02 * rng.random(),
        "optim/lr": 1e-5,
    }
    return healthy | {k.replace("__", "/"): v for k, v in values.items()}


def codes(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {a.code: a.level for a in anomalies.find_anomalies(rows)}


def since(rows: list[dict[str, Any]], code: str) -> int:
    return next(a.since_step for a in anomalies.find_anomalies(rows) if a.code == code)


def test_a_healthy_run_has_none() -> None:
    assert codes([row(s) for s in range(100)]) == {}


def test_too_few_rows_say_nothing() -> None:
    assert codes([row(0, **{"has_error/mean": 0.9})]) == {}
    assert anomalies.find_anomalies([]) == []


@pytest.mark.parametrize(
    "fault",
    [
        ("no-signal", "no-signal"),
        ("collapse", "reward-collapse"),
        ("jump", "suspicious-jump"),
        ("entropy", "entropy-collapse"),
        ("off-policy", "off-policy"),
        ("length", "length"),
        ("truncation", "truncation"),
        ("gradient-nan", "grad-norm"),
        ("errors", "errors"),
    ],
)
def test_every_fault_of_the_rehearsal_is_recognised(fault: tuple[runs.RunFault, str]) -> None:
    kind, code = fault
    run = {
        "id": "run_x",
        "base_model": "Qwen/Qwen3-4B-Instruct-2507",
        "group_size": 8,
        "batch_size": 64,
        "max_steps": 60,
        "learning_rate": 1e-5,
        "first_step": 0,
        "faults": {kind: {"step": 20}},
    }
    rows = [r for s in range(60) if (r := curves.metrics(run, s)) is not None]
    assert code in codes(rows)
    if kind != "no-signal":
        assert 15 <= since(rows, code) <= 30
    healthy = [r for s in range(60) if (r := curves.metrics(run | {"faults": {}}, s)) is not None]
    assert codes(healthy) == {}


def test_a_gradient_that_is_not_finite_is_seen_in_every_form() -> None:
    for broken in ({"optim/grad_norm": math.nan}, {"optim/grad_norm": math.inf}, {"optim/grad_norm": None}):
        rows = [row(s) for s in range(10)] + [row(10, **broken)]
        assert codes(rows) == {"grad-norm": "stop"}
        assert since(rows, "grad-norm") == 10
    left_out = [row(s) for s in range(10)] + [{k: v for k, v in row(10).items() if k != "optim/grad_norm"}]
    assert codes(left_out) == {"grad-norm": "stop"}


def test_gaps_and_missing_values_are_no_anomaly() -> None:
    rows = [row(s) for s in range(60) if s % 7]
    rows[20]["reward/mean"] = None
    rows[21]["entropy/all/mean"] = math.nan
    del rows[22]["mismatch_kl/all/mean"]
    assert codes(rows) == {}


def test_a_reward_at_its_ceiling_is_solved_and_not_without_signal() -> None:
    rows = [row(s, **{"reward/mean": 0.98, "zero_advantage/share": 0.95}) for s in range(20)]
    assert codes(rows) == {"solved": "warn"}


def test_form_without_content_is_a_plateau() -> None:
    rows = [row(s, **{"format_reward/mean": 0.99, "correct_answer/mean": 0.4}) for s in range(40)]
    assert "format-plateau" in codes(rows)


def test_training_reward_that_rises_alone_is_a_gap() -> None:
    rows = [row(s, **{"reward/mean": 0.2 + 0.01 * s}) for s in range(60)]
    for step in (0, 15, 30, 45):
        rows[step]["eval/held-out/reward/mean"] = 0.4
    assert codes(rows) == {"proxy-gap": "stop"}


def test_a_run_that_stands_still_stalls_by_its_own_pace() -> None:
    assert anomalies.stall(7, 500, 60) is None
    assert anomalies.stall(7, 900, 600) is None
    found = anomalies.stall(7, 900, 60)
    assert found is not None
    assert (found.code, found.since_step, found.level) == ("stall", 7, "warn")


def test_spending_past_what_was_agreed_is_an_anomaly() -> None:
    assert anomalies.overrun(9.9, 10.0, 3) is None
    assert anomalies.overrun(None, 10.0, 3) is None
    found = anomalies.overrun(10.1, 10.0, 3)
    assert found is not None
    assert found.level == "stop"


def test_rows_of_orchestrator_trainer_and_eval_are_one_step() -> None:
    rows: list[dict[str, Any]] = []
    for step in range(30):
        whole = row(step)
        trainer = {n: whole.pop(n) for n in ("entropy/all/mean", "mismatch_kl/all/mean", "optim/grad_norm", "optim/lr")}
        # A table fills what an upload does not have with null.
        rows += [whole | dict.fromkeys(trainer), {"step": step} | trainer]
    assert codes(rows) == {}
    rows[-1]["optim/grad_norm"] = None
    assert codes(rows) == {"grad-norm": "stop"}


def test_a_frozen_judge_is_not_the_trained_agent() -> None:
    def of(step: int) -> dict[str, Any]:
        agents = {"judge": (0.97, 0.0), "solver": (0.4, 0.7)}
        told = {f"train/agg/all/{a}/is_trainable/mean": t for a, (_, t) in agents.items()}
        return {"step": step} | told | {f"train/agg/effective/{a}/reward/mean": r for a, (r, _) in agents.items()}

    assert codes([of(s) for s in range(30)]) == {}


def test_a_reward_that_goes_beyond_one_is_measured_by_what_is_attainable() -> None:
    rows = [row(s, **{"reward/mean": 1.2, "reward/max": 2.0}) for s in range(30)]
    assert codes(rows) == {}
    assert "solved" in codes([r | {"reward/mean": 1.95} for r in rows])


def test_held_out_means_are_told_by_source_and_step() -> None:
    rows = [
        {
            "step": 20,
            "eval/owner/name@1/effective/agent/reward/mean": 0.5,
            "eval/owner/name@1/all/agent/reward/mean": 0.4,
        },
        {"step": 0, "eval/owner/name@1/effective/agent/reward/mean": 0.3, "eval/math/effective/agent/avg@4": 0.2},
    ]
    assert metrics.held_out_series(rows) == {"math": [(0, 0.2)], "owner/name@1": [(0, 0.3), (20, 0.5)]}


def test_empty_batches_are_told_by_the_log_until_a_step_ends() -> None:
    warned = "WARNING Step 7: empty train batch after 64 finalized episodes (consecutive empty batches: {}/10)\n"
    log = "SUCCESS Step 6 | reward 0.4\n" + "".join(warned.format(n) for n in (1, 2, 3))
    found = anomalies.empty_batches(log, 6)
    assert found is not None
    assert (found.code, found.level, found.since_step) == ("no-signal", "stop", 6)
    early = anomalies.empty_batches(warned.format(1), 6)
    assert early is not None
    assert early.level == "warn"
    assert anomalies.empty_batches(log + "SUCCESS Step 7 | reward 0.4\n", 7) is None
    units = "No admitted train payload after 640 finalized units (consecutive zero-output batch equivalents: 5/10)"
    assert anomalies.empty_batches(units, 6) is not None


def test_one_odd_step_is_no_anomaly() -> None:
    rows = [row(s) for s in range(60)]
    rows[30] |= {"has_error/mean": 0.9, "is_truncated/mean": 0.6, "reward/mean": 0.05, "mismatch_kl/all/mean": 1e-2}
    assert codes(rows) == {}


def test_a_run_that_will_cost_more_than_was_agreed_warns_before() -> None:
    found = anomalies.overrun(5.0, 10.0, 20, expected=14.0)
    assert found is not None
    assert found.level == "warn"
    assert anomalies.overrun(5.0, 10.0, 20, expected=9.0) is None


def test_a_run_far_beyond_its_likely_cost_is_told_also_below_the_agreed_bound() -> None:
    assert anomalies.overrun(28.0, 273.2, 120, likely_at_most=21.32) is None
    found = anomalies.overrun(46.67, 425.0, 200, likely_at_most=20.0)
    assert found is not None
    assert (found.code, found.level) == ("overrun", "warn")
    assert "more than 2 times the $20.00 that the question named" in found.cause


def test_a_long_wait_for_gpus_is_told() -> None:
    assert anomalies.long_queue(600) is None
    found = anomalies.long_queue(4000)
    assert found is not None
    assert found.code == "queue"
