"""Rules about the training algorithm: the model that it samples from, its teacher, and its own settings.

Each rule repeats a validator of prime-rl (configs/algorithm.py at `SCHEMA_COMMIT`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import as_mapping, quote
from prime_lab_mcp.lab.configs.config import TrainingConfig, taskset_identity
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.schema import prime_rl_refuses

_PROPOSERS = "proposer_solver"
"""The module of the environment whose episodes `hierarchical_grpo` compares."""


def frozen_models(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A teacher or frozen sampling model must have an endpoint, because prime-rl serves only the trained model."""
    for where, algo in _algorithms(config):
        for key, table in (("teacher", algo.get("teacher")), ("sampling.source", _sampled(algo))):
            if isinstance(table, Mapping) and table.get("base_url") is None:
                yield prime_rl_refuses(
                    "config-algorithm",
                    f"{where}.{key} names no base_url, and prime-rl hosts no model but the trained one",
                    f'Set {where}.{key}.base_url = "https://HOST/v1" of an endpoint that serves it, and api_key_var to '
                    "the NAME of the variable with its key.",
                    f"{where}.{key}.base_url",
                )


def sampling_model(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The algorithm `sft` must sample from another model, and every other algorithm from the trained one.

    The other algorithms need log-probabilities of the policy, which another model's tokens do not have.
    """
    for where, algo in _algorithms(config):
        kind, source = str(algo.get("type") or "grpo"), _sampled(algo)
        if kind == "sft" and not isinstance(source, Mapping):
            yield prime_rl_refuses(
                "config-algorithm",
                'the algorithm "sft" samples from the trained model itself, which is nothing to learn from',
                f"Set {where}.sampling.source to a table with name and base_url of the model to learn from.",
                f"{where}.sampling.source",
            )
        elif kind != "sft" and isinstance(source, Mapping):
            yield prime_rl_refuses(
                "config-algorithm",
                f"the algorithm {quote(kind, limit=40)} samples from a frozen model, whose tokens have no "
                "log-probabilities of the policy",
                f'Remove {where}.sampling, or use type = "sft" to learn from that model\'s tokens.',
                f"{where}.sampling.source",
            )


def algorithm_tables(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """`echo` must train at least one role, and `hierarchical_grpo` needs a proposer-solver environment."""
    for where, algo in _algorithms(config):
        roles = algo.get("roles")
        if algo.get("type") == "echo" and isinstance(roles, Mapping) and not any(roles.values()):
            yield prime_rl_refuses(
                "config-algorithm",
                "the algorithm echo enables no role",
                f"Remove {where}.roles (tool output is then trained on), or name one of its roles.",
                f"{where}.roles",
            )
    for source in config.train_sources:
        own = as_mapping(source.table.get("algo")) or as_mapping(config.at("orchestrator.algo"))
        env = as_mapping(source.table.get("env"))
        modules = {taskset_identity(str(id or ""))[1].replace("-", "_") for id in (env.get("id"), source.id)}
        if own.get("type") == "hierarchical_grpo" and _PROPOSERS not in modules:
            yield prime_rl_refuses(
                "config-algorithm",
                f"hierarchical_grpo compares proposers with solvers, and {quote(source.id, limit=80)} is no "
                "proposer-solver environment",
                'Use type = "grpo", or "rae" for self-play of several agents.',
                f"orchestrator.train.source {quote(source.name, limit=60)}",
            )


ALGORITHM_RULES: tuple[ConfigRule, ...] = (frozen_models, sampling_model, algorithm_tables)


def _algorithms(config: TrainingConfig) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each algorithm table with its dotted path: that of the orchestrator, and those of single sources."""
    shared = config.at("orchestrator.algo")
    if isinstance(shared, Mapping):
        yield "orchestrator.algo", shared
    for index, source in enumerate(config.train_sources):
        own = source.table.get("algo")
        if isinstance(own, Mapping):
            yield f"orchestrator.train.source[{index}].algo", own


def _sampled(algo: Mapping[str, Any]) -> Any:
    return as_mapping(algo.get("sampling")).get("source")
