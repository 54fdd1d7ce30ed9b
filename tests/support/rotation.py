"""Rotates expensive cases: with `--rotate` a run takes a share of them, chosen by the commit's day, and no stress case.

A pytest plugin. `@pytest.mark.rotate(share=3)` on a parametrized test, or on some of its parameters, makes its cases a
group of which one in three runs, and at least one; `group="name"` makes one group of several tests. Cases without the
mark always run, unless they are marked `slow`: of the slow cases of a folder one in `SLOW_SHARE` runs.

The choice depends on the cases and on the day of the commit, so that a run of the same commit repeats it, and what a
run finds can be mended and tried with the same cases. Without git it depends on the date, and `--rotation-seed` repeats
the choice of another run. Without `--rotate` every case runs.

With `--dear-share=N`, the tests that `dear.txt` names, which take most of the processor time of a run, are groups too,
one per folder, of which one case in N runs: N is 14 in `make test` and 7 in CI. `make test-all` runs all of them.

`@pytest.mark.stress` marks a case of minutes, which CI should never meet by the chance of a commit: such a case runs
only without `--rotate`. A run with `--rotate` names the stress cases that it leaves out.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

SLOW_SHARE = 7
"""One in so many slow cases of a folder runs. No source: with 7 a run takes less than 20 minutes on two cores."""
DEAR = Path(__file__).with_name("dear.txt")
"""The file of the dear tests, one function a line. `python -m tests.support.dear COSTS` writes the file."""
_SEED = "rotation_seed"
_COUNTS = "rotation"
_STRESS = "stress"


@dataclass(slots=True)
class _Rotation:
    """What one process chose: per group, how many of its rotating cases run and how many there are."""

    seed: str = ""
    chosen: dict[str, tuple[int, int]] = field(default_factory=dict)
    stress: list[str] = field(default_factory=list)


_ROTATION: pytest.StashKey[_Rotation] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rotation")
    group.addoption("--rotate", action="store_true", help="of rotating cases run only the share of this commit")
    group.addoption("--dear-share", metavar="N", type=int, default=1, help="of dear tests run one in N of a folder")
    group.addoption("--rotation-seed", metavar="SEED", help="rotate as the run did that printed SEED")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rotate(share): with --rotate, one in `share` of these cases runs per day")
    config.addinivalue_line("markers", "stress: a case of minutes; never runs with --rotate")
    if rotates(config):
        given = getattr(config, "workerinput", {}).get(_SEED) or config.getoption("rotation_seed")
        config.stash[_ROTATION] = _Rotation(given or seed(config.rootpath))


def rotates(config: pytest.Config) -> bool:
    """Whether this run takes only a share of the rotating cases."""
    return bool(config.getoption("rotate") or config.getoption("rotation_seed"))


def seed(root: Path) -> str:
    """The day (UTC) of the commit of the working tree, or today where there is none."""
    try:
        asked = subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return datetime.now(UTC).date().isoformat()
    return datetime.fromtimestamp(int(asked.stdout), UTC).date().isoformat()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """One seed for all xdist workers: they must collect the same tests."""
    if (rotation := node.config.stash.get(_ROTATION, None)) is not None:
        node.workerinput[_SEED] = rotation.seed


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rotation = config.stash.get(_ROTATION, None)
    if rotation is None:
        return
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    rotation.stress = [item.nodeid for item in items if item.get_closest_marker("stress") is not None]
    share = config.getoption("dear_share")
    dear = frozenset(DEAR.read_text(encoding="utf-8").split()) if share > 1 else frozenset()
    for item in items:
        if item.nodeid in rotation.stress:
            continue
        if (mark := item.get_closest_marker("rotate")) is not None:
            groups[mark.kwargs.get("group", item.nodeid.partition("[")[0]), share_of(mark)].append(item.nodeid)
        elif item.get_closest_marker("slow") is not None:
            groups[_folder(item), SLOW_SHARE].append(item.nodeid)
        elif item.nodeid.partition("[")[0] in dear:
            groups[f"{_folder(item)}, dear", share].append(item.nodeid)
    left = set(rotation.stress)
    for (group, share), cases in groups.items():
        running = chosen(cases, share, rotation.seed)
        ran, all_cases = rotation.chosen.get(group, (0, 0))
        rotation.chosen[group] = (ran + len(running), all_cases + len(cases))
        left.update(case for case in cases if case not in running)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
    items[:] = [item for item in items if item.nodeid not in left]


def _folder(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].rpartition("/")[0]


def share_of(mark: pytest.Mark) -> int:
    share = mark.kwargs.get("share")
    if mark.args or set(mark.kwargs) - {"group"} != {"share"} or not isinstance(share, int) or share < 2:
        raise pytest.UsageError(
            f"rotate takes share=N with N from 2 up (and group=NAME), not {mark.args} {mark.kwargs}"
        )
    return share


def chosen(cases: Sequence[str], share: int, seed: str) -> frozenset[str]:
    """One in `share` of the cases, rounded up: those that come first when all are ordered by a hash with the seed."""
    order = sorted(cases, key=lambda case: hashlib.sha256(f"{seed}\n{case}".encode()).digest())
    return frozenset(order[: -(-len(cases) // share)])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None and (rotation := session.config.stash.get(_ROTATION, None)) is not None:
        output[_COUNTS], output[_STRESS] = rotation.chosen, rotation.stress


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if (rotation := node.config.stash.get(_ROTATION, None)) is not None:
        output = getattr(node, "workeroutput", {})
        rotation.chosen.update(output.get(_COUNTS, {}))
        rotation.stress = output.get(_STRESS, rotation.stress)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rotation = config.stash.get(_ROTATION, None)
    if rotation is None:
        return
    counts: Counter[str] = Counter()
    for ran, all_cases in rotation.chosen.values():
        counts.update(ran=ran, left=all_cases - ran)
    terminalreporter.section("rotation")
    terminalreporter.line(
        f"{counts['ran']} of {counts.total()} rotating cases in {len(rotation.chosen)} groups were chosen; "
        f"{counts['left']} are left to other days (--rotation-seed {rotation.seed} repeats the choice, "
        "`make test-all` runs every case)"
    )
    if rotation.stress:
        terminalreporter.line(f"{len(rotation.stress)} stress cases are left to `make test-all`:")
    for case in rotation.stress:
        terminalreporter.line(f"  {case}")
