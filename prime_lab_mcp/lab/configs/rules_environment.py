"""Rules about the tables of a source's environment, judged by the environment's own config classes.

`prime train validate` leaves them to the platform, which loads the environment when the run has begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.configs.observed import Observed, Rule, Shapes
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.configs.schema import SchemaProblem, against
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_SHOWN = 10


def taskset_keys(config: Config, seen: Observed) -> Iterator[Finding]:
    """Keys and values of `env.taskset`, of environments that were checked on this machine."""
    for source, shapes in _known(config, seen):
        table = _table(source).get("taskset")
        if shapes.taskset and isinstance(table, Mapping):
            for problem in _problems(table, shapes.taskset, "env.taskset"):
                yield _taskset(source, problem, shapes)


def environment_keys(config: Config, seen: Observed) -> Iterator[Finding]:
    """Keys and values of `env` beside the taskset: agents with their harness and runtime, limits, retries."""
    for source, shapes in _known(config, seen):
        table = _table(source)
        named = table.get("id")
        if not shapes.env or (isinstance(named, str) and named):
            continue  # another environment plays this taskset: its class is not known
        for problem in _problems({k: v for k, v in table.items() if k != "taskset"}, shapes.env, "env"):
            key, whose = quote(problem.key, limit=120), quote(source.id, limit=80)
            near = (
                f"Did you mean {problem.near}? Else remove it." if problem.near else f"Correct or remove {problem.key}."
            )
            yield Finding(
                "config-environment-key",
                "blocker" if shapes.exact else "warning",
                f"{key} {problem.problem}, by the config class of {whose}.",
                near,
                _where(source, problem.key),
            )


def unchecked(config: Config, seen: Observed) -> Iterator[Finding]:
    """Said once: whose keys nobody could judge."""
    if seen.shapes is None:
        return
    unknown = [s.id for s in config.sources if s.id and s.args and s.id not in seen.shapes]
    if unknown:
        names = ", ".join(quote(name, limit=80) for name in dict.fromkeys(unknown))
        yield Finding(
            "config-taskset-unchecked",
            "info",
            f"The taskset keys of {names} were not judged: their config classes are not known on this machine, "
            "and `prime train validate` does not judge them either.",
            "For an environment of yours call check_environment, which records them; for another, compare the keys "
            "with its README. A wrong one is found only when the run has begun.",
            "orchestrator.train.source",
        )


RULES: tuple[Rule, ...] = (taskset_keys, environment_keys, unchecked)


def _known(config: Config, seen: Observed) -> Iterator[tuple[Source, Shapes]]:
    for source in config.sources:
        if seen.shapes is not None and source.id in seen.shapes:
            yield source, seen.shapes[source.id]


def _table(source: Source) -> Mapping[str, Any]:
    env = source.table.get("env")
    return env if isinstance(env, Mapping) else {}


def _problems(table: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> list[SchemaProblem]:
    """None where the recorded schema is not one: it comes from the environment."""
    try:
        return against(table, schema, path)[:_SHOWN]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return []


def _taskset(source: Source, problem: SchemaProblem, shapes: Shapes) -> Finding:
    known = ", ".join(k for k in shapes.taskset.get("properties", {}) if k not in ("id", "task", "system_prompt"))
    unknown = problem.kind == "unknown"
    if problem.near:
        fix = f"Did you mean {quote(problem.near, limit=80)}?"
    elif unknown and known:
        fix = f"Remove it; the taskset's own keys are {quote(known, limit=200)}."
    else:
        fix = f"Remove {quote(problem.key, limit=80)}." if unknown else f"Correct {quote(problem.key, limit=80)}."
    key, whose = quote(problem.key, limit=120), quote(source.id, limit=80)
    return Finding(
        "config-unknown-taskset-key" if unknown else "config-taskset-value",
        "blocker" if shapes.exact else "warning",
        f"{key} is no key of the taskset {whose}, which would be refused only when the run has begun."
        if unknown
        else f"{key} {problem.problem}, by the config class of {whose}.",
        fix,
        _where(source, problem.key),
    )


def _where(source: Source, key: str) -> str:
    return f"orchestrator.{source.kind}.source {quote(source.name, limit=60)} {quote(key, limit=80)[1:-1]}"
