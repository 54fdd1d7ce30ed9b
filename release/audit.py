"""Asks a database of advisories about the locked dependencies, through pip-audit.

    python -m release.audit [--service URL] [--unasked-passes] [FILE ...]

There are three outcomes, and the exit code tells them apart: 0, the database answered and knows no fault; 1, it knows
one; 3, it could not be asked. pip-audit itself ends with 1 for the last two, so its answer is read and not its code. A
file that pip-audit cannot read, or pip-audit itself missing, is none of these and ends with 2.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release.artifacts import ROOT

LOCKED = ("constraints.txt", "constraints-newest.txt")
OSV = "https://api.osv.dev/v1/query"
"""OSV holds the advisories of PyPI and of GitHub. PyPI's own service is not asked: it answers 404 for a package that it
does not have, as mirrors of an index do for every package, and pip-audit counts that as no fault."""
CLEAN, FAULTY, UNASKED = 0, 1, 3

LONGEST_SECONDS = 300
"""Longest time for the questions about one file. A network that drops packets would hold up CI otherwise."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the database said about one file of locked dependencies."""

    packages: int
    faults: tuple[str, ...] = ()
    """One line for each fault."""
    unasked: tuple[str, ...] = ()
    """One line for each package, or one for all of them, that the database said nothing about."""

    @property
    def code(self) -> int:
        return FAULTY if self.faults else UNASKED if self.unasked or not self.packages else CLEAN


def audit_file(locked: Path, service: str = OSV) -> Audit:
    """Ask the database about every package of a file. Raises ValueError if pip-audit cannot read the file."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(locked), "--no-deps", "--disable-pip"]
    command += ["--vulnerability-service", "osv", "--osv-url", service, "--format", "json", "--progress-spinner", "off"]
    # A dry run reads the file and asks nothing, so what fails after it is the database.
    tried = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if tried.returncode != 0:
        raise ValueError(f"pip-audit cannot read {locked}: {tried.stderr.strip()}")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Audit(0, unasked=(f"no whole answer within {LONGEST_SECONDS} s",))
    try:
        return read_audit(json.loads(done.stdout))
    except (ValueError, TypeError, KeyError):
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return Audit(0, unasked=(lines[-1] if lines else f"pip-audit ended with {done.returncode} and said nothing",))


def read_audit(answer: dict[str, Any]) -> Audit:
    """The audit of pip-audit's JSON. Raises ValueError, TypeError or KeyError if the JSON is something else."""
    faults, unasked = [], []
    for package in answer["dependencies"]:
        if "skip_reason" in package:
            unasked.append(f"{package['name']}: {package['skip_reason']}")
            continue
        for fault in package["vulns"]:
            names = ", ".join([fault["id"], *sorted(fault["aliases"])])
            mended = ", ".join(fault["fix_versions"]) or "no version"
            faults.append(f"{package['name']} {package['version']}: {names}; mended in {mended}")
    return Audit(len(answer["dependencies"]), tuple(faults), tuple(unasked))


def audit_summary(name: str, audit: Audit) -> str:
    """What was found in one file, as lines for a person."""
    known = f"{len(audit.faults)} known fault{'' if len(audit.faults) == 1 else 's'} in {audit.packages} packages"
    lines = [f"{name}: {known}" if audit.packages else f"{name}: no package was audited"]
    lines += [f"  FAULT {fault}" for fault in audit.faults]
    if audit.unasked:
        lines += [f"  COULD NOT BE ASKED {reason}" for reason in audit.unasked]
        lines.append("  This is no pass: nothing is known about faults of these packages.")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m release.audit", description="known faults of locked dependencies")
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"default: {' '.join(LOCKED)}")
    parser.add_argument("--service", default=OSV, metavar="URL", help=f"an interface like OSV's (default: {OSV})")
    parser.add_argument("--unasked-passes", action="store_true", help="end with 0 where the service could not be asked")
    args = parser.parse_args(words)
    codes = set()
    for locked in [Path(name) for name in args.files] or [ROOT / name for name in LOCKED]:
        try:
            audit = audit_file(locked, args.service)
        except ValueError as error:
            parser.error(str(error))
        print(audit_summary(locked.name, audit), flush=True)
        codes.add(audit.code)
    if FAULTY in codes:
        return FAULTY
    if UNASKED in codes:
        print("The locked dependencies were NOT audited: the database of advisories could not be asked.")
        return CLEAN if args.unasked_passes else UNASKED
    print("The locked dependencies have no known fault.")
    return CLEAN


if __name__ == "__main__":
    sys.exit(main())
