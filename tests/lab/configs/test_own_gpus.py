"""Configs for one's own GPUs: one GPU shared, the commands of a run, what could be rented and what still runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.make import propose_config, with_extra
from prime_lab_mcp.lab.configs.own_gpus import (
    LaunchStep,
    needed_gb,
    rentable_gpus,
    run_steps,
    running_pods_finding,
    steps_on_pod,
)
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice
from prime_lab_mcp.lab.prime.pods import Pod
from tests.lab.configs.examples import SOUND
from tests.lab.configs.test_write import TINY, assert_sound, written

OWN: dict[str, Any] = {"target": "self-managed", "gpus": 1}
SHARED = {
    "deployment.num_train_gpus": 1,
    "deployment.num_infer_gpus": 1,
    "weight_broadcast.type": "filesystem",
    "inference.vllm.gpu_memory_utilization": 0.5,
    "trainer.model.ac.freq": 1,
}


def own(**choices: Any) -> TrainingConfig:
    return written(ConfigChoices((TINY,), **{**OWN, **choices}))[1]


def by_step(steps: tuple[LaunchStep, ...]) -> dict[str, str]:
    return {s.step: s.command for s in steps}


@pytest.mark.parametrize("lora", [None, False])
def test_one_gpu_of_ones_own_is_shared_and_its_memory_divided(lora: bool | None) -> None:
    text, config, made = written(ConfigChoices((TINY,), lora=lora, **OWN))
    assert_sound(config)
    assert {key: config.at(key) for key in SHARED} == SHARED
    assert config.at("inference.vllm.max_model_len") == config.seq_len
    assert all(made.draft.reasons[tuple(key.split("."))] for key in SHARED)
    assert "half of the GPU" in text


@pytest.mark.parametrize("choices", [{"gpus": 2}, {"gpus": None}, {"gpus": 2, "target": "hosted"}])
def test_more_than_one_gpu_and_hosted_runs_keep_the_defaults_of_prime_rl(choices: dict[str, Any]) -> None:
    config = own(**choices)
    assert [config.at(key) for key in list(SHARED)[2:]] == [None, None, None]


def test_lower_memory_and_longer_context_that_an_older_file_asks_for_stay() -> None:
    base = parse_config(
        SOUND.replace("[inference]", "[inference.vllm]\ngpu_memory_utilization = 0.35\nmax_model_len = 9000"),
        Path("old.toml"),
    )
    table = propose_config(ConfigChoices((), **OWN), ConfigContext(), "tiny", base).draft
    assert table.get("inference.vllm.gpu_memory_utilization") == 0.35
    assert table.get("inference.vllm.max_model_len") == 9000


def test_parameters_are_never_offloaded_with_lora() -> None:
    asked = with_extra(ConfigChoices((TINY,), **OWN), {})
    base = parse_config(
        SOUND + "\n[trainer.model]\nfsdp_cpu_offload = true\noptim_cpu_offload = false\n", Path("old.toml")
    )
    for lora, kept in ((True, False), (False, True)):
        choices = ConfigChoices((), lora=lora, target="self-managed", gpus=2)
        assert (
            propose_config(choices, ConfigContext(), "tiny", base).draft.get("trainer.model.fsdp_cpu_offload") is kept
        )
    assert asked.gpus == 1


def test_the_commands_of_a_run_stand_in_order_and_name_what_the_config_holds() -> None:
    config = own(gpus=2, wandb="sums", steps=40)
    steps = run_steps(config, "configs/rl/tiny.toml")
    assert [s.step for s in steps] == [
        "install prime-rl",
        "copy",
        "install environment",
        "W&B key",
        "try",
        "launch",
        "checkpoints",
        "resume",
        "watch",
    ]
    said = by_step(steps)
    assert said["install environment"].startswith("prime env install alice/tiny-env@0.1.0 && ")
    assert "import tiny_env" in said["install environment"]
    assert said["launch"] == "uv run rl @ configs/rl/tiny.toml"
    assert said["resume"] == "uv run rl @ configs/rl/tiny.toml --resume"
    assert "outputs/tiny/" in said["watch"]
    assert "every 10 steps" in next(s.why for s in steps if s.step == "checkpoints")


def test_one_gpu_is_named_twice_at_the_launch() -> None:
    said = by_step(run_steps(own(), "configs/rl/tiny.toml", shared=True))
    assert said["launch"] == "CUDA_VISIBLE_DEVICES=0,0 uv run rl @ configs/rl/tiny.toml"


def test_a_local_environment_is_installed_from_its_folder() -> None:
    config = written(ConfigChoices((SourceChoice("tiny-env"),), target="self-managed"))[1]
    assert by_step(run_steps(config, "c.toml"))["install environment"].startswith(
        "uv pip install environments/tiny_env"
    )


def test_no_name_of_a_config_escapes_its_command() -> None:
    config = parse_config(
        "# target: self-managed\n" + SOUND.replace("alice/tiny-env@0.1.0", "a/b; rm -rf ~"), Path("a.toml")
    )
    commands = [s.command for s in run_steps(config, "my configs/a;b.toml")]
    for command in commands:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        assert ";" not in list(lexer)
    assert any("'my configs/a;b.toml'" in c for c in commands)


def test_a_pod_is_rented_by_a_person_and_given_back_at_the_end() -> None:
    inner = run_steps(own(gpus=3), "c.toml")
    steps = steps_on_pod(inner, 3, "abc123")
    assert steps[4:-1] == inner
    assert [s.command for s in (*steps[:4], steps[-1])] == [
        "prime availability list --gpu-count 4",
        "prime pods create --id abc123 --name training",
        "prime pods status POD_ID",
        "prime pods ssh POD_ID",
        "prime pods terminate POD_ID",
    ]
    assert [rentable_gpus(n) for n in (1, 2, 3, 5, 8, 16)] == [1, 2, 4, 8, 8, 8]


def test_the_memory_needed_grows_with_the_model_and_with_sharing() -> None:
    small, large = own(gpus=2), own(gpus=2, model="Qwen/Qwen3-32B")
    shared = needed_gb(own(), shared=True)
    assert shared is not None
    assert (needed_gb(small) or 0) < shared < (needed_gb(large) or 0)
    full, lora = (needed_gb(own(gpus=2, lora=mode, model="Qwen/Qwen3-8B")) or 0 for mode in (False, True))
    assert 8 * 8 / 1.074 < full < 80, "weights, gradients and moments in CPU memory: 8 bytes a parameter"
    assert lora < full
    assert needed_gb(own(gpus=2, model="someone/tuned")) is None


def test_pods_that_run_are_named_with_what_they_cost() -> None:
    pods = (
        Pod("pod_1", "old run", "H100_80GB x1", "ACTIVE", "2026-11-01", 2.2),
        Pod("pod_2", "x", "A100", "PROVISIONING", "2026-11-02", None),
    )
    (finding,) = running_pods_finding(pods)
    assert (finding.code, finding.severity) == ("pods-running", "warning")
    assert "2 pods of this account are running, at least $2.20 per hour" in finding.message
    assert [row["id"] for row in finding.rows] == ["pod_1", "pod_2"]
    assert running_pods_finding(()) == ()
