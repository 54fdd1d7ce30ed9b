"""Reads and judges datasets: source, columns that matter, format of the answers, and findings about the rows.

Nothing here imports `datasets` into the server. The server's process reads small text files. Everything else is read by
`dataset_program`, which the toolchain's interpreter runs. Guessing and judging are pure functions over plain rows.
"""

ENTRY = (
    "column_choice",
    "findings",
    "formats",
    "golds",
    "inspection",
    "reading",
    "scan",
    "source",
    "task_golds",
    "tasks",
)
"""Modules that other packages may import."""
