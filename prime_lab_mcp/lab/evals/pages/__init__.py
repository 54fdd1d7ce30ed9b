"""The report page of an evaluation, as HTML for people and Markdown for models, with its picture."""

from __future__ import annotations
