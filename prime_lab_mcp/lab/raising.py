"""The version in the user's pyproject.toml, raised for a push and put back where nothing was published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.manifest import set_version, write_atomic
from prime_lab_mcp.lab.publish import Target

OPEN = "push-outcome-unknown"
"""Ends of a push after which the version may be on the Hub."""


@dataclass(slots=True)
class Raised:
    """`before` and `after` are the bytes of the file; None: nothing was changed. `sending`: a push has begun."""

    path: Path
    before: bytes | None = None
    after: bytes | None = None
    sending: bool = False

    def undo(self) -> bool:
        """Put the old bytes back, unless somebody wrote the file meanwhile. True where they are back."""
        if self.before is None:
            return False
        with suppress(OSError):
            if self.path.read_bytes() == self.after:
                write_atomic(self.path, self.before.decode("utf-8"))
                return True
        return False


@contextmanager
def raised_version(path: Path, target: Target) -> Iterator[Raised]:
    """The file states the target's version inside the block, and after it unless the block raises.

    An error says what became of the version. After an open outcome it stays: the next call looks for it on the Hub.
    """
    raised = Raised(path)
    if target.bumped_from is not None:
        before = path.read_bytes()
        set_version(path, target.version)
        raised.before, raised.after = before, path.read_bytes()
    try:
        yield raised
    except LabError as error:
        if raised.before is None:
            raise
        if error.code == OPEN or not raised.undo():
            _add(error, f"pyproject.toml states the raised version {target.version}")
        else:
            _add(error, f"the version in pyproject.toml is {target.bumped_from} again")
        raise
    except BaseException:
        if not raised.sending:
            raised.undo()
        raise


def _add(error: LabError, said: str) -> None:
    error.message = f"{error.message}; {said}"
