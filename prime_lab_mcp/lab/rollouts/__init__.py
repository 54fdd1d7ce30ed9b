"""Reads finished rollouts from results files of every layout.

Readers yield one rollout at a time, so that files with a million rollouts fit in memory. v1 writes one episode per line
(`traces.jsonl`). v0 writes one rollout per line (`results.jsonl`, with `metadata.json` beside it). `prime train
rollouts` and `prime eval samples` print one JSON document. The first record decides the layout.

`read_rollouts` yields whole rollouts. `read_scores` leaves out the conversation and the record, and is several times as
fast. `read_first_rollouts` yields only the tasks. Readers skip an incomplete last line; `Reading` counts everything
that a reader leaves out. All text in a rollout is foreign and has to be quoted before it is shown.
"""

from prime_lab_mcp.lab.rollouts.reading import (
    RESULT_FILES,
    Layout,
    decode_line,
    layout_of,
    locate_results,
    parse_record,
    parse_score_line,
    read_first_rollouts,
    read_rollouts,
    read_scores,
)
from prime_lab_mcp.lab.rollouts.rollout import Reading, Rollout, RolloutOrigin

__all__ = [
    "RESULT_FILES",
    "Layout",
    "Reading",
    "Rollout",
    "RolloutOrigin",
    "decode_line",
    "layout_of",
    "locate_results",
    "parse_record",
    "parse_score_line",
    "read_first_rollouts",
    "read_rollouts",
    "read_scores",
]

ENTRY = (
    "components",
    "conversation",
    "layouts",
    "reading",
    "rollout",
)
"""Modules that other packages may import."""
