"""Creates new environments: a template of resources/templates, renamed, fitted to a dataset, and moved into place at
once."""

ENTRY = ("build", "template")
"""Modules that other packages may import."""
