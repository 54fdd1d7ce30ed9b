"""The strictest limits of all processes on a state directory hold, and those of ended processes do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.state.limits import FOLDER, PublishedLimits, SpendingLimits

Opened = Callable[..., PublishedLimits]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    every: list[PublishedLimits] = []

    def opened(**settings: Any) -> PublishedLimits:
        every.append(PublishedLimits(Settings(tmp_path / "w", tmp_path / "s", **settings)))
        return every[-1]

    yield opened
    for limits in every:
        limits.close()


def test_alone_the_settings_of_the_process_hold(opened: Opened) -> None:
    assert opened(max_spend=5.0).present() == SpendingLimits(False, 5.0)
    assert opened(approval="always").present() == SpendingLimits(True, None)


def test_the_lowest_cap_and_the_strictest_approval_of_all_processes_hold(opened: Opened) -> None:
    opened(approval="always", max_spend=7.0).publish()
    opened(max_spend=5.0).publish()
    opened().publish()
    opened(rehearsal=True, max_spend=1.0).publish()
    assert opened(max_spend=9.0).present() == SpendingLimits(True, 5.0)
    assert opened(rehearsal=True).present() == SpendingLimits(False, 1.0)


def test_limits_are_published_once_and_withdrawn(opened: Opened, tmp_path: Path) -> None:
    limits = opened(max_spend=5.0)
    limits.publish()
    limits.publish()
    assert len(list((tmp_path / "s" / FOLDER).iterdir())) == 1
    limits.close()
    assert list((tmp_path / "s" / FOLDER).iterdir()) == []
    assert opened().present() == SpendingLimits(False, None)


def test_the_file_of_a_process_that_ended_counts_for_nothing_and_is_removed(opened: Opened, tmp_path: Path) -> None:
    left = tmp_path / "s" / FOLDER / "1-a.json"
    left.parent.mkdir(parents=True)
    left.write_text(json.dumps({"approval": "always", "max_spend": 1.0, "platform": "prime"}), encoding="utf-8")
    assert opened().present() == SpendingLimits(False, None)
    assert not left.exists()


@pytest.mark.parametrize("written", ["no json", "[1]", '{"platform": "prime", "max_spend": true}'])
def test_a_file_that_states_no_limits_hides_those_of_no_other(opened: Opened, tmp_path: Path, written: str) -> None:
    broken = opened()
    broken.publish()
    next((tmp_path / "s" / FOLDER).iterdir()).write_text(written, encoding="utf-8")
    opened(max_spend=5.0).publish()
    assert opened().present() == SpendingLimits(False, 5.0)
