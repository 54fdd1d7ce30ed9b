"""Claims on a submission, the keys a run is given, and run cards, without any platform to ask."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.process import holder_lives
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Submitted
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.training.bound import bound_cost
from prime_lab_mcp.lab.training.card import note_on_card, run_card
from prime_lab_mcp.lab.training.keys import EnvironmentSecrets, key_findings, link_findings
from prime_lab_mcp.lab.training.submission import run_row, write_sent_copy
from tests.tools.loopback import CONFIG

OURS = "me/sums@0.1.0"
KEY = "ab" * 32


class NoPrograms:
    def programs(self, name: str) -> tuple[Path, ...]:
        return ()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A machine without `prime`."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    (tmp_path / "workspace" / "environments").mkdir(parents=True)
    opened = Lab(Settings(workspace=tmp_path / "workspace", state_dir=tmp_path / "state"))
    opened.__dict__["toolchain"] = NoPrograms()
    yield opened
    opened.ledger.close()


def config_of(lab: Lab, text: str = CONFIG) -> TrainingConfig:
    path = lab.workspace.root / "run.toml"
    path.write_text(text, encoding="utf-8")
    return read_config(path)


# Claims


def test_only_the_claim_that_was_looked_at_is_freed(lab: Lab) -> None:
    """Two servers find a lost submission; one frees and sends again, and the other must not free that."""
    lab.ledger.claim(KEY, "submit", "prime")
    seen = lab.ledger.intent(KEY, "prime")
    assert seen is not None
    lab.ledger.release(KEY, "prime", attempt=seen.attempt)
    assert lab.ledger.claim(KEY, "submit", "prime").attempt == 2
    lab.ledger.release(KEY, "prime", attempt=seen.attempt)
    assert lab.ledger.claim(KEY, "submit", "prime").state == "sent"


def test_that_a_claim_is_over_is_noted_once_and_only_while_its_outcome_is_unknown(lab: Lab) -> None:
    claim = lab.ledger.claim(KEY, "submit", "prime")
    first = lab.ledger.record_end(KEY, "prime", claim.attempt, by=claim.holder)
    assert lab.ledger.record_end(KEY, "prime", claim.attempt, by="another") == first
    lab.ledger.settle(KEY, "prime", {"id": "run-1"})
    lab.ledger.record_end(KEY, "prime", claim.attempt, by=claim.holder)
    found = lab.ledger.intent(KEY, "prime")
    assert found is not None
    assert dict(found.result) == {"id": "run-1"}


def test_a_server_that_is_gone_is_told_from_one_that_runs(lab: Lab, tmp_path: Path) -> None:
    other = Ledger(tmp_path / "state" / "ledger.sqlite3")
    assert holder_lives(other.claim(KEY, "submit", "prime").holder)
    other.close()
    assert not holder_lives("999999999-0a0a0a0a-0b0b0b0b")
    assert not holder_lives("")


# Keys


def test_a_file_with_a_key_that_is_not_forwarded_is_found_by_its_names(lab: Lab) -> None:
    (lab.workspace.root / "s.env").write_text(
        "# c\nHF_TOKEN=abc\nJUDGE_KEY='s3cr3t-value'\nnonsense\n", encoding="utf-8"
    )
    found = key_findings(lab, config_of(lab, 'env_files = ["s.env"]\n' + CONFIG))
    assert [f.code for f in found] == ["config-secrets-not-forwarded"]
    assert "JUDGE_KEY" in found[0].message
    assert "s3cr3t" not in str(found)


def test_a_reference_that_prime_cannot_fill_in_is_found(lab: Lab) -> None:
    (lab.workspace.root / "s.env").write_text("HF_TOKEN=${NOWHERE_SET}\nWANDB_API_KEY='${KEPT}'\n", encoding="utf-8")
    found = key_findings(lab, config_of(lab, 'env_files = ["s.env"]\n' + CONFIG))
    assert [f.code for f in found] == ["config-secrets-reference"]
    assert "NOWHERE_SET" in found[0].message
    assert "KEPT" not in found[0].message


def test_logging_to_wandb_needs_a_key_from_anywhere(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    logging = CONFIG + '\n[monitors.wandb]\nproject = "p"\n'
    assert [f.code for f in key_findings(lab, config_of(lab, logging))] == ["wandb-key-missing"]
    (lab.workspace.root / "w.env").write_text("WANDB_API_KEY=abc\n", encoding="utf-8")
    assert key_findings(lab, config_of(lab, 'env_file = "w.env"\n' + logging)) == []
    monkeypatch.setenv("WANDB_API_KEY", "abc")
    assert key_findings(lab, config_of(lab, logging)) == []


def test_what_an_environment_reads_and_nobody_gives_it_is_named_with_the_command() -> None:
    reads = ("JUDGE_KEY", "HF_TOKEN", "LINKED")
    found = link_findings([EnvironmentSecrets("me/sums", reads, ("LINKED",), ("HF_TOKEN",))])
    assert [f.code for f in found] == ["secret-not-linked"]
    assert "prime env secret create me/sums -n JUDGE_KEY" in found[0].fix
    assert link_findings([EnvironmentSecrets("them/other", None, ("A",), ())]) == []
    unknown = link_findings([EnvironmentSecrets("me/sums", reads, None, ())])
    assert [f.code for f in unknown] == ["secret-link-unknown"]


# Cards


def started(lab: Lab, id: str, text: str, *, resumed_from: str | None = None) -> None:
    config = config_of(lab, text)
    name = "run-abababab"
    copy = write_sent_copy(lab, config, name, KEY)
    run = run_row(
        lab,
        config,
        Submitted(id, 3.5, 7.0, "H100"),
        bound_cost(config, 3.5),
        key=KEY,
        name=name,
        attempt=1,
        resume_from=resumed_from,
        copy=copy,
    )
    lab.ledger.record_run(run)
    note_on_card(lab, run, approved="agreed", validated="valid", versions={"prime": "0.18.0"})


@pytest.mark.anyio
async def test_a_card_holds_what_makes_the_run_again_and_says_what_is_missing(lab: Lab) -> None:
    lab.ledger.record_push(
        Push(lab.key, "sums", "me", "sums", "0.1.0", "s" * 64, "c" * 64, "h" * 64, "prime", "h" * 64, "v1", "hub")
    )
    proof = Evidence(
        "test_reward", "passed", lab.key, "sums", "s" * 64, "c" * 64, model=None, toolchain={"verifiers": "0.4.0"}
    )
    number = lab.ledger.record(proof)
    judged: dict[str, Any] = {
        "arguments": {"id": "eval-7"},
        "data": {"usable_groups": {"share": 0.5}},
        "model": "owner/model",
        "harness": "null",
    }
    lab.ledger.record(replace(proof, tool="check_reward_distribution", **judged))
    started(lab, "run_0", CONFIG)
    started(lab, "run_1", CONFIG.replace("primeintellect/reverse-text@0.2.0", OURS), resumed_from="run_0")
    shown = await run_card(lab, "run_1")
    for fact in (
        OURS,
        "s" * 64,
        f"evidence {number}: test_reward was passed",
        "verifiers 0.4.0",
        "prime: 0.18.0",
        "confirmed",
        "$7.00 per hour",
        "$17.50",
        "agreed",
        'name = "run-abababab"',
        "# a comment that stays",
        "lab://runs/run_0/card",
        "platform could not be asked",
        "Forecast: missing",
        "eval-7 with owner/model, 50% of groups with a gradient (lab://evals/eval-7/report)",
    ):
        assert fact in shown, fact
    assert "## Continued as\n\n- run_1" in await run_card(lab, "run_0")
    with pytest.raises(LabError) as caught:
        await run_card(lab, "run_9")
    assert caught.value.code == "run-not-found"


@pytest.mark.anyio
async def test_a_card_names_every_source_and_the_evidence_that_opened_its_gate(lab: Lab) -> None:
    """The model that is trained was evaluated first, and another one failed later; the held-out tasks are of the same
    environment as the training tasks."""
    files = (lab.key, "sums", "s" * 64, "c" * 64)
    lab.ledger.record_push(Push(lab.key, "sums", "me", "sums", "0.1.0", *files[2:], "h" * 64, "prime", "h" * 64, "v1"))
    tested = lab.ledger.record(Evidence("test_reward", "passed", *files))
    held_out = lab.ledger.record(Evidence("test_reward", "passed", *files, env_args={"split": "eval"}))
    text = CONFIG.replace("primeintellect/reverse-text@0.2.0", OURS)
    text += f'\n[[orchestrator.eval.source]]\n[orchestrator.eval.source.env.taskset]\nid = "{OURS}"\nsplit = "eval"\n'
    model = config_of(lab, text).model
    for id, name, status in (("eval-4b", model, "passed"), ("eval-06b", "another/model", "failed")):
        for tool in ("run_eval", "check_reward_distribution"):
            facts: dict[str, Any] = {"arguments": {"id": id}, "model": name, "status": status, "harness": "null"}
            lab.ledger.record(replace(Evidence(tool, "passed", *files), **facts))
    started(lab, "run_3", text)
    shown = await run_card(lab, "run_3")
    assert [line for line in shown.splitlines() if "lab://evals/" in line] == [
        f"- {OURS}: eval-4b with {model} (lab://evals/eval-4b/report)"
    ]
    assert "failed" not in shown
    trained, _, held = shown.partition(f"- {OURS} (eval)")
    assert f"- {OURS} (train)" in trained
    assert f"evidence {tested}: test_reward" in trained
    assert f"evidence {held_out}: test_reward" in held


@pytest.mark.anyio
async def test_a_card_does_not_vouch_for_a_copy_that_was_changed_or_lost(lab: Lab) -> None:
    started(lab, "run_2", CONFIG)
    copy = Path(str(lab.ledger.runs(id="run_2")[0].data["copy"]))
    copy.write_text("max_steps = 1\n", encoding="utf-8")
    assert "not what was sent" in await run_card(lab, "run_2")
    copy.unlink()
    assert "is missing: its copy" in await run_card(lab, "run_2")
    assert lab.ledger.runs(id="run_2")[0].at <= time.time()
