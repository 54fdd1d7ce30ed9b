"""Faults of environment code: errors of the process that runs the code, and problems of a scored case.

The process can exceed a time limit, exit, write too much output, or run out of memory, and the code can raise. Problems
of a case are failures of its scoring, and side actions such as writing files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from prime_lab_mcp.lab.base.errors import LabError, WorkerError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.worker.zygote import Ended


class ProblemCode(StrEnum):
    """A failure while a case was scored, or a side action of the scoring."""

    NONFINITE = "nonfinite"
    """A reward or metric is NaN or infinite."""
    NOT_A_FLOAT = "not-a-float"
    """A reward returned something other than a number. The detail is the name of its type."""
    SYNC_REWARD = "sync-reward"
    """A v1 reward is not an async function, although verifiers awaits its result."""
    SYNC_METRIC = "sync-metric"
    """A v1 metric is not an async function, although verifiers awaits its result."""
    SWALLOWED = "swallowed"
    """A v0 reward raised, and its rubric turned the exception into a reward of 0."""
    GROUP_REWARD = "group-reward"
    """A group reward scored this completion without other completions of its task."""
    UNEQUAL_IN_GROUP = "unequal-in-group"
    """A group reward paid two equal completions of one group differently. The detail has both rewards."""
    NEEDS_CONTAINER = "needs-container"
    """The task needs a container, but it was scored in a subprocess."""
    NO_SUCH_ROW = "no-such-row"
    """The environment has no task with this index."""
    TASK_CHANGED = "task-changed"
    """The task with this index differs from the task with the same index when the environment was loaded earlier."""
    TIMEOUT = "timeout"
    """The scoring exceeded the time limit of a case."""
    EXITED = "exited"
    """The process ended while it scored the case."""
    FLOOD = "flood"
    """The process wrote too much output."""
    MEMORY = "memory"
    """The process exceeded its memory limit."""
    NONSENSE = "nonsense"
    """The process sent an invalid reply."""
    NOT_RUN = "not-run"
    """The case was not scored, because earlier cases hung, ended their process or took too long."""
    UNSTORED = "unstored"
    """A reward read a value that evaluations do not store with a rollout. The detail names the value."""
    EVALUATED_OUTPUT = "evaluated-output"
    """The reward ran text of the completion as Python in its own process."""
    OPENED_NETWORK = "opened-network"
    """Scoring tried to connect to another host and was refused. The detail is the host."""
    WROTE_FILES = "wrote-files"
    """Scoring wrote outside of temporary folders. The detail is the path."""
    REUSED_FILE = "reused-file"
    """Scoring wrote a temporary file that another case had written. The detail is the path."""
    CAUGHT = "caught"
    """A function of a port raised, and the port counted that as 0. The detail is the exception with its line."""
    LEFT_PROCESSES = "left-processes"
    """Processes that scoring started were still running after it."""
    CONFINED = "confined"
    """The confinement refused something that scoring needs. The detail says what. The reward is None."""
    JUDGE_UNREACHABLE = "judge-unreachable"
    """A judge could not be asked. The reward is None, whatever the environment returned."""
    JUDGE_UNREAD = "judge-unread"
    """The reward raised after a judge had answered. The reward is None."""


SIDE_ACTIONS = frozenset(
    {
        ProblemCode.EVALUATED_OUTPUT,
        ProblemCode.OPENED_NETWORK,
        ProblemCode.WROTE_FILES,
        ProblemCode.REUSED_FILE,
        ProblemCode.LEFT_PROCESSES,
        ProblemCode.CAUGHT,
    }
)
"""Side actions of scoring (child/side_effects.py), which do not invalidate the reward."""
UNKNOWN_REWARD = frozenset({ProblemCode.JUDGE_UNREACHABLE, ProblemCode.JUDGE_UNREAD, ProblemCode.CONFINED})
"""Problems that leave the reward of a case unknown, although the reward function is not at fault."""
JUDGE_FAILED = frozenset({ProblemCode.JUDGE_UNREACHABLE, ProblemCode.JUDGE_UNREAD})
"""Problems of a case whose judge could not be asked or whose answer could not be read. The reward is None."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a scored case. `detail` is foreign text: a type, a host, a path."""

    code: ProblemCode
    detail: str = ""

    def __str__(self) -> str:
        """`CODE` or `CODE:DETAIL`, for people."""
        return f"{self.code}:{self.detail}" if self.detail else str(self.code)


NOT_RUN = (Problem(ProblemCode.NOT_RUN),)
"""The problems of a case that was not scored."""


SIGKILL = 9
"""The signal with which Linux ends a process that is out of memory."""
PROBLEMS: dict[str, ProblemCode] = {
    "worker-timeout": ProblemCode.TIMEOUT,
    "worker-exited": ProblemCode.EXITED,
    "worker-flood": ProblemCode.FLOOD,
    "worker-memory": ProblemCode.MEMORY,
    "worker-nonsense": ProblemCode.NONSENSE,
}
"""The problem of a case during which the worker failed with a WorkerError of this code."""

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
"""Exceptions of requests, httpx, urllib, socket and huggingface_hub for a host that could not be reached."""
_NLTK_DATA = re.compile(r"Resource \W*\w+\W* not found.{0,80}?NLTK", re.S)
"""Matches the text of nltk's LookupError for data that is not downloaded (nltk.data.find)."""


GET_THE_DATA = (
    "Call again where the host can be reached, or let a person fetch the data into the cache of this machine; to need "
    "no network, package a small sample of the data and load it by [tool.prime-lab] check_args."
)


class LoadFailed(LabError):
    """The environment's code raised while it was imported or loaded.

    This is a flaw of the environment, unless the code needs data or a host that could not be reached (`unreachable`).
    `type`, `reason` and `traceback` come from the environment, so the message quotes them.
    """

    default_code = "environment-load-failed"

    def __init__(self, type: str, reason: str, traceback: str, where: str, doing: str = "loading") -> None:
        place = f" at {where}" if where else ""
        secret = _CREDENTIAL.search(f"{type} {reason}")
        self.unreachable = type in _UNREACHABLE or bool(_NLTK_DATA.search(reason))
        """Whether data or a host could not be reached. Such a failure says nothing about the environment's quality."""
        raised = f"the environment's code raised {type}{place} while {doing}: {quote(reason)}"
        fix = (
            GET_THE_DATA
            if self.unreachable
            else Fix("Mend the code that raises, then call ", NamedCall("check_environment"), ".")
        )
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
    """Return the error for a reply that is not a valid message of the protocol."""
    return WorkerError(
        f"the process that runs the environment answered nonsense ({what}): {quote(reply)}",
        fix="Keep the environment's code from writing to file descriptors that it did not open.",
        code="worker-nonsense",
    )


def timed_out(doing: str, limit: float, output: str) -> WorkerError:
    tail = f"; its last output: {quote(output[-300:])}" if output.strip() else ""
    return WorkerError(
        f"the environment did not end {doing} within {limit:.3g} seconds and was stopped{tail}",
        fix=Fix(
            "Look for a loop, a wait for input or a download in the environment's code; then call ",
            NamedCall("check_environment"),
            ".",
        ),
        code="worker-timeout",
    )


def flooded(doing: str, output: str) -> WorkerError:
    tail = f": {quote(output[-100:])}" if output.strip() else ""
    return WorkerError(
        f"the environment wrote far too much output while {doing} and was stopped{tail}",
        fix=Fix("Remove the code that prints or returns so much; then call ", NamedCall("check_environment"), "."),
        code="worker-flood",
    )


def out_of_memory(doing: str) -> WorkerError:
    return WorkerError(
        f"the environment was out of memory while {doing} (4 GiB more than verifiers itself are allowed)",
        fix=Fix("Load the data lazily or in smaller parts; then call ", NamedCall("check_environment"), "."),
        code="worker-memory",
    )


def confined(doing: str, what: str, where: str) -> WorkerError:
    """Return the error for code that needs something its confinement refuses. This is not a flaw of the code."""
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
        fix=Fix(
            "Remove the call that ends the process or the crash in native code; then call ",
            NamedCall("check_environment"),
            ".",
        ),
        code="worker-exited",
    )
