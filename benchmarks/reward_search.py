"""How many completions a second the search of `test_reward` tries, and what its parts cost.

One sound reward (the numeric template) in a warm worker: the same completions scored without a search, then with the
branches of the environment's code followed, then a whole search of the product's size.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import prime_lab_mcp
from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.rewards import trial
from prime_lab_mcp.lab.rewards.search.reward_search import DEFAULT_SECONDS, search_reward
from prime_lab_mcp.lab.state import source_code
from prime_lab_mcp.lab.worker.scoring import Case

TEMPLATES = Path(prime_lab_mcp.__file__).parent / "resources" / "templates"
_NAME = "numeric"
CASES, ROUNDS = 400, 5


async def measure(folder: Path) -> int:
    workspace = folder / "workspace"
    Template(TEMPLATES / _NAME).write(workspace / "environments" / _NAME)
    cases = [
        Case(str(n), n % 60, ({"role": "assistant", "content": f"So it is <answer>{n}</answer>"},))
        for n in range(CASES)
    ]
    lab = Lab(Settings(workspace=workspace, state_dir=folder / "state", templates=TEMPLATES))
    try:
        snapshot = await lab.snapshot(_NAME)
        source = source_code.read_source(snapshot).text
        async with open_environment(lab, snapshot) as found:
            rows = await found.worker.rows(limit=trial.GOLD_TASKS)
            await found.worker.score(cases)
            plain, followed, inside = [], [], []
            for number in range(ROUNDS):
                started = time.perf_counter()
                scored = await found.worker.score(cases)
                plain.append(time.perf_counter() - started)
                inside.append(sum(s.ms for s in scored) / 1000)
                started = time.perf_counter()
                await found.worker.score(cases, search=-1 - number)
                followed.append(time.perf_counter() - started)
            tested = await trial.run_trial(
                found.worker, found.loaded, rows, source, examples=8, hacks=True, cases=lambda style: ()
            )
            outcome = await search_reward(found.worker, tested, rows.rows, source, DEFAULT_SECONDS)
    finally:
        await lab.close()
    whole, scoring = min(plain) * 1000, min(inside) * 1000
    print(f"{CASES} completions by a warm worker: {whole:.0f} ms, of which the scoring itself {scoring:.0f} ms")
    print(f"  with branches followed: {min(followed) * 1000:.0f} ms, {min(followed) / min(plain):.2f} times as long")
    if outcome.skipped:
        print(f"reward search: DOES NOT HOLD: not run because {outcome.skipped}")
        return 1
    rate = outcome.completions / outcome.seconds
    print(f"one search: {outcome.completions} completions in {outcome.seconds:.1f} s, {rate:.0f} a second")
    print(f"  ended by: {outcome.ended}")
    held = outcome.seconds <= DEFAULT_SECONDS and not outcome.holes
    claim = f"ends within {DEFAULT_SECONDS} s and blames no sound reward"
    print(f"reward search: {'holds' if held else 'DOES NOT HOLD'}: {claim}")
    return 0 if held else 1


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return asyncio.run(measure(Path(scratch)))
