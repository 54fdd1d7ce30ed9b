"""Scores the stored rollouts of an earlier evaluation with the present reward.

A worker looks up the tasks of the rollouts in its taskset and scores the rollouts, one by one or in groups. The new
rewards become a results file of the same layout, which the ledger records as a finished evaluation.

The new evaluation stands for an evaluation with the present reward: model, endpoint, platform, sampling and harness are
those of the stored rollouts. The module `checks` has the conditions, such as unchanged tasks, tools and turns.
"""

from __future__ import annotations

import dataclasses
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import orjson

from prime_lab_mcp.lab.base.errors import EvalError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Progress, Say
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath, open_results
from prime_lab_mcp.lab.evals.rescore import checks
from prime_lab_mcp.lab.evals.rescore.checks import REPLAYED_ROLLOUTS, SAMPLE, RescoreError, RewardChanges
from prime_lab_mcp.lab.evals.rescore.stored import (
    Record,
    RecordFormat,
    RescoreSource,
    StoredRecord,
    record_format,
    require_unchanged_results,
)
from prime_lab_mcp.lab.evals.rescore.stored import stored_rollouts as read_stored_rollouts
from prime_lab_mcp.lab.evals.runner.attempt import ResultsCounter, file_sha256
from prime_lab_mcp.lab.evals.runner.command import RUN_FOLDER
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import IN_PROCESS_HARNESS, EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import LoadedEnvironment, open_environment
from prime_lab_mcp.lab.rollouts.reading import parse_record
from prime_lab_mcp.lab.state import snapshot as snapshots
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import MOST_LOCATED, LocatedTasks, Scored, StoredRollout, TaskPlace, WantedTasks

Unit = tuple[StoredRecord, ...]
"""Rollouts that are scored together: a single rollout, or all rollouts of a task if the reward compares them."""
_BATCH = 32
_TASKS_AT_ONCE = 500
_SECONDS = 1800.0
CASE_SECONDS = 30.0
"""Time limit for scoring one unit."""
_MOST_METADATA_BYTES = 4 << 20


@dataclass
class ResultsSurvey:
    """The tasks of a results file, and the numbers of their rollouts."""

    tasks: dict[str, Record] = field(default_factory=dict)
    """The stored task by its fingerprint."""
    rollouts: dict[str, int] = field(default_factory=dict)
    """Number of rollouts by the fingerprint of their task."""
    scorable: int = 0
    """Number of rollouts whose conversation is complete."""
    several: bool = False
    """Whether several agents took part in a rollout."""

    @property
    def total(self) -> int:
        """Number of all rollouts."""
        return sum(self.rollouts.values())


def survey_results(path: Path, form: RecordFormat, api: str) -> ResultsSurvey:
    """Read a results file once and return its tasks with the numbers of their rollouts."""
    survey = ResultsSurvey()
    for stored in read_stored_rollouts(path, form, api):
        survey.tasks.setdefault(stored.task, form.task(stored.record))
        survey.rollouts[stored.task] = survey.rollouts.get(stored.task, 0) + 1
        survey.scorable += stored.scorable
        survey.several = survey.several or form.several(stored.record)
    return survey


@dataclass(frozen=True, slots=True)
class Scoring:
    """A worker that can score the stored rollouts of one evaluation."""

    worker: Worker
    form: RecordFormat
    places: Mapping[str, TaskPlace]
    """The row of each stored task in the worker's taskset, by the fingerprint of the task."""
    located: LocatedTasks
    turns: bool
    """Whether the environment has tools or several turns."""
    fresh_runtime: bool
    """Whether the evaluation scored the rollouts in an empty folder, so that a fresh runtime gives the same scores."""

    async def score(self, units: Sequence[Unit]) -> list[list[Scored]]:
        """Return the scores of the rollouts of each unit, in the order of `units`."""
        results = await self.worker.rescore([self._case(n, u) for n, u in enumerate(units)], case_timeout=CASE_SECONDS)
        return [
            list(scored.members) if len(scored.members) == len(unit) else [scored] * len(unit)
            for scored, unit in zip(results, units, strict=True)
        ]

    def _case(self, number: int, unit: Unit) -> StoredRollout:
        row = self.places[unit[0].task].row
        assert row is not None
        payloads = [self.form.payload(stored.record) for stored in unit]
        record = {"group": payloads} if self.located.grouped else payloads[0]
        return StoredRollout(f"{number}-{unit[0].rollout.id}", row, record, self.turns, self.fresh_runtime)

    def units(self, path: Path, api: str) -> Iterator[Unit]:
        """Yield the units that can be scored, in file order. The place of a group is that of its first rollout."""
        scorable = (
            s for s in read_stored_rollouts(path, self.form, api) if s.scorable and self.places[s.task].row is not None
        )
        if not self.located.grouped:
            yield from ((s,) for s in scorable)
            return
        groups: dict[str, list[StoredRecord]] = {}
        for stored in scorable:
            groups.setdefault(stored.task, []).append(stored)
        yield from map(tuple, groups.values())

    def sample(self, path: Path, api: str, total: int) -> list[Unit]:
        """Return units with about `SAMPLE` rollouts in all, spread evenly over the file of `total` rollouts."""
        units = max(1, len(self.places)) if self.located.grouped else max(1, total)
        group_size = max(1, total // units)
        return list(islice(self.units(path, api), 0, None, max(1, units * group_size // SAMPLE)))

    async def batches(self, path: Path, api: str) -> AsyncIterator[tuple[list[Unit], list[list[Scored]]]]:
        """Yield batches of units with their scores, until all are scored. Raises RescoreError after 30 minutes."""
        deadline = anyio.current_time() + _SECONDS
        waiting = self.units(path, api)
        size = 1 if self.located.grouped else _BATCH
        while batch := await anyio.to_thread.run_sync(lambda: list(islice(waiting, size))):
            if anyio.current_time() > deadline:
                raise RescoreError(
                    f"scoring the stored rollouts took more than {_SECONDS / 60:g} minutes",
                    fix=Fix("Make the reward faster, or run ", NamedCall("run_eval"), " with fewer examples."),
                    code="rescore-unfinished",
                )
            yield batch, await self.score(batch)


async def open_scoring(
    worker: Worker, spec: EvalSpec, form: RecordFormat, survey: ResultsSurvey, *, turns: bool
) -> Scoring:
    """Look up all stored tasks in the taskset of a worker, and return a Scoring that can score their rollouts.

    `turns` says whether the environment has tools or several turns.
    """
    keys = list(survey.tasks)
    limit = min(MOST_LOCATED, spec.num_examples * 10) if spec.infinite else MOST_LOCATED
    parts: list[LocatedTasks] = []
    for start in range(0, len(keys), _TASKS_AT_ONCE):
        batch = [survey.tasks[k] for k in keys[start : start + _TASKS_AT_ONCE]]
        parts.append(await worker.locate(WantedTasks(batch, whole=turns, limit=limit, all=start == 0)))
    places = dict(zip(keys, (p for part in parts for p in part.places), strict=True))
    fresh = not turns and spec.harness == IN_PROCESS_HARNESS and spec.runtime == "subprocess"
    return Scoring(worker, form, places, parts[0], turns, fresh)


def rollouts_to_replay(units: Sequence[Unit], scoring: Scoring) -> list[tuple[int, StoredRecord]]:
    """Return stored rollouts to replay, each with the row of its task.

    Each task has at most one, and the longest conversations come first.
    """
    first_of_task: dict[str, tuple[int, StoredRecord]] = {}
    for stored in sorted(
        (s for u in units for s in u), key=lambda s: -len(scoring.form.reply_messages(s.record) or ())
    ):
        row = scoring.places[stored.task].row
        if row is not None:
            first_of_task.setdefault(stored.task, (row, stored))
    return list(first_of_task.values())[: 4 * REPLAYED_ROLLOUTS]


async def write_rescored(
    lab: Lab,
    source: RescoreSource,
    spec: EvalSpec,
    scoring: Scoring,
    survey: ResultsSurvey,
    findings: list[Finding],
    progress: Progress,
) -> Job:
    """Score all rollouts, write them into a new results file, and record a finished evaluation in the ledger.

    `findings` become findings of the new evaluation.
    """
    id = f"eval-{secrets.token_hex(4)}"
    files = EvaluationJobs(lab).files(id)
    target = files.output / (
        Path(RUN_FOLDER, "traces.jsonl") if spec.api == "v1" else Path("evals", "rescored", id, "results.jsonl")
    )
    target.parent.mkdir(parents=True, mode=0o700)
    try:
        changes = await _write(target, source, spec.api, scoring, survey, progress)
        with suppress(OSError, PlantedPath), open_results(source.path.parent / "metadata.json") as metadata:
            target.with_name("metadata.json").write_bytes(metadata.read(_MOST_METADATA_BYTES))
        return lab.ledger.create_job(_job(lab, id, source, spec, target, changes, findings))
    except BaseException:
        shutil.rmtree(files.root, ignore_errors=True)
        raise


async def _write(
    target: Path, source: RescoreSource, api: str, scoring: Scoring, survey: ResultsSurvey, progress: Progress
) -> RewardChanges:
    changes, form, finished = RewardChanges(source.job.id), scoring.form, 0
    with target.open("wb") as out:
        async for units, scored in scoring.batches(source.path, api):
            flat = [s for group in scored for s in group]
            checks.require_stored_inputs(flat)
            checks.require_scoring_finished(flat)
            for stored, result in zip((s for u in units for s in u), flat, strict=True):
                record = form.with_scores(stored.record, result, scoring.places[stored.task].task)
                out.write(orjson.dumps(record, option=orjson.OPT_NON_STR_KEYS) + b"\n")
                changes.add(stored.rollout, next(iter(parse_record(record, api))))  # type: ignore[arg-type]
            finished += len(flat)
            await progress(
                float(finished), float(survey.scorable), f"{finished} of {count(survey.scorable, 'rollout')} scored"
            )
        for stored in read_stored_rollouts(source.path, form, api):
            if scoring.places[stored.task].row is None:
                changes.excluded += 1
            elif not stored.scorable:
                changes.failed_before += 1
                out.write(orjson.dumps(dict(stored.record)) + b"\n")
    return changes


def _job(
    lab: Lab,
    id: str,
    source: RescoreSource,
    spec: EvalSpec,
    target: Path,
    changes: RewardChanges,
    findings: list[Finding],
) -> Job:
    counter = ResultsCounter(spec)
    counter.follow(target)
    rescored = changes.as_json()
    if changes.errors:
        first_error = next((row["error"] for row in rescored["examples"] if "error" in row), "")
        message = (
            f"the reward fails on {changes.errors} stored rollouts, which have no reward now: {quote(first_error)}"
        )
        findings = [*findings, Finding("rescore-raises", "warning", message, "Mend the reward for the replies shown.")]
    now = time.time()
    progress: dict[str, Any] = {
        **counter.as_json(),
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cost": 0.0,
        "results": str(target.relative_to(EvaluationJobs(lab).files(id).root)),
        "results_sha256": file_sha256(target),
        "rescored": rescored,
        "findings": [f.as_record() for f in findings],
    }
    if source.job.progress.get("capped"):
        progress["capped"] = source.job.progress["capped"]
    return Job(
        id=id,
        workspace=lab.key,
        environment=spec.environment,
        source=spec.source,
        content=spec.content,
        intent=spec.intent,
        state="finished",
        pid=None,
        lease=now,
        deadline=now,
        platform=source.job.platform,
        spec=spec.as_json(),
        progress=progress,
        at=now,
    )


async def rescore(lab: Lab, snapshot: Snapshot, source: RescoreSource, progress: Progress) -> Job:
    """Score the rollouts of `source` with the reward of `snapshot`, and return the new evaluation.

    Returns the existing evaluation if the same rescoring was done before. Raises RescoreError if scores of stored
    rollouts would differ from those of a new evaluation, and LabError if the machinery fails.
    """

    async def say(message: str) -> None:
        await progress(0, None, message)

    if source.spec.hosted is not None:
        raise RescoreError("samples of a hosted evaluation hold no whole rollouts", fix=checks.REPEATED_ROLLOUTS)
    async with open_environment(lab, snapshot, env_args=source.spec.env_args, progress=say) as env:
        spec = _present_spec(source, env)
        existing = _existing(lab, spec)
        if existing is not None:
            return existing
        form = record_format(spec.api)
        survey = await anyio.to_thread.run_sync(survey_results, source.path, form, spec.api)
        if survey.several:
            raise RescoreError(
                "several agents play in one rollout, and they are scored as a whole", fix=checks.REPEATED_ROLLOUTS
            )
        scoring, findings = await _checked_scoring(lab, env, source, form, survey, say)
        return await write_rescored(
            lab, source, spec, scoring, survey, [*_newer_evaluation_findings(lab, source), *findings], progress
        )


def _present_spec(source: RescoreSource, env: LoadedEnvironment) -> EvalSpec:
    """Return the specification of the source's evaluation with the files of the present environment.

    Raises RescoreError if the generation or the verifiers version differs.
    """
    old, loaded = source.spec, env.loaded
    if loaded.api != old.api or loaded.verifiers_version.split(".")[:2] != old.verifiers.split(".")[:2]:
        raise RescoreError(
            f"the evaluation ran on {old.api} with verifiers {old.verifiers}, and this is {loaded.api} with "
            f"{loaded.verifiers_version}",
            fix=checks.REPEATED_ROLLOUTS,
            code="rescore-environment-changed",
        )
    return dataclasses.replace(
        old,
        source=env.snapshot.source,
        content=env.snapshot.content,
        tree=snapshots.code_tree(env.snapshot),
        module=env.snapshot.manifest.module or old.module,
        python=env.interpreter.python,
        program=env.interpreter.program("vf-eval") or old.program,
        verifiers=loaded.verifiers_version,
        tasks=loaded.tasks,
        infinite=loaded.infinite,
        weights={r.name: r.weight for r in loaded.rewards if r.kind != "metric"},
        distributions=dict(env.distributions),
        rescored=source.job.id,
    )


def _existing(lab: Lab, spec: EvalSpec) -> Job | None:
    for job in lab.ledger.jobs(lab.key, environment=spec.environment, source=spec.source, state="finished"):
        if job.intent == spec.intent:
            try:
                require_unchanged_results(lab, job)
            except EvalError:
                continue
            return job
    return None


def _newer_evaluation_findings(lab: Lab, source: RescoreSource) -> list[Finding]:
    """Return a blocker if a newer evaluation of the same model exists, because the latest evaluation counts.

    Otherwise one could rescore the evaluation with the best rollouts.
    """
    for job in EvaluationJobs(lab).list(source.job.environment):
        spec = job.spec
        other = (
            job.id != source.job.id and job.at > source.job.at and job.state == "finished" and not spec.get("rescored")
        )
        comparable = spec.get("model") == source.spec.model and spec.get("env_args") == dict(source.spec.env_args)
        if other and comparable and job.platform == source.job.platform:
            message = f"evaluation {job.id} with the same model is newer, and the latest rollouts count, not the best"
            fix = Fix("Call ", NamedCall("run_eval").changed(rescore=job.id), ".")
            return [Finding("rescore-not-latest", "blocker", message, fix)]
    return []


async def _checked_scoring(
    lab: Lab, env: LoadedEnvironment, source: RescoreSource, form: RecordFormat, survey: ResultsSurvey, say: Say
) -> tuple[Scoring, list[Finding]]:
    """Check all conditions for scoring stored rollouts; return the scoring and the findings. Raises RescoreError."""
    turns = env.loaded.turns
    scoring = await open_scoring(env.worker, source.spec, form, survey, turns=turns)
    rollouts_by_task = {k: n for k, n in survey.rollouts.items() if scoring.places[k].row is not None}
    checks.require_some_tasks(scoring.located, rollouts_by_task)
    await say("scoring a sample with the source that the evaluation ran")
    removed = new = 0.0
    if source.spec.source == env.snapshot.source:
        findings = await _reproduction_findings(scoring, source, survey)
    else:
        former = snapshots.stored_snapshot(lab.settings.snapshots, source.job.content, source.job.environment)
        findings, former_prompts = await _former_source_findings(lab, former, source, form, survey)
        if former_prompts:
            removed, new = checks.changed_task_shares(former_prompts, scoring.located.asked)
    units = scoring.sample(source.path, source.spec.api, survey.scorable)
    first = await scoring.score(units)
    checks.require_stored_inputs(s for group in first for s in group)
    checks.require_scoring_finished([s for group in first for s in group])
    again = await scoring.score(units)
    checks.require_repeatable([s for group in first for s in group], [s for group in again for s in group])
    if turns and source.spec.source != env.snapshot.source:
        await say("playing stored conversations through the present environment")
        await checks.require_unchanged_environment(env.worker, form, rollouts_to_replay(units, scoring))
    excluded = survey.total - sum(rollouts_by_task.values())
    findings += checks.changed_task_findings(excluded, survey.total, removed, new, source.spec.tasks, env.loaded.tasks)
    return scoring, findings


async def _former_source_findings(
    lab: Lab, former: Snapshot | None, source: RescoreSource, form: RecordFormat, survey: ResultsSurvey
) -> tuple[list[Finding], Sequence[str]]:
    """Check that the source that the evaluation ran reproduces the stored rewards.

    Returns findings and the prompts of the tasks of that source. If the source is not available any more, a warning is
    returned instead. Raises RescoreError if the rewards are not reproduced.
    """
    if former is None:
        return [_unchecked_finding("the copy of the source that the evaluation ran was cleaned up")], ()
    try:
        async with open_environment(lab, former, env_args=source.spec.env_args) as env:
            scoring = await open_scoring(env.worker, source.spec, form, survey, turns=env.loaded.turns)
            return await _reproduction_findings(scoring, source, survey), scoring.located.asked
    except RescoreError:
        raise
    except LabError as error:
        return [_unchecked_finding(f"the source that the evaluation ran does not load any more: {error.message}")], ()


async def _reproduction_findings(scoring: Scoring, source: RescoreSource, survey: ResultsSurvey) -> list[Finding]:
    """Check that the worker's source reproduces the stored rewards. Raises RescoreError if it does not.

    Returns a warning if the source cannot score stored rollouts.
    """
    units = scoring.sample(source.path, source.spec.api, survey.scorable)
    scores = await scoring.score(units)
    flat = [s for group in scores for s in group]
    try:
        checks.require_stored_inputs(flat)
        checks.require_scoring_finished(flat)
    except RescoreError as error:
        return [_unchecked_finding(f"with the source that the evaluation ran, {error.message}")]
    checks.require_reproduced_rewards([stored for unit in units for stored in unit], flat)
    return []


def _unchecked_finding(why: str) -> Finding:
    return Finding(
        "rescore-unchecked",
        "warning",
        f"that scoring stored rollouts gives what a run gives was not tried: {why}",
        "Nothing, or run run_eval without rescore.",
    )
