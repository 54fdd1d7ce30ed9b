"""Pools, what single tasks are worth, and advice that the trainer of today can follow."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.configs import schema
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.sample import easy_first, suggested_curriculum
from prime_lab_mcp.lab.evals.views.columns import ViewResult
from prime_lab_mcp.lab.evals.views.difficulty import difficulty_view
from prime_lab_mcp.tools.write_training_config import Args
from tests.lab.evals.views.evaluations import evaluated, played, trace


def of(folder: Path, rates: list[float], rollouts: int = 8, **changes: Any) -> ViewResult:
    return difficulty_view(
        evaluated(folder, played({f"t{i:03d}": r for i, r in enumerate(rates)}, rollouts), **changes)
    )


def drawn(a: float, b: float, n: int = 60, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [rng.betavariate(a, b) for _ in range(n)]


def test_pools_are_those_of_the_judgement_with_their_tasks(tmp_path: Path) -> None:
    here = evaluated(tmp_path, played({f"t{i:03d}": r for i, r in enumerate(drawn(0.5, 0.5))}))
    data = difficulty_view(here).data

    assert data["pools"] == judge_rollouts(here.rollouts()).difficulty
    shown = {name: [(t["task"], t["solved"]) for t in rows] for name, rows in data["tasks_in"].items()}
    assert all(solved == "0 of 8" for _, solved in shown["never"])
    assert all(solved == "8 of 8" for _, solved in shown["always"])
    assert all(len(rows) == min(12, data["pools"][name]) for name, rows in shown.items())
    second = difficulty_view(here, page=2).data["tasks_in"]
    assert not {t["task"] for t in second["never"]} & {task for task, _ in shown["never"]}


def test_zero_of_four_is_not_called_dead_and_the_chance_grows_with_what_was_seen(tmp_path: Path) -> None:
    rates = drawn(0.4, 1.6, 80)
    few = of(tmp_path / "a", rates, 4).data["unsolved"]
    many = of(tmp_path / "b", rates, 32).data["unsolved"]
    assert few["rollouts_each"] == 4
    assert few["chance_below"] < 0.9
    assert few["chance_below"] < many["chance_below"]
    assert few["expected_dead"] < few["tasks"]


def test_the_usable_share_of_larger_groups_is_the_truth_of_those_tasks(tmp_path: Path) -> None:
    rates = drawn(0.3, 1.5, 120, seed=4)
    sizes = {s["group_size"]: s for s in of(tmp_path, rates).data["group_sizes"]}
    for size in (8, 16, 32, 64):
        truth = sum(1 - p**size - (1 - p) ** size for p in rates) / len(rates)
        assert sizes[size]["usable_share"] == pytest.approx(truth, abs=0.08)
    assert [sizes[s]["cost"] for s in (8, 16, 32, 64)] == [0.5, 1.0, 2.0, 4.0]
    revived = [sizes[s]["unsolved_with_signal"] for s in (8, 16, 32, 64)]
    assert revived == sorted(revived)
    assert sizes[16]["low"] <= sizes[16]["usable_share"] <= sizes[16]["high"]


@pytest.mark.parametrize(
    ("rates", "rollouts", "state"),
    [
        ([0.5] * 50, 8, "ready"),
        ([0.0] * 50, 8, "dead"),
        ([0.0] * 10, 4, "undecided"),
        ([0.97] * 50, 8, "solved"),
        ([0.0] * 36 + [0.1] * 8 + [0.5] * 6, 8, "start low"),
        ([0.0] * 24 + [1.0] * 24 + [0.5] * 2, 8, "thin"),
        ([0.5] * 50, 1, "unknown"),
        ([0.0, 0.5, 1.0, 0.5], 2, "undecided"),
    ],
)
def test_the_state_and_what_it_asks_for(tmp_path: Path, rates: list[float], rollouts: int, state: str) -> None:
    found = of(tmp_path, rates, rollouts)
    assert found.data["state"] == state
    advice = " ".join(found.data["advice"])
    assert advice
    assert ("fine-tuning" in advice) == (state == "dead")
    assert bool(found.data["phases"]) == (state in ("start low", "thin"))
    assert bool(found.data["settings"]) == (state in ("ready", "start low", "thin"))
    assert ("difficulty-dead" in [f.code for f in found.findings]) == (state == "dead")
    if state == "undecided":
        assert ("too few to call the tasks dead" in advice) == (not any(rates))
        assert "num_examples=50" in advice


def test_tasks_that_differ_by_their_form_only_are_not_alive(tmp_path: Path) -> None:
    given = {"weights": {"correct": 1.0, "answer_format": 0.1}}
    episodes = [
        trace(f"t{i}", 0.0, scores={"answer_format": float(j % 2)}, **given) for i in range(50) for j in range(8)
    ]
    found = difficulty_view(evaluated(tmp_path / "form", episodes))
    assert found.data["state"] == "dead"
    assert found.data["settings"] == {}
    partial = [
        trace(f"t{i}", 0.3 * (j % 2), scores={"answer_format": 1.0}, **given) for i in range(50) for j in range(8)
    ]
    assert difficulty_view(evaluated(tmp_path / "partial", partial)).data["state"] != "dead"


def test_phases_go_from_the_middle_to_the_unsolved_and_a_selection_falls_back(tmp_path: Path) -> None:
    rates = [0.02] * 30 + [0.12] * 14 + [0.4] * 8
    found = of(tmp_path, rates, tasks=500).data

    numbers = [p["evaluated"] for p in found["phases"]]
    assert len(numbers) == 3
    assert "20 to 80 %" in found["phases"][0]["tasks"]
    assert "never solved" in found["phases"][-1]["tasks"]
    assert all("0.8" in p["until"] and "20 %" in p["until"] for p in found["phases"])
    [again] = [line for line in found["advice"] if "evaluate the selection once more" in line]
    shown, expected = (float(x) for x in (again.split("showed ")[1][:4], again.split("about ")[1][:4]))
    assert expected < shown
    assert found["settings"]["write_training_config"]["curriculum"] in ("gate", "both")


def test_advised_settings_are_keys_of_the_trainer_and_arguments_of_the_tool(tmp_path: Path) -> None:
    settings = of(tmp_path, [0.0] * 30 + [0.5] * 4 + [0.95] * 16).data["settings"]
    assert settings["write_training_config"]["curriculum"] == "both"
    Args.model_validate(settings["write_training_config"])

    definitions = schema.load_schema("rl")["$defs"]
    curriculum = definitions["CurriculumConfig"]["properties"]
    by_end = {key.rpartition("curriculum.")[2].split(".")[0]: value for key, value in settings["keys"].items()}
    assert set(by_end) - {"orchestrator"} == set(curriculum)
    assert set(by_end["gates"]) <= set(definitions["AdvRangeGateConfig"]["properties"])
    assert by_end["gates"]["type"] == definitions["AdvRangeGateConfig"]["properties"]["type"]["const"]
    assert set(by_end["sampler"]) <= set(definitions["DifficultyPoolSamplerConfig"]["properties"])
    for pool in by_end["sampler"]["pools"].values():
        assert set(pool) == set(definitions["DifficultyPoolConfig"]["required"])


def test_the_next_call_and_the_config_writer_advise_the_same_curriculum(tmp_path: Path) -> None:
    found = of(tmp_path, [0.125] * 12 + [0.5] * 30 + [0.875] * 12)
    (step,) = [call for call in found.next if call.tool == "write_training_config"]
    pools = found.data["pools"]
    share = next(s["usable_share"] for s in found.data["group_sizes"] if s["group_size"] == 16)
    advised = suggested_curriculum(share, pools["easy"] + pools["always"], pools["hard"] + pools["never"])
    assert (step.arguments or {})["curriculum"] == advised == "pools"
    assert any('curriculum="pools"' in line for line in found.data["advice"])
    assert not any("no curriculum is needed" in line for line in found.data["advice"])
    even = of(tmp_path / "even", [0.5] * 40, 64)
    (step,) = [call for call in even.next if call.tool == "write_training_config"]
    assert "curriculum" not in (step.arguments or {})


def test_easy_tasks_first_is_a_phase_for_each_set_of_arguments(tmp_path: Path) -> None:
    low, dead = of(tmp_path / "low", drawn(0.2, 1.5)), of(tmp_path / "dead", [0.0] * 60)
    assert low.data["phases"]
    for found in (low, dead):
        assert any(easy_first(None) in line for line in found.data["advice"]), found.data["advice"]


def test_nothing_scored_is_no_difficulty(tmp_path: Path) -> None:
    with pytest.raises(EvalError) as refused:
        difficulty_view(evaluated(tmp_path, [trace("t", None, "")]))
    assert refused.value.code == "eval-nothing-scored"
