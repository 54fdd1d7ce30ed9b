"""Bounds what one episode of a source plays: which agents, how often, with which turns and limits of tokens.

An agent's settings are those that the config writes, over the defaults that the check of exactly these files recorded,
as verifiers 0.4 merges them (`v1/configs/agent.py`). A limit counts only as verifiers itself enforces it. What has no
limit is counted at its worst, and refused by the name of its key where the worst has no end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import as_mapping, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, value_at
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas, SourceMeasurement
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.state.arguments import arguments_summary, same_arguments, without_null_text
from prime_lab_mcp.lab.state.config_gate import plugin_module

_LINEAR_HARNESS = "null"
"""The harness whose rollouts are one growing conversation, so that the context of the model limits them. Where nothing
names a harness, verifiers takes the taskset's own or `bash` (`default_agent_harness`), which go on after a context."""
_ENV_KEYS = frozenset({"id", "taskset", "retries", "timeout", "interception", "max_concurrent_agents"})
"""Keys of `EnvConfig` in verifiers 0.4 that are not agents."""
_AGENT_KEYS = frozenset(
    {"harness", "runtime", "model", "client", "sampling", "max_turns", "max_input_tokens", "max_output_tokens",
     "max_total_tokens", "network_notice"}
)  # fmt: skip
"""Keys of `AgentConfig` in verifiers 0.4 by which the table of an agent is known where no check named the agents."""
_SHIPPED: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "single_agent": {"agent": {}},
    "isolated_verifier": {"agent": {}},
    "best_of_n": {"agent": {}},
    "agentic_judge": {"solver": {}, "judge": {}},
    "shared_agentic_judge": {"solver": {}, "judge": {}},
    "user_sim": {"assistant": {}, "user": {"harness": _LINEAR_HARNESS, "max_turns": 8}},
}
"""The agents of the environment classes that verifiers 0.4 ships (v1/envs), with the defaults that limit them. Each
plays once in an episode, but for `best_of_n`."""
_BEST_OF_N = "best_of_n"
_DEFAULT_N = 4
_COMPLETION_LIMITS = ("max_completion_tokens", "max_tokens")
_MORE_REPLIES = ("n", "best_of")
_SANDBOX_PACE = "creates_per_min"
"""Key of the runtime `prime` of verifiers 0.4 that limits how many sandboxes are made in a minute."""
CONTEXT_KEY = "inference.vllm.max_model_len"
TURNS_KEY = "env.agent.max_turns"


class UnboundedError(Exception):
    """The cost has no limit. `key` is the config key that would set one."""

    def __init__(self, key: str, why: str, fix: str) -> None:
        super().__init__(why)
        self.key, self.why, self.fix = key, why, fix


@dataclass(frozen=True, slots=True)
class EpisodeTokens:
    """The maximum tokens of the rollouts of one episode: `prefilled` are read, `decoded` are generated."""

    prefilled: float
    decoded: float
    longest: float
    """The maximum tokens that one agent generates, one after the other."""


@dataclass(frozen=True, slots=True)
class _Agent:
    """The settings of an agent: what the config writes over what a check recorded. Turns are None without a limit."""

    name: str
    harness: str | None
    turns: int | None
    sampling: tuple[Mapping[str, Any], ...]
    retries: int
    runtime: str | None = None
    """The type of its runtime; None where neither the config nor a check says."""


def episode_tokens(config: TrainingConfig, context: ConfigContext, source: ConfigSource | None) -> EpisodeTokens:
    """Compute the maximum tokens of an episode. Raises UnboundedError."""
    if source is None:
        only = _tokens(config, None, _Agent("agent", _LINEAR_HARNESS, None, (), 0), _sampling_tables(config, None))
        return EpisodeTokens(*only, only[1])
    agents = _agents(source, context)
    times = _rollouts_of_episode(source, context, agents)
    tables = _sampling_tables(config, source)
    each = [_tokens(config, source, agent, tables) for agent in agents]
    # A class may let the agent with the longest rollouts play all of them.
    prefilled, decoded = max(read for read, _ in each), max(written for _, written in each)
    return EpisodeTokens(times * prefilled, times * decoded, decoded)


def retries_of(source: ConfigSource | None, context: ConfigContext) -> int:
    """The most times that an episode of a source is played again."""
    if source is None:
        return 0
    env = as_mapping(source.table.get("env"))
    episode = _episode(source, context)
    whole_episode = env.get("retries", (episode or {}).get("retries"))
    agents = max((agent.retries for agent in _agents(source, context)), default=0)
    return (1 + agents) * (1 + _retry_budget(whole_episode)) - 1


def runtimes_of(source: ConfigSource, context: ConfigContext) -> Mapping[str, str | None]:
    """The type of the runtime of each agent of a source; None where neither the config nor a check says."""
    return {agent.name: agent.runtime for agent in _agents(source, context)}


def was_checked(source: ConfigSource, context: ConfigContext) -> bool:
    """Whether a check recorded what an episode of exactly these files plays."""
    return _episode(source, context) is not None


def context_tokens(config: TrainingConfig) -> int:
    """The most tokens of one conversation. Raises UnboundedError."""
    served = config.number(CONTEXT_KEY)
    extended = config.at("inference.vllm.rope_scaling") is not None  # vLLM multiplies the model's own context by it
    own = None if extended else find_model(config.model).context
    most = served if served is not None and served > 0 else own
    if most is None:
        raise UnboundedError(
            CONTEXT_KEY,
            "nothing limits the tokens of a rollout: the inference server may serve all of the model's context",
            f"Set {CONTEXT_KEY}, e.g. to {config.seq_len + (config.max_completion_tokens or 0)} "
            "(seq_len and one completion).",
        )
    return max(most, config.seq_len)


def whole(value: Any) -> int | None:
    """Convert a positive whole number to int; None for anything else. pydantic also takes a number written as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < 1e18 or value != int(value):
        return None
    return int(value)


def _tokens(
    config: TrainingConfig, source: ConfigSource | None, agent: _Agent, tables: Sequence[Any]
) -> tuple[float, float]:
    """The maximum tokens that one rollout of an agent reads and generates."""
    conversation = context_tokens(config)
    limit = _completion_limit(tables, agent.sampling)
    each = conversation if limit is None else min(conversation, limit)
    replies = _replies([*tables, *agent.sampling])
    linear = agent.harness == _LINEAR_HARNESS
    where = f"orchestrator.{source.kind if source else 'train'}.source.env.{agent.name}"
    if agent.turns is None and not linear:
        raise _unlimited_turns(where, source, agent)
    cached = config.at("inference.vllm.enable_prefix_caching") is not False and linear
    if agent.turns is None:
        if not cached:
            raise UnboundedError(
                f"{where}.max_turns",
                "without prefix caching every turn reads the whole conversation, and nothing limits the turns",
                f"Set env.{agent.name}.max_turns of the source, e.g. to 20.",
            )
        return conversation, conversation * replies
    completion = min(agent.turns * each, conversation) if linear else agent.turns * each
    return conversation * (1 if cached else agent.turns), completion * replies


def _unlimited_turns(where: str, source: ConfigSource | None, agent: _Agent) -> UnboundedError:
    turns = f"env.{agent.name}.max_turns"
    if agent.harness is not None:
        return UnboundedError(
            f"{where}.max_turns",
            f"the harness {quote(agent.harness, 60)} may start conversations anew, and nothing limits its turns",
            f"Set {turns} of the source, e.g. to 20.",
        )
    checked = ""
    if source is not None and source.owner is not None:
        checked = Fix(
            ". The environment's own default counts once ",
            NamedCall("create_environment", hub=source.id),
            " pulled these files and ",
            NamedCall("check_environment", environment=source.env_name.replace("-", "_")),
            " recorded it",
        )
    return UnboundedError(
        f"{where}.harness.id",
        f"no harness is named for the agent {quote(agent.name, 40)}: verifiers takes the taskset's own or bash, which "
        "may start conversations anew, and nothing limits its turns",
        Fix(
            f'Set env.{agent.name}.harness.id = "null" of the source, where the model answers directly, or {turns}, '
            "e.g. to 20",
            checked,
            ".",
        ),
    )


def _agents(source: ConfigSource, context: ConfigContext) -> list[_Agent]:
    """The agents of an episode, with the settings that the config writes over the defaults."""
    env = as_mapping(source.table.get("env"))
    named, episode = _named_class(source), _episode(source, context)
    if named is not None:
        defaults = _SHIPPED.get(named, {"agent": {}})
    elif episode is not None:
        defaults = as_mapping(episode.get("agents"))
    else:
        # The default of a taskset is one agent. What else plays is known only by what the config says of it.
        defaults = dict.fromkeys(_written_agents(env), as_mapping(None)) or {"agent": {}}
    for name in {**defaults, **dict.fromkeys(_written_agents(env))}:
        if _sandbox_pace(as_mapping(defaults.get(name)), as_mapping(env.get(name))) not in (None, "None"):
            raise _paced_sandboxes(source, name)
    return [_merged(name, as_mapping(known), as_mapping(env.get(name))) for name, known in defaults.items()]


def _sandbox_pace(known: Mapping[str, Any], written: Mapping[str, Any]) -> Any:
    """The pace of new sandboxes that the config states for an agent, or else the default that a check recorded.

    Another runtime than the recorded one has a default of its own, which is no pace.
    """
    runtime = as_mapping(written.get("runtime"))
    if _SANDBOX_PACE in runtime:
        return runtime[_SANDBOX_PACE]
    same = runtime.get("type") in (None, known.get("runtime"))
    return known.get(_SANDBOX_PACE) if same else None


def _paced_sandboxes(source: ConfigSource, agent: str) -> UnboundedError:
    key = f"orchestrator.{source.kind}.source.env.{agent}.runtime.{_SANDBOX_PACE}"
    return UnboundedError(
        key,
        f"{_SANDBOX_PACE} of the agent {quote(agent, 40)} lets only so many sandboxes start in a minute, and how many "
        "an episode starts is not counted",
        f'Remove it, in the config or in the class of the environment, or set {key} = "None"; '
        "orchestrator.tasks_per_minute is in the bound.",
    )


def _written_agents(env: Mapping[str, Any]) -> list[str]:
    return [
        key
        for key, table in env.items()
        if key not in _ENV_KEYS and isinstance(table, Mapping) and (key == "agent" or _AGENT_KEYS & table.keys())
    ]


def _merged(name: str, known: Mapping[str, Any], written: Mapping[str, Any]) -> _Agent:
    harness = known.get("harness")
    if "harness" in written:
        # A table without an id changes the default harness; null, which is the text "None", removes it.
        table = written["harness"]
        harness = table.get("id", harness) if isinstance(table, Mapping) else None
    turns = written["max_turns"] if "max_turns" in written else known.get("max_turns")
    removed = "sampling" in written and not isinstance(written["sampling"], Mapping)  # null, as the text "None"
    tables = () if removed else (known.get("sampling"), written.get("sampling"))
    sampling = tuple(table for table in tables if isinstance(table, Mapping))
    retries = {**as_mapping(known.get("retries")), **as_mapping(written.get("retries"))}
    id = str(harness) if harness is not None else None
    runtime = value_at(written.get("runtime"), "type") or known.get("runtime")
    return _Agent(
        name,
        id,
        whole(turns),
        sampling,
        _retry_budget({"retries": retries}),
        runtime if isinstance(runtime, str) else None,
    )


def _named_class(source: ConfigSource) -> str | None:
    """The environment class that a config pairs with the taskset; None for the taskset's own."""
    id = value_at(source.table.get("env"), "id")
    return plugin_module(id) if isinstance(id, str) and id and id != source.id else None


def _rollouts_of_episode(source: ConfigSource, context: ConfigContext, agents: Sequence[_Agent]) -> int:
    """The number of agents' rollouts of which one episode of a source consists.

    Raises UnboundedError for an environment class of which nothing tells how often its agents play.
    """
    env = as_mapping(source.table.get("env"))
    named, episode = _named_class(source), _episode(source, context)
    where = f"orchestrator.{source.kind}.source.env"
    if named == _BEST_OF_N:
        return whole(env["n"]) or _DEFAULT_N if "n" in env else _DEFAULT_N
    if named is not None:
        if named not in _SHIPPED:
            raise UnboundedError(
                f"{where}.id",
                f"how many rollouts the environment class {quote(str(env.get('id')), 60)} plays for one of the batch "
                "is not known",
                "Remove env.id: the class that belongs to the taskset is then used.",
            )
        return len(agents)
    measured = context.each.get(source.id, SourceMeasurement())
    own = episode is not None and episode.get("own") is not False
    known = {*_ENV_KEYS, *(agent.name for agent in agents)}
    unknown = next((key for key, value in env.items() if key not in known and value != {}), None)
    if unknown is not None and (own or episode is None):
        raise UnboundedError(
            f"{where}.{unknown}",
            f"how often the agents of {quote(source.id, 60)} play with env.{quote(unknown, 60)} is not known",
            f"Remove env.{quote(unknown, 60)}: evaluations play without it.",
        )
    if not own:
        return max(len(agents), 1, *(traces for _, traces in measured.plays))
    played = [traces for args, traces in measured.plays if _as_evaluated(source, measured, args)]
    if not played:
        raise UnboundedError(
            where,
            f"the class of {quote(source.id, 60)} decides itself how often its agents play in an episode, and no "
            f"evaluation of this model with {arguments_summary(source.args)} counted that",
            Fix("Run ", NamedCall("run_eval"), " with this model and these arguments on the environment."),
        )
    return max(len(agents), *played)


def _as_evaluated(source: ConfigSource, measured: SourceMeasurement, args: Mapping[str, Any]) -> bool:
    """Whether a source plays with the arguments of an evaluation, apart from those that select held-out tasks."""
    selecting = {*(measured.held_out or {})}
    given = without_null_text(source.args)
    one, other = ({k: v for k, v in part.items() if k not in selecting} for part in (given, args))
    return same_arguments(one, other, measured.stated)


def _exact_shape(source: ConfigSource, context: ConfigContext) -> EnvironmentSchemas | None:
    """The recorded schemas of the very files that a source names; None where nobody checked these files."""
    shape = context.shapes.get(source.id) if context.shapes is not None else None
    return shape if shape is not None and shape.exact and shape.loaded else None


def _episode(source: ConfigSource, context: ConfigContext) -> Mapping[str, Any] | None:
    """What the check of the very files recorded of an episode; None where no check did."""
    shape = _exact_shape(source, context)
    episode = shape.episode if shape is not None else None
    return episode if episode is not None and as_mapping(episode.get("agents")) else None


def _sampling_tables(config: TrainingConfig, source: ConfigSource | None) -> list[Any]:
    kind = source.kind if source is not None else "train"
    own = source.table.get("sampling") if source is not None else None
    return [own, config.at(f"orchestrator.{kind}.sampling")]


def _completion_limit(tables: Sequence[Any], agent: Sequence[Mapping[str, Any]]) -> int | None:
    """The token limit of one completion; None without one. What an agent's own tables state replaces the run's limit.

    verifiers takes each spelling, also below `extra_body`. Where several are stated the largest counts, and a null
    (which is the text "None") removes the limit.
    """
    for stated in (list(_stated(agent, _COMPLETION_LIMITS)), list(_stated(tables, _COMPLETION_LIMITS))):
        limits = [n for value in stated if (n := whole(value)) is not None]
        if stated:
            return max(limits) if len(limits) == len(stated) else None
    return None


def _replies(tables: Sequence[Any]) -> int:
    """The replies that the server generates for each request: vLLM's `n`, also below `extra_body`."""
    return max([1, *(n for value in _stated(tables, _MORE_REPLIES) if (n := whole(value)) is not None)])


def _stated(tables: Sequence[Any], keys: Sequence[str]) -> Iterator[Any]:
    for table in tables:
        for part in (table, value_at(table, "extra_body")):
            if isinstance(part, Mapping):
                yield from (part[key] for key in keys if key in part)


def _retry_budget(table: Any) -> int:
    """The retries of a table: its own budget, and that of each rule (verifiers 0.4, v1/configs/retries.py).

    A rollout can fail in another way each time, so that the budgets add up.
    """
    retries = as_mapping(value_at(table, "retries") if "retries" in as_mapping(table) else table)
    rules = retries.get("rules")
    budgets = [value_at(rule, "max_retries") for rule in rules] if isinstance(rules, list) else []
    return sum(whole(budget) or 0 for budget in (retries.get("max_retries"), *budgets))
