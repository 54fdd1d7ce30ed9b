"""Resolves the argument that names a dataset: files of the workspace, a dataset on the Hub, or an environment."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import text_files
from prime_lab_mcp.lab.state.workspace import Workspace

TRAIN_SPLITS = ("train", "training")
HELD_OUT_SPLITS = ("validation", "valid", "val", "dev", "test", "testing", "eval", "evaluation")
_IN_NAME = re.compile(rf"(?:^|[-_. ])({'|'.join((*TRAIN_SPLITS, *HELD_OUT_SPLITS))})(?=[-_. ]|$)", re.I)


def split_in(name: str) -> str | None:
    """Return the split that the name of a file or folder contains (`train` in `train-00000-of-00002.parquet`)."""
    match = _IN_NAME.search(name)
    return match[1].lower() if match else None


def nearest_name(wanted: str | None, names: Sequence[str]) -> str:
    """The one of some names that is spelled most like `wanted`, or the first one."""
    return next(iter(difflib.get_close_matches(wanted or "", names, 1)), names[0])


def listed_names(names: Sequence[str]) -> str:
    """Names for a message. They are quoted, as all foreign text is."""
    return ", ".join(quote(name, 60) for name in names[:40])


def choose_splits(names: Sequence[str], split: str | None, eval_split: str | None) -> tuple[str, str | None]:
    """Return the training split and the held-out split: the requested ones, or those with usual names.

    Raises BadInput for a split that does not exist.
    """
    for argument, requested in (("split", split), ("eval_split", eval_split)):
        if requested is not None and requested not in names:
            raise BadInput(
                f"there is no split {quote(requested, 80)}",
                fix=Fix(
                    "Pass ",
                    SameCall(**{argument: nearest_name(requested, names)}),
                    f", or another of: {listed_names(names)}.",
                ),
                code="unknown-split",
            )
    if split is not None and split == eval_split:
        raise BadInput(
            f"split and eval_split are both {quote(split, 80)}",
            fix=Fix("Name two, or leave ", SameCall.without("eval_split"), " out."),
            code="same-split",
        )
    main = split or next((n for n in names if n.lower() in TRAIN_SPLITS and n != eval_split), None)
    main = main or next((n for n in names if n != eval_split), names[0])
    return main, eval_split or next(
        (n for usual in HELD_OUT_SPLITS for n in names if n.lower() == usual and n != main), None
    )


ENVIRONMENT = "environment:"
_HUB = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?$")
_NO_DATA = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "metadata.json"})
"""Files that describe a dataset and contain no rows."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files of a dataset by split, in reading order.

    `relative` is the path that the caller gave. `config` is the name of the chosen subfolder, if the dataset has
    configs.
    """

    relative: str
    splits: Mapping[str, tuple[Path, ...]]
    config: str | None = None

    @property
    def files(self) -> list[Path]:
        return [f for files in self.splits.values() for f in files]

    @property
    def size(self) -> int:
        """The number of bytes of all files."""
        return sum(f.stat().st_size for f in self.files)


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A dataset on the Hub. `id` is `owner/name`, or only a name for some old datasets."""

    id: str


@dataclass(frozen=True, slots=True)
class EnvironmentRows:
    """The tasks of the local environment `name`."""

    name: str


def locate_dataset(
    workspace: Workspace, dataset: str, config: str | None = None
) -> LocalFiles | HubDataset | EnvironmentRows:
    """Resolve a name: an environment, an existing path of the workspace, otherwise a Hub id. Raises BadInput."""
    if dataset.startswith(ENVIRONMENT):
        return EnvironmentRows(dataset.removeprefix(ENVIRONMENT).strip())
    path = workspace.resolve(dataset)
    if path.exists():
        return _local(dataset, path, workspace.root, config)
    looks_local = dataset.startswith((".", "/")) or dataset.count("/") > 1 or text_files.format_of(dataset) is not None
    if looks_local or not _HUB.match(dataset):
        raise BadInput(
            f"there is no dataset file or folder {quote(dataset)} in the workspace",
            fix="Give a path in the workspace, or owner/name of a Hugging Face dataset.",
            code="dataset-not-found",
        )
    return HubDataset(dataset)


def _local(dataset: str, path: Path, root: Path, config: str | None) -> LocalFiles:
    if not path.is_dir():
        _refuse_config(config, "a file has no config")
        return LocalFiles(dataset, _one_file(path))
    files_by_split, config_name = _in_folder(path), None
    if not files_by_split:
        files_by_split, config_name = _of_config(path, config)
    else:
        _refuse_config(config, f"{quote(path.name)} has its files in one place and so no configs")
    for file in (f for files in files_by_split.values() for f in files):
        if not file.resolve().is_relative_to(root):
            raise BadInput(
                f"{quote(file.name, 80)} is a link that leads outside the workspace",
                fix="Copy the file into the workspace.",
                code="outside-workspace",
            )
    if not files_by_split:
        raise BadInput(
            f"{quote(path.name)} holds no dataset files",
            fix=f"Put train.jsonl (and test.jsonl) into it; known endings: {text_files.known_endings()}.",
            code="no-dataset-files",
        )
    return LocalFiles(dataset, files_by_split, config_name)


def _refuse_config(config: str | None, why: str) -> None:
    if config is not None:
        raise BadInput(why, fix=Fix("Leave ", SameCall.without("config"), " out."), code="unknown-config")


_DATABASES = frozenset({".db", ".sqlite", ".sqlite3", ".db3", ".duckdb"})


class DatabaseFile(BadInput):
    """The path is a database: no dataset, but what the tools of an environment may read."""


def _database_fix(name: str) -> Fix:
    return Fix(
        "Where a model is to query it, call ",
        NamedCall("create_environment", name=..., template="tool_use", task=...),
        " (where it is also to change it, ",
        NamedCall("create_environment", name=..., template="stateful_tools", task=...),
        ") and copy it into the package with ",
        NamedCall("edit_environment", environment=..., path=..., copy_from=name),
        " (",
        NamedCall("read_reference", topic="guide/interaction"),
        f" shows such an environment). Rows of it are a dataset in one of {text_files.known_endings()}.",
    )


def _one_file(path: Path) -> dict[str, tuple[Path, ...]]:
    if not path.is_file():
        raise BadInput(f"{quote(path.name)} is no regular file", fix="Name a file or folder.", code="not-a-file")
    if text_files.format_of(path.name) is None:
        if path.suffix.lower() in _DATABASES:
            raise DatabaseFile(
                f"{quote(path.name)} is a database and no dataset file",
                fix=_database_fix(path.name),
                code="unknown-file-type",
            )
        raise BadInput(
            f"{quote(path.name)} is no dataset file",
            fix=f"Use one of {text_files.known_endings()}.",
            code="unknown-file-type",
        )
    return {split_in(path.name) or "train": (path,)}


def _of_config(folder: Path, config: str | None) -> tuple[dict[str, tuple[Path, ...]], str | None]:
    """Return the splits and the name of one subfolder, if each subfolder is a config, as in repositories on the Hub.

    Raises BadInput if the config does not exist, or if there are several and none is given.
    """
    parts = [*_folders(folder), *_folders(folder / "data")]
    configs = {p.name: files_by_split for p in parts if (files_by_split := _in_folder(p))}
    if config is not None and config not in configs:
        listed = listed_names(list(configs)) or "none"
        raise BadInput(
            f"{quote(folder.name)} has no config {quote(config, 80)}; it has: {listed}",
            fix=Fix("Pass ", SameCall(config=nearest_name(config, list(configs))), ".")
            if configs
            else Fix("Leave ", SameCall.without("config"), " out."),
            code="unknown-config",
        )
    if config is None and len(configs) > 1:
        config = "default" if "default" in configs else None
    if config is None and len(configs) > 1:
        raise BadInput(
            f"{quote(folder.name)} has the configs {listed_names(list(configs))}",
            fix=Fix("Pass ", SameCall(config=nearest_name(None, list(configs))), ", or another one."),
            code="config-needed",
        )
    name = config or next(iter(configs), None)
    return (configs[name], name) if name is not None else ({}, None)


def _in_folder(folder: Path) -> dict[str, tuple[Path, ...]]:
    return _saved_to_disk(folder) or _by_split(folder) or _by_split_folder(folder) or _by_split(folder / "data")


def _folders(folder: Path) -> list[Path]:
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    return [p for p in inside if p.is_dir() and not p.name.startswith(".")]


def _data_files(folder: Path) -> list[Path]:
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        p
        for p in inside
        if not p.name.startswith(".") and p.name not in _NO_DATA and text_files.format_of(p.name) and p.is_file()
    ]


def _by_split(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Group files by the splits in their names. Without such names, all files are the training split."""
    files = _data_files(folder)
    by_name = _grouped((split_in(file.name), file) for file in files)
    return by_name or ({"train": tuple(files)} if files else {})


def _by_split_folder(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Group files by the names of their folders, if these are splits (`train/0.parquet`, `test/0.parquet`)."""
    splits = {p: split_in(p.name) for p in _folders(folder)}
    return _grouped((split, file) for p, split in splits.items() if split == p.name.lower() for file in _data_files(p))


def _grouped(files: Iterable[tuple[str | None, Path]]) -> dict[str, tuple[Path, ...]]:
    by_split: dict[str, tuple[Path, ...]] = {}
    for split, file in files:
        if split is not None:
            by_split[split] = (*by_split.get(split, ()), file)
    return by_split


def _saved_to_disk(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the files that `datasets.save_to_disk` has written: Arrow files in the folder, or a folder per split."""
    if (folder / "dataset_dict.json").is_file():
        parts = {p.name: tuple(sorted(p.glob("*.arrow"))) for p in _folders(folder)}
        return {split: files for split, files in parts.items() if files}
    if (folder / "state.json").is_file() and (files := tuple(sorted(folder.glob("*.arrow")))):
        return {"train": files}
    return {}
