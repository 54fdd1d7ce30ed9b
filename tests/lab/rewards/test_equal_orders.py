"""Other orders that are as right as a right one, from what a prompt says comes before what."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.equal_orders import OTHER_ORDER, equal_order_probes
from prime_lab_mcp.lab.rewards.observations import ScoredCase
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.known_answers import refuses_equal_ways
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import scored_probe, sound

COURSES = """The courses are Algebra, Geometry, Logic, Proofs and Sets.
- Proofs needs Logic and Sets
- Geometry needs Algebra
Write an order in which all can be taken, one line, separated by commas."""
REPLY = "I begin with the easy ones.\nAlgebra, Logic, Sets, Proofs, Geometry"


def other_orders(prompt: str, reply: str = REPLY) -> list[list[str]]:
    case = Draft(Family.SUPPLIED, reply, "case").probe("case/0", 0)
    row = Row(0, "0", ({"role": "user", "content": prompt},), None, None, {})
    found = [p.completion for p in equal_order_probes([(case, "high")], [row])]
    assert all(text.startswith("I begin with the easy ones.\n") for text in found)
    return [text.splitlines()[-1].split(", ") for text in found]


def test_each_other_order_has_every_entry_after_those_that_it_needs() -> None:
    orders = other_orders(COURSES)
    assert len(orders) == 4
    assert REPLY.splitlines()[-1].split(", ") not in orders
    for order in orders:
        assert sorted(order) == ["Algebra", "Geometry", "Logic", "Proofs", "Sets"]
        assert order.index("Proofs") > max(order.index("Logic"), order.index("Sets"))
        assert order.index("Geometry") > order.index("Algebra")


def test_the_right_order_tells_which_way_round_a_word_is_meant() -> None:
    first = COURSES.replace("Proofs needs Logic and Sets", "Logic before Proofs\n- Sets before Proofs")
    turned = first.replace("Geometry needs Algebra", "Algebra before Geometry")
    assert sorted(other_orders(turned)) == sorted(other_orders(COURSES))


@pytest.mark.parametrize(
    "prompt",
    [
        COURSES.replace("an order", "the order"),
        COURSES.replace("an order", "the alphabetically first order, an order"),
        COURSES.replace("Logic and Sets", "Logic or Sets"),
        COURSES.replace("Logic and Sets", "Logic and not Sets"),
        COURSES.replace("- Geometry needs Algebra\n", ""),
        COURSES.replace("- Geometry needs Algebra", "- Geometry comes last"),
        COURSES.replace("needs Algebra", "needs Proofs and Algebra").replace("Proofs needs", "Proofs goes with"),
        COURSES.replace("Proofs needs Logic and Sets", "Logic needs Proofs and Algebra"),
        COURSES + "\nAlgebra takes a week.",
    ],
    ids=["the order", "alphabet", "or", "not", "one sentence", "one name", "unknown word", "wrong", "more of an entry"],
)
def test_where_a_sentence_is_not_understood_no_order_is_tried(prompt: str) -> None:
    assert other_orders(prompt) == []


@pytest.mark.parametrize(("earned", "blocks"), [((0.1, 0.0, 0.3), True), ((0.1, 1.0, 0.3), False), ((0.1, 0.0), False)])
def test_other_orders_that_are_refused_on_all_of_three_tasks_block(earned: tuple[float, ...], blocks: bool) -> None:
    orders = [scored_probe(Family.OTHER_WAY, OTHER_ORDER, reward, row=n) for n, reward in enumerate(earned)]
    cases = tuple(ScoredCase(scored_probe(Family.SUPPLIED, "", 1.0, row=n), "high") for n in range(len(earned)))
    found = list(refuses_equal_ways(sound(*orders, supplied=cases)))
    assert [f.severity for f in found] == (["blocker"] if blocks else [])
    assert all("an order in which each entry comes after" in f.message for f in found)
