"""Faults of environment code: errors of the process that runs it, and problems of a scored case.

Errors are a timeout, an exit, too much output, memory, or an exception. Problems are failures of the scoring, and side
actions such as writing files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from prime_lab_mcp.lab.base.errors import LabError, WorkerError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.worker.zygote import Ended


class ProblemCode(StrEnum):
    """A failure while a case was scored, or a side action of the scoring."""

    NONFINITE = "nonfinite"
    """A reward or metric is NaN or infinite."""
    NOT_A_FLOAT = "not-a-float"
    """A reward returned no number. The detail is the name of the type."""
    SYNC_REWARD = "sync-reward"
    """A reward of v1 is a plain function, which verifiers awaits."""
    SYNC_METRIC = "sync-metric"
    """A metric of v1 is a plain function, which verifiers awaits."""
    SWALLOWED = "swallowed"
    """A reward of v0 raised, and its rubric turned the exception into 0."""
    GROUP_REWARD = "group-reward"
    """A group reward saw this completion without a whole group."""
    NEEDS_CONTAINER = "needs-container"
    """The task needs a container, and was scored in a plain process."""
    NO_SUCH_ROW = "no-such-row"
    """The environment has no task of this index."""
    TASK_CHANGED = "task-changed"
    """The task of this index differs from the one at an earlier load."""
    TIMEOUT = "timeout"
    """The scoring exceeded the time limit of a case."""
    EXITED = "exited"
    """The process ended while it scored the case."""
    FLOOD = "flood"
    """The process wrote too much output."""
    MEMORY = "memory"
    """The process exceeded its memory limit."""
    NONSENSE = "nonsense"
    """The process sent something that is no valid reply."""
    NOT_RUN = "not-run"
    """Earlier cases hung, broke their process or took too long, so this one was left out."""
    UNSTORED = "unstored"
    """A reward read a value of a stored rollout that is not stored. The detail names the value."""
    EVALUATED_OUTPUT = "evaluated-output"
    """Text of the completion was run as Python in the process of the reward."""
    OPENED_NETWORK = "opened-network"
    """Scoring tried to connect to another host and was refused. The detail is the host."""
    WROTE_FILES = "wrote-files"
    """Scoring wrote outside of temporary folders. The detail is the path."""
    REUSED_FILE = "reused-file"
    """Scoring wrote a temporary file that another case had written. The detail is the path."""
    LEFT_PROCESSES = "left-processes"
    """Processes that scoring had started were still running afterwards."""
    CONFINED = "confined"
    """The confinement refused something that the scoring needs; the detail says what. The reward is None."""
    JUDGE_UNREACHABLE = "judge-unreachable"
    """A judge could not be asked. The reward is None, whatever the environment returned."""
    JUDGE_UNREAD = "judge-unread"
    """The reward raised after a judge had answered. The reward is None."""


DEEDS = frozenset(
    {
        ProblemCode.EVALUATED_OUTPUT,
        ProblemCode.OPENED_NETWORK,
        ProblemCode.WROTE_FILES,
        ProblemCode.REUSED_FILE,
        ProblemCode.LEFT_PROCESSES,
    }
)
"""Side actions of scoring (child/side_effects.py), which do not invalidate the reward."""
UNKNOWN_REWARD = frozenset({ProblemCode.JUDGE_UNREACHABLE, ProblemCode.JUDGE_UNREAD, ProblemCode.CONFINED})
"""Problems of a case whose reward is not known, through no fault of the reward."""
JUDGE_FAILED = frozenset({ProblemCode.JUDGE_UNREACHABLE, ProblemCode.JUDGE_UNREAD})
"""Problems of a case whose judge could not be asked or gave no verdict: the case has no reward."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a scored case. `detail` is foreign text: a type, a host, a path."""

    code: ProblemCode
    detail: str = ""

    def __str__(self) -> str:
        """`CODE` or `CODE:DETAIL`, for people."""
        return f"{self.code}:{self.detail}" if self.detail else str(self.code)


NOT_RUN = (Problem(ProblemCode.NOT_RUN),)
"""The problems of a case that was left out."""


SIGKILL = 9
PROBLEMS: dict[str, ProblemCode] = {
    "worker-timeout": ProblemCode.TIMEOUT,
    "worker-exited": ProblemCode.EXITED,
    "worker-flood": ProblemCode.FLOOD,
    "worker-memory": ProblemCode.MEMORY,
    "worker-nonsense": ProblemCode.NONSENSE,
}

_CREDENTIAL = re.compile(r"api_key|_KEY\b|_TOKEN\b|MissingKeyError|GatedRepo|\b401\b", re.I)
_WITHOUT_CREDENTIAL = (
    "Read the credential only when it is used; if loading needs it, a person restarts the server with --allow-env NAME."
)


_UNREACHABLE = frozenset(
    {
        *("ConnectionError", "ConnectError", "ConnectTimeout", "ReadTimeout", "HTTPError", "URLError", "gaierror"),
        *("LocalEntryNotFoundError", "OfflineModeIsEnabled", "SSLError", "MaxRetryError"),
    }
)
"""Exceptions of requests, httpx, urllib, socket and huggingface_hub that say that a host could not be reached."""
_NLTK_DATA = re.compile(r"Resource \W*\w+\W* not found.{0,80}?NLTK", re.S)
"""The text of nltk's LookupError for data that nobody has downloaded (nltk.data.find)."""


GET_THE_DATA = (
    "Call again where the host can be reached, or let a person fetch the data into the cache of this machine; to need "
    "no network, package a small sample of the data and load it by [tool.prime-lab] check_args."
)


class LoadFailed(LabError):
    """The environment's own code raised while it was imported or loaded: a flaw of the environment, unless data or a
    host that the code needs could not be reached (`unreachable`).

    `type`, `reason` and `traceback` are foreign text; the message quotes them.
    """

    default_code = "environment-load-failed"

    def __init__(self, type: str, reason: str, traceback: str, where: str, doing: str = "loading") -> None:
        place = f" at {where}" if where else ""
        secret = _CREDENTIAL.search(f"{type} {reason}")
        self.unreachable = type in _UNREACHABLE or bool(_NLTK_DATA.search(reason))
        """Whether data or a host could not be reached, which proves nothing about the environment."""
        raised = f"the environment's code raised {type}{place} while {doing}: {quote(reason)}"
        fix = GET_THE_DATA if self.unreachable else "Mend the code that raises, then call check_environment."
        super().__init__(
            f"data or a host that {doing} needs could not be reached: {raised}" if self.unreachable else raised,
            fix=_WITHOUT_CREDENTIAL if secret else fix,
            code="data-unreachable" if self.unreachable else None,
            where=where or None,
        )
        self.type = type
        self.reason = reason
        self.lacks_openai_key = type == "OpenAIError" and "OPENAI_API_KEY" in reason
        """Whether the openai library raised because a client (for instance of JudgeRubric) has no key."""
        self.traceback = traceback


def nonsense(what: str, reply: object) -> WorkerError:
    """The error for a reply that is no message of the protocol."""
    return WorkerError(
        f"the process that runs the environment answered nonsense ({what}): {quote(reply)}",
        fix="Keep the environment's code from writing to file descriptors that it did not open.",
        code="worker-nonsense",
    )


def timed_out(doing: str, limit: float, output: str) -> WorkerError:
    tail = f"; its last output: {quote(output[-300:])}" if output.strip() else ""
    return WorkerError(
        f"the environment did not end {doing} within {limit:.3g} seconds and was stopped{tail}",
        fix="Look for a loop, a wait for input or a download in the environment's code; then call check_environment.",
        code="worker-timeout",
    )


def flooded(doing: str, output: str) -> WorkerError:
    tail = f": {quote(output[-100:])}" if output.strip() else ""
    return WorkerError(
        f"the environment wrote far too much output while {doing} and was stopped{tail}",
        fix="Remove what it prints or returns in bulk; then call check_environment.",
        code="worker-flood",
    )


def out_of_memory(doing: str) -> WorkerError:
    return WorkerError(
        f"the environment was out of memory while {doing} (4 GiB more than verifiers itself are allowed)",
        fix="Load the data lazily or in smaller parts; then call check_environment.",
        code="worker-memory",
    )


def confined(doing: str, what: str, where: str) -> WorkerError:
    """The error for code that needs something that its confinement refuses: that proves nothing about the code."""
    place = f" at {where}" if where else ""
    return WorkerError(
        f"the environment's code is not allowed {quote(what)}, which it needs while {doing}{place}",
        fix="Read data from the package's own folder or from a dataset, and write to the folder that Python's tempfile "
        "names; variables that a person allows (--allow-env NAME) still reach it. If it has to reach what is refused, "
        "it cannot be tested here.",
        code="confined",
        where=where or None,
    )


def exited(doing: str, ended: Ended) -> WorkerError:
    how = f"with signal {ended.signal}" if ended.signal is not None else f"with exit code {ended.code}"
    if ended.signal is None and ended.code is None:
        how = "leaving no exit code"
    tail = f"; its last output: {quote(ended.output[-300:])}" if ended.output.strip() else ""
    return WorkerError(
        f"the environment ended its own process while {doing}, {how}{tail}",
        fix="Remove the call that ends the process or the crash in native code; then call check_environment.",
        code="worker-exited",
    )
