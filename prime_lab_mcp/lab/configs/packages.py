"""Lists the Python packages that a training config names, besides the tasksets of its sources.

A config names a package by the `id` of an environment, harness or judge, or by the path of a function: `fn` of a
reward, `import_path` of a loss, renderer or filter. prime-rl and verifiers import these packages in the run. verifiers
0.4.0 imports an id `owner/name@version` as the module `name`, and prefers its own package of that name
(`verifiers.v1.utils.loaders`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from prime_lab_mcp.lab.base.text import key_path, plain_id
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, taskset_identity
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.config_gate import plugin_module

PackageKind = Literal["environment", "harness", "judge", "function"]

SHIPPED: Mapping[PackageKind, frozenset[str]] = {
    "environment": frozenset(
        {"agentic_judge", "best_of_n", "isolated_verifier", "shared_agentic_judge", "single_agent", "user_sim"}
    ),
    "harness": frozenset(
        {
            "bash",
            "browser_use",
            "claude_code",
            "codex",
            "hermes_agent",
            "kimi_code",
            "mini_swe_agent",
            "null",
            "openclaw",
            "pi",
            "prime_agent",
            "rlm",
            "terminus_2",
        }
    ),
    "judge": frozenset({"decision", "reference", "rubric"}),
    "function": frozenset({"verifiers", "prime_rl"}),
}
"""Modules that verifiers 0.4.0 and prime-rl ship, by kind of package."""

AGENT_KEYS = frozenset(
    {
        "client",
        "harness",
        "max_input_tokens",
        "max_output_tokens",
        "max_total_tokens",
        "max_turns",
        "model",
        "network_notice",
        "retries",
        "runtime",
        "sampling",
        "timeout",
    }
)
"""Fields of `AgentConfig` of verifiers 0.4.0."""
_TABLES_OF_AGENT = frozenset({"harness", "runtime"})
_ONE_AGENT = "agent"
"""The name of the agent of a plain taskset."""
_PLAIN_RUNTIME = "subprocess"
"""The runtime of evaluations on this machine that name none."""
SHARED_KEYS = frozenset({"id", "interception", "max_concurrent_agents", "retries", "taskset", "timeout"})
"""Fields that every `EnvConfig` of verifiers 0.4.0 has."""


@dataclass(frozen=True, slots=True)
class NamedPackage:
    """One package that a config names."""

    kind: PackageKind
    id: str
    """The id or function path as written."""
    where: str
    """The dotted key that names the package."""
    beside: ConfigSource | None = None
    """The source whose environment uses the package; None for code of the whole run."""

    @property
    def module(self) -> str:
        """The module that is imported. For a function it is the top-level module."""
        return function_module(self.id) if self.kind == "function" else plugin_module(self.id)

    @property
    def identity(self) -> tuple[str | None, str, str | None]:
        """Owner, name and version of the package. A function has only a name."""
        return (None, self.module, None) if self.kind == "function" else taskset_identity(self.id)

    @property
    def shipped(self) -> bool:
        """Whether verifiers or prime-rl ships the package. An id with an owner or version names another package."""
        bare = self.kind == "function" or ("/" not in self.id and "@" not in self.id)
        return bare and self.module in SHIPPED[self.kind]


def function_module(path: str) -> str:
    """Return the top-level module of `pkg.module.function` or `pkg.module:function`. A file path is returned whole."""
    module = path.rpartition(":")[0] or path.rpartition(".")[0]
    return module if module.endswith(".py") or "/" in module else module.partition(".")[0]


def named_packages(config: TrainingConfig) -> tuple[NamedPackage, ...]:
    """Return all environments, harnesses, judges and functions that a config names, in file order."""
    packages = [package for source in config.sources for package in _of_source(source)]
    packages += [
        NamedPackage("function", value, f"{path}.import_path")
        for path, table in _tables(config.table, "")
        if isinstance(value := table.get("import_path"), str)
    ]
    return tuple(_distinct(packages))


def own_environment_keys(source: ConfigSource, agents: Collection[str]) -> tuple[str, ...]:
    """Return the keys of a source's `env` that only the environment's own config class can have.

    These are keys that neither the base class of environments nor an agent has. `agents` are the names of the
    environment's agents.
    """
    env = _table(source.table.get("env"))
    keys: list[str] = []
    for key, value in env.items():
        if key in SHARED_KEYS:
            continue
        if not isinstance(value, Mapping) or key not in agents:
            keys.append(key_path(("env", key)))
            continue
        keys += [key_path(("env", key, inner)) for inner in value if inner not in AGENT_KEYS]
    return tuple(keys)


def agent_overrides(source: ConfigSource) -> tuple[str, ...]:
    """Return the keys of a source's `env` that change how agents play or are scored.

    These are the model, sampling, limits, time-outs and retries of agents and episodes, and harness and runtime with
    their settings. Two are left out: the harness of the agent called `agent`, because the gates compare it with the
    evaluation, and the runtime of evaluations on this machine.
    """
    keys = [f"env.{key}" for key in ("timeout", "retries") if _table(source.table.get("env")).get(key)]
    for name, agent in _table(source.table.get("env")).items():
        if name in SHARED_KEYS or not isinstance(agent, Mapping):
            continue
        keys += [key_path(("env", name, key)) for key in sorted(AGENT_KEYS - _TABLES_OF_AGENT) if key in agent]
        harness, runtime = _table(agent.get("harness")), _table(agent.get("runtime"))
        keys += [key_path(("env", name, "harness", key)) for key in harness if key != "id" or name != _ONE_AGENT]
        keys += [
            key_path(("env", name, "runtime", key))
            for key, value in runtime.items()
            if key != "type" or value != _PLAIN_RUNTIME
        ]
    return tuple(keys)


def packages_summary(config: TrainingConfig) -> str:
    """Return the packages and versions of a config as one comma-separated text.

    Packages that verifiers and prime-rl ship are left out. A training source that selects tasks names its arguments.
    """
    trained = dict.fromkeys(s.id for s in config.train_sources if s.id)
    evaluated = dict.fromkeys(s.id for s in config.eval_sources if s.id not in trained)
    others = dict.fromkeys(f"{plain_id(p.id)} ({p.kind})" for p in named_packages(config) if not p.shipped)
    return ", ".join([*map(partial(_with_arguments, config), trained), *(f"{id} (eval)" for id in evaluated), *others])


def _with_arguments(config: TrainingConfig, id: str) -> str:
    """A trained environment with the arguments of each of its sources."""
    given = dict.fromkeys(arguments_summary(s.args) for s in config.train_sources if s.id == id)
    return id if set(given) == {arguments_summary({})} else f"{id} with {' and with '.join(given)}"


def _of_source(source: ConfigSource) -> Iterator[NamedPackage]:
    env = _table(source.table.get("env"))
    taskset = env.get("taskset")
    prefix = f"orchestrator.{source.kind}.source {plain_id(source.name)}:"
    environment_id = env.get("id")
    if isinstance(environment_id, str) and environment_id and environment_id != source.id:
        yield NamedPackage("environment", environment_id, f"{prefix} env.id", source)
    other_keys = {key: value for key, value in env.items() if key not in ("id", "taskset")}
    for path, table in (*_tables(other_keys, "env"), *_tables(_table(taskset), "env.taskset")):
        for kind, key, id in _named_in(table):
            yield NamedPackage(kind, id, f"{prefix} {path}.{key}", source)


def _named_in(table: Mapping[str, Any]) -> Iterator[tuple[PackageKind, str, str]]:
    """Yield the kind, key and id of each package that the direct entries of a table name."""
    harness = table.get("harness")
    if isinstance(harness, str):
        yield "harness", "harness", harness
    elif isinstance(harness, Mapping) and isinstance(harness.get("id"), str) and harness["id"]:
        yield "harness", "harness.id", harness["id"]
    judges = table.get("judges")
    for index, judge in enumerate(judges if isinstance(judges, Sequence) and not isinstance(judges, str) else ()):
        id = judge.get("id") if isinstance(judge, Mapping) else judge
        if isinstance(id, str) and id:
            yield "judge", f"judges[{index}].id", id
    if isinstance(table.get("fn"), str) and table["fn"] != "None":
        yield "function", "fn", table["fn"]


def _tables(node: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a table and all tables in it, with their dotted paths."""
    if isinstance(node, Mapping):
        yield path, node
        for key, value in node.items():
            yield from _tables(value, f"{path}.{key_path((key,))}" if path else key_path((key,)))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _tables(value, f"{path}[{index}]")


def _distinct(packages: Sequence[NamedPackage]) -> Iterator[NamedPackage]:
    """Yield each package once for each key that names it. Packages are not hashable, because sources hold tables."""
    keys: set[tuple[str, str, str]] = set()
    for package in packages:
        key = (package.kind, package.id, package.where)
        if key not in keys:
            keys.add(key)
            yield package


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
