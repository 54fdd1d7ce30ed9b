"""The checks of `check_environment`: of a package's files, of its wheel, and of the loaded environment."""

ENTRY = (
    "build_code",
    "credentials",
    "load_check",
    "loaded_checks",
    "package",
    "requirements",
    "static_checks",
    "wheel",
    "wheel_archive",
)
"""Modules that other packages may import."""
