"""Streams a dataset of the Hugging Face Hub at one commit; part of dataset_program, apart for its foreign errors."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Mapping
from typing import Any


def scan_hub(request: Mapping[str, Any], program: Any) -> dict[str, Any]:
    """Stream the wanted splits of a Hub dataset at one commit. Raises program.Unreadable.

    `program` is the module dataset_program, which loads this file by path.
    """
    datasets: Any = importlib.import_module("datasets")
    hub: Any = importlib.import_module("huggingface_hub")

    datasets.disable_progress_bars()
    name, config = request["dataset"], request["config"]
    try:
        commit = hub.HfApi().dataset_info(name, revision=request["revision"], timeout=20).sha
        config = _config(datasets.get_dataset_config_names(name, revision=commit), config, name, program)
        builder = datasets.load_dataset_builder(name, config, revision=commit)
        known = dict(builder.info.splits or {})
        names = list(known) or datasets.get_dataset_split_names(name, config, revision=commit)
        main, held = program.choose(names, request["split"], request["eval_split"])
        scans, features = {}, _features(builder.info.features)
        for split in [s for s in (main, held) if s]:
            stream = datasets.load_dataset(name, config, split=split, revision=commit, streaming=True)
            features = features or _features(stream.features)
            scans[split] = _stream(stream, request, program)
    except program.Unreadable:
        raise
    except Exception as error:
        raise _failure(error, name, program) from None
    return {
        "config": config,
        "revision": commit,
        "main": main,
        "held": held,
        "splits": [{"name": n, "rows": _rows(known.get(n), scans.get(n))} for n in names],
        "scans": scans,
        "features": features,
    }


def _rows(info: Any, scan: Mapping[str, Any] | None) -> int | None:
    """What the dataset says of itself, else what was counted to the end."""
    counted = scan["scanned"] if scan is not None and scan["complete"] else None
    return getattr(info, "num_examples", None) or counted


def _stream(stream: Any, request: Mapping[str, Any], program: Any) -> dict[str, Any]:
    scan = program.Scan(request["max_rows"], request["seed"])
    deadline = time.monotonic() + request["seconds"]
    if any(type(f).__name__ in ("Image", "Audio", "Video") for f in (stream.features or {}).values()):
        stream = stream.decode(False)
    for row in stream:
        if scan.scanned >= request["max_scan"] or time.monotonic() > deadline:
            scan.complete = False
            break
        scan.take(row)
    found: dict[str, Any] = scan.told()
    return found


def _config(names: list[str], wanted: str | None, dataset: str, program: Any) -> str | None:
    if wanted is not None and wanted not in names:
        raise program.Unreadable(
            "unknown-config", f"the dataset has no such config; it has: {', '.join(names[:40])}", "Give config."
        )
    if wanted is None and len(names) > 1:
        if "default" in names:
            return "default"
        raise program.Unreadable("config-needed", f"{dataset} has the configs {', '.join(names[:40])}", "Give config.")
    return wanted or (names[0] if names else None)


def _features(features: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, feature in (features or {}).items():
        if type(feature).__name__ == "ClassLabel":
            found[name] = {"dtype": "class_label", "names": list(feature.names or [])}
        else:
            found[name] = {"dtype": str(getattr(feature, "dtype", type(feature).__name__))}
    return found


def _failure(error: Exception, name: str, program: Any) -> Any:
    detail = f"{type(error).__name__}: {error}"
    chain: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 10:
        chain.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__
    if "GatedRepoError" in chain:
        return program.Unreadable(
            "hub-gated", f"{name} is gated", "Accept its terms on the Hub and run `hf auth login`.", detail
        )
    if {"RepositoryNotFoundError", "RevisionNotFoundError", "DatasetNotFoundError"} & set(chain):
        return program.Unreadable(
            "hub-not-found",
            f"the Hub has no dataset {name} at this revision, or it is private",
            "Check the spelling; for a private one run `hf auth login`.",
            detail,
        )
    offline = re.search(r"Connect|Timeout|Offline|Resolution|ProxyError|SSLError|NetworkError", " ".join(chain))
    if offline:
        return program.Unreadable(
            "hub-unreachable",
            "the Hugging Face Hub cannot be reached from here",
            "Put the dataset's files into the workspace and name that path, or call again when online.",
            detail,
        )
    return program.Unreadable("hub-failed", f"{name} could not be loaded from the Hub", "See the detail.", detail)
