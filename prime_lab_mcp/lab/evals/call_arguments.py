"""The arguments of `run_eval` that lead to a specification, so that advice keeps model, tasks and sampling."""

from __future__ import annotations

from typing import Any

from prime_lab_mcp.lab.evals.plan import DEFAULT_RUNTIME, MAX_TOKENS
from prime_lab_mcp.lab.evals.spec import IN_PROCESS_HARNESS, EvalSpec
from prime_lab_mcp.lab.relay.endpoints import BY_URL


def run_eval_arguments(spec: EvalSpec) -> dict[str, Any]:
    """The call that measures the same, without the arguments that have their defaults."""
    arguments: dict[str, Any] = {
        "environment": spec.environment,
        "model": spec.model,
        "num_examples": spec.num_examples,
        "rollouts": spec.rollouts,
    }
    if spec.hosted is not None:
        arguments |= {"environment": spec.hosted.partition("@")[0], "hosted": True}
    elif spec.endpoint.preset != "prime":
        arguments["endpoint"] = spec.endpoint.url if spec.endpoint.preset == BY_URL else spec.endpoint.preset
    optional: dict[str, tuple[Any, Any]] = {
        "max_tokens": (spec.max_tokens, MAX_TOKENS),
        "temperature": (spec.temperature, 1.0),
        "harness": (spec.harness, IN_PROCESS_HARNESS),
        "runtime": (spec.runtime, DEFAULT_RUNTIME),
    }
    if spec.agents or spec.hosted is not None:
        # The environment's own agents have a harness each, which no argument of a call names.
        del optional["harness"], optional["runtime"]
    arguments |= {name: value for name, (value, usual) in optional.items() if value not in (None, usual)}
    if spec.env_args:
        arguments["env_args"] = dict(spec.env_args)
    return arguments
