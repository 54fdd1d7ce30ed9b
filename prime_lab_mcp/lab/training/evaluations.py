"""Classifies past evaluations with regard to training, and compares a model before and after training.

A past evaluation is `target` (of the model to be trained), `ceiling` (of another model that earns more, or of a closed
model while no target was evaluated), `comparison` (of any other model, or of a checkpoint), `dead` (no reward at all)
or `faulty`. The model to be trained is a model that a training config or run of this workspace names for the
environment. If there is no such config or run, every model with open weights counts as the model to be trained.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.configs.config import taskset_identity, value_at
from prime_lab_mcp.lab.configs.resolve import held_out_keys
from prime_lab_mcp.lab.evals.plan import run_eval_arguments
from prime_lab_mcp.lab.evals.results import checkpoint_purpose, plain_name
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation, ViewResult
from prime_lab_mcp.lab.evals.views.compare import compare_view
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job, Run
from prime_lab_mcp.lab.state.pulled import pulled_as
from prime_lab_mcp.lab.training.continued_cost import read_submitted

EvaluationClass = Literal["target", "ceiling", "comparison", "dead", "faulty"]

FAULTY_CODES = frozenset(
    {
        "eval-all-errors",
        "eval-errors",
        "eval-capped",
        "eval-results-changed",
        "eval-results-missing",
        "distribution-nonfinite",
        "distribution-truncated",
    }
)
"""Blockers of evaluations whose results say nothing about the model, because the machinery or the limits failed."""
_CLOSED = re.compile(r"(?i)(?:^|/)(?:gpt-(?!oss|j|neo|2\b)|chatgpt|o[134](?:-|$)|claude|gemini|grok)|^anthropic/")
"""Names of closed models, which cannot be trained."""


def list_evaluations(lab: Lab, limit: int) -> list[dict[str, Any]]:
    """The newest evaluations of this workspace as `watch_run` lists them."""
    rows = {row.arguments.get("id"): row for row in reversed(lab.ledger.evidence(lab.key, tool="run_eval"))}
    trained, jobs = _trained(lab), EvaluationJobs(lab).list()
    models = {str(job.spec.get("model")) for job in jobs}
    checkpoints = {model for model in models if checkpoint_purpose(lab, model) is not None}
    best: dict[str, float] = {}
    for job in jobs:
        row, name = rows.get(job.id), plain_name(job.environment)
        mean = _mean(row) if row is not None else None
        if mean is None or evaluation_class(job, row, trained.get(name, set()), checkpoints)[0] != "target":
            continue
        best[name] = max(mean, best.get(name, mean))
    return [_row(job, rows.get(job.id), trained, checkpoints, best) for job in jobs[:limit]]


def evaluation_class(
    job: Job,
    row: Evidence | None,
    trained: Iterable[str],
    checkpoints: Collection[str] = (),
    target_mean: float | None = None,
) -> tuple[EvaluationClass | None, str | None]:
    """The class of an evaluation and the reason. The class is None while the evaluation runs or has no verdict here.

    `trained` names the models that configs and runs train on its environment. `checkpoints` names the models that are
    checkpoints of runs. `target_mean` is the highest mean reward of the models to be trained, None if not measured.
    """
    if job.state in LIVE_STATES:
        return None, None
    if job.state != "finished":
        return "faulty", f"it {job.state} before it was done"
    if row is None:
        return None, "it was not judged here" if job.judged else "its rewards are not confirmed yet"
    wrong = [code for code in row.blockers if code in FAULTY_CODES]
    if wrong:
        return "faulty", f"its verdict names {', '.join(wrong)}"
    model = str(row.model or job.spec.get("model") or "")
    mean = _mean(row)
    if mean is not None and mean <= 0:
        return "dead", "no rollout earned anything"
    if model in checkpoints:
        return "comparison", "a checkpoint of a run, which is a result of training"
    models, closed = {name.lower() for name in trained}, bool(_CLOSED.search(model))
    if closed or (models and model.lower() not in models):
        why = "a closed model, which cannot be trained"
        if not closed:
            why = f"training is meant for {', '.join(sorted(trained)[:2])}"
        if target_mean is None:
            return "ceiling" if closed else "comparison", f"{why}; no evaluation of the model to be trained is known"
        if mean is not None and mean > target_mean:
            return (
                "ceiling",
                f"{why}; it earns more than the model to be trained ({mean:.2f} against {target_mean:.2f})",
            )
        return "comparison", f"{why}; it earns no more than the model to be trained ({target_mean:.2f})"
    return "target", None if models else "no training config names a model for this environment yet"


def _row(
    job: Job,
    row: Evidence | None,
    trained: Mapping[str, set[str]],
    checkpoints: Collection[str],
    best: Mapping[str, float],
) -> dict[str, Any]:
    name = plain_name(job.environment)
    kind, why = evaluation_class(job, row, trained.get(name, set()), checkpoints, best.get(name))
    row_fields: dict[str, Any] = {
        "id": job.id,
        "kind": "eval",
        "status": job.state,
        "environment": job.environment,
        "model": job.spec.get("model"),
        "class": kind,
        "why": why,
        "completed": job.progress.get("completed"),
        "mean": _mean(row) if row else None,
        "verdict": row.status if row else None,
    }
    return {key: value for key, value in row_fields.items() if value is not None}


def _mean(row: Evidence) -> float | None:
    value = row.data.get("mean_reward")
    return float(value) if isinstance(value, int | float) else None


def _trained(lab: Lab) -> dict[str, set[str]]:
    """Models that configs and runs of this workspace train, by environment."""
    trained: dict[str, set[str]] = {}
    pairs = [(run.data.get("environments"), run.data.get("model")) for run in lab.ledger.runs(workspace=lab.key)]
    for environments, model in [*_configured(lab), *pairs]:
        for environment in environments if isinstance(environments, list | tuple) else ():
            if isinstance(model, str):
                trained.setdefault(plain_name(str(environment)), set()).add(model)
    return trained


def _configured(lab: Lab) -> list[tuple[tuple[str, ...], str]]:
    from prime_lab_mcp.lab.configs.registry import REGISTRY, load_registry

    try:
        entries = load_registry(lab.workspace.resolve(REGISTRY))
    except LabError:
        return []  # check_training_config says what is wrong with the registry
    return [(entry.environments, entry.model) for entry in entries if entry.active]


@dataclass(frozen=True, slots=True)
class EvaluatedSource:
    """An environment of this workspace that a config evaluates on (`held_out`) or trains on.

    `args` select its tasks.
    """

    environment: str
    args: Mapping[str, Any] = field(default_factory=dict)
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class BeforeAndAfter:
    """A source with the newest finished evaluation of the base model and of the trained model."""

    source: EvaluatedSource
    base: Job | None
    trained: Job | None


def evaluated_sources(lab: Lab, config: Mapping[str, Any]) -> tuple[EvaluatedSource, ...]:
    """The eval sources of a config, or its training sources if it has no eval sources.

    A training source is listed with the tasks that its environment holds out, if a key selects them. Only environments
    that were pushed from this workspace, or pulled into it, are listed.
    """
    for kind in ("eval", "train"):
        sources = {}
        for entry in _entries(config, kind):
            taskset = dict(value_at(entry, "env", "taskset") or {})
            folder = _folder_of(lab, str(taskset.pop("id", "")))
            if folder is None:
                continue
            keys = _held_out_keys(lab, folder, taskset) if kind == "train" else {}
            taskset |= keys
            source = EvaluatedSource(folder, taskset, kind == "eval" or bool(keys))
            sources[folder, repr(sorted(taskset.items(), key=str))] = source
        if sources:
            return tuple(sources.values())
    return ()


def _held_out_keys(lab: Lab, folder: str, trained: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that select tasks of an environment on which `trained` does not train; empty if its code has none."""
    try:
        keys = held_out_keys(lab.workspace.environment(folder).path) or {}
    except LabError:
        return {}
    return {} if all(trained.get(name) == value for name, value in keys.items()) else keys


def held_out_evaluation(lab: Lab, environment: str) -> Next | None:
    """Return the evaluation of the newest checkpoint of an environment and its base model on the tasks that its code
    holds out; None if no ended run trained on the environment, or if these tasks were evaluated or do not exist."""
    name = plain_name(environment)
    trained = [
        run
        for run in lab.ledger.runs(kind="training", platform=lab.platform)
        if run.data.get("ended") == "COMPLETED"
        and any(plain_name(str(id)) == name for id in run.data.get("environments") or ())
    ]
    if not trained:
        return None
    run = trained[0]
    waiting = _running_evaluation(lab, environment, run)
    if waiting is not None:
        return waiting
    config = read_submitted(run)
    table = config.table if config is not None else {}
    listed = [one for one in evaluated_sources(lab, table) if one.environment == environment and one.held_out]
    keys = _held_out_keys(lab, environment, {})
    source = listed[0] if listed else EvaluatedSource(environment, keys, True)
    model = f"{run.name}-step-{run.data['max_steps']}" if isinstance(run.data.get("max_steps"), int) else run.name
    base = str(run.data.get("model") or "")
    if not source.args or not base:
        return None
    pair = before_and_after(lab, source, base, run.name)
    if pair.trained is not None:
        return None
    # The call that the report of the run names: at another limit of tokens, it would be another evaluation.
    calls = missing_evaluations(pair, base, model, rehearsal=lab.settings.rehearsal, max_tokens=reply_limit(table))
    return next(one for one in calls if (one.arguments or {}).get("compare_base"))


def _running_evaluation(lab: Lab, environment: str, run: Run) -> Next | None:
    """Return the call that waits for the running evaluation of a run's checkpoint, with that of its base model where
    one of the same tasks is running or finished; None if none is running."""
    trained, base = re.compile(rf"{re.escape(run.name)}(-step-\d+)?"), str(run.data.get("model") or "").lower()
    jobs = EvaluationJobs(lab).list(environment)
    live = [job for job in jobs if job.state in LIVE_STATES]
    running = next((job for job in live if trained.fullmatch(str(job.spec.get("model")))), None)
    if running is None:
        return None
    same = [job for job in jobs if job.state in (*LIVE_STATES, "finished") and _tasks_of(job) == _tasks_of(running)]
    compared = any(str(job.spec.get("model")).lower() == base for job in same)
    arguments = run_eval_arguments(EvaluationJobs(lab).spec(running)) | ({"compare_base": True} if compared else {})
    return Next("run_eval", f"{running.id} of the checkpoint is running: this call waits for it", arguments)


def _tasks_of(job: Job) -> tuple[dict[str, Any], Any]:
    return dict(job.spec.get("env_args") or {}), job.spec.get("num_examples")


def after_completed_run(lab: Lab, environment: str) -> Next | None:
    """Return the way on after the newest run on an environment, if it completed and its checkpoint was not evaluated:
    the comparison on held-out tasks, or else how the run ended. None if there is nothing left to find out."""
    name = plain_name(environment)
    runs = [
        run
        for run in lab.ledger.runs(kind="training", platform=lab.platform)
        if any(plain_name(str(id)) == name for id in run.data.get("environments") or ())
    ]
    if not runs or runs[0].data.get("ended") != "COMPLETED":
        return None
    comparison = held_out_evaluation(lab, environment)
    if comparison is not None:
        return comparison
    trained = re.compile(rf"{re.escape(runs[0].name)}(-step-\d+)?")
    if any(trained.fullmatch(str(job.spec.get("model"))) for job in EvaluationJobs(lab).list(environment)):
        return None
    return Next("watch_run", "how the completed run ended, and what its checkpoint is worth", {"id": runs[0].id})


def result_of_run(lab: Lab, run: Run) -> Next | None:
    """Return the call that shows what the checkpoint of a completed run earned beside its base model, if both were
    evaluated on the same tasks; None otherwise."""
    if run.data.get("ended") != "COMPLETED":
        return None
    trained = re.compile(rf"{re.escape(run.name)}(-step-\d+)?")
    for environment in map(plain_name, map(str, run.data.get("environments") or ())):
        jobs = [job for job in EvaluationJobs(lab).list(environment) if job.state == "finished"]
        after = next((job for job in jobs if trained.fullmatch(str(job.spec.get("model")))), None)
        if after is None:
            continue
        keys = dict(after.spec.get("env_args") or {})
        pair = before_and_after(
            lab, EvaluatedSource(environment, keys, True), str(run.data.get("model") or ""), run.name
        )
        if pair.base is not None and pair.trained is not None:
            why = f"the result of {run.name}, of which nothing is left to do: its checkpoint and its base model by task"
            return Next("read_eval", why, {"eval": pair.trained.id, "view": "compare", "other": pair.base.id})
    return None


def pull_for_held_out_tasks(lab: Lab, config: Mapping[str, Any]) -> Next | None:
    """Return the call that pulls the environment of a config that evaluates nothing, if its files are not here."""
    pull = pull_of_sources(lab, config) if not _entries(config, "eval") else None
    why = (
        "only its code says which tasks it holds out: pull it, then write the config again, so that the end of the run "
        "shows whether the model got better"
    )
    return Next(pull.tool, why, pull.arguments) if pull is not None else None


def pull_of_sources(lab: Lab, config: Mapping[str, Any]) -> Next | None:
    """Return the call that pulls the first source of a config, if no source is in this workspace; else None.

    Without the tasks of a source, no checkpoint can be evaluated on this machine.
    """
    ids = [
        str(value_at(entry, "env", "taskset", "id") or "")
        for kind in ("eval", "train")
        for entry in _entries(config, kind)
    ]
    named = [(id, taskset_identity(id)) for id in ids]
    elsewhere = [(id, name) for id, (owner, name, _) in named if owner]
    if not elsewhere or any(_folder_of(lab, id) is not None for id in ids):
        return None
    id, name = elsewhere[0]
    why = "its tasks are on the Hub only; then run_eval(compare_base=true) of the checkpoint shows what changed"
    return Next("create_environment", why, {"name": name.replace("-", "_"), "hub": id})


def _folder_of(lab: Lab, id: str) -> str | None:
    """The environment of this workspace that was pushed to the Hub under this id, or pulled from it."""
    owner, name, version = taskset_identity(id)
    if not owner:
        return None
    push = lab.newest_push(owner, name, version, workspace=lab.key)
    return push.environment if push is not None else pulled_as(lab.ledger, lab.key, owner, name, version)


def before_and_after(lab: Lab, source: EvaluatedSource, base_model: str, run_name: str) -> BeforeAndAfter:
    """Find the evaluations of a source. A checkpoint is served as `run_name`, with or without `-step-N`."""
    trained = re.compile(rf"{re.escape(run_name)}(-step-\d+)?")
    jobs = [job for job in EvaluationJobs(lab).list(source.environment) if job.state == "finished"]
    fitting = [job for job in jobs if dict(job.spec.get("env_args") or {}) == dict(source.args)]
    return BeforeAndAfter(
        source,
        next((job for job in fitting if str(job.spec.get("model")).lower() == base_model.lower()), None),
        next((job for job in fitting if trained.fullmatch(str(job.spec.get("model")))), None),
    )


async def compare_before_and_after(lab: Lab, pair: BeforeAndAfter) -> ViewResult | None:
    """Compare the rewards of the trained and of the base model, paired by task.

    None while one of the two evaluations is missing or cannot be read.
    """
    if pair.base is None or pair.trained is None:
        return None
    try:
        trained, base = _opened(lab, pair.trained), _opened(lab, pair.base)
        return await anyio.to_thread.run_sync(partial(compare_view, trained, base))
    except LabError:
        return None  # read_eval says why, and is named as the next call


_KEPT = ("num_examples", "rollouts", "max_tokens")
"""Arguments that the two evaluations of a comparison share."""


def reply_limit(config: Mapping[str, Any]) -> int | None:
    """The most tokens of a completion in the evaluations of a run, or else in its training; None if nothing is set."""
    for kind in ("eval", "train"):
        limit = value_at(config, "orchestrator", kind, "sampling", "max_completion_tokens")
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return limit
    return None


def missing_evaluations(
    pair: BeforeAndAfter, base_model: str, served: str, *, rehearsal: bool, max_tokens: int | None = None
) -> tuple[Next, ...]:
    """The next calls, in order, that evaluate both models on the same tasks and compare them.

    `max_tokens` is the limit of the run: at another limit, a checkpoint is not compared as it was trained.
    """
    arguments: dict[str, Any] = {"environment": pair.source.environment}
    if pair.source.args:
        arguments["env_args"] = dict(pair.source.args)
    if max_tokens is not None:
        arguments["max_tokens"] = max_tokens
    calls = []
    if not pair.source.held_out:
        # A comparison on tasks that were trained on shows memorising as well as learning, so that it comes second.
        why = (
            "all its tasks were trained on: give its taskset a `split` with tasks of its own for evaluation, then "
            "run_eval(env_args=..., compare_base=true) of the checkpoint shows whether it got better"
        )
        calls.append(Next("read_environment", why, {"environment": pair.source.environment}))
    if pair.base is None and not rehearsal:
        why = "the base model on the held-out tasks, while the checkpoint is not served yet"
        calls.append(Next("run_eval", why, {**arguments, "model": base_model}))
    if pair.base is None or pair.trained is None:
        template = pair.trained or pair.base
        if template is not None:
            arguments |= {key: template.spec[key] for key in _KEPT if template.spec.get(key)}
        endpoint = {} if rehearsal else {"endpoint": "vllm"}
        reason = "the checkpoint and its base model on the same tasks" + ("" if rehearsal else ", once it is served")
        checkpoint = served if pair.trained is None else str(pair.trained.spec.get("model") or served)
        calls.append(Next("run_eval", reason, {**arguments, "model": checkpoint, **endpoint, "compare_base": True}))
    if pair.base is not None and pair.trained is not None:
        arguments = {"eval": pair.trained.id, "view": "compare", "other": pair.base.id}
        calls.append(Next("read_eval", "what changed, task by task", arguments))
    return tuple(calls)


def _opened(lab: Lab, job: Job) -> FinishedEvaluation:
    path = EvaluationJobs(lab).results_path(job.id)
    return FinishedEvaluation(job.id, EvaluationJobs(lab).spec(job), lambda: read_rollouts(path))


def _entries(config: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    entries = value_at(config, "orchestrator", kind, "source")
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
