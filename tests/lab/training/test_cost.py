"""Forecasts of what a run costs: ordered, below the bound that is reserved, and honest about what nobody measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.training import cost
from prime_lab_mcp.lab.training.cost import CostForecast, RolloutTokens
from tests.tools.loopback import CONFIG

GATES = '[orchestrator.train.source.curriculum]\n[[orchestrator.train.source.curriculum.gates]]\ntype = "x"\n'


def config_of(text: str = CONFIG) -> TrainingConfig:
    return parse_config(text, Path("configs/rl/x.toml"))


def likely(
    config: TrainingConfig, seen: ConfigContext | None = None, tokens: RolloutTokens | None = None
) -> CostForecast:
    found = cost.forecast_cost(config, seen or ConfigContext(price_per_gpu_hour=3.5), tokens)
    assert found is not None
    return found


def test_the_range_is_ordered_and_never_above_what_the_cap_reserves() -> None:
    for text in (CONFIG, CONFIG.replace("batch_size = 16", "batch_size = 4096"), CONFIG.replace("20", "100000", 1)):
        found = likely(config_of(text))
        assert found.dollars is not None
        assert found.upper_bound is not None
        assert 0 < found.dollars[0] < found.dollars[1] <= found.dollars[2] <= found.upper_bound + 0.01


def test_measured_tokens_take_the_place_of_the_guess_and_say_so() -> None:
    config = config_of(CONFIG.replace("batch_size = 16", "batch_size = 2048"))
    guessed, counted = likely(config), likely(config, tokens=RolloutTokens((90, 120, 200), "counted"))
    assert counted.hours[1] < guessed.hours[1]
    sources = [f.assumptions[0].source for f in (guessed, counted)]
    assert "nobody measured" in sources[0]
    assert sources[1] == "counted"


def test_the_signal_says_what_a_rollout_with_a_gradient_costs() -> None:
    found = likely(config_of(), ConfigContext(price_per_gpu_hour=3.5, usable=0.25, usable_group=8))
    assert (found.discarded_share, found.multiplier) == (0.75, 4.0)
    assert found.dollars is not None
    assert found.per_gradient_rollout == pytest.approx(found.dollars[1] / (20 * 16 * 0.25))
    assert "75% of the rollouts will carry no gradient" in found.sentence()
    assert "not measured" in likely(config_of()).sentence()


def test_resampling_pays_for_the_groups_that_are_thrown_away() -> None:
    seen = ConfigContext(price_per_gpu_hour=3.5, usable=0.25, usable_group=8)
    big = CONFIG.replace("batch_size = 16", "batch_size = 4096")
    plain, resampled = likely(config_of(big), seen), likely(config_of(big.replace("[inference]", GATES)), seen)
    assert plain.dollars is not None
    assert resampled.dollars is not None
    assert resampled.dollars[0] > plain.dollars[0]
    assert resampled.multiplier == plain.multiplier == 4.0


def test_a_group_size_that_was_not_measured_is_named() -> None:
    found = likely(config_of(), ConfigContext(price_per_gpu_hour=3.5, usable=0.5, usable_group=16))
    assert "the config has groups of 8" in found.assumptions[-1].source


def test_larger_models_take_longer_and_every_assumption_has_its_source() -> None:
    big = CONFIG.replace("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-32B").replace(
        "batch_size = 16", "batch_size = 2048"
    )
    small = CONFIG.replace("batch_size = 16", "batch_size = 2048")
    assert likely(config_of(big)).hours[0] > likely(config_of(small)).hours[0]
    for assumption in likely(config_of(big)).assumptions:
        assert len(assumption.source) > 15
        assert assumption.as_json()["unit"]


def test_without_a_price_there_are_hours_and_without_an_end_there_is_nothing() -> None:
    found = likely(config_of(), ConfigContext())
    assert (found.dollars, found.upper_bound) == (None, None)
    assert found.sentence().startswith("Likely it takes")
    assert "dollars" not in found.as_json()
    assert cost.forecast_cost(config_of(CONFIG.replace("max_steps = 20\n", "")), ConfigContext()) is None
