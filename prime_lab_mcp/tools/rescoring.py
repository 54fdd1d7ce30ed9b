"""`run_eval` with `rescore`: scores stored rollouts with the environment's current reward."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import anyio

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.outcomes import finished_outcome
from prime_lab_mcp.lab.evals.pages.illustrate import illustrate_outcome
from prime_lab_mcp.lab.evals.rescore import stored
from prime_lab_mcp.lab.evals.rescore.checks import RescoreError, change_summary
from prime_lab_mcp.lab.evals.rescore.confirmation import settle_evaluations
from prime_lab_mcp.lab.evals.rescore.scoring import rescore
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.tools.tool import Call

if TYPE_CHECKING:
    from prime_lab_mcp.tools.run_eval import Args


async def rescored(call: Call, args: Args) -> Outcome:
    """Score the rollouts of `args.rescore` again and judge them.

    The outcome is inconclusive if the rewards would differ from those of a new evaluation for other reasons.
    """
    assert args.rescore is not None
    if call.snapshot is None:
        raise BadInput(
            f"{args.environment} is an environment on the Hub; its reward is not here to score with",
            fix=Fix(
                "Name a local environment, or pull it with ", NamedCall("create_environment", name=..., hub=...), "."
            ),
            code="not-local",
        )
    lab = call.lab
    was = stored.rescore_source(lab, args.rescore, call.snapshot.name)
    _same_evaluation(args, was)
    try:
        job = await rescore(lab, call.snapshot, was, call.progress)
    except RescoreError as error:
        return Outcome(
            "inconclusive",
            f"The rollouts of {was.job.id} say nothing about the present reward: {error.message}.",
            (error.as_finding(),),
            {"id": was.job.id, "state": was.job.state, "model": was.spec.model},
            (
                Next(
                    "run_eval", "evaluate the present files", {"environment": args.environment, "model": was.spec.model}
                ),
            ),
            facts=Facts(proves=False),
        )
    await settle_evaluations(lab, source=job.source)
    job = lab.ledger.job(job.id) or job  # with what the confirmation found
    judged = await anyio.to_thread.run_sync(verdict.judge_job, lab, job)
    outcome = finished_outcome(lab, job, judged)
    summarized = dataclasses.replace(outcome, summary=f"{change_summary(job.progress['rescored'])} {outcome.summary}")
    return await illustrate_outcome(lab, job, judged, summarized)


def _same_evaluation(args: Args, was: stored.RescoreSource) -> None:
    """Raise if other arguments are given. Model and arguments belong to the stored rollouts and cannot change."""
    given = args.model_fields_set - {"environment", "rescore", "wait_seconds", "confirm"}
    spec = was.spec
    settings = {
        "model": spec.model,
        "env_args": dict(spec.env_args),
        "num_examples": spec.num_examples,
        "rollouts": spec.rollouts,
        "max_tokens": spec.max_tokens,
        "temperature": spec.temperature,
        "harness": spec.harness,
        "runtime": spec.runtime,
        "hosted": False,
        "upload": False,
    }
    wrong = sorted(name for name in given if name in settings and getattr(args, name) not in (None, settings[name]))
    if wrong:
        raise BadInput(
            f"{', '.join(wrong)} cannot differ from evaluation {was.job.id}, whose rollouts are scored again",
            fix="Leave out everything but environment and rescore.",
        )
