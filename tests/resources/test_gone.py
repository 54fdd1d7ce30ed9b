"""guide/migration names every command, flag and key of the seeds that is gone or moved, with its successor."""

from __future__ import annotations

import re
from importlib import resources

from prime_lab_mcp.lab.configs import older_platforms
from tests.resources.config_page import find
from tests.resources.fenced import page
from tests.resources.known import tools
from tests.support.laws import every

FINDINGS = resources.files("prime_lab_mcp.resources") / "findings"
GUIDE = page("guide/migration")
PAGES = re.findall(r"^## (config-[a-z-]+)$", (FINDINGS / "config.md").read_text(encoding="utf-8"), re.M)
COMMANDS = (
    "pip install prime verifiers datasets",
    "scripts/preflight.py",
    "--install",
    "scripts/inspect_dataset.py",
    "scripts/test_reward.py",
    "--verbose",
    "--preset gsm8k",
    "--custom tests.json",
    "scripts/check_reward_distribution.py",
    "--results",
    "--last-n",
    "scripts/submit_training.py",
    "--env",
    "--model",
    "--steps",
    "--batch",
    "--rollouts",
    "--tokens",
    "--wandb",
    "--config",
    "--yes",
    "scripts/verify_model_for_training.py",
    "prime env info owner/name",
    "prime env init",
    "prime env eval",
    "-a",
    "-m",
    "-n",
    "-t",
    "prime eval run NAME -m MODEL -n 50",
    "prime eval run --skip-upload",
    "prime env install NAME --with pip",
    "prime env push --dry-run",
    "prime env push --auto-bump",
    "prime env action",
    "prime env list --show-actions",
    "prime rl run FILE",
    "prime rl FILE",
    "prime train --full-finetune",
    "prime lab setup",
    "prime lab sync",
    "prime lab doctor",
    "prime gepa run",
    "vf-setup",
    "vf-tui",
    "vf-install",
    "vf-build",
    "vf-eval -s owner/name",
    "--slug",
    "--num",
    "python -m bs4_env.scripts.eval_with_llm",
    "OPENROUTER_API_KEY",
    "uv run rl @ FILE",
    "trainer",
    "orchestrator",
    "inference",
    "sft",
    "eval",
    "synthesize",
    "--ckpt",
    "--ckpt.interval",
    "--ckpt.keep-last",
    "--ckpt.save-async",
    "--ckpt.resume-step",
    "checkpoint_id",
    "tail -f",
    "tmux attach",
    "prime inference models",
    "prime availability list",
    "prime pods create",
    "prime pods ssh",
    "prime pods terminate",
    "prime login",
    "mcp__context7__resolve-library-id",
    "prime env list",
    "prime env pull owner/name",
    "prime env install owner/name@1.0.0",
    'python -c "from verifiers import load_environment; ..."',
    "prime env push NAME",
    "--team",
    "results_*.json",
    "tmux new",
    "source .env",
    "export WANDB_API_KEY",
    "/root/.netrc",
    "scripts/pod_setup.sh",
    "VLLM_USE_V1=0",
    "VLLM_WORKER_MULTIPROC_METHOD=spawn",
    "git show v1:configs",
    "prime pods list",
    "prime pods status",
    "--gpu-type H100_80GB",
)
"""As the seeds and the skills they come from have them; NAME, FILE and MODEL stand for theirs."""
FILES = (
    "environments/my_env/my_env.py",
    "outputs/evals/NAME/results.jsonl",
    "configs/prime-rl/NAME.toml",
    "[config]",
    "configs/registry.json",
)
CODE = ("verifiers.api.v1", "TaskSet(name=..., tasks=...)", "Rubric(score_fn=...)", "ChatMessage")
API = (
    "load_environment",
    "SingleTurnEnv",
    "MultiTurnEnv",
    "ToolEnv",
    "StatefulToolEnv",
    "SandboxEnv",
    "PythonEnv",
    "EnvGroup",
    "XMLParser",
    "ThinkParser",
    "Parser",
    "Rubric",
    "JudgeRubric",
    "MathRubric",
    "vf.cleanup",
    "vf.teardown",
    "vf.stop",
    "state",
    "info",
    "completion",
    "eval_dataset",
    "system_prompt",
    "add_metric",
)
KEYS = (
    'model = "NAME"',
    "[[env]]",
    "[[orchestrator.env]]",
    "[orchestrator.env.args]",
    "batch_size",
    "rollouts_per_example",
    "orchestrator.rollouts_per_example",
    "sampling.max_tokens",
    "orchestrator.sampling.max_tokens",
    "sampling.temperature",
    "orchestrator.sampling.temperature",
    "orchestrator.sampling.top_p",
    "learning_rate",
    "lora_alpha",
    "trainer.model.experimental.lora",
    "orchestrator.lora_name",
    "oversampling_factor",
    "orchestrator.oversampling_factor",
    "buffer.online_difficulty_filtering",
    "orchestrator.buffer.online_difficulty_filtering",
    "orchestrator.buffer.type",
    "orchestrator.mask_truncated_completions",
    "orchestrator.zero_truncated_completions",
    "inference_gpu_ids",
    "trainer_gpu_ids",
    "inference.model.enable_auto_tool_choice",
    "inference.model.tool_call_parser",
    "inference.gpu_memory_utilization",
    "inference.enable_prefix_caching",
    "inference.max_num_seqs",
    "inference.max_num_batched_tokens",
    "wandb.project",
    "wandb.name",
    "checkpoints",
    "eval.interval",
    "eval.num_examples",
    "eval.eval_base_model",
    "val",
    "config.version",
    "config.based_on",
)
RULES = (
    "trainer.model.seq_len",
    "[trainer.model.experimental.lora]",
    "lora_name",
    "top_p",
    "mask_truncated_completions",
    "zero_truncated_completions",
    'type = "online-difficulty"',
    "uv run rl @",
    "pip install -e .",
    "checkpoints are off",
    "`max_tokens` 10000",
    "max_model_len",
    "rollouts_per_example",
    "batch_size",
    "lr",
    "temperature",
    "inference_gpu_ids",
    "fsdp_cpu_offload",
    "gpu_memory_utilization",
    "`mode` and `difficulty`",
    "enable_prefix_caching",
    "max_num_seqs",
    "max_num_batched_tokens",
    "vision-language",
    "`[config]` header",
    "bump the version",
    "active_configs",
    "verify the model",
)
"""The config rules of the seeds, each by a word of its own: numbered rules, parameters, GPUs, speed, versions."""
UNCHANGED = (
    "max_steps",
    "seq_len",
    "trainer.optim.lr",
    "trainer.optim.weight_decay",
    "trainer.model.lora.rank",
    "trainer.model.lora.alpha",
    "trainer.model.ac.freq",
    "trainer.model.impl",
    "trainer.model.fsdp_cpu_offload",
)


def section(title: str) -> str:
    return GUIDE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| ") and not line.startswith("| older")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@every("name", COMMANDS)
def test_a_command_or_flag_of_the_seeds_has_a_successor(name: str) -> None:
    fitting = [row for row in rows("Commands") if re.search(rf"`{re.escape(name)}(?![\w-])", row[0])]
    assert fitting
    assert all(row[1] for row in fitting)


@every("name", FILES)
def test_a_file_of_the_seeds_has_a_successor(name: str) -> None:
    assert any(f"`{name}`" in row[0] for row in rows("Files and results"))


@every("name", CODE)
def test_code_that_never_ran_is_called_that(name: str) -> None:
    assert f"`{name}`" in section("Code that never ran")


@every("name", API)
def test_a_piece_of_the_v0_api_has_a_counterpart(name: str) -> None:
    assert any(re.search(rf"\b{re.escape(name)}\b", row[0]) for row in rows("What becomes of what"))


@every("name", KEYS)
def test_a_key_of_the_seeds_has_a_successor_known_to_the_schema(name: str) -> None:
    (row,) = [row for row in rows("Training TOML") if f"`{name}`" in row[0]]
    successors = [re.sub(r"[\[\]]", "", key) for key in re.findall(r"`([\[\w.]+\]*)`", row[1])]
    for key in [key for key in successors if "." in key and not key.startswith(("env.", "configs/"))]:
        assert find(key), f"{key} is not in the schema"


@every("name", [key for key in KEYS if re.fullmatch(r"[a-z_.]+", key)])
def test_a_key_called_gone_is_not_in_the_schema_today(name: str) -> None:
    assert not find(name) or name in ("eval.interval", "eval.num_examples")


@every("name", UNCHANGED)
def test_a_key_called_unchanged_is_in_the_schema(name: str) -> None:
    assert f"`{name}`" in section("Training TOML").rsplit("\n\n", 1)[1]
    assert find(name)


@every("old", older_platforms.OLD_KEYS, ids=lambda key: key.path)
def test_what_the_checks_call_the_successor_is_in_the_schema(old: older_platforms.OldKey) -> None:
    if old.to is not None and re.fullmatch(r"[\[\]\w.]+", old.to):
        assert find(re.sub(r"[\[\]]", "", old.to))


@every("name", RULES)
def test_a_config_rule_of_the_seeds_has_a_successor_that_exists(name: str) -> None:
    (row,) = [row for row in rows("Config rules") if name in row[0]]
    named = set(re.findall(r"`(config-[a-z-]+)`", row[1]))
    used = set(re.findall(r"`([a-z]+_[a-z_]+)(?:\(|`)", row[1])) - {"seq_len"}
    keys = re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", row[1])
    assert named <= set(PAGES)
    assert used <= set(tools())
    assert all(find(key) for key in keys)
    assert row[1]


def test_successors_that_are_tools_exist() -> None:
    named = {name for row in rows("Commands") for name in re.findall(r"`([a-z]+_[a-z_]+)(?:\(|`)", row[1])}
    assert named - set(tools()) == {"keep_last"}
