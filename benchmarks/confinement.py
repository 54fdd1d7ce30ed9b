"""A warm `test_reward` confined by the kernel, beside the same call with every layer switched off.

Pairs of calls, one of each kind in turn, on one machine in one run: what else the machine does meets both. The call is
whole, with its witness and its fresh processes. The claim is about the median of the pairs' ratios. Single calls of a
second vary by a fifth, so the least of a few calls of each kind, which come from different pairs, says less.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import prime_lab_mcp
from benchmarks.claims import claim
from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.sandbox import kernel_support
from prime_lab_mcp.lab.sandbox.kernel_support import KernelSupport, linux_support
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS

PAIRS = int(os.environ.get("BENCH_PAIRS", "9"))
SLOWER = 1.1
"""The claim: confined, a warm call takes at most this many times as long."""
TEMPLATES = Path(prime_lab_mcp.__file__).parent / "resources" / "templates"
_NAME = "numeric"
_PRESENT = kernel_support._read_kernel_support


def _nothing() -> KernelSupport:
    return linux_support(0, False)


class _Side:
    """A lab of its own, and the layers that its calls find."""

    def __init__(self, folder: Path, layers: Callable[[], KernelSupport]) -> None:
        workspace = folder / "workspace"
        environment = workspace / "environments" / _NAME
        Template(TEMPLATES / _NAME).write(environment)
        self.lab = Lab(Settings(workspace=workspace, state_dir=folder / "state", templates=TEMPLATES))
        self._calls = Calls(self.lab, TOOLS, References())
        self._layers = layers
        self.seconds: list[float] = []

    async def call(self) -> None:
        vars(kernel_support)["_read_kernel_support"] = self._layers
        started = time.perf_counter()
        report = await self._calls.execute("test_reward", {"environment": _NAME})
        self.seconds.append(time.perf_counter() - started)
        vars(kernel_support)["_read_kernel_support"] = _PRESENT
        if report.status not in ("passed", "inconclusive"):
            raise RuntimeError(f"test_reward: {report.summary} {report.findings[:1]}")


async def measure(folder: Path) -> int:
    if not kernel_support.present_support().layers:
        print("confinement: not measured, because this machine has no layer")
        return 0
    confined, unconfined = _Side(folder / "confined", _PRESENT), _Side(folder / "open", _nothing)
    try:
        for number in range(PAIRS + 2):
            for side in (confined, unconfined) if number % 2 else (unconfined, confined):
                await side.call()
    finally:
        await confined.lab.close()
        await unconfined.lab.close()
    ours, bare = confined.seconds[2:], unconfined.seconds[2:]  # the first two warm the processes up
    spread = sorted(one / other for one, other in zip(ours, bare, strict=True))
    print(f"a warm test_reward unconfined: {statistics.median(bare) * 1000:.0f} ms (median of {PAIRS})")
    print(f"  confined: {statistics.median(ours) * 1000:.0f} ms")
    print(f"  pair by pair: {spread[0]:.2f} to {spread[-1]:.2f}")
    ratio = statistics.median(spread)
    return claim("confinement", "a warm test_reward confined, beside the same unconfined", ratio, SLOWER)


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return asyncio.run(measure(Path(scratch)))
