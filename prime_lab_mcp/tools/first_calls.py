"""The calls that begin in a workspace without environments."""

from __future__ import annotations

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.state.workspace import Workspace

_EXAMPLE = "my_tasks"
_MOST_PORTS = 3


def calls_from_files(workspace: Workspace) -> tuple[Next, ...]:
    """Return the calls that start from what lies in a workspace: older packages to port first, then data files."""
    why = "a v0 package: port it to v1, which can be trained; what it pays is compared afterwards"
    ports = [
        Next("create_environment", why, {"name": workspace.free_port_name(name), "port": name})
        for name in workspace.older_packages()[:_MOST_PORTS]
    ]
    data = [Next("inspect_dataset", "start from this file", {"dataset": name}) for name in workspace.data_files()]
    served = "{}: a template with tools that only read, to be rewritten for this database (lab://guide/interaction)"
    tools = [
        Next("create_environment", served.format(quote(name, 80)), {"name": _EXAMPLE, "template": "tool_use"})
        for name in workspace.databases()[:1]
    ]
    return (*ports, *data, *tools)


def first_calls(workspace: Workspace) -> tuple[Next, ...]:
    """Return the calls that start from the files of a workspace; without any, those that need none."""
    return calls_from_files(workspace) or calls_without_files()


def calls_without_files() -> tuple[Next, ...]:
    """Return the calls that begin with nothing but a wish."""
    made = "for a wish without data: a template whose program makes the tasks; name it after the wish"
    return (
        Next("create_environment", made, {"name": _EXAMPLE, "template": "procedural"}),
        Next("search_hub", "an environment that somebody published, to train on or to change", {"kind": "environment"}),
    )
