"""Suggestions that make a run faster, each with its cost in signal, where an evaluation or the file supports it.

Two numbers of an evaluation determine a Beta distribution over tasks up to its mirror image, which has the same share
of usable groups: the learnability E[p(1-p)], and the share of groups with a gradient at one group size.

The settings are those of a table of January 2026, "Key Config Parameters for Speed", under today's names. Its
`oversampling_factor` has no successor: a gate resamples, and `concurrency` bounds the rollouts in flight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.statistics import LOG_HIGH
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import (
    MIN_BATCH,
    MIN_GROUP,
    MIN_GROUPS,
    ConfigContext,
    ConfigRule,
    estimate_batch,
    gates_resample,
)
from prime_lab_mcp.lab.configs.rules.step import COMPLETION_MARGIN
from prime_lab_mcp.lab.distribution.signal import expected_power

_ROUNDS = 50


def usable_share_at(context: ConfigContext, group: int) -> float | None:
    """The share of groups of this size with two different rewards; None where the evaluation does not determine it."""
    usable, size, spread = context.usable, context.usable_group, context.learnability
    if usable is None or size is None or size < 2 or group < 2:
        return None
    if group == size:
        return usable
    if spread is None or not 0 < spread < 0.25 or not 0 < usable < 1:
        return None
    alike, apart = (1 - math.sqrt(1 - 4 * spread)) / 2, 0.5
    for _ in range(_ROUNDS):
        middle = (alike + apart) / 2
        if _usable(middle, spread, size) > usable:
            alike = middle
        else:
            apart = middle
    return _usable((alike + apart) / 2, spread, group)


def _usable(mean: float, spread: float, group: int) -> float:
    """The share for a Beta distribution. Where tasks differ less than the measured spread allows, all tasks count as
    equal."""
    room = mean * (1 - mean) - spread
    concentration = min(spread / room, math.exp(LOG_HIGH)) if room > 0 else math.exp(LOG_HIGH)
    return 1 - expected_power(concentration, mean, group) - expected_power(concentration, 1 - mean, group)


FAR_BELOW_BUDGET = 2.0
"""A completion budget of this many times the need gives a suggestion (our judgement)."""
KEPT_SIGNAL_SHARE = 0.8
"""Share of its gradient that a step must retain with half its rollouts to be worth suggesting (our judgement; a half
would be even)."""
COSTLY_SHARE = 4.0
"""Generation factor from which `config-costly-gate` warns."""
_SEQUENCES, _BATCHED = 512, 8192
"""Values of max_num_seqs and max_num_batched_tokens in the table named above."""
_VLLM = "inference.vllm"


def fewer_tokens(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Suggests a smaller completion budget. A step waits for its longest rollout, and a runaway rollout fills the
    budget."""
    budget, typical = config.max_completion_tokens, context.completion_tokens
    if budget is None or typical is None:
        return
    enough = -(-int(COMPLETION_MARGIN * typical) // 128) * 128
    if context.longest is not None and context.longest > enough and context.longest * FAR_BELOW_BUDGET <= budget:
        enough = -(-context.longest // 128) * 128
    if budget < FAR_BELOW_BUDGET * enough:
        return
    cut = "under 1%" if context.longest is not None and context.longest <= enough else "under 5%"
    yield _faster(
        f"max_completion_tokens {budget:,} is {budget / typical:.1f} times the {typical:,} tokens (95th percentile) "
        f"that the evaluation measured. At {enough:,} a rollout that runs away, and its step waits for it, ends up to "
        f"{budget / enough:.1f} times sooner; {cut} of the measured rollouts would be cut.",
        f"Set it to {enough}, unless training is meant to make replies longer; seq_len may follow.",
        "orchestrator.train.sampling.max_completion_tokens",
    )


def fewer_rollouts(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Suggests half the rollouts per task and per batch: the same tasks in a step at half the generation."""
    batch, group = config.batch_size, config.group_size
    half = group // 2
    if batch is None or half < MIN_GROUP or group % 2 or batch // 2 < MIN_BATCH or gates_resample(config):
        return
    now, then = usable_share_at(context, group), usable_share_at(context, half)
    if (
        not now
        or not then
        or then < KEPT_SIGNAL_SHARE * now
        or batch / group * then < MIN_GROUPS
        or batch / 2 * then < MIN_BATCH
    ):
        return
    yield _faster(
        f"group_size {half} with batch_size {batch // 2} generates half the rollouts a step: about 2 times faster. Its "
        f"price: {then:.0%} instead of {now:.0%} of groups carry a gradient, so {batch / group * then:.1f} instead of "
        f"{batch / group * now:.1f} groups a step teach, each by half the rollouts (extrapolated from the evaluation).",
        f"Set orchestrator.group_size = {half} and orchestrator.batch_size = {batch // 2}.",
        "orchestrator.group_size",
    )


def prefix_caching(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Reports disabled prefix caching. All rollouts of a group share a prompt, and vLLM caches prefixes by default."""
    where = f"{_VLLM}.enable_prefix_caching"
    if config.at(where) is not False:
        return
    share = ""
    if context.prompt_tokens and context.completion_tokens:
        part = context.prompt_tokens / (context.prompt_tokens + context.completion_tokens)
        share = f"; prompts are up to {part:.0%} of a rollout's tokens"
    yield _faster(
        f"enable_prefix_caching is off: the prompt of a task is computed {config.group_size} times instead of once"
        f"{share}. Runs of January 2026 were 10 to 20% faster with it. It costs no signal.",
        f"Remove {where}, or set it to true.",
        where,
    )


def sequences(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Reports a low bound on concurrent sequences. vLLM's default fits the GPU (256, or 1024 from 70 GB on)."""
    batch = config.batch_size
    if batch is None:
        return
    engines = max(1, config.infer_gpus // (config.number(f"{_VLLM}.tensor_parallel_size", 1) or 1))
    where = f"{_VLLM}.max_num_seqs"
    limit = config.number(where)
    if limit is not None and 0 < limit * engines < batch:
        yield _faster(
            f"max_num_seqs {limit} decodes {limit * engines} of a step's {batch} rollouts at once, others wait. More "
            "cost no signal, but memory: where the cache is too small, vLLM computes rollouts again.",
            f"Remove {where}, or set it to {_SEQUENCES} or more.",
            where,
        )
    where = "orchestrator.concurrency.max_inflight"
    bound = config.number(where)
    if bound is not None and config.group_size <= bound < batch:
        yield _faster(
            f"concurrency.max_inflight lets {bound} of a step's {batch} rollouts run at once. More in flight cost "
            "freshness: a rollout may be older by a step or two, up to max_off_policy_steps.",
            f"Set {where} = {batch} or more, or remove it (1024).",
            where,
        )


def batched_tokens(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Reports a low bound on batched tokens, by which long prompts are processed in pieces."""
    where = f"{_VLLM}.max_num_batched_tokens"
    limit = config.number(where)
    if limit is not None and limit < _BATCHED and context.prompt_tokens is not None and context.prompt_tokens > limit:
        yield _faster(
            f"max_num_batched_tokens {limit} is less than one prompt of {context.prompt_tokens} tokens (99th "
            "percentile): prompts are read in several passes. It costs no signal, but some memory.",
            f"Set {where} = {_BATCHED}.",
            where,
        )


def resampling(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Suggests a gate, the successor of oversampling, which generates until the batch is full of groups with a
    gradient."""
    bought = estimate_batch(config, context)
    if (
        bought is None
        or context.usable is None
        or not gates_resample(config)
        or not 1.5 < bought.generation_factor <= COSTLY_SHARE
    ):
        return
    trained = bought.rollouts * context.usable
    if trained < MIN_BATCH:
        return
    yield _faster(
        f"The gate generates about {bought.generation_factor:.1f} times a batch to fill it. Without it a step is that "
        f"much faster and {trained:.0f} instead of {bought.rollouts} rollouts carry a gradient: cheaper steps, no "
        "cheaper gradient.",
        "Remove the gate for more and smaller steps, or drop tasks that are always or never solved, which saves both.",
        "orchestrator.train.source",
    )


SPEED_RULES: tuple[ConfigRule, ...] = (
    fewer_tokens,
    fewer_rollouts,
    prefix_caching,
    sequences,
    batched_tokens,
    resampling,
)


def _faster(message: str, fix: str, where: str) -> Finding:
    return Finding("config-speed", "info", message, fix, where)
