"""Configs that tests start from."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.examine import config_findings

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

SEED_HEADER = """
[config]
version = "v2"
created = "2026-01-05"
env_version = "0.1.1"
based_on = "qwen3-8b-2xh100.toml:v1"
notes = "Speed optimizations: reduced max_tokens, rollouts, added prefix caching"
"""

SEED_SELF_MANAGED = """
# === GPU ASSIGNMENT ===
inference_gpu_ids = [0]
trainer_gpu_ids = [1]

# === TRAINING PARAMS ===
max_steps = 1000              # Production: 1000+

# === MODEL ===
[model]
name = "Qwen/Qwen2.5-7B-Instruct"  # 7B, text-only, works with vLLM

[wandb]
project = "beautiful-soup-env"
name = "bs4-rl-qwen2.5-7b-lora"

# === TRAINING ===
[trainer.optim]
lr = 1e-5                     # Conservative LR for LoRA
weight_decay = 0.0

[trainer.model]
seq_len = 4096                # MUST be >= orchestrator.seq_len

[trainer.model.lora]          # NOT experimental.lora!
rank = 8
alpha = 32
dropout = 0.0
target_modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# === ORCHESTRATOR ===
[orchestrator]
batch_size = 128              # Rollouts per batch
rollouts_per_example = 8
seq_len = 4096                # Must be <= trainer.model.seq_len
oversampling_factor = 2.0
lora_name = "qwen2.5-7b-bs4-lora"  # REQUIRED for LoRA

[orchestrator.sampling]
max_tokens = 10000            # CRITICAL for multi-turn tool calling

[orchestrator.buffer]
online_difficulty_filtering = true  # NOT type = "online-difficulty"

# === ENVIRONMENT ===
[[orchestrator.env]]
id = "seconds-0/beautiful-soup-env"  # Must be installed via prime env install

[orchestrator.env.args]
split = "train"
mode = "tiered"
difficulty = "mixed"
seed = 42
executor_backend = "prime"
network_access = true
timeout_s = 30.0
max_output_chars = 10000

[inference.model]
enable_auto_tool_choice = true
tool_call_parser = "hermes"
"""
"""The recommended default config of the instructions that the project started from, word for word."""

LAST_SHARED_LORA = """
name = "run"
model = "Qwen/Qwen3-4B-Instruct-2507"
loss = "rl"
max_steps = 100
batch_size = 256
rollouts_per_example = 8
max_inflight_rollouts = 512
learning_rate = 1e-4
lora_alpha = 16
checkpoint_id = "ckpt_1"
cluster_name = "c1"
env_files = ["secrets.env"]

[[env]]
id = "alice/tiny-env"
version = "0.1.0"
name = "tiny"
ratio = 0.7
group_size = 8
max_turns = 4
max_retries = 2
args = { min_turns = 3 }

[env.sampling]
max_tokens = 256

[[env]]
name = "other"
ratio = 0.3

[env.taskset]
id = "bob/other@2.0.0"
difficulty = "hard"

[env.harness]
id = "bash"
runtime = { type = "subprocess" }

[sampling]
max_tokens = 512
temperature = 0.7
top_p = 0.9
reasoning_effort = "low"

[sampling.extra_body]
min_p = 0.1

[sampling.temp_scheduler]
type = "linear"
start_temperature = 1.0
end_temperature = 0.5

[eval]
interval = 50
num_examples = 32
rollouts_per_example = 2
skip_first_step = true

[eval.sampling]
max_tokens = 300

[[eval.env]]
id = "alice/tiny-env@0.1.0"
num_examples = 16
rollouts_per_example = 1

[val]
num_examples = 64
interval = 5

[[pre_batch_filters]]
type = "zero_advantage"
enforce = true

[[post_batch_filters]]
type = "repetition"
window = 3

[wandb]
project = "p"
name = "w"

[checkpoints]
interval = 25
keep_cloud = 3

[adapters]
interval = 10
keep_last = 1

[infrastructure]
compute_size = "large"

[tailscale]
enabled = true
auth_key = "tskey-auth-kXYZ"

[run_config]
anything = 1
"""
"""Every field that the configs of `prime` 0.12, the last of that shape, had (its `commands/rl.py`)."""


def sound(*changes: tuple[str, str]) -> TrainingConfig:
    """The sound config with pieces of text replaced; each piece must be there."""
    text = SOUND
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_config(text, Path("sound.toml"))


def codes(config: TrainingConfig, severity: str | None = None, seen: ConfigContext | None = None) -> set[str]:
    return {f.code for f in config_findings(config, seen) if severity in (None, f.severity)}
