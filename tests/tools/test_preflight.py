"""What works is said per capability; what an account lacks does not fail the work that needs none."""

from __future__ import annotations

import dataclasses

import pytest

from prime_lab_mcp.lab import preflight
from prime_lab_mcp.lab.preflight import missing_capability
from prime_lab_mcp.tools.preflight import TOOL
from tests.tools.loopback import Desk

pytestmark = pytest.mark.anyio


async def test_everything_in_place_passes_with_identity_versions_and_wallet(at: Desk) -> None:
    outcome = await at.call(TOOL)
    assert outcome.status == "passed"
    shown = outcome.data["capabilities"]
    assert {name: c["state"] for name, c in shown.items()} == {
        "local": "ok",
        "endpoint": "ok",
        "account": "ok",
        "training": "ok",
    }
    assert (shown["account"]["user"], shown["account"]["key_source"]) == ("rehearsal", "rehearsal")
    assert shown["training"]["balance"]["amount"] == 100.0
    assert outcome.data["versions"]["verifiers"] == "0.4.0"


async def test_a_refused_key_is_a_warning_here_and_a_blocker_where_it_is_needed(at: Desk) -> None:
    await at.fault("401", "/user/whoami")
    outcome = await at.call(TOOL)
    assert outcome.status == "passed"
    assert outcome.data["capabilities"]["account"]["state"] == "broken"
    assert [(f.code, f.severity) for f in outcome.findings] == [("unauthorized", "warning")]
    assert "prime login" in outcome.findings[0].fix


async def test_an_empty_wallet_is_told_before_anything_is_submitted(at: Desk) -> None:
    await at.tell("/rehearsal/account", balance_usd=0)
    outcome = await at.call(TOOL)
    assert "wallet-empty" in [f.code for f in outcome.findings]
    assert await missing_capability(at.lab, "training") == ()


async def test_missing_packages_fail_what_is_local_and_say_how_to_get_them(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing() -> dict[str, str | None]:
        return {"verifiers": None, "datasets": "4.0.0", "prime": None}

    monkeypatch.setattr(at.lab.toolchain, "versions", nothing)
    outcome = await at.call(TOOL)
    assert outcome.status == "failed"
    assert outcome.blockers[0].code == "verifiers-missing"
    assert outcome.next[0].arguments == {"install": True}


async def test_the_gate_of_an_account_hears_the_platforms_refusal(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prime_lab_mcp.lab.prime.client.KEEP_SECONDS", -1.0)
    assert await missing_capability(at.lab, "account") == ()
    await at.fault("401", "/user/whoami")
    assert [f.code for f in await missing_capability(at.lab, "account")] == ["unauthorized"]


async def test_a_key_that_may_not_train_is_a_warning_of_training_alone(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding about training is chosen by the right that the key lacks, not by the words of a message."""
    known = await preflight.account_capability(at.lab)
    assert (known.state, known.read_only) == ("ok", frozenset())
    limited = dataclasses.replace(known, read_only=frozenset({"environments", "rft"}))
    lacking, free = [(await preflight.training_capability(at.lab, of)).findings for of in (limited, known)]
    assert [f.message for f in lacking if f.code == "key-lacks-right"] == [
        "the API key may not start training runs (training: scope rft is read-only)"
    ]
    assert lacking[1:] == free
