"""Estimates the GPU memory of a run by a formula that is calibrated on prime-rl's own benchmark.

GiB per training GPU = bytes * P / gpus + 0.95 * P^0.6 + k * sqrt(A) * tokens / 1000. P and A are total and active
parameters in billions. `bytes` is the state of one parameter: 16 for full fine-tuning (32-bit weights, gradients and
two moments of Adam, sharded over the GPUs), 8 with the moments in CPU memory (prime-rl's default), 4 for LoRA. The
second term is what is gathered whole (the weights of one layer). The third term is the activations of one packed
sequence under recomputation, with k 0.18 for a dense model and 0.36 for a mixture of experts. The constants are a fit
to BENCHMARKS.md of PrimeIntellect-ai/prime-rl@559b4477 (2026-02-01, Recompute, Qwen3 0.6B to 235B), which the estimate
meets within 12%. Newer versions also offload activations and need less at long sequences, so the estimate errs upwards.

GiB per inference GPU = 2 * P / gpus + 8 * tokens * 0.3 MB / gpus + 3: bf16 weights split over the GPUs, a key-value
cache of 8 full sequences at 0.3 MB a token (of a dense 70B model; smaller models need less), and buffers. vLLM takes
90% of a GPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

GIB = 1.073741824
"""Billions of bytes in a GiB."""
STATE_BYTES: Mapping[str, float] = {"full": 16.0, "offloaded": 8.0, "lora": 4.0}
_GATHERED, _GATHERED_POWER = 0.95, 0.6
_ACTIVATIONS = {"dense": 0.18, "experts": 0.36}
_CACHE_SEQUENCES = 8
_CACHE_GB_PER_TOKEN = 0.3e-3
_BUFFERS = 3.0
TRAIN_SHARE = 0.95
"""Share of a GPU's memory that training may use. The driver, NCCL and fragmentation take the rest."""
INFER_SHARE = 0.9
"""vLLM's gpu_memory_utilization, as prime-rl sets it."""
TIGHT_SHARE = 0.88
"""Share of the usable memory above which the estimate's error (12%) leaves open whether a model fits."""

_GIGABYTES = re.compile(r"_(\d+)GB\b", re.I)
_BY_NAME: Mapping[str, float] = {
    "B300": 288,
    "GB300": 288,
    "B200": 180,
    "GB200": 186,
    "H200": 141,
    "GH200": 96,
    "H100": 80,
    "A100": 80,
    "L40S": 48,
    "L40": 48,
    "A6000": 48,
    "A40": 48,
    "RTX6000ADA": 48,
    "RTX5090": 32,
    "RTX4090": 24,
    "RTX3090": 24,
    "A10": 24,
    "L4": 24,
    "V100": 32,
    "T4": 16,
}
"""GiB that the vendor states, for GPU types whose name contains no size."""
_HOPPER = ("H100", "H200", "GH200")


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Needed and available memory in GiB per GPU."""

    verdict: Literal["fits", "tight", "no"]
    need: float
    have: float


def gpu_memory(gpu_type: str) -> float | None:
    """GiB of one GPU of a type, from the name (`H100_80GB`) or a table. None for an unknown type."""
    match = _GIGABYTES.search(gpu_type)
    if match:
        return float(match[1])
    return _BY_NAME.get(_chip(gpu_type))


def is_hopper(gpu_type: str) -> bool:
    """Whether a GPU type is of the Hopper generation."""
    return _chip(gpu_type) in _HOPPER


def _chip(gpu_type: str) -> str:
    return re.sub(r"[\s-]+", "", gpu_type).upper().split("_")[0]


def training_memory(parameters: float, active: float | None, gpus: int, *, seq_len: int, state: str) -> float:
    """Estimated GiB per training GPU. `state` is a key of STATE_BYTES."""
    experts = active is None or active < parameters
    activations = _ACTIVATIONS["experts" if experts else "dense"] * math.sqrt(active or parameters) * seq_len / 1000
    gathered = _GATHERED * parameters**_GATHERED_POWER
    return float(STATE_BYTES[state] * parameters / GIB / gpus + gathered + activations)


def inference_memory(parameters: float, gpus: int, *, seq_len: int) -> float:
    """Estimated GiB per inference GPU, with the weights split over all inference GPUs."""
    cache = _CACHE_SEQUENCES * seq_len * _CACHE_GB_PER_TOKEN
    return (2 * parameters + cache) / GIB / gpus + _BUFFERS


def memory_fit(need: float, memory: float, share: float) -> MemoryFit:
    """Compare the memory that is needed with the usable share of a GPU's memory."""
    have = memory * share
    verdict: Literal["fits", "tight", "no"] = "no" if need > have else "tight" if need > TIGHT_SHARE * have else "fits"
    return MemoryFit(verdict, round(need, 1), round(have, 1))


def fewest_gpus(parameters: float, active: float | None, memory: float, *, seq_len: int, state: str) -> int | None:
    """The fewest training GPUs of one node (1, 2, 4 or 8) that hold the model; None if 8 are not enough."""
    for gpus in (1, 2, 4, 8):
        need = training_memory(parameters, active, gpus, seq_len=seq_len, state=state)
        if memory_fit(need, memory, TRAIN_SHARE).verdict != "no":
            return gpus
    return None
