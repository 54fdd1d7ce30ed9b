"""Two servers of one workspace under a steady load of all kinds of calls: neither they nor their state grow."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.endurance.killing import NAME
from tests.endurance.servers import Place, StdioServer, Usage
from tests.endurance.tally import Tally
from tests.lab.evals.conftest import write_environment
from tests.tools.loopback import CONFIG

_PATIENCE = 300.0
_PAUSE_SECONDS = 5.0
"""Longest pause of a client between two calls: an hour of load leaves the machine some time."""
_GROWTH_KILOBYTES = 60_000
_MORE_DESCRIPTORS, _MORE_PROCESSES, _MORE_FILES = 20, 8, 40
"""What a server, all servers together and their state may have more at the end than after the warm-up."""
_SAMPLED_SECONDS = 5.0
_JUDGED_SAMPLES = 200
"""Samples from which on the course of the memory is judged: a quarter of an hour."""
_STILL_GROWING = 8
"""MiB by which the last quarter may exceed the one before: reports make the memory of a server go up and down."""
_NOTES = 5
"""Texts between which a file of the environment changes, so that there are as many versions to keep."""
MODEL = "Qwen/Qwen3-4B-Instruct-2507"
_KEPT = ("ledger.sqlite3", "evals", "rehearsal")
"""Parts of the state that hold what was asked for: they grow with the work."""
_CALLS: tuple[tuple[int, str, Mapping[str, Any]], ...] = (
    (20, "workflow_status", {}),
    (10, "workflow_status", {"environment": NAME}),
    (10, "read_environment", {"environment": NAME}),
    (4, "edit_environment", {"environment": NAME, "path": "NOTES.md"}),
    (10, "read_reference", {"topic": "guide/workflow"}),
    (6, "inspect_dataset", {"dataset": "data.jsonl"}),
    (3, "preflight", {}),
    (6, "check_environment", {"environment": NAME}),
    (6, "test_reward", {"environment": NAME}),
    (2, "run_eval", {"environment": NAME, "model": MODEL, "num_examples": 8, "rollouts": 2}),
    (4, "check_reward_distribution", {"environment": NAME}),
    (6, "check_training_config", {"path": "c0.toml"}),
    (4, "submit_training", {"config": "c0.toml", "yes": True}),
    (3, "watch_run", {}),
    (2, "search_hub", {"kind": "environment", "query": "reverse"}),
    (2, "push_environment", {"environment": NAME}),
)
"""How often a tool is called among all calls, and with which arguments."""


def load_servers(
    place: Place,
    tally: Tally,
    seed: int,
    more: Callable[[int], bool],
    warm: Callable[[int], bool],
    clients: int = 2,
    pause: float = _PAUSE_SECONDS,
) -> None:
    """Call two servers until `more(calls)` is false. Growth counts from where `warm(calls)` becomes false."""
    write_environment(place.workspace)
    lines = (f'{{"question": "{n} + 1?", "answer": "{n + 1}"}}\n' for n in range(50))
    (place.workspace / "data.jsonl").write_text("".join(lines), encoding="utf-8")
    config = f'name = "c0"\n{CONFIG.replace("batch_size = 16", "batch_size = 64")}'
    (place.workspace / "c0.toml").write_text(config, encoding="utf-8")
    servers = [StdioServer(place).start() for _ in range(2)]
    load = _Load(tally, more, pause)
    threads = [
        threading.Thread(target=load.client, args=(server, random.Random(seed + 10 * number + client)))
        for number, server in enumerate(servers)
        for client in range(clients)
    ]
    for thread in threads:
        thread.start()
    while warm(load.calls) and any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
    before, began, done = _Held.of(place, servers), time.monotonic(), load.calls
    memory = _Memory(servers)
    while any(thread.is_alive() for thread in threads):
        memory.measure()
        time.sleep(_SAMPLED_SECONDS)
    for thread in threads:
        thread.join()
    _judge(tally, before, _Held.of(place, servers), load.calls - done, time.monotonic() - began)
    memory.judge(tally)
    for server in servers:
        if server.garbage:
            tally.flaw("crashes", f"stdout held what is no message: {server.garbage[0]!r}")
        if (code := server.end()) != 0:
            tally.flaw("crashes", f"a server under load ended with {code} at the end of its input")


class _Load:
    """The clients of all servers, and the number of their calls."""

    def __init__(self, tally: Tally, more: Callable[[int], bool], pause: float) -> None:
        self.tally, self.more, self.pause = tally, more, pause
        self.calls = 0
        self._lock = threading.Lock()

    def client(self, server: StdioServer, draw: random.Random) -> None:
        while self.more(self.calls):
            [(_, tool, arguments)] = draw.choices(_CALLS, [often for often, _, _ in _CALLS])
            if tool == "edit_environment":
                arguments = {**arguments, "new": f"note {draw.randrange(_NOTES)}\n"}
            report = server.call(tool, arguments, _PATIENCE)
            if report is None:
                self.tally.flaw("unanswered", f"{tool} {dict(arguments)}")
                return
            if '"internal-error"' in str(report).replace("'", '"'):
                self.tally.flaw("crashes", f"{tool}: {report.get('summary')} {report.get('findings')}")
            with self._lock:
                self.calls += 1
            self.tally.count("calls of the steady load")
            self.tally.count(f"steady load: {tool}, {report.get('status')}")
            time.sleep(self.pause * draw.random())


class _Held:
    """What servers and their state hold at one time."""

    def __init__(self, usages: list[Usage], processes: int, files: dict[str, int]) -> None:
        self.usages, self.processes, self.files = usages, processes, files

    @classmethod
    def of(cls, place: Place, servers: list[StdioServer]) -> _Held:
        return cls([Usage(s.process.pid) for s in servers], len(place.processes()), _files_of(place.state))

    def __str__(self) -> str:
        usages = " and ".join(map(str, self.usages))
        return f"{usages}; {self.processes} processes; files of the state: {self.files}"


class _Memory:
    """The memory of each server over the time of the load, in MiB."""

    def __init__(self, servers: list[StdioServer]) -> None:
        self._servers = servers
        self._measured: list[list[int]] = [[] for _ in servers]

    def measure(self) -> None:
        for server, measured in zip(self._servers, self._measured, strict=True):
            if server.process.poll() is None:
                measured.append(Usage(server.process.pid).kilobytes // 1024)

    def judge(self, tally: Tally) -> None:
        """Print the course of each server, and count one that still grows in the last quarter of the time.

        A server fills what it remembers first; then its memory has to stay where it is.
        """
        for number, measured in enumerate(self._measured, 1):
            quarters = [
                part for n in range(4) if (part := measured[n * len(measured) // 4 : (n + 1) * len(measured) // 4])
            ]
            means = [sum(part) / len(part) for part in quarters]
            course = ", ".join(f"{mean:.0f}" for mean in means)
            tally.measured[f"MiB of server {number} in each quarter of the load, on average"] = course
            if len(measured) >= _JUDGED_SAMPLES and means[-1] > means[-2] + _STILL_GROWING:
                tally.flaw("growth", f"memory of server {number}: {course} MiB in the quarters of the load")


def _files_of(state: Path) -> dict[str, int]:
    """The number of files in each part of the state that need not grow."""
    parts = [part for part in sorted(state.iterdir()) if not part.name.startswith(_KEPT)]
    return {part.name: sum(1 for _ in _walked(part)) for part in parts}


def _walked(part: Path) -> Iterator[Path]:
    if not part.is_dir() or part.is_symlink():
        yield part
        return
    try:
        entries = list(part.iterdir())
    except OSError:  # cleaned meanwhile
        return
    for entry in entries:
        yield from _walked(entry)


def _judge(tally: Tally, before: _Held, after: _Held, calls: int, seconds: float) -> None:
    what = f"the steady load of {calls:,} calls in {seconds / 60:.0f} minutes"
    tally.measured[f"held before {what}"] = str(before)
    tally.measured[f"held after {what}"] = str(after)
    for first, last in zip(before.usages, after.usages, strict=True):
        if last.kilobytes - first.kilobytes > _GROWTH_KILOBYTES:
            tally.flaw("growth", f"memory over {what}: {first} -> {last}")
        if last.descriptors > first.descriptors + _MORE_DESCRIPTORS:
            tally.flaw("growth", f"descriptors over {what}: {first} -> {last}")
    if after.processes > before.processes + _MORE_PROCESSES:
        tally.flaw("growth", f"processes over {what}: {before.processes} -> {after.processes}")
    for part, files in after.files.items():
        if files > before.files.get(part, 0) + _MORE_FILES:
            tally.flaw("growth", f"files in {part} of the state over {what}: {before.files.get(part, 0)} -> {files}")
