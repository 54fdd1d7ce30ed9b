"""How check_environment loads: from the snapshot, while its wheel is built, and then from the wheel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio

from prime_lab_mcp.lab.checks import declared, installed, wheel, wheel_contents
from prime_lab_mcp.lab.checks.environment import Observed
from prime_lab_mcp.lab.checks.package import Package
from prime_lab_mcp.lab.errors import LabError, WorkerError
from prime_lab_mcp.lab.interpreter import requirements
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.opening import LOAD_SECONDS, Opened, Say, opened
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.worker.cases import LoadFailed, Rows, Traits
from prime_lab_mcp.lab.worker.host import Worker

SAMPLE = 2000
"""Tasks looked at; of a larger set a seeded sample."""
_OTHER_SECONDS = 30.0
_QUICK = 10.0
"""Seconds of loading up to which the held-out split of a v1 taskset is loaded too."""


@dataclass(slots=True)
class WheelResult:
    """What became of the wheel. `state`: one of "loads", "built", "fails", "not checked"."""

    state: str = "not checked"
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """A loaded environment with all that was seen of it. `held_out` says which split was compared, or why none."""

    opened: Opened
    observed: Observed
    held_out: str
    wheel: WheelResult


async def load(lab: Lab, package: Package, *, with_wheel: bool, progress: Say) -> Found:
    """Load and look. Raises what `opened` raises."""
    building = _Building(lab, package)
    failed: Exception | None = None
    found: Found | None = None
    async with anyio.create_task_group() as group:
        if with_wheel:
            group.start_soon(building.run)
        # Caught here, because a task group would wrap it.
        try:
            async with opened(lab, package.snapshot, progress=progress) as environment:
                found = await _look(environment)
                if with_wheel:
                    await building.done.wait()
                    found.wheel.state, more = await _from_wheel(lab, package, building, found)
                    found.wheel.findings += more
        except LabError as error:
            failed = error
            group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    assert found is not None
    return found


class _Building:
    """The wheel, being built beside the load."""

    def __init__(self, lab: Lab, package: Package) -> None:
        self.done = anyio.Event()
        self.wheel: wheel.Wheel | None = None
        self.hidden: tuple[str, ...] = ()
        self.failed: LabError | None = None
        self._lab = lab
        self._package = package

    async def run(self) -> None:
        manifest, api = self._package.snapshot.manifest, self._package.generation.api
        try:
            interpreter = await self._lab.interpreters.for_package(manifest.table, api=api)
            wanted = requirements(manifest.table, api)
            self.hidden = await anyio.to_thread.run_sync(
                declared.hidden, interpreter.python, interpreter.key, tuple(wanted)
            )
            self.wheel = await wheel.build(self._lab.settings, self._package.snapshot, interpreter)
        except LabError as error:
            self.failed = error
        finally:
            self.done.set()


async def _look(environment: Opened) -> Found:
    worker, loaded = environment.worker, environment.loaded
    sample = await worker.rows(limit=SAMPLE)
    traits = await worker.facts()
    held_out, told = None, "none"
    if traits.held_out is not None:
        held_out, told = await _held_out(worker, traits.held_out, loaded.api == "v1" and loaded.seconds > _QUICK)
    return Found(environment, Observed(loaded, sample, traits, held_out), told, WheelResult())


async def _held_out(worker: Worker, name: str, slow: bool) -> tuple[Rows | None, str]:
    if slow:
        return None, f"{name}: not loaded, because loading takes long"
    try:
        rows = await worker.rows(limit=SAMPLE, split="eval", timeout=_OTHER_SECONDS)
    except (LoadFailed, WorkerError) as error:
        return None, f"{name}: not compared, because loading it failed ({error.code})"
    if not rows.rows:
        return None, f"{name}: it has no rows"
    return rows, f"{name}: {len(rows.rows):,} tasks compared"


async def _from_wheel(lab: Lab, package: Package, building: _Building, found: Found) -> tuple[str, list[Finding]]:
    if building.wheel is None:
        return _not_built(building.failed)
    lacking = list(wheel_contents.contents(package, building.wheel))
    if any(f.severity == "blocker" for f in lacking):
        return "fails", lacking
    first, manifest = found.observed.loaded, package.snapshot.manifest
    if installed.is_slow(first):
        slow = Finding(
            "wheel-not-checked", "info",
            f"loading takes {first.seconds:.0f} seconds, so it was not done again from the wheel; its files are there",
            "Nothing to do; name a small sample by [tool.prime-lab] check_args to have it checked.", "pyproject.toml",
        )  # fmt: skip
        return "built", [*lacking, slow]
    key = f"wheel-{package.snapshot.content}"
    options: dict[str, Any] = {
        "api": first.api, "module": manifest.module, "env_args": found.opened.env_args, "hidden": building.hidden,
        "variables": found.opened.variables,
    }  # fmt: skip
    async with lab.workers.open(building.wheel.tree, key, found.opened.interpreter, **options) as worker:
        again = await installed.load_again(worker, first, building.hidden, timeout=LOAD_SECONDS)
        if again.loads and not again.findings and first.api == "v1":
            again.findings += await _rebuilt(found.opened.worker, worker, found.observed.traits)
        await worker.close()  # nothing asks for it again
    return "fails" if again.loads is False else "loads", [*lacking, *again.findings]


async def _rebuilt(original: Worker, other: Worker, traits: Traits) -> list[Finding]:
    try:
        return await installed.rebuilt(original, other, traits)
    except (LoadFailed, WorkerError):
        return []  # scoring broke the loaded environment itself: test_reward says how


def _not_built(failed: LabError | None) -> tuple[str, list[Finding]]:
    if isinstance(failed, wheel.WheelFailed):
        return "fails", [Finding("wheel-build-failed", "blocker", failed.message, failed.fix, "pyproject.toml")]
    why = failed.message if failed is not None else "it was not built"
    fix = failed.fix if failed is not None else "Call check_environment again."
    return "not checked", [Finding("wheel-not-checked", "warning", f"the wheel was not checked: {why}", fix)]
