"""The state of one workspace from its opening to its close."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from prime_lab_mcp.lab import lab as module
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state import storage

pytestmark = pytest.mark.anyio


async def test_a_lab_that_nobody_used_makes_no_file(settings: Settings) -> None:
    lab = Lab(settings)
    assert await lab.platform_variables() == {}
    await lab.close()
    assert not settings.state_dir.exists()


async def test_the_state_directory_is_cleaned_again_and_again_while_the_lab_is_open(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned, twice = [0], threading.Event()

    def clean(state: Path, evaluations: object) -> None:
        cleaned[0] += 1
        if cleaned[0] == 2:
            twice.set()
        raise OSError("a disk that fails")

    monkeypatch.setattr(storage, "clean_state", clean)
    monkeypatch.setattr(module, "_CLEANING_SECONDS", 0.01)
    lab = Lab(settings)
    lab.ledger.runs()
    assert twice.wait(20)
    await lab.close()
    assert lab._cleaner is not None
    assert not lab._cleaner.is_alive()
