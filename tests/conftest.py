"""Shared fixtures: the asyncio backend and a lab on scratch folders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis
import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from tests.support.interpreters import share

pytest_plugins = [
    "tests.support.collection",
    "tests.support.warm.plugin",
    "tests.support.costs",
    "tests.support.rotation",
    "tests.support.reward_search",
    "tests.support.next_calls",
]
# How long an example takes says how busy the machine is, and no test asserts it.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")
TEMPLATES = Path(__file__).parents[1] / "prime_lab_mcp" / "resources" / "templates"
EXAMPLES = Path(__file__).parents[1] / "environments"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "workspace" / "environments").mkdir(parents=True)
    return Settings(workspace=tmp_path / "workspace", state_dir=tmp_path / "state", templates=TEMPLATES)


@pytest.fixture
def shared_interpreters(settings: Settings) -> None:
    """The lab takes interpreters of environments from the cache of all tests, where none is about building them."""
    share(settings)


@pytest.fixture
async def lab(settings: Settings) -> AsyncIterator[Lab]:
    opened = Lab(settings)
    yield opened
    await opened.close()
