"""What a dataset argument names: files of the workspace (with their splits) or a dataset on the Hugging Face Hub."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.worker.dataset_program import SUFFIXES
from prime_lab_mcp.lab.workspace import Workspace

_SPLIT = re.compile(r"^(train|training|validation|valid|val|dev|test|eval)(?:[-_.].*)?$", re.I)
_HUB = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?$")


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Files by split, in the order they are read. `relative` is what the caller named."""

    relative: str
    splits: Mapping[str, tuple[Path, ...]]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.stat().st_size for files in self.splits.values() for f in files)

    @property
    def suffixes(self) -> set[str]:
        return {f.suffix for files in self.splits.values() for f in files}


@dataclass(frozen=True, slots=True)
class HubDataset:
    """`owner/name`, or the bare name of an old dataset."""

    id: str


def locate(workspace: Workspace, dataset: str) -> LocalFiles | HubDataset:
    """A path of the workspace if there is one, else a Hub id. Raises BadInput."""
    if dataset.startswith("environment:"):
        raise BadInput(
            "rows of an environment are not read by inspect_dataset in this version",
            fix="Call check_environment: it applies the same findings to the rows the environment yields.",
            code="source-not-supported",
        )
    path = workspace.resolve(dataset)
    if path.exists():
        return LocalFiles(dataset, _files(path, workspace.root))
    looks_local = dataset.startswith((".", "/")) or dataset.count("/") > 1 or path.suffix in SUFFIXES
    if looks_local or not _HUB.match(dataset):
        raise BadInput(
            f"there is no dataset file or folder {quote(dataset)} in the workspace",
            fix="Give a path in the workspace, or owner/name of a Hugging Face dataset.",
            code="dataset-not-found",
        )
    return HubDataset(dataset)


def _files(path: Path, root: Path) -> dict[str, tuple[Path, ...]]:
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise BadInput(
                f"{quote(path.name)} is no dataset file",
                fix=f"Use one of {', '.join(SUFFIXES)}.",
                code="unknown-file-type",
            )
        matched = _SPLIT.match(path.stem)
        return {matched[1].lower() if matched else "train": (path,)}
    found = _saved_to_disk(path) or _by_split(path) or _by_split(path / "data")
    for files in found.values():
        for file in files:
            if not file.resolve().is_relative_to(root):
                raise BadInput(f"{file.name} leads outside the workspace", fix="Copy it in.", code="outside-workspace")
    if not found:
        raise BadInput(
            f"{quote(path.name)} holds no dataset files",
            fix=f"Put train.jsonl (and test.jsonl) into it; known endings: {', '.join(SUFFIXES)}.",
            code="no-dataset-files",
        )
    return found


def _by_split(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Files by the split their names begin with; a folder without such names is one split."""
    if not folder.is_dir():
        return {}
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in SUFFIXES)
    named: dict[str, list[Path]] = {}
    for file in files:
        if matched := _SPLIT.match(file.stem):
            named.setdefault(matched[1].lower(), []).append(file)
    if not named and files:
        named = {"train": files}
    return {split: tuple(found) for split, found in named.items()}


def _saved_to_disk(folder: Path) -> dict[str, tuple[Path, ...]]:
    """What `datasets` writes with save_to_disk: a folder of Arrow files, or one such folder per split."""
    if (folder / "dataset_dict.json").is_file():
        parts = {p.name: tuple(sorted(p.glob("*.arrow"))) for p in sorted(folder.iterdir()) if p.is_dir()}
        return {split: files for split, files in parts.items() if files}
    if (folder / "state.json").is_file() and (files := tuple(sorted(folder.glob("*.arrow")))):
        return {"train": files}
    return {}
