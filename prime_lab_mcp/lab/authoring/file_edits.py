"""Writes, moves and deletes files of one environment folder, and describes each change as a diff of limited length.

Every path is relative to the folder and stays inside it. An operation on a link affects the link, never its target.
"""

from __future__ import annotations

import difflib
import os
import shutil
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path, PurePath, PurePosixPath

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import clip, count, is_invisible, quote
from prime_lab_mcp.lab.state.manifest import write_atomic
from prime_lab_mcp.lab.state.workspace import MAX_FILE_BYTES, resolve_inside

DIFF = 4_000
"""Length limit of the diff of code, in characters."""
DATA_DIFF = 800
"""Length limit of the diff of a data file and of a new file, in characters. The caller who wrote such a file already
has its text."""
_LINE = 300
_DATA = frozenset({".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".lock", ".xml", ".svg"})
_COMPARED = 2_000
"""Number of changed lines above which lines are only counted, not compared: a comparison takes quadratic time."""
_LISTED = 20


def path_of_entry(folder: Path, path: str) -> Path:
    """The file, folder or link that a path names, with only its parents resolved.

    Raises BadInput (`outside-environment`).
    """
    pure = PurePosixPath(path)
    parent = pure.parent.as_posix()
    if pure.name in ("", ".."):
        resolve_inside(folder, path)
    return (folder.resolve() if parent == "." else resolve_inside(folder, parent)) / pure.name


_EDITABLE = ".gitignore"
"""The one hidden file that a push reads."""


def check_editable(named: str, path: PurePath) -> None:
    """Raise BadInput for a hidden file or folder, in every spelling, except .gitignore.

    Programs of the user run what such files say: git the commands of `.git/config`, editors those of `.vscode`. In
    `.prime`, `prime` records pushes and pulls. File systems may ignore case, and some drop trailing dots and invisible
    characters.
    """
    for part in (*PurePosixPath(named).parts, *path.parts):
        letters = "".join(c for c in unicodedata.normalize("NFKC", part) if not is_invisible(c)).strip()
        if not letters.startswith(".") or part in (".", _EDITABLE):
            continue
        if letters.casefold().strip(" .") == "prime":
            raise BadInput(
                f"{quote(named, 120)} is in the folder .prime, which prime writes and nobody edits",
                fix=Fix(
                    "Call ",
                    NamedCall("push_environment"),
                    " or ",
                    NamedCall("create_environment", hub=...),
                    "; prime then writes what belongs there.",
                ),
                code="not-editable",
            )
        raise BadInput(
            f"{quote(named, 120)} is hidden: git, editors and shells run what such files say, and no package needs one",
            fix="Give a path without a name that begins with a dot; of hidden files only .gitignore can be edited.",
            code="not-editable",
        )


def write_text(path: Path, text: str, named: str) -> None:
    """Write a text file atomically, and make its folders. Raises BadInput (`not-text`, `unwritable-file`)."""
    if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        raise BadInput("the text is too big or not text", fix="Put data into a dataset instead.", code="not-text")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    except (OSError, UnicodeEncodeError) as error:
        raise _unwritable(named, error) from error


def make_folder(path: Path, named: str) -> None:
    """Make a folder with its parents. Raises BadInput (`unwritable-file`)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(named, error) from error


def delete_entry(path: Path, named: str) -> list[str]:
    """Delete a file, a link or a folder with everything in it. Returns the deleted files, relative to its folder.

    Raises BadInput (`not-found`, `unwritable-file`).
    """
    _require_entry(path, named)
    files = _files_of(path)
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise _unwritable(named, error) from error
    return files


def move_entry(path: Path, target: Path, named: str, target_named: str) -> list[str]:
    """Move a file, a link or a folder to a free path. Returns the moved files, relative to its folder.

    Raises BadInput (`not-found`, `bad-argument`, `unwritable-file`).
    """
    _require_entry(path, named)
    if os.path.lexists(target):
        raise BadInput(
            f"there is a {quote(target_named, 120)} already, and nothing is overwritten by a move",
            fix="Give another path, or delete that one first.",
            code="bad-argument",
        )
    if target.is_relative_to(path):
        raise BadInput(f"{quote(named, 120)} cannot move into itself", fix="Give another path.", code="bad-argument")
    files = _files_of(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, target)
    except OSError as error:
        raise _unwritable(target_named, error) from error
    return files


MOST_COPIED_BYTES = 64 * 1024 * 1024
"""A larger file does not belong into a package: every install downloads the package (our choice)."""


def copy_file(workspace: Path, source: str, target: Path, target_named: str) -> int:
    """Copy a file of the workspace, such as a database of the user, to a path. Returns the number of bytes.

    The copy is a regular file with the contents of now. A file whose name, or that of a folder above it, begins with a
    dot is refused: such files hold settings and keys.

    Raises BadInput (`not-found`, `not-a-file`, `not-editable`, `file-too-big`, `unwritable-file`,
    `outside-environment`).
    """
    path = resolve_inside(workspace, source)
    if any(part.startswith(".") for part in path.relative_to(workspace.resolve()).parts):
        raise BadInput(
            f"{quote(source, 120)} is hidden: such files hold settings and keys, which no package needs",
            fix="Give a file whose name begins with no dot.",
            code="not-editable",
        )
    if not path.exists():
        raise BadInput(
            f"the workspace has no file {quote(source, 120)}",
            fix="Give the path of a file, relative to the workspace.",
            code="not-found",
        )
    if not path.is_file():
        raise BadInput(f"{quote(source, 120)} is no regular file", fix="Give the path of a file.", code="not-a-file")
    if target.is_dir():
        raise BadInput(
            f"{quote(target_named, 120)} is a folder",
            fix=f"Add the name, e.g. {quote(f'{target_named.rstrip(chr(47))}/{path.name}', 120)}.",
            code="not-a-file",
        )
    try:
        size = path.stat().st_size
        if size > MOST_COPIED_BYTES:
            raise BadInput(
                f"{quote(source, 120)} is larger than {MOST_COPIED_BYTES >> 20} MiB",
                fix="Make a smaller extract of it: every install downloads what the package holds.",
                code="file-too-big",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        building = target.with_name(f".{target.name}.copying")
        try:
            shutil.copyfile(path, building)
            os.replace(building, target)
        finally:
            building.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(target_named, error) from error
    return size


def remove_empty_folders(folder: Path) -> None:
    """Remove every folder in a folder, and the folder itself, that contains no file."""
    inside = (p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())
    for path in (*sorted(inside, reverse=True), folder):
        with suppress(OSError):
            path.rmdir()


def text_diff(before: str | None, after: str, path: str) -> str:
    """The unified diff of a file. For a data file or a new file, only the first lines."""
    old, new = (before or "").splitlines(), after.splitlines()
    start = _equal_lines(old, new)
    end = _equal_lines(reversed(old[start:]), reversed(new[start:]))
    removed, added = len(old) - start - end, len(new) - start - end
    if max(removed, added) > _COMPARED:
        signs = (("-", old[start : len(old) - end]), ("+", new[start : len(new) - end]))
        lines = [f"{sign}{line}" for sign, changed in signs for line in changed[:3]]
    else:
        lines = list(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="", n=2))
    short = [line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in lines]
    limit = DATA_DIFF if before is None or PurePosixPath(path).suffix.lower() in _DATA else DIFF
    text = "\n".join(short)
    if len(text) <= limit and max(removed, added) <= _COMPARED:
        return text
    changed = [line for line in lines if not line.startswith(("---", "+++"))]
    if max(removed, added) <= _COMPARED:
        removed, added = (sum(line.startswith(sign) for line in changed) for sign in "-+")
    whole = text[:limit].rpartition("\n")[0] or clip(text, limit)
    return f"{whole}\n… (in all {count(removed, 'line')} removed, {added:,} added)"


def listed_files(files: list[str]) -> list[str]:
    """The first paths of a list, and the number of the others, for a report."""
    return files[:_LISTED] + ([f"… and {len(files) - _LISTED:,} more"] if len(files) > _LISTED else [])


def _equal_lines(old: Iterable[str], new: Iterable[str]) -> int:
    """Number of equal lines at the start of both files."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    return sum(1 for _ in pairs)


def _files_of(path: Path) -> list[str]:
    if path.is_symlink() or not path.is_dir():
        return [path.name]
    inside = (p for p in path.rglob("*") if p.is_symlink() or not p.is_dir())
    return [p.relative_to(path.parent).as_posix() for p in sorted(islice(inside, 20_000))]


def _require_entry(path: Path, named: str) -> None:
    if not os.path.lexists(path):
        raise BadInput(
            f"there is no {quote(named, 120)} in the environment",
            fix=Fix("Call ", NamedCall("read_environment"), " for the list of files."),
            code="not-found",
        )


def _unwritable(named: str, error: OSError | UnicodeEncodeError) -> BadInput:
    reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return BadInput(f"{quote(named)} cannot be written: {reason}", fix="Choose another path.", code="unwritable-file")
