"""Watching and controlling runs through the real prime on the rehearsal platform."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from prime_lab_mcp.lab import watching
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.tools import control_run, watch_run
from tests.tools.loopback import CONFIG, Desk, desk

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("watch")) as opened:
        yield opened


async def start(at: Desk, name: str, steps: int = 40) -> str:
    text = f'name = "{name}"\n' + CONFIG.replace("max_steps = 20", f"max_steps = {steps}")
    return (await at.lab.prime.train_submit(at.config(text, f"configs/rl/{name}.toml"))).id


async def test_a_finished_run_shows_reward_spend_and_checkpoints_and_passes(at: Desk) -> None:
    id = await start(at, "healthy", 40)
    await at.tell("/rehearsal/clock", advance=60)
    outcome = await at.call(watch_run.TOOL, id=id)
    assert (outcome.status, outcome.data["status"]) == ("passed", "COMPLETED")
    assert (outcome.data["step"], outcome.data["max_steps"]) == (39, 40)
    assert outcome.data["reward"]["now"] > outcome.data["reward"]["first"]
    assert outcome.data["spend"]["total"] > 0
    assert outcome.data["checkpoints"][-1]["step"] == 40
    assert outcome.data["anomalies"] == []
    assert len(str(outcome.data)) < 8000


async def test_an_anomaly_names_its_step_cause_cost_and_advice(at: Desk) -> None:
    id = await start(at, "bad-fault-errors-8", 40)
    await at.tell("/rehearsal/clock", advance=6)
    outcome = await at.call(watch_run.TOOL, id=id)
    found = next(a for a in outcome.data["anomalies"] if a["code"] == "errors")
    assert (found["since_step"], found["level"]) == (8, "stop")
    assert found["burned"] > 0
    assert found["cause"]
    assert found["advice"]
    assert any(f.code == "run-errors" for f in outcome.findings)


async def test_a_waiting_run_says_what_it_waits_for(at: Desk) -> None:
    id = await start(at, "waits-fault-queue")
    outcome = await at.call(watch_run.TOOL, id=id)
    assert (outcome.status, outcome.data["status"]) == ("running", "QUEUED")
    assert outcome.data["queue"]["runs_ahead"] == 1


async def test_a_failed_run_fails_with_its_own_words_quoted(at: Desk) -> None:
    id = await start(at, "dies-fault-fails-3")
    await at.tell("/rehearsal/clock", advance=60)
    outcome = await at.call(watch_run.TOOL, id=id)
    assert outcome.status == "failed"
    assert outcome.blockers[0].code == "run-failed"
    assert "out of memory" in outcome.blockers[0].message


async def test_an_unknown_id_is_no_run_of_anybody(at: Desk) -> None:
    with pytest.raises(LabError) as caught:
        await at.call(watch_run.TOOL, id="run_of_nobody")
    assert caught.value.code == "run-not-found"


async def test_an_id_that_looks_like_an_option_is_refused(at: Desk) -> None:
    with pytest.raises(ValueError, match="letter or digit"):
        await at.call(watch_run.TOOL, id="--help")


@pytest.mark.slow
async def test_pausing_and_stopping_ask_nothing_and_resuming_does_once(at: Desk) -> None:
    id = await start(at, "controlled", 4000)
    await at.tell("/rehearsal/clock", advance=10)
    assert await at.intent(control_run.TOOL, id=id, action="pause") is None
    await at.call(control_run.TOOL, id=id, action="pause")
    await at.tell("/rehearsal/clock", advance=5)
    paused = await at.call(watch_run.TOOL, id=id)
    assert paused.next[0].arguments == {"id": id, "action": "resume"}
    asked = await at.intent(control_run.TOOL, id=id, action="resume")
    assert asked is not None
    assert asked.ask
    resumed = await at.call(control_run.TOOL, id=id, action="resume")
    again = await at.call(control_run.TOOL, id=id, action="resume")
    assert resumed.data["id"] != id
    assert (again.data["id"], again.data["deduplicated"]) == (resumed.data["id"], True)
    stopped = await at.call(control_run.TOOL, id=resumed.data["id"], action="stop")
    assert stopped.data["status"] == "STOPPED"
    listed = await at.call(watch_run.TOOL)
    shown = {r["id"]: r["status"] for r in listed.data["runs"]}
    assert shown[resumed.data["id"]] == "STOPPED"
    assert shown[id] == "PAUSED"


async def test_what_a_run_cannot_do_is_said_before_anything_is_asked(at: Desk) -> None:
    id = await start(at, "over", 2)
    await at.tell("/rehearsal/clock", advance=30)
    with pytest.raises(LabError) as caught:
        await at.intent(control_run.TOOL, id=id, action="resume")
    assert caught.value.code == "run-not-paused"


def test_money_since_an_onset_is_the_share_of_its_steps() -> None:
    rows = [{"step": s} for s in range(10)]
    seen = watching.Watched({"status": "RUNNING"}, rows, {"total_cost_usd": 20.0}, [], {}, {}, (), {})
    assert seen.burned_since(5) == 10.0
    assert seen.burned_since(0) == 20.0
