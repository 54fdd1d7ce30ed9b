"""`python -m tests.flaws [--only NAME ...] [--set NAME ...]`: the corpus as a table, recall and false alarms.

`--json FILE` also writes the findings of every sample, one line of JSON each and ordered by name: two runs differ
exactly where `diff` shows a line.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from tests.flaws.corpus import SETS, Sample, samples
from tests.flaws.run import GOOD, Result, opened, tried
from tests.flaws.search_alone import measure

_ROW = "{:<28} {:<3} {:<13} {:<38} {:<15} {:>6}  {}"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every flaw is found by a code it names and no sound reward is blocked."""
    parser = argparse.ArgumentParser(prog="python -m tests.flaws", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these samples only")
    parser.add_argument("--set", nargs="+", choices=SETS, help="these sets only")
    parser.add_argument("--why", action="store_true", help="show the findings of every sample that went wrong")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings of every sample as JSON lines")
    parser.add_argument("--search", action="store_true", help="the search alone, with every listed hack switched off")
    parser.add_argument("--jobs", type=int, default=1, help="samples at a time")
    given = parser.parse_args(arguments)
    chosen = samples(*(given.set or ()))
    if given.only:
        unknown = set(given.only) - {sample.name for sample in chosen}
        if unknown:
            parser.error(f"there is no {', '.join(sorted(unknown))}")
        chosen = [sample for sample in chosen if sample.name in given.only]
    logging.disable(logging.WARNING)
    if given.search:
        return measure(chosen, max(1, given.jobs))
    results = anyio.run(_run, chosen, max(1, given.jobs), given.why, given.json)
    return _summed(results)


async def _run(chosen: Sequence[Sample], jobs: int, why: bool, file: Path | None) -> list[Result]:
    print(_ROW.format("name", "gen", "format", "expected", "verdict", "s", "codes (warnings)"), flush=True)
    results: list[Result] = []
    limit = anyio.CapacityLimiter(jobs)
    async with opened() as calls, anyio.create_task_group() as group:

        async def one(sample: Sample) -> None:
            async with limit:
                result = await tried(calls, sample)
            results.append(result)
            _show(result, why)
            if file is not None:  # after each sample, so that a run that is ended early leaves what it has
                _write(file, results)

        for sample in chosen:
            group.start_soon(one, sample)
    return results


def _show(result: Result, why: bool) -> None:
    sample = result.sample
    expected = str(sample.expected) if sample.expected else "no blocker"
    codes = ", ".join(result.codes) or "-"
    seconds = f"{result.seconds:.1f}"
    cells = (sample.name, sample.generation, sample.format, expected, result.verdict, seconds, codes)
    print(_ROW.format(*cells), flush=True)
    if why and result.verdict not in GOOD:
        for finding in result.findings:
            print(f"    {finding.severity}: {finding.code}: {finding.message}", flush=True)
            for row in finding.rows[:2]:
                print(f"        {dict(row)}", flush=True)


def _write(file: Path, results: Sequence[Result]) -> None:
    ordered = sorted(results, key=lambda result: result.sample.name)
    file.write_text("".join(f"{json.dumps(as_json(result))}\n" for result in ordered), encoding="utf-8")


def as_json(result: Result) -> dict[str, Any]:
    """The verdict on one sample, and every finding with the cases that it shows. Times and messages are left out."""
    tools = {"check_environment": result.checked, "test_reward": result.tested}
    return {
        "name": result.sample.name,
        "generation": result.sample.generation,
        "format": result.sample.format,
        "verdict": result.verdict,
        "findings": [
            {
                "tool": tool,
                "code": finding.code,
                "severity": finding.severity,
                "cases": [[row["case"], row.get("task")] for row in finding.rows if "case" in row],
            }
            for tool, report in tools.items()
            for finding in (report.findings if report is not None else ())
        ],
    }


def _summed(results: Sequence[Result]) -> int:
    flawed = [result for result in results if result.sample.expected is not None]
    sound = [result for result in results if result.sample.expected is None]
    found = [result for result in flawed if result.verdict in GOOD]
    alarms = [result for result in sound if result.verdict not in GOOD]
    print()
    if flawed:
        by_check = sum(result.verdict == "found by check" for result in flawed)
        share = f"{len(found)} of {len(flawed)} ({len(found) / len(flawed):.1%})"
        print(f"recall: {share}, {by_check} by check_environment")
        for result in flawed:
            if result.verdict not in GOOD:
                print(f"  {result.verdict}: {result.sample.name} ({', '.join(result.codes) or 'nothing'})")
    if sound:
        print(f"false alarms: {len(alarms)} of {len(sound)}")
        for result in alarms:
            print(f"  {result.verdict}: {result.sample.name} ({', '.join(result.codes) or 'nothing'})")
    return int(len(found) < len(flawed) or bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
