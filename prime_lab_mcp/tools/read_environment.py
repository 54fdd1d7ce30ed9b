"""`read_environment`: lists and reads the files of an environment, for clients without a file system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, is_invisible, quote
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import collect_files
from prime_lab_mcp.lab.state.workspace import read_text, resolve_inside
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool

PAGE = 8_000
"""Length of one page in characters: the size limit of a result without its other fields."""
_LISTED = 100


class Args(Arguments):
    environment: EnvironmentName
    path: Annotated[str | None, Field(max_length=500, description="File to read; without it, the list.")] = None
    offset: Annotated[int, Field(ge=0, description="Characters to skip.")] = 0


async def run(call: Call, args: Args) -> Outcome:
    folder = call.lab.workspace.environment(args.environment)
    if args.path is None:
        return _listing(folder.path, folder.relative)
    path = resolve_inside(folder.path, args.path)
    if not path.is_file():
        raise BadInput(
            f"{folder.relative} has no file {quote(args.path)}",
            fix=Fix("Call ", NamedCall("read_environment"), " without path for the list."),
            code="not-found",
        )
    text = read_text(path)
    page = text[args.offset : args.offset + PAGE]
    end = args.offset + len(page)
    data: dict[str, Any] = {"path": args.path, "characters": len(text), "offset": args.offset, "text": page}
    if end < len(text):
        data["next_offset"] = end
    part = "" if len(page) == len(text) else f", characters {args.offset:,} to {end:,}"
    hidden = sum(is_invisible(c) for c in page if c not in "\r\n\t")
    escaped = f" It holds {count(hidden, 'invisible character')}, shown here as escapes." if hidden else ""
    return Outcome("passed", f"{quote(args.path, 120)} has {count(len(text), 'character')}{part}.{escaped}", data=data)


def _listing(root: Path, relative: str) -> Outcome:
    pushed, left_out = collect_files(root)
    files: list[dict[str, Any]] = [{"path": p, "bytes": (root / p).stat().st_size, "pushed": True} for p in pushed]
    files += [{"path": out.path, "bytes": _size(root / out.path), "pushed": False, "why": out.why} for out in left_out]
    data: dict[str, Any] = {"files": files[:_LISTED]}
    if len(files) > _LISTED:
        data["more"] = len(files) - _LISTED
    summary = f"{relative} has {count(len(pushed), 'file')} that the push uploads"
    code = [p for p in pushed if p.endswith(".py")]
    largest = max(code, key=lambda p: (root / p).stat().st_size, default="")
    first = next((p for p in code if p.endswith("taskset.py")), largest)
    given = {"environment": relative, "path": first}
    return Outcome(
        "passed",
        f"{summary}, {len(left_out)} that it leaves out." if left_out else f"{summary}.",
        data=data,
        next=(Next("read_environment", "its tasks and rewards, most likely", given),) if first else (),
    )


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


TOOL = Tool(
    name="read_environment",
    title="Read environment",
    description="List an environment's files and whether a push uploads them, or read one.",
    args=Args,
    run=run,
    effect="reads",
)
