"""How an attempt at an evaluation ended, and why, as far as that can be seen from outside."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prime_lab_mcp.lab.evals.metering import Usage
from prime_lab_mcp.lab.evals.results import decode, read
from prime_lab_mcp.lab.evals.upstream import UNREACHABLE, shown
from prime_lab_mcp.lab.text import quote

State = Literal["finished", "stopped", "crashed"]

_FRAME = " │╭╮╰╯─"
"""vf-eval draws boxes around its messages about a config."""
_DISK = ("no space left on device", "errno 28", "disk quota exceeded", "database or disk is full", "file too large")
_MEMORY = ("memoryerror", "cannot allocate memory", "errno 12")
_LEAST_DISK = 1024 * 1024
_KINDS = 3


@dataclass(frozen=True, slots=True)
class Ending:
    """`cause` is the code of a finding; the reason says it in words."""

    state: State
    reason: str | None = None
    cause: str | None = None


def of_code(code: int, errors: str, folder: Path, kills_before: int) -> Ending | None:
    """Why `vf-eval` ended with an exit code other than 0; None for 0. `errors` is its standard error."""
    if code == 0:
        return None
    if code == 128 + signal.SIGKILL:
        if memory_kills() > kills_before:
            return Ending("crashed", "the system killed vf-eval because memory ran out", "eval-out-of-memory")
        return Ending("crashed", "vf-eval was killed (signal 9), as a system out of memory does", "eval-killed")
    said = last_words(errors)
    told = f"vf-eval ended with exit code {code}" + (f": {quote(said)}" if said else "")
    return Ending("crashed", told, cause_in(errors, folder))


def cause_in(errors: str, folder: Path) -> str | None:
    """The cause that a program's last words name, or that the disk shows."""
    ends = errors.casefold()[-8000:]
    if any(mark in ends for mark in _DISK) or free(folder) < _LEAST_DISK:
        return "eval-disk-full"
    return "eval-out-of-memory" if any(mark in ends for mark in _MEMORY) else None


def free(folder: Path) -> int:
    """Bytes that are left on the disk of a folder."""
    import shutil

    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return _LEAST_DISK


def unreachable(kind: str, host: str, usage: Usage) -> Ending:
    """The endpoint was given up: `kind` is what upstream.Streak found."""
    failed = usage.streak.kinds.total()
    if kind in UNREACHABLE:
        told = f"the endpoint {host} did not answer {failed} requests in a row ({shown(usage.streak.kinds)})"
    else:
        told = f"the endpoint {host} refused {failed} requests in a row with status {kind}"
    return Ending("stopped", told, CODES[kind])


CODES = {
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
"""Kind of failed request to the code of its finding; other statuses by `code_of`."""


def code_of(kind: str) -> str:
    """The code of the finding for a kind of failed request (metering.Usage.errors)."""
    return CODES.get(kind) or ("eval-endpoint-failing" if kind.startswith("5") else "eval-request-rejected")


def memory_kills() -> int:
    """How often this machine or container has killed a process for want of memory; 0 where it does not say."""
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
    """The most frequent errors of rollouts: `{error, rollouts}`. The text is foreign, cut and quoted."""
    found = Counter(r.error.splitlines()[0][:160] for r in read(results) if r.error and r.error.strip())
    return [{"error": quote(text, 160), "rollouts": n} for text, n in found.most_common(_KINDS)]


def half_written(results: Path) -> int:
    """Lines that broke off when their writer died; their rollouts run again."""
    with results.open("rb") as source:
        return sum(1 for line in source if line.strip() and decode(line.strip()) is None)


def last_words(errors: str) -> str:
    """The end of what a program wrote to standard error, on one line."""
    lines = [line.strip(_FRAME) for line in errors.splitlines()]
    return " | ".join([line for line in lines if line][-4:])[-600:]
