"""`edit_environment`: changes one text file atomically, and reports the diff and the evidence that became stale."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated

from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.base.text import clip, count, is_invisible, quote
from prime_lab_mcp.lab.state.gates import proven_tools
from prime_lab_mcp.lab.state.manifest import parse_manifest, write_atomic
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.workspace import MAX_FILE_BYTES, read_text, resolve_inside
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool

DIFF = 4_000
"""Length limit of the shown diff, in characters."""


class Args(Arguments):
    environment: EnvironmentName
    path: Annotated[str, Field(min_length=1, max_length=500, description="Relative to the environment's folder.")]
    new: Annotated[str, Field(max_length=400_000, description="Text to put in.")]
    old: Annotated[
        str | None,
        Field(min_length=1, description="Text to replace, exact and found once; without it, the whole file."),
    ] = None


async def run(call: Call, args: Args) -> Outcome:
    folder = call.lab.workspace.environment(args.environment)
    path = resolve_inside(folder.path, args.path)
    _check_editable(args.path, path.relative_to(call.lab.workspace.root))
    before = read_text(path) if path.exists() and not path.is_dir() else None
    after = edited(before, args)
    if path.is_dir():
        raise BadInput(f"{quote(args.path)} is a folder", fix="Give the path of a file.", code="not-a-file")
    if "\0" in after or len(after.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        raise BadInput("the text is too big or not text", fix="Put data into a dataset instead.", code="not-text")
    was = await call.lab.snapshot(args.environment)
    if after != before:
        _write(path, after, args.path)
    now = await call.lab.snapshot(args.environment)
    lab = call.lab
    held, holds = (proven_tools(lab.ledger, lab.key, lab.platform, snapshot) for snapshot in (was, now))
    stale = [tool for tool in held if tool not in holds]
    again = [tool for tool in holds if tool not in held]
    data = {
        "path": args.path,
        "created": before is None,
        "diff": clip(_diff(before or "", after, args.path), DIFF),
        "source_changed": was.source != now.source,
        "content_changed": was.content != now.content,
        "stale": stale,
        "proven_again": again,
    }
    next = (Next(stale[0], "its evidence is stale now", {"environment": args.environment}),) if stale else ()
    return Outcome(
        "passed", _summary(before, after, args.path, stale, again), tuple(_findings(args.path, after)), data, next
    )


def _check_editable(named: str, path: PurePath) -> None:
    """Raise BadInput for the folder in which `prime` records what it pushed and pulled, in any spelling.

    File systems may ignore case, and some drop trailing dots and invisible characters.
    """
    for part in (*PurePosixPath(named).parts, *path.parts):
        letters = "".join(c for c in unicodedata.normalize("NFKC", part) if not is_invisible(c))
        if letters.casefold().strip(" .") == "prime" and letters.startswith("."):
            raise BadInput(
                f"{quote(named, 120)} is in the folder .prime, which prime writes and nobody edits",
                fix="Call push_environment or create_environment(hub=...); prime then writes what belongs there.",
                code="not-editable",
            )


def edited(before: str | None, args: Args) -> str:
    """The file's new text. Raises BadInput if `old` does not occur exactly once."""
    if args.old is None:
        return args.new
    if before is None:
        raise BadInput(
            f"there is no file {quote(args.path)} to replace text in",
            fix="Leave old out to create it, or call read_environment for the list of files.",
            code="not-found",
        )
    times = before.count(args.old)
    if times != 1:
        raise BadInput(
            f"old occurs {count(times, 'time')} in {quote(args.path)}, not exactly once",
            fix="Copy it exactly from read_environment, white space included"
            + (", with more lines around it." if times else "."),
            code="old-not-unique" if times else "old-not-found",
        )
    return before.replace(args.old, args.new)


def _write(path: Path, text: str, named: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    except (OSError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInput(
            f"{quote(named)} cannot be written: {reason}", fix="Choose another path.", code="unwritable-file"
        ) from error


def _diff(before: str, after: str, path: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm="", n=2)
    return "\n".join(lines)


def _findings(path: str, text: str) -> Iterator[Finding]:
    if path.endswith(".py"):
        try:
            parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            reason = getattr(error, "msg", None) or "it cannot be parsed"
            where = f"{path}:{line}" if line else path
            yield Finding("syntax-error", "warning", f"the file is no valid Python now: {reason}.", "Mend it.", where)
    elif path == "pyproject.toml" and (problem := parse_manifest(text.encode("utf-8", "replace")).problem):
        yield Finding("syntax-error", "warning", f"pyproject.toml cannot be read now: {problem}.", "Mend it.", path)


def _summary(before: str | None, after: str, path: str, stale: list[str], again: list[str]) -> str:
    if before == after:
        return f"{quote(path, 120)} already has this text; nothing was written."
    did = "Created" if before is None else "Changed"
    parts = [f"stale now: {', '.join(stale)}"] if stale else []
    parts += [f"proven again: {', '.join(again)}"] if again else []
    return f"{did} {quote(path, 120)}; {'; '.join(parts) or 'no evidence is stale'}."


TOOL = Tool(
    name="edit_environment",
    title="Edit environment",
    description="Replace text in one file of an environment, or write it; shows the diff and what became stale.",
    args=Args,
    run=run,
    effect="writes",
)
