"""Assembles the template packages of resources/templates: the files of a template's folder and those it shares.

A file that several templates hold stands once, in `_shared/`, with `shared_template` for the name of the package and
`SharedTemplate` for the beginning of its classes. The file `shared.txt` of a template lists what the template takes
from there, one file a line: `rows.py`, or `answers.py from short_answers.py` where the two names differ. The result is
a whole package under the template's own names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from prime_lab_mcp.lab.authoring.naming import PackageNames, rename_code

SHARED = "_shared"
"""Folder of the shared files, beside the templates."""
LIST = "shared.txt"
"""Name of the list of shared files in a template's folder. The list is no part of the package."""
_SHARED_NAMES = PackageNames("shared_template", "shared-template", "SharedTemplate")
_CACHES = ("__pycache__", ".mypy_cache", ".ruff_cache")


def template_names(templates: Path) -> list[str]:
    """The names of all template packages."""
    return sorted(path.parent.name for path in templates.glob("*/pyproject.toml"))


@dataclass(frozen=True)
class Template:
    """A whole template package. `folder` is the template's folder in `resources/templates`."""

    folder: Path

    @cached_property
    def names(self) -> PackageNames:
        """The template's own names, which its files contain."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        module = str(project["name"]).replace("-", "_")
        prefix = "".join(part.capitalize() for part in module.split("_"))
        return PackageNames(module, str(project["name"]), prefix)

    @cached_property
    def sources(self) -> Mapping[str, Path]:
        """Where the text of every file of the package stands, by its path in the package."""
        sources = {path.relative_to(self.folder).as_posix(): path for path in source_files(self.folder)}
        listed = sources.pop(LIST, None)
        for line in listed.read_text(encoding="utf-8").splitlines() if listed is not None else ():
            path, _, source = line.partition(" from ")
            sources[f"{self.names.module}/{path}"] = self.folder.parent / SHARED / (source or path)
        return dict(sorted(sources.items(), key=lambda item: item[0].split("/")))

    def text(self, path: str) -> str:
        """The text of one file, under the template's own names."""
        source = self.sources[path]
        text = source.read_text(encoding="utf-8")
        shared = source.is_relative_to(self.folder.parent / SHARED)
        return rename_code(text, _SHARED_NAMES, self.names) if shared and path.endswith(".py") else text

    def write(self, target: Path) -> None:
        """Write the whole package into `target`, under the template's own names."""
        for path in self.sources:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(self.text(path), encoding="utf-8")


def source_files(folder: Path) -> list[Path]:
    """The files of a folder of templates, without hidden files and caches."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [
        path for path in found if not any(part[0] == "." or part in _CACHES for part in path.relative_to(folder).parts)
    ]
