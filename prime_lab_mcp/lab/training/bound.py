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
from math import ceil, log
from typing import Any

from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, value_at
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.configs.evidence import arguments_by_id, gather_context, known_schemas
from prime_lab_mcp.lab.configs.schema import vllm_options
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.memory import gpu_memory
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.state.arguments import same_arguments, without_null_text
from prime_lab_mcp.lab.training.episode_bound import (
    EpisodeTokens,
    UnboundedError,
    episode_tokens,
    retries_of,
    was_checked,
    whole,
)
from prime_lab_mcp.lab.training.resampling import draws_of
from prime_lab_mcp.lab.training.unpriced_time import checkpoint_minutes, unpriced_caution

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
_FAILING = 2.0
"""Factor on the share of rollouts that end in an error, as the evaluation measured it. Such rollouts fill no batch
(prime-rl, `train_sink.py`), so that others are played in their place."""
_MOST_FAILING = 0.9
_INITIAL_KEY = "orchestrator.concurrency.initial_inflight"
_GROWTH = 1.25
"""Factor by which prime-rl raises the rollouts that run at once, each time that as many have ended
(`TURNOVER_GROWTH` in concurrency.py)."""
_SELF_TEACHING = "opsd"
"""The algorithm with which the trained model itself reads each sample once more, below a demonstration."""
_LARGEST_GPU_GB = 288.0
_BYTES_PER_PARAMETER = 2.0
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
EVALS_KEY = "orchestrator.eval.num_examples"
PACE_KEY = "orchestrator.tasks_per_minute"
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
    left_out: tuple[str, ...] = ()
    """What the bound does not count in time. Each is a caution, which `yes` does not pass."""


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
        hours, why, left_out = _most_hours(config, context or ConfigContext())
    except UnboundedError as missing:
        return CostBound(price, None, None, missing.why, missing.key, missing.fix)
    most, rounded = round(price * hours, 2), round(hours, 2)
    return CostBound(price, most, rounded, f"at most {hours:,.1f} h: {why}", left_out=left_out)


def _require_priced(config: TrainingConfig) -> None:
    for key, wrong, fix in config.too_few_gpus:
        raise UnboundedError(key, f"{wrong}: with that number it would cost less than nothing", fix)
    if config.at(VOLUME_KEY) is not None:
        raise UnboundedError(
            VOLUME_KEY,
            f"a new volume of {quote(str(config.at(VOLUME_KEY)), 40)} is billed besides, and no price of it is known",
            f"Remove {VOLUME_KEY}; `volume` names one that exists.",
        )


def rollouts_of_evaluations(config: TrainingConfig, context: ConfigContext) -> int:
    """Number of rollouts of all evaluations during training; 0 if a key that limits them is missing."""
    try:
        return sum(times * rollouts for _, times, rollouts in _planned_evaluations(config, context, _steps(config)))
    except UnboundedError:
        return 0


def _most_hours(config: TrainingConfig, context: ConfigContext) -> tuple[float, str, tuple[str, ...]]:
    """The hours of a run, the reasons in words, and what they leave out."""
    steps = _steps(config)
    draws = draws_of(config, context)
    step = _step_minutes(config, context, draws.factor)
    why = f"{count(steps, 'step')} of up to {_minutes(step)} minutes"
    growing = _growing_minutes(config, context)
    minutes = steps * step + growing
    if growing:
        why += f", {_minutes(growing)} minutes until as many rollouts run at once as fit"
    slowest = max(_longest_alone(config, context, config.train_sources or (None,)) - step, 0.0)
    for times, each in _evaluations(config, context, steps):
        why += f", {count(times, 'evaluation')} of up to {_minutes(each)} minutes"
        minutes += times * each
        slowest = max(slowest, _longest_alone(config, context, config.eval_sources) - each)
    if slowest:
        why += f", {_minutes(slowest)} minutes more for the longest rollout, which runs alone at the end"
    saving = checkpoint_minutes(config, _billions(config), steps)
    if saving:
        why += f", {_minutes(saving)} minutes for checkpoints"
    minutes += slowest + saving
    why += f", half an hour to start{draws.why}{_assumed_agents(config, context)}"
    left_out = (*unpriced_caution(config), *((draws.left_out,) if draws.left_out else ()))
    return START_HOURS + minutes / 60, why, left_out


def _longest_alone(config: TrainingConfig, context: ConfigContext, sources: Iterable[ConfigSource | None]) -> float:
    """Minutes of the longest episode of some sources, whose agents play one after the other."""
    size = _billions(config)
    return max(
        (
            _generating_seconds(config, size, 0.0, episode_tokens(config, context, source).decoded, 1)
            * (1 + retries_of(source, context))
            / 60
            for source in sources
        ),
        default=0.0,
    )


def _minutes(number: float) -> str:
    """Minutes with one decimal, so that the sum of a bound can be checked by a reader."""
    return f"{number:,.1f}".removesuffix(".0")


def _assumed_agents(config: TrainingConfig, context: ConfigContext) -> str:
    """What the bound assumes of environments whose files nobody has checked; empty if there are none."""
    sources = (*config.train_sources, *config.eval_sources)
    unseen = next((s.id for s in sources if s.id and not was_checked(s, context)), None)
    if unseen is None:
        return ""
    return f"; one agent is counted for each rollout of {quote(unseen, 60)}, whose files no check here has seen"


def _steps(config: TrainingConfig) -> int:
    # prime-rl copies the shared value. Without the shared value, each component has its own.
    settings = [config.number(path) for path in (STEPS_KEY, f"orchestrator.{STEPS_KEY}", f"trainer.{STEPS_KEY}")]
    steps = max((n for n in settings if n is not None), default=0)
    if steps < 1:
        raise UnboundedError(
            STEPS_KEY, "the config sets no max_steps, so the run never ends by itself", "Set max_steps, e.g. to 200."
        )
    return steps


def _step_minutes(config: TrainingConfig, context: ConfigContext, draws: float) -> float:
    size = _billions(config)
    anew = draws / (1 - _failing(config, context))
    inflight = _inflight(config, config.train_sources)
    cancelled = _cancelled(config, inflight)
    prefilled = decoded = learned = started = 0.0
    for source in config.train_sources or (None,):
        rollout = episode_tokens(config, context, source)
        rollouts = _rollouts(config, rollout) * anew
        generated = (rollouts + cancelled) * (1 + retries_of(source, context))
        # Sources share a batch; the longest rollouts could fill all of it.
        prefilled = max(prefilled, generated * rollout.prefilled * _readings(config, source))
        decoded = max(decoded, generated * rollout.decoded)
        learned = max(learned, rollouts * _padded(config, rollout.prefilled))
        started = max(started, generated)
    generating = _generating_seconds(config, size, prefilled, decoded, inflight) + _starting_seconds(config, started)
    learning = 8e9 * size * learned / (_PEAK_FLOPS * _UTILISATION * max(1, config.train_gpus))
    # A rollout is at most this many steps old when a batch takes it, so that one rollout's time holds so many batches.
    staleness = config.number(_STALENESS_KEY)
    batches = 1 + (_STALENESS if staleness is None else max(0, staleness))
    least = MINUTES_PER_STEP * max(1.0, size / _STEP_SIZE)
    alone = _longest_alone(config, context, config.train_sources or (None,))
    return max(least, (generating + learning) / 60, alone / batches)


def _failing(config: TrainingConfig, context: ConfigContext) -> float:
    """The share of rollouts that may end in an error and fill no batch, by the evaluations of the sources."""
    measured = (context.each.get(source.id, SourceMeasurement()).failed for source in config.train_sources)
    return min(_MOST_FAILING, _FAILING * max((share for share in measured if share is not None), default=0.0))


def _readings(config: TrainingConfig, source: ConfigSource | None) -> int:
    """How often the inference server reads a sample."""
    own = source.table.get("algo") if source is not None else None
    kinds = {value_at(own, "type"), config.at("orchestrator.algo.type")}
    return 2 if _SELF_TEACHING in kinds else 1


def _growing_minutes(config: TrainingConfig, context: ConfigContext) -> float:
    """Minutes until as many rollouts run at once as the GPUs serve, where the config begins with few."""
    first = whole(config.at(_INITIAL_KEY))
    if first is None:
        return 0.0
    wanted = DECODED_PER_GPU_SECOND * _serving_gpus(config) / _DECODED_PER_ROLLOUT_SECOND
    wanted = min(wanted, _inflight(config, config.train_sources))
    if first >= wanted:
        return 0.0
    longest = max(episode_tokens(config, context, source).longest for source in config.train_sources or (None,))
    alone = _generating_seconds(config, _billions(config), 0.0, longest, 1)
    return ceil(log(wanted / first) / log(_GROWTH)) * alone / 60


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


def _inflight(config: TrainingConfig, sources: Iterable[ConfigSource]) -> int:
    """The least number of rollouts that a config lets run at once."""
    limits = [whole(config.at("orchestrator.concurrency.max_inflight")) or _INFLIGHT]
    limits += [n for s in sources if (n := whole(value_at(s.table.get("serve"), "max_concurrent"))) is not None]
    limits += _served_at_once(config)
    return max(1, min(limits))


def _served_at_once(config: TrainingConfig) -> Iterator[int]:
    """Yield the limits that options of vLLM set to the rollouts that are served at once.

    Raises UnboundedError for an option of which it is not known how much longer it makes a run.
    """
    options = config.at(_VLLM)
    for name, value in options.items() if isinstance(options, Mapping) else ():
        option, number = name.replace("-", "_"), whole(value)
        if option == "max_num_seqs" and number is not None:
            yield number
        elif option == "max_num_batched_tokens" and number is not None:
            # A pass of the model decodes a token of each rollout, or reads this many tokens of prompts.
            yield int(number / _PREFILLED_PER_DECODED)
        elif option not in _FASTER_OR_EQUAL and (name not in vllm_options() or _starves(option, value)):
            raise UnboundedError(
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


def _rollouts(config: TrainingConfig, rollout: EpisodeTokens) -> float:
    """The number of rollouts of a step. Groups are complete, so the largest group may exceed the batch."""
    group = max([config.group_of(s) for s in config.train_sources] or [1])
    tokens = config.number("orchestrator.token_batch_size")
    in_rollouts = config.number("orchestrator.batch_size") or (0 if tokens else config.batch_size or 0)
    groups = ceil(max(in_rollouts, 1) / max(1, group)) * group
    if not tokens:
        return groups
    if config.number(PACE_KEY) is not None:
        raise UnboundedError(
            PACE_KEY,
            "a batch in tokens takes any number of short rollouts, and only so many tasks start in a minute",
            f"Remove {PACE_KEY}, or set orchestrator.batch_size in place of token_batch_size.",
        )
    # A batch in tokens counts only the first seq_len tokens of a rollout, because the trainer cuts off the rest.
    sample_tokens = min(float(config.seq_len), rollout.prefilled)
    return max(groups, tokens / sample_tokens + group)


def _evaluations(config: TrainingConfig, context: ConfigContext, steps: int) -> Iterator[tuple[int, float]]:
    """Yield for each eval source the number of evaluations and the maximum minutes of one evaluation."""
    size = _billions(config)
    for source, times, planned in _planned_evaluations(config, context, steps):
        rollout = episode_tokens(config, context, source)
        rollouts = planned * (1 + retries_of(source, context))
        # prime-rl shares its permits among training and evaluations (dispatcher.py).
        inflight = _inflight(config, [source])
        seconds = _generating_seconds(
            config, size, rollouts * rollout.prefilled, rollouts * rollout.decoded, inflight
        ) + _starting_seconds(config, rollouts)
        yield times, max(MINUTES_PER_EVAL, seconds / 60)


def _planned_evaluations(
    config: TrainingConfig, context: ConfigContext, steps: int
) -> Iterator[tuple[ConfigSource, int, int]]:
    """Yield each eval source with its number of evaluations and the rollouts of one evaluation."""
    for source in config.eval_sources:
        interval = whole(source.table.get("interval")) or config.number("orchestrator.eval.interval", 100) or 100
        group = whole(source.table.get("group_size")) or config.number("orchestrator.eval.group_size", 1) or 1
        first = 0 if config.at("orchestrator.eval.skip_first_step") is True else 1
        # Before the first step, at every interval, and after the last step.
        times = first + ceil(steps / max(1, interval))
        yield source, times, _examples(config, context, source) * group


def _examples(config: TrainingConfig, context: ConfigContext, source: ConfigSource) -> int:
    own = source.table.get("num_examples")
    requested = whole(own) if own is not None else whole(config.at(EVALS_KEY))
    tasks = evaluated_tasks(context, source, arguments_by_id(config.train_sources))
    if requested is None and tasks is None:
        raise UnboundedError(
            EVALS_KEY,
            f"the eval source {quote(source.name, 60)} plays all of its tasks, and nobody counted them",
            f"Set {EVALS_KEY}, e.g. to 128.",
        )
    return min(n for n in (requested, tasks) if n is not None)


def evaluated_tasks(
    context: ConfigContext, source: ConfigSource, trained: Mapping[str, Mapping[str, Any]]
) -> int | None:
    """The tasks that exist for an eval source; None where nobody counted them.

    `trained` are the arguments of training by the id of a source.
    """
    measurement = context.each.get(source.id, SourceMeasurement())
    # The tasks were counted with the arguments of training, or by the check with none; others may select more.
    counted = trained.get(source.id, {})
    same = same_arguments(without_null_text(source.args), counted)
    tasks = measurement.tasks if same and not measurement.infinite else None
    if source.args and source.args == measurement.held_out:
        tasks = measurement.held_out_tasks
    return tasks
