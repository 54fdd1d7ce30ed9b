"""Names settings that make a run longer by an amount that no number here bounds, and counts frequent checkpoints.

Each named setting is outside of prime-rl's defaults. The bound leaves its time out, so that a person is asked about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from prime_lab_mcp.lab.base.text import key_path
from prime_lab_mcp.lab.configs.config import TrainingConfig

_MODEL = "trainer.model"
_FEWEST_CHUNK_TOKENS = 1024
"""Tokens of a chunk of the language-model head below which the number of kernel starts decides the time (our judgement;
prime-rl's default is 8192)."""
_ACTIVATIONS, _COLLECTION = 5, 50
"""Defaults of prime-rl for the offloaded activations that move at once, and for the steps between two collections of
garbage."""
_READY = "wait_for_ready_timeout"
_READY_SECONDS = 1800
"""Default of prime-rl for the seconds that a run waits for a server at its start: the half hour of the bound."""
_WRITTEN_PER_SECOND = 0.5e9
"""Bytes of a checkpoint that are written in a second (our judgement, at the slow end)."""
_WEIGHTS, _MOMENTS = 4.0, 8.0
"""Bytes of a checkpoint for each parameter: the weights, and for full fine-tuning the two moments of the optimizer."""
_FREE_INTERVAL = 5
"""Steps between two checkpoints that the least minutes of a step hold (our judgement)."""


def unpriced_keys(config: TrainingConfig) -> tuple[str, ...]:
    """Return the keys of the settings whose time the bound leaves out."""
    return tuple(dict.fromkeys((*_learning(config), *_serving(config), *_waits(config.table, ()))))


def unpriced_caution(config: TrainingConfig) -> tuple[str, ...]:
    """Return the caution about these settings, which `yes` does not pass. Empty without such settings."""
    keys = unpriced_keys(config)
    return (
        (f"how much longer {', '.join(keys)} makes the run is not known, and the bound leaves it out",) if keys else ()
    )


def checkpoint_minutes(config: TrainingConfig, billions: float, steps: int) -> float:
    """Return the minutes of the checkpoints beyond one in five steps."""
    intervals = [config.number(f"{table}.interval") for table in ("ckpt", "trainer.ckpt", "orchestrator.ckpt")]
    interval = min((max(1, n) for n in intervals if n is not None), default=0)
    if not 0 < interval < _FREE_INTERVAL:
        return 0.0
    each = billions * 1e9 * (_WEIGHTS + (0.0 if config.lora else _MOMENTS)) / _WRITTEN_PER_SECOND
    return max(0, ceil(steps / interval) - steps // _FREE_INTERVAL) * each / 60


def _learning(config: TrainingConfig) -> Iterator[str]:
    chunk = config.number(f"{_MODEL}.fused_lm_head_token_chunk_size")
    moving = config.number(f"{_MODEL}.ac_offloading.max_inflight_activations")
    collected = config.number("trainer.gc.interval")
    slower = {
        f"{_MODEL}.fsdp_cpu_offload": config.at(f"{_MODEL}.fsdp_cpu_offload") is True,
        f"{_MODEL}.full_offload": config.at(f"{_MODEL}.full_offload") not in (None, False),
        f"{_MODEL}.ac_offloading.max_inflight_activations": moving is not None and moving < _ACTIVATIONS,
        f"{_MODEL}.ac_offloading.pin_memory": config.at(f"{_MODEL}.ac_offloading.pin_memory") is False,
        f"{_MODEL}.fused_lm_head_token_chunk_size": chunk is not None and chunk < _FEWEST_CHUNK_TOKENS,
        f"{_MODEL}.deepep_token_chunk_size": config.at(f"{_MODEL}.deepep_token_chunk_size") is not None,
        f"{_MODEL}.moe_use_grouped_mm": config.at(f"{_MODEL}.moe_use_grouped_mm") is False,
        "trainer.matmul_precision": config.at("trainer.matmul_precision") == "highest",
        "trainer.memory_profiler_path": config.at("trainer.memory_profiler_path") is not None,
        "trainer.gc.interval": collected is not None and collected < _COLLECTION,
    }
    yield from (key for key, is_slower in slower.items() if is_slower)


def _serving(config: TrainingConfig) -> Iterator[str]:
    if config.at("inference.kv_cache_offload") is not None:
        yield "inference.kv_cache_offload"


def _waits(node: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys of servers for which the run waits longer than by default."""
    for value in node if isinstance(node, list) else ():
        yield from _waits(value, path)
    for key, value in node.items() if isinstance(node, Mapping) else ():
        if key == _READY and isinstance(value, int | float) and value > _READY_SECONDS:
            yield key_path((*path, key))
        else:
            yield from _waits(value, (*path, str(key)))
