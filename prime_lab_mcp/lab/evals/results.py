"""Evaluations that measure a result: of a trained checkpoint, or on held-out tasks.

Other evaluations judge whether training on the tasks can work. For a result, success on all tasks or on none is no
flaw, so findings about training become information. The report compares the result with the earlier evaluation of the
base model on the same tasks. A result opens no gate and closes none.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Next, Verdict
from prime_lab_mcp.lab.base.text import as_mapping, quote, rounded, signed
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.outcomes import mean_summary
from prime_lab_mcp.lab.evals.plan import run_eval_arguments
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation
from prime_lab_mcp.lab.evals.views.compare import compare_view
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.state.ledger.rows import Job, Run
from prime_lab_mcp.lab.state.open_warnings import open_warnings
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.proven_arguments import held_out_argument

_NO_FIX = "Nothing is to be changed for this: it describes the result."
_ABOUT_TRAINING = frozenset(
    {
        "distribution-all-one",
        "distribution-all-zero",
        "distribution-at-floor",
        "distribution-between-tasks",
        "distribution-constant",
        "distribution-dead",
        "distribution-drawn",
        "distribution-format-dominates",
        "distribution-format-low",
        "distribution-format-saturated",
        "distribution-length-correlation",
        "distribution-narrow-range",
        "distribution-near-floor",
        "distribution-no-signal",
        "distribution-other-sampling",
        "distribution-too-easy",
        "distribution-too-easy-mostly",
        "distribution-too-hard",
        "distribution-too-hard-mostly",
        "distribution-too-small",
        "distribution-unclear",
        "distribution-unparsed",
        "distribution-weak-signal",
    }
)
"""Findings on whether training on these tasks can work. All other findings say whether the result is reliable."""


@dataclass(frozen=True, slots=True)
class ResultPurpose:
    """The reason why an evaluation is a result.

    `description` is the reason in words. `base_model` is the model that the training run of a checkpoint started from.
    `tasks` says of a checkpoint's tasks whether it may have been trained on them. `trained_on` is True for a checkpoint
    on an environment of its run, if no held-out tasks were selected.
    """

    kind: Literal["checkpoint", "held-out"]
    description: str
    base_model: str | None = None
    tasks: str = ""
    trained_on: bool = False


def result_purpose(lab: Lab, spec: EvalSpec) -> ResultPurpose | None:
    """Return why this evaluation is a result, or None if it judges tasks to train on.

    The endpoint serves a checkpoint under the name of its training run, with or without `-step-N`. Tasks are held out
    if an argument of the environment names such a split (`split = "eval"`).
    """
    checkpoint = checkpoint_purpose(lab, spec.model)
    if checkpoint is not None:
        tasks, trained_on = _checkpoint_tasks(lab, spec)
        return dataclasses.replace(checkpoint, tasks=tasks, trained_on=trained_on)
    held_out = held_out_argument(spec.env_args)
    if held_out is None:
        return None
    name, value = held_out
    return ResultPurpose("held-out", f"held-out tasks ({quote(name, 40)} = {quote(value, 40)})")


def run_of_checkpoint(lab: Lab, model: str) -> Run | None:
    """Return the newest training run that has the name of the model; None if none has."""
    served = {model, re.sub(r"-step-\d+$", "", model)}
    return next((run for run in lab.ledger.runs(kind="training") if run.name in served), None)


def checkpoint_purpose(lab: Lab, model: str) -> ResultPurpose | None:
    """Return the purpose of an evaluation of a checkpoint. None if no training run has the name of the model."""
    run = run_of_checkpoint(lab, model)
    if run is None:
        return None
    base = run.data.get("model")
    summary = f"a checkpoint of the run {quote(run.name, 80)}"
    return ResultPurpose("checkpoint", summary, base if isinstance(base, str) else None)


def _checkpoint_tasks(lab: Lab, spec: EvalSpec) -> tuple[str, bool]:
    """Say whether a checkpoint may have been trained on the tasks of this evaluation, in words and as a truth value.

    It may have been if its run trained on this environment, and the arguments select neither a held-out split nor the
    tasks that the run itself evaluated on.
    """
    run = run_of_checkpoint(lab, spec.model)
    held_out = held_out_argument(spec.env_args)
    if held_out is not None:
        return f"on held-out tasks ({quote(held_out[0], 40)} = {quote(held_out[1], 40)})", False
    if run is None:
        return "", False
    name = plain_name(spec.environment)
    sources = [as_mapping(one) for one in as_mapping(run.data.get("card")).get("environments") or ()]
    evaluated = [s for s in sources if s.get("kind") == "eval" and as_mapping(s.get("args")) == dict(spec.env_args)]
    if any(plain_name(str(source.get("id"))) == name for source in evaluated):
        return "on the tasks that its run held out to evaluate on", False
    if any(plain_name(str(id)) == name for id in run.data.get("environments") or ()):
        return "on tasks that it may have been trained on", True
    return "on an environment that it was not trained on", False


def plain_name(environment: str) -> str:
    """Reduce `owner/my-env@0.1.0` and the folder `environments/my_env` to the same name."""
    return environment.partition("@")[0].rstrip("/").rpartition("/")[2].replace("-", "_").lower()


def as_result(lab: Lab, job: Job, eval_verdict: EvaluationVerdict, outcome: Outcome) -> Outcome:
    """Return the outcome as the report on a result, or unchanged if the evaluation is no result."""
    spec = EvaluationJobs(lab).spec(job)
    purpose = result_purpose(lab, spec)
    distribution = eval_verdict.distribution
    if purpose is None or distribution is None or distribution.mean is None:
        return outcome
    findings = tuple(
        dataclasses.replace(f, severity="info", fix=_NO_FIX) if f.code in _ABOUT_TRAINING else f
        for f in outcome.findings
    )
    status: Verdict = "inconclusive" if any(f.severity == "blocker" for f in findings) else "passed"
    tasks = f" {purpose.tasks}" if purpose.tasks else ""
    note = Finding(
        "eval-is-a-result",
        "info",
        f"this evaluates {purpose.description}{tasks}: a result, which opens no gate and closes none",
        "To judge tasks to train on, run run_eval with the base model on the training tasks.",
    )
    if purpose.trained_on:
        note = Finding(
            "eval-is-a-result",
            "warning",
            f"this evaluates {purpose.description} {purpose.tasks}: what rose here may be "
            "memorised, and says nothing about other tasks",
            "Call run_eval with the env_args that select held-out tasks; if there are none, give the taskset a split.",
        )
    before = _before(lab, job, spec, purpose)
    result: dict[str, Any] = {
        "purpose": purpose.kind,
        "mean": {
            "value": rounded(distribution.mean),
            "low": rounded(distribution.mean_low),
            "high": rounded(distribution.mean_high),
        },
    }
    summary = f"{spec.environment} with {spec.model} ({purpose.description}): {_mean_with_interval(distribution)}"
    if purpose.tasks:
        summary += f", {purpose.tasks}"
    following: tuple[Next, ...]
    if before is None:
        if purpose.base_model is not None:
            arguments = {**run_eval_arguments(spec), "compare_base": True}
            following = (Next("run_eval", "the base model on the same tasks, to compare with", arguments),)
        else:
            why = "this is the value before training; it shows what comes next"
            following = (Next("workflow_status", why, {"environment": spec.environment}),)
        summary += "; there is nothing to compare with yet."
    else:
        difference = _difference(lab, job, before)
        result["before"] = {"id": before.id, "model": before.spec.get("model")}
        if difference is not None:
            result["difference"] = difference
            summary += (
                f"; against {before.spec.get('model')} {signed(difference['value'])}{_unit(distribution)} (95% "
                f"{signed(difference['low'])} to {signed(difference['high'])}, paired by task)."
            )
            if not difference["shown"]:
                summary = f"A difference is not shown: {summary}"
            # A comparison is asked whether the model got better. What the tasks are worth for training is no answer.
            findings = tuple(f for f in findings if f.code not in _ABOUT_TRAINING)
            summary += _known_holes(lab, job) if difference["value"] > 0 else ""
        arguments = {"eval": job.id, "view": "compare", "other": before.id}
        following = (Next("read_eval", "what changed, task by task", arguments),)
    if lab.settings.rehearsal:
        summary += " In a rehearsal nothing was trained, and such numbers are made up."
    facts = dataclasses.replace(outcome.facts, proves=False)
    data = {**outcome.data, "result": result}
    return dataclasses.replace(
        outcome, status=status, summary=summary, findings=(note, *findings), data=data, next=following, facts=facts
    )


_PAID_WRONGLY: tuple[Code, ...] = ("reward-hackable", "reward-wrong-passes", "reward-search-hole")


def _known_holes(lab: Lab, job: Job) -> str:
    """What the newest test of the reward warned of: a rise may be the use of that. Empty without such a warning."""
    known = open_warnings(lab.ledger.evidence(lab.key, tool="test_reward", source=job.source))
    holes = [f"{code} ({known[code]})" for code in _PAID_WRONGLY if code in known]
    if not holes:
        return ""
    return f" test_reward warned of {' and '.join(holes)}: read the best rollouts before the rise is believed."


def _unit(distribution: Distribution) -> str:
    """The unit of means and differences; empty where the attainable reward is 1, so that both units are the same."""
    return "" if abs(distribution.attainable - 1.0) < 1e-9 else " of attainable"


def _mean_with_interval(distribution: Distribution) -> str:
    """The mean with its interval in the unit of the difference that follows, so that a reader can subtract."""
    mean, attainable, unit = distribution.mean or 0.0, distribution.attainable, _unit(distribution)
    within = f"95% {distribution.mean_low or 0:.2f} to {distribution.mean_high or 0:.2f}"
    if not unit:
        return f"{mean_summary(distribution)}, {within}"
    return f"mean {mean:.2f}{unit}, {within} (mean reward {mean * attainable:.2f}, attainable {attainable:g})"


def _before(lab: Lab, job: Job, spec: EvalSpec, purpose: ResultPurpose) -> Job | None:
    """Return the evaluation to compare with: the newest finished one with the same arguments.

    For a checkpoint it is an evaluation of the base model, on held-out tasks an earlier one of any other model.
    """
    for other in EvaluationJobs(lab).list(job.environment):
        comparable = other.state == "finished" and dict(other.spec.get("env_args") or {}) == dict(spec.env_args)
        if other.id == job.id or not comparable or other.platform not in (None, lab.platform):
            continue
        model = str(other.spec.get("model"))
        if purpose.base_model is not None:
            if model.casefold() == purpose.base_model.casefold():
                return other
        elif model != spec.model and other.at <= job.at:
            return other
    return None


def _difference(lab: Lab, job: Job, before: Job) -> Mapping[str, Any] | None:
    """Return this evaluation's mean minus that of `before`, paired by task. None if they share no task."""
    try:
        difference: Mapping[str, Any] = compare_view(_opened(lab, job), _opened(lab, before)).data["difference"]
    except LabError:
        return None
    return difference


def _opened(lab: Lab, job: Job) -> FinishedEvaluation:
    path = EvaluationJobs(lab).results_path(job.id)
    return FinishedEvaluation(job.id, EvaluationJobs(lab).spec(job), lambda: read_rollouts(path))
