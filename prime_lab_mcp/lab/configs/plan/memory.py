"""What a model needs of GPU memory, by a stated formula, and how much each GPU type has.

Trainer (prime-rl 559b4477, 21 August 2026: optimization_dtype float32, FSDP over all training GPUs, optimizer states
on the CPU between steps, activations checkpointed and offloaded): 4 bytes a parameter for the weights, which LoRA
freezes; full fine-tuning adds 4 for gradients and 8 for AdamW's moments, which come back for the step. Beside that
0.15 MB x sqrt(billions of active parameters) a token of the sequence (layer inputs of checkpointing, from 4B to 235B
models within a factor of two) and 6 GB for CUDA, one gathered layer and the logits of a chunk. Inference: 2 bytes a
parameter over the tensor-parallel GPUs, at most 70 % of their memory, so that the cache has room.
All but the bytes are our judgement. To compare: `REFERENCE`.
"""

from __future__ import annotations

import math
import re

from prime_lab_mcp.lab.models import Model

TRAINABLE = 0.9
"""Of a GPU's memory, for the trainer."""
WEIGHTS, WEIGHTS_OF_NODE = 0.7, 0.8
"""Largest share of the inference GPUs' memory that weights may take; the second where a whole node serves them."""
RESERVE_GB = 6.0
ASSUMED_GB = 80.0
"""Of a GPU whose type is not known: A100 and H100 have it."""
PER_NODE = 8
_BYTES_LORA, _BYTES_FULL, _BYTES_SERVED = 4, 16, 2
_MB_PER_TOKEN = 0.15
_MEMORY = {"B300": 288, "B200": 180, "GH200": 96, "H200": 141, "H100": 80, "A100": 80, "A6000": 48, "L40S": 48,
           "L40": 48, "RTX6000": 48, "A40": 48, "RTX5090": 32, "V100": 32, "L4": 24, "RTX4090": 24,
           "RTX3090": 24}  # fmt: skip
"""Gigabytes, from the vendor's data sheets; a type that states its own wins (A100_40GB)."""
_STATED = re.compile(r"(\d+) ?GB", re.I)

REFERENCE = ((5.0, "2 A100 80GB"), (40.0, "4 to 8 H100"), (250.0, "16 H100"))
"""Up to that many billions of parameters, with LoRA: what the guide this project started from gave for Qwen3-4B,
30B-A3B and 235B-A22B (prime-lab-trainer skill, early 2026, of the platform's retired shared LoRA)."""


def memory_of(gpu_type: str | None) -> float | None:
    """Gigabytes of one GPU; None for a type that says nothing."""
    if not gpu_type:
        return None
    if stated := _STATED.search(gpu_type):
        return float(stated[1])
    folded = re.sub(r"[^A-Z0-9]", "", gpu_type.upper())
    return next((float(gb) for name, gb in _MEMORY.items() if name in folded), None)


def trainer_gb(model: Model, lora: bool, seq_len: int, gpus: int) -> float:
    """On each of `gpus`. The model's size must be known."""
    size = model.parameters or 0.0
    held = size * (_BYTES_LORA if lora else _BYTES_FULL) / gpus
    return held + _MB_PER_TOKEN * math.sqrt(model.active or size) * seq_len / 1000 + RESERVE_GB


def tensor_parallel(model: Model, gigabytes: float) -> int | None:
    """The smallest power of two of GPUs that holds the served weights; None where a node does not."""
    weights = (model.parameters or 0.0) * _BYTES_SERVED
    for gpus in (1, 2, 4):
        if weights <= WEIGHTS * gpus * gigabytes:
            return gpus
    return PER_NODE if weights <= WEIGHTS_OF_NODE * PER_NODE * gigabytes else None


def reference(model: Model) -> str:
    """What the dated reference says of a model this large, with LoRA."""
    size = model.parameters
    found = next((gpus for most, gpus in REFERENCE if size is not None and size <= most), None)
    return f"; an older guide: {found}" if found else ""
