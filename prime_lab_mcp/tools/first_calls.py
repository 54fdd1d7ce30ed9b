"""The calls that begin in a workspace without environments."""

from __future__ import annotations

from collections.abc import Sequence

from prime_lab_mcp.lab.base.report import Next

_EXAMPLE = "my_tasks"


def first_calls(files: Sequence[str]) -> tuple[Next, ...]:
    """Return the calls that start from each of these data files; without any, those that need none."""
    if files:
        return tuple(Next("inspect_dataset", "start from this file", {"dataset": name}) for name in files)
    made = "for a wish without data: a template whose program makes the tasks; name it after the wish"
    return (
        Next("create_environment", made, {"name": _EXAMPLE, "template": "procedural"}),
        Next("search_hub", "an environment that somebody published, to train on or to change", {"kind": "environment"}),
    )
