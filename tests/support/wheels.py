"""Wheels without a build, for tests that are about something else."""

from __future__ import annotations

import zipfile
from pathlib import Path

from prime_lab_mcp.lab.environment.wheel_archive import wheel_files, wheel_metadata
from prime_lab_mcp.lab.hub.hub_files import files_digest
from prime_lab_mcp.lab.hub.publish import PushedWheel
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.snapshot import Snapshot


def wheel_of(folder: Path, target: Path) -> Path:
    """The wheel that a plain backend would make of a folder's packages, without metadata."""
    target.mkdir(parents=True, exist_ok=True)
    wheel = target / "any-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            name = path.relative_to(folder).as_posix()
            if "/" in name and not name.startswith("."):
                archive.write(path, name)
    return wheel


async def quick_wheel(lab: Lab, snapshot: Snapshot, target: Path) -> PushedWheel:
    """In place of `publish.build_pushed_wheel`."""
    wheel = wheel_of(snapshot.tree, target)
    return PushedWheel(wheel, files_digest(wheel_files(wheel)), wheel_metadata(wheel))
