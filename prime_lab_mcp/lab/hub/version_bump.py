"""Raises the version in the user's pyproject.toml for a push, and restores it if nothing was published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.hub.publish import PublishTarget
from prime_lab_mcp.lab.state.manifest import set_version, write_atomic

OUTCOME_UNKNOWN = "push-outcome-unknown"
"""The error code of a push after which the version may be on the Hub."""


@dataclass(slots=True)
class VersionBump:
    """A change of pyproject.toml. `before` and `after` are the file's bytes; None without a change.

    `sending` is True once the push has begun.
    """

    path: Path
    before: bytes | None = None
    after: bytes | None = None
    sending: bool = False

    def undo(self) -> bool:
        """Restore the old bytes, unless the file changed meanwhile. Returns True if they were restored."""
        if self.before is None:
            return False
        with suppress(OSError):
            if self.path.read_bytes() == self.after:
                write_atomic(self.path, self.before.decode("utf-8"))
                return True
        return False


@contextmanager
def bumped_version(path: Path, target: PublishTarget) -> Iterator[VersionBump]:
    """Set the target's version inside the block, and restore the file when the block raises.

    The error message states which version the file has afterwards. After an unknown outcome the new version stays,
    because the next call looks for it on the Hub.
    """
    bump = VersionBump(path)
    if target.bumped_from is not None:
        before = path.read_bytes()
        set_version(path, target.version)
        bump.before, bump.after = before, path.read_bytes()
    try:
        yield bump
    except LabError as error:
        if bump.before is None:
            raise
        if error.code == OUTCOME_UNKNOWN or not bump.undo():
            _add(error, f"pyproject.toml states the raised version {target.version}")
        else:
            _add(error, f"the version in pyproject.toml is {target.bumped_from} again")
        raise
    except BaseException:
        if not bump.sending:
            bump.undo()
        raise


def _add(error: LabError, note: str) -> None:
    error.message = f"{error.message}; {note}"
