"""The text of a report, for clients that show no structured content."""

from __future__ import annotations

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.server.rendering import text, whole

LONG = "word " * 2_000


def test_a_page_that_was_asked_for_is_whole_in_the_text_too() -> None:
    """A page of `read_reference` has up to 12,000 characters, and says how many pages there are."""
    shown = text(whole(Report("passed", "guide, page 1 of 1.", data={"pages": 1, "text": LONG})))
    assert LONG in shown
    assert len(shown) < 20_000


def test_other_data_is_cut_in_the_text() -> None:
    assert len(text(whole(Report("passed", "done", data={"lines": LONG})))) < 7_000
