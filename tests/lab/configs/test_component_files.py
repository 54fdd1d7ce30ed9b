"""Configs in three files, as prime-rl of 2025 had them: read as one, and migrated."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.component_files import read_older_config
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.migrate.mover import migrate_config

TRAIN = 'max_steps = 30\n\n[model]\nname = "Qwen/Qwen3-0.6B"\n\n[optim]\nlr = 4e-6 # found by a sweep\n\n[ckpt]\n'
ORCH = """batch_size = 96 # three nodes
rollouts_per_example = 12
seq_len = 1536
max_steps = 30

[model]
name = "Qwen/Qwen3-0.6B"

[sampling]
max_tokens = 200

[[env]]
id = "me/letters"
args = { size = 5 }

[[env]]
id = "me/digits"
"""
INFER = '[model]\nname = "Qwen/Qwen3-0.6B"\n\n[parallel]\ntp = 2\n'


def three(folder: Path, names: tuple[str, str, str] = ("train", "orch", "infer")) -> Path:
    folder.mkdir(parents=True)
    for name, text in zip(names, (TRAIN, ORCH, INFER), strict=True):
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("names", [("train", "orch", "infer"), ("trainer", "orchestrator", "inference")])
def test_a_folder_or_one_of_its_files_is_read_as_one_config(tmp_path: Path, names: tuple[str, str, str]) -> None:
    folder = three(tmp_path / "letters", names)
    configs = [read_older_config(p, "letters") for p in (folder, *sorted(folder.iterdir()))]
    for config in configs:
        assert (config.shape, config.path.stem, config.at("orchestrator.batch_size")) == ("rl", "letters", 96)
        assert [e["id"] for e in config.at("orchestrator.env")] == ["me/letters", "me/digits"]
        assert (config.at("trainer.optim.lr"), config.at("inference.parallel.tp")) == (4e-6, 2)
        assert "lr = 4e-6 # found by a sweep" in config.text


def test_every_key_of_the_three_files_has_a_row_and_the_values_stay(tmp_path: Path) -> None:
    migration = migrate_config(read_older_config(three(tmp_path / "letters" / "rl").parent, "letters"))
    draft, choices = migration.draft, migration.choices
    assert [s.id for s in choices.sources] == ["me/letters", "me/digits"]
    assert choices.sources[0].args == {"size": 5}
    assert (choices.steps, choices.batch, choices.group, choices.max_tokens) == (30, 96, 12, 200)
    assert (choices.model, choices.lr, choices.seq_len) == ("Qwen/Qwen3-0.6B", 4e-6, 1536)
    assert draft.get("inference.vllm.tensor_parallel_size") == 2
    keys = {row.key for row in migration.rows}
    for key in ("trainer.max_steps", "orchestrator.max_steps", "orchestrator.sampling.max_tokens", "trainer.optim.lr"):
        assert key in keys, sorted(keys)
    assert "found by a sweep" in draft.reasons["trainer", "optim", "lr"]


def test_shared_values_beside_the_three_files_stay(tmp_path: Path) -> None:
    folder = three(tmp_path / "letters")
    (folder / "rl.toml").write_text('[wandb]\nproject = "letters"\n\n[trainer.optim]\nweight_decay = 0.1\n')
    config = read_older_config(folder, "letters")
    assert (config.at("wandb.project"), config.at("trainer.optim.weight_decay")) == ("letters", 0.1)
    assert config.at("trainer.optim.lr") == 4e-6


def test_brackets_in_texts_are_no_tables(tmp_path: Path) -> None:
    folder = three(tmp_path / "letters")
    text = ORCH.replace("[sampling]", 'note = """\n[not] a table\n"""\n\n[sampling]', 1)
    (folder / "orch.toml").write_text(text, encoding="utf-8")
    config = read_older_config(folder, "letters")
    assert config.at("orchestrator.model.note") == "[not] a table\n"


def test_a_folder_with_several_configs_or_none_is_refused_with_their_names(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="without a TOML file"):
        read_older_config(tmp_path, "configs")
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text("max_steps = 3\n", encoding="utf-8")
    with pytest.raises(BadInput, match="2 configs") as refused:
        read_older_config(tmp_path, "configs")
    assert '"a.toml", "b.toml"' in refused.value.fix
    assert refused.value.next[0].arguments == {"based_on": "configs/a.toml"}


def test_a_whole_config_that_is_called_like_a_component_is_read_alone(tmp_path: Path) -> None:
    folder = three(tmp_path / "letters")
    whole = "[trainer.optim]\nlr = 1e-5\n\n[orchestrator]\nbatch_size = 8\n"
    (folder / "train.toml").write_text(whole, encoding="utf-8")
    config: TrainingConfig = read_older_config(folder / "train.toml", "letters/train.toml")
    assert config.at("orchestrator.batch_size") == 8
