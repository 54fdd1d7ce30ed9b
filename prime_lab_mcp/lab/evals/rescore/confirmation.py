"""Confirms the rewards of a finished evaluation by scoring a sample of its stored rollouts twice.

The rewards in the results come from the process that runs the evaluated code, which could write any number. A worker
scores the stored conversations again, with the source that the evaluation ran. Where the stored conversation is all
that a reward reads, a witness (lab/worker/witness.py) scores the sample too, because code could also change the scores
of the worker. A rescored evaluation is confirmed in the same way.

A reward may depend on chance, so each stored reward is compared with two new ones. If the same reward function gave all
three, each of them is equally likely to be the highest, the lowest, or the one that differs from two equal ones. If
this holds for the stored reward in far more than a third of the rollouts, other code wrote the stored rewards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Say
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment.wheel import files_left_out
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.rescore import checks
from prime_lab_mcp.lab.evals.rescore.checks import RescoreError
from prime_lab_mcp.lab.evals.rescore.scoring import CASE_SECONDS, Scoring, open_scoring, survey_results
from prime_lab_mcp.lab.evals.rescore.stored import RescoreSource, StoredRecord, record_format, require_unchanged_results
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import IN_PROCESS_HARNESS
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.state import snapshot as snapshots
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.scoring import Case, Scored
from prime_lab_mcp.lab.worker.witness import SHIFTS, Witness, WitnessedScore

RARELY = 0.005
"""Probability below which a difference between stored and new rewards is not attributed to chance."""
_SECONDS = 240.0
Scores = Mapping[str, float | None]
"""The scores of a rollout: the reward under the empty name, and each component under its name."""


class _SourceLocks:
    """A lock for each source, so that concurrent calls in one server do not score the same rollouts twice."""

    def __init__(self) -> None:
        self.locks: dict[str, anyio.Lock] = {}


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
                    await anyio.to_thread.run_sync(verdict.record_verdict, lab, confirmed)


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
    if not survey.scorable:
        return []
    if survey.several:
        return [_impossible("several agents play in one rollout, and they are scored as a whole")]
    snapshot = snapshots.stored_snapshot(lab.settings.snapshots, source.job.content, source.job.environment)
    if snapshot is None:
        return [_unconfirmed(source, "the copy of the source that the evaluation ran was cleaned up")]
    async with open_environment(lab, snapshot, env_args=spec.env_args, progress=say) as env:
        turns = env.loaded.turns
        scoring = await open_scoring(env.worker, spec, form, survey, turns=turns)
        if scoring.located.unfit:
            return [_impossible(str(scoring.located.unfit))]
        units = scoring.sample(source.path, spec.api, survey.scorable)
        stored = [record for unit in units for record in unit]
        only_conversation = not turns and spec.harness == IN_PROCESS_HARNESS
        cases = _witness_cases(scoring, stored) if only_conversation and not scoring.located.grouped else []
        async with AsyncExitStack() as stack:
            witness: Witness | None = None
            if cases:
                left_out = await anyio.to_thread.run_sync(files_left_out, lab.settings, snapshot)
                last = max(case.row for case in cases)
                witness = await stack.enter_async_context(env.worker.witness(last, left_out))
            try:
                passes = [await _scored(scoring, units) for _ in range(2)]
            except RescoreError as error:
                return [_impossible(error.message)]
            found = list(differences(stored, *passes, decides=only_conversation))
            if witness is not None and not found:
                found = await _witnessed(witness, cases, *passes)
    if not cases and spec.rescored and not found:
        return [_impossible("no second process can score groups, turns and tools")]
    return found


def _witness_cases(scoring: Scoring, stored: Sequence[StoredRecord]) -> list[Case]:
    """Return the cases of a witness for stored rollouts; empty if one of the conversations branches."""
    cases = []
    for number, record in enumerate(stored):
        row, messages = scoring.places[record.task].row, scoring.form.reply_messages(record.record)
        if row is None or messages is None:
            return []
        whole = scoring.form.payload(record.record) if scoring.form.whole else None
        cases.append(Case(str(number), row, [dict(m) for m in messages], stored=whole))
    return cases


async def _witnessed(
    witness: Witness, cases: Sequence[Case], first: Sequence[Scored], again: Sequence[Scored]
) -> list[Finding]:
    """Compare the scores of the worker with those of a witness."""
    seconds = len(SHIFTS) * sum(s.ms for s in first) / 1000
    try:
        scores = await witness.score(cases, case_timeout=CASE_SECONDS, timeout=max(60.0, 3 * seconds))
    except LabError as error:
        return [_impossible(error.message)]
    silent = sum(all(p[n].error for p in scores.passes) for n in range(len(cases)))
    if 2 * silent > len(cases):
        return [_impossible("scoring raises in a second process, which it does not here")]
    for passed in scores.passes:
        triples = [
            (_witness_scores(there), _scores(one), _scores(two))
            for there, one, two in zip(passed, first, again, strict=True)
            if not there.error and one.reward is not None
        ]
        for name in dict.fromkeys(name for _, scores, _ in triples for name in scores):
            named = [(w[name], a[name], b.get(name)) for w, a, b in triples if name in w and name in a]
            if is_apart(named):
                return [_differs_there(name, named)]
    return []


def _witness_scores(scored: WitnessedScore) -> Scores:
    return {"": scored.reward} | dict(scored.components)


def _differs_there(name: str, scores: Sequence[tuple[float | None, float | None, float | None]]) -> Finding:
    apart = [t for t in scores if not (same_reward(t[0], t[1]) and same_reward(t[0], t[2]))]
    subject = f"the score of {quote(name, 80)}" if name else "the reward"
    return Finding(
        "eval-rewards-differ",
        "blocker",
        f"{subject} of {len(apart)} of {count(len(scores), 'rollout')} is another in a process without this server "
        f"({_text(apart[0][1])} here, {_text(apart[0][0])} there), more often than the reward varies by itself",
        Fix(
            "Find the code of the environment that changes rewards outside of its reward functions, mend it, and call ",
            NamedCall("run_eval"),
            " again.",
        ),
    )


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
    triples = [(_stored_scores(record), _scores(one), _scores(two)) for record, one, two in rescored]
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
            score == 0 and _scores(one).get(name) is None and _scores(two).get(name) is None
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


def is_apart(scores: Sequence[tuple[float | None, float | None, float | None]]) -> bool:
    """Whether the first scores of the triples differ from the others more often than chance explains.

    Three scores from one reward function are exchangeable, so the first one is the highest, the lowest, or different
    from two equal ones in at most a third of the triples on average.
    """
    varied = [t for t in scores if not (same_reward(t[0], t[1]) and same_reward(t[0], t[2]))]
    odd = sum(same_reward(a, b) for _, a, b in varied)
    values = [tuple(-math.inf if v is None else v for v in t) for t in varied]
    highest = sum(s > max(a, b) for s, a, b in values)
    lowest = sum(s < min(a, b) for s, a, b in values)
    return any(_at_least(number, len(varied)) < RARELY for number in (odd, highest, lowest))


def _at_least(number: int, of: int) -> float:
    """Return the probability of at least `number` successes in `of` trials with a probability of 1/3 each."""
    return math.fsum(math.comb(of, k) * (1 / 3) ** k * (2 / 3) ** (of - k) for k in range(number, of + 1))


def _stored_scores(record: StoredRecord) -> Scores:
    return {"": record.rollout.reward} | {n: score for n, (score, _) in record.rollout.components.items()}


def _scores(scored: Scored) -> Scores:
    return {"": scored.reward} | {n: c.score for n, c in scored.components.items()}


def _differs(
    name: str, apart: Sequence[tuple[float | None, float | None, float | None]], of: int, *, decides: bool
) -> Finding:
    subject = f"the score of {quote(name, 80)}" if name else "the reward"
    then, now, _ = apart[0]
    message = (
        f"{subject} of {len(apart)} of {count(of, 'rollout')} is not what scoring the stored conversation gives "
        f"({_text(then)} in the results, {_text(now)} when scored again), more often than the reward varies by itself"
    )
    if not decides:
        message += "; tools, state or turns may explain it"
    return Finding(
        "eval-rewards-differ",
        "blocker" if decides else "warning",
        message,
        Fix(
            "Find the code of the environment that changes rewards outside of its reward functions, mend it, and call ",
            NamedCall("run_eval"),
            " again.",
        ),
    )


def _text(value: float | None) -> str:
    return "no reward" if value is None else f"{value:.3g}"


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
