"""run_eval with `rescore`: the present reward on stored rollouts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import anyio

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.evals import judging, rescore_origin, verdicts
from prime_lab_mcp.lab.evals.illustrate import illustrated
from prime_lab_mcp.lab.evals.rescore import rescore
from prime_lab_mcp.lab.evals.rescore_changes import direction
from prime_lab_mcp.lab.evals.rescore_checks import RescoreError
from prime_lab_mcp.lab.report import Facts, Next, Outcome
from prime_lab_mcp.tools.tool import Call

if TYPE_CHECKING:
    from prime_lab_mcp.tools.run_eval import Args


async def rescored(call: Call, args: Args) -> Outcome:
    """Score the rollouts of `args.rescore` again and judge them; inconclusive where that would not be a run's."""
    assert args.rescore is not None
    if call.snapshot is None:
        raise BadInput(
            f"{args.environment} is an environment on the Hub; its reward is not here to score with",
            fix="Name a local environment, or pull it with create_environment(name=..., hub=...).",
            code="not-local",
        )
    lab = call.lab
    was = rescore_origin.origin(lab, args.rescore, call.snapshot.name)
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
    await anyio.to_thread.run_sync(verdicts.settle, lab)
    judged = await anyio.to_thread.run_sync(judging.judge_job, lab, job)
    found = verdicts.outcome(lab, job, judged)
    told = dataclasses.replace(found, summary=f"{direction(job.progress['rescored'])} {found.summary}")
    return await illustrated(lab, job, judged, told)


def _same_evaluation(args: Args, was: rescore_origin.Origin) -> None:
    """Model and arguments belong to the rollouts; what else is given would be silently ignored."""
    given = args.model_fields_set - {"environment", "rescore", "wait_seconds", "confirm"}
    spec = was.spec
    kept = {
        "model": spec.model, "env_args": dict(spec.env_args), "num_examples": spec.num_examples,
        "rollouts": spec.rollouts, "max_tokens": spec.max_tokens, "temperature": spec.temperature,
        "harness": spec.harness, "runtime": spec.runtime, "hosted": False, "upload": False,
    }  # fmt: skip
    wrong = sorted(name for name in given if name in kept and getattr(args, name) not in (None, kept[name]))
    if wrong:
        raise BadInput(
            f"{', '.join(wrong)} cannot differ from evaluation {was.job.id}, whose rollouts are scored again",
            fix="Leave out everything but environment and rescore.",
        )
