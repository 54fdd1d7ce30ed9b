"""Computes the upper bound of a run's cost, which the question to the user states and the spending cap reserves.

The bound counts every key that decides how long a run takes: the batch (in rollouts or tokens) and its groups, the
longest rollout, evaluations during training, the size of the model, GPUs, steps, and limits of how many rollouts run
at once or start in a minute. The time that the environment's own code takes is not in the bound. If one of the keys
leaves the run without a limit, there is no bound, and `CostBound.key` names the key that would limit the run.

The speeds are our judgement of 2026-11-22, at the slow end. The platform bills GPUs by the hour and enforces no limit,
so `watch_run` reports a run that exceeds its bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import as_mapping, count, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, value_at
from prime_lab_mcp.lab.configs.context import (
    ConfigContext,
    EnvironmentSchemas,
    SourceMeasurement,
    gates_resample,
)
from prime_lab_mcp.lab.configs.evidence import gather_context, known_schemas
from prime_lab_mcp.lab.configs.schema import vllm_options
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.memory import gpu_memory
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.state.config_gate import plugin_module

MINUTES_PER_STEP = 6.0
"""Minimum minutes of a step, for a model of up to `_STEP_SIZE` billion parameters. A step includes the start of
rollouts, scoring, and the transfer of the weights."""
_STEP_SIZE = 32.0
MINUTES_PER_EVAL = 2.0
"""Minimum minutes of an evaluation during training."""
START_HOURS = 0.5
DECODED_PER_GPU_SECOND = 400.0
"""Tokens that one inference GPU decodes in a second, for a model of up to `_SPEED_SIZE` billion parameters: half of the
speed in the forecast's dearest case (`_SPEED` in cost.py)."""
_DECODED_PER_ROLLOUT_SECOND = 25.0
"""Tokens that one rollout alone decodes in a second, for a model of up to `_SPEED_SIZE` billion parameters. A GPU
reaches its speed with 16 rollouts at once; a config that allows fewer takes longer."""
_INFLIGHT = 1024
"""Default of prime-rl for the rollouts that run at once."""
_STALENESS_KEY = "orchestrator.max_off_policy_steps"
_STALENESS = 8
"""Default of prime-rl for the steps by which a rollout may be older than the policy. At an update prime-rl cancels the
older ones. With the default, few are so long that they are cancelled (our judgement)."""
_SPEED_SIZE = 8.0
_PREFILLED_PER_DECODED = 8.0
"""Ratio of the speed of reading a prompt to the speed of writing a reply."""
_PEAK_FLOPS = 989e12
_UTILISATION = 0.05
_RESAMPLED = 2.0
"""Factor on the number of groups that a gate draws for each usable group, as the evaluation measured it. The factor is
above 1 because the share of usable groups shrinks as the model learns."""
_LARGEST_GPU_GB = 288.0
_BYTES_PER_PARAMETER = 2.0
_LINEAR_HARNESSES = (None, "null")
"""Harnesses whose rollouts are one growing conversation, so that the context of the model limits them."""
_ENV_KEYS = frozenset({"id", "taskset", "retries", "timeout", "interception", "max_concurrent_agents"})
"""Keys of `EnvConfig` in verifiers 0.4 that are not agents."""
_TURNS = ("max_turns", "num_turns", "turns")
_BEST_OF_N = "best_of_n"
_DEFAULT_N = 4
_ROLES = {"single_agent": 1, "isolated_verifier": 1, "agentic_judge": 2, "shared_agentic_judge": 2, "user_sim": 2}
"""Agents' rollouts in one episode of the environment classes that verifiers 0.4 ships (v1/envs)."""
_VLLM = "inference.vllm"
_FASTER_OR_EQUAL = frozenset(
    {"enable_chunked_prefill", "swap_space", "disable_log_requests", "disable_log_stats", "limit_mm_per_prompt",
     "disable_custom_all_reduce", "async_scheduling", "kv_cache_dtype", "calculate_kv_scales", "uvicorn_log_level"}
)  # fmt: skip
"""Options of vLLM, besides those that prime-rl names, that cost little time in our judgement (vLLM 0.11, "Engine
Arguments")."""
_EAGER, _WIDE = 2.0, 4.0
"""How many times slower vLLM is without CUDA graphs, and with numbers of 32 bits (our judgement, at the slow end)."""
_LEAST_MEMORY = 0.3
"""Share of a GPU's memory below which the inference server may have no room for rollouts (our judgement; vLLM's default
is 0.9)."""
CONTEXT_KEY = "inference.vllm.max_model_len"
EVALS_KEY = "orchestrator.eval.num_examples"
TURNS_KEY = "env.agent.max_turns"
PACE_KEY = "orchestrator.tasks_per_minute"
GATES_KEY = "orchestrator.train.source.curriculum.gates"
STEPS_KEY = "max_steps"
VOLUME_KEY = "volume_size"


@dataclass(frozen=True, slots=True)
class CostBound:
    """The upper bound of a run's cost in US dollars. `max_cost` is None if the price or a limit is unknown.

    If a limit is missing, `key` is the config key that would set it, and `fix` says how.
    """

    price_per_hour: float | None
    max_cost: float | None
    hours: float | None
    why: str
    key: str | None = None
    fix: str = ""


class _UnboundedError(Exception):
    """The cost has no limit. `key` is the config key that would set one."""

    def __init__(self, key: str, why: str, fix: str) -> None:
        super().__init__(why)
        self.key, self.why, self.fix = key, why, fix


@dataclass(frozen=True, slots=True)
class _RolloutTokens:
    """The maximum tokens of one rollout: `prefilled` tokens are read, `decoded` tokens are generated."""

    prefilled: float
    decoded: float


async def cost_of(lab: Lab, config: TrainingConfig) -> CostBound:
    """Bound the cost of a run at the platform's present price. Raises PrimeError."""
    return bound_from_ledger(lab, config, (await lab.prime.models()).price(config.gpu_type))


def bound_from_ledger(lab: Lab, config: TrainingConfig, price_per_gpu_hour: float | None) -> CostBound:
    """Bound the cost with the ledger's evidence about the environments of a config."""
    context = gather_context(lab, config.sources, config.model, price_per_gpu_hour)
    return bound_cost(config, price_per_gpu_hour, replace(context, shapes=known_schemas(lab, config)))


def bound_cost(
    config: TrainingConfig, price_per_gpu_hour: float | None, context: ConfigContext | None = None
) -> CostBound:
    """Compute the upper bound of a run's cost from a config. `CostBound.why` states the assumptions."""
    price = None if price_per_gpu_hour is None else round(price_per_gpu_hour * config.gpus, 4)
    if price is None:
        gpu = f" for {quote(config.gpu_type, 60)}" if config.gpu_type else ""
        return CostBound(None, None, None, f"the platform names no hourly price{gpu}")
    try:
        _require_priced(config)
        hours, why = _most_hours(config, context or ConfigContext())
    except _UnboundedError as missing:
        return CostBound(price, None, None, missing.why, missing.key, missing.fix)
    return CostBound(price, round(price * hours, 2), round(hours, 2), f"at most {hours:,.1f} h: {why}")


def _require_priced(config: TrainingConfig) -> None:
    if config.at(VOLUME_KEY) is not None:
        raise _UnboundedError(
            VOLUME_KEY,
            f"a new volume of {quote(str(config.at(VOLUME_KEY)), 40)} is billed besides, and no price of it is known",
            f"Remove {VOLUME_KEY}; `volume` names one that exists.",
        )


def rollouts_of_evaluations(config: TrainingConfig, context: ConfigContext) -> int:
    """Number of rollouts of all evaluations during training; 0 if a key that limits them is missing."""
    try:
        return sum(times * rollouts for _, times, rollouts in _planned_evaluations(config, context, _steps(config)))
    except _UnboundedError:
        return 0


def _most_hours(config: TrainingConfig, context: ConfigContext) -> tuple[float, str]:
    steps = _steps(config)
    step = _step_minutes(config, context)
    why = f"{count(steps, 'step')} of up to {_minutes(step)} minutes"
    minutes = steps * step
    for times, each in _evaluations(config, context, steps):
        why += f", {count(times, 'evaluation')} of up to {_minutes(each)} minutes"
        minutes += times * each
    return START_HOURS + minutes / 60, f"{why}, half an hour to start{_assumed_agents(config, context)}"


def _minutes(number: float) -> str:
    """Minutes with one decimal, so that the sum of a bound can be checked by a reader."""
    return f"{number:,.1f}".removesuffix(".0")


def _assumed_agents(config: TrainingConfig, context: ConfigContext) -> str:
    """What the bound assumes of environments whose files nobody has checked; empty if there are none."""
    unseen = next((s.id for s in config.train_sources if s.id and _exact_shape(s, context) is None), None)
    if unseen is None:
        return ""
    return f"; one agent is counted for each rollout of {quote(unseen, 60)}, whose files no check here has seen"


def _steps(config: TrainingConfig) -> int:
    # prime-rl copies the shared value. Without the shared value, each component has its own.
    settings = [config.number(path) for path in (STEPS_KEY, f"orchestrator.{STEPS_KEY}", f"trainer.{STEPS_KEY}")]
    steps = max((n for n in settings if n is not None), default=0)
    if steps < 1:
        raise _UnboundedError(
            STEPS_KEY, "the config sets no max_steps, so the run never ends by itself", "Set max_steps, e.g. to 200."
        )
    return steps


def _step_minutes(config: TrainingConfig, context: ConfigContext) -> float:
    size = _billions(config)
    resampled = _resampled(config, context)
    inflight = _inflight(config, "orchestrator", config.train_sources)
    cancelled = _cancelled(config, inflight)
    prefilled = decoded = learned = started = 0.0
    for source in config.train_sources or (None,):
        rollout = _rollout(config, context, source, _train_limit(config, source))
        rollouts = _rollouts(config, rollout) * resampled
        generated = (rollouts + cancelled) * (1 + _retries(source))
        # Sources share a batch; the longest rollouts could fill all of it.
        prefilled = max(prefilled, generated * rollout.prefilled)
        decoded = max(decoded, generated * rollout.decoded)
        learned = max(learned, rollouts * _padded(config, rollout.prefilled))
        started = max(started, generated)
    generating = _generating_seconds(config, size, prefilled, decoded, inflight) + _starting_seconds(config, started)
    learning = 8e9 * size * learned / (_PEAK_FLOPS * _UTILISATION * max(1, config.train_gpus))
    return max(MINUTES_PER_STEP * max(1.0, size / _STEP_SIZE), (generating + learning) / 60)


def _cancelled(config: TrainingConfig, inflight: int) -> float:
    """The rollouts that prime-rl may cancel at each update because they are too old, if the limit is a small one."""
    steps = config.number(_STALENESS_KEY)
    return 0.0 if steps is None or steps >= _STALENESS else inflight / (max(0, steps) + 1)


def _padded(config: TrainingConfig, tokens: float) -> float:
    """The tokens that the trainer computes for a sample: at least one multiple to which prime-rl pads the samples."""
    multiple = config.number("orchestrator.pad_to_multiple_of") or 1
    return ceil(tokens / max(1, multiple)) * max(1, multiple)


def _generating_seconds(config: TrainingConfig, size: float, prefilled: float, decoded: float, inflight: int) -> float:
    """Seconds in which the inference GPUs read and decode the tokens of rollouts, `inflight` of them at once."""
    together = min(DECODED_PER_GPU_SECOND * _serving_gpus(config), _DECODED_PER_ROLLOUT_SECOND * inflight)
    speed = together / max(1.0, size / _SPEED_SIZE) / _slower_engine(config)
    return (decoded + prefilled / _PREFILLED_PER_DECODED) / speed


def _serving_gpus(config: TrainingConfig) -> int:
    """The GPUs that the engines of a config use, which may be fewer than those that are paid."""
    data, tensor = (config.number(f"{_VLLM}.{part}_parallel_size") for part in ("data", "tensor"))
    used = (data or 1) * (tensor or 1) if data is not None and config.at("deployment.type") != "multi_node" else None
    return max(1, min(n for n in (config.infer_gpus, used) if n is not None))


def _slower_engine(config: TrainingConfig) -> float:
    """How many times slower options of vLLM make the engine, in our judgement."""
    eager = config.at(f"{_VLLM}.enforce_eager") is True
    wide = config.at(f"{_VLLM}.dtype") in ("float32", "float")
    return (_EAGER if eager else 1.0) * (_WIDE if wide else 1.0)


def _inflight(config: TrainingConfig, part: str, sources: Iterable[ConfigSource]) -> int:
    """The least number of rollouts that a config lets run at once. `part` holds the table `concurrency`."""
    limits = [config.number(f"{part}.concurrency.max_inflight", _INFLIGHT) or _INFLIGHT]
    limits += [n for s in sources if (n := _whole(value_at(s.table.get("serve"), "max_concurrent"))) is not None]
    limits += _served_at_once(config)
    return max(1, min(limits))


def _served_at_once(config: TrainingConfig) -> Iterator[int]:
    """Yield the limits that options of vLLM set to the rollouts that are served at once.

    Raises _UnboundedError for an option of which it is not known how much longer it makes a run.
    """
    options = config.at(_VLLM)
    for name, value in options.items() if isinstance(options, Mapping) else ():
        option, number = name.replace("-", "_"), _whole(value)
        if option == "max_num_seqs" and number is not None:
            yield number
        elif option == "max_num_batched_tokens" and number is not None:
            # A pass of the model decodes a token of each rollout, or reads this many tokens of prompts.
            yield int(number / _PREFILLED_PER_DECODED)
        elif option not in _FASTER_OR_EQUAL and (name not in vllm_options() or _starves(option, value)):
            raise _UnboundedError(
                f"{_VLLM}.{name}",
                f"how much longer the option {quote(name, 60)} of vLLM makes a run is not known",
                f"Remove {_VLLM}.{quote(name, 60)}; max_num_seqs and max_num_batched_tokens are in the bound.",
            )


def _starves(option: str, value: Any) -> bool:
    """Whether an option leaves the inference server hardly any memory for rollouts."""
    small = isinstance(value, int | float) and not isinstance(value, bool) and value < _LEAST_MEMORY
    return option == "gpu_memory_utilization" and small


def _starting_seconds(config: TrainingConfig, rollouts: float) -> float:
    """Seconds in which this many rollouts may start."""
    pace = config.number(PACE_KEY)
    return 60 * rollouts / pace if pace is not None and pace > 0 else 0.0


def _billions(config: TrainingConfig) -> float:
    """Total parameters in billions. An unknown model counts as the largest that its inference GPUs can hold."""
    model = find_model(config.model)
    if model.parameters:
        return model.parameters
    memory = (gpu_memory(config.gpu_type) if config.gpu_type else None) or _LARGEST_GPU_GB
    return memory * max(1, config.infer_gpus) / _BYTES_PER_PARAMETER


def _rollouts(config: TrainingConfig, rollout: _RolloutTokens) -> float:
    """The number of rollouts of a step. Groups are complete, so the largest group may exceed the batch."""
    group = max([config.group_of(s) for s in config.train_sources] or [1])
    tokens = config.number("orchestrator.token_batch_size")
    in_rollouts = config.number("orchestrator.batch_size") or (0 if tokens else config.batch_size or 0)
    groups = ceil(max(in_rollouts, 1) / max(1, group)) * group
    if not tokens:
        return groups
    # A batch in tokens counts only the first seq_len tokens of a rollout, because the trainer cuts off the rest.
    sample_tokens = min(float(config.seq_len), rollout.prefilled)
    return max(groups, tokens / sample_tokens + group)


def _resampled(config: TrainingConfig, context: ConfigContext) -> float:
    if not _gated(config):
        return 1.0
    if context.usable is None:
        raise _UnboundedError(
            GATES_KEY,
            "a gate samples groups anew until they are usable, and no evaluation measured how often that happens",
            Fix("Run ", NamedCall("run_eval"), " with this model on the environment, or remove the gates."),
        )
    return _RESAMPLED / max(context.usable, 1e-3)


def _gated(config: TrainingConfig) -> bool:
    return gates_resample(config) or any(
        isinstance(curriculum := source.table.get("curriculum"), Mapping) and bool(curriculum.get("gates"))
        for source in config.train_sources
    )


def _rollout(
    config: TrainingConfig, context: ConfigContext, source: ConfigSource | None, limit: int | None
) -> _RolloutTokens:
    """Compute the maximum tokens of a rollout. `limit` is the token limit of one completion."""
    conversation = _context_tokens(config)
    agents = list(_agents(source))
    turns = _turns(source, context)
    limits = [n for agent in agents if (n := _whole(value_at(agent, "sampling", "max_tokens"))) is not None]
    each = min(conversation, max([*limits, limit] if limit is not None else [conversation]))
    harness = source.harness if source is not None else None
    if turns is None and harness not in _LINEAR_HARNESSES:
        raise _UnboundedError(
            f"orchestrator.{source.kind if source else 'train'}.source.{TURNS_KEY}",
            f"the harness {quote(str(harness), 60)} may start conversations anew, and nothing limits its turns",
            f"Set {TURNS_KEY} of the source, e.g. to 20.",
        )
    parallel = _rollouts_of_episode(source, context)
    cached = config.at("inference.vllm.enable_prefix_caching") is not False and harness in _LINEAR_HARNESSES
    if turns is None:
        if not cached:
            raise _UnboundedError(
                f"orchestrator.{source.kind if source else 'train'}.source.{TURNS_KEY}",
                "without prefix caching every turn reads the whole conversation, and nothing limits the turns",
                f"Set {TURNS_KEY} of the source, e.g. to 20.",
            )
        return _RolloutTokens(parallel * conversation, parallel * conversation)
    completion = turns * each if harness not in _LINEAR_HARNESSES else min(turns * each, conversation)
    return _RolloutTokens(parallel * conversation * (1 if cached else turns), parallel * completion)


def _context_tokens(config: TrainingConfig) -> int:
    served = config.number(CONTEXT_KEY)
    context_tokens = served if served is not None and served > 0 else find_model(config.model).context
    if context_tokens is None:
        raise _UnboundedError(
            CONTEXT_KEY,
            "nothing limits the tokens of a rollout: the inference server may serve all of the model's context",
            f"Set {CONTEXT_KEY}, e.g. to {config.seq_len + (config.max_completion_tokens or 0)} "
            "(seq_len and one completion).",
        )
    return max(context_tokens, config.seq_len)


def _train_limit(config: TrainingConfig, source: ConfigSource | None) -> int | None:
    tables = [source.table.get("sampling") if source is not None else None, config.at("orchestrator.train.sampling")]
    return _completion_limit(tables)


def _eval_limit(config: TrainingConfig, source: ConfigSource) -> int | None:
    return _completion_limit([source.table.get("sampling"), config.at("orchestrator.eval.sampling")])


def _completion_limit(tables: list[Any]) -> int | None:
    """The completion limit of the first table that states one. The server also receives the limits of `extra_body`."""
    for table in tables:
        limits = [
            n
            for key in ("max_completion_tokens", "max_tokens")
            for part in (table, value_at(table, "extra_body"))
            if (n := _whole(value_at(part, key))) is not None
        ]
        if limits:
            return max(limits)
    return None


def _agents(source: ConfigSource | None) -> Iterator[Mapping[str, Any]]:
    env = source.table.get("env") if source is not None else None
    for key, table in env.items() if isinstance(env, Mapping) else ():
        if key not in _ENV_KEYS and isinstance(table, Mapping):
            yield table


def _turns(source: ConfigSource | None, context: ConfigContext) -> int | None:
    """The maximum number of turns of an agent: from the config, else from the environment's last check; None if
    unknown."""
    if source is None:
        return None
    set_here = [n for agent in _agents(source) if (n := _whole(agent.get("max_turns"))) is not None]
    if set_here and len(set_here) == len(list(_agents(source))):
        return max(set_here)
    shape = _exact_shape(source, context)
    if shape is not None:
        # Only the code that was checked here is known to have such an argument of its taskset.
        known = as_mapping(shape.taskset.get("properties"))
        limits = [n for name in _TURNS if name in known and (n := _whole(source.args.get(name))) is not None]
        if limits:
            return max(limits)
        declared = [
            _whole(value_at(agent, "default", "max_turns")) for agent in _properties(shape.env) if "default" in agent
        ]
        if declared and all(n is not None for n in declared):
            return max(n for n in declared if n is not None)
    return None


def _exact_shape(source: ConfigSource, context: ConfigContext) -> EnvironmentSchemas | None:
    """The recorded schemas of the very files that a source names; None where nobody checked these files."""
    shape = context.shapes.get(source.id) if context.shapes is not None else None
    return shape if shape is not None and shape.exact and shape.loaded else None


def _rollouts_of_episode(source: ConfigSource | None, context: ConfigContext) -> int:
    """The number of agents' rollouts of which one rollout of a source consists.

    Raises _UnboundedError for an environment class that is not known.
    """
    if source is None:
        return 1
    written = len(list(_agents(source)))
    id = value_at(source.table.get("env"), "id")
    named = plugin_module(id) if isinstance(id, str) and id and id != source.id else None
    if named == _BEST_OF_N:
        return max(1, written) * (_whole(value_at(source.table.get("env"), "n")) or _DEFAULT_N)
    if named is not None:
        if named not in _ROLES:
            raise _UnboundedError(
                f"orchestrator.{source.kind}.source.env.id",
                f"how many rollouts the environment class {quote(str(id), 60)} plays for one of the batch is not known",
                "Remove env.id: the class that belongs to the taskset is then used.",
            )
        return max(written, _ROLES[named])
    shape = _exact_shape(source, context)
    return max(1, written, len(list(_properties(shape.env))) if shape is not None else 1)


def _properties(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    properties = schema.get("properties")
    for key, value in properties.items() if isinstance(properties, Mapping) else ():
        default = value.get("default") if isinstance(value, Mapping) else None
        if key not in _ENV_KEYS and isinstance(default, Mapping) and "max_turns" in default:
            yield value


def _retries(source: ConfigSource | None) -> int:
    """The most times that a rollout of a source is played again."""
    env = source.table.get("env") if source is not None else None
    agents = max((_retry_budget(agent) for agent in _agents(source)), default=0)
    return (1 + agents) * (1 + _retry_budget(env)) - 1


def _retry_budget(table: Any) -> int:
    """The retries of a table: its own budget, and that of each rule (verifiers 0.4, v1/configs/retries.py).

    A rollout can fail in another way each time, so that the budgets add up.
    """
    rules = value_at(table, "retries", "rules")
    budgets = [value_at(rule, "max_retries") for rule in rules] if isinstance(rules, list) else []
    return sum(_whole(budget) or 0 for budget in (value_at(table, "retries", "max_retries"), *budgets))


def _evaluations(config: TrainingConfig, context: ConfigContext, steps: int) -> Iterator[tuple[int, float]]:
    """Yield for each eval source the number of evaluations and the maximum minutes of one evaluation."""
    size = _billions(config)
    for source, times, planned in _planned_evaluations(config, context, steps):
        rollout = _rollout(config, context, source, _eval_limit(config, source))
        rollouts = planned * (1 + _retries(source))
        inflight = _inflight(config, "orchestrator.eval", [source])
        seconds = _generating_seconds(
            config, size, rollouts * rollout.prefilled, rollouts * rollout.decoded, inflight
        ) + _starting_seconds(config, rollouts)
        yield times, max(MINUTES_PER_EVAL, seconds / 60)


def _planned_evaluations(
    config: TrainingConfig, context: ConfigContext, steps: int
) -> Iterator[tuple[ConfigSource, int, int]]:
    """Yield each eval source with its number of evaluations and the rollouts of one evaluation."""
    for source in config.eval_sources:
        interval = _whole(source.table.get("interval")) or config.number("orchestrator.eval.interval", 100) or 100
        group = _whole(source.table.get("group_size")) or config.number("orchestrator.eval.group_size", 1) or 1
        first = 0 if config.at("orchestrator.eval.skip_first_step") is True else 1
        # Before the first step, at every interval, and after the last step.
        times = first + ceil(steps / max(1, interval))
        yield source, times, _examples(config, context, source) * group


def _examples(config: TrainingConfig, context: ConfigContext, source: ConfigSource) -> int:
    own = source.table.get("num_examples")
    requested = _whole(own) if own is not None else _whole(config.at(EVALS_KEY))
    measurement = context.each.get(source.id, SourceMeasurement())
    # The check counted the tasks of the default arguments; other arguments may select more.
    tasks = measurement.tasks if not source.args and not measurement.infinite else None
    if source.args and source.args == measurement.held_out:
        tasks = measurement.held_out_tasks
    if requested is None and tasks is None:
        raise _UnboundedError(
            EVALS_KEY,
            f"the eval source {quote(source.name, 60)} plays all of its tasks, and nobody counted them",
            f"Set {EVALS_KEY}, e.g. to 128.",
        )
    return min(n for n in (requested, tasks) if n is not None)


def _whole(value: Any) -> int | None:
    """Convert a positive whole number to int; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 1:
        return None
    return int(value)
