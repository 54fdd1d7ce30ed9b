"""Difficulty pools of tasks, and the curriculum that they suggest."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.configs import schema
from prime_lab_mcp.lab.distribution.sample import CURRICULUM_BELOW, POOL_NAMES, POOLS, pool_of, suggested_curriculum


@pytest.mark.parametrize(
    ("mean", "highest", "name"),
    [
        (0, 0, "never"),
        (0.01, 0.2, "hard"),
        (0.25, 1, "hard"),
        (0.26, 1, "normal"),
        (0.75, 1, "normal"),
        (0.76, 1, "easy"),
        (0.99, 1, "easy"),
        (1, 1, "always"),
    ],
)
def test_a_task_belongs_to_the_pool_of_its_mean(mean: float, highest: float, name: str) -> None:
    assert pool_of(mean, highest) == name


@pytest.mark.parametrize(
    ("usable", "solved", "unsolved", "advised"),
    [
        (0.9, 0, 0, None),
        (0.9, 3, 0, None),
        (0.9, 3, 3, "pools"),
        (0.3, 0, 5, "gate"),
        (0.3, 3, 5, "both"),
        (CURRICULUM_BELOW, 0, 0, None),
    ],
)
def test_what_a_curriculum_is_advised_for(usable: float, solved: int, unsolved: int, advised: str | None) -> None:
    assert suggested_curriculum(usable, solved, unsolved) == advised


def test_pools_are_what_prime_rl_takes() -> None:
    wanted = schema.load_schema("rl")["$defs"]["DifficultyPoolConfig"]["required"]
    assert all(set(pool._asdict()) == set(wanted) for pool in POOLS.values())
    assert set(POOLS) < set(POOL_NAMES)
