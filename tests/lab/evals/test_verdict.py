"""The cache of judged results, and findings on an evaluation that sampled differently from training."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.evidence_limits import sampling_difference
from prime_lab_mcp.lab.evals.outcomes import running_outcome
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from tests.lab.evals.finished import episode, finished, mixed, record_confirmed

pytestmark = pytest.mark.anyio


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The group sizes that results were judged for, one each time they were."""
    seen: list[int] = []
    real = judge_rollouts

    def counting(*args: object, group_size: int, **more: object) -> object:
        seen.append(group_size)
        return real(*args, group_size=group_size, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(verdict, "judge_rollouts", counting)
    return seen


async def test_the_same_results_are_judged_once_for_readers_and_anew_for_the_ledger(
    lab: Lab, judged: list[int]
) -> None:
    job = finished(lab, mixed())

    first = verdict.judge_job(lab, job)
    assert verdict.judge_job(lab, job) == first
    assert judged == [16]

    assert len(record_confirmed(lab)) == 2
    assert judged == [16, 16]
    assert verdict.judge_job(lab, job) == first
    assert verdict.judge_job(lab, job, 32) != first
    assert judged == [16, 16, 32]


async def test_what_is_remembered_says_nothing_of_results_that_were_changed_since(lab: Lab, judged: list[int]) -> None:
    job = finished(lab, mixed())
    assert verdict.judge_job(lab, job).distribution is not None
    EvaluationJobs(lab).results_path(job.id).write_text("{}\n")

    found = verdict.judge_job(lab, job)

    assert [f.code for f in found.findings] == ["eval-results-changed"]
    assert (found.status, found.distribution) == ("inconclusive", None)


async def test_what_is_remembered_is_of_the_bytes_and_the_rest_of_the_job(lab: Lab, judged: list[int]) -> None:
    job = finished(lab, mixed())
    blemished = finished(lab, [*mixed(), *[episode(1, 1.0, id="again") for _ in range(2)]], id="eval-00000002")
    greedy = dataclasses.replace(job, spec=dict(job.spec) | {"temperature": 0.1})

    usual = {f.code for f in verdict.judge_job(lab, job).findings}
    assert {f.code for f in verdict.judge_job(lab, greedy).findings} - usual == {"distribution-other-sampling"}
    assert len(judged) == 1
    for _ in range(2):
        assert "results-repeated" in {f.code for f in verdict.judge_job(lab, blemished).findings}
    assert len(judged) == 2


async def test_only_a_few_are_remembered(lab: Lab, judged: list[int]) -> None:
    job = finished(lab, mixed())
    for size in range(2, 22):
        verdict.judge_job(lab, job, size)

    assert len(lab.memory(verdict.JudgedDistributions)) < 10
    verdict.judge_job(lab, job, 21)
    assert len(judged) == 20


@pytest.mark.parametrize(
    ("config", "status", "severity"),
    [
        ({"model": "another/model"}, "inconclusive", "blocker"),
        ({"model": "scripted", "sampling": {"temperature": 1.0, "max_tokens": 9}}, "failed", "warning"),
    ],
)
async def test_results_that_say_other_than_was_asked_for_are_told_and_of_another_model_decide_nothing(
    lab: Lab, config: dict[str, object], status: str, severity: str
) -> None:
    agent = {"name": "agent", "trainable": True, "config": config}
    episodes = [{**e, "traces": [{**t, "agent": agent} for t in e["traces"]]} for e in mixed()]

    found = verdict.judge_job(lab, finished(lab, episodes))

    [told] = [f for f in found.findings if f.code == "results-not-as-asked"]
    assert (found.status, told.severity) == (status, severity)


async def test_results_as_they_were_asked_for_pass_without_a_word_about_it(lab: Lab) -> None:
    sampling = {"temperature": 1.0, "max_tokens": 64}
    agent = {"name": "agent", "trainable": True, "config": {"model": "scripted", "sampling": sampling}}
    episodes = [{**e, "traces": [{**t, "agent": agent} for t in e["traces"]]} for e in mixed()]

    found = verdict.judge_job(lab, finished(lab, episodes))

    assert found.status == verdict.judge_job(lab, finished(lab, mixed(), id="eval-00000002")).status == "failed"
    assert "results-not-as-asked" not in [f.code for f in found.findings]


@pytest.mark.parametrize(
    ("sampling", "named"),
    [
        ({"temperature": 1.0, "max_tokens": 512}, None),
        ({"temperature": 0.0}, "temperature 0"),
        ({"temperature": 1.0, "top_p": 0.9}, "top_p 0.9"),
        ({"temperature": 1.0, "top_p": 1, "top_k": -1, "min_p": 0}, None),
        ({"min_p": 0.1}, "min_p 0.1"),
    ],
)
def test_other_sampling_is_named(sampling: dict[str, Any], named: str | None) -> None:
    difference = sampling_difference(sampling)
    assert difference is None if named is None else named in (difference or "")


@pytest.mark.parametrize(
    ("completed", "seconds", "said"),
    [
        (16, 600, "takes about 65 minutes more"),
        (4, 600, "takes about 110 minutes more"),
        (16, 1, None),
        (240, 600, None),
    ],
)
async def test_a_running_evaluation_tells_the_time_that_is_left_by_its_own_rate(
    lab: Lab, completed: int, seconds: float, said: str | None
) -> None:
    progress = {"completed": completed, "planned": 240, "mean_reward": 0.4}
    job = dataclasses.replace(finished(lab, mixed()), state="running", progress=progress, at=time.time() - seconds)
    summary = running_outcome(lab, job).summary
    few = completed < EvaluationJobs(lab).spec(job).concurrency
    assert ("whose time holds the start as well" in summary) is (said is not None and few)
    assert " more." not in summary if said is None else said in summary


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ({"completed": 88, "planned": 400, "mean_reward": 0.0}, "88 of 400 rollouts finished; none of them earned"),
        ({"completed": 88, "planned": 400, "mean_reward": 0.4}, "goes on: 88 of 400 rollouts finished."),
        (
            {"completed": 400, "planned": 400, "mean_reward": 0.4},
            "all 400 rollouts finished, and its rewards are being",
        ),
    ],
)
async def test_a_running_evaluation_says_that_nothing_was_paid_and_what_comes_after_the_last_rollout(
    lab: Lab, progress: dict[str, Any], said: str
) -> None:
    job = finished(lab, mixed())
    running = dataclasses.replace(job, state="running", progress=progress)
    assert said in running_outcome(lab, running).summary


@pytest.mark.parametrize("status", ["inconclusive", "failed"])
async def test_a_running_evaluation_leads_to_what_the_known_test_of_its_reward_named(lab: Lab, status: Any) -> None:
    """The next call was the same test of the same files, whose result the sentence above it told."""
    job = finished(lab, mixed())
    running = dataclasses.replace(job, state="running", progress={"completed": 8, "planned": 400, "mean_reward": 0.4})
    assert running_outcome(lab, running).next[0].tool == "test_reward"
    blocker = {"code": "gold-not-understood", "severity": "blocker", "message": "m", "fix": "See which group it takes."}
    spec = EvaluationJobs(lab).spec(job)
    found = Evidence("test_reward", status, lab.key, spec.environment, job.source, "c", findings=[blocker])
    lab.ledger.record(dataclasses.replace(found, env_args=dict(spec.env_args)))
    first, *others = running_outcome(lab, running).next
    assert (first.tool, first.arguments) == ("read_environment", {"environment": spec.environment, "path": "*"})
    assert f"{status} with these very files: gold-not-understood, m (See which group it takes.)" in first.why
    assert "test_reward" not in [one.tool for one in others]


async def test_the_lengths_of_the_stand_in_of_a_rehearsal_are_marked_as_its_invention(lab: Lab) -> None:
    rows = [episode(t, float(r % 2), num_output_tokens=900 if r % 2 else 20) for t in range(40) for r in range(8)]
    job = finished(lab, rows)
    for platform, marked in (("rehearsal", True), ("prime", False)):
        judged = verdict.judge_job(lab, dataclasses.replace(job, platform=platform))
        [lengths] = [f for f in judged.findings if f.code == "distribution-length-correlation"]
        assert ("the stand-in makes the lengths of its replies up" in lengths.message) is marked
        assert (lengths.fix == "Nothing to do in a rehearsal.") is marked


async def test_an_evaluation_that_paid_nothing_says_what_the_stand_in_of_a_rehearsal_cannot_write(lab: Lab) -> None:
    job = finished(lab, [episode(t, 0.0) for t in range(40) for _ in range(8)])
    for platform, marked in (("rehearsal", True), ("prime", False)):
        judged = verdict.judge_job(lab, dataclasses.replace(job, platform=platform))
        [unpaid] = [f for f in judged.findings if f.code == "distribution-all-zero"]
        assert ("it earns nothing whatever its skill is" in unpaid.message) is marked
        assert ("as rendering (GOLD and every {FIELD}" in str(unpaid.fix)) is marked


async def test_replies_that_the_stand_in_of_a_rehearsal_cut_off_are_marked_as_its_invention(lab: Lab) -> None:
    cut = {"calls": [{"finish_reason": "length"}]}
    rows = [episode(t, float(r % 2), **(cut if r == 0 else {})) for t in range(40) for r in range(8)]
    job = finished(lab, rows)
    for platform, marked in (("rehearsal", True), ("prime", False)):
        judged = verdict.judge_job(lab, dataclasses.replace(job, platform=platform))
        [truncated] = [f for f in judged.findings if f.code == "distribution-truncated"]
        assert ("in this rehearsal the stand-in cuts some replies off" in truncated.message) is marked
