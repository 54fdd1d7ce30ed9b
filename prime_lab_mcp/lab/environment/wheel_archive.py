"""Reads wheel archives: which files a wheel installs, and their hashes.

Wheels come from builds that may run code of the package and from the Hub, so an archive is foreign and bounded. The
same reader serves both, so that the wheel that was checked and the wheel that the Hub serves are compared alike.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
import zlib
from pathlib import Path

from prime_lab_mcp.lab.base.errors import LabError

MAX_WHEEL_BYTES = 512 << 20
"""The most bytes that a wheel may unpack to."""
MAX_WHEEL_FILES = 50_000
_METADATA = re.compile(r"[^/]+\.dist-info/")
_LIBRARY = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
"""Folders whose files are installed beside those of the wheel's root (PyPA's "Binary distribution format")."""
_UNREADABLE = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError)
"""Exceptions that `zipfile` raises for a damaged, encrypted or unsupported archive."""
_CLASHES = (FileExistsError, NotADirectoryError, IsADirectoryError, shutil.Error)
"""Errors of an archive that holds a file and a folder of the same name."""


class UnreadableWheel(LabError):
    """The file is no wheel, or larger than a wheel may be."""


def installed_path(name: str) -> str | None:
    """The path at which a member of a wheel is installed, from the library folder; None for the metadata.

    What `.data` holds beside libraries (scripts, data files) keeps its own path: it is installed too.
    """
    return None if _METADATA.match(name) else _LIBRARY.sub("", name, count=1)


def wheel_files(wheel: Path) -> dict[str, str]:
    """sha256 of each file that a wheel installs, by its installed path. Raises UnreadableWheel."""
    files: dict[str, str] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry in _members(archive):
                path = installed_path(entry.filename)
                if path is not None:
                    with archive.open(entry) as member:
                        files[path] = hashlib.file_digest(member, "sha256").hexdigest()  # type: ignore[arg-type]
    except _UNREADABLE as error:
        raise _unreadable(error) from error
    return files


def unpack_wheel(wheel: Path, tree: Path) -> None:
    """Unpack a wheel into a new folder, with every library file where it is installed. Raises UnreadableWheel."""
    tree.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive:
            _members(archive)
            archive.extractall(tree)
        for kind in ("purelib", "platlib"):
            for folder in tree.glob(f"*.data/{kind}"):
                shutil.copytree(folder, tree, dirs_exist_ok=True)
                shutil.rmtree(folder)
    except (*_UNREADABLE, *_CLASHES) as error:
        raise _unreadable(error) from error


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The files of an archive. Raises UnreadableWheel if there are too many or they are too large."""
    members = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(members) > MAX_WHEEL_FILES or sum(entry.file_size for entry in members) > MAX_WHEEL_BYTES:
        raise UnreadableWheel(
            f"the wheel unpacks to more than {MAX_WHEEL_BYTES >> 20} MiB or {MAX_WHEEL_FILES} files",
            fix="Leave large data out of the package and load the data from a dataset.",
        )
    return members


def _unreadable(error: Exception) -> UnreadableWheel:
    return UnreadableWheel(f"the wheel is no readable archive: {error}", fix="Build the wheel again.")
