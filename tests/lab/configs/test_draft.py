"""A config that a person has worked on keeps their comments and their order when it is based on."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import toml
import tomlkit
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.draft import ConfigLineage, edited_text
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.make import ConfigProposal, propose_config
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice
from prime_lab_mcp.lab.configs.write import finish_text
from tests.lab.configs.examples import SHARED_LORA, SOUND

MINE = """\
# sound: a prime-rl training config; submit it with submit_training(config=this file).
# target: hosted
# created: 2026-01-01 by write_training_config (prime-lab-mcp)
# version: 1
# environments: alice/tiny-env@0.1.0
# schema: prime-rl 12345678. Comments give the reason of each value; lineage: configs/registry.json
# Ask Ada before you touch the learning rate ("really").

max_steps = 100  # length of the small recipes
seq_len = 4096
name = "sound"  # name of the run

# The trainer first, as I like it.
[trainer.optim]
lr = 1e-5  # Ada's favourite

[trainer.model.lora]
rank = 16

[model]
name = "Qwen/Qwen3-4B-Instruct-2507"

[deployment]
num_train_gpus = 1
num_infer_gpus = 1

[ckpt]
interval = 25  # often, the machines die
keep_last = 2

[orchestrator]
batch_size = 128
group_size = 8  # eight

# This one is easy.
[[orchestrator.train.source]]
name = "tiny"
[orchestrator.train.source.env.taskset]
id = "alice/tiny-env@0.1.0"
min_turns = 3  # two are too few
[orchestrator.train.source.env.agent]
harness = { id = "null" }
runtime = { type = "subprocess" }

[orchestrator.train.sampling]
max_completion_tokens = 512
temperature = 1.0

[inference.vllm]
max_model_len = 8192  # enough
# the end
"""


def based_on(text: str, asked: ConfigChoices | None = None, **pins: str) -> tuple[str, TrainingConfig, ConfigProposal]:
    base = parse_config(text, Path("sound.toml"))
    made = propose_config(asked or ConfigChoices(()), ConfigContext(), "new", base, pins)
    lineage = ConfigLineage("new", 2, date(2026, 11, 22), "hosted", ("alice/tiny-env@0.1.0",), "sound.toml")
    written, config = finish_text(made.draft, lineage, Path("new.toml"), base)
    assert tomllib.loads(written) == toml.loads(written) == made.draft.table
    return written, config, made


def body(text: str) -> list[str]:
    return text.splitlines()


def test_only_the_lines_that_change_are_touched() -> None:
    written, _, _ = based_on(MINE, ConfigChoices((), steps=300))
    before, after = set(body(MINE)), body(written)
    new = [line for line in after if line not in before and not line.startswith("#")]
    assert new == [
        "max_steps = 300  # as asked (before: 100; length of the small recipes)",
        'name = "new"  # name of the run',
        "alpha = 32.0  # twice the rank, as in the recipes",
    ]
    kept = [line for line in body(MINE) if line in after and line]
    assert [line for line in after if line in kept] == kept


def test_comments_of_a_person_stay_and_ours_are_written_anew() -> None:
    written, _, _ = based_on(MINE, ConfigChoices((), steps=300))
    for said in (
        '# Ask Ada before you touch the learning rate ("really").',
        "# The trainer first, as I like it.",
        "lr = 1e-5  # Ada's favourite",
        "# This one is easy.",
        "# the end",
    ):
        assert f"{said}\n" in written
    assert written.startswith("# new: a prime-rl training config; ")
    assert written.count("# version: ") == 1
    assert "# version: 2\n# based_on: sound.toml\n" in written
    assert "12345678" not in written


def test_what_was_said_of_a_value_is_not_lost_when_it_changes_twice() -> None:
    once, _, _ = based_on(MINE, ConfigChoices((), lr=2e-5))
    assert "lr = 2e-05  # as asked (before: 1e-5; Ada's favourite)\n" in once
    twice, _, _ = based_on(once, ConfigChoices((), lr=3e-5))
    assert "lr = 3e-05  # as asked (before: 2e-05; Ada's favourite)\n" in twice


def test_what_is_added_and_removed_leaves_the_rest_alone() -> None:
    asked = ConfigChoices((), lora=False, curriculum="both", wandb="p", held_out={"split": "eval"})
    written, config, _ = based_on(MINE, asked)
    assert config.lora is False
    assert [s.kind for s in config.sources] == ["train", "eval"]
    assert "# The trainer first, as I like it.\n[trainer.optim]\nlr = 1e-5  # Ada's favourite\n" in written
    assert 'project = "p"  # the key is passed beside this file, as WANDB_API_KEY' in written
    assert [f for f in config_findings(config) if f.severity == "blocker"] == []


def test_other_environments_take_the_place_of_the_old_ones() -> None:
    two = (SourceChoice("bob/one@1.0"), SourceChoice("bob/two@1.0", name="second"))
    written, config, _ = based_on(MINE, ConfigChoices(two))
    assert [s.id for s in config.train_sources] == ["bob/one@1.0", "bob/two@1.0"]
    assert "# Ada's favourite" in written


def test_pinning_keeps_what_was_written_about_the_environment() -> None:
    written, config, _ = based_on(MINE, **{"alice/tiny-env@0.1.0": "alice/tiny-env@0.2.0"})
    assert config.train_sources[0].version == "0.2.0"
    assert "min_turns = 3  # two are too few\n" in written


def test_an_older_shape_is_written_anew() -> None:
    written, _, _ = based_on("# mine\n" + SHARED_LORA)
    assert "# mine" not in written


def test_line_ends_of_windows_are_read() -> None:
    _, config, _ = based_on(MINE.replace("\n", "\r\n"), ConfigChoices((), steps=300))
    assert config.max_steps == 300


@pytest.mark.parametrize("text", [SOUND, SOUND.lstrip(), MINE])
def test_a_written_file_can_be_edited_again_and_again(text: str) -> None:
    for steps in (10, 20, 30):
        text, config, _ = based_on(text, ConfigChoices((), steps=steps))
        assert config.max_steps == steps
        assert text.count("# created: ") == 1


LEAF = (
    st.booleans() | st.integers(-1000, 1000) | st.text("abc #'\"=[]", max_size=6) | st.lists(st.integers(), max_size=3)
)
TABLE = st.recursive(
    st.dictionaries(st.sampled_from("abcdef"), LEAF, max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from("abcdef"), LEAF | inner | st.lists(inner, min_size=1, max_size=2), max_size=4
    ),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(before=TABLE, after=TABLE)
@example(before={"a": {"a": {}}}, after={"a": {}})
def test_any_table_can_be_edited_into_any_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    lineage = ConfigLineage("new", 1, date(2026, 11, 22), "hosted", ())
    assert tomllib.loads(edited_text(tomlkit.dumps(before), after, {}, lineage)) == after
