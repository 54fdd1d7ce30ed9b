"""Errors for operations that could not be carried out, one class for each part of the system.

A flaw in the user's material is a `Finding`, and a reward of 0 is a result; neither is an error. The call path
(server/call.py) turns a `LabError` into a report of status `error`. The agent reads the message and the fix, so
they contain no secret and quote foreign text (lab/base/text.py).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import quote

UNDECIDED: frozenset[Code] = frozenset({"confined", "data-unreachable", "python-missing", "wheel-not-checked"})
"""Codes for steps that this machine could not carry out. They prove nothing about the user's environment, so a verdict
that rests on them alone is inconclusive. The code may come from an error or from a finding."""

PASSING: frozenset[Code] = frozenset(
    {
        "config-not-validated",
        "config-registry-busy",
        "disk-full",
        "edited-meanwhile",
        "eval-not-stopping",
        "hosted-outcome-unknown",
        "hosted-samples-incomplete",
        "intent-changed",
        "platform-slow",
        "platform-unreachable",
        "push-in-flight",
        "push-outcome-unknown",
        "restart-in-flight",
        "restart-outcome-unknown",
        "resume-in-flight",
        "resume-outcome-unknown",
        "snapshot-changed",
        "submit-in-flight",
        "submit-outcome-unknown",
        "upload-outcome-unknown",
    }
)
"""Codes of errors that may not occur again: the same call can succeed later, or after another answer to its
question."""

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers (errno) for a full disk and for a full quota."""

_UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class LabError(Exception):
    """An operation could not be carried out.

    `fix` says what to do next. `code` is a stable finding code. `where` names the file, row or argument at fault, and
    `next` holds the calls that the report recommends.
    """

    default_code: Code = "lab-error"

    def __init__(
        self,
        message: str,
        *,
        fix: str,
        code: Code | None = None,
        where: str | None = None,
        next: tuple[Next, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.code: Code = code or self.default_code
        self.where = where
        self.next = next

    def as_finding(self) -> Finding:
        """Return the error as a finding of severity `blocker`."""
        return Finding(self.code, "blocker", self.message, self.fix, self.where)


class BadInput(LabError):
    """An argument or a file of the user cannot be used."""

    default_code: Code = "bad-input"


class ProcessError(LabError):
    """A program could not be started, or was stopped because of its time or output limit."""

    default_code: Code = "process-failed"


class InterpreterError(LabError):
    """No Python environment could be found or built for a package."""

    default_code: Code = "interpreter-unavailable"


class WorkerError(LabError):
    """The child process that runs environment code crashed, timed out or sent an invalid answer."""

    default_code: Code = "worker-failed"


class PrimeError(LabError):
    """The `prime` program failed, or the platform refused a request or could not be reached."""

    default_code: Code = "prime-failed"


class EvalError(LabError):
    """An evaluation job could not be started, read or stopped."""

    default_code: Code = "eval-failed"


class BudgetError(LabError):
    """No option fits the budget. `least` is the smallest budget, in US dollars, that fits an option.

    `ways` are changes of the call's arguments with which the budget fits; None leaves an argument out.
    """

    default_code: Code = "budget-too-small"

    def __init__(
        self,
        message: str,
        *,
        fix: str,
        least: float,
        ways: Sequence[Mapping[str, Any]] = (),
        next: tuple[Next, ...] = (),
    ) -> None:
        super().__init__(message, fix=fix, next=next)
        self.least = least
        self.ways = ways


class LedgerError(LabError):
    """The ledger could not be read or written."""

    default_code: Code = "ledger-failed"


def file_error(error: OSError, workspace: Path, state_dir: Path) -> LabError | None:
    """Return the error for a full disk or an unwritable file of the workspace; None for any other failure."""
    return _disk_full_error(state_dir) if error.errno in DISK_FULL else _unwritable_error(error, workspace)


def _unwritable_error(error: OSError, workspace: Path) -> LabError | None:
    if error.errno not in _UNWRITABLE or not isinstance(error.filename, str):
        return None
    if not Path(error.filename).is_relative_to(workspace):
        return None
    return LabError(
        f"{quote(error.filename)} cannot be used: {error.strerror}",
        fix=f"Give the user of the server (uid {os.getuid()}) the right to write in {workspace}; start a container "
        "with --user and the numbers of the project's owner. Then call again.",
        code="unwritable-file",
    )


def _disk_full_error(folder: Path) -> LabError:
    return LabError(
        "the disk is full",
        fix=f"Free some space where {folder} is, or start the server with --state-dir on another disk, and call again.",
        code="disk-full",
    )
