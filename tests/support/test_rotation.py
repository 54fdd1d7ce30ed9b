"""Rotation leaves out only marked cases, the same ones for one day, others for the next, and says so."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.rotation import DEAR, SLOW_SHARE, chosen, seed, share_of

pytest_plugins = ["pytester"]
CASES = [f"test_x.py::test_a[{n}]" for n in range(10)]
MODULE = """
import pytest

@pytest.mark.rotate(share=3)
@pytest.mark.parametrize("n", range(10))
def test_rotating(n):
    pass

@pytest.mark.parametrize("n", [0, 1, *(pytest.param(n, marks=pytest.mark.rotate(share=4)) for n in range(2, 10))])
def test_core_and_rest(n):
    pass

@pytest.mark.parametrize("n", range(5))
def test_always(n):
    pass

@pytest.mark.parametrize("n", [1, pytest.param(1000, marks=[pytest.mark.stress, pytest.mark.rotate(share=2)])])
def test_sizes(n):
    pass

@pytest.mark.rotate(share=2, group="both")
def test_one():
    pass

@pytest.mark.rotate(share=2, group="both")
def test_other():
    pass

@pytest.mark.slow
@pytest.mark.parametrize("n", range(SLOW))
def test_slow(n):
    pass

@pytest.mark.slow
def test_slow_too():
    pass
""".replace("SLOW)", f"{SLOW_SHARE})")
Run = Callable[..., list[str]]


@pytest.fixture
def passed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the module in this process and returns the cases that passed."""
    pytester.makepyfile(test_x=MODULE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*options: str) -> list[str]:
        result = pytester.runpytest_inprocess("-p", "tests.support.rotation", "-v", *options)
        assert result.ret == 0
        return re.findall(r"test_x\.py::(\S+) PASSED", result.stdout.str())

    return run


def of(test: str, cases: list[str]) -> list[str]:
    return [case for case in cases if case.startswith(f"{test}[")]


def test_without_the_option_every_case_runs(passed: Run) -> None:
    ran = passed()
    assert len(ran) == 30 + SLOW_SHARE
    assert "test_sizes[1000]" in ran


def test_the_share_of_the_marked_cases_runs_and_every_unmarked_one(passed: Run) -> None:
    ran = passed("--rotate", "--rotation-seed", "one")
    assert len(of("test_rotating", ran)) == 4
    assert {"test_core_and_rest[0]", "test_core_and_rest[1]"} <= set(ran)
    assert len(of("test_core_and_rest", ran)) == 2 + 2
    assert len(of("test_always", ran)) == 5
    assert len({"test_one", "test_other"} & set(ran)) == 1
    assert of("test_sizes", ran) == ["test_sizes[1]"]
    assert len([case for case in ran if case.startswith("test_slow")]) == 2
    assert passed("--rotation-seed", "one") == ran
    assert passed("--rotation-seed", "two") != ran


def test_slow_cases_of_a_folder_are_one_group_and_another_folder_has_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for folder, names in {"a": "xyz", "b": "uv"}.items():
        for name in names:
            path = pytester.path / folder / f"test_{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text("import pytest\n@pytest.mark.slow\ndef test_it(): pass\n", encoding="utf-8")
    result = pytester.runpytest_inprocess("-p", "tests.support.rotation", "-v", "--rotation-seed", "one")
    ran = re.findall(r"^(a|b)/test_\w\.py::test_it PASSED", result.stdout.str(), re.M)
    assert sorted(ran) == ["a", "b"]


def test_two_processes_choose_the_same_and_the_sum_is_printed_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_x=MODULE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ("-p", "xdist", "-p", "tests.support.rotation")
    result = pytester.runpytest_inprocess(*plugins, "-n", "2", "--rotation-seed", "one")
    result.assert_outcomes(passed=4 + 4 + 5 + 1 + 1 + 2)
    (line,) = [line for line in result.stdout.lines if "rotating cases" in line]
    assert line.startswith(
        f"9 of {21 + SLOW_SHARE} rotating cases in 4 groups were chosen; {12 + SLOW_SHARE} are left to other days"
    )
    assert "--rotation-seed one repeats the choice" in line
    at = result.stdout.lines.index("1 stress cases are left to `make test-all`:")
    assert result.stdout.lines[at + 1] == "  test_x.py::test_sizes[1000]"


@pytest.mark.parametrize("arguments", [((), {}), ((), {"share": 1}), ((3,), {}), ((), {"share": 3, "often": True})])
def test_a_mark_without_a_share_is_refused(arguments: tuple[tuple[int, ...], dict[str, int]]) -> None:
    with pytest.raises(pytest.UsageError, match="rotate takes share=N"):
        share_of(pytest.mark.rotate(*arguments[0], **arguments[1]).mark)


def test_the_choice_is_stable_and_does_not_depend_on_the_order_of_the_cases() -> None:
    assert chosen(CASES, 3, "seed") == chosen(CASES[::-1], 3, "seed")
    assert len(chosen(CASES, 3, "seed")) == 4
    assert len(chosen(CASES[:1], 9, "seed")) == 1


def test_every_case_gets_its_turn_within_a_few_days() -> None:
    assert frozenset().union(*(chosen(CASES, 3, f"day {n}") for n in range(30))) == frozenset(CASES)


def test_the_seed_is_the_day_of_the_commit_or_today_without_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = datetime.now(UTC).date().isoformat()
    assert seed(tmp_path) in (before, datetime.now(UTC).date().isoformat())
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-03-01T00:30:00+02:00")
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    assert seed(tmp_path) == "2026-02-28"


def test_of_dear_tests_a_share_of_each_folder_runs_where_a_run_asks_for_it(
    passed: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = tmp_path / "dear.txt"
    listed.write_text("test_x.py::test_always\ntest_x.py::test_rotating\n", encoding="utf-8")
    monkeypatch.setattr("tests.support.rotation.DEAR", listed)
    ran = passed("--rotate", "--rotation-seed", "one", "--dear-share=3")
    assert len(of("test_always", ran)) == 2
    assert len(of("test_rotating", ran)) == 4  # its own mark counts
    assert len(of("test_always", passed("--rotate", "--rotation-seed", "one"))) == 5


def test_every_dear_test_is_a_function_of_a_file() -> None:
    root = Path(__file__).parents[2]
    lost = []
    for name in DEAR.read_text(encoding="utf-8").split():
        path, _, function = name.partition("::")
        text = (root / path).read_text(encoding="utf-8") if (root / path).is_file() else ""
        if not re.search(rf"^ *(?:async )?def {re.escape(function.rpartition('::')[2])}\(", text, re.M):
            lost.append(name)
    assert lost == []
