"""Other ways that are as short as a right one, from the pairs that a prompt lists."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.equal_paths import OTHER_WAY, equal_path_probes
from prime_lab_mcp.lab.rewards.observations import ScoredCase
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.known_answers import refuses_equal_ways
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import scored_probe, sound

CAVES = """These caves are joined by tunnels that are open in both directions:
Red Hall - Pit
Red Hall - Well
Pit - Gate
Well - Gate
Gate - Lake

Give a way from Red Hall to Lake through as few caves as possible, as WAY: a > b > c.""".replace("through", "over")
REPLY = "I looked at the tunnels.\nWAY: red hall > Pit > Gate > Lake"
OTHER = "I looked at the tunnels.\nWAY: Red Hall > Well > Gate > Lake"


def other_ways(prompt: str, reply: str = REPLY) -> list[str]:
    case = Draft(Family.SUPPLIED, reply, "case").probe("case/0", 0)
    row = Row(0, "0", ({"role": "user", "content": prompt},), None, None, {})
    return [p.completion for p in equal_path_probes([(case, "high")], [row])]


def test_a_way_of_as_many_steps_is_found_and_written_as_the_reply_is() -> None:
    assert other_ways(CAVES) == [OTHER]
    assert other_ways(CAVES, REPLY.replace(" > ", " → ")) == [OTHER.replace(" > ", " → ")]


@pytest.mark.parametrize(
    "prompt",
    [
        CAVES.replace("as few caves as possible", "dry caves"),
        CAVES.replace("WAY: a", "the alphabetically first one, WAY: a"),
        CAVES.replace("Well - Gate", "Well - Lamp"),
        CAVES.replace("Well - Gate", "Gate - Well").replace("in both directions", "downwards"),
        CAVES.replace("Red Hall - Well", "Red Hall - Well: 7 m"),
        CAVES.replace(" - ", ", "),
    ],
    ids=["any way", "a rule for ties", "no other way", "one direction", "lengths", "no pairs"],
)
def test_where_ways_may_differ_in_more_than_their_steps_none_is_tried(prompt: str) -> None:
    assert other_ways(prompt) == []


GRID = (
    "Walk from B2 to D3 with steps up, down, left or right, in as few steps as possible. The squares C2 and A1 are wet."
)


@pytest.mark.parametrize(
    ("prompt", "reply", "other"),
    [
        (GRID, "<walk>B2 B3 C3 D3</walk>", []),
        (GRID.replace(" and A1", "").replace("C2", "A2"), "<walk>B2 B3 C3 D3</walk>", ["<walk>B2 C2 C3 D3</walk>"]),
        (GRID.replace("C2", "A2"), "WALK: b2 -> b3 -> c3 -> d3.", ["WALK: b2 -> c2 -> c3 -> d3."]),
        (
            "Go from (0, 0) to (1, 1), up or right, by the shortest way.",
            "(0, 0), (0, 1), (1, 1)",
            ["(0, 0), (1, 0), (1, 1)"],
        ),
        (GRID.replace("C2", "A2"), "B2 C3 D3", []),
        (GRID.replace("C2", "A2").replace("few", "many"), "B2 B3 C3 D3", []),
        (GRID.replace("C2", "A2") + " A turn costs a step.", "B2 B3 C3 D3", []),
        (GRID.replace("C2", "A2") + "\n. . # .\n. . . .", "B2 B3 C3 D3", []),
    ],
    ids=["named squares", "tag", "arrows", "pairs of numbers", "no step", "not shortest", "costs", "drawn"],
)
def test_a_way_over_a_grid_has_others_that_avoid_the_squares_of_the_prompt(
    prompt: str, reply: str, other: list[str]
) -> None:
    assert other_ways(prompt, reply) == other


@pytest.mark.parametrize(("earned", "blocks"), [((0.1, 0.0, 0.3), True), ((0.1, 1.0, 0.3), False), ((0.1, 0.0), False)])
def test_equal_ways_that_are_refused_on_all_of_three_tasks_block(earned: tuple[float, ...], blocks: bool) -> None:
    ways = [scored_probe(Family.OTHER_WAY, OTHER_WAY, reward, row=n) for n, reward in enumerate(earned)]
    cases = tuple(ScoredCase(scored_probe(Family.SUPPLIED, "", 1.0, row=n), "high") for n in range(len(earned)))
    said = [f.severity for f in refuses_equal_ways(sound(*ways, supplied=cases))]
    assert said == (["blocker"] if blocks else [])
