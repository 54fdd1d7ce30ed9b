"""The extrapolation from r rollouts to groups of G, against simulation and closed forms."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from prime_lab_mcp.lab.base.statistics import Interval, clustered_interval, wilson_interval
from prime_lab_mcp.lab.distribution.signal import OutcomeTable, usable_interval, usable_share

G = 16


def expected(a: float, b: float) -> float:
    """The usable share of groups of 16 when task means follow Beta(a, b)."""

    def same(x: float) -> float:
        return math.exp(math.lgamma(x + G) - math.lgamma(x) - math.lgamma(a + b + G) + math.lgamma(a + b))

    return 1 - same(a) - same(b)


def drawn(rng: random.Random, a: float, b: float, n: int, r: int) -> list[list[tuple[int, int]]]:
    tasks = []
    for _ in range(n):
        p = rng.betavariate(a, b)
        k = sum(rng.random() < p for _ in range(r))
        tasks.append([(outcome, count) for outcome, count in ((1, k), (0, r - k)) if count])
    return tasks


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.3, 0.6), (1.0, 1.0), (4.0, 4.0)])
def test_a_large_sample_at_r_of_4_recovers_the_share_at_g_of_16(a: float, b: float) -> None:
    table = OutcomeTable()
    for task in drawn(random.Random(1), a, b, 4000, 4):
        table.add(task)

    assert usable_share(table, G) == pytest.approx(expected(a, b), abs=0.03)


def test_the_share_seen_at_4_rollouts_is_no_estimate_and_the_fit_is() -> None:
    tasks = drawn(random.Random(2), 0.5, 0.5, 2000, 4)
    seen = sum(len(task) > 1 for task in tasks) / len(tasks)

    assert seen < 0.5
    assert usable_interval(tasks, G, 0).value == pytest.approx(0.72, abs=0.04)


@pytest.mark.slow
def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    truth = expected(0.5, 0.5)
    found = [usable_interval(drawn(random.Random(seed), 0.5, 0.5, 50, 8), G, 0) for seed in range(30)]

    assert sum(i.low <= truth <= i.high for i in found) >= 24


def test_a_known_chance_gives_the_textbook_value() -> None:
    rng = random.Random(3)
    table = OutcomeTable()
    for _ in range(3000):
        k = sum(rng.random() < 0.1 for _ in range(8))
        table.add([(o, c) for o, c in ((1, k), (0, 8 - k)) if c])

    assert usable_share(table, G) == pytest.approx(1 - 0.9**16 - 0.1**16, abs=0.03)


def test_many_tasks_are_judged_by_blocks_with_a_narrow_interval_around_the_same_value() -> None:
    tasks = drawn(random.Random(4), 0.5, 0.5, 5000, 8)
    found = usable_interval(tasks, G, 0)

    assert found.value == pytest.approx(expected(0.5, 0.5), abs=0.02)
    assert found.high - found.low < 0.05


def test_no_difference_anywhere_leaves_only_what_could_have_been_missed() -> None:
    constant = usable_interval([[(0, 8)]] * 50, G, 0)
    divided = usable_interval([[(t % 2, 8)] for t in range(50)], G, 0)

    assert (constant.value, constant.low) == (0.0, 0.0)
    assert constant.high == pytest.approx(1 - (1 - 3 / 400) ** 16, abs=1e-6)
    assert divided.value == 0.0
    # 1 - 0.05^(1/50) of tasks mixed at 8 rollouts, which more rollouts would mix more of.
    assert 0.058 < divided.high < 0.08


def test_the_same_data_give_the_same_interval() -> None:
    tasks = drawn(random.Random(5), 1, 1, 40, 4)
    assert usable_interval(tasks, G, 7) == usable_interval(tasks, G, 7)


@pytest.mark.parametrize(("n", "low", "high"), [(20, 0.22, 0.61), (50, 0.28, 0.54), (200, 0.34, 0.47)])
def test_wilson_gives_the_published_values(n: int, low: float, high: float) -> None:
    found = wilson_interval(0.4 * n, n)
    assert found.low == pytest.approx(low, abs=0.006)
    assert found.high == pytest.approx(high, abs=0.006)


def test_the_standard_error_counts_tasks_not_rollouts() -> None:
    rng = random.Random(6)
    errors, means = [], []
    for _ in range(300):
        task_means = [
            sum(rng.random() < p for _ in range(4)) / 4 for p in (rng.betavariate(0.5, 0.5) for _ in range(50))
        ]
        interval, error = clustered_interval(task_means, 200)
        errors.append(error)
        means.append(interval.value)
    middle = sum(means) / len(means)
    truth = math.sqrt(sum((m - middle) ** 2 for m in means) / (len(means) - 1))

    assert sum(errors) / len(errors) == pytest.approx(truth, rel=0.12)
    assert truth == pytest.approx(0.056, abs=0.006)


def test_the_advised_size_brings_the_interval_to_one_side() -> None:
    found = Interval(0.2, 0.05, 0.35)
    needed = found.tasks_to_decide(0.1, 30)

    assert needed == math.ceil(30 * (0.15 / 0.1) ** 2 * (2.8 / 1.96) ** 2)
    assert Interval(0.1, 0.05, 0.15).tasks_to_decide(0.1, 30) is None


def test_where_every_task_has_as_many_rollouts_as_a_group_their_groups_are_counted() -> None:
    tasks = [[(0, 16)]] * 30 + [[(0, 15), (1, 1)]] * 10

    found = usable_interval(tasks, 16, 0)

    assert (found.value, found.low, found.high) == pytest.approx(tuple(_of(wilson_interval(10, 40))))


def test_of_more_rollouts_than_a_group_has_all_groups_count() -> None:
    assert usable_interval([[(0, 3), (1, 1)], [(0, 4)]], 2, 0).value == pytest.approx(0.25)


def test_tasks_without_any_reward_stay_so_beside_tasks_of_many_rewards() -> None:
    rng = random.Random(5)
    table = OutcomeTable()
    for task in range(400):
        table.add([(0, 4)] if task % 10 else list(Counter(rng.choices(range(1, 9), k=4)).items()))

    assert usable_share(table, G) == pytest.approx(0.1, abs=0.03)


def test_two_kinds_of_tasks_are_told_from_a_beta_where_rollouts_suffice() -> None:
    rng = random.Random(6)
    truth = 1 - 0.98**G - 0.02**G
    tasks = []
    for task in range(400):
        k = sum(rng.random() < (0.02 if task % 2 else 0.98) for _ in range(8))
        tasks.append([(outcome, count) for outcome, count in ((1, k), (0, 8 - k)) if count])

    found = usable_interval(tasks, G, 0)

    assert found.low <= truth <= found.high
    assert found.value == pytest.approx(truth, abs=0.04)


def _of(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


@pytest.mark.parametrize(("mixed", "low"), [(16, 0.81), (15, 0.85)])
def test_a_share_of_nearly_all_groups_has_an_interval_with_a_width_over_tasks(mixed: int, low: float) -> None:
    tasks = [[(0, 3), (1, 5)]] * mixed + [[(1, 8)]] * (16 - mixed)
    found = usable_interval(tasks, G, 0)

    assert found.value > 0.9
    assert found.low < low
    assert found.low <= found.value <= found.high <= 1.0
