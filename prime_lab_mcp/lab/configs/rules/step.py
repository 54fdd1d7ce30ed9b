"""Rules about one training step: batch and group size, concurrency, token limits, sampling and usable groups."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import as_mapping, count, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import (
    MIN_BATCH,
    MIN_GROUP,
    MIN_GROUPS,
    BatchEstimate,
    ConfigContext,
    ConfigRule,
    estimate_batch,
    gates_resample,
)

_GROUP_RELATIVE = frozenset({"grpo", "max_rl", "hierarchical_grpo", "echo"})
"""Algorithms whose advantages compare the rollouts of a group."""


def batch_resolves(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The batch must be given once, be a multiple of the group size, and have at least `MIN_BATCH` rollouts.

    prime-rl refuses the first two in its `resolve_batching`.
    """
    rollouts, tokens = config.number("orchestrator.batch_size"), config.number("orchestrator.token_batch_size")
    if rollouts is not None and tokens is not None:
        yield Finding(
            "config-two-batches",
            "blocker",
            "Both batch_size and token_batch_size are set; prime-rl takes exactly one.",
            "Remove orchestrator.token_batch_size.",
            "orchestrator.token_batch_size",
        )
        return
    group = config.number("orchestrator.group_size", 1) or 1
    batch = config.batch_size
    if batch is None:
        return
    if batch % group:
        near = max(group, round(batch / group) * group)
        yield Finding(
            "config-batch-group",
            "blocker",
            f"batch_size {batch} is no multiple of group_size {group}; prime-rl refuses it.",
            f"Set batch_size to {near}.",
            "orchestrator.batch_size",
        )
    if 0 < batch < MIN_BATCH:
        enough = f"Set batch_size to {max(MIN_BATCH // group, 1) * group or group} or more, unless this is a smoke run."
        yield Finding(
            "config-small-batch",
            "warning",
            f"batch_size {batch} is below {MIN_BATCH} rollouts, which prime-rl's docs call the practical floor.",
            _BUDGET_CHOSE if _chosen_by_budget(config, "batch_size") else enough,
            "orchestrator.batch_size",
        )


BUDGET_REASON = "the budget of $"
"""The beginning of the reason of a value that a budget lowered (training/budget.py)."""
_BUDGET_CHOSE = (
    "Leave the batch where that budget holds, which has room for no larger one. A lower max_tokens gives more steps of "
    "this size or larger ones, if the limit of tokens makes the bound; a larger budget does, if the user agrees."
)


def stated_budget(config: TrainingConfig) -> float | None:
    """Return the budget in US dollars that the config's text says it was written for; None without one."""
    stated = re.search(rf"{re.escape(BUDGET_REASON)}([\d,]+\.\d+)", config.text)
    return float(stated[1].replace(",", "")) if stated is not None else None


def _chosen_by_budget(config: TrainingConfig, key: str) -> bool:
    """Whether the config's text says that a budget chose the value of a key."""
    return re.search(rf"(?m)^{key}\s*=[^\n#]*#[^\n]*{re.escape(BUDGET_REASON)}", config.text) is not None


def group_size(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Groups must be large enough. GRPO compares the rollouts of a group, so a single rollout has no advantage."""
    for source in config.train_sources:
        if _algorithm(config, source) not in _GROUP_RELATIVE:
            continue
        size = config.group_of(source)
        default = "group_size" not in source.table and config.at("orchestrator.group_size") is None
        if size < 2:
            yield Finding(
                "config-group-size",
                "blocker",
                f"group_size is {size}{' (the default)' if default else ''}: every advantage is zero.",
                "Set orchestrator.group_size = 16.",
                "orchestrator.group_size",
            )
        elif size < MIN_GROUP:
            yield Finding(
                "config-group-size",
                "warning",
                f"group_size {size} is below {MIN_GROUP}: few groups hold both better and worse rollouts.",
                "Set orchestrator.group_size to 8 or 16.",
                "orchestrator.group_size",
            )


def inflight(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The limits of concurrent rollouts must allow a whole group and must not contradict each other."""
    where = "orchestrator.concurrency"
    group = config.number("orchestrator.group_size", 1) or 1
    table = as_mapping(config.at(where))
    largest = None if table.get("max_inflight") == "None" else config.number(f"{where}.max_inflight", 1024)
    first, least = config.number(f"{where}.initial_inflight"), config.number(f"{where}.min_inflight", 1)
    for key, bound in (("max_inflight", largest), ("initial_inflight", first)):
        if bound is not None and bound < group:
            yield Finding(
                "config-inflight",
                "blocker",
                f"concurrency.{key} {bound} is smaller than group_size {group}; prime-rl refuses it.",
                f"Set {where}.{key} to {group} or more.",
                f"{where}.{key}",
            )
    for key, bound in (("initial_inflight", first), ("min_inflight", least)):
        if bound is not None and largest is not None and bound > largest:
            default = " (the default)" if "max_inflight" not in table else ""
            yield Finding(
                "config-inflight",
                "blocker",
                f"concurrency.{key} {bound} exceeds max_inflight {largest}{default}; prime-rl refuses it.",
                f"Set {where}.max_inflight to {bound} or more, or lower {key}.",
                f"{where}.{key}",
            )


BATCH_RULES: tuple[ConfigRule, ...] = (
    batch_resolves,
    group_size,
    inflight,
)


def _algorithm(config: TrainingConfig, source: ConfigSource) -> str:
    own = source.table.get("algo")
    algorithm = own.get("type") if isinstance(own, Mapping) else config.at("orchestrator.algo.type")
    return str(algorithm or "grpo")


COMPLETION_MARGIN = 1.25
"""The token limit should be this many times the measured 95th percentile of completions (our judgement)."""


_CUT_IN_HALF = 0.5
"""Below this share of the measured 95th percentile, most replies are cut off, and nothing proven of them holds (our
judgement)."""
_ALIKE = 0.1
"""Temperature up to which the rollouts of a group are nearly alike, so that no advantage differs from zero."""


def sequence_length(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The trainer and the inference server must accept samples as long as those of the orchestrator."""
    seq_len = config.seq_len
    trainer = config.number("trainer.model.seq_len") or config.number("seq_len") or 2048
    served = config.number("inference.vllm.max_model_len")
    served = served if served is None or served > 0 else None  # -1 lets vLLM choose
    for component, where, size in (
        ("The trainer's seq_len", "trainer.model.seq_len", trainer),
        ("The inference server's max_model_len", "inference.vllm.max_model_len", served),
    ):
        if size is not None and size < seq_len:
            yield Finding(
                "config-seq-len",
                "blocker",
                f"{component} of {size} tokens is shorter than the orchestrator's seq_len of {seq_len}.",
                f"Set {where} to {seq_len} or more, or use the shared seq_len alone.",
                where,
            )


def completion_budget(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Completions must have a token limit that fits beside the prompt and exceeds the measured lengths.

    A blocker where the limit is below half of the measured 95th percentile: then most replies are cut off.
    """
    where = "orchestrator.train.sampling.max_completion_tokens"
    budget, room = config.max_completion_tokens, config.seq_len
    if budget is None:
        yield Finding(
            "config-no-completion-limit",
            "warning",
            f"max_completion_tokens is not set: rollouts run to the model's limit and are cut at seq_len {room}.",
            f"Set {where}, e.g. to 1.25 times the 95th percentile that run_eval measured.",
            where,
        )
        return
    prompt = context.prompt_tokens or 0
    if budget + prompt > room:
        prompt_note = f" beside prompts of {prompt} tokens" if prompt else ""
        yield Finding(
            "config-budget-exceeds-seq-len",
            "blocker",
            f"max_completion_tokens {budget}{prompt_note} does not fit into seq_len {room}: samples are cut.",
            f"Set seq_len to {-(-(budget + max(prompt, 256)) // 1024) * 1024} or more, or lower max_completion_tokens.",
            where,
        )
    elif not prompt and budget > 0.9 * room:
        yield Finding(
            "config-no-room-for-prompt",
            "warning",
            f"max_completion_tokens {budget} leaves {room - budget} of seq_len {room} for the prompt.",
            "Raise seq_len, or lower max_completion_tokens.",
            where,
        )
    typical = context.completion_tokens
    if typical is not None and budget < COMPLETION_MARGIN * typical:
        yield Finding(
            "config-completion-budget",
            "blocker" if budget < _CUT_IN_HALF * typical else "warning",
            f"max_completion_tokens {budget} is less than {COMPLETION_MARGIN} times the {typical} tokens "
            "(95th percentile) that the evaluation measured: rollouts will be cut off.",
            f"Set it to {-(-int(COMPLETION_MARGIN * typical) // 128) * 128} or more, and seq_len with it.",
            where,
        )


def temperature(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The sampling temperature should be 1, as the policy gradient assumes, and that of the evaluation.

    A blocker at which no rollouts of a group differ, unless the evaluation shows what such groups are worth.
    """
    where = "orchestrator.train.sampling.temperature"
    value = config.at(where)
    value = 1.0 if not isinstance(value, (int, float)) else float(value)
    if value != 1.0:
        alike = value <= _ALIKE and context.temperature != value
        yield Finding(
            "config-temperature",
            "blocker" if alike else "warning",
            f"Training samples at temperature {value:g}"
            + (
                ": the rollouts of a group are alike, and carry no gradient."
                if alike
                else "; prime-rl's recipes use 1.0."
            ),
            "Remove it or set 1.0, unless you mean it.",
            where,
        )
    if context.temperature is not None and context.temperature != value:
        yield Finding(
            "config-eval-sampling",
            "warning",
            f"The evaluation sampled at temperature {context.temperature:g}, training will at {value:g}: "
            "its share of usable groups may not hold.",
            f"Call run_eval(temperature={value:g}).",
            where,
        )


TOKEN_RULES: tuple[ConfigRule, ...] = (sequence_length, completion_budget, temperature)

COSTLY_GENERATION = 4.0
"""Generated rollouts as a multiple of the batch above which a gate is too costly (our judgement)."""


def curricula(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The gates and the difficulty pool of a curriculum must pass prime-rl's checks and fit the taskset."""
    for source in config.train_sources:
        curriculum = source.table.get("curriculum")
        if not isinstance(curriculum, Mapping):
            continue
        where = f"orchestrator.train.source {quote(source.name, limit=60)} curriculum"
        for problem in (*_gate_problems(curriculum), *_pool_problems(curriculum, context)):
            yield Finding(
                "config-curriculum",
                "blocker",
                f"The curriculum cannot work: {problem}.",
                "Correct it, or remove the curriculum table.",
                where,
            )


def _batch_with_signal(config: TrainingConfig, estimate: BatchEstimate) -> int:
    """The batch, in whole groups, of which enough rollouts and groups would have a gradient."""
    group = max(1, config.group_size or 1)
    share = max(estimate.gradient_rollouts / max(1, estimate.rollouts), 1e-3)
    return math.ceil(max(MIN_BATCH, MIN_GROUPS * group) / share / group) * group


def usable_signal(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Enough of the batch must have a gradient, by the measured share of usable groups."""
    estimate = estimate_batch(config, context)
    if estimate is None or context.usable is None:
        return
    if estimate.gradient_rollouts < MIN_BATCH or estimate.gradient_groups < MIN_GROUPS:
        yield Finding(
            "config-weak-signal",
            "info" if BUDGET_REASON in config.text and shorter_limit(config, context) is None else "warning",
            f"About {estimate.gradient_rollouts:.0f} of {estimate.rollouts} rollouts a step "
            f"({estimate.gradient_groups:.1f} groups) would carry a gradient, and a step should have at least "
            f"{MIN_BATCH} rollouts and {MIN_GROUPS} groups of that kind; {estimate.discarded_share:.0%} of what is "
            "generated is discarded.",
            _more_signal(config, context, _batch_with_signal(config, estimate)),
            "orchestrator.batch_size",
        )
    elif gates_resample(config) and estimate.generation_factor > COSTLY_GENERATION:
        yield Finding(
            "config-costly-gate",
            "warning",
            f"The gate resamples until every group has a gradient: about {estimate.generation_factor:.1f} times the "
            "rollouts are generated and paid for.",
            f"{dropped} first." if (dropped := dropped_sentence(context)) else "Leave the gate out for cheaper steps.",
            "orchestrator.train.source",
        )


_ROOM, _LEAST_LIMIT, _TOKENS = 2.0, 256, 128
"""A shorter token limit holds this many times the longest replies of the evaluation, and at least so many tokens, as a
multiple of `_TOKENS` (our judgement)."""
_CUT = 0.05
"""Share of truncated rollouts above which the measured lengths show a limit, not the length that replies need."""


def shorter_limit(config: TrainingConfig, context: ConfigContext) -> int | None:
    """Return a token limit that holds the evaluated replies with room to spare, where the config's is twice as large.

    A budget is divided by the token limit of a completion, so that a limit far above the replies makes a run small.
    None where the limit is not the reason, where no budget made the run small, or where the stand-in of a rehearsal
    replied, whose lengths say nothing about a model's.
    """
    limit, tokens = config.max_completion_tokens, context.completion_tokens
    if limit is None or not tokens or context.stand_in or BUDGET_REASON not in config.text:
        return None
    if (context.truncated or 0.0) > _CUT:
        return None
    enough = max(_LEAST_LIMIT, math.ceil(_ROOM * max(tokens, context.longest or 0) / _TOKENS) * _TOKENS)
    return enough if 2 * enough <= limit else None


def dropped_sentence(context: ConfigContext) -> str:
    """Advice to drop the tasks without a gradient, without a full stop; empty where the evaluation found none."""
    number = context.never_or_always
    if number == 0:
        return ""
    which = "tasks" if number is None else f"the {count(number, 'evaluated task')}"
    if number is not None and (evaluated := context.evaluated_tasks) is not None:
        which = f"the {number:,} of the {count(evaluated, 'evaluated task')}"
    return f"Drop {which} that {'is' if number == 1 else 'are'} always or never solved"


def _more_signal(config: TrainingConfig, context: ConfigContext, batch: int) -> Fix:
    """What to do about a weak signal, the advised way first. `batch` is the batch with enough of it."""
    larger = NamedCall("write_training_config").changed(batch=batch)
    dropped = dropped_sentence(context)
    tasks = (
        f" {dropped} only if the tasks are edited anyway: an edit has to be proven from the start." if dropped else ""
    )
    if BUDGET_REASON not in config.text:
        return Fix(
            f"Advised: raise batch_size to {batch} or more, by ",
            larger,
            ', which makes a step dearer. Or set curriculum="gate", which generates until the batch is full.',
            tasks,
        )
    shorter = shorter_limit(config, context)
    advised = "Advised: go on with this config."
    if shorter is not None:
        advised = (
            f"Advised: the limit of {config.max_completion_tokens} tokens a reply sets the bound, and the evaluated "
            f"replies have {context.completion_tokens} (p95); with max_tokens={shorter} the same budget holds more "
            "rollouts."
        )
    return Fix(
        f"{advised} Such steps learn too, with more noise, and the budget holds no larger batch for as many steps. "
        "For larger steps, call ",
        larger,
        " and the same budget, which says whether fewer of them fit.",
        tasks,
    )


SIGNAL_RULES: tuple[ConfigRule, ...] = (
    curricula,
    usable_signal,
)


def _gate_problems(curriculum: Mapping[str, Any]) -> Iterator[str]:
    gates = curriculum.get("gates")
    for name, gate in gates.items() if isinstance(gates, Mapping) else ():
        if isinstance(gate, Mapping):
            low, high = gate.get("reject_min", 0.0), gate.get("reject_max", 0.0)
            if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
                yield f"gate {quote(str(name), limit=40)} has reject_min {low} above reject_max {high}"


def _pool_problems(curriculum: Mapping[str, Any], context: ConfigContext) -> Iterator[str]:
    sampler = curriculum.get("sampler")
    if not isinstance(sampler, Mapping) or sampler.get("type") != "difficulty_pool":
        return
    if context.infinite:
        yield "difficulty_pool needs a finite taskset, and this one is infinite"
    if context.duplicate_tasks:
        yield "difficulty_pool refuses duplicate tasks, and this taskset has some"
    pools = sampler.get("pools")
    if pools is None:
        return
    tables = [p for p in pools.values() if isinstance(p, Mapping)] if isinstance(pools, Mapping) else []
    thresholds = [p.get("threshold") for p in tables]
    numbers = [float(t) if isinstance(t, int | float) else t for t in thresholds]
    if len(set(map(str, numbers))) != len(numbers):
        yield "pool thresholds must differ"
    if not any(isinstance(p.get("weight"), (int, float)) and p["weight"] > 0 for p in tables):
        yield "at least one pool needs a positive weight"
