"""Configs of earlier platforms come out sound, with every key accounted for."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.configs.config import ConfigTarget, TrainingConfig, parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.draft import ConfigDraft, ConfigLineage
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.make import ConfigProposal, propose_config
from prime_lab_mcp.lab.configs.migrate.findings import migration_findings
from prime_lab_mcp.lab.configs.migrate.mover import migrate_config
from prime_lab_mcp.lab.configs.migrate.rows import KeyChange, dotted_key, key_index, leaf_values
from prime_lab_mcp.lab.configs.older_platforms import OLD_KEYS
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice
from prime_lab_mcp.lab.configs.schema import schema_problems
from prime_lab_mcp.lab.configs.write import finish_text
from tests.lab.configs.examples import (
    LAST_SHARED_LORA,
    OLDER_PRIME_RL,
    SEED_HEADER,
    SEED_SELF_MANAGED,
    SHARED_LORA,
    SOUND,
)


def migrated(
    text: str, asked: ConfigChoices | None = None, pins: dict[str, str] | None = None
) -> tuple[TrainingConfig, ConfigProposal]:
    made = propose_config(
        asked or ConfigChoices(()), ConfigContext(), "new", parse_config(text, Path("old.toml")), pins
    )
    lineage = ConfigLineage("new", 1, date(2026, 11, 21), made.plan.choices.target, ("a",), "old.toml")
    return finish_text(made.draft, lineage, Path("new.toml"))[1], made


@pytest.mark.parametrize("text", [SHARED_LORA, OLDER_PRIME_RL, SOUND])
def test_every_shape_becomes_a_sound_config(text: str) -> None:
    config, _ = migrated(text)
    assert schema_problems(config.table) == []
    assert [f for f in config_findings(config) if f.severity == "blocker"] == []


def test_the_shared_lora_shape_keeps_what_it_said() -> None:
    config, made = migrated(SHARED_LORA)
    assert (config.model, config.max_steps, config.batch_size, config.group_size) == (
        "Qwen/Qwen3-4B-Instruct-2507",
        100,
        256,
        8,
    )
    assert (config.lora, config.lr, config.at("trainer.model.lora.alpha")) == (True, 1e-4, 16.0)
    assert config.max_completion_tokens == 512
    assert config.at("orchestrator.train.sampling.temperature") == 0.7
    assert config.at("monitors.wandb") == {"project": "p", "entity": "e", "name": "new"}
    assert config.at("ckpt.interval") == 25
    assert config.at("orchestrator.eval.skip_first_step") is True
    assert config.at("orchestrator.eval.group_size") == 2
    assert [(s.kind, s.id, dict(s.args)) for s in config.sources] == [
        ("train", "alice/tiny-env@0.1.0", {"min_turns": 3}),
        ("eval", "alice/tiny-env@0.1.0", {"split": "test"}),
    ]
    assert config.train_sources[0].table["curriculum"]["gates"]["signal"] == {"type": "advantage_range"}
    assert {c.key for c in made.changes} >= {"model", "rollouts_per_example", "sampling.max_tokens", "val.num_examples"}


def test_no_top_level_key_of_the_retired_shape_is_lost_in_silence() -> None:
    _, made = migrated(SHARED_LORA)
    spoken = {c.key.split(".")[0] for c in made.changes}
    kept = {"max_steps", "env_files"}
    assert set(parse_config(SHARED_LORA, Path("old.toml")).table) - kept <= spoken


def test_an_older_prime_rl_config_keeps_what_it_said() -> None:
    config, made = migrated(OLDER_PRIME_RL)
    assert (config.model, config.max_steps, config.group_size, config.gpus) == ("Qwen/Qwen2.5-7B-Instruct", 1000, 8, 2)
    assert (config.at("trainer.model.lora.rank"), config.at("trainer.optim.weight_decay")) == (8, 0.0)
    assert config.at("trainer.model.lora.target_modules") == ["q_proj", "v_proj"]
    assert config.at("inference.vllm.tool_call_parser") == "hermes"
    assert dict(config.train_sources[0].args) == {"split": "train", "timeout_s": 30.0}
    dropped = {c.key for c in made.changes if c.to == "dropped"}
    assert dropped >= {
        "orchestrator.oversampling_factor",
        "trainer.model.impl",
        "inference.model.enable_auto_tool_choice",
    }


def test_a_budget_that_never_fitted_gets_a_longer_sequence() -> None:
    config, made = migrated(OLDER_PRIME_RL)
    assert config.max_completion_tokens == 10_000
    assert config.seq_len >= 10_000
    assert any("do not fit" in c.why for c in made.changes)


def test_a_batch_that_no_group_divides_is_rounded_and_said() -> None:
    config, made = migrated(SHARED_LORA.replace("batch_size = 256", "batch_size = 250"))
    assert config.batch_size == 248
    assert any("multiple" in c.why for c in made.changes)


def test_a_config_of_today_keeps_everything_and_gets_a_limit_of_its_rollouts() -> None:
    config, made = migrated(SOUND)
    before = parse_config(SOUND, Path("old.toml"))
    assert (config.sources[0].id, config.seq_len, config.lr, config.lora) == (before.sources[0].id, 4096, 1e-5, True)
    assert config.at("inference.vllm.max_model_len") == 4096 + 1024
    (limit,) = made.changes
    assert limit.value == {"vllm": {"max_model_len": 4096 + 1024}}


def test_full_fine_tuning_stays_full() -> None:
    config, _ = migrated(SOUND.replace("[trainer.model.lora]\nrank = 16\n", ""))
    assert config.lora is False


def test_arguments_of_the_call_win_and_are_noted() -> None:
    config, made = migrated(SHARED_LORA, ConfigChoices((), steps=50, lora=False, held_out={"split": "eval"}))
    assert (config.max_steps, config.lora) == (50, False)
    assert [dict(s.args) for s in config.eval_sources] == [{"min_turns": 3, "split": "eval"}]
    assert any(c.key == "max_steps" and c.was == 100 for c in made.changes)


def test_environments_of_the_call_replace_those_of_the_file() -> None:
    config, _ = migrated(SHARED_LORA, ConfigChoices((SourceChoice("bob/new@2.0"),)))
    assert [s.id for s in config.sources] == ["bob/new@2.0"]


def test_no_evaluation_can_be_asked_for() -> None:
    config, _ = migrated(SHARED_LORA, ConfigChoices((), held_out={}))
    assert config.eval_sources == ()
    assert config.at("orchestrator.eval") is None


def test_pins_reach_training_and_evaluation() -> None:
    text = SHARED_LORA.replace("alice/tiny-env@0.1.0", "alice/tiny-env")
    config, made = migrated(text, pins={"alice/tiny-env": "alice/tiny-env@0.3.0"})
    assert {s.id for s in config.sources} == {"alice/tiny-env@0.3.0"}
    assert any("pinned" in c.why for c in made.changes)


def test_several_nodes_keep_their_deployment() -> None:
    nodes = '[deployment]\ntype = "multi_node"\nnum_train_nodes = 2\nnum_infer_nodes = 1\n'
    config, _ = migrated(SOUND.replace("[deployment]\nnum_train_gpus = 1\nnum_infer_gpus = 1\n", nodes))
    assert config.at("deployment") == {"type": "multi_node", "num_train_nodes": 2, "num_infer_nodes": 1}


def test_a_fine_tuning_config_has_nothing_to_migrate() -> None:
    with pytest.raises(BadInput) as caught:
        migrate_config(parse_config("[data]\nname = 'x'", Path("sft.toml")))
    assert caught.value.code == "config-not-rl"


def test_what_takes_the_place_of_an_old_key_is_a_key_of_today() -> None:
    """Else a fix would send the agent from one unknown key to another."""
    for key in OLD_KEYS:
        if key.to and all(part.isidentifier() for part in key.to.split(".")):
            table: dict[str, object] = {"trainer": {}, "orchestrator": {}}
            node: dict[str, object] = table
            *parents, last = key.to.split(".")
            for part in parents:
                node = node.setdefault(part, {})  # type: ignore[assignment]
            node[last] = {}
            assert not [p for p in schema_problems(table) if p.kind == "unknown"], key


# Line by line

SINGLE_GPU = SEED_SELF_MANAGED.replace("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]")
REFUSED_BY_THE_SEED = """
[trainer.model]
seq_len = 8192
[trainer.model.experimental.lora]
rank = 8
[orchestrator]
seq_len = 4096
mask_truncated_completions = true
zero_truncated_completions = false
max_async_level = 2
[orchestrator.sampling]
max_tokens = 1000
top_p = 0.9
[orchestrator.buffer]
type = "online-difficulty"
[[orchestrator.env]]
id = "alice/tiny-env@0.1.0"
[ckpt]
interval = 5
keep = 3
save_async = true
resume_step = 20
[inference]
gpu_memory_utilization = 0.5
enable_prefix_caching = true
max_num_seqs = 512
"""
"""What the older instructions warn of, all in one file."""
OLDER = {
    "shared-lora": SHARED_LORA,
    "last-shared-lora": LAST_SHARED_LORA,
    "older-prime-rl": OLDER_PRIME_RL,
    "seed": SEED_SELF_MANAGED,
    "seed-with-header": SEED_HEADER + SEED_SELF_MANAGED,
    "single-gpu": SINGLE_GPU,
    "refused-by-the-seed": REFUSED_BY_THE_SEED,
}


def row(text: str, key: str) -> KeyChange:
    (found,) = [c for c in migrated(text)[1].changes if c.key == key]
    return found


@pytest.mark.parametrize("target", ["hosted", "self-managed"])
@pytest.mark.parametrize("text", OLDER.values(), ids=OLDER)
def test_every_key_of_an_older_file_has_exactly_one_row(text: str, target: ConfigTarget) -> None:
    config, made = migrated(text, ConfigChoices((), target=target))
    keys = [
        dotted_key(path, old) for old in [parse_config(text, Path("old.toml")).table] for path, _ in leaf_values(old)
    ]
    assert sorted(c.key for c in made.changes) == sorted(keys)
    assert all(c.why and c.to for c in made.changes)
    assert schema_problems(config.table) == []
    # A version has to be chosen by the user, and so does the run whose checkpoint a resumed one continues.
    asked = {"config-unpinned-source", "config-unproven-setting"} if "resume" in text else {"config-unpinned-source"}
    assert {f.code for f in config_findings(config) if f.severity == "blocker"} <= asked


@pytest.mark.parametrize("text", OLDER.values(), ids=OLDER)
def test_a_row_tells_the_truth_about_the_new_file(text: str) -> None:
    config, made = migrated(text)
    places = key_index(config.table)
    for change in made.changes:
        if change.place is not None:
            assert change.value is not None
            assert ConfigDraft(dict(config.table)).get(places[change.place]) == change.value, change


@pytest.mark.parametrize("text", OLDER.values(), ids=OLDER)
def test_what_was_dropped_is_named_in_the_new_file_with_its_reason(text: str) -> None:
    config, made = migrated(text)
    for change in made.changes:
        if change.to == "dropped":
            assert f"#   {change.key} of old.toml: " in config.text


def test_the_self_managed_config_of_the_seed_comes_out_whole() -> None:
    config, _ = migrated(SEED_SELF_MANAGED)
    assert (config.model, config.max_steps, config.gpus, config.group_size, config.lr) == (
        "Qwen/Qwen2.5-7B-Instruct",
        1000,
        2,
        8,
        1e-5,
    )
    assert config.at("trainer.model.lora.alpha") == 32.0
    assert config.at("monitors.wandb") == {"project": "beautiful-soup-env", "name": "bs4-rl-qwen2.5-7b-lora"}
    assert dict(config.train_sources[0].args) == {
        "split": "train",
        "mode": "tiered",
        "difficulty": "mixed",
        "seed": 42,
        "executor_backend": "prime",
        "network_access": True,
        "timeout_s": 30.0,
        "max_output_chars": 10000,
    }
    assert config.at("inference.vllm.tool_call_parser") == "hermes"
    assert config.train_sources[0].table["curriculum"]["gates"]["signal"] == {"type": "advantage_range"}


def test_what_a_person_wrote_behind_a_value_travels_with_it() -> None:
    config, _ = migrated(SEED_SELF_MANAGED)
    assert "lr = 1e-05  # from old.toml: Conservative LR for LoRA\n" in config.text
    assert (
        "max_completion_tokens = 10000  # from orchestrator.sampling.max_tokens of old.toml: CRITICAL for"
        in config.text
    )


def test_settings_that_a_header_above_them_swallowed_come_back() -> None:
    """The older instructions ask for [config] at the top, where TOML makes every key below it a part of it."""
    config, _ = migrated(SEED_HEADER + SEED_SELF_MANAGED)
    assert (config.max_steps, config.gpus) == (1000, 2)
    assert "below [config]" in row(SEED_HEADER + SEED_SELF_MANAGED, "config.max_steps").why


def test_the_header_of_an_older_file_is_its_lineage() -> None:
    header = migrate_config(parse_config(SEED_HEADER + SEED_SELF_MANAGED, Path("old.toml"))).header
    assert (header.version, header.number, header.created, header.env_version) == ("v2", 2, "2026-01-05", "0.1.1")
    assert header.based_on == "qwen3-8b-2xh100.toml:v1"
    assert header.lines()[0].startswith("earlier: version v2, created 2026-01-05, env_version 0.1.1, based_on qwen3")
    assert "registry.json" in row(SEED_HEADER + SEED_SELF_MANAGED, "config.notes").to


def test_a_header_without_a_version_or_with_odd_values_is_no_obstacle() -> None:
    text = '[config]\nversion = ""\nnotes = ["a", 1]\n' + SEED_SELF_MANAGED
    assert migrate_config(parse_config(text, Path("old.toml"))).header.number == 0


@pytest.mark.parametrize(
    ("key", "to"),
    [
        ("trainer.model.seq_len", "seq_len = 4096"),
        ("orchestrator.seq_len", "seq_len = 4096"),
        ("trainer.model.experimental.lora.rank", "trainer.model.lora.rank = 8"),
        ("orchestrator.sampling.top_p", "dropped"),
        ("orchestrator.mask_truncated_completions", "dropped"),
        ("orchestrator.zero_truncated_completions", "dropped"),
        ("orchestrator.buffer.type", "curriculum gate advantage_range"),
        ("orchestrator.max_async_level", "orchestrator.max_off_policy_steps = 2"),
        ("ckpt.keep", "ckpt.keep_last = 3"),
        ("ckpt.save_async", "dropped"),
        ("ckpt.resume_step", "resume.step = 20"),
        ("inference.gpu_memory_utilization", "inference.vllm.gpu_memory_utilization = 0.5"),
        ("inference.enable_prefix_caching", "inference.vllm.enable_prefix_caching = True"),
        ("inference.max_num_seqs", "inference.vllm.max_num_seqs = 512"),
    ],
)
def test_a_rule_of_the_older_instructions_is_a_row(key: str, to: str) -> None:
    found = row(REFUSED_BY_THE_SEED, key)
    assert found.to == to
    assert "is no key of this table" not in found.why


@pytest.mark.parametrize(
    ("key", "to"),
    [
        ("loss", "orchestrator.algo.type = grpo"),
        ("max_inflight_rollouts", "orchestrator.concurrency.max_inflight = 512"),
        ("env[0].version", "orchestrator.train.source[0].env.taskset.id = alice/tiny-env@0.1.0"),
        ("env[0].ratio", "orchestrator.train.source[0].ratio = 0.7"),
        ("env[0].sampling.max_tokens", "orchestrator.train.source[0].sampling.max_completion_tokens = 256"),
        ("env[0].max_turns", "dropped"),
        ("env[1].taskset.difficulty", "orchestrator.train.source[1].env.taskset.difficulty = hard"),
        ("env[1].harness.id", "orchestrator.train.source[1].env.agent.harness.id = bash"),
        ("sampling.top_p", "dropped"),
        ("sampling.extra_body.min_p", "orchestrator.train.sampling.extra_body.min_p = 0.1"),
        ("eval.sampling.max_tokens", "orchestrator.eval.sampling.max_completion_tokens = 300"),
        ("eval.env.rollouts_per_example", "orchestrator.eval.source[0].group_size = 1"),
        ("pre_batch_filters.type", "curriculum gate advantage_range"),
        ("checkpoints.keep_cloud", "ckpt.keep_last = 3"),
        ("checkpoint_id", "dropped"),
        ("adapters.interval", "dropped"),
        ("val.num_examples", "dropped"),
        ("infrastructure.compute_size", "dropped"),
    ],
)
def test_a_field_of_the_retired_shape_is_a_row(key: str, to: str) -> None:
    assert row(LAST_SHARED_LORA, key).to == to


def test_a_secret_of_an_older_file_is_not_repeated() -> None:
    config, _ = migrated(LAST_SHARED_LORA)
    assert "kXYZ" not in str(row(LAST_SHARED_LORA, "tailscale.auth_key").as_json()) + config.text


def test_gpus_that_training_and_inference_shared_are_counted_apart() -> None:
    config, _ = migrated(SINGLE_GPU)
    assert config.gpus == 2
    assert "no longer share one" in row(SINGLE_GPU, "trainer_gpu_ids").why


@pytest.mark.parametrize(
    "text",
    [
        '"a.b" = 1\n' + SOUND,
        SOUND + '\n["a.b"]\nx = 1\n',
        SOUND + '\n[weight_broadcast]\ntype = "pigeon"\n',
        "[[orchestrator.env]]\nid = 3\n",
        "env = 5\nmodel = 'm'\n[[orchestrator.env]]\nid = 'a/b@1'\n",
        "model = 'm'\nsampling = 3\nbuffer = []\neval = 'x'\nwandb = 1\n[[env]]\nid='a/b@1'\n",
        "model = 'm'\n[[env]]\nid='a/b@1'\nargs = 7\nharness = 3\ntaskset = 'x'\nsampling = 'y'\n",
    ],
)
def test_an_odd_file_is_migrated_or_refused_but_never_breaks(text: str) -> None:
    config, made = migrated(text)
    assert schema_problems(config.table) == []
    keys = [
        dotted_key(path, old) for old in [parse_config(text, Path("old.toml")).table] for path, _ in leaf_values(old)
    ]
    changed = {c.key for c in made.changes}
    assert len(changed) == len(made.changes)
    assert changed <= {*keys, *(c.key for c in made.changes if c.place)}


# What a migration changes


def meanings(text: str) -> dict[str, Finding]:
    return {str(f.where): f for f in migration_findings(migrated(text)[1].changes)}


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [
        ('loss = "opd"\n', "loss", "[orchestrator.algo]"),
        ("[sampling]\nenable_thinking = false\n", "sampling.enable_thinking", "renderer"),
        ('[sampling]\nreasoning_effort = "low"\n', "sampling.reasoning_effort", "renderer"),
        ("[sampling]\ntop_p = 0.9\n", "sampling.top_p", "temperature"),
        ("[buffer]\neasy_threshold = 0.9\n", "buffer.easy_threshold", "curriculum"),
        ("mask_truncated_completions = true\n", "mask_truncated_completions", "max_tokens"),
        ("[orchestrator]\nbatch_sise = 64\n", "orchestrator.batch_sise", "64"),
        ('max_steps = "many"\n', "max_steps", "many"),
    ],
)
def test_a_change_of_meaning_is_a_finding(line: str, key: str, said: str) -> None:
    text = 'model = "Qwen/Qwen3-4B-Instruct-2507"\n' + line + '[[env]]\nid = "alice/tiny-env@0.1.0"\n'
    finding = meanings(text)[key]
    assert (finding.code, finding.severity) == ("migration-meaning", "warning")
    assert said in finding.fix


@pytest.mark.parametrize("text", [SOUND, 'model = "m/n"\nloss = "rl"\n[[env]]\nid = "a/b@1"\n'])
def test_a_renamed_key_is_no_change_of_meaning(text: str) -> None:
    assert meanings(text) == {}


def test_thresholds_of_the_buffer_bound_the_pools() -> None:
    text = SHARED_LORA.replace("easy_threshold = 0.8", "easy_threshold = 0.8\nhard_threshold = 0.1")
    pools = migrated(text)[0].train_sources[0].table["curriculum"]["sampler"]["pools"]
    assert {name: pool["threshold"] for name, pool in pools.items()} == {"hard": 0.1, "normal": 0.8, "easy": 1.0}


def test_tables_out_of_order_break_no_migration() -> None:
    """tomllib takes such a text; tomlkit, which reads the comments, fails on it only when asked for the table."""
    text = (
        '[model]\nname = "m/n"  # chosen\n[[orchestrator.train.source]]\nenv.taskset.id = "a/b@1"\n'
        '[inference.vllm]\nmax_model_len = 2048\n[orchestrator.train.source.env.agent]\nharness = {id = "null"}\n'
    )
    config = parse_config(text, Path("x.toml"))
    moved = migrate_config(config, "hosted")
    assert [source.id for source in moved.choices.sources] == ["a/b@1"]
