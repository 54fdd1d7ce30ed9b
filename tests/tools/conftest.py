"""A lab in rehearsal for each module of tests, on a platform of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.tools.loopback import Desk, desk


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("desk")) as opened:
        yield opened
