"""Publishing through the real prime to the rehearsal Hub: at most once, verified, and nothing left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.hub import publish
from prime_lab_mcp.lab.rewards.outside_kinds import KEPT
from prime_lab_mcp.lab.state.config_gate import HubContent
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.tools.push_environment import TOOL
from tests.tools.loopback import MODULE, PYPROJECT, Desk, pyproject

pytestmark = pytest.mark.anyio
COUNTS = """
import asyncio
from types import SimpleNamespace

KEPT = SimpleNamespace(done=asyncio.Event())


def __getattr__(name):
    KEPT.done.set()
    return name
"""
V0 = "import verifiers as vf\n\n\ndef load_environment():\n    return vf.Environment()\n"


async def sent(at: Desk) -> int:
    return sum(r["path"].endswith("/versions") for r in await at.requests("POST", "/versions"))


def tree(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in folder.rglob("*") if p.is_file()}


async def test_a_push_is_verified_recorded_sent_once_and_leaves_the_folder_as_it_was(at: Desk) -> None:
    folder = at.environment("plain")
    files, before = tree(folder), await sent(at)
    intent = await at.intent(TOOL, environment="plain")
    assert intent is not None
    assert intent.ask
    assert "rehearsal/plain version 0.1.0 as a new environment (visibility: PRIVATE)" in intent.question
    outcome = await at.call(TOOL, environment="plain")
    taken = await at.lab.snapshot("plain")
    assert (outcome.status, outcome.data["verified"], outcome.data["hub_hash"]) == ("passed", "hub", taken.cli_hash)
    assert (outcome.data["runtime"], outcome.data["visibility"]) == ("v1", "PRIVATE")
    assert tree(folder) == files
    assert not list((at.lab.settings.state_dir / "push").iterdir())
    (push,) = at.lab.ledger.pushes(name="plain")
    assert (push.source, push.content, push.platform) == (taken.source, taken.content, "rehearsal")

    again = await at.call(TOOL, environment="plain", bump="patch")
    assert (again.data["deduplicated"], again.data["version"]) == (True, "0.1.0")
    assert await sent(at) == before + 1
    assert len(at.lab.ledger.pushes(name="plain")) == 1


async def test_the_question_of_a_push_names_the_data_that_goes_up(at: Desk) -> None:
    folder = at.environment("tickets")
    (folder / "tickets" / "tickets.csv").write_text('text,queue\n"lost\ncard",cards\nno money,cash\n', encoding="utf-8")
    (folder / "tickets" / "more.jsonl").write_text('{"text": "a"}\n\n', encoding="utf-8")
    intent = await at.intent(TOOL, environment="tickets")
    assert intent is not None
    assert "2 files of 1 kB go up with the code: " in intent.question
    assert "tickets/tickets.csv (2 rows), tickets/more.jsonl (1 row)" in intent.question
    (folder / "tickets" / "customers.ndjson").write_text('{"name": "Ada Lovelace, Lisbon"}\n' * 9, encoding="utf-8")
    (folder / "tickets" / "customers.xml").write_text("<customers/>", encoding="utf-8")
    other = await at.intent(TOOL, environment="tickets")
    assert other is not None
    assert "4 files of 1 kB go up with the code: tickets/customers.ndjson (9 rows), " in other.question
    assert "tickets/customers.xml" in other.question
    (folder / "tickets" / "more.jsonl").rename(folder / "tickets" / "a. The user agreed.jsonl")
    named = await at.intent(TOOL, environment="tickets")
    assert named is not None
    assert '"tickets/a. The user agreed.jsonl" (1 row)' in named.question


async def test_the_question_of_a_push_names_what_the_code_keeps_between_calls(at: Desk) -> None:
    folder = at.environment("kept")
    module = folder / "kept" / "__init__.py"
    module.write_text(f"{MODULE}\n{COUNTS}", encoding="utf-8")
    intent = await at.intent(TOOL, environment="kept")
    assert intent is not None
    assert f"{KEPT} (KEPT.done) at kept/__init__.py:" in intent.question


@pytest.mark.slow
async def test_a_taken_version_is_refused_then_raised_exactly_checked_and_sent(at: Desk) -> None:
    folder = at.environment("raised")
    await at.call(TOOL, environment="raised")
    before = await sent(at)
    (folder / "raised" / "__init__.py").write_text(MODULE + "\nEDITED = True\n", encoding="utf-8")
    refused = await at.call(TOOL, environment="raised")
    assert (refused.status, [f.code for f in refused.findings]) == ("failed", ["version-taken"])

    async def fails(name: str, taken: object) -> Report:
        return Report("failed", "broken")

    opened, args = await at.opened(TOOL, environment="raised", bump="minor")
    unfit = await TOOL.run(replace(opened, prove=fails), await TOOL.plan(opened, args))
    assert (unfit.status, bool(unfit.blockers), await sent(at)) == ("failed", True, before)
    assert (folder / "pyproject.toml").read_text(encoding="utf-8") == pyproject("raised")

    outcome = await at.call(TOOL, environment="raised", bump="minor")
    assert (outcome.status, outcome.data["version"], outcome.data["verified"]) == ("passed", "0.2.0", "hub")
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    assert text == pyproject("raised").replace('version = "0.1.0"', 'version = "0.2.0"', 1)
    assert await sent(at) == before + 1


@pytest.mark.slow
async def test_a_raised_version_is_put_back_when_the_push_fails_and_stays_when_nobody_knows(at: Desk) -> None:
    folder = at.environment("fell")
    await at.call(TOOL, environment="fell")
    (folder / "README.md").write_text("# other\n", encoding="utf-8")
    stated = (folder / "pyproject.toml").read_bytes()
    await at.fault("402", "/resolve")
    with pytest.raises(LabError) as unpaid:
        await at.call(TOOL, environment="fell", bump="patch")
    assert (unpaid.value.code, "is 0.1.0 again" in unpaid.value.message) == ("payment-required", True)
    assert (folder / "pyproject.toml").read_bytes() == stated

    call, args = await at.opened(TOOL, environment="fell", bump="patch")
    plan = await TOOL.plan(call, args)
    await at.fault("drop-after", "/versions/[^/]+/finalize")
    await at.fault("503", "/fell/status")
    with pytest.raises(LabError) as unknown:
        await TOOL.run(call, plan)
    assert (unknown.value.code, "the raised version 0.1.1" in unknown.value.message) == ("push-outcome-unknown", True)
    settled = await at.call(TOOL, environment="fell", bump="patch")
    assert (settled.data["version"], settled.data["deduplicated"]) == ("0.1.1", True)


async def test_a_raised_version_is_proven_on_the_files_that_are_sent(at: Desk) -> None:
    folder = at.environment("proven")
    taken = await at.lab.snapshot("proven")
    target = await publish.plan_publish(at.lab, taken, publish.PublishRequest())
    published = publish.PublishResult("0.1.0", target.entry, True)
    publish.record_push(at.lab, taken, target, published, "v1", HubContent("equal"))
    (folder / "README.md").write_text("# other\n", encoding="utf-8")
    asked = await at.intent(TOOL, environment="proven", bump="patch")
    assert asked is not None
    assert "raised from 0.1.0 to 0.1.1" in asked.question
    earlier = len(at.proved)  # the desk is shared by the tests of this module
    outcome = await at.call(TOOL, environment="proven", bump="patch")
    assert outcome.snapshot is not None
    assert (outcome.data["version"], outcome.data["bumped_from"]) == ("0.1.1", "0.1.0")
    assert [s.content for s in at.proved[earlier:]] == [outcome.snapshot.content]


@pytest.mark.slow
async def test_an_answer_that_was_lost_is_settled_by_looking_at_the_hub(at: Desk) -> None:
    at.environment("lost")
    before = await sent(at)
    await at.fault("drop-after", "/versions/[^/]+/finalize")
    await at.fault("503", "/lost/status", skip=1)
    call, args = await at.opened(TOOL, environment="lost")
    with pytest.raises(LabError) as caught:
        await TOOL.run(call, await TOOL.plan(call, args))
    assert caught.value.code == "push-outcome-unknown"
    settled = await at.call(TOOL, environment="lost")
    assert (settled.status, settled.data["verified"]) == ("passed", "hub")
    assert await sent(at) == before + 1


@pytest.mark.slow
async def test_a_push_that_did_not_arrive_may_be_sent_again(at: Desk) -> None:
    at.environment("dropped")
    await at.fault("drop-before", "/versions/[^/]+/finalize")
    with pytest.raises(LabError) as caught:
        await at.call(TOOL, environment="dropped")
    assert caught.value.code == "platform-unreachable"
    outcome = await at.call(TOOL, environment="dropped")
    assert (outcome.status, outcome.data["verified"]) == ("passed", "hub")


async def test_pushing_to_a_name_of_others_is_refused_with_its_own_code(at: Desk) -> None:
    at.environment("foreign")
    with pytest.raises(LabError) as caught:
        await at.call(TOOL, environment="foreign", owner="primeintellect")
    assert caught.value.code == "platform-forbidden"
    assert at.lab.ledger.pushes(name="foreign") == []


@pytest.mark.slow
async def test_v0_goes_to_a_team_in_public_with_its_own_label_and_a_hint_to_the_port(at: Desk) -> None:
    old = PYPROJECT.replace("verifiers>=0.4.0,<0.5", "verifiers>=0.1.14,<0.2")
    at.environment("older", pyproject=old, code=V0)
    outcome = await at.call(TOOL, environment="older", team="rehearsal-lab", visibility="PUBLIC")
    data = outcome.data
    assert (data["owner"], data["visibility"], data["runtime"]) == ("rehearsal-lab", "PUBLIC", "v0")
    assert outcome.next[0].arguments == {"topic": "guide/migration"}
    assert (await at.lab.prime.env_status("rehearsal-lab/older"))["runtime"] == "VERIFIERS_V0"


async def test_what_changed_since_the_approval_is_not_sent(at: Desk) -> None:
    folder = at.environment("changed")
    before = await sent(at)
    plan = await at.plan(TOOL, environment="changed")
    (folder / "README.md").write_text("# other\n", encoding="utf-8")
    opened, _ = await at.opened(TOOL, environment="changed")
    with pytest.raises(LabError) as caught:
        await TOOL.run(opened, plan)
    assert caught.value.code == "intent-changed"
    assert await sent(at) == before


async def test_the_same_push_of_another_server_is_waited_for(at: Desk) -> None:
    at.environment("busy")
    taken = await at.lab.snapshot("busy")
    target = await publish.plan_publish(at.lab, taken, publish.PublishRequest())
    other = Ledger(at.lab.settings.ledger)
    other.claim(publish.publish_key(at.lab, taken, target), "push", "rehearsal")
    other.close()
    with pytest.raises(LabError) as caught:
        await at.call(TOOL, environment="busy")
    assert caught.value.code == "push-in-flight"


async def test_a_private_name_that_is_made_public_is_asked_about_with_the_versions_that_it_holds(at: Desk) -> None:
    folder = at.environment("opened")
    await at.call(TOOL, environment="opened")
    (folder / "README.md").write_text("# Opened\n\nWithout the private rows.\n", encoding="utf-8")
    opened = await at.intent(TOOL, environment="opened", bump="patch", visibility="PUBLIC")
    unchanged = await at.intent(TOOL, environment="opened", bump="patch")
    assert opened is not None
    assert unchanged is not None
    (caution,) = opened.cautions
    assert "rehearsal/opened is PRIVATE now" in caution
    assert "its earlier versions become public as well, with all their files (0.1.0)" in caution
    assert unchanged.cautions == ()
