"""What a person is told before a run is paid for, and what stops it: the real prime on the rehearsal platform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.state.gates import NOT_VALIDATED
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.training.card import run_card
from prime_lab_mcp.server.approval import Request, approve
from prime_lab_mcp.tools import check_training_config
from prime_lab_mcp.tools.submit_training import TOOL
from tests.tools.loopback import CONFIG, Desk

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=2, group="submissions and the ledger")]
PREPARE = "/training/runs/prepare"


async def submissions(at: Desk) -> int:
    return sum(r["path"].endswith("/training/runs") for r in await at.requests("POST", "/training/runs"))


async def asked(at: Desk, config: str, **caller: object) -> Report | None:
    intent = await at.intent(TOOL, config=config)
    assert intent is not None
    request = Request("submit_training", {"config": config}, None, False, intent.cautions)
    return await approve(at.lab, intent, replace(request, **caller), None)  # type: ignore[arg-type]


async def test_a_config_that_could_not_be_validated_is_sent_only_when_the_question_said_so(at: Desk) -> None:
    at.config(CONFIG + "# unvalidated\n", "configs/rl/u.toml")
    before = await submissions(at)
    await at.fault("503", PREPARE, times=50)
    plan = await at.plan(TOOL, config="configs/rl/u.toml")
    intent = plan.intent
    assert intent is not None
    assert NOT_VALIDATED in intent.cautions
    assert "without having been validated" in intent.question
    offered = await asked(at, "configs/rl/u.toml", yes=True)
    assert offered is not None
    assert NOT_VALIDATED in str(offered.data["question"])
    # A token of a question that did not say it does not count for one that must.
    blind = at.lab.ledger.offer(intent.key, "Start training run?", intent.max_cost, "rehearsal")
    refused = await asked(at, "configs/rl/u.toml", confirm=blind)
    assert refused is not None
    assert refused.status == "needs_confirmation"
    assert await asked(at, "configs/rl/u.toml", confirm=str(offered.data["confirm"])) is None
    call, _ = await at.opened(TOOL, config="configs/rl/u.toml")
    with pytest.raises(LabError) as caught:
        await TOOL.run(call, replace(plan, intent=replace(intent, cautions=())))
    assert caught.value.code == "config-not-validated"
    assert await submissions(at) == before
    outcome = await TOOL.run(call, plan)
    assert [f.code for f in outcome.findings] == ["config-not-validated"]
    assert "unavailable" in await run_card(at.lab, outcome.data["id"])


async def test_a_run_that_became_dearer_is_asked_about_again(at: Desk) -> None:
    at.config(CONFIG + "# dearer\n", "configs/rl/d.toml")
    plan = await at.plan(TOOL, config="configs/rl/d.toml")
    assert plan.intent is not None
    assert plan.intent.max_cost is not None
    call, _ = await at.opened(TOOL, config="configs/rl/d.toml")
    cheaper = replace(plan, intent=replace(plan.intent, max_cost=plan.intent.max_cost / 2))
    with pytest.raises(LabError) as caught:
        await TOOL.run(call, cheaper)
    assert caught.value.code == "intent-changed"


async def test_an_empty_wallet_refuses_and_a_small_one_warns(at: Desk) -> None:
    at.config(CONFIG + "# wallet\n", "configs/rl/w.toml")
    await at.tell("/rehearsal/account", balance_usd=3)
    low = await at.intent(TOOL, config="configs/rl/w.toml")
    assert low is not None
    assert "less than the $17.50 that the run may cost" in low.question
    await at.tell("/rehearsal/account", balance_usd=0)
    empty = await asked(at, "configs/rl/w.toml", yes=True)
    assert empty is not None
    assert (empty.status, empty.findings[0].code) == ("blocked", "payment-required")
    await at.tell("/rehearsal/account", balance_usd=100_000)


async def test_secrets_that_an_environment_reads_are_looked_up_by_name(at: Desk) -> None:
    folder = at.environment("keyed_sums")
    pushed = await at.push_by_hand(folder)
    source = "5" * 64
    at.lab.ledger.record_push(
        Push(
            at.lab.key, "keyed_sums", pushed.owner, pushed.name, "0.1.0", source, source, source, "rehearsal", api="v1"
        )
    )
    needed = "the code reads the environment variables JUDGE_KEY, HF_TOKEN"
    rows = [{"variable": name, "optional": False} for name in ("JUDGE_KEY", "HF_TOKEN")]
    finding = {
        "code": "secret-needed",
        "severity": "warning",
        "message": needed,
        "fix": "Start the server.",
        "rows": rows,
    }
    optional = {**finding, "message": "it has a default", "rows": [{"variable": "MAYBE", "optional": True}]}
    at.lab.ledger.record(
        Evidence("check_environment", "passed", at.lab.key, "keyed_sums", source, source, findings=[finding, optional])
    )
    ref = f"{pushed.owner}/{pushed.name}"
    at.config(
        'env_files = ["s.env"]\n' + CONFIG.replace("primeintellect/reverse-text@0.2.0", f"{ref}@0.1.0"),
        "configs/rl/k.toml",
    )
    (at.workspace / "configs/rl/s.env").write_text("HF_TOKEN=abc\n", encoding="utf-8")
    missing = await at.intent(TOOL, config="configs/rl/k.toml")
    assert missing is not None
    assert [f.code for f in missing.findings] == ["secret-not-linked"]
    assert f"prime env secret create {ref} -n JUDGE_KEY" in missing.findings[0].fix
    assert any("JUDGE_KEY" in caution for caution in missing.cautions)
    await at.lab.prime._program.text(
        ["env", "secret", "create", ref, "-n", "JUDGE_KEY", "-v", "x"], timeout=60, doing=""
    )
    linked = await at.intent(TOOL, config="configs/rl/k.toml")
    assert linked is not None
    assert linked.findings == ()


async def test_the_forecast_is_in_the_check_and_in_the_question_and_the_card_in_the_links(at: Desk) -> None:
    at.config(CONFIG + "# forecast\n", "configs/rl/f.toml")
    checked = await at.call(check_training_config.TOOL, path="configs/rl/f.toml")
    likely = checked.data["cost"]["dollars"]
    assert likely["low"] < likely["expected"] < likely["high"] <= checked.data["cost"]["upper_bound"]
    intent = await at.intent(TOOL, config="configs/rl/f.toml")
    assert intent is not None
    assert f"Likely it costs ${likely['expected']:.2f}" in intent.question
    outcome = await at.call(TOOL, config="configs/rl/f.toml")
    assert f"lab://runs/{outcome.data['id']}/card" in [link.uri for link in outcome.links]
    shown = await run_card(at.lab, outcome.data["id"])
    for fact in (
        "Status:",
        "prime: 0.18.0",
        "Likely it costs",
        "the user was asked",
        "on the Hub when it was sent",
        "Spent:",
    ):
        assert fact in shown, fact


async def test_a_dozen_submissions_of_the_real_prime_over_broken_connections(at: Desk) -> None:
    """Each drops before or after the platform acted, or is looked up in the dark; each ends as one run."""
    await at.tell("/rehearsal/account", balance_usd=1_000_000)
    before = await submissions(at)
    told: dict[str, set[str]] = {}
    for n in range(12):
        path = at.config(f'name = "broken{n}"\n' + CONFIG.replace("= 20", "= 5000"), f"configs/rl/broken{n}.toml")
        await at.fault(("drop-after", "drop-before", "503")[n % 3], "/training/runs$", method="POST")
        if n % 4 == 0:
            await at.fault("drop-before", "/rft/runs", times=2)
        told[path.stem] = {await until_known(at, f"configs/rl/{path.name}"), await until_known(at, str(path))}
    runs = {r["name"].rsplit("-", 1)[0]: r["id"] for r in await at.lab.prime.train_list() if "broken" in r["name"]}
    assert len([r for r in await at.lab.prime.train_list() if "broken" in r["name"]]) == 12
    assert told == {name: {id} for name, id in runs.items()}
    assert await submissions(at) >= before + 12


async def until_known(at: Desk, config: str) -> str:
    for _ in range(20):
        try:
            return str((await at.call(TOOL, config=config)).data["id"])
        except LabError as error:
            if error.code not in ("submit-outcome-unknown", "platform-unreachable", "platform-failed"):
                raise
    raise AssertionError(f"{Path(config).name} was not settled")
