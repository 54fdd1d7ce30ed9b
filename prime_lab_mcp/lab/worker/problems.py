"""Problems of a scored case: failures of the scoring, and side actions such as writing files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
"""Side actions of scoring (child/audit.py), which do not invalidate the reward."""
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
