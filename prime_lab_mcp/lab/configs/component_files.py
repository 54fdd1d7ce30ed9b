"""Reads an older config that consists of several files: for the trainer, the orchestrator and the inference server.

prime-rl of 2025 was started with `--trainer @ train.toml --orchestrator @ orch.toml --inference @ infer.toml`. Each
file has the keys of one table of a present config. The files are joined into one text with these tables, in which
comments stay behind their values. The caller names the folder or one of its files. Symbolic links are ignored, because
they may lead out of the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config, read_config

COMPONENT_FILES: Mapping[str, tuple[str, ...]] = {
    "trainer": ("train.toml", "trainer.toml"),
    "orchestrator": ("orch.toml", "orchestrator.toml"),
    "inference": ("infer.toml", "inference.toml"),
}
"""Possible names of a component's file, by the table of its keys."""
_SHARED_FILE = "rl.toml"
_INNER_FOLDER = "rl"
_HEADER = re.compile(r"^(\s*\[\[?\s*)(?=[A-Za-z0-9_\"'-])", re.M)
_LISTED = 8


def read_older_config(path: Path, relative: str) -> TrainingConfig:
    """Read a config to migrate: a single file, a folder with a config, or the files of components as one config.

    `relative` is the path as the caller named it. Raises BadInput like `read_config`, and for a folder without a config
    or with several.
    """
    if path.is_dir():
        return _read_folder(path, relative)
    component = _component_of(path.name)
    if component is not None and len(files := component_files(path.parent)) > 1 and _is_component(path, component):
        return _joined(path.parent, files)
    return read_config(path)


def component_files(folder: Path) -> dict[str, Path]:
    """Return the files of components in a folder, by the table of their keys."""
    named = {table: [folder / name for name in names] for table, names in COMPONENT_FILES.items()}
    files = {table: next(filter(_is_own, paths), None) for table, paths in named.items()}
    return {table: file for table, file in files.items() if file is not None}


def _read_folder(folder: Path, relative: str) -> TrainingConfig:
    for candidate in (folder, folder / _INNER_FOLDER):
        components = component_files(candidate)
        if "orchestrator" in components:
            return _joined(candidate, components)
    files = sorted(filter(_is_own, folder.glob("*.toml")))
    shared = folder / _SHARED_FILE
    if shared in files or len(files) == 1:
        return read_config(shared if shared in files else files[0])
    if not files:
        raise BadInput(
            f"{quote(relative, 120)} is a folder without a TOML file",
            fix="Name a config, or a folder with train.toml, orch.toml and infer.toml.",
            code="config-unreadable",
        )
    names = ", ".join(quote(file.name, 60) for file in files[:_LISTED])
    raise BadInput(
        f"{quote(relative, 120)} is a folder with {len(files)} configs",
        fix=f"Name one of them: {names}.",
        code="config-unreadable",
        next=(
            Next(
                "write_training_config",
                "takes the first of them",
                {"based_on": f"{relative.rstrip('/')}/{files[0].name}"},
            ),
        ),
    )


def _is_own(file: Path) -> bool:
    return file.is_file() and not file.is_symlink()


def _component_of(name: str) -> str | None:
    return next((table for table, names in COMPONENT_FILES.items() if name in names), None)


def _is_component(path: Path, component: str) -> bool:
    """Whether a file has the keys of only one component, and no tables of others."""
    table = read_config(path).table
    return not any(isinstance(table.get(name), Mapping) for name in COMPONENT_FILES if name != component)


def _joined(folder: Path, files: Mapping[str, Path]) -> TrainingConfig:
    """Return the files as one config. Its path is their folder, so that it has the name of the folder."""
    parts = {table: read_config(file) for table, file in files.items()}
    shared = read_config(folder / _SHARED_FILE) if _is_own(folder / _SHARED_FILE) else None
    table = dict(shared.table) if shared else {}
    for name, part in parts.items():
        table[name] = _merged(table.get(name), part.table)
    named = folder.parent if folder.name == _INNER_FOLDER else folder
    text = "\n".join([shared.text if shared else "", *(_nested(name, part.text) for name, part in parts.items())])
    try:
        config = parse_config(text, named)
    except BadInput:
        config = None
    if config is None or dict(config.table) != table:
        config = parse_config(_dumped(table), named)
    return config


def _nested(table: str, text: str) -> str:
    """Return the text of a component's file as the table of a whole config."""
    return f"[{table}]\n" + _HEADER.sub(lambda match: f"{match[1]}{table}.", text)


def _merged(under: Any, over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table `under` with the values of `over`, which take precedence."""
    merged = dict(under) if isinstance(under, Mapping) else {}
    for key, value in over.items():
        merged[key] = _merged(merged.get(key), value) if isinstance(value, Mapping) else value
    return merged


def _dumped(table: Mapping[str, Any]) -> str:
    import tomlkit  # not needed until a config is written

    return tomlkit.dumps(table)
