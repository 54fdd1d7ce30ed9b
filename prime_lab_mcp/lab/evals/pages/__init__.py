"""The report page of an evaluation: what it says (`contents`), as HTML for people and as Markdown for models."""
