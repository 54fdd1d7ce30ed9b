"""Rules about configs for supervised fine-tuning: renderer, data, GPUs and evaluations during training.

Each rule repeats a validator of prime-rl (configs/sft.py at `SCHEMA_COMMIT`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import as_mapping, quote
from prime_lab_mcp.lab.configs.config import DEFAULT_MODEL, TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.schema import prime_rl_refuses


def typed_renderer(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The renderer must know which tokens the model wrote. The renderer `default`, a chat template, does not."""
    if config.at("data.type") == "fake" and config.at("val") is None:
        return
    renderer = config.at("renderer.name")
    model = next(n for n in (config.at("tokenizer.name"), config.model, DEFAULT_MODEL) if isinstance(n, str))
    if renderer not in (None, "auto", "default") or (renderer != "default" and model in context.renderers):
        return
    cause = "the renderer default" if renderer == "default" else f"no renderer is known for {quote(model, limit=100)}"
    yield prime_rl_refuses(
        "config-sft-renderer",
        f"{cause}, and fine-tuning needs one that tells the model's tokens from the others",
        Fix(
            'Set [renderer] name to the renderer of the model it was tuned from (e.g. "qwen3") if '
            "its chat template is the same, or fine-tune a model that ",
            NamedCall("search_hub", kind="model"),
            " lists with a renderer.",
        ),
        "renderer.name",
    )


def data_table(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Batches must divide into micro batches, and subsets, splits and probabilities must be equally many."""
    for where in ("data", "val.data"):
        table = config.at(where)
        if not isinstance(table, Mapping):
            continue
        batch, micro = _whole_number(table, "batch_size", 128), _whole_number(table, "micro_batch_size", 1)
        if micro and batch % micro:
            why = f"batch_size {batch} is no multiple of micro_batch_size {micro}"
            yield prime_rl_refuses(
                "config-batch-group", why, f"Set {where}.micro_batch_size = 1.", f"{where}.batch_size"
            )
        lengths = {
            key: len(value)
            for key in ("subsets", "splits", "probabilities")
            if isinstance(value := table.get(key), list)
        }
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{count} {key}" for key, count in lengths.items())
            why = f"{where} has {listed}, which must be equally many"
            yield prime_rl_refuses("config-sft-data", why, "Give one entry of each for every part of the data.", where)
        yield from _sequence(config, where, micro, _whole_number(table, "seq_len", 128))


def gpus(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The training and inference GPUs of a run on one node must fit on the node."""
    if config.at("deployment.type") == "multi_node":
        return
    per_node = config.number("deployment.gpus_per_node", 8) or 8
    evaluates = config.at("eval") is not None and config.at("inference") is not None
    infer = config.number("deployment.num_infer_gpus", config.number("deployment.num_eval_gpus", 1)) or 0
    total = config.train_gpus + (infer if evaluates else 0)
    if total > per_node:
        yield prime_rl_refuses(
            "config-gpus", f"{total} GPUs exceed the {per_node} of one node", "Lower them.", "deployment"
        )
    parallel = config.number("inference.vllm.tensor_parallel_size", 1) or 1
    if evaluates and infer % parallel:
        why = f"{infer} inference GPUs are no multiple of tensor_parallel_size {parallel}"
        yield prime_rl_refuses("config-gpus", why, "Make num_infer_gpus a multiple of it.", "deployment.num_infer_gpus")


def online_evaluation(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Evaluations during fine-tuning must have sources, and an inference server that serves the tuned model."""
    table, served = config.at("eval"), config.at("inference") is not None
    if table is None:
        if served:
            why = "[inference] serves online evaluations only, and there is no [eval]"
            yield prime_rl_refuses(
                "config-sft-eval", why, "Remove [inference], or add [eval] with sources.", "inference"
            )
        return
    several = config.at("deployment.type") == "multi_node"
    lora, kind = config.at("model.lora") is not None, config.at("weight_broadcast.type")
    kind = kind or ("filesystem" if lora or not served else "nccl")
    served_model = config.at("inference.vllm.model")
    cases = (
        (not as_mapping(table).get("source"), "[eval] names no source", "Add [[eval.source]], or remove [eval]."),
        (kind == "nixl", "NIXL does not carry weights to online evaluations", "Remove [weight_broadcast]."),
        (kind != "filesystem" and lora, "LoRA needs weights through the file system", "Remove [weight_broadcast]."),
        (
            kind != "filesystem" and as_mapping(table).get("retrigger_on_resume") is True,
            "eval.retrigger_on_resume needs weights through the file system",
            'Set weight_broadcast.type = "filesystem".',
        ),
        (
            several and not (served and (config.number("deployment.num_infer_nodes", 0) or 0) >= 1),
            "online evaluations on several nodes need [inference] and an inference node",
            "Add [inference] and deployment.num_infer_nodes = 1.",
        ),
        (
            served and isinstance(served_model, str) and served_model != config.model,
            "inference.vllm.model is not the model that is tuned",
            "Remove inference.vllm.model.",
        ),
    )
    for refused, why, fix in cases:
        if refused:
            yield prime_rl_refuses("config-sft-eval", why, fix, "eval")


SFT_RULES: tuple[ConfigRule, ...] = (typed_renderer, data_table, gpus, online_evaluation)


def _sequence(config: TrainingConfig, where: str, micro: int, seq_len: int) -> Iterator[Finding]:
    parallel = config.number("model.cp", 1) or 1
    if parallel > 1 and seq_len % parallel:
        why = f"{where}.seq_len {seq_len} does not divide among context parallelism of {parallel}"
        yield prime_rl_refuses(
            "config-sft-data", why, f"Make {where}.seq_len a multiple of model.cp.", f"{where}.seq_len"
        )
    for needed, setting in ((parallel > 1, "context parallelism"), (config.at("model.vlm") is not None, "[model.vlm]")):
        if needed and micro != 1:
            why = f"{setting} needs micro_batch_size 1"
            yield prime_rl_refuses("config-sft-data", why, f"Set {where}.micro_batch_size = 1.", where)


def _whole_number(table: Mapping[str, Any], key: str, default: int) -> int:
    value = table.get(key, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
