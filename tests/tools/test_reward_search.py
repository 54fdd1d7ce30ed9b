"""The search of test_reward through the real worker: a hole that no probe lists, its replay, what a pass proves."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.lab import Lab
from tests.lab.rewards.packages import SOUND, codes, reward, try_reward, write
from tests.support.reward_search import searching

pytestmark = pytest.mark.anyio
HOLE = reward("""
if reply.startswith("%%"):
    if reply.endswith("]]"):
        return 1.0
return sound(reply, gold)
""")
"""Four characters are paid on every task; no probe has them."""


@pytest.mark.slow
async def test_a_hole_that_no_probe_lists_is_found_shrunk_and_replayed(lab: Lab) -> None:
    write(lab, "hole", HOLE)
    with searching(20_000):
        outcome = await try_reward(lab, "hole", search=300)
        assert codes(outcome) == {"reward-search-hole"}
        (finding,) = [f for f in outcome.findings if f.code == "reward-search-hole"]
        assert "24 of 24 tasks" in finding.message
        case = outcome.data["failing_cases"][0]
        assert sorted(case["replay"]["completion"]) == sorted("%%]]")
        assert case["replay"]["expected"] == "low"
        known = await try_reward(lab, "hole", search=300)
        assert known.data["search"] == outcome.data["search"] | {"remembered": True}
        again = await try_reward(lab, "hole", cases_file="last", probes=False, examples=1)
    assert {f.code for f in again.findings if f.severity == "blocker"} == {
        "reward-hackable"
    } or again.status == "failed"
    assert again.data["search"] == {"ran": False, "why": "it was not asked for (probes=false)"}


async def test_a_sound_reward_is_searched_and_a_shorter_search_opens_no_gate(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    with searching(200):
        whole = await try_reward(lab, "sound", search=60)
        assert (whole.status, whole.findings) == ("passed", ())
        assert whole.facts.proves
        assert whole.data["search"]["ran"] is True
        assert whole.data["search"]["completions"] >= 200
        assert "beyond the listed probes found no hack" in whole.summary
        short = await try_reward(lab, "sound", search=0)
    assert (short.status, codes(short)) == ("passed", set())
    assert not short.facts.proves
    assert [f.code for f in short.findings] == ["reward-trial-only"]
    assert "Search: not run because it was not asked for (search=0)." in short.summary
