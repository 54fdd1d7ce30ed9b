"""Turns a request for an evaluation into a complete EvalSpec, and limits its cost.

This module decides the harness and runtime of every agent. An environment without its own `Env` or harness runs with
the in-process chat harness on this machine, because the default of verifiers is a shell in a rented sandbox. An
environment with its own harness runs with that harness. An explicit argument of the caller takes precedence.

`run_eval_arguments` is the inverse: the arguments of run_eval that lead to a specification.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput, BudgetError, EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.text import count, estimate_tokens, quote
from prime_lab_mcp.lab.distribution.summary import MIN_ROLLOUTS, MIN_TASKS
from prime_lab_mcp.lab.evals.sandboxes import (
    APPTAINER,
    CONTAINERS,
    container_message,
    installed_containers,
    needs_container,
    require_installed,
)
from prime_lab_mcp.lab.evals.spec import (
    ASSUMED_PROMPT_TOKENS,
    CONTAINER_CONCURRENCY,
    DOCKER,
    HEADROOM,
    IN_PROCESS_HARNESS,
    PODMAN,
    EvalSpec,
)
from prime_lab_mcp.lab.interpreter import Interpreter, own_scripts
from prime_lab_mcp.lab.relay.endpoints import BY_URL, EndpointAccess, Price, presets_with_prices
from prime_lab_mcp.lab.state.snapshot import Snapshot, code_tree
from prime_lab_mcp.lab.worker.description import Loaded, Role, Row

DEFAULT_RUNTIME = "subprocess"
RENTED_RUNTIMES = frozenset({"prime", "modal", "e2b"})
"""Runtimes of verifiers that need an account. A local evaluation has no key of such an account."""


@dataclass(frozen=True, slots=True)
class AgentAssignment:
    """The harness and runtime of each agent.

    `harness` and `runtime` are texts for reports. `agents` is the value of EvalSpec.agents, which is empty for the
    usual single agent.
    """

    harness: str
    runtime: str
    agents: Mapping[str, Sequence[str]] = field(default_factory=dict)


def assign_agents(
    roles: Sequence[Role] | None,
    harness: str | None,
    runtime: str | None,
    *,
    container: bool = False,
    installed: Sequence[str] = CONTAINERS,
) -> AgentAssignment:
    """Choose the harness and runtime of each agent. Raises BadInput (`eval-needs-sandbox`).

    `roles` are the agents of the environment. `harness` and `runtime` are the caller's arguments, None if not given.
    `container` says that the tasks need a container, and `installed` are the container runtimes of this machine.
    """
    if runtime is not None:
        require_installed(runtime, installed)
    if container and runtime in (None, DEFAULT_RUNTIME):
        raise needs_container("its tasks need a container: without one, verifiers fails every rollout", installed)
    if not roles or not any(role.own for role in roles):
        return AgentAssignment(harness or IN_PROCESS_HARNESS, runtime or DEFAULT_RUNTIME)
    by_role = {role.name: _harness_and_runtime(role, harness, runtime, installed) for role in roles}
    if set(by_role) == {"agent"} and by_role["agent"] == (IN_PROCESS_HARNESS, DEFAULT_RUNTIME):
        return AgentAssignment(*by_role["agent"])
    agents = {role.name: _override(role, by_role[role.name], harness, runtime) for role in roles}
    return AgentAssignment(
        _summary({n: e[0] for n, e in by_role.items()}), _summary({n: e[1] for n, e in by_role.items()}), agents
    )


def _harness_and_runtime(
    role: Role, harness: str | None, runtime: str | None, installed: Sequence[str]
) -> tuple[str, str]:
    """Return the harness and runtime that an agent uses.

    Raises BadInput for a rented runtime, for Docker and for Apptainer if the caller did not name the runtime: the
    environment alone does not decide that an account or the user's Docker service is used.
    """
    chosen_harness, chosen_runtime = harness or role.harness, runtime or role.runtime
    if runtime is None and (chosen_runtime in (DOCKER, APPTAINER) or chosen_runtime in RENTED_RUNTIMES):
        if chosen_harness != IN_PROCESS_HARNESS:
            why = container_message(role.name, chosen_harness, chosen_runtime)
            raise needs_container(why, installed, subprocess=True)
        chosen_runtime = DEFAULT_RUNTIME  # the chat harness starts no programs, so it needs no sandbox
    return chosen_harness, chosen_runtime


def _override(role: Role, pair: tuple[str, str], harness: str | None, runtime: str | None) -> list[str]:
    """Return `[harness, runtime]` as EvalSpec.agents stores them: an empty string keeps the environment's setting."""
    if pair == (IN_PROCESS_HARNESS, DEFAULT_RUNTIME):
        return list(pair)
    changed = runtime or (pair[1] if pair[1] != role.runtime else "")
    return [harness or "", changed] if harness or changed else []


def _summary(names: Mapping[str, str]) -> str:
    distinct = set(names.values())
    return distinct.pop() if len(distinct) == 1 else ", ".join(f"{agent}: {name}" for agent, name in names.items())


MAX_TOKENS = 2048
"""Default token limit of one completion. With an ordinary prompt, it fits into prime-rl's default sequence length."""
_SECONDS_EACH = 60.0
_DEADLINE_LOW, _DEADLINE_HIGH = 3600.0, 6 * 3600.0


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """The evaluation that the caller asks for."""

    model: str
    num_examples: int
    rollouts: int
    max_tokens: int | None = None
    temperature: float | None = None
    env_args: Mapping[str, Any] = field(default_factory=dict)
    harness: str | None = None
    """None means the environment's own harness, or the in-process chat harness if the environment has none."""
    runtime: str | None = None
    """None means the environment's own runtime, or `DEFAULT_RUNTIME` if the environment has none."""
    concurrency: int = 32
    seed: int = 0
    budget: float | None = None
    """US dollars that the evaluation may cost at most."""
    explicit_sizes: frozenset[str] = frozenset()
    """Which of `num_examples`, `rollouts` and `concurrency` the caller named. A budget does not change these."""

    def within_budget(self, price: Price | None, prompt: int | None = None, *, free: bool = False) -> EvalRequest:
        """Return the largest request whose highest cost stays within the budget.

        The request first loses tasks, down to `MIN_TASKS`, and only then rollouts per task, down to `MIN_ROLLOUTS`: a
        group shows a gradient only with enough rollouts of one task, while a few tasks suffice for a verdict. `prompt`
        is the measured prompt length in tokens. Raises BudgetError if no size fits, EvalError without a price.
        """
        if self.budget is None or free:
            return self
        if price is None:
            raise EvalError(
                f"a budget needs a price, and none is listed for {quote(self.model, 100)}",
                fix=Fix(
                    f"Use an endpoint that lists prices ({presets_with_prices()}), or leave ",
                    SameCall.without("budget"),
                    " out.",
                ),
                code="price-unknown",
            )
        rollouts = (
            [self.rollouts]
            if "rollouts" in self.explicit_sizes
            else sorted({self.rollouts, MIN_ROLLOUTS}, reverse=True)
        )
        fewest = self.num_examples if "num_examples" in self.explicit_sizes else min(self.num_examples, MIN_TASKS)
        for each in rollouts:
            task = HEADROOM * replace(self, num_examples=1, rollouts=each).estimate(price, prompt)
            most = min(self.num_examples, math.floor(self.budget / task)) if task > 0 else self.num_examples
            if most >= fewest:
                return replace(self, num_examples=most, rollouts=each)
        smallest = replace(self, num_examples=fewest, rollouts=rollouts[-1])
        cost = math.ceil(100 * HEADROOM * smallest.estimate(price, prompt)) / 100
        size_note = "as asked" if self.explicit_sizes else "the fewest that a verdict can rest on"
        raise BudgetError(
            f"no evaluation fits ${self.budget:.2f}: {count(fewest, 'task')} x {count(rollouts[-1], 'rollout')} "
            f"({size_note}) of {quote(self.model, 100)} may cost ${cost:.2f}",
            fix=Fix(
                "Pass ",
                SameCall(budget=cost).shown(f"budget={cost:.2f}"),
                ", a lower max_tokens, or ",
                *(
                    ("leave ", SameCall.without("num_examples", "rollouts"), " out.")
                    if self.explicit_sizes
                    else ("a cheaper model.",)
                ),
            ),
            least=cost,
        )

    def estimate(self, price: Price, prompt: int | None = None) -> float:
        """Return the cost in US dollars for one turn per rollout and the longest reply.

        `prompt` is the measured prompt length in tokens.
        """
        return self.num_examples * self.rollouts * price.of(self._prompt(prompt), self.max_tokens or MAX_TOKENS)

    def most_tokens(self, prompt: int | None = None) -> int:
        """Return the number of tokens at which the relay stops answering if the endpoint lists no price."""
        each = self._prompt(prompt) + (self.max_tokens or MAX_TOKENS)
        return math.ceil(HEADROOM * self.num_examples * self.rollouts * each)

    @staticmethod
    def _prompt(tokens: int | None) -> int:
        return max(tokens or 0, ASSUMED_PROMPT_TOKENS)


def is_free(access: EndpointAccess) -> bool:
    """Whether an endpoint costs nothing: a server on this machine that needs no key and lists no price."""
    return access.price is None and access.key is None and access.endpoint.on_loopback


def plan_evaluation(
    snapshot: Snapshot,
    interpreter: Interpreter,
    loaded: Loaded,
    access: EndpointAccess,
    request: EvalRequest,
    roles: Sequence[Role] | None = None,
    prompts: Sequence[int] = (),
    distributions: Mapping[str, str] | None = None,
) -> EvalSpec:
    """Return the specification of the evaluation to run. Raises BadInput, EvalError.

    `roles` are the agents of a v1 environment. `prompts` are the lengths in tokens of some of its prompts.
    `distributions` are the fingerprints of the distributions that the package requires. The `max_cost` of the
    specification is the amount that the user is asked about and that is reserved; the relay stops answering there.
    """
    if loaded.shadowed_by:
        raise BadInput(
            f"vf-eval would load {loaded.shadowed_by} of verifiers instead of {snapshot.name}: they share a name",
            fix=Fix("Rename the project and its module, then call ", NamedCall("check_environment"), "."),
            code="name-taken",
        )
    if loaded.api == "v0" and request.harness not in (None, IN_PROCESS_HARNESS):
        raise BadInput(
            "harness applies to v1 environments, and this one is v0",
            fix=Fix("Leave ", SameCall.without("harness"), " out."),
            code="bad-input",
        )
    program = interpreter.program("vf-eval") or own_scripts() / "vf-eval"
    if not program.is_file():
        raise EvalError(
            "vf-eval is not installed beside the environment's Python",
            fix=Fix("Run ", NamedCall("preflight", install=True), "."),
            code="program-missing",
        )
    assert snapshot.manifest.module is not None
    agents = assign_agents(
        roles, request.harness, request.runtime, container=loaded.container, installed=installed_containers()
    )
    if PODMAN in agents.runtime and "concurrency" not in request.explicit_sizes:
        request = replace(request, concurrency=min(request.concurrency, CONTAINER_CONCURRENCY))
    mean_prompt = math.ceil(sum(prompts) / len(prompts)) if prompts else None
    request = request.within_budget(access.price, mean_prompt, free=is_free(access))
    seconds = request.num_examples * request.rollouts * _SECONDS_EACH / request.concurrency
    bounded = request  # no more rollouts are made than there are tasks for
    if loaded.tasks and not loaded.infinite:
        bounded = replace(request, num_examples=min(request.num_examples, loaded.tasks))
    return EvalSpec(
        environment=snapshot.name,
        source=snapshot.source,
        content=snapshot.content,
        tree=code_tree(snapshot),
        api=loaded.api,
        module=snapshot.manifest.module,
        python=interpreter.python,
        program=program,
        verifiers=loaded.verifiers_version,
        model=request.model,
        endpoint=access.endpoint,
        num_examples=request.num_examples,
        rollouts=request.rollouts,
        tasks=loaded.tasks,
        infinite=loaded.infinite,
        max_tokens=request.max_tokens or MAX_TOKENS,
        temperature=1.0 if request.temperature is None else request.temperature,
        env_args=dict(request.env_args),
        harness=agents.harness,
        runtime=agents.runtime,
        agents=agents.agents,
        prompt_tokens=mean_prompt,
        concurrency=request.concurrency,
        seed=request.seed,
        deadline_s=min(_DEADLINE_HIGH, max(_DEADLINE_LOW, seconds)),
        weights={r.name: r.weight for r in loaded.rewards if r.kind != "metric"},
        distributions=dict(distributions or {}),
        price=access.price,
        max_cost=round(HEADROOM * bounded.estimate(access.price, mean_prompt), 4) if access.price is not None else None,
        max_total_tokens=bounded.most_tokens(mean_prompt) if access.price is None and not is_free(access) else None,
    )


def prompt_tokens(row: Row) -> int:
    """Estimate the tokens of a task's prompt, without the tokens that chat templates and tools add."""
    return sum(estimate_tokens(str(message.get("content") or "")) for message in row.prompt)


def run_eval_arguments(spec: EvalSpec) -> dict[str, Any]:
    """Return the arguments of the run_eval call that leads to this specification, without those at their defaults.

    Advice in reports repeats a call with them, so that model, tasks and sampling stay the same.
    """
    arguments: dict[str, Any] = {
        "environment": spec.environment,
        "model": spec.model,
        "num_examples": spec.num_examples,
        "rollouts": spec.rollouts,
    }
    if spec.hosted is not None:
        arguments |= {"environment": spec.hosted, "hosted": True}
    elif spec.endpoint.preset != "prime":
        arguments["endpoint"] = spec.endpoint.url if spec.endpoint.preset == BY_URL else spec.endpoint.preset
    optional: dict[str, tuple[Any, Any]] = {
        "max_tokens": (spec.max_tokens, MAX_TOKENS),
        "temperature": (spec.temperature, 1.0),
        "harness": (spec.harness, IN_PROCESS_HARNESS),
        "runtime": (spec.runtime, DEFAULT_RUNTIME),
    }
    if spec.agents or spec.hosted is not None:
        # Each agent of the environment's own `Env` has its own harness, and a call has no argument for that.
        del optional["harness"], optional["runtime"]
        chosen = {assignment[1] for assignment in spec.agents.values() if assignment}
        if len(chosen) == 1 and chosen <= set(CONTAINERS) and all(spec.agents.values()):
            arguments["runtime"] = chosen.pop()  # without it, tasks that need a container are refused
    arguments |= {name: value for name, (value, usual) in optional.items() if value not in (None, usual)}
    if spec.by:
        arguments["by"] = spec.by
    if spec.env_args:
        arguments["env_args"] = dict(spec.env_args)
    return arguments
