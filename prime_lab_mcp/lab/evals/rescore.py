"""The present reward on the rollouts of an earlier evaluation, without inference, as an evaluation of its own.

What it proves is what the earlier one would have proven had the reward been this one: model, endpoint, platform,
sampling and harness are those of the rollouts. It stands as evidence only where tasks, tools and turns are as they
were, and where scoring gives stored rewards again (rescore_checks.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence

import anyio

from prime_lab_mcp.lab import snapshot as snapshots
from prime_lab_mcp.lab.errors import EvalError, LabError
from prime_lab_mcp.lab.evals import rescore_checks as checks
from prime_lab_mcp.lab.evals.rescore_checks import RescoreError
from prime_lab_mcp.lab.evals.rescore_origin import Origin, intact
from prime_lab_mcp.lab.evals.rescore_scoring import Scoring, Survey, open_scoring, survey, to_replay
from prime_lab_mcp.lab.evals.rescore_stored import Form, form_of
from prime_lab_mcp.lab.evals.rescore_writing import Progress, scored_anew
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.opening import Opened, opened
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.snapshot import Snapshot


async def rescore(lab: Lab, snapshot: Snapshot, was: Origin, progress: Progress) -> Job:
    """The evaluation with the present reward; the known one where that was done before.

    Raises RescoreError where the numbers would not be those of a run, LabError when the machinery fails.
    """

    async def say(message: str) -> None:
        await progress(0, None, message)

    if was.spec.hosted is not None:
        raise RescoreError("samples of a hosted evaluation hold no whole rollouts", fix=checks.AGAIN)
    async with opened(lab, snapshot, env_args=was.spec.env_args, progress=say) as env:
        spec = _derived(was, env)
        known = _known(lab, spec)
        if known is not None:
            return known
        form = form_of(spec.api)
        seen = await anyio.to_thread.run_sync(survey, was.path, form, spec.api)
        if seen.several:
            raise RescoreError("several agents play in one rollout, and they are scored as a whole", fix=checks.AGAIN)
        scoring, findings = await _checked(lab, env, was, form, seen, say)
        return await scored_anew(lab, was, spec, scoring, seen, [*_newer(lab, was), *findings], progress)


def _derived(was: Origin, env: Opened) -> EvalSpec:
    """The same evaluation of the present source."""
    old, now = was.spec, env.loaded
    if now.api != old.api or now.verifiers_version.split(".")[:2] != old.verifiers.split(".")[:2]:
        raise RescoreError(
            f"the evaluation ran on {old.api} with verifiers {old.verifiers}, and this is {now.api} with "
            f"{now.verifiers_version}",
            fix=checks.AGAIN,
            code="rescore-environment-changed",
        )
    return dataclasses.replace(
        old,
        source=env.snapshot.source,
        content=env.snapshot.content,
        tree=env.snapshot.tree,
        module=env.snapshot.manifest.module or old.module,
        python=env.interpreter.python,
        program=env.interpreter.program("vf-eval") or old.program,
        verifiers=now.verifiers_version,
        tasks=now.tasks,
        infinite=now.infinite,
        weights={r.name: r.weight for r in now.rewards if r.kind != "metric"},
        rescored=was.job.id,
    )


def _known(lab: Lab, spec: EvalSpec) -> Job | None:
    for job in lab.ledger.jobs(lab.key, environment=spec.environment, source=spec.source, state="finished"):
        if job.intent == spec.intent:
            try:
                intact(lab, job)
            except EvalError:
                continue
            return job
    return None


def _newer(lab: Lab, was: Origin) -> list[Finding]:
    """The latest evaluation of a model counts, not the best: older rollouts must not stand in for later ones."""
    for job in lab.evals.list(was.job.environment):
        spec = job.spec
        other = job.id != was.job.id and job.at > was.job.at and job.state == "finished" and not spec.get("rescored")
        same = spec.get("model") == was.spec.model and spec.get("env_args") == dict(was.spec.env_args)
        if other and same and job.platform == was.job.platform:
            message = f"evaluation {job.id} with the same model is newer, and the latest rollouts count, not the best"
            fix = f'Call run_eval with rescore="{job.id}".'
            return [Finding("rescore-not-latest", "blocker", message, fix)]
    return []


async def _checked(
    lab: Lab, env: Opened, was: Origin, form: Form, seen: Survey, say: Callable[[str], Awaitable[None]]
) -> tuple[Scoring, list[Finding]]:
    """Everything that must hold before a number is told. Raises RescoreError."""
    turns = env.loaded.turns
    scoring = await open_scoring(env.worker, was.spec, form, seen, turns=turns)
    placed = {k: n for k, n in seen.rollouts.items() if scoring.places[k].row is not None}
    checks.nothing_left(scoring.located, placed)
    await say("scoring a sample with the source that the evaluation ran")
    gone = new = 0.0
    if was.spec.source == env.snapshot.source:
        findings = await _former(scoring, was, seen)
    else:
        former = snapshots.stored(lab.settings.snapshots, was.job.content, was.job.environment)
        findings, asked = await _with_former(lab, former, was, form, seen)
        if asked:
            gone, new = checks.moved(asked, scoring.located.asked)
    units = scoring.sample(was.path, was.spec.api, seen.scorable)
    first = await scoring.score(units)
    checks.reachable(s for group in first for s in group)
    checks.stopped([s for group in first for s in group])
    again = await scoring.score(units)
    checks.repeatable([s for group in first for s in group], [s for group in again for s in group])
    if turns and was.spec.source != env.snapshot.source:
        await say("playing stored conversations through the present environment")
        await checks.answers_alike(env.worker, form, to_replay(units, scoring))
    excluded = seen.total - sum(placed.values())
    findings += checks.tasks_changed(excluded, seen.total, gone, new, was.spec.tasks, env.loaded.tasks)
    return scoring, findings


async def _with_former(
    lab: Lab, former: Snapshot | None, was: Origin, form: Form, seen: Survey
) -> tuple[list[Finding], Sequence[str]]:
    """Whether the source that ran gives its rewards again, and what its tasks asked; a warning where it is gone."""
    if former is None:
        return [_unchecked("the copy of the source that the evaluation ran was cleaned up")], ()
    try:
        async with opened(lab, former, env_args=was.spec.env_args) as env:
            scoring = await open_scoring(env.worker, was.spec, form, seen, turns=env.loaded.turns)
            return await _former(scoring, was, seen), scoring.located.asked
    except RescoreError:
        raise
    except LabError as error:
        return [_unchecked(f"the source that the evaluation ran does not load any more: {error.message}")], ()


async def _former(scoring: Scoring, was: Origin, seen: Survey) -> list[Finding]:
    units = scoring.sample(was.path, was.spec.api, seen.scorable)
    found = await scoring.score(units)
    flat = [s for group in found for s in group]
    try:
        checks.reachable(flat)
        checks.stopped(flat)
    except RescoreError as error:
        return [_unchecked(f"with the source that the evaluation ran, {error.message}")]
    checks.reproduces([stored for unit in units for stored in unit], flat)
    return []


def _unchecked(why: str) -> Finding:
    return Finding(
        "rescore-unchecked", "warning", f"that scoring stored rollouts gives what a run gives was not tried: {why}",
        "Nothing, or run run_eval without rescore.",
    )  # fmt: skip
