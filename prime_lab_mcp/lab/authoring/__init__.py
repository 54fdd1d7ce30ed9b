"""Creates and changes environment packages.

`assembly` puts the templates of resources/templates together. `build` renames a template, fits it to a dataset, and
moves it into place at once. `port` makes a v1 package beside a v0 environment. `file_edits` changes single files.
"""

ENTRY = ("answer_form", "assembly", "build", "file_edits", "naming", "port.porting", "template")
"""Modules that other packages may import."""
