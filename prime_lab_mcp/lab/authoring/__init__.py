"""Creates new environments: a template of resources/templates, renamed, fitted to a dataset, and moved into place at
once. `port` makes a v1 package beside a v0 environment. `file_edits` changes single files."""

ENTRY = ("build", "file_edits", "port.porting", "template")
"""Modules that other packages may import."""
