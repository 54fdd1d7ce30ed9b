"""What one evaluation is, as a value that survives in a job's folder and in the ledger. Never holds a credential."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

Api = Literal["v0", "v1"]
Preset = Literal["prime", "openai", "openrouter", "vllm", "ollama", "url"]

IN_PROCESS = "null"
"""The harness that our own in-process chat harness stands in for."""
ASK_FROM = 1.0
"""US dollars from which an evaluation is asked about first (DESIGN section 3)."""
ASSUMED_PROMPT, ASSUMED_COMPLETION = 1000, 2048
"""Tokens of a rollout for an estimate, where neither prompts nor a limit are known."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint. `key_variable` names where its key was found; the key itself is never here."""

    preset: Preset
    url: str
    key_variable: str | None = None
    team: str | None = None
    """Sent as X-Prime-Team-ID."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """One evaluation of one snapshot. `tree`, `python` and `program` say where; the rest says what."""

    environment: str
    source: str
    content: str
    tree: Path
    api: Api
    module: str
    python: Path
    program: Path
    """The `vf-eval` of that Python."""
    verifiers: str
    model: str
    endpoint: Endpoint
    num_examples: int
    rollouts: int
    tasks: int | None = None
    """Tasks of the whole taskset; None where they were not counted."""
    infinite: bool = False
    max_tokens: int | None = None
    temperature: float = 1.0
    env_args: Mapping[str, Any] = field(default_factory=dict)
    harness: str = IN_PROCESS
    runtime: str = "subprocess"
    concurrency: int = 32
    seed: int = 0
    deadline_s: float = 3600.0
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of every reward as the loaded environment states them; v0 results do not repeat them."""
    prompt_tokens: int | None = None
    """Mean of a sample of the environment's prompts, for the estimate; None where no prompt was seen."""
    seats: Mapping[str, Any] = field(default_factory=dict)
    """Agents of the environment's own `Env` by name: `[harness, runtime]`, where an empty text (or an empty list) lets
    the environment's own setting hold. Empty: one agent with `harness` and `runtime`."""
    price: Price | None = None
    max_cost: float | None = None
    """US dollars at which the relay stops answering."""
    max_total_tokens: int | None = None
    """Prompt and completion tokens at which the relay stops answering."""
    hosted: str | None = None
    """`owner/name@version` on the Hub, for an evaluation that runs on the platform."""
    rescored: str | None = None
    """Id of the evaluation whose rollouts this one scores again, without inference."""

    @property
    def planned_tasks(self) -> int:
        return self.num_examples if self.tasks is None else min(self.num_examples, self.tasks)

    @property
    def planned(self) -> int:
        """Rollouts that a complete run has."""
        return self.planned_tasks * self.rollouts

    @property
    def resumes(self) -> bool:
        """Whether a run that was broken off goes on where it ended (v1, and v0 from 0.1.14 on)."""
        return self.api == "v1" or _at_least(self.verifiers, "0.1.14")

    @property
    def estimate(self) -> dict[str, Any]:
        """What it asks for at most, with one turn a rollout: `{rollouts, tokens{prompt, completion}, cost?}`."""
        prompt = self.planned * (self.prompt_tokens or ASSUMED_PROMPT)
        completion = self.planned * (self.max_tokens or ASSUMED_COMPLETION)
        known: dict[str, Any] = {
            "rollouts": self.planned,
            "tokens": {"prompt": prompt, "completion": completion},
        }
        return known | ({} if self.price is None else {"cost": round(self.price.of(prompt, completion), 4)})

    @property
    def sampling(self) -> dict[str, Any]:
        """As sent to the endpoint; what is not in it is the server's default."""
        given: dict[str, Any] = {"temperature": self.temperature}
        if self.max_tokens is not None:
            given["max_tokens"] = self.max_tokens
        return given

    @property
    def in_process(self) -> bool:
        return self.api == "v1" and any(self.plain(name) for name in self.seats or ("agent",))

    def plain(self, seat: str) -> bool:
        """Whether an agent is played by our in-process harness."""
        found = self.seats.get(seat, ()) if self.seats else (self.harness, self.runtime)
        return tuple(found) == (IN_PROCESS, "subprocess")

    @property
    def harness_name(self) -> str | None:
        """The harness as reports name it; v0 has none."""
        if self.api == "v0" or self.hosted is not None:
            return None
        return f"{self.harness} (in-process)" if self.in_process and self.harness == IN_PROCESS else self.harness

    @property
    def order(self) -> str:
        """How the tasks are chosen: `shuffled` with the seed, or `file` where this verifiers cannot shuffle.

        The platform does not say how it chooses.
        """
        if self.hosted is not None:
            return "the platform's"
        return "file" if self.api == "v0" and not shuffles(self.verifiers) else f"shuffled (seed {self.seed})"

    @property
    def intent(self) -> str:
        """The same intent is the same evaluation: a live one is attached to, a broken one is resumed."""
        kept = {k: v for k, v in self.as_json().items() if k not in _INCIDENTAL}
        return hashlib.sha256(canonical(kept).encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        shown = asdict(self)
        for name in _PATHS:
            shown[name] = str(shown[name])
        shown["env_args"], shown["weights"] = dict(self.env_args), dict(self.weights)
        shown["seats"] = {name: list(seat) for name, seat in self.seats.items()}
        return shown

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> EvalSpec:
        """The inverse of `as_json`; raises TypeError or KeyError for anything else."""
        values = dict(raw)
        for name in _PATHS:
            values[name] = Path(values[name])
        values["endpoint"] = Endpoint(**values["endpoint"])
        values["price"] = Price(**values["price"]) if values.get("price") else None
        return cls(**values)


_PATHS = ("tree", "python", "program")
_INCIDENTAL = frozenset(
    {
        "environment",
        "weights",
        *_PATHS,
        "tasks",
        "concurrency",
        "deadline_s",
        "price",
        "max_cost",
        "max_total_tokens",
        "prompt_tokens",
    }
)
"""Parts that change where or how fast an evaluation runs, not what it measures."""


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def shuffles(verifiers: str) -> bool:
    """Whether the v0 `vf-eval` of this version takes --shuffle (0.2.1 and newer)."""
    return _at_least(verifiers, "0.2.1")


def _at_least(version: str, least: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) >= Version(least)
    except InvalidVersion:
        return False
