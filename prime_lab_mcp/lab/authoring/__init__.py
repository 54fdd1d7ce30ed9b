"""Creates and changes environment packages.

`build` renames a template of resources/templates, fits it to a dataset, and moves it into place at once. `port` makes a
v1 package beside a v0 environment. `file_edits` changes single files.
"""

ENTRY = ("build", "file_edits", "port.porting", "template")
"""Modules that other packages may import."""
