"""The loop of the search: mutates recipes, keeps those that earn more or reach new branches, and shrinks the best.

The loop knows rewards only through `Score`. All chance comes from one seed, so the same payments give the same search;
the clock only ends it.
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
_GLANCE = 2
"""Tasks on which every recipe is tried first; only recipes with news are tried on the others."""
_GENERATION = 24
_BEST, _NOVEL = 12, 60
_GAIN = 0.01
_EXTENDED = 16
"""Constants of the code that are put before and after every recipe with news."""
_LONG = 400
_TIME, _COMPLETIONS, _NOTHING_NEW = "time", "completions", "nothing new"
_LIMITS = frozenset({_TIME, _COMPLETIONS, _NOTHING_NEW})
"""Ends of a search that may go on with other recipes."""
_ROUNDS = 30
"""Most rounds of shrinking."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a search ends, whatever comes first. `idle` is a number of generations without anything new."""

    seconds: float
    completions: int = 2_400
    idle: int = 20


@dataclass(frozen=True, slots=True)
class Payment:
    """What a completion earned, as a share of the maximum of its task; 0 where it simply states the task's answer.

    `signals` are the branches that it took first and the levels of the reward's components. `stop` is why no more
    completions may be scored.
    """

    share: float
    signals: tuple[str, ...] = ()
    stop: str = ""


Score = Callable[[Sequence[tuple[Recipe, SearchTask]]], Awaitable[list[Payment]]]


@dataclass(frozen=True, slots=True)
class Tried:
    """A recipe with its payments on the first tasks, or on all tasks of the search."""

    recipe: Recipe
    shares: tuple[float, ...]
    number: int
    """How many completions had been scored before."""

    @property
    def mean(self) -> float:
        return sum(self.shares) / len(self.shares)

    @property
    def full(self) -> float:
        """Share of tasks on which the recipe is paid like the right answer."""
        return sum(share >= FULL_SHARE for share in self.shares) / len(self.shares)

    @property
    def rank(self) -> tuple[float, float, int]:
        return (-round(self.full, 4), -round(self.mean, 4), self.recipe.size)


@dataclass(slots=True)
class GuidedSearch:
    """One search on some tasks. `run` may be called again, to go on after a find was rejected."""

    score: Score
    vocabulary: SearchVocabulary
    tasks: Sequence[SearchTask]
    limits: Limits
    clock: Callable[[], float] = time.monotonic
    seed: int = SEED
    best: list[Tried] = field(default_factory=list)
    novel: list[Recipe] = field(default_factory=list)
    completions: int = 0
    stop: str = ""
    """Why the search ended."""
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
        """Branches of the code and levels of components that were reached."""
        return len(self._known)

    @property
    def seconds(self) -> float:
        return 0.0 if self._started is None else self.clock() - self._started

    def _ended(self) -> bool:
        if not self.stop:
            if self.seconds >= self.limits.seconds:
                self.stop = _TIME
            elif self.completions >= self.limits.completions:
                self.stop = _COMPLETIONS
            elif self._idle >= self.limits.idle:
                self.stop = _NOTHING_NEW
        return bool(self.stop)

    async def run(self) -> Tried | None:
        """Search on until a recipe is paid like the right answer on every task, and then return it; None at the end."""
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
        """Try these recipes next. `seconds` is time beside that of the limits, for a search that has ended."""
        self._queue = [*recipes, *self._queue]
        if seconds and self.stop in _LIMITS:
            more = self.completions + len(recipes) * len(self.tasks) + _GENERATION * _GLANCE
            most = max(self.limits.completions, more)
            self.limits = Limits(self.seconds + seconds, most, self.limits.idle)
            self.stop, self._idle = "", 0

    def reject(self, tried: Tried) -> None:
        """Look for other recipes than those that are paid on exactly these tasks."""
        self._rejected.add(tried.shares)

    @property
    def candidates(self) -> list[Tried]:
        """The best recipes that were not rejected, best first."""
        return [t for t in self.best if t.shares not in self._rejected]

    def _extended(self, recipe: Recipe) -> list[Recipe]:
        """A recipe that reached something new, with each of the code's constants after and before it."""
        extended: list[Recipe] = []
        for text in self.vocabulary.literals[:_EXTENDED] if recipe.size <= _LONG else ():
            extended.append(recipe.after("append a constant", *recipe.pieces, Piece(text=text)))
            extended.append(recipe.after("prepend a constant", Piece(text=text), *recipe.pieces))
        return extended

    def _children(self) -> list[Recipe]:
        draw = self._mutator.draw
        best, novel = [t.recipe for t in self.best], self.novel
        children: list[Recipe] = []
        for _ in range(_GENERATION):
            if best and (not novel or draw.random() < 0.6):
                parent = best[min(int(draw.expovariate(0.4)), len(best) - 1)]
            else:
                # The latest news most often: what it leads to was never tried.
                parent = novel[-1 - min(int(draw.expovariate(0.25)), len(novel) - 1)] if novel else Recipe(())
            children.append(self._mutator.child(parent, [*best, *novel]))
        return children

    async def _try(self, recipes: Sequence[Recipe]) -> bool:
        """Score recipes on the first tasks, and those with news on all; return whether there was anything new."""
        glance, rest = self.tasks[:_GLANCE], self.tasks[_GLANCE:]
        fresh: list[Recipe] = []
        for recipe in recipes:
            texts = tuple(recipe.render(task) for task in glance)
            if texts not in self._texts:
                self._texts.add(texts)
                fresh.append(recipe)
        if not fresh:
            return False
        floor = self.best[-1].mean if len(self.best) >= _BEST else -1.0
        news = False
        promising: list[tuple[Recipe, list[float]]] = []
        paid = await self._payments([(recipe, task) for recipe in fresh for task in glance])
        for number, recipe in enumerate(fresh):
            own = paid[number * len(glance) : (number + 1) * len(glance)]
            if len(own) < len(glance):
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
        """Keep the best recipes, at most three with the same payments."""
        self.best = sorted([*self.best, tried], key=lambda t: t.rank)
        same = [t for t in self.best if t.shares == tried.shares]
        for surplus in same[3:]:
            self.best.remove(surplus)
        del self.best[_BEST:]

    async def _payments(self, wanted: Sequence[tuple[Recipe, SearchTask]]) -> list[Payment]:
        if not wanted or self.stop:
            return []
        paid = await self.score(wanted)
        self.completions += len(paid)
        self.stop = next((p.stop for p in paid if p.stop), self.stop)
        return paid

    async def shrink(self, tried: Tried) -> Tried:
        """The smallest recipe found that is paid at least as much on every task of the search."""
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
