"""With which arguments of an environment training is proven, where nobody names them."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.proven_arguments import held_out_argument, proven_arguments


def evaluated(id: int, status: Any = "passed", **env_args: Any) -> Evidence:
    return Evidence("check_reward_distribution", status, "w", env_args=env_args, id=id, model="m")


def pushed(id: int, **env_args: Any) -> Evidence:
    return Evidence("push_environment", "passed", "w", env_args=env_args, id=id)


@pytest.mark.parametrize(
    ("rows", "proven"),
    [
        ([], {}),
        ([evaluated(1)], {}),
        ([evaluated(1, level=2)], {"level": 2}),
        ([evaluated(2, level=3), evaluated(1, level=2)], {"level": 3}),
        ([evaluated(2, level=3), evaluated(1)], {}),
        ([evaluated(1, "failed", level=2)], {}),
        ([evaluated(1, split="test")], {}),
        ([pushed(2, level=2), evaluated(1)], {"level": 2}),
        ([evaluated(2), pushed(1, level=2)], {}),
        ([pushed(2), evaluated(1, level=3)], {"level": 3}),
    ],
    ids=[
        "nothing",
        "defaults",
        "one evaluation",
        "the newest evaluation",
        "defaults beside others",
        "failed",
        "held out",
        "a push after the defaults",
        "the defaults after a push",
        "a push that names none",
    ],
)
def test_the_push_or_the_newest_evaluation_that_passed_says_which(rows: list[Evidence], proven: dict[str, int]) -> None:
    assert proven_arguments(rows) == proven


def test_an_argument_that_equals_the_default_is_the_default() -> None:
    assert proven_arguments([evaluated(1, level=1)], {"level": 1}) == {}


def test_a_checkpoint_of_a_run_proves_nothing() -> None:
    row = Evidence("check_reward_distribution", "passed", "w", env_args={"level": 2}, model="run-1-step-20", id=1)
    assert proven_arguments([row], runs=["run-1"]) == {}


@pytest.mark.parametrize(
    ("env_args", "held_out"),
    [
        ({"split": "test"}, ("split", "test")),
        ({"level": 2, "Data_Split": "Held-Out"}, ("Data_Split", "Held-Out")),
        ({"split": "train"}, None),
        ({"test": "test"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_held_out_split_is_known_by_its_argument_and_its_name(env_args: dict[str, Any], held_out: Any) -> None:
    assert held_out_argument(env_args) == held_out
