"""Sends alerts to the person whom `serve --notify` names: what `AlertWatch` finds, and questions that wait.

A call never waits for an alert. An alert that cannot be sent is logged, and nothing else follows from it.
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
"""Seconds between two looks. A look starts `prime` about six times for each live run."""
_WAITING = 100
_AGAIN = 600.0
"""Seconds in which the same question is not announced again: clients of the newer protocol repeat the call."""
_QUESTION = 1500


class Alerting:
    """The alerts of one server."""

    def __init__(self, lab: Lab, notifier: Notifier) -> None:
        self._lab = lab
        self._notifier = notifier
        self._announced: dict[str, float] = {}
        self._send, self._receive = anyio.create_memory_object_stream[Alert](_WAITING)

    def announcing(self, ask: Ask, tool: str) -> Ask:
        """An `ask` that sends the question to the person as well."""

        async def asked(question: str) -> Answer:
            now = time.monotonic()
            if now - self._announced.get(question, -_AGAIN) >= _AGAIN:
                self._announced = {q: at for q, at in self._announced.items() if now - at < _AGAIN} | {question: now}
                self._put(Alert("question", tool, f"{tool} waits for an answer: {clip(question, _QUESTION)}"))
            return await ask(question)

        return asked

    async def run(self) -> None:
        """Look and send until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._deliver)
            tasks.start_soon(self._look)

    async def _look(self) -> None:
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
