"""A plan waits for the answer to its question while nothing of it changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prime_lab_mcp.server import plans
from prime_lab_mcp.server.plans import MOST_PLANS, PLAN_SECONDS, Fingerprints, WaitingPlans
from prime_lab_mcp.tools.tool import Plan
from tests.protocol.toys import TOYS, Paid

SPEND: Any = next(tool for tool in TOYS if tool.name == "spend")
NOTHING = Fingerprints(None, None, None)


def put(waiting: WaitingPlans, args: Paid, config: Path | None = None, of: Fingerprints = NOTHING) -> None:
    call: Any = SimpleNamespace(config=config, platform=None)
    waiting.put(SPEND, args, Plan(args.amount), call, of)


def test_a_plan_is_found_by_the_arguments_without_their_answer() -> None:
    waiting = WaitingPlans()
    put(waiting, Paid(amount=3))
    found = waiting.get(SPEND, Paid(amount=3, confirm="token", yes=True))
    assert found is not None
    assert found.plan.work == 3
    assert waiting.get(SPEND, Paid(amount=4)) is None
    waiting.drop(SPEND, Paid(amount=3))
    assert waiting.get(SPEND, Paid(amount=3)) is None


def test_the_oldest_of_too_many_plans_is_lost() -> None:
    waiting = WaitingPlans()
    for number in range(MOST_PLANS + 1):
        put(waiting, Paid(amount=number))
    assert waiting.get(SPEND, Paid(amount=0)) is None
    assert waiting.get(SPEND, Paid(amount=1)) is not None


def test_a_plan_fits_until_its_config_changes_or_is_gone(tmp_path: Path) -> None:
    config, waiting = tmp_path / "run.toml", WaitingPlans()
    config.write_text("steps = 1\n", encoding="utf-8")
    put(waiting, Paid(), config, Fingerprints.of(None, config))
    found = waiting.get(SPEND, Paid())
    assert found is not None
    assert found.fits(None)
    config.write_text("steps = 2\n", encoding="utf-8")
    assert not found.fits(None)
    config.unlink()
    assert not found.fits(None)


def test_a_plan_of_old_prices_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = WaitingPlans()
    put(waiting, Paid())
    found = waiting.get(SPEND, Paid())
    assert found is not None
    assert found.fits(None)
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: found.at + PLAN_SECONDS))
    assert not found.fits(None)


def test_a_plan_that_is_asked_about_again_keeps_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that was repeated every few minutes told an old balance of the wallet without end."""
    waiting, plan = WaitingPlans(), Plan(3)
    call: Any = SimpleNamespace(config=None, platform=None)
    waiting.put(SPEND, Paid(), plan, call, NOTHING)
    first = waiting.get(SPEND, Paid())
    assert first is not None
    monkeypatch.setattr(plans, "time", SimpleNamespace(monotonic=lambda: first.at + PLAN_SECONDS / 2))
    waiting.put(SPEND, Paid(), plan, call, NOTHING)
    again = waiting.get(SPEND, Paid())
    assert again is not None
    assert again.at == first.at
    waiting.put(SPEND, Paid(), Plan(3), call, NOTHING)
    anew = waiting.get(SPEND, Paid())
    assert anew is not None
    assert anew.at > first.at
