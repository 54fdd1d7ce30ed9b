"""Student's t, the incomplete beta function and the beta-binomial fit, against tables and brute force."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.statistics import (
    LOG_HIGH,
    LOG_LOW,
    NORMAL_975,
    Interval,
    beta_binomial_likelihood,
    binomial_tail,
    chi_square_survival,
    chi_square_uniform,
    clustered_interval,
    difference_half_width,
    f_tail,
    fit_concentration,
    incomplete_beta,
    least_shown_rise,
    student_975,
    student_interval,
)
from prime_lab_mcp.lab.distribution.signal import fit_beta
from prime_lab_mcp.lab.evals.views.compare import paired_difference

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, column 0.975.
TABLE = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
    10: 2.228,
    15: 2.131,
    20: 2.086,
    25: 2.060,
    30: 2.042,
    40: 2.021,
    60: 2.000,
    100: 1.984,
    1_000: 1.962,
}


@pytest.mark.parametrize(("freedom", "tabled"), TABLE.items())
def test_student_has_its_tabled_quantiles(freedom: int, tabled: float) -> None:
    assert student_975(freedom) == pytest.approx(tabled, abs=5.1e-4)


def test_student_falls_to_the_normal_quantile_without_a_step() -> None:
    values = [student_975(v) for v in (*range(1, 1_010), 10**4, 10**6, 10**9)]
    assert all(a > b for a, b in itertools.pairwise(values))
    assert values[-1] == pytest.approx(NORMAL_975, abs=1e-8) == pytest.approx(1.960, abs=1e-4)


@pytest.mark.parametrize("freedom", [0, -1])
def test_no_degree_of_freedom_has_no_quantile(freedom: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        student_975(freedom)


@given(st.integers(2, 60))
def test_the_density_of_t_integrates_to_the_share_below_the_quantile(v: int) -> None:
    """Simpson's rule over the density, which shares no code with the incomplete beta function."""
    front = math.exp(math.lgamma((v + 1) / 2) - math.lgamma(v / 2)) / math.sqrt(v * math.pi)
    steps, end = 400, student_975(v)
    heights = [front * (1 + (end * i / steps) ** 2 / v) ** (-(v + 1) / 2) for i in range(steps + 1)]
    area = end / steps / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))
    assert 0.5 + area == pytest.approx(0.975, abs=1e-6)


def test_intervals_of_two_values_use_one_degree_of_freedom_everywhere() -> None:
    half = 12.706 * 0.1
    for interval in (student_interval([0.4, 0.6]), paired_difference([0.4, 0.6]).interval):
        assert interval.high - interval.value == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2.0, 3.5), (30.0, 4.0), (0.7, 40.0)])
def test_the_incomplete_beta_is_the_share_of_draws_below(a: float, b: float) -> None:
    rng = random.Random(2)
    draws = sorted(rng.betavariate(a, b) for _ in range(20_000))
    for share in (0.1, 0.5, 0.9):
        assert incomplete_beta(a, b, draws[int(share * len(draws))]) == pytest.approx(share, abs=0.015)


def cells_of(seed: int, a: float, b: float, tasks: int, rollouts: int) -> Counter[tuple[int, int]]:
    rng = random.Random(seed)
    cells: Counter[tuple[int, int]] = Counter()
    for _ in range(tasks):
        p = rng.betavariate(a, b)
        cells[rollouts, sum(rng.random() < p for _ in range(rollouts))] += 1
    return cells


@given(
    st.integers(0, 10**6),
    st.floats(0.1, 20),
    st.floats(0.1, 20),
    st.integers(2, 120),
    st.integers(2, 16),
)
def test_the_fit_is_as_likely_as_the_best_of_a_fine_grid(seed: int, a: float, b: float, tasks: int, size: int) -> None:
    cells = cells_of(seed, a, b, tasks, size)
    mean = sum(k * n for (_, k), n in cells.items()) / (tasks * size)
    if not 0 < mean < 1:
        return
    concentration, likelihood = fit_concentration(cells, mean)
    grid = [math.exp(LOG_LOW + (LOG_HIGH - LOG_LOW) * i / 300) for i in range(301)]
    best = max(beta_binomial_likelihood(cells, mean, c) for c in grid)
    assert likelihood >= best - 1e-3
    assert likelihood == beta_binomial_likelihood(cells, mean, concentration)
    assert fit_beta(cells, mean).concentration == concentration


def test_the_likelihood_is_that_of_counts_that_are_multiplied_out() -> None:
    a, b = 0.8, 2.2
    exact = (a * (a + 1) * b) / ((a + b) * (a + b + 1) * (a + b + 2))
    assert beta_binomial_likelihood({(3, 2): 1}, a / (a + b), a + b) == pytest.approx(math.log(exact), abs=1e-12)


def test_many_tasks_give_back_the_concentration_they_were_drawn_with() -> None:
    cells = cells_of(5, 0.6, 1.4, 3_000, 8)
    mean = sum(k * n for (_, k), n in cells.items()) / (3_000 * 8)
    assert fit_concentration(cells, mean)[0] == pytest.approx(2.0, rel=0.12)


def test_a_share_outside_of_zero_and_one_has_all_or_nothing_below_it() -> None:
    assert [incomplete_beta(2, 3, x) for x in (-1, 0, 1, 2)] == [0.0, 0.0, 1.0, 1.0]


def test_equal_variances_are_exceeded_half_of_the_time_and_no_variance_always() -> None:
    assert f_tail(1.0, 5, 5) == pytest.approx(0.5)
    assert f_tail(0.0, 5, 5) == 1.0


@pytest.mark.parametrize("statistic", [0.1, 1.0, 2.9, 3.1, 20.0, 90.0])
def test_chi_square_of_two_degrees_is_an_exponential(statistic: float) -> None:
    assert chi_square_survival(statistic, 2) == pytest.approx(math.exp(-statistic / 2), rel=1e-9)


def test_chi_square_of_one_degree_is_a_squared_normal() -> None:
    assert chi_square_survival(NORMAL_975**2, 1) == pytest.approx(0.05, abs=1e-6)
    assert chi_square_survival(0.0, 3) == chi_square_survival(5.0, 0) == 1.0


def test_counts_that_are_equal_have_no_statistic() -> None:
    assert chi_square_uniform([4, 4, 4]) == (0.0, 2)
    assert chi_square_uniform([6, 2]) == (2.0, 1)


@pytest.mark.parametrize(("hits", "tail"), [(0, 1.0), (1, 7 / 8), (2, 1 / 2), (3, 1 / 8), (4, 0.0)])
def test_the_tail_of_three_fair_coins(hits: int, tail: float) -> None:
    assert binomial_tail(hits, 3, 0.5) == pytest.approx(tail)


def test_few_tasks_leave_their_mean_open() -> None:
    assert clustered_interval([], 0) == (Interval(0.0, 0.0, 1.0), 0.0)
    assert clustered_interval([0.3], 4) == (Interval(0.3, 0.0, 1.0), 0.0)
    assert clustered_interval([-2.0], 4) == (Interval(-2.0, -2.0, 1.0), 0.0)
    assert student_interval([]) == Interval(0.0, 0.0, 1.0)
    assert student_interval([3.0]) == Interval(3.0, 0.0, 3.0)


def test_means_outside_of_zero_and_one_have_the_interval_of_student() -> None:
    means = [-1.0, 0.5, 3.0, 2.5]
    found, error = clustered_interval(means, 16)
    assert found == pytest.approx(student_interval(means))
    assert error == pytest.approx((found.high - found.value) / student_975(3))


def test_no_number_of_tasks_decides_about_an_estimate_on_the_threshold() -> None:
    assert Interval(0.5, 0.4, 0.6).tasks_to_decide(0.5, 20) is None
    assert Interval(0.5, 0.4, 0.6).tasks_to_decide(0.500001, 20) is None
    needed = Interval(0.5, 0.4, 0.6).tasks_to_decide(0.45, 20)
    assert needed is not None
    assert needed > 20


def test_a_rise_that_no_evaluation_would_show_is_the_whole_range() -> None:
    shown = least_shown_rise(0.5, 50)
    assert 0.0 < shown < 0.5
    assert shown > difference_half_width(0.5, 0.5 + shown, 50)
    assert least_shown_rise(0.99, 5) == 1.0
