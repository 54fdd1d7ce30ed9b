"""Writes reference/training-config: the keys of prime-rl's TOML that matter, types and defaults from the schema.

python -m tests.resources.config_page > .../reference/training-config.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.configs.schema import PLATFORM_KEYS, SCHEMA_COMMIT, load_schema

INTRO = """\
# Training config

Keys of a prime-rl TOML that matter to a run, with types and defaults of the schema that `check_training_config` uses.

Schema of prime-rl commit `{commit}`; the platform may run a newer one, which `prime train validate` asks. Tables
refuse keys they do not know. `write_training_config` writes all of this with its reasons; keys of older configs:
`lab://guide/migration`.

```toml
max_steps = 200
seq_len = 4096

[model]
name = "Qwen/Qwen3-4B-Instruct-2507"

[trainer.optim]
lr = 1e-5

[trainer.model.lora]
rank = 16
alpha = 32

[orchestrator]
batch_size = 256
group_size = 16

[orchestrator.train.sampling]
max_completion_tokens = 1024

[[orchestrator.train.source]]
name = "harvest"
env.taskset.id = "owner/harvest@0.1.0"
env.taskset.split = "train"
env.agent.harness.id = "null"
env.agent.runtime.type = "subprocess"

[orchestrator.eval]
interval = 20

[[orchestrator.eval.source]]
name = "harvest-eval"
env.taskset.id = "owner/harvest@0.1.0"
env.taskset.split = "eval"
env.agent.harness.id = "null"
env.agent.runtime.type = "subprocess"

[inference]

[ckpt]
interval = 50
```
"""
GROUPS: dict[str, dict[str, str]] = {
    "Run": {
        "max_steps": "always set it: without one a run goes on until it is stopped",
        "seq_len": "sets the length of trainer and orchestrator, prompt and reply together",
        "output_dir": "self-managed runs",
        "ckpt.interval": "steps between checkpoints; `[ckpt]` alone turns them on",
        "ckpt.keep_last": "how many the trainer keeps; the platform may list more",
        "resume.step": "goes on from this checkpoint; hosted runs use submit_training(resume_from=...)",
        "monitors.wandb.project": "needs WANDB_API_KEY",
    },
    "Model and trainer": {
        "model.name": 'a model of the list that `search_hub(kind="model")` shows',
        "trainer.optim.lr": "full training 1e-6, LoRA about 1e-5; the default is not raised by LoRA",
        "trainer.optim.type": "adamw, muon, sgd or sign_sgd",
        "trainer.optim.weight_decay": "recipes leave it",
        "trainer.optim.max_norm": "gradient clipping",
        "trainer.model.lora.rank": "8 to 32 is enough; `[trainer.model.lora]` turns LoRA on",
        "trainer.model.lora.alpha": "scale of the adapter; twice the rank is usual",
        "trainer.model.lora.dropout": "0 in RL recipes",
        "trainer.model.lora.target_modules": "all linear layers by default, which is best",
        "trainer.model.seq_len": "at least orchestrator.seq_len",
        "trainer.model.impl": 'auto takes prime-rl\'s own where there is one; hf needs attn = "flash_attention_2"',
        "trainer.model.attn": "auto takes the fastest of the GPU",
        "trainer.model.ac.freq": "activation checkpointing: 1 saves the most memory",
        "trainer.model.fsdp_cpu_offload": "never with LoRA, nor beside optim_cpu_offload",
        "trainer.model.optim_cpu_offload": "optimizer states in CPU memory",
        "trainer.scheduler.type": "constant, linear or cosine; warm-up and decay have to fit into max_steps",
        "trainer.enable_router_replay": "for mixtures of experts",
        "model.vlm.vision_encoder_attr": "`[model.vlm]` trains on images; without it on text alone",
    },
    "Orchestrator": {
        "orchestrator.batch_size": "rollouts of a step, a multiple of the group size; 64 at least",
        "orchestrator.token_batch_size": "instead of batch_size",
        "orchestrator.group_size": "rollouts of a task; 1 teaches nothing, 8 at least, 16 is common",
        "orchestrator.seq_len": "p99 of the prompt and all turns have to fit",
        "orchestrator.max_off_policy_steps": "how stale a rollout may be",
        "orchestrator.concurrency.max_inflight": "at least the group size",
        "orchestrator.train.sampling.max_completion_tokens": "1.25 times the 95th percentile of finished replies",
        "orchestrator.train.sampling.temperature": "1, as in the evaluation that counts",
        "orchestrator.train.sampling.extra_body": "more for the inference server",
        "orchestrator.train.filter_zero_advantages": "drops groups without a gradient after they were paid for",
        "orchestrator.algo.type": "grpo, echo, max_rl, rae, hierarchical_grpo, opd, opsd or sft",
        "orchestrator.renderer.name": "for a model prime-rl does not know by name; `default` uses its chat template",
        "orchestrator.renderer.tool_parser": "with `default` and tools: how calls are read",
    },
    "Training sources": {
        "orchestrator.train.source.name": "distinct",
        "orchestrator.train.source.ratio": "share of the batch where there are several",
        "orchestrator.train.source.group_size": "overrules orchestrator.group_size",
        "orchestrator.train.source.env.taskset.id": "`owner/name@version`, pinned; proven here, or not ours",
        "orchestrator.train.source.env.agent.harness.id": "`null` for a chat; by default `bash` in a cloud sandbox",
        "orchestrator.train.source.env.agent.runtime.type": "`subprocess` unless the task needs a container",
        "orchestrator.train.source.curriculum.gates": '`{signal = {type = "advantage_range"}}` resamples dull groups',
        "orchestrator.train.source.curriculum.sampler": '`{type = "difficulty_pool"}` weighs tasks by difficulty',
    },
    "Evaluation during the run": {
        "orchestrator.eval.interval": "a fifth of max_steps or less",
        "orchestrator.eval.group_size": "rollouts of an evaluated task",
        "orchestrator.eval.skip_first_step": "false: the base model is evaluated first",
        "orchestrator.eval.sampling.max_completion_tokens": "as in training",
        "orchestrator.eval.sampling.temperature": "as in training, or 0 for what the model would say first",
        "orchestrator.eval.source.env.taskset.id": "on a split that is not trained on",
        "orchestrator.eval.source.num_examples": "tasks of one evaluation; -1: all",
    },
    "Machines": {
        "deployment.type": "single_node or multi_node",
        "deployment.num_train_gpus": "billed by the hour, with those of inference",
        "deployment.num_infer_gpus": "at least 1, a multiple of tensor_parallel_size",
        "deployment.gpus_per_node": "training and inference together do not exceed it on one node",
        "inference.vllm.max_model_len": "at least seq_len",
        "inference.vllm.gpu_memory_utilization": "lower it only where the trainer shares the GPU",
        "inference.vllm.tool_call_parser": "auto finds it by the model's name",
        "inference.vllm.tensor_parallel_size": "GPUs that hold one copy of the model",
        "inference.vllm.enable_prefix_caching": "vLLM caches unless this is false: a group shares its prompt",
    },
}
PLUGIN = frozenset(key for keys in GROUPS.values() for key in keys if ".env.agent." in key)
"""Keys that the schema leaves to the environment's own config class."""
RULES: dict[str, str] = {
    "The file": "config-broken-toml config-toml-dialect config-unknown-key config-wrong-type config-bad-value "
    "config-missing-table config-old-key migration config-secret config-env-file-missing",
    "Environments": "config-no-train-source config-no-eval-source config-source-without-id config-source-name "
    "config-duplicate-source config-unpinned-source config-unpublished-source config-environment-missing "
    "v0-not-trainable config-unknown-taskset-key config-taskset-value config-environment-key config-taskset-unchecked",
    "Model": "config-model-name config-no-renderer config-tool-parser config-vision-model "
    "config-vlm config-model-fallback",
    "Trainer": "config-lr-unset config-lr-range config-implementation config-cpu-offload config-lora-cpu-offload "
    "config-lora-broadcast config-scheduler config-algorithm config-trace",
    "Batch and tokens": "config-two-batches config-batch-group config-small-batch config-group-size config-inflight "
    "config-seq-len config-no-completion-limit config-completion-budget config-budget-exceeds-seq-len "
    "config-no-room-for-prompt config-temperature config-eval-sampling",
    "The run": "config-no-max-steps config-no-checkpoint config-checkpoint-interval config-passes config-no-eval "
    "config-eval-on-train config-eval-interval config-curriculum config-weak-signal config-costly-gate config-speed",
    "Machines": "config-gpus config-default-gpus config-no-inference config-hosted-unsupported config-conflict "
    "config-wandb-key config-wandb-offline config-self-managed config-multi-node config-inference config-resume "
    "config-output-folder config-launcher-variable config-unproven-setting",
    "Supervised fine-tuning": "config-sft-no-volume config-sft-renderer config-sft-data config-sft-eval",
    "The platform's word": "config-refused-by-platform config-not-validated-by-platform config-validation-unavailable "
    "config-schema-newer config-toml-unchecked",
}
"""Every finding of `check_training_config`, by topic."""
JUDGED = """\
## Rules

What `check_training_config` finds beside the types above; `lab://finding/CODE` has cause, fix and example of each.

{rows}
"""
PLATFORM = """\
## Keys of the platform

`prime train` takes these top-level keys for itself: {keys}.

Secrets do not stand in the file: `prime train -e` forwards `HF_TOKEN` and `WANDB_API_KEY`, all others are set on the
environment with `prime env secret create`.
"""


def branches(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The alternatives of a node, references followed, lists entered."""
    if "$ref" in node:
        yield from branches(definitions[str(node["$ref"]).rsplit("/", 1)[-1]], definitions)
        return
    yield node
    for key in ("anyOf", "oneOf"):
        for branch in node.get(key, ()):
            yield from branches(branch, definitions)
    if isinstance(node.get("items"), Mapping):
        yield from branches(node["items"], definitions)


def find(path: str) -> list[Mapping[str, Any]]:
    """Every way in which the schema knows a dotted path; empty where it does not."""
    schema = load_schema("rl")
    definitions = schema.get("$defs", {})
    nodes: list[Mapping[str, Any]] = [schema]
    for part in path.split("."):
        inner = [branch for node in nodes for branch in branches(node, definitions)]
        nodes = [branch["properties"][part] for branch in inner if part in branch.get("properties", {})]
    return nodes


def render() -> str:
    """The whole page."""
    parts = [INTRO.format(commit=SCHEMA_COMMIT[:9])]
    for title, keys in GROUPS.items():
        rows = "\n".join(f"| `{key}` | {_type(key)} | {_default(key)} | {about} |" for key, about in keys.items())
        parts.append(f"## {title}\n\n| key | type | default | |\n|---|---|---|---|\n{rows}\n")
    rows = "\n".join(f"- {topic}: {_codes(codes)}." for topic, codes in RULES.items())
    parts.append(JUDGED.format(rows=rows))
    parts.append(PLATFORM.format(keys=", ".join(f"`{key}`" for key in PLATFORM_KEYS)))
    return "\n".join(parts)


def _codes(codes: str) -> str:
    return ", ".join(f"`{code}`" for code in codes.split())


def _type(path: str) -> str:
    if path in PLUGIN:
        return "string"
    definitions = load_schema("rl").get("$defs", {})
    kinds: dict[str, None] = {}
    for node in find(path):
        for branch in branches(node, definitions):
            if "enum" in branch:
                kinds[" or ".join(f"`{value}`" for value in branch["enum"])] = None
            elif branch.get("type") not in (None, "null"):
                kinds["table" if branch["type"] == "object" else str(branch["type"])] = None
    return ", ".join(kinds) or "table"


def _default(path: str) -> str:
    table, _, last = path.rpartition(".")
    whole = [node["default"] for node in (find(table) if table else ()) if isinstance(node.get("default"), dict)]
    own = [node["default"] for node in find(path) if "default" in node]
    found = next((default[last] for default in whole if last in default), next(iter(own), ""))
    if found == "" or isinstance(found, dict):
        return ""
    return "none" if found is None else f"`{json.dumps(found)}`"


if __name__ == "__main__":
    sys.stdout.write(render())
