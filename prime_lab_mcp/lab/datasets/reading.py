"""A dataset read and judged by whichever process is able to: a thread of this one, or the dataset program."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.datasets import streams
from prime_lab_mcp.lab.datasets.inspection import Inspection
from prime_lab_mcp.lab.datasets.scanning import Work, scan_files
from prime_lab_mcp.lab.datasets.source import HubDataset, LocalFiles
from prime_lab_mcp.lab.datasets.splits import choose
from prime_lab_mcp.lab.datasets.table import Request, Scanned, Table
from prime_lab_mcp.lab.errors import BadInput, LabError, ProcessError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.worker import dataset_program

__all__ = ["Columns", "Progress", "Request", "Scanned", "Table", "read_files", "read_hub"]

IN_PROCESS = 32 * 1024 * 1024
"""Bytes of text files that are read in the server's own process: about two seconds."""
HUB_SECONDS = 240.0
"""Time in which rows of a Hub dataset are streamed; what came until then is judged."""
_JUDGING = 120.0
_FILES = 1800.0
_POLL = 0.5
_PACKAGE = Path(__file__).parents[2]
_PASSED = (
    "HF_",
    "HUGGINGFACE_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "XDG_",
)

Columns = tuple[str | None, str | None]
"""Prompt and answer column that the caller named."""
Progress = Callable[[float, float | None, str], Awaitable[None]]


async def read_files(
    lab: Lab, source: LocalFiles, request: Request, columns: Columns, progress: Progress
) -> Inspection:
    """Files of the workspace. Raises BadInput and LabError."""
    if request.revision is not None:
        raise BadInput("files have no revision", fix="Leave revision out.", code="unknown-revision")
    main, held = choose(list(source.splits), request.split, request.eval_split)
    work = Work(request, main, held, *columns)
    wanted = [f for split in work.wanted for f in source.splits[split]]
    plain = all(streams.format_of(f.name) in streams.TEXT and not f.name.endswith(".zst") for f in wanted)
    if plain and sum(f.stat().st_size for f in wanted) <= IN_PROCESS:
        most = IN_PROCESS if any(streams.packing_of(f.name) for f in wanted) else None
        reading = partial(scan_files, work, source.splits, source.config, most=most)
        try:
            return await anyio.to_thread.run_sync(reading, abandon_on_cancel=True)
        except streams.TooMuch:
            pass  # packed, and large once unpacked
    asked = {
        "kind": "files",
        "splits": {name: [str(f) for f in files] for name, files in source.splits.items()},
        "main": main,
        "held": held,
        "config": source.config,
    }
    return await _by_program(lab, asked, request, columns, _FILES, progress)


async def read_hub(lab: Lab, source: HubDataset, request: Request, columns: Columns, progress: Progress) -> Inspection:
    """A dataset of the Hugging Face Hub, with the user's own login. Raises BadInput and LabError."""
    asked = {"kind": "hub", "seconds": HUB_SECONDS}
    return await _by_program(lab, asked, request, columns, HUB_SECONDS + _JUDGING, progress)


async def _by_program(
    lab: Lab, asked: Mapping[str, Any], request: Request, columns: Columns, timeout: float, progress: Progress
) -> Inspection:
    python = lab.toolchain.python_for_datasets()
    if python is None:
        raise LabError(
            "reading this dataset needs the package `datasets`, which is not installed",
            fix="Run preflight(install=true), or name a JSON, JSONL or CSV file of the workspace.",
            code="datasets-missing",
        )
    whole = {
        **asked,
        "package": str(_PACKAGE),
        "request": asdict(request),
        "prompt_column": columns[0],
        "answer_column": columns[1],
    }
    result = await _run(lab, python, whole, timeout, progress)
    if "error" in result:
        told = result["error"]
        raise (BadInput if told["input"] else LabError)(told["message"], fix=told["fix"], code=told["code"])
    from pydantic import TypeAdapter

    return TypeAdapter(Inspection).validate_python(result["inspection"])


async def _run(lab: Lab, python: Path, asked: Mapping[str, Any], timeout: float, progress: Progress) -> dict[str, Any]:
    lab.settings.state_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lab.settings.state_dir, prefix="dataset-") as scratch:
        request, result = Path(scratch, "request.json"), Path(scratch, "result.json")
        request.write_text(json.dumps(asked), encoding="utf-8")
        # The user's own HF login goes to this process alone; it runs no environment code.
        extra = {k: v for k, v in os.environ.items() if k.startswith(_PASSED)}
        said = _Said()
        async with anyio.create_task_group() as beside:
            beside.start_soon(said.follow, progress)
            ended = await process.run(
                [str(python), "-P", dataset_program.__file__, str(request), str(result)],
                cwd=Path(scratch),
                env=process.clean_environment(extra | {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}),
                timeout=timeout,
                on_line=said.hear,
            )
            beside.cancel_scope.cancel()
        if ended.returncode != 0 or not result.is_file():
            raise _failed(ended)
        found: dict[str, Any] = json.loads(await anyio.Path(result).read_bytes())
        return found


def _failed(ended: process.Completed) -> ProcessError:
    if ended.returncode in (-9, 137) or "MemoryError" in ended.stderr:
        return ProcessError(
            "the program that reads datasets ran out of memory",
            fix="Split the file, or store it as Parquet with row groups of some thousand rows.",
            code="dataset-program-memory",
        )
    last = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
    return ProcessError(
        f"the program that reads datasets failed: {quote(last[0])}",
        fix="Run preflight; it says what is missing. A JSONL file of the workspace needs no such program.",
        code="dataset-program-failed",
    )


class _Said:
    """What the program last said of how far it is."""

    def __init__(self) -> None:
        self._split = ""
        self._done = 0
        self._before = 0

    def hear(self, line: str) -> None:
        if not line.startswith("@rows "):
            return
        split, _, rows = line[6:].rpartition(" ")
        if split != self._split:
            self._split, self._before = split, self._before + self._done
        self._done = int(rows)

    async def follow(self, progress: Progress) -> None:
        told = 0
        while True:
            await anyio.sleep(_POLL)
            rows = self._before + self._done
            if rows > told:
                told = rows
                await progress(
                    float(rows), None, f"read {self._done:,} rows of {quote(self._split.strip(chr(34)), 60)}"
                )
