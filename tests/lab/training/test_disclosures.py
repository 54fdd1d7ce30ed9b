"""What the questions of a submission and of a run that goes on must name of one config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.evaluation_evidence import JUDGE_NAMED_BY
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.training.continued_cost import cautions_of_config
from prime_lab_mcp.lab.training.disclosures import disclosure_cautions, disclosure_sentences, strangers_of
from tests.tools.stand_in_prime import StandInPrime, server

CONFIG = """max_steps = 4
model.name = "m"
env_files = ["keys.env"]

[orchestrator]
batch_size = 16
group_size = 8

[[orchestrator.train.source]]
[orchestrator.train.source.env.taskset]
id = "me/sums@0.1.0"

[orchestrator.train.source.env.agent.harness]
id = "{harness}"
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = server(tmp_path, StandInPrime())
    made.ledger.record_push(
        Push(made.key, "sums", "me", "sums", "0.1.0", "s" * 64, "c" * 64, "h" * 64, made.platform, api="v1")
    )
    yield made
    made.ledger.close()


def written(lab: Lab, harness: str) -> TrainingConfig:
    folder = lab.workspace.root / "configs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keys.env").write_text("WANDB_API_KEY=hidden\n", encoding="utf-8")
    (folder / "one.toml").write_text(CONFIG.format(harness=harness), encoding="utf-8")
    return read_config(folder / "one.toml")


def test_a_strangers_harness_beside_ones_own_environment_is_a_stranger_that_reads_the_keys(lab: Lab) -> None:
    config = written(lab, "crowd/mirror@1.0.0")
    assert strangers_of(lab, config) == ["crowd/mirror@1.0.0"]
    assert any("crowd/mirror@1.0.0" in sentence for sentence in disclosure_sentences(lab, config))
    assert any("WANDB_API_KEY" in caution for caution in disclosure_cautions(lab, config))


def test_code_of_ones_own_and_of_verifiers_is_no_strangers(lab: Lab) -> None:
    config = written(lab, "null")
    assert strangers_of(lab, config) == []
    assert disclosure_cautions(lab, config) == ()
    assert any("WANDB_API_KEY" in sentence for sentence in disclosure_sentences(lab, config))


def test_a_judge_that_a_reward_asks_is_a_caution_because_no_bound_holds_its_tokens(lab: Lab) -> None:
    judged = Evidence(
        "test_reward", "passed", lab.key, "sums", "s" * 64, "c" * 64, sampling={"judge": "openai/gpt-4.1-mini"},
        data={JUDGE_NAMED_BY: "platform"},
    )  # fmt: skip
    config = written(lab, "null")
    lab.ledger.record(judged)
    (caution,) = disclosure_cautions(lab, config)
    assert '"openai/gpt-4.1-mini"' in caution
    assert "not in the bound" in caution


def test_a_run_that_goes_on_has_the_cautions_of_its_submission(lab: Lab) -> None:
    config = written(lab, "crowd/mirror@1.0.0")
    assert set(disclosure_cautions(lab, config)) <= set(cautions_of_config(lab, config))
