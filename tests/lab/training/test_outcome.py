"""Whether a run worked, told from its own evaluations: pure numbers."""

from __future__ import annotations

import random

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.pulled import PULL
from prime_lab_mcp.lab.training.outcome import (
    checkpoint_steps,
    held_out_changes,
    outcome_verdict,
    run_outcome,
    served_name,
)


def _one(*points: tuple[int, float], tasks: int | None = 128):
    (found,) = held_out_changes({"env": points}, tasks)
    return found


@pytest.mark.parametrize(
    ("last", "tasks", "word"),
    [
        (0.60, 128, "rose"),
        (0.20, 128, "fell"),
        (0.45, 128, "no difference shown"),
        (0.60, 10, "no difference shown"),
        (0.60, None, "not judged"),
        (1.60, 128, "not judged"),
    ],
)
def test_a_difference_is_shown_or_not(last: float, tasks: int | None, word: str) -> None:
    assert _one((0, 0.4), (50, last), tasks=tasks).word == word


def test_points_are_ordered_and_those_that_are_no_number_left_out() -> None:
    found = _one((50, 0.7), (0, 0.4), (25, float("nan")), (75, 0.5))
    assert (found.first, found.last, found.best, found.points) == ((0, 0.4), (75, 0.5), (50, 0.7), 3)


def test_a_single_evaluation_says_nothing() -> None:
    assert held_out_changes({"env": [(0, 0.4)], "other": []}, 128) == ()
    assert outcome_verdict((), ()) == (
        "unknown",
        "the run evaluated nothing twice on held-out tasks, and no checkpoint of it was evaluated",
    )


def test_models_that_did_not_change_are_rarely_called_changed() -> None:
    """The interval is conservative: two draws of the same chance differ in fewer than 5 of 100 pairs."""
    rng = random.Random(7)
    wrong = 0
    for _ in range(400):
        p = rng.random()
        means = [sum(rng.random() < p for _ in range(64)) / 64 for _ in range(2)]
        wrong += _one((0, means[0]), (9, means[1]), tasks=64).word != "no difference shown"
    assert wrong / 400 <= 0.05


def test_one_source_that_fell_decides() -> None:
    up, down = _one((0, 0.3), (9, 0.7)), _one((0, 0.7), (9, 0.3))
    assert outcome_verdict((up,), ())[0] == "yes"
    assert outcome_verdict((up, down), ())[0] == "no"
    assert outcome_verdict((_one((0, 0.3), (9, 0.31)),), ())[0] == "not shown"


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "worked"), [("failed", "doubtful"), ("passed", "yes")])
async def test_a_rise_of_a_reward_with_a_known_hole_is_doubtful_and_the_hole_is_named(
    lab: Lab, status: str, worked: str
) -> None:
    pulled = {"pulled": "acme/sums@0.1.0", "source": "a" * 64}
    lab.ledger.record(Evidence(PULL, "passed", lab.key, "sums", data=pulled))
    hole = Finding("reward-hackable", "blocker", "a reply of all options is paid", "Pay one.")
    findings = [hole.as_json()] if status == "failed" else []
    lab.ledger.record(Evidence("test_reward", status, lab.key, "sums", "a" * 64, "b" * 64, findings=findings))
    source = {"env": {"taskset": {"id": "acme/sums@0.1.0"}}}
    orchestrator = {"train": {"source": [source]}, "eval": {"source": [source], "num_examples": 128}}
    run = {"run_config": {"orchestrator": orchestrator}, "base_model": "Qwen/Qwen3-0.6B", "name": "sums"}
    found = await run_outcome(lab, "run_1", run, [], {"sums": [(0, 0.3), (20, 0.8)]})
    assert found.worked == worked, found.data
    assert ("test_reward says of sums: reward-hackable, a reply of all options is paid" in found.data["because"]) == (
        status == "failed"
    )


def test_the_ways_name_the_volume_where_there_is_one() -> None:
    plain = checkpoint_steps("run_1", "mine-1a2b", 20, {"model": {"name": "Qwen/Qwen3-4B"}})
    volume = checkpoint_steps("run_1", "mine-1a2b", 20, {"volume": "my vol", "trainer": {"model": {"lora": {}}}})
    assert [way.step for way in plain] == ["fetch", "serve", "publish"]
    assert plain[0].command == "prime train checkpoints run_1 -o json"
    assert volume[0].command == "prime volumes get 'my vol' runs/run_1/ ./mine-1a2b-step-20"
    assert "--enable-lora" in volume[2].command
    assert served_name("mine", None) == "mine"
