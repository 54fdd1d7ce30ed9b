"""An alert that cannot be sent or made has no other effect than a line in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.notifier import Alert
from prime_lab_mcp.lab.training import alerts
from prime_lab_mcp.server.alerting import Alerting

pytestmark = pytest.mark.anyio


class Notifier:
    """Fails for the first alert and keeps the others."""

    def __init__(self) -> None:
        self.sent: list[Alert] = []
        self.failed = False

    async def send(self, alert: Alert) -> None:
        if not self.failed:
            self.failed = True
            raise RuntimeError("a bug")
        self.sent.append(alert)


@pytest.fixture
def lab(settings: Settings) -> Iterator[Lab]:
    opened = Lab(settings)
    yield opened
    opened.ledger.close()


def alert(number: int) -> Alert:
    return Alert("question", "submit_training", f"alert {number}")


async def test_alerts_of_the_watch_are_sent_although_a_round_and_a_sending_failed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: list[Any] = [RuntimeError("a bug"), [alert(1), alert(2)]]

    class Watch:
        def __init__(self, lab: Lab) -> None: ...

        async def round(self) -> list[Alert]:
            found = rounds.pop(0) if rounds else []
            if isinstance(found, Exception):
                raise found
            return list(found)

    monkeypatch.setattr(alerts, "AlertWatch", Watch)
    monkeypatch.setattr("prime_lab_mcp.server.alerting.SECONDS", 0.01)
    notifier = Notifier()
    alerting = Alerting(lab, notifier)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(alerting.run)
        with anyio.fail_after(20):
            while not notifier.sent:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert notifier.sent == [alert(2)]
    assert caplog.messages[-2:] == [
        "runs and evaluations could not be looked at for alerts",
        "an alert (question, submit_training) was lost",
    ]


async def test_of_too_many_alerts_the_last_are_lost_and_the_question_is_asked_all_the_same(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(question: str) -> Any:
        return "approved"

    alerting = Alerting(lab, Notifier())  # type: ignore[arg-type]
    asking = alerting.announcing(ask, "submit_training")
    answers = [await asking(f"Start run {number}?") for number in range(101)]
    assert set(answers) == {"approved"}
    assert caplog.messages == ["an alert (question, submit_training) was lost: too many wait"]
