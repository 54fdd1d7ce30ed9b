"""Reads finished rollouts from every layout, one at a time, so a million of them fit in memory.

v1 writes one episode per line (`traces.jsonl`), v0 one rollout per line (`results.jsonl`, with `metadata.json` beside
it); `prime train rollouts` and `prime eval samples` print one JSON document. Which it is shows in the first record.
`read` gives whole rollouts, `scores` the same without conversation and record, several times as fast,
and `tasks` only what was asked. A line that
broke off when its writer died is skipped; what else is left out is counted in a `Reading`. All text is foreign.
"""

from prime_lab_mcp.lab.evals.results.provenance import Origin, differences, origin
from prime_lab_mcp.lab.evals.results.reading import (
    RESULT_FILES,
    Layout,
    decode,
    layout,
    locate,
    parse,
    read,
    score_line,
    scores,
    tasks,
)  # fmt: skip
from prime_lab_mcp.lab.evals.results.report import Reading
from prime_lab_mcp.lab.evals.results.rollout import MadeBy, Rollout

__all__ = [
    "RESULT_FILES", "Layout", "MadeBy", "Origin", "Reading", "Rollout", "decode", "differences", "layout", "locate",
    "origin", "parse", "read", "score_line", "scores", "tasks",
]  # fmt: skip
