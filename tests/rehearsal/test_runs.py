"""A run's course is a function of its record and the time."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.rehearsal import curves, faults, runs


def a_run(**more: Any) -> dict[str, Any]:
    return {
        "id": "run_1",
        "created": 1000.0,
        "speed": 1.0,
        "config": {"ckpt": {"interval": 5}},
        "first_step": 0,
        "events": [],
        "faults": {},
        "max_steps": 40,
        "gpu_count": 2,
        "price_per_gpu_hour": 3.5,
        "base_model": "Qwen/Qwen3-4B-Instruct-2507",
        "batch_size": 64,
        "group_size": 16,
        "learning_rate": 1e-5,
        "environments": [{"id": "a/b", "name": "b"}],
    } | more


def after(run: dict[str, Any], seconds: float) -> runs.RunState:
    return runs.state(run, run["created"] + seconds)


def series(run: dict[str, Any], key: str, steps: int = 40) -> list[float]:
    found = [curves.metrics(run, s) for s in range(steps)]
    return [m[key] for m in found if m is not None and key in m]


def test_a_run_waits_runs_and_completes() -> None:
    run = a_run(max_steps=20)
    seen = [after(run, t).status for t in (0.1, 0.5, 1.0, 5.0, 5.9)]

    assert seen == ["QUEUED", "PENDING", "RUNNING", "RUNNING", "COMPLETED"]
    assert after(run, 5.9).step == 19
    assert after(run, 0.1).step == -1


@given(st.lists(st.floats(0, 30), min_size=2, max_size=6), st.booleans())
def test_progress_never_goes_back_and_an_ended_run_stays_ended(times: list[float], stalls: bool) -> None:
    run = a_run(faults={"stall": {"step": 7}} if stalls else {})
    states = [after(run, t) for t in sorted(times)]

    assert [s.step for s in states] == sorted(s.step for s in states)
    ended = [s for s in states if s.status in runs.TERMINAL]
    assert len(set(ended)) <= 1


def test_speed_changes_when_things_happen_and_nothing_else() -> None:
    slow, fast = a_run(), a_run(speed=10.0)

    assert after(slow, 5.05).step == after(fast, 0.505).step > 0


@pytest.mark.parametrize(
    ("kind", "final", "status"),
    [("stop", "STOPPED", "STOPPED"), ("pause", "PAUSED", "PAUSING")],
)
def test_stop_and_pause_freeze_the_step(kind: str, final: str, status: str) -> None:
    run = a_run(events=[{"at": 1003.0, "kind": kind}])

    assert after(run, 3.01).status == status
    assert after(run, 60).status == final
    assert after(run, 60).step == after(a_run(), 3.0).step


def test_a_restart_goes_back_to_the_last_checkpoint() -> None:
    run = a_run(events=[{"at": 1003.0, "kind": "restart"}])

    assert after(a_run(), 3.0).step == 7
    assert after(run, 3.01).steps_done == 5
    assert after(run, 3.01).status == "PENDING"
    assert after(run, 30).status == "COMPLETED"


def test_a_run_can_die_in_the_queue_fail_or_stall() -> None:
    dead = after(a_run(faults={"dies-in-queue": {}}), 20)
    failed = after(a_run(faults={"fails": {"step": 7}}), 20)
    stalled = after(a_run(faults={"stall": {"step": 7}}), 60)

    assert (dead.status, dead.step, dead.started) == ("FAILED", -1, None)
    assert (failed.status, failed.step) == ("FAILED", 6)
    assert failed.error is not None
    assert "out of memory" in failed.error
    assert (stalled.status, stalled.step) == ("RUNNING", 6)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("demo-fault-collapse-8", {"collapse": {"step": 8}}),
        ("demo-fault-off-policy-12345678", {"off-policy": {}}),
        ("demo-fault-no-signal-0badc0de", {"no-signal": {}}),
        ("demo-fault-entropy-fault-errors-3-feedbeef", {"entropy": {}, "errors": {"step": 3}}),
        ("fault-unheard-of", {}),
    ],
)
def test_a_name_asks_for_faults_whatever_follows_it(name: str, found: dict[str, Any]) -> None:
    assert faults.in_name(name, "run") == found


def test_money_is_spent_by_the_step() -> None:
    run = a_run(max_steps=30)

    assert runs.cost(run, after(run, 60)) == pytest.approx(30 * 120 / 3600 * 2 * 3.5, abs=1e-3)
    assert runs.cost(run, after(run, 0.1)) == 0.0


def test_a_healthy_run_learns() -> None:
    rewards, entropy = series(a_run(), "reward/mean"), series(a_run(), "entropy/all/mean")

    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.15
    assert max(b - a for a, b in zip(rewards, rewards[4:], strict=False)) < 0.3
    assert entropy[-1] < entropy[0] * 0.95
    assert max(series(a_run(), "is_truncated/mean")) < 0.05


def test_a_group_of_one_learns_nothing() -> None:
    run = a_run(group_size=1)

    assert series(run, "zero_advantage/share") == [1.0] * 40
    assert series(run, "reward/mean")[-1] == pytest.approx(0.45, abs=0.05)


FAULTS: dict[str, tuple[str, Any]] = {
    "no-signal": ("zero_advantage/share", lambda v: min(v) > 0.9),
    "collapse": ("reward/mean", lambda v: v[-1] < 0.5 * max(v)),
    "jump": ("reward/mean", lambda v: v[9] - v[5] > 0.3),
    "entropy": ("entropy/all/mean", lambda v: v[-1] < 0.05 * v[0]),
    "off-policy": ("mismatch_kl/all/mean", lambda v: v[-1] > 10 * v[0]),
    "length": ("num_output_tokens/mean", lambda v: v[-1] > 2.5 * v[0]),
    "truncation": ("is_truncated/mean", lambda v: v[-1] > 0.3),
    "errors": ("has_error/mean", lambda v: v[-1] > 0.25),
    "gaps": ("reward/mean", lambda v: len(v) == 35),
    "gradient-nan": ("optim/grad_norm", lambda v: len(v) == 9 and max(v) > 20 * v[0]),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_shows_in_its_metric_from_its_onset(kind: str) -> None:
    key, shows = FAULTS[kind]
    onset = 6
    healthy = a_run()
    ill = a_run(faults={kind: {"step": onset}})

    assert shows(series(ill, key))
    assert not shows(series(healthy, key))
    if kind != "no-signal":
        assert series(ill, key)[: onset - 1] == series(healthy, key)[: onset - 1]


def test_rollouts_agree_with_the_reported_mean() -> None:
    run = a_run(batch_size=512)
    rewards = [curves.rollout(run, 5, i)["reward"] for i in range(512)]

    assert sum(rewards) / 512 == pytest.approx(curves.ability(run, 5), abs=0.12)
    assert len({curves.rollout(run, 5, i)["problem_id"] for i in range(512)}) == 32
    assert sum(b["count"] for b in curves.histogram(run, 5, "rewards")) == 512
    assert math.isfinite(sum(b["count"] for b in curves.histogram(run, 5, "advantages")))
