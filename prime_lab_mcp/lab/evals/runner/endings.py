"""Says why an attempt at an evaluation ended, and makes the findings about its failed requests and rollouts.

The failures here are those of machinery: the endpoint, the disk, the memory, the sandbox, the environment's code. None
of them is a low score.

The relay counts requests, and the results file shows the rollouts. A failed request that succeeded when it was repeated
leaves no failed rollout, so its finding is information.
"""

from __future__ import annotations

import os
import re
import signal
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import Code, recorded_code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next, Severity
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.base.untrusted_files import bounded_lines, open_results
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.relay.metering import UNREACHABLE_KINDS, RelayUsage, error_counts_summary
from prime_lab_mcp.lab.rollouts.reading import decode_line, read_rollouts
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.worker.child.protocol import CONTAINER_ERROR

State = Literal["finished", "stopped", "crashed"]

_FRAME = " │╭╮╰╯─"
"""Characters of the boxes that `vf-eval` draws around its messages about a config."""
_DISK = ("no space left on device", "errno 28", "disk quota exceeded", "database or disk is full", "file too large")
_MEMORY = ("memoryerror", "cannot allocate memory", "errno 12")
_LEAST_DISK = 1024 * 1024
"""Free bytes below which the disk counts as full."""
_MOST_EXAMPLES = 3
"""Most errors of rollouts, or refused accesses, that a report shows."""
_MOST_REFUSAL_BYTES = 16 * 1024
_REFUSED = re.compile(r"PermissionError|\[Errno 1\] Operation not permitted|\[Errno 13\] Permission denied")
"""Matches the text of an exception when the kernel refuses a file, a connection or a signal (EPERM, EACCES)."""


@dataclass(frozen=True, slots=True)
class AttemptEnding:
    """How an attempt ended. `reason` explains it in words, and `cause` is the code of the finding about it."""

    state: State
    reason: str | None = None
    cause: str | None = None


def ending_of_exit(code: int, errors: str, folder: Path, kills_before: int) -> AttemptEnding | None:
    """Return why `vf-eval` ended with a nonzero exit code, or None for 0.

    `errors` is its standard error, and `folder` is on the disk that it writes to. `kills_before` is the value of
    `memory_kills()` before it started.
    """
    if code == 0:
        return None
    if code == 128 + signal.SIGKILL:
        if memory_kills() > kills_before:
            return AttemptEnding("crashed", "the system killed vf-eval because memory ran out", "eval-out-of-memory")
        return AttemptEnding("crashed", "vf-eval was killed (signal 9), as a system out of memory does", "eval-killed")
    last_lines = last_error_lines(errors)
    reason = f"vf-eval ended with exit code {code}" + (f": {quote(last_lines)}" if last_lines else "")
    return AttemptEnding("crashed", reason, cause_of_errors(errors, folder))


def cause_of_errors(errors: str, folder: Path) -> str | None:
    """Return the code of the finding about the cause that standard error or a full disk shows; None if unknown."""
    tail = errors.casefold()[-8000:]
    if any(mark in tail for mark in _DISK) or free_bytes(folder) < _LEAST_DISK:
        return "eval-disk-full"
    if any(mark in tail for mark in _MEMORY):
        return "eval-out-of-memory"
    return "confined" if _REFUSED.search(errors[-8000:]) else None


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder. If they cannot be read, the disk counts as not full."""
    import shutil

    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return _LEAST_DISK


def endpoint_lost_ending(kind: str, host: str, usage: RelayUsage, *, rehearsal: bool = False) -> AttemptEnding:
    """Return the ending of an attempt that stopped because the endpoint failed again and again.

    `kind` is the value of RelayUsage.given_up, which names the kind of failure. `rehearsal` says that the endpoint is
    the rehearsal platform, which ends with the server that started it.
    """
    failed = usage.streak.kinds.total()
    if rehearsal and kind in UNREACHABLE_KINDS:
        reason = (
            f"the rehearsal platform ended with the server that started it ({count(failed, 'request')} without an "
            "answer); a server in rehearsal has one again"
        )
    elif kind == "timeout":
        reason = f"the endpoint {host} answered nothing for {usage.silent:.0f} seconds, not even which models it has"
    elif kind in UNREACHABLE_KINDS:
        errors = error_counts_summary(usage.streak.kinds)
        reason = f"the endpoint {host} did not answer {failed} requests in a row ({errors})"
    else:
        reason = f"the endpoint {host} refused {failed} requests in a row with status {kind}"
    return AttemptEnding("stopped", reason, REQUEST_ERROR_CODES[kind])


REQUEST_ERROR_CODES: Mapping[str, Code] = {
    "connect": "eval-endpoint-dead",
    "dns": "eval-endpoint-dead",
    "timeout": "eval-timeouts",
    "context": "eval-context-exceeded",
    "429": "eval-rate-limited",
    "401": "eval-key-refused",
    "403": "eval-key-refused",
    "402": "eval-payment-required",
    "404": "eval-model-not-served",
    "408": "eval-timeouts",
    "504": "eval-timeouts",
}
"""Code of the finding by kind of failed request. `code_of_request_error` covers all other status codes."""


def code_of_request_error(kind: str) -> Code:
    """Return the code of the finding about a kind of failed request (RelayUsage.errors)."""
    return REQUEST_ERROR_CODES.get(kind) or (
        "eval-endpoint-failing" if kind.startswith("5") else "eval-request-rejected"
    )


def memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory in this container or on this machine.

    The result is 0 if the kernel does not report the number.
    """
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.strip().isdigit():
                return int(value)
    return 0


def rollout_errors(results: Path) -> list[dict[str, object]]:
    """Return the most frequent errors of rollouts with their numbers: `{error, rollouts}`.

    The text comes from the environment, so it is cut and quoted.
    """
    counts = Counter(r.error.splitlines()[0][:160] for r in read_rollouts(results) if r.error and r.error.strip())
    return [{"error": quote(text, 160), "rollouts": n} for text, n in counts.most_common(_MOST_EXAMPLES)]


def refusals(notes: Path) -> list[str]:
    """Return the accesses that the kernel refused to the environment's code.

    The process of that code writes the file `notes`, so its lines are cut and quoted.
    """
    try:
        # The environment's code can replace the file, for example by a link to a file that it may not read itself.
        descriptor = os.open(notes, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as source:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            lines = source.read(_MOST_REFUSAL_BYTES).decode("utf-8", "replace").splitlines() if regular else []
    except OSError:
        return []
    return [quote(line, 160) for line in dict.fromkeys(lines) if line.strip()][:_MOST_EXAMPLES]


def half_written_lines(results: Path) -> int:
    """Return the number of incomplete lines in a results file, whose writer died. Their rollouts run again."""
    with open_results(results) as source:
        lines = bounded_lines(source, results.name)
        return sum(1 for line in lines if line.strip() and decode_line(line.strip()) is None)


def last_error_lines(errors: str) -> str:
    """Return the last four lines that a program wrote to standard error, joined into one line."""
    lines = [line.strip(_FRAME) for line in errors.splitlines()]
    return " | ".join([line for line in lines if line][-4:])[-600:]


_MESSAGES: Mapping[Code, str] = {
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


def _fixes(fewer: int) -> Mapping[Code, str]:
    """The fix of each finding on failed requests and rollouts. `fewer` is a concurrency that spares the endpoint."""
    less = NamedCall("run_eval").changed(concurrency=fewer)
    again = NamedCall("run_eval")
    return {
        "eval-endpoint-dead": Fix(
            "Start the model server or correct the endpoint (", NamedCall("preflight"), " says which ones answer)."
        ),
        "eval-timeouts": Fix("Call ", less, " or a lower max_tokens."),
        "eval-rate-limited": Fix("Call ", less, "."),
        "eval-endpoint-failing": Fix(
            "Wait until the provider has recovered, or look at the model server's log; ",
            SameCall(concurrency=fewer),
            " helps one that is overloaded.",
        ),
        "eval-key-refused": "Ask the user to correct the key, then call again.",
        "eval-payment-required": "Ask the user to top up the account, or use another endpoint.",
        "eval-model-not-served": Fix(
            "Name a model that it serves; ", NamedCall("search_hub", kind="model"), " lists those of prime."
        ),
        "eval-context-exceeded": "Lower max_tokens, serve the model with a longer context, or drop the longest "
        "prompts.",
        "eval-request-rejected": "Read the endpoint's words in last_error: it does not take a parameter or message of "
        "this evaluation.",
        "eval-rollouts-raise": Fix(
            "Read them with ",
            NamedCall("read_eval", view="rollouts"),
            ", then mend the environment (",
            NamedCall("check_environment"),
            ", ",
            NamedCall("test_reward"),
            ").",
        ),
        "eval-capped": "Ask for fewer examples or a lower max_tokens, or have the user raise --max-spend.",
        "eval-disk-full": Fix(
            "Free space on the disk of the state directory (", NamedCall("preflight"), " shows what is left)."
        ),
        "eval-out-of-memory": Fix("Call ", less, ", or free memory."),
        "eval-killed": Fix("Call ", less, " if memory ran out; else see who killed it."),
        "eval-deadline": Fix("Call ", again, " again; a higher concurrency makes it faster, if the endpoint bears it."),
        "confined": "Let the environment read its own files or a dataset and write where Python's tempfile says; "
        "what it must reach beyond that cannot be evaluated here (docs/security.md).",
        "eval-needs-sandbox": Fix(
            "If the message names an image, the user tries `podman pull IMAGE` in a shell, and the environment names "
            "another one if there is none. A harness installs its program in each container with uv or pip, from the "
            "package index. Otherwise the user mends Podman, or you call ",
            less,
            ". Failed rollouts run again, finished ones do not.",
        ),
        "eval-incomplete": Fix(
            "Call ",
            again,
            " again for what is missing; if that repeats, call ",
            NamedCall("check_environment"),
            ".",
        ),
        "eval-busy": Fix("Call ", again, " again in half a minute."),
    }


FAILURE_CODES = frozenset(_fixes(1))
"""Codes of the findings that explain failed rollouts or a failed evaluation."""
_DEFAULT_FIX = Fix(
    "Mend the cause if the message names one (", NamedCall("check_environment"), ", ", NamedCall("preflight"), ")."
)


def broken_finding(spec: EvalSpec, job: Job) -> Finding:
    """Return the finding on why a job crashed or was stopped."""
    cause = job.progress.get("cause")
    code: Code = "eval-stopped" if job.state == "stopped" else "eval-crashed"
    if cause:
        code = recorded_code(str(cause))
    reason = str(job.progress.get("reason") or "no reason was recorded")
    retry = retry_call(spec)
    fix = retry if code == "eval-stopped" else Fix(_fix(code, spec), " ", retry)
    message = f"the evaluation {job.id} did not finish: {reason}"
    return Finding(code, "blocker", message, fix)


def retry_call(spec: EvalSpec) -> str:
    """Return a sentence on what another call of run_eval with the same arguments does."""
    if spec.resumes:
        return Fix("The same ", NamedCall("run_eval"), " call resumes it without repeating finished rollouts.")
    return Fix("The same ", NamedCall("run_eval"), f" call starts it anew: verifiers {spec.verifiers} cannot resume.")


def resuming_call(spec: EvalSpec, job: Job) -> Next | None:
    """Return the call that makes the missing rollouts of a job that broke off; None if no call does.

    The call has the arguments of the job, because only the same evaluation goes on where it ended.
    """
    from prime_lab_mcp.lab.evals.plan import run_eval_arguments

    completed, planned = int(job.progress.get("completed") or 0), int(job.progress.get("planned") or spec.planned)
    whole = completed >= planned or spec.rescored is not None or spec.hosted is not None
    if job.state not in ("stopped", "crashed") or whole or not spec.resumes:
        return None
    why = f"goes on with {job.id}: {completed} of {planned} rollouts are finished and are not repeated"
    return Next("run_eval", why, run_eval_arguments(spec))


def failure_findings(spec: EvalSpec, job: Job) -> tuple[Finding, ...]:
    """Return the findings on failed requests, failed rollouts and refused accesses of a job."""
    return (
        *_request_findings(spec, job),
        *refusal_findings(spec, job),
        *container_findings(spec, job),
        *_rollout_findings(spec, job),
        *_rate_limit_findings(spec, job),
        *_silence_findings(spec, job),
        *_half_written_findings(job),
    )


def _by_code(progress: Mapping[str, Any]) -> dict[Code, Counter[str]]:
    counts: dict[Code, Counter[str]] = {}
    for kind, number in (progress.get("request_errors") or {}).items():
        counts.setdefault(code_of_request_error(str(kind)), Counter())[str(kind)] += int(number)
    if progress.get("capped"):
        counts["eval-capped"] = Counter({"refused": int(progress["capped"])})
    return counts


def _request_findings(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    by_code = _by_code(job.progress)
    total = sum(kinds.total() for kinds in by_code.values())
    # Another finding already has this code.
    reported_code = "eval-capped" if job.state == "finished" else job.progress.get("cause")
    for code, kinds in sorted(by_code.items(), key=lambda item: -item[1].total()):
        if code == reported_code:
            continue
        share = kinds.total() / total
        requests = int(job.progress.get("requests") or 0)
        cause = _message(code, spec) if code in _MESSAGES else "the relay refused requests beyond this evaluation's cap"
        message = (
            f"{cause}: {kinds.total()} of {count(requests, 'request')} failed so ({error_counts_summary(kinds)}), "
            f"{share:.0%} of all that failed"
        )
        yield Finding(code, _severity(job), message, _fix(code, spec))


def refusal_findings(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    """Yield a finding if the kernel refused an access to the environment's code, so that rollouts may be wrong."""
    notes = [str(text) for text in job.progress.get("refused") or ()]
    failed = [row for row in job.progress.get("rollout_errors") or () if _REFUSED.search(str(row.get("error")))]
    if spec.hosted is not None or not (notes or failed):
        return
    refusals_text = ", ".join(notes) or str(failed[0]["error"])
    broken = sum(int(str(row["rollouts"])) for row in failed)
    effect = f"{count(broken, 'rollout')} failed for that" if broken else "its rewards may be wrong for that"
    yield Finding(
        "confined",
        "warning",
        f"the environment's code was refused what it needs ({refusals_text}); {effect}, which proves nothing about it",
        _fix("confined", spec),
    )


def container_findings(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    """Yield findings on containers that could not be started, and on commands that the broker refused.

    Rollouts that failed for that say nothing about the environment.
    """
    report = job.progress.get("containers") or {}
    rows = [r for r in job.progress.get("rollout_errors") or () if _is_of_containers(spec, r)]
    broken = sum(int(str(r["rollouts"])) for r in rows)
    effect = f"{count(broken, 'rollout')} failed for that, which proves nothing about the environment"
    failed, refused = report.get("failed") or {}, report.get("refused") or {}
    if broken and (failed or not refused):
        what = quote(max(failed, key=failed.__getitem__), 400) if failed else str(rows[0]["error"])
        message = f"containers of Podman failed ({what}); {effect}"
        yield Finding("eval-needs-sandbox", "warning", message, _fix("eval-needs-sandbox", spec))
    if broken and refused:
        what = ", ".join(quote(reason, 160) for reason in list(refused)[:_MOST_EXAMPLES])
        message = f"the environment's code was refused containers ({what}); {effect}"
        fix = Fix(
            "Confined code gets the containers that verifiers asks for, without graphics cards, folders and further "
            "rights (docs/security.md). What the environment must have beyond that cannot be evaluated here; if there "
            "were too many containers, call ",
            NamedCall("run_eval").changed(concurrency=max(1, spec.concurrency // 4)),
            ".",
        )
        yield Finding("confined", "warning", message, fix)


_NO_HARNESS = "failed to prepare uv script"
"""In an error of verifiers: the harness installs its program in the container, from the package index."""


def _is_of_containers(spec: EvalSpec, row: Mapping[str, object]) -> bool:
    error = str(row.get("error"))
    return spec.uses_podman and (CONTAINER_ERROR.search(error) is not None or _NO_HARNESS in error)


def _rollout_findings(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    """Yield a finding on rollouts that failed although no request failed, so that the environment is the cause."""
    failed = int(job.progress.get("errors") or 0)
    if not failed or _by_code(job.progress):
        return
    errors = job.progress.get("rollout_errors") or ()
    rows = tuple(r for r in errors if not _REFUSED.search(str(r.get("error"))) and not _is_of_containers(spec, r))
    if not rows and errors:
        return  # the findings on refused accesses and containers cover them
    most = f", most often with {rows[0]['error']}" if rows else ""
    completed = int(job.progress.get("completed") or failed)
    yield Finding(
        "eval-rollouts-raise",
        "warning",
        f"{failed} of {count(completed, 'rollout')} failed although the endpoint answered every request{most}",
        _fix("eval-rollouts-raise", spec),
        rows=rows,
    )


def _rate_limit_findings(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    times = int(job.progress.get("rate_limited") or 0)
    if times and "429" not in (job.progress.get("request_errors") or {}):
        seconds = float(job.progress.get("waited_seconds") or 0.0)
        yield Finding(
            "eval-rate-limited",
            "info",
            f"the endpoint {spec.endpoint.host} asked {count(times, 'time')} to come later; that was waited out "
            f"({seconds:.0f} seconds of all requests together)",
            _fix("eval-rate-limited", spec),
        )


def _silence_findings(spec: EvalSpec, job: Job) -> Iterator[Finding]:
    seconds = int(job.progress.get("silent_seconds") or 0)
    if seconds and job.state in ("starting", "running"):
        yield Finding(
            "eval-timeouts",
            "warning",
            f"the endpoint {spec.endpoint.host} has answered nothing for {seconds} seconds, nor its list of models",
            "See whether the model server hangs. Restart it: control_run with stop ends this evaluation, and the same "
            "run_eval call resumes it.",
        )


def _half_written_findings(job: Job) -> Iterator[Finding]:
    lines = int(job.progress.get("half_written") or 0)
    if lines:
        yield Finding(
            "eval-half-written",
            "info",
            f"the attempt before broke off while it wrote: {count(lines, 'half-written line')} dropped, played again",
            "Nothing to do.",
        )


def _severity(job: Job) -> Severity:
    """Return the severity of failed requests: a warning only if a rollout failed, or may still fail."""
    return "warning" if job.progress.get("errors") or job.state != "finished" else "info"


def _message(code: Code, spec: EvalSpec) -> str:
    return _MESSAGES[code].format(host=spec.endpoint.host, variable=spec.endpoint.key_variable or "no variable")


def _fix(code: Code, spec: EvalSpec) -> str:
    return _fixes(max(1, spec.concurrency // 4)).get(code, _DEFAULT_FIX)
