"""What a reward did with every probe, as plain values: the input of the relations under checks/."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prime_lab_mcp.lab.rewards.probes import Kind, Probe, Style
from prime_lab_mcp.lab.rewards.scripts import Performed
from prime_lab_mcp.lab.worker.cases import JudgeInfo, Manner, RewardInfo, Scored

Expected = float | Literal["high", "low"]
EPSILON = 1e-6
JUDGE_FAILED = frozenset({"judge-unreachable", "judge-unread"})
"""Problems of a case whose judge could not be asked or gave no verdict: it has no reward, right or wrong."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One probe and what it earned."""

    probe: Probe
    scored: Scored

    @property
    def reward(self) -> float | None:
        return self.scored.reward


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same probe scored among all others, then in the same order again, and in reverse."""

    probe: Probe
    first: Scored
    again: Scored
    reverse: Scored


def same(left: float | None, right: float | None) -> bool:
    """Two rewards that are equal but for rounding, or both not computed."""
    if left is None or right is None:
        return left is right
    return abs(left - right) < EPSILON


def differs(repeat: Repeat) -> bool:
    """The same text earned something else in the same process."""
    first, again, reverse = (s.reward for s in (repeat.first, repeat.again, repeat.reverse))
    return not (same(first, again) and same(first, reverse))


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How scoring some completions behaved. `broken`: why that could not be seen, although each alone could be scored.

    `manners` belong to `shots`, one each; empty where it is broken.
    """

    shots: tuple[Shot, ...]
    manners: tuple[Manner, ...]
    broken: str = ""

    @property
    def pairs(self) -> Iterator[tuple[Shot, Manner]]:
        yield from zip(self.shots, self.manners, strict=False)


@dataclass(frozen=True, slots=True)
class Abroad:
    """A completion and what it earned in another process, whose strings hash otherwise."""

    shot: Shot
    there: Scored


@dataclass(frozen=True, slots=True)
class Supplied:
    """A case that the caller gave, and what it must earn: a number, `high` (half of the maximum or more) or `low`."""

    shot: Shot
    expected: Expected

    @property
    def high(self) -> bool:
        return self.expected == "high" or (isinstance(self.expected, int | float) and self.expected >= 0.5)


@dataclass(frozen=True, slots=True)
class Judging:
    """The models that rewards ask. `through` is the endpoint they were asked at by way of our relay, `capped` how many
    questions its cap refused. `named`: models that the package or its arguments name; others are a library's default.
    """

    judges: tuple[JudgeInfo, ...]
    named: frozenset[str]
    through: str | None = None
    capped: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """Everything one call observed. `style` is None where the tasks hold no gold that a completion could say."""

    rewards: tuple[RewardInfo, ...]
    style: Style | None
    asked: bool
    golds: tuple[Shot, ...] = ()
    """The gold of every task of the sample, rendered in `style`."""
    shots: tuple[Shot, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    supplied: tuple[Supplied, ...] = ()
    unmatched: tuple[str, ...] = ()
    """Names of supplied cases whose answer no task has."""
    faults: tuple[Shot, ...] = ()
    """Completions that hung or ended their process, those included that only looked for the right way to write."""
    behaviour: Behaviour | None = None
    abroad: tuple[Abroad, ...] = ()
    rollouts: tuple[Performed, ...] = ()
    """Whole rollouts with a scripted model; only of environments where more can happen than one reply."""
    no_rollouts: str = ""
    """Why those could not be run here."""
    rollouts_broke: str = ""
    """How the process ended while they ran."""
    by_rollouts: bool = False
    """`golds` and `shots` are rollouts: scored alone, a reply cannot earn what a rollout does."""
    gave_up: bool = False
    tasks: int | None = None
    renderings: int = 0
    """How many ways to say the gold were tried."""
    judging: Judging | None = None
    """None where no reward asks a judge, as far as was seen."""

    @property
    def declared(self) -> float:
        """The sum of the positive weights: what is attainable when every reward is at most 1.

        A member of an EnvGroup scores its own tasks only, so the weights that golds were really scored with bound it.
        """
        stated = sum(r.weight for r in self.rewards if r.kind != "metric" and r.weight > 0)
        used = [sum(max(0.0, c.weight) for c in s.scored.components.values()) for s in self.golds]
        return min(stated, max(used, default=stated) or stated) or 1.0

    @property
    def max_reward(self) -> float:
        """The highest reward that a right completion earned. 0 where none earned anything."""
        right = [s.reward for s in (*self.golds, *self.of("gold"), *self.of("verbose")) if s.reward is not None]
        right += [s.shot.reward for s in self.supplied if s.high and s.shot.reward is not None]
        return max(right, default=0.0) if max(right, default=0.0) > 0 else 0.0

    @property
    def everything(self) -> Iterator[Shot]:
        """Every scored completion once."""
        kept = (*self.golds, *self.shots, *(s.shot for s in self.supplied))
        yield from kept
        known = {(s.probe.row, s.probe.completion) for s in kept}
        yield from (s for s in self.faults if (s.probe.row, s.probe.completion) not in known)

    @property
    def run(self) -> int:
        """How many completions were scored."""
        return sum("not-run" not in s.scored.problems for s in self.everything)

    @property
    def asked_judge(self) -> list[Shot]:
        """The completions for which a judge was asked, or could not be."""
        return [s for s in self.everything if s.scored.judges or JUDGE_FAILED & set(s.scored.problems)]

    def of(self, *kinds: Kind) -> list[Shot]:
        return [s for s in self.shots if s.probe.kind in kinds]

    def with_problem(self, *codes: str) -> list[Shot]:
        """Completions whose scoring had one of these problems. Behind a colon a problem names details."""
        return [s for s in self.everything if any(p.partition(":")[0] in codes for p in s.scored.problems)]

    def named(self, prefix: str) -> list[Shot]:
        return [s for s in self.shots if s.probe.name.startswith(prefix)]

    def gold(self, row: int) -> float | None:
        """What the shortest right completion of a task earned."""
        return next((s.reward for s in self.shots if s.probe.row == row and s.probe.kind == "gold"), None)

    def wrong(self, row: int) -> float | None:
        """The most that a plainly wrong, well-formed completion of a task earned."""
        paid = [
            s.reward
            for s in self.shots
            if s.probe.row == row and s.probe.kind == "wrong" and not s.probe.near and s.reward is not None
        ]
        return max(paid, default=None)
