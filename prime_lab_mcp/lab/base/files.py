"""Resolves and reads the text files of one environment folder."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote

MAX_FILE_BYTES = 2 * 1024 * 1024
"""Largest file that is read or edited as text, in bytes."""


def resolve_inside(folder: Path, path: str) -> Path:
    """Return the file that a relative path names in the folder, with links followed.

    Raises BadInput (`outside-environment`) for a path that leads outside the folder.
    """
    pure = PurePosixPath(path)
    if "\0" in path or not path.strip() or pure.is_absolute() or ".." in pure.parts or "\\" in path:
        raise _outside_error(path)
    resolved = (folder / path).resolve()
    if not resolved.is_relative_to(folder.resolve()) or resolved == folder.resolve():
        raise _outside_error(path)
    return resolved


def read_text(path: Path) -> str:
    """Read a UTF-8 file without changing its line endings.

    Raises BadInput (`not-text`, `file-too-big`, `unreadable-file`).
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadInput(
                f"{quote(path.name)} is larger than {MAX_FILE_BYTES // 2**20} MiB",
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
        raise _not_text_error(path.name) from None
    if "\0" in text:
        raise _not_text_error(path.name)
    return text


def _outside_error(path: str) -> BadInput:
    return BadInput(
        f"{quote(path)} is outside the environment's folder",
        fix="Give a path relative to the environment's folder, such as README.md.",
        code="outside-environment",
    )


def _not_text_error(name: str) -> BadInput:
    return BadInput(f"{quote(name)} is no UTF-8 text", fix="Only text files can be shown and edited.", code="not-text")
