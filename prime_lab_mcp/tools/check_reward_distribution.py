"""`check_reward_distribution`: judges the rewards of an evaluation, with any group size, or of a file of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import EvalError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.distribution.floor import sampled_golds
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.easier import following_calls
from prime_lab_mcp.lab.evals.evidence import evidence_facts
from prime_lab_mcp.lab.evals.evidence_limits import sampling_difference
from prime_lab_mcp.lab.evals.outcomes import mean_summary, verdict_summary
from prime_lab_mcp.lab.evals.pages.illustrate import illustrate_outcome
from prime_lab_mcp.lab.evals.provenance import ResultsOrigin, origin_of_results
from prime_lab_mcp.lab.evals.rescore.confirmation import settle_evaluations
from prime_lab_mcp.lab.evals.results import as_result
from prime_lab_mcp.lab.evals.runner.endings import resuming_call
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.reading import read_first_rollouts, read_scores
from prime_lab_mcp.lab.rollouts.rollout import Reading
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool


class Args(Arguments):
    ONE_OF: ClassVar[tuple[str, ...]] = ("environment", "results")

    environment: EnvironmentName | None = None
    results: Annotated[
        str | None, Field(max_length=1000, description="Eval id, results file or folder; default: the latest eval.")
    ] = None
    group_size: Annotated[int, Field(ge=2, le=128, description="Rollouts per task in training.")] = 16


async def run(call: Call, args: Args) -> Outcome:
    lab = call.lab
    job = _job(lab, call.snapshot, args.results)
    if job is None:
        return await _file(lab, lab.workspace.resolve(args.results or "", must_exist=True), args.group_size)
    if job.state != "finished":
        resuming = resuming_call(EvaluationJobs(lab).spec(job), job)
        raise EvalError(
            f"evaluation {job.id} has not finished (it is {job.state})",
            fix=Fix(
                "Wait for it with ",
                NamedCall("watch_run"),
                ", or run ",
                NamedCall("run_eval"),
                " with the same arguments to resume it.",
            ),
            code="eval-not-finished",
            next=(resuming or Next("watch_run", "see how it stands", {"id": job.id}),),
        )

    async def say(message: str) -> None:
        await call.progress(0, None, message)

    await settle_evaluations(lab, say, source=job.source)
    job = EvaluationJobs(lab).get(job.id)
    judged = await anyio.to_thread.run_sync(verdict.judge_job, lab, job, args.group_size)
    outcome = await _of_job(call, job, judged, args.group_size)
    outcome = await anyio.to_thread.run_sync(as_result, lab, job, judged, outcome)
    return await illustrate_outcome(lab, job, judged, outcome)


def _job(lab: Lab, snapshot: Snapshot | None, wanted: str | None) -> Job | None:
    """The evaluation that the arguments name; None for a file that no evaluation of this workspace wrote."""
    finished = [j for j in EvaluationJobs(lab).list() if j.platform in (None, lab.platform)]
    if wanted is not None:
        if wanted.startswith("eval-") and "/" not in wanted:
            return EvaluationJobs(lab).get(wanted)
        return next((j for j in finished if _holds(lab, j, Path(wanted))), None)
    finished = [j for j in finished if j.state == "finished" and (snapshot is None or j.source == snapshot.source)]
    if finished:
        return finished[0]
    name = snapshot.name if snapshot else "this workspace"
    raise EvalError(
        f"there is no finished evaluation of {name} as it is now",
        fix=Fix("Run ", NamedCall("run_eval"), " with the model you will train."),
        code="eval-missing",
        next=(Next("run_eval", "evaluate it", {"environment": snapshot.name} if snapshot else None),),
    )


def _holds(lab: Lab, job: Job, path: Path) -> bool:
    return path.is_absolute() and path.is_relative_to(EvaluationJobs(lab).files(job.id).root)


async def _of_job(call: Call, job: Job, judged: verdict.EvaluationVerdict, group_size: int) -> Outcome:
    lab = call.lab
    spec = EvaluationJobs(lab).spec(job)
    snapshot = call.snapshot or await _present(lab, job)
    notes = _not_evidence(lab, job, snapshot)
    findings = [*judged.findings, *notes]
    if group_size > verdict.GROUP_SIZE:
        findings.append(
            Finding(
                "distribution-group-size",
                "warning",
                f"this holds for training with groups of {group_size} or more",
                f"Set group_size={group_size} in the training config.",
            )
        )
    return Outcome(
        judged.status,
        verdict_summary(spec, judged),
        tuple(findings),
        {"id": job.id, "model": spec.model, **judged.data},
        following_calls(lab, spec, job.id, judged.distribution) if judged.distribution else (),
        facts=_proving(evidence_facts(spec, job), proves=not notes),
        snapshot=snapshot,
    )


def _proving(facts: Facts, *, proves: bool) -> Facts:
    import dataclasses

    return dataclasses.replace(facts, proves=proves)


async def _present(lab: Lab, job: Job) -> Snapshot | None:
    """A snapshot of the job's environment as it is on disk now; None if the folder is gone."""
    try:
        return await lab.snapshot(job.environment)
    except LabError:
        return None


def _not_evidence(lab: Lab, job: Job, snapshot: Snapshot | None) -> list[Finding]:
    """Why this verdict opens no gate; empty if it does."""
    if snapshot is None or snapshot.source != job.source:
        reason = f"evaluation {job.id} ran on other files than {job.environment} has now"
        return [Finding("distribution-not-evidence", "info", reason, "Run run_eval on the present files.")]
    spec = EvaluationJobs(lab).spec(job)
    decided = {
        row.arguments.get("id")
        for row in lab.ledger.evidence(lab.key, tool="run_eval", source=job.source)
        if row.status != "inconclusive"
    }
    for other in EvaluationJobs(lab).list(job.environment):
        if other.id not in decided:
            continue  # too small an evaluation replaces none that decides
        same = other.source == job.source and other.state == "finished" and other.at > job.at
        if same and other.spec.get("model") == spec.model and other.spec.get("env_args") == dict(spec.env_args):
            reason = f"evaluation {other.id} with the same model is newer, and the latest counts, not the best"
            return [Finding("distribution-not-evidence", "info", reason, "Judge the newer one: leave results out.")]
    return []


async def _file(lab: Lab, path: Path, group_size: int) -> Outcome:
    """Judge results that no job of this workspace wrote. They are shown and never evidence."""
    reading = Reading()
    judged = await anyio.to_thread.run_sync(_judge_file, path, group_size, reading)
    blemished = any(f.severity == "blocker" for f in reading.findings())
    origin = await anyio.to_thread.run_sync(origin_of_results, path)
    note = Finding(
        "distribution-not-evidence",
        "info",
        f"{quote(path.name, 100)} was not written by run_eval here, so the verdict opens no gate",
        "Run run_eval for evidence.",
    )
    mean = mean_summary(judged) if judged.mean is not None else "no scored rollout"
    return Outcome(
        "inconclusive" if blemished else judged.status,
        f"{mean} over {count(judged.tasks, 'task')}, {count(judged.rollouts, 'rollout')}; {judged.status}.",
        (*judged.findings, *reading.findings(), *_sampled(origin), note),
        {**judged.as_json(), "made_by": _origin_data(origin)},
        (Next("workflow_status", "for evidence, an environment is evaluated by run_eval: which one"),),
        facts=Facts(proves=False),
    )


def _sampled(origin: ResultsOrigin) -> tuple[Finding, ...]:
    other = sampling_difference(origin.sampling or {})
    if other is None:
        return ()
    message = f"the file says that it was sampled {other}: the share of usable groups does not carry over"
    return (Finding("distribution-other-sampling", "warning", message, "Run run_eval without temperature."),)


def _origin_data(origin: ResultsOrigin) -> dict[str, Any]:
    """The metadata of a results file; unknown entries are missing."""
    stated = {
        "environment": origin.environment,
        "model": origin.model,
        "harness": origin.harness,
        "verifiers": origin.verifiers,
    }
    quoted: dict[str, Any] = {name: quote(text, 100) for name, text in stated.items() if text}
    if origin.sampling:
        quoted["sampling"] = {quote(str(k), 40): v for k, v in origin.sampling.items() if isinstance(v, int | float)}
    return quoted


def _judge_file(path: Path, group_size: int, reading: Reading) -> Distribution:
    return judge_rollouts(
        read_scores(path, reading), group_size=group_size, golds=sampled_golds(read_first_rollouts(path))
    )


TOOL = Tool(
    name="check_reward_distribution",
    title="Check the reward distribution",
    description="Judge whether the rewards of an evaluation can be trained on: the five basic checks, share of groups "
    "with a gradient, difficulty, errors, truncation. run_eval does this by itself; use it for another group size, "
    "an earlier eval or a results file.",
    args=Args,
    run=run,
    effect="reads",
    page=True,
    snapshot=True,
    records="environment",
)
