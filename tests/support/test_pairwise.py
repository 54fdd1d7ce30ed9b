"""The pairwise set holds every pair and is small; the rest of the product rotates and none is lost."""

from __future__ import annotations

from tests.support.pairwise import pairs, pairwise, product, rotating

AXES = {"a": (1, 2, 3), "b": (True, False), "c": (None, "x", "y"), "d": (0, 8)}
UNHASHABLE = {"a": ([1], [2]), "b": ({}, {"x": 1})}


def test_every_pair_of_the_product_is_in_the_set() -> None:
    assert {p for one in pairwise(AXES) for p in pairs(one)} == {p for one in product(AXES) for p in pairs(one)}
    assert 9 <= len(pairwise(AXES)) <= 12
    assert len(pairwise(UNHASHABLE)) == 4


def test_the_core_is_unmarked_the_rest_rotates_and_none_is_lost() -> None:
    params = rotating(AXES, 4)
    assert [param.values for param in params] == [tuple(one.values()) for one in product(AXES)]
    core = [param.values for param in params if not param.marks]
    assert sorted(map(str, core)) == sorted(str(tuple(one.values())) for one in pairwise(AXES))
    assert {mark.kwargs["share"] for param in params for mark in param.marks} == {4}
