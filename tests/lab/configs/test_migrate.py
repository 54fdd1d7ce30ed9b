"""Configs of earlier platforms come out sound, with every key accounted for."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from prime_lab_mcp.lab.configs.draft import Lineage
from prime_lab_mcp.lab.configs.make import Made, make
from prime_lab_mcp.lab.configs.migrate import migrate
from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.old_keys import OLD_KEYS
from prime_lab_mcp.lab.configs.plan import Choices, SourceChoice
from prime_lab_mcp.lab.configs.read import Config, parse
from prime_lab_mcp.lab.configs.rules import judge
from prime_lab_mcp.lab.configs.schema import check
from prime_lab_mcp.lab.configs.write import finish
from prime_lab_mcp.lab.errors import BadInput
from tests.lab.configs.examples import OLDER_PRIME_RL, SHARED_LORA, SOUND


def migrated(text: str, asked: Choices | None = None, pins: dict[str, str] | None = None) -> tuple[Config, Made]:
    made = make(asked or Choices(()), Observed(), "new", parse(text, Path("old.toml")), pins)
    lineage = Lineage("new", 1, date(2026, 11, 21), "hosted", ("a",), "old.toml")
    return finish(made.draft, lineage, Path("new.toml"))[1], made


@pytest.mark.parametrize("text", [SHARED_LORA, OLDER_PRIME_RL, SOUND])
def test_every_shape_becomes_a_sound_config(text: str) -> None:
    config, _ = migrated(text)
    assert check(config.table) == []
    assert [f for f in judge(config) if f.severity == "blocker"] == []


def test_the_shared_lora_shape_keeps_what_it_said() -> None:
    config, made = migrated(SHARED_LORA)
    assert (config.model, config.max_steps, config.batch_size, config.group_size) == (
        "Qwen/Qwen3-4B-Instruct-2507", 100, 256, 8,
    )  # fmt: skip
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
    assert {c.key for c in made.changes} >= {"model", "rollouts_per_example", "sampling.max_tokens", "val"}


def test_no_top_level_key_of_the_retired_shape_is_lost_in_silence() -> None:
    _, made = migrated(SHARED_LORA)
    spoken = {c.key.split(".")[0] for c in made.changes}
    kept = {"max_steps", "env_files"}
    assert set(parse(SHARED_LORA, Path("old.toml")).table) - kept <= spoken


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
    assert any(c.key == "seq_len" for c in made.changes)


def test_a_batch_that_no_group_divides_is_rounded_and_said() -> None:
    config, made = migrated(SHARED_LORA.replace("batch_size = 256", "batch_size = 250"))
    assert config.batch_size == 248
    assert any("multiple" in c.why for c in made.changes)


def test_a_config_of_today_keeps_everything() -> None:
    config, made = migrated(SOUND)
    before = parse(SOUND, Path("old.toml"))
    assert (config.sources[0].id, config.seq_len, config.lr, config.lora) == (before.sources[0].id, 4096, 1e-5, True)
    assert made.changes == ()


def test_full_fine_tuning_stays_full() -> None:
    config, _ = migrated(SOUND.replace("[trainer.model.lora]\nrank = 16\n", ""))
    assert config.lora is False


def test_arguments_of_the_call_win_and_are_noted() -> None:
    config, made = migrated(SHARED_LORA, Choices((), steps=50, lora=False, held_out={"split": "eval"}))
    assert (config.max_steps, config.lora) == (50, False)
    assert [dict(s.args) for s in config.eval_sources] == [{"min_turns": 3, "split": "eval"}]
    assert any(c.key == "max_steps" and c.was == 100 for c in made.changes)


def test_environments_of_the_call_replace_those_of_the_file() -> None:
    config, _ = migrated(SHARED_LORA, Choices((SourceChoice("bob/new@2.0"),)))
    assert [s.id for s in config.sources] == ["bob/new@2.0"]


def test_no_evaluation_can_be_asked_for() -> None:
    config, _ = migrated(SHARED_LORA, Choices((), held_out={}))
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
        migrate(parse("[data]\nname = 'x'", Path("sft.toml")))
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
            assert not [p for p in check(table) if p.kind == "unknown"], key
