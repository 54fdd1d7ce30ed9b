"""A dataset read and judged: the one entry for tools."""

from __future__ import annotations

from prime_lab_mcp.lab.datasets import reading
from prime_lab_mcp.lab.datasets.environment_rows import read_environment
from prime_lab_mcp.lab.datasets.inspection import Inspection
from prime_lab_mcp.lab.datasets.reading import Progress
from prime_lab_mcp.lab.datasets.source import EnvironmentRows, HubDataset, locate
from prime_lab_mcp.lab.datasets.table import Request
from prime_lab_mcp.lab.lab import Lab


async def _quiet(done: float, total: float | None, message: str) -> None:
    """For callers that do not follow progress."""


async def inspect(
    lab: Lab,
    request: Request,
    *,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    progress: Progress = _quiet,
) -> Inspection:
    """Read and judge a dataset; the caller's columns overrule the guesses. Raises BadInput and LabError."""
    source = locate(lab.workspace, request.dataset, request.config)
    columns = (prompt_column, answer_column)
    if isinstance(source, HubDataset):
        return await reading.read_hub(lab, source, request, columns, progress)
    if isinstance(source, EnvironmentRows):
        return await read_environment(lab, source, request, columns, progress)
    return await reading.read_files(lab, source, request, columns, progress)
