"""Scans and judges a dataset for the server: `dataset_program.py REQUEST RESULT`, both JSON files.

Run by path with the toolchain's interpreter, because pyarrow and `datasets` take seconds to import and must not share
a process with the server. It lends itself our modules that need nothing but the standard library: the request says
where the package is, and no other folder of the server's environment goes on the search path. On standard output it
says `@rows SPLIT NUMBER` as it goes on.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

_EVERY = 0.3


def lend(package: str) -> None:
    """Make `prime_lab_mcp.lab` importable from one folder, without running what its packages hold."""
    for name, path in (("prime_lab_mcp", Path(package)), ("prime_lab_mcp.lab", Path(package, "lab"))):
        module = ModuleType(name)
        module.__path__ = [str(path)]
        sys.modules[name] = module


def _saying() -> Callable[[str, int], None]:
    told = 0.0

    def say(split: str, rows: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _EVERY:
            told = now
            print(f"@rows {json.dumps(split)} {rows}", flush=True)

    return say


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The inspection as JSON values, or what was refused."""
    scanning: Any = importlib.import_module("prime_lab_mcp.lab.datasets.scanning")
    table: Any = importlib.import_module("prime_lab_mcp.lab.datasets.table")
    errors: Any = importlib.import_module("prime_lab_mcp.lab.errors")

    asked = table.Request(**request["request"])
    columns = (request["prompt_column"], request["answer_column"])
    say = _saying()
    try:
        if request["kind"] == "hub":
            hub: Any = importlib.import_module("prime_lab_mcp.lab.worker.hub_dataset")
            found = hub.scan_hub(asked, columns, request["seconds"], say)
        else:
            work = scanning.Work(asked, request["main"], request["held"], *columns)
            files = {split: [Path(f) for f in files] for split, files in request["splits"].items()}
            found = scanning.scan_files(work, files, request["config"], say=say)
    except errors.LabError as error:
        told = {"message": error.message, "fix": error.fix, "code": error.code}
        return {"error": {**told, "input": isinstance(error, errors.BadInput)}}
    return {"inspection": dataclasses.asdict(found if asked.whole else _without_rows(found))}


def _without_rows(found: Any) -> Any:
    def light(scanned: Any) -> Any:
        return dataclasses.replace(scanned, rows=(), counted=scanned.judged)

    table = found.table
    held = light(table.held) if table.held is not None else None
    return dataclasses.replace(found, table=dataclasses.replace(table, main=light(table.main), held=held))


def main(request_path: str, result_path: str) -> None:
    """Answer one request file with one result file."""
    with open(request_path, encoding="utf-8") as source:
        request = json.load(source)
    lend(request["package"])
    result = answer(request)
    with open(result_path, "w", encoding="utf-8") as sink:
        json.dump(result, sink, default=list)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
