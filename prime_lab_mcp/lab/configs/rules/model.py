"""Rules about the trained model and the trainer's settings for it.

The settings are the renderer, the tool parser, offloading, attention, precision and the learning rate schedule.
`lab.models` knows the properties of models; nothing is reported about an unknown model. Each rule but the first repeats
a validator of prime-rl (configs/trainer.py and sft.py at `SCHEMA_COMMIT`, read 2026-08-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule, renderer_data
from prime_lab_mcp.lab.configs.schema import prime_rl_refuses
from prime_lab_mcp.lab.models.registry import find_model

_NATIVE_ATTENTION = frozenset({"flash_attention_3", "flash_attention_4"})
"""Attention that prime-rl supports only for models that it implements itself."""


def model_published(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The model must have a name `owner/name` on Hugging Face, because hosted training downloads the weights there."""
    name = config.model
    if config.target == "hosted" and (name.count("/") != 1 or name.startswith(("/", ".", "~"))):
        yield Finding(
            "config-model-name",
            "blocker",
            f"{quote(name, limit=100)} is no name on Hugging Face (owner/name), where Hosted Training looks for it.",
            Fix(
                "Name a published model: ",
                NamedCall("search_hub", kind="model"),
                " lists those that the platform trains.",
            ),
            "model.name",
        )


def vision_model(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A vision model should have the table `[model.vlm]`, and other models must not have it.

    Without the table, prime-rl freezes the vision part and fails at the first image.
    """
    model = find_model(config.model)
    configured = config.at("model.vlm") is not None or config.at("trainer.model.vlm") is not None
    if model.vision and not configured:
        yield Finding(
            "config-vision-model",
            "info",
            f"{quote(config.model, limit=100)} also sees images; without [model.vlm] it is trained on text alone: its "
            "vision part is frozen, and a task with an image would end the run.",
            "Nothing to do where all tasks are text; else add [model.vlm] with vision_encoder_attr and "
            "language_model_attr.",
            "model.vlm",
        )
    elif configured and (model.vision is False or (model.vision and model.native is False)):
        yield Finding(
            "config-vlm",
            "blocker",
            f"[model.vlm] is set, and prime-rl has no vision implementation of {quote(config.model, limit=100)}.",
            "Remove [model.vlm] to train on text, or choose a vision model that prime-rl implements.",
            "model.vlm",
        )


def native_model(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A model that prime-rl does not implement itself must not use attention that needs such an implementation.

    The trainer falls back to the implementation of transformers for these models.
    """
    if find_model(config.model).native is not False:
        return
    attention = config.at("trainer.model.attn")
    if attention in _NATIVE_ATTENTION:
        yield Finding(
            "config-implementation",
            "blocker",
            f"{quote(config.model, limit=100)} has no implementation of prime-rl's own, and attn = {quote(attention)} "
            "needs one.",
            "Remove trainer.model.attn.",
            "trainer.model.attn",
        )
    yield Finding(
        "config-model-fallback",
        "info",
        f"prime-rl has no implementation of its own for {quote(config.model, limit=100)}: it is trained with that of "
        "transformers, which is slower and needs more memory.",
        "Nothing to do; start with a few steps, or choose a model that search_hub lists as native.",
        "trainer.model.impl",
    )


def model_renderer(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The renderer of the model must be known or set, because prime-rl does not guess it."""
    renderer = config.at("orchestrator.renderer.name")
    if renderer not in (None, "auto"):
        return
    names = (config.at("tokenizer.name"), config.at("orchestrator.tokenizer.name"), config.model)
    model = next(n for n in names if isinstance(n, str))
    if model not in context.renderers:
        data = renderer_data()
        yield Finding(
            "config-no-renderer",
            "blocker",
            f"{quote(model, limit=100)} is none of the {len(context.renderers)} models that prime-rl knows how to "
            f"render ({data['package']} {data['version']}).",
            "Correct the name, or set [orchestrator.renderer] name: the renderer of the model it was tuned from "
            '(e.g. "qwen3"), or "default" to use its own chat template.',
            "model.name",
        )


def tool_parser(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """An environment with tools needs a tool parser if the renderer is `default`.

    That renderer reads no tool calls without a parser (prime-rl: "does not support tools").
    """
    renderer = config.at("orchestrator.renderer.name")
    if renderer != "default" or config.at("orchestrator.renderer.tool_parser") is not None:
        return
    with_tools = [s.id for s in config.train_sources if (shape := (context.shapes or {}).get(s.id)) and shape.tools]
    unknown = [s.id for s in config.train_sources if s.id not in (context.shapes or {})]
    parser = find_model(config.model).tool_parser
    choice = f'"{parser}"' if parser else 'the parser of its family, e.g. "hermes" or "qwen3_coder"'
    fix = f"Set [orchestrator.renderer] tool_parser = {choice}, or name the renderer of its family instead of default."
    where = "orchestrator.renderer.tool_parser"
    if with_tools:
        yield Finding(
            "config-tool-parser",
            "blocker",
            f"{quote(with_tools[0], limit=80)} offers tools, and the renderer default reads no tool call without a "
            "tool_parser: every rollout would fail.",
            fix,
            where,
        )
    elif unknown and context.shapes is not None:
        yield Finding(
            "config-tool-parser",
            "warning",
            f"The renderer default reads no tool call without a tool_parser, and whether {quote(unknown[0], limit=80)} "
            "offers tools is not known here.",
            f"{fix} Nothing to do where no environment has tools.",
            where,
        )


MODEL_RULES: tuple[ConfigRule, ...] = (model_published, model_renderer, vision_model, native_model, tool_parser)


_OWN_ATTENTION = frozenset({"auto", "flash_attention_4"})
"""Values of `attn` that do not go with the implementation of transformers. `auto` may choose one that does not."""


def lora_offload(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """LoRA and FSDP offloading must not be combined.

    Weights and adapters then end up on different devices (observed in runs of January 2026).
    """
    where = f"{_model(config)}.fsdp_cpu_offload"
    if config.at(f"{_model(config)}.lora") is not None and config.at(where) is True:
        yield Finding(
            "config-lora-cpu-offload",
            "blocker",
            "fsdp_cpu_offload is on and so is LoRA: weights and adapters end on different devices and the run fails.",
            f"Remove {where}: LoRA trains so few weights that nothing is gained by it.",
            where,
        )


def offload(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """At most one kind of offloading may be on, with an optimizer that supports it.

    `optim_cpu_offload` is on unless the config turns it off.
    """
    model = _model(config)
    everything, full = config.at(f"{model}.fsdp_cpu_offload") is True, bool(config.at(f"{model}.full_offload"))
    optimizer = config.at(f"{model}.optim_cpu_offload") is not False
    optim = config.at(_beside(config, "optim.type")) or "adamw"
    muon = optim == "muon"
    cases = (
        (
            everything and (optimizer or full),
            "fsdp_cpu_offload",
            "cannot be combined with offloading the optimizer",
            f"Set {model}.optim_cpu_offload = false and remove full_offload, or remove fsdp_cpu_offload.",
        ),
        (
            optimizer and full,
            "full_offload",
            "cannot be combined with optim_cpu_offload, which is on by default",
            f"Set {model}.optim_cpu_offload = false.",
        ),
        (
            full and optim not in ("adamw", "sign_sgd"),
            "full_offload",
            f"works with the optimizers adamw and sign_sgd, not with {quote(optim, limit=20)}",
            f"Remove {model}.full_offload, or choose the optimizer adamw.",
        ),
        (
            everything and muon,
            "fsdp_cpu_offload",
            "does not work with the optimizer muon",
            "Remove it, or choose the optimizer adamw.",
        ),
    )
    for refused, key, why, fix in cases:
        if refused:
            yield prime_rl_refuses("config-cpu-offload", f"{key} {why}", fix, f"{model}.{key}")


def implementation(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """With the implementation of transformers (`impl = "hf"`), no setting may need prime-rl's own implementation."""
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
    for refused, key, setting, instead in cases:
        if refused:
            yield prime_rl_refuses(
                "config-implementation",
                f'impl = "hf" has no part for {setting}'
                if instead is None
                else f'impl = "hf" does not go with {setting}',
                (f'Set {model}.{key} = "{instead}", or r' if instead else "R")
                + f'emove {model}.impl: "auto" takes prime-rl\'s own where there is one.',
                f"{model}.{key}",
            )


def own_implementation(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Remote code, selective checkpointing and expert communication must fit the implementation of the model."""
    model = _model(config)
    backend, experts = config.at(f"{model}.ep_comm_backend"), config.at(f"{model}.ep")
    uses_deepep = backend == "deepep"
    cases = (
        (
            config.at(f"{model}.trust_remote_code") is True and config.at(f"{model}.impl") == "custom",
            "trust_remote_code",
            'impl = "custom" runs no code of the model\'s repository',
            f"Remove {model}.trust_remote_code, or {model}.impl.",
        ),
        (
            config.at(f"{model}.ac.mode") == "selective" and config.at(f"{model}.ac.targets") == [],
            "ac.targets",
            "selective activation checkpointing names no target",
            f"Remove {model}.ac.targets.",
        ),
        (
            uses_deepep and isinstance(experts, int) and experts <= 1,
            "ep_comm_backend",
            "deepep needs expert parallelism over several GPUs",
            f"Remove {model}.ep_comm_backend, or set {model}.ep above 1.",
        ),
        (
            uses_deepep and config.at(f"{model}.quantization.type") == "mxfp8",
            "quantization",
            "mxfp8 does not go with deepep",
            f"Remove {model}.ep_comm_backend.",
        ),
    )
    for refused, key, why, fix in cases:
        if refused:
            yield prime_rl_refuses("config-implementation", why, fix, f"{model}.{key}")


def vision_training(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """With `[model.vlm]`, the trainer must use prime-rl's own implementation and bfloat16, in which vLLM computes.

    The vision encoder must not be trained together with LoRA.
    """
    model = _model(config)
    vlm = config.at("model.vlm") or config.at(f"{model}.vlm")
    if not isinstance(vlm, Mapping):
        return
    if config.at(f"{model}.impl") != "custom":
        where = f"{model}.impl"
        yield prime_rl_refuses("config-vlm", '[model.vlm] needs impl = "custom"', f'Set {where} = "custom".', where)
    if (config.number(f"{model}.cp", 1) or 1) > 1 and config.at(f"{model}.cp_style") != "ulysses":
        where = f"{model}.cp_style"
        why = "[model.vlm] with context parallelism needs ulysses"
        yield prime_rl_refuses("config-vlm", why, f'Set {where} = "ulysses".', where)
    for key in ("optimization_dtype", "reduce_dtype"):
        if config.at(f"{model}.{key}") != "bfloat16":
            where = f"{model}.{key}"
            yield prime_rl_refuses(
                "config-vlm", f'[model.vlm] needs {key} = "bfloat16"', f'Set {where} = "bfloat16".', where
            )
    if vlm.get("freeze_vision_encoder") is False and config.at(f"{model}.lora") is not None:
        yield prime_rl_refuses(
            "config-vlm",
            "freeze_vision_encoder = false cannot be combined with LoRA, which freezes all other weights",
            "Remove freeze_vision_encoder, or train without LoRA.",
            "model.vlm.freeze_vision_encoder",
        )


def schedule(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Warm-up and decay of the learning rate must fit into the steps of the run."""
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
    yield prime_rl_refuses("config-scheduler", why, fix, where)


TRAINER_RULES: tuple[ConfigRule, ...] = (
    lora_offload,
    offload,
    implementation,
    own_implementation,
    vision_training,
    schedule,
)


def _model(config: TrainingConfig) -> str:
    return "model" if config.shape == "sft" else "trainer.model"


def _beside(config: TrainingConfig, key: str) -> str:
    return key if config.shape == "sft" else f"trainer.{key}"


def _steps(table: Mapping[str, Any], key: str, default: int) -> int:
    value = table.get(key, default)
    return value if isinstance(value, int) else default
