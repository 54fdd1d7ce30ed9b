"""`read_eval`: what a finished evaluation holds: its verdict, why rollouts got nothing, the rollouts themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals import verdicts
from prime_lab_mcp.lab.evals.illustrate import illustrated
from prime_lab_mcp.lab.evals.results import Rollout, read
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Next, Outcome
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

PAGE = 10
"""Rollouts on one page."""
_SHOWN = 1_200
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
    view: Literal["summary", "zeros", "rollouts"] = "summary"
    where: Annotated[Literal["all", "zero", "rewarded", "error"], Field(description="For rollouts.")] = "all"
    page: Annotated[int, Field(ge=1, le=10_000)] = 1


async def run(call: Call, args: Args) -> Outcome:
    job = _job(call.lab, args.eval)
    if args.view == "summary":
        judged = await anyio.to_thread.run_sync(verdicts.judge_job, call.lab, job)
        data = {"id": job.id, "environment": job.environment, **judged.data}
        said = verdicts.summary_of(call.lab.evals.spec(job), judged)
        return await illustrated(call.lab, job, judged, Outcome("passed", said, judged.findings, data))
    look = _zeros if args.view == "zeros" else _rollouts
    return await anyio.to_thread.run_sync(look, call.lab, job, args)


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


def _finished(lab: Lab, job: Job) -> Iterator[Rollout]:
    found = lab.evals.files(job.id).results()
    if found is None:
        raise EvalError(
            f"evaluation {job.id} has no finished rollout ({job.state})",
            fix="Wait for it with watch_run, or run run_eval again.",
            code="results-missing",
        )
    return read(found)


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
    for rollout in _finished(lab, job):
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


def _rollouts(lab: Lab, job: Job, args: Args) -> Outcome:
    wanted = [r for r in _finished(lab, job) if _fits(r, args.where)]
    wanted.sort(key=lambda r: (-(r.reward or 0.0), r.completion_tokens))
    pages = max(1, -(-len(wanted) // PAGE))
    page = min(args.page, pages)
    rows = [_shown(rollout, _SHOWN) for rollout in wanted[(page - 1) * PAGE : page * PAGE]]
    data = {"id": job.id, "where": args.where, "page": page, "pages": pages, "rollouts": rows}
    return Outcome("passed", f"{count(len(wanted), 'rollout')}, highest reward and shortest first.", data=data)


def _fits(rollout: Rollout, where: str) -> bool:
    if where == "error":
        return rollout.error is not None
    if where == "all":
        return True
    return (zero_of(rollout) is not None) == (where == "zero")


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
    description="Read an evaluation: its verdict, every zero with its cause, or the rollouts (highest reward and "
    "shortest first).",
    args=Args,
    run=run,
    effect="reads",
)
