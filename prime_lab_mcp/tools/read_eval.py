"""`read_eval`: what a finished evaluation holds, in six views; each is a module of lab/evals/views."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.errors import EvalError, LabError
from prime_lab_mcp.lab.evals import verdicts
from prime_lab_mcp.lab.evals.results import Rollout, read
from prime_lab_mcp.lab.evals.views import compare, difficulty, groups, rollouts, summary
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Next, Outcome
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

Zero = Literal["infrastructure", "truncated", "empty_response", "unparsed", "wrong"]
ADVICE: dict[Zero, str] = {
    "infrastructure": "These failed, they are no wrong answers: mend the endpoint or the environment and run again.",
    "truncated": "Raise max_tokens; the model was cut off before it answered.",
    "empty_response": "The model said nothing: look at its chat template and sampling.",
    "unparsed": "The reward found no answer in the asked form: say the form more clearly, or warm up with examples.",
    "wrong": "An answer in the asked form that is wrong: this is what training can change.",
}


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
    job = _job(call.lab, args.eval)
    if args.view == "zeros":
        return await anyio.to_thread.run_sync(_zeros, call.lab, job, args)
    if args.view == "summary":
        files = await _files(call.lab, job)
        viewed = await anyio.to_thread.run_sync(_summary, call.lab, job, files)
    else:
        viewed = await anyio.to_thread.run_sync(_viewed, call.lab, job, args)
    return Outcome("passed", viewed.summary, viewed.findings, viewed.data, viewed.next)


def _summary(lab: Lab, job: Job, files: summary.Files) -> Viewed:
    return summary.summary(_evaluated(lab, job), verdicts.judge_job(lab, job), files)


def _viewed(lab: Lab, job: Job, args: Args) -> Viewed:
    here = _evaluated(lab, job)
    if args.view == "groups":
        return groups.groups(here, args.by, args.page)
    if args.view == "rollouts":
        return rollouts.rollouts(here, args.where, args.page)
    if args.view == "difficulty":
        return difficulty.difficulty(here, args.page)
    return compare.compare(here, _evaluated(lab, _other(lab, job, args.other)))


async def _files(lab: Lab, job: Job) -> summary.Files:
    """Whether the environment of a job is still what it evaluated."""
    if lab.evals.spec(job).hosted:
        return "on the Hub"
    try:
        present = await lab.snapshot(job.environment)
    except LabError:
        return "gone"
    return "present" if present.source == job.source else "changed"


def _evaluated(lab: Lab, job: Job) -> Evaluated:
    found = lab.evals.files(job.id).results()
    if found is None:
        raise EvalError(
            f"evaluation {job.id} has no finished rollout ({job.state})",
            fix="Wait for it with watch_run, or run run_eval again.",
            code="results-missing",
        )
    return Evaluated(job.id, lab.evals.spec(job), lambda: read(found))


def _other(lab: Lab, job: Job, id: str | None) -> Job:
    """The evaluation to compare with. Raises EvalError (`compare-without-other`) with those there are."""
    if id is not None and id != job.id:
        return lab.evals.get(id)
    ended = [j for j in lab.evals.list(job.environment) if j.id != job.id and j.state == "finished"]
    listed = ", ".join(f"{j.id} ({quote(j.spec.get('model') or '?', 60)})" for j in ended[:5])
    here = {"eval": job.id, "view": "compare"}
    raise EvalError(
        f"compare needs another evaluation of {job.environment}",
        fix=f"Give other one of {listed}." if listed else "Run run_eval with another model or on other files first.",
        code="compare-without-other",
        next=tuple(Next("read_eval", "compares with it", {**here, "other": j.id}) for j in ended[:1])
        or (Next("run_eval", "gives the other one", {"environment": job.environment}),),
    )


def _job(lab: Lab, id: str | None) -> Job:
    if id is not None:
        return lab.evals.get(id)
    ended = [job for job in lab.evals.list() if job.state in ("finished", "stopped", "crashed")]
    if not ended:
        raise EvalError(
            "there is no evaluation to read in this workspace",
            fix="Run run_eval first.",
            code="eval-missing",
            next=(Next("run_eval", "evaluate an environment"),),
        )
    return ended[0]


def zero_of(rollout: Rollout) -> Zero | None:
    """Why a rollout earned nothing; None where it earned something.

    `unparsed` is told by a component that judges the form (its name says format or parse) and gave nothing.
    """
    if rollout.error is not None or rollout.nonfinite:
        return "infrastructure"
    answered = {name: score for name, (score, _) in rollout.components.items()}
    form = [score for name, score in answered.items() if "format" in name or "pars" in name]
    rest = [score for name, score in answered.items() if "format" not in name and "pars" not in name]
    earned = sum(rest) if rest else (rollout.reward or 0.0)
    if earned > 0:
        return None
    if rollout.truncated:
        return "truncated"
    if not rollout.completion_text.strip():
        return "empty_response"
    return "unparsed" if form and max(form) <= 0 else "wrong"


def _zeros(lab: Lab, job: Job, args: Args) -> Outcome:
    classes: Counter[Zero] = Counter()
    examples: dict[Zero, list[dict[str, Any]]] = {}
    total = 0
    for rollout in _evaluated(lab, job).rollouts():
        total += 1
        kind = zero_of(rollout)
        if kind is None:
            continue
        classes[kind] += 1
        if len(examples.setdefault(kind, [])) < 2:
            examples[kind].append(_shown(rollout, 300))
    missed = sum(classes.values())
    not_the_model = classes["infrastructure"] + classes["truncated"]
    return Outcome(
        "passed",
        f"{count(missed, 'of the rollouts', 'of the rollouts')} earned nothing, out of {total:,}; "
        f"{not_the_model:,} of those were cut off or failed, which is not the model's ability.",
        data={
            "id": job.id,
            "rollouts": total,
            "zeros": dict(classes),
            "advice": [{"class": kind, "advice": ADVICE[kind]} for kind in classes],
            "examples": examples,
        },
    )


def _shown(rollout: Rollout, limit: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "task": rollout.task[:16],
        "reward": rollout.reward,
        "components": {name: score for name, (score, _) in rollout.components.items()},
        "completion": quote(rollout.completion_text, limit),
        "completion_tokens": rollout.completion_tokens,
    }
    if rollout.truncated:
        row["truncated"] = True
    if rollout.error is not None:
        row["error"] = quote(rollout.error, limit)
    return row


TOOL = Tool(
    name="read_eval",
    title="Read evaluation",
    description="Read an evaluation. summary: rates with intervals, verdict. zeros: each with its cause. groups: "
    "rewards by a field. rollouts: most suspicious first. compare: with another eval, paired by task. difficulty: "
    "which tasks train, curriculum.",
    args=Args,
    run=run,
    effect="reads",
)
