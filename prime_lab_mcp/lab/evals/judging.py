"""Judges a finished evaluation by its raw results and by the way they were sampled.

In memory only, and by the sha256 of the bytes: nobody but this process writes what is remembered here.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.distribution import Distribution, golds_of, judge
from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals import failures
from prime_lab_mcp.lab.evals.attempt import file_sha256
from prime_lab_mcp.lab.evals.program import JobFiles
from prime_lab_mcp.lab.evals.results import Reading, differences, origin, scores, tasks
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding, Verdict
from prime_lab_mcp.lab.text import count

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

GROUP_SIZE = 16
TRAINING_TEMPERATURE = 1.0
"""What prime-rl samples with unless told otherwise; the share of usable groups holds for it only."""
_GREEDY = 0.3
_TRAINING: Mapping[str, float] = {"temperature": TRAINING_TEMPERATURE, "top_p": 1.0, "top_k": -1, "min_p": 0.0}
"""What prime-rl samples with in training (facts 3.1). What an evaluation did not send is the server's default."""
_Known = tuple[Distribution, tuple[Finding, ...]]
"""What results gave: their statistics, and what their file is blemished with."""
_MOST_KNOWN = 8
_known: dict[tuple[Any, ...], _Known] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one finished job."""

    status: Verdict
    findings: tuple[Finding, ...]
    distribution: Distribution | None

    @property
    def data(self) -> dict[str, Any]:
        return self.distribution.as_json() if self.distribution is not None else {}


def judge_job(lab: Lab, job: Job, group_size: int = GROUP_SIZE, *, anew: bool = False) -> Judged:
    """Judge the raw results of a finished job, after checking that they are what its supervisor saw.

    What the same bytes gave before is taken from memory, unless they are to be judged `anew`: as for the ledger.
    """
    try:
        spec = lab.evals.spec(job)
        files = lab.evals.files(job.id)
        changed = _changed(files, job)
        if changed is not None:
            return Judged("inconclusive", (changed,), None)
        found = files.results()
        assert found is not None
        distribution, blemishes = _distribution(found, spec, str(job.progress["results_sha256"]), group_size, anew=anew)
    except EvalError as error:
        return Judged("inconclusive", (error.as_finding(),), None)
    return _as_read(_with_facts(spec, job, distribution), (*blemishes, *_as_asked(found, spec)))


def _distribution(results: Path, spec: EvalSpec, sha256: str, group_size: int, *, anew: bool) -> _Known:
    key = (sha256, group_size, tuple(sorted((spec.weights or {}).items())))
    with _lock:
        known = None if anew else _known.get(key)
    if known is not None:
        return known
    reading = Reading()
    golds = golds_of(tasks(results))
    distribution = judge(scores(results, reading), group_size=group_size, weights=spec.weights, golds=golds)
    with _lock:
        _known[key] = distribution, reading.findings()
        while len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]
        return _known[key]


def _as_asked(results: Path, spec: EvalSpec) -> tuple[Finding, ...]:
    """Whether the results say of themselves what the evaluation asked for. The platform's samples do not tell."""
    told = differences(origin(results), spec) if spec.hosted is None else []
    if not told:
        return ()
    others = any(line.startswith(("environment ", "model ")) for line in told)
    return (
        Finding(
            "results-not-as-asked", "blocker" if others else "warning",
            f"the results say other than this evaluation asked for: {'; '.join(told)}",
            "Call check_environment: the environment may set its own model, sampling or harness; then run_eval again.",
        ),
    )  # fmt: skip


def _as_read(judged: Judged, blemishes: Sequence[Finding]) -> Judged:
    """The verdict with what its file is blemished with; rows that others made leave nothing decided."""
    decided = judged.status if not any(f.severity == "blocker" for f in blemishes) else "inconclusive"
    return dataclasses.replace(judged, status=decided, findings=(*judged.findings, *blemishes))


def _changed(files: JobFiles, job: Job) -> Finding | None:
    found, expected = files.results(), job.progress.get("results_sha256")
    if found is None or expected is None:
        return Finding(
            "eval-results-missing", "blocker", "the results of this evaluation are gone", "Run run_eval again."
        )
    if file_sha256(found) != expected:
        return Finding(
            "eval-results-changed", "blocker", "the results of this evaluation were changed after it ended",
            "Run run_eval again.",
        )  # fmt: skip
    return None


def _with_facts(spec: EvalSpec, job: Job, distribution: Distribution) -> Judged:
    """The distribution's verdict, with what the way it was sampled takes away from it."""
    findings = [*distribution.findings, *failures.findings(spec, job)]
    status: Verdict = distribution.status
    if job.progress.get("capped"):
        findings.append(
            Finding(
                "eval-capped", "blocker",
                f"the relay refused {count(int(job.progress['capped']), 'request')} beyond this evaluation's cap",
                "Ask for fewer examples or a lower max_tokens, or have the user raise --max-spend.",
            )
        )  # fmt: skip
        status = "inconclusive" if status == "passed" else status
    for told in job.progress.get("findings") or ():
        findings.append(Finding(**told))
        if told["severity"] == "blocker" and status != "inconclusive":
            status = "inconclusive"
    sampled = other_sampling(spec.sampling)
    if sampled:
        greedy = spec.temperature < _GREEDY and status == "failed"
        findings.append(
            Finding(
                "distribution-other-sampling", "blocker" if greedy else "warning",
                f"sampled {sampled}: the share of usable groups does not carry over",
                "Run run_eval without temperature.",
            )
        )  # fmt: skip
        status = "inconclusive" if greedy else status
    if spec.hosted is not None:
        from prime_lab_mcp.lab.evals.hosted.notes import notes

        status = "inconclusive" if (told := notes(spec, job)) and told[0].severity == "blocker" else status
        findings += told
    if spec.order == "file":
        findings.append(
            Finding(
                "eval-file-order", "info", f"verifiers {spec.verifiers} takes tasks in file order, not a random sample",
                "Shuffle the data in the environment if its order means something.",
            )
        )  # fmt: skip
    return Judged(status, tuple(findings), distribution)


def other_sampling(sampling: Mapping[str, Any]) -> str | None:
    """In what way something was sampled otherwise than training will, in words; None where it was not."""
    told = [
        f"at {name} {float(value):g}, while training samples at {trained:g}"
        for name, trained in _TRAINING.items()
        if isinstance(value := sampling.get(name), int | float) and value != trained
    ]
    return "; ".join(told) or None
