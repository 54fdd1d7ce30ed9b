"""Builds a release into `dist/`: wheel, source distribution, MCPB bundle and, with a namespace, `server.json`.

    python -m release [--namespace io.github.NAME] [--repository URL] [--out DIR]

The repository's address becomes the links of the package; for a namespace of GitHub it need not be given. All are
built from a copy of the committed files, so nothing that lies about in the checkout is published.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import tomlkit

from release.artifacts import (
    ROOT,
    Project,
    bundle_manifest,
    ownership_line,
    project_urls,
    read_project,
    registry_entry,
    repository_of,
)

PACKED = ("pyproject.toml", "README.md", "LICENSE", "prime_lab_mcp")
"""What the bundle holds beside its manifest."""
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the bundle, so that the same commit gives the same bytes."""


def committed_files(folder: Path) -> None:
    """Copy the files of the present commit."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def write_bundle(source: Path, manifest: dict[str, object], bundle: Path) -> None:
    """Pack the sources and the manifest as the bundle, a zip file."""
    paths = [
        path for name in PACKED for path in ([source / name] if (source / name).is_file() else walk(source / name))
    ]
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in [
            ("manifest.json", json.dumps(manifest, indent=2).encode()),
            *((path.relative_to(source).as_posix(), path.read_bytes()) for path in paths),
        ]:
            packed.writestr(zipfile.ZipInfo(name, _OLDEST), content, zipfile.ZIP_DEFLATED)


def walk(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def add_links(pyproject: Path, repository: str) -> None:
    """Write the links to the repository into the project's description."""
    document = tomlkit.parse(pyproject.read_text(encoding="utf-8"))
    document["project"]["urls"] = project_urls(repository)
    pyproject.write_text(tomlkit.dumps(document), encoding="utf-8")


def build(out: Path, namespace: str | None, address: str | None = None) -> Project:
    """Build everything into `out`. Raises CalledProcessError if the wheel cannot be built, and ValueError."""
    project = read_project()
    out.mkdir(parents=True, exist_ok=True)
    repository = repository_of(namespace, address)
    entry = registry_entry(project, namespace, repository) if namespace else None
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        source = Path(scratch)
        committed_files(source)
        if read_project(source) != project:
            raise ValueError("pyproject.toml has changes that are not committed")
        if namespace:
            readme = source / "README.md"
            text = readme.read_text(encoding="utf-8")
            readme.write_text(f"{text}\n{ownership_line(project, namespace)}\n", encoding="utf-8")
        if repository:
            add_links(source / "pyproject.toml", repository)
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "build", "--quiet", "--out-dir", out.resolve(), source], check=True)
        write_bundle(
            source, bundle_manifest(project, source, repository), out / f"{project.name}-{project.version}.mcpb"
        )
    if entry is not None:
        (out / "server.json").write_text(json.dumps(entry, indent=2) + "\n", encoding="utf-8")
    return project


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m release", description="build a release")
    parser.add_argument("--namespace", help="of the MCP registry, such as io.github.NAME; without: no server.json")
    parser.add_argument("--repository", help="address of the sources; for io.github.NAME that on GitHub by default")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    try:
        project = build(args.out, args.namespace or None, args.repository or None)
    except (ValueError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    built = sorted(path.name for path in args.out.iterdir() if not path.name.startswith("."))  # uv adds a .gitignore
    print(f"{project.name} {project.version}: {', '.join(built)}")
    if not args.namespace:
        print("No server.json: name the registry's namespace, as in make release NAMESPACE=io.github.NAME")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
