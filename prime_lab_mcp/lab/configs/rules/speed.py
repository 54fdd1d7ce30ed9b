"""Suggestions that make a run faster, each with its cost in training signal.

Smaller groups have another share of usable groups. The module estimates this share from two measured numbers: the
learnability E[p(1-p)] over the solve rates p of tasks, and the share of usable groups at one group size. They determine
a beta distribution of solve rates up to its mirror image, which has the same share.

The settings are those of this project's table "Key Config Parameters for Speed" of January 2026, under the present
names of the keys.
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
from prime_lab_mcp.lab.configs.rules.step import COMPLETION_MARGIN, COSTLY_GENERATION
from prime_lab_mcp.lab.distribution.signal import expected_power

_ROUNDS = 50


def usable_share_at(context: ConfigContext, group: int) -> float | None:
    """Return the share of usable groups at this group size. None if the evaluation does not determine it."""
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
    """Return the share of usable groups for a beta distribution of solve rates.

    `mean` is the mean of the solve rates p, and `spread` the mean of p(1-p). If no beta distribution has both values,
    all tasks count as equal.
    """
    room = mean * (1 - mean) - spread
    concentration = min(spread / room, math.exp(LOG_HIGH)) if room > 0 else math.exp(LOG_HIGH)
    return 1 - expected_power(concentration, mean, group) - expected_power(concentration, 1 - mean, group)


FAR_BELOW_BUDGET = 2.0
"""A token limit that is this many times the needed one gives a suggestion (our judgement)."""
RETAINED_SIGNAL = 0.8
"""Half the rollouts are suggested if they retain this share of the usable groups (our judgement; with 0.5, the signal
per rollout would be the same)."""
_SEQUENCES, _BATCHED = 512, 8192
"""Values of max_num_seqs and max_num_batched_tokens in the table of January 2026."""
_VLLM = "inference.vllm"


def fewer_tokens(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Suggests a lower token limit. A step waits for its longest rollout, and a runaway rollout uses the whole
    limit."""
    budget, typical = config.max_completion_tokens, context.completion_tokens
    if budget is None or typical is None or context.stand_in:
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
    """Suggests half the group size and half the batch: a step has the same tasks with half the rollouts."""
    batch, group = config.batch_size, config.group_size
    half = group // 2
    if batch is None or half < MIN_GROUP or group % 2 or batch // 2 < MIN_BATCH or gates_resample(config):
        return
    now, then = usable_share_at(context, group), usable_share_at(context, half)
    if (
        not now
        or not then
        or then < RETAINED_SIGNAL * now
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
    """Reports disabled prefix caching. All rollouts of a group have the same prompt, which vLLM otherwise caches."""
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
    """Reports low limits of concurrent sequences or rollouts.

    vLLM's default for max_num_seqs depends on the GPU: 256, or 1024 from 70 GB of memory on.
    """
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
    """Reports a low limit of batched tokens, which makes vLLM process long prompts in pieces."""
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
    """Suggests removing a gate that generates many more rollouts than the batch has.

    A gate resamples until the batch is full of groups with a gradient. Without it, steps are faster and have fewer
    rollouts with a gradient.
    """
    estimate = estimate_batch(config, context)
    if (
        estimate is None
        or context.usable is None
        or not gates_resample(config)
        or not 1.5 < estimate.generation_factor <= COSTLY_GENERATION
    ):
        return
    trained = estimate.rollouts * context.usable
    if trained < MIN_BATCH:
        return
    yield _faster(
        f"The gate generates about {estimate.generation_factor:.1f} times a batch to fill it. Without it a step is "
        f"that much faster and {trained:.0f} instead of {estimate.rollouts} rollouts carry a gradient: cheaper steps, "
        "no cheaper gradient.",
        "Remove the gate for more and smaller steps"
        + (
            ", or drop tasks that are always or never solved, which saves both."
            if context.never_or_always != 0
            else "."
        ),
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
