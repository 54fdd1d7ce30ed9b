"""`edit_environment`: writes, copies, moves or deletes one file or folder, and reports what is stale now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from prime_lab_mcp.lab.authoring.file_edits import (
    check_editable,
    copy_file,
    delete_entry,
    listed_files,
    make_folder,
    move_entry,
    path_of_entry,
    remove_empty_folders,
    text_diff,
    write_text,
)
from prime_lab_mcp.lab.authoring.row_removal import MOST_REMOVED, without_rows
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.gates import Standing, gate_standings, upcoming_call
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.open_warnings import due_comparison
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder, read_text, resolve_inside
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool


class Args(Arguments):
    MEANINGFUL_WHEN_EMPTY = frozenset({"new", "old"})

    environment: EnvironmentName
    path: Annotated[
        str, Field(min_length=1, max_length=500, description="In the environment; a new folder ends with /.")
    ]
    new: Annotated[str | None, Field(max_length=400_000, description="Text to put in.")] = None
    old: Annotated[
        str | None,
        Field(description="Text to replace, exact and found once; without it, the whole file."),
    ] = None
    remove_rows: Annotated[
        list[Annotated[int, Field(ge=0)]] | None,
        Field(min_length=1, max_length=MOST_REMOVED, description="Rows of a .jsonl to remove, from 0."),
    ] = None
    delete: bool = False
    move_to: Annotated[str | None, Field(min_length=1, max_length=500, description="New path.")] = None
    copy_from: Annotated[
        str | None, Field(min_length=1, max_length=500, description="File of the workspace to copy to path.")
    ] = None


async def run(call: Call, args: Args) -> Outcome:
    lab, args = call.lab, _without_empty_texts(args)
    _check_one_change(args)
    folder, new_environment = _folder(lab, args)
    if new_environment:
        _check_valid(folder, args)
        make_folder(folder.path, folder.relative)
    before = await _standings(lab, folder)
    try:
        did, data, findings = _change(lab, folder, args)
    except BadInput:
        if new_environment:
            remove_empty_folders(folder.path)
        raise
    after = await _standings(lab, folder)
    data |= _evidence(before, after)
    if new_environment:
        data["new_environment"] = folder.relative
        did += f" in the new environment {folder.relative}"
    return Outcome(
        "passed",
        f"{did}; {_stale_summary(data)}.",
        tuple(findings),
        data,
        _next(lab, folder, args.path, findings, *after),
    )


def _without_empty_texts(args: Args) -> Args:
    """The arguments of a change that needs no text, without empty ones: some clients cannot leave an argument out."""
    other = args.move_to is not None or args.copy_from is not None or args.remove_rows is not None
    if not (args.delete or other or args.path.endswith("/")):
        return args
    return args.model_copy(update={name: getattr(args, name) or None for name in ("new", "old")})


def _check_one_change(args: Args) -> None:
    """Raise BadInput unless the arguments say exactly one change."""
    writes = (args.new is not None) + (args.copy_from is not None)
    changes = writes + args.delete + (args.move_to is not None) + (args.remove_rows is not None)
    makes_folder = not changes and args.path.endswith("/")
    file_as_folder = writes and args.path.endswith("/")
    if (changes == 1 or makes_folder) and not file_as_folder and (args.old is None or args.new is not None):
        return
    raise BadInput(
        "one call makes one change",
        fix="Give new (with old to replace a part), or copy_from, or remove_rows, or delete=true, or move_to, or a "
        "path that ends with / for a new folder.",
        code="bad-argument",
    )


def _folder(lab: Lab, args: Args) -> tuple[EnvironmentFolder, bool]:
    """The environment's folder, and whether it is still to be made.

    Raises BadInput (`environment-not-found`) for a new name that an existing one may be a spelling of; the path
    `environments/NAME` is taken as it is.
    """
    workspace, named = lab.workspace, args.environment
    try:
        folder = workspace.environment(named)
        _require_environment(folder)
        return folder, False
    except BadInput as error:
        writes = args.new is not None or args.copy_from is not None
        creates = writes or (args.path.endswith("/") and not args.delete and args.move_to is None)
        parts = named.strip("/").split("/")
        as_path = len(parts) == 2 and parts[0] == "environments"
        if error.code != "environment-not-found" or not creates or (len(parts) > 1 and not as_path):
            raise
        near = workspace.similar_names(parts[-1])
        if near and not as_path:
            exact = f"environments/{parts[-1].replace('-', '_')}"
            raise BadInput(
                f"there is no environment {quote(named, 80)}, but there is {near[0]}",
                fix=Fix(
                    "Pass ",
                    SameCall(environment=near[0]),
                    " if you mean that one, or ",
                    SameCall(environment=exact),
                    " for a new one.",
                ),
                code="environment-not-found",
            ) from None
        path = workspace.new_environment(parts[-1])
        return EnvironmentFolder(path.name, path, path.relative_to(workspace.root).as_posix()), True


def _require_environment(folder: EnvironmentFolder) -> None:
    """Raise BadInput for a folder of the workspace that holds no environment, such as the user's own code."""
    check_editable(folder.relative, PurePosixPath(folder.relative))
    if folder.relative.startswith("environments/") or (folder.path / "pyproject.toml").is_file():
        return
    raise BadInput(
        f"{quote(folder.relative, 120)} is a folder of the workspace and no environment: it has no pyproject.toml",
        fix=Fix(
            "Name an environment (", NamedCall("workflow_status"), " lists them), or environments/NAME for a new one."
        ),
        code="not-editable",
    )


def _check_valid(folder: EnvironmentFolder, args: Args) -> None:
    """Raise BadInput before anything is made for a path that no file of the new environment can have."""
    path = resolve_inside(folder.path, args.path)
    check_editable(args.path, path.relative_to(folder.path))


def _change(lab: Lab, folder: EnvironmentFolder, args: Args) -> tuple[str, dict[str, Any], list[Finding]]:
    """Make the change. Returns a clause about it, the data and the findings of the report."""
    if args.delete or args.move_to is not None:
        path = path_of_entry(folder.path, args.path)
        check_editable(args.path, path.relative_to(lab.workspace.root))
        if args.move_to is None:
            files = delete_entry(path, args.path)
            return _named("Deleted", args.path, files), {"path": args.path, "deleted": listed_files(files)}, []
        target = path_of_entry(folder.path, args.move_to)
        check_editable(args.move_to, target.relative_to(lab.workspace.root))
        files = move_entry(path, target, args.path, args.move_to)
        did = f"{_named('Moved', args.path, files)} to {quote(args.move_to, 120)}"
        return did, {"path": args.move_to, "moved_from": args.path, "moved": listed_files(files)}, []
    path = resolve_inside(folder.path, args.path)
    check_editable(args.path, path.relative_to(lab.workspace.root))
    if args.copy_from is not None:
        created = not path.exists()
        size = copy_file(lab.workspace.root, args.copy_from, path, args.path)
        did = f"Copied {quote(args.copy_from, 120)} ({size:,} bytes) to {quote(args.path, 120)}"
        return did, {"path": args.path, "created": created, "copied_from": args.copy_from, "bytes": size}, []
    if args.remove_rows is not None:
        return _without_rows(path, args.path, args.remove_rows)
    if args.new is None:
        if path.exists() and not path.is_dir():
            raise BadInput(f"{quote(args.path)} is a file", fix="Choose another path.", code="bad-argument")
        created = not path.exists()
        make_folder(path, args.path)
        did = "Created the folder" if created else "There already was the folder"
        return f"{did} {quote(args.path, 120)}", {"path": args.path, "created": created}, []
    return _write(path, args, args.new)


def _without_rows(path: Path, named: str, numbers: Sequence[int]) -> tuple[str, dict[str, Any], list[Finding]]:
    if not named.endswith((".jsonl", ".ndjson")) or not path.is_file():
        raise BadInput(
            f"{quote(named, 120)} is no file of JSON lines of the environment",
            fix=Fix(
                "Call ", NamedCall("read_environment"), " for the list of files, and name one that ends in .jsonl."
            ),
            code="not-a-file",
        )
    before = read_text(path)
    after = without_rows(before, numbers, named)
    write_text(path, after, named)
    removed = count(len(set(numbers)), "row")
    data = {"path": named, "created": False, "removed_rows": len(set(numbers)), "diff": text_diff(before, after, named)}
    return f"Removed {removed} from {quote(named, 120)}", data, []


def _write(path: Path, args: Args, new: str) -> tuple[str, dict[str, Any], list[Finding]]:
    before = read_text(path) if path.exists() and not path.is_dir() else None
    after = edited(before, args.path, new, args.old)
    if path.is_dir():
        raise BadInput(f"{quote(args.path)} is a folder", fix="Give the path of a file.", code="not-a-file")
    data = {"path": args.path, "created": before is None, "diff": text_diff(before, after, args.path)}
    findings = list(_findings(args.path, after))
    if after == before:
        return f"{quote(args.path, 120)} already has this text", data, findings
    write_text(path, after, args.path)
    return f"{'Created' if before is None else 'Changed'} {quote(args.path, 120)}", data, findings


def edited(before: str | None, path: str, new: str, old: str | None) -> str:
    """The file's new text. Raises BadInput if `old` does not occur exactly once.

    An empty `old` creates a file and replaces none: some clients cannot leave an argument out.
    """
    if old is None or (old == "" and not before):
        return new
    if old == "":
        raise BadInput(
            f"old is empty, and {quote(path)} holds text",
            fix=Fix("Give the text to replace; leave ", SameCall.without("old"), " out where new is the whole file."),
            code="old-not-unique",
        )
    if before is None:
        raise BadInput(
            f"there is no file {quote(path)} to replace text in",
            fix=Fix(
                "Leave ",
                SameCall.without("old"),
                " out to create it, or call ",
                NamedCall("read_environment"),
                " for the list of files.",
            ),
            code="not-found",
        )
    times = before.count(old)
    if times != 1:
        raise BadInput(
            f"old occurs {count(times, 'time')} in {quote(path)}, not exactly once",
            fix=Fix("Copy it exactly from ", NamedCall("read_environment"), ", white space included")
            + (", with more lines around it." if times else "."),
            code="old-not-unique" if times else "old-not-found",
        )
    return before.replace(old, new)


async def _standings(lab: Lab, folder: EnvironmentFolder) -> tuple[Snapshot, list[Standing]]:
    snapshot = await lab.snapshot(folder.relative)
    return snapshot, gate_standings(lab.ledger, lab.key, lab.platform, snapshot)


def _evidence(before: tuple[Snapshot, list[Standing]], after: tuple[Snapshot, list[Standing]]) -> dict[str, Any]:
    """What the change did to the evidence, and all evidence that is stale now, whenever it became so."""
    (was, held), (now, holds) = before, after
    proven = {s.need.tool for s in held if s.why is None}
    return {
        "source_changed": was.source != now.source,
        "content_changed": was.content != now.content,
        "stale": [s.need.tool for s in holds if s.why == "stale"],
        "newly_stale": [s.need.tool for s in holds if s.why is not None and s.need.tool in proven],
        "proven_again": [s.need.tool for s in holds if s.why is None and s.need.tool not in proven],
    }


def _stale_summary(data: dict[str, Any]) -> str:
    stale, earlier = data["stale"], [tool for tool in data["stale"] if tool not in data["newly_stale"]]
    parts = []
    if stale and not earlier:
        parts = [f"stale now: {', '.join(stale)}"]
    elif stale:
        before = "all" if len(earlier) == len(stale) else ", ".join(earlier)
        parts = [f"stale now: {', '.join(stale)} ({before} by earlier edits)"]
    again = data["proven_again"]
    parts += [f"proven again: {', '.join(again)}"] if again else []
    return "; ".join(parts) or "no evidence is stale"


def _next(
    lab: Lab,
    folder: EnvironmentFolder,
    path: str,
    findings: Sequence[Finding],
    snapshot: Snapshot,
    standings: list[Standing],
) -> tuple[Next, ...]:
    """The first step of the main line whose evidence the files lack now, or the file that is no valid code now.

    After an edit of a port it is the comparison with the older environment, which tests the reward as well. Where a run
    has ended, and the files hold out tasks that its checkpoint was not evaluated on, that evaluation comes first.
    """
    here = {"environment": folder.name}
    if findings:
        return (Next("read_environment", "the file as it is now; mend it", {**here, "path": path}),)
    if snapshot.manifest.problem:
        return (Next("read_environment", "lists the files; the package still needs a pyproject.toml", here),)
    comparison = due_comparison(lab.ledger, lab.key, folder.name, snapshot.source, lab.workspace.root)
    due = upcoming_call(folder.name, detect_generation(snapshot).api, standings, workspace=lab.workspace)
    first = comparison if comparison is not None and due.tool in _BEFORE_A_PUSH else due
    from prime_lab_mcp.lab.training.next_step import untested_split

    split = untested_split(lab, snapshot)
    calls = (first,) if split is None else (first, split)
    if not lab.ledger.runs(kind="training"):
        return calls
    from prime_lab_mcp.lab.training.evaluations import held_out_evaluation

    held_out = held_out_evaluation(lab, folder.name)
    return calls if held_out is None else (held_out, *calls)


_BEFORE_A_PUSH = ("check_environment", "test_reward", "run_eval")


def _named(did: str, path: str, files: list[str]) -> str:
    return f"{did} {quote(path, 120)}" + (
        f" with {count(len(files), 'file')}" if files[:1] != [Path(path).name] else ""
    )


def _findings(path: str, text: str) -> Iterator[Finding]:
    if path.endswith(".py"):
        try:
            parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            reason = getattr(error, "msg", None) or str(error) or "it cannot be parsed"
            where = f"{path}:{line}" if line else path
            message = f"the file cannot be read as Python now: {reason}."
            yield Finding("syntax-error", "warning", message, "Mend it.", where)
    elif path == "pyproject.toml" and (problem := parse_manifest(text.encode("utf-8", "replace")).problem):
        yield Finding("syntax-error", "warning", f"pyproject.toml cannot be read now: {problem}.", "Mend it.", path)


TOOL = Tool(
    name="edit_environment",
    title="Edit environment",
    description="Write, replace text in, remove rows of, copy in, move or delete a file or folder of an environment, "
    "which may be new; shows the diff and what is stale now.",
    args=Args,
    run=run,
    effect="writes",
)
