"""Forecasts a run's cost as a range with all its assumptions. The range never exceeds the bound of `training/bound.py`.

The forecast is the likely cost; a question states it beside the bound. prime-rl generates and trains at the same time,
so a step takes the longer of the two times plus the weight transfer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, estimate_batch
from prime_lab_mcp.lab.configs.evidence import gather_context
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.training.bound import (
    START_HOURS,
    CostBound,
    bound_cost,
    bound_from_ledger,
    rollouts_of_evaluations,
)

TOKENS_PER_GPU_SECOND = 2500.0
"""Tokens that one GPU decodes in a second in the expected case."""
_DATE = "2026-11-22"
"""The day of our judgements."""
_SPEED = (8000.0, TOKENS_PER_GPU_SECOND, 800.0)
"""Tokens that one GPU decodes in a second in the cheapest, expected and dearest case, for a model of up to
`_SPEED_SIZE` billion active parameters."""
_SPEED_SIZE = 8.0
_SWITCH_SECONDS = (5.0, 20.0, 60.0)
"""Seconds that the transfer of new weights adds to a step, in the three cases."""
_START = (0.1, 0.25, START_HOURS)
"""Hours until the first step, in the three cases."""
_PEAK_FLOPS = 989e12
_UTILISATION = (0.45, 0.25, 0.10)
"""Shares of `_PEAK_FLOPS` that a training GPU reaches, in the three cases. `_assumptions` states all sources."""
_UNMEASURED = (0.25, 0.5, 1.0)
"""Shares of the token limit that a rollout is assumed to use if no evaluation measured its tokens."""


@dataclass(frozen=True, slots=True)
class CostAssumption:
    """One number of a forecast in the cheapest, expected and dearest case, with its source."""

    name: str
    values: tuple[float, float, float]
    unit: str
    source: str

    def as_json(self) -> dict[str, Any]:
        low, expected, high = (round(v, 4) for v in self.values)
        return {
            "name": self.name,
            "low": low,
            "expected": expected,
            "high": high,
            "unit": self.unit,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class CostForecast:
    """Hours and US dollars in the cheapest, expected and dearest case, never above the bound. Dollars are None without
    a price."""

    hours: tuple[float, float, float]
    dollars: tuple[float, float, float] | None
    upper_bound: float | None
    discarded_share: float | None
    """Share of rollouts that cost money and carry no gradient."""
    multiplier: float | None
    """Rollouts that are generated for each rollout with a gradient."""
    per_gradient_rollout: float | None
    assumptions: tuple[CostAssumption, ...]

    def as_json(self) -> dict[str, Any]:
        def spread(values: tuple[float, float, float], digits: int) -> dict[str, float]:
            return dict(zip(("low", "expected", "high"), (round(v, digits) for v in values), strict=True))

        estimate: dict[str, Any] = {"hours": spread(self.hours, 2)}
        if self.dollars is not None:
            estimate["dollars"] = spread(self.dollars, 2)
        for name, value, digits in (
            ("upper_bound", self.upper_bound, 2),
            ("discarded_share", self.discarded_share, 3),
            ("signal_multiplier", self.multiplier, 2),
            ("dollars_per_gradient_rollout", self.per_gradient_rollout, 6),
        ):
            if value is not None:
                estimate[name] = round(value, digits)
        return estimate | {"assumptions": [a.as_json() for a in self.assumptions]}

    def sentence(self) -> str:
        """The forecast as text for a person."""
        low, likely, high = self.hours
        time = f"{_hours(likely)} (between {_hours(low)} and {_hours(high)})"
        if self.dollars is None:
            text = f"Likely it takes {time}"
        else:
            cheap, usual, dear = self.dollars
            text = f"Likely it costs ${usual:.2f} (between ${cheap:.2f} and ${dear:.2f}) in {time}"
        if self.multiplier is None:
            return f"{text}, by our judgement of speeds; how many rollouts will carry a gradient was not measured."
        share = f"{self.discarded_share or 0.0:.0%} of the rollouts will carry no gradient"
        each = f", so one that does costs ${self.per_gradient_rollout:.4f}" if self.per_gradient_rollout else ""
        return f"{text}, by our judgement of speeds; {share}, as the evaluation measured{each}."


@dataclass(frozen=True, slots=True)
class RolloutTokens:
    """Tokens of one rollout, prompt included, in the cheapest, expected and dearest case, with their source."""

    values: tuple[float, float, float]
    source: str


def forecast_from_ledger(lab: Lab, config: TrainingConfig, price_per_gpu_hour: float | None) -> CostForecast | None:
    """Forecast the cost with the ledger's evidence about the model and the environments of a config."""
    context = gather_context(lab, config.train_sources, config.model, price_per_gpu_hour)
    return forecast_cost(
        config, context, _tokens(lab, config), bound_from_ledger(lab, config, price_per_gpu_hour or 0.0)
    )


def _upper_bound(price: float | None, bound: CostBound) -> float | None:
    """The bound in US dollars: `bound.max_cost` if the price is the same, else the bound's hours at this price."""
    if bound.max_cost is not None and bound.price_per_hour == price:
        return bound.max_cost
    return round(price * bound.hours, 2) if price is not None and bound.hours is not None else None


def forecast_cost(
    config: TrainingConfig,
    context: ConfigContext,
    tokens: RolloutTokens | None = None,
    bound: CostBound | None = None,
) -> CostForecast | None:
    """Forecast the cost of a run. Returns None if the config sets no end, or has no batch size or inference GPUs.

    `bound` limits the forecast. Without it, the bound of the config alone is the limit.
    """
    in_tokens = config.number("orchestrator.token_batch_size")
    if config.max_steps is None or config.shape != "rl" or config.infer_gpus < 1:
        return None
    if not config.batch_size and not in_tokens:
        return None
    tokens = tokens or _assumed(config, context)
    signal = estimate_batch(config, context)
    factor = signal.generation_factor if signal else 1.0
    # The size follows from the model's name in the config. An unknown model counts as 8 billion parameters.
    size = find_model(config.model).active or _SPEED_SIZE
    assumptions = _assumptions(config, tokens, size)
    if config.batch_size:
        generated = [config.batch_size * factor * per_rollout for per_rollout in assumptions[0].values]
    else:
        generated = [float(in_tokens or 0)] * 3
    evaluated = rollouts_of_evaluations(config, context)
    bound = bound or bound_cost(config, context.price_per_gpu_hour or 0.0, context)
    most = math.inf if bound.hours is None else bound.hours
    hours = []
    for case, total in enumerate(generated):
        speed = assumptions[1].values[case] * config.infer_gpus
        learning = (
            8e9 * size * (total / factor) / (_PEAK_FLOPS * assumptions[2].values[case] * max(1, config.train_gpus))
        )
        step = max(total / speed, learning) + assumptions[3].values[case]
        evaluating = evaluated * assumptions[0].values[case] / speed
        hours.append(min(assumptions[4].values[case] + (config.max_steps * step + evaluating) / 3600, most))
    low, likely, high = hours
    price = context.price_per_gpu_hour * config.gpus if context.price_per_gpu_hour is not None else None
    dollars = (low * price, likely * price, high * price) if price is not None else None
    carrying = signal.gradient_rollouts * config.max_steps if signal else 0.0
    return CostForecast(
        hours=(low, likely, high),
        dollars=dollars,
        upper_bound=_upper_bound(price, bound),
        discarded_share=signal.discarded_share if signal else None,
        multiplier=signal.rollouts * factor / signal.gradient_rollouts if signal and carrying else None,
        per_gradient_rollout=dollars[1] / carrying if dollars and carrying else None,
        assumptions=(*assumptions, *_signal(config, context)),
    )


def _assumptions(config: TrainingConfig, tokens: RolloutTokens, size: float) -> tuple[CostAssumption, ...]:
    slower = max(1.0, size / _SPEED_SIZE)
    fast, usual, slow = (speed / slower for speed in _SPEED)
    sized = f", slower in proportion above {_SPEED_SIZE:g} billion active parameters (here {size:g})"
    return (
        CostAssumption("tokens_per_rollout", tokens.values, "tokens", tokens.source),
        CostAssumption(
            "generation_speed",
            (fast, usual, slow),
            "tokens per inference GPU and second",
            f"our judgement for vLLM with many sequences at once{sized}, {_DATE}",
        ),
        CostAssumption(
            "trainer_utilisation",
            _UTILISATION,
            "share of 989 TFLOP/s a GPU",
            "8 operations a parameter and token (6, and 2 for recomputing activations), dense bf16 peak of NVIDIA's "
            f"H100 and H200 data sheets; the share is our judgement, {_DATE}",
        ),
        CostAssumption("weight_transfer", _SWITCH_SECONDS, "seconds a step", f"our judgement, {_DATE}"),
        CostAssumption("start", _START, "hours", f"our judgement of queue, image and model loading, {_DATE}"),
    )


def _signal(config: TrainingConfig, context: ConfigContext) -> tuple[CostAssumption, ...]:
    if context.usable is None:
        return ()
    at = f"groups of {context.usable_group}" if context.usable_group else "groups"
    size_note = f"; the config has groups of {config.group_size}" if context.usable_group != config.group_size else ""
    share = context.usable
    return (
        CostAssumption(
            "usable_groups",
            (share, share, share),
            f"share of {at} with a gradient",
            f"measured by the evaluation of the untrained model{size_note}; it changes as the model learns",
        ),
    )


def _tokens(lab: Lab, config: TrainingConfig) -> RolloutTokens | None:
    """Tokens of a rollout as evaluations of this model measured them, for the environment with the longest rollouts."""
    tokens = []
    for source in config.train_sources:
        push = lab.newest_push(source.owner, source.env_name, source.version) if source.owner else None
        if push is None:
            continue
        for row in lab.ledger.evidence(push.workspace, source=push.source):
            if row.model == config.model and row.platform in (None, lab.platform):
                inner = row.data.get("distribution")
                tokens_of_row = _token_counts({**row.data, **(inner if isinstance(inner, Mapping) else {})})
                if tokens_of_row is not None:
                    tokens.append(tokens_of_row)
                    break
    if not tokens:
        return None
    return RolloutTokens(
        max(tokens, key=lambda v: v[1]), "counted by the evaluation of the untrained model: p50, between, p95"
    )


def _token_counts(data: Mapping[str, Any]) -> tuple[float, float, float] | None:
    def of(key: str, name: str) -> float | None:
        value = data[key].get(name) if isinstance(data.get(key), Mapping) else None
        return float(value) if isinstance(value, (int, float)) and value > 0 else None

    middle, high = of("completion_tokens", "p50"), of("completion_tokens", "p95")
    if middle is None or high is None:
        return None
    prompt = of("prompt_tokens", "p50") or 0.0
    # Lengths are skewed to the right, so their mean lies between the median and p95. Lengths grow during training.
    return prompt + middle, prompt + (middle + high) / 2, prompt + high


def _assumed(config: TrainingConfig, context: ConfigContext) -> RolloutTokens:
    limit = config.max_completion_tokens or config.seq_len
    if context.completion_tokens is not None:
        prompt, most = context.prompt_tokens or 0, context.completion_tokens
        low, likely, high = (prompt + share * most for share in (0.3, 0.6, 1.0))
        return RolloutTokens((low, likely, high), "shares (0.3, 0.6, 1) of the measured p95 of completions; judgement")
    low, likely, high = ((context.prompt_tokens or 0) + share * limit for share in _UNMEASURED)
    return RolloutTokens(
        (low, likely, high), f"shares (0.25, 0.5, 1) of the limit of {limit:,} tokens; nobody measured it"
    )


def _hours(hours: float) -> str:
    return f"{60 * hours:.0f} min" if hours < 1 else f"{hours:.1f} h"
