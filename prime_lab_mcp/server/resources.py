"""Registers what an agent can read: pages, template files, and the live state of this workspace."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import TextResource

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References

if TYPE_CHECKING:
    from prime_lab_mcp.lab.report import Report

Execute = Callable[[str, Mapping[str, Any]], Awaitable["Report"]]


def add_resources(server: MCPServer[Any], lab: Lab, references: References, execute: Execute) -> None:
    """Register every page, the templates, and the live resources."""
    for page in references.pages():
        server.add_resource(
            TextResource(
                uri=f"lab://{page.topic}",
                name=page.topic,
                title=page.title,
                description=page.about,
                mime_type="text/markdown",
                text=page.text,
            )
        )

    @server.resource("lab://template/{kind}/{+path}", mime_type="text/plain", title="Template file")
    def template(kind: str, path: str) -> str:
        """A file of a template package, as create_environment fits it."""
        return _found(references.page(f"template/{kind}/{path}"), f"template/{kind}/{path}")

    @server.resource("lab://finding/{code}", mime_type="text/markdown", title="Finding")
    def finding(code: str) -> str:
        """What a finding code means, its smallest fix, and the tools that show it."""
        return _found(references.page(f"finding/{code}"), f"finding/{code}")

    @server.resource("lab://environments/{name}/status", mime_type="application/json", title="Environment status")
    async def status(name: str) -> str:
        """What is proven about one environment."""
        return _json(await execute("workflow_status", {"environment": name}))

    @server.resource("lab://evals/{id}/report", mime_type="application/json", title="Evaluation report")
    async def evaluation(id: str) -> str:
        """The verdict on one evaluation."""
        rows = [
            r
            for r in lab.ledger.evidence(lab.key, tool="run_eval")
            if r.arguments.get("id") == id or r.data.get("id") == id
        ]
        if not rows:
            raise _not_found(f"evals/{id}/report")
        return json.dumps(dict(rows[0].data) | {"findings": list(rows[0].findings)}, indent=1, default=str)

    @server.resource("lab://runs/{id}", mime_type="application/json", title="Training run")
    async def run(id: str) -> str:
        """The present state of one training run."""
        return _json(await execute("watch_run", {"id": id}))

    async def complete(reference: Any, argument: Any, context: Any) -> Any:
        """Names and ids for the templates above."""
        from mcp_types import Completion

        known = _values(lab, references, str(getattr(reference, "uri", "")), argument.name)
        fitting = [value for value in known if value.startswith(argument.value)]
        return Completion(values=fitting[:100], total=len(fitting), has_more=len(fitting) > 100)

    register: Callable[..., Any] = server.completion  # the SDK leaves it untyped
    register()(complete)


def _values(lab: Lab, references: References, uri: str, argument: str) -> list[str]:
    if uri.startswith("lab://template/"):
        parts = [name.split("/", 2) for name in references.template_files()]
        return sorted({kind for _, kind, _ in parts}) if argument == "kind" else sorted({path for _, _, path in parts})
    if uri.startswith("lab://finding/"):
        return references.finding_codes()
    if uri.startswith("lab://environments/"):
        return [folder.name for folder in lab.workspace.list_environments()]
    if uri.startswith("lab://evals/"):
        return [job.id for job in lab.ledger.jobs(lab.key)]
    if uri.startswith("lab://runs/"):
        return [run.id for run in lab.ledger.runs(workspace=lab.key, platform=lab.platform)]
    return []


def _found(text: str | None, topic: str) -> str:
    if text is None:
        raise _not_found(topic)
    return text


def _not_found(topic: str) -> Exception:
    return ResourceNotFoundError(f"there is no lab://{topic}; read_reference without a topic lists what there is")


def _json(report: Report) -> str:
    return json.dumps(report.as_json(), indent=1, ensure_ascii=False, default=str)
