"""Rules about the place of the run: GPUs, inference, renderer, and what Hosted Training refuses.

Each rule mirrors a check of prime-rl's validators or of `prime` 0.18 (training_schema_worker.py), so that the result is
known before the platform is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule, renderer_data


def refused_by_platform(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config has nothing that Hosted Training always refuses."""
    if config.target != "hosted":
        return
    cases = (
        (bool(config.at("k8s")), "k8s", "[k8s] is not supported: the platform manages its cluster"),
        (config.at("clean") is True, "clean", "clean = true is not supported: every run starts in a new folder"),
        (
            config.at("inference.deployment.type") == "disaggregated",
            "inference.deployment",
            "disaggregated inference is not supported",
        ),
        (
            config.at("monitors.wandb.offline") is True,
            "monitors.wandb.offline",
            "W&B cannot be offline: nobody could fetch its files",
        ),
    )
    for found, where, why in cases:
        if found:
            yield Finding(
                "config-hosted-unsupported",
                "blocker",
                f"Hosted Training refuses this config: {why}.",
                f"Remove {where}.",
                where,
            )


def inference_present(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config has an inference server, which rollouts on the platform need."""
    if config.target != "hosted" or config.at("trainer.data.fake") is not None:
        return
    if config.at("inference") is None or config.infer_gpus < 1:
        yield Finding(
            "config-no-inference",
            "blocker",
            "Hosted RL runs need inference GPUs, and this config has none.",
            "Add an [inference] table (it may be empty) and set deployment.num_infer_gpus to 1 or more.",
            "inference",
        )


def gpus_fit(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The GPUs fit on a single node, counted as prime-rl does."""
    if config.at("deployment.type") == "multi_node":
        return
    per_node = config.number("deployment.gpus_per_node", 8) or 8
    parallel = config.number("inference.vllm.tensor_parallel_size", 1) or 1
    if config.train_gpus < 1:
        yield _gpu(f"num_train_gpus is {config.train_gpus}; training needs at least one", "Set it to 1 or more.")
    if config.gpus > per_node:
        yield _gpu(
            f"{config.train_gpus} training + {config.infer_gpus} inference GPUs exceed the {per_node} of one node",
            'Lower them, or use [deployment] type = "multi_node".',
        )
    if config.infer_gpus and config.infer_gpus % parallel:
        yield _gpu(
            f"{config.infer_gpus} inference GPUs are no multiple of tensor_parallel_size {parallel}",
            "Make num_infer_gpus a multiple of inference.vllm.tensor_parallel_size.",
        )
    if config.at("deployment") is None and config.target == "hosted":
        yield Finding(
            "config-default-gpus",
            "info",
            "There is no [deployment] table: one training and one inference GPU are billed.",
            "Write [deployment] with num_train_gpus and num_infer_gpus to say so openly.",
            "deployment",
        )


def renderer_known(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The model's renderer is known, because prime-rl does not guess how to render a chat template."""
    chosen = config.at("orchestrator.renderer.name")
    if chosen not in (None, "auto"):
        return
    named = (config.at("tokenizer.name"), config.at("orchestrator.tokenizer.name"), config.model)
    model = next(n for n in named if isinstance(n, str))
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


def wandb_key(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """An information that the W&B key is passed outside the file, where the config logs to W&B."""
    if config.target == "hosted" and config.at("monitors.wandb") is not None and config.at("env_files") is None:
        yield Finding(
            "config-wandb-key",
            "info",
            "W&B logging needs WANDB_API_KEY; it is passed beside the file, never in it.",
            "Set WANDB_API_KEY in the environment that the server runs in, or remove [monitors.wandb].",
            "monitors.wandb",
        )


def sft_volume(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Hosted fine-tuning names the volume that it reads its data from."""
    if config.target == "hosted" and config.at("data.type") != "fake" and config.at("volume") is None:
        yield Finding(
            "config-sft-no-volume",
            "blocker",
            "Hosted supervised fine-tuning reads its data from a volume, and this config names none.",
            'Set volume = "..." and data.name to the path on it (datasets/...).',
            "volume",
        )


def self_managed(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """An information that the config is for self-managed GPUs, so that nobody submits it by mistake."""
    if config.target == "self-managed":
        yield Finding(
            "config-self-managed",
            "info",
            "This config is for one's own GPUs: it was checked offline only and cannot be submitted.",
            'Run it with prime-rl\'s `rl` command, or write one with target="hosted" to submit.',
        )


HOSTED_RULES: tuple[ConfigRule, ...] = (
    self_managed,
    refused_by_platform,
    inference_present,
    gpus_fit,
    renderer_known,
    wandb_key,
)
SFT_HOSTED_RULES: tuple[ConfigRule, ...] = (refused_by_platform, sft_volume)


def _gpu(message: str, fix: str) -> Finding:
    return Finding("config-gpus", "blocker", f"The GPUs do not add up: {message}.", fix, "deployment")
