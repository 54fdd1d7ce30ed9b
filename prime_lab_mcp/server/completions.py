"""Completes the arguments of prompts and of resource templates: names of environments, ids of runs, models, pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcp.server.mcpserver import MCPServer

from prime_lab_mcp.lab.base.text import escape
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References

MOST = 100
"""Maximum number of values in one answer, as the protocol allows."""
_ENOUGH = 3
"""Minimum length of a typed text that is searched inside of values. Shorter texts occur in most values."""
_FOLDER = "environments/"
"""Prefix of an environment's folder. A client may type a name with this prefix."""


def add_completions(server: MCPServer[Any], lab: Lab, references: References) -> None:
    """Register the completion of every argument that has known values. Others complete to nothing."""

    async def complete(reference: Any, argument: Any, context: Any) -> Any:
        from mcp_types import Completion

        if getattr(reference, "type", "") == "ref/prompt":
            known = _prompt_completions(lab, argument.name)
        else:
            known = _resource_completions(lab, references, str(getattr(reference, "uri", "")), argument.name)
        if argument.value.startswith(_FOLDER) and argument.name in ("environment", "name"):
            known = [_FOLDER + value for value in known]
        # A value that must be escaped for display cannot be typed, so it is not offered.
        matching = [value for value in matching_names(known, argument.value) if escape(value) == value]
        return Completion(values=matching[:MOST], total=len(matching), has_more=len(matching) > MOST)

    register: Callable[..., Any] = server.completion  # the SDK has no type for the decorator
    register()(complete)


def matching_names(known: Sequence[str], typed: str) -> list[str]:
    """The values that begin with the typed text. From three characters on, also the values that contain it.

    Upper and lower case are equal, and so are hyphens and underscores (`ticket-routing`, `ticket_routing`).
    """
    part = _folded(typed)
    begin = [value for value in known if _folded(value).startswith(part)]
    if len(part) < _ENOUGH:
        return begin
    return begin + [value for value in known if part in _folded(value) and value not in begin]


def _folded(text: str) -> str:
    return text.casefold().replace("-", "_")


def _prompt_completions(lab: Lab, argument: str) -> list[str]:
    if argument == "environment":
        return _environments(lab)
    if argument == "run":
        return [*_runs(lab), *_evaluations(lab)]
    if argument in ("model", "models"):
        from prime_lab_mcp.lab.models.registry import load_registry  # no listing needs the registry

        return sorted(row.name for row in load_registry().rows)
    return []


def _resource_completions(lab: Lab, references: References, uri: str, argument: str) -> list[str]:
    if uri.startswith("lab://template/"):
        parts = [name.split("/", 2) for name in references.template_files()]
        return sorted({kind for _, kind, _ in parts}) if argument == "kind" else sorted({path for _, _, path in parts})
    if uri.startswith("lab://finding/"):
        return references.finding_codes()
    if uri.startswith("lab://environments/"):
        return _environments(lab)
    if uri.startswith("lab://evals/"):
        return _evaluations(lab)
    if uri.startswith("lab://runs/"):
        return _runs(lab)
    return []


def _environments(lab: Lab) -> list[str]:
    return [folder.name for folder in lab.workspace.list_environments()]


def _evaluations(lab: Lab) -> list[str]:
    return [job.id for job in lab.ledger.jobs(lab.key)]


def _runs(lab: Lab) -> list[str]:
    return [run.id for run in lab.ledger.runs(workspace=lab.key, platform=lab.platform)]
