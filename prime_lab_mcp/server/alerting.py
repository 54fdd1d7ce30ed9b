"""Sends alerts to the person whom `serve --notify` names: alerts of `AlertWatch`, and questions that wait for an
answer.

A call never waits for an alert. An alert that cannot be sent is logged and has no other effect.
"""

from __future__ import annotations

import logging
import time

import anyio

from prime_lab_mcp.lab.base.text import clip
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.notifier import Alert, AlertNotDelivered, Notifier
from prime_lab_mcp.server.approval import Answer, Ask

log = logging.getLogger("prime_lab_mcp")

SECONDS, SECONDS_REHEARSED = 120.0, 1.0
"""Seconds between two checks. A check starts `prime` about six times for each live run."""
_MOST_WAITING = 100
_REPEAT_SECONDS = 600.0
"""Seconds for which a repeated question is not announced again. Clients of the newer protocol repeat the call."""
_MOST_CHARACTERS = 1500


class Alerting:
    """The alerts of one server."""

    def __init__(self, lab: Lab, notifier: Notifier) -> None:
        self._lab = lab
        self._notifier = notifier
        self._announced: dict[str, float] = {}
        self._send, self._receive = anyio.create_memory_object_stream[Alert](_MOST_WAITING)

    def announcing(self, ask: Ask, tool: str) -> Ask:
        """Wrap `ask` so that the question is also sent to the person."""

        async def announce_and_ask(question: str) -> Answer:
            now = time.monotonic()
            if now - self._announced.get(question, -_REPEAT_SECONDS) >= _REPEAT_SECONDS:
                recent = {q: at for q, at in self._announced.items() if now - at < _REPEAT_SECONDS}
                self._announced = recent | {question: now}
                self._put(Alert("question", tool, f"{tool} waits for an answer: {clip(question, _MOST_CHARACTERS)}"))
            return await ask(question)

        return announce_and_ask

    async def run(self) -> None:
        """Check for events and send alerts until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._deliver)
            tasks.start_soon(self._watch)

    async def _watch(self) -> None:
        from prime_lab_mcp.lab.training.alerts import AlertWatch  # late: the server starts without the services

        watch = await anyio.to_thread.run_sync(AlertWatch, self._lab)
        while True:
            try:
                for alert in await watch.round():
                    self._put(alert)
            except Exception:
                log.exception("runs and evaluations could not be looked at for alerts")
            await anyio.sleep(SECONDS_REHEARSED if self._lab.settings.rehearsal else SECONDS)

    async def _deliver(self) -> None:
        async for alert in self._receive:
            try:
                await self._notifier.send(alert)
            except AlertNotDelivered as error:
                log.warning("an alert (%s, %s) was lost: %s", alert.kind, alert.subject, error)
            except Exception:
                log.exception("an alert (%s, %s) was lost", alert.kind, alert.subject)

    def _put(self, alert: Alert) -> None:
        try:
            self._send.send_nowait(alert)
        except anyio.WouldBlock:
            log.warning("an alert (%s, %s) was lost: too many wait", alert.kind, alert.subject)
