"""Foundations that every other package of `lab` may use.

The I/O of this package is limited to reading and writing files and starting processes.
"""

ENTRY = (
    "codes",
    "credentials",
    "errors",
    "fix",
    "limited_answers",
    "load_deadline",
    "named_credentials",
    "process",
    "report",
    "settings",
    "statistics",
    "syntax",
    "text",
    "untrusted_files",
    "versions",
)
"""Modules that other packages may import."""
