"""Where the page of an evaluation can be read."""

from __future__ import annotations

from prime_lab_mcp.lab.report import Link

PAGE = "report.html"
"""Its file in the job's folder, and the end of its address."""


def links(id: str) -> tuple[Link, ...]:
    return (
        Link(f"lab://evals/{id}/report", "the evaluation's report"),
        Link(f"lab://evals/{id}/{PAGE}", "the same as a page with its picture, for a browser"),
    )
