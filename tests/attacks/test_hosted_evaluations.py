"""Evaluations on the platform: their money counts like that of evaluations here, and their files are compared."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from prime_lab_mcp.lab.base.errors import EvalError, PrimeError
from prime_lab_mcp.lab.evals.hosted.evaluation import EvaluationOffer, offer_hosted
from prime_lab_mcp.lab.evals.hosted.launch import start_hosted
from prime_lab_mcp.lab.evals.hosted.plan import HostedEnvironment, HostedPlan, HostedStanding, look_up_hosted
from prime_lab_mcp.lab.evals.hosted.supervisor import hosted_cost
from prime_lab_mcp.lab.evals.plan import EvalRequest
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.config_gate import HubContent
from prime_lab_mcp.server.call import Calls
from tests.attacks.test_hub_content import exchanged, proven, push
from tests.property.world import World
from tests.support.evaluations import hosted_spec


@pytest.fixture
def lab(world: World) -> Lab:
    return world.server("one").lab


# Money


def planned(number: int, bound: float = 0.9) -> HostedPlan:
    entry = HubEntry("somebody", "theirs", True, "1.0.0")
    spec = replace(hosted_spec(), hosted="somebody/theirs@1.0.0", num_examples=number)
    return HostedPlan(
        HostedEnvironment(entry, "1.0.0"), spec, HostedStanding("fresh", f"key{number}", f"theirs-{number}"), 0.2, bound
    )


def offered(lab: Lab, plan: HostedPlan) -> EvaluationOffer:
    return offer_hosted(lab, plan, EvalRequest("m", 10, 4))


def test_small_hosted_evaluations_add_up_until_a_person_is_asked(lab: Lab) -> None:
    for number in range(1, 6):
        assert not offered(lab, planned(number)).ask
        assert lab.ledger.reserve(f"key{number}", 0.9, "hosted evaluation", lab.platform, None, asked=False)
    offer = offered(lab, planned(6))
    assert offer.ask
    assert "have come to $4.50 since the last question" in offer.question


def test_local_and_hosted_evaluations_have_one_sum(lab: Lab) -> None:
    lab.ledger.reserve("local", 4.8, "evaluation here", lab.platform, None, asked=False)
    assert offered(lab, planned(1)).ask


def test_of_many_that_start_at_once_none_goes_past_the_sum_unasked(world: World, lab: Lab) -> None:
    lab.ledger.reserve("meanwhile", 4.8, "another call", lab.platform, None, asked=False)
    with pytest.raises(EvalError) as refused:
        world.loop.run_until_complete(start_hosted(lab, planned(1), confirmed=False))
    assert refused.value.code == "intent-changed"
    assert lab.ledger.spent(lab.platform) == 4.8
    assert lab.ledger.jobs() == []


ENDED = {"ended": "COMPLETED", "planned": 40, "completed": 40, "cost": 0.31, "prompt_tokens": 9, "completion_tokens": 9}


@pytest.mark.parametrize(
    ("progress", "cost"),
    [
        (ENDED, 0.31),
        (ENDED | {"ended": "CANCELLED", "completed": 30, "cost": 0.2}, 0.45),
        (ENDED | {"ended": None}, None),
        (ENDED | {"ended": "STALLED"}, None),
        (ENDED | {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}, None),
        (ENDED | {"cost": None}, None),
    ],
    ids=["complete", "stopped", "not confirmed", "stalled", "no tokens stated", "no price"],
)
def test_the_reserved_bound_is_corrected_by_what_was_paid_and_only_where_that_is_known(
    progress: dict[str, object], cost: float | None
) -> None:
    assert hosted_cost(progress, 1.0) == cost


# Files


def looked_up(world: World, server: Calls, name: str) -> str:
    snapshot = world.on_disk("one", "sums") if name == "sums" else None
    found = world.loop.run_until_complete(look_up_hosted(server.lab, name, snapshot))
    if found.subject is None:
        return found.unmet[0].detail
    return "proves" if found.subject.proves else "proves nothing"


@pytest.mark.parametrize("name", ["sums", "me/sums"])
def test_a_tree_with_the_hash_of_the_pushed_one_is_not_taken_for_it(world: World, name: str) -> None:
    proven(world)
    assert push(world).status == "passed"
    assert looked_up(world, world.server("one"), name) == "proves"
    held = json.loads((world.hub / "pushes").read_text(encoding="utf-8"))
    held[-1]["files"] = exchanged(world)
    (world.hub / "pushes").write_text(json.dumps(held), encoding="utf-8")
    assert "on the Hub is not what was validated" in looked_up(world, world.server("one"), name)


def test_what_could_not_be_fetched_proves_nothing(world: World) -> None:
    proven(world)
    assert push(world).status == "passed"
    (world.hub / "files-are-down").touch()
    assert looked_up(world, world.server("one"), "sums") == "proves nothing"


def test_our_own_files_under_the_name_of_a_friend_are_no_strangers(world: World) -> None:
    proven(world)
    world.publish_by_hand("friend/lent", "0.1.0", world.files("one", "sums"))
    assert "pull and prove it here" in looked_up(world, world.server("one"), "friend/lent")


def test_where_the_teams_cannot_be_asked_no_environment_is_evaluated_as_a_strangers(world: World) -> None:
    world.publish_by_hand("somebody/theirs", "1.0.0", {"pyproject.toml": '[project]\nname = "theirs"\n'})
    server = world.server("one")
    (world.hub / "teams-are-down").touch()
    with pytest.raises(PrimeError, match="could not be asked"):
        world.loop.run_until_complete(look_up_hosted(server.lab, "somebody/theirs", None))
    (world.hub / "teams-are-down").unlink()
    found = world.loop.run_until_complete(look_up_hosted(server.lab, "somebody/theirs", None))
    assert not found.unmet


def test_only_compared_files_prove(world: World) -> None:
    plan = planned(1)
    for outcome in ("wheel-unfetched", "wheel-only", "unfetched", "not-asked"):
        assert not replace(plan.subject, content=HubContent(outcome)).proves  # type: ignore[arg-type]
