"""Rules about nodes and inference: several nodes, routers, caches, and how new weights reach the server.

Each mirrors a validator of prime-rl (configs/rl.py and configs/inference.py at `SCHEMA_COMMIT`). The platform starts
runs on several nodes itself, so only self-managed runs need [slurm] (prime 0.18.0, training_schema_worker.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import as_mapping, quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.rules.refusal import prime_rl_refuses

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


def launcher(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Runs on several nodes have [slurm], the only launcher of prime-rl for them."""
    several = config.at("deployment.type") == "multi_node"
    brought = config.target == "hosted" and several
    if config.at("slurm") is not None or brought:
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
    """Nodes of training and of inference fit the tables that use them."""
    if config.at("deployment.type") != "multi_node" or config.shape == "sft":
        return
    served = isinstance(config.at("inference"), Mapping)
    wanted, where = _inference_nodes(config), "deployment.num_infer_nodes"
    own = config.number(where)
    count = wanted if own is None else own
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
            served and own is not None and kind in _SEVERAL and own != wanted,
            f"num_infer_nodes is {own}, and inference.deployment has {wanted} nodes",
            f"Set {where} = {wanted}, or remove it.",
        ),
        (
            served and as_mapping(config.at("inference")).get("router") == "None",
            "several nodes need a router in front of their engines",
            "Remove inference.router.",
        ),
    )
    for found, why, fix in cases:
        if found:
            yield prime_rl_refuses("config-multi-node", why, fix, where)
    yield from _expert_parallel(config, count)


def node_groups(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Training nodes divide into groups of equal size."""
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
    """The llm-d router runs on several nodes, with scorers that it has, and without routed experts."""
    table = config.at("inference.router")
    if not isinstance(table, Mapping) or table.get("type") != "llm-d":
        return
    where = "inference.router"
    fix = f'Remove {where}, or set type = "vllm-router".'
    if config.at("inference.deployment.type") not in _SEVERAL:
        why = "the llm-d router needs inference.deployment on several nodes"
        yield prime_rl_refuses("config-inference", why, fix, where)
    named = {
        str(name)
        for key in ("scorers", "prefill_scorer_overrides", "decode_scorer_overrides")
        for name in as_mapping(table.get(key))
    }
    if unknown := sorted(named - _SCORERS):
        known = ", ".join(sorted(_SCORERS))
        why = f"the llm-d router has no scorer {quote(unknown[0], limit=60)}"
        yield prime_rl_refuses("config-inference", why, f"Use one of {known}.", f"{where}.scorers")
    if config.at("trainer.enable_router_replay") is True or config.at(f"{_VLLM}.enable_return_routed_experts") is True:
        why = "the llm-d router returns no routed experts, which router replay needs"
        yield prime_rl_refuses("config-inference", why, fix, where)


def cache(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """An offloaded cache has memory, keeps prefixes, and goes with no router replay."""
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
    """LoRA goes through the file system, quantised transfer to prime-rl's own models, and balanced experts need it."""
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
    """vLLM serves adapters up to a largest rank."""
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


def _inference_nodes(config: TrainingConfig) -> int:
    """Nodes of one inference replica, as prime-rl infers them."""
    if not isinstance(config.at("inference"), Mapping):
        return 0
    table = "inference.deployment"
    kind = config.at(f"{table}.type")
    if kind == "multi_node":
        return config.number(f"{table}.num_nodes", 2) or 0
    if kind == "disaggregated":
        return sum(
            (config.number(f"{table}.{part}_nodes_per_replica", 1) or 0)
            * (config.number(f"{table}.num_{part}_replicas", 1) or 0)
            for part in ("prefill", "decode")
        )
    return 1


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
