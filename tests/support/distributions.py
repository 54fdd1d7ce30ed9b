"""Installs small distributions into a folder, as an installer does: a module, METADATA and RECORD."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any


def install_distribution(
    site: Path,
    name: str,
    version: str,
    code: str = "PAYS = 1\n",
    requires: tuple[str, ...] = (),
    origin: Any = None,
) -> None:
    """Install a distribution with one module, in place of another version of it. `origin` is its direct_url.json."""
    for older in site.glob(f"{name}-*.dist-info"):
        shutil.rmtree(older)
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    metadata = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    files = {f"{name}/__init__.py": code, f"{folder.name}/METADATA": "\n".join(metadata) + "\n"}
    if origin is not None:
        files[f"{folder.name}/direct_url.json"] = json.dumps(origin)
    lines = []
    for path, text in files.items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text.encode())}")
    (folder / "RECORD").write_text("\n".join([*lines, f"{folder.name}/RECORD,,"]) + "\n", encoding="utf-8")
