"""The page over a scratch lab, asked in process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from prime_lab_mcp.dashboard.page import page_app
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.lab.lab import Lab

TOKEN = "t" * 43


@pytest.fixture
async def reading(lab: Lab) -> AsyncIterator[ReadingLab]:
    assert lab.ledger.runs() == []  # the ledger exists before the reader opens it
    opened = ReadingLab(lab.settings)
    yield opened
    await opened.close()


@pytest.fixture
async def page(reading: ReadingLab) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=page_app(reading, TOKEN, ("127.0.0.1", "localhost", "::1")))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=headers) as client:
        yield client
