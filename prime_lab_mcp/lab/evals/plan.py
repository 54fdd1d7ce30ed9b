"""From what a caller asked to a complete EvalSpec, and what it will cost at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.errors import BadInput, EvalError
from prime_lab_mcp.lab.evals.endpoints import Access
from prime_lab_mcp.lab.evals.spec import IN_PROCESS, EvalSpec, Price
from prime_lab_mcp.lab.interpreter import Interpreter, own_scripts
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.worker.cases import Loaded

MAX_TOKENS = 2048
"""Completion tokens unless asked otherwise: what fits prime-rl's default sequence."""
_PROMPT_TOKENS = 1000
"""Assumed for an estimate before any prompt was seen."""
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
    harness: str = IN_PROCESS
    runtime: str = "subprocess"
    concurrency: int = 32
    seed: int = 0

    def estimate(self, price: Price) -> float:
        """An upper bound in US dollars for one turn a rollout."""
        each = price.of(_PROMPT_TOKENS, self.max_tokens or MAX_TOKENS)
        return self.num_examples * self.rollouts * each


def plan(
    snapshot: Snapshot,
    interpreter: Interpreter,
    loaded: Loaded,
    access: Access,
    wanted: Wanted,
    remaining: float | None,
) -> EvalSpec:
    """The evaluation to run. `remaining` is what the spending cap still allows. Raises BadInput, EvalError."""
    if loaded.shadowed_by:
        raise BadInput(
            f"vf-eval would load {loaded.shadowed_by} of verifiers instead of {snapshot.name}: they share a name",
            fix="Rename the project and its module, then call check_environment.",
            code="name-taken",
        )
    if loaded.api == "v0" and wanted.harness != IN_PROCESS:
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
        harness=wanted.harness,
        runtime=wanted.runtime,
        concurrency=wanted.concurrency,
        seed=wanted.seed,
        deadline_s=min(_DEADLINE_HIGH, max(_DEADLINE_LOW, seconds)),
        weights={r.name: r.weight for r in loaded.rewards if r.kind != "metric"},
        price=access.price,
        max_cost=_cap(access.price, wanted, remaining),
    )


def _cap(price: Price | None, wanted: Wanted, remaining: float | None) -> float | None:
    if price is None:
        return None
    cap = max(_LEAST_CAP, _HEADROOM * wanted.estimate(price))
    return cap if remaining is None else max(0.0, min(cap, remaining))
