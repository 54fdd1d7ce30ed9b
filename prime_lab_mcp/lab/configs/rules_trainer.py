"""Rules about how the trainer holds the model: offloading, attention, precision, the schedule of its learning rate.

Each but the first mirrors a validator of prime-rl (configs/trainer.py and sft.py at `SCHEMA_COMMIT`, read 2026-08-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.configs.observed import Observed, Rule
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.report import Finding

_OWN_ATTENTION = frozenset({"auto", "flash_attention_4"})
"""Attention that only prime-rl's own implementations have; `auto` may choose it."""


def lora_offload(config: Config, seen: Observed) -> Iterator[Finding]:
    """Weights offloaded by FSDP and LoRA's adapters end on different devices (seen in runs of January 2026)."""
    where = f"{_model(config)}.fsdp_cpu_offload"
    if config.at(f"{_model(config)}.lora") is not None and config.at(where) is True:
        yield Finding(
            "config-lora-cpu-offload",
            "blocker",
            "fsdp_cpu_offload is on and so is LoRA: weights and adapters end on different devices and the run fails.",
            f"Remove {where}: LoRA trains so few weights that nothing is gained by it.",
            where,
        )


def offload(config: Config, seen: Observed) -> Iterator[Finding]:
    """One kind of offloading at a time; `optim_cpu_offload` is on unless it is turned off."""
    model = _model(config)
    everything, full = config.at(f"{model}.fsdp_cpu_offload") is True, bool(config.at(f"{model}.full_offload"))
    optimizer = config.at(f"{model}.optim_cpu_offload") is not False
    muon = config.at(_beside(config, "optim.type")) == "muon"
    cases = (
        (everything and (optimizer or full), "fsdp_cpu_offload", "cannot be combined with offloading the optimizer",
         f"Set {model}.optim_cpu_offload = false and remove full_offload, or remove fsdp_cpu_offload."),
        (optimizer and full, "full_offload", "cannot be combined with optim_cpu_offload, which is on by default",
         f"Set {model}.optim_cpu_offload = false."),
        (everything and muon, "fsdp_cpu_offload", "does not work with the optimizer muon",
         "Remove it, or choose the optimizer adamw."),
    )  # fmt: skip
    for found, key, why, fix in cases:
        if found:
            yield _refused("config-cpu-offload", f"{key} {why}", fix, f"{model}.{key}")


def implementation(config: Config, seen: Observed) -> Iterator[Finding]:
    """What the implementation of transformers (`impl = "hf"`) cannot do."""
    model = _model(config)
    if config.at(f"{model}.impl") != "hf":
        return
    attention = str(config.at(f"{model}.attn") or "auto")
    cases = (
        (attention in _OWN_ATTENTION, "attn", f'attn = "{attention}"', "flash_attention_2"),
        (config.at(f"{model}.quantization") is not None, "quantization", "a quantized training", None),
        ((config.number(f"{model}.cp", 1) or 1) > 1, "cp", "context parallelism", None),
        (config.at(f"{model}.ep") not in (None, 1, "auto"), "ep", "expert parallelism", None),
        (config.at(f"{model}.ac.mode") == "selective", "ac.mode", "selective activation checkpointing", None),
    )
    for found, key, what, instead in cases:
        if found:
            yield _refused(
                "config-implementation",
                f'impl = "hf" has no part for {what}' if instead is None else f'impl = "hf" does not go with {what}',
                (f'Set {model}.{key} = "{instead}", or r' if instead else "R")
                + f'emove {model}.impl: "auto" takes prime-rl\'s own where there is one.',
                f"{model}.{key}",
            )


def vision_training(config: Config, seen: Observed) -> Iterator[Finding]:
    """`[model.vlm]` trains on images, in bfloat16 as vLLM computes, and not its vision part under LoRA."""
    model = _model(config)
    vlm = config.at("model.vlm") or config.at(f"{model}.vlm")
    if not isinstance(vlm, Mapping):
        return
    for key in ("optimization_dtype", "reduce_dtype"):
        if config.at(f"{model}.{key}") != "bfloat16":
            where = f"{model}.{key}"
            yield _refused("config-vlm", f'[model.vlm] needs {key} = "bfloat16"', f'Set {where} = "bfloat16".', where)
    if vlm.get("freeze_vision_encoder") is False and config.at(f"{model}.lora") is not None:
        yield _refused(
            "config-vlm",
            "freeze_vision_encoder = false cannot be combined with LoRA, which freezes all other weights",
            "Remove freeze_vision_encoder, or train without LoRA.",
            "model.vlm.freeze_vision_encoder",
        )


def schedule(config: Config, seen: Observed) -> Iterator[Finding]:
    """Warm-up and decay of the learning rate fit into the run."""
    where = _beside(config, "scheduler")
    table = config.at(where)
    if not isinstance(table, Mapping):
        return
    kind, steps = table.get("type"), config.max_steps
    warmup = _steps(table, "warmup_steps", 10)
    decay = _steps(table, "decay_steps", 10)
    if kind == "linear" and not warmup and not decay:
        why, fix = "a linear scheduler needs warmup_steps or decay_steps", 'Set one of them, or type = "constant".'
    elif kind == "linear" and decay and steps is not None and warmup + decay > steps:
        why = f"warmup_steps {warmup} + decay_steps {decay} exceed max_steps {steps}"
        fix = f"Make them {steps} at most together."
    elif kind == "cosine" and steps is not None and warmup >= steps:
        why, fix = f"warmup_steps {warmup} leave nothing of max_steps {steps}", f"Set {where}.warmup_steps lower."
    else:
        return
    yield _refused("config-scheduler", why, fix, where)


RULES: tuple[Rule, ...] = (lora_offload, offload, implementation, vision_training, schedule)


def _model(config: Config) -> str:
    return "model" if config.shape == "sft" else "trainer.model"


def _beside(config: Config, key: str) -> str:
    return key if config.shape == "sft" else f"trainer.{key}"


def _steps(table: Mapping[str, Any], key: str, default: int) -> int:
    value = table.get(key, default)
    return value if isinstance(value, int) else default


def _refused(code: str, why: str, fix: str, where: str) -> Finding:
    return Finding(code, "blocker", f"prime-rl refuses this: {why}.", fix, where)
