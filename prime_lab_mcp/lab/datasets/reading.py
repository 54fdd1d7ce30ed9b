"""Rows of a dataset as one value, read here or by the dataset program, whichever is able to."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.datasets.source import HubDataset, LocalFiles, locate
from prime_lab_mcp.lab.errors import BadInput, LabError, ProcessError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.worker import dataset_program
from prime_lab_mcp.lab.worker.dataset_program import Unreadable

IN_PROCESS = 32 * 1024 * 1024
"""Bytes of text files that are read in the server's own process: well under a second."""
MAX_SCAN = 200_000
"""Rows of a Hub dataset that are streamed at most."""
SEED = 7
_HUB_SECONDS = 60.0
_TIMEOUT = 240.0
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


@dataclass(frozen=True, slots=True)
class Request:
    """What to read. `max_rows` are kept for judging; all are counted and fingerprinted.

    `whole` keeps long texts of files uncut, for copying rows.
    """

    dataset: str
    config: str | None = None
    split: str | None = None
    eval_split: str | None = None
    revision: str | None = None
    max_rows: int = 20_000
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Scanned:
    """One split. `rows` are (index, row), in order; `broken` records are no rows."""

    name: str
    rows: tuple[tuple[int, Mapping[str, Any]], ...]
    scanned: int
    complete: bool
    fingerprint: str
    broken: int = 0
    problems: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A dataset as scanned. `revision` is the commit on the Hub, None for files."""

    id: str
    source: LocalFiles | HubDataset
    config: str | None
    revision: str | None
    splits: tuple[tuple[str, int | None], ...]
    main: Scanned
    held: Scanned | None
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


async def read(lab: Lab, request: Request) -> Table:
    """Scan the split to train on and the held-out one. Raises BadInput and LabError."""
    source = locate(lab.workspace, request.dataset)
    if isinstance(source, HubDataset):
        result = await _by_program(lab, _hub_request(request), _TIMEOUT)
        main, held = str(result["main"]), result["held"]
    else:
        if request.config is not None or request.revision is not None:
            raise BadInput("files have no config and no revision", fix="Leave config and revision out.")
        main, held, result = await _files(lab, source, request)
    scans = {name: _scanned(name, raw) for name, raw in result["scans"].items()}
    return Table(
        id=request.dataset,
        source=source,
        config=result.get("config"),
        revision=result.get("revision"),
        splits=tuple((s["name"], s["rows"]) for s in result["splits"]),
        main=scans[main],
        held=scans[held] if held else None,
        features=result["features"],
    )


async def _files(lab: Lab, source: LocalFiles, request: Request) -> tuple[str, str | None, dict[str, Any]]:
    try:
        main, held = dataset_program.choose(list(source.splits), request.split, request.eval_split)
    except Unreadable as error:
        raise _refused(error.told) from None
    wanted = [s for s in (main, held) if s]
    splits = {name: [str(f) for f in files] for name, files in source.splits.items()}
    if source.suffixes <= set(dataset_program.TEXT) and source.size <= IN_PROCESS:
        try:
            result = await anyio.to_thread.run_sync(
                dataset_program.scan_files,
                splits,
                wanted,
                request.max_rows,
                SEED,
                request.whole,
                abandon_on_cancel=True,
            )
        except Unreadable as error:
            raise _refused(error.told) from None
        except OSError as error:
            raise BadInput(
                f"{quote(request.dataset)} cannot be read: {error.strerror}", fix="Make the file readable."
            ) from error
        return main, held, result
    asked = {
        "kind": "files", "splits": splits, "wanted": wanted, "max_rows": request.max_rows, "seed": SEED,
        "whole": request.whole,
    }  # fmt: skip
    return main, held, await _by_program(lab, asked, _TIMEOUT)


def _hub_request(request: Request) -> dict[str, Any]:
    return {
        "kind": "hub",
        "dataset": request.dataset,
        "config": request.config,
        "split": request.split,
        "eval_split": request.eval_split,
        "revision": request.revision,
        "max_rows": request.max_rows,
        "max_scan": MAX_SCAN,
        "seconds": _HUB_SECONDS,
        "seed": SEED,
    }


async def _by_program(lab: Lab, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    python = lab.toolchain.python_for_datasets()
    if python is None:
        raise LabError(
            "reading this dataset needs the package `datasets`, which is not installed",
            fix="Run preflight(install=true), or name a JSON, JSONL or CSV file of the workspace.",
            code="datasets-missing",
        )
    lab.settings.state_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lab.settings.state_dir, prefix="dataset-") as scratch:
        asked, answered = Path(scratch, "request.json"), Path(scratch, "result.json")
        asked.write_text(json.dumps(request), encoding="utf-8")
        # The user's own HF login goes to this process alone; it runs no environment code.
        extra = {k: v for k, v in os.environ.items() if k.startswith(_PASSED)}
        ended = await process.run(
            [str(python), "-P", dataset_program.__file__, str(asked), str(answered)],
            cwd=Path(scratch),
            env=process.clean_environment(extra | {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}),
            timeout=timeout,
        )
        if ended.returncode != 0 or not answered.is_file():
            last = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
            raise ProcessError(
                f"the program that reads datasets failed: {quote(last[0])}",
                fix="Run preflight; it says what is missing. A JSONL file of the workspace needs no such program.",
                code="dataset-program-failed",
            )
        result: dict[str, Any] = json.loads(await anyio.Path(answered).read_bytes())
    if "error" in result:
        raise _refused(result["error"])
    return result


def _refused(told: Mapping[str, str]) -> LabError:
    detail = f" ({quote(told['detail'])})" if told.get("detail") else ""
    kind = LabError if told["code"].startswith("hub-") else BadInput
    return kind(f"{quote(told['message'])[1:-1]}{detail}", fix=told["fix"], code=told["code"])


def _scanned(name: str, raw: Mapping[str, Any]) -> Scanned:
    return Scanned(
        name=name,
        rows=tuple((index, row) for index, row in raw["rows"]),
        scanned=raw["scanned"],
        complete=raw["complete"],
        fingerprint=raw["fingerprint"],
        broken=raw["broken"],
        problems=tuple(raw["problems"]),
    )
