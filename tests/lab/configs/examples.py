"""Configs that tests start from."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.read import Config, parse
from prime_lab_mcp.lab.configs.rules import judge

SOUND = """
max_steps = 100
seq_len = 4096

[model]
name = "Qwen/Qwen3-4B-Instruct-2507"

[deployment]
num_train_gpus = 1
num_infer_gpus = 1

[ckpt]
interval = 50

[trainer.model.lora]
rank = 16

[trainer.optim]
lr = 1e-5

[orchestrator]
batch_size = 128
group_size = 16

[orchestrator.train.sampling]
max_completion_tokens = 1024

[[orchestrator.train.source]]
name = "tiny"

[orchestrator.train.source.env.taskset]
id = "alice/tiny-env@0.1.0"

[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.eval]
interval = 20

[[orchestrator.eval.source]]
name = "tiny-eval"

[orchestrator.eval.source.env.taskset]
id = "alice/tiny-env@0.1.0"
split = "eval"

[inference]
"""

SHARED_LORA = """
model = "Qwen/Qwen3-4B-Instruct-2507"
max_steps = 100
batch_size = 256
rollouts_per_example = 8
learning_rate = 1e-4
lora_alpha = 16
oversampling_factor = 2.0
env_files = ["secrets.env"]

[sampling]
max_tokens = 512
temperature = 0.7
enable_thinking = false

[[env]]
id = "alice/tiny-env@0.1.0"
args = { min_turns = 3 }

[wandb]
project = "p"
entity = "e"

[eval]
interval = 50
num_examples = 32
rollouts_per_example = 2
eval_base_model = false

[[eval.env]]
id = "alice/tiny-env@0.1.0"
args = { split = "test" }

[val]
num_examples = 64

[buffer]
online_difficulty_filtering = true
easy_threshold = 0.8

[checkpoints]
interval = 25
"""

OLDER_PRIME_RL = """
inference_gpu_ids = [0]
trainer_gpu_ids = [1]
max_steps = 1000

[model]
name = "Qwen/Qwen2.5-7B-Instruct"

[wandb]
project = "beautiful-soup-env"

[trainer.optim]
lr = 1e-5
weight_decay = 0.0

[trainer.model]
seq_len = 4096
impl = "liger_kernel"

[trainer.model.experimental.lora]
rank = 8
target_modules = ["q_proj", "v_proj"]

[orchestrator]
batch_size = 128
rollouts_per_example = 8
seq_len = 4096
oversampling_factor = 2.0
lora_name = "bs4-lora"

[orchestrator.sampling]
max_tokens = 10000

[orchestrator.buffer]
online_difficulty_filtering = true

[[orchestrator.env]]
id = "alice/beautiful-soup-env@1.0.0"

[orchestrator.env.args]
split = "train"
timeout_s = 30.0

[inference.model]
enable_auto_tool_choice = true
tool_call_parser = "hermes"
"""


def sound(*changes: tuple[str, str]) -> Config:
    """The sound config with pieces of text replaced; each piece must be there."""
    text = SOUND
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text, Path("sound.toml"))


def codes(config: Config, severity: str | None = None, seen: Observed | None = None) -> set[str]:
    return {f.code for f in judge(config, seen) if severity in (None, f.severity)}
