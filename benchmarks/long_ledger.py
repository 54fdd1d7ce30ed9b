"""Calls on a ledger and in a workspace that grew, beside the same calls while both were small.

The ledger gets 100,000 verdicts: half about the present files of an environment, half about files that it had before.
The workspace gets 200 environments. Times are of the processor and warm: the median of calls in one process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS

ROWS = int(os.environ.get("BENCH_ROWS", "100000"))
ENVIRONMENTS = 200
SLOWER = 2.0
"""The claim: a call on the long ledger takes at most this many times as long as on a short one."""
SHARE = 0.2
"""The claim: the status of unchanged environments takes at most this share of the time that reading them takes."""
MILLISECONDS = 10.0
"""The claim on two quiet cores: the status, and a refused push or submission, on the long ledger."""
ROUNDS = 15
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
    held = True
    for (tool, arguments), before in zip(cases, short, strict=True):
        took = await _median(calls, tool, **arguments)
        held &= took <= SLOWER * before
        print(
            f"{tool} on {ROWS:,} rows: {took / before:.2f} times a short ledger (at most {SLOWER:g}),"
            f" {took * 1e3:.1f} ms (claim on quiet cores: {MILLISECONDS:g} ms)"
        )
    for number in range(1, ENVIRONMENTS):
        shutil.copytree(example, lab.workspace.environments / f"example_{number}")
    await asyncio.sleep(_SETTLED)
    started = time.process_time()
    for folder in lab.workspace.list_environments():
        take_snapshot(folder, lab.settings.snapshots)
    read = time.process_time() - started
    took = await _median(calls, "workflow_status")
    held &= took <= SHARE * read
    shown = f"{took / read:.2f} of reading them (at most {SHARE:g}), {took * 1e3:.0f} ms"
    print(f"status of {ENVIRONMENTS} environments: {shown}")
    await lab.close()
    print("long ledger: holds" if held else "long ledger: FAILS")
    return 0 if held else 1


def main() -> int:
    root = Path(tempfile.mkdtemp(prefix="bench-ledger-"))
    try:
        return asyncio.run(_measure(root))
    finally:
        for folder, _, _ in os.walk(root):
            os.chmod(folder, 0o700)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
