"""Confirms the rewards of a finished evaluation by scoring a sample of its stored rollouts twice.

The rewards in the results come from the process that runs the evaluated code, which could write any number. A worker
scores the stored conversations again, with the source that the evaluation ran. Code could also change the scores of the
worker, so they are compared with those of other processes (served.py). A rescored evaluation is confirmed in the same
way.

A reward may depend on chance, so each stored reward is compared with two new ones. If the same reward function gave all
three, each of them is equally likely to be the highest, the lowest, or the one that differs from two equal ones. If
this holds for the stored reward in far more than a third of the rollouts, other code wrote the stored rewards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import islice
from weakref import WeakValueDictionary

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Say
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment.wheel import files_left_out
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.evidence import record_verdict
from prime_lab_mcp.lab.evals.rescore import checks
from prime_lab_mcp.lab.evals.rescore.checks import RescoreError
from prime_lab_mcp.lab.evals.rescore.scoring import ResultsSurvey, Scoring, open_scoring, survey_results
from prime_lab_mcp.lab.evals.rescore.served import (
    EXTREMES_MS,
    MEND,
    Scores,
    compare_replays,
    extreme_rollouts,
    is_apart,
    score_text,
    witness_cases,
    witnessed,
    worker_scores,
)
from prime_lab_mcp.lab.evals.rescore.stored import RescoreSource, StoredRecord, record_format, require_unchanged_results
from prime_lab_mcp.lab.evals.rescore.stored import stored_rollouts as read_stored_rollouts
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import IN_PROCESS_HARNESS
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.state import snapshot as snapshots
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.scoring import Case, Scored
from prime_lab_mcp.lab.worker.witness import Witness

_SECONDS = 240.0


class _SourceLocks:
    """A lock for each source, so that concurrent calls in one server do not score the same rollouts twice."""

    def __init__(self) -> None:
        self.locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()


async def settle_evaluations(lab: Lab, say: Say | None = None, *, source: str | None = None) -> None:
    """Confirm the rewards of every finished evaluation that has no verdict, and record the verdicts.

    `source` is the fingerprint of an environment's files and limits this to its evaluations. All of them are settled,
    because the latest verdict counts.
    """
    sources = dict.fromkeys(job.source for job in lab.ledger.unjudged(lab.key, source=source))
    for fingerprint in sources:
        async with lab.memory(_SourceLocks).locks.setdefault(fingerprint, anyio.Lock()):
            # The oldest is first, so that the verdict on the newest evaluation becomes the newest evidence.
            for job in lab.ledger.unjudged(lab.key, source=fingerprint):
                confirmed = await _confirmed(lab, job, say)
                if confirmed is not None:
                    await anyio.to_thread.run_sync(record_verdict, lab, confirmed)


async def _confirmed(lab: Lab, job: Job, say: Say | None) -> Job | None:
    """Confirm the rewards of a job, write the findings to its row, and return the job with them.

    Returns None if a call has resumed the job in the meantime. The job is then confirmed when it finishes again.
    """
    try:
        spec = EvaluationJobs(lab).spec(job)
    except LabError:
        return job  # a newer version of the server wrote the job, so it cannot be judged here
    if not verdict.awaits_confirmation(spec, job):
        return job
    try:
        source = RescoreSource(job, spec, require_unchanged_results(lab, job))
    except LabError:
        return job  # the verdict reports that the results are gone or changed
    if say is not None:
        await say("scoring a sample of the rollouts again")
    try:
        with anyio.fail_after(_SECONDS):
            findings = await _findings(lab, source, say)
    except TimeoutError:
        findings = [_unconfirmed(source, f"scoring a sample took more than {_SECONDS:g} seconds")]
    except LabError as error:
        findings = [_unconfirmed(source, error.message)]
    noted = [*(job.progress.get("findings") or ()), *(f.as_record() for f in findings)]
    progress = {**job.progress, "findings": noted, verdict.CONFIRMED: True}
    return replace(job, progress=progress) if lab.ledger.note_finished(job, progress) else None


async def _findings(lab: Lab, source: RescoreSource, say: Say | None) -> list[Finding]:
    spec = source.spec
    form = record_format(spec.api)
    survey = await anyio.to_thread.run_sync(survey_results, source.path, form, spec.api)
    found: list[Finding] = []
    if not survey.scorable and not survey.several:
        return []
    snapshot = snapshots.stored_snapshot(lab.settings.snapshots, source.job.content, source.job.environment)
    if snapshot is None:
        return [_unconfirmed(source, "the copy of the source that the evaluation ran was cleaned up")]
    async with open_environment(lab, snapshot, env_args=spec.env_args, progress=say) as env:
        scoring = await open_scoring(env.worker, spec, form, survey, turns=env.loaded.turns)
        unfit = _SEVERAL if survey.several else str(scoring.located.unfit)
        if not unfit:
            left_out = await anyio.to_thread.run_sync(files_left_out, lab.settings, snapshot)
            found, unfit = await _scored_again(scoring, source, survey, left_out)
        played = not found and (unfit or scoring.turns) and spec.api == "v1" and not env.loaded.container
        compared = await compare_replays(env.worker, scoring, _some_rollouts(scoring, source, survey)) if played else ""
    if isinstance(compared, Finding):
        found = [compared]
    else:
        unfit = unfit or compared
    return [*found, *([_impossible(unfit)] if unfit else ())]


_SEVERAL = "several agents play in one rollout, and they are scored as a whole"


async def _scored_again(
    scoring: Scoring, source: RescoreSource, survey: ResultsSurvey, left_out: frozenset[str]
) -> tuple[list[Finding], str]:
    """Score a sample of stored rollouts twice, and by a witness where it can score them.

    Returns the findings, and why some of it was impossible, or an empty text.
    """
    spec, worker = source.spec, scoring.worker
    units = scoring.sample(source.path, spec.api, survey.scorable)
    stored = [record for unit in units for record in unit]
    only_conversation = not scoring.turns and spec.harness == IN_PROCESS_HARNESS
    extreme: list[StoredRecord] = []
    cases: list[Case] = []
    if (scoring.form.whole or only_conversation) and not scoring.located.grouped:
        cases = witness_cases(scoring, stored)
        if cases:
            every = (record for unit in scoring.units(source.path, spec.api) for record in unit)
            extreme = await anyio.to_thread.run_sync(extreme_rollouts, scoring, every, stored)
    more = witness_cases(scoring, extreme)
    async with AsyncExitStack() as stack:
        witness: Witness | None = None
        if cases:
            last = max(case.row for case in (*cases, *more))
            witness = await stack.enter_async_context(worker.witness(last, left_out))
        try:
            first, again = [await _scored(scoring, units) for _ in range(2)]
            found = list(differences(stored, first, again, decides=only_conversation))
            if found or witness is None:
                return found, _NO_WITNESS if spec.rescored and not found else ""
            if more and sum(scored.ms for scored in first) < EXTREMES_MS:
                others = [(record,) for record in extreme]
                first, again = [[*before, *await _scored(scoring, others)] for before in (first, again)]
                cases = [*cases, *more]
        except RescoreError as error:
            return [], error.message
        compared = await witnessed(witness, cases, first, again, rebuilt=spec.api == "v1")
    return ([], compared) if isinstance(compared, str) else ([compared], "")


_NO_WITNESS = "no second process can score groups, turns and tools"


def _some_rollouts(scoring: Scoring, source: RescoreSource, survey: ResultsSurvey) -> list[StoredRecord]:
    """Return rollouts of present tasks, spread evenly over the file."""
    every = read_stored_rollouts(source.path, scoring.form, source.spec.api)
    placed = (record for record in every if scoring.places[record.task].row is not None)
    return list(islice(placed, 0, None, max(1, survey.total // checks.SAMPLE)))


async def _scored(scoring: Scoring, units: Sequence[tuple[StoredRecord, ...]]) -> list[Scored]:
    scores = [scored for unit in await scoring.score(units) for scored in unit]
    checks.require_stored_inputs(scores)
    checks.require_scoring_finished(scores)
    return scores


def differences(
    stored: Sequence[StoredRecord], first: Sequence[Scored], again: Sequence[Scored], *, decides: bool
) -> Iterable[Finding]:
    """Yield a finding if the stored rewards differ from those of two new scorings.

    `stored`, `first` and `again` are parallel. `decides` makes the finding a blocker: it says that the reward depends
    on nothing but the conversation, which the worker had completely.
    """
    rescored = [t for t in zip(stored, first, again, strict=True) if t[0].rollout.reward is not None]
    triples = [(_stored_scores(record), worker_scores(one), worker_scores(two)) for record, one, two in rescored]
    raising = [one for (_, one, two), scores in zip(rescored, triples, strict=True) if _swallowed(one, two, scores[0])]
    if raising:
        yield _raises(raising, len(rescored))
    for name in dict.fromkeys(name for scores, _, _ in triples for name in scores):
        named = [
            (s[name], a.get(name), b.get(name))
            for s, a, b in triples
            if name in s and not (s[name] == 0 and a.get(name) is None and b.get(name) is None)
        ]
        apart = [t for t in named if not (same_reward(t[0], t[1]) and same_reward(t[0], t[2]))]
        if is_apart(named):
            yield _differs(name, apart, len(named), decides=decides)
            return


def _swallowed(one: Scored, two: Scored, stored: Scores) -> bool:
    """Whether a score is stored as 0 and scoring raises: the rubric of v0 pays 0 for what raises."""
    return (
        bool(one.errors)
        and one.has(ProblemCode.SWALLOWED)
        and two.has(ProblemCode.SWALLOWED)
        and any(
            score == 0 and worker_scores(one).get(name) is None and worker_scores(two).get(name) is None
            for name, score in stored.items()
        )
    )


def _raises(raising: Sequence[Scored], of: int) -> Finding:
    error = raising[0].errors[0]
    text = quote(f"{error.type}: {error.message}", 160)
    return Finding(
        "reward-raises",
        "blocker" if 2 * len(raising) > of else "warning",
        f"scoring raises for {len(raising)} of {count(of, 'rollout')} that were scored again, and the rubric paid 0: "
        f"{text}",
        Fix(
            "Mend the line that raises; ",
            NamedCall("test_reward"),
            " shows for which completions it does. Then call ",
            NamedCall("run_eval"),
            " again.",
        ),
        where=error.where or None,
    )


def _stored_scores(record: StoredRecord) -> Scores:
    return {"": record.rollout.reward} | {n: score for n, (score, _) in record.rollout.components.items()}


def _differs(
    name: str, apart: Sequence[tuple[float | None, float | None, float | None]], of: int, *, decides: bool
) -> Finding:
    subject = f"the score of {quote(name, 80)}" if name else "the reward"
    then, now, _ = apart[0]
    message = (
        f"{subject} of {len(apart)} of {count(of, 'rollout')} is not what scoring the stored conversation gives "
        f"({score_text(then)} in the results, {score_text(now)} when scored again), more often than the reward varies "
        "by itself"
    )
    if not decides:
        message += "; tools, state or turns may explain it"
    return Finding(
        "eval-rewards-differ",
        "blocker" if decides else "warning",
        message,
        MEND,
    )


def _impossible(why: str) -> Finding:
    return Finding(
        "eval-rewards-unconfirmed",
        "warning",
        f"the rewards are believed as the program of the evaluation wrote them: {why}",
        "Read some rollouts (read_eval with view rollouts) before you rely on the rewards.",
    )


def _unconfirmed(source: RescoreSource, why: str) -> Finding:
    """Return the finding for rewards that could not be confirmed because the machinery failed."""
    return Finding(
        "eval-rewards-unconfirmed",
        "blocker",
        f"the rewards could not be confirmed: {why}",
        Fix(
            "Call ",
            NamedCall("run_eval", environment=source.job.environment, rescore=source.job.id),
            ": it scores the stored rollouts again, without inference.",
        ),
    )
