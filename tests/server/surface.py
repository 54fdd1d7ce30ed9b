"""The public surface as files: one JSON file for each tool, one for all prompts, one for all resources.

`python -m tests.server.surface` writes the files anew: those of tools into the package, where the server reads them,
all others into `surface/`. `test_surface.py` compares them with the tools and the server, so that every change that a
client can see is a difference that somebody reads.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.tool_descriptions import SURFACE, describe
from prime_lab_mcp.tools.registry import TOOLS

FOLDER = Path(__file__).with_name("surface")


async def listed(lab: Lab) -> dict[str, Any]:
    """What the server of a lab lists beside its tools, by the name of the file that holds it."""
    server = build_server(lab)
    return {
        "prompts.json": [_plain(prompt) for prompt in await server.list_prompts()],
        "resources.json": [_plain(resource) for resource in await server.list_resources()],
        "resource_templates.json": [_plain(template) for template in await server.list_resource_templates()],
        "instructions.json": server.instructions,
    }


def described() -> dict[str, Any]:
    """The descriptions of all tools, made from the tools, by the name of the file that holds each."""
    return {f"{tool.name}.json": _plain(describe(tool)) for tool in TOOLS}


def as_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _plain(item: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


async def _write() -> None:
    _replace(SURFACE, described())  # Before the server, which reads these files.
    with tempfile.TemporaryDirectory() as scratch:
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        lab = Lab(Settings(workspace=workspace, state_dir=Path(scratch, "state")))
        surface = await listed(lab)
        await lab.close()
    _replace(FOLDER, surface)


def _replace(folder: Path, files: Mapping[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    for stale in folder.glob("*.json"):
        stale.unlink()
    for name, value in files.items():
        folder.joinpath(name).write_text(as_text(value), encoding="utf-8")


if __name__ == "__main__":
    anyio.run(_write)
