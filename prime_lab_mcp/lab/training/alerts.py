"""Finds the events that a person is notified of: anomalies and ends of training runs and evaluations.

`AlertWatch` checks the live runs and evaluations of one workspace, and reports each event once. The servers of one
state directory share a record of the reported events. An end that came before the watch began is not reported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.notifier import Alert
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.watch import RunReading, watch_run

_WATCHED = 20
"""Number of the newest runs, and of the newest evaluations, that are checked."""
_RUN_ENDED = frozenset({"COMPLETED", "FAILED", "STOPPED", "PAUSED"})
_HOSTED_ENDED = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"})


class AlertWatch:
    """Watches one workspace, and remembers which runs and evaluations have ended."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._ended: set[str] = set()
        self._began = False

    async def round(self) -> list[Alert]:
        """Check once, and return the new alerts. The first round reports no ends, because these came before the
        watch."""
        alerts = [*self._evaluations()]
        for run in self._lab.ledger.runs(workspace=self._lab.key, platform=self._lab.platform, limit=_WATCHED):
            if run.id in self._ended:
                continue
            with suppress(LabError):  # a platform that does not answer is asked again in the next round
                alerts += await self._run(run)
        began, self._began = self._began, True
        return [alert for alert in alerts if (began or alert.kind == "anomaly") and self._is_first(alert)]

    def _evaluations(self) -> Iterator[Alert]:
        for job in EvaluationJobs(self._lab).list()[:_WATCHED]:
            if job.state in LIVE_STATES or job.id in self._ended:
                continue
            self._ended.add(job.id)
            done, planned = job.progress.get("completed", 0), job.progress.get("planned", 0)
            text = f"Evaluation {job.id} of {job.environment} is {job.state}: {done} of {planned} rollouts."
            yield Alert("ended", job.id, text, {"status": job.state})

    async def _run(self, run: Run) -> list[Alert]:
        if run.kind == "hosted-eval":
            return self._hosted(run, await self._lab.prime.eval_get(run.id))
        reading = await watch_run(self._lab, run.id, run)
        ended = reading.status in _RUN_ENDED
        if ended:
            self._ended.add(run.id)
        if ended and not self._began:
            return []
        return [*_anomalies(run, reading), *([_end(run, reading)] if ended else [])]

    def _hosted(self, run: Run, evaluation: Mapping[str, Any]) -> list[Alert]:
        status = str(evaluation.get("status") or "").upper()
        if status not in _HOSTED_ENDED:
            return []
        self._ended.add(run.id)
        return [Alert("ended", run.id, f"The hosted evaluation {run.id} is {status}.", {"status": status})]

    def _is_first(self, alert: Alert) -> bool:
        """Record an alert. Returns False if a server of this state directory recorded the same alert before."""
        what = (self._lab.key, alert.subject, alert.kind, alert.details.get("code"), alert.details.get("status"))
        folder = self._lab.settings.state_dir / "notified"
        try:
            folder.mkdir(exist_ok=True)
            os.close(os.open(folder / hashlib.sha256(repr(what).encode()).hexdigest(), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        except OSError:
            return True
        return True


def _anomalies(run: Run, reading: RunReading) -> Iterator[Alert]:
    for anomaly in reading.anomalies:
        burned = reading.spent_since(anomaly.since_step)
        cost = f" About ${burned:.2f} were spent since." if burned else ""
        text = f"Run {quote(run.name, 80)} ({run.id}), since step {anomaly.since_step}: {anomaly.cause}.{cost}"
        yield Alert("anomaly", run.id, f"{text} {anomaly.advice}", {"code": anomaly.code, "level": anomaly.level})


def _end(run: Run, reading: RunReading) -> Alert:
    spent = f", ${reading.spend:.2f} spent" if reading.spend is not None else ""
    steps = f", {reading.step + 1} of {reading.max_steps or '?'} steps" if reading.step is not None else ""
    text = f"Run {quote(run.name, 80)} ({run.id}) is {reading.status}{steps}{spent}."
    return Alert("ended", run.id, text, {"status": reading.status})
