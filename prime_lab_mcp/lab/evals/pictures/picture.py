"""The picture of a judged evaluation as a file in its job's folder: drawn once, by a child process."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals.pictures.draw import NO_LIBRARY
from prime_lab_mcp.lab.evals.pictures.survey import replace
from prime_lab_mcp.lab.evals.program import ours
from prime_lab_mcp.lab.report import Finding, Picture
from prime_lab_mcp.lab.text import quote

_SECONDS = 60.0
_VERSION = 1
"""Part of a picture's name: raise it when the same figure is drawn in another way."""


async def drawn(figure: dict[str, Any], folder: Path, cache: Path, title: str) -> Picture | Finding:
    """The picture of a figure, from `folder` where it was drawn before; else why there is none.

    `cache` is where matplotlib keeps its list of fonts.
    """
    told = json.dumps(figure, sort_keys=True)
    name = hashlib.sha256(f"{_VERSION} {told}".encode()).hexdigest()[:16]
    source, target = folder / f"picture-{name}.json", folder / f"picture-{name}.png"
    if not target.is_file():
        try:
            replace(source, told)
            cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            return _missing(f"its folder cannot be written to ({error.strerror})")
        missing = await _draw(source, target, cache)
        if missing is not None:
            return missing
    return Picture(target, title)


async def _draw(source: Path, target: Path, cache: Path) -> Finding | None:
    env = process.clean_environment({"MPLCONFIGDIR": str(cache), "MPLBACKEND": "Agg"})
    program = ours("evals.pictures.draw", str(source), str(target))
    try:
        ended = await process.run(program, cwd=source.parent, env=env, timeout=_SECONDS, output_limit=100_000)
    except LabError as error:
        return _missing(error.message)
    if ended.returncode == NO_LIBRARY:
        return _missing("matplotlib is not installed beside the server")
    if ended.returncode != 0 or not target.is_file():
        return _missing(f"the program that draws ended with {ended.returncode}: {quote(ended.stderr[-300:], 200)}")
    return None


def _missing(why: str) -> Finding:
    return Finding(
        "picture-missing", "info", f"this report has no picture: {why}",
        f"The numbers are complete without it; for pictures, `{Path(sys.executable).name} -m pip install matplotlib` "
        'in the server\'s environment, then read_eval(view="summary").',
    )  # fmt: skip
