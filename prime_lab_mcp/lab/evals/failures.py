"""What went wrong in an evaluation, by cause: as findings of a job that runs, broke off or finished.

Counts are the relay's (requests) and the results file's (rollouts). A request that was repeated with success leaves no
failed rollout: it is told as information.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.evals.ending import code_of
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.upstream import shown
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.text import count

_SAID = {
    "eval-endpoint-dead": "the endpoint {host} could not be reached",
    "eval-timeouts": "the endpoint {host} did not answer in time",
    "eval-rate-limited": "the endpoint {host} limits the rate of requests",
    "eval-endpoint-failing": "the endpoint {host} failed with errors of its own",
    "eval-key-refused": "the endpoint {host} refused the key from {variable}",
    "eval-payment-required": "the endpoint {host} asks for payment",
    "eval-model-not-served": "the endpoint {host} does not serve the model that was asked for",
    "eval-context-exceeded": "prompt and max_tokens exceed the context of the model",
    "eval-request-rejected": "the endpoint {host} rejected requests as invalid",
}
_FIX = {
    "eval-endpoint-dead": "Start the model server or correct the endpoint (preflight says which ones answer).",
    "eval-timeouts": "Call run_eval with concurrency={fewer} or a lower max_tokens.",
    "eval-rate-limited": "Call run_eval with concurrency={fewer}.",
    "eval-endpoint-failing": "Wait until the provider has recovered, or look at the model server's log; "
    "concurrency={fewer} helps one that is overloaded.",
    "eval-key-refused": "Ask the user to correct the key, then call again.",
    "eval-payment-required": "Ask the user to top up the account, or use another endpoint.",
    "eval-model-not-served": 'Name a model that it serves; search_hub(kind="model") lists those of prime.',
    "eval-context-exceeded": "Lower max_tokens, serve the model with a longer context, or drop the longest prompts.",
    "eval-request-rejected": "Read the endpoint's words in last_error: it does not take a parameter or message of this "
    "evaluation.",
    "eval-rollouts-raise": "Read them with read_eval(view=\"rollouts\"), then mend the environment "
    "(check_environment, test_reward).",
    "eval-capped": "Ask for fewer examples or a lower max_tokens, or have the user raise --max-spend.",
    "eval-disk-full": "Free space on the disk of the state directory (preflight shows what is left).",
    "eval-out-of-memory": "Call run_eval with concurrency={fewer}, or free memory.",
    "eval-killed": "Call run_eval with concurrency={fewer} if memory ran out; else see who killed it.",
    "eval-deadline": "Call run_eval again; a higher concurrency makes it faster, if the endpoint bears it.",
    "eval-incomplete": "Call run_eval again for what is missing; if that repeats, call check_environment.",
    "eval-busy": "Call run_eval again in half a minute.",
}  # fmt: skip
CAUSES = frozenset(_FIX)
"""Codes of what makes rollouts or a whole evaluation fail."""
_BROKEN = "Mend the cause if the message names one (check_environment, preflight)."


def broken(spec: EvalSpec, job: Job) -> Finding:
    """Why a job crashed or was stopped: a failure of machinery, never a low score."""
    code = str(job.progress.get("cause") or f"eval-{job.state}")
    reason = str(job.progress.get("reason") or "no reason was recorded")
    fix = "" if code == "eval-stopped" else _fix(code, spec)
    message = f"the evaluation {job.id} did not finish: {reason}"
    return Finding(code, "blocker", message, f"{fix} {again(spec)}".strip())


def again(spec: EvalSpec) -> str:
    """What calling run_eval once more does."""
    if spec.resumes:
        return "The same run_eval call resumes it without repeating finished rollouts."
    return f"The same run_eval call starts it anew: verifiers {spec.verifiers} cannot resume."


def findings(spec: EvalSpec, job: Job) -> tuple[Finding, ...]:
    """What the requests and rollouts of a job met, worst first. Empty where nothing did."""
    return (*_requests(spec, job), *_rollouts(spec, job), *_waited(spec, job), *_lines(job))


def _by_code(progress: Mapping[str, Any]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for kind, number in (progress.get("request_errors") or {}).items():
        found.setdefault(code_of(str(kind)), Counter())[str(kind)] += int(number)
    if progress.get("capped"):
        found["eval-capped"] = Counter({"refused": int(progress["capped"])})
    return found


def _requests(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    by_code = _by_code(job.progress)
    total = sum(kinds.total() for kinds in by_code.values())
    told = "eval-capped" if job.state == "finished" else job.progress.get("cause")  # said elsewhere
    for code, kinds in sorted(by_code.items(), key=lambda item: -item[1].total()):
        if code == told:
            continue
        share = kinds.total() / total
        asked = int(job.progress.get("requests") or 0)
        said = _said(code, spec) if code in _SAID else "the relay refused requests beyond this evaluation's cap"
        message = (
            f"{said}: {kinds.total()} of {count(asked, 'request')} failed so ({shown(kinds)}), {share:.0%} of all that "
            "failed"
        )
        yield Finding(code, _severity(job), message, _fix(code, spec))


def _rollouts(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    """Rollouts that failed although no request did: the environment's own code, its tools or its runtime."""
    failed = int(job.progress.get("errors") or 0)
    if not failed or _by_code(job.progress):
        return
    rows = tuple(job.progress.get("rollout_errors") or ())
    most = f", most often with {rows[0]['error']}" if rows else ""
    done = int(job.progress.get("completed") or failed)
    yield Finding(
        "eval-rollouts-raise", "warning",
        f"{failed} of {count(done, 'rollout')} failed although the endpoint answered every request{most}",
        _fix("eval-rollouts-raise", spec), rows=rows,
    )  # fmt: skip


def _waited(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    times = int(job.progress.get("rate_limited") or 0)
    if times and "429" not in (job.progress.get("request_errors") or {}):
        seconds = float(job.progress.get("waited_seconds") or 0.0)
        yield Finding(
            "eval-rate-limited", "info",
            f"the endpoint {spec.endpoint.host} asked {count(times, 'time')} to come later; that was waited out "
            f"({seconds:.0f} seconds of all requests together)",
            _fix("eval-rate-limited", spec),
        )  # fmt: skip


def _lines(job: Job) -> Iterator[Finding]:
    lines = int(job.progress.get("half_written") or 0)
    if lines:
        yield Finding(
            "eval-half-written", "info",
            f"the attempt before broke off while it wrote: {count(lines, 'half-written line')} dropped, played again",
            "Nothing to do.",
        )  # fmt: skip


def _severity(job: Job) -> Severity:
    """A failed request matters as far as it made a rollout fail, or still may."""
    return "warning" if job.progress.get("errors") or job.state != "finished" else "info"


def _said(code: str, spec: EvalSpec) -> str:
    return _SAID[code].format(host=spec.endpoint.host, variable=spec.endpoint.key_variable or "no variable")


def _fix(code: str, spec: EvalSpec) -> str:
    return _FIX.get(code, _BROKEN).format(fewer=max(1, spec.concurrency // 4))
