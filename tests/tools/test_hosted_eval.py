"""run_eval(hosted=true) through the real prime: gate, money, one evaluation whatever happens, and what it proves."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import SameCall, calls_named_in
from prime_lab_mcp.lab.evals.hosted.evaluation import fetch_evaluation
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import control_run, push_environment, watch_run
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.run_eval import TOOL
from tests.tools.loopback import MODULE, Desk, NoPages, desk

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FOREIGN = "primeintellect/reverse-text"
SKILL = "rehearsal/skill-50"
START = "/hosted-evaluations"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("hosted"), speed=4.0) as opened:
        yield opened


@pytest.fixture
async def slow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    """A platform on which an evaluation of 100 rollouts takes two minutes, unless its clock is moved."""
    async with desk(tmp_path_factory.mktemp("slow"), speed=0.05) as opened:
        yield opened


async def evaluate(at: Desk, environment: str = FOREIGN, **given: Any) -> Outcome:
    """A call as the call path makes it after its gate, approval given."""
    values = {"environment": environment, "model": SKILL, "num_examples": 6, "rollouts": 4, "wait_seconds": 400}
    args = TOOL.args.model_validate({**values, "hosted": True, **given})
    call = await at.hosted(TOOL, args)
    return await TOOL.run(call, await TOOL.plan(call, args))


async def begun(at: Desk, examples: int) -> tuple[Outcome, Job]:
    """A call that does not wait, once the platform has taken the evaluation."""
    first = await evaluate(at, num_examples=examples, wait_seconds=0)
    job = EvaluationJobs(at.lab).get(str(first.data["id"]))
    while not job.progress.get("evaluation"):
        assert job.state in LIVE_STATES, job
        await anyio.sleep(0.2)
        job = EvaluationJobs(at.lab).get(job.id)
    return first, job


async def killed(at: Desk, job: Job) -> None:
    assert job.pid is not None
    os.kill(job.pid, signal.SIGKILL)
    while EvaluationJobs(at.lab).get(job.id).state != "crashed":
        await anyio.sleep(0.1)


async def started(at: Desk) -> int:
    """Evaluations that exist on the platform, whatever their calls were told."""
    return len(await at.lab.prime.eval_list())


def codes(found: Outcome) -> list[str]:
    return [f.code for f in found.findings]


async def test_a_foreign_environment_is_evaluated_once_reported_and_opens_nothing(at: Desk) -> None:
    before, spent = await started(at), at.lab.ledger.spent("rehearsal")
    found = await evaluate(at, f"{FOREIGN}@0.1.0", num_examples=30)
    data = found.data
    assert at.lab.ledger.spent("rehearsal") - spent == pytest.approx(data["cost"], abs=1e-3)

    assert (data["state"], data["completed"], data["errors"], data["tasks"]) == ("finished", 120, 0, 30), found
    assert (data["hosted"], data["platform_status"], data["deduplicated"]) == (f"{FOREIGN}@0.2.0", "COMPLETED", False)
    assert data["distribution"]["usable_groups"]["group_size"] == 16
    assert data["cost"] > 0
    assert {"distribution-not-evidence", "hosted-latest-only"} <= set(codes(found))
    rows = at.lab.ledger.evidence(at.lab.key)
    assert {r.tool for r in rows} == {"run_eval", "check_reward_distribution"}
    assert all(r.platform == "rehearsal" and str(r.source).startswith("hub:") for r in rows)
    assert rows[0].sampling == {"temperature": 1.0, "max_tokens": 2048}

    again = await evaluate(at, num_examples=30)
    assert (again.data["id"], again.data["deduplicated"]) == (data["id"], True)
    assert await started(at) == before + 1

    args = watch_run.Args.model_validate({"id": data["evaluation"]})
    seen = await watch_run.run(await at.hosted(TOOL, TOOL.args.model_validate({"environment": FOREIGN})), args)
    assert (seen.data["kind"], seen.data["status"]) == ("hosted-eval", "COMPLETED")
    read = await fetch_evaluation(at.lab, data["evaluation"])
    assert (read.id, sum(1 for _ in read.rollouts())) == (data["id"], 120)


async def test_one_that_was_started_elsewhere_is_read_by_the_id_of_the_platform(at: Desk) -> None:
    id = await at.lab.prime.eval_hosted(FOREIGN, model=SKILL, num_examples=30, rollouts=5, name="elsewhere")
    await at.tell("/rehearsal/clock", advance=60)
    read = await fetch_evaluation(at.lab, id)
    rollouts = list(read.rollouts())
    assert (read.id, len(rollouts), read.spec.model, read.spec.environment) == (id, 150, SKILL, FOREIGN)
    assert len({r.task for r in rollouts}) == 30


async def test_ours_needs_the_push_that_the_hub_holds_as_its_latest_and_then_counts_for_its_source(at: Desk) -> None:
    folder = at.environment("hostedsums")
    calls = Calls(at.lab, TOOLS, NoPages())
    given = {"environment": "hostedsums", "model": SKILL, "num_examples": 30, "rollouts": 4, "hosted": True}

    async def blocked(name: str) -> str:
        report = await calls.execute("run_eval", given | {"environment": name})
        assert report.status == "blocked", report
        return f"{report.unmet[0].tool} {report.unmet[0].why} {report.unmet[0].detail}"

    assert "push_environment never-run" in await blocked("hostedsums")
    await at.call(push_environment.TOOL, environment="hostedsums")
    taken = await at.lab.snapshot("hostedsums")
    at.lab.ledger.record(
        Evidence(
            "push_environment", "passed", at.lab.key, "hostedsums", taken.source, taken.content, platform="rehearsal"
        )
    )
    report = await calls.execute("run_eval", given | {"wait_seconds": 400})
    assert report.data["state"] == "finished", report
    (row, *_) = at.lab.ledger.evidence(at.lab.key, tool="check_reward_distribution", source=taken.source)
    assert (row.environment, row.model, row.platform, row.status) == ("hostedsums", SKILL, "rehearsal", report.status)
    assert "distribution-not-evidence" not in [f.code for f in report.findings]

    # Somebody pushes another version: what would run is no longer what was proven.
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    other = at.workspace.parent / "other"
    (other / "hostedsums").mkdir(parents=True)
    (other / "pyproject.toml").write_text(text.replace("0.1.0", "0.3.0", 1), encoding="utf-8")
    (other / "hostedsums" / "__init__.py").write_text(MODULE + "OTHER = 1\n", encoding="utf-8")
    await at.push_by_hand(other)
    assert "the Hub's latest is 0.3.0, not 0.1.0" in await blocked("hostedsums")
    assert "push_environment stale" in await blocked("rehearsal/hostedsums")


async def test_what_is_not_published_is_refused_before_anything_is_sent(at: Desk) -> None:
    before = len(await at.requests("POST", START))
    with pytest.raises(LabError) as caught:
        await evaluate(at, "primeintellect/nothing-of-that-name")
    assert caught.value.code == "platform-not-found"
    assert len(await at.requests("POST", START)) == before


@pytest.mark.rotate(share=2)
@pytest.mark.parametrize(
    ("kind", "code"), [("401", "unauthorized"), ("402", "payment-required"), ("503", "platform-failed")]
)
async def test_a_refused_start_is_an_error_that_leaves_nothing_and_may_be_tried_again(
    at: Desk, kind: str, code: str
) -> None:
    before, spent = await started(at), at.lab.ledger.spent("rehearsal")
    await at.fault(kind, START + "$", method="POST")
    with pytest.raises(LabError) as caught:
        await evaluate(at, num_examples=3, rollouts=int(kind) - 400, model="openai/gpt-4.1-mini")
    assert caught.value.code == code
    assert await started(at) == before
    assert at.lab.ledger.spent("rehearsal") == spent


async def test_an_unknown_model_is_refused_in_the_words_of_the_platform(at: Desk) -> None:
    with pytest.raises(LabError) as caught:
        await evaluate(at, model="rehearsal/nothing")
    assert caught.value.code == "platform-not-found"
    assert "rehearsal/nothing" in caught.value.message
    with pytest.raises(LabError) as caught:
        await evaluate(at, model="nobody/nothing")
    assert caught.value.code == "model-not-offered"
    (near,) = [one.changes for one in calls_named_in(caught.value.fix) if isinstance(one, SameCall)]
    assert list(near) == ["model"], "a hosted evaluation takes no endpoint"


async def test_a_start_whose_answer_was_lost_is_looked_up_and_not_sent_again(at: Desk) -> None:
    before = await started(at)
    await at.fault("drop-after", START + "$", method="POST")
    found = await evaluate(at, num_examples=7)
    assert found.data["state"] == "finished", found
    again = await evaluate(at, num_examples=7)
    assert again.data["evaluation"] == found.data["evaluation"]
    assert await started(at) == before + 1


async def test_a_start_that_cannot_be_looked_up_stays_open_until_the_next_call(at: Desk) -> None:
    before = await started(at)
    await at.fault("drop-after", START + "$", method="POST")
    await at.fault("503", "/evaluations/$", method="GET", skip=1)  # the look before sending succeeds
    with pytest.raises(LabError) as caught:
        await evaluate(at, num_examples=8)
    assert caught.value.code == "hosted-outcome-unknown"
    found = await evaluate(at, num_examples=8)
    assert found.data["state"] == "finished", found
    assert await started(at) == before + 1


@pytest.mark.rotate(share=3)
@pytest.mark.parametrize(("kind", "said"), [("fails", "FAILED"), ("times-out", "TIMEOUT"), ("stall", "stalled")])
async def test_one_that_ends_badly_is_no_verdict_and_is_started_anew_by_the_same_call(
    at: Desk, kind: str, said: str
) -> None:
    before = await started(at)
    await at.fault(kind, scope="evaluation", times=1)
    examples = {"fails": 9, "times-out": 10, "stall": 11}[kind]
    found = await evaluate(at, num_examples=examples)
    assert (found.status, codes(found)) == ("inconclusive", ["eval-crashed"]), found
    assert said in found.data["reason"]
    job = EvaluationJobs(at.lab).get(str(found.data["id"]))
    assert 0 < sum(1 for _ in EvaluationJobs(at.lab).rollouts(job.id)) < examples * 4
    if kind == "stall":
        assert (await at.lab.prime.eval_get(str(found.data["evaluation"])))["status"] == "CANCELLED"
        return
    again = await evaluate(at, num_examples=examples)
    assert again.data["state"] == "finished"
    assert again.data["evaluation"] != found.data["evaluation"]
    assert await started(at) == before + 2


async def test_a_platform_that_is_away_for_a_while_costs_nothing_but_time(at: Desk) -> None:
    before = await started(at)
    await at.fault("503", "/evaluations/ev_[^/]+$", method="GET", times=3)
    await at.fault("500", "/samples$", method="GET", times=2)
    found = await evaluate(at, num_examples=30, rollouts=5)
    assert (found.data["state"], found.data["completed"]) == ("finished", 150), found
    assert await started(at) == before + 1


async def test_samples_that_cannot_be_had_are_no_verdict_and_are_downloaded_by_the_next_call(at: Desk) -> None:
    before = await started(at)
    await at.fault("422", "/samples$", method="GET", times=1)
    found = await evaluate(at, num_examples=12)
    assert (found.status, codes(found)) == ("inconclusive", ["eval-crashed"]), found
    again = await evaluate(at, num_examples=12)
    assert (again.data["state"], again.data["id"]) == ("finished", found.data["id"])
    assert await started(at) == before + 1


async def test_a_supervisor_that_was_killed_is_replaced_by_one_on_the_same_evaluation(slow: Desk) -> None:
    first, job = await begun(slow, 25)
    assert first.status == "running"
    await killed(slow, job)
    await slow.tell("/rehearsal/clock", advance=600)

    found = await evaluate(slow, num_examples=25)

    assert (found.data["state"], found.data["id"], found.data["completed"]) == ("finished", job.id, 100), found
    assert found.data["evaluation"] == job.progress["evaluation"]
    assert await started(slow) == 1


async def test_stop_ends_it_on_the_platform_with_and_without_a_supervisor(slow: Desk) -> None:
    for examples, kill in ((20, False), (21, True)):
        _, job = await begun(slow, examples)
        if kill:
            await killed(slow, job)
        stopped = await slow.call(control_run.TOOL, id=job.id, action="stop")
        assert stopped.data["status"] == "stopped"
        assert (await slow.lab.prime.eval_get(str(job.progress["evaluation"])))["status"] == "CANCELLED"


async def test_the_question_names_price_bound_and_version_and_the_cap_holds(at: Desk) -> None:
    args = TOOL.args.model_validate(
        {"environment": f"{FOREIGN}@0.1.0", "model": "openai/gpt-4.1-mini", "num_examples": 200, "hosted": True}
    )
    call = await at.hosted(TOOL, args)
    plan = await TOOL.plan(call, args)
    dear = plan.intent
    assert dear is not None
    assert (dear.kind, dear.ask) == ("eval", True)
    assert dear.max_cost == pytest.approx(4 * 200 * 8 * (1000 * 0.4 + 2048 * 1.6) / 1e6)
    assert "0.1.0 was asked for; the platform runs the latest" in dear.question
    with pytest.raises(LabError) as caught:
        await TOOL.run(call, replace(plan, intent=None))
    assert caught.value.code == "intent-changed"
    capped = replace(at.lab.settings, max_spend=1.0)
    lab = type(at.lab)(capped, at.lab.platform_variables)
    report = await Calls(lab, TOOLS, NoPages()).execute("run_eval", args.model_dump(exclude_unset=True))
    assert [f.code for f in report.findings] == ["over-cap"]
    lab.ledger.close()
