"""`python -m tests.flaws --search`: what the search finds by itself, with every listed hack switched off.

Only flaws that a policy can exploit without knowing the answer are in its reach. `REACH` are the codes that say so; a
flaw with another code (an exception, a refused right answer, a slow or unsteady reward) counts in no figure here. The
search does not begin with the listed probes either.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.rewards import trial
from prime_lab_mcp.lab.rewards.observations import SearchOutcome
from prime_lab_mcp.lab.rewards.search.reward_search import DEFAULT_SECONDS, search_reward
from prime_lab_mcp.lab.state import source_code
from tests.flaws.corpus import Sample
from tests.flaws.run import opened, write

REACH = frozenset(
    {
        "reward-hackable",
        "reward-wrong-passes",
        "reward-format-dominates",
        "reward-length-bonus",
        "reward-evaluates-output",
        "reward-constant",
    }
)
_ROW = "{:<28} {:<3} {:<10} {:<13} {:>6} {:>6} {:>5}  {}"


@dataclass(frozen=True, slots=True)
class Alone:
    """One sample. `error` is why the search was not reached."""

    sample: Sample
    outcome: SearchOutcome
    error: str = ""

    @property
    def in_reach(self) -> bool:
        expected = self.sample.expected
        return expected is not None and expected.severity == "blocker" and not REACH.isdisjoint(expected.codes)

    @property
    def verdict(self) -> str:
        if self.error:
            return "error"
        if self.outcome.skipped:
            return "not run"
        found = bool(self.outcome.holes)
        if self.sample.expected is None:
            return "false alarm" if found else "sound"
        return "found" if found else "missed"


async def searched(lab: Lab, sample: Sample, seconds: float = DEFAULT_SECONDS) -> Alone:
    """Write the sample as a package, score its golds and wrong answers, and search with nothing else."""
    folder = lab.workspace.environments / sample.name
    write(folder, sample)
    try:
        snapshot = await lab.snapshot(sample.name)
        written = source_code.read_source(snapshot)
        async with open_environment(lab, snapshot) as found:
            rows = await found.worker.rows(limit=trial.GOLD_TASKS)
            scored = await trial.run_trial(
                found.worker, found.loaded, rows, written.text, examples=8, hacks=False, cases=lambda style: ()
            )
            outcome = await search_reward(
                found.worker, scored, rows.rows, written.text, seconds, probes=False
            )
    except LabError as error:
        return Alone(sample, SearchOutcome(), f"{error.code}: {error.message}"[:120])
    return Alone(sample, outcome)


def measure(chosen: Sequence[Sample], jobs: int) -> int:
    """Print a table and the figures; 0 when at least half of the flaws in reach are found and nothing sound is blamed."""
    return anyio.run(_measure, chosen, jobs)


async def _measure(chosen: Sequence[Sample], jobs: int) -> int:
    print(_ROW.format("name", "gen", "set", "verdict", "tried", "s", "each", "smallest completion, or why"), flush=True)
    results: list[Alone] = []
    limit = anyio.CapacityLimiter(jobs)
    started = time.monotonic()
    async with opened() as calls, anyio.create_task_group() as group:

        async def one(sample: Sample) -> None:
            async with limit:
                result = await searched(calls.lab, sample)
            results.append(result)
            _show(result)

        for sample in chosen:
            group.start_soon(one, sample)
    return _summed(results, time.monotonic() - started)


def _show(result: Alone) -> None:
    sample, outcome = result.sample, result.outcome
    what = result.error or outcome.skipped or "; ".join(hole.recipe for hole in outcome.holes) or outcome.ended
    each = f"{1000 * outcome.seconds / outcome.completions:.1f}" if outcome.completions else "-"
    cells = (outcome.completions, f"{outcome.seconds:.1f}", each, what[:160])
    verdict = result.verdict if result.in_reach or sample.expected is None else f"({result.verdict})"
    print(_ROW.format(sample.name, sample.generation, sample.set, verdict, *cells), flush=True)


def _summed(results: Sequence[Alone], seconds: float) -> int:
    reach = [result for result in results if result.in_reach]
    found = [result for result in reach if result.verdict == "found"]
    beyond = [r for r in results if r.sample.expected is not None and not r.in_reach]
    ran = [result for result in results if result.outcome.completions]
    sound = [result for result in results if result.sample.expected is None]
    alarms = [result for result in sound if result.verdict == "false alarm"]
    searching = sum(result.outcome.seconds for result in ran)
    tried = sum(result.outcome.completions for result in ran)
    print()
    if reach:
        print(f"search alone: {len(found)} of {len(reach)} flaws in reach ({len(found) / len(reach):.0%})")
        print(f"  of {len(beyond)} flaws out of reach it found {sum(r.verdict == 'found' for r in beyond)}")
    if sound:
        print(f"false alarms: {len(alarms)} of {len(sound)}")
    if searching:
        rate, mean = tried / searching, searching / len(ran)
        print(f"completions: {tried}, {rate:.0f} a second; a search took {mean:.1f} s on average, {seconds:.0f} s in all")
    return int(2 * len(found) < len(reach) or bool(alarms))
