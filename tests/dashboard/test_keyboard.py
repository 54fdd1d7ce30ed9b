"""The page by keyboard alone, in Chromium: where Tab leads, what shows the focus, and what Enter and Space do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.chromium import Chromium
from tests.dashboard.conftest import TOKEN
from tests.dashboard.test_browser import CHROMIUM, VIEWS, Browser
from tests.dashboard.test_browser import browser as browser  # the fixture

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")]
EVALUATION = "evaluations/eval-00000001"
CAN_HAVE_FOCUS = """[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
  .filter((one) => !one.disabled && one.checkVisibility()).length"""


@pytest.fixture(scope="module")
def chromium(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert CHROMIUM is not None
    started = Chromium(CHROMIUM, tmp_path_factory.mktemp("keyboard") / "profile")
    yield started
    started.close()


def show(chromium: Chromium, browser: Browser, view: str) -> None:
    joint = "&" if "?" in view else "?"
    chromium.open(f"{browser.url}/#/{view}{joint}token={TOKEN}", VIEWS[view])


def stops(chromium: Chromium) -> list[dict[str, Any]]:
    """Every element that Tab reaches, in order, until the focus leaves the document or is at its start again."""
    found: list[dict[str, Any]] = []
    while len(found) < 500:
        chromium.press("Tab")
        if chromium.ask("document.activeElement === document.body"):
            return found
        stop = chromium.focused()
        if found and stop["id"] == found[0]["id"] == "skip":
            return found
        found.append(stop)
    raise AssertionError("Tab never came to an end")


def test_tab_reaches_everything_once_in_order_and_shows_where_it_is(chromium: Chromium, browser: Browser) -> None:
    wrong: dict[str, Any] = {}
    for view in VIEWS:
        show(chromium, browser, view)
        forth = stops(chromium)
        assert [stop["name"] for stop in forth[:5]] == [
            "Skip to the content", "Environments", "Evaluations", "Runs", "Spend",
        ]  # fmt: skip
        hidden = [stop for stop in forth if not (stop["drawn"] and stop["seen"] and stop["name"])]
        expected = chromium.ask(CAN_HAVE_FOCUS)
        if hidden or len(forth) != expected:
            wrong[view] = (hidden, len(forth), expected)
    assert wrong == {}


def test_the_skip_link_leads_past_the_navigation(chromium: Chromium, browser: Browser) -> None:
    show(chromium, browser, "evaluations")
    chromium.press("Tab")
    assert chromium.focused()["id"] == "skip"
    chromium.press("Enter")
    assert chromium.focused()["id"] == "main"
    chromium.press("Tab")
    assert chromium.ask("document.getElementById('main').contains(document.activeElement)")


def test_enter_opens_the_view_of_a_row_and_its_heading_has_the_focus(chromium: Chromium, browser: Browser) -> None:
    show(chromium, browser, EVALUATION)
    chromium.tab_to("e.closest('tbody') && /rollouts\\/1$/.test(e.hash ?? '')")
    chromium.press("Enter")
    chromium.wait_for_view("Rollout 2")
    chromium.wait("document.activeElement.tagName === 'H1'")
    chromium.press("Tab")
    assert chromium.ask("document.getElementById('main').contains(document.activeElement)")


def test_enter_and_space_sort_a_table_and_the_focus_stays_on_its_heading(chromium: Chromium, browser: Browser) -> None:
    show(chromium, browser, EVALUATION)
    state = "document.getElementById('sort-tokens').closest('th').ariaSort"
    chromium.tab_to("e.id === 'sort-tokens'")
    for key, sorted_by in (("Enter", "ascending"), (" ", "descending")):
        chromium.press(key)
        chromium.wait(f"{state} === '{sorted_by}'")
        chromium.wait("document.activeElement.id === 'sort-tokens'")


def test_a_list_that_is_drawn_again_keeps_the_order_that_the_reader_chose(chromium: Chromium, browser: Browser) -> None:
    show(chromium, browser, "evaluations")
    chromium.tab_to("e.id === 'sort-mean'")
    chromium.press("Enter")
    chromium.ask("document.getElementById('main').dataset.data = 'other data'")
    show_again = "import('./draw.js').then((module) => module.draw({ keep: true }))"
    chromium.ask(f"{show_again}.then(() => {{ document.body.dataset.again = 'yes'; }})")
    chromium.wait("document.body.dataset.again === 'yes'")
    assert chromium.ask("document.getElementById('sort-mean').closest('th').ariaSort") == "ascending"


@pytest.mark.parametrize("key", ["Enter", " "], ids=["Enter", "Space"])
def test_a_filter_is_pressed_by_key_and_keeps_the_focus(chromium: Chromium, browser: Browser, key: str) -> None:
    show(chromium, browser, EVALUATION)
    chromium.tab_to("e.id === 'outcome-zero'")
    chromium.press(key)
    chromium.wait("document.getElementById('outcome-zero').ariaPressed === 'true'")
    chromium.wait("document.activeElement.id === 'outcome-zero'")


def test_findings_open_by_key_and_stay_open_where_the_focus_is(chromium: Chromium, browser: Browser) -> None:
    show(chromium, browser, "environments/sums")
    chromium.tab_to("e.tagName === 'SUMMARY'")
    for key, opened in ((" ", True), ("Enter", False), ("Enter", True)):
        chromium.press(key)
        chromium.wait(f"document.activeElement.parentElement.open === {str(opened).lower()}")


def test_escape_takes_nobody_anywhere(chromium: Chromium, browser: Browser) -> None:
    show(chromium, browser, EVALUATION)
    chromium.tab_to("e.id === 'outcome-zero'")
    before = chromium.ask("[location.hash, document.querySelector('h1').textContent]")
    chromium.press("Escape")
    assert chromium.ask("[location.hash, document.querySelector('h1').textContent]") == before
    assert chromium.focused()["id"] == "outcome-zero"
