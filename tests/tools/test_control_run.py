"""Resuming, restarting and stopping runs: what is paid for happens once, is counted, and is reported as it is."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.configs.config import read_config
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import ValidateAnswer, Wallet
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push, Run
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.training import resumption, submission
from prime_lab_mcp.lab.training.bound import CostBound
from prime_lab_mcp.lab.training.preparation import RunPreparation
from prime_lab_mcp.lab.training.wallet import WalletForRun
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import control_run, submit_training
from prime_lab_mcp.tools.planned_submission import SubmissionPlan
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.tool import Call, Intent, Plan
from tests.tools.stand_in_prime import StandInPrime, lost, run_row, server, started_run

pytestmark = pytest.mark.anyio

GOES_ON = submit_training.Args(config="configs/rl/on.toml", resume_from="p")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def prime() -> StandInPrime:
    """An account with a paused run `p` and a running one `r`."""
    made = StandInPrime()
    paused = {"created_at": "2026-11-22T10:00:00Z", "completed_at": "2026-11-22T11:00:00Z"}
    made.runs = [run_row("p", "sums", "PAUSED", **paused), run_row("r", "other", "RUNNING")]
    made.steps = 40
    return made


@pytest.fixture
def labs(tmp_path: Path, prime: StandInPrime) -> Iterator[list[Lab]]:
    """Two servers on one state directory, under a cap of 50 dollars; each run may cost 30."""
    made = [server(tmp_path, prime, max_spend=50.0) for _ in range(2)]
    for id in ("p", "r"):
        made[0].ledger.record_run(started_run(made[0], id))
    yield made
    for lab in made:
        lab.ledger.close()


async def control(lab: Lab, id: str, action: str) -> Report:
    """A call of the tool by somebody who agrees to everything."""

    async def ask(question: str) -> Any:
        return "approved"

    calls = Calls(lab, TOOLS, References())
    return await calls.execute("control_run", {"id": id, "action": action}, ask=ask)


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


# Resume


async def test_two_servers_that_resume_a_paused_run_at_once_start_one_run(labs: list[Lab], prime: StandInPrime) -> None:
    reports: list[Report] = []

    async def resume(lab: Lab, delay: float) -> None:
        await anyio.sleep(delay)
        reports.append(await control(lab, "p", "resume"))

    async with anyio.create_task_group() as both:
        both.start_soon(resume, labs[0], 0.0)
        both.start_soon(resume, labs[1], 0.04)
    assert prime.sent == ["resume"]
    assert [r.status for r in reports] == ["passed", "passed"], reports
    assert {r.data["id"] for r in reports} == {"run-2"}
    assert labs[0].ledger.spent("rehearsal") == 30.0


async def test_a_resumed_run_whose_answer_was_lost_is_found_by_not_having_been_there(
    labs: list[Lab], prime: StandInPrime
) -> None:
    # Neither the clock of this machine nor the state of the new run decides: it began "earlier" and failed at once.
    def ended_at_once_and_lost() -> None:
        prime.runs[0] |= {"status": "FAILED", "created_at": "2020-01-01T00:00:00Z"}
        raise lost()

    prime.after = ended_at_once_and_lost
    report = await control(labs[0], "p", "resume")
    assert (report.status, report.data["id"]) == ("passed", "run-2"), report
    assert prime.sent == ["resume"]


async def test_what_another_machine_resumed_is_returned_though_the_ledger_knows_nothing(
    labs: list[Lab], prime: StandInPrime
) -> None:
    prime.runs.insert(0, run_row("elsewhere", "sums", "RUNNING", created_at="2026-11-22T11:30:00Z"))
    report = await control(labs[0], "p", "resume")
    assert (report.data["id"], report.data["deduplicated"]) == ("elsewhere", True), report
    assert prime.sent == []


async def test_a_run_whose_end_a_refused_pause_saw_may_cost_nothing_more(labs: list[Lab], prime: StandInPrime) -> None:
    """The wallet counted the bound of a run that a refusal had just called COMPLETED."""
    labs[0].ledger.record_run(Run("done", "training", "sums-1", labs[0].key, "s" * 64, "rehearsal", max_cost=90.0))
    prime.runs.insert(0, run_row("done", "sums-1", "COMPLETED", created_at="2026-11-22T11:30:00Z"))
    before = WalletForRun.of(labs[0], Wallet(100.0, "USD")).free
    report = await control(labs[0], "done", "pause")
    assert codes(report) == ["run-not-running"], report
    assert WalletForRun.of(labs[0], Wallet(100.0, "USD")).free == before + 90.0


@pytest.mark.parametrize("action", ["pause", "resume", "restart"])
async def test_a_run_that_made_all_its_steps_is_not_to_be_started_anew(
    labs: list[Lab], prime: StandInPrime, action: str
) -> None:
    """In a rehearsal, whose runs are over before a pause, this advice looped for ever; really, each run is paid."""
    config = "configs/rl/sums.toml"
    labs[0].ledger.record_run(Run("done", "training", "sums-1", labs[0].key, "s" * 64, "rehearsal", config_path=config))
    prime.runs.insert(0, run_row("done", "sums-1", "COMPLETED", created_at="2026-11-22T11:30:00Z"))
    report = await control(labs[0], "done", action)
    [finding] = report.findings
    assert "again" not in finding.fix
    assert "submit_training" not in [one.tool for one in report.next]
    assert f"nothing is left to {action}" in finding.fix
    longer = {"based_on": config, "steps": 400}
    assert ("a run lasts seconds" in finding.fix) == (action == "pause")
    assert (report.next[0].arguments == longer) == (action == "pause"), report.next


async def test_a_stopped_run_may_be_started_anew(labs: list[Lab], prime: StandInPrime) -> None:
    labs[0].ledger.record_run(
        Run("over", "training", "sums-1", labs[0].key, "s" * 64, "rehearsal", config_path="configs/rl/sums.toml")
    )
    prime.runs.insert(0, run_row("over", "sums-1", "STOPPED", created_at="2026-11-22T11:30:00Z"))
    report = await control(labs[0], "over", "pause")
    assert report.next[0].arguments == {"config": "configs/rl/sums.toml", "again": True}


async def test_a_run_that_a_submission_goes_on_with_is_not_resumed_once_more(
    labs: list[Lab], prime: StandInPrime
) -> None:
    prime.runs.insert(0, run_row("on", "sums-12345678", "RUNNING", created_at="2026-11-22T11:30:00Z"))
    labs[0].ledger.record_run(
        Run("on", "training", "sums-12345678", labs[0].key, "s" * 64, "rehearsal", data={"resumed_from": "p"})
    )
    report = await control(labs[1], "p", "resume")
    assert (report.data["id"], report.data["deduplicated"]) == ("on", True), report
    assert prime.sent == []


@pytest.fixture
async def continued(labs: list[Lab], prime: StandInPrime) -> Call:
    """A call of `submit_training` on the second server, about a config that goes on from `p`."""
    path = labs[1].workspace.root / "configs" / "rl" / "on.toml"
    path.parent.mkdir(parents=True)
    path.write_text("max_steps = 4\n\n[orchestrator]\nbatch_size = 16\ngroup_size = 8\n", encoding="utf-8")

    async def progress(done: float, total: float | None, message: str) -> None:
        return None

    async def prove(name: str, taken: Snapshot) -> Report:
        raise AssertionError("nothing free stands before a submission")

    return Call(labs[1], None, progress, References(), prove, config=path)


async def test_a_submission_does_not_go_on_from_a_run_that_was_resumed(
    labs: list[Lab], prime: StandInPrime, continued: Call
) -> None:
    became = (await control(labs[0], "p", "resume")).data["id"]
    with pytest.raises(LabError) as caught:
        await submit_training.plan(continued, GOES_ON)
    assert caught.value.code == "run-resumed-already"
    assert became in caught.value.message
    prime.runs[0]["status"] = "COMPLETED"
    await resumption.require_not_continued(labs[1], "p")


async def agreed_submission(continued: Call) -> Plan[SubmissionPlan]:
    """The plan of `continued` after its question was answered."""
    assert continued.config is not None
    at = await submission.run_standing(continued.lab, read_config(continued.config), resume_from="p")
    prepared = RunPreparation(
        CostBound(None, None, None, ""), None, WalletForRun(9.0), ValidateAnswer("not-offered"), (), ()
    )
    return Plan(SubmissionPlan(GOES_ON, prepared), Intent("submit", at.key, "Start it."))


async def test_a_run_that_is_resumed_while_a_submission_is_approved_is_not_continued_twice(
    labs: list[Lab], prime: StandInPrime, continued: Call
) -> None:
    plan = await agreed_submission(continued)
    await control(labs[0], "p", "resume")
    with pytest.raises(LabError) as caught:
        await submit_training.run(continued, plan)
    assert caught.value.code == "run-resumed-already"
    assert prime.sent == ["resume"]


async def test_a_run_that_a_submission_continues_while_a_resume_is_approved_is_not_resumed(
    labs: list[Lab], prime: StandInPrime
) -> None:
    steering = await control_run.control.prepare_control(labs[1], "resume", "p")
    prime.runs.insert(0, run_row("on", "sums-12345678", "RUNNING", created_at="2026-11-22T11:30:00Z"))
    labs[0].ledger.record_run(
        Run("on", "training", "sums-12345678", labs[0].key, "s" * 64, "rehearsal", data={"resumed_from": "p"})
    )
    controlled = await control_run.control.carry_out_control(labs[1], steering)
    assert (controlled.id, controlled.was_sent) == ("on", False)
    assert prime.sent == []


@pytest.mark.parametrize("first", ["resume", "submit"])
@pytest.mark.parametrize("delay", [0.0, 0.03, 0.06])
async def test_a_resume_and_a_submission_at_once_start_one_run(
    labs: list[Lab], prime: StandInPrime, continued: Call, first: str, delay: float
) -> None:
    plan, steering = (
        await agreed_submission(continued),
        await control_run.control.prepare_control(labs[0], "resume", "p"),
    )
    ids: dict[str, str] = {}

    async def resume() -> None:
        await anyio.sleep(delay if first == "submit" else 0.0)
        ids["resume"] = (await control_run.control.carry_out_control(labs[0], steering)).id

    async def submit() -> None:
        await anyio.sleep(delay if first == "resume" else 0.0)
        try:
            ids["submit"] = (await submit_training.run(continued, plan)).data["id"]
        except LabError as error:
            ids["submit"] = f"{error.code}: {error.next[0].arguments['id']}"

    async with anyio.create_task_group() as both:
        both.start_soon(resume)
        both.start_soon(submit)
    assert len(prime.sent) == 1
    assert ids["resume"] == "run-2"
    assert ids["submit"] == ("run-2" if prime.sent == ["submit"] else "run-resumed-already: run-2")


async def test_two_configs_do_not_go_on_from_one_run(labs: list[Lab], prime: StandInPrime, continued: Call) -> None:
    started = (await submit_training.run(continued, await agreed_submission(continued))).data["id"]
    assert continued.config is not None
    continued.config.write_text(continued.config.read_text(encoding="utf-8") + "seq_len = 4096\n", encoding="utf-8")
    with pytest.raises(LabError) as caught:
        await submit_training.plan(continued, GOES_ON)
    assert caught.value.code == "run-resumed-already"
    assert started in caught.value.message
    assert prime.sent == ["submit"]


async def test_a_resume_finds_the_run_of_a_submission_whose_server_died(
    labs: list[Lab], prime: StandInPrime, continued: Call
) -> None:
    """The dead server's config is gone, and the resume says as which run the paused one goes on."""
    plan, steering = (
        await agreed_submission(continued),
        await control_run.control.prepare_control(labs[0], "resume", "p"),
    )

    def die() -> None:
        labs[1].ledger.close()
        raise RuntimeError("the server was killed")

    prime.after = die
    with pytest.raises((RuntimeError, sqlite3.ProgrammingError)):
        await submit_training.run(continued, plan)
    assert continued.config is not None
    continued.config.unlink()
    # Of this process by its number, and not by its token: a process of this number that has ended.
    labs[0].ledger._db.execute(
        "UPDATE intents SET holder = replace(holder, substr(holder, 1, instr(holder, '@') - 1), ? || '-ended-0')",
        (str(os.getpid()),),
    )
    found = await control_run.control.carry_out_control(labs[0], steering)
    assert (found.id, found.was_sent) == ("run-2", False)
    assert prime.sent == ["submit"]
    assert labs[0].ledger.runs(id="run-2")[0].data["resumed_from"] == "p"


# Restart


async def test_restarts_are_counted_under_the_cap(labs: list[Lab], prime: StandInPrime) -> None:
    first = await control(labs[0], "r", "restart")
    assert (first.status, labs[0].ledger.spent("rehearsal")) == ("passed", 30.0), first
    prime.runs[-1]["status"] = "RUNNING"
    second = await control(labs[0], "r", "restart")
    assert (second.status, codes(second)) == ("blocked", ["over-cap"])
    assert prime.sent == ["restart"]


async def test_a_refused_restart_is_not_counted(labs: list[Lab], prime: StandInPrime) -> None:
    def refuse() -> None:
        error = lost()
        error.effect = "none"
        raise error

    prime.before = refuse
    assert (await control(labs[0], "r", "restart")).status == "error"
    assert labs[0].ledger.spent("rehearsal") == 0.0


async def test_a_restart_whose_answer_was_lost_is_seen_in_the_run_and_not_sent_again(
    labs: list[Lab], prime: StandInPrime
) -> None:
    def lose() -> None:
        raise lost()

    prime.after = lose
    report = await control(labs[0], "r", "restart")
    assert report.status == "passed", report
    assert prime.runs[-1]["status"] == "PENDING"
    assert labs[0].ledger.spent("rehearsal") == 30.0


# Stop


async def test_a_paused_run_that_the_platform_does_not_stop_is_not_reported_as_stopped(
    labs: list[Lab], prime: StandInPrime
) -> None:
    report = await control(labs[0], "p", "stop")
    assert (report.status, codes(report), report.data["status"]) == ("failed", ["run-stays-paused"], "PAUSED")


async def test_stopping_a_paused_run_names_the_run_that_goes_on_from_it(labs: list[Lab], prime: StandInPrime) -> None:
    became = (await control(labs[0], "p", "resume")).data["id"]
    report = await control(labs[0], "p", "stop")
    assert report.status == "failed"
    assert report.next[0].arguments == {"id": became, "action": "stop"}
    stopped = await control(labs[0], became, "stop")
    assert (stopped.status, stopped.data["status"]) == ("passed", "STOPPED")


async def test_what_a_run_cannot_do_is_refused_before_it_is_asked_about(labs: list[Lab], prime: StandInPrime) -> None:
    for id, action, code in (("r", "resume", "run-not-paused"), ("p", "restart", "run-not-running")):
        assert codes(await control(labs[0], id, action)) == [code]
    with pytest.raises(LabError):
        await control_run.control.pause_run(labs[0], "p")
    assert prime.sent == []


# Pause


async def test_a_paused_run_is_named_once_and_leads_to_its_resume(labs: list[Lab], prime: StandInPrime) -> None:
    """The answer said "is pausing at a checkpoint; it is PAUSED", and named no way to go on."""
    report = await control(labs[0], "r", "pause")
    assert report.summary.startswith("Run r is PAUSED at a checkpoint; nothing is billed")
    assert "pausing" not in report.summary
    assert [(one.tool, (one.arguments or {}).get("action")) for one in report.next] == [
        ("control_run", "resume"),
        ("watch_run", None),
    ]


async def test_a_run_that_was_stopped_may_cost_nothing_more(labs: list[Lab], prime: StandInPrime) -> None:
    before = WalletForRun.of(labs[0], Wallet(100.0, "USD")).free
    assert (await control(labs[0], "r", "stop")).data["status"] == "STOPPED"
    assert WalletForRun.of(labs[0], Wallet(100.0, "USD")).free == before + 30.0


# What the question says of the proof


async def question_about(lab: Lab, id: str, action: str) -> str:
    questions: list[str] = []

    async def ask(question: str) -> Any:
        questions.append(question)
        return "declined"

    await Calls(lab, (control_run.TOOL,), References()).execute("control_run", {"id": id, "action": action}, ask=ask)
    return questions[0]


@pytest.mark.parametrize(("id", "action"), [("p", "resume"), ("r", "restart")])
async def test_a_question_says_that_a_run_was_started_elsewhere(
    tmp_path: Path, prime: StandInPrime, id: str, action: str
) -> None:
    lab = server(tmp_path, prime)
    assert "nothing about its environments is proven here" in await question_about(lab, id, action)
    lab.ledger.close()


async def test_a_question_says_what_failed_since_the_run_began(labs: list[Lab]) -> None:
    ledger, key = labs[0].ledger, labs[0].key
    ledger.record_run(started_run(labs[0], "p", data={"environments": ["me/sums@0.1.0"]}))
    ledger.record_push(
        Push(key, "sums", "me", "sums", "0.1.0", source="s1", content="c1", cli_hash="h1", platform="rehearsal")
    )
    ledger.record(Evidence("test_reward", "passed", key, "sums", "s1", "c1"))
    assert "failed" not in await question_about(labs[0], "p", "resume")
    ledger.record(Evidence("test_reward", "failed", key, "sums", "s1", "c1"))
    assert "test_reward () failed on the files of me/sums@0.1.0" in await question_about(labs[0], "p", "resume")
