"""What a run needs of GPU memory: an estimate with stated terms, calibrated on prime-rl's own benchmark.

GiB per training GPU = bytes * P / gpus + 0.95 * P^0.6 + k * sqrt(A) * tokens / 1000, where P and A are total and active
billions of parameters, `bytes` the state of a parameter (16 for full fine-tuning: 32-bit weights, gradients and two
moments of Adam, sharded over the GPUs; 8 with the moments in CPU memory, prime-rl's default; 4 for LoRA), the second
term what is gathered whole (one layer's weights), the third activations under recomputation of one packed sequence
(k 0.18 for a dense model, 0.36 for a mixture of experts). The constants are a fit to BENCHMARKS.md of
PrimeIntellect-ai/prime-rl@559b4477 (2026-02-01, Recompute, Qwen3 0.6B to 235B), which it meets within 12%; newer
versions offload activations too and need less at long sequences, so it errs upwards.

GiB per inference GPU = 2 * P / gpus + 8 * tokens * 0.3 MB / gpus + 3: bf16 weights split over the GPUs, key-value cache
of 8 full sequences at 0.3 MB a token (of 70B dense; smaller models need less), buffers. vLLM takes 90% of a GPU.
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
"""Of a GPU's memory that training may plan with; the rest is the driver's, NCCL's and fragmentation."""
INFER_SHARE = 0.9
"""vLLM's gpu_memory_utilization, as prime-rl sets it."""
TIGHT = 0.88
"""Of what may be used: above it the estimate's error (12%) decides."""

_STATED = re.compile(r"_(\d+)GB\b", re.I)
_BY_NAME: Mapping[str, float] = {
    "B300": 288, "GB300": 288, "B200": 180, "GB200": 186, "H200": 141, "GH200": 96, "H100": 80, "A100": 80,
    "L40S": 48, "L40": 48, "A6000": 48, "A40": 48, "RTX6000ADA": 48, "RTX5090": 32, "RTX4090": 24, "RTX3090": 24,
    "A10": 24, "L4": 24, "V100": 32, "T4": 16,
}  # fmt: skip
"""GiB, as the vendor states them, for type names that carry no size."""
_HOPPER = ("H100", "H200", "GH200")


@dataclass(frozen=True, slots=True)
class Fit:
    """`need` and `have` in GiB per GPU."""

    verdict: Literal["fits", "tight", "no"]
    need: float
    have: float


def gpu_memory(gpu_type: str) -> float | None:
    """GiB of one GPU of a type: `H100_80GB` says it, others are looked up; None where neither helps."""
    stated = _STATED.search(gpu_type)
    if stated:
        return float(stated[1])
    return _BY_NAME.get(_chip(gpu_type))


def is_hopper(gpu_type: str) -> bool:
    return _chip(gpu_type) in _HOPPER


def _chip(gpu_type: str) -> str:
    return re.sub(r"[\s-]+", "", gpu_type).upper().split("_")[0]


def training(parameters: float, active: float | None, gpus: int, *, seq_len: int, state: str) -> float:
    """GiB per training GPU; `state` is a key of STATE_BYTES."""
    experts = active is None or active < parameters
    activations = _ACTIVATIONS["experts" if experts else "dense"] * math.sqrt(active or parameters) * seq_len / 1000
    gathered = _GATHERED * parameters**_GATHERED_POWER
    return float(STATE_BYTES[state] * parameters / GIB / gpus + gathered + activations)


def inference(parameters: float, gpus: int, *, seq_len: int) -> float:
    """GiB per inference GPU, the weights split over all of them."""
    cache = _CACHE_SEQUENCES * seq_len * _CACHE_GB_PER_TOKEN
    return (2 * parameters + cache) / GIB / gpus + _BUFFERS


def judge(need: float, memory: float, share: float) -> Fit:
    have = memory * share
    verdict: Literal["fits", "tight", "no"] = "no" if need > have else "tight" if need > TIGHT * have else "fits"
    return Fit(verdict, round(need, 1), round(have, 1))


def fewest(parameters: float, active: float | None, memory: float, *, seq_len: int, state: str) -> int | None:
    """Training GPUs of one node (1, 2, 4 or 8) into which the model fits; None: not into 8."""
    for gpus in (1, 2, 4, 8):
        need = training(parameters, active, gpus, seq_len=seq_len, state=state)
        if judge(need, memory, TRAIN_SHARE).verdict != "no":
            return gpus
    return None
