"""Rules about the deployment of a run: GPUs, nodes, inference servers, weight transfer, and limits of the platform.

Each rule repeats a validator of prime-rl (configs/rl.py and configs/inference.py at `SCHEMA_COMMIT`) or a check of
`prime` 0.18 (training_schema_worker.py), so that a refusal is known before the platform is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import as_mapping, quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.schema import prime_rl_refuses

_VLLM = "inference.vllm"
_LARGEST_RANK = 512
"""The largest `max_lora_rank` of vLLM."""
_SCORERS = frozenset(
    f"{name}-scorer"
    for name in (
        "prefix-cache",
        "precise-prefix-cache",
        "queue",
        "kv-cache-utilization",
        "active-request",
        "load-aware",
        "running-requests-size",
        "token-load",
        "latency",
        "session-affinity",
        "lora-affinity",
    )
)
"""Scorers of the llm-d router that prime-rl knows."""
_SEVERAL = ("multi_node", "disaggregated")
"""Types of an inference deployment on several nodes."""


def launcher(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A self-managed run on several nodes needs the table [slurm], because prime-rl has no other launcher for it.

    The platform starts hosted runs on several nodes itself.
    """
    several = config.at("deployment.type") == "multi_node"
    platform_launches = config.target == "hosted" and several
    if config.at("slurm") is not None or platform_launches:
        return
    fix = "Add [slurm] with the partition of your cluster, or use one node."
    if several:
        yield prime_rl_refuses("config-multi-node", 'deployment.type = "multi_node" needs [slurm]', fix, "slurm")
    if config.at("inference.deployment.type") in _SEVERAL and config.at("inference.slurm") is None:
        yield prime_rl_refuses(
            "config-multi-node", "inference on several nodes needs [slurm]", fix, "inference.deployment"
        )
    if config.at("inference.kv_cache_offload.type") == "mooncake":
        where = "inference.kv_cache_offload.type"
        yield prime_rl_refuses(
            "config-inference", "a mooncake cache is started by [slurm] only", f'Set {where} = "native".', where
        )


def nodes(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The number of inference nodes must fit the tables [inference] and [inference.deployment]."""
    if config.at("deployment.type") != "multi_node" or config.shape == "sft":
        return
    served = isinstance(config.at("inference"), Mapping)
    implied, where = config.replica_nodes, "deployment.num_infer_nodes"
    own = config.number(where)
    count = implied if own is None else own
    kind = config.at("inference.deployment.type")
    cases = (
        (
            count > 0 and not served,
            f"{count} inference nodes are asked for, and there is no [inference]",
            "Add [inference].",
        ),
        (
            count == 0 and served,
            "num_infer_nodes is 0, and [inference] is there",
            f"Set {where} to 1 or more.",
        ),
        (
            count == 0 and not served and config.at("trainer.data.fake") is None,
            "without inference nodes nothing produces rollouts",
            f"Add [inference] and set {where} to 1 or more.",
        ),
        (
            served and own is not None and kind in _SEVERAL and own != implied,
            f"num_infer_nodes is {own}, and inference.deployment has {implied} nodes",
            f"Set {where} = {implied}, or remove it.",
        ),
        (
            served and as_mapping(config.at("inference")).get("router") == "None",
            "several nodes need a router in front of their engines",
            "Remove inference.router.",
        ),
    )
    for refused, why, fix in cases:
        if refused:
            yield prime_rl_refuses("config-multi-node", why, fix, where)
    yield from _expert_parallel(config, count)


def node_groups(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The number of training nodes must be a multiple of nodes_per_fsdp_group."""
    group = config.number("deployment.nodes_per_fsdp_group")
    trains = config.number("deployment.num_train_nodes", 2 if config.shape == "sft" else None)
    if config.at("deployment.type") == "multi_node" and group and trains and trains % group:
        yield prime_rl_refuses(
            "config-multi-node",
            f"{trains} training nodes do not divide into groups of {group}",
            "Make num_train_nodes a multiple of nodes_per_fsdp_group.",
            "deployment.nodes_per_fsdp_group",
        )


def router(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The llm-d router needs several nodes and known scorers, and must not be combined with router replay."""
    table = config.at("inference.router")
    if not isinstance(table, Mapping) or table.get("type") != "llm-d":
        return
    where = "inference.router"
    fix = f'Remove {where}, or set type = "vllm-router".'
    if config.at("inference.deployment.type") not in _SEVERAL:
        why = "the llm-d router needs inference.deployment on several nodes"
        yield prime_rl_refuses("config-inference", why, fix, where)
    scorers = {
        str(name)
        for key in ("scorers", "prefill_scorer_overrides", "decode_scorer_overrides")
        for name in as_mapping(table.get(key))
    }
    if unknown := sorted(scorers - _SCORERS):
        listed = ", ".join(sorted(_SCORERS))
        why = f"the llm-d router has no scorer {quote(unknown[0], limit=60)}"
        yield prime_rl_refuses("config-inference", why, f"Use one of {listed}.", f"{where}.scorers")
    if config.at("trainer.enable_router_replay") is True or config.at(f"{_VLLM}.enable_return_routed_experts") is True:
        why = "the llm-d router returns no routed experts, which router replay needs"
        yield prime_rl_refuses("config-inference", why, fix, where)


def cache(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """An offloaded cache needs CPU memory and prefix caching, and must not be combined with router replay."""
    where = "inference.kv_cache_offload"
    table = config.at(where)
    if not isinstance(table, Mapping):
        return
    if table.get("cpu") in (None, "None"):
        why = "an offloaded cache needs a cpu tier; a disk alone is not supported"
        yield prime_rl_refuses("config-inference", why, f"Set {where}.cpu.num_bytes.", f"{where}.cpu")
    if config.at(f"{_VLLM}.enable_prefix_caching") is False:
        why = "an offloaded cache needs prefix caching"
        yield prime_rl_refuses("config-inference", why, f"Remove {_VLLM}.enable_prefix_caching.", where)
    if config.at("trainer.enable_router_replay") is True:
        why = "router replay does not work with an offloaded cache, which keeps no routing decisions"
        yield prime_rl_refuses("config-inference", why, f"Remove [{where}], or trainer.enable_router_replay.", where)


def weight_transfer(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The transfer of weights to the inference server must fit LoRA, the implementation and expert balancing.

    LoRA needs the file system. Quantised transfer needs prime-rl's own implementation of the model and [inference].
    Expert balancing (enable_eplb) needs quantised transfer.
    """
    kind = config.at("weight_broadcast.type")
    if config.lora:
        for where in ("weight_broadcast.type", "trainer.weight_broadcast.type"):
            if config.at(where) in ("nccl", "nixl"):
                yield Finding(
                    "config-lora-broadcast",
                    "blocker",
                    f"LoRA does not work with {where} = {quote(config.at(where))}; prime-rl refuses it.",
                    f'Remove [{where.removesuffix(".type")}], or set type = "filesystem".',
                    where,
                )
    quantised = config.at("weight_broadcast.quantize_in_weight_transfer") is True
    where = "weight_broadcast.quantize_in_weight_transfer"
    if kind == "nccl" and quantised and config.at("trainer.model.impl") != "custom":
        why = "quantised weight transfer works with prime-rl's own implementations only"
        yield prime_rl_refuses("config-inference", why, f'Set trainer.model.impl = "custom", or remove {where}.', where)
    if kind == "nccl" and quantised and config.at("inference") is None:
        yield prime_rl_refuses(
            "config-inference", "quantised weight transfer needs [inference]", f"Remove {where}.", where
        )
    if config.at(f"{_VLLM}.enable_eplb") is True and not (kind == "nccl" and quantised):
        yield prime_rl_refuses(
            "config-inference",
            "enable_eplb needs weights that are sent quantised through NCCL",
            f'Remove {_VLLM}.enable_eplb, or set weight_broadcast.type = "nccl" and quantize_in_weight_transfer = true '
            "(not with LoRA).",
            f"{_VLLM}.enable_eplb",
        )


def adapter_rank(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The rank of LoRA must not exceed the largest that vLLM serves."""
    for where in (f"{_VLLM}.max_lora_rank", "trainer.model.lora.rank", "model.lora.rank"):
        rank = config.number(where)
        if rank is not None and rank > _LARGEST_RANK and config.at("inference") is not None:
            why = f"rank {rank} is above {_LARGEST_RANK}, the largest that vLLM serves"
            yield prime_rl_refuses("config-inference", why, f"Set {where} to {_LARGEST_RANK} or less.", where)


SERVING_RULES: tuple[ConfigRule, ...] = (
    launcher,
    nodes,
    node_groups,
    router,
    cache,
    weight_transfer,
    adapter_rank,
)


def _expert_parallel(config: TrainingConfig, infer_nodes: int) -> Iterator[Finding]:
    if config.at(f"{_VLLM}.enable_expert_parallel") is not True:
        return
    if config.at("inference.deployment.type") == "disaggregated":
        return
    per_node = config.number("deployment.gpus_per_node", 8) or 8
    tensor = config.number(f"{_VLLM}.tensor_parallel_size", 1) or 1
    data = config.number(f"{_VLLM}.data_parallel_size", 1) or 1
    local = config.number(f"{_VLLM}.data_parallel_size_local")
    if per_node % tensor:
        why = f"{per_node} GPUs of a node are no multiple of tensor_parallel_size {tensor}"
        yield prime_rl_refuses("config-gpus", why, f"Set {_VLLM}.tensor_parallel_size to 1, 2, 4 or 8.", _VLLM)
    elif data * tensor != infer_nodes * per_node:
        why = f"expert parallelism spans {data * tensor} GPUs, and there are {infer_nodes * per_node} for inference"
        fix = f"Set {_VLLM}.data_parallel_size = {infer_nodes * per_node // tensor}."
        yield prime_rl_refuses("config-gpus", why, fix, f"{_VLLM}.data_parallel_size")
    elif local is not None and local != per_node // tensor:
        why = f"data_parallel_size_local is {local}, and a node has {per_node // tensor} ranks"
        where = f"{_VLLM}.data_parallel_size_local"
        yield prime_rl_refuses("config-gpus", why, f"Remove {where}.", where)


def refused_by_platform(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A hosted config must not have settings that Hosted Training always refuses."""
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
    for refused, where, why in cases:
        if refused:
            yield Finding(
                "config-hosted-unsupported",
                "blocker",
                f"Hosted Training refuses this config: {why}.",
                f"Remove {where}.",
                where,
            )


def inference_present(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A hosted config must have an inference server, which generates the rollouts."""
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
    """No number of GPUs or nodes is too low. On one node, the GPUs fit, and divide into tensor-parallel groups."""
    for _, wrong, fix in config.too_few_gpus:
        yield _gpu(wrong, fix)
    if config.at("deployment.type") == "multi_node":
        return
    per_node = config.number("deployment.gpus_per_node", 8) or 8
    parallel = config.number("inference.vllm.tensor_parallel_size", 1) or 1
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


def wandb_key(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Informs that the W&B key is passed outside the file, if the config logs to W&B."""
    if config.target == "hosted" and config.at("monitors.wandb") is not None and config.at("env_files") is None:
        yield Finding(
            "config-wandb-key",
            "info",
            "W&B logging needs WANDB_API_KEY; it is passed beside the file, never in it.",
            "Set WANDB_API_KEY in the environment that the server runs in, or remove [monitors.wandb].",
            "monitors.wandb",
        )


def sft_volume(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A hosted fine-tuning config must name the volume from which it reads its data."""
    if config.target == "hosted" and config.at("data.type") != "fake" and config.at("volume") is None:
        yield Finding(
            "config-sft-no-volume",
            "blocker",
            "Hosted supervised fine-tuning reads its data from a volume, and this config names none.",
            'Set volume = "..." and data.name to the path on it (datasets/...).',
            "volume",
        )


def self_managed(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Informs that the config is for self-managed GPUs and cannot be submitted."""
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
    wandb_key,
)
SFT_HOSTED_RULES: tuple[ConfigRule, ...] = (refused_by_platform, sft_volume)


def _gpu(message: str, fix: str) -> Finding:
    return Finding("config-gpus", "blocker", f"The GPUs do not add up: {message}.", fix, "deployment")
