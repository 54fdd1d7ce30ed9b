"""The templates as whole packages: assembled once in a process, into a temporary folder."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from prime_lab_mcp.lab.authoring.assembly import Template
from tests.conftest import TEMPLATES


@cache
def assembled(kind: str) -> Path:
    """The folder of the assembled template, which holds the package `KIND_template`. Tests only read it."""
    folder = _root() / kind
    Template(TEMPLATES / kind).write(folder)
    return folder


@cache
def _root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="templates-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root.resolve()
