"""A config that is another file at each look: proven for the gate, and something else where it is sent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from prime_lab_mcp.server.call import Calls
from tests.attacks.test_config_packages import on_the_hub, proven
from tests.property.world import World

GATES = ("gate.py", "check_training_config.py")
SENDERS = ("submit_training.py", "submission.py", "submission_question.py")


@pytest.mark.parametrize("swapped", [SENDERS, (*SENDERS, "plans.py", "call.py")], ids=["senders", "all but the gate"])
def test_what_is_sent_is_what_the_gate_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch, swapped: tuple[str, ...]
) -> None:
    server: Calls = world.server("one")
    path = proven(world, server)
    other = on_the_hub(world, "me/unproven", "0.1.0")
    text = path.read_text(encoding="utf-8")
    unproven = text.replace("me/sums@0.1.0", other).encode()
    assert unproven != text.encode()
    real = Path.read_bytes

    def read(self: Path) -> bytes:
        if self != path:
            return real(self)
        frame, files = sys._getframe(1), []
        while frame is not None:
            files.append(Path(frame.f_code.co_filename).name)
            frame = frame.f_back  # type: ignore[assignment]
        looks = next((name for name in files if name in (*GATES, *swapped)), "")
        return unproven if looks in swapped else real(self)

    monkeypatch.setattr(Path, "read_bytes", read)
    report = world.call(server, "submit_training", config=path.relative_to(world.workspace("one")).as_posix())
    assert world.runs() == []
    assert report.status in ("error", "blocked"), report
    assert world.questions[-1:] == [] or "unproven" not in world.questions[-1]


def test_a_config_that_is_for_hosted_training_at_its_first_look_only_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer rules hold for GPUs of one's own, and the platform is not asked."""
    server: Calls = world.server("one")
    path = proven(world, server)
    text = path.read_text(encoding="utf-8")
    unruled = text.replace("# target: hosted", "# target: self-managed").replace(
        "[model]", '[env_vars]\nPYTHONPATH = "/tmp/evil"\n\n[model]'
    )
    assert unruled.count("self-managed") == unruled.count("PYTHONPATH") == 1
    real = Path.read_bytes

    def read(self: Path) -> bytes:
        if self != path:
            return real(self)
        frame, functions = sys._getframe(1), set()
        while frame is not None:
            functions.add((Path(frame.f_code.co_filename).name, frame.f_code.co_name))
            frame = frame.f_back  # type: ignore[assignment]
        first = ("submit_training.py", "_existing") in functions
        return text.encode() if first else unruled.encode()

    monkeypatch.setattr(Path, "read_bytes", read)
    report = world.call(server, "submit_training", config=path.relative_to(world.workspace("one")).as_posix())
    assert world.runs() == []
    assert "config-not-hosted" in {finding.code for finding in report.findings}, report
