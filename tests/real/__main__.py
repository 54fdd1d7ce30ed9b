"""`python -m tests.real FOLDER [--only NAME ...]`: what the checks say about environments that were written elsewhere.

Every folder in FOLDER that has a `pyproject.toml` is copied into a scratch workspace and goes through
check_environment and test_reward on the call path. Lines of `NAME.cases.jsonl` beside a folder NAME are given to
test_reward as its `cases`, as an agent does that was asked for them. The table shows the status of both tools, the
seconds, and the codes of the blockers; warnings stand in brackets. `--json FILE` also writes every finding with its
message and rows, one line of JSON for each environment. The verdicts say nothing by themselves: read each reward and
write down its flaws before looking at the table.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.report import Finding, Report
from prime_lab_mcp.server.call import Calls
from tests.flaws.run import opened

LIMIT = 600.0
"""Seconds after which one environment is given up."""
_ROW = "{:<28} {:<12} {:<12} {:>6}  {}"
_LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", "__pycache__", "outputs", "dist")


@dataclass(frozen=True, slots=True)
class RealVerdict:
    """What the tools said about one environment. A tool that was refused or ran out of time has no report."""

    name: str
    checked: Report | None
    tested: Report | None
    seconds: float

    @property
    def codes(self) -> list[str]:
        """The codes of both tools, blockers first and warnings in brackets; `check:` marks check_environment."""
        findings = [("check:", f) for f in _findings(self.checked)] + [("", f) for f in _findings(self.tested)]
        blockers = [f"{tool}{f.code}" for tool, f in findings if f.severity == "blocker"]
        warnings = [f"({tool}{f.code})" for tool, f in findings if f.severity == "warning"]
        return list(dict.fromkeys([*blockers, *warnings]))

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seconds": round(self.seconds, 1),
            "check_environment": _report(self.checked),
            "test_reward": _report(self.tested),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every environment got an answer from both tools, whatever the answer was."""
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder of environment packages")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these environments only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every finding as JSON lines")
    given = parser.parse_args(arguments)
    found = sorted(path.parent for path in given.folder.glob("*/pyproject.toml"))
    chosen = [folder for folder in found if given.only is None or folder.name in given.only]
    if not chosen:
        parser.error(f"no folder with a pyproject.toml in {given.folder}")
    logging.disable(logging.WARNING)
    verdicts = anyio.run(_run, chosen, given.json)
    answered = sum(_status(v.tested) not in ("error", "no answer") for v in verdicts)
    print(f"\n{answered} of {len(verdicts)} environments have a verdict of test_reward")
    return int(answered < len(verdicts))


async def _run(chosen: Sequence[Path], file: Path | None) -> list[RealVerdict]:
    print(_ROW.format("name", "check", "reward", "s", "codes (warnings)"), flush=True)
    verdicts: list[RealVerdict] = []
    async with opened() as calls:
        for folder in chosen:
            verdict = await judge(calls, folder)
            verdicts.append(verdict)
            status = (_status(verdict.checked), _status(verdict.tested))
            print(_ROW.format(verdict.name, *status, f"{verdict.seconds:.1f}", ", ".join(verdict.codes)), flush=True)
            if file is not None:
                file.write_text("".join(f"{json.dumps(v.as_json())}\n" for v in verdicts), encoding="utf-8")
    return verdicts


async def judge(calls: Calls, folder: Path) -> RealVerdict:
    """Copy one environment into the lab's workspace and call both tools on the copy."""
    shutil.copytree(folder, calls.lab.workspace.environments / folder.name, ignore=_LEFT_BEHIND)
    given: Mapping[str, Any] = {"environment": folder.name}
    cases = cases_of(folder)
    started = time.monotonic()
    checked = tested = None
    with anyio.move_on_after(LIMIT):
        checked = await calls.execute("check_environment", given)
        tested = await calls.execute("test_reward", {**given, "cases": cases} if cases else given)
    return RealVerdict(folder.name, checked, tested, time.monotonic() - started)


def cases_of(folder: Path) -> list[dict[str, Any]]:
    """The cases beside an environment's folder, in the form of test_reward's argument; none without a file."""
    file = folder.with_name(f"{folder.name}.cases.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def _findings(report: Report | None) -> tuple[Finding, ...]:
    return tuple(report.findings) if report is not None else ()


def _status(report: Report | None) -> str:
    return report.status if report is not None else "no answer"


def _report(report: Report | None) -> dict[str, Any] | None:
    if report is None:
        return None
    findings = [
        {
            "code": f.code,
            "severity": f.severity,
            "message": f.message,
            "where": f.where,
            "rows": [dict(r) for r in f.rows],
        }
        for f in report.findings
    ]
    return {"status": report.status, "summary": report.summary, "findings": findings, "data": dict(report.data)}


if __name__ == "__main__":
    sys.exit(main())
