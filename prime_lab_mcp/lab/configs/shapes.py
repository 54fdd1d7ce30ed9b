"""Which keys the environments of a config take, as their last checks on this machine recorded it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.configs.evidence import pushed
from prime_lab_mcp.lab.configs.observed import Shapes
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Evidence


def known(lab: Lab, config: Config) -> dict[str, Shapes]:
    """By source id; environments that were never checked here, or before this was recorded, are absent."""
    found = {}
    for source in config.sources:
        row, exact = _check(lab, source)
        recorded = row.data.get("shapes") if row is not None else None
        if isinstance(recorded, Mapping):
            found[source.id] = _shapes(recorded, exact)
    return found


def _check(lab: Lab, source: Source) -> tuple[Evidence | None, bool]:
    """The newest check of what was pushed under this name and version, else of the folder of this name."""
    if source.owner is not None:
        push = pushed(lab, source.owner, source.env_name, source.version)
        if push is None:
            return None, True
        rows = lab.ledger.evidence(push.workspace, environment=push.environment, tool="check_environment")
        return next((r for r in rows if r.source == push.source and "shapes" in r.data), None), True
    names = {source.env_name, source.env_name.replace("-", "_"), source.env_name.replace("_", "-")}
    rows = lab.ledger.evidence(lab.key, tool="check_environment")
    return next((r for r in rows if r.environment in names and "shapes" in r.data), None), False


def _shapes(recorded: Mapping[str, Any], exact: bool) -> Shapes:
    taskset, env, tools = (recorded.get(key) for key in ("taskset", "env", "tools"))
    return Shapes(
        taskset=taskset if isinstance(taskset, Mapping) else {},
        env=env if isinstance(env, Mapping) else {},
        tools=tools if isinstance(tools, bool) else None,
        exact=exact,
    )
