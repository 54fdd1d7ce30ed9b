"""read_eval over real evaluations: every view, from arguments to report."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Run, evidence_from
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.rendering import MAX_CHARACTERS, structured
from prime_lab_mcp.tools import control_run, read_eval, run_eval, watch_run
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.tool import Plan
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.finished import episode, finished, mixed, record_confirmed
from tests.lab.evals.scripted import serving
from tests.tools.test_run_eval import call_of

pytestmark = pytest.mark.anyio


async def look(lab: Lab, **given: Any) -> Outcome:
    return await read_eval.run(await call_of(lab, None), read_eval.Args.model_validate(given))


async def evaluate(lab: Lab, url: str, model: str) -> str:
    args = run_eval.Args.model_validate(
        {
            "environment": "sums_v1",
            "model": model,
            "endpoint": url,
            "num_examples": 32,
            "rollouts": 4,
            "wait_seconds": 120,
        }
    )
    call = await call_of(lab)
    found = await run_eval.run(call, await run_eval.plan(call, args))
    assert found.data["state"] == "finished", found
    record_confirmed(lab)
    return str(found.data["id"])


def skilled(skill: float) -> Any:
    """Adds rightly this often; every fifth right answer is given in a form that the reward does not read."""
    rng = random.Random(1)

    def reply(body: Mapping[str, Any], before: int) -> str:
        asked = str(body["messages"][-1]["content"])
        left, _, right = asked.removeprefix("What is ").partition("?")[0].partition("+")
        total = int(left) + int(right)
        if rng.random() > skill:
            return f"<answer>{total + 2}</answer>"
        return f"The answer is {total}" if rng.random() < 0.2 else f"<answer>{total}</answer>"

    return reply


async def test_what_selects_chooses_its_view_and_is_never_ignored(lab: Lab) -> None:
    id = finished(lab, mixed()).id
    assert (await look(lab, eval=id, where="zero")).data["matching"] > 0
    assert "groups" in (await look(lab, eval=id, by="stop")).data
    with pytest.raises(LabError) as refused:
        await look(lab, eval=id, view="zeros", where="suspicious")
    assert 'view="rollouts"' in refused.value.fix


async def test_views_of_an_evaluation_that_solved_nothing_lead_out_of_it(lab: Lab) -> None:
    """Each view showed the other one, and none of them a step that changes something."""
    id = finished(lab, [episode(n % 40, 0.0, "five") for n in range(160)]).id
    zeros = await look(lab, eval=id, view="zeros")
    hard = await look(lab, eval=id, view="difficulty")
    for found in (zeros, hard):
        assert len(found.next) <= 3
        assert "test_reward" in [one.tool for one in found.next]  # it was never called for these files
    assert (hard.next[0].arguments or {})["view"] == "zeros"
    assert "groups" not in [(one.arguments or {}).get("view") for one in (*zeros.next, *hard.next)]


async def test_zeros_of_a_reward_whose_test_passed_lead_to_the_files_and_not_to_the_same_test(lab: Lab) -> None:
    """The test and the view of zeros named each other, unchanged, while the prompt asked for another form."""
    job = finished(lab, [episode(n % 40, float(n % 20 == 0), "four") for n in range(160)])
    before = [one.tool for one in (await look(lab, eval=job.id, view="zeros")).next]
    spec = EvaluationJobs(lab).spec(job)
    paid = {"rendering": "<answer>…</answer>", "gold_pass_rate": 1.0}
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, spec.environment, spec.source, "c", data=paid))
    after = (await look(lab, eval=job.id, view="zeros")).next
    assert "test_reward" in before
    assert [one.tool for one in after] == ["read_environment" if tool == "test_reward" else tool for tool in before]
    assert "Ask for that form in the prompt, or read the form that the prompt asks for" in str([o.why for o in after])


@pytest.mark.parametrize("status", ["inconclusive", "failed"])
async def test_no_advice_on_zeros_repeats_a_test_whose_result_is_known(lab: Lab, status: Any) -> None:
    job = finished(lab, [episode(n % 40, float(n % 20 == 0), "four") for n in range(160)])
    before = [row["tool"] for row in (await look(lab, eval=job.id, view="zeros")).data["advice"]]
    spec = EvaluationJobs(lab).spec(job)
    blocker = {"code": "gold-not-understood", "severity": "blocker", "message": "m", "fix": "See which group it takes."}
    found = Evidence("test_reward", status, lab.key, spec.environment, spec.source, "c", findings=[blocker])
    lab.ledger.record(found)
    after = (await look(lab, eval=job.id, view="zeros")).data["advice"]
    assert "test_reward" in before
    assert [row["tool"] for row in after] == ["read_environment" if tool == "test_reward" else tool for tool in before]
    told = [row["advice"] for row, tool in zip(after, before, strict=True) if tool == "test_reward"]
    assert all("gold-not-understood, m (See which group it takes.)" in text for text in told)


def guessed_labels(task_count: int = 48) -> list[dict[str, Any]]:
    """Labels of which half are the same one, and every task is right in half of its rollouts: what a guesser earns."""
    labels = ["good", "bad", "good", "mixed"]
    return [
        episode(t, float(r % 2), labels[(t + r) % 4], answer=labels[t % 4]) for t in range(task_count) for r in range(8)
    ]


async def test_a_view_of_difficulty_offers_no_config_after_a_verdict_that_did_not_pass(lab: Lab) -> None:
    """The view said "ready" and offered a config for an evaluation that its own verdict kept from a push."""
    job = finished(lab, guessed_labels(), num_examples=48, rollouts=8, tasks=48)
    summary = await look(lab, eval=job.id)
    blocked = [f.code for f in summary.findings if f.severity == "blocker"]
    assert summary.data["status"] == "failed"
    hard = await look(lab, eval=job.id, view="difficulty")
    assert hard.data["state"] == "blocked"
    assert blocked[0] in hard.summary
    assert hard.data["settings"] == {}
    assert not {"write_training_config", "push_environment"} & {one.tool for one in hard.next}


async def test_every_view_carries_the_verdict_of_its_evaluation(lab: Lab) -> None:
    job = finished(lab, guessed_labels(), num_examples=48, rollouts=8, tasks=48)
    counted = [episode(t, float(r % 2), f"count {t + r % 2}", answer=f"count {t}") for t in range(48) for r in range(8)]
    other = finished(lab, counted, id="eval-00000002", num_examples=48, rollouts=8, tasks=48)
    for view in ("zeros", "groups", "rollouts", "difficulty"):
        failed = await look(lab, eval=job.id, view=view)
        assert failed.data["verdict"]["status"] == "failed"
        assert failed.data["verdict"]["blockers"]
        assert failed.data["verdict"]["blockers"][0] in failed.summary
        passed = await look(lab, eval=other.id, view=view)
        assert passed.data["verdict"] == {"status": "passed", "blockers": []}
        assert "verdict" not in passed.summary
    pair = await look(lab, eval=job.id, view="compare", other=other.id)
    assert pair.data["here"]["verdict"]["status"] == "failed"
    assert pair.data["there"]["verdict"]["status"] == "passed"


async def test_a_comparison_with_an_open_verdict_leads_to_the_evaluation_that_decides_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of two models to train ended in reading: the larger evaluation was never named."""

    async def offered(_: Lab) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr(read_eval, "_trained_by_platform", offered)
    sizes = {"num_examples": 40, "rollouts": 4, "tasks": 160}
    weak = finished(lab, guessed_labels(40), num_examples=40, rollouts=8, tasks=160, model="Qwen/Qwen3-0.6B")
    unsure = [
        episode(t, float(r < t % 5 + (t % 4 == 0)), "good", answer="good" if t % 2 else "bad")
        for t in range(40)
        for r in range(4)
    ]
    open_one = finished(lab, unsure, id="eval-00000002", **sizes, model="Qwen/Qwen3-4B-Instruct-2507")
    judged = await look(lab, eval=open_one.id)
    assert judged.data["status"] == "inconclusive", judged.findings
    pair = await look(lab, eval=open_one.id, view="compare", other=weak.id)
    assert pair.data["to_train"]["model"] is None
    first = pair.next[0]
    assert (first.tool, (first.arguments or {})["model"]) == ("run_eval", "Qwen/Qwen3-4B-Instruct-2507")
    assert (first.arguments or {})["num_examples"] > 40
    assert "workflow_status" not in [one.tool for one in pair.next]


async def test_a_comparison_that_says_which_model_to_train_leads_to_the_step_that_is_due(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def offered(_: Lab) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr(read_eval, "_trained_by_platform", offered)
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    here = {"environment": "sums_v1", "source": snapshot.source, "content": snapshot.content}
    sizes = {"num_examples": 48, "rollouts": 8, "tasks": 48}
    weak = finished(lab, guessed_labels(), **here, **sizes, model="Qwen/Qwen3-0.6B")
    counted = [episode(t, float(r % 2), f"count {t + r % 2}", answer=f"count {t}") for t in range(48) for r in range(8)]
    strong = finished(lab, counted, id="eval-00000002", **here, **sizes, model="Qwen/Qwen3-4B-Instruct-2507")
    pair = await look(lab, eval=strong.id, view="compare", other=weak.id)
    assert pair.data["to_train"]["model"] == "Qwen/Qwen3-4B-Instruct-2507"
    first = pair.next[0]
    assert (first.tool, first.arguments) == ("test_reward", {"environment": "sums_v1"})
    assert "towards training Qwen/Qwen3-4B-Instruct-2507" in first.why
    assert "workflow_status" not in [one.tool for one in pair.next]


async def test_zeros_of_a_reward_that_pays_no_answer_are_not_called_wrong_answers(lab: Lab) -> None:
    """The form of 231 replies was "not at fault" while 157 replies with the reference answer were not paid either."""
    said = ["It is five, I think", "four"]
    id = finished(lab, [episode(t, 0.0, said[r % 2]) for t in range(40) for r in range(8)]).id
    zeros = await look(lab, eval=id, view="zeros")
    assert zeros.data["whose"] == {"model": 0, "setup": 160, "unknown": 160}
    told = json.dumps([zeros.summary, zeros.data["advice"], zeros.data["examples"]])
    assert "not at fault" not in told
    assert "by what the model can do" not in told
    assert "not right" not in told
    assert "no answer was paid at all" in zeros.summary
    paid = [episode(t, float(r == 1 and t % 2), said[r % 2]) for t in range(40) for r in range(8)]
    id = finished(lab, paid, id="eval-00000002").id
    assert (await look(lab, eval=id, view="zeros")).data["whose"]["model"] == 160


@pytest.mark.slow
async def test_every_view_of_two_real_evaluations(lab: Lab) -> None:
    root = write_environment(lab.settings.workspace)
    with serving(skilled(0.5)) as weak, serving(skilled(0.95)) as strong:
        small, big = await evaluate(lab, weak.url, "owner/small"), await evaluate(lab, strong.url, "owner/big")

    summary = await look(lab, eval=small)
    assert summary.status == "passed"
    rate = summary.data["pass_rate"]
    assert rate["low"] < rate["share"] < rate["high"]
    assert 0.2 < rate["share"] < 0.6
    assert (summary.data["tasks"], summary.data["rollouts"], summary.data["errors"]) == (32, 128, 0)
    assert summary.data["made_by"]["files"] == "present"
    assert summary.data["made_by"]["sampling"]["temperature"] == 1.0

    ranked = await look(lab, eval=small, view="rollouts", where="suspicious")
    assert "earned nothing, and the gold answer is in the reply" in ranked.data["suspicious"]
    assert "eval-zero-with-gold" in [f.code for f in ranked.findings]
    one = await look(lab, eval=small, view="rollouts", where=ranked.data["rollouts"][0]["id"])
    assert [m["role"] for m in one.data["rollouts"][0]["messages"]] == ["user", "assistant"]

    fields = await look(lab, eval=small, view="groups")
    assert "answer" in [f["field"] for f in fields.data["fields"]]
    form = await look(lab, eval=small, view="groups", by="format_reward")
    assert form.data["groups"][0] == form.data["groups"][0] | {
        "value": "0",
        "mean_of_attainable": 0.0,
        "pass_rate": 0.0,
    }

    compared = await look(lab, eval=big, view="compare", other=small)
    assert compared.data["difference"]["low"] > 0
    assert compared.data["tasks"]["shared"] == 32
    assert compared.data["settings"] == {"model": ["owner/big", "owner/small"]}
    with pytest.raises(LabError) as alone:
        await look(lab, eval=big, view="compare")
    assert alone.value.code == "compare-without-other"
    assert alone.value.next[0].arguments == {"eval": big, "view": "compare", "other": small}

    hard = await look(lab, eval=small, view="difficulty")
    assert sum(hard.data["pools"].values()) == 32
    assert hard.data["state"] in ("ready", "start low")

    for outcome in (summary, ranked, one, fields, form, compared, hard):
        shown = structured(Report(outcome.status, outcome.summary, outcome.findings, outcome.data, (), outcome.next))
        assert len(json.dumps(shown)) <= MAX_CHARACTERS
        assert shown["data"] == json.loads(json.dumps(dict(outcome.data)))  # nothing had to be cut

    listed = {row["id"]: row for row in (await watch_run.run(await call_of(lab, None), watch_run.Args())).data["evals"]}
    assert (listed[small]["class"], listed[small]["model"]) == ("target", "owner/small")

    taskset = root / "sums_v1" / "taskset.py"
    taskset.write_text(taskset.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    stale = await look(lab, eval=small)
    assert stale.data["made_by"]["files"] == "changed"
    assert "eval-stale" in [f.code for f in stale.findings]


async def test_after_the_comparison_of_a_checkpoint_nothing_leads_back_to_it(lab: Lab) -> None:
    """After the comparison came the difficulty, and after the difficulty the comparison."""
    run = {"model": "Qwen/Qwen3-0.6B", "environments": ["me/sums@0.1.0"], "ended": "COMPLETED"}
    base = finished(lab, mixed(), model="Qwen/Qwen3-0.6B")
    trained = finished(lab, mixed(), "eval-00000002", model="sums-0badcafe-step-20")
    lab.ledger.record_run(Run("run_1", "training", "sums-0badcafe", lab.key, "f" * 64, lab.platform, data=run))
    for here, there in ((trained, base), (base, trained)):
        assert (await look(lab, eval=here.id, view="compare", other=there.id)).next == ()
    views = {(one.arguments or {}).get("view") for one in (await look(lab, eval=trained.id, view="difficulty")).next}
    assert views <= {"groups", "rollouts"}


async def test_an_evaluation_that_broke_off_leads_to_its_missing_rollouts_and_not_to_another_one(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    facts = Facts(toolchain={DISTRIBUTIONS: await present_distributions(lab, snapshot)})
    for tool in ("check_environment", "test_reward"):
        lab.ledger.record(evidence_from(tool, "passed", lab.key, snapshot, (), facts, "prime", {}, {}))
    given = {"source": snapshot.source, "content": snapshot.content, "num_examples": 30, "tasks": 200}
    job = finished(lab, mixed(20, 2), stopped_of=120, **given)
    watched = await watch_run.run(await call_of(lab, None), watch_run.Args(id=job.id))
    stopped = await control_run.run(
        await call_of(lab, None), Plan(control_run.Work(control_run.Args(id=job.id, action="stop")))
    )
    calls = Calls(lab, TOOLS, References())
    judged = await calls.execute("check_reward_distribution", {"results": job.id})
    views = [await look(lab, eval=job.id, view=view) for view in ("summary", "zeros", "difficulty")]
    status = await calls.execute("workflow_status", {})
    size = {"environment": "sums_v1", "model": "scripted", "num_examples": 30, "rollouts": 4}
    for told in (watched, stopped, judged, *views, status):
        found = [one for one in told.next if one.tool == "run_eval"]
        asked = [{name: (one.arguments or {}).get(name) for name in size} for one in found]
        assert asked == [size], (told.summary, told.next)
        assert found[0].why.startswith(f"goes on with {job.id}: 40 of 120 rollouts")


async def test_nothing_to_read_says_what_to_run(lab: Lab) -> None:
    with pytest.raises(LabError) as none:
        await look(lab, view="difficulty")
    assert none.value.code == "eval-missing"


async def test_a_finished_evaluation_is_shown_with_its_verdict_and_the_call_that_is_due(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    given = {"environment": "sums_v1", "source": snapshot.source, "content": snapshot.content}
    episodes = mixed()
    for one in episodes:
        data = one["traces"][0]["task"]["data"]
        data["answer"] = f"number {data['idx']}"
    job = finished(lab, episodes, **given)

    watched = await watch_run.run(await call_of(lab, None), watch_run.Args(id=job.id))
    read = await look(lab, eval=job.id)

    assert watched.status == "passed"
    assert "mean reward" in watched.summary
    assert watched.data["verdict"] == read.data["status"] == "passed", watched.findings
    for told in (watched, read):
        # Neither the check nor the test, which runs the check first, was run on these files: a push is not offered.
        assert (told.next[0].tool, told.next[0].arguments) == ("test_reward", {"environment": "sums_v1"})
    assert "push_environment" not in [one.tool for one in watched.next]
