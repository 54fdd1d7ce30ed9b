"""The specification of one evaluation: what it measures, where it runs and what it may cost.

The folder of the evaluation's job and the ledger store the specification as JSON. It never holds a credential.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prime_lab_mcp.lab.base.versions import FIRST_RESUMED_V0, FIRST_WITH_SHUFFLE
from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price
from prime_lab_mcp.lab.state.arguments import ordered_text

if TYPE_CHECKING:
    from prime_lab_mcp.lab.distribution.floor import FrequentAnswer

Api = Literal["v0", "v1"]

IN_PROCESS_HARNESS = "null"
"""Name of the verifiers harness in whose place our own chat harness runs, inside the process of `vf-eval`."""
DOCKER = "docker"
"""The runtime that uses the user's Docker service, through which a program can do anything on the machine."""
PODMAN = "podman"
"""The runtime whose containers a broker outside of the confinement runs (lab/sandbox/containers)."""
ASK_FROM = 1.0
"""Cost in US dollars from which the user is asked before an evaluation starts."""
ASK_AFTER = 5.0
"""US dollars. Evaluations below `ASK_FROM` start unasked until their sum reaches this amount; then the user is
asked."""
HEADROOM = 4.0
"""The most that an evaluation may cost, as a multiple of the estimate for one turn per rollout. Further turns and
judges use the same endpoint. The relay stops answering at this cost."""
CONTAINER_CONCURRENCY = 8
"""Rollouts at the same time if they run in containers and the caller names no number. Each starts several programs."""
SOLUTIONS_AT_ONCE = 4
"""Rollouts at the same time in which `test_reward` times solutions (worker/child/scripted_rollouts_v1.py)."""
_MOST_CONTAINERS = 256
ASSUMED_PROMPT_TOKENS, ASSUMED_COMPLETION_TOKENS = 1000, 2048
"""Tokens per rollout in an estimate, if the length of the prompts and the token limit are unknown."""


ONE_TURN = "one turn each"
"""The basis of an estimate where no evaluation counted the tokens of a rollout."""


@dataclass(frozen=True, slots=True)
class MeasuredRollout:
    """What one rollout takes, as earlier calls measured it. `prompt` and `completion` are mean tokens, None if no
    evaluation counted them; `seconds` is the time of one rollout, None if nobody timed it."""

    prompt: float | None = None
    completion: float | None = None
    seconds: float | None = None
    timed_by: str = ""
    """Id of the evaluation that timed it, or `test_reward`."""
    evaluation: str = ""
    """Id of the evaluation that counted the tokens."""
    rollouts: int = 0
    """Rollouts of that evaluation."""
    otherwise: str = ""
    """How that evaluation differs in what it evaluated, in words ("with other arguments"); empty if it does not."""


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """One evaluation of one snapshot of an environment.

    `source` and `content` are the fingerprints of the snapshot, and `tree` is the folder with its files. `python` is
    the environment's interpreter.
    """

    environment: str
    source: str
    content: str
    tree: Path
    api: Api
    module: str
    python: Path
    program: Path
    """The `vf-eval` of the environment's interpreter."""
    verifiers: str
    model: str
    endpoint: Endpoint
    num_examples: int
    rollouts: int
    tasks: int | None = None
    """Number of tasks in the whole taskset. None if they were not counted."""
    infinite: bool = False
    max_tokens: int | None = None
    temperature: float = 1.0
    env_args: Mapping[str, Any] = field(default_factory=dict)
    harness: str = IN_PROCESS_HARNESS
    runtime: str = "subprocess"
    concurrency: int = 32
    seed: int = 0
    deadline_s: float = 3600.0
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of every reward, as the loaded environment states it. The results of v0 do not store weights."""
    prompt_tokens: int | None = None
    """Mean length of some prompts, for the estimate. None if no prompt was read."""
    agents: Mapping[str, Any] = field(default_factory=dict)
    """`[harness, runtime]` by agent, for an environment with its own `Env`. An empty string or list keeps the
    environment's own setting. An empty mapping means one agent with `harness` and `runtime`."""
    price: Price | None = None
    max_cost: float | None = None
    """Cost in US dollars at which the relay stops answering."""
    max_total_tokens: int | None = None
    """Sum of prompt and completion tokens at which the relay stops answering."""
    hosted: str | None = None
    """`owner/name@version` on the Hub, for an evaluation that runs on the platform."""
    distributions: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the distributions that the package required when the evaluation was planned. An evaluation with
    other fingerprints has another intent."""
    rehearsed: tuple[int, int] | None = None
    """In a rehearsal of an environment with tools or turns: the number of tasks whose solution the scripted model can
    play, and the number of all tasks that it received. None otherwise."""
    stated_form: str = ""
    """In a rehearsal: the form that a caller named in the newest passed test of the reward, in which the scripted model
    writes. Another form is another evaluation; empty otherwise."""
    by: str = ""
    """The task field by whose values the tasks were drawn in equal shares; empty for a plain draw."""
    drawn: tuple[int, ...] = ()
    """Indices of the tasks that were drawn by `by`."""
    draw_bias: float = 0.0
    """Share of the drawn tasks that would be others in a plain draw (`stratified.draw_bias`)."""
    rescored: str | None = None
    """Id of the evaluation whose rollouts this one scores again, without inference."""
    measured: MeasuredRollout | None = None
    """What a rollout takes, as earlier calls measured it; None where nothing was measured."""
    frequent: FrequentAnswer | None = None
    """The most frequent reference answer of all tasks; None if the answers are not labels or were not read."""

    @property
    def planned_tasks(self) -> int:
        """Number of tasks of a complete run."""
        return self.num_examples if self.tasks is None else min(self.num_examples, self.tasks)

    @property
    def available(self) -> int | None:
        """Number of tasks of the environment. None if they were not counted or the taskset is infinite."""
        return None if self.infinite else self.tasks

    @property
    def planned(self) -> int:
        """Number of rollouts of a complete run."""
        return self.planned_tasks * self.rollouts

    @property
    def resumes(self) -> bool:
        """Whether an interrupted run can continue where it ended (v1, and v0 from 0.1.14 on)."""
        return self.api == "v1" or _at_least(self.verifiers, FIRST_RESUMED_V0)

    @property
    def estimate(self) -> dict[str, Any]:
        """The estimate for reports: `{rollouts, tokens{prompt, completion}, basis, minutes?, cost?, at_most?}`, costs
        in US dollars.

        `tokens` and `cost` are likely ones: as an earlier evaluation measured them (`basis` names it), or else for one
        turn per rollout and the longest reply. `at_most` is the amount that is reserved and at which the relay stops
        answering. `minutes` is absent where no rollout was timed.
        """
        known = self.measured
        if known is not None and known.prompt is not None and known.completion is not None:
            prompt, completion = (round(self.planned * each) for each in (known.prompt, known.completion))
            otherwise = f" {known.otherwise}" if known.otherwise else ""
            basis = f"as {known.rollouts:,} rollouts of {known.evaluation} took{otherwise}"
        else:
            prompt = self.planned * (self.prompt_tokens or ASSUMED_PROMPT_TOKENS)
            completion = self.planned * (self.max_tokens or ASSUMED_COMPLETION_TOKENS)
            basis = ONE_TURN
        estimate: dict[str, Any] = {
            "rollouts": self.planned,
            "tokens": {"prompt": prompt, "completion": completion},
            "basis": basis,
        }
        if known is not None and known.seconds is not None:
            together = max(1, min(self.concurrency, self.planned))
            if known.timed_by == "test_reward":
                together = min(together, SOLUTIONS_AT_ONCE)
            estimate["minutes"] = round(self.planned * known.seconds / together / 60, 1)
        if self.max_cost is not None:
            estimate["at_most"] = round(self.max_cost, 4)
        if self.price is None:
            return estimate
        cost = self.price.of(prompt, completion)
        return estimate | {"cost": round(cost if self.max_cost is None else min(cost, self.max_cost), 4)}

    @property
    def minutes_sentence(self) -> str:
        """How long the evaluation takes, for a question or a report; empty where no rollout was timed, or where it
        takes less than a minute."""
        minutes = self.estimate.get("minutes")
        if self.measured is None or minutes is None or minutes < 1:
            return ""
        place = " in a container" if self.uses_podman else ""
        if self.measured.timed_by == "test_reward":
            return (
                f" It takes at least {minutes:.0f} minutes: a solution{place} took {self.measured.seconds:.0f} seconds "
                "in test_reward. A model's rollout takes longer: its harness is set up there, and the model thinks."
            )
        by = f"in {self.measured.timed_by}"
        together = min(self.concurrency, self.planned)
        return (
            f" It takes about {minutes:.0f} minutes: a rollout{place} took {self.measured.seconds:.0f} seconds {by}, "
            f"and {together} run at a time."
        )

    @property
    def sampling(self) -> dict[str, Any]:
        """Sampling arguments that requests to the endpoint carry. The server's defaults apply to all others."""
        sampling: dict[str, Any] = {"temperature": self.temperature}
        if self.max_tokens is not None:
            sampling["max_tokens"] = self.max_tokens
        return sampling

    @property
    def in_process(self) -> bool:
        """Whether the in-process chat harness plays at least one agent."""
        return self.api == "v1" and any(self.uses_chat_harness(name) for name in self.agents or ("agent",))

    def uses_chat_harness(self, agent: str) -> bool:
        """Whether our in-process harness plays this agent."""
        assignment = self.agents.get(agent, ()) if self.agents else (self.harness, self.runtime)
        return tuple(assignment) == (IN_PROCESS_HARNESS, "subprocess")

    @property
    def uses_podman(self) -> bool:
        """Whether rollouts of this evaluation run in containers of Podman."""
        return PODMAN in self.runtime

    @property
    def most_containers(self) -> int:
        """Most containers at the same time: a rollout may have some for its agents, tool servers and checks."""
        return min(_MOST_CONTAINERS, max(16, 4 * self.concurrency))

    @property
    def harness_name(self) -> str | None:
        """The harness as reports name it. None for v0 and for hosted evaluations."""
        if self.api == "v0" or self.hosted is not None:
            return None
        return (
            f"{self.harness} (in-process)" if self.in_process and self.harness == IN_PROCESS_HARNESS else self.harness
        )

    @property
    def order(self) -> str:
        """The order in which tasks are chosen: `shuffled` with the seed, or `file` if this verifiers version cannot
        shuffle.

        For a hosted evaluation the platform chooses the tasks and does not document how.
        """
        if self.hosted is not None:
            return "the platform's"
        if self.by:
            return f"drawn in equal shares by {self.by} (seed {self.seed})"
        return "file" if self.api == "v0" and not can_shuffle(self.verifiers) else f"shuffled (seed {self.seed})"

    @property
    def intent(self) -> str:
        """Fingerprint of all fields that change what the evaluation measures.

        A call with the same intent attaches to a live evaluation, or resumes one that broke off.
        """
        identity = {k: v for k, v in self.as_json().items() if k not in _INCIDENTAL}
        if self.endpoint.preset == "prime" and self.endpoint.on_loopback:
            # Each server process starts its own rehearsal platform, on its own port, with the same models.
            identity["endpoint"] = "rehearsal"
        if order := ordered_text(self.env_args):
            identity["order"] = order
        return hashlib.sha256(canonical_json(identity).encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Return the form that the ledger and the job's folder store."""
        fields = asdict(self)
        for name in _PATHS:
            fields[name] = str(fields[name])
        fields["env_args"], fields["weights"] = dict(self.env_args), dict(self.weights)
        fields["distributions"] = dict(self.distributions)
        if not self.by:  # Evaluations of earlier versions, which had no such draws, keep their intents.
            del fields["by"], fields["drawn"], fields["draw_bias"]
        if not self.stated_form:
            del fields["stated_form"]
        fields["seats"] = {name: list(assignment) for name, assignment in fields.pop("agents").items()}
        return fields

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> EvalSpec:
        """Inverse of `as_json`. Raises TypeError or KeyError for any other mapping."""
        fields = dict(raw)
        for name in _PATHS:
            fields[name] = Path(fields[name])
        fields["endpoint"] = Endpoint(**fields["endpoint"])
        fields["price"] = Price(**fields["price"]) if fields.get("price") else None
        fields["agents"] = fields.pop("seats", {})
        fields["drawn"] = tuple(fields.get("drawn", ()))
        if fields.get("by"):
            fields.setdefault("draw_bias", 1.0)  # Evaluations of earlier versions do not say which share it was.
        fields["measured"] = MeasuredRollout(**fields["measured"]) if fields.get("measured") else None
        fields["rehearsed"] = tuple(fields["rehearsed"]) if fields.get("rehearsed") else None
        frequent = fields.get("frequent")
        if frequent:
            from prime_lab_mcp.lab.distribution.floor import FrequentAnswer  # late: it imports the readers of rollouts

            fields["frequent"] = FrequentAnswer(**{**frequent, "answers": tuple(frequent["answers"])})
        return cls(**fields)


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
        "rehearsed",
        "measured",
        "frequent",
        "draw_bias",
    }
)
"""Fields that change where or how fast an evaluation runs, not what it measures."""


def canonical_json(value: Any) -> str:
    """Return the JSON of a value with sorted keys and no spaces, so that equal values have equal fingerprints."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def can_shuffle(verifiers: str) -> bool:
    """Whether the v0 `vf-eval` of this verifiers version has the flag --shuffle (0.2.1 and newer)."""
    return _at_least(verifiers, FIRST_WITH_SHUFFLE)


def _at_least(version: str, least: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version) >= Version(least)
    except InvalidVersion:
        return False
