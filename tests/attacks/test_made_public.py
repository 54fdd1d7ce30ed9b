"""A push that makes a name public makes its earlier versions public: the question says which."""

from __future__ import annotations

from prime_lab_mcp.server.call import Calls
from tests.property.world import World


def again(world: World, **given: str) -> str:
    """The question of a push after an edit of the README, which leaves the proof standing."""
    world.write("one", "sums", version="0.1.1", readme="without the private rows")
    server = world.server("one")
    for tool in ("check_environment", "test_reward", "run_eval", "check_reward_distribution"):
        world.call(server, tool, environment="sums")
    report = world.call(server, "push_environment", environment="sums", **given)
    assert report.status == "passed", report
    return world.questions[-1]


def test_the_question_of_a_push_that_makes_a_name_public_names_the_versions_that_become_public_too(
    world: World, proven: Calls
) -> None:
    assert world.call(proven, "push_environment", environment="sums").status == "passed"
    assert "become public" not in world.questions[-1]
    question = again(world, visibility="PUBLIC")
    assert "me/sums is PRIVATE now, and the Hub has one visibility for all versions of a name" in question
    assert "earlier versions of this name, 0.1.0 among them, become public as well" in question


def test_a_push_that_leaves_the_visibility_says_nothing_of_earlier_versions(world: World, proven: Calls) -> None:
    assert world.call(proven, "push_environment", environment="sums").status == "passed"
    assert "become public" not in again(world)
