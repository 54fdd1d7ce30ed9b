"""`read_environment`: lists and reads the files of an environment, for clients without a file system.

A folder is read as its small files one after the other, so that a small environment takes few calls. The list of files
has their texts where all of them fit on one page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, is_invisible, quote
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import collect_files
from prime_lab_mcp.lab.state.workspace import ShownFiles, read_text, resolve_inside
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool

PAGE = 8_000
"""Length of one page in characters: the size limit of a result without its other fields."""
_LISTED = 100
_CODE = frozenset({".py", ".toml", ".md"})
_LARGEST_CODE = 40_000
"""Size in bytes up to which a file of `_CODE` is read as part of a folder. Of other files, it is that of a page."""


class Args(Arguments):
    environment: EnvironmentName
    path: Annotated[
        str | None, Field(max_length=500, description='File or folder to read ("*": all); without it, the list.')
    ] = None
    offset: Annotated[int, Field(ge=0, description="Characters to skip.")] = 0


async def run(call: Call, args: Args) -> Outcome:
    folder = call.lab.workspace.environment(args.environment)
    if args.path is None:
        listed = _listing(folder.path, folder.relative)
        if "text" in listed.data:
            call.lab.memory(ShownFiles).add(folder.relative)
        return listed
    path = folder.path if args.path == "*" else resolve_inside(folder.path, args.path)
    if path.is_dir():
        read = _folder(folder.path, folder.relative, path, args)
        if path == folder.path and "next_offset" not in read.data:
            call.lab.memory(ShownFiles).add(folder.relative)
        return read
    if not path.is_file():
        raise BadInput(
            f"{folder.relative} has no file {quote(args.path)}",
            fix=Fix("Call ", NamedCall("read_environment"), " without path for the list."),
            code="not-found",
        )
    text = read_text(path)
    data, part = _page(args, text)
    page = data["text"]
    hidden = sum(is_invisible(c) for c in page if c not in "\r\n\t")
    escaped = f" It holds {count(hidden, 'invisible character')}, shown here as escapes." if hidden else ""
    summary = f"{quote(args.path, 120)} has {count(len(text), 'character')}{part}.{escaped}"
    return Outcome("passed", summary, data=data, next=_next_page(folder.relative, args.path, data))


def _page(args: Args, text: str, **more: Any) -> tuple[dict[str, Any], str]:
    """Return the data of the asked page, with `more` before its text, and which part of the text the page is."""
    page = text[args.offset : args.offset + PAGE]
    end = args.offset + len(page)
    data = {"path": args.path, "characters": len(text), "offset": args.offset, **more, "text": page}
    if end < len(text):
        data["next_offset"] = end
    return data, "" if len(page) == len(text) else f", characters {args.offset:,} to {end:,}"


def _next_page(environment: str, path: str, data: Mapping[str, Any]) -> tuple[Next, ...]:
    """The call that reads on; none at the end."""
    if "next_offset" not in data:
        return ()
    given = {"environment": environment, "path": path, "offset": data["next_offset"]}
    return (Next("read_environment", "reads on", given),)


def _folder(root: Path, environment: str, folder: Path, args: Args) -> Outcome:
    """The texts of the small files in a folder, one after the other, in pages as those of one file."""
    assert args.path is not None
    pushed, _ = collect_files(root)
    inside = [p for p in pushed if (root / p).resolve().is_relative_to(folder.resolve())]
    inside.sort(key=lambda name: _reading_order(root, name))
    parts: list[tuple[str, str]] = []
    left: list[dict[str, Any]] = []
    for name in inside:
        size = (root / name).stat().st_size
        try:
            if size > (_LARGEST_CODE if Path(name).suffix in _CODE else PAGE):
                left.append({"path": name, "bytes": size})
            else:
                parts.append((name, read_text(root / name)))
        except LabError:
            left.append({"path": name, "bytes": size})
    whole, files = "", []
    for name, text in parts:
        whole += f"--- {name}\n"
        files.append({"path": name, "starts": len(whole), "characters": len(text)})
        whole += text if text.endswith("\n") or not text else f"{text}\n"
    data, part = _page(args, whole, files=files)
    if left:
        data["left_out"] = left[:_LISTED]
    large = f" {count(len(left), 'file')} too large or no text: read such a file by its path." if left else ""
    summary = f"{count(len(parts), 'file')} with {count(len(whole), 'character')}{part}.{large}"
    return Outcome("passed", summary, data=data, next=_next_page(environment, args.path, data))


_FIRST = ("functions.py", "reward.py", "rewards.py", "taskset.py")
"""Names of the files that decide what is paid, in ports and templates."""


def _reading_order(root: Path, name: str) -> tuple[int, int, str]:
    """Code comes first, the files that decide what is paid before others and long ones last, then texts, then data."""
    path = Path(name)
    if path.name in _FIRST:
        return 0, _FIRST.index(path.name), name
    if path.suffix == ".py":
        return 1, (root / name).stat().st_size, name
    return (2 if path.suffix in _CODE else 3), 0, name


def _listing(root: Path, relative: str) -> Outcome:
    pushed, left_out = collect_files(root)
    files: list[dict[str, Any]] = [{"path": p, "bytes": (root / p).stat().st_size, "pushed": True} for p in pushed]
    files += [{"path": out.path, "bytes": _size(root / out.path), "pushed": False, "why": out.why} for out in left_out]
    data: dict[str, Any] = {"files": files[:_LISTED]}
    if len(files) > _LISTED:
        data["more"] = len(files) - _LISTED
    summary = f"{relative} has {count(len(pushed), 'file')} that the push uploads"
    summary = f"{summary}, {len(left_out)} that it leaves out." if left_out else f"{summary}."
    texts = _folder(root, relative, root, Args(environment=relative, path="*"))
    if any(p.endswith(".py") for p in pushed) and texts.data["files"]:
        if "next_offset" in texts.data:
            read = Next("read_environment", "the texts of its small files", {"environment": relative, "path": "*"})
            return Outcome("passed", summary, data=data, next=(read,))
        data |= {"texts": texts.data["files"], "text": texts.data["text"]}
        number = len(texts.data["files"])
        summary += f" data.text has {'all of them' if number == len(pushed) else f'{number} of them'}."
    return Outcome("passed", summary, data=data)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


TOOL = Tool(
    name="read_environment",
    title="Read environment",
    description="List an environment's files and whether a push uploads them, or read one or a folder.",
    args=Args,
    run=run,
    effect="reads",
)
