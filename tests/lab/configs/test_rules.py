"""Every rule speaks when its flaw is there, and is silent about a sound config."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Severity
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement, estimate_batch
from prime_lab_mcp.lab.configs.examine import CONFIG_RULES, config_findings
from tests.lab.configs.examples import OLDER_PRIME_RL, SHARED_LORA, SOUND, codes, sound

B, W, INFO = "blocker", "warning", "info"
EVAL = SOUND[SOUND.index("[orchestrator.eval]") : SOUND.index("\n[inference]")]
AGENT = 'harness]\nid = "null"'
CURRICULUM = f"{AGENT}\n[orchestrator.train.source.curriculum"
POOLS = f'{CURRICULUM}.sampler]\ntype = "difficulty_pool"\n[orchestrator.train.source.curriculum.sampler.pools.a]\n'
LORA = "[trainer.model.lora]\nrank = 16\n"
TRAINER = "[trainer.model]\n"
HF = f'{TRAINER}impl = "hf"\nattn = "flash_attention_2"\n'
OFFLOADED = f"{TRAINER}fsdp_cpu_offload = true\noptim_cpu_offload = false\n"
VLM = '[model.vlm]\nvision_encoder_attr = "model.visual"\nlanguage_model_attr = "model.language_model"\n'
LINEAR = '[trainer.scheduler]\ntype = "linear"\n'
LORA_RATE = "[trainer.model.lora]\nrank = 16\n\n[trainer.optim]\nlr = 1e-5"


def test_a_sound_config_has_no_finding() -> None:
    assert config_findings(sound()) == ()


FLAWS: list[tuple[str, Severity, str, str]] = [
    ("config-two-batches", B, "batch_size = 128", "batch_size = 128\ntoken_batch_size = 9"),
    ("config-batch-group", B, "batch_size = 128", "batch_size = 120"),
    ("config-small-batch", W, "batch_size = 128", "batch_size = 32"),
    ("config-group-size", B, "group_size = 16", "group_size = 1"),
    ("config-group-size", B, "group_size = 16\n", ""),
    ("config-group-size", W, "group_size = 16", "group_size = 4"),
    ("config-inflight", B, "group_size = 16\n", "group_size = 16\nconcurrency.max_inflight = 8\n"),
    ("config-inflight", B, "group_size = 16\n", "group_size = 16\nconcurrency.initial_inflight = 8\n"),
    ("config-seq-len", B, "[inference]", "[inference.vllm]\nmax_model_len = 1024"),
    ("config-no-completion-limit", W, "max_completion_tokens = 1024", "temperature = 1.0"),
    ("config-budget-exceeds-seq-len", B, "max_completion_tokens = 1024", "max_completion_tokens = 8192"),
    ("config-no-room-for-prompt", W, "max_completion_tokens = 1024", "max_completion_tokens = 4000"),
    ("config-temperature", W, "max_completion_tokens = 1024", "max_completion_tokens = 1024\ntemperature = 0.7"),
    ("config-lr-unset", W, "lr = 1e-5", "weight_decay = 0.0"),
    ("config-lr-range", W, "lr = 1e-5", "lr = 1e-3"),
    ("config-lr-range", W, LORA_RATE, "[trainer.optim]\nlr = 1e-4"),
    ("config-no-max-steps", B, "max_steps = 100\n", ""),
    ("config-no-max-steps", B, "max_steps = 100\n", "max_steps = 0\n"),
    ("config-no-checkpoint", W, "[ckpt]\ninterval = 50\n", ""),
    ("config-checkpoint-interval", INFO, "interval = 50", "interval = 500"),
    ("config-no-eval", W, EVAL, ""),
    ("config-no-eval", W, "interval = 20", "interval = 20\nnum_examples = 8"),
    ("config-no-eval-source", B, EVAL, "[orchestrator.eval]\ninterval = 20\n"),
    ("config-eval-on-train", W, 'split = "eval"\n', ""),
    ("config-eval-interval", W, "interval = 20", "interval = 60"),
    ("config-source-without-id", B, 'id = "alice/tiny-env@0.1.0"\n\n', 'kind = "x"\n\n'),
    ("config-source-name", B, 'name = "tiny"', 'name = "agg"'),
    ("config-unpinned-source", B, 'tiny-env@0.1.0"\n\n', 'tiny-env"\n\n'),
    ("config-unpinned-source", B, 'tiny-env@0.1.0"\n\n', 'tiny-env@latest"\n\n'),
    ("config-unpublished-source", B, '"alice/tiny-env@0.1.0"\n\n', '"tiny-env"\n\n'),
    ("config-no-inference", B, "[inference]", ""),
    ("config-no-inference", B, "num_infer_gpus = 1", "num_infer_gpus = 0"),
    ("config-gpus", B, "num_train_gpus = 1", "num_train_gpus = 0"),
    ("config-gpus", B, "num_infer_gpus = 1", "num_infer_gpus = 8"),
    ("config-gpus", B, "[inference]", "[inference.vllm]\ntensor_parallel_size = 2"),
    ("config-default-gpus", INFO, "[deployment]\nnum_train_gpus = 1\nnum_infer_gpus = 1\n", ""),
    ("config-no-renderer", B, "Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4b-instruct"),
    ("config-no-renderer", B, "[inference]", '[tokenizer]\nname = "my/tokenizer"\n[inference]'),
    ("config-conflict", B, "group_size = 16", "group_size = 16\nseq_len = 2048"),
    ("config-conflict", B, "[ckpt]\ninterval = 50\n", "[trainer.ckpt]\ninterval = 50\n"),
    ("config-lora-broadcast", B, "[inference]", '[weight_broadcast]\ntype = "nccl"\n[inference]'),
    ("config-wandb-key", INFO, "[inference]", '[monitors.wandb]\nproject = "p"\n[inference]'),
    ("config-hosted-unsupported", B, "[inference]", "[monitors.wandb]\noffline = true\n[inference]"),
    ("config-hosted-unsupported", B, "max_steps = 100\n", "max_steps = 100\nclean = true\n"),
    ("config-hosted-unsupported", B, "[inference]", "[k8s]\nx = 1\n[inference]"),
    ("config-hosted-unsupported", B, "[inference]", '[inference.deployment]\ntype = "disaggregated"'),
    ("config-conflict", B, "[inference]", "[orchestrator.model.lora]\nalpha = 7\n[inference]"),
    ("config-conflict", B, "[inference]", "[trainer.resume]\nstep = 1\n[inference]"),
    ("config-checkpoint-interval", B, "interval = 50", "interval = 0"),
    ("config-bad-value", B, "[inference]", "[orchestrator.renderer]\nenable_thinking = true\n[inference]"),
    ("config-bad-value", B, "[inference]", '[inference.vllm]\nmodel = "None"'),
    ("config-secret", B, "[inference]", '[env_vars]\nWANDB_API_KEY = "0123456789abcdef"\n[inference]'),
    ("config-secret", B, "[inference]", '[monitors.wandb]\nproject = "hf_abcdefghijklmnop"\n[inference]'),
    ("config-old-key", B, "group_size = 16", "rollouts_per_example = 16"),
    ("config-old-key", B, "[inference]", "[orchestrator.buffer]\nonline_difficulty_filtering = true\n[inference]"),
    ("config-old-key", B, "[inference]", '[wandb]\nproject = "p"\n[inference]'),
    ("config-unknown-key", B, "group_size = 16", "group_size = 16\nunheard_of = 1"),
    ("config-wrong-type", B, "group_size = 16", 'group_size = "sixteen"'),
    ("config-bad-value", B, "[inference]", '[inference.vllm]\ndtype = "float8"'),
    ("config-lora-cpu-offload", B, LORA, f"{TRAINER}fsdp_cpu_offload = true\noptim_cpu_offload = false\n{LORA}"),
    ("config-cpu-offload", B, LORA, f"{TRAINER}fsdp_cpu_offload = true\n"),
    ("config-cpu-offload", B, LORA, f"{TRAINER}full_offload = true\n"),
    ("config-cpu-offload", B, LORA_RATE, f'{OFFLOADED}[trainer.optim]\ntype = "muon"'),
    ("config-implementation", B, LORA, f'{TRAINER}impl = "hf"\n{LORA}'),
    ("config-implementation", B, LORA, f"{HF}cp = 2\n{LORA}"),
    ("config-implementation", B, LORA, f"{HF}ep = 2\n{LORA}"),
    ("config-implementation", B, LORA, f'{HF}ac.mode = "selective"\n{LORA}'),
    ("config-implementation", B, LORA, f'{HF}quantization.type = "fp8"\n{LORA}'),
    ("config-vlm", B, "[ckpt]", f"{VLM}[ckpt]"),
    ("config-vlm", B, "[ckpt]", f"{VLM}freeze_vision_encoder = false\n[ckpt]"),
    ("config-scheduler", B, "[inference]", f"{LINEAR}decay_steps = 200\n[inference]"),
    ("config-scheduler", B, "[inference]", f"{LINEAR}warmup_steps = 0\ndecay_steps = 0\n[inference]"),
    ("config-scheduler", B, "[inference]", '[trainer.scheduler]\ntype = "cosine"\nwarmup_steps = 100\n[inference]'),
    ("config-model-name", B, "Qwen/Qwen3-4B-Instruct-2507", "Qwen3-4B-Instruct-2507"),
    ("config-model-name", B, "Qwen/Qwen3-4B-Instruct-2507", "./model/mine"),
    ("config-speed", INFO, "[inference]", "[inference.vllm]\nenable_prefix_caching = false"),
    ("config-speed", INFO, "[inference]", "[inference.vllm]\nmax_num_seqs = 64"),
    ("config-speed", INFO, "group_size = 16\n", "group_size = 16\nconcurrency.max_inflight = 64\n"),
    ("config-curriculum", B, AGENT, f"{CURRICULUM}.gates.g]\nreject_min = 1.0\n"),
    ("config-curriculum", B, AGENT, f"{POOLS}threshold = 1.0\nweight = 0.0\n"),
]


@pytest.mark.parametrize(("code", "severity", "old", "new"), FLAWS)
def test_a_flaw_is_found_with_its_severity(code: str, severity: Severity, old: str, new: str) -> None:
    found = [f for f in config_findings(sound((old, new))) if f.code == code]
    assert [f.severity for f in found[:1]] == [severity]
    assert found[0].fix


@pytest.mark.parametrize("name", sorted({flaw[0] for flaw in FLAWS}))
def test_the_sound_config_is_free_of_that_flaw(name: str) -> None:
    assert name not in codes(sound())


def test_no_rule_is_without_a_flaw_that_wakes_it() -> None:
    tested_below = {"lenient_toml", "passes", "usable_signal", "self_managed"}
    tested_beside = {
        *("taskset_keys", "environment_keys", "unchecked_environments"),  # test_rules_environment.py
        *("native_model", "tool_parser"),  # test_rules_model.py
        *("fewer_tokens", "fewer_rollouts", "batched_tokens", "resampling"),  # test_rules_speed.py
        *("harness_keys", "component_values", "nodes", "node_groups", "router"),  # test_agreement.py
        *("cache", "adapter_rank", "resume_table", "output_folders", "launcher_variables", "logging", "tracing"),
        *("frozen_models", "sampling_model", "algorithm_tables", "own_implementation"),
    }
    flawed = [sound((old, new)) for _, _, old, new in FLAWS]
    silent = [r.__name__ for r in CONFIG_RULES if not any(list(r(config, ConfigContext())) for config in flawed)]
    assert set(silent) == tested_below | tested_beside


def test_a_trainer_shorter_than_the_orchestrator_is_blocked() -> None:
    config = sound(("seq_len = 4096\n", ""), ("batch_size = 128", "batch_size = 128\nseq_len = 4096"))
    assert codes(config, "blocker") == {"config-seq-len"}


def test_a_config_without_any_training_source_is_blocked() -> None:
    text = "[trainer]\n[orchestrator]\n[inference]\n"
    assert "config-no-train-source" in codes(parse_config(text, Path("a.toml")), "blocker")


def test_two_sources_of_one_name_are_blocked() -> None:
    twice = '[[orchestrator.train.source]]\nname = "tiny"\nenv.taskset.id = "a/b@1"\n'
    assert "config-duplicate-source" in codes(
        sound(("[orchestrator.eval]\n", f"{twice}\n[orchestrator.eval]\n")), "blocker"
    )


def test_the_retired_shape_is_one_blocker_that_names_the_way_out() -> None:
    for text in (SHARED_LORA, 'model = "m"', '[[env]]\nid = "a/b"'):
        findings = [f for f in config_findings(parse_config(text, Path("old.toml"))) if f.severity == "blocker"]
        assert [f.code for f in findings] == ["migration"]
        assert "write_training_config(based_on=" in findings[0].fix


def test_keys_of_an_older_prime_rl_are_named_with_what_became_of_them() -> None:
    findings = config_findings(parse_config(OLDER_PRIME_RL, Path("old.toml")))
    old = {f.where: f.fix for f in findings if f.code == "config-old-key"}
    assert "orchestrator.group_size" in old["orchestrator.rollouts_per_example"]
    assert "advantage_range" in old["orchestrator.buffer.online_difficulty_filtering"]
    assert "[[orchestrator.train.source]]" in old["orchestrator.env"]


def test_a_top_level_buffer_is_translated_not_only_refused() -> None:
    config = sound(("[inference]", "[buffer]\nonline_difficulty_filtering = true\n[inference]"))
    (finding,) = [f for f in config_findings(config) if f.code == "config-old-key"]
    assert "advantage_range" in finding.fix


def test_an_unpinned_source_of_ours_is_only_a_warning() -> None:
    config = sound(("alice/tiny-env@0.1.0", "alice/tiny-env"))
    ours = ConfigContext(own_environments=frozenset({"alice/tiny-env"}))
    assert "config-unpinned-source" in codes(config, "warning", ours)
    assert codes(config, "blocker", ours) == set()


def test_one_s_own_gpus_need_no_pin_and_no_inference_table() -> None:
    config = parse_config(
        "# target: self-managed\n" + SOUND.replace("alice/tiny-env@0.1.0", "tiny-env"), Path("a.toml")
    )
    assert codes(config) == {"config-self-managed"}


def test_a_token_batch_asks_for_no_rollout_batch() -> None:
    assert codes(sound(("batch_size = 128", "token_batch_size = 100000"))) == set()


def test_algorithms_that_compare_no_groups_may_have_groups_of_one() -> None:
    config = sound(("group_size = 16", 'group_size = 1\nalgo.type = "opsd"'))
    assert "config-group-size" not in codes(config)


def test_an_explicit_renderer_answers_for_an_unknown_model() -> None:
    config = sound(
        ("Qwen/Qwen3-4B-Instruct-2507", "me/tuned"),
        ("[inference]", '[orchestrator.renderer]\nname = "qwen3"\n[inference]'),
    )
    assert codes(config) == {"config-unproven-setting"}  # that it fits the model is known to its user alone


@pytest.mark.parametrize(("tasks", "severity"), [(10_000, None), (200, None), (20, "warning")])
def test_passes_over_the_data_are_counted(tasks: int, severity: Severity | None) -> None:
    found = [f.severity for f in config_findings(sound(), ConfigContext(tasks=tasks)) if f.code == "config-passes"]
    assert found == ([severity] if severity else [])


def test_an_infinite_taskset_is_passed_over_by_nobody() -> None:
    assert codes(sound(), None, ConfigContext(tasks=1, infinite=True)) == set()


def test_measured_tokens_decide_whether_the_budget_holds() -> None:
    assert "config-completion-budget" in codes(sound(), "warning", ConfigContext(completion_tokens=900))
    assert codes(sound(), None, ConfigContext(completion_tokens=800)) == set()
    assert "config-completion-budget" in codes(sound(), "blocker", ConfigContext(completion_tokens=2100))


def test_measured_prompts_decide_whether_a_sample_fits() -> None:
    assert "config-budget-exceeds-seq-len" in codes(sound(), "blocker", ConfigContext(prompt_tokens=3500))
    assert codes(sound(), None, ConfigContext(prompt_tokens=3000)) == set()


def test_a_temperature_at_which_rollouts_are_alike_blocks_unless_it_was_evaluated() -> None:
    cold = sound(("max_completion_tokens = 1024", "max_completion_tokens = 1024\ntemperature = 0.01"))
    assert "config-temperature" in codes(cold, "blocker", ConfigContext(temperature=1.0))
    assert "config-temperature" in codes(cold, "warning", ConfigContext(temperature=0.01))


def test_an_eval_at_another_temperature_is_said_to_prove_less() -> None:
    assert codes(sound(), "warning", ConfigContext(temperature=0.7)) == {"config-eval-sampling"}


def test_a_weak_signal_is_told_in_rollouts() -> None:
    (finding,) = config_findings(sound(), ConfigContext(usable=0.2))
    assert finding.code == "config-weak-signal"
    assert "26 of 128" in finding.message
    assert "and a step should have at least 64 rollouts and 8 groups of that kind" in finding.message
    fitted = sound(("batch_size = 128", "batch_size = 128  # the budget of $30.00 holds no more"))
    (bounded,) = config_findings(fitted, ConfigContext(usable=0.2))
    enough = int(bounded.fix.partition("batch=")[2].partition(" ")[0])
    assert not config_findings(sound(("batch_size = 128", f"batch_size = {enough}")), ConfigContext(usable=0.2))


def test_a_gate_turns_missing_signal_into_cost() -> None:
    gate = 'harness]\nid = "null"\n[orchestrator.train.source.curriculum.gates.g]\ntype = "advantage_range"\n'
    config = sound(('harness]\nid = "null"', gate))
    assert codes(config, None, ConfigContext(usable=0.1)) == {"config-costly-gate"}
    assert codes(config, "warning", ConfigContext(usable=0.5)) == set()


def test_difficulty_pools_need_finite_and_distinct_tasks() -> None:
    pools = 'harness]\nid = "null"\n[orchestrator.train.source.curriculum.sampler]\ntype = "difficulty_pool"\n'
    config = sound(('harness]\nid = "null"', pools))
    assert codes(config) == set()
    assert codes(config, "blocker", ConfigContext(infinite=True)) == {"config-curriculum"}
    assert codes(config, "blocker", ConfigContext(duplicate_tasks=True)) == {"config-curriculum"}


def test_the_estimate_compares_settings_by_signal_and_price() -> None:
    seen = ConfigContext(usable=0.5, prompt_tokens=100, completion_tokens=400, learnability=0.2, price_per_gpu_hour=2.0)
    small, short = (
        estimate_batch(sound(), seen),
        estimate_batch(sound(), ConfigContext(usable=0.5, completion_tokens=400)),
    )
    assert small is not None
    assert small.signal_per_dollar is not None
    assert (small.rollouts, small.gradient_rollouts, small.tokens) == (128, 64.0, 64_000)
    assert short is not None
    assert short.signal_per_dollar is None


def test_what_the_parser_of_prime_train_reads_differently_is_blocked() -> None:
    pytest.importorskip("toml")
    mixed = sound(('split = "eval"', 'split = "eval"\nlevels = [1, "b"]'))
    assert "config-toml-dialect" in codes(mixed, "blocker")


def test_a_missing_toml_package_is_said_and_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "toml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setitem(sys.modules, "toml", None)
    monkeypatch.setattr(builtins, "__import__", without)
    assert codes(sound()) == {"config-toml-unchecked"}


def test_a_hopeless_file_stays_readable() -> None:
    text = "[trainer]\n[orchestrator]\n" + "\n".join(f"key_{i} = 1" for i in range(500))
    assert len(config_findings(parse_config(text, Path("a.toml")))) < 40


def test_untrusted_names_are_quoted_and_escaped() -> None:
    config = sound(('name = "tiny"', 'name = "x\\u001b[31m\\u202e"'), ("tiny-env@0.1.0", "tiny-env"))
    text = " ".join(f.message + f.fix + (f.where or "") for f in config_findings(config))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_fine_tuning_asks_for_a_volume_and_an_end() -> None:
    assert codes(parse_config("[data]\nname = 'x'", Path("sft.toml")), "blocker") == {
        "config-sft-no-volume",
        "config-no-max-steps",
    }
    good = "max_steps = 5\nvolume = 'v'\n[data]\nname = 'datasets/x'"
    assert codes(parse_config(good, Path("sft.toml"))) == set()


@pytest.mark.parametrize(("there", "asked", "warned"), [(10, 128, True), (None, 10, True), (64, 128, False)])
def test_held_out_tasks_too_few_to_show_what_a_run_gains_are_named_before_it_is_paid_for(
    there: int | None, asked: int, warned: bool
) -> None:
    config = sound(("interval = 20", f"interval = 20\nnum_examples = {asked}"))
    source = config.eval_sources[0].id
    context = ConfigContext(mean=0.44, each={source: SourceMeasurement(held_out_tasks=there)})
    found = [f for f in config_findings(config, context) if f.code == "config-no-eval"]

    assert len(found) == warned
    for finding in found:
        assert "10 held-out tasks, each evaluated once, show a rise of the mean from 0.38" in finding.message
        assert "compare_base=true" in finding.fix
