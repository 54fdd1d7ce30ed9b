"""One attempt at an evaluation job: starts `vf-eval` behind a relay, follows it, and records how it ended.

A resumed job has several attempts. `ResultsCounter` counts finished rollouts while the results file grows.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import ByteReceiveStream

from prime_lab_mcp.lab.base import process, untrusted_files
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.statistics import MeanOfTasks
from prime_lab_mcp.lab.evals.runner import command
from prime_lab_mcp.lab.evals.runner.admitted_costs import AdmittedCosts
from prime_lab_mcp.lab.evals.runner.answered_replies import AnsweredReplies
from prime_lab_mcp.lab.evals.runner.endings import (
    AttemptEnding,
    ending_of_exit,
    endpoint_lost_ending,
    half_written_lines,
    memory_kills,
    refusals,
    rollout_errors,
)
from prime_lab_mcp.lab.evals.runner.guard import GRACE_SECONDS, take_lock
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.relay.metering import RetryPolicy
from prime_lab_mcp.lab.rollouts.reading import Layout, decode_line, layout_of, parse_score_line
from prime_lab_mcp.lab.sandbox.caches import data_cache
from prime_lab_mcp.lab.sandbox.containers.access import container_broker, read_report, write_client
from prime_lab_mcp.lab.state.ledger.ledger import Ledger

N = TypeVar("N", int, float)
"""Type of a limit: a number of tokens, or an amount in US dollars."""
_COMPARED_BYTES = 4096
"""Bytes at the end of a line that tell records apart. In every layout they hold the record's id or its times."""


class ResultsCounter:
    """Counts of a growing results file: rollouts, errors and the mean reward. Only complete lines count."""

    def __init__(self, spec: EvalSpec) -> None:
        self._spec = spec
        self.layout: Layout | None = None
        """The layout of the first record that was read."""
        self._reset()

    def _reset(self) -> None:
        self._offset = 0
        self._last = b""
        """The end of the last counted line. If the file differs at that place, it was replaced."""
        self.rollouts = 0
        self.errors = 0
        self.scored = 0
        self.with_turns = 0
        """Number of rollouts with a reward and without an error. Each needs at least one reply of the model."""
        self._mean = MeanOfTasks()

    def count(self, path: Path | None) -> None:
        """Count a file from its start, whatever was counted before."""
        self._reset()
        self.follow(path)

    def follow(self, path: Path | None) -> None:
        """Count the lines that were added since the last call. A file that shrank or was replaced is counted anew.

        A resumed run starts with fewer lines, and v0 replaces the file at its end by one in another order. Raises
        PlantedPath and OSError.
        """
        if path is None:
            return
        # The evaluated code can write the file and its folder, and may still run.
        with untrusted_files.open_below(path.parent, path.name) as source:
            # Inode numbers are reused, so only the content shows that the file was replaced.
            source.seek(self._offset - len(self._last))
            if source.read(len(self._last)) != self._last:
                self._reset()
                source.seek(0)
            for line in untrusted_files.bounded_lines(source, path.name):
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._last = line[-_COMPARED_BYTES:]
                self._add(line)

    def _add(self, line: bytes) -> None:
        if self.layout is None:
            record = decode_line(line)
            if not isinstance(record, dict):
                return
            self.layout = layout_of(record)
        # An episode of several trained agents counts as one planned rollout.
        agents = list(parse_score_line(line, self.layout) or ())
        self.rollouts += bool(agents)
        self.errors += any(agent.error is not None for agent in agents)
        self.with_turns += any(agent.error is None and agent.reward is not None for agent in agents)
        for agent in agents:
            if agent.reward is not None:
                self.scored += 1
                if agent.error is None and not agent.nonfinite:
                    self._mean.add(agent.task, agent.reward)

    def as_json(self) -> dict[str, Any]:
        """Return the counts in the form of a job's progress."""
        return {
            "completed": self.rollouts,
            "planned": self._spec.planned,
            "errors": self.errors,
            "mean_reward": self._mean.value,
        }


LEASE = 20.0
"""Seconds that a lease lasts after each renewal."""
_BEAT = 0.5
"""Seconds between two looks at the results file. Changed progress is written and the lease is renewed then."""
_WRITE = 2.0
"""Most seconds between two renewals of the lease."""
_TAIL = 64 * 1024
_PREVIOUS_ATTEMPT_SECONDS = 30.0
"""Seconds that the previous attempt has to end. The guard of that attempt waits for a shorter time."""


class JobAttempt:
    """One attempt at a job: `run` runs the missing rollouts, and `finish` records how the attempt ended."""

    def __init__(
        self, id: str, spec: EvalSpec, files: command.JobFiles, ledger: Ledger, deadline: float, allow: tuple[str, ...]
    ) -> None:
        self.id = id
        self.spec = spec
        self.files = files
        self.ledger = ledger
        self.deadline = deadline
        self.allow = allow
        self.counter = ResultsCounter(spec)
        self.answered = AnsweredReplies(files.answered, files.replies)
        self.relay: Any = None
        self.stopping: AttemptEnding | None = None
        self.broken_lines = 0
        self._last_progress: dict[str, Any] = {}
        self._spent = {"prompt_tokens": 0, "completion_tokens": 0, "requests": 0, "unreported_tokens": 0}
        self._cost_before = 0.0
        self._seconds_before = 0.0
        self._began = time.monotonic()
        self._attempt = {"at": time.time(), "completed": 0}
        """When this attempt began, and how many rollouts were finished then: the rate of the others follows."""

    async def run(self, key: str | None) -> AttemptEnding:
        """Run the missing rollouts through a relay; return how the attempt ended. `key` is the endpoint's key."""
        from prime_lab_mcp.lab.relay.metering import RelayCap
        from prime_lab_mcp.lab.relay.proxy import Relay

        for folder in (self.files.home, self.files.work, self.files.output):
            folder.mkdir(parents=True, exist_ok=True)
        if not await self._wait_for_previous_attempt():
            return AttemptEnding("crashed", "the attempt before this one still ends", "eval-busy")
        self._carry_over()
        cap = RelayCap(
            self._remaining(self.spec.max_total_tokens, sum(self._spent.values()) - self._spent["requests"]),
            self._remaining(self.spec.max_cost, self._cost_before),
            self.spec.price,
            prices={} if self.spec.price is None else {self.spec.model: self.spec.price},
        )
        self.relay = Relay(
            self.spec.endpoint,
            key,
            cap,
            RetryPolicy(),
            answered=self.answered.note_count,
            replied=self.answered.note_fingerprints,
            booked=AdmittedCosts(self.files.admitted).add,
        )
        async with self.relay.serving(), self._container_broker() as containers:
            argv = command.eval_command(self.spec, self.files, self.relay.url)
            job = self.ledger.job(self.id)
            state, workspace = self.files.root.parents[1], job.workspace if job else ""
            cache = data_cache(state, workspace, self.spec.module, self.spec.source, self.spec.python)
            env = command.eval_environment(
                self.spec, self.files, self.relay.url, self.relay.secret, self.allow, cache, containers
            )
            argv = command.eval_confinement(self.spec, self.files, cache).command(argv)
            return await self._watch(process.own_module_command("evals.runner.guard", str(self.files.lock), *argv), env)

    @asynccontextmanager
    async def _container_broker(self) -> AsyncIterator[Mapping[str, str]]:
        """Run a broker if rollouts run in containers. Yields the variables of `vf-eval` that lead to the broker."""
        self.files.containers.unlink(missing_ok=True)
        if not self.spec.uses_podman:
            yield {}
            return
        write_client(self.files.programs, self.spec.python)
        seconds = max(60.0, self.deadline - time.time() + 60.0)
        most = self.spec.most_containers
        async with container_broker(self.id, self.files.containers, most=most, seconds=seconds) as access:
            yield access.variables

    async def _wait_for_previous_attempt(self) -> bool:
        """Wait until all processes of an earlier attempt have ended. Returns False if that takes too long."""
        with anyio.move_on_after(_PREVIOUS_ATTEMPT_SECONDS):
            while True:
                descriptor = take_lock(self.files.lock)
                if descriptor is not None:
                    os.close(descriptor)
                    return True
                self._renew_lease()
                await anyio.sleep(_BEAT / 2)
        return False

    async def _watch(self, argv: list[str], env: Mapping[str, str]) -> AttemptEnding:
        null = os.open(os.devnull, os.O_WRONLY)
        child_stdin, alive = os.pipe()
        kills = memory_kills()
        try:
            # Standard output only repeats what the results file holds: every trace as JSON.
            child = await process.spawn(argv, cwd=self.files.work, env=env, stdin=child_stdin, stdout=null)
        finally:
            os.close(null)
            os.close(child_stdin)
        tail = bytearray()
        async with child, anyio.create_task_group() as tasks:
            assert child.process.stderr is not None
            drained = anyio.Event()
            tasks.start_soon(_drain, child.process.stderr, tail, drained)
            tasks.start_soon(self._receive_signals)
            tasks.start_soon(self._beat)
            with anyio.move_on_after(max(0.0, self.deadline - time.time())) as limit:
                code = await self._until_end(child)
            if limit.cancelled_caught:
                self.stopping = AttemptEnding("stopped", "it reached its deadline", "eval-deadline")
            os.close(alive)
            if self.stopping:
                with anyio.move_on_after(GRACE_SECONDS + 6.0):
                    await child.process.wait()
            with anyio.move_on_after(1.0):
                await drained.wait()
            tasks.cancel_scope.cancel()
        with suppress(OSError):
            self.files.errors.write_bytes(bytes(tail))
        if self.stopping:
            return self.stopping
        ended = ending_of_exit(code, tail.decode("utf-8", "replace"), self.files.root, kills)
        try:
            self.counter.count(self.files.find_results())
        except untrusted_files.PlantedPath as error:
            # A full disk is the better explanation. The results are not read in either case.
            full = ended is not None and ended.cause == "eval-disk-full"
            return ended if ended is not None and full else AttemptEnding("crashed", error.message, error.code)
        return ended or self._completeness_ending()

    async def _until_end(self, child: process.ChildProcess) -> int:
        while not self.stopping:
            with anyio.move_on_after(_BEAT / 2):
                return await child.process.wait()
            kind = self.relay.usage.given_up(anyio.current_time())
            if kind is not None:
                endpoint = self.spec.endpoint
                rehearsal = endpoint.preset == "prime" and endpoint.on_loopback
                self.stopping = endpoint_lost_ending(kind, endpoint.host, self.relay.usage, rehearsal=rehearsal)
        return 0

    def _completeness_ending(self) -> AttemptEnding:
        """Return the ending after exit code 0: `finished` only if the results hold every rollout."""
        if self.counter.rollouts == 0:
            return AttemptEnding("crashed", "vf-eval ended without a single rollout", "eval-incomplete")
        planned = self.planned()
        if self.counter.rollouts < planned:
            reason = f"vf-eval ended as if it were done, with {self.counter.rollouts} of {planned} rollouts"
            return AttemptEnding("crashed", reason, "eval-incomplete")
        return AttemptEnding("finished")

    def planned(self) -> int:
        """Return the number of rollouts of a complete run, 0 if unknown.

        v0 `vf-eval` reports the number itself, because it may evaluate another dataset than the one that was counted.
        """
        if self.spec.api == "v0":
            with suppress(OSError, ValueError, KeyError, TypeError, untrusted_files.PlantedPath):
                planned = untrusted_files.read_below(self.files.work, self.files.planned.name, _COMPARED_BYTES)
                return int(json.loads(planned)["rollouts"])
            return 0
        return self.spec.planned if self.spec.tasks is not None else 0

    async def _receive_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number != signal.SIGHUP:
                    self.stopping = AttemptEnding("stopped", "it was stopped", "eval-stopped")

    async def _beat(self) -> None:
        renewed = 0.0
        while True:
            with suppress(OSError, untrusted_files.PlantedPath):  # `_watch` reports it at the end
                self.counter.follow(self.files.results())
            progress = self.progress()
            now = time.time()
            if now - renewed > _WRITE or (progress != self._last_progress and now - renewed > _BEAT):
                self._renew_lease(progress=progress)
                renewed, self._last_progress = now, progress
            await anyio.sleep(_BEAT)

    def _renew_lease(self, **changes: Any) -> None:
        """Renew the lease and write `changes` to the job's row.

        On a full disk the write fails without an exception; `vf-eval` then fails on the full disk itself.
        """
        with suppress(sqlite3.OperationalError):
            self.ledger.update_job(self.id, lease=time.time() + LEASE, **changes)

    def progress(self) -> dict[str, Any]:
        """Return the progress of the job over all attempts, as the ledger stores it."""
        progress = self.counter.as_json()
        if self.spec.api == "v0":
            progress["planned"] = self.planned() or progress["planned"]
        if self.broken_lines:
            progress["half_written"] = self.broken_lines
        if self.relay is not None:
            progress |= self.relay.usage.as_json()
            for name, before in self._spent.items():
                progress[name] += before
            if self.spec.price is not None:
                progress["cost"] = self._cost_before + self.relay.usage.cost
        if self._seconds_before:
            progress["seconds"] = self._seconds_before
        progress["attempt"] = self._attempt
        return progress

    @staticmethod
    def _remaining(limit: N | None, spent: N) -> N | None:
        """Return the part of a limit that earlier attempts of the job did not use."""
        return None if limit is None else max(limit - spent, type(limit)(0))

    def finish(self, ending: AttemptEnding) -> None:
        """Record how the attempt ended, with the sha256 of the results. The verdict later requires the same bytes."""
        results = self.files.results()
        self.counter.count(results)
        progress = self.progress() | {"reason": ending.reason, "cause": ending.cause}
        progress["seconds"] = round(self._seconds_before + time.monotonic() - self._began, 1)
        if results is not None:
            progress["results"] = str(results.relative_to(self.files.root))
            progress["results_sha256"] = file_sha256(results)
            progress["rollout_errors"] = rollout_errors(results) if self.counter.errors else []
            progress["findings"] = [finding.as_record() for finding in self._forged(results)]
        progress["refused"] = refusals(self.files.refused)
        progress["containers"] = read_report(self.files.containers)
        self.ledger.update_job(self.id, state=ending.state, progress=progress, lease=time.time())

    def _forged(self, results: Path) -> tuple[Finding, ...]:
        """Return findings if another program than `vf-eval` wrote the results, or the endpoint did not give the replies
        in them."""
        if self.counter.layout not in (None, self.spec.api):
            return (
                Finding(
                    "results-not-as-asked",
                    "blocker",
                    f"the results are no rollouts of verifiers {self.spec.api}, which ran",
                    Fix(
                        "Find the code of the environment that writes results, mend it, and call ",
                        NamedCall("run_eval"),
                        " again.",
                    ),
                ),
            )
        return self.answered.findings(results, self.counter.with_turns)

    def _carry_over(self) -> None:
        """Take over the token counts and cost of earlier attempts, and count the lines that they left half-written."""
        job = self.ledger.job(self.id)
        progress = AdmittedCosts(self.files.admitted).at_least(job.progress if job else {})
        for name in self._spent:
            self._spent[name] = int(progress.get(name) or 0)
        self._cost_before = float(progress.get("cost") or 0.0)
        self._seconds_before = float(progress.get("seconds") or 0.0)
        self._attempt["completed"] = int(progress.get("completed") or 0)
        results = self.files.results()
        self.broken_lines = half_written_lines(results) if results is not None else 0


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes in hexadecimal. Raises PlantedPath and OSError."""
    with untrusted_files.open_results(path) as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


async def _drain(stream: ByteReceiveStream, tail: bytearray, drained: anyio.Event) -> None:
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for chunk in stream:
            tail += chunk
            del tail[:-_TAIL]
    drained.set()
