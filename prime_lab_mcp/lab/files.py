"""Text files of one environment folder: resolved without leaving it, read and replaced whole."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

MOST = 2 * 1024 * 1024
"""Bytes of a file that is read or edited as text."""


def inside(folder: Path, path: str) -> Path:
    """The file that `path` names in the folder, links followed. Raises BadInput (`outside-environment`)."""
    pure = PurePosixPath(path)
    if "\0" in path or not path.strip() or pure.is_absolute() or ".." in pure.parts or "\\" in path:
        raise _outside(path)
    found = (folder / path).resolve()
    if not found.is_relative_to(folder.resolve()) or found == folder.resolve():
        raise _outside(path)
    return found


def read_text(path: Path) -> str:
    """The file's text, line endings as they are. Raises BadInput (`not-text`, `file-too-big`, `unreadable-file`)."""
    try:
        if path.stat().st_size > MOST:
            raise BadInput(
                f"{quote(path.name)} is larger than {MOST // 2**20} MiB",
                fix="Work on it outside of this tool.",
                code="file-too-big",
            )
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{quote(path.name)} cannot be read: {error.strerror}", fix="Make it readable.", code="unreadable-file"
        ) from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _not_text(path.name) from None
    if "\0" in text:
        raise _not_text(path.name)
    return text


def _outside(path: str) -> BadInput:
    return BadInput(
        f"{quote(path)} is outside the environment's folder",
        fix="Give a path relative to the environment's folder, such as README.md.",
        code="outside-environment",
    )


def _not_text(name: str) -> BadInput:
    return BadInput(f"{quote(name)} is no UTF-8 text", fix="Only text files can be shown and edited.", code="not-text")
