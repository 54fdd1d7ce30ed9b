"""The checks of `check_environment`. They examine a package's files, its wheel, and the loaded environment."""

ENTRY = (
    "build_code",
    "credentials",
    "data_files",
    "easy_tasks",
    "load_check",
    "loaded_checks",
    "package",
    "requirements",
    "static_checks",
    "wheel",
    "wheel_archive",
)
"""Modules that other packages may import."""
