"""Whole rollouts with a scripted model: what is asked of a worker, and what comes back, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from prime_lab_mcp.lab.errors import WorkerError
from prime_lab_mcp.lab.worker.cases import CaseError, Component, Message
from prime_lab_mcp.lab.worker.decoding import nonsense

End = Literal["ended", "endless", "cut", "slow", "not-run"]
_ENDS = frozenset({"ended", "endless", "cut", "slow", "not-run"})
TURNS = 30
"""Turns of a rollout whose environment states a limit (`max_turns`); a longer one is cut there."""
ENDLESS = 120
"""Turns after which a rollout that states no limit counts as one without an end: games of 50 moves are usual."""
ROLLOUT_SECONDS = 20.0
SERVING = 40.0
"""Seconds for the tool servers of a taskset (v1), each a process that imports verifiers."""


@dataclass(frozen=True, slots=True)
class Play:
    """One rollout to run: a task, and what the model says there (worker/rollouts.py)."""

    row: int
    script: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that the model was offered. All of it is foreign text."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rolled:
    """One rollout. `reward` is None where it failed or did not end.

    `end`: `ended`; `endless` (no limit, stopped by us), `cut` (a stated limit beyond what is tried), `slow`, `not-run`.
    """

    messages: tuple[Message, ...]
    reward: float | None
    end: End
    ok: bool
    components: Mapping[str, Component] = field(default_factory=dict)
    stop: str = ""
    errors: tuple[CaseError, ...] = ()
    turns: int = 0
    tools: tuple[Offered, ...] = ()
    state: tuple[str, ...] = ()
    """What the rollout left for its reward beside its messages: keys of the state, hooks of the environment."""
    alone: float | None = None
    """What the same messages earn when they are scored without a rollout."""
    again: float | None = None
    """What the rollout as it ended earns when it is scored once more, after the others."""
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Rollouts:
    """What was asked for, in order. `unavailable`: why none could be run here."""

    rolled: tuple[Rolled, ...]
    unavailable: str = ""


def request(plays: Sequence[Play], seconds: float, case_timeout: float) -> dict[str, Any]:
    """The request for a worker."""
    return {
        "op": "rollout",
        "rollouts": [{"row": play.row, "script": dict(play.script)} for play in plays],
        "seconds": seconds,
        "rollout_seconds": ROLLOUT_SECONDS,
        "serving": SERVING,
        "turns": TURNS,
        "endless": ENDLESS,
        "case_timeout": case_timeout,
    }


def decode(reply: Any) -> Rollouts:
    """A `rollout` reply as a value. Raises WorkerError."""
    try:
        return Rollouts(tuple(map(_rolled, reply["rollouts"])), str(reply["unavailable"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _nonsense(reply) from error


def _nonsense(reply: object) -> WorkerError:
    return nonsense("rollout", reply)


def _rolled(told: Any) -> Rolled:
    if told["end"] not in _ENDS:
        raise ValueError(told["end"])
    return Rolled(
        messages=tuple(dict(m) for m in told["messages"]),
        reward=_float(told["reward"]),
        end=cast(End, told["end"]),
        ok=bool(told["ok"]),
        components={
            str(n): Component(_float(c["score"]), float(c["weight"] or 0.0)) for n, c in told["components"].items()
        },
        stop=str(told["stop"]),
        errors=tuple(CaseError(str(e["type"]), str(e["message"]), str(e["where"])) for e in told["errors"]),
        turns=int(told["turns"]),
        tools=tuple(Offered(str(t["name"]), str(t["description"]), dict(t["parameters"])) for t in told["tools"]),
        state=tuple(map(str, told["state"])),
        alone=_float(told["alone"]),
        again=_float(told["again"]),
        ms=float(told["ms"]),
    )


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
