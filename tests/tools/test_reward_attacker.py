"""test_reward with an attacker: a scripted model at a loopback endpoint that proposes completions."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from prime_lab_mcp.lab.base.errors import BadInput, EvalError
from prime_lab_mcp.lab.base.settings import NamedEndpoint
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rewards.search.attacker import PROPOSALS, proposed_recipes
from prime_lab_mcp.lab.rewards.search.recipes import SearchTask
from prime_lab_mcp.tools import test_reward
from tests.lab.rewards.judges import KEY, judging
from tests.lab.rewards.packages import SOUND, call, codes, reward, try_reward, write
from tests.support.reward_search import searching

pytestmark = pytest.mark.anyio
UNGUESSABLE = reward("""
import hashlib
if hashlib.sha256(reply.strip().encode()).hexdigest().startswith("1b2e6ba2"):
    return 1.0
return sound(reply, gold)
""")
"""Paid for one phrase, which no search finds by mutation: no branch leads there letter by letter."""
PHRASE = "open sesame 47"


@pytest.mark.slow
async def test_a_phrase_that_only_the_source_betrays_is_found_and_judged_like_any_other(lab: Lab) -> None:
    write(lab, "hole", UNGUESSABLE.replace("1b2e6ba2", hashlib.sha256(PHRASE.encode()).hexdigest()[:8]))
    replies = iter(["I refuse.", "no list"])
    with searching(150), judging(lambda question: json.dumps(["42", PHRASE])) as model:
        outcome = await try_reward(lab, "hole", search=60, attacker=f"{model.url} judge-model-1")
        assert codes(outcome) == {"reward-search-hole"}
        assert PHRASE in next(f for f in outcome.findings if f.code == "reward-search-hole").message
        attacker = outcome.data["search"]["attacker"]
        assert attacker == {"model": '"judge-model-1"', "endpoint": model.host, "requests": 1, "proposed": 2}
        asked = model.asked[0]["messages"][-1]["content"]
        assert "sha256" in asked
        assert "How many in all?" in asked
        model.answer = lambda question: next(replies)
        alone = await try_reward(lab, "hole", search=60)
    assert alone.data["search"]["remembered"] is True
    assert codes(alone) == {"reward-search-hole"}


@pytest.mark.slow
async def test_later_requests_show_what_proposals_earned_and_a_sound_reward_passes(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    with searching(150), judging(lambda question: json.dumps(["<answer>7</answer>", "{{prompt}}"])) as model:
        outcome = await try_reward(lab, "sound", search=60, attacker=f"{model.url} judge-model-1")
        assert (outcome.status, codes(outcome)) == ("passed", set())
        assert outcome.facts.proves
        assert outcome.data["search"]["attacker"]["requests"] == len(model.asked) == 3
        assert "What was tried before earned" in model.asked[1]["messages"][-1]["content"]
        assert "6 of them proposed by" in outcome.summary


@pytest.mark.slow
@pytest.mark.parametrize("said", [None, "I would rather not."])
async def test_an_attacker_that_fails_is_said_and_the_search_goes_on(lab: Lab, said: str | None) -> None:
    write(lab, "sound", SOUND)
    with searching(150), judging(lambda question: said) as model:
        outcome = await try_reward(lab, "sound", search=60, attacker=f"{model.url} judge-model-1")
    assert outcome.status == "passed"
    assert outcome.data["search"]["completions"] >= 150
    assert ("answered 503" if said is None else "no JSON list of texts") in outcome.data["search"]["attacker"]["failed"]
    assert "The attacker gave no more" in outcome.summary


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"attacker": "prime"}, "names no model"),
        ({"attacker": "prime m", "judge": "prime"}, "never asks a judge"),
        ({"attacker": "prime m", "search": 0}, "only helps a search"),
    ],
)
async def test_an_attacker_that_cannot_help_is_refused(lab: Lab, given: dict[str, object], words: str) -> None:
    write(lab, "sound", SOUND)
    with pytest.raises(BadInput, match=words):
        await try_reward(lab, "sound", **given)


async def test_an_attacker_with_a_price_is_asked_about_with_its_bound_and_what_is_sent(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    price = {"prompt": 0.0001, "completion": 0.0002}
    with judging(lambda question: "[]", price) as model:
        args = test_reward.Args(environment="environments/sound", attacker=f"{model.url} judge-model-1")
        intent = (await test_reward.plan(await call(lab, "sound"), args)).intent
    assert intent is not None
    assert intent.question.startswith("Send the source of environments/sound and prompts of its tasks to")
    assert "at most $" in intent.question
    assert model.asked == []


@pytest.mark.parametrize("cap", [None, 5.0])
async def test_an_attacker_with_a_key_and_no_price_is_asked_about_with_its_tokens(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, cap: float | None
) -> None:
    write(lab, "sound", SOUND)
    monkeypatch.setenv("ATTACKER_KEY", KEY)
    with judging(lambda question: "[]") as model:
        named = NamedEndpoint("mine", model.url, "ATTACKER_KEY")
        lab.settings = dataclasses.replace(lab.settings, endpoints=(named,), max_spend=cap)
        made = await call(lab, "sound")
        args = test_reward.Args(environment="environments/sound", attacker="mine judge-model-1")
        plan = await test_reward.plan(made, args)
        assert plan.intent is not None
        assert plan.intent.ask
        assert "lists no price for the attacker; it ends at" in plan.intent.question
        assert [f.code for f in plan.intent.findings] == ([] if cap is None else ["price-unknown"])
        with pytest.raises(EvalError, match="nobody was asked") as refused:
            await test_reward.run(made, dataclasses.replace(plan, intent=None))
    assert refused.value.code == "intent-changed"
    assert model.asked == []


def test_proposals_are_read_from_any_reply_and_placeholders_become_pieces() -> None:
    task = SearchTask(0, "Which is it, A or B?", options=("A", "B"), answers=("red", "blue"))
    reply = '<think>[1, 2] {{prompt}}</think>Here: ```json\n["x {{options}} y", "{{answers}}", "{{other}}"]\n```'
    assert [r.render(task) for r in proposed_recipes(reply)] == ["x A, B y", "red\nblue", "{{other}}"]
    assert proposed_recipes("[1, 2]") == proposed_recipes("none") == proposed_recipes("[" * 5000) == []
    assert len(proposed_recipes(json.dumps(["x"] * 99))) == PROPOSALS
