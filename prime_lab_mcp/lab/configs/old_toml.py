"""How the old parser of `prime train` reads a config: here, or in the environment that `prime` runs in."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from prime_lab_mcp.lab import process
from prime_lab_mcp.lab.configs.observed import OldReading
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.errors import ProcessError
from prime_lab_mcp.lab.lab import Lab

_PROGRAM = """\
import json, sys
import toml
try:
    with open(sys.argv[1], encoding="utf-8") as file:
        found = {"table": toml.loads(file.read())}
except Exception as error:
    found = {"refused": str(error)[:300]}
print(json.dumps(found, default=str))
"""
_SECONDS = 20.0


def here(config: Config) -> OldReading | None:
    """By the package beside the server; None where it is not installed."""
    try:
        toml = importlib.import_module("toml")
    except ImportError:
        return None
    try:
        return OldReading(table=toml.loads(config.text))
    except Exception as error:
        return OldReading(refused=str(error)[:300])


async def there(lab: Lab, config: Config) -> OldReading | None:
    """By the interpreter of the `prime` that would submit the file; None where none can be asked."""
    for program in lab.toolchain.programs("prime"):
        python = program.resolve().parent / "python"
        if python.is_file() and (reading := await _ask(python, config.path)) is not None:
            return reading
    return None


async def _ask(python: Path, path: Path) -> OldReading | None:
    try:
        done = await process.run(
            [str(python), "-I", "-c", _PROGRAM, str(path)],
            cwd=path.parent, env=process.clean_environment(), timeout=_SECONDS, output_limit=4_000_000,
        )  # fmt: skip
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except (ProcessError, ValueError):
        return None
    if not isinstance(found, dict) or not found:
        return None
    table, refused = found.get("table"), found.get("refused")
    return OldReading(table=table if isinstance(table, dict) else None, refused=str(refused) if refused else None)
