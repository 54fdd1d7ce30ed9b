"""The state of one workspace from its opening to its close."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from prime_lab_mcp.lab import lab as module
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state import storage
from prime_lab_mcp.lab.state.ledger.rows import Push
from prime_lab_mcp.lab.state.limits import PublishedLimits

pytestmark = pytest.mark.anyio


async def test_a_lab_that_nobody_used_makes_no_file(settings: Settings) -> None:
    lab = Lab(settings)
    assert await lab.platform_variables() == {}
    await lab.close()
    assert not settings.state_dir.exists()


async def test_what_must_end_with_the_lab_is_told_that_it_closes(settings: Settings) -> None:
    lab, ended = Lab(settings), list[str]()

    async def end() -> None:
        ended.append("platform")

    lab.closing.append(end)
    assert lab.snapshots is lab.snapshots
    await lab.close()
    assert ended == ["platform"]


async def test_the_newest_push_is_that_of_a_version_and_a_workspace_if_they_are_named(settings: Settings) -> None:
    lab = Lab(settings)
    for version, workspace in (("0.1.0", lab.key), ("0.2.0", "/elsewhere")):
        lab.ledger.record_push(Push(workspace, "sums", "me", "sums", version, "s", "c", "h", lab.platform))
    found = [
        lab.newest_push("me", "sums"),
        lab.newest_push("me", "sums", "0.1.0"),
        lab.newest_push("me", "sums", workspace=lab.key),
        lab.newest_push("me", "sums", "0.3.0"),
    ]
    assert [push and push.version for push in found] == ["0.2.0", "0.1.0", "0.1.0", None]
    await lab.close()


@pytest.mark.parametrize(("number", "starts"), [(errno.ENOSPC, True), (errno.EACCES, False)])
async def test_limits_that_a_full_disk_does_not_take_are_published_once_there_is_room(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, number: int, starts: bool
) -> None:
    tries, published = [0], threading.Event()

    def publish(self: PublishedLimits) -> None:
        tries[0] += 1
        if tries[0] < 3:
            raise OSError(number, "no")
        published.set()

    monkeypatch.setattr(PublishedLimits, "publish", publish)
    monkeypatch.setattr(module, "_ROOM_SECONDS", 0.01)
    lab = Lab(settings)
    if starts:
        lab.publish_limits()
        assert published.wait(20)
    else:
        with pytest.raises(OSError, match="no"):
            lab.publish_limits()
    await lab.close()
    assert tries == [3 if starts else 1]


async def test_the_limits_of_a_full_disk_are_given_up_with_the_lab(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish(self: PublishedLimits) -> None:
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(PublishedLimits, "publish", publish)
    monkeypatch.setattr(module, "_ROOM_SECONDS", 0.01)
    lab, before = Lab(settings), set(threading.enumerate())
    lab.publish_limits()
    [publishing] = set(threading.enumerate()) - before
    await lab.close()
    publishing.join(20)
    assert not publishing.is_alive()


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
