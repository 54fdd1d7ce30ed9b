"""A program that scans and checks a dataset for the server: `dataset_program.py REQUEST RESULT`, both JSON files.

The toolchain's interpreter runs this file by its path. pyarrow and `datasets` take seconds to import and must not share
a process with the server. The request names the folder of the package `prime_lab_mcp`. `make_importable` makes only
that package importable, so functions here import its modules after that call. Those modules need only the standard
library. The program reports progress on standard output in lines of the form `@rows SPLIT NUMBER`.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prime_lab_mcp.lab.datasets.inspection import Inspection
    from prime_lab_mcp.lab.datasets.scan import ScannedSplit

_REPORT_SECONDS = 0.3
_COLLECTED_OBJECTS = 500_000
"""Rows hold no reference cycles. With the default of 700 objects, the collector walks the sampled rows for nothing."""
_SWITCH_SECONDS = 0.0005
"""Threads decode and hash in pieces of about a millisecond. With the default of 5 ms, they would mostly wait."""


def make_importable(package: str) -> None:
    """Make `prime_lab_mcp.lab` importable from the folder `package`, without running `__init__` of the two packages."""
    for name, path in (("prime_lab_mcp", Path(package)), ("prime_lab_mcp.lab", Path(package, "lab"))):
        module = ModuleType(name)
        module.__path__ = [str(path)]
        sys.modules[name] = module


def _progress_reporter() -> Callable[[str, int], None]:
    last_report = 0.0

    def report(split: str, rows: int) -> None:
        nonlocal last_report
        now = time.monotonic()
        if now - last_report >= _REPORT_SECONDS:
            last_report = now
            sys.stdout.write(f"@rows {json.dumps(split)} {rows}\n")
            sys.stdout.flush()

    return report


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Scan and check the requested dataset. Return the inspection as JSON values, or the error."""
    from prime_lab_mcp.lab.base.errors import BadInput, LabError
    from prime_lab_mcp.lab.base.fix import calls_record
    from prime_lab_mcp.lab.datasets.file_scans import ScanWork, scan_files
    from prime_lab_mcp.lab.datasets.scan import DatasetRequest

    dataset = DatasetRequest(**request["request"])
    columns = (request["prompt_column"], request["answer_column"])
    report = _progress_reporter()
    try:
        if request["kind"] == "hub":
            from prime_lab_mcp.lab.datasets.hub_dataset import scan_hub

            inspection = scan_hub(dataset, columns, request["seconds"], report)
        else:
            work = ScanWork(dataset, request["main"], request["held"], *columns)
            splits = {split: [Path(f) for f in files] for split, files in request["splits"].items()}
            inspection = scan_files(work, splits, request["config"], report_progress=report)
    except LabError as error:
        failure = {"message": error.message, "fix": error.fix, "calls": calls_record(error.fix), "code": error.code}
        return {"error": {**failure, "input": isinstance(error, BadInput)}}
    return {"inspection": dataclasses.asdict(inspection if dataset.whole else _without_rows(inspection))}


def _without_rows(inspection: Inspection) -> Inspection:
    def without_rows(scanned: ScannedSplit) -> ScannedSplit:
        return dataclasses.replace(scanned, rows=(), judged_count=scanned.judged)

    table = inspection.table
    rest = without_rows(table.held_out) if table.held_out is not None else None
    return dataclasses.replace(
        inspection, table=dataclasses.replace(table, main=without_rows(table.main), held_out=rest)
    )


def main(request_path: str, result_path: str) -> None:
    """Read the request file, and write the result file."""
    with open(request_path, encoding="utf-8") as source:
        request = json.load(source)
    make_importable(request["package"])
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(_COLLECTED_OBJECTS)
    result = answer(request)
    with open(result_path, "w", encoding="utf-8") as sink:
        json.dump(result, sink, default=list)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
