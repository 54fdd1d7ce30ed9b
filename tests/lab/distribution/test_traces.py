"""An evaluation counts the rollouts of all agents in an episode, which the bound of a run reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prime_lab_mcp.lab.configs.evidence import _measurement
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.rollouts.layouts import v1_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.rollouts.scores import v1_scores
from prime_lab_mcp.lab.state.ledger.rows import Evidence


def episode(number: int, traces: int) -> dict[str, Any]:
    """An episode whose first agent is trained."""
    played = [
        {
            "id": f"{number}-{i}",
            "task": {"key": f"task-{number}"},
            "agent": {"name": f"a{i}", "trainable": i == 0},
            "rewards": {"right": {"score": float(number % 2), "weight": 1.0}},
            "ok": True,
        }
        for i in range(traces)
    ]
    return {"id": str(number), "traces": played, "ok": True, "env": {"id": "x"}}


@pytest.mark.parametrize("light", [True, False])
def test_the_most_traces_of_an_episode_are_counted(light: bool) -> None:
    records = [episode(n, traces) for n, traces in enumerate((1, 3, 2))]
    rollouts = [
        rollout
        for record in records
        for rollout in (v1_scores(json.dumps(record).encode()) or () if light else v1_rollouts(record))
    ]
    assert [rollout.traces for rollout in rollouts] == [1, 3, 2]
    assert judge_rollouts(rollouts).as_json()["traces_per_episode"] == 3


def test_results_without_episodes_say_nothing_of_traces() -> None:
    assert "traces_per_episode" not in judge_rollouts([Rollout("t", 1.0), Rollout("t", 0.0)]).as_json()


def test_the_context_of_a_config_holds_what_each_evaluation_counted() -> None:
    def row(model: str, args: dict[str, Any], data: dict[str, Any]) -> Evidence:
        return Evidence("run_eval", "passed", "w", "e", source="s", model=model, env_args=args, data=data)

    rows = [
        row("m", {}, {"distribution": {"traces_per_episode": 8, "error_rate": 0.1}}),
        row("m", {"level": 2}, {"traces_per_episode": 9}),
        row("other", {}, {"traces_per_episode": 1}),
        row("m", {}, {}),
    ]
    measured = _measurement(rows, "m", {})
    assert measured.plays == (({}, 8), ({"level": 2}, 9))
    assert measured.failed == 0.1
