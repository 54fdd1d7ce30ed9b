"""Streams a dataset of the Hugging Face Hub at one commit and checks it.

`dataset_program` runs this module in the toolchain's interpreter, which has `datasets` and `huggingface_hub`. The
server's interpreter does not have them, so they are imported when a scan starts.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import file_scans
from prime_lab_mcp.lab.datasets.file_scans import ScanWork, judge_scans
from prime_lab_mcp.lab.datasets.inspection import Inspection
from prime_lab_mcp.lab.datasets.scan import DatasetRequest, ScanProgress, SplitScan
from prime_lab_mcp.lab.datasets.source import choose_splits, listed_names, nearest_name

_MAIN_SPLIT_SHARE = 0.75
"""The training split may take at most this share of the streaming time."""


def scan_hub(
    request: DatasetRequest, columns: tuple[str | None, str | None], seconds: float, report_progress: ScanProgress
) -> Inspection:
    """Scan the requested splits: all rows, or those that arrive within `seconds`. Raises LabError."""
    datasets: Any = importlib.import_module("datasets")
    datasets.disable_progress_bars()
    try:
        commit, config, split_infos, names = _resolve(datasets, request)
        main, held_out = choose_splits(names, request.split, request.eval_split)
        work = ScanWork(request, main, held_out, *columns)
        scans: dict[str, SplitScan] = {}
        features: dict[str, Any] = {}
        started = time.monotonic()
        for split in work.splits:
            stream = datasets.load_dataset(request.dataset, config, split=split, revision=commit, streaming=True)
            features = features or _features(stream.features)
            deadline = started + seconds * (_MAIN_SPLIT_SHARE if split == main else 1.0)
            scans[split] = _stream(stream, work.scan(split, report_progress), features, deadline)
    except LabError:
        raise
    except Exception as error:
        raise _hub_error(error, request.dataset) from None
    rows = tuple((n, getattr(split_infos.get(n), "num_examples", None) or None) for n in names)
    return judge_scans(work, scans, "hub", rows, features, config=config, revision=commit)


def _resolve(datasets: Any, request: DatasetRequest) -> tuple[str, str | None, dict[str, Any], list[str]]:
    """Return the commit, the config, the dataset card's entry for each split, and the names of all splits."""
    hub: Any = importlib.import_module("huggingface_hub")
    commit = hub.HfApi().dataset_info(request.dataset, revision=request.revision, timeout=20).sha
    config = _config(datasets, request, commit)
    builder = datasets.load_dataset_builder(request.dataset, config, revision=commit)
    split_infos = dict(builder.info.splits or {})
    return commit, config, split_infos, list(split_infos) or _split_names(datasets, request.dataset, config, commit)


def _split_names(datasets: Any, name: str, config: str | None, commit: str) -> list[str]:
    names: list[str] = datasets.get_dataset_split_names(name, config, revision=commit)
    return names


def _config(datasets: Any, request: DatasetRequest, commit: str) -> str | None:
    """Return the requested config, the only config, or the dataset's default config."""
    names = datasets.get_dataset_config_names(request.dataset, revision=commit)
    listed = listed_names(names)
    more = f" and {len(names) - 40} more" if len(names) > 40 else ""
    if request.config is not None and request.config not in names:
        raise BadInput(
            f"{request.dataset} has no config {quote(request.config, 80)}; it has: {listed}{more}",
            fix=Fix("Pass ", SameCall(config=nearest_name(request.config, names)), ".")
            if names
            else Fix("Leave ", SameCall.without("config"), " out."),
            code="unknown-config",
        )
    if request.config is not None or len(names) < 2:
        return request.config or (names[0] if names else None)
    default: str | None = datasets.get_dataset_default_config_name(request.dataset, revision=commit)
    if default is None:
        raise BadInput(
            f"{request.dataset} has the configs {listed}{more}",
            fix=Fix("Pass ", SameCall(config=nearest_name(None, names)), ", or another one."),
            code="config-needed",
        )
    return default


def _stream(stream: Any, scan: SplitScan, features: dict[str, Any], deadline: float) -> SplitScan:
    """Pass batches to the scan until the deadline, but at least one batch.

    Batches are Arrow tables with undecoded values: an image is bytes, and a class is a number.
    """
    for batch in stream.with_format("arrow").iter(batch_size=file_scans.BATCH_ROWS):
        if scan.rows and time.monotonic() > deadline:
            scan.complete = False
            break
        for field in batch.schema:
            features.setdefault(field.name, {"dtype": str(field.type)})
        file_scans.feed_sink(batch, scan)
    return scan


def _features(features: Mapping[str, Any] | None) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for name, feature in (features or {}).items():
        if type(feature).__name__ == "ClassLabel":
            described[name] = {"dtype": "class_label", "names": list(feature.names or [])}
        else:
            described[name] = {"dtype": str(getattr(feature, "dtype", type(feature).__name__))}
    return described


def _hub_error(error: Exception, name: str) -> LabError:
    detail = f" ({quote(f'{type(error).__name__}: {error}')})"
    chain: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 10:
        chain.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__

    def failed(code: Code, message: str, fix: str) -> LabError:
        return LabError(f"{message}{detail}", fix=fix, code=code)

    if "GatedRepoError" in chain:
        return failed("hub-gated", f"{name} is gated", "Accept its terms on the Hub and run `hf auth login`.")
    if {"RepositoryNotFoundError", "RevisionNotFoundError", "DatasetNotFoundError"} & set(chain):
        return failed(
            "hub-not-found",
            f"the Hub has no dataset {name} at this revision, or it is private",
            "Check the spelling; for a private one run `hf auth login`.",
        )
    if "EmptyDatasetError" in chain or "DataFilesNotFoundError" in chain:
        return failed("hub-no-data", f"{name} has no data files", "Name a dataset that has some.")
    if re.search(r"Connect|Timeout|Offline|Resolution|ProxyError|SSLError|NetworkError", " ".join(chain)):
        return failed(
            "hub-unreachable",
            "the Hugging Face Hub cannot be reached from here",
            "Put the dataset's files into the workspace and name that path, or call again when online.",
        )
    if "dataset scripts are no longer supported" in str(error).lower():
        return failed(
            "hub-script",
            f"{name} is made by a script, which `datasets` does not run any more",
            'Try revision="refs/convert/parquet", where the Hub keeps a converted copy.',
        )
    return failed("hub-failed", f"{name} could not be loaded from the Hub", "See the detail.")
