"""Failures of machinery, named by the boundary that was crossed.

A flaw in what the user made is a `Finding`; a reward that scores 0 is a result. What could not be carried out at
all raises a `LabError`, which the call path (server/call.py) turns into a report of status `error`. Its message and
fix reach the agent, so they hold no secret and quote foreign text (lab/text.py).
"""

from __future__ import annotations

from prime_lab_mcp.lab.report import Finding, Next


class LabError(Exception):
    """Something could not be done. `fix` says what to do next; `code` is stable and kebab-case."""

    default_code = "lab-error"

    def __init__(
        self,
        message: str,
        *,
        fix: str,
        code: str | None = None,
        where: str | None = None,
        next: tuple[Next, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.code = code or self.default_code
        self.where = where
        self.next = next

    def as_finding(self) -> Finding:
        return Finding(self.code, "blocker", self.message, self.fix, self.where)


class BadInput(LabError):
    """An argument or a file of the user's cannot be used as it is."""

    default_code = "bad-input"


class ProcessError(LabError):
    """A program could not be started, or did not end as it should."""

    default_code = "process-failed"


class InterpreterError(LabError):
    """No Python environment could be found or built for a package."""

    default_code = "interpreter-unavailable"


class WorkerError(LabError):
    """The child process that runs environment code broke, hung or answered nonsense."""

    default_code = "worker-failed"


class PrimeError(LabError):
    """The `prime` program or the platform behind it refused or could not be reached."""

    default_code = "prime-failed"


class EvalError(LabError):
    """An evaluation job could not be started, read or stopped."""

    default_code = "eval-failed"


class LedgerError(LabError):
    """The record of evidence could not be read or written."""

    default_code = "ledger-failed"
