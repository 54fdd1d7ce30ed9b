"""Lists the settings of a run that are known to leave the evidence valid.

Each listed setting counts in the bound of the cost, is compared by a gate or a rule of its own, says where the run
reports or saves, or decides how the same numbers are computed. Any other setting, such as one that a later prime-rl
adds, may change what the model reads, what is paid or what is learned. The server therefore asks a person about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import known_renderers
from prime_lab_mcp.lab.configs.rules.run_keys import KeyPath
from prime_lab_mcp.lab.configs.schema import default_values
from prime_lab_mcp.lab.models.registry import find_model

_ONE, _ALL = "*", "**"
"""Wildcards of a pattern: the first matches one key, and the second any number of keys at the end of a path."""
_KNOWN_PATHS = """
name gpu_type env_files max_steps seq_len output_dir clean run.* log.* ckpt.* deployment.* model.name model.vlm.*
monitors.** rollout_transport.* weight_broadcast.type weight_broadcast.host weight_broadcast.port
weight_broadcast.timeout weight_broadcast.session_id

trainer.max_steps trainer.output_dir trainer.log.* trainer.monitors.** trainer.rollout_transport.*
trainer.ckpt.interval trainer.ckpt.keep_interval trainer.ckpt.keep_last trainer.ckpt.output_dir
trainer.weight_broadcast.type trainer.weight_broadcast.host trainer.weight_broadcast.port
trainer.weight_broadcast.timeout trainer.weight_broadcast.session_id trainer.weight_broadcast.inference_world_size
trainer.dist_timeout_seconds trainer.gc.* trainer.matmul_precision trainer.enable_router_replay
trainer.heartbeat.url trainer.optim.* trainer.scheduler.*
trainer.model.vlm.*
trainer.model.name trainer.model.seq_len trainer.model.lora trainer.model.lora.* trainer.model.impl trainer.model.attn
trainer.model.ac trainer.model.ac.* trainer.model.ac_offloading trainer.model.ac_offloading.* trainer.model.compile
trainer.model.compile.* trainer.model.cp trainer.model.cp_style trainer.model.ep trainer.model.ep_comm_backend
trainer.model.dp_replicate trainer.model.deepep_num_sms trainer.model.deepep_token_chunk_size
trainer.model.fsdp_cpu_offload trainer.model.optim_cpu_offload trainer.model.full_offload trainer.model.full_offload.*
trainer.model.fused_lm_head_token_chunk_size trainer.model.moe_fused_kernel trainer.model.moe_use_grouped_mm
trainer.model.moe_router_dtype trainer.model.optimization_dtype trainer.model.reduce_dtype
trainer.model.reshard_after_forward

orchestrator.max_steps orchestrator.batch_size orchestrator.token_batch_size orchestrator.group_size
orchestrator.seq_len orchestrator.output_dir orchestrator.log.* orchestrator.monitors.** orchestrator.concurrency.*
orchestrator.ckpt.interval orchestrator.ckpt.keep_interval orchestrator.ckpt.keep_last
orchestrator.ckpt.wait_for_weights_timeout orchestrator.collect_inference_metrics
orchestrator.inference_metrics_roles orchestrator.env_server_base_port orchestrator.num_train_workers
orchestrator.max_off_policy_steps orchestrator.pad_to_multiple_of orchestrator.tasks_per_minute
orchestrator.heartbeat.url orchestrator.model.name orchestrator.model.vlm.*
orchestrator.model.lora orchestrator.model.lora.*
orchestrator.model.client.base_url orchestrator.model.client.wait_for_ready_timeout
orchestrator.rollout_transport.* orchestrator.weight_broadcast.type orchestrator.weight_broadcast.host
orchestrator.weight_broadcast.port orchestrator.weight_broadcast.timeout orchestrator.weight_broadcast.session_id
orchestrator.weight_broadcast.inference_world_size
orchestrator.train.filter_zero_advantages orchestrator.train.sampling.temperature
orchestrator.train.sampling.max_completion_tokens
orchestrator.train.source.name orchestrator.train.source.ratio orchestrator.train.source.group_size
orchestrator.train.source.serve.max_concurrent orchestrator.train.source.serve.pool.*
orchestrator.train.source.sampling.temperature orchestrator.train.source.sampling.max_completion_tokens
orchestrator.train.source.curriculum.sampler.**
orchestrator.eval.interval orchestrator.eval.num_examples orchestrator.eval.group_size
orchestrator.eval.skip_first_step orchestrator.eval.retrigger_on_resume orchestrator.eval.sampling.temperature
orchestrator.eval.sampling.top_p orchestrator.eval.sampling.top_k orchestrator.eval.sampling.min_p
orchestrator.eval.sampling.max_completion_tokens
orchestrator.eval.source.name orchestrator.eval.source.interval orchestrator.eval.source.num_examples
orchestrator.eval.source.group_size orchestrator.eval.source.ratio orchestrator.eval.source.serve.max_concurrent
orchestrator.eval.source.serve.pool.* orchestrator.eval.source.sampling.temperature
orchestrator.eval.source.sampling.top_p orchestrator.eval.source.sampling.top_k
orchestrator.eval.source.sampling.min_p orchestrator.eval.source.sampling.max_completion_tokens

inference inference.backend_port inference.log.* inference.output_dir inference.server.port
inference.server.liveness_timeout_seconds inference.deployment.* inference.router.type inference.router.policy
inference.weight_broadcast.type inference.kv_cache_offload inference.kv_cache_offload.**
inference.enable_fp32_lm_head inference.enable_fp32_router_logits inference.use_deep_gemm
inference.use_pd_kv_transfer
"""
"""Patterns of the listed settings, chosen from the schema of prime-rl 559b4477. A list of tables has the path of one
table."""
_KNOWN = frozenset(tuple(pattern.split(".")) for pattern in _KNOWN_PATHS.split())
_ALGORITHMS = frozenset({"grpo", "max_rl"})
"""Algorithms that learn from the rewards of a group alone, which the evaluation measured."""
_KNOWN_VALUES: Mapping[str, frozenset[Any]] = {
    "orchestrator.algo.type": _ALGORITHMS,
    "orchestrator.train.source.algo.type": _ALGORITHMS,
    "orchestrator.algo.sampling.source": frozenset({"policy"}),
    "orchestrator.train.source.algo.sampling.source": frozenset({"policy"}),
    "trainer.loss.type": frozenset({"default"}),
}
_OF_PROMPTS = frozenset({"renderer", "tokenizer"})
_ABOUT: Mapping[str, str] = {
    "renderer": "another text of each prompt than the evaluated one",
    "tokenizer": "another tokenizer than that of the evaluated model",
    "algo": "another signal to learn from than the measured rewards",
    "loss": "another loss than prime-rl's own",
    "curriculum": "another choice of tasks than the evaluated one",
    "client": "another request than those of the evaluation",
    "sampling": "another request than those of the evaluation",
    "quantization": "other numbers than those of the evaluated model",
}
_UNKNOWN = "a setting of which it is not known here what it changes"


def leaves_evidence(config: TrainingConfig, path: KeyPath, value: Any) -> bool:
    """Whether a setting is known to change nothing that was proven: a listed one, or prime-rl's default."""
    dotted = ".".join(path)
    if any(pattern in _KNOWN for pattern in _patterns(path)):
        return True
    if isinstance(value, str) and value in _KNOWN_VALUES.get(dotted, ()):
        return True
    if path[-1] == "name" and not _OF_PROMPTS.isdisjoint(path[-2:-1]):
        return _is_of_the_model(config.model, path[-2], value)
    if path[-2:] == ("renderer", "tool_parser") and value == find_model(config.model).tool_parser:
        return True
    defaults = default_values("rl", path)
    value = None if value == "None" else value  # as prime-rl reads it
    return bool(defaults) and all(isinstance(one, bool) == isinstance(value, bool) and one == value for one in defaults)


def about_unknown(path: KeyPath) -> str:
    """Return what a setting that is not listed changes, as part of a sentence."""
    return next((_ABOUT[key] for key in reversed(path) if key in _ABOUT), _UNKNOWN)


def _patterns(path: KeyPath) -> Iterator[KeyPath]:
    """Yield every pattern that covers a path."""
    yield path
    yield (*path[:-1], _ONE)
    for length in range(1, len(path)):
        yield (*path[:length], _ALL)


def _is_of_the_model(model: str, table: str, name: Any) -> bool:
    """Whether a tokenizer or renderer writes prompts as the evaluated model reads them.

    The renderer `default` is the model's own chat template, with which an inference server writes them.
    """
    if table == "tokenizer":
        return bool(name == model)
    own = known_renderers().get(model) or find_model(model).renderer
    return name in ("auto", "default", own)
