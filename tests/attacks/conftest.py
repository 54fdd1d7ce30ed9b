"""The world of several workspaces, servers and one platform in which most attacks are tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.server.call import Calls
from tests.property.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = World(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def server(world: World) -> Calls:
    """A server of an empty workspace. Tests that need an environment have a fixture of their own."""
    return world.server("one")


@pytest.fixture
def proven(world: World) -> Calls:
    """A server whose environment `sums` has what a push needs."""
    world.write("one", "sums")
    server = world.server("one")
    for tool in ("test_reward", "run_eval", "check_reward_distribution"):
        assert world.call(server, tool, environment="sums").status == "passed"
    return server
