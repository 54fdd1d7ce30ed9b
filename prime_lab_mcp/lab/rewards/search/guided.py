"""Runs the loop of the search: mutates recipes, keeps those that earn more or reach new branches, and shrinks the best.

A recipe makes a completion for every task (recipes.py). The loop learns rewards only from the function `Score`. All
randomness comes from one seed, so equal payments lead to the same search. The clock only ends the search.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.rewards.search.mutation import Mutator
from prime_lab_mcp.lab.rewards.search.recipes import Piece, Recipe, SearchTask, smaller_recipes
from prime_lab_mcp.lab.rewards.search.vocabulary import SearchVocabulary
from prime_lab_mcp.lab.rewards.thresholds import FULL_SHARE

SEED = 20_260
_FIRST_TASKS = 2
"""Number of tasks on which every recipe is tried first. Only promising recipes are tried on the other tasks."""
_GENERATION = 24
"""Number of recipes that are tried together."""
_BEST, _NOVEL = 12, 60
"""Numbers of best recipes, and of recipes that reached new branches, that are kept."""
_GAIN = 0.01
"""Smallest mean share of the maximum with which a recipe is promising."""
_EXTENDED = 16
"""Number of constants of the code that are put before and after every recipe that reached a new branch."""
_LONG = 400
"""Largest size of a recipe that is extended with constants."""
_TIME, _COMPLETIONS, _NOTHING_NEW = "time", "completions", "nothing new"
_LIMITS = frozenset({_TIME, _COMPLETIONS, _NOTHING_NEW})
"""Reasons for the end of a search after which it may continue with proposed recipes."""
_ROUNDS = 30
"""Largest number of rounds of shrinking."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a search, which ends at the first one that is reached.

    `idle` is a number of successive generations without anything new.
    """

    seconds: float
    completions: int = 2_400
    idle: int = 20


@dataclass(frozen=True, slots=True)
class Payment:
    """The reward of one completion, with the feedback that guides the search."""

    share: float
    """The reward as a share of the maximum of its task; 0 for a completion that only states the task's answer."""
    signals: tuple[str, ...] = ()
    """New branches of the reward's code that scoring took, and the scores of the components in steps of 0.05."""
    stop: str = ""
    """The reason why no more completions may be scored; empty if scoring may continue."""


Score = Callable[[Sequence[tuple[Recipe, SearchTask]]], Awaitable[list[Payment]]]
"""Scores the completions of recipes on tasks. The list is shorter than the request if scoring had to stop."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A recipe that was tried on all tasks of the search."""

    recipe: Recipe
    shares: tuple[float, ...]
    """The reward on each task, as a share of its maximum."""
    number: int
    """Number of completions that the search had scored by then."""

    @property
    def mean(self) -> float:
        """The mean share of the maximum."""
        return sum(self.shares) / len(self.shares)

    @property
    def full(self) -> float:
        """Share of tasks on which the recipe is paid like the right answer."""
        return sum(share >= FULL_SHARE for share in self.shares) / len(self.shares)

    @property
    def rank(self) -> tuple[float, float, int]:
        """A key that sorts the best recipe first: fully paid tasks, then the mean share, then the size."""
        return (-round(self.full, 4), -round(self.mean, 4), self.recipe.size)


@dataclass(slots=True)
class GuidedSearch:
    """One search on some tasks. After a find was rejected, another call of `run` continues the search."""

    score: Score
    vocabulary: SearchVocabulary
    tasks: Sequence[SearchTask]
    limits: Limits
    clock: Callable[[], float] = time.monotonic
    seed: int = SEED
    best: list[Tried] = field(default_factory=list)
    """The best recipes, best first."""
    novel: list[Recipe] = field(default_factory=list)
    """The latest recipes that reached something new."""
    completions: int = 0
    """Number of scored completions."""
    stop: str = ""
    """The reason why the search ended; empty while it runs."""
    _known: set[str] = field(default_factory=set)
    _texts: set[tuple[str, ...]] = field(default_factory=set)
    _rejected: set[tuple[float, ...]] = field(default_factory=set)
    _queue: list[Recipe] = field(default_factory=list)
    _started: float | None = None
    _idle: int = 0
    _mutator: Mutator = field(init=False)

    def __post_init__(self) -> None:
        self._mutator = Mutator(self.vocabulary, random.Random(self.seed))
        self._queue = list(self.vocabulary.seeds)

    @property
    def branches(self) -> int:
        """The number of different signals (branches and scores of components) that the search has reached."""
        return len(self._known)

    @property
    def seconds(self) -> float:
        """The seconds since the first call of `run`."""
        return 0.0 if self._started is None else self.clock() - self._started

    def _ended(self) -> bool:
        """Whether the search has ended. At a limit, `stop` becomes the reason."""
        if not self.stop:
            if self.seconds >= self.limits.seconds:
                self.stop = _TIME
            elif self.completions >= self.limits.completions:
                self.stop = _COMPLETIONS
            elif self._idle >= self.limits.idle:
                self.stop = _NOTHING_NEW
        return bool(self.stop)

    async def run(self) -> Tried | None:
        """Search until a recipe is paid like the right answer on every task, and return it; None if the search ends."""
        self._started = self.clock() if self._started is None else self._started
        while not self._ended():
            if self._queue:
                generation, self._queue = self._queue[:_GENERATION], self._queue[_GENERATION:]
            else:
                generation = self._children()
            news = await self._try(generation)
            self._idle = 0 if news or self._queue else self._idle + 1
            top = next((t for t in self.best if t.shares not in self._rejected), None)
            if top is not None and top.full == 1.0:
                return top
        return None

    def propose(self, recipes: Sequence[Recipe], seconds: float = 0.0) -> None:
        """Try these recipes next. A search that has reached a limit continues for another `seconds`."""
        self._queue = [*recipes, *self._queue]
        if seconds and self.stop in _LIMITS:
            more = self.completions + len(recipes) * len(self.tasks) + _GENERATION * _FIRST_TASKS
            most = max(self.limits.completions, more)
            self.limits = Limits(self.seconds + seconds, most, self.limits.idle)
            self.stop, self._idle = "", 0

    def reject(self, tried: Tried) -> None:
        """Ignore this recipe, and all recipes with the same rewards on all tasks, from now on."""
        self._rejected.add(tried.shares)

    @property
    def candidates(self) -> list[Tried]:
        """The best recipes that were not rejected, the best one first."""
        return [t for t in self.best if t.shares not in self._rejected]

    def _extended(self, recipe: Recipe) -> list[Recipe]:
        """Return variants of a recipe: with each of the code's constants after it and before it."""
        extended: list[Recipe] = []
        for text in self.vocabulary.literals[:_EXTENDED] if recipe.size <= _LONG else ():
            extended.append(recipe.after("append a constant", *recipe.pieces, Piece(text=text)))
            extended.append(recipe.after("prepend a constant", Piece(text=text), *recipe.pieces))
        return extended

    def _children(self) -> list[Recipe]:
        """Return a new generation of mutated recipes."""
        draw = self._mutator.draw
        best, novel = [t.recipe for t in self.best], self.novel
        children: list[Recipe] = []
        for _ in range(_GENERATION):
            if best and (not novel or draw.random() < 0.6):
                parent = best[min(int(draw.expovariate(0.4)), len(best) - 1)]
            else:
                # The latest recipes are drawn most often, because their mutations were tried least.
                parent = novel[-1 - min(int(draw.expovariate(0.25)), len(novel) - 1)] if novel else Recipe(())
            children.append(self._mutator.child(parent, [*best, *novel]))
        return children

    async def _try(self, recipes: Sequence[Recipe]) -> bool:
        """Score recipes on the first tasks, and promising ones on all tasks.

        Returns whether a recipe reached a new signal or became the best one.
        """
        first, rest = self.tasks[:_FIRST_TASKS], self.tasks[_FIRST_TASKS:]
        fresh: list[Recipe] = []
        for recipe in recipes:
            texts = tuple(recipe.render(task) for task in first)
            if texts not in self._texts:
                self._texts.add(texts)
                fresh.append(recipe)
        if not fresh:
            return False
        floor = self.best[-1].mean if len(self.best) >= _BEST else -1.0
        news = False
        promising: list[tuple[Recipe, list[float]]] = []
        paid = await self._payments([(recipe, task) for recipe in fresh for task in first])
        for number, recipe in enumerate(fresh):
            own = paid[number * len(first) : (number + 1) * len(first)]
            if len(own) < len(first):
                break
            new = {signal for payment in own for signal in payment.signals} - self._known
            if new:
                self._known |= new
                self.novel = [*self.novel, recipe][-_NOVEL:]
                self._queue += self._extended(recipe)
                news = True
            shares = [payment.share for payment in own]
            if sum(shares) / len(shares) > max(floor, _GAIN):
                promising.append((recipe, shares))
        before = self.best[0].rank[:2] if self.best else (0.0, 0.0)
        later = await self._payments([(recipe, task) for recipe, _ in promising for task in rest]) if rest else []
        for number, (recipe, shares) in enumerate(promising):
            own = later[number * len(rest) : (number + 1) * len(rest)]
            if len(own) < len(rest):
                break
            self._known |= {signal for payment in own for signal in payment.signals}
            self._admit(Tried(recipe, (*shares, *(p.share for p in own)), self.completions))
        return news or bool(self.best and self.best[0].rank[:2] < before)

    def _admit(self, tried: Tried) -> None:
        """Add a recipe to the best ones, of which at most three have the same rewards."""
        self.best = sorted([*self.best, tried], key=lambda t: t.rank)
        same = [t for t in self.best if t.shares == tried.shares]
        for surplus in same[3:]:
            self.best.remove(surplus)
        del self.best[_BEST:]

    async def _payments(self, wanted: Sequence[tuple[Recipe, SearchTask]]) -> list[Payment]:
        """Score completions, count them, and end the search if scoring had to stop."""
        if not wanted or self.stop:
            return []
        paid = await self.score(wanted)
        self.completions += len(paid)
        self.stop = next((p.stop for p in paid if p.stop), self.stop)
        return paid

    async def shrink(self, tried: Tried) -> Tried:
        """Look for a smaller recipe that is paid as much on every task of the search, and return the smallest one."""
        small, allowance = tried, self.completions + self.limits.completions // 4
        for _ in range(_ROUNDS):
            smaller = sorted({r.pieces: r for r in smaller_recipes(small.recipe)}.values(), key=lambda r: r.size)
            smaller = [r for r in smaller if r.size < small.recipe.size][: max(8, 240 // len(self.tasks))]
            if not smaller or self.stop or self.completions >= allowance:
                break
            first = await self._payments([(recipe, self.tasks[0]) for recipe in smaller])
            able = [r for r, p in zip(smaller, first, strict=False) if p.share >= small.shares[0] - _GAIN / 10]
            shrunk = None
            for recipe in able[:12]:
                paid = await self._payments([(recipe, task) for task in self.tasks])
                shares = tuple(p.share for p in paid)
                if len(shares) == len(self.tasks) and all(
                    new >= old - _GAIN / 10 for new, old in zip(shares, small.shares, strict=True)
                ):
                    shrunk = Tried(recipe, shares, tried.number)
                    break
            if shrunk is None:
                break
            small = shrunk
        return small
