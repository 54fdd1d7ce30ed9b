"""Writes reference/training-config: the keys of prime-rl's TOML that matter, types and defaults from the schema.

python -m tests.resources.config_page > .../reference/training-config.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.configs.schema import PLATFORM_KEYS, SCHEMA_COMMIT, load

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
        "ckpt.keep_last": "how many stay",
        "monitors.wandb.project": "needs WANDB_API_KEY",
    },
    "Model and trainer": {
        "model.name": "a model of the list that `search_hub(kind=\"model\")` shows",
        "trainer.optim.lr": "full training 1e-6, LoRA about 1e-5; the default is not raised by LoRA",
        "trainer.optim.weight_decay": "",
        "trainer.optim.max_norm": "gradient clipping",
        "trainer.model.lora.rank": "8 to 32 is enough; `[trainer.model.lora]` turns LoRA on",
        "trainer.model.lora.alpha": "",
        "trainer.model.lora.dropout": "",
        "trainer.model.seq_len": "at least orchestrator.seq_len",
        "trainer.model.impl": "hf for architectures without one of prime-rl's own",
        "trainer.model.ac.freq": "activation checkpointing: 1 saves the most memory",
        "trainer.model.fsdp_cpu_offload": "",
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
        "orchestrator.algo.type": "",
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
        "orchestrator.eval.group_size": "",
        "orchestrator.eval.skip_first_step": "false: the base model is evaluated first",
        "orchestrator.eval.sampling.max_completion_tokens": "",
        "orchestrator.eval.sampling.temperature": "",
        "orchestrator.eval.source.env.taskset.id": "on a split that is not trained on",
        "orchestrator.eval.source.num_examples": "tasks of one evaluation; -1: all",
    },
    "Machines": {
        "deployment.type": "single_node or multi_node",
        "deployment.num_train_gpus": "",
        "deployment.num_infer_gpus": "",
        "deployment.gpus_per_node": "",
        "inference.vllm.max_model_len": "at least seq_len",
        "inference.vllm.gpu_memory_utilization": "",
        "inference.vllm.tool_call_parser": "",
        "inference.vllm.enable_prefix_caching": "",
    },
}  # fmt: skip
PLUGIN = frozenset(key for keys in GROUPS.values() for key in keys if ".env.agent." in key)
"""Keys that the schema leaves to the environment's own config class."""
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
    schema = load("rl")
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
    parts.append(PLATFORM.format(keys=", ".join(f"`{key}`" for key in PLATFORM_KEYS)))
    return "\n".join(parts)


def _type(path: str) -> str:
    if path in PLUGIN:
        return "string"
    definitions = load("rl").get("$defs", {})
    kinds: dict[str, None] = {}
    for node in find(path):
        for branch in branches(node, definitions):
            if "enum" in branch:
                kinds[" or ".join(f"`{value}`" for value in branch["enum"])] = None
            elif branch.get("type") not in (None, "null"):
                kinds["table" if branch["type"] == "object" else str(branch["type"])] = None
    return ", ".join(kinds) or "table"


def _default(path: str) -> str:
    found = next((node["default"] for node in find(path) if "default" in node), "")
    if found == "" or isinstance(found, dict):
        return ""
    return "none" if found is None else f"`{json.dumps(found)}`"


if __name__ == "__main__":
    sys.stdout.write(render())
