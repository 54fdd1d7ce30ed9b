"""Completions to be scored by a worker, and the results of their scoring, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.worker.child.protocol import ScoreReply, SideEffectsReply
from prime_lab_mcp.lab.worker.description import JudgeInfo, Message, decode_judges, optional_float
from prime_lab_mcp.lab.worker.faults import DEEDS, Problem, ProblemCode, nonsense


@dataclass(frozen=True, slots=True)
class Case:
    """A completion to be scored for one task. `messages` are those of the model and its tools; empty means no reply.

    `company` are other completions of the task, which a group reward gets together with this one.
    """

    id: str
    row: int
    messages: Sequence[Message]
    company: Sequence[Sequence[Message]] = ()


@dataclass(frozen=True, slots=True)
class Component:
    """The score of one reward function. `score` is None where it was not computed or is not finite."""

    score: float | None
    weight: float


@dataclass(frozen=True, slots=True)
class CaseError:
    """An exception of a scoring function. All fields are foreign text."""

    type: str
    message: str
    where: str


@dataclass(frozen=True, slots=True)
class Scored:
    """One scored case. `reward` is None where the environment's scoring failed or the reward is not finite."""

    id: str
    reward: float | None
    components: Mapping[str, Component] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    errors: tuple[CaseError, ...] = ()
    problems: tuple[Problem, ...] = ()
    ms: float = 0.0
    judges: tuple[JudgeInfo, ...] = ()
    """Models that were asked."""
    members: tuple[Scored, ...] = ()
    """The results of the single rollouts, where stored rollouts were scored as a group."""
    branches: tuple[str, ...] = ()
    """In a search: branches of the environment's code that no earlier completion of the search took."""

    @property
    def broken(self) -> bool:
        """Whether scoring failed, so that the reward is meaningless."""
        return bool(self.errors) or any(p.code not in DEEDS for p in self.problems)

    def has(self, *codes: ProblemCode) -> bool:
        """Whether scoring had one of these problems."""
        return any(p.code in codes for p in self.problems)

    def details(self, code: ProblemCode) -> list[str]:
        """The details of all problems with this code. The details are foreign text."""
        return [p.detail for p in self.problems if p.code == code]


@dataclass(frozen=True, slots=True)
class SideEffects:
    """The side effects of one scoring.

    `alone` is the reward when scored alone. `together` is the reward under concurrency in one event loop, None where
    that was not tried. `mutated` names the inputs that scoring changed. `blocked_ms` is the longest time for which
    scoring blocked the event loop.
    """

    id: str
    alone: float | None
    together: tuple[float | None] | None = None
    mutated: tuple[str, ...] = ()
    blocked_ms: float = 0.0


def decode_scored(reply: ScoreReply, id: str) -> Scored:
    """Decode the result of one scored case. Raises WorkerError for anything but a valid reply."""
    try:
        return Scored(
            id=id,
            reward=optional_float(reply["reward"]),
            components={
                str(n): Component(optional_float(c["score"]), float(c["weight"] or 0.0))
                for n, c in reply["components"].items()
            },
            metrics={str(n): optional_float(v) for n, v in reply["metrics"].items()},
            errors=tuple(CaseError(str(e["type"]), str(e["message"]), str(e["where"])) for e in reply["errors"]),
            problems=tuple(Problem(ProblemCode(p["code"]), str(p["detail"])) for p in reply["problems"]),
            ms=float(reply["ms"]),
            judges=decode_judges(reply["judges"]),
            members=tuple(decode_scored(member, id) for member in reply.get("members", ())),
            branches=tuple(str(branch)[:300] for branch in reply.get("branches", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("score", reply) from error


def decode_side_effects(reply: Sequence[SideEffectsReply], cases: Sequence[Case]) -> list[SideEffects]:
    """Decode the reply to a side-effects request. Raises WorkerError for anything but a valid reply."""
    try:
        return [
            SideEffects(
                case.id,
                optional_float(measured["alone"]),
                None if measured["together"] is None else (optional_float(measured["together"][0]),),
                tuple(str(name)[:80] for name in measured["mutated"]),
                float(measured["blocked"]) * 1000,
            )
            for case, measured in zip(cases, reply, strict=True)
        ]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise nonsense("together", reply) from error
