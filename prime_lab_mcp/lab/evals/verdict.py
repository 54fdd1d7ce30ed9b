"""The verdict on a finished evaluation: judged from its raw results and its sampling.

This server keeps the last judged distributions in memory under the sha256 of their results. They are in no file, so
that no other process can change them.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Verdict
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath
from prime_lab_mcp.lab.distribution.floor import sampled_golds
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.evidence_limits import evidence_limits
from prime_lab_mcp.lab.evals.provenance import origin_differences, origin_of_results
from prime_lab_mcp.lab.evals.runner import endings
from prime_lab_mcp.lab.evals.runner.attempt import file_sha256
from prime_lab_mcp.lab.evals.runner.command import JobFiles
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.zeros.paid_parts import LackedParts
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.conversation import last_reply
from prime_lab_mcp.lab.rollouts.reading import read_first_rollouts, read_rollouts, read_scores
from prime_lab_mcp.lab.rollouts.rollout import Reading
from prime_lab_mcp.lab.state.ledger.rows import Job

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
    " with the whole right reply as rendering (GOLD and every {FIELD} that is paid): where the prompts ask for that "
    "form, the stand-in then writes it. If its replies are right as they are, mend the reward; if the prompts do not "
    "ask for what is paid, ask for it there.",
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
    from prime_lab_mcp.lab.evals.easier import pays_answers_alone

    # No policy that ignores the question gives labels where a label alone is not paid.
    labels = pays_answers_alone(lab, spec.source, spec.env_args)
    frequent = spec.frequent if labels else None
    key = (sha256, group_size, available, spec.max_tokens, weights, frequent, labels, spec.uses_podman)
    remembered = None if anew else memory.get(key)
    if remembered is not None:
        return remembered
    reading = Reading()
    golds = sampled_golds(read_first_rollouts(results)) if labels else None
    distribution = judge_rollouts(
        read_scores(results, reading),
        group_size=group_size,
        weights=spec.weights,
        golds=golds,
        frequent=frequent,
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
