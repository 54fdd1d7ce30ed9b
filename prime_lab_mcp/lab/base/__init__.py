"""Foundations that every other package of `lab` may use.

The I/O of this package is limited to reading and writing files and starting processes.
"""

ENTRY = (
    "codes",
    "credentials",
    "errors",
    "files",
    "findings",
    "json_values",
    "load_deadline",
    "process",
    "progress",
    "report",
    "settings",
    "statistics",
    "text",
    "versions",
)
"""Modules that other packages may import."""
