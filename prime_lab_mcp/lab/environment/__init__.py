"""The checks of `check_environment`: of a package's files, of its wheel, and of the loaded environment."""

ENTRY = ("credentials", "load_check", "loaded_checks", "package", "static_checks", "wheel")
"""Modules that other packages may import."""
