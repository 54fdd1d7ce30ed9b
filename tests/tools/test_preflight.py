"""What works is said per capability; what an account lacks does not fail the work that needs none."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from prime_lab_mcp.lab import preflight
from prime_lab_mcp.lab.preflight import missing_capability
from prime_lab_mcp.tools import workflow_status
from prime_lab_mcp.tools.preflight import TOOL, FlawlessAccount
from tests.support.costs import starts
from tests.tools.loopback import Desk

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_remembered(at: Desk) -> None:
    """All tests here share a desk, and each asks the platform anew."""
    at.lab._memories.pop(FlawlessAccount, None)
    at.lab.prime._account = at.lab.prime._models = at.lab.prime._teams = None


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


async def test_whether_podman_is_here_is_said(at: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    local = (await at.call(TOOL)).data["capabilities"]["local"]
    assert local["podman"] is (shutil.which("podman") is not None)
    program = tmp_path / "podman"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (await at.call(TOOL)).data["capabilities"]["local"]["podman"] is True


async def test_an_older_package_beside_the_environments_is_led_to_its_port_and_not_to_its_data(at: Desk) -> None:
    """Its data file was offered to make a new environment of, though the folder is a v0 environment."""
    root = at.lab.workspace.root
    for name, code in (
        ("plant_key", "import verifiers as vf\n\n\ndef load_environment():\n    return vf.SingleTurnEnv()\n"),
        ("new_key", "import verifiers.v1 as vf\n\n\ndef load_environment():\n    return 1\n"),
        ("library", "def load():\n    return 1\n"),
    ):
        (root / name).mkdir()
        (root / name / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n', encoding="utf-8")
        (root / name / f"{name}.py").write_text(code, encoding="utf-8")
    (root / "plant_key" / "notes.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n', encoding="utf-8")
    port = ("create_environment", {"name": "plant_key-v1", "port": "plant_key"})
    try:
        assert [(one.tool, one.arguments) for one in (await at.call(TOOL)).next] == [port]
        first = (await at.call(workflow_status.TOOL)).next[0]
        assert (first.tool, first.arguments) == port
        (root / "rows.csv").write_text("question,answer\n1+1?,2\n", encoding="utf-8")
        assert [one.tool for one in (await at.call(TOOL)).next] == ["create_environment", "inspect_dataset"]
    finally:
        (root / "rows.csv").unlink(missing_ok=True)
        for name in ("plant_key", "new_key", "library"):
            shutil.rmtree(root / name)


async def test_a_workspace_with_a_data_file_alone_is_led_to_it(at: Desk) -> None:
    root = at.lab.workspace.root
    (root / "problems.csv").write_text("question,answer\n1+1?,2\n", encoding="utf-8")
    assert [(one.tool, one.arguments) for one in (await at.call(TOOL)).next] == [
        ("inspect_dataset", {"dataset": "problems.csv"})
    ]
    (root / "problems.csv").unlink()
    calls = [one.tool for one in (await at.call(TOOL)).next]
    assert calls == ["create_environment", "search_hub", "workflow_status"]


async def test_the_account_is_asked_in_one_start_and_then_remembered_until_the_login_changes(at: Desk) -> None:
    counts = []
    for _ in range(2):
        before = starts()
        assert (await at.call(TOOL)).status == "passed"
        counts.append(starts() - before)
    home = Path((await at.lab.prime._program.variables())["HOME"])
    login = home / ".prime" / "config.json"
    login.parent.mkdir(parents=True, exist_ok=True)
    login.write_text("{}", encoding="utf-8")
    before = starts()
    assert (await at.call(TOOL)).data["capabilities"]["training"]["balance"]["amount"] == 100.0
    asked = starts() - before
    login.unlink()
    assert [*counts, asked] == [1, 0, 1]


async def test_teams_that_cannot_be_asked_are_named_with_what_that_closes(at: Desk) -> None:
    at.lab.prime._teams = None
    await at.fault("403", "/user/teams", times=1)
    outcome = await at.call(TOOL)
    at.lab.prime._teams = None
    assert outcome.status == "passed"
    [message] = [f.message for f in outcome.findings if "teams of the account could not be asked" in f.message]
    assert "can be neither trained nor evaluated" in message


async def test_what_was_wrong_is_asked_again(at: Desk) -> None:
    await at.tell("/rehearsal/account", balance_usd=0)
    assert "wallet-empty" in [f.code for f in (await at.call(TOOL)).findings]
    await at.tell("/rehearsal/account", balance_usd=50)
    assert (await at.call(TOOL)).findings == ()


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
