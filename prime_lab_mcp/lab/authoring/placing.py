"""A new environment appears whole or not at all: built beside its place, then moved there in one step."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prime_lab_mcp.lab.errors import BadInput


@contextmanager
def building(target: Path) -> Iterator[Path]:
    """A folder to build in, which becomes `target` when the block ends well; nothing stays when it does not."""
    parent = target.parent
    made = not parent.exists()
    parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=parent, prefix=".creating-"))
    try:
        inside = scratch / target.name
        inside.mkdir()
        yield inside
        try:
            if target.exists():
                raise FileExistsError(target)
            os.rename(inside, target)
        except OSError as error:
            raise BadInput(
                f"environments/{target.name} could not be put in place: {error.strerror or 'it exists now'}",
                fix="Call create_environment again with another name.",
                code="environment-exists",
            ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if made and not any(parent.iterdir()):
            parent.rmdir()
