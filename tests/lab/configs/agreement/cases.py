"""Configs for the agreement table: written by the tools, migrated from older shapes, and mutated one setting at a time.

A mutation changes a sound config at one place (dotted path to value; `GONE` removes). Each aims at one key, type, bound
or validator of prime-rl 559b4477.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomlkit

from prime_lab_mcp.lab.configs.config import ConfigTarget, TrainingConfig, parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas
from prime_lab_mcp.lab.configs.schema import load_env_schema, load_schema
from tests.lab.configs.examples import SOUND

GONE: Any = object()

_RL = load_schema("rl")["$defs"]
TINY = EnvironmentSchemas(
    taskset={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **_RL["TasksetConfig"]["properties"],
            "split": {"enum": ["train", "eval"], "type": "string"},
            "min_turns": {"type": "integer"},
            "level": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "$defs": _RL,
    },
    env=load_env_schema()["env"],
    tools=False,
)
"""What `check_environment` records of the taskset that judge.py stands in for `tiny-env` with."""


@dataclass(frozen=True, slots=True)
class AgreementCase:
    """One config. `mode` is the class that judges the config."""

    name: str
    text: str
    target: ConfigTarget
    mode: Literal["rl", "sft"] = "rl"

    @property
    def config(self) -> TrainingConfig:
        return parse_config(self.text, Path(f"{self.name}.toml"))

    @property
    def context(self) -> ConfigContext:
        tiny = {s.id: TINY for s in self.config.sources if s.env_name == "tiny-env"}
        return ConfigContext(shapes=tiny)


SFT = """
max_steps = 100

[model]
name = "Qwen/Qwen3-0.6B"

[deployment]
num_train_gpus = 1

[data]
name = "configs/sft/tiny"
seq_len = 2048
batch_size = 32

[optim]
lr = 1e-5

[ckpt]
keep_last = 1
"""

FULL: Mapping[str, Any] = {"trainer.model.lora": GONE, "trainer.optim.lr": 1e-6}
"""Full fine-tuning, which broadcasts weights through NCCL."""
_MULTI: Mapping[str, Any] = {
    "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 1},
    "slurm": {},
}
_S = "orchestrator.train.source.0"
_E = "orchestrator.eval.source.0"
_V = "inference.vllm"

RL_MUTATIONS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "full": FULL,
    # keys and types
    "unknown-top": {"bogus": 1},
    "unknown-orchestrator": {"orchestrator.batch_sizes": 1},
    "unknown-source": {f"{_S}.weight": 1},
    "unknown-curriculum": {f"{_S}.curriculum": {"gate": {}}},
    "unknown-vllm-passes": {f"{_V}.max_num_seqs": 64},
    "type-string-for-int": {"max_steps": "many"},
    "type-float-for-int": {"orchestrator.batch_size": 128.5},
    "type-table-for-int": {"max_steps": {}},
    "type-int-for-table": {"trainer.model": 3},
    "type-list-for-text": {"model.name": ["a"]},
    "type-number-for-text": {"model.name": 7},
    "type-text-for-list": {"monitors.wandb": {"tags": "a"}},
    "type-bool-for-int": {"orchestrator.group_size": True},
    "type-text-for-bool": {"orchestrator.train.filter_zero_advantages": "perhaps"},
    "type-source-table": {"orchestrator.train.source": {"env": {"taskset": {"id": "alice/tiny-env@0.1.0"}}}},
    "null-of-number": {"orchestrator.group_size": "None"},
    "null-of-optional": {"inference.router": "None"},
    "missing-trainer": {"trainer": GONE},
    "missing-orchestrator": {"orchestrator": GONE},
    # bounds
    "bound-temperature": {"orchestrator.train.sampling.temperature": 2.5},
    "bound-negative-temperature": {"orchestrator.train.sampling.temperature": -0.1},
    "bound-batch": {"orchestrator.batch_size": 0},
    "bound-group": {"orchestrator.group_size": 0},
    "bound-ratio": {f"{_S}.ratio": 0},
    "bound-lr": {"trainer.optim.lr": -1.0},
    "bound-rank": {"trainer.model.lora.rank": 0},
    "bound-dropout": {"trainer.model.lora.dropout": 1.5},
    "bound-keep-last": {"ckpt.keep_last": 0},
    "bound-ckpt-interval": {"ckpt.interval": 0},
    "bound-port": {"orchestrator.env_server_base_port": 70000},
    "bound-off-policy": {"orchestrator.max_off_policy_steps": -1},
    "bound-eval-interval": {"orchestrator.eval.interval": 0},
    "bound-eval-group": {f"{_E}.group_size": 0},
    "bound-ac-freq": {"trainer.model.ac": {"freq": 0}},
    "bound-echo-alpha": {"orchestrator.algo": {"type": "echo", "roles": {"tool": {"alpha": 0}}}},
    "bound-decay": {"orchestrator.algo": {"type": "rae", "decay": 1.0}},
    "bound-top-p-of-training": {"orchestrator.train.sampling.top_p": 0.9},
    "enum-attn": {"trainer.model.attn": "sdpa"},
    "enum-scheduler": {"trainer.scheduler": {"type": "step"}},
    "enum-optimizer": {"trainer.optim": {"type": "adam"}},
    "enum-reasoning-effort": {"orchestrator.eval.sampling.reasoning_effort": "max"},
    "enum-reasoning-effort-of-training": {"orchestrator.train.sampling.reasoning_effort": "low"},
    "enum-loss": {"trainer.loss": {"type": "grpo"}},
    "enum-algo": {"orchestrator.algo": {"type": "ppo"}},
    "enum-weight-broadcast": {**FULL, "weight_broadcast": {"type": "shm"}},
    "enum-renderer": {"orchestrator.renderer": {"name": "qwen33"}},
    "enum-gate": {f"{_S}.curriculum": {"gates": {"a": {"type": "reward_range"}}}},
    "enum-sampler": {f"{_S}.curriculum": {"sampler": {"type": "pools"}}},
    "enum-deployment": {"deployment": {"type": "two_node"}},
    # sources
    "source-without-id": {f"{_S}.env.taskset.id": ""},
    "source-agg": {f"{_S}.name": "agg"},
    "source-twice": {"orchestrator.train.source": [{"env": {"taskset": {"id": "bob/other@1"}}}] * 2},
    "source-two-names": {
        "orchestrator.train.source": [
            {"name": "one", "env": {"taskset": {"id": "bob/other@1"}}},
            {"name": "two", "env": {"taskset": {"id": "bob/other@1"}}},
        ]
    },
    "eval-without-source": {"orchestrator.eval.source": GONE},
    "eval-empty-source": {"orchestrator.eval.source": []},
    "eval-twice": {"orchestrator.eval.source": [{"env": {"taskset": {"id": "bob/other@1"}}}] * 2},
    "eval-agg": {f"{_E}.name": "agg"},
    "serve-address": {f"{_S}.serve": {"address": "tcp://10.0.0.1:5000"}},
    "serve-unknown": {f"{_S}.serve": {"workers": 3}},
    # the env table, which verifiers' own classes judge
    "env-unknown-key": {f"{_S}.env.bogus": 1},
    "env-max-turns": {f"{_S}.env.max_turns": 4},
    "env-harness": {f"{_S}.env.harness": {"id": "null"}},
    "env-timeout": {f"{_S}.env.timeout": {"episode": 600.0}},
    "env-timeout-unknown": {f"{_S}.env.timeout": {"rollout": 600.0}},
    "env-retries-type": {f"{_S}.env.retries": {"max_retries": "many"}},
    "env-concurrent-agents": {f"{_S}.env.max_concurrent_agents": 0},
    "env-interception-type": {f"{_S}.env.interception": {"type": "proxy"}},
    "env-agents": {f"{_S}.env.agents": {}},
    "agent-unknown-key": {f"{_S}.env.agent.max_turn": 4},
    "agent-turns": {f"{_S}.env.agent.max_turns": 4},
    "agent-turns-type": {f"{_S}.env.agent.max_turns": "four"},
    "agent-timeout": {f"{_S}.env.agent.timeout": {"rollout": 0}},
    "agent-timeout-unknown": {f"{_S}.env.agent.timeout": {"total": 10}},
    "agent-text": {f"{_S}.env.agent": "null"},
    "agent-sampling": {f"{_S}.env.agent.sampling": {"temperature": 0.5}},
    "agent-sampling-type": {f"{_S}.env.agent.sampling": {"temperature": "hot"}},
    "agent-client-type": {f"{_S}.env.agent.client": {"type": "grpc"}},
    "agent-notice-type": {f"{_S}.env.agent.network_notice": "sometimes"},
    "harness-text": {f"{_S}.env.agent.harness": "null"},
    "harness-unknown-key": {f"{_S}.env.agent.harness.bogus": 1},
    "harness-wrong-type": {f"{_S}.env.agent.harness.tool_timeout": "long"},
    "harness-bound": {f"{_S}.env.agent.harness.tool_timeout": 0},
    "harness-default": {f"{_S}.env.agent.harness.id": "default"},
    "harness-misspelt": {f"{_S}.env.agent.harness.id": "nul"},
    "harness-bash": {f"{_S}.env.agent.harness": {"id": "bash"}},
    "harness-bash-unknown": {f"{_S}.env.agent.harness": {"id": "bash", "shell": "zsh"}},
    "harness-codex-version": {f"{_S}.env.agent.harness": {"id": "codex", "version": "a b"}},
    "harness-without-id": {f"{_S}.env.agent.harness": {"tool_timeout": 5.0}},
    "harness-env-type": {f"{_S}.env.agent.harness": {"id": "null", "env": {"A": 1}}},
    "runtime-text": {f"{_S}.env.agent.runtime": "subprocess"},
    "runtime-subprocess": {f"{_S}.env.agent.runtime": {"type": "subprocess"}},
    "runtime-misspelt": {f"{_S}.env.agent.runtime": {"type": "subproces"}},
    "runtime-unknown-key": {f"{_S}.env.agent.runtime": {"type": "docker", "images": "x"}},
    "runtime-prime": {f"{_S}.env.agent.runtime": {"type": "prime", "cpu": 2.0}},
    "runtime-prime-type": {f"{_S}.env.agent.runtime": {"type": "prime", "cpu": "two"}},
    "runtime-foreign-key": {f"{_S}.env.agent.runtime": {"type": "subprocess", "image": "python"}},
    "runtime-no-type": {f"{_S}.env.agent.runtime": {"image": "python:3.12"}},
    "eval-env-unknown-key": {f"{_E}.env.bogus": 1},
    "eval-agent-unknown-key": {f"{_E}.env.agent": {"turns": 4}},
    "taskset-key": {f"{_S}.env.taskset.level": "hard"},
    "taskset-unknown-key": {f"{_S}.env.taskset.difficulty": "hard"},
    "taskset-wrong-type": {f"{_S}.env.taskset.min_turns": "three"},
    "taskset-wrong-value": {f"{_S}.env.taskset.split": "test"},
    "taskset-task-unknown": {f"{_S}.env.taskset.task": {"bogus": 1}},
    "taskset-task-rewards": {f"{_S}.env.taskset.task": {"rewards": {"x": {"weight": "much"}}}},
    "taskset-text": {f"{_S}.env.taskset": "alice/tiny-env"},
    "other-taskset-any-key": {f"{_S}.env.taskset": {"id": "bob/other@1.0", "difficulty": "hard"}},
    "other-env-unknown-key": {f"{_S}.env": {"taskset": {"id": "bob/other@1.0"}, "max_turns": 3}},
    "other-agent-unknown-key": {f"{_S}.env": {"taskset": {"id": "bob/other@1.0"}, "agent": {"turns": 3}}},
    "other-harness-unknown-key": {
        f"{_S}.env": {"taskset": {"id": "bob/other@1.0"}, "agent": {"harness": {"id": "null", "tools": []}}}
    },
    "other-runtime-misspelt": {
        f"{_S}.env": {"taskset": {"id": "bob/other@1.0"}, "agent": {"runtime": {"type": "dokcer"}}}
    },
    "other-system-prompt-type": {f"{_S}.env": {"taskset": {"id": "bob/other@1.0", "system_prompt": 3}}},
    # step
    "two-batches": {"orchestrator.token_batch_size": 100_000},
    "token-batch": {"orchestrator.batch_size": GONE, "orchestrator.token_batch_size": 100_000},
    "batch-no-multiple": {"orchestrator.batch_size": 100},
    "default-batch-no-multiple": {"orchestrator.batch_size": GONE, "orchestrator.group_size": 24},
    "inflight-below-group": {"orchestrator.concurrency": {"max_inflight": 8}},
    "inflight-initial-below-group": {"orchestrator.concurrency": {"initial_inflight": 4}},
    "inflight-initial-above-max": {"orchestrator.concurrency": {"initial_inflight": 64, "max_inflight": 32}},
    "inflight-min-above-max": {"orchestrator.concurrency": {"min_inflight": 64, "max_inflight": 32}},
    "inflight-min-above-default-max": {"orchestrator.concurrency": {"min_inflight": 2048}},
    "inflight-initial-above-default-max": {"orchestrator.concurrency": {"initial_inflight": 2048}},
    "inflight-unlimited": {"orchestrator.concurrency": {"min_inflight": 2048, "max_inflight": "None"}},
    "inflight-sound": {"orchestrator.concurrency": {"min_inflight": 16, "initial_inflight": 32, "max_inflight": 64}},
    "gate-range": {f"{_S}.curriculum": {"gates": {"a": {"reject_min": 0.5, "reject_max": 0.1}}}},
    "pool-equal": {
        f"{_S}.curriculum": {
            "sampler": {
                "type": "difficulty_pool",
                "pools": {"a": {"threshold": 0.5, "weight": 1}, "b": {"threshold": 0.5, "weight": 1}},
            }
        }
    },
    "pool-empty": {f"{_S}.curriculum": {"sampler": {"type": "difficulty_pool", "pools": {}}}},
    "pool-weightless": {
        f"{_S}.curriculum": {"sampler": {"type": "difficulty_pool", "pools": {"a": {"threshold": 0.5, "weight": 0}}}}
    },
    "pool-equal-numbers": {
        f"{_S}.curriculum": {
            "sampler": {
                "type": "difficulty_pool",
                "pools": {"a": {"threshold": 1, "weight": 1}, "b": {"threshold": 1.0, "weight": 1}},
            }
        }
    },
    # algorithms
    "algo-max-rl": {"orchestrator.algo": {"type": "max_rl"}},
    "algo-opd-without-teacher": {"orchestrator.algo": {"type": "opd"}},
    "algo-opd-teacher-without-url": {"orchestrator.algo": {"type": "opd", "teacher": {"name": "big"}}},
    "algo-opd": {"orchestrator.algo": {"type": "opd", "teacher": {"name": "big", "base_url": "http://t/v1"}}},
    "algo-opd-of-source": {f"{_S}.algo": {"type": "opd", "teacher": {"name": "big"}}},
    "algo-opd-frozen-sampling": {
        "orchestrator.algo": {
            "type": "opd",
            "teacher": {"name": "big", "base_url": "http://t/v1"},
            "sampling": {"source": {"name": "big", "base_url": "http://t/v1"}},
        }
    },
    "algo-grpo-frozen-sampling": {
        "orchestrator.algo": {"type": "grpo", "sampling": {"source": {"name": "big", "base_url": "http://t/v1"}}}
    },
    "algo-sft-of-policy": {"orchestrator.algo": {"type": "sft"}},
    "algo-sft": {"orchestrator.algo": {"type": "sft", "sampling": {"source": {"name": "b", "base_url": "http://t"}}}},
    "algo-sft-without-url": {"orchestrator.algo": {"type": "sft", "sampling": {"source": {"name": "b"}}}},
    "algo-echo-no-role": {"orchestrator.algo": {"type": "echo", "roles": {}}},
    "algo-echo": {"orchestrator.algo": {"type": "echo"}},
    "algo-hierarchical": {"orchestrator.algo": {"type": "hierarchical_grpo", "episode_agents": ["solver"]}},
    "algo-hierarchical-empty": {"orchestrator.algo": {"type": "hierarchical_grpo", "episode_agents": []}},
    "algo-length-penalty": {"orchestrator.algo": {"type": "grpo", "length_penalty": {"num_turns_weight": -1}}},
    "algo-sampling-other-word": {"orchestrator.algo": {"type": "grpo", "sampling": {"source": "teacher"}}},
    # shared values
    "shared-model": {"trainer.model.name": "Qwen/Qwen3-0.6B"},
    "shared-model-of-inference": {f"{_V}.model": "Qwen/Qwen3-0.6B"},
    "shared-model-unshared": {"model": GONE, "trainer.model.name": "Qwen/Qwen3-0.6B"},
    "shared-model-parts": {
        "model": GONE,
        "trainer.model.name": "Qwen/Qwen3-0.6B",
        "orchestrator.model": {"name": "Qwen/Qwen3-1.7B"},
        f"{_V}.model": "Qwen/Qwen3-1.7B",
    },
    "shared-orchestrator-model-alone": {"model": GONE, "orchestrator.model": {"name": "Qwen/Qwen3-4B-Instruct-2507"}},
    "shared-steps": {"trainer.max_steps": 50},
    "shared-steps-one-side": {"max_steps": GONE, "trainer.max_steps": 50},
    "shared-seq-len": {"trainer.model.seq_len": 1024},
    "shared-seq-len-shorter": {"seq_len": GONE, "trainer.model.seq_len": 1024, "orchestrator.seq_len": 2048},
    "shared-seq-len-longer": {"seq_len": GONE, "trainer.model.seq_len": 4096, "orchestrator.seq_len": 2048},
    "shared-log-level": {"log": {"level": "debug"}, "trainer.log": {"level": "info"}},
    "shared-json-logging": {"log": {"json_logging": True}, "orchestrator.log": {"json_logging": False}},
    "shared-ckpt-interval": {"trainer.ckpt": {"interval": 10}},
    "shared-ckpt-keep": {"ckpt.keep_last": 2, "trainer.ckpt": {"keep_last": 3}},
    "shared-ckpt-keep-interval": {"ckpt.keep_interval": 20, "orchestrator.ckpt": {"keep_interval": 30}},
    "shared-ckpt-output": {"ckpt.output_dir": "a", "trainer.ckpt": {"output_dir": "b"}},
    "ckpt-one-side": {"ckpt": GONE, "trainer.ckpt": {"interval": 10}},
    "ckpt-intervals": {"ckpt": GONE, "trainer.ckpt": {"interval": 10}, "orchestrator.ckpt": {"interval": 20}},
    "shared-vlm": {
        "model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b"},
        "trainer.model.vlm": {"vision_encoder_attr": "c", "language_model_attr": "b"},
    },
    "shared-chat-template": {"tokenizer": {"chat_template": "a"}, "trainer.tokenizer": {"chat_template": "b"}},
    "chat-template-trainer-only": {"trainer.tokenizer": {"chat_template": "a"}},
    "chat-template-orchestrator-only": {"orchestrator.tokenizer": {"chat_template": "a"}},
    "chat-template-inference-only": {f"{_V}.chat_template": "a"},
    "shared-tokenizer-name": {
        "tokenizer": {"name": "Qwen/Qwen3-4B"},
        "orchestrator.tokenizer": {"name": "Qwen/Qwen3-8B"},
    },
    "shared-trust": {"tokenizer": {"trust_remote_code": True}, "trainer.tokenizer": {"trust_remote_code": False}},
    "shared-transport": {"rollout_transport": {"type": "zmq"}, "trainer.rollout_transport": {"type": "filesystem"}},
    "transport-sides": {"trainer.rollout_transport": {"type": "filesystem"}},
    "transport-filesystem": {"rollout_transport": {"type": "filesystem"}},
    # W&B
    "wandb": {"monitors.wandb": {"project": "p"}},
    "wandb-offline": {"monitors.wandb": {"project": "p", "offline": True}},
    "wandb-offline-trainer": {"trainer.monitors": {"wandb": {"offline": True}}},
    "wandb-offline-both": {
        "trainer.monitors": {"wandb": {"offline": True}},
        "orchestrator.monitors": {"wandb": {"offline": True}},
    },
    "wandb-shared-offline-conflict": {
        "monitors.wandb": {"project": "p", "offline": False},
        "trainer.monitors": {"wandb": {"offline": True}},
    },
    "wandb-one-side": {"orchestrator.monitors": {"wandb": {}}},
    "wandb-projects": {
        "trainer.monitors": {"wandb": {"project": "a"}},
        "orchestrator.monitors": {"wandb": {"project": "b"}},
    },
    "wandb-group-conflict": {"monitors.wandb": {"group": "a"}, "trainer.monitors": {"wandb": {"group": "b"}}},
    "wandb-entity-conflict": {"monitors.wandb": {"entity": "a"}, "orchestrator.monitors": {"wandb": {"entity": "b"}}},
    "wandb-tags-conflict": {"monitors.wandb": {"tags": ["a"]}, "orchestrator.monitors": {"wandb": {"tags": ["b"]}}},
    "prime-monitor-of-trainer": {"trainer.monitors": {"prime": {}}},
    "file-monitor-conflict": {"monitors.file": {"path": "a.jsonl"}, "trainer.monitors": {"file": {"path": "b.jsonl"}}},
    # resume and folders
    "resume": {"resume": {}},
    "resume-step": {"resume": {"step": 50}},
    "resume-step-zero": {"resume": {"step": 0}},
    "resume-step-and-dir": {"resume": {"step": 50, "dir": "runs/a/checkpoints/step_50"}},
    "resume-dir": {"resume": {"dir": "runs/a/checkpoints/step_50"}},
    "resume-dir-no-step": {"resume": {"dir": "runs/a/checkpoints/final"}},
    "resume-one-side": {"trainer.resume": {"step": 5}},
    "resume-sides": {"trainer.resume": {"step": 5}, "orchestrator.resume": {"step": 10}},
    "resume-shared-wins": {"resume": {"step": 5}, "trainer.resume": {"step": 10}},
    "output-dir": {"output_dir": "elsewhere"},
    "output-dir-trainer": {"trainer.output_dir": "elsewhere"},
    "output-dir-orchestrator": {"orchestrator.output_dir": "elsewhere"},
    "output-dir-same": {"run": {"name": "a"}, "trainer.output_dir": "outputs/a"},
    "output-dir-inference": {"inference.output_dir": "elsewhere"},
    "run-dir": {"run": {"name": "a", "dir": "b"}, "orchestrator.output_dir": "outputs/b"},
    # GPUs
    "gpus-too-many": {"deployment.num_train_gpus": 8},
    "gpus-per-node": {"deployment": {"gpus_per_node": 4, "num_train_gpus": 4, "num_infer_gpus": 1}},
    "gpus-tensor-parallel": {"deployment.num_infer_gpus": 3, f"{_V}.tensor_parallel_size": 2},
    "gpus-tensor-parallel-fits": {"deployment.num_infer_gpus": 4, f"{_V}.tensor_parallel_size": 2},
    "gpus-no-inference-full": {**FULL, "deployment": {"num_train_gpus": 1, "num_infer_gpus": 0}},
    "nccl-one-gpu": {
        **FULL,
        "deployment": {"num_train_gpus": 1, "num_infer_gpus": 0},
        "weight_broadcast": {"type": "nccl"},
    },
    "data-parallel": {f"{_V}.data_parallel_size": 0},
    "multi-node": _MULTI,
    "multi-node-without-slurm": {**_MULTI, "slurm": GONE},
    "multi-node-without-train-nodes": {**_MULTI, "deployment": {"type": "multi_node", "num_infer_nodes": 1}},
    "multi-node-infer-nodes-open": {**_MULTI, "deployment": {"type": "multi_node", "num_train_nodes": 1}},
    "multi-node-with-gpus": {**_MULTI, "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_train_gpus": 8}},
    "multi-node-no-inference": {**_MULTI, "inference": GONE},
    "multi-node-zero-infer-nodes": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 0},
    },
    "multi-node-zero-infer-nodes-no-inference": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 0},
        "inference": GONE,
    },
    "multi-node-trainer-only": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 0},
        "inference": GONE,
        "trainer.data": {"fake": {}},
    },
    "multi-node-fsdp-groups": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 3, "num_infer_nodes": 1, "nodes_per_fsdp_group": 2},
    },
    "multi-node-no-router": {**_MULTI, "inference.router": "None"},
    "multi-node-infer-mismatch": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 3},
        "inference.deployment": {"type": "multi_node", "num_nodes": 2},
    },
    "multi-node-infer-match": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 2},
        "inference.deployment": {"type": "multi_node", "num_nodes": 2},
    },
    "multi-node-disaggregated-mismatch": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 3},
        "inference.deployment": {"type": "disaggregated"},
    },
    "multi-node-disaggregated": {
        **_MULTI,
        "deployment": {"type": "multi_node", "num_train_nodes": 1, "num_infer_nodes": 2},
        "inference.deployment": {"type": "disaggregated"},
    },
    "multi-node-expert-parallel": {**_MULTI, f"{_V}.enable_expert_parallel": True},
    "multi-node-expert-parallel-fits": {**_MULTI, f"{_V}.enable_expert_parallel": True, f"{_V}.data_parallel_size": 8},
    "multi-node-expert-parallel-tensor": {
        **_MULTI,
        f"{_V}.enable_expert_parallel": True,
        f"{_V}.tensor_parallel_size": 3,
    },
    "multi-node-expert-parallel-local": {
        **_MULTI,
        f"{_V}.enable_expert_parallel": True,
        f"{_V}.data_parallel_size": 8,
        f"{_V}.data_parallel_size_local": 4,
    },
    "multi-node-slurm-unknown": {**_MULTI, "slurm": {"queue": "a"}},
    "inference-multi-node-without-slurm": {"inference.deployment": {"type": "multi_node"}},
    "inference-disaggregated-without-slurm": {"inference.deployment": {"type": "disaggregated"}},
    # inference
    "router-llm-d": {"inference.router": {"type": "llm-d"}},
    "router-llm-d-scorer": {
        **_MULTI,
        "deployment.num_infer_nodes": 2,
        "inference.deployment": {"type": "multi_node"},
        "inference.router": {"type": "llm-d", "scorers": {"luck": 1.0}},
    },
    "router-llm-d-multi-node": {
        **_MULTI,
        "deployment.num_infer_nodes": 2,
        "inference.deployment": {"type": "multi_node"},
        "inference.router": {"type": "llm-d"},
    },
    "router-llm-d-replay": {
        **_MULTI,
        "deployment.num_infer_nodes": 2,
        "inference.deployment": {"type": "multi_node"},
        "inference.router": {"type": "llm-d"},
        "trainer.enable_router_replay": True,
    },
    "router-unknown": {"inference.router": {"type": "nginx"}},
    "replay": {"trainer.enable_router_replay": True},
    "replay-with-offload": {
        "trainer.enable_router_replay": True,
        "inference.kv_cache_offload": {"type": "native", "cpu": {"num_bytes": 1_000_000}},
    },
    "kv-offload": {"inference.kv_cache_offload": {"type": "native", "cpu": {"num_bytes": 1_000_000}}},
    "kv-offload-no-cpu": {"inference.kv_cache_offload": {"type": "native", "disk": {"path": "/a"}}},
    "kv-offload-zero": {"inference.kv_cache_offload": {"type": "native", "cpu": {"num_bytes": 0}}},
    "kv-offload-no-prefix-caching": {
        "inference.kv_cache_offload": {"type": "native", "cpu": {"num_bytes": 1_000_000}},
        f"{_V}.enable_prefix_caching": False,
    },
    "kv-offload-mooncake": {"inference.kv_cache_offload": {"type": "mooncake", "cpu": {"num_bytes": 1_000_000}}},
    "kv-offload-mooncake-slurm": {
        "slurm": {},
        "inference.kv_cache_offload": {"type": "mooncake", "cpu": {"num_bytes": 1_000_000}},
    },
    "lora-rank-of-vllm": {f"{_V}.max_lora_rank": 1024},
    "eplb": {**FULL, f"{_V}.enable_eplb": True},
    "eplb-quantised": {
        **FULL,
        f"{_V}.enable_eplb": True,
        "weight_broadcast": {"type": "nccl", "quantize_in_weight_transfer": True},
        "trainer.model.impl": "custom",
    },
    "eplb-with-lora": {f"{_V}.enable_eplb": True},
    "quantised-transfer": {**FULL, "weight_broadcast": {"type": "nccl", "quantize_in_weight_transfer": True}},
    "quantised-transfer-custom": {
        **FULL,
        "weight_broadcast": {"type": "nccl", "quantize_in_weight_transfer": True},
        "trainer.model.impl": "custom",
    },
    "quantised-transfer-no-inference": {
        **FULL,
        "weight_broadcast": {"type": "nccl", "quantize_in_weight_transfer": True},
        "trainer.model.impl": "custom",
        "inference": GONE,
    },
    "quantised-transfer-filesystem": {
        **FULL,
        "weight_broadcast": {"type": "filesystem", "quantize_in_weight_transfer": True},
    },
    "lora-nccl": {"weight_broadcast": {"type": "nccl"}},
    "lora-nixl": {"weight_broadcast": {"type": "nixl"}},
    "lora-trainer-nccl": {"trainer.weight_broadcast": {"type": "nccl"}},
    "lora-ranks": {"orchestrator.model": {"lora": {"rank": 8}}},
    "lora-alphas": {"orchestrator.model": {"lora": {"alpha": 8.0}}},
    "lora-of-orchestrator-only": {**FULL, "orchestrator.model": {"lora": {"rank": 8}}},
    "env-vars": {"env_vars": {"NCCL_DEBUG": "INFO"}},
    "env-vars-protected": {"env_vars": {"CUDA_VISIBLE_DEVICES": "0"}},
    "env-vars-protected-trainer": {"trainer.env_vars": {"WANDB_RUN_ID": "a"}},
    "env-vars-protected-inference": {"inference.env_vars": {"PRL_RUN_NAME": "a"}},
    "env-vars-number": {"env_vars": {"NCCL_NTHREADS": 4}},
    # trainer
    "offload-two": {"trainer.model.fsdp_cpu_offload": True},
    "offload-fsdp": {**FULL, "trainer.model.fsdp_cpu_offload": True, "trainer.model.optim_cpu_offload": False},
    "offload-full": {**FULL, "trainer.model.full_offload": True, "trainer.model.optim_cpu_offload": False},
    "offload-full-two": {**FULL, "trainer.model.full_offload": True},
    "offload-full-muon": {
        **FULL,
        "trainer.model.full_offload": True,
        "trainer.model.optim_cpu_offload": False,
        "trainer.optim": {"type": "muon"},
    },
    "offload-full-sgd": {
        **FULL,
        "trainer.model.full_offload": True,
        "trainer.model.optim_cpu_offload": False,
        "trainer.optim": {"type": "sgd"},
    },
    "offload-muon-fsdp": {
        **FULL,
        "trainer.model.fsdp_cpu_offload": True,
        "trainer.model.optim_cpu_offload": False,
        "trainer.optim": {"type": "muon"},
    },
    "impl-hf": {"trainer.model.impl": "hf"},
    "impl-hf-attention-2": {"trainer.model.impl": "hf", "trainer.model.attn": "flash_attention_2"},
    "impl-hf-quantization": {
        "trainer.model.impl": "hf",
        "trainer.model.attn": "flash_attention_2",
        "trainer.model.quantization": {"type": "fp8"},
    },
    "impl-hf-context-parallel": {
        "trainer.model.impl": "hf",
        "trainer.model.attn": "flash_attention_2",
        "trainer.model.cp": 2,
    },
    "impl-hf-expert-parallel": {
        "trainer.model.impl": "hf",
        "trainer.model.attn": "flash_attention_2",
        "trainer.model.ep": 2,
    },
    "impl-hf-selective": {
        "trainer.model.impl": "hf",
        "trainer.model.attn": "flash_attention_2",
        "trainer.model.ac": {"mode": "selective"},
    },
    "trust-custom": {"trainer.model.trust_remote_code": True, "trainer.model.impl": "custom"},
    "trust": {"trainer.model.trust_remote_code": True},
    "selective-no-target": {"trainer.model.ac": {"mode": "selective", "targets": []}},
    "deepep-one": {"trainer.model.ep": 1, "trainer.model.ep_comm_backend": "deepep"},
    "mxfp8-deepep": {
        "trainer.model.quantization": {"type": "mxfp8"},
        "trainer.model.ep": 2,
        "trainer.model.ep_comm_backend": "deepep",
    },
    "vlm-auto": {
        **FULL,
        "model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b"},
        "trainer.model.optimization_dtype": "bfloat16",
        "trainer.model.reduce_dtype": "bfloat16",
    },
    "vlm": {
        **FULL,
        "model.name": "Qwen/Qwen3-VL-4B-Instruct",
        "model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b"},
        "trainer.model.optimization_dtype": "bfloat16",
        "trainer.model.reduce_dtype": "bfloat16",
        "trainer.model.impl": "custom",
    },
    "vlm-float32": {
        **FULL,
        "model.name": "Qwen/Qwen3-VL-4B-Instruct",
        "model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b"},
        "trainer.model.impl": "custom",
    },
    "vlm-incomplete": {**FULL, "model.vlm": {"vision_encoder_attr": "a"}},
    "vlm-ring": {
        **FULL,
        "model.name": "Qwen/Qwen3-VL-4B-Instruct",
        "model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b"},
        "trainer.model.optimization_dtype": "bfloat16",
        "trainer.model.reduce_dtype": "bfloat16",
        "trainer.model.impl": "custom",
        "trainer.model.cp": 2,
        "deployment.num_train_gpus": 2,
    },
    "vlm-unfrozen-lora": {
        "model.name": "Qwen/Qwen3-VL-4B-Instruct",
        "model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b", "freeze_vision_encoder": False},
        "trainer.model.optimization_dtype": "bfloat16",
        "trainer.model.reduce_dtype": "bfloat16",
        "trainer.model.impl": "custom",
    },
    "trace-long": {"trainer.trace_path": "trace.json"},
    "trace-short": {"trainer.trace_path": "trace.json", "max_steps": 5},
    "scheduler-linear": {"trainer.scheduler": {"type": "linear", "warmup_steps": 5, "decay_steps": 10}},
    "scheduler-linear-empty": {"trainer.scheduler": {"type": "linear", "warmup_steps": 0, "decay_steps": 0}},
    "scheduler-linear-long": {"trainer.scheduler": {"type": "linear", "warmup_steps": 60, "decay_steps": 60}},
    "scheduler-cosine": {"trainer.scheduler": {"type": "cosine"}},
    "scheduler-cosine-long": {"trainer.scheduler": {"type": "cosine", "warmup_steps": 100}},
    "loss-custom": {"trainer.loss": {"type": "custom"}},
    "loss-custom-path": {"trainer.loss": {"type": "custom", "import_path": "a.b"}},
    "context-parallel": {"trainer.model.cp": 2, "deployment.num_train_gpus": 2},
    "fused-chunk-text": {"trainer.model.fused_lm_head_token_chunk_size": "auto"},
    "fused-chunk-disabled": {"trainer.model.fused_lm_head_token_chunk_size": "disabled"},
    # renderer
    "renderer-unknown-model": {"model.name": "someone/tuned"},
    "renderer-default": {"model.name": "someone/tuned", "orchestrator.renderer": {"name": "default"}},
    "renderer-named": {"model.name": "someone/tuned", "orchestrator.renderer": {"name": "qwen3"}},
    "renderer-unknown-key": {"orchestrator.renderer": {"name": "qwen3", "thinking": False}},
    "renderer-by-tokenizer": {"model.name": "someone/tuned", "tokenizer": {"name": "Qwen/Qwen3-4B"}},
    "renderer-by-unknown-tokenizer": {"tokenizer": {"name": "someone/tokens"}},
    # lax types of pydantic
    "lax-number-as-text": {"orchestrator.batch_size": "128"},
    "lax-float-as-int": {"orchestrator.batch_size": 128.0},
    "lax-bool-as-number": {"trainer.enable_router_replay": 0},
}
SFT_MUTATIONS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "unknown-top": {"orchestrators": {}},
    "unknown-data": {"data.seqlen": 3},
    "batch-micro": {"data.micro_batch_size": 5},
    "batch-below-micro": {"data.batch_size": 4, "data.micro_batch_size": 8},
    "fake-data": {"data": {"type": "fake"}},
    "enum-data": {"data.type": "rl"},
    "subsets-splits": {"data.subsets": ["a", "b"], "data.splits": ["train"]},
    "subsets-probabilities": {"data.subsets": ["a", "b"], "data.probabilities": [1.0]},
    "splits-probabilities": {"data.splits": ["a", "b"], "data.probabilities": [1.0]},
    "renderer-unknown-model": {"model.name": "someone/tuned"},
    "renderer-default": {"model.name": "someone/tuned", "renderer": {"name": "default"}},
    "renderer-default-of-known-model": {"renderer": {"name": "default"}},
    "renderer-named": {"model.name": "someone/tuned", "renderer": {"name": "qwen3"}},
    "renderer-by-tokenizer": {"model.name": "someone/tuned", "tokenizer": {"name": "Qwen/Qwen3-4B"}},
    "renderer-fake-data": {"model.name": "someone/tuned", "data": {"type": "fake"}},
    "renderer-fake-data-with-val": {
        "model.name": "someone/tuned",
        "data": {"type": "fake"},
        "val": {"data": {"name": "a/b"}},
    },
    "val": {"val": {"data": {"name": "a/b"}}},
    "val-without-data": {"val": {"interval": 5}},
    "val-interval": {"val": {"interval": 0, "data": {}}},
    "gpus-too-many": {"deployment.num_train_gpus": 16},
    "multi-node": {"deployment": {"type": "multi_node", "num_train_nodes": 2}, "slurm": {}},
    "multi-node-without-slurm": {"deployment": {"type": "multi_node", "num_train_nodes": 2}},
    "multi-node-fsdp-groups": {
        "deployment": {"type": "multi_node", "num_train_nodes": 3, "nodes_per_fsdp_group": 2},
        "slurm": {},
    },
    "inference-without-eval": {"inference": {}},
    "eval": {"eval": {"source": [{"env": {"taskset": {"id": "bob/other"}}}]}, "inference": {}},
    "eval-nixl": {
        "eval": {"source": [{"env": {"taskset": {"id": "bob/other"}}}]},
        "inference": {},
        "weight_broadcast": {"type": "nixl"},
    },
    "eval-lora-nccl": {
        "eval": {"source": [{"env": {"taskset": {"id": "bob/other"}}}]},
        "inference": {},
        "model.lora": {"rank": 8},
        "weight_broadcast": {"type": "nccl"},
    },
    "eval-other-model": {
        "eval": {"source": [{"env": {"taskset": {"id": "bob/other"}}}]},
        "inference": {"vllm": {"model": "Qwen/Qwen3-4B"}},
    },
    "eval-gpus": {
        "eval": {"source": [{"env": {"taskset": {"id": "bob/other"}}}]},
        "inference": {},
        "deployment": {"num_train_gpus": 8, "num_infer_gpus": 1},
    },
    "eval-retrigger-nccl": {
        "eval": {"source": [{"env": {"taskset": {"id": "bob/other"}}}], "retrigger_on_resume": True},
        "inference": {},
    },
    "eval-multi-node-no-inference": {
        "eval": {"source": [{"env": {"taskset": {"id": "bob/other"}}}]},
        "deployment": {"type": "multi_node", "num_train_nodes": 2, "num_infer_nodes": 1},
        "slurm": {},
    },
    "eval-without-source": {"eval": {}, "inference": {}},
    "context-parallel-length": {"model.cp": 3, "deployment.num_train_gpus": 3, "data.batch_size": 33},
    "context-parallel-micro": {"model.cp": 2, "data.micro_batch_size": 2},
    "vlm-micro": {
        "model.name": "Qwen/Qwen3-VL-4B-Instruct",
        "model.vlm": {"vision_encoder_attr": "a", "language_model_attr": "b"},
        "model.optimization_dtype": "bfloat16",
        "model.reduce_dtype": "bfloat16",
        "model.impl": "custom",
        "data.micro_batch_size": 2,
    },
    "trace-long": {"trace_path": "t.json"},
    "scheduler-linear-long": {"scheduler": {"type": "linear", "warmup_steps": 60, "decay_steps": 60}},
    "offload-muon": {
        "optim": {"type": "muon", "lr": 1e-5},
        "model.fsdp_cpu_offload": True,
        "model.optim_cpu_offload": False,
    },
    "offload-full-sgd": {"optim": {"type": "sgd"}, "model.full_offload": True, "model.optim_cpu_offload": False},
    "impl-hf-expert-parallel": {"model.impl": "hf", "model.attn": "flash_attention_2", "model.ep": 2},
    "wandb-offline": {"monitors.wandb": {"offline": True}},
    "resume-step-and-dir": {"resume": {"step": 50, "dir": "a/step_50"}},
    "resume-dir-no-step": {"resume": {"dir": "a/final"}},
    "env-vars-protected": {"env_vars": {"WANDB_RUN_ID": "a"}},
    "bound-lr": {"optim.lr": -1.0},
    "lora": {"model.lora": {"rank": 8}},
}


def mutated() -> Iterator[AgreementCase]:
    """Every mutation on self-managed GPUs, which prime-rl's classes alone judge, and those of RL hosted too."""
    for name, change in RL_MUTATIONS.items():
        text = tomlkit.dumps(_changed(tomllib.loads(SOUND), change))
        yield AgreementCase(f"self-managed/{name}", f"# target: self-managed\n{text}", "self-managed")
        yield AgreementCase(f"hosted/{name}", text, "hosted")
    for name, change in SFT_MUTATIONS.items():
        text = tomlkit.dumps(_changed(tomllib.loads(SFT), change))
        yield AgreementCase(f"sft/{name}", f"# target: self-managed\n{text}", "self-managed", "sft")


def _changed(table: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    table = copy.deepcopy(table)
    for path, value in change.items():
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        node: Any = table
        for part in parents:
            node = node[part] if isinstance(part, int) else node.setdefault(part, {})
        if value is GONE:
            node.pop(last, None)
        else:
            node[last] = copy.deepcopy(value)
    return table
