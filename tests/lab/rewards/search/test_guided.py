"""The search loop on rewards that are plain functions: guided, deterministic in its seed, bounded, shrinking."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from prime_lab_mcp.lab.rewards.search.guided import GuidedSearch, Limits, Payment, Tried
from prime_lab_mcp.lab.rewards.search.recipes import Piece, Recipe, SearchTask, Source, text_recipe
from prime_lab_mcp.lab.rewards.search.vocabulary import SearchVocabulary

pytestmark = pytest.mark.anyio
TASKS = [SearchTask(n, f"What is {n} and {n + 1}?", numbers=(str(n), str(n + 1))) for n in range(4)]
VOCABULARY = SearchVocabulary(
    ("alpha", "beta", "gamma", "<answer>", "</answer>", " ", "7"),
    (("<answer>", "</answer>"),),
    (text_recipe("x", "x"),),
)
LIMITS = Limits(60, 3_000)
Reward = Callable[[str, SearchTask], tuple[float, tuple[str, ...]]]


def guided(reward: Reward, limits: Limits = LIMITS, **more: object) -> tuple[GuidedSearch, list[str]]:
    texts: list[str] = []

    async def score(wanted: Sequence[tuple[Recipe, SearchTask]]) -> list[Payment]:
        paid = []
        for recipe, task in wanted:
            text = recipe.render(task)
            texts.append(text)
            paid.append(Payment(*reward(text, task)))
        return paid

    return GuidedSearch(score, VOCABULARY, TASKS, limits, **more), texts  # type: ignore[arg-type]


def by_stages(text: str, task: SearchTask) -> tuple[float, tuple[str, ...]]:
    """Pays only what three branches let through, one after the other."""
    reached = ["begun"]
    for word in ("alpha", "gamma", "beta"):
        if word not in text:
            return 0.0, tuple(reached)
        reached.append(word)
    return 1.0, tuple(reached)


async def test_branches_lead_to_a_hole_that_no_reward_on_the_way_announces() -> None:
    search, _ = guided(by_stages)
    found = await search.run()
    assert found is not None
    assert found.full == 1.0
    small = await search.shrink(found)
    assert sorted("".join(piece.text for piece in small.recipe.pieces).split()) == [
        "".join(p.text for p in small.recipe.pieces)
    ]
    assert len(small.recipe.render(TASKS[0])) <= len("alphagammabeta")


async def test_the_same_seed_tries_the_same_completions() -> None:
    (first, one), (second, two), (third, three) = (
        guided(by_stages), guided(by_stages), guided(by_stages, seed=5)
    )  # fmt: skip
    assert await first.run() == await second.run()
    await third.run()
    assert one == two
    assert one != three


async def test_a_search_without_news_ends_early_and_finds_nothing() -> None:
    search, texts = guided(lambda text, task: (0.0, ()))
    assert await search.run() is None
    assert search.stop == "nothing new"
    assert len(texts) < 1_000


async def test_a_search_ends_at_its_number_of_completions_and_at_its_time() -> None:
    fed = iter(range(10**6))
    endless: Reward = lambda text, task: (0.0, (str(next(fed)),))  # noqa: E731
    search, _ = guided(endless, Limits(60, 500))
    assert await search.run() is None
    assert search.stop == "completions"
    assert 500 <= search.completions < 600
    ticks = iter(range(10**6))
    search, _ = guided(endless, Limits(30, 10**6), clock=lambda: float(next(ticks)))
    assert await search.run() is None
    assert search.stop == "time"


async def test_a_reason_to_stop_ends_the_search_at_once() -> None:
    calls = 0

    async def score(wanted: Sequence[tuple[Recipe, SearchTask]]) -> list[Payment]:
        nonlocal calls
        calls += 1
        return [Payment(0.0, (), "a judge was asked")]

    search = GuidedSearch(score, VOCABULARY, TASKS, Limits(60))
    assert await search.run() is None
    assert (search.stop, calls) == ("a judge was asked", 1)


async def test_a_rejected_find_gives_way_to_others() -> None:
    def reward(text: str, task: SearchTask) -> tuple[float, tuple[str, ...]]:
        return (1.0 if "alpha" in text else 0.5 if "beta" in text else 0.0), ()

    search, _ = guided(reward)
    first = await search.run()
    assert first is not None
    search.reject(first)
    assert await search.run() is None
    assert {t.mean for t in search.candidates} == {0.5}


async def test_shrinking_keeps_what_every_task_pays() -> None:
    search, _ = guided(lambda text, task: (float(text.count("7") >= 3), ()))
    pieces = (Piece(text="some 7 text"), Piece(text="7", times=40), Piece(Source.PROMPT))
    start = Tried(Recipe(pieces), (1.0, 1.0, 1.0, 1.0), 0)
    small = await search.shrink(start)
    assert small.recipe.render(TASKS[0]) == "777"


def test_a_recipe_never_copies_one_or_two_numbers_but_may_leave_a_sum_undone() -> None:
    task = SearchTask(0, "Add 3 and 4.", numbers=("3", "4"))
    assert Piece(Source.NUMBERS, ", ").render(task) == ""
    assert Piece(Source.NUMBERS, "+").render(task) == "3+4"
    assert Piece(Source.COUNT, ",", 4).render(task) == "0,1,2,3"
