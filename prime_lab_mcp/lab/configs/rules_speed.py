"""What would make a run faster, each with what it costs in signal; only where an evaluation or the file supports it.

The settings are those of the seed's table "Key Config Parameters for Speed" (January 2026), under today's names; its
`oversampling_factor` has no successor: a gate resamples, and `concurrency` bounds what is in flight.
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.configs.observed import MIN_BATCH, MIN_GROUPS, Observed, Rule, estimate, gates_resample
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.configs.rules_batch import MIN_GROUP
from prime_lab_mcp.lab.configs.rules_tokens import COMPLETION_MARGIN
from prime_lab_mcp.lab.configs.speed import usable_at
from prime_lab_mcp.lab.report import Finding

FAR = 2.0
"""A budget this many times what is needed is called far above it (judgement)."""
KEPT = 0.8
"""Share of its gradient that a step must keep for half its rollouts to be a bargain (judgement; half would be even)."""
COSTLY = 4.0
"""Generation factor from which on `config-costly-gate` warns."""
_SEQUENCES, _BATCHED = 512, 8192
"""The max_num_seqs and max_num_batched_tokens that the seed's runs ended with."""
_VLLM = "inference.vllm"


def fewer_tokens(config: Config, seen: Observed) -> Iterator[Finding]:
    """A step waits for its longest rollout, and what runs away runs to the budget."""
    budget, measured = config.max_completion_tokens, seen.completion_tokens
    if budget is None or measured is None:
        return
    enough = -(-int(COMPLETION_MARGIN * measured) // 128) * 128
    if seen.longest is not None and seen.longest > enough and seen.longest * FAR <= budget:
        enough = -(-seen.longest // 128) * 128
    if budget < FAR * enough:
        return
    cut = "under 1%" if seen.longest is not None and seen.longest <= enough else "under 5%"
    yield _faster(
        f"max_completion_tokens {budget:,} is {budget / measured:.1f} times the {measured:,} tokens (95th percentile) "
        f"that the evaluation measured. At {enough:,} a rollout that runs away, and its step waits for it, ends up to "
        f"{budget / enough:.1f} times sooner; {cut} of the measured rollouts would be cut.",
        f"Set it to {enough}, unless training is meant to make replies longer; seq_len may follow.",
        "orchestrator.train.sampling.max_completion_tokens",
    )


def fewer_rollouts(config: Config, seen: Observed) -> Iterator[Finding]:
    """Half the rollouts of each task, and so of the batch: the same tasks a step at half the generation."""
    batch, group = config.batch_size, config.group_size
    half = group // 2
    if batch is None or half < MIN_GROUP or group % 2 or batch // 2 < MIN_BATCH or gates_resample(config):
        return
    now, then = usable_at(seen, group), usable_at(seen, half)
    if not now or not then or then < KEPT * now or batch / group * then < MIN_GROUPS or batch / 2 * then < MIN_BATCH:
        return
    yield _faster(
        f"group_size {half} with batch_size {batch // 2} generates half the rollouts a step: about 2 times faster. Its "
        f"price: {then:.0%} instead of {now:.0%} of groups carry a gradient, so {batch / group * then:.1f} instead of "
        f"{batch / group * now:.1f} groups a step teach, each by half the rollouts (extrapolated from the evaluation).",
        f"Set orchestrator.group_size = {half} and orchestrator.batch_size = {batch // 2}.",
        "orchestrator.group_size",
    )


def prefix_caching(config: Config, seen: Observed) -> Iterator[Finding]:
    """All rollouts of a group begin with one prompt. vLLM caches prefixes unless it is told not to."""
    where = f"{_VLLM}.enable_prefix_caching"
    if config.at(where) is not False:
        return
    share = ""
    if seen.prompt_tokens and seen.completion_tokens:
        part = seen.prompt_tokens / (seen.prompt_tokens + seen.completion_tokens)
        share = f"; prompts are up to {part:.0%} of a rollout's tokens"
    yield _faster(
        f"enable_prefix_caching is off: the prompt of a task is computed {config.group_size} times instead of once"
        f"{share}. Runs of January 2026 were 10 to 20% faster with it. It costs no signal.",
        f"Remove {where}, or set it to true.",
        where,
    )


def sequences(config: Config, seen: Observed) -> Iterator[Finding]:
    """What a bound of our own holds back. vLLM's own default fits the GPU (256, or 1024 from 70 GB on)."""
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


def batched_tokens(config: Config, seen: Observed) -> Iterator[Finding]:
    """Long prompts are read in pieces of this size."""
    where = f"{_VLLM}.max_num_batched_tokens"
    limit = config.number(where)
    if limit is not None and limit < _BATCHED and seen.prompt_tokens is not None and seen.prompt_tokens > limit:
        yield _faster(
            f"max_num_batched_tokens {limit} is less than one prompt of {seen.prompt_tokens} tokens (99th percentile): "
            "prompts are read in several passes. It costs no signal, but some memory.",
            f"Set {where} = {_BATCHED}.",
            where,
        )


def resampling(config: Config, seen: Observed) -> Iterator[Finding]:
    """The successor of oversampling: a gate generates until the batch is full of groups with a gradient."""
    bought = estimate(config, seen)
    if (
        bought is None
        or seen.usable is None
        or not gates_resample(config)
        or not 1.5 < bought.generation_factor <= COSTLY
    ):
        return
    left = bought.rollouts * seen.usable
    if left < MIN_BATCH:
        return
    yield _faster(
        f"The gate generates about {bought.generation_factor:.1f} times a batch to fill it. Without it a step is that "
        f"much faster and {left:.0f} instead of {bought.rollouts} rollouts carry a gradient: cheaper steps, no cheaper "
        "gradient.",
        "Remove the gate for more and smaller steps, or drop tasks that are always or never solved, which saves both.",
        "orchestrator.train.source",
    )


RULES: tuple[Rule, ...] = (fewer_tokens, fewer_rollouts, prefix_caching, sequences, batched_tokens, resampling)


def _faster(message: str, fix: str, where: str) -> Finding:
    return Finding("config-speed", "info", message, fix, where)
