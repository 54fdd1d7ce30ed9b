"""`read_eval`: shows a finished evaluation in six views; each is a module of lab/evals/views."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput, EvalError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.distribution.floor import sampled_golds
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.environment_status import due_call
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.easier import (
    MOST_CALLS,
    advice_with_known_result,
    easiest_tasks,
    following_calls,
    form_call,
    paid_form,
    paid_parts,
    reward_calls,
    reward_verdict,
)
from prime_lab_mcp.lab.evals.hosted.evaluation import fetch_evaluation
from prime_lab_mcp.lab.evals.pages.illustrate import illustrate_outcome
from prime_lab_mcp.lab.evals.results import as_result, checkpoint_purpose, result_purpose, run_of_checkpoint
from prime_lab_mcp.lab.evals.runner.endings import resuming_call
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.views import compare, difficulty, groups, rollouts, summary, zeros
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation, ViewResult
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.state.proven_arguments import held_out_argument
from prime_lab_mcp.lab.training.next_step import step_after_the_push
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_PICTURED = ("summary", "difficulty")


class Args(Arguments):
    eval: Annotated[str | None, Field(max_length=80, description="Id; default: the latest.")] = None
    view: Literal["summary", "zeros", "groups", "rollouts", "compare", "difficulty"] = "summary"
    by: Annotated[
        str | None,
        Field(max_length=200, description="For groups: task field, component, metric or stop; none lists them."),
    ] = None
    where: Annotated[
        str | None,
        Field(
            max_length=300,
            description="For rollouts: zero, rewarded, error, truncated, suspicious, a task or rollout id (whole "
            "conversation), or reward<0.5 and FIELD=VALUE.",
        ),
    ] = None
    other: Annotated[str | None, Field(max_length=80, description="For compare: the eval to compare with.")] = None
    page: Annotated[int, Field(ge=1, le=10_000)] = 1


async def run(call: Call, args: Args) -> Outcome:
    lab, args = call.lab, _with_the_view(args)
    job, here = await _opened(lab, args.eval)
    other = (await _opened(lab, _other(lab, here, args.other)))[1] if args.view == "compare" else None
    files: summary.Files = await _files(lab, job) if args.view == "summary" else "present"
    judged = None
    if job is not None or args.view in (*_PICTURED, "compare"):
        judged = await anyio.to_thread.run_sync(_judged, lab, job, here)
    trained = await _trained_by_platform(lab) if other is not None and other.spec.model != here.spec.model else ()
    pair = None
    if other is not None and judged is not None:
        other_job = EvaluationJobs(lab).get(other.id) if other.id.startswith("eval-") else None
        pair = (judged, await anyio.to_thread.run_sync(_judged, lab, other_job, other))
    viewed = await anyio.to_thread.run_sync(_viewed, lab, here, other, judged, files, args, trained, pair)
    if job is not None and judged is not None:
        if args.view in ("zeros", "difficulty"):
            ways = await anyio.to_thread.run_sync(_with_ways_out, lab, job, here, args.view, viewed, judged)
            viewed = replace(viewed, next=ways)
        if args.view == "zeros":
            advice = advice_with_known_result(
                lab, here.spec, here.id, viewed.data["advice"], viewed.data.get("lacking", "")
            )
            viewed = replace(viewed, data={**viewed.data, "advice": advice})
        if pair is not None and other is not None and viewed.data.get("to_train", {}).get("model", "") is None:
            sides = ((here, pair[0]), (other, pair[1]))
            viewed = replace(viewed, next=await anyio.to_thread.run_sync(_towards_a_choice, lab, sides, viewed))
        if isinstance(model := (viewed.data.get("to_train") or {}).get("model"), str):
            viewed = replace(viewed, next=await _towards_training(lab, here.spec.environment, model, viewed.next))
        if args.view != "summary":
            viewed = await anyio.to_thread.run_sync(_with_verdict, lab, here, judged, viewed)
    if job is not None and any(one.tool in ("write_training_config", "push_environment") for one in viewed.next):
        viewed = replace(viewed, next=await _once_pushed(lab, job, viewed.next))
    viewed = replace(viewed, next=_after_a_result(lab, here, other, args.view, viewed.next))
    resuming = resuming_call(here.spec, job) if job is not None else None
    if resuming is not None:
        viewed = replace(viewed, next=(resuming, *(one for one in viewed.next if one.tool != "run_eval")))
    facts = Facts(touches_platform=job is None or job.platform is not None)
    outcome = Outcome("passed", viewed.summary, viewed.findings, viewed.data, viewed.next, facts=facts)
    if job is None or judged is None or args.view not in _PICTURED:
        return outcome
    if args.view == "summary":
        if judged.status == "passed" and files == "present" and checkpoint_purpose(lab, here.spec.model) is None:
            due = await due_call(lab, job.environment)
            outcome = replace(outcome, next=(*((due,) if due else ()), *outcome.next))
        outcome = await anyio.to_thread.run_sync(as_result, lab, job, judged, outcome)
    return await illustrate_outcome(lab, job, judged, outcome)


_TRAINING_VIEWS = ("compare", "difficulty", "zeros")
"""Views that say which tasks to train on, or that lead back to a comparison."""


def _after_a_result(
    lab: Lab, here: FinishedEvaluation, other: FinishedEvaluation | None, view: str, calls: tuple[Next, ...]
) -> tuple[Next, ...]:
    """The calls after a view of a checkpoint's evaluation, which is the end of the way: no step towards training, and
    no view that leads back to this one. A comparison leads to the run, if nobody has seen its end yet."""
    runs = (run_of_checkpoint(lab, one.spec.model) for one in (here, other) if one is not None)
    run = next((one for one in runs if one is not None), None)
    if run is None or view not in ("compare", "difficulty"):
        return calls
    kept = [
        one for one in calls if one.tool == "read_eval" and (one.arguments or {}).get("view") not in _TRAINING_VIEWS
    ]
    more = [one for one in calls if one.tool == "run_eval"]
    unseen = view == "compare" and "ended" not in run.data
    made = Next("watch_run", "how the checkpoint is fetched, served and published", {"id": run.id})
    return (*more, *([made] if unseen else ()), *kept)


def _with_verdict(
    lab: Lab, here: FinishedEvaluation, judged: verdict.EvaluationVerdict, viewed: ViewResult
) -> ViewResult:
    """The view with the verdict that the gates use, which no view is read without: in its data, and in its sentence
    where it did not pass."""
    if result_purpose(lab, here.spec) is not None:
        return viewed
    data = {**viewed.data, "verdict": judged.brief}
    told = viewed.data.get("state") == "blocked" or "to_train" in viewed.data  # the sentence of the view says it
    if judged.status == "passed" or told:
        return replace(viewed, data=data)
    return replace(viewed, data=data, summary=f"{viewed.summary} The verdict on this evaluation is {judged.standing}.")


def _towards_a_choice(
    lab: Lab, sides: Sequence[tuple[FinishedEvaluation, verdict.EvaluationVerdict]], viewed: ViewResult
) -> tuple[Next, ...]:
    """The calls of a comparison of which no model is one to train yet: first what would decide an open verdict, or else
    what follows the better of two failed ones, in place of a look at the status."""
    ranked = sorted(sides, key=lambda side: side[1].status != "inconclusive")
    for evaluation, judged in ranked:
        if judged.distribution is None:
            continue
        after = following_calls(lab, evaluation.spec, evaluation.id, judged.distribution)
        ways = [call for call in after if call.tool not in ("push_environment", "write_training_config")]
        if ways:
            return (*ways, *(call for call in viewed.next if call.tool != "workflow_status"))[:MOST_CALLS]
    return viewed.next


async def _towards_training(lab: Lab, environment: str, model: str, calls: tuple[Next, ...]) -> tuple[Next, ...]:
    """The calls of a comparison that says which model to train: first the step that is due for that, in place of a look
    at the status."""
    due = await due_call(lab, environment) if any(one.tool == "workflow_status" for one in calls) else None
    if due is None:
        return calls
    snapshot = await lab.snapshot(environment)
    step = step_after_the_push(lab, snapshot)
    if step is not None and (due.tool, due.arguments) == (step.tool, step.arguments):
        # The step of a config, which may be one for another model.
        config = Next("write_training_config", "everything is proven and pushed", {"environments": [environment]})
        due = step_after_the_push(lab, snapshot, model) or config
    given = {**(due.arguments or {}), **({"model": model} if due.tool == "write_training_config" else {})}
    first = Next(due.tool, f"{due.why}: the next step towards training {quote(model, 80)[1:-1]}", given)
    return (first, *(one for one in calls if one.tool != "workflow_status"))


def _with_ways_out(
    lab: Lab, job: Job, here: FinishedEvaluation, view: str, viewed: ViewResult, judged: verdict.EvaluationVerdict
) -> tuple[Next, ...]:
    """The calls of a view of zeros or of difficulty; where nothing was solved or the verdict did not pass, with the
    steps that can change that.

    Another view would only show the same zeros again.
    """
    distribution = judged.distribution
    tested = reward_verdict(lab, here.spec.source, here.spec.env_args)
    calls = viewed.next
    classes = viewed.data["advice"] if view == "zeros" else ()
    other_form = any(row.get("cause") in ("gold", "asked", "unpaid", "lacks") for row in classes)
    if tested not in (None, "passed") or (tested and other_form):
        # The same test of the same files would get the same answer again.
        lacking = viewed.data.get("lacking", "")
        form = form_call(lab, here.spec, job.id, lacking)
        instead = (form,) if tested == "passed" else tuple(reward_calls(lab, here.spec, job.id))
        replaced = ("test_reward", "read_eval") if lacking and tested == "passed" else ("test_reward",)
        calls = tuple(one for call in calls for one in (instead if call.tool in replaced else (call,)))
    if distribution is None:
        return calls
    if not distribution.is_dead:
        if viewed.data.get("state") != "blocked" or result_purpose(lab, here.spec) is not None:
            return calls
        after = following_calls(lab, here.spec, job.id, distribution)
        ways = [call for call in after if (call.arguments or {}).get("view") != view]
        return (*ways, *calls)[:MOST_CALLS]
    ways = [call for call in following_calls(lab, here.spec, job.id, distribution) if call.tool != "read_eval"]
    zeros_first = Next("read_eval", "what the zeros are", {"eval": job.id, "view": "zeros"})
    shown = calls[:1] if view == "zeros" else (zeros_first,)
    if any(row.get("cause") == "gold" and row["tool"] == "read_environment" for row in classes):
        # The form that is not read explains these zeros; what else a test of the reward named does not.
        ways = [way for way in ways if way.tool != "read_environment"]
    return (*(call for call in shown if all(call.tool != way.tool for way in ways)), *ways)[:MOST_CALLS]


def _with_the_view(args: Args) -> Args:
    """The arguments with the view that `where`, `by` or `other` belongs to, where the call names no view.

    Raises BadInput where it names a view that cannot select by `where`: an answer without the selection would look
    like an empty one.
    """
    if "view" not in args.model_fields_set:
        for name, view in (("where", "rollouts"), ("other", "compare"), ("by", "groups")):
            if getattr(args, name) is not None:
                return args.model_copy(update={"view": view})
    if args.where is not None and args.where.strip().lower() != "all" and args.view != "rollouts":
        raise BadInput(
            f"the view {args.view} does not select by where",
            fix=Fix("Pass ", SameCall(view="rollouts"), ", which does; or leave ", SameCall.without("where"), " out."),
            code="bad-argument",
        )
    return args


async def _once_pushed(lab: Lab, job: Job, calls: tuple[Next, ...]) -> tuple[Next, ...]:
    """The calls, with the step that is due in place of a config for an environment that is not pushed yet."""
    due = await due_call(lab, job.environment)
    if due is None or due.tool not in ("check_environment", "test_reward", "run_eval", "push_environment"):
        return calls
    return (replace(due, why=f"{due.why}; then a config with the settings of this view"),)


def _viewed(
    lab: Lab,
    here: FinishedEvaluation,
    other: FinishedEvaluation | None,
    judged: verdict.EvaluationVerdict | None,
    files: summary.Files,
    args: Args,
    trained: Collection[str],
    pair: tuple[verdict.EvaluationVerdict, verdict.EvaluationVerdict] | None,
) -> ViewResult:
    if args.view == "summary":
        assert judged is not None
        return summary.summary_view(here, judged, files)
    if args.view == "zeros":
        return zeros.zeros_view(
            here, paid_form=paid_form(lab, here.spec.source, here.spec.env_args), paid=paid_parts(lab, here.spec)
        )
    if args.view == "groups":
        return groups.groups_view(here, args.by, args.page)
    if args.view == "rollouts":
        return rollouts.rollouts_view(here, args.where, args.page)
    if args.view == "difficulty":
        easiest = easiest_tasks(lab, here.spec.source)
        return difficulty.difficulty_view(here, args.page, barred=_barred(lab, here, judged), easiest=easiest)
    assert other is not None
    candidates = [e.spec.model for e in (here, other) if _can_be_trained(lab, e, trained)]
    return compare.compare_view(here, other, candidates=candidates, verdicts=pair)


def _barred(lab: Lab, here: FinishedEvaluation, judged: verdict.EvaluationVerdict | None) -> str | None:
    """Why a config for the tasks of an evaluation would be refused, whatever their difficulty; None if it would not."""
    purpose = result_purpose(lab, here.spec)
    if purpose is not None:
        return f"this evaluates {purpose.description}: a result, after which no training begins"
    if judged is None or judged.status == "passed":
        return None
    return f"the verdict on this evaluation is {judged.standing}"


async def _trained_by_platform(lab: Lab) -> Collection[str]:
    """The models that the platform trains; empty where it does not say."""
    try:
        return (await lab.prime.models()).trainable
    except LabError:
        return ()


def _can_be_trained(lab: Lab, evaluation: FinishedEvaluation, trained: Collection[str]) -> bool:
    """Whether the model of an evaluation is one to train: offered, neither closed nor a checkpoint, on tasks to train
    on."""
    spec = evaluation.spec
    if trained and spec.model not in trained:
        return False
    trainable = find_model(spec.model).closed is None and checkpoint_purpose(lab, spec.model) is None
    return trainable and held_out_argument(spec.env_args) is None


async def _opened(lab: Lab, id: str | None) -> tuple[Job | None, FinishedEvaluation]:
    """Open a job of this workspace, or any evaluation of the account by its id on the platform."""
    if id is not None and not id.startswith("eval-"):
        return None, await fetch_evaluation(lab, id)
    job = EvaluationJobs(lab).get(id) if id is not None else _latest(lab)
    results = EvaluationJobs(lab).files(job.id).results()
    if results is None:
        raise EvalError(
            f"evaluation {job.id} has no finished rollout ({job.state})",
            fix=Fix("Wait for it with ", NamedCall("watch_run"), ", or run ", NamedCall("run_eval"), " again."),
            code="results-missing",
            next=(Next("watch_run", "how it stands", {"id": job.id}),),
        )
    return job, FinishedEvaluation(job.id, EvaluationJobs(lab).spec(job), lambda: read_rollouts(results))


def _latest(lab: Lab) -> Job:
    ended = [job for job in EvaluationJobs(lab).list() if job.state in ("finished", "stopped", "crashed")]
    if not ended:
        raise EvalError(
            "there is no evaluation to read in this workspace",
            fix=Fix("Run ", NamedCall("run_eval"), " first."),
            code="eval-missing",
            next=(Next("run_eval", "evaluate an environment"),),
        )
    return ended[0]


def _judged(lab: Lab, job: Job | None, here: FinishedEvaluation) -> verdict.EvaluationVerdict:
    """The verdict that the gates use; for an evaluation that was started elsewhere, the verdict on its rewards
    alone."""
    if job is not None:
        return verdict.judge_job(lab, job)
    golds = sampled_golds(here.rollouts())
    spec = here.spec
    distribution = judge_rollouts(here.rollouts(), golds=golds, frequent=spec.frequent, available=spec.available)
    return verdict.EvaluationVerdict(distribution.status, distribution.findings, distribution)


async def _files(lab: Lab, job: Job | None) -> summary.Files:
    """Compare the job's environment on disk with the evaluated files."""
    if job is None or EvaluationJobs(lab).spec(job).hosted:
        return "on the Hub"
    try:
        present = await lab.snapshot(job.environment)
    except LabError:
        return "gone"
    return "present" if present.source == job.source else "changed"


def _other(lab: Lab, here: FinishedEvaluation, id: str | None) -> str:
    """The evaluation to compare with. Raises EvalError (`compare-without-other`) that lists the possible ones."""
    if id is not None and id != here.id:
        return id
    name = here.spec.environment
    ended = [j for j in EvaluationJobs(lab).list(name) if j.id != here.id and j.state == "finished"]
    listed = ", ".join(f"{j.id} ({quote(j.spec.get('model') or '?', 60)})" for j in ended[:5])
    asked = {"eval": here.id, "view": "compare"}
    raise EvalError(
        f"compare needs another evaluation of {name}",
        fix=f"Give other one of {listed}."
        if listed
        else Fix("Run ", NamedCall("run_eval"), " with another model or on other files first."),
        code="compare-without-other",
        next=tuple(Next("read_eval", "compares with it", {**asked, "other": j.id}) for j in ended[:1])
        or (Next("run_eval", "gives the other one", {"environment": name}),),
    )


TOOL = Tool(
    name="read_eval",
    title="Read evaluation",
    description="Read an evaluation. summary: rates with intervals, verdict. zeros: each with its cause. groups: "
    "rewards by a field. rollouts: most suspicious first. compare: with another eval, paired by task. difficulty: "
    "which tasks train, curriculum.",
    args=Args,
    run=run,
    effect="reads",
    page=True,
    open_world=True,
)
