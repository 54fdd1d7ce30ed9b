"""`python -m tests.uncovered`, after `coverage combine`: the branches that are neither covered nor named.

The exit code is 1 if there is one, or if a named place is covered or no longer exists. What the tests start with the
Python of this server is measured too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

import coverage

from tests.uncovered.named import ELSEWHERE, NAMED
from tests.uncovered.places import Place, uncovered_places

_ROOT = Path(__file__).parents[2]


def main() -> int:
    found = _found()
    left = {
        path: [place for place in places if place.name not in NAMED.get(path, {})] for path, places in found.items()
    }
    stale = [
        f"{path}: {name}"
        for path, reasons in NAMED.items()
        for name in reasons.keys() - {place.name for place in found.get(path, [])}
    ]
    for path, places in left.items():
        for place in places:
            print(f"{path}:{place.line}: {place.name}")
    for one in stale:
        print(f"named, and covered or gone: {one}")
    total, explained = sum(map(len, found.values())), sum(map(len, NAMED.values())) - len(stale)
    print(f"{total} places uncovered: {explained} named, {total - explained} not named; {len(stale)} named for nothing")
    return 1 if total > explained or stale else 0


def _found() -> dict[str, list[Place]]:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        measured = coverage.Coverage()
        measured.load()
        measured.json_report(outfile=str(report))
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    places = {}
    for path, facts in sorted(files.items()):
        if any(fnmatch(path, pattern) for pattern in ELSEWHERE):
            continue
        source = (_ROOT / path).read_text(encoding="utf-8")
        branches = [(line, target) for line, target in facts["missing_branches"]]
        places[path] = uncovered_places(source, facts["missing_lines"], branches)
    return places


if __name__ == "__main__":
    sys.exit(main())
