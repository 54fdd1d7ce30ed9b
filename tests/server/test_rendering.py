"""The text of a report, for clients that show no structured content."""

from __future__ import annotations

from prime_lab_mcp.lab.base.report import Finding, Next, Report, Unmet
from prime_lab_mcp.server.rendering import structured, text, whole

LONG = "word " * 2_000


def test_a_page_that_was_asked_for_is_whole_in_the_text_too() -> None:
    """A page of `read_reference` has up to 12,000 characters, and says how many pages there are."""
    shown = text(whole(Report("passed", "guide, page 1 of 1.", data={"pages": 1, "text": LONG})))
    assert LONG in shown
    assert len(shown) < 20_000


def test_other_data_is_cut_in_the_text() -> None:
    assert len(text(whole(Report("passed", "done", data={"lines": LONG})))) < 7_000


def test_a_result_that_no_cut_makes_short_enough_keeps_its_summary_and_first_finding() -> None:
    finding = Finding("leak-exact", "blocker", "a gold is in the prompt", "Take it out.")
    report = Report("failed", "much", (finding,) * 9, data={f"key-{n}": n for n in range(9_000)})
    content = structured(report)
    assert content["data"] == {"left_out": "the result was too long to show"}
    assert (content["summary"], len(content["findings"])) == ("much", 1)


def test_the_text_names_what_is_missing_and_what_to_call() -> None:
    unmet = Unmet("test_reward", "stale", "the files changed")
    shown = text(whole(Report("blocked", "not yet", unmet=(unmet,), next=(Next("test_reward", "it is stale"),))))
    assert shown.splitlines()[1:] == [
        "- needs test_reward (stale): the files changed",
        "next: test_reward  (it is stale)",
    ]


def test_a_result_that_fits_after_the_last_cut_keeps_its_data() -> None:
    content = structured(Report("passed", "much", data={f"key-{n}": "word " * 100 for n in range(200)}))
    assert len(content["data"]) == 200
    assert all(len(value) < 100 for value in content["data"].values())
