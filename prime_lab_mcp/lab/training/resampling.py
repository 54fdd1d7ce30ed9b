"""Bounds how many groups prime-rl draws for each group of a batch, where gates of a curriculum reject groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import as_mapping, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.training.episode_bound import UnboundedError

GATES_KEY = "orchestrator.train.source.curriculum.gates"
_SHRINKING = 2.0
"""Factor on the number of groups that a gate draws for each usable group, as the evaluation measured it. The factor is
above 1 because the share of usable groups shrinks as the model learns (our judgement)."""
_EMPTY_BATCHES = 10
"""Batches without an admitted group after which prime-rl ends a run (`MAX_CONSECUTIVE_ZERO_OUTPUT_BATCH_EQUIVALENTS` in
train_sink.py). One admitted group begins the count anew."""

_BY_ADVANTAGE = "advantage_range"


@dataclass(frozen=True, slots=True)
class Draws:
    """Rollouts that are played for each rollout of a batch. `why` follows the reasons of a bound."""

    factor: float
    why: str = ""


def draws_of(config: TrainingConfig, context: ConfigContext) -> Draws:
    """Return the most rollouts for each one of a batch. Raises UnboundedError."""
    draws = [_draws_of_source(config, context, source) for source in config.train_sources if _gates(source)]
    return max(draws, key=lambda one: one.factor, default=Draws(1.0))


def _draws_of_source(config: TrainingConfig, context: ConfigContext, source: ConfigSource) -> Draws:
    group = max(1, config.group_of(source))
    if group == 1 or any(map(_rejects_more, _gates(source))):
        return _worst(config, source)
    measured = context.each.get(source.id)
    usable, among = (
        (measured.usable, measured.usable_group) if measured is not None else (context.usable, context.usable_group)
    )
    if usable is None:
        raise UnboundedError(
            GATES_KEY,
            "a gate samples groups anew until they are usable, and no evaluation measured how often that happens",
            Fix("Run ", NamedCall("run_eval"), " with this model on the environment, or remove the gates."),
        )
    if among is not None and among > group:
        # Two unequal rewards among many rollouts are unequal within one of the overlapping smaller groups, too.
        usable /= ceil((among - 1) / (group - 1))
    factor = _SHRINKING / max(usable, 1e-3)
    return Draws(factor, f"; {factor:,.1f} rollouts are counted for each one of a batch, because a gate draws anew")


def _worst(config: TrainingConfig, source: ConfigSource) -> Draws:
    """The draws if each group of a batch comes after as many rejected ones as prime-rl accepts."""
    batch = config.batch_size
    if config.number("orchestrator.token_batch_size") or not batch:
        raise UnboundedError(
            GATES_KEY,
            f"a gate of {quote(source.name, 60)} rejects more than groups without a difference, and a batch in tokens "
            "may need any number of groups",
            "Remove reject_min and reject_max of the gate (0 and 0 are the defaults), or set orchestrator.batch_size.",
        )
    factor = 1.0 + _EMPTY_BATCHES * ceil(batch / max(1, config.group_of(source)))
    return Draws(
        factor,
        f"; {factor:,.0f} rollouts are counted for each one of a batch, because a gate of {quote(source.name, 60)} may "
        f"reject nearly every group, and prime-rl ends a run only after {_EMPTY_BATCHES} batches without one",
    )


def _gates(source: ConfigSource) -> list[Any]:
    gates = as_mapping(source.table.get("curriculum")).get("gates")
    return list(gates.values()) if isinstance(gates, Mapping) else []


def _rejects_more(gate: Any) -> bool:
    """Whether a gate rejects groups besides those in which all rewards are the same."""
    table = as_mapping(gate)
    limits = [table.get(key, 0) for key in ("reject_min", "reject_max")]
    return any(limit != 0 for limit in limits) or table.get("type", _BY_ADVANTAGE) != _BY_ADVANTAGE
