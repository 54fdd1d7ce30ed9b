"""Whether a config's values are still those that its version was registered with."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.configs.migrate.rows import dotted, leaves
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.configs.registry.file import load
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

_NOT_PARAMETERS = frozenset({"name", "run.name", "monitors.wandb.name"})
_VERSION_LINE = re.compile(r"^# version: (\d{1,6})\s*$", re.M)
_SHOWN = 20


def drift(path: Path, config: Config) -> Finding | None:
    """A warning when a value of a registered file was changed by hand and its version was not. `path`: the registry.

    Parsed values are compared, so that comments may be edited freely.
    """
    try:
        entries = load(path)
        relative = config.path.resolve().relative_to(path.resolve().parent.parent).as_posix()
    except (BadInput, ValueError):
        return None  # writing a config tells what is wrong with the registry
    entry = next((e for e in reversed(entries) if e.path == relative and e.parameters is not None), None)
    if entry is None or entry.parameters is None or entry.sha256 == config.sha256:
        return None
    said = _VERSION_LINE.search(config.text)
    if said is not None and int(said[1]) > entry.version:
        return None  # the person counted on, which is the rule
    before, now = entry.parameters, parameters(config.table)
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if not keys:
        return None
    named = ", ".join(quote(key, limit=80) for key in keys[:5]) + (" and more" if len(keys) > 5 else "")
    return Finding(
        "config-changed-without-version",
        "warning",
        f"{count(len(keys), 'value')} of {relative} changed since version {entry.version} was registered: {named}.",
        f'Call write_training_config(based_on="{relative}"): it registers the values as the next version; '
        "or undo the change.",
        relative,
        tuple(
            {"key": key, "registered": _shown(before.get(key)), "now": _shown(now.get(key))} for key in keys[:_SHOWN]
        ),
    )


def parameters(table: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key to value, for everything that decides how a run goes; as JSON holds it."""
    found = {dotted(path, table): value for path, value in leaves(table)}
    plain = {key: value for key, value in found.items() if key not in _NOT_PARAMETERS}
    loaded: dict[str, Any] = json.loads(json.dumps({key: _finite(value) for key, value in plain.items()}, default=str))
    return loaded


def hardware(config: Config) -> str:
    """The GPUs of a config as the registry names them."""
    return f"{config.gpus}x {config.gpu_type or 'GPU'}"


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else quote(value, limit=80)


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
