"""The descriptions of a release: the manifest of the MCPB bundle, and `server.json` of the MCP registry.

Both are made from pyproject.toml, so that wheel, bundle and registry have one version. The formats are those of
@anthropic-ai/mcpb 2.1.2 (manifest 0.4) and of the registry's schema 2025-12-11.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
LONGEST_DESCRIPTION = 100
"""Characters of the description in `server.json`."""
SHORT = "Builds, validates, publishes and trains RL environments on Prime Intellect Lab."
_NAMESPACE = re.compile(r"[a-zA-Z0-9]+(\.[a-zA-Z0-9-]+)+")
"""A domain in reverse, such as io.github.NAME."""
_REPOSITORY = re.compile(r"https://[a-zA-Z0-9.-]+(/[a-zA-Z0-9._-]+)+/?")


@dataclass(frozen=True, slots=True)
class Project:
    """What pyproject.toml says about the distribution."""

    name: str
    version: str
    description: str
    authors: str
    license: str
    python: str
    keywords: tuple[str, ...]


def read_project(root: Path = ROOT) -> Project:
    """Read pyproject.toml. Raises KeyError where a field is missing."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Project(
        name=project["name"],
        version=project["version"],
        description=project["description"],
        authors=", ".join(author["name"] for author in project["authors"]),
        license=project["license"],
        python=project["requires-python"],
        keywords=tuple(project["keywords"]),
    )


def repository_of(namespace: str | None, given: str | None = None) -> str | None:
    """Where the sources are: the address that was given, or GitHub's for a namespace of GitHub; None where not known.

    Raises ValueError for an address that is none.
    """
    if given:
        if not _REPOSITORY.fullmatch(given):
            raise ValueError(f"{given!r} is no address of a repository; give one that starts with https://")
        return given.rstrip("/")
    owner = (namespace or "").removeprefix("io.github.")
    return f"https://github.com/{owner}/{read_project().name}" if owner not in ("", namespace) else None


def project_urls(repository: str) -> dict[str, str]:
    """The links of the package's page on an index."""
    pages = {"Documentation": "docs/guide.md", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
    return {"Repository": repository} | {name: f"{repository}/blob/main/{page}" for name, page in pages.items()}


def bundle_manifest(project: Project, root: Path = ROOT, repository: str | None = None) -> dict[str, Any]:
    """The manifest of the bundle: the host runs the packed sources with its uv, on a folder that its user chooses."""
    served = ["serve", "--workspace", "${user_config.workspace}"]
    return {
        "manifest_version": "0.4",
        "name": project.name,
        "display_name": "Prime Lab",
        "version": project.version,
        "description": SHORT,
        "long_description": project.description,
        "author": {"name": project.authors},
        **({"repository": {"type": "git", "url": repository}} if repository else {}),
        "license": project.license,
        "keywords": list(project.keywords),
        "server": {
            "type": "uv",
            "entry_point": "prime_lab_mcp/__main__.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--no-dev", "--directory", "${__dirname}", project.name, *served],
            },
        },
        "tools": list_tools(root),
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": project.python}},
        "user_config": {
            "workspace": {
                "type": "directory",
                "title": "Workspace",
                "description": "The folder in which the agent keeps environments, data and configs.",
                "required": True,
            }
        },
    }


def list_tools(root: Path = ROOT) -> list[dict[str, str]]:
    """Name and first sentence of each tool, as clients see them, by name."""
    listed = []
    for path in sorted((root / "prime_lab_mcp" / "server" / "surface").glob("*.json")):
        tool = json.loads(path.read_text(encoding="utf-8"))
        listed.append({"name": tool["name"], "description": tool["description"].split(". ")[0].rstrip(".") + "."})
    return listed


def registry_entry(project: Project, namespace: str, repository: str | None = None) -> dict[str, Any]:
    """`server.json`: the package on PyPI, started by uvx over stdio. Raises ValueError for a namespace that is none."""
    if not _NAMESPACE.fullmatch(namespace):
        raise ValueError(f"{namespace!r} is no namespace; give a domain in reverse, such as io.github.NAME")
    assert len(SHORT) <= LONGEST_DESCRIPTION
    return {
        "$schema": SCHEMA,
        "name": registry_name(project, namespace),
        "title": "Prime Lab",
        "description": SHORT,
        "version": project.version,
        **({"repository": _registry_repository(repository)} if repository else {}),
        "packages": [
            {
                "registryType": "pypi",
                "identifier": project.name,
                "version": project.version,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {"type": "positional", "value": "serve"},
                    {
                        "type": "named",
                        "name": "--workspace",
                        "description": "Folder in which the agent keeps environments, data and configs",
                        "format": "filepath",
                        "isRequired": True,
                    },
                ],
                "environmentVariables": [
                    {
                        "name": "PRIME_API_KEY",
                        "description": "Key of Prime Intellect, where `prime login` is not used",
                        "isRequired": False,
                        "isSecret": True,
                    }
                ],
            }
        ],
    }


def _registry_repository(repository: str) -> dict[str, str]:
    """The registry names the host of a repository by one word."""
    host = str(urlsplit(repository).hostname)
    return {"url": repository, "source": host.removesuffix(".com").removesuffix(".org")}


def registry_name(project: Project, namespace: str) -> str:
    return f"{namespace}/{project.name}"


def ownership_line(project: Project, namespace: str) -> str:
    """The line of the README by which the registry knows that a package on PyPI belongs to the entry."""
    return f"<!-- mcp-name: {registry_name(project, namespace)} -->"
