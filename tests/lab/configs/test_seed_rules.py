"""Every config rule of the seed document, by name: what it says today, provoked.

Seed: the skill of January 2026 ("CONFIG VALIDATION RULES", "Single-GPU Training Constraints", "Model Selection for
Training", "Checkpointing", "Config Version Tracking", "Key Config Parameters for Speed"). Each is a rule of ours (a
finding code at a key) or a key of an earlier platform, which is named and refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.rules import model
from prime_lab_mcp.lab.models.registry import KnownModel
from tests.lab.configs.examples import sound

Changes = tuple[tuple[str, str], ...]
LORA = "[trainer.model.lora]\nrank = 16\n"
GROUP = "group_size = 16\n"
BUDGET = "max_completion_tokens = 1024"
TABLE = "[inference]"
QWEN = "Qwen/Qwen3-4B-Instruct-2507"
ID = '"alice/tiny-env@0.1.0"\n\n'

RULES: list[tuple[str, str, str, Changes]] = [
    # CONFIG VALIDATION RULES
    (
        "1: trainer.model.seq_len >= orchestrator.seq_len",
        "config-seq-len",
        "trainer.model.seq_len",
        (("seq_len = 4096\n", ""), (GROUP, f"{GROUP}seq_len = 4096\n")),
    ),
    (
        "2: LoRA is [trainer.model.lora], not experimental.lora",
        "gone",
        "trainer.model.experimental",
        ((LORA, "[trainer.model.experimental.lora]\nrank = 16\n"),),
    ),
    ("3: lora_name under [orchestrator]", "gone", "orchestrator.lora_name", ((GROUP, f'{GROUP}lora_name = "x"\n'),)),
    (
        "4: no top_p in [orchestrator.sampling]",
        "gone",
        "orchestrator.sampling.top_p",
        ((TABLE, f"[orchestrator.sampling]\ntop_p = 0.9\n{TABLE}"),),
    ),
    (
        "4: no top_p where sampling stands today",
        "config-unknown-key",
        "orchestrator.train.sampling.top_p",
        ((BUDGET, f"{BUDGET}\ntop_p = 0.9"),),
    ),
    (
        "5: no mask_truncated_completions",
        "gone",
        "orchestrator.mask_truncated_completions",
        ((GROUP, f"{GROUP}mask_truncated_completions = true\n"),),
    ),
    (
        "5: no zero_truncated_completions",
        "gone",
        "orchestrator.zero_truncated_completions",
        ((GROUP, f"{GROUP}zero_truncated_completions = true\n"),),
    ),
    (
        "6: buffer.online_difficulty_filtering",
        "config-old-key",
        "orchestrator.buffer.online_difficulty_filtering",
        ((TABLE, f"[orchestrator.buffer]\nonline_difficulty_filtering = true\n{TABLE}"),),
    ),
    (
        "6: not buffer.type",
        "config-old-key",
        "orchestrator.buffer.type",
        ((TABLE, f'[orchestrator.buffer]\ntype = "online-difficulty"\n{TABLE}'),),
    ),
    (
        "7: launched with `uv run rl @ file`, on own GPUs",
        "config-self-managed",
        "",
        (("\nmax_steps = 100", "\n# target: self-managed\nmax_steps = 100"),),
    ),
    # Single-GPU Training Constraints and GPU Requirements
    (
        "gpu_memory_utilization is a number",
        "config-wrong-type",
        "inference.vllm.gpu_memory_utilization",
        ((TABLE, '[inference.vllm]\ngpu_memory_utilization = "half"'),),
    ),
    (
        "gpu_memory_utilization stood at top level",
        "config-unknown-key",
        "gpu_memory_utilization",
        (("max_steps = 100", "max_steps = 100\ngpu_memory_utilization = 0.5"),),
    ),
    (
        "[trainer.model.ac] freq = 1 at least",
        "config-bad-value",
        "trainer.model.ac.freq",
        ((LORA, f"[trainer.model.ac]\nfreq = 0\n{LORA}"),),
    ),
    (
        "max_tokens + input < max_model_len",
        "config-budget-exceeds-seq-len",
        "max_completion_tokens",
        ((BUDGET, "max_completion_tokens = 4096"),),
    ),
    (
        "max_model_len holds the sequence",
        "config-seq-len",
        "inference.vllm.max_model_len",
        ((TABLE, "[inference.vllm]\nmax_model_len = 2048"),),
    ),
    (
        "fsdp_cpu_offload never with LoRA",
        "config-lora-cpu-offload",
        "trainer.model.fsdp_cpu_offload",
        ((LORA, f"[trainer.model]\nfsdp_cpu_offload = true\noptim_cpu_offload = false\n{LORA}"),),
    ),
    (
        "inference_gpu_ids and trainer_gpu_ids",
        "gone",
        "inference_gpu_ids",
        (("max_steps = 100", "max_steps = 100\ninference_gpu_ids = [0]"),),
    ),
    (
        "at least two GPUs, one of them for inference",
        "config-no-inference",
        "inference",
        (("num_infer_gpus = 1", "num_infer_gpus = 0"),),
    ),
    # Model Selection for Training
    ("the model is on the Hugging Face Hub", "config-model-name", "model.name", ((QWEN, "./mine"),)),
    ("the model is no vision-language model", "config-vision-model", "model.vlm", ((QWEN, "Qwen/sees"),)),
    (
        "vLLM can reload its weights: prime-rl implements it",
        "config-model-fallback",
        "trainer.model.impl",
        ((QWEN, "Qwen/foreign"),),
    ),
    ("the model's prompt is rendered as it was trained", "config-no-renderer", "model.name", ((QWEN, "Qwen/other"),)),
    (
        "enable_auto_tool_choice",
        "gone",
        "inference.model",
        ((TABLE, "[inference.model]\nenable_auto_tool_choice = true"),),
    ),
    (
        "tool_call_parser",
        "config-tool-parser",
        "orchestrator.renderer.tool_parser",
        ((TABLE, f'[orchestrator.renderer]\nname = "default"\n{TABLE}'),),
    ),
    # Checkpointing
    ("checkpointing is off by default", "config-no-checkpoint", "ckpt", (("[ckpt]\ninterval = 50\n", ""),)),
    ("[checkpoints] was its name", "config-old-key", "checkpoints", (("[ckpt]", "[checkpoints]"),)),
    # Environments
    (
        "installed by `prime env install`: a Hub name",
        "config-unpublished-source",
        "orchestrator.train.source",
        ((ID, '"tiny-env"\n\n'),),
    ),
    ("a specific version", "config-unpinned-source", "orchestrator.train.source", ((ID, '"alice/tiny-env"\n\n'),)),
    (
        "[[orchestrator.env]]",
        "config-old-key",
        "orchestrator.env",
        ((TABLE, f'[[orchestrator.env]]\nid = "alice/tiny-env"\n{TABLE}'),),
    ),
    (
        "environment arguments are those it has",
        "config-unknown-taskset-key",
        "env.taskset.difficulty",
        ((ID, '"alice/tiny-env@0.1.0"\ndifficulty = "mixed"\n\n'),),
    ),
    # Names that changed
    (
        "rollouts_per_example",
        "config-old-key",
        "orchestrator.rollouts_per_example",
        ((GROUP, "rollouts_per_example = 16\n"),),
    ),
    (
        "[orchestrator.sampling] max_tokens",
        "config-old-key",
        "orchestrator.sampling.max_tokens",
        ((TABLE, f"[orchestrator.sampling]\nmax_tokens = 10000\n{TABLE}"),),
    ),
    ("[wandb]", "config-old-key", "wandb", ((TABLE, f'[wandb]\nproject = "p"\n{TABLE}'),)),
    # Config Version Tracking
    ("[config] header", "gone", "config", ((TABLE, f'[config]\nversion = "v2"\n{TABLE}'),)),
    # Key Config Parameters for Speed
    (
        "max_tokens 10000 to 4096",
        "config-speed",
        "orchestrator.train.sampling.max_completion_tokens",
        ((BUDGET, "max_completion_tokens = 3500"),),
    ),
    (
        "rollouts_per_example 8 to 4: here 16 to 8",
        "config-speed",
        "orchestrator.group_size",
        (("batch_size = 128", "batch_size = 512"),),
    ),
    (
        "oversampling_factor",
        "config-old-key",
        "orchestrator.oversampling_factor",
        ((GROUP, f"{GROUP}oversampling_factor = 2.0\n"),),
    ),
    (
        "enable_prefix_caching",
        "config-speed",
        "inference.vllm.enable_prefix_caching",
        ((TABLE, "[inference.vllm]\nenable_prefix_caching = false"),),
    ),
    (
        "max_num_seqs 256 to 512",
        "config-speed",
        "inference.vllm.max_num_seqs",
        ((TABLE, "[inference.vllm]\nmax_num_seqs = 64"),),
    ),
    (
        "max_num_batched_tokens 8192",
        "config-speed",
        "inference.vllm.max_num_batched_tokens",
        ((TABLE, "[inference.vllm]\nmax_num_batched_tokens = 256"),),
    ),
]
"""Rule of the seed, finding code, key. `gone`: a key of an earlier platform, with or without a row of its own."""

FIELDS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"id": {"type": "string"}, "split": {"type": "string"}, "mode": {"type": "string"}},
}
SEEN = ConfigContext(
    tasks=100_000,
    prompt_tokens=300,
    completion_tokens=800,
    longest=900,
    usable=0.965,
    usable_group=16,
    learnability=0.2,
    shapes={"alice/tiny-env@0.1.0": EnvironmentSchemas(taskset=FIELDS, tools=True)},
)
CODES = {"gone": {"config-old-key", "config-unknown-key"}}


def known(name: str) -> KnownModel:
    return KnownModel(name, vision=name.endswith("sees"), native=not name.endswith("foreign"))


def told(config: TrainingConfig) -> list[tuple[str, str]]:
    return [(f.code, str(f.where or "")) for f in config_findings(config, SEEN)]


@pytest.mark.parametrize(("rule", "code", "key", "changes"), RULES, ids=[rule[0] for rule in RULES])
def test_a_rule_of_the_seed_speaks(
    rule: str, code: str, key: str, changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "find_model", known)
    before = told(sound())
    found = [
        f
        for f in config_findings(sound(*changes), SEEN)
        if f.code in CODES.get(code, {code}) and key in str(f.where or "")
    ]
    assert found, told(sound(*changes))
    assert found[0].fix
    assert (found[0].code, str(found[0].where or "")) not in before
