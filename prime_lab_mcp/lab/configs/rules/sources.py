"""Rules about the sources of a config: names, versions, and the keys of their environments.

The config classes of an environment judge the tables of its source. For an environment that is unknown on this machine,
the classes of verifiers judge them. `prime train validate` does not judge these tables, and a run only finds a mistake
in them after it has started.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, taskset_identity
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule, EnvironmentSchemas
from prime_lab_mcp.lab.configs.schema import SchemaProblem, load_env_schema, problems_against
from prime_lab_mcp.lab.state.workspace import is_plain_id


def sources_present(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config must have a training source, and an eval table must have an eval source.

    prime-rl's validator accepts a config without a training source.
    """
    if not config.train_sources and config.at("trainer.data.fake") is None:
        yield Finding(
            "config-no-train-source",
            "blocker",
            "The config names no training environment: there is no [[orchestrator.train.source]].",
            Fix(
                "Add one, or call ",
                NamedCall("write_training_config", environments=..., based_on=...).shown(
                    "write_training_config(environments=[...], based_on=this file)"
                ),
                ".",
            ),
            config.path.name,
        )
    if isinstance(config.at("orchestrator.eval"), Mapping) and not config.eval_sources:
        yield Finding(
            "config-no-eval-source",
            "blocker",
            "[orchestrator.eval] is there but names no [[orchestrator.eval.source]], which prime-rl refuses.",
            "Add an eval source with held-out tasks, or remove the [orchestrator.eval] table.",
            "orchestrator.eval",
        )


def unique_source_names(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Each source must have an id, and a name that is unique among training or eval sources and not `agg`."""
    for kind, sources in (("train", config.train_sources), ("eval", config.eval_sources)):
        for source in sources:
            where = f"orchestrator.{kind}.source"
            if not source.id:
                yield Finding(
                    "config-source-without-id",
                    "blocker",
                    "A source names no environment: env.taskset.id is missing.",
                    'Set env.taskset.id = "owner/name@version".',
                    where,
                )
            elif source.name == "agg":
                yield Finding(
                    "config-source-name",
                    "blocker",
                    'A source may not be named "agg": prime-rl uses it for totals.',
                    "Give the source another name.",
                    where,
                )
        for name, count in Counter(s.name for s in sources if s.name).items():
            if count > 1:
                yield Finding(
                    "config-duplicate-source",
                    "blocker",
                    f"{count} {kind} sources are named {quote(name, limit=80)}; names must be unique.",
                    'Give each its own name = "...".',
                    f"orchestrator.{kind}.source",
                )


def source_pinned(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Every source of a hosted config must be an environment on the Hub with a version.

    Without a version, the run would use the newest version at its start instead of the checked one.
    """
    if config.target != "hosted":
        return
    for source in config.sources:
        where = f"orchestrator.{source.kind}.source {quote(source.name, limit=60)}"
        if source.id and source.owner is None:
            yield Finding(
                "config-unpublished-source",
                "blocker",
                f"{quote(source.id, limit=80)} is no environment on the Hub: hosted training loads owner/name@version.",
                Fix("Call ", NamedCall("push_environment"), " first, then name it as owner/name@version."),
                where,
            )
        elif source.id and not is_plain_id(source.id):
            yield Finding(
                "config-unpublished-source",
                "blocker",
                f"{quote(source.id, limit=80)} is no plain owner/name@version, so that the Hub may read another name.",
                "Write letters, digits, dots, hyphens and underscores only.",
                where,
            )
        elif source.owner is not None and source.version in (None, "latest"):
            is_own = source.hub_name in context.own_environments
            yield Finding(
                "config-unpinned-source",
                "warning" if is_own else "blocker",
                f"{quote(source.id, limit=80)} has no version: the run would take whatever is newest when it starts.",
                Fix(
                    'Pin it: id = "owner/name@version" (',
                    NamedCall("search_hub", kind="environment", query=...).bare,
                    " lists the versions).",
                ),
                where,
            )


SOURCE_RULES: tuple[ConfigRule, ...] = (
    sources_present,
    unique_source_names,
    source_pinned,
)


_MOST_LISTED = 10
"""Most problems of one table."""
_AGENT_KEYS = ("harness", "runtime", "model", "client", "sampling", "max_turns", "max_output_tokens", "network_notice")
"""Keys that belong to an agent, for a hint if they are in `env` itself."""


def taskset_keys(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Keys and values of `env.taskset` must fit the taskset's config class, if it is known on this machine."""
    for source, shapes in _checked_sources(config, context):
        table = _table(source).get("taskset")
        if shapes.taskset and isinstance(table, Mapping):
            for problem in _problems(table, shapes.taskset, "env.taskset"):
                yield _taskset(source, problem, shapes)


def environment_keys(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Keys and values of `env` besides the taskset must fit the environment's config class.

    They are agents with harness and runtime, limits, and retries. If the class is unknown on this machine, the class of
    verifiers judges them. An unknown key of `env` itself is then a warning, because the environment's class may have
    it.
    """
    for source in config.sources:
        table = {key: value for key, value in _table(source).items() if key != "taskset"}
        shapes = (context.shapes or {}).get(source.id)
        class_id = table.get("id")
        # With an `id`, another environment than the taskset's own is used, and its class is not the recorded one.
        if shapes is not None and shapes.env and not class_id:
            for problem in _problems(table, shapes.env, "env"):
                yield _environment_key(
                    source, problem, f"the config class of {quote(source.id, limit=80)}", shapes.exact
                )
        else:
            env_schema = load_env_schema()
            for problem in _problems(table, env_schema["env"], "env"):
                own = problem.kind == "unknown" and problem.key.count(".") == 1 and problem.key != "env.harness"
                yield _environment_key(source, problem, f"verifiers {env_schema['verifiers']}", not own)


def harness_keys(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The harness of each agent must be a table that the harness's class accepts.

    Only harnesses that ship with verifiers can be judged. A name close to one of them counts as misspelt.
    """
    env_schema = load_env_schema()
    for source in config.sources:
        for role, agent in _table(source).items():
            harness = agent.get("harness") if isinstance(agent, Mapping) else None
            if role == "taskset" or harness in (None, "None"):
                continue
            path = f"env.{role}.harness"
            if not isinstance(harness, Mapping):
                problem = SchemaProblem(path, f'must be a table, e.g. {{ id = "{harness}" }}', "type")
                yield _environment_key(source, problem, f"verifiers {env_schema['verifiers']}", True)
                continue
            id = str(harness.get("id") or _DEFAULT_HARNESS)
            module = taskset_identity(id)[1].replace("-", "_").lower()
            if module in env_schema["harnesses"]:
                for problem in _problems(harness, env_schema["harnesses"][module], path):
                    yield _environment_key(source, problem, f"the harness {quote(id, limit=60)}", True)
            elif "/" not in id and (near := _near_harness(module)) is not None:
                problem = SchemaProblem(f"{path}.id", f"is {quote(id, limit=60)}, which is no harness", "value", near)
                yield _environment_key(source, problem, f"verifiers {env_schema['verifiers']}", True)


_DEFAULT_HARNESS = "bash"
"""The harness of a table without an id (verifiers 0.4.0, configs/harness.py)."""


def _near_harness(module: str) -> str | None:
    """Return the harness that a misspelt or renamed name means, or None."""
    if module == "default":
        return _DEFAULT_HARNESS  # renamed in verifiers 0.4.0
    near = difflib.get_close_matches(module, list(load_env_schema()["harnesses"]), n=1, cutoff=0.75)
    return near[0] if near else None


def _environment_key(source: ConfigSource, problem: SchemaProblem, judge: str, certain: bool) -> Finding:
    """Return the finding on a key of `env`. `judge` names the class that refuses the key."""
    key = quote(problem.key, limit=120)
    fix = f"Did you mean {problem.near}?" if problem.near else f"Correct or remove {problem.key}."
    if problem.near and problem.kind == "unknown":
        fix += " Else remove it."
    elif problem.kind == "unknown" and problem.key.rpartition(".")[2] in _AGENT_KEYS:
        fix = f"It belongs to an agent: write env.agent.{problem.key.rpartition('.')[2]}."
    if not certain:
        fix += " Nothing to do where the environment's own class has this key."
    return Finding(
        "config-environment-key",
        "blocker" if certain else "warning",
        f"{key} {problem.problem}, by {judge}.",
        fix,
        _where(source, problem.key),
    )


def unchecked_environments(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Warns which environments have taskset keys that could not be judged."""
    if context.shapes is None:
        return
    unknown = [s.id for s in config.sources if s.id and s.args and s.id not in context.shapes]
    if unknown:
        names = ", ".join(quote(name, limit=80) for name in dict.fromkeys(unknown))
        pull = next((s for s in config.sources if s.id in unknown and s.owner and s.id not in context.folders), None)
        yield Finding(
            "config-taskset-unchecked",
            "warning",
            f"The taskset keys of {names} were not judged: their config classes are not known on this machine, "
            "and `prime train validate` does not judge them either; a wrong one ends the run after it has begun.",
            Fix(
                "Pull it with ",
                NamedCall("create_environment", name=pull.env_name.replace("-", "_"), hub=pull.id),
                " and call check_environment, which records its keys.",
            )
            if pull is not None
            else "Call check_environment for the environment, which records its keys.",
            "orchestrator.train.source",
        )


ENVIRONMENT_RULES: tuple[ConfigRule, ...] = (taskset_keys, environment_keys, harness_keys, unchecked_environments)


def _checked_sources(
    config: TrainingConfig, context: ConfigContext
) -> Iterator[tuple[ConfigSource, EnvironmentSchemas]]:
    for source in config.sources:
        if context.shapes is not None and source.id in context.shapes:
            yield source, context.shapes[source.id]


def _table(source: ConfigSource) -> Mapping[str, Any]:
    env = source.table.get("env")
    return env if isinstance(env, Mapping) else {}


def _problems(table: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> list[SchemaProblem]:
    """Return the problems of a table against a recorded schema.

    Empty if the record is no valid schema. The record comes from the environment's code.
    """
    try:
        return problems_against(table, schema, path)[:_MOST_LISTED]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return []


def _taskset(source: ConfigSource, problem: SchemaProblem, shapes: EnvironmentSchemas) -> Finding:
    keys = ", ".join(k for k in shapes.taskset.get("properties", {}) if k not in ("id", "task", "system_prompt"))
    unknown = problem.kind == "unknown"
    if problem.near:
        fix = f"Did you mean {quote(problem.near, limit=80)}?"
    elif unknown and keys:
        fix = f"Remove it; the taskset's own keys are {quote(keys, limit=200)}."
    else:
        fix = f"Remove {quote(problem.key, limit=80)}." if unknown else f"Correct {quote(problem.key, limit=80)}."
    key, environment = quote(problem.key, limit=120), quote(source.id, limit=80)
    return Finding(
        "config-unknown-taskset-key" if unknown else "config-taskset-value",
        "blocker" if shapes.exact else "warning",
        f"{key} is no key of the taskset {environment}, which would be refused only when the run has begun."
        if unknown
        else f"{key} {problem.problem}, by the config class of {environment}.",
        fix,
        _where(source, problem.key),
    )


def _where(source: ConfigSource, key: str) -> str:
    return f"orchestrator.{source.kind}.source {quote(source.name, limit=60)} {quote(key, limit=80)[1:-1]}"
