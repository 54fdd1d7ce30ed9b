"""Calls on a ledger and in a workspace that grew, beside the same calls while both were small.

The ledger gets 100,000 verdicts: half about the present files of an environment, half about files that it had before.
The workspace gets 200 environments. Times are of the processor and warm: the median of calls in one process. Eight
clients call at a pace of five calls a second each, and every call of them counts: its time is of the clock.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.claims import claim
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.main import SWITCH_SECONDS
from prime_lab_mcp.tools.registry import TOOLS

ROWS = int(os.environ.get("BENCH_ROWS", "100000"))
ENVIRONMENTS = 200
MILLISECONDS = 10.0
"""The claim: processor time of a warm call, and the 99th percentile of eight clients, on the long ledger."""
ALL_MILLISECONDS = 100.0
"""The claim: processor time of the status of 200 environments."""
ROUNDS = 15
CLIENTS, CLIENT_CALLS, PAUSE = 8, 25, 0.2
_TOOLS = ("check_environment", "test_reward", "run_eval", "check_reward_distribution", "push_environment")
_SETTLED = 2.2
"""Seconds after which the times of files are believed."""


async def _median(calls: Calls, tool: str, **arguments: str) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        report = await calls.execute(tool, arguments)
        times.append(time.process_time() - started)
        assert report.status in ("passed", "blocked"), report.summary
    return statistics.median(times)


def _fill(lab: Lab, name: str, source: str) -> None:
    rows = ((lab.key, _TOOLS[n % 5], name, source if n % 2 else f"s{n}", f"c{n}") for n in range(ROWS))
    with lab.ledger.transaction() as db:
        db.executemany(
            "INSERT INTO evidence (workspace, tool, environment, source, content, at, arguments, status, sampling,"
            " env_args, toolchain, findings, data)"
            " VALUES (?, ?, ?, ?, ?, 1, '{}', 'failed', '{}', '{}', '{}', '[]', '{}')",
            rows,
        )


async def _measure(root: Path) -> int:
    (root / "workspace" / "environments").mkdir(parents=True)
    examples = Path(__file__).parents[1] / "environments"
    example = next(p for p in sorted(examples.iterdir()) if (p / "pyproject.toml").is_file())
    lab = Lab(Settings(workspace=root / "workspace", state_dir=root / "state", templates=examples))
    name = "example_0"
    shutil.copytree(example, lab.workspace.environments / name)
    await asyncio.sleep(_SETTLED)
    calls = Calls(lab, TOOLS, References())
    cases: tuple[tuple[str, dict[str, str]], ...] = (
        ("workflow_status", {}),
        ("push_environment", {"environment": name}),
        ("submit_training", {"environment": name}),
    )
    short = [await _median(calls, tool, **arguments) for tool, arguments in cases]
    _fill(lab, name, (await lab.snapshot(name)).source)
    results = []
    for (tool, arguments), before in zip(cases, short, strict=True):
        took = await _median(calls, tool, **arguments)
        print(f"{tool} on {ROWS:,} rows: {took / before:.2f} times a short ledger")
        what = f"{tool}{', refused' if arguments else ''}, on {ROWS:,} rows"
        results.append(claim("long_ledger", what, took * 1e3, MILLISECONDS, "ms of processor"))
    used = time.process_time()
    waited = await _by_clients(calls, cases)
    used = (time.process_time() - used) / (CLIENTS * CLIENT_CALLS)
    what = f"a call of {CLIENTS} clients, a status or refused, on {ROWS:,} rows, mean"
    results.append(claim("long_ledger", what, used * 1e3, MILLISECONDS, "ms of processor"))
    for (tool, arguments), times in zip(cases, waited, strict=True):
        what = f"{tool}{', refused' if arguments else ''}, {CLIENTS} clients on {ROWS:,} rows, p99"
        print(f"{what}: median {statistics.median(times) * 1e3:.1f} ms")
        slowest = sorted(times)[max(0, int(len(times) * 0.99) - 1)]
        results.append(claim("long_ledger", what, slowest * 1e3, MILLISECONDS, "ms"))
    for number in range(1, ENVIRONMENTS):
        shutil.copytree(example, lab.workspace.environments / f"example_{number}")
    await asyncio.sleep(_SETTLED)
    started = time.process_time()
    for folder in lab.workspace.list_environments():
        take_snapshot(folder, lab.settings.snapshots)
    read = time.process_time() - started
    took = await _median(calls, "workflow_status")
    print(f"status of {ENVIRONMENTS} environments: {took / read:.2f} of reading them")
    what = f"status of {ENVIRONMENTS} environments"
    results.append(claim("long_ledger", what, took * 1e3, ALL_MILLISECONDS, "ms of processor"))
    await lab.close()
    return max(results)


async def _by_clients(calls: Calls, cases: Sequence[tuple[str, dict[str, str]]]) -> list[list[float]]:
    """Seconds of every call of eight clients, by case. The clients begin spread over one pause."""
    waited: list[list[float]] = [[] for _ in cases]

    async def client(number: int) -> None:
        await asyncio.sleep(PAUSE * number / CLIENTS)
        for turn in range(CLIENT_CALLS):
            which = (turn + number) % len(cases)
            tool, arguments = cases[which]
            started = time.perf_counter()
            await calls.execute(tool, arguments)
            waited[which].append(time.perf_counter() - started)
            await asyncio.sleep(PAUSE)

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    return waited


def grown() -> int:
    """How the calls grow with 1, 10 and 100 times the rows."""
    global ROWS
    whole = ROWS
    try:
        for share in (100, 10, 1):
            ROWS = whole // share
            print(f"with {ROWS:,} rows:")
            main()
    finally:
        ROWS = whole
    return 0


def main() -> int:
    sys.setswitchinterval(SWITCH_SECONDS)  # as in a server
    root = Path(tempfile.mkdtemp(prefix="bench-ledger-"))
    try:
        return asyncio.run(_measure(root))
    finally:
        for folder, _, _ in os.walk(root):
            os.chmod(folder, 0o700)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
