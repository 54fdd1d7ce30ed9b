"""The evaluation behind a push or a run fits what is published or trained, and somebody stands for its endpoint.

An agent may serve a program of its own that answers right half of the time under the target model's name. Such
evidence is ceiling-only: only a person's own answer goes past it.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Any

import pytest
from packaging.requirements import Requirement

from prime_lab_mcp.cli import person
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.distributions import read_fingerprints
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.evaluation_evidence import JUDGE_NAMED_BY
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Run
from prime_lab_mcp.server.call import Calls, no_progress
from prime_lab_mcp.tools import submit_training
from tests.property.world import MODEL, World

LIAR = "127.0.0.1:4711"
PLATFORM = "api.pinference.ai"
DAY = 1_760_000_000.0
"""2025-10-09."""
FAILING = [{"code": "distribution-dead", "severity": "blocker"}]
TOO_SMALL = [{"code": "distribution-inconclusive", "severity": "blocker"}]
RUN = "sums-qwen-0123abcd"


@pytest.fixture
def server(world: World) -> Calls:
    """A server whose environment `sums` is checked and tested, and not evaluated."""
    world.write("one", "sums")
    server = world.server("one")
    world.call(server, "test_reward", environment="sums")
    return server


def evaluated(world: World, server: Calls, named_by: str | None = "platform", **fields: Any) -> None:
    """Record the verdict on an evaluation of the present files, as `run_eval` does when its job ends."""
    files = world.on_disk("one", "sums")
    data = {"tasks": 48, "evaluated_at": DAY, "endpoint_named_by": named_by}
    row = Evidence(
        "check_reward_distribution",
        "passed",
        server.lab.key,
        "sums",
        files.source,
        files.content,
        model=MODEL,
        endpoint_host=PLATFORM if named_by == "platform" else LIAR,
        platform="prime" if named_by == "platform" else None,
        data={key: value for key, value in data.items() if value is not None},
        toolchain={DISTRIBUTIONS: dict(read_fingerprints(world.python, [Requirement("verifiers")]).by_name)},
        at=time.time(),
    )
    server.lab.ledger.record(replace(row, **fields))


def alone(world: World, server: Calls, tool: str, **arguments: Any) -> Report:
    """A call of a client that cannot ask its user."""
    return world.loop.run_until_complete(server.execute(tool, arguments))


def published(world: World, server: Calls) -> str:
    """A config for the environment, which was published on the platform's evidence."""
    evaluated(world, server)
    assert world.call(server, "push_environment", environment="sums").status == "passed"
    return config(world, server)


def config(world: World, server: Calls, model: str = MODEL) -> str:
    written = world.call(server, "write_training_config", environments=["me/sums@0.1.0"], model=model, steps=10)
    assert written.data.get("path"), written
    return str(written.data["path"])


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


# Endpoints


@pytest.mark.parametrize("named_by", ["call", None])
def test_evidence_of_an_endpoint_that_a_call_named_is_published_by_nobody_but_a_person(
    world: World, server: Calls, named_by: str | None
) -> None:
    """None: a row of an older version, which says the host and not who named it."""
    evaluated(world, server, named_by)
    asked = alone(world, server, "push_environment", environment="sums")
    assert (asked.status, world.pushes()) == ("needs_confirmation", [])
    assert codes(asked) == {"approval-in-terminal", "evidence-ceiling-only"}
    assert MODEL in asked.data["question"]
    assert LIAR in asked.data["question"]
    token = asked.data["confirm"]

    echoed = alone(world, server, "push_environment", environment="sums", confirm=token)
    assert (echoed.status, world.pushes()) == ("needs_confirmation", [])

    assert person.approve(server.lab.settings, token, assume_yes=True) == 0
    assert alone(world, server, "push_environment", environment="sums", confirm=token).status == "passed"
    assert len(world.pushes()) == 1


def test_an_elicitation_is_a_persons_answer_and_names_what_it_is_about(world: World, server: Calls) -> None:
    evaluated(world, server, "call")
    assert world.call(server, "push_environment", environment="sums").status == "passed"
    (question,) = world.questions
    for part in (MODEL, LIAR, "48 tasks", "2025-10-09", "nothing shows that this model answered there"):
        assert part in question


@pytest.mark.parametrize("named_by", ["platform", "provider", "person"])
def test_evidence_of_an_endpoint_that_somebody_stands_for_is_published_with_a_token(
    world: World, server: Calls, named_by: str
) -> None:
    evaluated(world, server, named_by)
    asked = alone(world, server, "push_environment", environment="sums")
    assert codes(asked) == set()
    host = PLATFORM if named_by == "platform" else LIAR
    for part in (MODEL, host, "48 tasks", "2025-10-09"):
        assert part in asked.data["question"]
    sent = alone(world, server, "push_environment", environment="sums", confirm=asked.data["confirm"])
    assert sent.status == "passed", sent


def test_evidence_of_the_platform_from_an_older_version_still_counts(world: World, server: Calls) -> None:
    evaluated(world, server, "platform", data={})
    asked = alone(world, server, "push_environment", environment="sums")
    assert codes(asked) == set()


def test_neither_yes_nor_a_token_starts_a_run_on_evidence_of_an_endpoint_that_a_call_named(
    world: World, server: Calls
) -> None:
    path = published(world, server)
    evaluated(world, server, "call")
    server.lab.settings = replace(server.lab.settings, max_spend=100_000.0)
    asked = alone(world, server, "submit_training", config=path, yes=True)
    assert asked.status == "needs_confirmation", asked
    assert {"approval-in-terminal", "evidence-ceiling-only"} <= codes(asked)
    for part in (MODEL, LIAR, "48 tasks", "2025-10-09"):
        assert part in asked.data["question"]
    token = asked.data["confirm"]
    for given in ({"confirm": token}, {"confirm": token, "yes": True}):
        assert alone(world, server, "submit_training", config=path, **given).status == "needs_confirmation"
    assert world.runs() == []
    person.approve(server.lab.settings, token, assume_yes=True)
    assert alone(world, server, "submit_training", config=path, confirm=token).status == "passed"
    assert len(world.runs()) == 1


def test_an_approval_of_the_platforms_evidence_does_not_cover_what_came_after_it(world: World, server: Calls) -> None:
    evaluated(world, server)
    token = alone(world, server, "push_environment", environment="sums").data["confirm"]
    evaluated(world, server, "call")
    late = alone(world, server, "push_environment", environment="sums", confirm=token)
    assert (late.status, world.pushes()) == ("needs_confirmation", [])
    assert "evidence-ceiling-only" in codes(late)


def test_evidence_that_changes_while_a_person_answers_is_not_sent(world: World, server: Calls) -> None:
    evaluated(world, server)

    async def ask(question: str) -> Any:
        evaluated(world, server, "call")
        return "approved"

    arguments = {"environment": "sums"}
    report = world.loop.run_until_complete(server.execute("push_environment", arguments, ask=ask))
    assert (report.status, codes(report), world.pushes()) == ("error", {"intent-changed"}, [])


def test_a_run_on_the_evidence_of_another_model_is_a_persons_decision(world: World, server: Calls) -> None:
    published(world, server)
    other = config(world, server, "Qwen/Qwen3-0.6B")
    asked = alone(world, server, "submit_training", config=other)
    assert {"approval-in-terminal", "evidence-ceiling-only"} <= codes(asked)
    for part in (MODEL, PLATFORM, "Qwen/Qwen3-0.6B", "not whether this model can learn it"):
        assert part in asked.data["question"]
    token = asked.data["confirm"]
    assert alone(world, server, "submit_training", config=other, confirm=token).status == "needs_confirmation"
    assert world.runs() == []


# The choice among evaluations

MISFITS: dict[str, dict[str, Any]] = {
    "another model": {"model": "gpt-5"},
    "held-out tasks": {"env_args": {"split": "test"}},
    "a checkpoint": {"model": f"{RUN}-step-40"},
    "the last checkpoint": {"model": RUN},
}
"""Evaluations that say nothing about whether the model to be trained can learn from the training tasks."""


def known_run(world: World, server: Calls, id: str = "run-1") -> None:
    lab = server.lab
    lab.ledger.record_run(Run(id, "training", RUN, lab.key, "intent", lab.platform))


@pytest.mark.parametrize("misfit", [*MISFITS, "too few tasks"])
def test_a_later_evaluation_of_something_else_closes_no_run(world: World, server: Calls, misfit: str) -> None:
    path = published(world, server)
    known_run(world, server)
    if misfit == "too few tasks":
        evaluated(world, server, status="inconclusive", findings=TOO_SMALL)
    else:
        evaluated(world, server, status="failed", findings=FAILING, **MISFITS[misfit])
    report = alone(world, server, "submit_training", config=path)
    assert (report.status, report.unmet) == ("needs_confirmation", ()), report
    assert "evidence-ceiling-only" not in codes(report)


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_later_evaluation_of_something_else_opens_no_run(world: World, server: Calls, misfit: str) -> None:
    path = published(world, server)
    known_run(world, server)
    evaluated(world, server, status="failed", findings=FAILING)
    evaluated(world, server, **MISFITS[misfit])
    report = alone(world, server, "submit_training", config=path)
    assert [(unmet.tool, unmet.why) for unmet in report.unmet] == [("check_reward_distribution", "failed")], report


@pytest.mark.parametrize("misfit", ["held-out tasks", "a checkpoint", "the last checkpoint", "too few tasks"])
def test_a_later_evaluation_of_something_else_closes_no_push(world: World, server: Calls, misfit: str) -> None:
    known_run(world, server)
    evaluated(world, server)
    if misfit == "too few tasks":
        evaluated(world, server, status="inconclusive", findings=TOO_SMALL, model="Qwen/Qwen3-8B")
    else:
        evaluated(world, server, status="failed", findings=FAILING, **MISFITS[misfit])
    asked = alone(world, server, "push_environment", environment="sums")
    assert (asked.status, codes(asked)) == ("needs_confirmation", set()), asked


@pytest.mark.parametrize("misfit", ["held-out tasks", "a checkpoint", "the last checkpoint"])
@pytest.mark.parametrize("before", [True, False])
def test_an_evaluation_of_something_else_opens_no_push(world: World, server: Calls, misfit: str, before: bool) -> None:
    known_run(world, server)
    if before:
        evaluated(world, server, status="failed", findings=FAILING)
    evaluated(world, server, **MISFITS[misfit])
    report = alone(world, server, "push_environment", environment="sums")
    why = "failed" if before else "never-run"
    assert [(unmet.tool, unmet.why) for unmet in report.unmet] == [("check_reward_distribution", why)], report


def test_at_a_push_the_latest_model_whose_evaluation_decides_is_the_model(world: World, server: Calls) -> None:
    evaluated(world, server, status="failed", findings=FAILING)
    evaluated(world, server, model="Qwen/Qwen3-8B")
    asked = alone(world, server, "push_environment", environment="sums")
    assert "Qwen/Qwen3-8B" in asked.data["question"]
    evaluated(world, server, status="failed", findings=FAILING, model="Qwen/Qwen3-8B")
    assert alone(world, server, "push_environment", environment="sums").status == "blocked"


def test_a_benchmark_of_another_model_closes_no_push(world: World, server: Calls) -> None:
    evaluated(world, server)
    evaluated(world, server, status="failed", findings=FAILING, model="gpt-5")
    asked = alone(world, server, "push_environment", environment="sums")
    assert (asked.status, codes(asked)) == ("needs_confirmation", set()), asked
    assert MODEL in asked.data["question"]
    assert "gpt-5" not in asked.data["question"]
    evaluated(world, server, status="failed", findings=FAILING)
    assert alone(world, server, "push_environment", environment="sums").status == "blocked"


def test_a_benchmark_of_another_model_that_passes_reopens_no_run(world: World, server: Calls) -> None:
    path = published(world, server)
    evaluated(world, server, status="failed", findings=FAILING)
    evaluated(world, server, model="gpt-5")
    assert alone(world, server, "submit_training", config=path).status == "blocked"


@pytest.mark.parametrize("status", ["passed", "failed"])
def test_a_run_that_resumes_rests_on_the_evaluation_of_its_checkpoint(world: World, server: Calls, status: Any) -> None:
    path = published(world, server)
    known_run(world, server)
    findings = FAILING if status == "failed" else []
    evaluated(world, server, model=f"{RUN}-step-40", status=status, findings=findings)
    report = alone(world, server, "submit_training", config=path, resume_from="run-1")
    # The stub of the platform knows no such run: behind the open gate comes the question whether the run is paused.
    assert (report.status == "blocked") == (status == "failed"), report
    assert alone(world, server, "submit_training", config=path).status == "needs_confirmation"


@pytest.mark.parametrize("known", [True, False])
def test_only_a_person_lets_a_submission_go_on_from_weights_of_which_nothing_is_known(
    world: World, server: Calls, known: bool
) -> None:
    path = world.workspace("one") / published(world, server)
    if known:
        known_run(world, server)
    call = replace(
        server._call(None, no_progress),
        config=path,
        config_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        resume_from="run-1",
    )
    passage = world.loop.run_until_complete(server._gate(call).check(submit_training.TOOL, call))
    assert passage.report is None, passage
    said = ('nothing is known here of run "run-1", from whose weights it would go on',)
    assert passage.personal == (() if known else said)
    assert set(passage.personal) <= set(passage.cautions)


# Judges


def judged(world: World, server: Calls, named_by: str) -> None:
    """Record a reward test whose scores came from a judge, as `test_reward(judge=...)` does."""
    files = world.on_disk("one", "sums")
    row = Evidence(
        "test_reward",
        "passed",
        server.lab.key,
        "sums",
        files.source,
        files.content,
        endpoint_host=LIAR,
        sampling={"judge": "judge-1", "temperature": 0.0},
        platform="prime" if named_by == "platform" else None,
        data={JUDGE_NAMED_BY: named_by},
        toolchain={DISTRIBUTIONS: dict(read_fingerprints(world.python, [Requirement("verifiers")]).by_name)},
        at=time.time(),
    )
    server.lab.ledger.record(row)


def test_a_reward_that_a_judge_of_the_call_let_pass_needs_a_persons_answer(world: World, server: Calls) -> None:
    """An agent may serve a judge of its own that answers yes to everything."""
    evaluated(world, server)
    judged(world, server, "call")
    asked = alone(world, server, "push_environment", environment="sums")
    assert asked.status == "needs_confirmation", asked
    assert "evidence-ceiling-only" in {finding.code for finding in asked.findings}
    assert 'the judge "judge-1" at "127.0.0.1:4711"' in str(asked.data["question"])
    again = alone(world, server, "push_environment", environment="sums", confirm=asked.data["confirm"])
    assert again.status == "needs_confirmation", again
    assert world.pushes() == []


@pytest.mark.parametrize("named_by", ["platform", "provider", "person"])
def test_a_judge_that_somebody_vouches_for_is_named_and_no_more(world: World, server: Calls, named_by: str) -> None:
    evaluated(world, server)
    judged(world, server, named_by)
    asked = alone(world, server, "push_environment", environment="sums")
    assert "evidence-ceiling-only" not in {finding.code for finding in asked.findings}
    assert 'the judge "judge-1"' in str(asked.data["question"])


def test_a_judge_of_the_call_is_said_before_a_run_too(world: World, server: Calls) -> None:
    config = published(world, server)
    judged(world, server, "call")
    asked = alone(world, server, "submit_training", config=config)
    assert asked.status == "needs_confirmation", asked
    assert "evidence-ceiling-only" in {finding.code for finding in asked.findings}
