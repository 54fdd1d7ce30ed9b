"""`python -m tests.endurance --minutes N [--seed S]`: what the servers survive, as a printed summary.

`--kills N --messages N` goes on until so many were tried, however long that takes (`make endurance`).

A quarter of the time goes to fuzzed messages over stdio, a quarter to HTTP, and half to kills of servers that check,
evaluate, push and submit in a rehearsal workspace. `--load N` calls two servers with fitting calls for N minutes at the
end, a tenth of the time of the run where N is not given, and measures whether they or their state grow.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.endurance.disks import fill_disks
from tests.endurance.fuzzing import break_pipes, fuzz_http, fuzz_stdio
from tests.endurance.killing import Kills
from tests.endurance.load import load_servers
from tests.endurance.servers import Place, wait_until_gone
from tests.endurance.tally import Tally

_STOPPED = threading.Event()
PARTS = ("stdio", "http", "pipes", "disks", "kills", "load")
WARM_MESSAGES = 1_000
WARM_SHARE = 0.2
"""Share of the steady load after which growth is measured: by then every tool was called a few times."""
PLACES = 4
"""Workspaces on which servers are killed at the same time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing was lost, sent twice, left running, broken or unanswered."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--kills", type=int, help="kills in all, instead of half of the time")
    parser.add_argument("--messages", type=int, help="fuzzed messages in all, instead of half of the time")
    parser.add_argument("--load", type=float, help="minutes of steady load, instead of a tenth of the time")
    given = parser.parse_args(arguments)
    tally, seconds = Tally(), given.minutes * 60
    begun = time.monotonic()
    print(f"seed {given.seed}; SIGTERM ends the run with a summary of what was tried until then", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: _STOPPED.set())
    with tempfile.TemporaryDirectory(prefix="endurance-", ignore_cleanup_errors=True) as root:
        parts = given.only or PARTS
        load = seconds / 10 if given.load is None else given.load * 60
        endure(Path(root), tally, given.seed, seconds, parts, load, kills=given.kills, messages=given.messages)
    print(tally.summary())
    if _STOPPED.is_set():
        print("stopped early")
    print(f"in {(time.monotonic() - begun) / 60:.0f} minutes")
    return 0 if tally.sound else 1


def endure(
    root: Path,
    tally: Tally,
    seed: int,
    seconds: float,
    parts: Sequence[str],
    load: float,
    *,
    kills: int | None = None,
    messages: int | None = None,
) -> None:
    """Try every part in a folder of its own. `load` is in seconds; `kills` and `messages` replace their shares."""
    half = messages / 2 if messages is not None else None
    until_sent = _for(seconds / 4) if half is None else _up_to(half)

    def place(name: str) -> Place:
        (root / name).mkdir(parents=True)
        return Place(root / name)

    of_kills = [f"kills-{number}" for number in range(PLACES)] if "kills" in parts else []
    places = {name: place(name) for name in (*(part for part in parts if part != "kills"), *of_kills)}
    if "stdio" in parts:
        fuzz_stdio(places["stdio"], tally, seed, until_sent, WARM_MESSAGES)
    if "http" in parts:
        until_sent = _for(seconds / 4) if half is None else _up_to(half)
        fuzz_http(places["http"], tally, seed, until_sent, WARM_MESSAGES)
    if "pipes" in parts:
        break_pipes(places["pipes"], tally, 6)
    if "disks" in parts:
        fill_disks(places["disks"], tally)
    if "kills" in parts:
        more = _for(seconds / 2) if kills is None else lambda _: _up_to(kills)(tally.tried["kills"])
        kill_servers([places[name] for name in of_kills], tally, seed, more)
    if "load" in parts:
        load_servers(places["load"], tally, seed, _for(load), _for(WARM_SHARE * load))
    inspect_places(places.values(), tally)


def kill_servers(places: Sequence[Place], tally: Tally, seed: int, more: Callable[[int], bool]) -> None:
    """Kill servers on several workspaces at the same time: while one waits for an end, the others go on."""
    begun, before = time.monotonic(), os.times()

    def kill(number: int, place: Place) -> None:
        killing = Kills(place, tally, seed + number, dear=True)
        killing.rounds(more)
        killing.settle()

    with ThreadPoolExecutor(len(places)) as threads:
        for ended in [threads.submit(kill, number, place) for number, place in enumerate(places)]:
            ended.result()
    after = os.times()
    used = sum(after[:4]) - sum(before[:4])
    tally.measured["kills"] = (
        f"{used / max(1, tally.tried['kills']):.1f} seconds of the processor each, with calls, checks and the "
        f"submissions afterwards; {time.monotonic() - begun:.0f} s on {len(places)} workspaces at the same time"
    )


def inspect_places(places: Iterable[Place], tally: Tally) -> None:
    """Count what the servers complained about, and the processes that are left."""
    for one in places:
        for complaint in one.complaints():
            tally.flaw("crashes", complaint)
        for left in wait_until_gone(one):
            tally.flaw("orphans", left)


def _for(seconds: float) -> Callable[[int], bool]:
    until = time.monotonic() + seconds
    return lambda done: time.monotonic() < until and not _STOPPED.is_set()


def _up_to(most: float) -> Callable[[int], bool]:
    return lambda done: done < most and not _STOPPED.is_set()


if __name__ == "__main__":
    sys.exit(main())
