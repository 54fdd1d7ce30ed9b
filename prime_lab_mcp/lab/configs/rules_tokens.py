"""Rules about how a rollout is sampled and whether it fits: sequence length, completion budget, temperature."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.configs.observed import Observed, Rule
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.report import Finding

COMPLETION_MARGIN = 1.25
"""Room over the 95th percentile that an eval measured (judgement)."""


def sequence_length(config: Config, seen: Observed) -> Iterator[Finding]:
    """Trainer and inference must hold what the orchestrator collects."""
    wanted = config.seq_len
    trainer = config.number("trainer.model.seq_len") or config.number("seq_len") or 2048
    served = config.number("inference.vllm.max_model_len")
    served = served if served is None or served > 0 else None  # -1 lets vLLM choose
    for what, where, size in (
        ("The trainer's seq_len", "trainer.model.seq_len", trainer),
        ("The inference server's max_model_len", "inference.vllm.max_model_len", served),
    ):
        if size is not None and size < wanted:
            yield Finding(
                "config-seq-len",
                "blocker",
                f"{what} of {size} tokens is shorter than the orchestrator's seq_len of {wanted}.",
                f"Set {where} to {wanted} or more, or use the shared seq_len alone.",
                where,
            )


def completion_budget(config: Config, seen: Observed) -> Iterator[Finding]:
    """The completion must have a bound, fit beside the prompt, and hold what the model really writes."""
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
    prompt = seen.prompt_tokens or 0
    if budget + prompt > room:
        beside = f" beside prompts of {prompt} tokens" if prompt else ""
        yield Finding(
            "config-budget-exceeds-seq-len",
            "blocker",
            f"max_completion_tokens {budget}{beside} does not fit into seq_len {room}: samples are cut.",
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
    measured = seen.completion_tokens
    if measured is not None and budget < COMPLETION_MARGIN * measured:
        yield Finding(
            "config-completion-budget",
            "warning",
            f"max_completion_tokens {budget} is less than {COMPLETION_MARGIN} times the {measured} tokens "
            "(95th percentile) that the evaluation measured: rollouts will be cut off.",
            f"Set it to {-(-int(COMPLETION_MARGIN * measured) // 128) * 128} or more, and seq_len with it.",
            where,
        )


def temperature(config: Config, seen: Observed) -> Iterator[Finding]:
    """The policy gradient assumes samples of the policy itself."""
    where = "orchestrator.train.sampling.temperature"
    value = config.at(where)
    value = 1.0 if not isinstance(value, (int, float)) else float(value)
    if value != 1.0:
        yield Finding(
            "config-temperature",
            "warning",
            f"Training samples at temperature {value:g}; prime-rl's recipes use 1.0.",
            "Remove it or set 1.0, unless you mean it.",
            where,
        )
    if seen.temperature is not None and seen.temperature != value:
        yield Finding(
            "config-eval-sampling",
            "warning",
            f"The evaluation sampled at temperature {seen.temperature:g}, training will at {value:g}: "
            "its share of usable groups may not hold.",
            f"Call run_eval(temperature={value:g}).",
            where,
        )


RULES: tuple[Rule, ...] = (sequence_length, completion_budget, temperature)
