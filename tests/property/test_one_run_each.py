"""However connections break, servers die and callers crowd: every submission is one run, and always the same one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from tests.property.submitting import hurry, submitted
from tests.property.world import World
from tests.tools.loopback import CONFIG

TRIES = 80
MAY_REPEAT = {
    "submit-outcome-unknown",
    "submit-in-flight",
    "platform-unreachable",
    "platform-failed",
    "platform-slow",
    "prime-failed",
    "payment-required",
}
"""What an agent is told to call again after."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A machine on which prime is given up after 4 s, and everything that was sent has landed 2 s later."""
    hurry(monkeypatch.setattr)
    made = World(tmp_path)
    yield made
    made.close()


async def until_known(lab: Lab, config: Path) -> str:
    """An agent that does as it is told: calls again, until it has an id."""
    for turn in range(TRIES):
        try:
            return str((await submitted(lab, config))["id"])
        except LabError as error:
            if error.code not in MAY_REPEAT:
                raise
            await asyncio.sleep(0.05 * min(turn, 10))
    raise AssertionError(f"{config.name} was not settled in {TRIES} calls")


async def killed_on_the_way(world: World, config: Path) -> bool:
    """A server of its own, whose prime may kill it between the claim and the answer: whether it did."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.property.submitting",
        str(world.root),
        str(config),
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PRIME_STUB_MAY_KILL": "1"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await asyncio.wait_for(process.wait(), 120) == -signal.SIGKILL


async def crowd(world: World, labs: list[Lab], config: Path, callers: int) -> set[str]:
    """Every id that any caller was told for one config."""
    ids = await asyncio.gather(*(until_known(labs[n % len(labs)], config) for n in range(callers)))
    # Once known, always the same, from a server that has just started too.
    return {*ids, await until_known(world.server("one").lab, config)}


def submit_all(world: World, seed: int, number: int, *, deaths: int = 0, at_once: int = 6) -> None:
    (world.hub / "weather").write_text(json.dumps(seed), encoding="utf-8")
    labs = [world.server("one").lab, world.server("one").lab]
    configs = []
    for n in range(number):
        path = world.workspace("one") / f"c{n}.toml"
        path.write_text(f'name = "c{n}"\n{CONFIG}', encoding="utf-8")
        configs.append(path)
    told: dict[str, set[str]] = {}
    killed: list[bool] = []

    async def everything() -> None:
        # A server of its own imports everything for a second of CPU: more at once would time out each other's prime.
        room, starting = asyncio.Semaphore(at_once), asyncio.Semaphore(3)

        async def one(n: int, path: Path) -> None:
            async with room:
                if n < deaths:
                    async with starting:
                        killed.append(await killed_on_the_way(world, path))
                told[path.stem] = await crowd(world, labs, path, 1 + n % 3)

        await asyncio.gather(*(one(n, path) for n, path in enumerate(configs)))

    world.loop.run_until_complete(everything())
    assert sum(killed) >= deaths // 4, "hardly a server died where it should"
    runs = world.runs()
    of = Counter(run["name"].rsplit("-", 1)[0] for run in runs)
    assert of == Counter({path.stem: 1 for path in configs})
    assert told == {run["name"].rsplit("-", 1)[0]: {run["id"]} for run in runs}
    spent = labs[0].ledger.spent("prime")
    assert spent == pytest.approx(len(configs) * 4.0 * 2.5), "each run is counted once against the cap"


def test_a_few_submissions_over_broken_connections(world: World) -> None:
    submit_all(world, seed=5, number=6)


@pytest.mark.slow
def test_servers_that_die_between_claim_and_answer(world: World) -> None:
    submit_all(world, seed=11, number=24, deaths=24, at_once=4)


@pytest.mark.slow
@pytest.mark.stress
@pytest.mark.parametrize(("seed", "number", "deaths"), [(29, 60, 16), (23, 1000, 40)])
def test_many_submissions_over_randomly_broken_connections(world: World, seed: int, number: int, deaths: int) -> None:
    submit_all(world, seed=seed, number=number, deaths=deaths, at_once=12)
