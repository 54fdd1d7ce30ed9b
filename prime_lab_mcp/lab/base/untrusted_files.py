"""Reads and writes files in a folder that untrusted code can write, without following links that the code created.

The kernel confines environment code, but not the server. A symbolic link, a pipe or a hard link in such a folder would
therefore let the code read or write with the server's rights. The functions open every path component relative to a
directory descriptor and without following links. They read only regular files that have exactly one name.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
LARGEST_LINE = 256 << 20
"""Most bytes of a line that is read into memory."""
RESULTS, JOB = "results", "job.json"
"""Name of the folder that the evaluation program writes, and name of the job description beside that folder."""


class PlantedPath(LabError):
    """Untrusted code has put a link or a special file at a path that the server reads or writes."""

    default_code: Code = "planted-path"

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{quote(path, 120)} in a folder that the environment's code writes is {what}",
            fix="Remove the code that makes it; the server neither reads nor writes there.",
        )


def open_below(folder: Path, path: str, *, buffering: int = -1) -> BufferedReader:
    """Open the file `path` below `folder` for reading, without following a symbolic link.

    Raises PlantedPath if the last component of `folder` or any component of `path` is a link, or if the file is not a
    regular file. Raises FileNotFoundError if there is no such file.
    """
    with _parent(folder, path) as (parent, name):
        try:
            # Without O_NONBLOCK, opening a pipe would block the server until another process writes to the pipe.
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except OSError as error:
            raise _planted(path, error) from error
    try:
        _require_regular(path, os.fstat(opened))
        return cast(BufferedReader, os.fdopen(opened, "rb", buffering))
    except BaseException:
        os.close(opened)
        raise


def written_by_code(path: Path) -> Path | None:
    """Return the folder above `path` that evaluation code can write; None if there is none.

    Such a folder is called `RESULTS` and has the job description `JOB` beside it.
    """
    for folder in reversed(path.absolute().parents):
        if folder.name == RESULTS and (folder.parent / JOB).is_file():
            return folder
    return None


def open_results(path: Path, *, buffering: int = -1) -> BufferedReader:
    """Open a results file for reading. Links are not followed in a folder that evaluation code can write.

    Any other file belongs to the user, who may use links. `buffering` is the size of the buffer in bytes; -1 means the
    default. Raises PlantedPath.
    """
    folder = written_by_code(path)
    if folder is None:
        return cast(BufferedReader, open(path, "rb", buffering))
    return open_below(folder, path.absolute().relative_to(folder).as_posix(), buffering=buffering)


def bounded_lines(source: BinaryIO, path: str) -> Iterator[bytes]:
    """Yield the lines of an open file. Raises PlantedPath at a line that is longer than any record.

    A file of blanks or zeros has one line, whose length costs its writer nothing.
    """
    while line := source.readline(LARGEST_LINE + 1):
        if len(line) > LARGEST_LINE:
            raise PlantedPath(path, f"one line of more than {LARGEST_LINE:,} bytes")
        yield line


def read_below(folder: Path, path: str, most: int) -> bytes:
    """Return the content of a file below `folder`. Raises PlantedPath, also if the file exceeds `most` bytes."""
    with open_below(folder, path) as source:
        content = source.read(most + 1)
    if len(content) > most:
        raise PlantedPath(path, f"larger than {most:,} bytes")
    return content


def copy_below(folder: Path, path: str, target: Path, most: int) -> None:
    """Copy a file below `folder` to the new file `target`. Raises PlantedPath, also if the file exceeds `most` bytes.

    Raises FileExistsError if `target` exists.
    """
    with open_below(folder, path) as source, target.open("xb") as sink:
        if os.fstat(source.fileno()).st_size > most:
            raise PlantedPath(path, f"larger than {most:,} bytes")
        copied = 0
        while chunk := source.read(_CHUNK):
            copied += len(chunk)
            if copied > most:
                raise PlantedPath(path, f"larger than {most:,} bytes")
            sink.write(chunk)


def is_file_below(folder: Path, path: str) -> bool:
    """Return True if there is a regular file at this path, False if there is nothing. Raises PlantedPath."""
    try:
        open_below(folder, path).close()
    except FileNotFoundError:
        return False
    return True


def list_below(folder: Path, path: str = ".") -> list[str]:
    """Return the sorted names in the folder `path` below `folder`; empty if there is no such folder.

    Raises PlantedPath.
    """
    try:
        opened = _open_folder(folder, PurePosixPath(path).parts, make=False)
    except FileNotFoundError:
        return []
    try:
        return sorted(os.listdir(opened))
    finally:
        os.close(opened)


def make_below(folder: Path, path: str) -> None:
    """Make a folder and its parents below `folder`. Raises PlantedPath."""
    os.close(_open_folder(folder, PurePosixPath(path).parts, make=True))


@contextmanager
def folder_below(folder: Path, path: str) -> Iterator[int]:
    """Create the folder `path` and its parents below `folder`, and provide its descriptor. Raises PlantedPath."""
    opened = _open_folder(folder, PurePosixPath(path).parts, make=True)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def folder_within(opened: int, name: str) -> Iterator[int]:
    """Create the folder `name` in an opened folder, and provide its descriptor. Raises PlantedPath."""
    inner = _step(opened, name, make=True)
    try:
        yield inner
    finally:
        os.close(inner)


def replace_below(folder: Path, path: str, content: bytes) -> None:
    """Replace a file below `folder` atomically: if the process is killed, the file has the old or the new content.

    A link or pipe at the path is replaced, never written to. Raises PlantedPath.
    """
    with _parent(folder, path, make=True) as (parent, name):
        temporary = f".{secrets.token_hex(8)}.tmp"
        opened = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
        )
        try:
            with os.fdopen(opened, "wb") as sink:
                sink.write(content)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            if isinstance(error, IsADirectoryError | NotADirectoryError):
                raise PlantedPath(path, "no file") from error
            raise


def remove_folder(folder: Path) -> None:
    """Remove a folder with its content, without following links. A link or file at this path is removed as well."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    shutil.rmtree(folder, ignore_errors=True)


def discard_folder(folder: Path) -> None:
    """Rename a folder so that its name is free, then remove its content as far as the permissions allow."""
    aside = folder.with_name(f"{REMOVED}{secrets.token_hex(8)}")
    with suppress(FileNotFoundError):
        os.rename(folder, aside)
        remove_folder(aside)


def remove_hidden(folder: Path) -> list[str]:
    """Remove every file and folder below `folder` whose name begins with a dot. Returns their paths, sorted."""
    removed: list[str] = []
    for place, names, files in os.walk(folder):
        for name in [n for n in (*names, *files) if n.startswith(".")]:
            path = Path(place, name)
            remove_folder(path)
            removed.append(path.relative_to(folder).as_posix())
        names[:] = [n for n in names if not n.startswith(".")]
    return sorted(removed)


REMOVED = ".removed-"
"""Prefix of the name that `discard_folder` gives to a folder before the removal."""


@contextmanager
def _parent(folder: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Provide the descriptor of the folder that contains `path`, and the last component of `path`."""
    parts = PurePosixPath(path).parts
    if not parts or parts[-1] == "..":
        raise PlantedPath(path, "no path of a file below it")
    opened = _open_folder(folder, parts[:-1], make=make)
    try:
        yield opened, parts[-1]
    finally:
        os.close(opened)


def _open_folder(folder: Path, parts: tuple[str, ...], *, make: bool) -> int:
    """Open the folder `parts` below `folder` one component at a time. `make` creates missing folders."""
    if any(part in ("..", "/") or "\0" in part for part in parts):
        raise PlantedPath("/".join(parts), "no path below it")
    path = "/".join(parts) or folder.name
    try:
        opened = os.open(folder, _FOLDER)
    except OSError as error:
        raise _planted(path, error) from error
    for part in parts:
        try:
            inner = _step(opened, part, make=make)
        finally:
            os.close(opened)
        opened = inner
    return opened


def _step(opened: int, name: str, *, make: bool) -> int:
    """Open the folder `name` in an opened folder without following a link. `make` creates a missing folder."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=opened)
        return os.open(name, _FOLDER, dir_fd=opened)
    except OSError as error:
        raise _planted(name, error) from error


def _require_regular(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PlantedPath(path, "no regular file")
    if status.st_nlink != 1:
        raise PlantedPath(path, "a second name of another file")


def _planted(path: str, error: OSError) -> OSError | PlantedPath:
    """Return PlantedPath for an error that a link or special file causes; any other error stays as it is."""
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        return PlantedPath(path, "a link, or no file or folder")
    return error
