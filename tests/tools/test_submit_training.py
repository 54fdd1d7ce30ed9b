"""Starting runs through the real prime on the rehearsal platform: at most once, at a known price, findable by name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config, text_with_name
from prime_lab_mcp.lab.training.bound import bound_cost
from prime_lab_mcp.tools.submit_training import TOOL
from tests.tools.loopback import CONFIG, Desk

pytestmark = pytest.mark.anyio


async def created(at: Desk) -> int:
    return sum(r["path"].endswith("/training/runs") for r in await at.requests("POST", "/training/runs"))


async def test_a_run_is_started_once_and_a_live_one_returned(at: Desk) -> None:
    path = at.config(CONFIG.replace("max_steps = 20", "max_steps = 5000"), "configs/rl/once.toml")
    before = await created(at)
    intent = await at.intent(TOOL, config="configs/rl/once.toml")
    assert intent is not None
    assert intent.ask
    for fact in ("Qwen3-4B-Instruct-2507", "reverse-text@0.2.0", "5,000 steps", "2 GPUs", "$7.00 per hour", "$100.00"):
        assert fact in intent.question
    assert intent.max_cost == pytest.approx(7.0 * (0.5 + 5000 * 0.1))
    first = await at.call(TOOL, config="configs/rl/once.toml")
    assert first.status == "passed"
    assert first.data["price_per_hour"] == 7.0
    (run,) = at.lab.ledger.runs(id=first.data["id"])
    assert run.name.endswith(run.intent[:8])
    assert at.lab.ledger.spent("rehearsal") == pytest.approx(intent.max_cost)
    copy = Path(str(run.data["copy"])).read_text(encoding="utf-8")
    original = path.read_text(encoding="utf-8")
    assert copy == f'name = "{run.name}"\n{original}'
    second = await at.call(TOOL, config="configs/rl/once.toml", again=True)
    assert (second.data["id"], second.data["deduplicated"]) == (first.data["id"], True)
    assert await created(at) == before + 1


@pytest.mark.slow
async def test_after_the_end_another_run_needs_again_and_its_own_question(at: Desk) -> None:
    await at.tell("/rehearsal/account", balance_usd=100_000)  # runs of other tests are billed meanwhile
    at.config(CONFIG.replace("max_steps = 20", "max_steps = 1"), "configs/rl/ends.toml")
    first = await at.call(TOOL, config="configs/rl/ends.toml")
    await at.tell("/rehearsal/clock", advance=60)
    ended = await at.call(TOOL, config="configs/rl/ends.toml")
    assert (ended.data["id"], ended.data["status"]) == (first.data["id"], "COMPLETED")
    assert ended.next[-1].arguments == {"config": "configs/rl/ends.toml", "again": True}
    intent = await at.intent(TOOL, config="configs/rl/ends.toml", again=True)
    assert intent is not None
    assert intent.ask
    again = await at.call(TOOL, config="configs/rl/ends.toml", again=True)
    assert again.data["id"] != first.data["id"]
    assert not again.data["deduplicated"]


async def test_a_lost_answer_is_found_by_name_and_not_sent_again(at: Desk) -> None:
    at.config(CONFIG + "# lost\n", "configs/rl/lost.toml")
    before = await created(at)
    await at.fault("drop-after", "/training/runs$", method="POST")
    outcome = await at.call(TOOL, config="configs/rl/lost.toml")
    listed = await at.lab.prime.train_list(outcome.data["name"])
    assert [r["id"] for r in listed] == [outcome.data["id"]]
    assert await created(at) == before + 1


@pytest.mark.slow
async def test_while_nothing_can_be_looked_up_nothing_is_sent_again(at: Desk) -> None:
    # A run of 5,000 steps is live for as long as any machine needs, and is billed meanwhile.
    await at.tell("/rehearsal/account", balance_usd=100_000)
    at.config(CONFIG.replace("max_steps = 20", "max_steps = 5000") + "# dark\n", "configs/rl/dark.toml")
    before = await created(at)
    await at.fault("drop-after", "/training/runs$", method="POST")
    await at.fault("503", "/rft/runs", skip=1, times=2)  # the look before sending succeeds
    with pytest.raises(LabError) as caught:
        await at.call(TOOL, config="configs/rl/dark.toml")
    assert caught.value.code == "submit-outcome-unknown"
    with pytest.raises(LabError) as dark:
        await at.intent(TOOL, config="configs/rl/dark.toml")
    assert dark.value.code == "platform-failed"
    intent = await at.intent(TOOL, config="configs/rl/dark.toml")
    assert intent is not None
    assert not intent.ask
    settled = await at.call(TOOL, config="configs/rl/dark.toml")
    assert settled.data["deduplicated"]
    assert await created(at) == before + 1


async def test_what_certainly_did_not_arrive_may_be_sent_again(at: Desk) -> None:
    at.config(CONFIG + "# refused\n", "configs/rl/refused.toml")
    await at.fault("402", "/training/runs$", method="POST")
    with pytest.raises(LabError) as caught:
        await at.call(TOOL, config="configs/rl/refused.toml")
    assert caught.value.code == "payment-required"
    intent = await at.intent(TOOL, config="configs/rl/refused.toml")
    assert intent is not None
    assert intent.ask


async def test_what_the_platform_rejects_is_a_verdict_on_the_config(at: Desk) -> None:
    at.config(CONFIG.replace("@0.2.0", "@7.0.0"), "configs/rl/rejected.toml")
    outcome = await at.call(TOOL, config="configs/rl/rejected.toml")
    assert outcome.status == "failed"
    assert outcome.blockers[0].code == "config-rejected"
    assert "7.0.0" in str(outcome.blockers[0].rows)


@pytest.mark.slow
async def test_a_config_edited_after_the_approval_is_not_sent(at: Desk) -> None:
    at.config(CONFIG + "# one\n", "configs/rl/edited.toml")
    plan = await at.plan(TOOL, config="configs/rl/edited.toml")
    at.config(CONFIG + "# two\n", "configs/rl/edited.toml")
    call, _ = await at.opened(TOOL, config="configs/rl/edited.toml")
    with pytest.raises(LabError) as caught:
        await TOOL.run(call, plan)
    assert caught.value.code == "intent-changed"


async def test_only_a_paused_run_can_be_resumed_from(at: Desk) -> None:
    at.config(CONFIG + "# resume\n", "configs/rl/resume.toml")
    with pytest.raises(LabError) as caught:
        await at.intent(TOOL, config="configs/rl/resume.toml", resume_from="run_nowhere")
    assert caught.value.code == "run-not-paused"


def config_of(text: str) -> TrainingConfig:
    return parse_config(text, Path("configs/rl/x.toml"))


def test_the_name_is_the_only_byte_that_changes() -> None:
    text = '# first\nname = "old"  # said\nmax_steps = 3\n[monitors.wandb]\nname = "other"\n'
    changed = text_with_name(text, "new-12345678")
    assert changed == text.replace('"old"', '"new-12345678"')
    assert tomllib.loads(changed)["monitors"]["wandb"]["name"] == "other"


def test_a_name_inside_a_text_is_not_taken_for_the_name() -> None:
    text = 'notes = """\nname = "trap"\n"""\n'
    with pytest.raises(LabError) as caught:
        text_with_name(text, "new")
    assert caught.value.code == "config-bad-name"


def test_an_unknown_price_or_an_endless_run_has_no_bound() -> None:
    assert bound_cost(config_of(CONFIG), None).max_cost is None
    endless = bound_cost(config_of(CONFIG.replace("max_steps = 20\n", "")), 3.5)
    assert (endless.price_per_hour, endless.max_cost) == (7.0, None)


def test_long_answers_raise_the_bound() -> None:
    short = bound_cost(config_of(CONFIG), 3.5)
    long = bound_cost(
        config_of(CONFIG.replace("batch_size = 16", "batch_size = 512").replace("seq_len = 2048", "seq_len = 32768")),
        3.5,
    )
    assert short.max_cost == pytest.approx(7.0 * 2.5)
    assert long.max_cost is not None
    assert short.max_cost is not None
    assert long.max_cost > 10 * short.max_cost


async def test_a_secrets_file_outside_the_workspace_is_refused(at: Desk) -> None:
    at.config('env_files = ["/etc/passwd"]\n' + CONFIG, "configs/rl/secrets.toml")
    with pytest.raises(LabError) as caught:
        await at.call(TOOL, config="configs/rl/secrets.toml")
    assert caught.value.code == "config-secrets-file"
