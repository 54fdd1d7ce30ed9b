"""Pairwise coverage: a small set of combinations in which every two choices of different axes meet."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

Choice = dict[str, Any]


def product(axes: Mapping[str, Sequence[Any]]) -> list[Choice]:
    """Every combination of one choice per axis."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def pairs(one: Choice) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    """All pairs of choices of two axes that meet in a combination. The choices must be hashable."""
    return set(itertools.combinations(one.items(), 2))


def pairwise(axes: Mapping[str, Sequence[Any]]) -> list[Choice]:
    """A small set of combinations that holds every pair: greedily, always the combination with most new pairs."""
    candidates = product({name: range(len(choices)) for name, choices in axes.items()})
    left = {pair for one in candidates for pair in pairs(one)}
    covering = []
    while left:
        best = max(candidates, key=lambda one: len(left & pairs(one)))
        covering.append({name: axes[name][index] for name, index in best.items()})
        left -= pairs(best)
    return covering


def rotating(axes: Mapping[str, Sequence[Any]], share: int) -> list[Any]:
    """Parameters of the whole product, in the order of the axes: the pairwise set always runs, the rest rotates.

    For `@pytest.mark.parametrize(tuple(axes), rotating(axes, share))`.
    """
    core = pairwise(axes)
    rotate = pytest.mark.rotate(share=share)
    return [pytest.param(*one.values(), marks=() if one in core else rotate) for one in product(axes)]
