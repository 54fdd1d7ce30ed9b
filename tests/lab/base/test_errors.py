"""Which failures of files are told as what a person can mend."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BudgetError, file_error

WORKSPACE, STATE = Path("/work"), Path("/state")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left"), "disk-full"),
        (OSError(errno.EDQUOT, "Quota exceeded"), "disk-full"),
        (PermissionError(errno.EACCES, "Permission denied", "/work/a.py"), "unwritable-file"),
        (OSError(errno.EROFS, "Read-only", "/work/a.py"), "unwritable-file"),
        (PermissionError(errno.EACCES, "Permission denied", "/elsewhere/a.py"), None),
        (PermissionError(errno.EACCES, "Permission denied"), None),
        (FileNotFoundError(errno.ENOENT, "No such file", "/work/a.py"), None),
    ],
    ids=["full", "quota", "permission", "read-only", "elsewhere", "no file", "missing"],
)
def test_a_full_disk_and_a_workspace_that_may_not_be_written_are_no_bugs(error: OSError, code: str | None) -> None:
    told = file_error(error, WORKSPACE, STATE)
    assert (told.code if told else None) == code


def test_a_budget_that_fits_nothing_says_the_least_that_does() -> None:
    assert BudgetError("too small", fix="Raise it.", least=2.5).least == 2.5
