"""From what a caller asked to a complete EvalSpec, and what it will cost at most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.datasets.tokens import estimate
from prime_lab_mcp.lab.errors import BadInput, EvalError
from prime_lab_mcp.lab.evals.endpoints import Access
from prime_lab_mcp.lab.evals.seats import seating
from prime_lab_mcp.lab.evals.spec import ASSUMED_PROMPT, IN_PROCESS, EvalSpec, Price
from prime_lab_mcp.lab.interpreter import Interpreter, own_scripts
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.worker.cases import Loaded, Role, Row

MAX_TOKENS = 2048
"""Completion tokens unless asked otherwise: what fits prime-rl's default sequence."""
_HEADROOM = 4.0
"""The relay's cap over the estimate: several turns and judges are paid by the same endpoint."""
_LEAST_CAP = 1.0
_SECONDS_EACH = 60.0
_DEADLINE_LOW, _DEADLINE_HIGH = 3600.0, 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller chose."""

    model: str
    num_examples: int
    rollouts: int
    max_tokens: int | None = None
    temperature: float | None = None
    env_args: Mapping[str, Any] = field(default_factory=dict)
    harness: str | None = None
    """None, like the runtime: the environment's own, else the plain chat on this machine."""
    runtime: str | None = None
    concurrency: int = 32
    seed: int = 0

    def estimate(self, price: Price, prompt: int | None = None) -> float:
        """An upper bound in US dollars for one turn a rollout; `prompt` is its tokens, where some were seen."""
        each = price.of(max(prompt or 0, ASSUMED_PROMPT), self.max_tokens or MAX_TOKENS)
        return self.num_examples * self.rollouts * each


def plan(
    snapshot: Snapshot,
    interpreter: Interpreter,
    loaded: Loaded,
    access: Access,
    wanted: Wanted,
    remaining: float | None,
    roles: Sequence[Role] | None = None,
    prompts: Sequence[int] = (),
) -> EvalSpec:
    """The evaluation to run. Raises BadInput, EvalError.

    `remaining` is what the spending cap still allows, `roles` are the agents of the environment (v1), `prompts` the
    tokens of some of its prompts.
    """
    if loaded.shadowed_by:
        raise BadInput(
            f"vf-eval would load {loaded.shadowed_by} of verifiers instead of {snapshot.name}: they share a name",
            fix="Rename the project and its module, then call check_environment.",
            code="name-taken",
        )
    if loaded.api == "v0" and wanted.harness not in (None, IN_PROCESS):
        raise BadInput(
            "harness applies to v1 environments, and this one is v0", fix="Leave harness out.", code="bad-input"
        )
    program = interpreter.program("vf-eval") or own_scripts() / "vf-eval"
    if not program.is_file():
        raise EvalError(
            "vf-eval is not installed beside the environment's Python",
            fix="Run preflight(install=true).",
            code="program-missing",
        )
    assert snapshot.manifest.module is not None
    seated = seating(roles, wanted.harness, wanted.runtime)
    each = math.ceil(sum(prompts) / len(prompts)) if prompts else None
    seconds = wanted.num_examples * wanted.rollouts * _SECONDS_EACH / wanted.concurrency
    return EvalSpec(
        environment=snapshot.name,
        source=snapshot.source,
        content=snapshot.content,
        tree=snapshot.tree,
        api=loaded.api,
        module=snapshot.manifest.module,
        python=interpreter.python,
        program=program,
        verifiers=loaded.verifiers_version,
        model=wanted.model,
        endpoint=access.endpoint,
        num_examples=wanted.num_examples,
        rollouts=wanted.rollouts,
        tasks=loaded.tasks,
        infinite=loaded.infinite,
        max_tokens=wanted.max_tokens or MAX_TOKENS,
        temperature=1.0 if wanted.temperature is None else wanted.temperature,
        env_args=dict(wanted.env_args),
        harness=seated.harness,
        runtime=seated.runtime,
        seats=seated.seats,
        prompt_tokens=each,
        concurrency=wanted.concurrency,
        seed=wanted.seed,
        deadline_s=min(_DEADLINE_HIGH, max(_DEADLINE_LOW, seconds)),
        weights={r.name: r.weight for r in loaded.rewards if r.kind != "metric"},
        price=access.price,
        max_cost=_cap(access.price, wanted, remaining, each),
    )


def prompt_tokens(row: Row) -> int:
    """Roughly, as tokens.py cuts text; what templates and tools add is not in it."""
    return sum(estimate(str(message.get("content") or "")) for message in row.prompt)


def _cap(price: Price | None, wanted: Wanted, remaining: float | None, prompt: int | None) -> float | None:
    if price is None:
        return None
    cap = max(_LEAST_CAP, _HEADROOM * wanted.estimate(price, prompt))
    return cap if remaining is None else max(0.0, min(cap, remaining))
