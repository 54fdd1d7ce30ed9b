"""Bounds how many groups prime-rl draws for each group of a batch.

Gates of a curriculum reject groups. Without a gate, prime-rl collects a batch anew, for the same step, if no rollout of
it has an advantage (`filter_zero_advantages`; orchestrator.py and train_sink.py, 559b4477).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import as_mapping, count, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, value_at
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
_LIKELY = 0.5
"""Share of usable groups with which batches are seldom empty, where no evaluation measured it (our judgement)."""
_SELDOM = 0.02
"""Share of empty batches below which they are not counted: the slow end of our speeds holds them."""
_WITHOUT_ADVANTAGES = frozenset({"sft", "opd", "opsd", "echo"})
"""Algorithms of prime-rl with which rollouts without an advantage teach as well, so that no batch is empty."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Rollouts that are played for each rollout of a batch. `why` follows the reasons of a bound."""

    factor: float
    why: str = ""
    left_out: str = ""
    """What the factor does not count, for the question."""


def draws_of(config: TrainingConfig, context: ConfigContext) -> Draws:
    """Return the most rollouts for each one of a batch. Raises UnboundedError."""
    draws = [_draws_of_source(config, context, source) for source in config.train_sources if _gates(source)]
    anew = _batches_anew(config, context)
    return replace(max(*draws, anew, key=lambda one: one.factor) if draws else anew, left_out=anew.left_out)


def _batches_anew(config: TrainingConfig, context: ConfigContext) -> Draws:
    """The batches that are collected for each step, because those without a usable group train nothing."""
    ungated = [source for source in config.train_sources if not _gates(source) and _needs_advantages(config, source)]
    if not ungated or config.at("orchestrator.train.filter_zero_advantages") is False:
        return Draws(1.0)
    group = max(1, *map(config.group_of, ungated))
    tokens = config.number("orchestrator.token_batch_size")
    rollouts = ceil(tokens / max(1, config.seq_len)) if tokens else (config.batch_size or 1)
    groups = max(1, rollouts // group)
    shares = [_usable_share(config, context, source) for source in ungated]
    known = [share for share in shares if share is not None]
    anew = f"a batch of {count(groups, 'group')} is collected anew where no group is usable"
    unmeasured = len(known) < len(shares) and (1 - _LIKELY) ** groups > _SELDOM
    left_out = f"{anew}, and how often was not measured, so that the bound leaves it out" if unmeasured else ""
    empty = (1 - min(1.0, min(known) / _SHRINKING)) ** groups if known else 0.0
    if empty <= _SELDOM:
        return Draws(1.0, "", left_out)
    factor = min(float(_EMPTY_BATCHES), 1 / (1 - empty))
    return Draws(factor, f"; {factor:,.1f} batches are counted for each step: {anew}", left_out)


def _needs_advantages(config: TrainingConfig, source: ConfigSource) -> bool:
    own = value_at(source.table.get("algo"), "type")
    return (own or config.at("orchestrator.algo.type") or "grpo") not in _WITHOUT_ADVANTAGES


def _usable_share(config: TrainingConfig, context: ConfigContext, source: ConfigSource) -> float | None:
    """The share of usable groups at the source's group size; None if no evaluation measured it."""
    measured = context.each.get(source.id)
    usable, among = (
        (measured.usable, measured.usable_group) if measured is not None else (context.usable, context.usable_group)
    )
    group = max(1, config.group_of(source))
    if usable is None or group < 2 or (measured is not None and measured.unvouched):
        return None
    # Two unequal rewards among many rollouts are unequal within one of the overlapping smaller groups, too.
    return usable / ceil((among - 1) / (group - 1)) if among is not None and among > group else usable


def _draws_of_source(config: TrainingConfig, context: ConfigContext, source: ConfigSource) -> Draws:
    group = max(1, config.group_of(source))
    if group == 1 or any(map(_rejects_more, _gates(source))):
        return _worst(config, source)
    usable = _usable_share(config, context, source)
    if usable is None:
        raise UnboundedError(
            GATES_KEY,
            "a gate samples groups anew until they are usable, and no evaluation at an endpoint of the platform or of "
            "the user measured how often that happens",
            Fix("Run ", NamedCall("run_eval"), " with this model on the environment, or remove the gates."),
        )
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
