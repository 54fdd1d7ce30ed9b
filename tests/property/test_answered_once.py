"""An answer to a question counts for what was asked about, once: not again after the Hub has lost what was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.report import Report
from tests.property.world import World


def test_an_answer_about_a_push_publishes_nothing_again_that_was_deleted_on_the_hub(tmp_path: Path) -> None:
    """The token of an answered question published a second time, after the user had deleted the environment."""
    world = World(tmp_path / "machine")
    server = world.server("one")

    def unasked(**more: Any) -> Report:
        return world.loop.run_until_complete(server.execute("push_environment", {"environment": "sums", **more}))

    try:
        world.write("one", "sums")
        for tool in ("test_reward", "run_eval", "check_reward_distribution"):
            world.call(server, tool, environment="sums")
        token = unasked().data["confirm"]
        assert unasked(confirm=token).status == "passed"
        assert unasked(confirm=token).data["deduplicated"]
        assert len(world.pushes()) == 1
        world.publish_foreign()  # The Hub holds nothing of this user any more.
        refused = unasked(confirm=token)
        assert world.pushes() == [], refused
        again = unasked()
        assert again.data["confirm"] != token
        assert unasked(confirm=again.data["confirm"]).status == "passed"
        assert len(world.pushes()) == 1
    finally:
        world.close()
