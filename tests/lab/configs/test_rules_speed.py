"""Advice to be faster: only where it is supported, and with its price."""

from __future__ import annotations

import math

import pytest

from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.rules.speed import usable_share_at
from tests.lab.configs.examples import sound

GATE = 'harness]\nid = "null"\n[orchestrator.train.source.curriculum.gates.g]\ntype = "advantage_range"\n'
GATED = ('harness]\nid = "null"', GATE)
LARGE = ("batch_size = 128", "batch_size = 512")
VARIED = {"usable": 0.965, "usable_group": 16, "learnability": 0.2}


def advice(*changes: tuple[str, str], **seen: object) -> list[str]:
    found = config_findings(sound(*changes), ConfigContext(**seen))  # type: ignore[arg-type]
    assert {f.severity for f in found if f.code == "config-speed"} <= {"info"}
    return [f.message + " " + f.fix for f in found if f.code == "config-speed"]


def test_a_budget_far_above_what_was_measured_names_gain_and_loss() -> None:
    longer = ("max_completion_tokens = 1024", "max_completion_tokens = 3072")
    (said,) = advice(longer, completion_tokens=400, longest=500)
    assert "7.7 times the 400 tokens" in said
    assert "6.0 times sooner" in said
    assert "under 1% of the measured" in said
    assert "Set it to 512" in said
    (said,) = advice(longer, completion_tokens=400)
    assert "under 5%" in said
    (said,) = advice(longer, completion_tokens=400, longest=1100)
    assert "Set it to 1152" in said
    assert advice(longer, completion_tokens=1400) == []
    assert advice(longer) == []


def test_half_the_rollouts_are_offered_where_most_of_the_gradient_stays() -> None:
    (said,) = advice(LARGE, **VARIED)
    assert "group_size 8 with batch_size 256" in said
    assert "89% instead of 96%" in said
    assert "28.5 instead of 30.9 groups" in said


@pytest.mark.parametrize(
    "seen",
    [{}, {"usable": 0.3, "usable_group": 16, "learnability": 0.02}, {"usable": 0.965, "usable_group": 16}],
)
def test_half_the_rollouts_are_not_offered_where_they_cost_much_or_nothing_is_known(seen: dict[str, float]) -> None:
    assert advice(LARGE, **seen) == []


def test_half_of_a_small_batch_is_no_advice() -> None:
    assert advice(**VARIED) == []


def test_prompts_are_computed_once_with_prefix_caching() -> None:
    off = ("[inference]", "[inference.vllm]\nenable_prefix_caching = false")
    (said,) = advice(off, prompt_tokens=300, completion_tokens=700)
    assert "16 times instead of once" in said
    assert "30% of a rollout" in said
    assert "no signal" in said
    assert advice(("[inference]", "[inference.vllm]\nenable_prefix_caching = true")) == []


def test_bounds_that_hold_back_a_step_are_named() -> None:
    (said,) = advice(("[inference]", "[inference.vllm]\nmax_num_seqs = 64"))
    assert "64 of a step's 128" in said
    two = ("num_infer_gpus = 1", "num_infer_gpus = 2")
    assert advice(two, ("[inference]", "[inference.vllm]\nmax_num_seqs = 64")) == []
    (said,) = advice(("group_size = 16\n", "group_size = 16\nconcurrency.max_inflight = 64\n"))
    assert "freshness" in said


def test_prompts_longer_than_a_pass_are_named() -> None:
    pieces = ("[inference]", "[inference.vllm]\nmax_num_batched_tokens = 1024")
    (said,) = advice(pieces, prompt_tokens=2000)
    assert "8192" in said
    assert advice(pieces, prompt_tokens=500) == []
    assert advice(pieces) == []


def test_a_gate_s_price_and_gain_are_weighed() -> None:
    (said,) = advice(LARGE, GATED, usable=0.5)
    assert "2.0 times a batch" in said
    assert "256 instead of 512" in said
    assert advice(LARGE, GATED, usable=0.9) == []


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.3, 1.2), (2.0, 2.0), (5.0, 1.0)])
@pytest.mark.parametrize("group", [4, 8, 32])
def test_the_share_at_another_size_is_that_of_the_beta_behind_the_measurements(a: float, b: float, group: int) -> None:
    def beta(x: float, y: float) -> float:
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    def usable(size: int) -> float:
        return 1 - math.exp(beta(a + size, b) - beta(a, b)) - math.exp(beta(a, b + size) - beta(a, b))

    learnability = a * b / ((a + b) * (a + b + 1))
    seen = ConfigContext(usable=usable(16), usable_group=16, learnability=learnability)
    assert usable_share_at(seen, group) == pytest.approx(usable(group), abs=1e-3)
