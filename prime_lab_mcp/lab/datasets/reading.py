"""Reads and inspects a dataset from any source. Tools call `inspect_source`.

A thread of this process reads small text files. The dataset program reads other files and the Hub. The tasks of an
environment come from its worker, so its code runs in its own interpreter.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import BadInput, LabError, ProcessError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Progress
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import dataset_program, text_files
from prime_lab_mcp.lab.datasets.file_scans import ScanWork, judge_table, scan_files
from prime_lab_mcp.lab.datasets.inspection import Inspection
from prime_lab_mcp.lab.datasets.row_values import clipped_value
from prime_lab_mcp.lab.datasets.scan import DatasetRequest, ScannedDataset, ScannedSplit
from prime_lab_mcp.lab.datasets.source import EnvironmentRows, HubDataset, LocalFiles, choose_splits, locate_dataset
from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.sandbox.caches import DataCache, data_cache, hub_token
from prime_lab_mcp.lab.sandbox.policy import NAMES_OVER_TCP, PORTS, Confinement, certificate_paths, python_paths
from prime_lab_mcp.lab.worker.description import Row, Rows

IN_PROCESS = 32 * 1024 * 1024
"""Most bytes of text files that the server's own process reads. That takes about two seconds."""
HUB_SECONDS = 240.0
"""Time for streaming the rows of a Hub dataset. The rows that arrive in this time are checked."""
_JUDGING_SECONDS = 120.0
"""Time for checking the rows of a Hub dataset."""
_FILES_SECONDS = 1800.0
"""Time limit of the dataset program for files."""
_POLL_SECONDS = 0.5
_PACKAGE = Path(__file__).parents[2]
_MOST_PATHS = 200
"""Most files that a confinement lists one by one. With more files, it lists their folders."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_FORWARDED = frozenset(
    {
        *("HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"),
        *("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", *_PROXIES, *(name.lower() for name in _PROXIES)),
    }
)

Columns = tuple[str | None, str | None]
"""The prompt column and the answer column that the caller named, or None."""


async def read_files(
    lab: Lab, source: LocalFiles, request: DatasetRequest, columns: Columns, progress: Progress
) -> Inspection:
    """Read and inspect files of the workspace. Raises BadInput and LabError."""
    if request.revision is not None:
        raise BadInput(
            "files have no revision", fix=Fix("Leave ", SameCall.without("revision"), " out."), code="unknown-revision"
        )
    main, held_out = choose_splits(list(source.splits), request.split, request.eval_split)
    work = ScanWork(request, main, held_out, *columns)
    files_to_read = [f for split in work.splits for f in source.splits[split]]
    text_only = all(
        text_files.format_of(f.name) in text_files.TEXT and not f.name.endswith(".zst") for f in files_to_read
    )
    if text_only and sum(f.stat().st_size for f in files_to_read) <= IN_PROCESS:
        most = IN_PROCESS if any(text_files.packing_of(f.name) for f in files_to_read) else None
        reading = partial(scan_files, work, source.splits, source.config, most=most)
        try:
            return await anyio.to_thread.run_sync(reading, abandon_on_cancel=True)
        except text_files.TooManyBytes:
            pass  # A compressed file that is too large after decompression. The program reads it.
    program_request = {
        "kind": "files",
        "splits": {name: [str(f) for f in files] for name, files in source.splits.items()},
        "main": main,
        "held": held_out,
        "config": source.config,
    }
    return await _by_program(lab, program_request, request, columns, _FILES_SECONDS, progress)


async def read_hub(
    lab: Lab, source: HubDataset, request: DatasetRequest, columns: Columns, progress: Progress
) -> Inspection:
    """Read and inspect a dataset of the Hugging Face Hub, with the user's login.

    Raises BadInput and LabError.
    """
    program_request = {"kind": "hub", "seconds": HUB_SECONDS}
    return await _by_program(lab, program_request, request, columns, HUB_SECONDS + _JUDGING_SECONDS, progress)


async def _by_program(
    lab: Lab,
    program_request: Mapping[str, Any],
    request: DatasetRequest,
    columns: Columns,
    timeout: float,
    progress: Progress,
) -> Inspection:
    python = lab.toolchain.python_for_datasets()
    if python is None:
        raise LabError(
            "reading this dataset needs the package `datasets`, which is not installed",
            fix=Fix(
                "Run ", NamedCall("preflight", install=True), ", or name a JSON, JSONL or CSV file of the workspace."
            ),
            code="datasets-missing",
        )
    full_request = {
        **program_request,
        "package": str(_PACKAGE),
        "request": asdict(request),
        "prompt_column": columns[0],
        "answer_column": columns[1],
    }
    result = await _run(lab, python, full_request, timeout, progress)
    if "error" in result:
        failure = result["error"]
        fix = Fix.from_record(failure["fix"], failure["calls"])
        raise (BadInput if failure["input"] else LabError)(failure["message"], fix=fix, code=failure["code"])
    from pydantic import TypeAdapter

    return TypeAdapter(Inspection).validate_python(result["inspection"])


async def _run(
    lab: Lab, python: Path, program_request: Mapping[str, Any], timeout: float, progress: Progress
) -> dict[str, Any]:
    lab.settings.state_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lab.settings.state_dir, prefix="dataset-") as scratch:
        request, result = Path(scratch, "request.json"), Path(scratch, "result.json")
        request.write_text(json.dumps(program_request), encoding="utf-8")
        hub = program_request["kind"] == "hub"
        # Scripts of older datasets and flaws in file readers may run code, so each dataset has a cache of its own.
        read = f"datasets {program_request['request']['dataset']}"
        cache = await anyio.to_thread.run_sync(data_cache, lab.settings.state_dir, lab.key, read, "", python)
        environment = _variables(Path(scratch), cache, hub=hub)
        confinement = _confinement(lab, python, program_request, Path(scratch), cache)
        argv = [str(python), "-P", dataset_program.__file__, str(request), str(result)]
        program_progress = _ProgramProgress()
        async with anyio.create_task_group() as group:
            group.start_soon(program_progress.follow, progress)
            ended = await process.run(
                confinement.command(argv),
                cwd=Path(scratch),
                env=environment,
                timeout=timeout,
                on_line=program_progress.read_line,
            )
            group.cancel_scope.cancel()
        if ended.returncode != 0 or not result.is_file():
            raise _program_error(ended)
        answer: dict[str, Any] = json.loads(await anyio.Path(result).read_bytes())
        return answer


def _variables(scratch: Path, cache: DataCache, *, hub: bool) -> dict[str, str]:
    """Return the environment variables of the program. Only a program that reads the Hub gets the user's login."""
    extra = {name: value for name, value in os.environ.items() if name in _FORWARDED}
    extra |= {**cache.variables(), **NAMES_OVER_TCP, "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "TMPDIR": str(scratch)}
    token = hub_token() if hub else None
    return process.clean_environment(extra | ({"HF_TOKEN": token} if token else {}), home=scratch)


def _confinement(
    lab: Lab, python: Path, program_request: Mapping[str, Any], scratch: Path, cache: DataCache
) -> Confinement:
    """Return the confinement of the program. It may access the Hub, or its files but no network.

    The confinement is necessary, because older versions of `datasets` run scripts of datasets, and a flaw in a file
    reader may let a file run code.
    """
    paths = [Path(path) for files in program_request.get("splits", {}).values() for path in files]
    if len(paths) > _MOST_PATHS:
        paths = list({path.parent for path in paths})
    return Confinement(
        (*python_paths(python), _PACKAGE, *paths, *cache.users, *certificate_paths()),
        (scratch, cache.root),
        ports=PORTS if program_request["kind"] == "hub" else (),
        hidden=(lab.settings.state_dir,),
    )


def _program_error(ended: process.CompletedProcess) -> ProcessError:
    if ended.returncode in (-9, 137) or "MemoryError" in ended.stderr:
        return ProcessError(
            "the program that reads datasets ran out of memory",
            fix="Split the file, or store it as Parquet with row groups of some thousand rows.",
            code="dataset-program-memory",
        )
    last = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
    return ProcessError(
        f"the program that reads datasets failed: {quote(last[0])}",
        fix=Fix(
            "Run ",
            NamedCall("preflight"),
            "; it says what is missing. A JSONL file of the workspace needs no such program.",
        ),
        code="dataset-program-failed",
    )


class _ProgramProgress:
    """Reads the progress that the dataset program reports, and passes it on."""

    def __init__(self) -> None:
        self._split = ""
        self._rows_of_split = 0
        self._before = 0

    def read_line(self, line: str) -> None:
        if not line.startswith("@rows "):
            return
        split, _, rows = line[6:].rpartition(" ")
        if split != self._split:
            self._split, self._before = split, self._before + self._rows_of_split
        self._rows_of_split = int(rows)

    async def follow(self, progress: Progress) -> None:
        reported = 0
        while True:
            await anyio.sleep(_POLL_SECONDS)
            rows = self._before + self._rows_of_split
            if rows > reported:
                reported = rows
                await progress(
                    float(rows), None, f"read {self._rows_of_split:,} rows of {quote(self._split.strip(chr(34)), 60)}"
                )


MOST_TASKS = 5_000
"""Most tasks that are requested from an environment. Each is sent through a pipe."""


async def read_environment(
    lab: Lab, source: EnvironmentRows, request: DatasetRequest, columns: Columns, progress: Progress
) -> Inspection:
    """Inspect the tasks of a local environment, and of its held-out split if it has one.

    Raises BadInput, and the errors of `open_environment`.
    """
    if request.config or request.revision or request.split or request.eval_split:
        raise BadInput(
            "an environment has no config, revision or split to choose here",
            fix="Leave them out; what is loaded follows from [tool.prime-lab] check_args in its pyproject.toml.",
            code="bad-argument",
        )
    snapshot = await lab.snapshot(source.name)

    async def report_progress(message: str) -> None:
        await progress(0, None, message)

    limit = min(request.max_rows, MOST_TASKS)
    async with open_environment(lab, snapshot, progress=report_progress) as environment:
        main = await environment.worker.rows(limit=limit)
        held_out = await environment.worker.rows(limit=limit, split="eval")
    table = ScannedDataset(
        id=request.dataset,
        origin="environment",
        config=None,
        revision=None,
        splits=tuple((name, rows.total) for name, rows in (("train", main), ("eval", held_out)) if rows.rows),
        main=_scanned("train", main),
        held_out=_scanned("eval", held_out) if held_out.rows and _is_other_split(main, held_out) else None,
    )
    work = ScanWork(request, "train", "eval" if table.held_out else None, *columns)
    return await anyio.to_thread.run_sync(partial(judge_table, work, table))


def _is_other_split(main: Rows, held_out: Rows) -> bool:
    """Return whether the held-out rows differ from the main rows.

    An environment without a held-out split returns the same rows for both.
    """
    return [prompt_of(r) for r in main.rows] != [prompt_of(r) for r in held_out.rows]


def _scanned(name: str, rows: Rows) -> ScannedSplit:
    sampled = tuple((row.index, {k: clipped_value(v) for k, v in _as_row(row)}) for row in rows.rows)
    digest = hashlib.sha256()
    for _, row in sampled:
        raw = json.dumps(row, sort_keys=True).encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    scanned = len(sampled) if rows.total is None else rows.total
    return ScannedSplit(name, sampled, scanned, rows.total is not None, digest.hexdigest())


def _as_row(row: Row) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a task: `prompt` (without the system prompt), `answer`, and the fields of task and info."""
    own: dict[str, Any] = {"prompt": prompt_of(row)}
    if row.answer is not None:
        own["answer"] = row.answer
    more = dict(row.info) if isinstance(row.info, Mapping) else {}
    for name, value in (row.fields | more if isinstance(row.fields, dict) else {**row.fields, **more}).items():
        if name not in ("prompt", "info") and value is not None:
            own.setdefault(str(name), value)
    yield from own.items()


async def _ignore_progress(done: float, total: float | None, message: str) -> None:
    """Ignore progress."""


async def inspect_source(
    lab: Lab,
    request: DatasetRequest,
    *,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    progress: Progress = _ignore_progress,
) -> Inspection:
    """Read and inspect a dataset. Columns that the caller names override the guesses. Raises BadInput and LabError."""
    source = locate_dataset(lab.workspace, request.dataset, request.config)
    columns = (prompt_column, answer_column)
    if isinstance(source, HubDataset):
        return await read_hub(lab, source, request, columns, progress)
    if isinstance(source, EnvironmentRows):
        return await read_environment(lab, source, request, columns, progress)
    return await read_files(lab, source, request, columns, progress)
