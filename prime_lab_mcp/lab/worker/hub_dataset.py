"""Streams a dataset of the Hugging Face Hub at one commit and judges it; part of dataset_program."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable
from typing import Any

_SHARE = 0.75
"""Of the time for all rows, what the split to train on may take."""


def _ours(name: str) -> Any:
    return importlib.import_module(f"prime_lab_mcp.lab.{name}")


def scan_hub(
    asked: Any, columns: tuple[str | None, str | None], seconds: float, say: Callable[[str, int], None]
) -> Any:
    """Scan the wanted splits, all of their rows or as many as come in `seconds`. Raises LabError."""
    scanning, errors = _ours("datasets.scanning"), _ours("errors")
    datasets: Any = importlib.import_module("datasets")
    datasets.disable_progress_bars()
    try:
        commit, config, known, names = _found(datasets, asked)
        main, held = _ours("datasets.splits").choose(names, asked.split, asked.eval_split)
        work = scanning.Work(asked, main, held, *columns)
        scans: dict[str, Any] = {}
        features: dict[str, Any] = {}
        started = time.monotonic()
        for split in work.wanted:
            stream = datasets.load_dataset(asked.dataset, config, split=split, revision=commit, streaming=True)
            features = features or _features(stream.features)
            deadline = started + seconds * (_SHARE if split == main else 1.0)
            scans[split] = _stream(stream, work.scan(split, say), features, deadline)
    except errors.LabError:
        raise
    except Exception as error:
        raise _failure(error, asked.dataset) from None
    rows = tuple((n, getattr(known.get(n), "num_examples", None) or None) for n in names)
    return scanning.judge_scans(work, scans, "hub", rows, features, config=config, revision=commit)


def _found(datasets: Any, asked: Any) -> tuple[str, str | None, dict[str, Any], list[str]]:
    """The commit, the config, what is known of its splits, and their names."""
    hub: Any = importlib.import_module("huggingface_hub")
    commit = hub.HfApi().dataset_info(asked.dataset, revision=asked.revision, timeout=20).sha
    config = _config(datasets, asked, commit)
    builder = datasets.load_dataset_builder(asked.dataset, config, revision=commit)
    known = dict(builder.info.splits or {})
    return commit, config, known, list(known) or _split_names(datasets, asked.dataset, config, commit)


def _split_names(datasets: Any, name: str, config: str | None, commit: str) -> list[str]:
    found: list[str] = datasets.get_dataset_split_names(name, config, revision=commit)
    return found


def _config(datasets: Any, asked: Any, commit: str) -> str | None:
    """The one that was asked for, the only one, or the one that the dataset calls its default."""
    errors, quote = _ours("errors"), _ours("text").quote
    names = datasets.get_dataset_config_names(asked.dataset, revision=commit)
    known = ", ".join(quote(n, 60)[1:-1] for n in names[:40])
    more = f" and {len(names) - 40} more" if len(names) > 40 else ""
    if asked.config is not None and asked.config not in names:
        raise errors.BadInput(
            f"{asked.dataset} has no config {quote(asked.config, 80)}; it has: {known}{more}",
            fix="Give config one of these, or leave it out if there is only one.",
            code="unknown-config",
        )
    if asked.config is not None or len(names) < 2:
        return asked.config or (names[0] if names else None)
    default: str | None = datasets.get_dataset_default_config_name(asked.dataset, revision=commit)
    if default is None:
        raise errors.BadInput(
            f"{asked.dataset} has the configs {known}{more}", fix="Give config.", code="config-needed"
        )
    return default


def _stream(stream: Any, scan: Any, features: dict[str, Any], deadline: float) -> Any:
    """Batches as Arrow tables: nothing is decoded, so an image is bytes and a class its number. At least one."""
    arrows = _ours("datasets.arrows")
    for batch in stream.with_format("arrow").iter(batch_size=arrows.BATCH):
        if scan.rows and time.monotonic() > deadline:
            scan.complete = False
            break
        for field in batch.schema:
            features.setdefault(field.name, {"dtype": str(field.type)})
        arrows.give(batch, scan)
    return scan


def _features(features: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, feature in (features or {}).items():
        if type(feature).__name__ == "ClassLabel":
            found[name] = {"dtype": "class_label", "names": list(feature.names or [])}
        else:
            found[name] = {"dtype": str(getattr(feature, "dtype", type(feature).__name__))}
    return found


def _failure(error: Exception, name: str) -> Any:
    errors, quote = _ours("errors"), _ours("text").quote
    detail = f" ({quote(f'{type(error).__name__}: {error}')})"
    chain: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 10:
        chain.append(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__

    def failed(code: str, message: str, fix: str) -> Any:
        return errors.LabError(f"{message}{detail}", fix=fix, code=code)

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
