"""What a run may cost: an upper bound for the cap, and a forecast as a range whose every assumption is stated.

The bound is what a cap reserves and a question names first. The forecast says what is likely: time of a step is that of
its generation or of its training, whichever is longer, as prime-rl does both at once, and moving the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.configs.evidence import observe, pushed
from prime_lab_mcp.lab.configs.observed import Observed, estimate
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models import find
from prime_lab_mcp.lab.text import quote

MINUTES_PER_STEP = 6.0
"""Upper bound for a small step with generation, training and weight transfer (judgement from prime-rl's recipes)."""
START_HOURS = 0.5
TOKENS_PER_GPU_SECOND = 2500.0
SLACK = 2.0
"""Generation may take this much longer than at the assumed speed, before it counts as an overrun."""
_DATE = "2026-11-22"
_SPEED = (8000.0, TOKENS_PER_GPU_SECOND, 800.0)
"""Tokens one GPU decodes in a second, for fewest, expected and most hours, up to `_SPEED_SIZE` active parameters."""
_SPEED_SIZE = 8.0
_SWITCH_SECONDS = (5.0, 20.0, 60.0)
_START = (0.1, 0.25, START_HOURS)
_PEAK_FLOPS = 989e12
_UTILISATION = (0.45, 0.25, 0.10)
_UNMEASURED = (0.25, 0.5, 1.0)
"""Shares of the token limit that a rollout is taken to use where no eval counted."""


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars. `max_cost` None: no price is known, or the run has no end."""

    price_per_hour: float | None
    max_cost: float | None
    hours: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """One number of a forecast, from the cheapest to the dearest case, and what it rests on."""

    name: str
    values: tuple[float, float, float]
    unit: str
    source: str

    def as_json(self) -> dict[str, Any]:
        low, expected, high = (round(v, 4) for v in self.values)
        return {
            "name": self.name, "low": low, "expected": expected, "high": high, "unit": self.unit,
            "source": self.source,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Forecast:
    """Hours and US dollars at fewest, expected and most; dollars None without a price. Never above the bound."""

    hours: tuple[float, float, float]
    dollars: tuple[float, float, float] | None
    upper_bound: float | None
    discarded_share: float | None
    """Share of rollouts that are paid for and carry no gradient."""
    multiplier: float | None
    """Rollouts that are generated for one that carries a gradient."""
    per_gradient_rollout: float | None
    assumptions: tuple[Assumption, ...]

    def as_json(self) -> dict[str, Any]:
        def spread(values: tuple[float, float, float], digits: int) -> dict[str, float]:
            return dict(zip(("low", "expected", "high"), (round(v, digits) for v in values), strict=True))

        shown: dict[str, Any] = {"hours": spread(self.hours, 2)}
        if self.dollars is not None:
            shown["dollars"] = spread(self.dollars, 2)
        for name, value, digits in (
            ("upper_bound", self.upper_bound, 2),
            ("discarded_share", self.discarded_share, 3),
            ("signal_multiplier", self.multiplier, 2),
            ("dollars_per_gradient_rollout", self.per_gradient_rollout, 6),
        ):
            if value is not None:
                shown[name] = round(value, digits)
        return shown | {"assumptions": [a.as_json() for a in self.assumptions]}

    def sentence(self) -> str:
        """The forecast for a person, in one breath."""
        low, likely, high = self.hours
        time = f"{_hours(likely)} (between {_hours(low)} and {_hours(high)})"
        if self.dollars is None:
            said = f"Likely it takes {time}"
        else:
            cheap, usual, dear = self.dollars
            said = f"Likely it costs ${usual:.2f} (between ${cheap:.2f} and ${dear:.2f}) in {time}"
        if self.multiplier is None:
            return f"{said}, by our judgement of speeds; how many rollouts will carry a gradient was not measured."
        share = f"{self.discarded_share or 0.0:.0%} of the rollouts will carry no gradient"
        each = f", so one that does costs ${self.per_gradient_rollout:.4f}" if self.per_gradient_rollout else ""
        return f"{said}, by our judgement of speeds; {share}, as the evaluation measured{each}."


@dataclass(frozen=True, slots=True)
class Tokens:
    """Of one rollout, prompt included, at fewest, expected and most; `source` says who counted."""

    values: tuple[float, float, float]
    source: str


async def cost_of(lab: Lab, config: Config, first_step: int = 0) -> Cost:
    """`bound` at the price that the platform names now. Raises PrimeError."""
    return bound(config, (await lab.prime.models()).price(config.gpu_type), first_step)


def bound(config: Config, price_per_gpu_hour: float | None, first_step: int = 0) -> Cost:
    """An upper bound on what a run costs, with the assumptions it rests on."""
    price = None if price_per_gpu_hour is None else round(price_per_gpu_hour * config.gpus, 4)
    if price is None:
        gpu = f" for {quote(config.gpu_type, 60)}" if config.gpu_type else ""
        return Cost(None, None, None, f"the platform names no hourly price{gpu}")
    if config.max_steps is None:
        return Cost(price, None, None, "the config sets no max_steps, so the run never ends by itself")
    hours = _most_hours(config, config.max_steps - first_step)
    minutes = 60 * (hours - START_HOURS) / max(1, config.max_steps - first_step)
    why = f"at most {hours:.1f} h: {config.max_steps} steps of up to {minutes:.0f} minutes, half an hour to start"
    return Cost(price, round(price * hours, 2), round(hours, 2), why)


def _most_hours(config: Config, steps: int) -> float:
    tokens = (config.batch_size or 0) * (config.max_completion_tokens or config.seq_len)
    generating = SLACK * tokens / (TOKENS_PER_GPU_SECOND * max(1, config.infer_gpus)) / 60
    return START_HOURS + max(0, steps) * max(MINUTES_PER_STEP, generating) / 60


def measured(lab: Lab, config: Config, price_per_gpu_hour: float | None) -> Forecast | None:
    """`forecast` with what the ledger holds about the environments of a config and its model."""
    trained = [(s.owner, s.env_name, s.version) for s in config.train_sources if s.owner]
    return forecast(config, observe(lab, trained, config.model, price_per_gpu_hour), _tokens(lab, config))


def forecast(config: Config, seen: Observed, tokens: Tokens | None = None) -> Forecast | None:
    """None where the file sets no end, or its batch is counted in tokens: then nothing bounds the time."""
    if config.max_steps is None or not config.batch_size or config.shape != "rl" or config.infer_gpus < 1:
        return None
    tokens = tokens or _assumed(config, seen)
    signal = estimate(config, seen)
    factor = signal.generation_factor if signal else 1.0
    # The file alone says how large the model is; where it names none that is known, 8 billion are taken.
    size = find(config.model).active or _SPEED_SIZE
    assumptions = _assumptions(config, tokens, size)
    made = [config.batch_size * factor * per_rollout for per_rollout in assumptions[0].values]
    hours = []
    for case, total in enumerate(made):
        generating = total / (assumptions[1].values[case] * config.infer_gpus)
        learning = 8e9 * size * (total / factor) / (
            _PEAK_FLOPS * assumptions[2].values[case] * max(1, config.train_gpus)
        )  # fmt: skip
        step = max(generating, learning) + assumptions[3].values[case]
        hours.append(min(assumptions[4].values[case] + config.max_steps * step / 3600, _ceiling(config)))
    low, likely, high = hours
    price = seen.price_per_gpu_hour * config.gpus if seen.price_per_gpu_hour is not None else None
    dollars = (low * price, likely * price, high * price) if price is not None else None
    carrying = signal.gradient_rollouts * config.max_steps if signal else 0.0
    return Forecast(
        hours=(low, likely, high),
        dollars=dollars,
        upper_bound=bound(config, seen.price_per_gpu_hour).max_cost,
        discarded_share=signal.discarded_share if signal else None,
        multiplier=config.batch_size * factor / signal.gradient_rollouts if signal and carrying else None,
        per_gradient_rollout=dollars[1] / carrying if dollars and carrying else None,
        assumptions=(*assumptions, *_signal(config, seen)),
    )


def _ceiling(config: Config) -> float:
    return _most_hours(config, config.max_steps or 0)


def _assumptions(config: Config, tokens: Tokens, size: float) -> tuple[Assumption, ...]:
    slower = max(1.0, size / _SPEED_SIZE)
    fast, usual, slow = (speed / slower for speed in _SPEED)
    sized = f", slower in proportion above {_SPEED_SIZE:g} billion active parameters (here {size:g})"
    return (
        Assumption("tokens_per_rollout", tokens.values, "tokens", tokens.source),
        Assumption(
            "generation_speed", (fast, usual, slow), "tokens per inference GPU and second",
            f"our judgement for vLLM with many sequences at once{sized}, {_DATE}",
        ),
        Assumption(
            "trainer_utilisation", _UTILISATION, "share of 989 TFLOP/s a GPU",
            "8 operations a parameter and token (6, and 2 for recomputing activations), dense bf16 peak of NVIDIA's "
            f"H100 and H200 data sheets; the share is our judgement, {_DATE}",
        ),
        Assumption("weight_transfer", _SWITCH_SECONDS, "seconds a step", f"our judgement, {_DATE}"),
        Assumption("start", _START, "hours", f"our judgement of queue, image and model loading, {_DATE}"),
    )  # fmt: skip


def _signal(config: Config, seen: Observed) -> tuple[Assumption, ...]:
    if seen.usable is None:
        return ()
    at = f"groups of {seen.usable_group}" if seen.usable_group else "groups"
    here = f"; the config has groups of {config.group_size}" if seen.usable_group != config.group_size else ""
    share = seen.usable
    return (
        Assumption(
            "usable_groups", (share, share, share), f"share of {at} with a gradient",
            f"measured by the evaluation of the untrained model{here}; it changes as the model learns",
        ),
    )  # fmt: skip


def _tokens(lab: Lab, config: Config) -> Tokens | None:
    """Tokens of a rollout as this model's evals counted them, of the environment with the longest ones."""
    found = []
    for source in config.train_sources:
        push = pushed(lab, source.owner, source.env_name, source.version) if source.owner else None
        if push is None:
            continue
        for row in lab.ledger.evidence(push.workspace, environment=push.environment):
            if row.source == push.source and row.model == config.model and row.platform in (None, lab.platform):
                inner = row.data.get("distribution")
                counted = _counted({**row.data, **(inner if isinstance(inner, Mapping) else {})})
                if counted is not None:
                    found.append(counted)
                    break
    if not found:
        return None
    return Tokens(max(found, key=lambda v: v[1]), "counted by the evaluation of the untrained model: p50, between, p95")


def _counted(data: Mapping[str, Any]) -> tuple[float, float, float] | None:
    def of(key: str, name: str) -> float | None:
        value = data[key].get(name) if isinstance(data.get(key), Mapping) else None
        return float(value) if isinstance(value, (int, float)) and value > 0 else None

    middle, high = of("completion_tokens", "p50"), of("completion_tokens", "p95")
    if middle is None or high is None:
        return None
    prompt = of("prompt_tokens", "p50") or 0.0
    # Lengths lean to the right: the mean lies between median and p95, and growth during training above it.
    return prompt + middle, prompt + (middle + high) / 2, prompt + high


def _assumed(config: Config, seen: Observed) -> Tokens:
    limit = config.max_completion_tokens or config.seq_len
    if seen.completion_tokens is not None:
        prompt, most = seen.prompt_tokens or 0, seen.completion_tokens
        low, likely, high = (prompt + share * most for share in (0.3, 0.6, 1.0))
        return Tokens((low, likely, high), "shares (0.3, 0.6, 1) of the measured p95 of completions; judgement")
    low, likely, high = ((seen.prompt_tokens or 0) + share * limit for share in _UNMEASURED)
    return Tokens((low, likely, high), f"shares (0.25, 0.5, 1) of the limit of {limit:,} tokens; nobody measured it")


def _hours(hours: float) -> str:
    return f"{60 * hours:.0f} min" if hours < 1 else f"{hours:.1f} h"
