"""Reads wheel archives: the files that a wheel installs, and their hashes.

Wheels come from builds, which may run code of the package, and from the Hub. The archives are untrusted, so their size
is limited. The same functions read both, so that the checked wheel can be compared with the wheel on the Hub.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import zipfile
import zlib
from email.parser import HeaderParser
from pathlib import Path

from prime_lab_mcp.lab.base.errors import LabError

MAX_WHEEL_BYTES = 512 << 20
"""Most bytes of all files of a wheel together, unpacked."""
MAX_WHEEL_FILES = 50_000
_METADATA = re.compile(r"[^/]+\.dist-info/")
_LIBRARY = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
"""Matches folders whose files are installed into the library folder, as are the files at the wheel's root (PyPA's
"Binary distribution format")."""
_DECISIVE_FILES = frozenset({"METADATA", "entry_points.txt"})
_DECISIVE_HEADERS = frozenset({"name", "version", "requires-python", "requires-dist", "provides-extra"})
_UNREADABLE = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError)
"""Exceptions that `zipfile` raises for a damaged, encrypted or unsupported archive."""
_CLASHES = (FileExistsError, NotADirectoryError, IsADirectoryError, shutil.Error)
"""Exceptions for an archive that has a file and a folder of the same name."""


class UnreadableWheel(LabError):
    """The file is not a wheel, or it exceeds the limits for wheels."""


def installed_path(name: str) -> str | None:
    """Return the path, relative to the library folder, at which a wheel's member is installed; None for metadata.

    Scripts and data files in a `.data` folder are installed elsewhere. They keep their path in the wheel.
    """
    return None if _METADATA.match(name) else _LIBRARY.sub("", name, count=1)


def wheel_files(wheel: Path) -> dict[str, str]:
    """Return the sha256 of each file that a wheel installs, by its installed path. Raises UnreadableWheel."""
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


def wheel_metadata(wheel: Path) -> str:
    """Return one sha256 over the metadata that decides what an installation brings along. Raises UnreadableWheel.

    These are the names, versions and requirements of METADATA, and entry_points.txt. The description is left out,
    because it repeats the README. `wheel` is an archive, or the folder of an unpacked wheel.
    """
    texts: dict[str, str] = {}
    try:
        if wheel.is_dir():
            for path in wheel.glob("*.dist-info/*"):
                if path.name in _DECISIVE_FILES:
                    texts[path.name] = path.read_text(encoding="utf-8", errors="replace")
        else:
            with zipfile.ZipFile(wheel) as archive:
                for entry in _members(archive):
                    folder, _, name = entry.filename.partition("/")
                    if _METADATA.match(f"{folder}/") and name in _DECISIVE_FILES:
                        texts[name] = archive.read(entry).decode("utf-8", "replace")
    except _UNREADABLE as error:
        raise _unreadable(error) from error
    message = HeaderParser().parsestr(texts.get("METADATA", ""))
    headers = sorted((name.lower(), " ".join(str(value).split())) for name, value in message.items())
    decisive = [pair for pair in headers if pair[0] in _DECISIVE_HEADERS]
    return hashlib.sha256(json.dumps([decisive, texts.get("entry_points.txt", "").split()]).encode()).hexdigest()


def unpack_wheel(wheel: Path, tree: Path) -> None:
    """Unpack a wheel into the new folder `tree`, with each library file at its installed path.

    Raises UnreadableWheel.
    """
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
    """Return the files of an archive. Raises UnreadableWheel if there are too many or they are too large."""
    members = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(members) > MAX_WHEEL_FILES or sum(entry.file_size for entry in members) > MAX_WHEEL_BYTES:
        raise UnreadableWheel(
            f"the wheel unpacks to more than {MAX_WHEEL_BYTES >> 20} MiB or {MAX_WHEEL_FILES} files",
            fix="Leave large data out of the package and load the data from a dataset.",
        )
    return members


def _unreadable(error: Exception) -> UnreadableWheel:
    return UnreadableWheel(f"the wheel is no readable archive: {error}", fix="Build the wheel again.")
