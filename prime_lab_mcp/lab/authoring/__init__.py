"""Creates and changes environment packages.

`assembly` puts the templates of resources/templates together. `build` renames a template, fits it to a dataset, and
moves it into place at once. `port` makes a v1 package beside a v0 environment. `file_edits` changes single files,
`row_removal` rows of JSON lines.
"""

ENTRY = ("answer_form", "assembly", "build", "file_edits", "naming", "port.porting", "row_removal", "template")
"""Modules that other packages may import."""
