"""Counts what each test costs: processes started, and CPU seconds of the test, of its children and of warm programs.

A pytest plugin. The sums are printed after every run; `--costs=FILE` also writes one JSON line per test, as the test
ends, so that a run that is stopped has told what it can. Starts are those of the test process itself: a server over
stdio starts its own children unseen, but their CPU time is counted.
The CPU time of a process that outlives its parent is counted only while it is a descendant of the test process.
The same work takes two or three times as many CPU seconds on one virtual machine as on another, so the processor time
of a fixed loop, at the start and at the end of the run, stands beside the sums.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.warm.plugin import served_cpu

_STARTS: Counter[str] = Counter()
_BEGAN = time.monotonic()
_TICK = os.sysconf("SC_CLK_TCK")
_PROPERTY = "costs"
KINDS = ("cpu", "child_cpu", "served_cpu")
"""The processor seconds of a test: its own, those of its children, and those of warm programs."""
_LONGEST, _WORTH_A_LINE = 15, 1.0
"""Lines of the summary, and the CPU seconds from which a test gets one."""


_ADDITIONS = 5_000_000
_AT_START = pytest.StashKey[float]()


def loop_seconds() -> float:
    """Processor seconds of a loop of `_ADDITIONS` additions."""
    total, began = 0, time.process_time()
    for number in range(_ADDITIONS):
        total += number
    return time.process_time() - began


def starts() -> int:
    """Number of processes that this test process has started."""
    return _STARTS.total()


def _count(event: str, args: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        _STARTS[_program([os.fsdecode(part) for part in args[1]])] += 1
    elif event in ("os.fork", "os.posix_spawn", "os.forkpty"):
        _STARTS[event] += 1


def _program(argv: Sequence[str]) -> str:
    """Name the program of a command line: `python -m MODULE`, a script, or the program behind our watchdog shell."""
    words = list(argv)
    if words[1:2] == ["-c"] and words[3:4] == ["sh"]:
        words = words[4:]
    name = Path(words[0]).name if words else "?"
    if not name.startswith("python"):
        return f"{name} {words[1]}" if name in ("uv", "git") and len(words) > 1 else name
    for index, word in enumerate(words[1:], start=1):
        if word == "-m":
            return f"python -m {words[index + 1]}"
        if word == "-c":
            return "python -c"
        if not word.startswith("-"):
            return f"python {Path(word).name}"
    return name


def _descendants_cpu() -> float:
    """CPU seconds of the live descendants, with those that they reaped. 0 where /proc names no children.

    Only descendants are looked at: to read the whole of /proc twice a test costs minutes of CPU in a run.
    """
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            if pid != os.getpid():
                fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
                total += sum(map(int, fields[11:15])) / _TICK
            for thread in os.listdir(f"/proc/{pid}/task"):
                waiting += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
        except OSError:  # the process has ended meanwhile
            continue
    return total


def _children_cpu() -> float:
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    return reaped.ru_utime + reaped.ru_stime + _descendants_cpu()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before, own, began = Counter(_STARTS), time.process_time(), time.monotonic()
    children, served = _children_cpu(), served_cpu(item.config)
    result = yield
    _MEASURED[item.nodeid] = measured = {
        "test": item.nodeid,
        "wall": round(time.monotonic() - began, 3),
        "cpu": round(time.process_time() - own, 3),
        "child_cpu": round(max(0.0, _children_cpu() - children), 3),
        "served_cpu": round(served_cpu(item.config) - served, 3),
        "starts": dict(_STARTS - before),
    }
    where = item.config.getoption("costs")
    if where:
        with Path(where).open("a", encoding="utf-8") as file:
            file.write(json.dumps(measured) + "\n")
    return result


_MEASURED: dict[str, dict[str, Any]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", help="write what every test cost, one JSON line a test")


def pytest_configure(config: pytest.Config) -> None:
    where = config.getoption("costs")
    if where and not hasattr(config, "workerinput"):
        # Not emptied: workers of xdist would take a file that exists for a test, and look for the project around it.
        Path(where).unlink(missing_ok=True)
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.stash[_AT_START] = loop_seconds()
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        config.pluginmanager.register(_Collector(), "costs-collector")
    else:
        sys.addaudithook(_count)


class _Collector:
    """Takes the measurements of the xdist workers."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        _MEASURED.update(getattr(node, "workeroutput", {}).get(_PROPERTY, {}))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_PROPERTY] = _MEASURED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not _MEASURED:
        return
    tests = list(_MEASURED.values())
    starts: Counter[str] = Counter()
    for test in tests:
        starts.update(test["starts"])
    own, children, served = (sum(t[key] for t in tests) for key in KINDS)
    terminalreporter.section("costs")
    terminalreporter.line(
        f"{len(tests)} tests, {sum(starts.values())} process starts, "
        f"{own:.0f} s CPU in the tests, {children:.0f} s in their children, {served:.0f} s in warm programs"
    )
    terminalreporter.line(
        f"whole run: {time.process_time() + _children_cpu():.0f} s CPU, with collection and shared servers; "
        f"{(time.monotonic() - _BEGAN) / 60:.1f} minutes"
    )
    terminalreporter.line(
        f"speed of this machine: {_ADDITIONS:,} additions took {config.stash[_AT_START]:.2f} s of CPU at the start "
        f"and {loop_seconds():.2f} s at the end"
    )
    terminalreporter.line("starts: " + ", ".join(f"{name} {count}" for name, count in starts.most_common(12)))
    dear = [(sum(test[kind] for kind in KINDS), test) for test in tests]
    for seconds, test in sorted((d for d in dear if d[0] >= _WORTH_A_LINE), key=lambda d: -d[0])[:_LONGEST]:
        begun = sum(test["starts"].values())
        terminalreporter.line(f"{seconds:7.1f} s CPU {test['wall']:7.1f} s {begun:4d} starts  {test['test']}")
