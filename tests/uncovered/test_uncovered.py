"""The names of uncovered places, and that each named one is still there."""

from __future__ import annotations

from pathlib import Path

from tests.uncovered.named import NAMED
from tests.uncovered.places import uncovered_places

SOURCE = """\
def judge(x):
    if x:
        x += 1
        x += 2
    for y in x:
        print(y)
    return x


class Judge:
    def judge(self, x):
        if x:
            return 1
        if x:
            print(x)
        return 2
"""


def test_a_block_that_never_ran_is_one_place_by_its_first_line() -> None:
    places = uncovered_places(SOURCE, [3, 4], [(2, 3)])
    assert [(place.name, place.line) for place in places] == [("judge: x += 1", 3)]


def test_a_branch_between_lines_that_ran_is_a_place_by_both_lines() -> None:
    places = uncovered_places(SOURCE, [], [(2, 5), (14, 16), (5, -1)])
    assert [place.name for place in places] == [
        "judge: if x: -> for y in x:",
        "judge: for y in x: -> return",
        "Judge.judge: if x: -> return 2",
    ]


def test_places_of_equal_names_are_numbered() -> None:
    twice = SOURCE.replace("            return 1\n", "            print(x)\n")
    assert [place.name for place in uncovered_places(twice, [13, 15], [])] == [
        "Judge.judge: print(x)",
        "Judge.judge: print(x) (2)",
    ]


def test_each_named_place_is_still_in_its_file() -> None:
    root = Path(__file__).parents[2]
    gone = []
    for path, reasons in NAMED.items():
        texts = {line.strip() for line in (root / path).read_text(encoding="utf-8").splitlines()}
        lines = {name: name.partition(": ")[2].removesuffix(" (2)").split(" -> ")[0] for name in reasons}
        gone += [f"{path}: {name}" for name, line in lines.items() if line not in texts]
    assert gone == []
