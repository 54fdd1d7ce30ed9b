"""The verdict on a finished evaluation: judged from its raw results and its sampling, and recorded exactly once.

The module also writes the reports on finished, running and broken-off evaluations.

This server keeps the last judged distributions in memory under the sha256 of their results. They are in no file, so
that no other process can change them.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import prime_lab_mcp
from prime_lab_mcp.lab.base.errors import EvalError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next, Verdict
from prime_lab_mcp.lab.base.text import amount_text, count, quote, rounded
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath
from prime_lab_mcp.lab.distribution.floor import sampled_golds
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.evidence_limits import evidence_limits
from prime_lab_mcp.lab.evals.measured import live_estimate, time_left_sentence
from prime_lab_mcp.lab.evals.provenance import origin_differences, origin_of_results
from prime_lab_mcp.lab.evals.runner import endings
from prime_lab_mcp.lab.evals.runner.attempt import file_sha256
from prime_lab_mcp.lab.evals.runner.command import JobFiles
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import ONE_TURN, EvalSpec
from prime_lab_mcp.lab.evals.zeros.paid_parts import LackedParts
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.looked_up import other_models
from prime_lab_mcp.lab.rollouts.conversation import last_reply
from prime_lab_mcp.lab.rollouts.reading import read_first_rollouts, read_rollouts, read_scores
from prime_lab_mcp.lab.rollouts.rollout import Reading
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS, HOSTED
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job
from prime_lab_mcp.lab.state.outcome import Facts, Outcome

GROUP_SIZE = 16
"""Default number of rollouts per group for which the verdict estimates the share of usable groups."""
CONFIRMED = "confirmed"
"""Key in the progress of a job. It is present once rescore/confirmation.py has checked the job's rewards."""
_JudgedResults = tuple[Distribution, tuple[Finding, ...]]
"""Statistics of a results file, and findings on the file itself."""


class JudgedDistributions:
    """The distributions that this server judged last.

    The key holds the sha256 of the results and all other inputs of the judgement, such as the group size.
    """

    MOST = 8
    """Number of distributions that are kept."""

    def __init__(self) -> None:
        self._results: dict[tuple[Any, ...], _JudgedResults] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: tuple[Any, ...]) -> _JudgedResults | None:
        """Return the results for a key, or None."""
        with self._lock:
            return self._results.get(key)

    def put(self, key: tuple[Any, ...], results: _JudgedResults) -> None:
        """Store results, and forget the oldest ones beyond `MOST`."""
        with self._lock:
            self._results[key] = results
            while len(self._results) > self.MOST:
                del self._results[next(iter(self._results))]


@dataclass(frozen=True, slots=True)
class EvaluationVerdict:
    """The verdict on one finished job."""

    status: Verdict
    findings: tuple[Finding, ...]
    distribution: Distribution | None

    @property
    def blockers(self) -> tuple[Finding, ...]:
        """The findings because of which the verdict did not pass, one for each code. Empty if it passed."""
        found = [f for f in self.findings if f.severity == "blocker"] if self.status != "passed" else []
        return tuple({f.code: f for f in reversed(found)}[code] for code in dict.fromkeys(f.code for f in found))

    @property
    def brief(self) -> dict[str, Any]:
        """The verdict as it stands in the data of a view: `{status, blockers[]}`, the blockers by their codes."""
        return {"status": self.status, "blockers": [f.code for f in self.blockers]}

    @property
    def standing(self) -> str:
        """The verdict in words, with what blocks it: `failed (CODE: the message of the first blocker; CODE)`."""
        told = [f"{f.code}: {f.message}" if n == 0 else f.code for n, f in enumerate(self.blockers[:3])]
        return f"{self.status} ({'; '.join(told)})" if told else self.status

    @property
    def data(self) -> dict[str, Any]:
        """The distribution for a report. Empty without a distribution."""
        return self.distribution.as_json() if self.distribution is not None else {}


def judge_job(lab: Lab, job: Job, group_size: int = GROUP_SIZE, *, anew: bool = False) -> EvaluationVerdict:
    """Judge the raw results of a finished job.

    The verdict is inconclusive if the results are gone, or changed since the supervisor hashed them. With `anew`, the
    distribution is computed from the file even if this server already knows it.
    """
    try:
        spec = EvaluationJobs(lab).spec(job)
        files = EvaluationJobs(lab).files(job.id)
        finding = _results_finding(files, job)
        if finding is not None:
            return EvaluationVerdict("inconclusive", (finding,), None)
        results = files.results()
        assert results is not None
        distribution, file_findings = _distribution(
            lab, results, spec, str(job.progress["results_sha256"]), group_size, anew=anew
        )
    except (EvalError, PlantedPath) as error:
        return EvaluationVerdict("inconclusive", (error.as_finding(),), None)
    judged = _with_file_findings(
        _with_job_findings(spec, job, distribution), (*file_findings, *_origin_findings(results, spec))
    )
    judged = _of_a_rehearsal(judged, spec) if job.platform == "rehearsal" else judged
    return _with_what_is_lacking(lab, spec, judged, results)


_COMPARED_REPLIES = 400
"""Number of replies of an evaluation without rewards that are compared with paid ones (our choice)."""
_LACKING_FIX = Fix(
    "Compare that with the prompt. Where the prompt does not ask for it, or shows no whole reply, write one into it "
    "with ",
    NamedCall("edit_environment"),
    "; where it does, the model does not follow the prompt: take another with ",
    NamedCall("run_eval"),
    ". If such replies are right as they are, mend the reward (",
    NamedCall("test_reward"),
    ").",
)


def _with_what_is_lacking(lab: Lab, spec: EvalSpec, judged: EvaluationVerdict, results: Path) -> EvaluationVerdict:
    """The verdict, which says of an evaluation that paid nothing what its replies lack of those that `test_reward`
    found paid."""
    distribution = judged.distribution
    place = next((n for n, f in enumerate(judged.findings) if f.code in _UNPAID and f.severity == "blocker"), None)
    if place is None or distribution is None or distribution.mean != 0.0:
        return judged
    from prime_lab_mcp.lab.evals.easier import paid_parts

    lacked = LackedParts(paid_parts(lab, spec))
    if lacked.paid.parts:
        for rollout in itertools.islice(read_rollouts(results), _COMPARED_REPLIES):
            if rollout.error is None:
                lacked.add(last_reply(rollout))
    if not (lacking := lacked.summary()):
        return judged
    finding = judged.findings[place]
    told = dataclasses.replace(
        finding,
        message=f"{finding.message.removesuffix(_CANNOT_WRITE)}; the replies lack what every paid reply of test_reward "
        f"has: {lacking}",
        fix=finding.fix if finding.fix == _STAND_IN_FIX else _LACKING_FIX,
    )
    return dataclasses.replace(judged, findings=(*judged.findings[:place], told, *judged.findings[place + 1 :]))


_UNPAID = frozenset({"distribution-all-zero", "distribution-dead", "distribution-unclear"})
_CANNOT_WRITE = (
    "; a stand-in of the rehearsal wrote the replies, with the stored answer, or a guess where it knows none, in "
    "the first form that the prompt shows: where a right reply needs more than that, it earns nothing whatever its "
    "skill is"
)
_STAND_IN_FIX = Fix(
    "Call ",
    NamedCall("test_reward", rendering=...),
    " with the whole right reply as rendering (GOLD and every {FIELD} that is paid): the stand-in then writes what "
    "that test found paid. If its replies are right as they are, mend the reward.",
)


def _of_a_rehearsal(judged: EvaluationVerdict, spec: EvalSpec) -> EvaluationVerdict:
    """The verdict, which says of cut replies that the stand-in of a rehearsal cut them off, and of an evaluation that
    paid nothing that its stand-in may be unable to write what is paid."""
    distribution = judged.distribution
    if distribution is not None and distribution.mean == 0.0 and spec.model != "rehearsal/skill-0":
        findings = tuple(
            dataclasses.replace(f, message=f"{f.message}{_CANNOT_WRITE}", fix=_STAND_IN_FIX)
            if f.code in _UNPAID and f.severity == "blocker"
            else f
            for f in judged.findings
        )
        judged = dataclasses.replace(judged, findings=findings)
    made_up = "; in this rehearsal the stand-in makes the lengths of its replies up, which says nothing about a model"
    judged = dataclasses.replace(
        judged,
        findings=tuple(
            dataclasses.replace(f, message=f"{f.message}{made_up}", fix="Nothing to do in a rehearsal.")
            if f.code == "distribution-length-correlation"
            else f
            for f in judged.findings
        ),
    )
    invented = "; in this rehearsal the stand-in cuts some replies off, which says nothing about a model"
    findings = tuple(
        dataclasses.replace(f, message=f"{f.message}{invented}") if f.code == "distribution-truncated" else f
        for f in judged.findings
    )
    return dataclasses.replace(judged, findings=findings)


def _distribution(
    lab: Lab, results: Path, spec: EvalSpec, sha256: str, group_size: int, *, anew: bool
) -> _JudgedResults:
    memory = lab.memory(JudgedDistributions)
    available = spec.available
    weights = tuple(sorted((spec.weights or {}).items()))
    key = (sha256, group_size, available, spec.max_tokens, weights, spec.frequent, spec.uses_podman)
    remembered = None if anew else memory.get(key)
    if remembered is not None:
        return remembered
    reading = Reading()
    golds = sampled_golds(read_first_rollouts(results))
    distribution = judge_rollouts(
        read_scores(results, reading),
        group_size=group_size,
        weights=spec.weights,
        golds=golds,
        frequent=spec.frequent,
        available=available,
        max_tokens=spec.max_tokens,
        slow=spec.uses_podman,
    )
    judged_results = distribution, reading.findings()
    memory.put(key, judged_results)
    return judged_results


def _origin_findings(results: Path, spec: EvalSpec) -> tuple[Finding, ...]:
    """Return a finding if the results state another origin than the specification.

    Samples of the platform do not state their origin.
    """
    differing = origin_differences(origin_of_results(results), spec) if spec.hosted is None else []
    if not differing:
        return ()
    other_origin = any(d.name in ("environment", "model") for d in differing)
    return (
        Finding(
            "results-not-as-asked",
            "blocker" if other_origin else "warning",
            f"the results say other than this evaluation asked for: {'; '.join(d.text for d in differing)}",
            Fix(
                "Call ",
                NamedCall("check_environment"),
                ": the environment may set its own model, sampling or harness; then ",
                NamedCall("run_eval"),
                " again.",
            ),
        ),
    )


def _with_file_findings(verdict: EvaluationVerdict, findings: Sequence[Finding]) -> EvaluationVerdict:
    """Return the verdict with the findings on the results file. A blocker among them makes the verdict inconclusive."""
    status = verdict.status if not any(f.severity == "blocker" for f in findings) else "inconclusive"
    return dataclasses.replace(verdict, status=status, findings=(*verdict.findings, *findings))


def _results_finding(files: JobFiles, job: Job) -> Finding | None:
    results, expected = files.results(), job.progress.get("results_sha256")
    if results is None or expected is None:
        return Finding(
            "eval-results-missing",
            "blocker",
            "the results of this evaluation are gone",
            Fix("Run ", NamedCall("run_eval"), " again."),
        )
    if file_sha256(results) != expected:
        return Finding(
            "eval-results-changed",
            "blocker",
            "the results of this evaluation were changed after it ended",
            Fix("Run ", NamedCall("run_eval"), " again."),
        )
    return None


def _with_job_findings(spec: EvalSpec, job: Job, distribution: Distribution) -> EvaluationVerdict:
    """Return the verdict on the distribution, which findings on how the job ran can make inconclusive."""
    findings = [*distribution.findings, *endings.failure_findings(spec, job)]
    status: Verdict = distribution.status
    for cause in endings.container_findings(spec, job):
        # No repair of the environment or of the endpoint gives these rollouts their containers.
        fix = f"As for {cause.code}."
        findings = [dataclasses.replace(f, fix=fix) if f.code in _ERROR_CODES else f for f in findings]
        if status == "failed":
            findings[findings.index(cause)] = dataclasses.replace(cause, severity="blocker")
            status = "inconclusive"
    if status == "failed" and (refused := next(endings.refusal_findings(spec, job), None)) is not None:
        # The low rewards may come from accesses that the sandbox refused, and not from the environment.
        findings.append(dataclasses.replace(refused, severity="blocker"))
        findings.remove(refused)
        status = "inconclusive"
    if job.progress.get("capped"):
        findings.append(
            Finding(
                "eval-capped",
                "blocker",
                f"the relay refused {count(int(job.progress['capped']), 'request')} beyond this evaluation's cap",
                "Ask for fewer examples or a lower max_tokens, or have the user raise --max-spend.",
            )
        )
        status = "inconclusive" if status == "passed" else status
    for recorded in job.progress.get("findings") or ():
        findings.append(Finding.from_record(recorded))
        if recorded["severity"] == "blocker" and status != "inconclusive":
            status = "inconclusive"
    if awaits_confirmation(spec, job) and status != "inconclusive":
        findings.append(_unconfirmed(job))
        status = "inconclusive"
    limits = tuple(evidence_limits(spec, job, failed=status == "failed"))
    if any(finding.severity == "blocker" for finding in limits):
        status = "inconclusive"
    findings += limits
    return EvaluationVerdict(status, tuple(findings), distribution)


_ERROR_CODES = ("eval-all-errors", "eval-errors")
"""Codes of the findings on the share of failed rollouts."""


def awaits_confirmation(spec: EvalSpec, job: Job) -> bool:
    """Whether the rewards of a finished job still have to be confirmed before they count as evidence."""
    if job.judged or CONFIRMED in job.progress or spec.hosted is not None:
        return False
    return all(recorded.get("severity") != "blocker" for recorded in job.progress.get("findings") or ())


def _unconfirmed(job: Job) -> Finding:
    return Finding(
        "eval-rewards-unconfirmed",
        "blocker",
        "the rewards are not confirmed yet: a sample of the rollouts has to be scored again",
        Fix(
            "Call ",
            NamedCall("check_reward_distribution", results=job.id),
            ": it waits for the confirmation, which needs no inference.",
        ),
    )


_TROUBLE = ("request_errors", "capped", "rate_limited", "rollout_errors", "half_written", "last_error")


def record_verdict(lab: Lab, job: Job) -> list[int]:
    """Judge a finished job and record its verdict as evidence; return the ids of the new rows.

    One transaction records the evidence and marks the job as judged. So a crash loses nothing, and two processes never
    record the same job twice.
    """
    return _record(lab, job, judge_job(lab, job, anew=True))


def evidence_facts(spec: EvalSpec, job: Job) -> Facts:
    """Return the conditions under which a job ran, which its evidence states: model, sampling, harness and others."""
    return Facts(
        model=spec.model,
        endpoint_host=spec.endpoint.host,
        sampling=spec.sampling,
        harness=spec.harness_name,
        runtime=spec.runtime if spec.api == "v1" and spec.hosted is None else None,
        env_args=dict(spec.env_args),
        toolchain=_toolchain(spec, job),
        results_sha256=job.progress.get("results_sha256"),
        touches_platform=job.platform is not None,
        unreported={"endpoint_named_by": spec.endpoint.named_by, "evaluated_at": job.at},
    )


def _toolchain(spec: EvalSpec, job: Job) -> dict[str, Any]:
    """Return the versions of the programs that ran the evaluation.

    The platform does not state its verifiers version, so a hosted evaluation has the version of `prime` instead.
    """
    driven: dict[str, Any] = {"verifiers": spec.verifiers, DISTRIBUTIONS: dict(spec.distributions)}
    if spec.hosted is not None:
        driven = {"prime": job.progress.get("prime"), HOSTED: spec.hosted}
    return {**driven, "prime_lab_mcp": prime_lab_mcp.__version__}


def verdict_summary(spec: EvalSpec, verdict: EvaluationVerdict) -> str:
    """Return one sentence on a finished evaluation."""
    d = verdict.distribution
    if d is None or d.mean is None:
        reasons = [verdict.findings[0], *(f for f in verdict.findings[1:] if f.code in endings.FAILURE_CODES)][:2]
        message = "; ".join(f.message for f in reasons)
        return f"The evaluation of {spec.environment} with {spec.model} says nothing: {message}."
    usable = d.usable_groups
    groups = f", {usable.share:.0%} of groups of {usable.group_size} usable" if usable.share is not None else ""
    if d.is_dead:
        groups = ", dead (nothing was solved)"
    elif usable.form_only is not None and usable.form_only >= 0.05:
        groups += f" and {usable.form_only:.0%} by form, length or style only"
    return (
        f"{spec.environment} with {spec.model}: {mean_summary(d)} over {count(d.tasks, 'task')} x "
        f"{spec.rollouts}{groups}; {verdict.status}.{_stand_in(spec, d)}"
    )


_STAND_IN = re.compile(r"rehearsal/skill-(\d+)")


def _stand_in(spec: EvalSpec, distribution: Distribution) -> str:
    """Says of a stand-in of the rehearsal that its skill explains why nothing or all was solved, not the tasks."""
    skill = _STAND_IN.fullmatch(spec.model)
    if skill is None or not (distribution.is_dead or int(skill[1]) == 100):
        return ""
    return f" This model is a stand-in of the rehearsal, which solves {int(skill[1])}% of any tasks."


def mean_summary(distribution: Distribution) -> str:
    """Return the mean reward in words, and also as a share of the attainable reward if that is not 1."""
    mean, attainable = distribution.mean or 0.0, distribution.attainable
    if abs(attainable - 1.0) < 1e-9:
        return f"mean reward {mean:.2f}"
    return f"mean reward {mean * attainable:.2f} ({mean:.2f} of the attainable {attainable:g})"


def eval_data(spec: EvalSpec, job: Job, verdict: EvaluationVerdict | None, path: str | None) -> dict[str, Any]:
    """Return the `data` of a run_eval result."""
    progress = job.progress
    d = verdict.distribution if verdict is not None else None
    data: dict[str, Any] = {
        "id": job.id,
        "state": job.state,
        "model": spec.model,
        "tasks": d.tasks if d else spec.planned_tasks,
        "rollouts": spec.rollouts,
        "planned": spec.planned,
        "completed": (d.rollouts - d.errors) if d else int(progress.get("completed") or 0) - _errors(progress),
        "errors": d.errors if d else _errors(progress),
        "mean_reward": d.mean * d.attainable if d and d.mean is not None else progress.get("mean_reward"),
        "tokens": {name: progress.get(f"{name}_tokens", 0) for name in ("prompt", "completion")},
        "harness": spec.harness_name,
        "order": spec.order,
        "sampling": spec.sampling,
        "results_path": path,
    }
    if spec.hosted is not None:
        data |= {k: progress.get(k) for k in ("hosted", "evaluation", "url", "platform_status")}
    data |= {name: progress[name] for name in _TROUBLE if progress.get(name)}
    if "cost" in progress:
        data["cost"] = round(float(progress["cost"]), 4)
    if progress.get("reason"):
        data["reason"] = progress["reason"]
    if progress.get("rescored"):
        data["rescored"] = progress["rescored"]
    else:
        data["estimate"] = live_estimate(spec, job, time.time())
    if d is not None:
        data["pass_rate"] = {"threshold": d.pass_threshold, "share": rounded(d.pass_rate)}
        data["perfect_rate"] = rounded(d.perfect_rate)
        data["distribution"] = d.as_json()
        data["mean_of_attainable"] = rounded(d.mean)
    if isinstance(data["mean_reward"], float):
        data["mean_reward"] = round(data["mean_reward"], 4)
    return data


def _comparison(lab: Lab, job: Job, spec: EvalSpec) -> tuple[Next, ...]:
    """Return the call that compares an evaluation with the newest one of another model on the same files."""
    for other in EvaluationJobs(lab).list(job.environment):
        same = other.id != job.id and other.source == job.source and other.state == "finished"
        if same and other.spec.get("model") not in (None, spec.model):
            why = f"whether the difference to {quote(str(other.spec['model']), 60)} is real, paired by task"
            return (Next("read_eval", why, {"eval": job.id, "view": "compare", "other": other.id}),)
    return ()


def _second_model(lab: Lab, job: Job, spec: EvalSpec) -> tuple[Next, ...]:
    """Return the evaluation of the model that was looked up beside this one and was not evaluated on these files."""
    evaluated = {j.spec.get("model") for j in EvaluationJobs(lab).list(job.environment) if j.source == job.source}
    left = [name for name in other_models(lab, spec.model) if name not in evaluated]
    if not left or spec.endpoint.preset != "prime" or spec.hosted is not None:
        return ()
    from prime_lab_mcp.lab.evals.plan import run_eval_arguments

    why = "the other model that was looked up, on the same tasks, to choose between the two"
    return (Next("run_eval", why, {**run_eval_arguments(spec), "model": left[0]}),)


def finished_outcome(lab: Lab, job: Job, verdict: EvaluationVerdict) -> Outcome:
    """Return the outcome of run_eval for a finished evaluation."""
    from prime_lab_mcp.lab.evals.easier import following_calls

    spec = EvaluationJobs(lab).spec(job)
    results = EvaluationJobs(lab).files(job.id).results()
    following = following_calls(lab, spec, job.id, verdict.distribution) if verdict.distribution is not None else ()
    compared = _comparison(lab, job, spec) if verdict.distribution and not verdict.distribution.is_dead else ()
    # The choice between two models comes before a push for one of them, and before other tasks for the one that failed.
    chosen_first = verdict.status != "passed" or bool(other_models(lab, spec.model))
    following = (*compared, *following) if chosen_first else (*following, *compared)
    if not compared and verdict.distribution is not None:
        second = _second_model(lab, job, spec)
        following = (*following, *second) if verdict.distribution.is_dead else (*second, *following)
    return Outcome(
        verdict.status,
        verdict_summary(spec, verdict),
        verdict.findings,
        eval_data(spec, job, verdict, str(results) if results else None),
        following,
        facts=dataclasses.replace(evidence_facts(spec, job), proves=False),
    )


def _record(lab: Lab, job: Job, verdict: EvaluationVerdict) -> list[int]:
    try:
        spec = EvaluationJobs(lab).spec(job)
    except LabError:
        spec = None
    if spec is None:
        return lab.ledger.judge(job.id, ())  # a newer version of the server wrote the job, so it cannot be judged here
    return lab.ledger.judge(
        job.id, [_evidence(t, job, spec, verdict) for t in ("run_eval", "check_reward_distribution")]
    )


def _evidence(tool: str, job: Job, spec: EvalSpec, verdict: EvaluationVerdict) -> Evidence:
    facts = evidence_facts(spec, job)
    path = job.progress.get("results")
    data = eval_data(spec, job, verdict, str(path) if path else None) if tool == "run_eval" else verdict.data
    return Evidence(
        tool=tool,
        status=verdict.status,
        workspace=job.workspace,
        environment=job.environment,
        source=job.source,
        content=job.content,
        arguments={
            "id": job.id,
            "model": spec.model,
            "num_examples": spec.num_examples,
            "rollouts": spec.rollouts,
            "seed": spec.seed,
        },
        platform=job.platform,
        model=facts.model,
        endpoint_host=facts.endpoint_host,
        sampling=facts.sampling,
        harness=facts.harness,
        runtime=facts.runtime,
        env_args=facts.env_args,
        toolchain=facts.toolchain,
        findings=[f.as_json() | {"rows": []} for f in verdict.findings],
        data={**data, **facts.unreported},
        results_sha256=facts.results_sha256,
        at=time.time(),
    )


def _errors(progress: Mapping[str, Any]) -> int:
    return int(progress.get("errors") or 0)


def size_and_cost_summary(spec: EvalSpec) -> str:
    """Return one line on the size and the estimated cost of an evaluation, before it starts."""
    estimate = spec.estimate
    tokens = sum(estimate["tokens"].values())
    cost = f", {amount_text(estimate['cost'])}" if "cost" in estimate else ""
    basis = estimate["basis"]
    likely = (
        f"at most {tokens:,} tokens{cost} for {basis}" if basis == ONE_TURN else f"{tokens:,} tokens{cost}, {basis}"
    )
    size = f"{count(spec.planned_tasks, 'task')} x {spec.rollouts} = {count(spec.planned, 'rollout')}"
    return f"{size} with {spec.model} at {spec.endpoint.host}: {likely}.{spec.minutes_sentence}".removesuffix(".")


_TELLING = 40
"""Number of rollouts without any reward after which a running evaluation says so (our judgement)."""


def running_outcome(lab: Lab, job: Job) -> Outcome:
    """Return the outcome of a call whose time ran out before the job ended."""
    from prime_lab_mcp.lab.evals.easier import reward_calls, reward_verdict, untested_sentence

    spec = EvaluationJobs(lab).spec(job)
    completed, planned = job.progress.get("completed", 0), job.progress.get("planned") or spec.planned
    findings = endings.failure_findings(spec, job)
    trouble = f"; {findings[0].message}" if findings and findings[0].severity != "info" else ""
    if completed >= _TELLING and job.progress.get("mean_reward") == 0:
        trouble += "; none of them earned anything so far"
    ended = "all" if completed >= planned else f"{completed} of"
    after = ", and its rewards are being checked" if completed >= planned else ""
    untested = "" if spec.hosted is not None else untested_sentence(lab, job.source, spec.env_args)
    test = {"environment": spec.environment, **({"env_args": dict(spec.env_args)} if spec.env_args else {})}
    meanwhile: tuple[Next, ...] = (
        Next("test_reward", "free, while the evaluation runs: whether its rewards mean anything", test),
    )
    if untested and reward_verdict(lab, job.source, spec.env_args) is not None:
        meanwhile = tuple(reward_calls(lab, spec, job.id))  # the same test of the same files would say the same again
    return Outcome(
        "running",
        f"Evaluation {job.id} of {spec.environment} with {spec.model} goes on: {ended} "
        f"{count(planned, 'rollout')} finished{after}{trouble}.{untested}"
        f"{time_left_sentence(spec, job, time.time())}",
        findings,
        eval_data(spec, job, None, None),
        (
            *(meanwhile if untested else ()),
            Next("run_eval", "the same call waits for it again, and gives the verdict"),
            Next("watch_run", "how it stands, at once", {"id": job.id}),
            Next("control_run", "end it early", {"id": job.id, "action": "stop"}),
        ),
    )


def broken_outcome(lab: Lab, job: Job) -> Outcome:
    """Return the outcome of a job that broke off. It is inconclusive: a failure of machinery is not a low score."""
    spec = EvaluationJobs(lab).spec(job)
    finding = endings.broken_finding(spec, job)
    return Outcome(
        "inconclusive",
        f"Evaluation {job.id} {job.state}: {job.progress.get('reason') or 'no reason was recorded'}.",
        (finding, *endings.failure_findings(spec, job)),
        eval_data(spec, job, None, None),
        (Next("run_eval", endings.retry_call(spec)),),
        facts=Facts(proves=False),
    )
