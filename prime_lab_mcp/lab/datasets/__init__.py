"""Reads datasets, guesses their prompt and answer columns and the format of the answers, and checks their rows.

The server never imports the package `datasets`. Its own process reads only small text files; `dataset_program`, which
runs in the toolchain's interpreter, reads everything else. Guesses and checks are pure functions of rows.
"""

ENTRY = (
    "answer_syntax",
    "column_choice",
    "findings",
    "formats",
    "gold_findings",
    "golds",
    "inspection",
    "near_duplicates",
    "reading",
    "row_values",
    "scan",
    "source",
    "task_golds",
    "tasks",
    "unclear_answers",
)
"""Modules that other packages may import."""
